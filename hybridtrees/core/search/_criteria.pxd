"""Criteria of the exact search: sums of targets, absolute deviations, best cut of a list."""

from libc.math cimport INFINITY

from hybridtrees.core.base._types cimport (
    TARGET_UNWEIGHTED, Bounds, SortedEntry, SplitRules, TargetView, float64_t, int32_t, int8_t,
    intp_t, uint32_t, uint64_t, uint8_t,
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
    const TargetView* target, const SortedEntry* by_y, intp_t n, float64_t weight
) noexcept nogil


cdef inline float64_t row_weight(const TargetView* target, uint32_t row) noexcept nogil:
    """Weight of a row of numeric targets (not classes)."""
    if target.layout == TARGET_UNWEIGHTED:
        return 1.0
    return target.data[<intp_t>row * target.width + target.n_sums]


cdef void order_rows(
    const TargetView* target, int32_t output, const SortedEntry* by_y, intp_t n, uint32_t* place,
    float64_t* tree,
) noexcept nogil


cdef enum:
    SIDES = 4              # vectors of n_sums + 2 that a scan needs as scratch


cdef struct NodeView:
    # The current node.
    const float64_t* totals        # its n_sums sums, its weight, its sum of squares
    float64_t parent_score         # score of the whole node
    intp_t n_rows
    Bounds bounds                  # of its value (monotone constraints)
    const uint32_t* y_place        # ABSOLUTE, by output: rank of each row in the order of y
    const float64_t* y_tree        # ABSOLUTE, by output: tree of the node, see _criteria.pyx


cdef struct Cut:
    float64_t gain                 # -inf: none
    intp_t n_left                  # rows with a value that go left
    int32_t order                  # categories: the output whose order was cut
    uint8_t missing_left
    bint alone                     # known not to be tied with another cut


cdef inline Cut no_cut() noexcept nogil:
    return Cut(-INFINITY, 0, 0, 0, False)


cdef struct ScanScratch:
    float64_t* sides               # SIDES * (n_sums + 2)
    float64_t* tree                # ABSOLUTE: 2 numbers per row and output
    SortedEntry* entries           # one list
    float64_t* response            # two numbers per category of a node
    uint32_t* category_start


cdef Cut best_cut(
    const TargetView* target, const SplitRules* rules, const NodeView* node,
    const SortedEntry* entries, intp_t n, int8_t monotone, bint far, ScanScratch* scratch,
) noexcept nogil

cdef intp_t draw_tied(
    const TargetView* target, const SplitRules* rules, const NodeView* node,
    const SortedEntry* entries, intp_t n, int8_t monotone, ScanScratch* scratch, Cut cut,
    uint64_t key,
) noexcept nogil
