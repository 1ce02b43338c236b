"""What all rooms need: threads, and when to give up; sums in any order, and draws by number."""

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
    """Threads that OpenMP would use for a parallel region now."""
    return omp_get_max_threads()


def vector_bits():
    """Width of the vectors that the kernels use on this machine."""
    return 8 * ht_vector_bytes()


# ---- Whether a long computation is to be given up ---------------------------------------------
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


# ---- Threads that go on alone while the cores are busy with other work ------------------------
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

    `seconds` (n_nodes, 2): how long a node takes one thread, and all of them.
    """
    cdef Team team
    cdef Py_ssize_t k
    open_team(&team, n_threads)
    sizes = []
    for k in range(updates.shape[0]):
        sizes.append(team_size(&team, updates[k]))
        note_time(&team, sizes[k], updates[k], seconds[k, 0 if sizes[k] == 1 else 1])
    return sizes


# ---------------------------------------------------------------------------------------------
# Sums that depend on their terms alone, for Python (`exact_sum.py`); and draws that depend on the
# seed and on the number of the row alone, in whatever order and part of the table rows come.


cdef enum:
    HIGH_BITS = 12        # tell enough of a row's place among all


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
    """Rows of [first, stop) whose random bits are not above a limit, uint32."""
    out = np.empty(stop - first + 1, dtype=np.uint32)
    cdef uint32_t[::1] rows = out
    cdef intp_t i, n_taken = 0
    with nogil:
        # Every row is written, the next one over it unless it is taken: no branch to guess.
        for i in range(first, stop):
            rows[n_taken] = <uint32_t>i
            n_taken += keyed(seed, STREAM_ROWS, i) <= limit
    return out[:n_taken]


def count_bits(uint64_t seed, intp_t first, intp_t stop):
    """How many of the rows [first, stop) have which highest bits, int64."""
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
    """Whole numbers from 0 to total - 1, int64: the draws [first, stop) of a sample."""
    out = np.empty(stop - first, dtype=np.int64)
    cdef int64_t[::1] drawn = out
    cdef intp_t i
    with nogil:
        for i in range(first, stop):
            # The product may be rounded up to the total where that is beyond 2^53.
            drawn[i - first] = min(
                <int64_t>(uniform(keyed(seed, STREAM_BOOTSTRAP, i)) * <float64_t>total), total - 1)
    return out
