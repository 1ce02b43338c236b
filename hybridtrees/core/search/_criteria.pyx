"""Criteria of the exact search: sums of targets, absolute deviations, best cut of a list."""

from libc.float cimport DBL_EPSILON, DBL_MIN
from libc.math cimport INFINITY, fabs, log, log2
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._types cimport (
    ABSOLUTE, ENTROPY, HT_EQUAL_RATIO, HT_TIE_CUTS, HT_TIE_DRAWN, HT_TIE_SORTED, HT_TIE_SQUARES,
    NEWTON, POISSON, SQUARES, TARGET_CLASS, TARGET_CLASS_WEIGHTED, TARGET_PAIR, TARGET_UNWEIGHTED,
    Bounds, SortedEntry, SplitRules, TargetView, float64_t, int32_t, int8_t, intp_t, uint32_t,
    uint64_t,
)
from hybridtrees.core.search._sorted cimport count_present
from hybridtrees.core.search._split cimport node_score, pair_score, zero_gain

import numpy as np


# ---- Sums of targets, and their scores --------------------------------------------------------
#
# The sums of a side are n_sums numbers, then its weight; those of a node also its sum of squares.


cdef inline float64_t plog2(float64_t value) noexcept nogil:
    return value * log2(value) if value > 0 else 0.0


cdef void add_row(const TargetView* target, const float64_t* row, float64_t* sums) noexcept nogil:
    """Add one row to the sums and the weight."""
    cdef int32_t k
    if target.layout == TARGET_UNWEIGHTED:
        sums[0] += row[0]
        sums[1] += 1.0
    elif target.layout == TARGET_CLASS:
        sums[<intp_t>row[0]] += 1.0
        sums[target.n_sums] += 1.0
    elif target.layout == TARGET_CLASS_WEIGHTED:
        sums[<intp_t>row[0]] += row[1]
        sums[target.n_sums] += row[1]
    else:
        for k in range(target.n_sums + 1):
            sums[k] += row[k]


cdef float64_t side_score(
    const TargetView* target, const SplitRules* rules, const float64_t* sums,
    const Bounds* bounds,
) noexcept nogil:
    """Score of one side from its sums; -inf if the side cannot be a node.

    `bounds` of its value are used by the Newton score under monotone constraints only.
    """
    cdef float64_t weight = sums[target.n_sums], score = 0, other
    cdef int32_t k
    if rules.criterion == NEWTON:
        return node_score(sums[0], weight, rules, bounds if rules.monotone != NULL else NULL)
    if weight <= 0:
        return -INFINITY
    if rules.criterion == SQUARES:
        for k in range(target.n_sums):
            score += sums[k] * sums[k]
        return score / weight
    if rules.criterion == POISSON:
        for k in range(target.n_sums):
            # The Poisson deviance of a side is undefined if all its targets are 0.
            if sums[k] <= 0:
                return -INFINITY
            score += sums[k] * log(sums[k] / weight)
        return score
    other = max(0.0, weight - sums[0])
    if rules.criterion == ENTROPY:
        if target.binary:
            return plog2(sums[0]) + plog2(other) - plog2(weight)
        for k in range(target.n_sums):
            score += plog2(sums[k])
        return score - plog2(weight)
    if target.binary:
        return max(sums[0], other)
    for k in range(target.n_sums):
        score = max(score, sums[k])
    return score


cdef bint sum_rows(
    const TargetView* target, const uint32_t* rows, intp_t n, float64_t* totals
) noexcept nogil:
    """OUT sums, weight and sum of squares of some rows; false if all their targets are equal."""
    cdef int32_t n_sums = target.n_sums, k
    cdef intp_t i
    cdef const float64_t* row
    cdef const float64_t* first = target.data + <intp_t>rows[0] * target.width
    cdef float64_t sum = 0, square = 0
    cdef bint differs = False
    memset(totals, 0, (n_sums + 2) * sizeof(float64_t))
    if target.layout == TARGET_UNWEIGHTED:
        for i in range(n):
            row = target.data + rows[i]
            sum += row[0]
            square += row[0] * row[0]
            differs |= row[0] != first[0]
        totals[0] = sum
        totals[1] = <float64_t>n
        totals[2] = square
        return differs
    for i in range(n):
        row = target.data + <intp_t>rows[i] * target.width
        add_row(target, row, totals)
        if target.layout == TARGET_CLASS or target.layout == TARGET_CLASS_WEIGHTED:
            differs |= row[0] != first[0]
            continue
        for k in range(n_sums):
            # For equal y, the ratio of the w y is that of the weights, up to rounding.
            differs |= fabs(row[k] * first[n_sums] - first[k] * row[n_sums]) > (
                HT_EQUAL_RATIO * fabs(first[k] * row[n_sums]))
            if row[n_sums] > 0:
                square += row[k] * row[k] / row[n_sums]
    totals[n_sums + 1] = square
    return differs


cdef float64_t list_median(
    const TargetView* target, const SortedEntry* by_y, intp_t n, float64_t weight
) noexcept nogil:
    """Weighted median of the first output over a list sorted by y.

    If the weight is halved exactly between two values, the median is their mean.
    """
    cdef intp_t i = 0
    cdef float64_t half = 0.5 * weight, below = 0
    while i < n - 1 and below + row_weight(target, by_y[i].row) < half:
        below += row_weight(target, by_y[i].row)
        i += 1
    if i < n - 1 and below + row_weight(target, by_y[i].row) == half:
        return 0.5 * (row_value(target, by_y[i].row) + row_value(target, by_y[i + 1].row))
    return row_value(target, by_y[i].row)


cdef float64_t row_value(const TargetView* target, uint32_t row) noexcept nogil:
    return target.data[<intp_t>row * target.width] / row_weight(target, row)


# ---- Absolute deviations from the median on both sides of every cut ---------------------------
#
# The rows of a node are numbered in the order of y. A binary indexed tree (Fenwick 1994) over these
# numbers holds weights and weighted targets of the rows on the left side. The median is found by
# descent, and the sums below it give the deviations: log(n) steps per row. The tree of the right
# side is that of the node minus the left one.
#
# A tree over n rows is an array of n + 1 pairs (weight, weighted y): the totals, then the tree. In
# the array of a node, n pairs (y, weight) of its rows in their order follow the tree.


cdef struct Placed:
    # The target of a row, and its position in the list of rows by node.
    float64_t value
    float64_t weight
    intp_t place


cdef void order_rows(
    const TargetView* target, int32_t output, const SortedEntry* by_y, intp_t n, uint32_t* place,
    float64_t* tree,
) noexcept nogil:
    """OUT rank of each row in the order of y, and the tree of the node (4 n + 2 numbers)."""
    cdef intp_t i, up
    cdef const float64_t* row
    cdef float64_t weight
    cdef float64_t* pairs = tree + 2 * (n + 1)
    memset(tree, 0, 2 * (n + 1) * sizeof(float64_t))
    for i in range(1, n + 1):
        row = target.data + <intp_t>by_y[i - 1].row * target.width
        place[by_y[i - 1].row] = <uint32_t>(i - 1)
        weight = 1.0 if target.layout == TARGET_UNWEIGHTED else row[target.width - 1]
        pairs[2 * i - 2] = row[output] / weight
        pairs[2 * i - 1] = weight
        tree[0] += weight
        tree[1] += row[output]
        tree[2 * i] += weight
        tree[2 * i + 1] += row[output]
        up = i + (i & -i)
        if up <= n:
            tree[2 * up] += tree[2 * i]
            tree[2 * up + 1] += tree[2 * i + 1]


cdef void add_to_tree(
    const float64_t* node_tree, float64_t* tree, intp_t n, intp_t place, float64_t sign
) noexcept nogil:
    """Add (sign 1) a row of a node to a tree, or remove it (-1)."""
    cdef const float64_t* pair = node_tree + 2 * (n + 1 + place)
    cdef float64_t weight = sign * pair[1], sum = pair[0] * weight
    cdef intp_t i = place + 1
    tree[0] += weight
    tree[1] += sum
    while i <= n:
        tree[2 * i] += weight
        tree[2 * i + 1] += sum
        i += i & -i


cdef inline intp_t highest_step(intp_t n) noexcept nogil:
    cdef intp_t step = 1
    while 2 * step <= n:
        step *= 2
    return step


cdef inline float64_t side_entry(
    const float64_t* node_tree, const float64_t* left, bint right, intp_t i
) noexcept nogil:
    """Number i of the tree of a side."""
    return node_tree[i] - left[i] if right else left[i]


cdef inline float64_t side_deviation(
    const float64_t* node_tree, const float64_t* left, intp_t n, bint right
) noexcept nogil:
    """Sum of absolute deviations of the rows of a side from their median; `right` is a literal."""
    cdef intp_t at = 0, step = highest_step(n), to
    cdef float64_t total = side_entry(node_tree, left, right, 0)
    cdef float64_t all = side_entry(node_tree, left, right, 1)
    cdef float64_t half = 0.5 * total, weight = 0, sum = 0, median
    while step > 0:
        to = at + step
        if to <= n and weight + side_entry(node_tree, left, right, 2 * to) < half:
            at = to
            weight += side_entry(node_tree, left, right, 2 * to)
            sum += side_entry(node_tree, left, right, 2 * to + 1)
        step //= 2
    median = node_tree[2 * (n + 1 + min(at, n - 1))]
    return median * weight - sum + (all - sum) - median * (total - weight)


cdef intp_t first_above(
    const float64_t* node_tree, const float64_t* left, intp_t n, bint right, bint strict
) noexcept nogil:
    """First row of a side up to which half of its weight is reached, or exceeded if `strict`."""
    cdef intp_t at = 0, step = highest_step(n), to
    cdef float64_t half = 0.5 * side_entry(node_tree, left, right, 0), weight = 0, more
    while step > 0:
        to = at + step
        if to <= n:
            more = weight + side_entry(node_tree, left, right, 2 * to)
            if more < half or (strict and more == half):
                at = to
                weight = more
        step //= 2
    return min(at, n - 1)


cdef float64_t side_median(
    const float64_t* node_tree, const float64_t* left, intp_t n, bint right
) noexcept nogil:
    """Median of one side: the mean of two values if they halve the weight exactly."""
    cdef const float64_t* pairs = node_tree + 2 * (n + 1)
    return 0.5 * (pairs[2 * first_above(node_tree, left, n, right, False)]
                  + pairs[2 * first_above(node_tree, left, n, right, True)])


cdef void describe(
    const Placed* pairs, intp_t n, float64_t* median, float64_t* deviation
) noexcept nogil:
    """OUT weighted median of sorted rows, as `list_median`, and mean absolute deviation from it."""
    cdef intp_t i
    cdef float64_t total = 0, below = 0
    for i in range(n):
        total += pairs[i].weight
    i = 0
    while i < n - 1 and 2 * (below + pairs[i].weight) < total:
        below += pairs[i].weight
        i += 1
    median[0] = pairs[i].value
    if i < n - 1 and 2 * (below + pairs[i].weight) == total:
        median[0] = 0.5 * (pairs[i].value + pairs[i + 1].value)
    deviation[0] = 0
    for i in range(n):
        deviation[0] += pairs[i].weight * fabs(pairs[i].value - median[0])
    deviation[0] /= total


cdef void set_apart(
    Placed* ordered, intp_t first, intp_t last, intp_t start, intp_t stop, Placed* scratch
) noexcept nogil:
    """Partition ordered[first:last], stably, by place: before start, in [start, stop), after."""
    cdef intp_t i, before = first, within = start, behind = stop
    for i in range(first, last):
        if ordered[i].place < start:
            scratch[before] = ordered[i]
            before += 1
        elif ordered[i].place < stop:
            scratch[within] = ordered[i]
            within += 1
        else:
            scratch[behind] = ordered[i]
            behind += 1
    memcpy(ordered + first, scratch + first, (last - first) * sizeof(Placed))


cdef bint describe_nodes(
    Placed* ordered, Placed* scratch, intp_t* begin, intp_t* end, intp_t n,
    const intp_t[::1] start, const intp_t[::1] stop, float64_t[::1] median,
    float64_t[::1] deviation,
) noexcept nogil:
    """OUT medians of nested slices, the outer ones first; False if they are not nested.

    `ordered` has all rows sorted by value. It is partitioned into the slices, each of which stays
    sorted; `begin` and `end` are those of the part around every place. Thus a level of the tree
    takes one pass, and no row is sorted again.
    """
    cdef intp_t k, i, first, last
    for i in range(n):
        begin[i] = 0
        end[i] = n
    for k in range(start.shape[0]):
        first = begin[start[k]]
        last = end[start[k]]
        if stop[k] > last:
            return False
        if first < start[k] or stop[k] < last:
            set_apart(ordered, first, last, start[k], stop[k], scratch)
            for i in range(first, start[k]):
                end[i] = start[k]
            for i in range(start[k], stop[k]):
                begin[i] = start[k]
                end[i] = stop[k]
            for i in range(stop[k], last):
                begin[i] = stop[k]
        describe(ordered + start[k], stop[k] - start[k], &median[k], &deviation[k])
    return True


def weighted_medians(
    const float64_t[::1] y, const float64_t[::1] weight, const uint32_t[::1] rows,
    const intp_t[::1] start, const intp_t[::1] stop,
):
    """Median and mean absolute deviation of the rows of each node.

    `start` and `stop` are the slices of `rows` of the nodes, none empty, outer ones first.
    """
    cdef intp_t k, i, n = rows.shape[0], n_nodes = start.shape[0]
    cdef const intp_t[::1] order
    cdef intp_t[:, ::1] parts
    cdef Placed* ordered
    cdef bint nested
    medians = np.empty(n_nodes)
    deviations = np.empty(n_nodes)
    cdef float64_t[::1] median = medians
    cdef float64_t[::1] deviation = deviations
    for k in range(n_nodes):
        if not 0 <= start[k] < stop[k] <= n:
            raise ValueError("a node has no rows, or rows that do not exist")
    for i in range(n):
        if rows[i] >= y.shape[0] or rows[i] >= weight.shape[0]:
            raise ValueError("a row id is out of range")
    order = np.argsort(np.asarray(y)[np.asarray(rows)], kind="stable")
    parts = np.empty((2, max(1, n)), dtype=np.intp)
    ordered = <Placed*>malloc(2 * max(1, n) * sizeof(Placed))
    if ordered == NULL:
        raise MemoryError("no memory for the medians of a tree")
    with nogil:
        for i in range(n):
            ordered[i].place = order[i]
            ordered[i].value = y[rows[order[i]]]
            ordered[i].weight = weight[rows[order[i]]]
        nested = describe_nodes(ordered, ordered + n, &parts[0, 0], &parts[1, 0], n, start, stop,
                                median, deviation)
    free(ordered)
    if not nested:
        raise ValueError("a node must come before its descendants")
    return medians, deviations


# ---- Best cut of a sorted list under any criterion --------------------------------------------
#
# Squared error, Gini and the Newton gain without constraints use the loops of `sorted_scan.h`;
# other criteria, several outputs and monotone constraints a general loop; absolute error its binary
# indexed trees. Rows with a missing value are tried on the right, then on the left; the cut between
# them and all others is a candidate too.
#
# Categories are sorted by their mean response, and then cut like numbers. For one target this finds
# the best of all subsets (Fisher 1958, Breiman et al. 1984); with several outputs or classes the
# order by each of them is tried.


cdef extern from "sorted_scan.h" nogil:

    ctypedef struct ht_cut_scan:
        const SortedEntry* entries
        const double* stats
        intp_t first, last
        double left_sum, left_weight, sum, weight, least_weight
        double lambda_ "lambda"
        double step, bar, noise, score

    intp_t ht_cut_unit(ht_cut_scan* scan, int far)
    intp_t ht_cut_pair(ht_cut_scan* scan, int newton, int far)
    intp_t ht_cut_class(ht_cut_scan* scan, double* left, double* right, int weighted)


cdef struct Search:
    # One pass along one list. The left side starts with the missing rows, or empty.
    const TargetView* target
    const SplitRules* rules
    const NodeView* node
    const SortedEntry* entries
    const float64_t* totals        # of the rows of both sides
    const float64_t* start         # initial sums of the left side
    intp_t n_rows                  # rows of both sides
    intp_t n_present
    intp_t n_start                 # initial rows of the left side
    intp_t n_missing
    float64_t parent_score
    int8_t monotone
    bint far
    ScanScratch* scratch


cdef struct TieDraw:
    # A draw among the cuts that are as good as the best (reservoir sampling).
    float64_t least                # minimum gain of such a cut
    uint64_t key
    intp_t n_tied
    intp_t chosen


cdef inline void offer(TieDraw* draw, float64_t gain, intp_t cut) noexcept nogil:
    if gain >= draw.least:
        draw.n_tied += 1
        if uniform(keyed(draw.key, draw.n_tied, 0)) * draw.n_tied < 1.0:
            draw.chosen = cut


cdef inline bint in_order(Search* search, float64_t a, float64_t b) noexcept nogil:
    if (search.monotone > 0 and a > b) or (search.monotone < 0 and a < b):
        return False
    return (search.node.bounds.lower <= a <= search.node.bounds.upper
            and search.node.bounds.lower <= b <= search.node.bounds.upper)


cdef inline bint has_targets(Search* search, const float64_t* sums) noexcept nogil:
    """Whether the sums of all (non-negative) targets of a side are positive beyond rounding.

    A sum obtained by subtraction may be positive even if all its targets are 0. The relative error
    of a sum of m such targets is at most (m - 1) u, u = DBL_EPSILON / 2, in any order. So the error
    of a difference is at most (2 m + 1) u of the node's sum, including the subtraction of missing
    rows; 2 m DBL_EPSILON also covers products of u.
    """
    cdef float64_t rounding = 2 * search.node.n_rows * DBL_EPSILON
    cdef int32_t k
    for k in range(search.target.n_sums):
        if sums[k] <= rounding * search.node.totals[k]:
            return False
    return True


cdef float64_t pair_gain(Search* search, const float64_t* left, float64_t* right) noexcept nogil:
    """Gain of a candidate from the sums of its left side; -inf if it is not allowed."""
    cdef int32_t k, n_sums = search.target.n_sums
    cdef float64_t least = search.rules.min_child_weight
    for k in range(n_sums + 1):
        right[k] = search.totals[k] - left[k]
    if left[n_sums] < least or right[n_sums] < least:
        return -INFINITY
    if search.rules.criterion == NEWTON:
        return pair_score(
            left[0], left[1], search.totals[0], search.totals[1], search.rules,
            &search.node.bounds if search.rules.monotone != NULL else NULL, search.monotone,
        ) - search.parent_score
    if search.monotone != 0 and not in_order(
            search, left[0] / left[n_sums], right[0] / right[n_sums]):
        return -INFINITY
    if search.rules.criterion == POISSON and not (
            has_targets(search, left) and has_targets(search, right)):
        return -INFINITY
    return (side_score(search.target, search.rules, left, NULL)
            + side_score(search.target, search.rules, right, NULL) - search.parent_score)


cdef intp_t cut_general(
    Search* search, intp_t first, intp_t last, float64_t* best_gain, TieDraw* draw
) noexcept nogil:
    """Best cut under any criterion but ABSOLUTE; with `draw`, only offer the candidates to it."""
    cdef int32_t n_numbers = search.target.n_sums + 2
    cdef float64_t* left = search.scratch.sides
    cdef float64_t* right = left + n_numbers
    cdef intp_t i, best = -1
    cdef float64_t gain, noise = HT_TIE_CUTS * abs(search.parent_score)
    cdef float64_t step = search.rules.candidate_share * search.totals[n_numbers - 2]
    cdef float64_t next_weight = search.start[n_numbers - 2] + step
    memcpy(left, search.start, n_numbers * sizeof(float64_t))
    for i in range(last):
        add_row(search.target,
                search.target.data + <intp_t>search.entries[i].row * search.target.width, left)
        if (i < first or search.entries[i].key == search.entries[i + 1].key
                or left[n_numbers - 2] < next_weight):
            continue
        next_weight = left[n_numbers - 2] + step
        gain = pair_gain(search, left, right)
        if draw != NULL:
            offer(draw, gain, i)
        elif gain > best_gain[0] + (noise + HT_TIE_SORTED * abs(gain) if best >= 0 else 0.0):
            best_gain[0] = gain
            best = i
    return best


cdef void clear_left(Search* search) noexcept nogil:
    """Empty the left trees of all outputs."""
    memset(search.scratch.tree, 0,
           search.target.n_sums * 2 * (search.node.n_rows + 1) * sizeof(float64_t))


cdef void move_left(Search* search, uint32_t row) noexcept nogil:
    """Add a row to the left trees of all outputs."""
    cdef intp_t m = search.node.n_rows
    cdef int32_t k
    for k in range(search.target.n_sums):
        add_to_tree(search.node.y_tree + k * (4 * m + 2), search.scratch.tree + k * 2 * (m + 1), m,
                    search.node.y_place[k * search.target.n_rows + row], 1.0)


cdef float64_t absolute_gain(Search* search) noexcept nogil:
    """Gain of the cut between the left rows and the others; -inf if it is not allowed."""
    cdef intp_t m = search.node.n_rows
    cdef int32_t k
    cdef float64_t gain = -search.parent_score, least = search.rules.min_child_weight
    cdef float64_t* left = search.scratch.tree
    cdef const float64_t* tree = search.node.y_tree
    if left[0] < least or tree[0] - left[0] < least:
        return -INFINITY
    if search.monotone != 0 and not in_order(
            search, side_median(tree, left, m, False), side_median(tree, left, m, True)):
        return -INFINITY
    for k in range(search.target.n_sums):
        tree = search.node.y_tree + k * (4 * m + 2)
        left = search.scratch.tree + k * 2 * (m + 1)
        gain -= side_deviation(tree, left, m, False) + side_deviation(tree, left, m, True)
    return gain


cdef intp_t cut_absolute(
    Search* search, intp_t first, intp_t last, float64_t* best_gain, TieDraw* draw
) noexcept nogil:
    """Best cut under ABSOLUTE; `draw` as in `cut_general`."""
    cdef intp_t i, best = -1
    cdef float64_t gain
    clear_left(search)
    for i in range(search.n_start):
        move_left(search, search.entries[search.n_present + i].row)
    for i in range(last):
        move_left(search, search.entries[i].row)
        if i < first or search.entries[i].key == search.entries[i + 1].key:
            continue
        gain = absolute_gain(search)
        if draw != NULL:
            offer(draw, gain, i)
        elif gain > best_gain[0] + HT_TIE_SORTED * abs(search.parent_score) * (best >= 0):
            best_gain[0] = gain
            best = i
    return best


cdef intp_t cut_fast(
    Search* search, intp_t first, intp_t last, float64_t* best_gain
) noexcept nogil:
    """Best cut by the loops of `sorted_scan.h`."""
    cdef const TargetView* target = search.target
    cdef const float64_t* totals = search.totals
    cdef int32_t n_sums = target.n_sums, k
    cdef float64_t* left = search.scratch.sides
    cdef float64_t* right = left + n_sums + 2
    cdef float64_t weight = totals[n_sums], least = search.rules.min_child_weight
    cdef ht_cut_scan scan
    cdef intp_t best
    scan.entries = search.entries
    scan.stats = target.data
    scan.first = first
    scan.last = last
    scan.left_sum = search.start[0]
    scan.left_weight = search.start[n_sums]
    scan.sum = totals[0]
    scan.weight = weight
    scan.least_weight = least
    scan.lambda_ = search.rules.reg_lambda
    scan.noise = 0
    scan.step = search.rules.candidate_share * weight
    if search.rules.criterion == NEWTON:
        scan.bar = best_gain[0] + search.parent_score
        best = ht_cut_pair(&scan, 1, search.far)
        if best >= 0:
            best_gain[0] = scan.score - search.parent_score
        return best
    # A side of weight 0, after rounding, would have an infinite gain.
    scan.least_weight = max(least, DBL_MIN)
    if target.layout == TARGET_UNWEIGHTED or target.layout == TARGET_PAIR:
        # Smaller differences from the mean are rounding errors.
        scan.noise = HT_TIE_SQUARES * totals[n_sums + 1] / weight
        scan.bar = best_gain[0] / weight
        if target.layout == TARGET_UNWEIGHTED:
            best = ht_cut_unit(&scan, search.far)
        else:
            best = ht_cut_pair(&scan, 0, search.far)
        if best >= 0:
            best_gain[0] = scan.score * weight
        return best
    memcpy(left, search.start, n_sums * sizeof(float64_t))
    scan.left_sum = 0
    scan.sum = 0
    for k in range(n_sums):
        right[k] = totals[k] - left[k]
        scan.left_sum += left[k] * left[k]
        scan.sum += right[k] * right[k]
    scan.bar = best_gain[0] + search.parent_score
    best = ht_cut_class(&scan, left, right, target.layout == TARGET_CLASS_WEIGHTED)
    if best >= 0:
        best_gain[0] = scan.score - search.parent_score
    return best


cdef inline bint is_fast(Search* search) noexcept nogil:
    """Whether `cut_fast` applies."""
    cdef const SplitRules* rules = search.rules
    if rules.criterion == NEWTON:
        # Bounds from monotone constraints concern all features of a node. The fast loop divides by
        # the hessian of each side plus lambda, so one of the limits must keep it positive.
        return (search.target.layout == TARGET_PAIR and rules.reg_alpha == 0
                and rules.max_delta_step <= 0 and rules.monotone == NULL
                and (rules.reg_lambda > 0 or rules.min_child_weight > 0))
    return search.monotone == 0 and rules.criterion == SQUARES and search.target.layout in (
        TARGET_UNWEIGHTED, TARGET_PAIR, TARGET_CLASS, TARGET_CLASS_WEIGHTED)


cdef bint cut_with_start(
    Search* search, float64_t* best_gain, intp_t* n_left, TieDraw* draw
) noexcept nogil:
    """Best cut for one side of the missing rows; true if it beats `best_gain` or was drawn."""
    cdef intp_t least_rows = max(<intp_t>1, <intp_t>search.rules.min_samples_leaf)
    cdef intp_t first, last, best
    cdef float64_t least = search.rules.min_child_weight
    # Weights that are numbers of rows: the minimum weight is a minimum number of rows.
    cdef bint counts = search.target.layout == TARGET_UNWEIGHTED
    if counts and search.rules.criterion == SQUARES and least > 1:
        least_rows = max(least_rows, <intp_t>least + (<float64_t><intp_t>least < least))
    first = max(<intp_t>0, least_rows - 1 - search.n_start)
    last = min(search.n_present - 1, search.n_rows - search.n_start - least_rows)
    if first >= last or search.entries[first].key == search.entries[last].key:
        return False
    if search.rules.criterion == ABSOLUTE:
        best = cut_absolute(search, first, last, best_gain, draw)
    elif draw == NULL and is_fast(search):
        best = cut_fast(search, first, last, best_gain)
    else:
        best = cut_general(search, first, last, best_gain, draw)
    if draw != NULL:
        best = draw.chosen
    if best >= 0:
        n_left[0] = best + 1
    return best >= 0


cdef float64_t missing_alone(Search* search, const float64_t* missing) noexcept nogil:
    """Gain of the cut that sends all values left and the missing rows right."""
    cdef int32_t n_sums = search.target.n_sums, k
    cdef intp_t least_rows = max(<intp_t>1, <intp_t>search.rules.min_samples_leaf), i
    cdef float64_t* left = search.scratch.sides
    if search.n_present < least_rows or search.n_missing < least_rows:
        return -INFINITY
    if search.rules.criterion != ABSOLUTE:
        for k in range(n_sums + 1):
            left[k] = search.totals[k] - missing[k]
        return pair_gain(search, left, left + n_sums + 2)
    clear_left(search)
    for i in range(search.n_present):
        move_left(search, search.entries[i].row)
    return absolute_gain(search)


cdef void open_search(
    Search* search, const TargetView* target, const SplitRules* rules, const NodeView* node,
    const SortedEntry* entries, intp_t n, int8_t monotone, bint far, ScanScratch* scratch,
    NodeView* present,
) noexcept nogil:
    """OUT a search of one list; `present` is memory for the node without its missing rows."""
    cdef int32_t n_numbers = target.n_sums + 2, k
    cdef float64_t* missing = scratch.sides + 2 * n_numbers
    cdef float64_t* totals = scratch.sides + 3 * n_numbers
    cdef intp_t i
    search.target = target
    search.rules = rules
    search.node = node
    search.entries = entries
    search.n_present = count_present(entries, n)
    search.n_missing = n - search.n_present
    search.n_rows = n
    search.n_start = 0
    search.monotone = monotone
    search.far = far
    search.scratch = scratch
    memset(missing, 0, n_numbers * sizeof(float64_t))
    search.start = missing
    search.totals = node.totals
    search.parent_score = node.parent_score
    if search.n_missing == 0 and rules.criterion != ABSOLUTE:
        return
    if search.n_missing > 0 and rules.stop_missing:
        # Only rows with a value count.
        if rules.criterion == ABSOLUTE:
            present[0] = node_without_missing(search)
            search.node = present
        memcpy(totals, node.totals, n_numbers * sizeof(float64_t))
        for i in range(search.n_present, n):
            add_row(target, target.data + <intp_t>entries[i].row * target.width, missing)
        for k in range(target.n_sums + 1):
            totals[k] -= missing[k]
            missing[k] = 0
        search.totals = totals
        search.n_rows = search.n_present
        search.n_missing = 0
    if rules.criterion == ABSOLUTE:
        search.parent_score = 0
        for k in range(target.n_sums):
            search.parent_score -= node_deviation(search, k)
    elif rules.stop_missing:
        search.parent_score = side_score(target, rules, search.totals, &node.bounds)


cdef Cut best_cut(
    const TargetView* target, const SplitRules* rules, const NodeView* node,
    const SortedEntry* entries, intp_t n, int8_t monotone, bint far, ScanScratch* scratch,
) noexcept nogil:
    """Best cut of one list of n entries, those with a missing value last."""
    cdef Search search
    cdef NodeView present
    cdef Cut cut = no_cut()
    cdef float64_t* missing = scratch.sides + 2 * (target.n_sums + 2)
    cdef float64_t gain
    cdef intp_t i
    if entries[0].key == entries[n - 1].key:
        return cut
    open_search(&search, target, rules, node, entries, n, monotone, far, scratch, &present)
    if search.n_present == 0:
        return cut
    gain = zero_gain(search.parent_score) if rules.any_gain else 0.0
    if cut_with_start(&search, &gain, &cut.n_left, NULL):
        cut.gain = gain
    if search.n_missing == 0:
        return cut
    for i in range(search.n_present, n):
        add_row(target, target.data + <intp_t>entries[i].row * target.width, missing)
    cut_missing_left(&search, missing, &gain, &cut)
    return cut


cdef intp_t draw_tied(
    const TargetView* target, const SplitRules* rules, const NodeView* node,
    const SortedEntry* entries, intp_t n, int8_t monotone, ScanScratch* scratch, Cut cut,
    uint64_t key,
) noexcept nogil:
    """`n_left` of a random one of the cuts that are as good as `cut`."""
    cdef Search search
    cdef NodeView present
    cdef TieDraw draw
    cdef float64_t* missing = scratch.sides + 2 * (target.n_sums + 2)
    cdef float64_t gain = cut.gain
    cdef intp_t i, n_left = cut.n_left
    open_search(&search, target, rules, node, entries, n, monotone, False, scratch, &present)
    if cut.n_left == search.n_present:
        return n_left
    if cut.missing_left:
        for i in range(search.n_present, n):
            add_row(target, target.data + <intp_t>entries[i].row * target.width, missing)
        search.n_start = search.n_missing
    draw.least = (cut.gain - HT_TIE_DRAWN * abs(cut.gain)
                  - HT_TIE_CUTS * abs(search.parent_score))
    draw.key = key
    draw.n_tied = 0
    draw.chosen = -1
    cut_with_start(&search, &gain, &n_left, &draw)
    return n_left


cdef void cut_missing_left(
    Search* search, const float64_t* missing, float64_t* gain, Cut* cut
) noexcept nogil:
    """Try the missing rows alone on the right, then together with low values on the left."""
    cdef float64_t alone = missing_alone(search, missing)
    if alone > gain[0]:
        gain[0] = alone
        cut.gain = alone
        cut.n_left = search.n_present
    search.n_start = search.n_missing
    search.start = missing
    # On a tie the missing rows go right.
    gain[0] += HT_TIE_SORTED * abs(gain[0])
    if cut_with_start(search, gain, &cut.n_left, NULL):
        cut.gain = gain[0]
        cut.missing_left = 1


cdef NodeView node_without_missing(Search* search) noexcept nogil:
    """The node without its missing rows; its trees follow the left trees in the scratch."""
    cdef NodeView node = search.node[0]
    cdef intp_t m = node.n_rows, i
    cdef int32_t k, n_outputs = search.target.n_sums
    cdef float64_t* trees = search.scratch.tree + n_outputs * 2 * (m + 1)
    memcpy(trees, node.y_tree, n_outputs * (4 * m + 2) * sizeof(float64_t))
    for k in range(n_outputs):
        for i in range(search.n_present, search.n_rows):
            add_to_tree(trees + k * (4 * m + 2), trees + k * (4 * m + 2), m,
                        node.y_place[k * search.target.n_rows + search.entries[i].row], -1.0)
    node.y_tree = trees
    return node


cdef float64_t node_deviation(Search* search, int32_t output) noexcept nogil:
    """Absolute deviations of the node's rows, as those right of an empty left side."""
    cdef intp_t m = search.node.n_rows
    memset(search.scratch.tree, 0, 2 * (m + 1) * sizeof(float64_t))
    return side_deviation(search.node.y_tree + output * (4 * m + 2), search.scratch.tree, m, True)
