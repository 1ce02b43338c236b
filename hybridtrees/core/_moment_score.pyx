"""Score of one side of a cut whose model is linear.

A side has the columns 1, r_1 .. r_k (what it inherits) and x, the feature that is cut, which stands
at the mean of its bin. All but the first are centred at their means over the side, so that the
intercept is apart from the slopes: with G, H the sums of gradients and hessians, A the centred
moments and b the centred gradients,

    score = T(G)^2 / (H + lambda) + b' (A + lambda I)^-1 b,

twice the loss that the side's model saves; the first term is the score of a constant leaf. Rows
that lack x stand at its mean, so they count for everything but x.

The raw penalty is lambda (c^2 + |b|^2), with c the output where every feature is 0. With u the
means of the columns in the units of the table, c is the output at the means less u'b, and for
given slopes the best output at the means is (lambda u'b - G) / (H + lambda). Put into the loss,
this leaves the score above with

    A + p H u u'   in place of A,    b + p G u   in place of b,    p = lambda / (H + lambda).

The order of the sums is h, g, n, h r, h r r', g r, and those with x: h x, h x x, g x, h r x.
"""

from libc.string cimport memset

from hybridtrees.core._moment_solve cimport solve_constrained, solve_ridge
from hybridtrees.core._split cimport node_score, node_weight, read_cell
from hybridtrees.core._types cimport NodeSums, float64_t, int8_t, int32_t, intp_t

cdef float64_t DEPENDENT = 1e-7    # share of x that the columns before it must leave


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
            # The sample tells means and covariances in the bin; its sums are known.
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
    """Score of the slopes of two columns, both with the ridge on their diagonal already.

    A column without spread comes with 0 for its diagonal.
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
        # The signs of the part above hold only if it is not turned round.
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
    if xx <= 0 or left <= DEPENDENT * xx:
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
        # Gradients at the function above, which stays.
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
        # The ridge is no part of the variance.
        out.variance = (factor * factor * max(ll - scan.ridge, 0.0) + 2 * factor * coef * lx
                        + coef * coef * max(xx - ridge, 0.0)) / hess
    return score


cdef float64_t score_full(
    MomentScan* scan, const float64_t* known, const float64_t* lacking, SideModel* out
) noexcept nogil:
    """Score of a side whose regressors are all fitted anew."""
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
        # Full fits take no value from above, so this one need not know the raw penalty.
        out.value = node_weight(grad, hess, scan.rules)
        out.center = center
    return score


cdef float64_t score_side(
    MomentScan* scan, const float64_t* known, const float64_t* lacking, SideModel* out
) noexcept nogil:
    if scan.fit == FULL and scan.n_regressors > 1:
        return score_full(scan, known, lacking, out)
    return score_single(scan, known, lacking, out)
