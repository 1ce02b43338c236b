"""Prediction: raw sums over the trees, and leaves.

Rows are taken in blocks of 64, turned to feature-major order once, and scored by tree: those of
up to some hundred leaves by bit masks (`mask_scores.h`), larger ones by walking all rows of the
block in lock step. The sums run over the trees in their order for every row, so they are the same
for any block or number of threads. A float64 table is narrowed to float32 where all thresholds
are float32: rounding a value up cannot carry it past such a threshold.
"""

from cython.parallel cimport prange
from libc.string cimport memset

from hybridtrees.core._linear_leaves cimport Regressors, add_linear, fill_rows, table_value
from hybridtrees.core._openmp cimport HT_HAS_OPENMP, omp_get_max_threads, omp_get_thread_num
from hybridtrees.core._masks cimport (
    HT_BLOCK, BitMasks, MaskWord, ht_add_values, ht_score_f32, ht_score_f64, ht_turn_f32,
    ht_turn_f64,
)
from hybridtrees.core._plan cimport TreePlan, TreePlans
from hybridtrees.core._plan_walk cimport (
    TREES_TOGETHER, block_t, find_nodes, node_side, walk_row, walk_trees,
)
from hybridtrees.core._simd cimport ht_round_up, ht_vector_bytes
from hybridtrees.core._types cimport float64_t, int32_t, int64_t, intp_t, real_t, uint32_t
from hybridtrees.core._walk_node cimport WalkNode

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

ctypedef fused mask_t:
    int32_t
    int64_t

cdef enum:
    FEW_ROWS = 4          # up to here turning a block costs more than it brings


def has_openmp():
    """Whether the package was built with OpenMP."""
    return bool(HT_HAS_OPENMP)


def openmp_max_threads():
    """Threads that OpenMP would use for a parallel region now."""
    return omp_get_max_threads()


def vector_bits():
    """Width of the vectors that the kernels use on this machine."""
    return 8 * ht_vector_bytes()


cdef inline void bit_split(
    const WalkNode* node, const uint32_t* words, const block_t* column, mask_t mask, mask_t* state
) noexcept nogil:
    """Apply the mask of a split on a set of bits, without a branch that depends on the row."""
    cdef float64_t end = 32.0 * node.category_words, code
    cdef int64_t category
    cdef mask_t left
    cdef bint known
    cdef int32_t row
    for row in range(HT_BLOCK):
        code = column[row]
        known = (code >= 0) & (code < end)
        category = <int64_t>(code if known else 0.0)
        left = ((words[category >> 5] >> (category & 31)) & 1 & known) | (
            node.missing_left & ~known)
        state[row] &= mask | -left


cdef inline void category_split(
    const WalkNode* node, const uint32_t* categories, const block_t* block, mask_t mask,
    mask_t* state,
) noexcept nogil:
    """Apply the mask of a split on categories, row by row."""
    cdef const block_t* column = block + node.column * HT_BLOCK
    cdef int32_t row, side
    if node.category_limit == 0:
        bit_split(node, categories + node.category_start, column, mask, state)
        return
    for row in range(HT_BLOCK):
        side = node_side(node, column[row], categories)
        if side == 0 or (side < 0 and not node.missing_left):
            state[row] &= mask


cdef inline void score_block(
    TreePlans plans, intp_t tree, BitMasks masks, const block_t* block, int width, int32_t* leaf
) noexcept nogil:
    """Leaf, counted left to right, of every row of a block."""
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
        base = word * masks.word_leaves
        if block_t is float:
            if entries.n_of_kind[2] > 0:
                memset(state32, 255, sizeof(state32))
            for k in range(k, k + entries.n_of_kind[2]):
                category_split(walk + masks.split[k], &plans.categories[0], block,
                               masks.bits32[k], state32)
            ht_score_f32(width, block, &masks.column[0] + at, &masks.threshold32[0] + at,
                         &masks.bits32[0] + at, entries.n_of_kind[0], entries.n_of_kind[1],
                         state32 if entries.n_of_kind[2] > 0 else NULL, base,
                         word == n_words - 1, leaf)
        else:
            memset(state64, 255, sizeof(state64))
            for k in range(k, k + entries.n_of_kind[2]):
                category_split(walk + masks.split[k], &plans.categories[0], block,
                               masks.bits64[k], state64)
            ht_score_f64(width, block, &masks.column[0] + at, &masks.threshold64[0] + at,
                         &masks.bits64[0] + at, entries.n_of_kind[0], entries.n_of_kind[1],
                         state64, base, leaf)


cdef inline void add_node(
    TreePlans plans, intp_t tree, const real_t[:, :] X, intp_t row, int32_t node,
    const Regressors* regressors, float64_t[:, :] raw,
) noexcept nogil:
    """Add a leaf, given by its node within the tree, to one row of raw.

    The row is the only one of `regressors`, where these are set.
    """
    cdef const TreePlan* plan = plans.plans + tree
    cdef int32_t k, first = 0 if plans.n_values > 1 else plan.output
    cdef float64_t total = 0
    if not plan.linear:
        for k in range(plans.n_values):
            raw[row, first + k] += plans.values[plan.node_start + node, k]
    elif plans.linear.by_rows:
        add_linear(plans.linear, tree, &node, NULL, regressors, &total)
        raw[row, first] += total
    else:
        for k in range(plans.n_values):
            raw[row, first + k] += table_value(plans.linear, X, row, plan.node_start + node, k)


cdef inline void fill_block(
    TreePlans plans, const real_t[:, :] X, intp_t start, int32_t n_rows, block_t* block
) noexcept nogil:
    """Turn rows to feature-major order; rows past the end repeat the last one."""
    cdef int32_t column, row
    cdef intp_t feature
    if plans.n_used == 0:
        return
    if block_t is float and n_rows == HT_BLOCK and X.strides[1] == sizeof(real_t):
        if real_t is float:
            ht_turn_f32(<const char*>&X[start, 0], X.strides[0], &plans.used[0],
                        <int>plans.n_used, block)
        else:
            ht_turn_f64(<const char*>&X[start, 0], X.strides[0], &plans.used[0],
                        <int>plans.n_used, block)
        return
    for column in range(<int32_t>plans.n_used):
        feature = plans.used[column]
        for row in range(n_rows):
            if block_t is float and real_t is double:
                block[column * HT_BLOCK + row] = ht_round_up(X[start + row, feature])
            else:
                block[column * HT_BLOCK + row] = X[start + row, feature]
        for row in range(n_rows, HT_BLOCK):
            block[column * HT_BLOCK + row] = block[column * HT_BLOCK + n_rows - 1]


cdef inline void run_block(
    TreePlans plans, BitMasks masks, const real_t[:, :] X, intp_t start, int32_t n_rows,
    intp_t first_tree, intp_t last_tree, block_t* block, float64_t* x, int width,
    float64_t[:, :] raw, int32_t* found, intp_t n_found,
) noexcept nogil:
    """Add what the trees say of some rows, or OUT the nodes where these end.

    The nodes of the first row stand at `found`, those of the next `n_found` places behind; NULL
    where outputs are wanted.
    """
    cdef int32_t leaf[HT_BLOCK]
    cdef float64_t total[HT_BLOCK]
    cdef Regressors regressors
    cdef intp_t tree
    cdef int32_t row
    cdef const TreePlan* plan
    cdef const int32_t* names
    cdef const float64_t* values
    cdef bint by_rows = plans.any_linear and plans.linear.by_rows and found == NULL
    # Whether every leaf gives one number, from what is at hand for the whole block.
    cdef bint summed = plans.n_values == 1 and (by_rows or not plans.any_linear)
    cdef bint one_output = summed and plans.n_outputs == 1
    fill_block(plans, X, start, n_rows, block)
    if by_rows:
        fill_rows(plans.linear, X, start, n_rows, x, &regressors)
    memset(total, 0, sizeof(total))
    if one_output and found == NULL:
        for row in range(n_rows):
            total[row] = raw[start + row, 0]
    for tree in range(first_tree, last_tree):
        plan = plans.plans + tree
        if masks.tree_word[tree + 1] > masks.tree_word[tree]:
            score_block(plans, tree, masks, block, width, leaf)
            names = &plans.leaf_node[plan.leaf_start]
            values = &plans.leaf_value[plan.leaf_start]
        else:
            find_nodes(plans, plan, X, start, n_rows, block, leaf)
            names = NULL
            values = &plans.values[plan.node_start, 0]
        if found != NULL:
            for row in range(n_rows):
                found[row * n_found + tree - first_tree] = (
                    leaf[row] if names == NULL else names[leaf[row]])
            continue
        if not summed:
            for row in range(n_rows):
                add_node(plans, tree, X, start + row,
                         leaf[row] if names == NULL else names[leaf[row]], NULL, raw)
            continue
        if plan.linear:
            add_linear(plans.linear, tree, leaf, names, &regressors, total)
        elif names != NULL:
            ht_add_values(width, values, plan.n_leaves, leaf, total)
        else:
            for row in range(n_rows):
                total[row] += values[leaf[row]]
        if not one_output:
            for row in range(n_rows):
                raw[start + row, plan.output] += total[row]
                total[row] = 0
    if one_output and found == NULL:
        for row in range(n_rows):
            raw[start + row, 0] = total[row]


cdef int run_blocks(
    TreePlans plans, const real_t[:, :] X, intp_t first_tree, intp_t last_tree, int n_threads,
    float64_t[:, :] raw, int32_t* found,
) except -1:
    """`run_block` on all rows of a table; `found` has a row for each."""
    cdef intp_t n = X.shape[0], n_blocks = (n + HT_BLOCK - 1) // HT_BLOCK, block, first
    cdef intp_t block_size = max(1, plans.n_used) * HT_BLOCK, rows_size = 1
    cdef intp_t n_found = 0 if found == NULL else last_tree - first_tree
    cdef int width = ht_vector_bytes(), thread
    cdef float[::1] narrow
    cdef double[::1] wide
    cdef float64_t[::1] regressors
    cdef BitMasks masks
    n_threads = <int>max(1, min(n_threads, n_blocks))
    if plans.any_linear and plans.linear.by_rows:
        rows_size = plans.linear.stride * HT_BLOCK
    # Vectors that lie across two cache lines would take twice as long to read.
    regressors = aligned_empty(n_threads * rows_size, np.float64)
    if real_t is float or plans.float_thresholds:
        masks = plans.narrow_masks
        narrow = aligned_empty(n_threads * block_size, np.float32)
        for block in prange(n_blocks, num_threads=n_threads, nogil=True, schedule="static"):
            thread = omp_get_thread_num()
            first = block * HT_BLOCK
            run_block(plans, masks, X, first, <int32_t>min(HT_BLOCK, n - first), first_tree,
                      last_tree, &narrow[thread * block_size], &regressors[thread * rows_size],
                      width, raw, NULL if found == NULL else found + first * n_found, n_found)
    else:
        masks = plans.wide_masks
        wide = aligned_empty(n_threads * block_size, np.float64)
        for block in prange(n_blocks, num_threads=n_threads, nogil=True, schedule="static"):
            thread = omp_get_thread_num()
            first = block * HT_BLOCK
            run_block(plans, masks, X, first, <int32_t>min(HT_BLOCK, n - first), first_tree,
                      last_tree, &wide[thread * block_size], &regressors[thread * rows_size],
                      width, raw, NULL if found == NULL else found + first * n_found, n_found)
    return 0


cdef int add_typed(
    TreePlans plans, const real_t[:, :] X, float64_t[:, :] raw,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef float64_t[::1] regressors
    check_call(plans, X.shape[0], X.shape[1], raw.shape[0], raw.shape[1], first_tree, last_tree)
    if X.shape[0] > FEW_ROWS:
        return run_blocks(plans, X, first_tree, last_tree, n_threads, raw, NULL)
    regressors = np.empty(
        plans.linear.stride if plans.any_linear and plans.linear.by_rows else 1)
    add_few(plans, X, raw, first_tree, last_tree, &regressors[0])
    return 0


cdef void add_few(
    TreePlans plans, const real_t[:, :] X, float64_t[:, :] raw, intp_t first_tree,
    intp_t last_tree, float64_t* x,
) noexcept nogil:
    """Row by row."""
    cdef intp_t row, tree, k
    cdef int32_t found[TREES_TOGETHER]
    cdef Regressors regressors
    cdef bint by_rows = plans.any_linear and plans.linear.by_rows
    for row in range(X.shape[0]):
        if by_rows:
            fill_rows(plans.linear, X, row, 1, x, &regressors)
        tree = first_tree
        while plans.only_numbers and tree + TREES_TOGETHER <= last_tree:
            walk_trees(plans, tree, X, row, found)
            for k in range(TREES_TOGETHER):
                add_node(plans, tree + k, X, row, found[k], &regressors, raw)
            tree += TREES_TOGETHER
        for tree in range(tree, last_tree):
            add_node(plans, tree, X, row, walk_row(plans, plans.plans + tree, X, row), &regressors,
                     raw)


cdef int find_typed(
    TreePlans plans, const real_t[:, :] X, int32_t[:, ::1] leaves,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef intp_t row, tree
    cdef float64_t[:, :] no_outputs = None
    check_call(plans, X.shape[0], X.shape[1], leaves.shape[0], plans.n_outputs, first_tree,
               last_tree)
    if leaves.shape[1] != last_tree - first_tree:
        raise ValueError("leaves needs one column per tree")
    if X.shape[0] > FEW_ROWS and last_tree > first_tree:
        return run_blocks(
            plans, X, first_tree, last_tree, n_threads, no_outputs, &leaves[0, 0])
    for row in range(X.shape[0]):
        tree = first_tree
        while plans.only_numbers and tree + TREES_TOGETHER <= last_tree:
            walk_trees(plans, tree, X, row, &leaves[row, tree - first_tree])
            tree += TREES_TOGETHER
        for tree in range(tree, last_tree):
            leaves[row, tree - first_tree] = walk_row(plans, plans.plans + tree, X, row)
    return 0


# The choice by type is made by hand: the automatic one of a fused function takes longer than the
# prediction of a row.
def add_predictions(
    TreePlans plans, X, float64_t[:, :] raw, intp_t first_tree, intp_t last_tree, int n_threads
):
    """raw += what the trees [first_tree, last_tree) say of the rows of X (float32 or float64)."""
    cdef const float[:, :] narrow
    cdef const double[:, :] wide
    if X.dtype == np.float32:
        narrow = X
        add_typed(plans, narrow, raw, first_tree, last_tree, n_threads)
    else:
        wide = X
        add_typed(plans, wide, raw, first_tree, last_tree, n_threads)


def find_leaves(
    TreePlans plans, X, int32_t[:, ::1] leaves, intp_t first_tree, intp_t last_tree,
    int n_threads,
):
    """leaves[row, k] = node id of the row's leaf in tree first_tree + k."""
    cdef const float[:, :] narrow
    cdef const double[:, :] wide
    if X.dtype == np.float32:
        narrow = X
        find_typed(plans, narrow, leaves, first_tree, last_tree, n_threads)
    else:
        wide = X
        find_typed(plans, wide, leaves, first_tree, last_tree, n_threads)


cdef int check_call(
    TreePlans plans, intp_t n_rows, intp_t n_columns, intp_t n_raw, intp_t n_outputs,
    intp_t first_tree, intp_t last_tree,
) except -1:
    if n_columns != plans.n_features or n_raw != n_rows or n_outputs != plans.n_outputs:
        raise ValueError("the table and the output do not fit the trees")
    if not 0 <= first_tree <= last_tree <= plans.n_trees:
        raise ValueError(f"trees {first_tree} to {last_tree} of {plans.n_trees} do not exist")
    return 0
