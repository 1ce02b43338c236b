"""Absolute deviations from the median on both sides of every cut.

The rows of a node are numbered by the order of y. A binary indexed tree (Fenwick 1994) over those
numbers holds weights and weighted targets of the rows that stand left; the median is found by
descent and the sums before it give the deviations, all in log(n) steps per row. The right side
is what remains of the node's own tree.

A tree over n rows is an array of n + 1 pairs (weight, weighted y): the totals first, then the
tree. Behind it the node's own array has n pairs (y, weight), the rows in their order.
"""

from libc.math cimport fabs
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from hybridtrees.core._types cimport (
    TARGET_UNIT, Entry, TargetView, float64_t, int32_t, intp_t, uint32_t,
)

import numpy as np

cdef struct Placed:
    # A row of a tree: its target, and its place among the rows node by node.
    float64_t value
    float64_t weight
    intp_t place


cdef void order_rows(
    const TargetView* target, int32_t output, const Entry* by_y, intp_t n, uint32_t* place,
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
        weight = 1.0 if target.layout == TARGET_UNIT else row[target.width - 1]
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

    Parameters
    ----------
    y, weight : float64 arrays, one entry per row of the table
    rows : uint32 array of row ids
    start, stop : intp arrays, the slice of `rows` that each node has; none is empty, and a node
        comes before those within it

    Returns
    -------
    medians, deviations : float64 arrays, one entry per node
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
