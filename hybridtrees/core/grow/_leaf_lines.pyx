"""The lines of leaves, from the units of their columns to the arrays of a tree."""

from libc.math cimport INFINITY, fabs, isfinite, nextafterf

from hybridtrees.core.base._types cimport float32_t, float64_t, int32_t, int64_t, intp_t

import numpy as np


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
