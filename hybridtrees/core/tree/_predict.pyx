"""Predictions of many rows by many trees."""

from cython.parallel cimport prange
from libc.math cimport isnan
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from hybridtrees.core.base._category_sets cimport category_side
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_round_up, ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport float64_t, int32_t, int64_t, intp_t, real_t, uint32_t
from hybridtrees.core.tree._plan cimport (
    HT_BAND, HT_BLOCK, HT_LANES, HT_STEP, HT_TABLE_COLUMNS, BitMasks, MaskWord, Regressors,
    TreePlan, TreePlans, add_band, band_size, chunk_of, fill_rows, ht_add_values, ht_row_stride,
    ht_score_f32, ht_score_f64, ht_stride, ht_turn_f32, ht_turn_f64, table_value,
)
from hybridtrees.core.tree._walk_node cimport WalkNode

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---------------------------------------------------------------------------------------------
# Walks down trees that are laid out for prediction.


ctypedef fused block_t:
    float
    double


cdef inline int32_t node_side(
    const WalkNode* node, float64_t code, const uint32_t* categories
) noexcept nogil:
    """Side of a code at a split on categories, -1 where it counts as missing."""
    return category_side(categories + node.category_start, node.category_words,
                         node.category_limit, code)


cdef inline bint ends_here(
    const WalkNode* node, float64_t value, const uint32_t* categories
) noexcept nogil:
    """Whether a row stops at an inner node, for want of a value."""
    if node.missing_left != 2:
        return False
    if node.category_start >= 0:
        return node_side(node, value, categories) < 0
    return isnan(value)


cdef inline int32_t next_node(
    const WalkNode* node, float64_t value, const uint32_t* categories
) noexcept nogil:
    cdef int32_t left
    if node.category_start >= 0:
        left = node_side(node, value, categories)
        if left < 0:
            left = node.missing_left
    else:
        # For a missing value both comparisons are false.
        left = value <= node.threshold or (node.missing_left and not value > node.threshold)
    return node.left + (1 - left)


cdef inline void walk_block(
    TreePlans plans, const TreePlan* plan, const block_t* block, int32_t n_rows, bint numeric,
    int32_t* position,
) noexcept nogil:
    """Walk-form leaf of every row of a block, for a tree that has splits.

    All rows step down together; those that came to a leaf leave the list. Nothing branches on
    the rows, for which way they go is a guess that a processor gets wrong half the time.
    `numeric` is a literal: whether no split is on categories.
    """
    cdef const WalkNode* walk = plans.walk + plan.walk_start
    cdef const uint32_t* categories = &plans.categories[0]
    cdef const WalkNode* node
    cdef float64_t value
    cdef int32_t active[HT_BLOCK]
    cdef int32_t row, k, right, n_kept, n_active = n_rows
    cdef intp_t stride = ht_stride(n_rows)
    for row in range(n_rows):
        active[row] = row
        position[row] = 0
    while n_active:
        n_kept = 0
        for k in range(n_active):
            row = active[k]
            node = walk + position[row]
            value = block[node.column * stride + row]
            if numeric:
                # For a missing value the comparison is false.
                right = (value > node.threshold) | ((value != value) & (node.missing_left ^ 1))
            else:
                right = next_node(node, value, categories) - node.left
            position[row] = node.left + right
            active[n_kept] = row
            n_kept += (node.leaf_below >> right & 1) ^ 1
        n_active = n_kept


cdef inline int32_t walk_row(
    TreePlans plans, const TreePlan* plan, const real_t[:, :] X, intp_t row
) noexcept nogil:
    """Where one row ends, as node within the tree."""
    cdef const WalkNode* walk = plans.walk + plan.walk_start
    cdef const WalkNode* node = walk
    cdef float64_t value
    while not node.is_leaf:
        value = X[row, plans.used[node.column]]
        if plan.stops and ends_here(node, value, &plans.categories[0]):
            break
        node = walk + next_node(node, value, &plans.categories[0])
    return plans.walk_origin[plan.walk_start + (node - walk)]


cdef inline void walk_trees(
    TreePlans plans, const int32_t* trees, const real_t[:, :] X, intp_t row, int32_t* found
) noexcept nogil:
    """Where one row ends in each of some trees without categories and stops.

    They step down together, so that none waits for the memory of another, and nothing branches on
    the way they go. A leaf leads to itself.
    """
    cdef const WalkNode* walk[HT_BAND]
    cdef const WalkNode* node
    cdef int32_t position[HT_BAND]
    cdef int32_t k, right, n_going = 1
    cdef float64_t value
    for k in range(HT_BAND):
        walk[k] = plans.walk + plans.plans[trees[k]].walk_start
        position[k] = 0
    while n_going:
        n_going = 0
        for k in range(HT_BAND):
            node = walk[k] + position[k]
            value = X[row, plans.used[node.column]]
            # For a missing value the comparison is false.
            right = (value > node.threshold) | ((value != value) & (node.missing_left ^ 1))
            position[k] = node.left + right
            n_going += node.is_leaf ^ 1
    for k in range(HT_BAND):
        found[k] = plans.walk_origin[plans.plans[trees[k]].walk_start + position[k]]


cdef inline void find_nodes(
    TreePlans plans, const TreePlan* plan, const real_t[:, :] X, intp_t start,
    const int32_t* order, int32_t n_rows, const block_t* block, int32_t* node,
) noexcept nogil:
    """Where the rows start + order of X, a block, end in a tree that has no bit-mask form."""
    cdef int32_t row
    if plan.stops:
        for row in range(n_rows):
            node[row] = walk_row(plans, plan, X, start + order[row])
        return
    if plan.n_category == 0:
        walk_block(plans, plan, block, n_rows, True, node)
    else:
        walk_block(plans, plan, block, n_rows, False, node)
    for row in range(n_rows):
        node[row] = plans.walk_origin[plan.walk_start + node[row]]


# ---------------------------------------------------------------------------------------------
# Rows of a block turned to feature-major order, and the leaves where they end.


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


# ---------------------------------------------------------------------------------------------
# Prediction: raw sums over the trees, and leaves.
#
# Rows are taken in blocks, turned to feature-major order once, and scored by tree: those of up to
# some hundred leaves by bit masks (`mask_scores.h`), larger ones by walking all rows of the block
# in lock step. The sums run over the trees of an output in their order for every row, linear ones
# in bands (`linear_leaves.h`), so they are the same for any block or number of threads. A float64
# table is narrowed to float32 where all thresholds are float32: rounding a value up cannot carry it
# past such a threshold.


cdef enum:
    FEW_ROWS = 4          # up to here turning a block costs more than it brings
    BLOCK_NUMBERS = 16384  # of a block of many rows, at most


cdef inline void add_node(
    TreePlans plans, intp_t tree, const real_t[:, :] X, intp_t row, int32_t node,
    float64_t[:, :] raw,
) noexcept nogil:
    """Add a leaf, given by its node within the tree, to one row of raw."""
    cdef const TreePlan* plan = plans.plans + tree
    cdef int32_t k, first = 0 if plans.n_values > 1 else plan.output
    for k in range(plans.n_values):
        if plan.linear:
            raw[row, first + k] += table_value(plans.linear, X, row, plan.node_start + node, k)
        else:
            raw[row, first + k] += plans.values[plan.node_start + node, k]


cdef inline intp_t place_of(TreePlans plans, int32_t output, intp_t tree) noexcept nogil:
    """Place in the order of the first tree of an output that is not before `tree`."""
    cdef intp_t low = plans.output_start[output], high = plans.output_start[output + 1], middle
    while low < high:
        middle = (low + high) // 2
        if plans.order[middle] < tree:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void find_chunks(
    TreePlans plans, intp_t tree, BitMasks masks, const real_t[:, :] X, intp_t start,
    const int32_t* order, int32_t n_rows, const block_t* block, int width, int32_t* chunk,
) noexcept nogil:
    """OUT chunk: where the linear leaves of the rows of a block stand."""
    cdef const int32_t* names
    cdef int32_t row
    if plans.linear.n_pairs > 0 and masks.tree_word[tree + 1] > masks.tree_word[tree]:
        # They have one chunk each, from left to right.
        score_block(plans, tree, masks, block, n_rows, width,
                    plans.linear.first_chunk[plans.linear.first_end[tree]], chunk)
        return
    names = find_block(plans, tree, masks, X, start, order, n_rows, block, width, chunk)
    for row in range(n_rows):
        chunk[row] = chunk_of(
            plans.linear, tree, chunk[row] if names == NULL else names[chunk[row]])


cdef inline void sum_block(
    TreePlans plans, BitMasks masks, const real_t[:, :] X, intp_t start, const int32_t* order,
    int32_t n_rows, const int32_t* trees, intp_t n_trees, const block_t* block,
    const Regressors* regressors, int width, float64_t* total,
) noexcept nogil:
    """Add what trees of one output say of the rows of a block, where a leaf gives one number."""
    cdef int32_t leaf[HT_BAND * HT_BLOCK]
    cdef const int32_t* names
    cdef const float64_t* values
    cdef const TreePlan* plan
    cdef int32_t row, k, n
    while n_trees > 0:
        plan = plans.plans + trees[0]
        n = 1
        if plan.linear:
            n = band_size(plans.linear, trees, n_trees)
            for k in range(n):
                find_chunks(plans, trees[k], masks, X, start, order, n_rows, block, width,
                            leaf + k * HT_BLOCK)
            add_band(plans.linear, trees[0], leaf, n, regressors, total)
        else:
            names = find_block(
                plans, trees[0], masks, X, start, order, n_rows, block, width, leaf)
            if names != NULL:
                ht_add_values(width, &plans.leaf_value[plan.leaf_start], plan.n_leaves, leaf,
                              n_rows, total)
            else:
                values = &plans.values[plan.node_start, 0]
                for row in range(n_rows):
                    total[row] += values[leaf[row]]
        trees += n
        n_trees -= n


cdef inline void run_block(
    TreePlans plans, BitMasks masks, const real_t[:, :] X, intp_t start, int32_t n_rows,
    intp_t first_tree, intp_t last_tree, int form, block_t* block, float64_t* x, int width,
    float64_t[:, :] raw, int32_t* found, intp_t n_found,
) noexcept nogil:
    """Add what the trees say of some rows, or OUT the nodes where these end.

    The nodes of the first row stand at `found`, those of the next `n_found` places behind; NULL
    where outputs are wanted.
    """
    cdef int32_t leaf[HT_BLOCK]
    cdef int32_t order[HT_BLOCK]
    cdef float64_t total[HT_BLOCK]
    cdef Regressors regressors
    cdef const int32_t* names
    cdef intp_t tree, first, last
    cdef int32_t row, node, output, n_scored = <int32_t>whole_steps(n_rows)
    cdef bint summed = plans.summed and found == NULL
    if summed and plans.any_linear:
        fill_rows(plans.linear, X, start, n_rows, form, x, order, &regressors)
    else:
        for row in range(n_rows):
            order[row] = row
    for row in range(n_rows, n_scored):          # the last row is repeated
        order[row] = order[n_rows - 1]
    fill_block(plans, X, start, order, n_scored, block)
    if not summed:
        for tree in range(first_tree, last_tree):
            names = find_block(plans, tree, masks, X, start, order, n_scored, block, width, leaf)
            for row in range(n_rows):
                node = leaf[row] if names == NULL else names[leaf[row]]
                if found == NULL:
                    add_node(plans, tree, X, start + row, node, raw)
                else:
                    found[row * n_found + tree - first_tree] = node
        return
    memset(total, 0, n_scored * sizeof(float64_t))
    for output in range(plans.n_outputs):
        first = place_of(plans, output, first_tree)
        last = place_of(plans, output, last_tree)
        if first == last:
            continue
        for row in range(n_rows):
            total[row] = raw[start + order[row], output]
        sum_block(plans, masks, X, start, order, n_scored, &plans.order[first], last - first,
                  block, &regressors, width, total)
        for row in range(n_rows):
            raw[start + order[row], output] = total[row]


cdef inline intp_t whole_steps(intp_t n_rows) noexcept nogil:
    return (n_rows + HT_STEP - 1) // HT_STEP * HT_STEP


cdef int run_blocks(
    TreePlans plans, const real_t[:, :] X, intp_t first_tree, intp_t last_tree, int n_threads,
    float64_t[:, :] raw, int32_t* found,
) except -1:
    """`run_block` on all rows of a table; `found` has a row for each."""
    cdef intp_t n = X.shape[0], n_columns = max(1, plans.n_used), block, first, n_rows
    n_threads = max(1, n_threads)
    if plans.any_linear and plans.summed:
        n_columns = max(n_columns, plans.linear.regressors.shape[0])
    # Blocks of few columns stay in the cache of a core whole; what is read for a tree serves more
    # rows then. All threads have some to do.
    n_rows = HT_BLOCK if n_columns * HT_BLOCK <= BLOCK_NUMBERS else HT_STEP
    n_rows = min(n_rows, whole_steps((n - 1) // n_threads + 1))
    cdef intp_t n_blocks = (n + n_rows - 1) // n_rows, rows_size = 1
    cdef intp_t block_size = max(1, plans.n_used) * ht_stride(<int>n_rows)
    cdef intp_t n_found = 0 if found == NULL else last_tree - first_tree
    cdef int width = ht_vector_bytes(), thread
    cdef float[::1] narrow
    cdef double[::1] wide
    cdef float64_t[::1] regressors
    cdef BitMasks masks
    cdef int form = 0
    n_threads = <int>max(1, min(n_threads, n_blocks))
    if plans.any_linear and plans.summed and found == NULL:
        form = plans.linear.form_for(real_t is float)
        rows_size = ht_row_stride(form, plans.linear.regressors.shape[0] + 1) * n_rows
    # Vectors that lie across two cache lines would take twice as long to read.
    regressors = aligned_empty(n_threads * rows_size, np.float64)
    if real_t is float or plans.float_thresholds:
        masks = plans.narrow_masks
        narrow = aligned_empty(n_threads * block_size, np.float32)
        for block in prange(n_blocks, num_threads=team_of(n_threads),
                            nogil=True, schedule="static"):
            thread = omp_get_thread_num()
            first = block * n_rows
            run_block(plans, masks, X, first, <int32_t>min(n_rows, n - first), first_tree,
                      last_tree, form, &narrow[thread * block_size],
                      &regressors[thread * rows_size], width, raw,
                      NULL if found == NULL else found + first * n_found, n_found)
    else:
        masks = plans.wide_masks
        wide = aligned_empty(n_threads * block_size, np.float64)
        for block in prange(n_blocks, num_threads=team_of(n_threads),
                            nogil=True, schedule="static"):
            thread = omp_get_thread_num()
            first = block * n_rows
            run_block(plans, masks, X, first, <int32_t>min(n_rows, n - first), first_tree,
                      last_tree, form, &wide[thread * block_size],
                      &regressors[thread * rows_size], width, raw,
                      NULL if found == NULL else found + first * n_found, n_found)
    return 0


cdef int add_typed(
    TreePlans plans, const real_t[:, :] X, float64_t[:, :] raw,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef float64_t[::1] large
    cdef float64_t small[HT_TABLE_COLUMNS + HT_LANES]
    cdef float64_t* x = small
    cdef intp_t stride
    cdef int form = 0
    check_call(plans, X.shape[0], X.shape[1], raw.shape[0], raw.shape[1], first_tree, last_tree)
    if X.shape[0] > FEW_ROWS:
        return run_blocks(plans, X, first_tree, last_tree, n_threads, raw, NULL)
    if plans.any_linear and plans.summed:
        form = plans.linear.form_for(real_t is float)
        stride = ht_row_stride(form, plans.linear.regressors.shape[0] + 1)
        if stride > HT_TABLE_COLUMNS:
            large = np.empty(stride)
            x = &large[0]
        else:                                    # which vectors read from the start of a line
            x = small + (-<uintptr_t>small // sizeof(float64_t)) % HT_LANES
    add_few(plans, X, raw, first_tree, last_tree, form, x)
    return 0


cdef void add_few(
    TreePlans plans, const real_t[:, :] X, float64_t[:, :] raw, intp_t first_tree,
    intp_t last_tree, int form, float64_t* x,
) noexcept nogil:
    """Row by row."""
    cdef intp_t row, tree, first, last
    cdef int32_t output, order
    cdef Regressors regressors
    for row in range(X.shape[0]):
        if not plans.summed:
            for tree in range(first_tree, last_tree):
                add_node(plans, tree, X, row, walk_row(plans, plans.plans + tree, X, row), raw)
            continue
        if plans.any_linear:
            fill_rows(plans.linear, X, row, 1, form, x, &order, &regressors)
        for output in range(plans.n_outputs):
            first = place_of(plans, output, first_tree)
            last = place_of(plans, output, last_tree)
            if first < last:
                sum_row(plans, X, row, &plans.order[first], last - first, &regressors,
                        &raw[row, output])


cdef inline void sum_row(
    TreePlans plans, const real_t[:, :] X, intp_t row, const int32_t* trees, intp_t n_trees,
    const Regressors* regressors, float64_t* total,
) noexcept nogil:
    """`sum_block` for one row, the only one of the regressors."""
    cdef int32_t found[HT_BAND]
    cdef int32_t chunk[HT_BAND * HT_BLOCK]
    cdef const TreePlan* plan
    cdef int32_t k, n
    while n_trees > 0:
        plan = plans.plans + trees[0]
        n = 1
        if plan.linear:
            n = band_size(plans.linear, trees, n_trees)
        else:
            while n < HT_BAND and n < n_trees and not plans.plans[trees[n]].linear:
                n += 1
        if plans.only_numbers and n == HT_BAND:
            walk_trees(plans, trees, X, row, found)
        else:
            for k in range(n):
                found[k] = walk_row(plans, plans.plans + trees[k], X, row)
        if plan.linear:
            for k in range(n):
                chunk[k * HT_BLOCK] = chunk_of(plans.linear, trees[k], found[k])
            add_band(plans.linear, trees[0], chunk, n, regressors, total)
        else:
            for k in range(n):
                total[0] += plans.values[plans.plans[trees[k]].node_start + found[k], 0]
        trees += n
        n_trees -= n


cdef int find_typed(
    TreePlans plans, const real_t[:, :] X, int32_t[:, ::1] leaves,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef intp_t row, tree
    cdef int32_t k
    cdef int32_t trees[HT_BAND]
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
        while plans.only_numbers and tree + HT_BAND <= last_tree:
            for k in range(HT_BAND):
                trees[k] = <int32_t>tree + k
            walk_trees(plans, trees, X, row, &leaves[row, tree - first_tree])
            tree += HT_BAND
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
