"""The best split of a node from its histogram, and the partition of its rows."""

from libc.math cimport fabs

from hybridtrees.core.base._types cimport (
    GRAD_ONLY, HT_TINY, HT_WHOLE, HT_ZERO_GAIN, BinView, Bounds, NodeSums, SplitInfo, SplitRules,
    StatsView, float64_t, int32_t, int64_t, int8_t, intp_t, uint32_t, uint8_t,
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

cdef struct NodeScan:
    # State of the scans of all features of a node.
    const BinView* bins
    const StatsView* stats
    const SplitRules* rules
    const int64_t* hist
    const NodeSums* total
    const Bounds* bounds         # NULL: no monotone constraint in the tree
    SplitInfo* by_feature        # best split of each feature
    float64_t score              # of the node itself
    int32_t width                # bytes of a vector

cdef void open_scan(
    NodeScan* scan, const BinView* bins, const StatsView* stats, const SplitRules* rules,
    const int64_t* hist, const NodeSums* total, const Bounds* bounds, SplitInfo* by_feature,
) noexcept nogil

cdef void scan_gain(const NodeScan* scan, int32_t feature, float64_t* scratch) noexcept nogil

cdef void choose_split(
    const NodeScan* scan, const int32_t* features, int32_t n_features, float64_t* scratch,
    SplitInfo* best,
) noexcept nogil

cdef void find_split(
    const NodeScan* scan, const int32_t* features, int32_t n_features, float64_t* scratch,
    int n_threads, SplitInfo* best,
) noexcept nogil

cdef NodeSums sums_from_histogram(
    const BinView* bins, const StatsView* stats, const int64_t* hist, int32_t feature
) noexcept nogil


cdef inline NodeSums read_cell(
    const StatsView* stats, const int64_t* cells, intp_t cell
) noexcept nogil:
    cdef NodeSums sums
    cdef int64_t mask = ((<int64_t>1) << stats.count_bits) - 1
    cdef int64_t word
    if stats.layout == GRAD_ONLY:
        word = cells[cell]
        sums.grad = word >> stats.count_bits
        sums.n_samples = word & mask
        sums.hess = sums.n_samples
    else:
        word = cells[2 * cell + 1]
        sums.grad = cells[2 * cell]
        sums.hess = word >> stats.count_bits
        sums.n_samples = word & mask
    return sums


cdef inline bint is_empty(NodeSums sums) noexcept nogil:
    """Whether no row was added. Without counts, a tiny hessian may be rounded to 0."""
    return sums.n_samples == 0 and sums.hess == 0 and sums.grad == 0


cdef inline void add_sums(NodeSums* sums, NodeSums more) noexcept nogil:
    sums.grad += more.grad
    sums.hess += more.hess
    sums.n_samples += more.n_samples


cdef inline bint code_goes_left(
    const BinView* bins, const SplitInfo* split, int32_t code
) noexcept nogil:
    """Whether a code goes left: what `fill_direction` notes for every code."""
    if code == bins.n_bins[split.feature]:
        return split.missing_left
    if split.is_categorical:
        return (split.categories[code >> 5] >> (code & 31)) & 1
    return code <= split.bin

cdef void fill_direction(
    const BinView* bins, const SplitInfo* split, uint8_t* goes_left
) noexcept nogil

cdef intp_t split_stored(
    const BinView* bins, int32_t feature, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* scratch,
) noexcept nogil

cdef intp_t split_rows(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* right, uint32_t* left, int n_threads,
) noexcept nogil


# Missing values and categories that a node has not seen go to its larger child: left only if it has
# more than half. (Their place in the order of categories by response would be arbitrary.) Size is
# the sum of hessians if there are hessians, else the number of rows.
ctypedef fused amount_t:
    int64_t
    float64_t


cdef inline bint larger_left(amount_t left, amount_t both) noexcept nogil:
    """Whether the left child is the larger one."""
    return 2 * left > both


cdef inline float64_t zero_gain(float64_t score) noexcept nogil:
    """The least gain of a split that counts as 0: it may be negative by rounding."""
    return -HT_ZERO_GAIN * fabs(score) - HT_TINY


cdef inline void insert_by_key(
    float64_t* key, int32_t* order, int32_t n, float64_t value, int32_t item
) noexcept nogil:
    """Insert an item into n sorted ones, after those with the same key."""
    while n > 0 and key[n - 1] > value:
        key[n] = key[n - 1]
        order[n] = order[n - 1]
        n -= 1
    key[n] = value
    order[n] = item


# Sets of categories are ordered by their response, which follows its noise if they have few rows:
# the cut looks better than it is. Three rules against it, after LightGBM, for features of more than
# FEW_CATEGORIES: the response is smoothed towards the node's, groups of rows between two cuts have
# a least size, and the gain has a larger penalty. Rows are counted by their hessians, as cells may
# have no counts.
cdef enum:
    FEW_CATEGORIES = 4


cdef inline bint is_smoothed(const SplitRules* rules, int32_t n_categories) noexcept nogil:
    return n_categories > FEW_CATEGORIES and n_categories > rules.max_cat_to_onehot


cdef inline bint ends_group(
    const SplitRules* rules, float64_t before, float64_t left, float64_t both
) noexcept nogil:
    """Whether enough rows are between the last cut and this one, and right of it.

    `both` and the others count rows whose value is known.
    """
    # Sums of hessians that stand for rows are not quite whole numbers.
    cdef float64_t need = (1 - HT_WHOLE) * rules.min_data_per_group
    # One row is no group: its hessian may be less than the mean.
    return need < 1 or (left - before >= need and both - left >= need)


cdef int32_t order_bins(
    const StatsView* stats, const SplitRules* rules, const NodeSums* total, const int64_t* cells,
    int32_t n_bins, float64_t* key, int32_t* order) noexcept nogil
cdef void fill_categories(
    SplitInfo* info, const int32_t* order, int32_t n, int32_t first, int32_t last,
    bint others_left) noexcept nogil
