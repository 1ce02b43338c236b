"""Trees laid out for prediction."""

from hybridtrees.core._linear_leaves cimport LinearLeaves
from hybridtrees.core._masks cimport BitMasks
from hybridtrees.core._types cimport Node, float64_t, int32_t, int64_t, intp_t, uint32_t
from hybridtrees.core._walk_node cimport WalkNode


cdef struct TreePlan:
    intp_t node_start            # first node in the arrays of the ensemble
    intp_t walk_start
    intp_t leaf_start            # first of its leaves, which stand from left to right
    int32_t n_leaves
    int32_t n_category           # splits on categories
    int32_t output
    bint stops                   # a row with a missing value may end at an inner node
    bint linear                  # some node has terms


cdef class TreePlans:
    cdef readonly intp_t n_trees, n_used
    cdef readonly int32_t n_features, n_outputs, n_values
    cdef readonly bint float_thresholds      # every threshold is a float32
    cdef readonly bint any_linear
    cdef readonly bint any_stops
    cdef bint summed                         # every leaf gives one number, linear ones by rows
    cdef bint only_numbers                   # no split is on categories, no row stops at one
    cdef TreePlan* plans
    cdef int32_t[::1] order                  # trees by output, and as they stand within each
    cdef int64_t[::1] output_start           # by output: its first tree there, and the end
    cdef const Node[::1] nodes
    cdef const float64_t[:, ::1] values
    cdef const uint32_t[::1] categories
    cdef int32_t[::1] used                   # features that some split uses
    cdef WalkNode* walk
    cdef int32_t[::1] walk_origin            # node within its tree
    cdef BitMasks narrow_masks               # for float32 blocks
    cdef BitMasks wide_masks                 # for float64 ones; None where they are narrowed
    cdef int32_t[::1] leaf_node              # node within its tree, leaves left to right
    cdef float64_t[::1] leaf_value           # of trees with one value per leaf
    cdef LinearLeaves linear                 # None where no node has terms
    cdef int lay_out(self, intp_t tree, const int32_t[::1] column_of) except -1
    cdef int lay_out_leaves(self, intp_t tree, int32_t[::1] stack) except -1
