"""Trees laid out for prediction: bit masks, linear leaves, walks."""

from libc.math cimport isnan

from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._types cimport (
    Node, float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint64_t, uint8_t,
)
from hybridtrees.core.tree._walk_node cimport WalkNode


cdef extern from "quickscorer.h" nogil:
    enum:
        HT_BLOCK, HT_STEP
    int ht_stride(int n_rows)
    void ht_score_f32(
        int width, const float* x, int n_rows, const int32_t* column, const float* threshold,
        const int32_t* mask, int n_right, int n_left, const int32_t* state, int32_t base,
        bint is_first, int32_t* leaf)
    void ht_score_f64(
        int width, const double* x, int n_rows, const int32_t* column, const double* threshold,
        const int64_t* mask, int n_right, int n_left, int64_t* state, int32_t base, int32_t* leaf)
    void ht_add_values(
        int width, const double* values, int32_t n_values, const int32_t* leaf, int n_rows,
        double* total)

cdef extern from "transpose.h" nogil:
    void ht_transpose_f32(
        const char* rows, intp_t stride, intp_t n_columns, const int32_t* order, int n_rows,
        const int32_t* used, int n_used, float* block)
    void ht_transpose_f64(
        const char* rows, intp_t stride, intp_t n_columns, const int32_t* order, int n_rows,
        const int32_t* used, int n_used, float* block)


cdef struct MaskWord:
    # The entries of a word of leaves, by kind of split: numeric with missing values right,
    # numeric with missing values left, categorical.
    int64_t start
    int32_t n_of_kind[3]


cdef class BitMasks:
    cdef readonly int32_t word_leaves        # leaves of a word: 32 or 64
    cdef int64_t[::1] tree_word              # first word of each tree, and the end
    cdef MaskWord[::1] words
    cdef int32_t[::1] column                 # by entry, as the next five
    cdef float[::1] threshold32              # with words of 32 leaves
    cdef int32_t[::1] bits32
    cdef float64_t[::1] threshold64          # with words of 64 leaves
    cdef int64_t[::1] bits64
    cdef int32_t[::1] split                  # walk node within its tree
    cdef int32_t[::1] n_below                # by walk node of one tree: leaves below it,
    cdef int32_t[::1] first_leaf             # and the first of them from the left
    cdef int lay_out(
        self, const WalkNode* walk, const int64_t[::1] start, const int32_t[::1] n_leaves) except -1
    cdef intp_t count(self, const WalkNode* walk, int32_t n_nodes) noexcept
    cdef void fill(self, const WalkNode* walk, int32_t n_nodes, MaskWord* words) noexcept
    cdef uint64_t cleared(self, intp_t first, intp_t n, intp_t word) noexcept


cdef extern from "linear_leaves.h" nogil:
    enum:
        HT_LANES, HT_BAND, HT_TABLE_COLUMNS, HT_MANY_CHUNKS
        HT_PAIRS, HT_DOUBLES, HT_FLOATS
        HT_INSIDE, HT_OUTSIDE, HT_MISSING
    ctypedef struct HtLinearLeaves:
        const double *chunks, *exact
        void* x
        intp_t stride, size
        int form, n_pairs
    intp_t ht_chunk_size(int form, int clipped)
    intp_t ht_row_stride(int form, intp_t n_columns)
    void ht_set_lane(
        double* chunk, int form, int clipped, int lane, int32_t column, double coef, double low,
        double high)
    void ht_set_count(double* chunk, int form, int32_t n)
    void ht_narrow_chunk(const double* wide, int clipped, double* narrow)
    void ht_add_band(
        int width, const HtLinearLeaves* leaves, const int32_t* at, int n_trees, int exact,
        int clipped, int first_row, int last_row, double* total)
    int ht_copy_f32(
        int width, const float* source, intp_t n_columns, const float* low, const float* high,
        float* target)
    int ht_copy_f64(
        int width, const double* source, intp_t n_columns, const double* low, const double* high,
        double* target)
    int ht_widen_f32(
        int width, const float* source, intp_t n_columns, const double* low, const double* high,
        double* target)


cdef struct Regressors:
    # Regressors of some rows, sorted by kind.
    HtLinearLeaves leaves
    int width                    # of vectors, in bytes
    int32_t n_rows
    int32_t first[3], n[3]       # by kind: HT_INSIDE and so on


cdef class LinearLeaves:
    # as in the ensemble
    cdef const Node[::1] nodes
    cdef const int64_t[::1] tree_start, coef_ptr
    cdef const float64_t[:, ::1] values, coef
    cdef const int32_t[::1] coef_feature
    cdef const float64_t[::1] coef_center, coef_low, coef_high
    cdef const float64_t[:, :, ::1] value_range
    cdef bint ranged                         # there is a value_range
    cdef bint clipped                        # some term is clipped
    cdef bint float_bounds                   # all bounds of clipping are floats
    cdef uint8_t[::1] is_linear              # by tree: some node has terms
    # for the kernels of linear_leaves.h
    cdef readonly bint by_rows
    cdef bint in_order                       # the regressors are the first features
    cdef int32_t[::1] regressors             # features with coefficients
    cdef int32_t[::1] column                 # position among them, by feature
    cdef int n_pairs                         # of lanes, 0 if some node has several chunks
    cdef uint8_t[::1] is_finite              # by tree: only missing values need exact sums
    cdef int32_t[::1] first_end              # by tree: first node that has a chunk
    cdef int32_t[::1] first_chunk            # by node: its first chunk, -1: no row ends there
    cdef intp_t n_chunks
    cdef intp_t most_terms                   # of a node where rows may end
    cdef float64_t[::1] exact                # by chunk: coefficients and centres
    cdef float64_t[:, ::1] box               # by regressor: range of x that no leaf clips
    cdef float[:, ::1] float_box             # the same as floats, if float_bounds
    cdef float64_t[:, ::1] chunk_range       # by chunk: range of the value; only if ranged
    cdef int wide_form                       # form of the chunks for rows of doubles
    cdef intp_t wide_size                    # of such a chunk
    cdef float64_t[::1] wide_chunks
    cdef float64_t[::1] float_chunks         # for rows of floats; None until needed
    cdef intp_t chunks_of(self, intp_t node) noexcept
    cdef int place_chunks(self, intp_t tree, int32_t[::1] stack, int32_t[::1] above) except -1
    cdef int narrow_box(self, intp_t tree, intp_t node, const int32_t[::1] above) except -1
    cdef intp_t constant_lane(self, intp_t node) noexcept
    cdef float64_t folded_constant(self, intp_t node) noexcept
    cdef bint fill_exact(self, intp_t node) noexcept
    cdef int fill_chunks(self, intp_t node) except -1
    cdef int form_for(self, bint narrow) except -1


cdef inline float64_t table_value(
    LinearLeaves leaves, const real_t[:, :] X, intp_t row, intp_t node, int32_t output
) noexcept nogil:
    """One output of a node for a row of the table; a missing x adds nothing."""
    cdef intp_t k
    cdef float64_t total = 0, value
    for k in range(leaves.coef_ptr[node], leaves.coef_ptr[node + 1]):
        value = X[row, leaves.coef_feature[k]]
        if not isnan(value):
            value = min(max(value, leaves.coef_low[k]), leaves.coef_high[k])
            total += leaves.coef[k, output] * (value - leaves.coef_center[k])
    total += leaves.values[node, output]
    if leaves.ranged:
        total = max(total, leaves.value_range[node, 0, output])
        total = min(total, leaves.value_range[node, 1, output])
    return total


ctypedef fused regressor_t:
    float
    double


cdef inline int fill_regressors(
    LinearLeaves leaves, const real_t[:, :] X, intp_t row, int width, regressor_t* x
) noexcept nogil:
    """OUT the regressors of a row; returns its kind."""
    cdef intp_t k, n = leaves.regressors.shape[0]
    cdef int missing = 0, outside = 0
    if leaves.in_order and X.strides[1] == sizeof(real_t):
        if regressor_t is float and real_t is float:
            return ht_copy_f32(
                width, &X[row, 0], n, &leaves.float_box[0, 0], &leaves.float_box[1, 0], x)
        elif regressor_t is double and real_t is double:
            return ht_copy_f64(width, &X[row, 0], n, &leaves.box[0, 0], &leaves.box[1, 0], x)
        elif regressor_t is double and real_t is float:
            return ht_widen_f32(width, &X[row, 0], n, &leaves.box[0, 0], &leaves.box[1, 0], x)
    for k in range(n):
        x[k] = X[row, leaves.regressors[k]]
        missing |= x[k] != x[k]
        outside |= (x[k] < leaves.box[0, k]) | (x[k] > leaves.box[1, k])
    x[n] = 1                                 # the factor of the constants of leaves
    return HT_MISSING if missing else HT_OUTSIDE if outside else HT_INSIDE


cdef inline int fill_row(
    LinearLeaves leaves, const real_t[:, :] X, intp_t row, int place, const Regressors* rows
) noexcept nogil:
    """Write the regressors of a row at position `place`; returns its kind."""
    if rows.leaves.form == HT_FLOATS:
        return fill_regressors(
            leaves, X, row, rows.width, <float*>rows.leaves.x + place * rows.leaves.stride)
    return fill_regressors(
        leaves, X, row, rows.width, <double*>rows.leaves.x + place * rows.leaves.stride)


cdef inline void fill_rows(
    LinearLeaves leaves, const real_t[:, :] X, intp_t start, int32_t n_rows, int form,
    float64_t* x, int32_t* order, Regressors* rows,
) noexcept nogil:
    """OUT the regressors x of up to HT_BLOCK rows sorted by kind, and the order of the rows."""
    cdef int32_t missing[HT_BLOCK], row, k, n_inside = 0, n_missing = 0, outside = n_rows
    cdef int kind
    rows.leaves.chunks = (&leaves.float_chunks[0] if form == HT_FLOATS else &leaves.wide_chunks[0])
    rows.leaves.exact = &leaves.exact[0]
    rows.leaves.x = x
    rows.leaves.stride = ht_row_stride(form, leaves.regressors.shape[0] + 1)
    rows.leaves.size = ht_chunk_size(form, leaves.clipped)
    rows.leaves.form = form
    rows.leaves.n_pairs = leaves.n_pairs
    rows.width = ht_vector_bytes()
    rows.n_rows = n_rows
    # Most rows are inside, and in their final place at once. The others are written again: outside
    # rows at the end, where only the very last one may be in its place already, then missing ones.
    for row in range(n_rows):
        kind = fill_row(leaves, X, start + row, n_inside, rows)
        if kind == HT_INSIDE:
            order[n_inside] = row
            n_inside += 1
        elif kind == HT_OUTSIDE:
            outside -= 1
            order[outside] = row
            if outside > n_inside:
                fill_row(leaves, X, start + row, outside, rows)
        else:
            missing[n_missing] = row
            n_missing += 1
    for k in range(n_missing):
        order[n_inside + k] = missing[k]
        fill_row(leaves, X, start + missing[k], n_inside + k, rows)
    rows.first[HT_INSIDE] = 0
    rows.first[HT_MISSING] = n_inside
    rows.first[HT_OUTSIDE] = outside
    rows.n[HT_INSIDE] = n_inside
    rows.n[HT_MISSING] = n_missing
    rows.n[HT_OUTSIDE] = n_rows - outside


cdef inline int32_t band_size(
    LinearLeaves leaves, const int32_t* trees, intp_t n_trees
) noexcept nogil:
    """How many of the next trees, the first of which is linear, are summed together."""
    cdef int32_t n = 1
    if leaves.ranged:
        return 1                             # each value is clipped to its range
    while n < HT_BAND and n < n_trees and leaves.is_linear[trees[n]] and (
            leaves.is_finite[trees[n]] == leaves.is_finite[trees[0]]):
        n += 1
    return n


cdef inline int32_t chunk_of(LinearLeaves leaves, intp_t tree, int32_t node) noexcept nogil:
    """First chunk of a node of a tree."""
    return leaves.first_chunk[leaves.tree_start[tree] + node]


cdef inline void sum_band(
    LinearLeaves leaves, intp_t tree, const int32_t* at, int32_t n_trees, const Regressors* rows,
    float64_t* total,
) noexcept nogil:
    cdef int kind
    if not leaves.is_finite[tree]:
        ht_add_band(rows.width, &rows.leaves, at, n_trees, True, leaves.clipped, 0, rows.n_rows,
                    total)
        return
    for kind in range(3):
        if rows.n[kind] > 0:
            ht_add_band(
                rows.width, &rows.leaves, at, n_trees, kind == HT_MISSING,
                leaves.clipped and kind != HT_INSIDE, rows.first[kind],
                rows.first[kind] + rows.n[kind], total)


cdef inline void add_band(
    LinearLeaves leaves, intp_t tree, const int32_t* at, int32_t n_trees, const Regressors* rows,
    float64_t* total,
) noexcept nogil:
    """total += values of the leaves `at` of all rows in the band that starts with `tree`."""
    cdef float64_t value[HT_BLOCK]
    cdef int32_t row
    if not leaves.ranged:
        sum_band(leaves, tree, at, n_trees, rows, total)
        return
    for row in range(rows.n_rows):
        value[row] = 0
    sum_band(leaves, tree, at, n_trees, rows, value)
    for row in range(rows.n_rows):
        total[row] += min(max(value[row], leaves.chunk_range[at[row], 0]),
                          leaves.chunk_range[at[row], 1])


cdef struct TreeForm:
    intp_t start                 # of its nodes, walk nodes and leaves in the ensemble
    int32_t n_leaves
    int32_t n_category           # categorical splits
    int32_t output
    bint stops                   # a row with a missing value may end at an inner node
    bint linear                  # some node has terms


cdef class EnsembleLayout:
    cdef readonly intp_t n_trees, n_used
    cdef readonly int32_t n_features, n_outputs, n_values
    cdef readonly bint float_thresholds      # every threshold is a float32
    cdef readonly bint any_linear
    cdef bint summed                         # leaves have one value; linear ones use the kernels
    cdef bint only_numbers                   # all splits are numeric, and no row stops at one
    cdef TreeForm* forms
    cdef int32_t[::1] order                  # trees sorted by output, stable
    cdef int64_t[::1] output_start           # by output: its first tree there, and the end
    cdef const Node[::1] nodes
    cdef const float64_t[:, ::1] values
    cdef const uint32_t[::1] categories
    cdef int32_t[::1] used                   # features that some split uses
    cdef WalkNode* walk
    cdef int32_t[::1] walk_origin            # by walk node: node within its tree
    cdef BitMasks narrow_masks               # for float32 blocks
    cdef BitMasks wide_masks                 # for float64 blocks; None if these are narrowed
    cdef int32_t[::1] leaf_node              # by leaf, left to right: node within its tree
    cdef float64_t[::1] leaf_value           # of trees with one value per leaf
    cdef LinearLeaves linear                 # None if no node has terms
    cdef int lay_out(self, intp_t tree, const int32_t[::1] column_of) except -1
    cdef int lay_out_leaves(self, intp_t tree, int32_t[::1] stack) except -1
