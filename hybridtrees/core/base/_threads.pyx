"""Threads: how many may start, teams on busy cores, and when work is to be given up."""

from hybridtrees.core.base._openmp cimport HT_HAS_OPENMP, omp_get_max_threads
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._types cimport float64_t


def has_openmp():
    """Whether the package was built with OpenMP."""
    return bool(HT_HAS_OPENMP)


def openmp_max_threads():
    """Threads that OpenMP would use for a parallel region now."""
    return omp_get_max_threads()


def vector_bits():
    """Width of the vectors that the kernels use on this machine."""
    return 8 * ht_vector_bytes()


# ---------------------------------------------------------------------------------------------
# Whether a long computation is to be given up.
#
# Python runs the handlers of signals, such as that of Ctrl-C, between its own instructions, and so
# not before a kernel returns. A kernel that may take long therefore asks every few milliseconds of
# work. The thread that called it asks, outside of parallel regions or as the first of their
# threads: handlers run in the main thread only.
#
# The main thread may have started others, as forests do, which would go on. They work within a
# `StopFlag`, which the main thread sets when it gives up.


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


# ---------------------------------------------------------------------------------------------
# Threads that go on alone while the cores are busy with other work.
#
# A region that threads share ends when the last of them ends. Where another process holds a core,
# that takes as long as a turn of the scheduler, which is many times what a small node takes alone.
# So the time of every node is held against what there was to do and how quickly that was done at
# best, which depends on the search. After a long wait, small nodes are left to one thread until
# they have taken several times as long as the wait: on a busy machine waiting is a small part of
# the time, and where it was an accident the threads soon meet again. Results do not depend on the
# number of threads.
#
# Nor does a team insist on its size: where the system does not let it start all its threads, those
# that it has do the work.


cdef extern from "start_threads.h" nogil:
    int ht_startable(int n, bint allocating)
    int ht_team_of(int n)


cdef int team_of(int n_threads) noexcept nogil:
    """Threads for a parallel region that wants so many: fewer where no more can be started.

    To be asked by the thread that opens the region, and for that region only. All regions of this
    thread must ask, so that it is known how many threads wait for the next one.
    """
    return ht_team_of(n_threads)


def startable_threads(int n_threads):
    """How many of so many threads can be started beside this one, which can do the work of one."""
    cdef int n
    if n_threads <= 1:
        return n_threads
    with nogil:
        n = ht_startable(n_threads, True)
    return n


def team_threads(int n_threads):
    """Threads that a parallel region of this thread would get; for tests."""
    return team_of(n_threads)


def team_sizes(int n_threads, const float64_t[::1] updates, const float64_t[:, ::1] seconds):
    """Threads that a team takes for nodes one after the other; for tests.

    Parameters
    ----------
    n_threads : int
    updates : float64 array
        What there is to do for each node.
    seconds : float64 array of shape (n_nodes, 2)
        How long it takes one thread, and all of them.
    """
    cdef Team team
    cdef Py_ssize_t k
    open_team(&team, n_threads)
    sizes = []
    for k in range(updates.shape[0]):
        sizes.append(team_size(&team, updates[k]))
        note_time(&team, sizes[k], updates[k], seconds[k, 0 if sizes[k] == 1 else 1])
    return sizes
