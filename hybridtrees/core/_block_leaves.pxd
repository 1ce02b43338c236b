"""Rows of a block turned to feature-major order, and the leaves where they end."""

from libc.string cimport memset

from hybridtrees.core._masks cimport (
    HT_BLOCK, BitMasks, MaskWord, ht_score_f32, ht_score_f64, ht_stride, ht_turn_f32, ht_turn_f64,
)
from hybridtrees.core._plan cimport TreePlan, TreePlans
from hybridtrees.core._plan_walk cimport block_t, find_nodes, node_side
from hybridtrees.core._simd cimport ht_round_up
from hybridtrees.core._types cimport float64_t, int32_t, int64_t, intp_t, real_t, uint32_t
from hybridtrees.core._walk_node cimport WalkNode

ctypedef fused mask_t:
    int32_t
    int64_t


cdef inline void fill_block(
    TreePlans plans, const real_t[:, :] X, intp_t start, const int32_t* order, int32_t n_rows,
    block_t* block,
) noexcept nogil:
    """Turn the rows start + order to feature-major order."""
    cdef int32_t column, row
    cdef intp_t feature
    if plans.n_used == 0:
        return
    if block_t is float and X.strides[1] == sizeof(real_t):
        if real_t is float:
            ht_turn_f32(<const char*>&X[start, 0], X.strides[0], X.shape[1], order, n_rows,
                        &plans.used[0], <int>plans.n_used, block)
        else:
            ht_turn_f64(<const char*>&X[start, 0], X.strides[0], X.shape[1], order, n_rows,
                        &plans.used[0], <int>plans.n_used, block)
        return
    for column in range(<int32_t>plans.n_used):
        feature = plans.used[column]
        for row in range(n_rows):
            if block_t is float and real_t is double:
                block[row] = ht_round_up(X[start + order[row], feature])
            else:
                block[row] = X[start + order[row], feature]
        block += ht_stride(n_rows)


cdef inline void bit_split(
    const WalkNode* node, const uint32_t* words, const block_t* column, int32_t n_rows, mask_t mask,
    mask_t* state,
) noexcept nogil:
    """Apply the mask of a split on a set of bits, without a branch that depends on the row."""
    cdef float64_t end = 32.0 * node.category_words, code
    cdef int64_t category
    cdef mask_t left
    cdef bint known
    cdef int32_t row
    for row in range(n_rows):
        code = column[row]
        known = (code >= 0) & (code < end)
        category = <int64_t>(code if known else 0.0)
        left = ((words[category >> 5] >> (category & 31)) & 1 & known) | (
            node.missing_left & ~known)
        state[row] &= mask | -left


cdef inline void category_split(
    const WalkNode* node, const uint32_t* categories, const block_t* block, int32_t n_rows,
    mask_t mask, mask_t* state,
) noexcept nogil:
    """Apply the mask of a split on categories, row by row."""
    cdef const block_t* column = block + <intp_t>node.column * ht_stride(n_rows)
    cdef int32_t row, side
    if node.category_limit == 0:
        bit_split(node, categories + node.category_start, column, n_rows, mask, state)
        return
    for row in range(n_rows):
        side = node_side(node, column[row], categories)
        if side == 0 or (side < 0 and not node.missing_left):
            state[row] &= mask


cdef inline void score_block(
    TreePlans plans, intp_t tree, BitMasks masks, const block_t* block, int32_t n_rows, int width,
    int32_t first_leaf, int32_t* leaf,
) noexcept nogil:
    """Leaf, counted left to right from `first_leaf` on, of every row of a block."""
    cdef const WalkNode* walk = plans.walk + plans.plans[tree].walk_start
    cdef int32_t state32[HT_BLOCK]
    cdef int64_t state64[HT_BLOCK]
    cdef intp_t first = masks.tree_word[tree], at, k
    cdef int32_t word, base, n_words = <int32_t>(masks.tree_word[tree + 1] - first)
    cdef const MaskWord* entries
    # Words before that of a row's leaf have no bit left; so the first one that has counts.
    for word in range(n_words - 1, -1, -1):
        entries = &masks.words[first + word]
        at = entries.start
        k = at + entries.n_of_kind[0] + entries.n_of_kind[1]
        base = first_leaf + word * masks.word_leaves
        if block_t is float:
            if entries.n_of_kind[2] > 0:
                memset(state32, 255, n_rows * sizeof(int32_t))
            for k in range(k, k + entries.n_of_kind[2]):
                category_split(walk + masks.split[k], &plans.categories[0], block, n_rows,
                               masks.bits32[k], state32)
            ht_score_f32(width, block, n_rows, &masks.column[0] + at,
                         &masks.threshold32[0] + at, &masks.bits32[0] + at,
                         entries.n_of_kind[0], entries.n_of_kind[1],
                         state32 if entries.n_of_kind[2] > 0 else NULL, base,
                         word == n_words - 1, leaf)
        else:
            memset(state64, 255, n_rows * sizeof(int64_t))
            for k in range(k, k + entries.n_of_kind[2]):
                category_split(walk + masks.split[k], &plans.categories[0], block, n_rows,
                               masks.bits64[k], state64)
            ht_score_f64(width, block, n_rows, &masks.column[0] + at,
                         &masks.threshold64[0] + at, &masks.bits64[0] + at,
                         entries.n_of_kind[0], entries.n_of_kind[1],
                         state64, base, leaf)


cdef inline const int32_t* find_block(
    TreePlans plans, intp_t tree, BitMasks masks, const real_t[:, :] X, intp_t start,
    const int32_t* order, int32_t n_rows, const block_t* block, int width, int32_t* leaf,
) noexcept nogil:
    """OUT leaf: leaves of the rows of a block, counted left to right; returns their nodes.

    Where it returns NULL, `leaf` has the nodes themselves.
    """
    cdef const TreePlan* plan = plans.plans + tree
    if masks.tree_word[tree + 1] > masks.tree_word[tree]:
        score_block(plans, tree, masks, block, n_rows, width, 0, leaf)
        return &plans.leaf_node[plan.leaf_start]
    find_nodes(plans, plan, X, start, order, n_rows, block, leaf)
    return NULL
