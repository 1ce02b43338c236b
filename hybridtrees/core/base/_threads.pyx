"""Threads, interrupts, sums in any order, and draws of rows: used everywhere."""

from cython.parallel cimport prange
from libc.math cimport INFINITY, sqrt
from libc.string cimport memcpy, memmove

from hybridtrees.core.base._exact_sum cimport (
    SUM_ROWS, HtExactSum, ht_add_term, ht_add_terms, ht_clear_sum, ht_merge_sum, ht_sum_value,
)
from hybridtrees.core.base._openmp cimport HT_HAS_OPENMP, omp_get_max_threads
from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._types cimport (
    STREAM_BOOTSTRAP, STREAM_GRADIENTS, STREAM_ROWS, float32_t, float64_t, int64_t, intp_t,
    uint32_t, uint64_t,
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


# ---- Sums in any order ------------------------------------------------------------------------
#
# A sum depends on its terms alone (`exact_sum.py`): neither the order of the rows nor the parts of
# a table have an effect.


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


# ---- Draws by row number ----------------------------------------------------------------------
#
# Whether a row is drawn depends on the seed and the row number alone.


cdef enum:
    HIGH_BITS = 12        # of a row's random bits, counted to find the limit of a sample


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


# ---- Draws by the size of gradients -----------------------------------------------------------
#
# Minimal variance sampling (Ibragimov and Gusev 2019). A row of size v = sqrt(g^2 + factor h^2) is
# drawn with the probability p = min(1, v / threshold), and its gradient and hessian count share / p
# times. Sums over the drawn rows then have the expectation of the share of the sums over all rows,
# as if all rows were equally likely, with the smallest variance for their number.
#
# Nothing depends on the order of the rows or on threads. Sums of squares are exact sums. Sizes are
# counted in cells by their highest bits. All sizes of a cell have the same exponent, so they are
# added as integers. Whether a row is drawn depends on random bits of its own (`row_draws.py`).


cdef enum:
    CELL_SHIFT = 19                          # a cell: the exponent and 4 bits of the mantissa
    N_CELLS = 1 << (31 - CELL_SHIFT)
    MANTISSA = (1 << 23) - 1
    LEAST_ROWS = 8192                        # of a thread

INFINITE_CELLS = 1 << (23 - CELL_SHIFT)  # the last ones: sizes that are not finite


cdef struct Rows:
    # Gradients and hessians by output, (n_outputs, n); hess is NULL where all are 1.
    float32_t* grad
    float32_t* hess
    intp_t n_outputs
    intp_t n


cdef int open_rows(Rows* rows, float32_t[:, ::1] grad, float32_t[:, ::1] hess) except -1:
    if grad.shape[0] == 0 or grad.shape[1] == 0:
        raise ValueError("there are no rows to draw from")
    rows.grad, rows.hess = &grad[0, 0], NULL
    rows.n_outputs, rows.n = grad.shape[0], grad.shape[1]
    if hess is not None:
        if hess.shape[0] != grad.shape[0] or hess.shape[1] != grad.shape[1]:
            raise ValueError("grad and hess do not fit together")
        rows.hess = &hess[0, 0]
    return 0


cdef int parts_of(intp_t n, int n_threads):
    return threads_for(n_threads, n, LEAST_ROWS)


cdef void add_squares(
    HtExactSum* total, const float32_t* x, intp_t start, intp_t stop, int width
) noexcept nogil:
    cdef float64_t[SUM_ROWS] terms
    cdef intp_t block, first, i, n
    for block in range((stop - start + SUM_ROWS - 1) // SUM_ROWS):
        first = start + block * SUM_ROWS
        n = min(<intp_t>SUM_ROWS, stop - first)
        for i in range(n):
            terms[i] = <float64_t>x[first + i] * x[first + i]
        ht_add_terms(width, total, terms, n)


def sums_of_squares(float32_t[:, ::1] grad, float32_t[:, ::1] hess, int n_threads):
    """Sums of the squares of all gradients and of all hessians; `hess` None stands for ones."""
    cdef Rows rows
    open_rows(&rows, grad, hess)
    cdef int n_parts = parts_of(rows.n, n_threads), part, width = ht_vector_bytes()
    cdef int64_t[:, ::1] room = np.zeros((2 * n_parts, sizeof(HtExactSum) // 8), dtype=np.int64)
    cdef HtExactSum* sums = <HtExactSum*>&room[0, 0]
    cdef intp_t k, start, stop
    for part in range(2 * n_parts):
        ht_clear_sum(&sums[part])
    for part in prange(n_parts, num_threads=team_of(n_parts), nogil=True, schedule="static"):
        start, stop = part * rows.n // n_parts, (part + 1) * rows.n // n_parts
        for k in range(rows.n_outputs):
            add_squares(&sums[2 * part], rows.grad + k * rows.n, start, stop, width)
            if rows.hess != NULL:
                add_squares(&sums[2 * part + 1], rows.hess + k * rows.n, start, stop, width)
    for part in range(1, n_parts):
        ht_merge_sum(&sums[0], &sums[2 * part])
        ht_merge_sum(&sums[1], &sums[2 * part + 1])
    ones = float(rows.n_outputs * rows.n)
    return ht_sum_value(&sums[0]), ones if hess is None else ht_sum_value(&sums[1])


cdef void part_sizes(
    const Rows* rows, intp_t start, intp_t stop, float64_t factor, float32_t* size,
    int64_t* count, int64_t* total,
) noexcept nogil:
    """OUT the sizes of the rows [start, stop), and their numbers and sums of mantissas by cell."""
    cdef float64_t[SUM_ROWS] square
    cdef const float32_t* grad
    cdef const float32_t* hess
    cdef intp_t block, first, i, k, n
    cdef uint32_t bits
    for block in range((stop - start + SUM_ROWS - 1) // SUM_ROWS):
        first = start + block * SUM_ROWS
        n = min(<intp_t>SUM_ROWS, stop - first)
        for i in range(n):
            square[i] = 0.0 if rows.hess != NULL else factor * rows.n_outputs
        for k in range(rows.n_outputs):
            grad = rows.grad + k * rows.n + first
            for i in range(n):
                square[i] += <float64_t>grad[i] * grad[i]
            if rows.hess != NULL:
                hess = rows.hess + k * rows.n + first
                for i in range(n):
                    square[i] += factor * hess[i] * hess[i]
        for i in range(n):
            size[first + i] = <float32_t>sqrt(square[i])
        for i in range(first, first + n):
            memcpy(&bits, &size[i], 4)
            bits &= 0x7FFFFFFF
            count[bits >> CELL_SHIFT] += 1
            # Numbers below the normal ones lack the first bit.
            total[bits >> CELL_SHIFT] += (bits & MANTISSA) + ((bits >> 23 != 0) << 23)


def row_sizes(float32_t[:, ::1] grad, float32_t[:, ::1] hess, float64_t factor, int n_threads):
    """Size of each row, float32, and by cell: lower edges, numbers of rows and sums of sizes.

    Rows of size 0 are not counted; those that are not finite are in the last cells.
    """
    cdef Rows rows
    open_rows(&rows, grad, hess)
    cdef int n_parts = parts_of(rows.n, n_threads), part
    out = np.empty(rows.n, dtype=np.float32)
    cdef float32_t[::1] size = out
    cdef int64_t[:, ::1] count = np.zeros((n_parts, N_CELLS), dtype=np.int64)
    cdef int64_t[:, ::1] total = np.zeros((n_parts, N_CELLS), dtype=np.int64)
    for part in prange(n_parts, num_threads=team_of(n_parts), nogil=True, schedule="static"):
        part_sizes(&rows, part * rows.n // n_parts, (part + 1) * rows.n // n_parts, factor,
                   &size[0], &count[part, 0], &total[part, 0])
    counts = np.asarray(count).sum(axis=0)
    sums = np.asarray(total).sum(axis=0)
    cells = np.arange(N_CELLS)
    exponent = np.maximum(cells >> 4, 1) - 150
    first = ((cells & 15) << CELL_SHIFT) + ((cells >> 4 > 0) << 23)
    # Sizes of 0 stand in the first cell, with the smallest ones.
    counts[0] -= np.count_nonzero(out == 0) if counts[0] else 0
    return out, np.ldexp(first.astype(float), exponent), counts, np.ldexp(
        sums.astype(float), exponent)


def sizes_in_cell(const float32_t[::1] size, intp_t cell, intp_t n_found):
    """The positive sizes of a cell, `n_found` of them, ascending, float64."""
    out = np.empty(n_found, dtype=np.float32)
    cdef float32_t[::1] found = out
    cdef intp_t i, k = 0
    cdef uint32_t bits
    with nogil:
        for i in range(size.shape[0]):
            memcpy(&bits, &size[i], 4)
            if (bits & 0x7FFFFFFF) >> CELL_SHIFT == <uint32_t>cell and size[i] > 0 and k < n_found:
                found[k] = size[i]
                k += 1
    if k != n_found:
        raise ValueError(f"the cell has {k} sizes, not {n_found}")
    return np.sort(out).astype(np.float64)


cdef intp_t draw_part(
    Rows* rows, const float32_t* size, uint64_t seed, float64_t share, float64_t threshold,
    intp_t start, intp_t stop, uint32_t* drawn,
) noexcept nogil:
    """OUT the drawn rows of [start, stop), and how many; statistics are weighed in place."""
    cdef float32_t[SUM_ROWS] weight
    cdef float64_t factor
    cdef intp_t block, first, i, k, n, n_drawn = 0
    cdef bint taken
    for block in range((stop - start + SUM_ROWS - 1) // SUM_ROWS):
        first = start + block * SUM_ROWS
        n = min(<intp_t>SUM_ROWS, stop - first)
        for i in range(n):
            taken = uniform(keyed(seed, STREAM_GRADIENTS, first + i)) * threshold < size[first + i]
            # Every row is written, but only a drawn one advances the position: no branch.
            drawn[n_drawn] = <uint32_t>(first + i)
            n_drawn += taken
            factor = threshold / size[first + i] if size[first + i] < threshold else 1.0
            weight[i] = <float32_t>(share * factor) if taken else <float32_t>0.0
        for k in range(rows.n_outputs):
            for i in range(n):
                rows.grad[k * rows.n + first + i] *= weight[i]
            if rows.hess != NULL:
                for i in range(n):
                    rows.hess[k * rows.n + first + i] *= weight[i]
    return n_drawn


def draw_rows(float32_t[:, ::1] grad, float32_t[:, ::1] hess, const float32_t[::1] size,
              uint64_t seed, float64_t share, float64_t threshold, int n_threads):
    """Rows drawn by their sizes, ascending, uint32.

    Their gradients and hessians are multiplied by share / probability, in place; those of other
    rows become 0.
    """
    cdef Rows rows
    open_rows(&rows, grad, hess)
    if size.shape[0] != rows.n:
        raise ValueError("size has one entry for each row")
    if not 0.0 < threshold < INFINITY:
        raise ValueError(f"threshold must be positive and finite, got {threshold}")
    cdef int n_parts = parts_of(rows.n, n_threads), part
    out = np.empty(rows.n + n_parts, dtype=np.uint32)  # a place more than rows, for each part
    cdef uint32_t[::1] drawn = out
    cdef intp_t[::1] n_drawn = np.zeros(n_parts, dtype=np.intp)
    cdef intp_t n_kept = 0, start
    for part in prange(n_parts, num_threads=team_of(n_parts), nogil=True, schedule="static"):
        n_drawn[part] = draw_part(
            &rows, &size[0], seed, share, threshold, part * rows.n // n_parts,
            (part + 1) * rows.n // n_parts, &drawn[part * rows.n // n_parts + part])
    for part in range(n_parts):
        start = part * rows.n // n_parts + part
        memmove(&drawn[n_kept], &drawn[start], n_drawn[part] * sizeof(uint32_t))
        n_kept += n_drawn[part]
    return out[:n_kept].copy()
