"""The base class of the searches; growing nodes, the queue of open nodes, sums over leaves."""

from hybridtrees.core.base._exact_sum cimport HtExactSum
from hybridtrees.core.base._types cimport (
    BinView, Bounds, NodeSums, SplitInfo, SplitRules, TargetView, float32_t, float64_t, int32_t,
    int64_t, int8_t, intp_t, uint32_t, uint64_t,
)
from hybridtrees.core.search._histogram cimport HistogramPool


cdef struct OpenNode:
    float64_t gain
    int32_t node


cdef class NodeQueue:
    cdef OpenNode* heap
    cdef int32_t n_open, capacity
    cdef int kind
    cdef bint goes_before(self, OpenNode a, OpenNode b) noexcept nogil
    cdef int push(self, int32_t node, float64_t gain) except -1 nogil
    cdef int32_t pop(self) noexcept nogil


cdef struct GrowNode:
    # Rows [start, stop) of the partition; those from `stay` on go to no child.
    intp_t start
    intp_t stop
    intp_t stay
    NodeSums sums             # integer sums (histograms)
    SplitInfo split
    Bounds bounds             # of the value (monotone constraints)
    uint64_t groups           # interaction groups that contain all features of the path
    int32_t alone             # feature of the path that is in no group, -1: none
    uint64_t key              # of random draws; depends on the path alone
    int32_t parent
    int32_t left
    int32_t right
    int32_t depth
    int32_t slot              # its histogram in the pool, -1: none


cdef inline void divide_slice(
    const GrowNode* n, GrowNode* left, GrowNode* right, intp_t n_left
) noexcept nogil:
    """Set the rows of the children of a node: the first n_left go left, the others right."""
    left.start = n.start
    left.stop = left.stay = right.start = n.start + n_left
    right.stop = right.stay = n.stop


cdef class NodeStore:
    cdef GrowNode* nodes
    cdef int32_t n_nodes, capacity
    cdef uint32_t* words      # category sets
    cdef intp_t n_words, word_capacity
    cdef void clear(self) noexcept nogil
    cdef int reserve(self, int32_t n) except -1 nogil
    cdef int new_node(self) except -1 nogil
    cdef int new_children(self, int32_t parent) except -1 nogil
    cdef int new_words(self, intp_t n) except -1 nogil
    cdef uint32_t* words_of(self, const GrowNode* node) noexcept nogil
    cdef int copy(self, NodeStore other) except -1 nogil
    cdef int append_words(self, NodeStore other) except -1 nogil
    cdef void prune(self, float64_t least_gain) noexcept nogil
    cdef int graft(self, int32_t at, NodeStore other) except -1 nogil


cdef enum:
    SUM_BLOCK = 4096      # rows of a leaf that a thread takes at a time


cdef struct Column:
    # One number per row, float32 or float64; without either pointer it is 1.
    const float32_t* single
    const float64_t* double_
    intp_t stride
    bint whole            # integers with sums below 2^53: plain sums are exact

cdef Column make_column(
    const float32_t* single, const float64_t* double_, intp_t stride, intp_t n
) noexcept nogil

cdef void sum_column(
    const Column* column, const uint32_t* rows, intp_t n, int width, HtExactSum* part,
    float64_t* out,
) noexcept nogil

cdef int sum_leaves(
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    const uint32_t* rows, intp_t[:, ::1] ends, float64_t[:, ::1] sums, int n_threads,
) except -1

cdef int add_to_leaves(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] leaves, float64_t[:] raw,
    int n_threads, bint ascending,
) except -1

cdef int sum_targets(
    const TargetView* target, const uint32_t* rows, intp_t[:, ::1] ends,
    float64_t[:, ::1] sums, int n_threads,
) except -1


cdef class SplitSearch:
    cdef NodeStore store
    cdef NodeQueue queue
    cdef HistogramPool pool        # sums of open nodes, where a search keeps them
    cdef SplitRules rules
    cdef TargetView target         # of the exact search; data is NULL if there is none
    cdef object target_owner
    cdef readonly int n_threads
    cdef bint in_passes            # whether `split_all` splits nodes in passes over the table
    cdef int stopped               # whether growth was interrupted
    cdef int32_t n_features, max_depth, max_features
    cdef int64_t min_samples_split
    cdef float64_t by_tree, by_level, by_node
    cdef uint64_t seed
    cdef const int8_t[::1] monotone          # constraints of the features, or None
    cdef const uint64_t[::1] groups          # interaction groups of each feature, or None
    # rows by node
    cdef uint32_t[::1] rows
    cdef uint32_t[::1] row_scratch
    cdef intp_t n_rows, n_sampled
    # features of this tree, and of the one or two nodes that are being searched
    cdef int32_t[::1] tree_features
    cdef int32_t[::1] node_features
    cdef int32_t n_tree_features
    cdef int use_rules(self, params) except -1
    cdef int use_target(self, data, layout, n_sums, binary) except -1
    cdef int set_rows(self, rows) except -1
    cdef void draw_tree_features(self) noexcept nogil
    cdef const int32_t* draw_node_features(
        self, int32_t node, int32_t lane, int32_t* n_drawn
    ) noexcept nogil
    cdef int32_t keep_allowed(
        self, int32_t node, const int32_t* features, int32_t n, int32_t* out
    ) noexcept nogil
    cdef void constrain_children(self, int32_t node) noexcept nogil
    cdef void part_bounds(self, int32_t node, float64_t left, float64_t right) noexcept nogil
    cdef bint may_split(self, int32_t node) noexcept nogil
    cdef bint stops(self) noexcept nogil
    cdef int open_root(self) except -1 nogil
    cdef int divide(self, int32_t node) except -1 nogil
    cdef int evaluate_root(self) except -1 nogil
    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil
    cdef int split_all(self, int32_t[::1] chosen, bint last) except -1
    cdef int close_passes(self, int32_t[::1] kept) except -1
    cdef void forget(self, int32_t node) noexcept nogil
    cdef int32_t last_with_slot(self) noexcept nogil
    cdef int take_slot(self, int32_t node) except -1 nogil
    cdef int open_task(self, int32_t node, SplitSearch other) except -1 nogil
    cdef int take_codes(
        self, SplitSearch whole, const BinView* bins, const GrowNode* node
    ) except -1 nogil
    cdef void take_back(self, int32_t node, SplitSearch other) noexcept nogil
    cdef int32_t n_node_sums(self) noexcept nogil
    cdef bint can_walk(self) noexcept nogil
    cdef int32_t leaf_of(self, intp_t row) noexcept nogil
    cdef intp_t[:, ::1] row_ends(self)
    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1
