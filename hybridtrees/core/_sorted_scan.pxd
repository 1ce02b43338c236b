"""Best cut of a sorted list under any criterion."""

from hybridtrees.core._types cimport (
    Bounds, Entry, SplitRules, TargetView,
    float64_t, int8_t, int32_t, intp_t, uint8_t, uint32_t, uint64_t,
)

cdef enum:
    SIDES = 4              # vectors of n_sums + 2 that a scan needs as scratch


cdef struct NodeView:
    # The node that is searched.
    const float64_t* totals        # its n_sums sums, its weight, its sum of squares
    float64_t parent_score         # score of the whole node
    intp_t n_rows
    Bounds bounds                  # of its value (monotone constraints)
    const uint32_t* y_place        # place of each row in the order of y, by output (ABSOLUTE)
    const float64_t* y_tree        # weights and sums of the node's rows in that order


cdef struct Cut:
    float64_t gain                 # -inf: none
    intp_t n_left                  # rows with a value that go left
    int32_t order                  # categories: the output whose order was cut
    uint8_t missing_left
    bint alone                     # known to be better than all other cuts


cdef struct ScanScratch:
    float64_t* sides               # SIDES * (n_sums + 2)
    float64_t* tree                # ABSOLUTE: 2 numbers per row and output
    Entry* entries                 # one list
    float64_t* response            # two numbers per category of a node
    uint32_t* category_start


cdef Cut best_cut(
    const TargetView* target, const SplitRules* rules, const NodeView* node,
    const Entry* entries, intp_t n, int8_t monotone, bint far, ScanScratch* scratch,
) noexcept nogil

cdef intp_t draw_tied(
    const TargetView* target, const SplitRules* rules, const NodeView* node,
    const Entry* entries, intp_t n, int8_t monotone, ScanScratch* scratch, Cut cut, uint64_t key,
) noexcept nogil
