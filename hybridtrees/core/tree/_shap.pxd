"""Trees laid out for Shapley values: nodes in preorder, with the shares of rows on their edges."""

from hybridtrees.core.base._types cimport (
    Node, float64_t, int32_t, int64_t, intp_t, uint32_t, uint8_t,
)


cdef extern from "shap.h" nogil:
    enum:
        HT_SHAP_ROWS, HT_SHAP_POINTS
        HT_SIDE_RIGHT, HT_SIDE_LEFT, HT_SIDE_STAY
    ctypedef struct HtShapNode:
        double threshold, share, merged
        int32_t column, player, level, before, side, missing
        int64_t node
    ctypedef struct HtShapTree:
        const HtShapNode* nodes
        intp_t n_nodes
        int n_points
        const double* points
        const double* weights
        const double* inverse
        const double* value
        intp_t value_stride
        const double* range
        intp_t range_stride, range_width
        const int64_t* term_start
        const int32_t* term_column
        const int32_t* term_player
        const double* coef
        const double* center
        const double* low
        const double* high
        intp_t coef_stride
    ctypedef struct HtShapScratch:
        double* product
        double* below
        double* met
        double* sides
        double* work
        const HtShapNode** at
        uint8_t* hidden
        int32_t* place
    intp_t ht_product_size(int n_points)
    intp_t ht_below_size(int n_points)
    void ht_shap_tree(
        int width, const HtShapTree* tree, const double* x, intp_t stride,
        const HtShapScratch* scratch, double* values, double* pairs, intp_t n_players)


cdef class ShapTrees:
    cdef readonly intp_t n_trees, n_columns, n_players, n_outputs, n_values
    cdef readonly object base                # (n_outputs,): values without any player
    cdef readonly bint any_linear
    cdef const Node[::1] nodes               # of the ensemble
    cdef const float64_t[:, ::1] values
    cdef const uint32_t[::1] categories
    cdef const int32_t[::1] tree_output
    cdef const float64_t[:, :, ::1] value_range
    cdef bint ranged
    cdef const int32_t[::1] player           # by column
    # terms of lines, sorted by player within a node
    cdef const int64_t[::1] term_start
    cdef const int32_t[::1] term_column, term_player, term_used
    cdef const float64_t[:, ::1] coef
    cdef const float64_t[::1] center, low, high
    # the layout
    cdef object memory                       # of the next
    cdef HtShapNode* laid
    cdef const int64_t[::1] start            # by tree: its first laid node, and the end
    cdef const int32_t[::1] n_points         # by tree
    cdef const int32_t[::1] n_levels         # by tree
    cdef const int64_t[::1] set_start        # by tree: its first split on categories
    cdef const int64_t[::1] set_node         # node of the ensemble of each
    cdef const int32_t[::1] used             # columns that trees read
    cdef const int32_t[::1] used_place       # place of a column among them, -1: none
    cdef const float64_t[:, ::1] points      # by number of points
    cdef const float64_t[:, ::1] weights
    cdef intp_t most_nodes, most_levels, most_points, most_sets, most_terms, most_inverse
    cdef int lay_out(
        self, intp_t tree, intp_t first, intp_t n_nodes, int64_t at, int64_t set_at,
        int64_t[::1] set_node, int32_t[:, ::1] stack, float64_t[::1] reach, int32_t[::1] place,
        int32_t[::1] path, float64_t[::1] base, int32_t[::1] found) except -1
