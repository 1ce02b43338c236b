"""Criteria of the exact search: sums of targets, absolute deviations, the best cut of a list."""

from libc.float cimport DBL_EPSILON, DBL_MIN
from libc.math cimport INFINITY, fabs, log, log2
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._types cimport (
    ABSOLUTE, ENTROPY, HT_TIE_SORTED, NEWTON, POISSON, SQUARES, TARGET_CLASS,
    TARGET_CLASS_WEIGHTED, TARGET_PAIR, TARGET_UNWEIGHTED, Bounds, SortedEntry, SplitRules,
    TargetView, float64_t, int32_t, int8_t, intp_t, uint32_t, uint64_t,
)
from hybridtrees.core.search._sorted cimport count_present
from hybridtrees.core.search._split cimport node_score, pair_score

import numpy as np


# ---- Targets of the exact search: their sums, and what a criterion makes of those -------------
#
# The sums of a node are n_sums numbers, its weight behind them, and, where a whole node is summed,
# its sum of squares.


cdef inline float64_t plog2(float64_t value) noexcept nogil:
    return value * log2(value) if value > 0 else 0.0


cdef void add_row(const TargetView* target, const float64_t* row, float64_t* sums) noexcept nogil:
    """Add one row to the n_sums sums and the weight behind them."""
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
    """Score of one side from its sums; -inf where the side cannot be a node.

    The bounds of its value count in the Newton score alone, and only under constraints.
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
            # A side whose targets are all 0 has no Poisson deviance.
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
    """OUT sums, weight and sum of squares of some rows; false where their targets are equal."""
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
            # w y of two rows of equal y have the ratio of their weights, up to rounding.
            differs |= fabs(row[k] * first[n_sums] - first[k] * row[n_sums]) > (
                8e-16 * fabs(first[k] * row[n_sums]))
            if row[n_sums] > 0:
                square += row[k] * row[k] / row[n_sums]
    totals[n_sums + 1] = square
    return differs


cdef float64_t list_median(
    const TargetView* target, const SortedEntry* by_y, intp_t n, float64_t weight
) noexcept nogil:
    """Weighted median of the first output over a list in the order of y.

    Where the weight is halved exactly between two values, their mean.
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
# The rows of a node are numbered by the order of y. A binary indexed tree (Fenwick 1994) over those
# numbers holds weights and weighted targets of the rows that stand left; the median is found by
# descent and the sums before it give the deviations, all in log(n) steps per row. The right side
# is what remains of the node's own tree.
#
# A tree over n rows is an array of n + 1 pairs (weight, weighted y): the totals first, then the
# tree. Behind it the node's own array has n pairs (y, weight), the rows in their order.


cdef struct Placed:
    # A row of a tree: its target, and its place among the rows node by node.
    float64_t value
    float64_t weight
    intp_t place


cdef void order_rows(
    const TargetView* target, int32_t output, const SortedEntry* by_y, intp_t n, uint32_t* place,
    float64_t* tree,
) noexcept nogil:
    """OUT place of each row in the order of y, and the node's own tree (4 n + 2 numbers)."""
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


cdef void move_left(
    const float64_t* node_tree, float64_t* left, intp_t n, intp_t place
) noexcept nogil:
    """Add one row to the left tree, which starts as 2 (n + 1) zeros."""
    cdef const float64_t* pair = node_tree + 2 * (n + 1 + place)
    cdef float64_t weight = pair[1], sum = pair[0] * pair[1]
    cdef intp_t i = place + 1
    left[0] += weight
    left[1] += sum
    while i <= n:
        left[2 * i] += weight
        left[2 * i + 1] += sum
        i += i & -i


cdef inline intp_t highest_step(intp_t n) noexcept nogil:
    cdef intp_t step = 1
    while 2 * step <= n:
        step *= 2
    return step


cdef float64_t left_deviation(
    const float64_t* node_tree, const float64_t* left, intp_t n
) noexcept nogil:
    """Sum of absolute deviations of the left rows from their median."""
    cdef intp_t at = 0, step = highest_step(n)
    cdef float64_t half = 0.5 * left[0], weight = 0, sum = 0, median
    while step > 0:
        if at + step <= n and weight + left[2 * (at + step)] < half:
            at += step
            weight += left[2 * at]
            sum += left[2 * at + 1]
        step //= 2
    median = node_tree[2 * (n + 1 + min(at, n - 1))]
    return median * weight - sum + (left[1] - sum) - median * (left[0] - weight)


cdef float64_t right_deviation(
    const float64_t* node_tree, const float64_t* left, intp_t n
) noexcept nogil:
    """The same for the rows that are not left."""
    cdef intp_t at = 0, step = highest_step(n), to
    cdef float64_t total = node_tree[0] - left[0], all = node_tree[1] - left[1]
    cdef float64_t half = 0.5 * total, weight = 0, sum = 0, median
    while step > 0:
        to = at + step
        if to <= n and weight + (node_tree[2 * to] - left[2 * to]) < half:
            at = to
            weight += node_tree[2 * to] - left[2 * to]
            sum += node_tree[2 * to + 1] - left[2 * to + 1]
        step //= 2
    median = node_tree[2 * (n + 1 + min(at, n - 1))]
    return median * weight - sum + (all - sum) - median * (total - weight)


cdef intp_t first_above(
    const float64_t* node_tree, const float64_t* left, intp_t n, bint right, bint strict
) noexcept nogil:
    """Place of the first row of a side up to which half of its weight, or more, is reached."""
    cdef intp_t at = 0, step = highest_step(n), to
    cdef float64_t half = 0.5 * (node_tree[0] - left[0] if right else left[0]), weight = 0, more
    while step > 0:
        to = at + step
        if to <= n:
            more = weight + (node_tree[2 * to] - left[2 * to] if right else left[2 * to])
            if more < half or (strict and more == half):
                at = to
                weight = more
        step //= 2
    return min(at, n - 1)


cdef float64_t side_median(
    const float64_t* node_tree, const float64_t* left, intp_t n, bint right
) noexcept nogil:
    """Median of one side; the mean of two values that halve the weight exactly."""
    cdef const float64_t* pairs = node_tree + 2 * (n + 1)
    return 0.5 * (pairs[2 * first_above(node_tree, left, n, right, False)]
                  + pairs[2 * first_above(node_tree, left, n, right, True)])


cdef void take_out(float64_t* node_tree, intp_t n, intp_t place) noexcept nogil:
    """Remove one row from the node's own tree."""
    cdef float64_t weight = node_tree[2 * (n + 1 + place) + 1]
    cdef float64_t sum = node_tree[2 * (n + 1 + place)] * weight
    cdef intp_t i = place + 1
    node_tree[0] -= weight
    node_tree[1] -= sum
    while i <= n:
        node_tree[2 * i] -= weight
        node_tree[2 * i + 1] -= sum
        i += i & -i


cdef void describe(
    const Placed* pairs, intp_t n, float64_t* median, float64_t* deviation
) noexcept nogil:
    """Weighted median of sorted rows, and mean absolute deviation from it.

    Where the weight is halved exactly between two values, their mean is the median.
    """
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
    """Part ordered[first:last] by place: before start, within [start, stop), behind.

    Each part keeps its order and ends up at its own places.
    """
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
    """Medians of nested slices, the outer ones first; False where they are not.

    `ordered` has all rows by value. It is cut into parts, each ordered in itself, that begin and
    end where the arrays `begin` and `end` say for every place; a node takes its own part out of
    the one that holds it. So a level of the tree costs one pass and no row is sorted again.
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

    `start` and `stop` are the slice of `rows` that each node has; none is empty, and a node comes
    before those within it.
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
        raise ValueError("a node must come before those within it")
    return medians, deviations


# ---- Best cut of a sorted list under any criterion --------------------------------------------
#
# Squared error, Gini and the Newton gain of unconstrained features run in the loops of
# `sorted_scan.h`; everything else (other criteria, several outputs, monotone constraints) in one
# general loop, and absolute error along its own trees. Rows with a missing value are
# tried on the right, then on the left; the cut that parts them from all others counts too.
#
# Categories are ordered by their mean response, and the list is rewritten in that order, so that
# the same loops cut it. For one number per row that finds the best of all subsets (Fisher 1958,
# Breiman et al. 1984); with several outputs or classes the order by each of them is tried.


cdef extern from "sorted_scan.h" nogil:

    ctypedef struct ht_cut_scan:
        const SortedEntry* entries
        const double* stats
        intp_t first
        intp_t last
        double left_sum
        double left_weight
        double sum
        double weight
        double least_weight
        double lambda_ "lambda"
        double step
        double bar
        double noise
        double score

    intp_t ht_cut_unit(ht_cut_scan* scan, int far)
    intp_t ht_cut_pair(ht_cut_scan* scan, int newton, int far)
    intp_t ht_cut_class(ht_cut_scan* scan, double* left, double* right, int weighted)


cdef struct Search:
    # One pass along one list.
    const TargetView* target
    const SplitRules* rules
    const NodeView* node
    const SortedEntry* entries
    const float64_t* totals        # of the rows that take part
    const float64_t* start         # sums that stand left from the beginning
    intp_t n_rows                  # rows that take part
    intp_t n_present
    intp_t n_start                 # rows that stand left from the beginning
    intp_t n_missing
    float64_t parent_score
    int8_t monotone
    bint far
    ScanScratch* scratch


cdef struct TieDraw:
    # A draw among the cuts that are as good as the best: each replaces the one before it with a
    # chance that leaves all of them equally likely.
    float64_t least                # gain of a cut that takes part
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
    """Whether a side has more than nothing of every target, which are counts from 0 up.

    A side that is left over by subtraction has a sum even where its targets are all 0. Adding up
    m such targets is wrong by at most (m - 1) u of their sum, u = DBL_EPSILON / 2, in any order.
    So a difference of sums within the node is wrong by at most (2 m + 1) u of the node's sum, one
    for the subtraction of missing rows; twice m DBL_EPSILON leaves room for products of u.
    """
    cdef float64_t rounding = 2 * search.node.n_rows * DBL_EPSILON
    cdef int32_t k
    for k in range(search.target.n_sums):
        if sums[k] <= rounding * search.node.totals[k]:
            return False
    return True


cdef float64_t pair_gain(Search* search, const float64_t* left, float64_t* right) noexcept nogil:
    """Gain of a candidate from the sums of its left side; -inf where it is not allowed."""
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
    """Any criterion but ABSOLUTE: keep the left sums, score both sides at every candidate.

    With a draw the candidates are only offered to it.
    """
    cdef int32_t n_numbers = search.target.n_sums + 2
    cdef float64_t* left = search.scratch.sides
    cdef float64_t* right = left + n_numbers
    cdef intp_t i, best = -1
    cdef float64_t gain, noise = 1e-13 * abs(search.parent_score)
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


cdef intp_t cut_absolute(
    Search* search, intp_t first, intp_t last, float64_t* best_gain, TieDraw* draw
) noexcept nogil:
    """Absolute error: one tree of left rows per output; with a draw as in `cut_general`."""
    cdef intp_t m = search.node.n_rows, i, j, best = -1, place
    cdef int32_t k, n_outputs = search.target.n_sums
    cdef intp_t node_size = 4 * m + 2, left_size = 2 * (m + 1)
    cdef float64_t gain, least = search.rules.min_child_weight
    cdef float64_t* left
    cdef const float64_t* tree
    cdef uint32_t row
    memset(search.scratch.tree, 0, n_outputs * left_size * sizeof(float64_t))
    for i in range(-search.n_start, last):
        # Rows that stand left from the beginning are the missing ones, last in the list.
        j = i if i >= 0 else search.n_present + search.n_start + i
        row = search.entries[j].row
        for k in range(n_outputs):
            place = search.node.y_place[k * search.target.n_rows + row]
            move_left(search.node.y_tree + k * node_size, search.scratch.tree + k * left_size, m,
                      place)
        if i < first or search.entries[i].key == search.entries[i + 1].key:
            continue
        if (search.scratch.tree[0] < least
                or search.node.y_tree[0] - search.scratch.tree[0] < least):
            continue
        gain = -search.parent_score
        for k in range(n_outputs):
            tree = search.node.y_tree + k * node_size
            left = search.scratch.tree + k * left_size
            gain -= left_deviation(tree, left, m) + right_deviation(tree, left, m)
        if search.monotone != 0 and not in_order(
                search, side_median(search.node.y_tree, search.scratch.tree, m, False),
                side_median(search.node.y_tree, search.scratch.tree, m, True)):
            continue
        if draw != NULL:
            offer(draw, gain, i)
        elif gain > best_gain[0] + HT_TIE_SORTED * abs(search.parent_score) * (best >= 0):
            best_gain[0] = gain
            best = i
    return best


cdef intp_t cut_fast(
    Search* search, intp_t first, intp_t last, float64_t* best_gain
) noexcept nogil:
    """The criteria that have loops of their own."""
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
    # A side whose weight is lost in that of the other has no mean: its gain would be infinite.
    scan.least_weight = max(least, DBL_MIN)
    if target.layout == TARGET_UNWEIGHTED or target.layout == TARGET_PAIR:
        # Below this a difference from the mean is rounding.
        scan.noise = 1e-22 * totals[n_sums + 1] / weight
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
    cdef const SplitRules* rules = search.rules
    if rules.criterion == NEWTON:
        # Under monotone constraints the bounds of a node concern all its features. The fast loop
        # divides by the hessian of either side, which may be 0 where nothing keeps it from that.
        return (search.target.layout == TARGET_PAIR and rules.reg_alpha == 0
                and rules.max_delta_step <= 0 and rules.monotone == NULL
                and (rules.reg_lambda > 0 or rules.min_child_weight > 0))
    if search.monotone != 0:
        return False
    if rules.criterion != SQUARES:
        return False
    if search.target.layout == TARGET_UNWEIGHTED:
        # Weights are counts here, so the least weight is one more bound on the rows.
        return True
    return search.target.layout in (TARGET_PAIR, TARGET_CLASS, TARGET_CLASS_WEIGHTED)


cdef bint cut_with_start(
    Search* search, float64_t* best_gain, intp_t* n_left, TieDraw* draw
) noexcept nogil:
    """One direction of the missing rows; true if it beats `best_gain`, or if one was drawn."""
    cdef intp_t least_rows = max(<intp_t>1, <intp_t>search.rules.min_samples_leaf)
    cdef intp_t first, last, best
    cdef float64_t least = search.rules.min_child_weight
    cdef bint counts = search.target.layout == TARGET_UNWEIGHTED    # weights are numbers of rows
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
    cdef intp_t least_rows = max(<intp_t>1, <intp_t>search.rules.min_samples_leaf), m, i
    cdef float64_t* left = search.scratch.sides
    cdef float64_t gain
    if search.n_present < least_rows or search.n_missing < least_rows:
        return -INFINITY
    if search.rules.criterion != ABSOLUTE:
        for k in range(n_sums + 1):
            left[k] = search.totals[k] - missing[k]
        return pair_gain(search, left, left + n_sums + 2)
    if (missing[n_sums] < search.rules.min_child_weight
            or search.totals[n_sums] - missing[n_sums] < search.rules.min_child_weight):
        return -INFINITY
    m = search.node.n_rows
    memset(search.scratch.tree, 0, n_sums * 2 * (m + 1) * sizeof(float64_t))
    gain = -search.parent_score
    for k in range(n_sums):
        for i in range(search.n_present):
            move_left(search.node.y_tree + k * (4 * m + 2), search.scratch.tree + k * 2 * (m + 1),
                      m, search.node.y_place[k * search.target.n_rows + search.entries[i].row])
        gain -= left_deviation(search.node.y_tree + k * (4 * m + 2),
                               search.scratch.tree + k * 2 * (m + 1), m)
        gain -= right_deviation(search.node.y_tree + k * (4 * m + 2),
                                search.scratch.tree + k * 2 * (m + 1), m)
    if search.monotone != 0 and not in_order(
            search, side_median(search.node.y_tree, search.scratch.tree, m, False),
            side_median(search.node.y_tree, search.scratch.tree, m, True)):
        return -INFINITY
    return gain


cdef void open_search(
    Search* search, const TargetView* target, const SplitRules* rules, const NodeView* node,
    const SortedEntry* entries, intp_t n, int8_t monotone, bint far, ScanScratch* scratch,
    NodeView* present,
) noexcept nogil:
    """Fill a search of one list; `present` has room for the node without its missing rows."""
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
        # Only the rows with a value take part.
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
    else:
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
    # Where any split is better than none, a gain that rounding has made negative counts as 0.
    gain = -1e-9 * abs(search.parent_score) - 1e-300 if rules.any_gain else 0.0
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
    """One of the cuts that are as good as `cut`, all with the same chance: its `n_left`."""
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
    draw.least = cut.gain - 1e-10 * abs(cut.gain) - 1e-13 * abs(search.parent_score)
    draw.key = key
    draw.n_tied = 0
    draw.chosen = -1
    cut_with_start(&search, &gain, &n_left, &draw)
    return n_left


cdef void cut_missing_left(
    Search* search, const float64_t* missing, float64_t* gain, Cut* cut
) noexcept nogil:
    """The missing rows alone on the right, then with the lower values on the left."""
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
    """The node whose trees of y (behind the left trees in the scratch) lack the missing rows."""
    cdef NodeView node = search.node[0]
    cdef intp_t m = node.n_rows, i
    cdef int32_t k, n_outputs = search.target.n_sums
    cdef float64_t* trees = search.scratch.tree + n_outputs * 2 * (m + 1)
    memcpy(trees, node.y_tree, n_outputs * (4 * m + 2) * sizeof(float64_t))
    for k in range(n_outputs):
        for i in range(search.n_present, search.n_rows):
            take_out(trees + k * (4 * m + 2), m,
                     node.y_place[k * search.target.n_rows + search.entries[i].row])
    node.y_tree = trees
    return node


cdef float64_t node_deviation(Search* search, int32_t output) noexcept nogil:
    """Absolute deviations of the node's rows, all on the right of an empty left side."""
    cdef intp_t m = search.node.n_rows
    memset(search.scratch.tree, 0, 2 * (m + 1) * sizeof(float64_t))
    return right_deviation(search.node.y_tree + output * (4 * m + 2), search.scratch.tree, m)
