"""Targets of the exact search: their sums, and what a criterion makes of those.

The sums of a node are n_sums numbers, its weight behind them, and, where a whole node is summed,
its sum of squares.
"""

from libc.math cimport INFINITY, fabs, log, log2
from libc.string cimport memset

from hybridtrees.core._split cimport node_score
from hybridtrees.core._types cimport (
    ENTROPY, NEWTON, POISSON, SQUARES, TARGET_CLASS, TARGET_CLASS_WEIGHTED, TARGET_UNIT,
    Bounds, Entry, SplitRules, TargetView, float64_t, int32_t, intp_t, uint32_t,
)


cdef inline float64_t plog(float64_t value) noexcept nogil:
    return value * log(value) if value > 0 else 0.0


cdef inline float64_t plog2(float64_t value) noexcept nogil:
    return value * log2(value) if value > 0 else 0.0


cdef void add_row(const TargetView* target, const float64_t* row, float64_t* sums) noexcept nogil:
    """Add one row to the n_sums sums and the weight behind them."""
    cdef int32_t k
    if target.layout == TARGET_UNIT:
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
    if target.layout == TARGET_UNIT:
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
    const TargetView* target, const Entry* by_y, intp_t n, float64_t weight
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
