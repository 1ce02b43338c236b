"""Walks down trees that are laid out for prediction."""

from libc.math cimport isnan

from hybridtrees.core._category_sets cimport category_side
from hybridtrees.core._linear_leaves cimport HT_BAND
from hybridtrees.core._masks cimport HT_BLOCK, ht_stride
from hybridtrees.core._plan cimport TreePlan, TreePlans
from hybridtrees.core._types cimport float64_t, int32_t, intp_t, real_t, uint32_t
from hybridtrees.core._walk_node cimport WalkNode

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
