"""What the grower asks of a split search."""

from hybridtrees.core._frontier cimport NodeQueue
from hybridtrees.core._nodes cimport GrowNode, NodeStore
from hybridtrees.core._types cimport (
    SplitRules, TargetView, float64_t, int8_t, int32_t, int64_t, intp_t, uint32_t, uint64_t,
)


cdef class SplitSearch:
    cdef NodeStore store
    cdef NodeQueue queue
    cdef SplitRules rules
    cdef TargetView target         # of the exact search; its data is NULL without one
    cdef object target_owner
    cdef readonly int n_threads
    cdef int stopped               # whether the growth of the tree was given up
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
    # features of this tree, and those of the nodes that are searched at a time
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
    cdef void forget(self, int32_t node) noexcept nogil
    cdef int lend(self, int32_t node, SplitSearch other) except -1 nogil
    cdef void take_back(self, int32_t node, SplitSearch other) noexcept nogil
    cdef int32_t n_node_sums(self) noexcept nogil
    cdef bint can_walk(self) noexcept nogil
    cdef int32_t leaf_of(self, intp_t row) noexcept nogil
    cdef intp_t[:, ::1] end_blocks(self)
    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1
