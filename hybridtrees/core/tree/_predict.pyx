"""Predictions of many rows by many trees."""

from cython.parallel cimport prange
from libc.math cimport exp, fmax, fmin, isnan
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from hybridtrees.core.base._category_sets cimport side_of
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_round_up, ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    MISSING_STAYS, float64_t, int32_t, int64_t, intp_t, real_t, uint8_t, uint32_t,
)
from hybridtrees.core.tree._layout cimport (
    HT_BAND, HT_BLOCK, HT_LANES, HT_STEP, HT_TABLE_COLUMNS, BitMasks, EnsembleLayout, MaskWord,
    Regressors, TreeForm, add_band, band_size, chunk_of, fill_rows, ht_add_values, ht_row_stride,
    ht_score_f32, ht_score_f64, ht_stride, ht_transpose_f32, ht_transpose_f64, table_value,
)
from hybridtrees.core.tree._walk_node cimport WalkNode

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---- Walks down trees that are laid out for prediction ----------------------------------------


ctypedef fused block_t:
    float
    double


cdef inline int32_t node_side(
    const WalkNode* node, float64_t value, const uint32_t* categories
) noexcept nogil:
    """Side of a value: 1 left, 0 right, or MISSING_STAYS."""
    return side_of(
        value, node.threshold,
        categories + node.category_start if node.category_start >= 0 else NULL,
        node.category_words, node.category_limit, node.missing_left)


cdef inline bint ends_here(
    const WalkNode* node, float64_t value, const uint32_t* categories
) noexcept nogil:
    """Whether a row stops at an inner node because its value is missing."""
    return node.missing_left == MISSING_STAYS and (
        node_side(node, value, categories) == MISSING_STAYS)


cdef inline int32_t next_node(
    const WalkNode* node, float64_t value, const uint32_t* categories
) noexcept nogil:
    cdef int32_t left
    if node.category_start >= 0:
        left = node_side(node, value, categories)
    else:
        # The same without a branch: both comparisons are false for a missing value.
        left = value <= node.threshold or (node.missing_left and not value > node.threshold)
    return node.left + (1 - left)


cdef inline void walk_block(
    EnsembleLayout layout, const TreeForm* form, const block_t* block, int32_t n_rows, bint numeric,
    int32_t* position,
) noexcept nogil:
    """OUT walk-form leaf of every row of a block, for a tree with splits; `numeric` is a literal.

    All rows step down together until they reach a leaf; no branch depends on their direction.
    """
    cdef const WalkNode* walk = layout.walk + form.start
    cdef const uint32_t* categories = &layout.categories[0]
    cdef const WalkNode* node
    cdef float64_t value
    cdef int32_t active[HT_BLOCK], row, k, right, n_kept, n_active = n_rows
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
    EnsembleLayout layout, const TreeForm* form, const real_t[:, :] X, intp_t row
) noexcept nogil:
    """Node of a tree where one row ends."""
    cdef const WalkNode* walk = layout.walk + form.start
    cdef const WalkNode* node = walk
    cdef float64_t value
    while not node.is_leaf:
        value = X[row, layout.used[node.column]]
        if form.stops and ends_here(node, value, &layout.categories[0]):
            break
        node = walk + next_node(node, value, &layout.categories[0])
    return layout.walk_origin[form.start + (node - walk)]


cdef inline void walk_trees(
    EnsembleLayout layout, const int32_t* trees, const real_t[:, :] X, intp_t row, int32_t* found
) noexcept nogil:
    """OUT nodes where one row ends in HT_BAND trees without categories and stops.

    All trees step down together, so that loads overlap. The child of a leaf is the leaf itself.
    """
    cdef const WalkNode* walk[HT_BAND]
    cdef const WalkNode* node
    cdef int32_t position[HT_BAND], k, right, n_going = 1
    cdef float64_t value
    for k in range(HT_BAND):
        walk[k] = layout.walk + layout.forms[trees[k]].start
        position[k] = 0
    while n_going:
        n_going = 0
        for k in range(HT_BAND):
            node = walk[k] + position[k]
            value = X[row, layout.used[node.column]]
            # For a missing value the comparison is false.
            right = (value > node.threshold) | ((value != value) & (node.missing_left ^ 1))
            position[k] = node.left + right
            n_going += node.is_leaf ^ 1
    for k in range(HT_BAND):
        found[k] = layout.walk_origin[layout.forms[trees[k]].start + position[k]]


cdef inline void find_nodes(
    EnsembleLayout layout, const TreeForm* form, const real_t[:, :] X, intp_t start,
    const int32_t* order, int32_t n_rows, const block_t* block, int32_t* node,
) noexcept nogil:
    """OUT nodes where the rows start + order of X end in a tree without bit masks."""
    cdef int32_t row
    if form.stops:
        for row in range(n_rows):
            node[row] = walk_row(layout, form, X, start + order[row])
        return
    if form.n_category == 0:
        walk_block(layout, form, block, n_rows, True, node)
    else:
        walk_block(layout, form, block, n_rows, False, node)
    for row in range(n_rows):
        node[row] = layout.walk_origin[form.start + node[row]]


# ---- Blocks of rows in feature-major order, and their leaves ----------------------------------


ctypedef fused mask_t:
    int32_t
    int64_t


cdef inline void fill_block(
    EnsembleLayout layout, const real_t[:, :] X, intp_t start, const int32_t* order, int32_t n_rows,
    block_t* block,
) noexcept nogil:
    """OUT the rows start + order in feature-major order."""
    cdef int32_t column, row
    cdef intp_t feature
    if layout.n_used == 0:
        return
    if block_t is float and X.strides[1] == sizeof(real_t):
        if real_t is float:
            ht_transpose_f32(<const char*>&X[start, 0], X.strides[0], X.shape[1], order, n_rows,
                             &layout.used[0], <int>layout.n_used, block)
        else:
            ht_transpose_f64(<const char*>&X[start, 0], X.strides[0], X.shape[1], order, n_rows,
                             &layout.used[0], <int>layout.n_used, block)
        return
    for column in range(<int32_t>layout.n_used):
        feature = layout.used[column]
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
    """Apply the mask of a categorical split with a bit set, without a branch per row."""
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
    """Apply the mask of a categorical split."""
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
    EnsembleLayout layout, intp_t tree, BitMasks masks, const block_t* block, int32_t n_rows,
    int width, int32_t first_leaf, int32_t* leaf,
) noexcept nogil:
    """OUT leaf of every row of a block, numbered left to right from `first_leaf` on."""
    cdef const WalkNode* walk = layout.walk + layout.forms[tree].start
    cdef int32_t state32[HT_BLOCK]
    cdef int64_t state64[HT_BLOCK]
    cdef intp_t first = masks.tree_word[tree], at, k
    cdef int32_t word, base, n_words = <int32_t>(masks.tree_word[tree + 1] - first)
    cdef const MaskWord* entries
    # From the last word to the first: the first word with a remaining bit has the leaf.
    for word in range(n_words - 1, -1, -1):
        entries = &masks.words[first + word]
        at = entries.start
        k = at + entries.n_of_kind[0] + entries.n_of_kind[1]
        base = first_leaf + word * masks.word_leaves
        if block_t is float:
            if entries.n_of_kind[2] > 0:
                memset(state32, 255, n_rows * sizeof(int32_t))
            for k in range(k, k + entries.n_of_kind[2]):
                category_split(walk + masks.split[k], &layout.categories[0], block, n_rows,
                               masks.bits32[k], state32)
            ht_score_f32(width, block, n_rows, &masks.column[0] + at,
                         &masks.threshold32[0] + at, &masks.bits32[0] + at,
                         entries.n_of_kind[0], entries.n_of_kind[1],
                         state32 if entries.n_of_kind[2] > 0 else NULL, base,
                         word == n_words - 1, leaf)
        else:
            memset(state64, 255, n_rows * sizeof(int64_t))
            for k in range(k, k + entries.n_of_kind[2]):
                category_split(walk + masks.split[k], &layout.categories[0], block, n_rows,
                               masks.bits64[k], state64)
            ht_score_f64(width, block, n_rows, &masks.column[0] + at,
                         &masks.threshold64[0] + at, &masks.bits64[0] + at,
                         entries.n_of_kind[0], entries.n_of_kind[1],
                         state64, base, leaf)


cdef inline const int32_t* find_block(
    EnsembleLayout layout, intp_t tree, BitMasks masks, const real_t[:, :] X, intp_t start,
    const int32_t* order, int32_t n_rows, const block_t* block, int width, int32_t* leaf,
) noexcept nogil:
    """OUT leaves of the rows, left to right, and returns their nodes; NULL: OUT nodes."""
    cdef const TreeForm* form = layout.forms + tree
    if masks.tree_word[tree + 1] > masks.tree_word[tree]:
        score_block(layout, tree, masks, block, n_rows, width, 0, leaf)
        return &layout.leaf_node[form.start]
    find_nodes(layout, form, X, start, order, n_rows, block, leaf)
    return NULL


# ---- Prediction: raw sums over the trees, and leaves ------------------------------------------
#
# Blocks of rows are transposed to feature-major order once, and scored tree by tree: trees of up to
# some hundred leaves by bit masks (`quickscorer.h`), larger ones by walks of all rows in lock step.
# Every row sums the trees of an output in their order, linear ones in bands (`linear_leaves.h`), so
# results do not depend on blocks or threads. A float64 table is narrowed to float32 if all
# thresholds are float32: rounding a value up does not move it past such a threshold.


cdef enum:
    FEW_ROWS = 4           # up to so many rows are predicted without a block
    BLOCK_NUMBERS = 16384  # maximum size of a block of HT_BLOCK rows


cdef inline void add_node(
    EnsembleLayout layout, intp_t tree, const real_t[:, :] X, intp_t row, int32_t node,
    float64_t[:, :] raw,
) noexcept nogil:
    """Add a leaf, given by its node of the tree, to one row of raw."""
    cdef const TreeForm* form = layout.forms + tree
    cdef int32_t k, first = 0 if layout.n_values > 1 else form.output
    for k in range(layout.n_values):
        if form.linear:
            raw[row, first + k] += table_value(layout.linear, X, row, form.start + node, k)
        else:
            raw[row, first + k] += layout.values[form.start + node, k]


cdef inline intp_t place_of(EnsembleLayout layout, int32_t output, intp_t tree) noexcept nogil:
    """Position in `order` of the first tree of an output that is not before `tree`."""
    cdef intp_t low = layout.output_start[output], high = layout.output_start[output + 1], middle
    while low < high:
        middle = (low + high) // 2
        if layout.order[middle] < tree:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void find_chunks(
    EnsembleLayout layout, intp_t tree, BitMasks masks, const real_t[:, :] X, intp_t start,
    const int32_t* order, int32_t n_rows, const block_t* block, int width, int32_t* chunk,
) noexcept nogil:
    """OUT first chunks of the linear leaves of the rows of a block."""
    cdef const int32_t* names
    cdef int32_t row
    if layout.linear.n_pairs > 0 and masks.tree_word[tree + 1] > masks.tree_word[tree]:
        # Leaves have one chunk each, from left to right.
        score_block(layout, tree, masks, block, n_rows, width,
                    layout.linear.first_chunk[layout.linear.first_end[tree]], chunk)
        return
    names = find_block(layout, tree, masks, X, start, order, n_rows, block, width, chunk)
    for row in range(n_rows):
        chunk[row] = chunk_of(
            layout.linear, tree, chunk[row] if names == NULL else names[chunk[row]])


cdef inline void sum_block(
    EnsembleLayout layout, BitMasks masks, const real_t[:, :] X, intp_t start, const int32_t* order,
    int32_t n_rows, const int32_t* trees, intp_t n_trees, const block_t* block,
    const Regressors* regressors, int width, float64_t* total,
) noexcept nogil:
    """Add trees of one output to the rows of a block; leaves have one value."""
    cdef int32_t leaf[HT_BAND * HT_BLOCK]
    cdef const int32_t* names
    cdef const float64_t* values
    cdef const TreeForm* form
    cdef int32_t row, k, n
    while n_trees > 0:
        form = layout.forms + trees[0]
        n = 1
        if form.linear:
            n = band_size(layout.linear, trees, n_trees)
            for k in range(n):
                find_chunks(layout, trees[k], masks, X, start, order, n_rows, block, width,
                            leaf + k * HT_BLOCK)
            add_band(layout.linear, trees[0], leaf, n, regressors, total)
        else:
            names = find_block(layout, trees[0], masks, X, start, order, n_rows, block, width, leaf)
            if names != NULL:
                ht_add_values(width, &layout.leaf_value[form.start], form.n_leaves, leaf,
                              n_rows, total)
            else:
                values = &layout.values[form.start, 0]
                for row in range(n_rows):
                    total[row] += values[leaf[row]]
        trees += n
        n_trees -= n


cdef inline void run_block(
    EnsembleLayout layout, BitMasks masks, const real_t[:, :] X, intp_t start, int32_t n_rows,
    intp_t first_tree, intp_t last_tree, int form, block_t* block, float64_t* x, int width,
    float64_t[:, :] raw, int32_t* found, intp_t n_found,
) noexcept nogil:
    """Add the predictions of trees for some rows; with `found`, OUT the nodes of each instead."""
    cdef int32_t leaf[HT_BLOCK]
    cdef int32_t order[HT_BLOCK]
    cdef float64_t total[HT_BLOCK]
    cdef Regressors regressors
    cdef const int32_t* names
    cdef intp_t tree, first, last
    cdef int32_t row, output, n_scored = <int32_t>whole_steps(n_rows)
    cdef bint summed = layout.summed and found == NULL
    if summed and layout.any_linear:
        fill_rows(layout.linear, X, start, n_rows, form, x, order, &regressors)
    else:
        for row in range(n_rows):
            order[row] = row
    for row in range(n_rows, n_scored):          # the last row is repeated
        order[row] = order[n_rows - 1]
    fill_block(layout, X, start, order, n_scored, block)
    if not summed:
        for tree in range(first_tree, last_tree):
            names = find_block(layout, tree, masks, X, start, order, n_scored, block, width, leaf)
            if names != NULL:
                for row in range(n_rows):
                    leaf[row] = names[leaf[row]]
            if found == NULL:
                for row in range(n_rows):
                    add_node(layout, tree, X, start + row, leaf[row], raw)
            else:
                for row in range(n_rows):
                    found[row * n_found + tree - first_tree] = leaf[row]
        return
    memset(total, 0, n_scored * sizeof(float64_t))
    for output in range(layout.n_outputs):
        first = place_of(layout, output, first_tree)
        last = place_of(layout, output, last_tree)
        if first == last:
            continue
        for row in range(n_rows):
            total[row] = raw[start + order[row], output]
        sum_block(layout, masks, X, start, order, n_scored, &layout.order[first], last - first,
                  block, &regressors, width, total)
        for row in range(n_rows):
            raw[start + order[row], output] = total[row]


cdef inline intp_t whole_steps(intp_t n_rows) noexcept nogil:
    return (n_rows + HT_STEP - 1) // HT_STEP * HT_STEP


cdef int run_blocks(
    EnsembleLayout layout, const real_t[:, :] X, intp_t first_tree, intp_t last_tree, int n_threads,
    float64_t[:, :] raw, int32_t* found,
) except -1:
    """`run_block` on all rows of a table; `found` has a row for each."""
    cdef intp_t n = X.shape[0], n_columns = max(1, layout.n_used), block, first, n_rows
    n_threads = max(1, n_threads)
    if layout.any_linear and layout.summed:
        n_columns = max(n_columns, layout.linear.regressors.shape[0])
    # A large block reads each tree for more rows; with few columns it stays in the cache. Every
    # thread gets some rows.
    n_rows = HT_BLOCK if n_columns * HT_BLOCK <= BLOCK_NUMBERS else HT_STEP
    n_rows = min(n_rows, whole_steps((n - 1) // n_threads + 1))
    cdef intp_t n_blocks = (n + n_rows - 1) // n_rows, rows_size = 1
    cdef intp_t block_size = max(1, layout.n_used) * ht_stride(<int>n_rows)
    cdef intp_t n_found = 0 if found == NULL else last_tree - first_tree
    cdef int width = ht_vector_bytes(), thread
    cdef float[::1] narrow
    cdef double[::1] wide
    cdef float64_t[::1] regressors
    cdef BitMasks masks
    cdef int form = 0
    n_threads = <int>max(1, min(n_threads, n_blocks))
    if layout.any_linear and layout.summed and found == NULL:
        form = layout.linear.form_for(real_t is float)
        rows_size = ht_row_stride(form, layout.linear.regressors.shape[0] + 1) * n_rows
    # Aligned: vectors across two cache lines take twice as long to read.
    regressors = aligned_empty(n_threads * rows_size, np.float64)
    if real_t is float or layout.float_thresholds:
        masks = layout.narrow_masks
        narrow = aligned_empty(n_threads * block_size, np.float32)
        for block in prange(n_blocks, num_threads=team_of(n_threads),
                            nogil=True, schedule="static"):
            thread = omp_get_thread_num()
            first = block * n_rows
            run_block(layout, masks, X, first, <int32_t>min(n_rows, n - first), first_tree,
                      last_tree, form, &narrow[thread * block_size],
                      &regressors[thread * rows_size], width, raw,
                      NULL if found == NULL else found + first * n_found, n_found)
    else:
        masks = layout.wide_masks
        wide = aligned_empty(n_threads * block_size, np.float64)
        for block in prange(n_blocks, num_threads=team_of(n_threads),
                            nogil=True, schedule="static"):
            thread = omp_get_thread_num()
            first = block * n_rows
            run_block(layout, masks, X, first, <int32_t>min(n_rows, n - first), first_tree,
                      last_tree, form, &wide[thread * block_size],
                      &regressors[thread * rows_size], width, raw,
                      NULL if found == NULL else found + first * n_found, n_found)
    return 0


cdef int add_typed(
    EnsembleLayout layout, const real_t[:, :] X, float64_t[:, :] raw,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef float64_t[::1] large
    cdef float64_t small[HT_TABLE_COLUMNS + HT_LANES]
    cdef float64_t* x = small
    cdef intp_t stride
    cdef int form = 0
    check_call(layout, X.shape[0], X.shape[1], raw.shape[0], raw.shape[1], first_tree, last_tree)
    if X.shape[0] > FEW_ROWS:
        return run_blocks(layout, X, first_tree, last_tree, n_threads, raw, NULL)
    if layout.any_linear and layout.summed:
        form = layout.linear.form_for(real_t is float)
        stride = ht_row_stride(form, layout.linear.regressors.shape[0] + 1)
        if stride > HT_TABLE_COLUMNS:
            large = np.empty(stride)
            x = &large[0]
        else:                                    # aligned to a cache line
            x = small + (-<uintptr_t>small // sizeof(float64_t)) % HT_LANES
    with nogil:
        add_few(layout, X, raw, first_tree, last_tree, form, x)
    return 0


cdef void add_few(
    EnsembleLayout layout, const real_t[:, :] X, float64_t[:, :] raw, intp_t first_tree,
    intp_t last_tree, int form, float64_t* x,
) noexcept nogil:
    """Add the predictions of trees row by row."""
    cdef intp_t row, tree, first, last
    cdef int32_t output, order
    cdef Regressors regressors
    for row in range(X.shape[0]):
        if not layout.summed:
            for tree in range(first_tree, last_tree):
                add_node(layout, tree, X, row, walk_row(layout, layout.forms + tree, X, row), raw)
            continue
        if layout.any_linear:
            fill_rows(layout.linear, X, row, 1, form, x, &order, &regressors)
        for output in range(layout.n_outputs):
            first = place_of(layout, output, first_tree)
            last = place_of(layout, output, last_tree)
            if first < last:
                sum_row(layout, X, row, &layout.order[first], last - first, &regressors,
                        &raw[row, output])


cdef inline void sum_row(
    EnsembleLayout layout, const real_t[:, :] X, intp_t row, const int32_t* trees, intp_t n_trees,
    const Regressors* regressors, float64_t* total,
) noexcept nogil:
    """`sum_block` for one row."""
    cdef int32_t found[HT_BAND]
    cdef int32_t chunk[HT_BAND * HT_BLOCK]
    cdef const TreeForm* form
    cdef int32_t k, n
    while n_trees > 0:
        form = layout.forms + trees[0]
        n = 1
        if form.linear:
            n = band_size(layout.linear, trees, n_trees)
        else:
            while n < HT_BAND and n < n_trees and not layout.forms[trees[n]].linear:
                n += 1
        if layout.only_numbers and n == HT_BAND:
            walk_trees(layout, trees, X, row, found)
        else:
            for k in range(n):
                found[k] = walk_row(layout, layout.forms + trees[k], X, row)
        if form.linear:
            for k in range(n):
                chunk[k * HT_BLOCK] = chunk_of(layout.linear, trees[k], found[k])
            add_band(layout.linear, trees[0], chunk, n, regressors, total)
        else:
            for k in range(n):
                total[0] += layout.values[layout.forms[trees[k]].start + found[k], 0]
        trees += n
        n_trees -= n


cdef int find_typed(
    EnsembleLayout layout, const real_t[:, :] X, int32_t[:, ::1] leaves,
    intp_t first_tree, intp_t last_tree, int n_threads,
) except -1:
    cdef intp_t row, tree
    cdef int32_t k
    cdef int32_t trees[HT_BAND]
    cdef float64_t[:, :] no_outputs = None
    check_call(layout, X.shape[0], X.shape[1], leaves.shape[0], layout.n_outputs, first_tree,
               last_tree)
    if leaves.shape[1] != last_tree - first_tree:
        raise ValueError("leaves needs one column per tree")
    if X.shape[0] > FEW_ROWS and last_tree > first_tree:
        return run_blocks(layout, X, first_tree, last_tree, n_threads, no_outputs, &leaves[0, 0])
    for row in range(X.shape[0]):
        tree = first_tree
        while layout.only_numbers and tree + HT_BAND <= last_tree:
            for k in range(HT_BAND):
                trees[k] = <int32_t>tree + k
            walk_trees(layout, trees, X, row, &leaves[row, tree - first_tree])
            tree += HT_BAND
        for tree in range(tree, last_tree):
            leaves[row, tree - first_tree] = walk_row(layout, layout.forms + tree, X, row)
    return 0


# Types are dispatched by hand: the dispatch of a fused function takes longer than the prediction of
# a row.
def add_predictions(
    EnsembleLayout layout, X, float64_t[:, :] raw, intp_t first_tree, intp_t last_tree,
    int n_threads,
):
    """raw += predictions of the trees [first_tree, last_tree) for X (float32 or float64)."""
    cdef const float[:, :] narrow
    cdef const double[:, :] wide
    if X.dtype == np.float32:
        narrow = X
        add_typed(layout, narrow, raw, first_tree, last_tree, n_threads)
    else:
        wide = X
        add_typed(layout, wide, raw, first_tree, last_tree, n_threads)


def find_leaves(
    EnsembleLayout layout, X, int32_t[:, ::1] leaves, intp_t first_tree, intp_t last_tree,
    int n_threads,
):
    """leaves[row, k] = node of tree first_tree + k where the row ends."""
    cdef const float[:, :] narrow
    cdef const double[:, :] wide
    if X.dtype == np.float32:
        narrow = X
        find_typed(layout, narrow, leaves, first_tree, last_tree, n_threads)
    else:
        wide = X
        find_typed(layout, wide, leaves, first_tree, last_tree, n_threads)


cdef int check_call(
    EnsembleLayout layout, intp_t n_rows, intp_t n_columns, intp_t n_raw, intp_t n_outputs,
    intp_t first_tree, intp_t last_tree,
) except -1:
    if n_columns != layout.n_features or n_raw != n_rows or n_outputs != layout.n_outputs:
        raise ValueError("the table and the output do not fit the trees")
    if not 0 <= first_tree <= last_tree <= layout.n_trees:
        raise ValueError(f"trees {first_tree} to {last_tree} of {layout.n_trees} do not exist")
    return 0


# ---- Additive forms, frozen -------------------------------------------------------------------
#
# The scores and predictions of additive.py for rows of numbers, with one call from Python.


cdef enum ColumnKind:
    VALUE, TABLE, INDICATOR, MISSING

cdef enum LinkKind:
    IDENTITY, EXP, LOGISTIC, SOFTMAX, SHARES, SORTED, SIDE

COLUMN_KINDS = {"value": VALUE, "table": TABLE, "indicator": INDICATOR, "missing": MISSING}
LINK_KINDS = {
    "identity": IDENTITY, "exp": EXP, "logistic": LOGISTIC, "softmax": SOFTMAX, "shares": SHARES,
    "sorted": SORTED, "side": SIDE,
}

cdef float64_t LARGEST_LOG = 709.0

cdef object FLOAT32 = np.dtype(np.float32)
cdef object FLOAT64 = np.dtype(np.float64)


cdef class FrozenForm:
    """An `AdditiveForm` that predicts rows of numbers and codes. It does not change any more.

    Without checks of values: infinite ones are as large as any threshold.
    """

    cdef EnsembleLayout layout               # None without trees
    cdef readonly int32_t n_features, n_scores, n_predictions
    cdef float64_t[::1] base
    cdef bint plain                          # the columns are the features
    cdef int32_t[::1] feature, code          # by column
    cdef uint8_t[::1] kind
    cdef int64_t[::1] table_start
    cdef float64_t[::1] table
    cdef int link
    cdef float64_t scale
    cdef int32_t[::1] order                  # of the levels of a sorted link
    cdef float64_t[::1] weight               # of the inner forms
    cdef list inner

    def __init__(self, form, int n_features):
        columns = form.columns
        self.layout = None if form.trees is None else form.trees.layout
        self.n_features = n_features
        self.n_scores = len(form.base)
        self.base = np.array(form.base, dtype=np.float64)
        self.feature = np.array([column.feature for column in columns], dtype=np.int32)
        self.code = np.array([column.code for column in columns], dtype=np.int32)
        self.kind = np.array([COLUMN_KINDS[column.kind] for column in columns], dtype=np.uint8)
        self.plain = not np.any(self.kind) and (
            np.array_equal(self.feature, np.arange(n_features, dtype=np.int32)))
        tables = [[] if column.table is None else column.table for column in columns]
        self.table_start = np.cumsum([0, *map(len, tables)], dtype=np.int64)
        self.table = np.concatenate([*tables, [0.0]])  # never empty
        self.link, self.scale = LINK_KINDS[form.link.kind], form.link.scale
        self.order = np.argsort(form.link.levels, kind="stable").astype(np.int32)
        self.n_predictions = form.n_predictions
        self.weight = np.array([weight for weight, _ in form.inner], dtype=np.float64)
        self.inner = [FrozenForm(inner, n_features) for _, inner in form.inner]

    def predict(self, X, out, bint linked, int n_threads):
        """Predictions, or scores unless `linked`, in `out` if it is not None.

        `X` is a matrix of float32 or float64, `out` one of float64 with a row for each of its rows.
        """
        cdef const float[:, :] narrow
        cdef const double[:, :] wide
        cdef float64_t[:, :] found
        cdef int32_t width = self.n_predictions if linked else self.n_scores
        cdef bint is_narrow = X.dtype is FLOAT32
        cdef intp_t n_rows, n_columns
        # Comparing pointers is quicker than comparing dtypes, which takes as long as 20 trees.
        if is_narrow:
            narrow = X
            n_rows, n_columns = narrow.shape[0], narrow.shape[1]
        elif X.dtype is FLOAT64:
            wide = X
            n_rows, n_columns = wide.shape[0], wide.shape[1]
        else:
            raise TypeError(f"X must be an array of float32 or float64, got {X.dtype}")
        if n_columns != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got {n_columns}")
        found = out = np.empty((n_rows, width)) if out is None else out
        if found.shape[0] != n_rows or found.shape[1] != width:
            raise ValueError(f"out must have the shape ({n_rows}, {width}), got {out.shape}")
        # Two classes have one score: it is computed where the second probability goes.
        if is_narrow:
            self.add(narrow, found[:, width - self.n_scores:], n_threads)
        else:
            self.add(wide, found[:, width - self.n_scores:], n_threads)
        if linked:
            with nogil:
                self.apply_link(found)
        return out

    cdef int add(self, const real_t[:, :] X, float64_t[:, :] scores, int n_threads) except -1:
        """OUT scores."""
        cdef float64_t[:, ::1] columns
        cdef const double[:, :] made
        cdef float64_t[:, :] found
        cdef intp_t row, n = X.shape[0]
        cdef int32_t k, first, place
        cdef FrozenForm form
        for row in range(n):
            for k in range(self.n_scores):
                scores[row, k] = self.base[k]
        if self.layout is not None and self.plain:
            add_typed(self.layout, X, scores, 0, self.layout.n_trees, n_threads)
        elif self.layout is not None:
            columns = np.empty((n, self.feature.shape[0]))
            with nogil:
                self.make_columns(X, columns)
            made = columns
            add_typed(self.layout, made, scores, 0, self.layout.n_trees, n_threads)
        for place in range(len(self.inner)):
            form = self.inner[place]
            found = np.empty((n, form.n_predictions))
            form.add(X, found[:, form.n_predictions - form.n_scores:], n_threads)
            with nogil:
                form.apply_link(found)
                first = form.n_predictions - self.n_scores
                for row in range(n):
                    for k in range(self.n_scores):
                        scores[row, k] += self.weight[place] * found[row, first + k]
        return 0

    cdef void make_columns(
        self, const real_t[:, :] X, float64_t[:, ::1] columns
    ) noexcept nogil:
        """OUT what the trees read."""
        cdef intp_t row, k
        cdef int64_t first, size
        cdef float64_t value
        for row in range(X.shape[0]):
            for k in range(columns.shape[1]):
                value = X[row, self.feature[k]]
                if self.kind[k] == MISSING:
                    value = 1.0 if isnan(value) else 0.0
                elif self.kind[k] == INDICATOR and not isnan(value):
                    value = 1.0 if value == self.code[k] else 0.0
                elif self.kind[k] == TABLE:
                    first, size = self.table_start[k], self.table_start[k + 1]
                    size -= first + 1
                    # A missing code fails the comparisons.
                    value = self.table[
                        first + 1 + <int64_t>value if value >= 0 and value < size else first]
                columns[row, k] = value

    cdef void apply_link(self, float64_t[:, :] out) noexcept nogil:
        """Scores to predictions, in place; of two classes the score is in the second column."""
        cdef intp_t row
        cdef int32_t k, j, n = self.n_predictions
        cdef float64_t largest, total, value
        if self.link == IDENTITY and self.scale == 1.0:
            return
        for row in range(out.shape[0]):
            for k in range(n - self.n_scores, n):
                value = self.scale * out[row, k]
                if self.link == EXP:
                    value = exp(fmin(value, LARGEST_LOG))
                elif self.link == LOGISTIC:
                    value = 1.0 / (1.0 + exp(-value))
                elif self.link == SHARES:
                    value = fmin(fmax(value, 0.0), 1.0)
                elif self.link == SIDE:
                    value = 1.0 if value > 0 else 0.0
                out[row, k] = value
            if n > self.n_scores:
                out[row, 0] = 1.0 - out[row, 1]
            elif self.link == SOFTMAX:
                largest = out[row, 0]
                for k in range(1, n):
                    largest = fmax(largest, out[row, k])
                total = 0.0
                for k in range(n):
                    out[row, k] = exp(out[row, k] - largest)
                    total += out[row, k]
                for k in range(n):
                    out[row, k] /= total
            elif self.link == SHARES:
                total = 0.0
                for k in range(n):
                    total += out[row, k]
                for k in range(n):
                    out[row, k] /= total
            elif self.link == SORTED:
                # Insertion sort along the order of the levels, which are few.
                for k in range(1, n):
                    value = out[row, self.order[k]]
                    j = k - 1
                    while j >= 0 and out[row, self.order[j]] > value:
                        out[row, self.order[j + 1]] = out[row, self.order[j]]
                        j -= 1
                    out[row, self.order[j + 1]] = value
