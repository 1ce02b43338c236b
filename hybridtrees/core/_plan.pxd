"""Trees laid out for prediction."""

from hybridtrees.core._linear_leaves cimport LinearLeaves
from hybridtrees.core._types cimport (
    Node, float64_t, int32_t, int64_t, intp_t, uint8_t, uint32_t,
)


cdef struct WalkNode:
    # A node of the walk, 32 bytes. The right child follows the left one; a leaf leads to itself.
    float64_t threshold
    int32_t left
    int32_t column               # position of its feature among those that the trees use
    int32_t category_start       # -1: numeric
    int32_t category_words
    int32_t category_limit
    uint8_t missing_left
    uint8_t is_leaf


cdef struct TreePlan:
    intp_t node_start            # first node in the arrays of the ensemble
    intp_t walk_start
    intp_t mask_start            # first split and leaf of the bit-mask form
    intp_t leaf_start
    int32_t n_leaves
    int32_t depth
    int32_t n_right              # numeric splits that send a missing value right, left
    int32_t n_left
    int32_t n_category
    int32_t output
    bint masked                  # small enough for the bit-mask form
    bint stops                   # a row with a missing value may end at an inner node
    bint linear                  # some node has terms


cdef class TreePlans:
    cdef readonly intp_t n_trees, n_used
    cdef readonly int32_t n_features, n_outputs, n_values
    cdef readonly bint float_thresholds      # every threshold is a float32
    cdef readonly bint any_linear
    cdef readonly bint any_stops
    cdef TreePlan* plans
    cdef const Node[::1] nodes
    cdef const float64_t[:, ::1] values
    cdef const uint32_t[::1] categories
    cdef int32_t[::1] used                   # features that some split uses
    cdef WalkNode* walk
    cdef int32_t[::1] walk_origin            # node within its tree
    cdef int32_t[::1] mask_column
    cdef float[::1] mask_threshold32
    cdef float64_t[::1] mask_threshold64
    cdef int32_t[::1] mask_bits32
    cdef int64_t[::1] mask_bits64
    cdef int32_t[::1] mask_walk              # walk node of each split, for category sets
    cdef int32_t[::1] leaf_node              # node within its tree, leaves left to right
    cdef float64_t[::1] leaf_value           # of trees with one value per leaf
    cdef LinearLeaves linear                 # None where no node has terms
    cdef int lay_out(self, intp_t tree, const int32_t[::1] column_of) except -1
    cdef int lay_out_masks(self, intp_t tree, const int32_t[::1] column_of) except -1
