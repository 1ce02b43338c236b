"""The best cut of a feature if both children are small linear models (PLGB)."""

from libc.math cimport INFINITY, fabs, sqrt
from libc.string cimport memcpy, memset

from hybridtrees.core.base._types cimport (
    GRAD_ONLY, HT_DEPENDENT, HT_ROUNDING, BinView, NodeSums, SplitInfo, SplitRules, StatsView,
    float64_t, int32_t, int64_t, int8_t, intp_t, uint8_t,
)
from hybridtrees.core.search._split cimport (
    add_sums, bounded_weight, ends_group, fill_categories, is_empty, is_smoothed, larger_left,
    node_score, node_weight,
    order_bins, read_cell,
)

import numpy as np


# ---- Small penalised least-squares problems ---------------------------------------------------
#
# Both functions minimise ``b'Ab / 2 - r'b``, the second with L1 penalties and sign constraints, and
# return minus twice the minimum. A column that depends linearly on the columns before it gets a
# coefficient of 0.


cdef int32_t MAX_SWEEPS = 1000


cdef float64_t solve_ridge(
    int32_t n, float64_t* matrix, const float64_t* right, float64_t* coef
) noexcept nogil:
    """Solve A b = r by Cholesky factorisation, in place in `matrix` (n x n, row by row)."""
    cdef int32_t i, j, k
    cdef float64_t total, least, score = 0
    for j in range(n):
        least = HT_DEPENDENT * matrix[j * n + j]
        total = matrix[j * n + j]
        for k in range(j):
            total -= matrix[j * n + k] * matrix[j * n + k]
        if not total > least or not total > 0:
            for i in range(n):
                if i >= j:
                    matrix[i * n + j] = 0
                else:
                    matrix[j * n + i] = 0
            continue
        matrix[j * n + j] = sqrt(total)
        for i in range(j + 1, n):
            total = matrix[i * n + j]
            for k in range(j):
                total -= matrix[i * n + k] * matrix[j * n + k]
            matrix[i * n + j] = total / matrix[j * n + j]
    for j in range(n):
        total = right[j]
        for k in range(j):
            total -= matrix[j * n + k] * coef[k]
        coef[j] = total / matrix[j * n + j] if matrix[j * n + j] > 0 else 0.0
        score += coef[j] * coef[j]
    for j in range(n - 1, -1, -1):
        if matrix[j * n + j] <= 0:
            coef[j] = 0
            continue
        total = coef[j]
        for k in range(j + 1, n):
            total -= matrix[k * n + j] * coef[k]
        coef[j] = total / matrix[j * n + j]
    return score


cdef float64_t solve_constrained(
    int32_t n, const float64_t* matrix, const float64_t* right, float64_t alpha,
    const int8_t* sign, float64_t* coef,
) noexcept nogil:
    """Minimise with the penalty ``alpha |b|_1``, and b_j of the given sign unless that is 0.

    Coordinate descent: with few columns a few sweeps are enough. `sign` may be NULL.
    """
    cdef int32_t j, k, _sweep
    cdef float64_t value, change, largest, size, score = 0
    for j in range(n):
        coef[j] = 0
    for _sweep in range(MAX_SWEEPS):
        largest = 0
        size = 0
        for j in range(n):
            if not matrix[j * n + j] > 0:
                continue
            value = right[j]
            for k in range(n):
                if k != j:
                    value -= matrix[j * n + k] * coef[k]
            if value > alpha:
                value = (value - alpha) / matrix[j * n + j]
            elif value < -alpha:
                value = (value + alpha) / matrix[j * n + j]
            else:
                value = 0
            if sign != NULL and sign[j] * value < 0:
                value = 0
            change = sqrt(matrix[j * n + j])
            size = max(size, fabs(value) * change)
            largest = max(largest, fabs(value - coef[j]) * change)
            coef[j] = value
        if largest <= HT_ROUNDING * size:
            break
    for j in range(n):
        value = 2 * (right[j] * coef[j] - alpha * fabs(coef[j]))
        for k in range(n):
            value -= coef[j] * matrix[j * n + k] * coef[k]
        score += value
    return score


def minimise_many(const float64_t[:, :, ::1] matrix, const float64_t[:, ::1] right,
                  const int32_t[::1] sizes, float64_t alpha=0.0, const int8_t[:, ::1] signs=None,
                  float64_t ridge=0.0):
    """Coefficients of many problems, and minus twice their minima.

    A problem has the first `sizes` rows and columns of its matrix; other coefficients are 0. The
    ridge is added to the positive entries of the diagonal.
    """
    cdef int32_t i, j, n, problem, width = <int32_t>right.shape[1]
    cdef float64_t[::1] packed = np.empty(max(1, width * width))
    coef, scores = np.zeros((right.shape[0], max(1, width))), np.zeros(right.shape[0])
    cdef float64_t[:, ::1] out = coef
    cdef float64_t[::1] score = scores
    if (matrix.shape[0] != right.shape[0] or sizes.shape[0] != right.shape[0]
            or matrix.shape[1] != width or matrix.shape[2] != width
            or (signs is not None and (signs.shape[0] != right.shape[0]
                                       or signs.shape[1] != width))):
        raise ValueError("the arrays of the problems have inconsistent shapes")
    for problem in range(<int32_t>right.shape[0]):
        n = sizes[problem]
        if not 0 <= n <= width:
            raise ValueError("a problem is larger than its matrix")
        if n == 0:
            continue
        for i in range(n):
            for j in range(n):
                packed[i * n + j] = matrix[problem, i, j]
            if packed[i * n + i] > 0:
                packed[i * n + i] += ridge
        if alpha == 0 and signs is None:
            score[problem] = solve_ridge(n, &packed[0], &right[problem, 0], &out[problem, 0])
        else:
            score[problem] = solve_constrained(
                n, &packed[0], &right[problem, 0], alpha,
                &signs[problem, 0] if signs is not None else NULL, &out[problem, 0])
    return coef[:, :width], scores


# ---- Score of one side of a cut whose model is linear -----------------------------------------
#
# A side has the columns 1, r_1 .. r_k (inherited) and x, the feature that is cut, with the means of
# its bins as values. All but the first are centred at their means over the side, which separates
# the intercept from the slopes. With G, H the sums of gradients and hessians, A the centred moments
# and b the centred gradients,
#
#     score = T(G)^2 / (H + lambda) + b' (A + lambda I)^-1 b,
#
# twice the loss reduction by the side's model; the first term is the score of a constant leaf. Rows
# in which x is missing have its mean, so they count for everything but x.
#
# The raw penalty is lambda (c^2 + |b|^2), with c the output where every feature is 0. With u the
# means of the columns in the units of the table, c is the output at the means minus u'b, and for
# given slopes the best output at the means is (lambda u'b - G) / (H + lambda). Substituted into the
# loss, this gives the score above with
#
#     A + p H u u'   in place of A,    b + p G u   in place of b,    p = lambda / (H + lambda).
#
# The order of the sums is h, g, n, h r, h r r', g r, and those with x: h x, h x x, g x, h r x.


cdef void add_bin(MomentScan* scan, int32_t b, float64_t* sums) noexcept nogil:
    """Add the sums of one cell."""
    cdef NodeSums cell = read_cell(scan.stats, scan.cells, b)
    cdef float64_t hess = <float64_t>cell.hess * scan.stats.hess_unit
    cdef float64_t grad = <float64_t>cell.grad * scan.stats.grad_unit
    cdef int32_t k = scan.n_regressors, j, at = 3, n = 2 * k + triangle(k)
    cdef float64_t factor = 1, x
    cdef const float64_t* moments
    sums[0] += hess
    sums[1] += grad
    sums[2] += <float64_t>cell.n_samples
    if k > 0:
        moments = scan.moments + <intp_t>b * scan.cell_size
        if scan.sampled:
            # Means and covariances in the bin are from the sample, the sums of g and h exact.
            factor = hess / moments[0] if moments[0] > 0 else 0.0
        for j in range(n):
            sums[at + j] += factor * moments[1 + j]
        if scan.sampled and moments[0] > 0:
            for j in range(k):
                sums[at + n - k + j] += moments[1 + j] / moments[0] * (
                    grad - factor * moments[1 + n])
        at += n
    if scan.x == NULL:
        return
    x = scan.x[b]
    sums[at] += hess * x
    sums[at + 1] += hess * x * x
    sums[at + 2] += grad * x
    for j in range(k):
        sums[at + 3 + j] += factor * scan.moments[<intp_t>b * scan.cell_size + 1 + j] * x


cdef float64_t score_pair(
    MomentScan* scan, float64_t ll, float64_t gl, float64_t xx, float64_t gx, float64_t lx,
    float64_t* factor, float64_t* coef,
) noexcept nogil:
    """Score of the slopes of two columns; their diagonals include the ridge.

    The diagonal of a constant column is 0.
    """
    cdef float64_t matrix[4]
    cdef float64_t right[2]
    cdef float64_t beta[2]
    cdef float64_t left, rest
    cdef int8_t signs[2]
    if scan.rules.reg_alpha > 0 or scan.bounds != NULL:
        matrix[0] = ll
        matrix[1] = lx if ll > 0 and xx > 0 else 0.0
        matrix[2] = matrix[1]
        matrix[3] = xx
        right[0] = -gl
        right[1] = -gx
        # The inherited part keeps its signs only if its factor is not negative.
        signs[0] = scan.bounds != NULL
        signs[1] = scan.monotone
        rest = solve_constrained(2, matrix, right, scan.rules.reg_alpha, signs, beta)
        factor[0] = beta[0]
        coef[0] = beta[1]
        return rest
    factor[0] = 0
    coef[0] = 0
    if ll <= 0:
        if xx <= 0:
            return 0.0
        coef[0] = -gx / xx
        return gx * gx / xx
    factor[0] = -gl / ll
    left = xx - lx * lx / ll
    if xx <= 0 or left <= HT_DEPENDENT * xx:
        return gl * gl / ll
    rest = gx - lx * gl / ll
    coef[0] = -rest / left
    factor[0] = -(gl + lx * coef[0]) / ll
    return gl * gl / ll + rest * rest / left


cdef float64_t score_single(
    MomentScan* scan, const float64_t* known, const float64_t* lacking, SideModel* out
) noexcept nogil:
    """Score of a side that inherits one linear part, or none."""
    cdef float64_t ridge = scan.rules.reg_lambda
    cdef float64_t hess = known[0], grad = known[1], mean = 0, center = 0, total, grad_known
    cdef float64_t ll = 0, gl = 0, lx = 0, xx = 0, gx = 0, factor = 0, coef = 0, score
    cdef float64_t pull = 0, from_l = 0, from_x = 0
    cdef int32_t k = scan.n_regressors, at = 3 + 3 * k
    cdef float64_t lin = known[3] if k else 0.0, squares = known[4] if k else 0.0
    cdef float64_t known_lin = lin, grad_lin = known[5] if k else 0.0
    if lacking != NULL:
        hess += lacking[0]
        grad += lacking[1]
        if k:
            lin += lacking[3]
            squares += lacking[4]
            grad_lin += lacking[5]
    grad_known = known[1]
    if scan.x != NULL and known[0] > 0:
        center = known[at] / known[0]
        gx = known[at + 2]
        xx = known[at + 1] - known[at] * center
    if scan.fit == ADDITIVE:
        # Gradients at the inherited function, which does not change.
        grad += scan.value * hess + scan.scale * lin
        grad_known += scan.value * known[0] + scan.scale * known_lin
        if scan.x != NULL:
            gx += scan.value * known[at]
            if k:
                gx += scan.scale * known[at + 3]
    elif k:
        mean = lin / hess
        ll = squares - lin * mean
        gl = grad_lin - mean * grad
    if scan.x != NULL and known[0] > 0:
        gx -= center * grad_known
        if k:
            lx = known[at + 3] - center * known_lin
        xx = spread(known[at + 1], xx, ridge)
    if k and scan.fit != ADDITIVE:
        ll = spread(squares, ll, scan.ridge)
    if scan.origin != NULL:
        pull = ridge / (hess + ridge)
        from_l = mean + scan.origin[0] if ll > 0 else 0.0
        from_x = center + scan.x_origin if xx > 0 else 0.0
    score = node_score(grad, hess, scan.rules, scan.bounds)
    score += score_pair(
        scan, ll + pull * hess * from_l * from_l, gl + pull * grad * from_l,
        xx + pull * hess * from_x * from_x, gx + pull * grad * from_x,
        lx + pull * hess * from_l * from_x, &factor, &coef)
    if out != NULL:
        total = node_weight(grad - ridge * (factor * from_l + coef * from_x), hess, scan.rules)
        if scan.fit == ADDITIVE:
            factor = scan.scale
            mean = lin / hess
            ll = spread(squares, squares - lin * mean, scan.ridge)
        out.value = total if scan.fit != ADDITIVE else total + scan.value + scan.scale * mean
        out.factor = factor
        out.mean = mean
        out.coef = coef
        out.center = center
        # Without the ridge.
        out.variance = (factor * factor * max(ll - scan.ridge, 0.0) + 2 * factor * coef * lx
                        + coef * coef * max(xx - ridge, 0.0)) / hess
    return score


cdef float64_t score_full(
    MomentScan* scan, const float64_t* known, const float64_t* lacking, SideModel* out
) noexcept nogil:
    """Score of a side if all its regressors are fitted."""
    cdef float64_t matrix[(MAX_REGRESSORS + 1) * (MAX_REGRESSORS + 1)]
    cdef float64_t right[MAX_REGRESSORS + 1]
    cdef float64_t coef[MAX_REGRESSORS + 1]
    cdef float64_t mean[MAX_REGRESSORS]
    cdef int8_t signs[MAX_REGRESSORS + 1]
    cdef float64_t ridge = scan.rules.reg_lambda, hess = known[0], grad = known[1], center = 0
    cdef float64_t total, score, pull
    cdef float64_t from_zero[MAX_REGRESSORS + 1]
    cdef int32_t k = scan.n_regressors, n, i, j, at = 3 + k
    cdef int32_t gradients = at + triangle(k), with_x = gradients + k
    if lacking != NULL:
        hess += lacking[0]
        grad += lacking[1]
    n = k + (scan.x != NULL and known[0] > 0)
    for i in range(k):
        total = known[3 + i] + (lacking[3 + i] if lacking != NULL else 0.0)
        mean[i] = total / hess
    for i in range(k):
        for j in range(i, k):
            total = known[at] + (lacking[at] if lacking != NULL else 0.0)
            matrix[j * n + i] = total - hess * mean[i] * mean[j]
            matrix[i * n + j] = matrix[j * n + i]
            if i == j:
                matrix[i * n + i] = spread(total, matrix[i * n + i], scan.ridge)
            at += 1
        total = known[gradients + i] + (lacking[gradients + i] if lacking != NULL else 0.0)
        right[i] = -(total - mean[i] * grad)
    if n > k:
        center = known[with_x] / known[0]
        total = known[with_x + 1] - known[with_x] * center
        matrix[k * n + k] = spread(known[with_x + 1], total, ridge)
        right[k] = -(known[with_x + 2] - center * known[1])
        for j in range(k):
            matrix[k * n + j] = known[with_x + 3 + j] - center * known[3 + j]
            matrix[j * n + k] = matrix[k * n + j]
    for i in range(n):
        if not matrix[i * n + i] > 0:
            for j in range(n):
                matrix[i * n + j] = 0
                matrix[j * n + i] = 0
    if scan.origin != NULL:
        pull = ridge / (hess + ridge)
        for i in range(n):
            from_zero[i] = mean[i] + scan.origin[i] if i < k else center + scan.x_origin
            if not matrix[i * n + i] > 0:
                from_zero[i] = 0
        for i in range(n):
            right[i] -= pull * grad * from_zero[i]
            for j in range(n):
                matrix[i * n + j] += pull * hess * from_zero[i] * from_zero[j]
    score = node_score(grad, hess, scan.rules, scan.bounds)
    if scan.rules.reg_alpha > 0 or scan.bounds != NULL:
        for i in range(k):
            signs[i] = scan.signs[i] if scan.signs != NULL else 0
        signs[k] = scan.monotone
        score += solve_constrained(n, matrix, right, scan.rules.reg_alpha, signs, coef)
    else:
        score += solve_ridge(n, matrix, right, coef)
    if out != NULL:
        memset(out, 0, sizeof(SideModel))
        # Children of full fits do not use this value, so it ignores the raw penalty.
        out.value = node_weight(grad, hess, scan.rules)
        out.center = center
    return score


cdef float64_t score_side(
    MomentScan* scan, const float64_t* known, const float64_t* lacking, SideModel* out
) noexcept nogil:
    if scan.fit == FULL and scan.n_regressors > 1:
        return score_full(scan, known, lacking, out)
    return score_single(scan, known, lacking, out)


# ---- Best cut of a feature if the children are linear models ----------------------------------
#
# The gain of a cut is the scores of both sides minus that of the node's own model. If scores have a
# closed form, those of all cuts are computed at once (moment_scores.h).


cdef extern from "moment_scores.h" nogil:
    enum:
        HT_H, HT_G, HT_L, HT_LL, HT_GL, HT_X, HT_XX, HT_GX, HT_LX, HT_SUMS
    void ht_moment_scores(
        int width, const float64_t* left, int n, const float64_t* all_sums,
        const float64_t* to_left, const float64_t* to_right, float64_t reg_lambda, float64_t least,
        int has_l, int has_x, float64_t* scores)


cdef float64_t score_cut(
    MomentScan* scan, bint missing_left, bint any_missing, SideModel* sides
) noexcept nogil:
    """Score of both sides, given the sums of the left one; -inf if the cut is not allowed."""
    cdef const float64_t* left = scan.lacking if any_missing and missing_left else NULL
    cdef const float64_t* right = scan.lacking if any_missing and not missing_left else NULL
    cdef const SplitRules* rules = scan.rules
    cdef float64_t left_hess = scan.left[0], right_hess, left_rows = scan.left[2], right_rows
    cdef float64_t low, high
    cdef int32_t j
    for j in range(scan.n_sums):
        scan.right[j] = scan.all_values[j] - scan.left[j]
    right_hess = scan.right[0]
    right_rows = scan.right[2]
    if left != NULL:
        left_hess += left[0]
        left_rows += left[2]
    if right != NULL:
        right_hess += right[0]
        right_rows += right[2]
    if (left_hess <= 0 or right_hess <= 0 or left_hess < rules.min_child_weight
            or right_hess < rules.min_child_weight):
        return -INFINITY
    if scan.stats.count_bits > 0 and rules.min_samples_leaf > 1 and (
            left_rows < rules.min_samples_leaf or right_rows < rules.min_samples_leaf):
        return -INFINITY
    if scan.bounds != NULL and scan.monotone != 0:
        low = bounded_weight(scan.left[1] + (left[1] if left != NULL else 0.0), left_hess, rules,
                             scan.bounds)
        high = bounded_weight(scan.right[1] + (right[1] if right != NULL else 0.0), right_hess,
                              rules, scan.bounds)
        if (low - high) * scan.monotone > 0:
            return -INFINITY
    return (score_side(scan, scan.left, left, &sides[0] if sides != NULL else NULL)
            + score_side(scan, scan.right, right, &sides[1] if sides != NULL else NULL))


cdef float64_t score_node(MomentScan* scan, bint any_missing) noexcept nogil:
    """Score of the node's own model, without x."""
    cdef const float64_t* x = scan.x
    cdef float64_t score
    if scan.fit == ADDITIVE and (scan.n_regressors > 0 or scan.value != 0):
        return 0.0                 # scores of sides are relative to the inherited function
    scan.x = NULL
    score = score_side(scan, scan.all_values, scan.lacking if any_missing else NULL, NULL)
    scan.x = x
    return score


cdef inline void left_of(
    MomentScan* scan, int32_t index, int32_t n_ordered, bint alone, bint ordered
) noexcept nogil:
    """Update the sums of the left side from those of the candidate before."""
    if alone:
        if index == n_ordered:      # all categories against the missing rows
            memcpy(scan.left, scan.all_values, scan.n_sums * sizeof(float64_t))
            return
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
    add_bin(scan, scan.order[index] if ordered else index, scan.left)


cdef void best_general(
    MomentScan* scan, int32_t n_ordered, bint alone, bint categorical, bint grouped,
    bint any_missing, float64_t* best_score, int32_t* best, uint8_t* best_side,
) noexcept nogil:
    """Best cut by scoring one cut after the other."""
    cdef int32_t side, n, b
    cdef float64_t score, rows_left, before, rows_per_hess = 0, known
    if scan.total.hess > 0:
        rows_per_hess = <float64_t>scan.total.n_samples / <float64_t>scan.total.hess
    known = rows_per_hess * <float64_t>(scan.total.hess - scan.missing.hess)
    for side in range(2 if any_missing else 1):
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
        before = rows_left = 0
        # With missing rows on the right there is one more candidate: all values left.
        n = n_ordered - (not alone) + (any_missing and side == 0)
        for b in range(n):
            if not categorical and is_empty(read_cell(scan.stats, scan.cells, b)):
                continue
            left_of(scan, b, n_ordered, alone, categorical)
            if grouped and b < n_ordered - 1:     # the last one divides known from missing values
                rows_left += rows_per_hess * <float64_t>read_cell(
                    scan.stats, scan.cells, scan.order[b]).hess
                if not ends_group(scan.rules, before, rows_left, known):
                    continue
                before = rows_left
            score = score_cut(scan, side == 1, any_missing, NULL)
            if score > best_score[0]:
                best_score[0] = score
                best[0] = b
                best_side[0] = <uint8_t>side


cdef inline bint is_plain(const MomentScan* scan) noexcept nogil:
    """Whether the closed form applies: at most two slopes, no bounds, no L1 or raw penalty."""
    return (scan.bounds == NULL and scan.rules.reg_alpha == 0 and scan.rules.max_delta_step <= 0
            and scan.origin == NULL
            and (scan.fit != FULL or scan.n_regressors <= 1))


cdef struct PlainSums:
    # The sums of the closed form, in the order of moment_scores.h.
    float64_t h, g, lin, squares, along, x, xx, gx, lx


cdef inline PlainSums plain_cell(
    const MomentScan* scan, int32_t b, float64_t hess, float64_t grad, bint has_l, bint has_x,
    bint adjusted,
) noexcept nogil:
    """Sums of the closed form over one cell, given those of its hessians and gradients.

    `adjusted`: whether moments are from a sample, or the fit is additive.
    """
    cdef PlainSums sums
    cdef float64_t factor = 1, lin = 0, x
    cdef const float64_t* moments
    sums.lin = sums.squares = sums.along = 0
    sums.x = sums.xx = sums.gx = sums.lx = 0
    if (has_l or adjusted) and scan.n_regressors > 0:
        moments = scan.moments + <intp_t>b * scan.cell_size
        if adjusted and scan.sampled:
            factor = hess / moments[0] if moments[0] > 0 else 0.0
        lin = factor * moments[1]
        if has_l:
            sums.lin = lin
            sums.squares = factor * moments[2]
            sums.along = factor * moments[3]
            if adjusted and scan.sampled and moments[0] > 0:
                sums.along += moments[1] / moments[0] * (grad - factor * moments[4])
    if adjusted and scan.fit == ADDITIVE:
        grad += scan.value * hess + scan.scale * lin
    sums.h = hess
    sums.g = grad
    if has_x:
        x = scan.x[b]
        sums.x = hess * x
        sums.xx = hess * x * x
        sums.gx = grad * x
        if has_l:
            sums.lx = lin * x
    return sums


cdef inline void write_sums(
    PlainSums sums, intp_t step, bint has_l, bint has_x, float64_t* out
) noexcept nogil:
    """OUT the sums that a scan reads."""
    out[HT_H * step] = sums.h
    out[HT_G * step] = sums.g
    if has_l:
        out[HT_L * step] = sums.lin
        out[HT_LL * step] = sums.squares
        out[HT_GL * step] = sums.along
    if has_x:
        out[HT_X * step] = sums.x
        out[HT_XX * step] = sums.xx
        out[HT_GX * step] = sums.gx
    if has_l and has_x:
        out[HT_LX * step] = sums.lx


cdef struct CellList:
    # The cells with rows, whose bins are in the order of the scan.
    int32_t n
    int32_t first            # only cuts after the cells [first, last) can leave enough rows
    int32_t last


cdef CellList list_cells(
    const MomentScan* scan, int32_t n_bins, float64_t need, float64_t* hess, float64_t* grad,
    float64_t* counts,
) noexcept nogil:
    """List the cells with rows; OUT their hessians and gradients, and the rows up to each.

    They are listed without branches: in small nodes, any of them may be empty. A side of a cut,
    with all missing rows, must have `need` rows.
    """
    cdef const int64_t* cells = scan.cells
    cdef int32_t* order = scan.order
    cdef StatsView stats = scan.stats[0]
    cdef float64_t n_samples, missing = <float64_t>scan.missing.n_samples
    cdef int64_t so_far = 0
    cdef NodeSums read
    cdef CellList found
    cdef int32_t b, c, n = 0
    if stats.layout == GRAD_ONLY:
        for b in range(n_bins):
            order[n] = b
            n += cells[b] != 0
    else:
        for b in range(n_bins):
            order[n] = b
            n += (cells[2 * b] | cells[2 * b + 1]) != 0
    for c in range(n):
        read = read_cell(&stats, cells, order[c])
        hess[c] = <float64_t>read.hess * stats.hess_unit
        grad[c] = <float64_t>read.grad * stats.grad_unit
        so_far += read.n_samples
        counts[c] = <float64_t>so_far
    n_samples = <float64_t>so_far
    found.n = n
    found.first, found.last = 0, n
    while found.first < n and counts[found.first] + missing < need:
        found.first += 1
    while found.last > 0 and n_samples - counts[found.last - 1] + missing < need:
        found.last -= 1
    return found


cdef inline void add_cells(
    const MomentScan* scan, const CellList* list, bint has_l, bint has_x, bint adjusted,
    float64_t* left, float64_t* total,
) noexcept nogil:
    """OUT sums left of the cuts, and the total; hessians and gradients of cells are in `left`.

    The flags are literals at the calls, and sums in a local struct, so that they can stay in
    registers.
    """
    cdef MomentScan own = scan[0]
    cdef PlainSums sums, cell
    cdef int32_t c
    sums.h = sums.g = sums.lin = sums.squares = sums.along = 0
    sums.x = sums.xx = sums.gx = sums.lx = 0
    for c in range(list.n):
        cell = plain_cell(&own, own.order[c], left[HT_H * CANDIDATES + c],
                          left[HT_G * CANDIDATES + c], has_l, has_x, adjusted)
        sums.h += cell.h
        sums.g += cell.g
        sums.lin += cell.lin
        sums.squares += cell.squares
        sums.along += cell.along
        sums.x += cell.x
        sums.xx += cell.xx
        sums.gx += cell.gx
        sums.lx += cell.lx
        if list.first <= c < list.last:
            write_sums(sums, CANDIDATES, has_l, has_x, left + c)
    write_sums(sums, 1, True, True, total)


cdef void sum_cuts(
    const MomentScan* scan, const CellList* list, bint has_l, float64_t* left, float64_t* total,
) noexcept nogil:
    """OUT sums left of every cut, and the total; hessians and gradients of cells are in `left`."""
    if scan.sampled or scan.fit == ADDITIVE:
        add_cells(scan, list, has_l, scan.x != NULL, True, left, total)
    elif has_l and scan.x != NULL:
        add_cells(scan, list, True, True, False, left, total)
    elif has_l:
        add_cells(scan, list, True, False, False, left, total)
    elif scan.x != NULL:
        add_cells(scan, list, False, True, False, left, total)
    else:
        add_cells(scan, list, False, False, False, left, total)


cdef float64_t plain_parent(
    MomentScan* scan, const float64_t* sums, const float64_t* lacking, bint has_l
) noexcept nogil:
    """Score of the node's own model, in closed form."""
    cdef float64_t hess = sums[HT_H] + lacking[HT_H], grad = sums[HT_G] + lacking[HT_G]
    cdef float64_t lin = sums[HT_L] + lacking[HT_L], squares = sums[HT_LL] + lacking[HT_LL]
    cdef float64_t ridge = scan.rules.reg_lambda, score, a, b
    if hess <= 0 or (scan.fit == ADDITIVE and (scan.n_regressors > 0 or scan.value != 0)):
        return 0.0
    score = grad * grad / (hess + ridge)
    if has_l:
        a = spread(squares, squares - lin * lin / hess, ridge)
        b = sums[HT_GL] + lacking[HT_GL] - lin / hess * grad
        if a > 0:
            score += b * b / a
    return score


cdef int32_t best_plain(
    MomentScan* scan, int32_t n_bins, bint any_missing, float64_t* parent, float64_t* best_score,
    int32_t* best, uint8_t* best_side,
) noexcept nogil:
    """Best cut of a numeric feature by the closed form, for all cuts at once.

    Also OUT the score of the node itself, and `order`, the bins with rows; returns their number.
    Cuts after empty bins are skipped, as they equal the ones before.
    """
    cdef float64_t sums[HT_SUMS]
    cdef float64_t lacking[HT_SUMS]
    cdef float64_t none[HT_SUMS]
    cdef float64_t* left = scan.candidates
    cdef float64_t* scores = left + HT_SUMS * CANDIDATES
    cdef float64_t* counts = scores + CANDIDATES
    cdef float64_t n_samples, need = 0.0, missing_rows, highest = best_score[0]
    cdef bint has_l = scan.n_regressors > 0 and scan.fit != ADDITIVE
    cdef CellList cells
    cdef int32_t j, n, side, at
    if scan.stats.count_bits > 0 and scan.rules.min_samples_leaf > 1:
        need = <float64_t>scan.rules.min_samples_leaf
    memset(lacking, 0, sizeof(lacking))
    memset(none, 0, sizeof(none))
    cells = list_cells(scan, n_bins, need, left + HT_H * CANDIDATES, left + HT_G * CANDIDATES,
                       counts)
    sum_cuts(scan, &cells, has_l, left, sums)
    n_samples = counts[cells.n - 1] if cells.n > 0 else 0.0
    missing_rows = <float64_t>scan.missing.n_samples
    if any_missing:
        write_sums(
            plain_cell(scan, n_bins, <float64_t>scan.missing.hess * scan.stats.hess_unit,
                       <float64_t>scan.missing.grad * scan.stats.grad_unit, has_l, False, True),
            1, True, True, lacking)
    parent[0] = plain_parent(scan, sums, lacking, has_l)
    for side in range(2 if any_missing else 1):
        # With missing rows on the right there is one more cut: all values left.
        n = min(cells.last, cells.n if any_missing and side == 0 else cells.n - 1)
        if n <= cells.first:
            continue
        ht_moment_scores(scan.width, left + cells.first, n - cells.first, sums,
                         &lacking[0] if side else &none[0], &none[0] if side else &lacking[0],
                         scan.rules.reg_lambda, scan.rules.min_child_weight, has_l,
                         scan.x != NULL, scores + cells.first)
        at = -1
        for j in range(cells.first, n):
            # Without missing rows all these cuts leave enough rows on both sides.
            if scores[j] > highest and not (any_missing and (
                counts[j] + (missing_rows if side else 0.0) < need
                or n_samples - counts[j] + (0.0 if side else missing_rows) < need
            )):
                highest = scores[j]
                at = j
        if at >= 0:
            best[0] = scan.order[at]
            best_side[0] = <uint8_t>side
    best_score[0] = highest
    return cells.n


cdef void open_feature(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total
) noexcept nogil:
    """Clear the sums, and read the cell of missing rows."""
    scan.total = total[0]
    scan.n_sums = 3 + 2 * scan.n_regressors + triangle(scan.n_regressors)
    if scan.x != NULL:
        scan.n_sums += 3 + scan.n_regressors
    memset(&scan.missing, 0, sizeof(NodeSums))
    memset(scan.lacking, 0, scan.n_sums * sizeof(float64_t))
    memset(scan.all_values, 0, scan.n_sums * sizeof(float64_t))
    if bins.has_missing[feature]:
        scan.missing = read_cell(scan.stats, scan.cells, bins.n_bins[feature])


cdef void gains_of_cuts(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total, float64_t* gains
) noexcept nogil:
    """OUT gain of the cut after each bin of a numeric feature, missing rows right, then left."""
    cdef int32_t n_bins = bins.n_bins[feature], side, b
    cdef bint any_missing
    cdef float64_t parent
    open_feature(scan, bins, feature, total)
    any_missing = not is_empty(scan.missing)
    for b in range(n_bins):
        add_bin(scan, b, scan.all_values)
    if any_missing:
        add_missing(scan, n_bins)
    parent = score_node(scan, any_missing)
    for side in range(2):
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
        for b in range(n_bins):
            add_bin(scan, b, scan.left)
            gains[side * n_bins + b] = score_cut(scan, side == 1, any_missing, NULL) - parent


cdef void scan_moments(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total,
    SplitInfo* info, SideModel* sides,
) noexcept nogil:
    """OUT best cut of a feature and, unless NULL, the models of its sides; gain -inf: none."""
    cdef int32_t n_bins = bins.n_bins[feature], n_ordered = n_bins, n_listed = -1, b, best = -1
    cdef bint categorical = bins.is_categorical[feature], alone = False, any_missing
    cdef bint plain, grouped
    cdef const SplitRules* rules = scan.rules
    cdef SplitRules smoothed
    cdef float64_t best_score = -INFINITY, parent = 0
    cdef uint8_t best_side = 0
    info.gain = -INFINITY
    info.feature = feature
    info.bin = -1
    info.missing_left = 0
    info.is_categorical = categorical
    open_feature(scan, bins, feature, total)
    any_missing = not is_empty(scan.missing)
    if categorical:
        # `candidates` is only used for numeric features, so it can serve as scratch.
        n_ordered = order_bins(
            scan.stats, rules, &scan.total, scan.cells, n_bins, scan.candidates, scan.order)
        alone = n_bins <= rules.max_cat_to_onehot
    plain = not categorical and is_plain(scan)
    if plain:
        n_listed = best_plain(
            scan, n_bins, any_missing, &parent, &best_score, &best, &best_side)
        if scan.stats.count_bits == 0:
            n_listed = -1        # cells that look empty may have tiny hessians
    if not plain or sides != NULL:
        for b in range(n_ordered if n_listed < 0 else n_listed):
            add_bin(scan, scan.order[b] if categorical or n_listed >= 0 else b, scan.all_values)
        if any_missing:
            add_missing(scan, n_bins)
    if not plain:
        grouped = categorical and is_smoothed(rules, n_bins)
        if grouped:
            smoothed = rules[0]
            smoothed.reg_lambda += rules.cat_l2
            scan.rules = &smoothed
        best_general(scan, n_ordered, alone, categorical, grouped, any_missing, &best_score, &best,
                     &best_side)
        scan.rules = rules
    if best < 0:
        return
    if not plain:
        parent = score_node(scan, any_missing)
    info.gain = best_score - parent
    if sides != NULL:
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
        for b in range(n_listed):
            if scan.order[b] <= best:
                add_bin(scan, scan.order[b], scan.left)
        for b in range(best if alone else 0, best + 1 if n_listed < 0 else 0):
            left_of(scan, b, n_ordered, alone, categorical)
        score_cut(scan, best_side == 1, any_missing, sides)
        describe_cut(scan, best, best_side, n_ordered, alone, any_missing, info)


cdef void add_missing(MomentScan* scan, int32_t n_bins) noexcept nogil:
    """Add the sums of the rows in which the feature is missing, without terms of the feature."""
    cdef const float64_t* x = scan.x
    scan.x = NULL
    add_bin(scan, n_bins, scan.lacking)
    scan.x = x


cdef void describe_cut(
    MomentScan* scan, int32_t best, uint8_t side, int32_t n_ordered, bint alone,
    bint any_missing, SplitInfo* info,
) noexcept nogil:
    """Write the cut into `info`, as the search without linear models does."""
    cdef int32_t b, bin, first = best if alone and best < n_ordered else 0
    cdef int32_t last = min(best + 1, n_ordered)
    info.missing_left = side
    info.bin = 0 if info.is_categorical else best
    memset(&info.left, 0, sizeof(NodeSums))
    for b in range(first, last):
        bin = scan.order[b] if info.is_categorical else b
        add_sums(&info.left, read_cell(scan.stats, scan.cells, bin))
    if side:
        add_sums(&info.left, scan.missing)
    if info.is_categorical:
        fill_categories(info, scan.order, n_ordered, first, last,
                        larger_left(info.left.hess, scan.total.hess))
    if not any_missing:
        info.missing_left = larger_left(info.left.hess, scan.total.hess)
