"""Trees laid out for bit-mask scoring."""

from hybridtrees.core._types cimport float64_t, int32_t, int64_t, intp_t, uint64_t
from hybridtrees.core._walk_node cimport WalkNode


cdef extern from "mask_scores.h" nogil:
    enum:
        HT_BLOCK
        HT_STEP
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

cdef extern from "turn_rows.h" nogil:
    void ht_turn_f32(
        const char* rows, intp_t stride, intp_t n_columns, const int32_t* order, int n_rows,
        const int32_t* used, int n_used, float* block)
    void ht_turn_f64(
        const char* rows, intp_t stride, intp_t n_columns, const int32_t* order, int n_rows,
        const int32_t* used, int n_used, float* block)


cdef struct MaskWord:
    # The entries of a word of leaves, by kind: numeric splits that send a missing value right,
    # numeric ones that send it left, splits on categories.
    int64_t start
    int32_t n_of_kind[3]


cdef class BitMasks:
    cdef readonly int32_t word_leaves        # leaves of a word: 32 or 64
    cdef int64_t[::1] tree_word              # first word of each tree, and the end
    cdef MaskWord[::1] words
    cdef int32_t[::1] column                 # by entry, as what follows
    cdef float[::1] threshold32              # with words of 32 leaves
    cdef int32_t[::1] bits32
    cdef float64_t[::1] threshold64          # with words of 64 leaves
    cdef int64_t[::1] bits64
    cdef int32_t[::1] split                  # walk node within its tree
    cdef int32_t[::1] n_below                # of one tree: leaves below each walk node,
    cdef int32_t[::1] first_leaf             # and the first of them, from left to right
    cdef int lay_out(
        self, const WalkNode* walk, const int64_t[::1] start, const int32_t[::1] n_leaves) except -1
    cdef intp_t count(self, const WalkNode* walk, int32_t n_nodes) noexcept
    cdef void fill(self, const WalkNode* walk, int32_t n_nodes, MaskWord* words) noexcept
    cdef uint64_t cleared(self, intp_t first, intp_t n, intp_t word) noexcept
