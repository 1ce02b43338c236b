"""The best split of a node from its histogram, and the partition of its rows."""

from cython.parallel cimport parallel, prange
from libc.math cimport INFINITY, fabs
from libc.string cimport memcpy, memmove, memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport (
    ht_newton_best, ht_newton_scores, ht_unit_sums, ht_vector_bytes,
)
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    GRAD_ONLY, HT_ROUNDING, HT_TIE_BINNED, N_CODES, BinView, Bounds, NodeSums, SplitInfo,
    SplitRules, StatsView, float64_t, int32_t, int64_t, int8_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._histogram cimport entry_of


# ---- Best split of a node from its histogram: the Newton gain ---------------------------------
#
# With G and H the sums of gradients and hessians, the score of a node is ``T(G)^2 / (H + lambda)``,
# T the soft threshold by alpha; the gain of a split is ``score(left) + score(right) - score(node)``
# (Chen and Guestrin 2016, eq. 7, without the factor 1/2). Rows with a missing value are tried on
# both sides. Categories are sorted by their leaf weight and then cut like numbers, which for a
# convex loss finds the best of all subsets (Fisher 1958). Features with few categories are split
# into one category and the rest instead. Of equal splits the lower feature, then bin, wins.


cdef enum:
    PARALLEL_CELLS = 16384

cdef float64_t LEAST_POSITIVE = 5e-324


cdef struct FeatureScan:
    # State of the scans of one feature.
    const StatsView* stats
    const SplitRules* rules
    const int64_t* cells
    NodeSums total, missing
    float64_t grad, hess      # totals in floating point
    float64_t *left_grad, *left_hess, *scores, *left_count     # scratch, one per candidate
    int32_t* order            # bins in the order of the scan (categories)
    int32_t width
    const Bounds* bounds      # NULL: no monotone constraint in the tree
    int8_t monotone           # constraint of the feature


cdef inline float64_t soft_threshold(float64_t value, float64_t alpha) noexcept nogil:
    if value > alpha:
        return value - alpha
    return value + alpha if value < -alpha else 0.0


cdef float64_t node_weight(float64_t grad, float64_t hess, const SplitRules* rules) noexcept nogil:
    """The leaf value that minimises the penalised quadratic loss."""
    cdef float64_t weight
    if hess + rules.reg_lambda <= 0:
        return 0.0
    weight = -soft_threshold(grad, rules.reg_alpha) / (hess + rules.reg_lambda)
    if rules.max_delta_step > 0 and fabs(weight) > rules.max_delta_step:
        return rules.max_delta_step if weight > 0 else -rules.max_delta_step
    return weight


cdef float64_t bounded_weight(
    float64_t grad, float64_t hess, const SplitRules* rules, const Bounds* bounds
) noexcept nogil:
    """The best leaf value within the bounds of its node."""
    return min(max(node_weight(grad, hess, rules), bounds.lower), bounds.upper)


cdef float64_t node_score(
    float64_t grad, float64_t hess, const SplitRules* rules, const Bounds* bounds
) noexcept nogil:
    """Twice the loss reduction by the node's best leaf value; bounds may be NULL."""
    cdef float64_t weight
    if hess + rules.reg_lambda <= 0:
        return 0.0
    if rules.max_delta_step <= 0 and bounds == NULL:
        weight = soft_threshold(grad, rules.reg_alpha)
        return weight * weight / (hess + rules.reg_lambda)
    if bounds == NULL:
        weight = node_weight(grad, hess, rules)
    else:
        weight = bounded_weight(grad, hess, rules, bounds)
    return -(2 * grad * weight + (hess + rules.reg_lambda) * weight * weight
             + 2 * rules.reg_alpha * fabs(weight))


cdef float64_t pair_score(
    float64_t left_grad, float64_t left_hess, float64_t grad, float64_t hess,
    const SplitRules* rules, const Bounds* bounds, int8_t monotone,
) noexcept nogil:
    """Score of both sides of a cut; -inf if it violates the constraint of its feature."""
    cdef float64_t left, right
    if monotone != 0 and bounds != NULL:
        left = bounded_weight(left_grad, left_hess, rules, bounds)
        right = bounded_weight(grad - left_grad, hess - left_hess, rules, bounds)
        if (monotone > 0 and left > right) or (monotone < 0 and left < right):
            return -INFINITY
    return (node_score(left_grad, left_hess, rules, bounds)
            + node_score(grad - left_grad, hess - left_hess, rules, bounds))


cdef NodeSums sums_from_histogram(
    const BinView* bins, const StatsView* stats, const int64_t* hist, int32_t feature
) noexcept nogil:
    """Sums of a node, from the cells of any feature."""
    cdef NodeSums total
    cdef const int64_t* cells = hist + <intp_t>bins.cell_start[feature] * stats.n_words
    cdef int32_t b
    memset(&total, 0, sizeof(NodeSums))
    for b in range(bins.n_bins[feature] + 1):
        add_sums(&total, read_cell(stats, cells, b))
    return total


cdef inline int32_t count_less(const float64_t* rising, int32_t n, float64_t bound) noexcept nogil:
    """How many of the ascending numbers are below the bound, by bisection without a branch."""
    cdef int32_t first = 0, half
    cdef bint less
    while n > 0:
        half = n >> 1
        less = rising[first + half] < bound
        first = first + half + 1 if less else first
        n = n - half - 1 if less else half
    return first


cdef inline int32_t count_leaving(
    const float64_t* rising, int32_t n, float64_t total, float64_t bound
) noexcept nogil:
    """For how many of the ascending numbers total - number is at least the bound."""
    cdef int32_t first = 0, half
    cdef bint enough
    while n > 0:
        half = n >> 1
        enough = total - rising[first + half] >= bound
        first = first + half + 1 if enough else first
        n = n - half - 1 if enough else half
    return first


cdef inline void admissible(
    FeatureScan* scan, int32_t n_candidates, int32_t* first, int32_t* last
) noexcept nogil:
    """OUT the candidates with large enough sides: an interval, as the left sums are ascending."""
    # At least, both hessians must be positive.
    cdef float64_t need = max(scan.rules.min_child_weight, LEAST_POSITIVE)
    cdef float64_t need_rows = <float64_t>scan.rules.min_samples_leaf
    cdef float64_t all_rows = <float64_t>scan.total.n_samples
    first[0] = count_less(scan.left_hess, n_candidates, need)
    last[0] = count_leaving(scan.left_hess, n_candidates, scan.hess, need)
    if scan.stats.count_bits > 0 and need_rows > 1:
        first[0] = max(first[0], count_less(scan.left_count, n_candidates, need_rows))
        last[0] = min(last[0], count_leaving(scan.left_count, n_candidates, all_rows, need_rows))


cdef inline void best_candidate(
    FeatureScan* scan, int32_t n_candidates, float64_t* best_score, int32_t* best_index
) noexcept nogil:
    """Keep a strictly better candidate; best_index NULL: only its score, which is vectorised."""
    cdef const SplitRules* rules = scan.rules
    cdef int32_t first, last, b
    cdef float64_t score
    admissible(scan, n_candidates, &first, &last)
    if first >= last:
        return
    if rules.reg_alpha != 0 or rules.max_delta_step > 0 or scan.bounds != NULL:
        for b in range(first, last):
            scan.scores[b] = pair_score(scan.left_grad[b], scan.left_hess[b], scan.grad, scan.hess,
                                        rules, scan.bounds, scan.monotone)
    elif best_index == NULL:
        score = ht_newton_best(scan.width, scan.left_grad, scan.left_hess, first, last,
                               scan.grad, scan.hess, rules.reg_lambda)
        best_score[0] = max(best_score[0], score)
        return
    else:
        ht_newton_scores(scan.width, scan.left_grad, scan.left_hess, first, last, scan.grad,
                         scan.hess, rules.reg_lambda, scan.scores)
    for b in range(first, last):
        if scan.scores[b] > best_score[0]:
            best_score[0] = scan.scores[b]
            if best_index != NULL:
                best_index[0] = b


cdef void best_group(
    FeatureScan* scan, int32_t n_candidates, bint all_left, bint missing_left,
    float64_t* best_score, int32_t* best_index,
) noexcept nogil:
    """`best_candidate` among the cuts between groups of categories that have enough rows.

    With `all_left` the last candidate divides known from missing values, and is always tried.
    """
    cdef int32_t first, last, b
    cdef float64_t score, left, before = 0
    cdef float64_t rows_per_hess = scan.total.n_samples / scan.hess if scan.hess > 0 else 0
    cdef float64_t missing = <float64_t>scan.missing.hess * scan.stats.hess_unit
    cdef float64_t known = (scan.hess - missing) * rows_per_hess
    admissible(scan, n_candidates, &first, &last)
    for b in range(last):
        left = (scan.left_hess[b] - (missing if missing_left else 0.0)) * rows_per_hess
        if not (all_left and b == n_candidates - 1):
            if not ends_group(scan.rules, before, left, known):
                continue
            before = left
        if b >= first:
            score = pair_score(scan.left_grad[b], scan.left_hess[b], scan.grad, scan.hess,
                               scan.rules, scan.bounds, 0)
            if score > best_score[0]:
                best_score[0] = score
                best_index[0] = b


cdef inline void fill_prefix(
    FeatureScan* scan, NodeSums start, int32_t n_candidates, bint ordered
) noexcept nogil:
    """OUT left sums of each candidate, in floating point."""
    cdef NodeSums sums = start
    cdef float64_t grad_unit = scan.stats.grad_unit, hess_unit = scan.stats.hess_unit
    cdef bint counts = scan.stats.count_bits > 0 and scan.rules.min_samples_leaf > 1
    cdef int32_t b
    if scan.stats.layout == GRAD_ONLY and not ordered:
        fill_prefix_unit(scan, start, n_candidates, counts)
        return
    for b in range(n_candidates):
        add_sums(&sums, read_cell(scan.stats, scan.cells, scan.order[b] if ordered else b))
        scan.left_grad[b] = <float64_t>sums.grad * grad_unit
        scan.left_hess[b] = <float64_t>sums.hess * hess_unit
        if counts:
            scan.left_count[b] = <float64_t>sums.n_samples


cdef inline void fill_prefix_unit(
    FeatureScan* scan, NodeSums start, int32_t n_candidates, bint counts
) noexcept nogil:
    """The same for one-word cells: words are added whole and unpacked afterwards."""
    cdef int32_t bits = scan.stats.count_bits, b, k, whole = n_candidates - n_candidates % 4
    cdef int64_t word = start.grad * ((<int64_t>1) << bits) + start.n_samples
    cdef int64_t* words = <int64_t*>scan.scores
    cdef int64_t[4] sums
    # Groups of four cells have independent sums, so that additions wait less for each other.
    for b in range(0, whole, 4):
        sums[0] = scan.cells[b]
        for k in range(1, 4):
            sums[k] = sums[k - 1] + scan.cells[b + k]
        for k in range(4):
            words[b + k] = word + sums[k]
        word += sums[3]
    for b in range(whole, n_candidates):
        word += scan.cells[b]
        words[b] = word
    if counts:
        for b in range(n_candidates):
            scan.left_count[b] = <float64_t>(words[b] & (((<int64_t>1) << bits) - 1))
    ht_unit_sums(scan.width, words, n_candidates, bits, scan.stats.grad_unit,
                 scan.stats.hess_unit, scan.left_grad, scan.left_hess)


cdef void scan_both_directions(
    FeatureScan* scan, int32_t n_bins, bint ordered,
    float64_t* best_score, int32_t* best_index, uint8_t* missing_left,
) noexcept nogil:
    """Best cut with the missing rows right, then left."""
    cdef NodeSums none
    cdef float64_t before
    cdef bint any_missing = not is_empty(scan.missing)
    memset(&none, 0, sizeof(NodeSums))
    # With missing rows there is one more candidate: all values left, missing rows right.
    fill_prefix(scan, none, n_bins if any_missing else n_bins - 1, ordered)
    best_candidate(scan, n_bins if any_missing else n_bins - 1, best_score, best_index)
    missing_left[0] = 0
    if any_missing:
        before = best_score[0]
        fill_prefix(scan, scan.missing, n_bins - 1, ordered)
        best_candidate(scan, n_bins - 1, best_score, best_index)
        missing_left[0] = best_score[0] > before


cdef void scan_groups(
    FeatureScan* scan, int32_t n_present,
    float64_t* best_score, int32_t* best_index, uint8_t* missing_left,
) noexcept nogil:
    """`scan_both_directions` with cuts between groups of categories."""
    cdef NodeSums none
    cdef float64_t before
    cdef bint any_missing = not is_empty(scan.missing)
    memset(&none, 0, sizeof(NodeSums))
    fill_prefix(scan, none, n_present if any_missing else n_present - 1, True)
    best_group(scan, n_present if any_missing else n_present - 1, any_missing, False, best_score,
               best_index)
    missing_left[0] = 0
    if any_missing:
        before = best_score[0]
        fill_prefix(scan, scan.missing, n_present - 1, True)
        best_group(scan, n_present - 1, False, True, best_score, best_index)
        missing_left[0] = best_score[0] > before


cdef void scan_numeric(
    FeatureScan* scan, int32_t n_bins, float64_t parent_score, bint gain_only, SplitInfo* info
) noexcept nogil:
    """Best cut of a numeric feature; with `gain_only` nothing but its gain."""
    cdef float64_t best_score = -INFINITY
    cdef int32_t best = -1, b
    scan_both_directions(scan, n_bins, False, &best_score, NULL if gain_only else &best,
                         &info.missing_left)
    info.gain = best_score - parent_score
    if gain_only or best < 0:
        return
    info.bin = best
    memset(&info.left, 0, sizeof(NodeSums))
    for b in range(best + 1):
        add_sums(&info.left, read_cell(scan.stats, scan.cells, b))
    if info.missing_left:
        add_sums(&info.left, scan.missing)


cdef int32_t order_bins(
    const StatsView* stats, const SplitRules* rules, const NodeSums* total, const int64_t* cells,
    int32_t n_bins, float64_t* key, int32_t* order,
) noexcept nogil:
    """OUT non-empty bins by ascending leaf weight, stably; returns their number."""
    cdef NodeSums sums
    cdef int32_t b, n = 0
    cdef float64_t grad = 0, hess = 0, share
    if rules.cat_smooth > 0 and total.n_samples > 0 and is_smoothed(rules, n_bins):
        share = rules.cat_smooth / <float64_t>total.n_samples
        grad = share * <float64_t>total.grad * stats.grad_unit
        hess = share * <float64_t>total.hess * stats.hess_unit
    for b in range(n_bins):
        sums = read_cell(stats, cells, b)
        if not is_empty(sums):
            insert_by_key(
                key, order, n,
                node_weight(<float64_t>sums.grad * stats.grad_unit + grad,
                            <float64_t>sums.hess * stats.hess_unit + hess, rules), b)
            n += 1
    return n


cdef void fill_categories(
    SplitInfo* info, const int32_t* order, int32_t n, int32_t first, int32_t last,
    bint others_left,
) noexcept nogil:
    """OUT the bins that go left: order[first:last], and with `others_left` those not in `order`."""
    cdef int32_t i, bin
    memset(info.categories, 255 if others_left else 0, sizeof(info.categories))
    for i in range(n):
        bin = order[i]
        info.categories[bin >> 5] &= ~((<uint32_t>1) << (bin & 31))
        if first <= i < last:
            info.categories[bin >> 5] |= (<uint32_t>1) << (bin & 31)


cdef void scan_one_against_rest(
    FeatureScan* scan, int32_t n_present,
    float64_t* best_score, int32_t* best, uint8_t* missing_left,
) noexcept nogil:
    """Each category alone on the left, with the missing rows right, then left."""
    cdef NodeSums sums
    cdef int32_t i, side, index
    cdef float64_t score
    for side in range(1 if is_empty(scan.missing) else 2):
        for i in range(n_present):
            sums = read_cell(scan.stats, scan.cells, scan.order[i])
            if side == 1:
                add_sums(&sums, scan.missing)
            scan.left_grad[0] = <float64_t>sums.grad * scan.stats.grad_unit
            scan.left_hess[0] = <float64_t>sums.hess * scan.stats.hess_unit
            scan.left_count[0] = <float64_t>sums.n_samples
            score = best_score[0]
            index = -1
            best_candidate(scan, 1, &score, &index)
            if index == 0:
                best_score[0] = score
                best[0] = i
                missing_left[0] = side
    if not is_empty(scan.missing):
        # All categories left, missing rows right: the index after the last category.
        scan.left_grad[0] = scan.grad - <float64_t>scan.missing.grad * scan.stats.grad_unit
        scan.left_hess[0] = scan.hess - <float64_t>scan.missing.hess * scan.stats.hess_unit
        scan.left_count[0] = <float64_t>(scan.total.n_samples - scan.missing.n_samples)
        index = -1
        best_candidate(scan, 1, best_score, &index)
        if index == 0:
            best[0] = n_present
            missing_left[0] = 0


cdef void scan_categories(
    FeatureScan* scan, int32_t n_bins, float64_t parent_score, SplitInfo* info
) noexcept nogil:
    cdef float64_t best_score = -INFINITY
    cdef int32_t best = -1, i, first, last
    cdef int32_t n_present = order_bins(
        scan.stats, scan.rules, &scan.total, scan.cells, n_bins, scan.scores, scan.order)
    cdef bint alone = n_bins <= scan.rules.max_cat_to_onehot
    cdef const SplitRules* rules = scan.rules
    cdef SplitRules smoothed
    info.is_categorical = 1
    memset(info.categories, 0, sizeof(info.categories))
    if n_present == 0:
        return
    if alone:
        scan_one_against_rest(scan, n_present, &best_score, &best, &info.missing_left)
    elif is_smoothed(rules, n_bins) and (rules.cat_l2 > 0 or rules.min_data_per_group > 1):
        smoothed = rules[0]
        smoothed.reg_lambda += rules.cat_l2
        scan.rules = &smoothed
        scan_groups(scan, n_present, &best_score, &best, &info.missing_left)
        scan.rules = rules
    else:
        scan_both_directions(scan, n_present, True, &best_score, &best, &info.missing_left)
    if best < 0:
        return
    info.gain = best_score - parent_score
    info.bin = 0
    memset(&info.left, 0, sizeof(NodeSums))
    first = best if alone and best < n_present else 0
    last = min(best + 1, n_present)
    for i in range(first, last):
        add_sums(&info.left, read_cell(scan.stats, scan.cells, scan.order[i]))
    if info.missing_left:
        add_sums(&info.left, scan.missing)
    fill_categories(info, scan.order, n_present, first, last,
                    larger_left(info.left.hess, scan.total.hess))


cdef void scan_feature(
    const NodeScan* node, int32_t feature, float64_t* scratch, bint gain_only, SplitInfo* info
) noexcept nogil:
    """OUT best split on one feature, or only its gain; -inf if there is none."""
    cdef FeatureScan scan
    cdef const BinView* bins = node.bins
    cdef const StatsView* stats = node.stats
    cdef int32_t n_bins = bins.n_bins[feature]
    info.gain = -INFINITY
    info.feature = feature
    info.bin = -1
    info.missing_left = 0
    info.is_categorical = 0
    scan.stats = stats
    scan.rules = node.rules
    scan.cells = node.hist + <intp_t>bins.cell_start[feature] * stats.n_words
    scan.total = node.total[0]
    scan.grad = <float64_t>node.total.grad * stats.grad_unit
    scan.hess = <float64_t>node.total.hess * stats.hess_unit
    scan.left_grad = scratch
    scan.left_hess = scratch + N_CODES
    scan.scores = scratch + 512
    scan.left_count = scratch + 768
    scan.order = <int32_t*>(scratch + 1024)
    scan.width = node.width
    scan.bounds = node.bounds
    scan.monotone = 0
    if node.bounds != NULL and not bins.is_categorical[feature]:
        scan.monotone = node.rules.monotone[feature]
    memset(&scan.missing, 0, sizeof(NodeSums))
    if bins.has_missing[feature]:
        scan.missing = read_cell(stats, scan.cells, n_bins)
    if bins.is_categorical[feature]:
        scan_categories(&scan, n_bins, node.score, info)
    else:
        scan_numeric(&scan, n_bins, node.score, gain_only, info)
    if not gain_only and info.gain > -INFINITY and is_empty(scan.missing):
        info.missing_left = larger_left(info.left.hess, node.total.hess)


cdef void open_scan(
    NodeScan* scan, const BinView* bins, const StatsView* stats, const SplitRules* rules,
    const int64_t* hist, const NodeSums* total, const Bounds* bounds, SplitInfo* by_feature,
) noexcept nogil:
    """OUT a scan of a node with known sums; its histogram may be filled later."""
    scan.bins = bins
    scan.stats = stats
    scan.rules = rules
    scan.hist = hist
    scan.total = total
    scan.bounds = bounds if rules.monotone != NULL else NULL
    scan.by_feature = by_feature
    scan.width = ht_vector_bytes()
    scan.score = node_score(<float64_t>total.grad * stats.grad_unit,
                            <float64_t>total.hess * stats.hess_unit, rules, scan.bounds)


cdef void scan_gain(const NodeScan* scan, int32_t feature, float64_t* scratch) noexcept nogil:
    """OUT gain of the best split on the feature, in `by_feature`."""
    scan_feature(scan, feature, scratch, True, scan.by_feature + feature)


cdef void choose_split(
    const NodeScan* scan, const int32_t* features, int32_t n_features, float64_t* scratch,
    SplitInfo* best,
) noexcept nogil:
    """OUT best split on the listed features, which have been scanned; feature -1: none."""
    cdef int32_t j
    cdef const SplitInfo* one
    cdef float64_t least = zero_gain(scan.score)
    if not scan.rules.any_gain:
        least = max(scan.rules.min_gain, HT_ROUNDING * scan.score)
    best.feature = -1
    best.gain = -INFINITY
    for j in range(n_features):
        one = scan.by_feature + features[j]
        # Of gains that differ by less than rounding errors of gradients, the first wins.
        if (one.gain > 0 or scan.rules.any_gain) and one.gain >= least and (
            best.feature < 0 or one.gain > best.gain + HT_TIE_BINNED * (scan.score + best.gain)
        ):
            best.feature = one.feature
            best.gain = one.gain
    if best.feature >= 0:
        scan_feature(scan, best.feature, scratch, False, best)


cdef void find_split(
    const NodeScan* scan, const int32_t* features, int32_t n_features, float64_t* scratch,
    int n_threads, SplitInfo* best,
) noexcept nogil:
    """Scan the listed features, and choose the best split."""
    cdef int32_t j
    if n_threads == 1 or scan.bins.n_cells < PARALLEL_CELLS:
        for j in range(n_features):
            scan_gain(scan, features[j], scratch)
    else:
        for j in prange(n_features, num_threads=team_of(n_threads), schedule="static"):
            scan_gain(scan, features[j], scratch + omp_get_thread_num() * SCAN_WORDS)
    choose_split(scan, features, n_features, scratch, best)


# ---- Stable partition of the rows of a node ---------------------------------------------------
#
# A node owns the slice [start, stop) of one array of row ids. A split moves the ids that go left
# to the front of the slice and the others to the end, both in their old order. Two threads start
# at the two ends and take blocks until they meet. Ids that are on their side stay in place, and
# only the rest is copied, as much as by a single thread::
#
#     rows          | a B c d E F > < g h I j K |   small letters go left
#     rows          | a c d                 I K |   in place: left ids in front, right ids behind
#     scratch       | B E F               g h j |   right ids of the front, left ids of the back
#     rows          | a c d g h j   B E F   I K |
#
# More threads partition chunks separately, and then copy each chunk to its place.
#
# A table of 256 entries tells whether a code goes left, so numeric bins, categories and missing
# values share one loop without branches.


cdef enum:
    # Dynamic chunks: a thread that is delayed by another process leaves chunks to the others.
    MAX_CHUNKS = 256
    CHUNK_ROWS = 4096
    PARALLEL_ROWS = 16384
    BLOCK_ROWS = 4096
    COPIES = 8


cdef void fill_direction(
    const BinView* bins, const SplitInfo* split, uint8_t* goes_left
) noexcept nogil:
    """OUT goes_left[code] for the 256 codes of the split's feature."""
    cdef int32_t missing = bins.n_bins[split.feature], code
    memset(goes_left, 0, N_CODES)
    if split.is_categorical:
        for code in range(missing):
            goes_left[code] = (split.categories[code >> 5] >> (code & 31)) & 1
    else:
        memset(goes_left, 1, split.bin + 1)
    goes_left[missing] = split.missing_left


cdef inline intp_t split_chunk(
    const uint8_t* codes, const uint8_t* goes_left, const uint32_t* rows, intp_t n,
    uint32_t* left, uint32_t* right,
) noexcept nogil:
    """Write every id to both `left` and `right`, but advance only its own side; returns n_left.

    Four ids are read before the first is written: `left` or `right` may overlap with `rows`, so the
    compiler could not move a load before a store.
    """
    cdef intp_t i, k, whole = n - n % 4
    cdef intp_t[4] go
    cdef uint32_t[4] row
    cdef uint32_t* first = left
    for i in range(0, whole, 4):
        for k in range(4):
            row[k] = rows[i + k]
        for k in range(4):
            go[k] = goes_left[codes[row[k]]]
        for k in range(4):
            left[0] = row[k]
            right[0] = row[k]
            left += go[k]
            right += 1 - go[k]
    for i in range(whole, n):
        row[0] = rows[i]
        go[0] = goes_left[codes[row[0]]]
        left[0] = row[0]
        right[0] = row[0]
        left += go[0]
        right += 1 - go[0]
    return left - first


cdef inline intp_t split_chunk_back(
    const uint8_t* codes, const uint8_t* goes_left, const uint32_t* rows, intp_t n,
    uint32_t* left, uint32_t* right,
) noexcept nogil:
    """The same from the last row to the first; ids are written before `left` and `right`."""
    cdef intp_t i, k, rest = n % 4
    cdef intp_t[4] go
    cdef uint32_t[4] row
    cdef uint32_t* first = left - 1
    left -= 1
    right -= 1
    for i in range(n - 4, rest - 1, -4):
        for k in range(4):
            row[k] = rows[i + 3 - k]
        for k in range(4):
            go[k] = goes_left[codes[row[k]]]
        for k in range(4):
            left[0] = row[k]
            right[0] = row[k]
            left -= go[k]
            right -= 1 - go[k]
    for i in range(rest - 1, -1, -1):
        row[0] = rows[i]
        go[0] = goes_left[codes[row[0]]]
        left[0] = row[0]
        right[0] = row[0]
        left -= go[0]
        right -= 1 - go[0]
    return first - left


cdef struct End:
    # Progress of the thread at one end.
    intp_t n_blocks, n_left, n_right
    intp_t[5] unused             # the two ends have separate cache lines


cdef void take_block(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    intp_t n_blocks, uint32_t* scratch, End* end, bint back,
) noexcept nogil:
    """Split the next block of one end."""
    cdef intp_t block = n_blocks - 1 - end.n_blocks if back else end.n_blocks
    cdef intp_t start = n_rows * block // n_blocks
    cdef intp_t size = n_rows * (block + 1) // n_blocks - start, n_left
    if back:
        n_left = split_chunk_back(codes, goes_left, rows + start, size,
                                  scratch + n_rows - end.n_left, rows + n_rows - end.n_right)
    else:
        n_left = split_chunk(codes, goes_left, rows + start, size, rows + end.n_left,
                             scratch + end.n_right)
    end.n_blocks += 1
    end.n_left += n_left
    end.n_right += size - n_left


cdef void copy_part(
    const uint32_t* scratch, uint32_t* rows, intp_t n_rows, const End* ends, int part
) noexcept nogil:
    """Copy one of `COPIES` parts of the scratch to the gap between the two ends."""
    cdef intp_t n = ends[1].n_left + ends[0].n_right
    cdef intp_t start = n * part // COPIES, stop = n * (part + 1) // COPIES
    cdef intp_t middle = min(max(start, ends[1].n_left), stop)
    rows += ends[0].n_left
    memcpy(rows + start, scratch + n_rows - ends[1].n_left + start,
           (middle - start) * sizeof(uint32_t))
    memcpy(rows + middle, scratch + middle - ends[1].n_left, (stop - middle) * sizeof(uint32_t))


cdef intp_t split_from_ends(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* scratch,
) noexcept nogil:
    """Partition with two threads, one from each end; returns how many go left."""
    cdef End[2] ends
    cdef intp_t n_blocks = (n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, _ticket
    cdef int part
    memset(ends, 0, sizeof(ends))
    with parallel(num_threads=team_of(2)):
        for _ticket in prange(n_blocks, schedule="dynamic", chunksize=1):
            take_block(codes, goes_left, rows, n_rows, n_blocks, scratch,
                       &ends[omp_get_thread_num()], omp_get_thread_num())
        for part in prange(COPIES, schedule="static"):
            copy_part(scratch, rows, n_rows, ends, part)
    return ends[0].n_left + ends[1].n_left


cdef intp_t split_rows(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* right, uint32_t* left, int n_threads,
) noexcept nogil:
    """Partition rows[:n_rows]; returns how many go left. `left` is needed for 3 or more threads."""
    cdef intp_t to_left[MAX_CHUNKS + 1], to_right[MAX_CHUNKS + 1], start, size, total
    cdef int chunk, n_chunks
    if n_threads == 1 or n_rows < PARALLEL_ROWS:
        # Serial: left ids are written in place, never ahead of the reader.
        total = split_chunk(codes, goes_left, rows, n_rows, rows, right)
        memcpy(rows + total, right, (n_rows - total) * sizeof(uint32_t))
        return total
    if n_threads == 2:
        return split_from_ends(codes, goes_left, rows, n_rows, right)
    n_chunks = <int>min(max(4 * n_threads, n_rows // CHUNK_ROWS), <intp_t>MAX_CHUNKS)
    to_left[0] = 0
    for chunk in prange(n_chunks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        size = n_rows * (chunk + 1) // n_chunks - start
        to_left[chunk + 1] = split_chunk(codes, goes_left, rows + start, size, left + start,
                                         right + start)
    for chunk in range(n_chunks):
        to_left[chunk + 1] += to_left[chunk]
    total = to_left[n_chunks]
    for chunk in range(n_chunks + 1):
        to_right[chunk] = total + n_rows * chunk // n_chunks - to_left[chunk]
    for chunk in prange(n_chunks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        memcpy(rows + to_left[chunk], left + start,
               (to_left[chunk + 1] - to_left[chunk]) * sizeof(uint32_t))
        memcpy(rows + to_right[chunk], right + start,
               (to_right[chunk + 1] - to_right[chunk]) * sizeof(uint32_t))
    return total


# ---- The same for a feature of StoredBins -------------------------------------------------------
#
# Most rows have no entry and go to one side. Only rows with an entry that goes to the other side
# move; the others close ranks by copies of whole stretches.


cdef enum:
    NEAR_ROWS = 64               # compared at a time to find a row
    SHORT_STRETCH = 8


cdef inline intp_t find_row(
    const uint32_t* rows, intp_t at, intp_t n, uint32_t row
) noexcept nogil:
    """First place from `at` on with an id of at least `row`; ids are ascending."""
    cdef intp_t k, n_less
    while at + NEAR_ROWS <= n and rows[at + NEAR_ROWS - 1] < row:
        at += NEAR_ROWS
    if at + NEAR_ROWS <= n:
        n_less = 0
        for k in range(NEAR_ROWS):       # no branch, so that compilers use vectors
            n_less += rows[at + k] < row
        return at + n_less
    while at < n and rows[at] < row:
        at += 1
    return at


cdef intp_t find_movers(
    const BinView* bins, int32_t feature, const uint8_t* goes_left, const uint32_t* rows,
    intp_t n_rows, uint32_t* places
) noexcept nogil:
    """OUT places of the rows that do not go to the side of rows without an entry; returns n."""
    cdef bint side = goes_left[bins.default_code[feature]]
    cdef const uint32_t* listed = bins.column_rows
    cdef intp_t first = bins.column_start[feature], last = bins.column_start[feature + 1]
    cdef intp_t at = 0, n = 0, i, middle, end = last
    # Entries before the first row of the node.
    while first < end:
        middle = (first + end) >> 1
        if listed[middle] < rows[0]:
            first = middle + 1
        else:
            end = middle
    if n_rows * 4 < last - first:
        # A small node: its rows look for their entries.
        for i in range(n_rows):
            places[n] = <uint32_t>i
            n += goes_left[entry_of(bins, rows[i], feature)] != side
        return n
    for i in range(first, last):
        if goes_left[bins.column_codes[i]] == side:
            continue
        at = find_row(rows, at, n_rows, listed[i])
        if at == n_rows:
            break
        places[n] = <uint32_t>at
        n += rows[at] == listed[i]
    return n


cdef inline void shift_rows(uint32_t* to, const uint32_t* source, intp_t n) noexcept nogil:
    cdef intp_t i
    if n > SHORT_STRETCH or to > source:
        memmove(to, source, n * sizeof(uint32_t))
    else:
        for i in range(n):
            to[i] = source[i]


cdef intp_t split_stored(
    const BinView* bins, int32_t feature, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* scratch,
) noexcept nogil:
    """Partition rows[:n_rows] by a feature of StoredBins; returns how many go left."""
    cdef intp_t n = find_movers(bins, feature, goes_left, rows, n_rows, scratch)
    cdef intp_t i, stop, size, to
    cdef uint32_t row
    if n == 0:
        return n_rows if goes_left[bins.default_code[feature]] else 0
    if goes_left[bins.default_code[feature]]:
        to = scratch[0]
        for i in range(n):
            row = rows[scratch[i]]
            stop = scratch[i + 1] if i + 1 < n else n_rows
            size = stop - scratch[i] - 1
            shift_rows(rows + to, rows + scratch[i] + 1, size)
            to += size
            scratch[i] = row
        memcpy(rows + to, scratch, n * sizeof(uint32_t))
        return to
    # From the last one on, towards the end.
    to = n_rows
    stop = n_rows
    for i in range(n - 1, -1, -1):
        row = rows[scratch[i]]
        size = stop - scratch[i] - 1
        to -= size
        shift_rows(rows + to, rows + scratch[i] + 1, size)
        stop = scratch[i]
        scratch[i] = row
    shift_rows(rows + n, rows, stop)
    memcpy(rows, scratch, n * sizeof(uint32_t))
    return n


def partition_rows(const uint8_t[::1] codes, const uint8_t[::1] goes_left, uint32_t[::1] rows,
                   int n_threads):
    """Partition `rows` in place by a table of 256 directions; returns how many go left."""
    cdef intp_t i, n = rows.shape[0]
    if goes_left.shape[0] != N_CODES:
        raise ValueError("goes_left needs 256 entries")
    for i in range(n):
        if rows[i] >= codes.shape[0]:
            raise ValueError("a row id is out of range")
    for i in range(N_CODES):
        if goes_left[i] > 1:
            raise ValueError("goes_left may hold 0 and 1 only")
    if n == 0:
        return 0
    cdef uint32_t[::1] scratch
    import numpy as np
    scratch = np.empty(2 * n, dtype=np.uint32)
    with nogil:
        i = split_rows(&codes[0], &goes_left[0], &rows[0], n, &scratch[0], &scratch[n], n_threads)
    return i
