"""Sums of products over the rows of a table: what linear solvers start from.

Rows are taken in blocks, each standardised into a small buffer and multiplied by itself with
BLAS. Blocks add up to a fixed number of partial sums, and those are merged in order: the result
is the same to the last bit for any number of threads. BLAS itself must be limited to one thread
by the caller.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport sqrt
from scipy.linalg.cython_blas cimport dgemm, dsyrk

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport float64_t, int64_t, intp_t
from hybridtrees.linear._rows cimport ht_rows_wide, ht_scale_row, ht_sum_row
from hybridtrees.linear._table cimport Table, TableView, block_rows, count_parts, load_block


cdef inline void append_row(
    const TableView* t, const float64_t* targets, intp_t n_targets, const float64_t* weight,
    intp_t row, float64_t* out, intp_t width,
) noexcept nogil:
    """Put targets and a one behind a loaded row, and multiply it by the root of its weight."""
    cdef intp_t j, own = t.rows[row] if t.rows != NULL else row
    for j in range(n_targets):
        out[t.n_columns + j] = targets[own * n_targets + j]
    out[t.n_columns + n_targets] = 1.0
    if weight != NULL:
        ht_scale_row(ht_rows_wide(), out, width, sqrt(weight[own]))


cdef void gram_part(
    const TableView* t, const float64_t* targets, intp_t n_targets, const float64_t* weight,
    intp_t start, intp_t stop, float64_t* buffer, float64_t* sums,
) noexcept nogil:
    cdef intp_t width = t.n_columns + n_targets + 1, step = block_rows(width), first, n, i
    cdef int order = <int>width, count
    cdef double one = 1.0
    first = start
    while first < stop:
        n = min(step, stop - first)
        load_block(t, first, n, buffer, width)
        for i in range(n):
            append_row(t, targets, n_targets, weight, first + i, buffer + i * width, width)
        count = <int>n
        dsyrk(b"L", b"N", &order, &count, &one, buffer, &order, &one, sums, &order)
        first += n


def gram(Table table, const float64_t[:, ::1] targets, weight, int n_threads):
    """Weighted sums of products of all pairs of columns, targets and one.

    Parameters
    ----------
    table : Table
    targets : float64 array of shape (n_rows of the whole table, n_targets)
    weight : float64 array of shape (n_rows of the whole table,), or None
    n_threads : int

    Returns
    -------
    sums : float64 array of shape (n_columns + n_targets + 1,) * 2
        Symmetric; the last row holds the sums of the columns and of the targets, and the weight.
    """
    cdef intp_t k = targets.shape[1], width = table.n_columns + k + 1, n = table.n_rows
    cdef intp_t n_parts = count_parts(n, width * width), part, share
    cdef const float64_t[::1] weight_view
    cdef const float64_t* weight_pointer = NULL
    cdef const float64_t* target_pointer = NULL
    table.check_length(targets, "targets")
    table.check_length(weight, "weight")
    if width > 40000:
        raise ValueError(f"{width} columns are too many for a table of their products")
    if weight is not None:
        weight_view = weight
        weight_pointer = &weight_view[0]
    if k:
        target_pointer = &targets[0, 0]
    # Whole blocks, so that the cuts between parts are cuts between blocks.
    share = (n + n_parts - 1) // n_parts
    share = (share + block_rows(width) - 1) // block_rows(width) * block_rows(width)
    sums = np.zeros((n_parts, width, width))
    n_threads = <int>max(1, min(n_threads, n_parts))
    buffers = np.empty((n_threads, block_rows(width) * width))
    cdef float64_t[:, :, ::1] sums_view = sums
    cdef float64_t[:, ::1] buffers_view = buffers
    for part in prange(n_parts, num_threads=team_of(n_threads), nogil=True, schedule="dynamic",
                       chunksize=1):
        gram_part(&table.view, target_pointer, k, weight_pointer, min(n, part * share),
                  min(n, (part + 1) * share), &buffers_view[omp_get_thread_num(), 0],
                  &sums_view[part, 0, 0])
    total = sums[0]
    for part in range(1, n_parts):
        total += sums[part]
    # BLAS has filled the half that is the upper one in our order of rows and columns.
    lower = np.tril_indices(width, -1)
    total[lower] = total.T[lower]
    return total


cdef void cross_part(
    const TableView* left, const TableView* right, const float64_t* weight, intp_t start,
    intp_t stop, float64_t* buffer, float64_t* sums,
) noexcept nogil:
    cdef intp_t a = left.n_columns, b = right.n_columns, step = block_rows(a + b), first, n, i, j
    cdef int rows = <int>b, columns = <int>a, count
    cdef double one = 1.0, w
    cdef float64_t* other = buffer + step * a
    first = start
    while first < stop:
        n = min(step, stop - first)
        load_block(left, first, n, buffer, a)
        load_block(right, first, n, other, b)
        if weight != NULL:
            for i in range(n):
                w = weight[left.rows[first + i] if left.rows != NULL else first + i]
                for j in range(b):
                    other[i * b + j] *= w
        count = <int>n
        dgemm(b"N", b"T", &rows, &columns, &count, &one, other, &rows, buffer, &columns, &one,
              sums, &rows)
        first += n


def cross(Table left, Table right, weight, int n_threads):
    """Weighted sums of products of the columns of two tables of the same rows.

    Returns
    -------
    sums : float64 array of shape (left.n_columns, right.n_columns)
    """
    cdef intp_t a = left.n_columns, b = right.n_columns, n = left.n_rows
    cdef intp_t n_parts = count_parts(n, a * b), part, share, step = block_rows(a + b)
    cdef const float64_t[::1] weight_view
    cdef const float64_t* weight_pointer = NULL
    if right.n_rows != n:
        raise ValueError("the two tables differ in their numbers of rows")
    left.check_length(weight, "weight")
    if weight is not None:
        weight_view = weight
        weight_pointer = &weight_view[0]
    share = ((n + n_parts - 1) // n_parts + step - 1) // step * step
    sums = np.zeros((n_parts, a, b))
    n_threads = <int>max(1, min(n_threads, n_parts))
    buffers = np.empty((n_threads, step * (a + b)))
    cdef float64_t[:, :, ::1] sums_view = sums
    cdef float64_t[:, ::1] buffers_view = buffers
    for part in prange(n_parts, num_threads=team_of(n_threads), nogil=True, schedule="dynamic",
                       chunksize=1):
        cross_part(&left.view, &right.view, weight_pointer, min(n, part * share),
                   min(n, (part + 1) * share), &buffers_view[omp_get_thread_num(), 0],
                   &sums_view[part, 0, 0])
    total = sums[0]
    for part in range(1, n_parts):
        total += sums[part]
    return total


def project(Table table, const float64_t[:, ::1] coef, const float64_t[::1] intercept,
            int n_threads):
    """Table times coefficients plus intercept.

    Parameters
    ----------
    table : Table
    coef : float64 array of shape (n_columns, n_outputs)
    intercept : float64 array of shape (n_outputs,)
    n_threads : int

    Returns
    -------
    out : float64 array of shape (n_rows, n_outputs)
    """
    cdef intp_t n = table.n_rows, p = table.n_columns, k = coef.shape[1], block
    cdef intp_t step = block_rows(p), n_blocks = (n + step - 1) // step
    if coef.shape[0] != p or intercept.shape[0] != k or k == 0:
        raise ValueError("the coefficients do not fit the table")
    out = np.empty((n, k))
    n_threads = <int>max(1, min(n_threads, n_blocks))
    buffers = np.empty((n_threads, step * p))
    cdef float64_t[:, ::1] out_view = out
    cdef float64_t[:, ::1] buffers_view = buffers
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        project_block(&table.view, &coef[0, 0], &intercept[0], k, block * step,
                      min(step, n - block * step), &buffers_view[omp_get_thread_num(), 0],
                      &out_view[block * step, 0])
    return out


cdef void project_block(
    const TableView* t, const float64_t* coef, const float64_t* intercept, intp_t k, intp_t start,
    intp_t n, float64_t* buffer, float64_t* out,
) noexcept nogil:
    cdef intp_t i, j
    cdef int outputs = <int>k, count = <int>n, columns = <int>t.n_columns
    cdef double one = 1.0
    load_block(t, start, n, buffer, t.n_columns)
    for i in range(n):
        for j in range(k):
            out[i * k + j] = intercept[j]
    dgemm(b"N", b"N", &outputs, &count, &columns, &one, <double*>coef, &outputs, buffer, &columns,
          &one, out, &outputs)


cdef void sums_part(
    const TableView* t, const float64_t* weight, intp_t start, intp_t stop, float64_t* buffer,
    float64_t* sums,
) noexcept nogil:
    cdef intp_t p = t.n_columns, step = block_rows(p), first = start, n, i, own
    cdef int wide = ht_rows_wide()
    while first < stop:
        n = min(step, stop - first)
        load_block(t, first, n, buffer, p)
        for i in range(n):
            own = t.rows[first + i] if t.rows != NULL else first + i
            ht_sum_row(wide, buffer + i * p, p, weight[own] if weight != NULL else 1.0, sums,
                       sums + p)
        first += n


def column_sums(Table table, weight, int n_threads):
    """Weighted sums of the columns and of their squares.

    Returns
    -------
    sums : float64 array of shape (2, n_columns)
        NaN for a column with a missing entry that the table does not fill.
    """
    cdef intp_t n = table.n_rows, p = table.n_columns, n_parts = count_parts(n, 2 * p), part
    cdef intp_t step = block_rows(p), share
    cdef const float64_t[::1] weight_view
    cdef const float64_t* weight_pointer = NULL
    table.check_length(weight, "weight")
    if weight is not None:
        weight_view = weight
        weight_pointer = &weight_view[0]
    share = ((n + n_parts - 1) // n_parts + step - 1) // step * step
    n_threads = <int>max(1, min(n_threads, n_parts))
    sums, buffers = np.zeros((n_parts, 2, p)), np.empty((n_threads, step * p))
    cdef float64_t[:, :, ::1] sums_view = sums
    cdef float64_t[:, ::1] buffers_view = buffers
    for part in prange(n_parts, num_threads=team_of(n_threads), nogil=True, schedule="dynamic",
                       chunksize=1):
        sums_part(&table.view, weight_pointer, min(n, part * share), min(n, (part + 1) * share),
                  &buffers_view[omp_get_thread_num(), 0], &sums_view[part, 0, 0])
    total = sums[0]
    for part in range(1, n_parts):
        total += sums[part]
    return total


def column_ranges(Table table, weight):
    """Means and ranges of the columns as they stand, missing entries left out.

    The table must have been made with center 0, inv_scale 1 and fill NaN.

    Returns
    -------
    mean, low, high : float64 arrays of shape (n_columns,)
        NaN for a column without a value in a row of positive weight.
    n_missing : int64 array of shape (n_columns,)
    """
    cdef intp_t n = table.n_rows, p = table.n_columns, step = block_rows(p), first = 0, i, j, own
    cdef const float64_t[::1] weight_view
    table.check_length(weight, "weight")
    if weight is not None:
        weight_view = weight
    buffer, mean, total = np.empty((step, p)), np.zeros(p), np.zeros(p)
    low, high, n_missing = np.full(p, np.inf), np.full(p, -np.inf), np.zeros(p, dtype=np.int64)
    cdef float64_t[:, ::1] x = buffer
    cdef float64_t[::1] mean_view = mean, total_view = total, low_view = low, high_view = high
    cdef int64_t[::1] missing_view = n_missing
    cdef bint weighted = weight is not None
    cdef float64_t w, value
    with nogil:
        while first < n:
            load_block(&table.view, first, min(step, n - first), &x[0, 0], p)
            for i in range(min(step, n - first)):
                own = table.view.rows[first + i] if table.view.rows != NULL else first + i
                w = weight_view[own] if weighted else 1.0
                for j in range(p):
                    value = x[i, j]
                    if value != value:
                        missing_view[j] += 1
                    elif w > 0:
                        # A running mean neither overflows nor loses what a large sum would.
                        total_view[j] += w
                        mean_view[j] += (w / total_view[j]) * (value - mean_view[j])
                        low_view[j] = min(low_view[j], value)
                        high_view[j] = max(high_view[j], value)
            first += min(step, n - first)
    for array in (mean, low, high):
        array[total == 0] = np.nan
    return mean, low, high, n_missing
