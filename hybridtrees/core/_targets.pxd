"""Targets of the exact search: their sums, and what a criterion makes of those."""

from hybridtrees.core._types cimport (
    TARGET_UNIT, Bounds, Entry, SplitRules, TargetView, float64_t, intp_t, uint32_t,
)

cdef void add_row(const TargetView* target, const float64_t* row, float64_t* sums) noexcept nogil

cdef float64_t side_score(
    const TargetView* target, const SplitRules* rules, const float64_t* sums,
    const Bounds* bounds,
) noexcept nogil

cdef bint sum_rows(
    const TargetView* target, const uint32_t* rows, intp_t n, float64_t* totals
) noexcept nogil

cdef float64_t list_median(
    const TargetView* target, const Entry* by_y, intp_t n, float64_t weight
) noexcept nogil


cdef inline float64_t row_weight(const TargetView* target, uint32_t row) noexcept nogil:
    """Weight of a row that has sums (not a class)."""
    if target.layout == TARGET_UNIT:
        return 1.0
    return target.data[<intp_t>row * target.width + target.n_sums]
