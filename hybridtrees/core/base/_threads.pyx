"""Threads, interrupts, sums in any order and draws by row number, used everywhere."""

from hybridtrees.core.base._exact_sum cimport (
    HtExactSum, ht_add_term, ht_add_terms, ht_clear_sum, ht_merge_sum, ht_sum_value,
)
from hybridtrees.core.base._openmp cimport HT_HAS_OPENMP, omp_get_max_threads
from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._types cimport (
    STREAM_BOOTSTRAP, STREAM_ROWS, float64_t, int64_t, intp_t, uint32_t, uint64_t,
)

import numpy as np


def has_openmp():
    """Whether the package was built with OpenMP."""
    return bool(HT_HAS_OPENMP)


def openmp_max_threads():
    """Threads that OpenMP would use in a parallel region."""
    return omp_get_max_threads()


def vector_bits():
    """Width of the vector registers that the kernels use on this machine."""
    return 8 * ht_vector_bytes()


# ---- Interrupts of long computations ----------------------------------------------------------
#
# Python runs signal handlers, such as that of Ctrl-C, between its own instructions, so not before a
# kernel returns. A long kernel therefore checks for signals every few milliseconds. Handlers run
# in the main thread only, so the calling thread checks: outside of parallel regions, or as thread 0
# of one. Other Python threads, such as those of a forest, work within a `StopFlag`, which the main
# thread sets when it is interrupted.


cdef extern from "Python.h":
    int PyErr_CheckSignals()
    void PyErr_SetNone(object kind)

cdef extern from "interrupt.h" nogil:
    void ht_use_flag(const int* flag)
    int ht_flag()
    bint ht_time_to_look()


cdef bint interrupted() noexcept nogil:
    """Whether to stop. If so an exception is set, and the caller must return as if it raised."""
    cdef int flag = ht_flag()
    if flag > 0:
        with gil:
            PyErr_SetNone(KeyboardInterrupt)
        return True
    # Checked rarely: taking the GIL may mean to wait for it.
    if flag == 0 or not ht_time_to_look():
        return False
    with gil:
        return PyErr_CheckSignals() != 0


cdef class StopFlag:
    """Stops the computations of threads that work within this context."""

    cdef int is_set

    def __enter__(self):
        ht_use_flag(&self.is_set)
        return self

    def __exit__(self, *error):
        ht_use_flag(NULL)

    def set(self):
        """Let the kernels that run within the context raise KeyboardInterrupt."""
        self.is_set = 1


# ---- Numbers of threads: busy cores, and threads that cannot be started -----------------------
#
# A parallel region ends with its slowest thread. If another process occupies a core, that takes a
# time slice of the scheduler, many times what a small node takes on one thread. So the time of
# every node is compared with the best time per update so far. After a long wait, small nodes run on
# one thread until they have taken several times as long as the wait. Thus waiting stays a small
# part of the time on a busy machine, and a single delay has no lasting effect.
#
# If the system does not allow all threads to start, a region runs with fewer. Results do not depend
# on the number of threads.


cdef extern from "start_threads.h" nogil:
    int ht_startable(int n, bint allocating)
    int ht_team_of(int n)


cdef int team_of(int n_threads) noexcept nogil:
    """Threads for a parallel region: `n_threads`, or fewer if no more can be started.

    To be called for every parallel region, by the thread that opens it: the number of threads that
    wait for the next region is recorded.
    """
    return ht_team_of(n_threads)


def startable_threads(int n_threads):
    """How many of `n_threads` can be started besides the calling thread."""
    cdef int n
    if n_threads <= 1:
        return n_threads
    with nogil:
        n = ht_startable(n_threads, True)
    return n


def team_threads(int n_threads):
    """Threads that a parallel region of this thread would get; for tests."""
    return team_of(n_threads)


def node_thread_counts(
    int n_threads, const float64_t[::1] updates, const float64_t[:, ::1] seconds
):
    """Threads that successive nodes get; for tests.

    `seconds` (n_nodes, 2): the time of each node on one thread, and on all threads.
    """
    cdef NodeThreads threads
    cdef Py_ssize_t k
    open_node_threads(&threads, n_threads)
    sizes = []
    for k in range(updates.shape[0]):
        sizes.append(node_threads(&threads, updates[k]))
        note_node_time(&threads, sizes[k], updates[k], seconds[k, 0 if sizes[k] == 1 else 1])
    return sizes


# ---- Sums in any order, and draws by row number -----------------------------------------------
#
# Sums depend on their terms alone (`exact_sum.py`), draws on the seed and the row number alone: the
# order of the rows and how a table is divided into parts have no effect.


cdef enum:
    HIGH_BITS = 12        # of a row's random bits, counted to find the limit of a sample


cdef class ExactSum:
    """A sum whose terms may come in any order and in any parts."""

    def __init__(self, values=None):
        ht_clear_sum(&self.sum)
        if values is not None:
            self.add(values)

    def add(self, const float64_t[::1] values):
        """Add some terms."""
        if values.shape[0] > 0:
            with nogil:
                ht_add_terms(ht_vector_bytes(), &self.sum, &values[0], values.shape[0])

    def merge(self, ExactSum other):
        """Add all terms of another sum."""
        ht_merge_sum(&self.sum, &other.sum)

    @property
    def value(self):
        """The sum as a float."""
        return ht_sum_value(&self.sum)


def group_sums(const float64_t[::1] values, const intp_t[::1] group, intp_t n_groups):
    """Sum of the values in each group, float64; `group` has numbers from 0 to n_groups - 1."""
    out = np.empty(n_groups)
    cdef float64_t[::1] total = out
    cdef int64_t[:, ::1] room = np.zeros((n_groups, sizeof(HtExactSum) // 8), dtype=np.int64)
    cdef HtExactSum* sums
    cdef intp_t i, n = values.shape[0]
    if group.shape[0] != n:
        raise ValueError("values and group do not fit together")
    for i in range(n):
        if not 0 <= group[i] < n_groups:
            raise ValueError(f"group holds {group[i]}, but there are {n_groups} groups")
    if n_groups == 0:
        return out
    sums = <HtExactSum*>&room[0, 0]
    with nogil:
        for i in range(n_groups):
            ht_clear_sum(&sums[i])
        for i in range(n):
            ht_add_term(&sums[group[i]], values[i])
        for i in range(n_groups):
            total[i] = ht_sum_value(&sums[i])
    return out


def rows_below(uint64_t seed, uint64_t limit, intp_t first, intp_t stop):
    """Rows of [first, stop) whose random bits are at most `limit`, uint32."""
    out = np.empty(stop - first + 1, dtype=np.uint32)
    cdef uint32_t[::1] rows = out
    cdef intp_t i, n_taken = 0
    with nogil:
        # Every row is written, but only a taken one advances the position: no branch.
        for i in range(first, stop):
            rows[n_taken] = <uint32_t>i
            n_taken += keyed(seed, STREAM_ROWS, i) <= limit
    return out[:n_taken]


def count_bits(uint64_t seed, intp_t first, intp_t stop):
    """Histogram of the highest random bits of the rows [first, stop), int64."""
    out = np.zeros(1 << HIGH_BITS, dtype=np.int64)
    cdef int64_t[::1] counts = out
    cdef intp_t i
    with nogil:
        for i in range(first, stop):
            counts[keyed(seed, STREAM_ROWS, i) >> (64 - HIGH_BITS)] += 1
    return out


def row_bits(uint64_t seed, rows):
    """Random bits of rows, uint64."""
    out = np.empty(len(rows), dtype=np.uint64)
    cdef uint64_t[::1] bits = out
    cdef const uint32_t[::1] row = rows
    cdef intp_t i
    for i in range(row.shape[0]):
        bits[i] = keyed(seed, STREAM_ROWS, row[i])
    return out


def bootstrap_draws(uint64_t seed, intp_t first, intp_t stop, int64_t total):
    """The draws [first, stop) of a bootstrap sample: integers from 0 to total - 1, int64."""
    out = np.empty(stop - first, dtype=np.int64)
    cdef int64_t[::1] drawn = out
    cdef intp_t i
    with nogil:
        for i in range(first, stop):
            # The product may be rounded up to the total where that is beyond 2^53.
            drawn[i - first] = min(
                <int64_t>(uniform(keyed(seed, STREAM_BOOTSTRAP, i)) * <float64_t>total), total - 1)
    return out
