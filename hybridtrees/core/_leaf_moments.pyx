"""Moments of the regressors of each leaf, from the values themselves.

Every leaf has its own few columns. Its rows are cut into blocks of a fixed size, whose sums are
added in order: the result does not depend on the number of threads. A missing value stands at
`center`, so that it adds nothing; a leaf that has some is summed a second time, with its own
means for centres.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, isnan
from libc.string cimport memcpy, memset

from hybridtrees.core._types cimport (
    float32_t, float64_t, int32_t, int64_t, intp_t, real_t, uint32_t,
)

import numpy as np

cdef extern from "accumulate.h" nogil:
    void HT_PREFETCH(const void* address)

cdef enum:
    MAX_COLUMNS = 16
    MAX_SQUARES = 136        # pairs of columns
    BLOCK = 8192
    AHEAD = 12               # rows that are asked for ahead of their turn


cdef void sum_block(
    const real_t* values, intp_t row_step, intp_t column_step, const uint32_t* rows, intp_t n_rows,
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    int32_t k, const int32_t* feature, const float64_t* shift, const float64_t* factor,
    int32_t width, float64_t* out,
) noexcept nogil:
    """OUT per column: h, h z, g z, least and largest z of rows that weigh
    anything, missing rows; then h z z'."""
    cdef int32_t i, j, at
    # Sums of their own: the compiler need not fear that a store changes the values it reads.
    cdef float64_t columns[6 * MAX_COLUMNS]
    cdef float64_t squares[MAX_SQUARES]
    cdef float64_t z[MAX_COLUMNS]
    cdef float64_t h, g, x, hz
    cdef intp_t r
    cdef const real_t* row
    memset(columns, 0, sizeof(columns))
    memset(squares, 0, sizeof(squares))
    for j in range(k):
        columns[6 * j + 3] = INFINITY
        columns[6 * j + 4] = -INFINITY
    for r in range(n_rows):
        if r + AHEAD < n_rows:
            row = values + <intp_t>rows[r + AHEAD] * row_step
            for j in range(k):
                HT_PREFETCH(row + feature[j] * column_step)
        row = values + <intp_t>rows[r] * row_step
        h = hess[rows[r]] if hess != NULL else constant_hess
        g = grad[rows[r]]
        for j in range(k):
            x = <float64_t>row[feature[j] * column_step]
            if isnan(x):
                z[j] = 0
                columns[6 * j + 5] += 1
                continue
            z[j] = (x - shift[j]) * factor[j]
            columns[6 * j] += h
            columns[6 * j + 1] += h * z[j]
            columns[6 * j + 2] += g * z[j]
            if h > 0:
                columns[6 * j + 3] = min(columns[6 * j + 3], z[j])
                columns[6 * j + 4] = max(columns[6 * j + 4], z[j])
        at = 0
        for i in range(k):
            hz = h * z[i]
            for j in range(i, k):
                squares[at] += hz * z[j]
                at += 1
    memcpy(out, columns, 6 * k * sizeof(float64_t))
    memcpy(out + 6 * width, squares, k * (k + 1) // 2 * sizeof(float64_t))


cdef void merge_block(
    const float64_t* part, int32_t k, int32_t width, float64_t* out
) noexcept nogil:
    cdef int32_t j
    for j in range(k):
        out[6 * j] += part[6 * j]
        out[6 * j + 1] += part[6 * j + 1]
        out[6 * j + 2] += part[6 * j + 2]
        out[6 * j + 3] = min(out[6 * j + 3], part[6 * j + 3])
        out[6 * j + 4] = max(out[6 * j + 4], part[6 * j + 4])
        out[6 * j + 5] += part[6 * j + 5]
    for j in range(k * (k + 1) // 2):
        out[6 * width + j] += part[6 * width + j]


def leaf_moments(
    const real_t[:, :] values, const uint32_t[::1] rows, const int64_t[::1] start,
    const int64_t[::1] stop, const int32_t[::1] n_columns, const int32_t[:, ::1] feature,
    const float64_t[:, ::1] shift, const float64_t[:, ::1] factor, const float32_t[::1] grad,
    hess, int n_threads,
):
    """Sum the moments of the columns of every leaf.

    Parameters
    ----------
    values : float32 or float64 array of shape (n_rows, n_features)
        NaN is missing.
    rows : uint32 array
    start, stop : int64 arrays of shape (n_leaves,)
        The rows of leaf i are ``rows[start[i]:stop[i]]``.
    n_columns : int32 array of shape (n_leaves,)
    feature : int32 array of shape (n_leaves, width)
        Columns of each leaf, of which the first `n_columns` count.
    shift, factor : float64 arrays of shape (n_leaves, width)
        A column is ``z = (x - shift) * factor``.
    grad : float32 array of shape (n_rows,)
    hess : float32 array of shape (n_rows,), or one number for all rows
    n_threads : int

    Returns
    -------
    columns : float64 array of shape (n_leaves, width, 6)
        Sums of h, h z and g z over the rows that have a value, least and largest z, and the
        number of rows that have none.
    squares : float64 array of shape (n_leaves, width * (width + 1) / 2)
        Sums of h z_i z_j, i <= j of the leaf's own columns, row by row.
    """
    cdef intp_t n_leaves = start.shape[0], leaf, n_blocks = 0, block, first
    cdef int32_t width = <int32_t>feature.shape[1], j
    cdef intp_t row_step = values.strides[0] // <intp_t>sizeof(real_t)
    cdef intp_t column_step = values.strides[1] // <intp_t>sizeof(real_t)
    cdef intp_t size = 6 * width + width * (width + 1) // 2
    cdef float64_t constant_hess = 1.0
    cdef const float32_t[::1] hess_view
    cdef const float32_t* hess_pointer = NULL
    if not 0 < width <= MAX_COLUMNS:
        raise ValueError(f"between 1 and {MAX_COLUMNS} columns are needed")
    if grad.shape[0] != values.shape[0]:
        raise ValueError("one gradient per row is needed")
    if isinstance(hess, (int, float)):
        constant_hess = hess
    else:
        hess_view = hess
        if hess_view.shape[0] != grad.shape[0]:
            raise ValueError("one hessian per row is needed")
        hess_pointer = &hess_view[0]
    if (stop.shape[0] != n_leaves or n_columns.shape[0] != n_leaves or shift.shape[0] != n_leaves
            or feature.shape[0] != n_leaves or factor.shape[0] != n_leaves):
        raise ValueError("the arrays of the leaves differ in length")
    if shift.shape[1] != width or factor.shape[1] != width:
        raise ValueError("the arrays of the columns differ in width")
    for leaf in range(n_leaves):
        if not 0 <= start[leaf] <= stop[leaf] <= rows.shape[0] or not 0 <= n_columns[leaf] <= width:
            raise ValueError("a leaf has rows or columns out of range")
        for j in range(n_columns[leaf]):
            if not 0 <= feature[leaf, j] < values.shape[1]:
                raise ValueError("a column is out of range")
        if n_columns[leaf] > 0:
            n_blocks += (stop[leaf] - start[leaf] + BLOCK - 1) // BLOCK
    out = np.zeros((n_leaves, size))
    cdef float64_t[:, ::1] sums = out
    cdef float64_t[:, ::1] parts = np.zeros((n_blocks, size))
    cdef int64_t[:, ::1] blocks = np.empty((n_blocks, 2), dtype=np.int64)
    block = 0
    for leaf in range(n_leaves):
        for j in range(n_columns[leaf]):
            sums[leaf, 6 * j + 3] = INFINITY
            sums[leaf, 6 * j + 4] = -INFINITY
        first = start[leaf]
        while n_columns[leaf] > 0 and first < stop[leaf]:
            blocks[block, 0] = leaf
            blocks[block, 1] = first
            first += BLOCK
            block += 1
    with nogil:
        for block in prange(n_blocks, num_threads=n_threads if n_blocks > 3 else 1,
                            schedule="dynamic", chunksize=1):
            leaf = blocks[block, 0]
            sum_block(&values[0, 0], row_step, column_step, &rows[blocks[block, 1]],
                      min(BLOCK, stop[leaf] - blocks[block, 1]), &grad[0], hess_pointer,
                      constant_hess, n_columns[leaf], &feature[leaf, 0], &shift[leaf, 0],
                      &factor[leaf, 0], width, &parts[block, 0])
    for block in range(n_blocks):
        leaf = blocks[block, 0]
        merge_block(&parts[block, 0], n_columns[leaf], width, &sums[leaf, 0])
    return out[:, : 6 * width].reshape(n_leaves, width, 6), out[:, 6 * width :]
