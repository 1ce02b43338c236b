"""Prediction: raw sums over the trees, and leaves.

Rows are taken in blocks of 64, turned to feature-major order once, and scored by tree: small
trees by bit masks (`simd_body.h`), large ones by walking all rows of the block in lock step. The
sums run over the trees in their order for every row, so they are the same for any block or
number of threads. A float64 table is narrowed to float32 where all thresholds are float32:
rounding a value up cannot carry it past such a threshold.
"""

from cython.parallel cimport prange
from libc.math cimport isnan
from libc.string cimport memset

from hybridtrees.core._openmp cimport HT_HAS_OPENMP, omp_get_max_threads, omp_get_thread_num
from hybridtrees.core._plan cimport TreePlan, TreePlans, WalkNode
from hybridtrees.core._simd cimport (
    HT_BLOCK, ht_lowest_bit, ht_round_up, ht_score_f32_m32, ht_score_f32_m64, ht_score_f64_m64,
    ht_vector_bytes,
)
from hybridtrees.core._types cimport (
    float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint64_t,
)

import numpy as np

ctypedef fused block_t:
    float
    double

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


cdef inline bint in_set(
    const uint32_t* words, int32_t n_words, float64_t code, bint missing_left
) noexcept nogil:
    """Whether a category goes left; a code outside the set's range counts as missing."""
    cdef int64_t category
    if isnan(code) or code < 0 or code >= 32.0 * n_words:
        return missing_left
    category = <int64_t>code
    return (words[category >> 5] >> (category & 31)) & 1


cdef inline bint ends_here(const WalkNode* node, float64_t value) noexcept nogil:
    """Whether a row stops at an inner node, for want of a value."""
    if node.missing_left != 2:
        return False
    return isnan(value) or (
        node.category_start >= 0 and (value < 0 or value >= 32.0 * node.category_words))


cdef inline int32_t next_node(
    const WalkNode* node, float64_t value, const uint32_t* categories
) noexcept nogil:
    cdef bint left
    if node.category_start >= 0:
        left = in_set(categories + node.category_start, node.category_words, value,
                      node.missing_left)
    else:
        # For a missing value both comparisons are false.
        left = value <= node.threshold or (node.missing_left and not value > node.threshold)
    return node.left + (1 - left)


cdef inline void walk_block(
    TreePlans plans, const TreePlan* plan, const block_t* block, int32_t* position
) noexcept nogil:
    """Walk-form leaf of every row of a block."""
    cdef const WalkNode* walk = plans.walk + plan.walk_start
    cdef const uint32_t* categories = &plans.categories[0]
    cdef const WalkNode* node
    cdef int32_t row, _level, moved, to
    memset(position, 0, HT_BLOCK * sizeof(int32_t))
    for _level in range(plan.depth):
        moved = 0
        for row in range(HT_BLOCK):
            node = walk + position[row]
            to = next_node(node, block[node.column * HT_BLOCK + row], categories)
            moved |= to ^ position[row]
            position[row] = to
        if moved == 0:
            break


cdef inline void category_splits(
    TreePlans plans, const TreePlan* plan, const block_t* block, int64_t* state
) noexcept nogil:
    """Apply the masks of the splits on categories, row by row."""
    cdef intp_t k, first = plan.mask_start + plan.n_right + plan.n_left
    cdef const WalkNode* node
    cdef int32_t row
    for k in range(first, first + plan.n_category):
        node = plans.walk + plan.walk_start + plans.mask_walk[k]
        for row in range(HT_BLOCK):
            if not in_set(&plans.categories[0] + node.category_start, node.category_words,
                          block[node.column * HT_BLOCK + row], node.missing_left):
                state[row] &= plans.mask_bits64[k]


cdef inline void score_block(
    TreePlans plans, const TreePlan* plan, const block_t* block, int width,
    int32_t* leaf,
) noexcept nogil:
    """Bit-mask leaf (counted left to right) of every row of a block."""
    cdef int64_t state64[HT_BLOCK]
    cdef intp_t k = plan.mask_start
    cdef int32_t row
    cdef bint narrow = plan.n_leaves <= 32 and plan.n_category == 0
    if block_t is float and narrow:
        ht_score_f32_m32(width, block, &plans.mask_column[0] + k, &plans.mask_threshold32[0] + k,
                         &plans.mask_bits32[0] + k, plan.n_right, plan.n_left, leaf)
        return
    memset(state64, 255, sizeof(state64))
    if plan.n_category > 0:
        category_splits(plans, plan, block, state64)
    if block_t is float:
        ht_score_f32_m64(width, block, &plans.mask_column[0] + k, &plans.mask_threshold32[0] + k,
                         &plans.mask_bits64[0] + k, plan.n_right, plan.n_left, state64)
    else:
        ht_score_f64_m64(width, block, &plans.mask_column[0] + k, &plans.mask_threshold64[0] + k,
                         &plans.mask_bits64[0] + k, plan.n_right, plan.n_left, state64)
    for row in range(HT_BLOCK):
        leaf[row] = ht_lowest_bit(<uint64_t>state64[row])


cdef inline float64_t linear_part(
    TreePlans plans, const real_t[:, :] X, intp_t row, intp_t node
) noexcept nogil:
    """What a linear leaf adds to its value; a missing regressor counts as the leaf's centre."""
    cdef intp_t k
    cdef float64_t total = 0, value
    for k in range(plans.coef_ptr[node], plans.coef_ptr[node + 1]):
        value = X[row, plans.coef_feature[k]]
        if not isnan(value):
            total += plans.coef[k] * (value - plans.coef_center[k])
    return total


cdef inline void add_node(
    TreePlans plans, const TreePlan* plan, const real_t[:, :] X, intp_t row,
    intp_t node, float64_t[:, :] raw,
) noexcept nogil:
    """Add a leaf, given by its node within the tree, to one row of raw."""
    cdef int32_t k
    node += plan.node_start
    if plans.n_values > 1:
        for k in range(plans.n_values):
            raw[row, k] += plans.values[node, k]
    elif plans.any_linear:
        raw[row, plan.output] += plans.values[node, 0] + linear_part(plans, X, row, node)
    else:
        raw[row, plan.output] += plans.values[node, 0]


cdef inline void fill_block(
    TreePlans plans, const real_t[:, :] X, intp_t start, int32_t n_rows, block_t* block
) noexcept nogil:
    """Turn rows to feature-major order; rows past the end repeat the last one."""
    cdef int32_t column, row
    cdef intp_t feature
    for column in range(<int32_t>plans.n_used):
        feature = plans.used[column]
        for row in range(n_rows):
            if block_t is float and real_t is double:
                block[column * HT_BLOCK + row] = ht_round_up(X[start + row, feature])
            else:
                block[column * HT_BLOCK + row] = X[start + row, feature]
        for row in range(n_rows, HT_BLOCK):
            block[column * HT_BLOCK + row] = block[column * HT_BLOCK + n_rows - 1]


cdef inline int32_t walk_row(
    TreePlans plans, const TreePlan* plan, const real_t[:, :] X, intp_t row
) noexcept nogil:
    """Leaf of one row, as node within the tree."""
    cdef const WalkNode* walk = plans.walk + plan.walk_start
    cdef const WalkNode* node = walk
    cdef float64_t value
    while not node.is_leaf:
        value = X[row, plans.used[node.column]]
        if plan.stops and ends_here(node, value):
            break
        node = walk + next_node(node, value, &plans.categories[0])
    return plans.walk_origin[plan.walk_start + (node - walk)]


cdef inline void predict_block(
    TreePlans plans, const real_t[:, :] X, intp_t start, int32_t n_rows,
    intp_t first_tree, intp_t last_tree, block_t* block, int width, float64_t[:, :] raw,
) noexcept nogil:
    cdef int32_t leaf[HT_BLOCK]
    cdef float64_t total[HT_BLOCK]
    cdef intp_t tree
    cdef int32_t row, output = 0
    cdef const TreePlan* plan
    cdef const int32_t* names
    cdef const float64_t* leaf_value
    cdef bint plain = plans.n_values == 1 and not plans.any_linear
    cdef bint one_output = plain and plans.n_outputs == 1 and not plans.any_stops
    fill_block(plans, X, start, n_rows, block)
    if one_output:
        for row in range(n_rows):
            total[row] = raw[start + row, 0]
    for tree in range(first_tree, last_tree):
        plan = plans.plans + tree
        if plan.masked:
            score_block(plans, plan, block, width, leaf)
            leaf_value = &plans.leaf_value[0] + plan.leaf_start
            if one_output:
                for row in range(n_rows):
                    total[row] += leaf_value[leaf[row]]
                continue
            if plain:
                output = plan.output
                for row in range(n_rows):
                    raw[start + row, output] += leaf_value[leaf[row]]
                continue
            names = &plans.leaf_node[0] + plan.leaf_start
        elif plan.stops:
            for row in range(n_rows):
                add_node(plans, plan, X, start + row, walk_row(plans, plan, X, start + row), raw)
            continue
        else:
            walk_block(plans, plan, block, leaf)
            names = &plans.walk_origin[0] + plan.walk_start
            if one_output:
                for row in range(n_rows):
                    total[row] += plans.values[plan.node_start + names[leaf[row]], 0]
                continue
        for row in range(n_rows):
            add_node(plans, plan, X, start + row, names[leaf[row]], raw)
    if one_output:
        for row in range(n_rows):
            raw[start + row, 0] = total[row]


cdef int add_typed(
    TreePlans plans, const real_t[:, :] X, float64_t[:, :] raw,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef intp_t n = X.shape[0], n_blocks = (n + HT_BLOCK - 1) // HT_BLOCK, block, row, tree
    cdef int width = ht_vector_bytes()
    cdef intp_t block_size = max(1, plans.n_used) * HT_BLOCK
    cdef float[::1] narrow
    cdef double[::1] wide
    check_call(plans, X.shape[0], X.shape[1], raw.shape[0], raw.shape[1], first_tree, last_tree)
    if n <= FEW_ROWS:
        with nogil:
            for row in range(n):
                for tree in range(first_tree, last_tree):
                    add_node(plans, plans.plans + tree, X, row,
                             walk_row(plans, plans.plans + tree, X, row), raw)
        return 0
    n_threads = <int>max(1, min(n_threads, n_blocks))
    if real_t is float or plans.float_thresholds:
        narrow = np.empty(n_threads * block_size, dtype=np.float32)
        for block in prange(n_blocks, num_threads=n_threads, nogil=True, schedule="static"):
            predict_block(plans, X, block * HT_BLOCK, <int32_t>min(HT_BLOCK, n - block * HT_BLOCK),
                          first_tree, last_tree, &narrow[omp_get_thread_num() * block_size],
                          width, raw)
    else:
        wide = np.empty(n_threads * block_size)
        for block in prange(n_blocks, num_threads=n_threads, nogil=True, schedule="static"):
            predict_block(plans, X, block * HT_BLOCK, <int32_t>min(HT_BLOCK, n - block * HT_BLOCK),
                          first_tree, last_tree, &wide[omp_get_thread_num() * block_size],
                          width, raw)
    return 0


cdef int find_typed(
    TreePlans plans, const real_t[:, :] X, int32_t[:, ::1] leaves,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef intp_t row, tree
    check_call(plans, X.shape[0], X.shape[1], leaves.shape[0], plans.n_outputs, first_tree,
               last_tree)
    if leaves.shape[1] != last_tree - first_tree:
        raise ValueError("leaves needs one column per tree")
    n_threads = <int>max(1, min(n_threads, X.shape[0] // 512))
    for row in prange(X.shape[0], num_threads=n_threads, nogil=True, schedule="static"):
        for tree in range(first_tree, last_tree):
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
