"""Grown leaves: passes over their rows (moments, linear outputs, values), and their lines."""

from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, isfinite, nextafterf

from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    Node, float32_t, float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._search cimport Column, make_column, sum_column

import numpy as np


# ---- Moments of the regressors of leaves, and outputs of linear leaves ------------------------
#
# Every leaf has its own few columns. The rows of a leaf are spread over the whole table, which may
# be much larger than the caches. So the table is processed in parts, each for all leaves. Exact
# sums would be too slow for so many products. A part is a range of row numbers whose length, a
# power of two, depends on the number of leaves only, and partial sums are added in order: results
# depend neither on threads nor on how a table is divided, if it is divided between parts.
#
# Missing values are replaced by the shift, so that they add nothing; leaves with missing values
# are summed again, with their means as shifts.


cdef extern from "leaf_moments.h" nogil:
    enum:
        HT_LEAF_COLUMNS
        HT_LEAF_ROWS
    ctypedef struct HtLeafRows:
        double z[HT_LEAF_COLUMNS][HT_LEAF_ROWS]
        double hess[HT_LEAF_ROWS]
        double grad[HT_LEAF_ROWS]
    void HT_PREFETCH(const void* address)
    void ht_open_leaf(HtLeafRows* rows, int k)
    void ht_add_leaf_rows(
        HtLeafRows* rows, int n, int all_weigh, int k, const double* shift, const double* factor,
        int width)
    void ht_close_leaf(const HtLeafRows* rows, int k, double* columns, double* squares)
    void ht_add_line_term(
        const double* x, int n, double coef, double center, double low, double high,
        double* total, int width)

cdef enum:
    MAX_COLUMNS = 16         # HT_LEAF_COLUMNS
    PART_ROWS = 32768        # minimum number of rows of a part
    LEAST_ROWS = 64          # minimum number of rows of an average leaf in a part
    AHEAD = 12               # how many rows ahead values are prefetched


cdef class Parts:
    """The parts of a table, and the rows of each leaf in each part."""

    cdef intp_t n_parts
    cdef int64_t[:, ::1] bound   # (leaf, part): first row of the leaf in the part, in `rows`

    def __init__(self, intp_t n_rows, const uint32_t[::1] rows, const int64_t[::1] start,
                 const int64_t[::1] stop):
        cdef intp_t n_leaves = start.shape[0], leaf, part, low, high, middle, i
        cdef intp_t part_rows = PART_ROWS
        cdef uint32_t largest = 0
        if stop.shape[0] != n_leaves:
            raise ValueError("the arrays of the leaves differ in length")
        for leaf in range(n_leaves):
            if not 0 <= start[leaf] <= stop[leaf] <= rows.shape[0]:
                raise ValueError("a leaf has rows out of range")
        for i in range(rows.shape[0]):
            largest = max(largest, rows[i])
        if rows.shape[0] and largest >= n_rows:
            raise ValueError("a row is out of range")
        while part_rows < LEAST_ROWS * n_leaves:
            part_rows *= 2
        self.n_parts = max(1, (n_rows + part_rows - 1) // part_rows)
        self.bound = np.empty((n_leaves, self.n_parts + 1), dtype=np.int64)
        for leaf in range(n_leaves):
            self.bound[leaf, 0] = start[leaf]
            for part in range(1, self.n_parts):
                low = self.bound[leaf, part - 1]
                high = stop[leaf]
                while low < high:
                    middle = (low + high) // 2
                    if rows[middle] < part * part_rows:
                        low = middle + 1
                    else:
                        high = middle
                self.bound[leaf, part] = low
            self.bound[leaf, self.n_parts] = stop[leaf]


# ---- moments ----------------------------------------------------------------------------------

cdef struct Sums:
    # Input of the sums of all leaves.
    intp_t row_step              # strides of the table, in numbers
    intp_t column_step
    const uint32_t* rows
    const float32_t* grad
    const float32_t* hess        # NULL: constant_hess for all rows
    float64_t constant_hess
    intp_t n_leaves
    int32_t width                # maximum number of columns of a leaf
    int32_t vector_bytes
    const int32_t* n_columns
    const int32_t* feature
    const float64_t* shift
    const float64_t* factor


cdef bint read_rows(
    const Sums* work, const real_t* values, const uint32_t* rows, intp_t n_left, int32_t n,
    int32_t k, const int32_t* feature, HtLeafRows* out,
) noexcept nogil:
    """OUT columns and statistics of n rows; returns whether all hessians are positive."""
    cdef const real_t* row
    cdef int32_t r, j
    cdef intp_t step[MAX_COLUMNS]
    cdef bint all_weigh = work.constant_hess > 0 or work.hess != NULL
    for j in range(k):
        step[j] = feature[j] * work.column_step
    for r in range(n):
        if r + AHEAD < n_left:
            row = values + <intp_t>rows[r + AHEAD] * work.row_step
            for j in range(k):
                HT_PREFETCH(row + step[j])
        row = values + <intp_t>rows[r] * work.row_step
        for j in range(k):
            out.z[j][r] = <float64_t>row[step[j]]
        out.grad[r] = work.grad[rows[r]]
        out.hess[r] = work.constant_hess
    if work.hess != NULL:
        for r in range(n):
            out.hess[r] = work.hess[rows[r]]
            all_weigh &= work.hess[rows[r]] > 0
    return all_weigh


cdef void sum_part(
    const Sums* work, const real_t* values, Parts parts, intp_t part, float64_t* out
) noexcept nogil:
    """OUT sums of all leaves over one part of the table."""
    cdef HtLeafRows sums
    cdef intp_t leaf, first, stop, size = 6 * work.width + work.width * (work.width + 1) // 2
    cdef int32_t n, k, at
    cdef bint all_weigh
    for leaf in range(work.n_leaves):
        first = parts.bound[leaf, part]
        stop = parts.bound[leaf, part + 1]
        k = work.n_columns[leaf]
        if k == 0 or first == stop:
            continue
        at = <int32_t>leaf * work.width
        ht_open_leaf(&sums, k)
        while first < stop:
            n = <int32_t>min(<intp_t>HT_LEAF_ROWS, stop - first)
            all_weigh = read_rows(work, values, work.rows + first, stop - first, n, k,
                                  work.feature + at, &sums)
            ht_add_leaf_rows(&sums, n, all_weigh, k, work.shift + at, work.factor + at,
                             work.vector_bytes)
            first += n
        ht_close_leaf(&sums, k, out + leaf * size, out + leaf * size + 6 * work.width)


cdef void merge_part(
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
    hess, int n_threads, int vector_bytes=0,
):
    """Sums of h, h z and g z, minimum and maximum of z, missing rows; and sums of h z_i z_j.

    The rows of leaf i are ``rows[start[i]:stop[i]]``. Its columns are z = (x - shift) * factor for
    the first `n_columns` of its features. `hess` may be one number for all rows. The first result
    has shape (n_leaves, width, 6); the second has the pairs i <= j of a leaf's columns, row by row.
    `vector_bytes`: maximum bytes of a vector; 0: the widest of the machine.
    """
    cdef intp_t n_leaves = start.shape[0], leaf, part
    cdef int32_t width = <int32_t>feature.shape[1], j
    cdef const float32_t[::1] hess_view
    cdef Parts parts
    cdef Sums work
    if not 0 < width <= MAX_COLUMNS:
        raise ValueError(f"between 1 and {MAX_COLUMNS} columns are needed")
    if grad.shape[0] != values.shape[0]:
        raise ValueError("one gradient per row is needed")
    work.constant_hess = 1.0
    work.hess = NULL
    if isinstance(hess, (int, float)):
        work.constant_hess = hess
    else:
        hess_view = hess
        if hess_view.shape[0] != grad.shape[0]:
            raise ValueError("one hessian per row is needed")
        work.hess = &hess_view[0]
    if n_columns.shape[0] != n_leaves or shift.shape[0] != n_leaves or (
            feature.shape[0] != n_leaves or factor.shape[0] != n_leaves):
        raise ValueError("the arrays of the leaves differ in length")
    if shift.shape[1] != width or factor.shape[1] != width:
        raise ValueError("the arrays of the columns differ in width")
    parts = Parts(values.shape[0], rows, start, stop)
    for leaf in range(n_leaves):
        if not 0 <= n_columns[leaf] <= width:
            raise ValueError("a leaf has columns out of range")
        for j in range(n_columns[leaf]):
            if not 0 <= feature[leaf, j] < values.shape[1]:
                raise ValueError("a column is out of range")
    work.row_step = values.strides[0] // <intp_t>sizeof(real_t)
    work.column_step = values.strides[1] // <intp_t>sizeof(real_t)
    work.rows = &rows[0] if rows.shape[0] else NULL
    work.grad = &grad[0]
    work.n_leaves = n_leaves
    work.width = width
    work.vector_bytes = ht_vector_bytes()
    if vector_bytes:
        work.vector_bytes = min(vector_bytes, work.vector_bytes)
    work.n_columns = &n_columns[0]
    work.feature = &feature[0, 0]
    work.shift = &shift[0, 0]
    work.factor = &factor[0, 0]
    size = 6 * width + width * (width + 1) // 2
    sums = np.zeros((parts.n_parts, n_leaves, size))
    cdef float64_t[:, :, ::1] out = sums
    for part in range(parts.n_parts):
        for leaf in range(n_leaves):
            for j in range(n_columns[leaf]):
                out[part, leaf, 6 * j + 3] = INFINITY
                out[part, leaf, 6 * j + 4] = -INFINITY
    n_threads = <int>min(n_threads, parts.n_parts)
    with nogil:
        for part in prange(parts.n_parts, num_threads=team_of(n_threads),
                           schedule="dynamic", chunksize=1):
            sum_part(&work, &values[0, 0], parts, part, &out[part, 0, 0])
        for part in range(1, parts.n_parts):
            for leaf in range(n_leaves):
                merge_part(&out[part, leaf, 0], n_columns[leaf], width, &out[0, leaf, 0])
    return sums[0, :, : 6 * width].reshape(n_leaves, width, 6), sums[0, :, 6 * width :]


# ---- outputs ----------------------------------------------------------------------------------

cdef struct Line:
    # Linear model of a leaf; values are clipped to [low, high], missing ones add nothing.
    int32_t n_terms
    const int32_t* feature
    const float64_t* coef
    const float64_t* center
    const float64_t* low
    const float64_t* high
    float64_t constant
    float64_t least              # range of the output
    float64_t most


cdef void add_line(
    const Line* line, const real_t* values, intp_t row_step, intp_t column_step,
    const uint32_t* rows, intp_t n_rows, float64_t* raw, intp_t raw_step, int width,
) noexcept nogil:
    """Add the output of a leaf to its rows."""
    cdef float64_t x[HT_LEAF_ROWS]
    cdef float64_t total[HT_LEAF_ROWS]
    cdef intp_t r, n, n_left = n_rows
    cdef int32_t j, k
    cdef const real_t* column
    while n_left > 0:
        n = min(<intp_t>HT_LEAF_ROWS, n_left)
        for r in range(n):
            total[r] = 0
        for j in range(line.n_terms):
            column = values + line.feature[j] * column_step
            for r in range(n):
                if j == 0 and r + AHEAD < n_left:
                    for k in range(line.n_terms):
                        HT_PREFETCH(values + <intp_t>rows[r + AHEAD] * row_step
                                    + line.feature[k] * column_step)
                x[r] = <float64_t>column[<intp_t>rows[r] * row_step]
            ht_add_line_term(x, <int>n, line.coef[j], line.center[j], line.low[j],
                             line.high[j], total, width)
        for r in range(n):
            raw[<intp_t>rows[r] * raw_step] += min(
                max(total[r] + line.constant, line.least), line.most)
        rows += n
        n_left -= n


def add_lines(
    const real_t[:, :] values, const uint32_t[::1] rows, const int64_t[::1] start,
    const int64_t[::1] stop, leaves, tree, float64_t[:] raw, int n_threads,
):
    """Add the outputs of some leaves (node numbers) of a tree with one output to their rows."""
    cdef const int64_t[::1] node = np.ascontiguousarray(leaves, dtype=np.int64)
    cdef const int64_t[::1] ptr = tree.coef_ptr
    cdef const int32_t[::1] feature = tree.coef_feature
    cdef const float64_t[::1] center = tree.coef_center, low = tree.coef_low, high = tree.coef_high
    cdef const float64_t[:, ::1] constant = tree.values, coef = tree.coef
    cdef const float64_t[:, :, ::1] limits
    cdef intp_t n_leaves = start.shape[0], leaf, part, n_terms = feature.shape[0]
    cdef intp_t row_step = values.strides[0] // <intp_t>sizeof(real_t)
    cdef intp_t column_step = values.strides[1] // <intp_t>sizeof(real_t)
    cdef intp_t raw_step = raw.strides[0] // <intp_t>sizeof(float64_t)
    cdef Parts parts = Parts(values.shape[0], rows, start, stop)
    if raw.shape[0] != values.shape[0] or node.shape[0] != n_leaves:
        raise ValueError("the arrays differ in length")
    if (coef.shape[0] != n_terms or coef.shape[1] != 1 or center.shape[0] != n_terms
            or low.shape[0] != n_terms or high.shape[0] != n_terms
            or ptr.shape[0] != constant.shape[0] + 1):
        raise ValueError("the arrays of the terms differ in length")
    for part in range(n_terms):
        if not 0 <= feature[part] < values.shape[1]:
            raise ValueError("a column is out of range")
    made = np.zeros(max(1, n_leaves * sizeof(Line)), dtype=np.uint8)
    cdef uint8_t[::1] memory = made
    cdef Line* lines = <Line*>&memory[0]
    if tree.value_range is not None:
        limits = tree.value_range
    for leaf in range(n_leaves):
        if not 0 <= node[leaf] < constant.shape[0]:
            raise ValueError("no such node")
        if not 0 <= ptr[node[leaf]] <= ptr[node[leaf] + 1] <= n_terms:
            raise ValueError("a leaf has terms out of range")
        lines[leaf].n_terms = <int32_t>(ptr[node[leaf] + 1] - ptr[node[leaf]])
        if lines[leaf].n_terms:
            lines[leaf].feature = &feature[ptr[node[leaf]]]
            lines[leaf].coef = &coef[ptr[node[leaf]], 0]
            lines[leaf].center = &center[ptr[node[leaf]]]
            lines[leaf].low = &low[ptr[node[leaf]]]
            lines[leaf].high = &high[ptr[node[leaf]]]
        lines[leaf].constant = constant[node[leaf], 0]
        lines[leaf].least = -INFINITY
        lines[leaf].most = INFINITY
        if tree.value_range is not None:
            lines[leaf].least = limits[node[leaf], 0, 0]
            lines[leaf].most = limits[node[leaf], 1, 0]
    n_threads = <int>min(n_threads, parts.n_parts)
    cdef int width = ht_vector_bytes()
    with nogil:
        for part in prange(parts.n_parts, num_threads=team_of(n_threads),
                           schedule="dynamic", chunksize=1):
            for leaf in range(n_leaves):
                add_line(lines + leaf, &values[0, 0], row_step, column_step,
                         &rows[0] + parts.bound[leaf, part],
                         parts.bound[leaf, part + 1] - parts.bound[leaf, part], &raw[0], raw_step,
                         width)


# ---- Sums over the rows and nodes of a grown tree ---------------------------------------------


def leaf_means(
    const Node[::1] nodes, const float64_t[:, :] y, const float64_t[::1] weight,
    const uint32_t[::1] rows, const intp_t[::1] start, const intp_t[::1] stop,
    float64_t[:, ::1] value,
):
    """OUT mean targets of the rows of each leaf; exactly the target for a single row."""
    cdef intp_t n_nodes = nodes.shape[0], n_outputs = y.shape[1], n = y.shape[0], i, k, node
    cdef int width = ht_vector_bytes()
    cdef float64_t total, mean
    if (start.shape[0] != n_nodes or stop.shape[0] != n_nodes or value.shape[0] != n_nodes
            or value.shape[1] != n_outputs or (weight is not None and weight.shape[0] != n)):
        raise ValueError("rows, targets and nodes differ in length")
    for i in range(rows.shape[0]):
        if rows[i] >= n:
            raise ValueError("a row is out of range")
    cdef const float64_t[:, ::1] weighted = np.ascontiguousarray(
        y if weight is None else np.multiply(y, np.asarray(weight)[:, None]))
    cdef Column weights = make_column(NULL, NULL if weight is None else &weight[0], 1, n)
    cdef Column column
    for k in range(n_outputs):
        column = make_column(NULL, &weighted[0, k], n_outputs, n)
        for node in range(n_nodes):
            if nodes[node].left >= 0 or start[node] == stop[node]:
                continue
            if not 0 <= start[node] < stop[node] <= rows.shape[0]:
                raise ValueError("a leaf has rows out of range")
            # Multiplying by a weight would round the target of a single row.
            mean = y[rows[start[node]], k]
            if stop[node] - start[node] > 1:
                sum_column(&weights, &rows[start[node]], stop[node] - start[node], width, NULL,
                           &total)
                sum_column(&column, &rows[start[node]], stop[node] - start[node], width, NULL,
                           &mean)
                mean /= total
            value[node, k] = mean


def pair_gains(Node[::1] nodes, const float64_t[:, ::1] sums):
    """Write the gains of splits, sums of squares between the two means, from sums and weights."""
    cdef intp_t k
    cdef const float64_t* left
    cdef const float64_t* right
    cdef float64_t gap
    if sums.shape[0] != nodes.shape[0] or sums.shape[1] != 2:
        raise ValueError("one sum and one weight per node are needed")
    with nogil:
        for k in range(nodes.shape[0]):
            if nodes[k].left >= 0:
                left = &sums[nodes[k].left, 0]
                right = &sums[nodes[k].right, 0]
                gap = left[0] / left[1] - right[0] / right[1]
                nodes[k].gain = gap * gap * left[1] * right[1] / (left[1] + right[1])


def feature_gains(const Node[::1] nodes, float64_t[::1] total):
    """Add the positive gains of splits to the totals of their features."""
    cdef intp_t k
    with nogil:
        for k in range(nodes.shape[0]):
            if nodes[k].left >= 0 and 0 <= nodes[k].feature < total.shape[0]:
                total[nodes[k].feature] += max(nodes[k].gain, 0.0)


# ---- Centred moments of leaves ----------------------------------------------------------------


def centre_moments(const float64_t[:, :, :] by_column, const float64_t[:, :] squares,
                   const int32_t[::1] n_columns, const int32_t[:, ::1] feature,
                   const float64_t[:, ::1] sums, const float64_t[:, ::1] shift,
                   const float64_t[::1] scale, float64_t constant):
    """Moments of `leaf_moments` about the means of the leaves, and means and ranges of columns.

    Returns the products, the gradients, and in units of the table the means, minima and maxima.
    `sums` are those of gradients and hessians, by leaf; `scale` has an entry for every feature.
    Columns with missing values are centred already. A column that keeps at most the share
    `constant` of its squares has zeros.
    """
    cdef intp_t n = by_column.shape[0], width = by_column.shape[1], leaf, i, j, k, at
    cdef float64_t before, h, unit
    if (squares.shape[0] != n or n_columns.shape[0] != n or sums.shape[0] != n
            or shift.shape[0] != n or shift.shape[1] != width or feature.shape[0] != n
            or feature.shape[1] != width or sums.shape[1] < 2 or by_column.shape[2] < 6
            or squares.shape[1] < width * (width + 1) // 2):
        raise ValueError("the moments do not fit the leaves")
    for leaf in range(n):
        if not 0 <= n_columns[leaf] <= width:
            raise ValueError("a leaf has more columns than its moments")
        for i in range(width):
            if feature[leaf, i] >= scale.shape[0]:
                raise ValueError("a column is out of range")
    products, by_row = np.zeros((n, width, width)), np.zeros((5, n, width))
    kept = np.zeros(width, dtype=np.uint8)
    cdef float64_t[:, ::1] center = by_row[0], grad = by_row[1], mean = by_row[2]
    cdef float64_t[:, ::1] low = by_row[3], high = by_row[4]
    cdef float64_t[:, :, ::1] matrix = products
    cdef uint8_t[::1] varies = kept
    with nogil:
        for leaf in range(n):
            k, h, at = n_columns[leaf], sums[leaf, 1], 0
            for i in range(width):
                if by_column[leaf, i, 0] > 0 and by_column[leaf, i, 5] == 0:
                    center[leaf, i] = by_column[leaf, i, 1] / by_column[leaf, i, 0]
                unit = scale[max(feature[leaf, i], 0)]
                mean[leaf, i] = shift[leaf, i] + center[leaf, i] * unit
                low[leaf, i] = shift[leaf, i] + by_column[leaf, i, 3] * unit
                high[leaf, i] = shift[leaf, i] + by_column[leaf, i, 4] * unit
            for i in range(k):
                # The triangle of a leaf is packed for its own number of columns.
                before = squares[leaf, at]
                for j in range(i, k):
                    matrix[leaf, i, j] = (squares[leaf, at]
                                          - center[leaf, i] * center[leaf, j] * h)
                    at += 1
                varies[i] = matrix[leaf, i, i] > constant * before
            for i in range(k):
                if varies[i]:
                    grad[leaf, i] = by_column[leaf, i, 2] - center[leaf, i] * sums[leaf, 0]
                for j in range(i, k):
                    if not (varies[i] and varies[j]):
                        matrix[leaf, i, j] = 0.0
                    matrix[leaf, j, i] = matrix[leaf, i, j]
    return products, *by_row[1:]


# ---- Lines of leaves --------------------------------------------------------------------------
#
# From the units of their columns to the arrays of a tree.


def column_units(
    const int32_t[:, ::1] feature, const float64_t[::1] mean, const float64_t[::1] scale
):
    """Means and inverse scales of the features of each leaf; those of feature 0 where it is -1."""
    cdef intp_t n = feature.shape[0], width = feature.shape[1], i, j
    cdef int32_t f
    means, factors = np.empty((n, width)), np.empty((n, width))
    cdef float64_t[:, ::1] shift = means, factor = factors
    if mean.shape[0] != scale.shape[0]:
        raise ValueError("each column needs a mean and a scale")
    for i in range(n):
        for j in range(width):
            f = max(feature[i, j], 0)
            if f >= mean.shape[0]:
                raise ValueError("a column is out of range")
            shift[i, j] = mean[f]
            factor[i, j] = 1.0 / scale[f]
    return means, factors


cdef float64_t short_bound(float64_t bound, float64_t margin) noexcept nogil:
    """Round a bound up to float32 if that is a small change relative to the margin.

    Then prediction can clip a float32 table without conversion to float64.
    """
    cdef float32_t near = <float32_t>bound
    cdef float64_t moved
    if near < bound:
        near = nextafterf(near, <float32_t>INFINITY)
    moved = near
    return moved if moved - bound <= margin / 65536 else bound


def short_bounds(const float64_t[::1] bound, const float64_t[::1] margin):
    """`short_bound` of arrays; for tests."""
    if bound.shape[0] != margin.shape[0]:
        raise ValueError("each bound needs a margin")
    return np.array([short_bound(bound[i], margin[i]) for i in range(bound.shape[0])])


cdef inline bint is_term(float64_t coef, float64_t low, float64_t high) noexcept nogil:
    """Whether a slope is kept: an inherited one has no range if all its values are missing."""
    return coef != 0 and isfinite(coef) and low <= high


def line_terms(
    intp_t n_nodes, const intp_t[::1] leaves, const int32_t[::1] n_columns,
    const int32_t[:, ::1] feature, const float64_t[:, ::1] coef, const float64_t[:, ::1] center,
    const float64_t[:, ::1] low, const float64_t[:, ::1] high, const float64_t[::1] column_scale,
    const float64_t[::1] deviation, double margin, double scale,
):
    """Terms of the lines of leaves (ascending node numbers), by name of the fields of `Tree`.

    `coef` are slopes per `column_scale`, and the result is multiplied by `scale`. Ranges are
    extended by `margin` deviations, and rounded as in `short_bound`; a NaN for no ranges.
    """
    cdef intp_t n = leaves.shape[0], width = feature.shape[1], leaf, j, at = 0, node = 0
    cdef int32_t f
    cdef float64_t extended
    cdef bint clips = margin == margin
    if (n_columns.shape[0] != n or feature.shape[0] != n or coef.shape[0] != n
            or center.shape[0] != n or low.shape[0] != n or high.shape[0] != n
            or coef.shape[1] != width or center.shape[1] != width or low.shape[1] != width
            or high.shape[1] != width or column_scale.shape[0] != deviation.shape[0]):
        raise ValueError("the arrays of the leaves differ in shape")
    pointers = np.zeros(n_nodes + 1, dtype=np.int64)
    features = np.empty(n * width, dtype=np.int32)
    numbers = np.empty((4, n * width))
    cdef int64_t[::1] ptr = pointers
    cdef int32_t[::1] out_feature = features
    cdef float64_t[:, ::1] out = numbers
    for leaf in range(n):
        if not node <= leaves[leaf] < n_nodes or not 0 <= n_columns[leaf] <= width:
            raise ValueError("a leaf is out of order, or has more columns than there are")
        while node < leaves[leaf]:
            node += 1
            ptr[node] = at
        for j in range(n_columns[leaf]):
            if not is_term(coef[leaf, j], low[leaf, j], high[leaf, j]):
                continue
            f = feature[leaf, j]
            if not 0 <= f < column_scale.shape[0]:
                raise ValueError("a column is out of range")
            out_feature[at] = f
            out[0, at] = coef[leaf, j] / column_scale[f] * scale
            out[1, at] = center[leaf, j]
            extended = margin * deviation[f]
            out[2, at] = -short_bound(extended - low[leaf, j], extended)
            out[3, at] = short_bound(extended + high[leaf, j], extended)
            at += 1
    while node < n_nodes:
        node += 1
        ptr[node] = at
    terms = {"coef_ptr": pointers, "coef_feature": features[:at], "coef": numbers[0, :at],
             "coef_center": numbers[1, :at]}
    if clips:
        terms |= {"coef_low": numbers[2, :at], "coef_high": numbers[3, :at]}
    return terms


def line_reach(
    const float64_t[:, ::1] values, const int64_t[::1] ptr, const float64_t[:, ::1] coef,
    const float64_t[::1] center, const float64_t[::1] low, const float64_t[::1] high,
):
    """Largest magnitude of the output of each node of a tree with one output."""
    cdef intp_t n = values.shape[0], node, j
    cdef float64_t total, below, above
    if (ptr.shape[0] != n + 1 or coef.shape[0] != center.shape[0]
            or low.shape[0] != center.shape[0] or high.shape[0] != center.shape[0]):
        raise ValueError("the arrays of the terms differ in length")
    reach = np.empty(n)
    cdef float64_t[::1] out = reach
    for node in range(n):
        total = 0.0
        if not 0 <= ptr[node] <= ptr[node + 1] <= center.shape[0]:
            raise ValueError("a node has terms out of range")
        for j in range(ptr[node], ptr[node + 1]):
            below, above = fabs(low[j] - center[j]), fabs(high[j] - center[j])
            total += fabs(coef[j, 0]) * max(below, above)
        out[node] = fabs(values[node, 0]) + total
    return reach
