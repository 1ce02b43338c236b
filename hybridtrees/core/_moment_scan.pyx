"""Best cut of a feature where the children are linear models.

A cut gains the scores of both sides (`_moment_score`) less that of the node's own model. Where they
have a closed form, those of all cuts are computed side by side (moment_scores.h).
"""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from hybridtrees.core._moment_score cimport (
    ADDITIVE, CANDIDATES, FULL, MomentScan, SideModel, add_bin, score_side, spread, triangle,
)
from hybridtrees.core._split cimport add_sums, bounded_weight, is_empty, node_weight, read_cell
from hybridtrees.core._types cimport (
    BinView, NodeSums, SplitInfo, SplitRules, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)

cdef extern from "moment_scores.h" nogil:
    enum:
        HT_H
        HT_G
        HT_L
        HT_LL
        HT_GL
        HT_X
        HT_XX
        HT_GX
        HT_LX
        HT_SUMS
    void ht_moment_scores(
        int width, const float64_t* left, int n, const float64_t* all_sums,
        const float64_t* to_left, const float64_t* to_right, float64_t reg_lambda, float64_t least,
        int has_l, int has_x, float64_t* scores)


cdef float64_t score_cut(
    MomentScan* scan, bint missing_left, bint any_missing, SideModel* sides
) noexcept nogil:
    """Score of both sides, given the sums of the left one; -inf where the cut is not allowed."""
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
    """Score of the node's own model, which has no x."""
    cdef const float64_t* x = scan.x
    cdef float64_t score
    if scan.fit == ADDITIVE and (scan.n_regressors > 0 or scan.value != 0):
        return 0.0                 # the scores of the sides say what they add to it
    scan.x = NULL
    score = score_side(scan, scan.all_values, scan.lacking if any_missing else NULL, NULL)
    scan.x = x
    return score


cdef int32_t order_categories(MomentScan* scan, int32_t n_bins, float64_t* key) noexcept nogil:
    """Bins with rows in them, by rising leaf weight; equal weights keep the order of codes."""
    cdef NodeSums sums
    cdef float64_t value
    cdef int32_t b, i, n = 0
    for b in range(n_bins):
        sums = read_cell(scan.stats, scan.cells, b)
        if is_empty(sums):
            continue
        value = node_weight(<float64_t>sums.grad * scan.stats.grad_unit,
                            <float64_t>sums.hess * scan.stats.hess_unit, scan.rules)
        i = n
        while i > 0 and key[i - 1] > value:
            key[i] = key[i - 1]
            scan.order[i] = scan.order[i - 1]
            i -= 1
        key[i] = value
        scan.order[i] = b
        n += 1
    return n


cdef inline void left_of(
    MomentScan* scan, int32_t index, int32_t n_ordered, bint alone, bint ordered
) noexcept nogil:
    """Sums of the left side of a candidate, from those of the candidate before it."""
    if alone:
        if index == n_ordered:      # all categories against the missing rows
            memcpy(scan.left, scan.all_values, scan.n_sums * sizeof(float64_t))
            return
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
    add_bin(scan, scan.order[index] if ordered else index, scan.left)


cdef void best_general(
    MomentScan* scan, int32_t n_ordered, bint alone, bint categorical, bint any_missing,
    float64_t* best_score, int32_t* best, uint8_t* best_side,
) noexcept nogil:
    """Best cut, one after the other."""
    cdef int32_t side, n, b
    cdef float64_t score
    for side in range(2 if any_missing else 1):
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
        # With missing rows on the right there is one more candidate: all values on the left.
        n = n_ordered - 1
        if alone:
            n = n_ordered + (any_missing and side == 0)
        elif any_missing and side == 0:
            n = n_ordered
        for b in range(n):
            if not categorical and is_empty(read_cell(scan.stats, scan.cells, b)):
                continue
            left_of(scan, b, n_ordered, alone, categorical)
            score = score_cut(scan, side == 1, any_missing, NULL)
            if score > best_score[0]:
                best_score[0] = score
                best[0] = b
                best_side[0] = <uint8_t>side


cdef inline bint is_plain(const MomentScan* scan) noexcept nogil:
    """Whether moment_scores.h has the closed form: two slopes at most, no bounds, no L1 penalty."""
    return (scan.bounds == NULL and scan.rules.reg_alpha == 0 and scan.rules.max_delta_step <= 0
            and scan.origin == NULL
            and (scan.fit != FULL or scan.n_regressors <= 1))


cdef struct PlainSums:
    # The sums of a closed form, in the order of moment_scores.h.
    float64_t h
    float64_t g
    float64_t lin
    float64_t squares
    float64_t along
    float64_t x
    float64_t xx
    float64_t gx
    float64_t lx


cdef inline PlainSums plain_cell(
    const MomentScan* scan, int32_t b, NodeSums cell, bint has_l, const float64_t* x
) noexcept nogil:
    """Sums of a closed form over one cell."""
    cdef PlainSums sums
    cdef float64_t hess = <float64_t>cell.hess * scan.stats.hess_unit
    cdef float64_t grad = <float64_t>cell.grad * scan.stats.grad_unit
    cdef float64_t factor = 1, lin = 0
    cdef const float64_t* moments
    sums.lin = sums.squares = sums.along = 0
    sums.x = sums.xx = sums.gx = sums.lx = 0
    if scan.n_regressors > 0:
        moments = scan.moments + <intp_t>b * scan.cell_size
        if scan.sampled:
            factor = hess / moments[0] if moments[0] > 0 else 0.0
        lin = factor * moments[1]
        if has_l:
            sums.lin = lin
            sums.squares = factor * moments[2]
            sums.along = factor * moments[3]
            if scan.sampled and moments[0] > 0:
                sums.along += moments[1] / moments[0] * (grad - factor * moments[4])
    if scan.fit == ADDITIVE:
        grad += scan.value * hess + scan.scale * lin
    sums.h = hess
    sums.g = grad
    if x != NULL:
        sums.x = hess * x[b]
        sums.xx = hess * x[b] * x[b]
        sums.gx = grad * x[b]
        if has_l:
            sums.lx = lin * x[b]
    return sums


cdef inline void write_sums(PlainSums sums, intp_t step, float64_t* out) noexcept nogil:
    out[HT_H * step] = sums.h
    out[HT_G * step] = sums.g
    out[HT_L * step] = sums.lin
    out[HT_LL * step] = sums.squares
    out[HT_GL * step] = sums.along
    out[HT_X * step] = sums.x
    out[HT_XX * step] = sums.xx
    out[HT_GX * step] = sums.gx
    out[HT_LX * step] = sums.lx


cdef int32_t sum_cuts(
    const MomentScan* scan, int32_t n_bins, bint has_l, float64_t* left, float64_t* counts,
    int32_t* order, float64_t* total,
) noexcept nogil:
    """OUT sums and rows left of every cut, the bins of the cuts, and the total; their number.

    The sums are apart from what has an address, so that they can stay in registers.
    """
    cdef MomentScan own = scan[0]
    cdef PlainSums sums, cell
    cdef NodeSums read
    cdef float64_t n_samples = 0
    cdef int32_t b, c = 0
    sums.h = sums.g = sums.lin = sums.squares = sums.along = 0
    sums.x = sums.xx = sums.gx = sums.lx = 0
    for b in range(n_bins):
        read = read_cell(own.stats, own.cells, b)
        if is_empty(read):
            continue
        cell = plain_cell(&own, b, read, has_l, own.x)
        sums.h += cell.h
        sums.g += cell.g
        sums.lin += cell.lin
        sums.squares += cell.squares
        sums.along += cell.along
        sums.x += cell.x
        sums.xx += cell.xx
        sums.gx += cell.gx
        sums.lx += cell.lx
        write_sums(sums, CANDIDATES, left + c)
        n_samples += <float64_t>read.n_samples
        counts[c] = n_samples
        order[c] = b
        c += 1
    write_sums(sums, 1, total)
    return c


cdef float64_t plain_parent(
    MomentScan* scan, const float64_t* sums, const float64_t* lacking, bint has_l
) noexcept nogil:
    """Score of the node's own model, in a closed form."""
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


cdef void best_plain(
    MomentScan* scan, int32_t n_bins, bint any_missing, float64_t* parent, float64_t* best_score,
    int32_t* best, uint8_t* best_side,
) noexcept nogil:
    """Best cut of a numeric feature where scores have a closed form: all cuts at once.

    OUT the score of the node itself, too. A cut behind a bin without rows is the same as the one
    before it, and is left out.
    """
    cdef float64_t sums[HT_SUMS]
    cdef float64_t lacking[HT_SUMS]
    cdef float64_t none[HT_SUMS]
    cdef float64_t* left = scan.candidates
    cdef float64_t* scores = left + HT_SUMS * CANDIDATES
    cdef float64_t* counts = scores + CANDIDATES
    cdef float64_t n_samples, need = <float64_t>scan.rules.min_samples_leaf, missing_rows
    cdef bint has_l = scan.n_regressors > 0 and scan.fit != ADDITIVE
    cdef bint by_count = scan.stats.count_bits > 0 and need > 1
    cdef int32_t c, j, n, side
    memset(lacking, 0, sizeof(lacking))
    memset(none, 0, sizeof(none))
    c = sum_cuts(scan, n_bins, has_l, left, counts, scan.order, sums)
    n_samples = counts[c - 1] if c > 0 else 0.0
    missing_rows = <float64_t>scan.missing.n_samples
    if any_missing:
        write_sums(plain_cell(scan, n_bins, scan.missing, has_l, NULL), 1, lacking)
    parent[0] = plain_parent(scan, sums, lacking, has_l)
    for side in range(2 if any_missing else 1):
        # With missing rows on the right there is one more cut: all values on the left.
        n = c if any_missing and side == 0 else c - 1
        if n <= 0:
            continue
        ht_moment_scores(scan.width, left, n, sums, &lacking[0] if side else &none[0],
                         &none[0] if side else &lacking[0], scan.rules.reg_lambda,
                         scan.rules.min_child_weight, has_l, scan.x != NULL, scores)
        for j in range(n):
            if by_count and (
                counts[j] + (missing_rows if side else 0.0) < need
                or n_samples - counts[j] + (0.0 if side else missing_rows) < need
            ):
                continue
            if scores[j] > best_score[0]:
                best_score[0] = scores[j]
                best[0] = scan.order[j]
                best_side[0] = <uint8_t>side


cdef void open_feature(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total
) noexcept nogil:
    """Clear the sums, and look for missing rows."""
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
    """OUT the gain of the cut behind each bin of a number, with missing rows right, then left."""
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
    """Best cut of a feature, and with `sides` the models of its two sides; gain -inf: none."""
    cdef int32_t n_bins = bins.n_bins[feature], n_ordered = n_bins, b, best = -1
    cdef bint categorical = bins.is_categorical[feature], alone = False, any_missing
    cdef bint plain
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
        # Where categories are scanned, the candidates of numbers are not in use.
        n_ordered = order_categories(scan, n_bins, scan.candidates)
        alone = n_bins <= scan.rules.max_cat_to_onehot
    plain = not categorical and is_plain(scan)
    if not plain or sides != NULL:
        for b in range(n_ordered):
            add_bin(scan, scan.order[b] if categorical else b, scan.all_values)
        if any_missing:
            add_missing(scan, n_bins)
    if plain:
        best_plain(scan, n_bins, any_missing, &parent, &best_score, &best, &best_side)
    else:
        best_general(scan, n_ordered, alone, categorical, any_missing, &best_score, &best,
                     &best_side)
    if best < 0:
        return
    if not plain:
        parent = score_node(scan, any_missing)
    info.gain = best_score - parent
    if sides != NULL:
        memset(scan.left, 0, scan.n_sums * sizeof(float64_t))
        for b in range(best if alone else 0, best + 1):
            left_of(scan, b, n_ordered, alone, categorical)
        score_cut(scan, best_side == 1, any_missing, sides)
        describe_cut(scan, best, best_side, n_ordered, alone, any_missing, info)


cdef void add_missing(MomentScan* scan, int32_t n_bins) noexcept nogil:
    """Sums of the rows that lack the feature: it has no part in them."""
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
        # Categories that the node has not seen follow the heavier child.
        memset(info.categories, 255 if 2 * info.left.hess > scan.total.hess else 0,
               sizeof(info.categories))
        for b in range(n_ordered):
            bin = scan.order[b]
            info.categories[bin >> 5] &= ~((<uint32_t>1) << (bin & 31))
            if first <= b < last:
                info.categories[bin >> 5] |= (<uint32_t>1) << (bin & 31)
    if not any_missing:
        # No missing row to learn from: they will follow the heavier child.
        info.missing_left = 2 * info.left.hess > scan.total.hess
