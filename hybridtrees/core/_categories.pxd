"""Categories of a node in the order of their response."""

from hybridtrees.core._types cimport (
    Entry, SplitRules, TargetView, float64_t, int32_t, intp_t, uint32_t,
)

cdef intp_t order_categories(
    const TargetView* target, const SplitRules* rules, const Entry* entries, intp_t n,
    int32_t output, float64_t* sums, float64_t* response, uint32_t* start, Entry* out,
) noexcept nogil
