"""Whether a long computation is to be given up.

Python runs the handlers of signals, such as that of Ctrl-C, between its own instructions, and so
not before a kernel returns. A kernel that may take long therefore asks every few milliseconds of
work. The thread that called it asks, outside of parallel regions or as the first of their threads:
handlers run in the main thread only.

The main thread may have started others, as forests do, which would go on. They work within a
`StopFlag`, which the main thread sets when it gives up.
"""

cdef extern from "Python.h":
    int PyErr_CheckSignals()
    void PyErr_SetNone(object kind)

cdef extern from "interrupt.h" nogil:
    void ht_use_flag(const int* flag)
    int ht_flag()
    bint ht_time_to_look()


cdef bint interrupted() noexcept nogil:
    """Whether to give up. If so an exception is set, and the caller must return as if it raised."""
    cdef int flag = ht_flag()
    if flag > 0:
        with gil:
            PyErr_SetNone(KeyboardInterrupt)
        return True
    # The interpreter's lock may have to be waited for.
    if flag == 0 or not ht_time_to_look():
        return False
    with gil:
        return PyErr_CheckSignals() != 0


cdef class StopFlag:
    """Ends the computations of other threads, each of which works within this context."""

    cdef int is_set

    def __enter__(self):
        ht_use_flag(&self.is_set)
        return self

    def __exit__(self, *error):
        ht_use_flag(NULL)

    def set(self):
        """Let the kernels that run within the context raise KeyboardInterrupt."""
        self.is_set = 1
