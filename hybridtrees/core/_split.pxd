"""Best split of a node from its histogram."""

from hybridtrees.core._types cimport (
    Bounds, BinView, NodeSums, SplitInfo, SplitRules, StatsView,
    float64_t, int8_t, int32_t, int64_t, intp_t,
)

cdef enum:
    SCAN_WORDS = 1280      # doubles of scratch per thread

cdef float64_t node_score(
    float64_t grad, float64_t hess, const SplitRules* rules, const Bounds* bounds
) noexcept nogil

cdef float64_t bounded_weight(
    float64_t grad, float64_t hess, const SplitRules* rules, const Bounds* bounds
) noexcept nogil

cdef float64_t pair_score(
    float64_t left_grad, float64_t left_hess, float64_t grad, float64_t hess,
    const SplitRules* rules, const Bounds* bounds, int8_t monotone,
) noexcept nogil

cdef float64_t node_weight(float64_t grad, float64_t hess, const SplitRules* rules) noexcept nogil

cdef void find_split(
    const BinView* bins, const StatsView* stats, const SplitRules* rules,
    const int64_t* hist, const NodeSums* total, const Bounds* bounds, const int32_t* features,
    int32_t n_features, SplitInfo* by_feature, float64_t* scratch, int n_threads, SplitInfo* best,
) noexcept nogil

cdef NodeSums sums_from_histogram(
    const BinView* bins, const StatsView* stats, const int64_t* hist, int32_t feature
) noexcept nogil
