"""Threads, interrupts, sums in any order, and draws of rows: used everywhere."""

from libc.math cimport INFINITY

from hybridtrees.core.base._exact_sum cimport HtExactSum
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._types cimport float64_t, intp_t


cdef bint interrupted() noexcept nogil


cdef inline bint team_stops(int* stopped) noexcept nogil:
    """`interrupted` for all threads of a parallel region, which share `stopped`."""
    if not stopped[0] and omp_get_thread_num() == 0 and interrupted():
        stopped[0] = True
    return stopped[0]


cdef inline int raise_stop(bint stopped) except -1 nogil:
    """Raise the exception that `interrupted` has set, after the parallel region."""
    return -1 if stopped else 0


cdef int team_of(int n_threads) noexcept nogil


cdef inline int threads_for(int n_threads, intp_t n_rows, intp_t least) noexcept nogil:
    """Threads that share rows so that each gets at least `least` of them."""
    return <int>max(1, min(<intp_t>n_threads, n_rows // least))


cdef struct NodeThreads:
    # Threads for the nodes of a tree: see "busy cores" in _threads.pyx.
    int n_threads
    float64_t rate               # fewest seconds per update that a node has taken
    float64_t serial_seconds     # for which small nodes still run on one thread


cdef inline void open_node_threads(NodeThreads* threads, int n_threads) noexcept nogil:
    threads.n_threads = n_threads
    threads.rate = INFINITY
    threads.serial_seconds = 0


cdef inline int node_threads(const NodeThreads* threads, float64_t updates) noexcept nogil:
    """Threads for a node whose work is so many updates of histogram cells."""
    return 1 if threads.serial_seconds > 0 and updates < 4e6 else threads.n_threads


cdef inline void note_node_time(
    NodeThreads* threads, int n_threads, float64_t updates, float64_t seconds
) noexcept nogil:
    """Record the time that a node took with `n_threads`."""
    cdef float64_t usual = 1e-3 + 32 * threads.rate * updates
    if seconds <= 0:                        # the clock was set back
        return
    if n_threads == 1:
        threads.serial_seconds -= seconds
    elif seconds > usual:
        # Limited: a pause of the whole process says nothing about busy cores.
        threads.serial_seconds = min(8 * (seconds - usual), 0.25)
    threads.rate = min(threads.rate, seconds / updates)


cdef class ExactSum:
    cdef HtExactSum sum
