"""Rows drawn by the size of their gradients: minimal variance sampling (Ibragimov and Gusev 2019).

A row of size v = sqrt(g^2 + factor h^2) is drawn with the probability p = min(1, v / threshold),
and its gradient and hessian count share / p times. Sums over the drawn rows then have the
expectation of the share of the sums over all rows, as if all rows were equally likely, with the
smallest variance for their number.

Nothing depends on the order of the rows or on threads. Sums of squares are exact sums. Sizes are
counted in cells by their highest bits: as all of a cell have the same exponent, their sum is one of
integers. Whether a row is drawn is a matter of its own bits (`row_draws.py`).
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, sqrt
from libc.string cimport memcpy, memmove

from hybridtrees.core.base._exact_sum cimport (
    SUM_ROWS, HtExactSum, ht_add_terms, ht_clear_sum, ht_merge_sum, ht_sum_value,
)
from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of, threads_for
from hybridtrees.core.base._types cimport (
    STREAM_GRADIENTS, float32_t, float64_t, int64_t, intp_t, uint32_t, uint64_t,
)

import numpy as np


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
