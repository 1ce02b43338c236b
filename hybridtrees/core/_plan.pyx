"""Trees laid out for prediction.

Two forms of each tree. The walk form has small nodes whose right child follows the left one and
whose leaves lead to themselves, so that many rows can step down together without a test. The
bit-mask form, for trees of at most 64 leaves, lists the splits of a tree by the side to which
they send missing values, each with the mask of the leaves that survive when a row goes right.
"""

from libc.stdlib cimport calloc, free

from hybridtrees.core._linear_leaves cimport LinearLeaves
from hybridtrees.core._simd cimport ht_round_down
from hybridtrees.core._types cimport Node, int32_t, int64_t, intp_t

import numpy as np

from hybridtrees.core.checks import check_nodes

cdef enum:
    MAX_MASK_LEAVES = 64


cdef class TreePlans:
    """All trees of an ensemble, ready to be walked or scored."""

    def __cinit__(self):
        self.plans = NULL
        self.walk = NULL

    def __dealloc__(self):
        free(self.plans)
        free(self.walk)

    def __init__(self, ensemble):
        cdef intp_t tree, total
        check_nodes(ensemble)
        cdef const int64_t[::1] start = ensemble.tree_start
        cdef const int32_t[::1] output = ensemble.tree_output
        self.nodes = ensemble.nodes
        self.values = values_in_range(ensemble)
        self.categories = ensemble.categories
        self.n_features = ensemble.n_features
        self.n_outputs = ensemble.n_outputs
        self.n_values = <int32_t>self.values.shape[1]
        self.n_trees = start.shape[0] - 1
        self.any_linear = len(ensemble.coef) > 0
        self.linear = LinearLeaves(ensemble) if self.any_linear else None
        self.any_stops = bool(np.any(ensemble.nodes["missing_left"] == 2))
        total = self.nodes.shape[0]
        features = ensemble.nodes["feature"]
        is_split = ensemble.nodes["left"] >= 0
        self.used = np.unique(features[is_split]).astype(np.int32)
        self.n_used = self.used.shape[0]
        column_of = np.full(max(1, self.n_features), -1, dtype=np.int32)
        column_of[np.asarray(self.used)] = np.arange(self.n_used, dtype=np.int32)
        thresholds = ensemble.nodes["threshold"][is_split]
        with np.errstate(over="ignore"):
            self.float_thresholds = bool(np.all(thresholds.astype(np.float32) == thresholds))
        self.plans = <TreePlan*>calloc(max(1, self.n_trees), sizeof(TreePlan))
        self.walk = <WalkNode*>calloc(max(1, total), sizeof(WalkNode))
        if self.plans == NULL or self.walk == NULL:
            raise MemoryError("no memory to lay out the trees")
        self.walk_origin = np.empty(total, dtype=np.int32)
        self.mask_column = np.empty(total, dtype=np.int32)
        self.mask_threshold32 = np.empty(total, dtype=np.float32)
        self.mask_threshold64 = np.empty(total)
        self.mask_bits32 = np.empty(total, dtype=np.int32)
        self.mask_bits64 = np.empty(total, dtype=np.int64)
        self.mask_walk = np.empty(total, dtype=np.int32)
        self.leaf_node = np.empty(total, dtype=np.int32)
        self.leaf_value = np.empty(total)
        for tree in range(self.n_trees):
            self.plans[tree].node_start = start[tree]
            self.plans[tree].walk_start = start[tree]
            self.plans[tree].mask_start = start[tree]
            self.plans[tree].leaf_start = start[tree]
            self.plans[tree].output = output[tree]
            self.plans[tree].linear = self.any_linear and self.linear.is_linear[tree]
            self.lay_out(tree, column_of)
            if self.plans[tree].masked:
                self.lay_out_masks(tree, column_of)

    cdef int lay_out(self, intp_t tree, const int32_t[::1] column_of) except -1:
        """The walk form: breadth first, so that the top of the tree shares cache lines."""
        cdef TreePlan* plan = &self.plans[tree]
        cdef const Node* nodes = &self.nodes[plan.node_start]
        cdef WalkNode* walk = self.walk + plan.walk_start
        cdef int32_t* origin = &self.walk_origin[plan.walk_start]
        cdef const Node* node
        cdef int32_t k = 0, n = 1
        origin[0] = 0
        while k < n:
            node = nodes + origin[k]
            plan.depth = max(plan.depth, node.depth)
            if node.left < 0:
                walk[k].is_leaf = 1
                walk[k].left = k
                walk[k].threshold = np.inf
                walk[k].category_start = -1
                walk[k].missing_left = 1
                plan.n_leaves += 1
            else:
                walk[k].left = n
                walk[k].threshold = node.threshold
                walk[k].column = column_of[node.feature]
                walk[k].category_start = node.category_start
                walk[k].category_words = node.category_words
                walk[k].category_limit = node.category_limit
                walk[k].missing_left = node.missing_left
                plan.stops = plan.stops or node.missing_left == 2
                origin[n] = node.left
                origin[n + 1] = node.right
                n += 2
            k += 1
        plan.masked = plan.n_leaves <= MAX_MASK_LEAVES and not plan.stops
        return 0

    cdef int lay_out_masks(self, intp_t tree, const int32_t[::1] column_of) except -1:
        """The bit-mask form."""
        cdef TreePlan* plan = &self.plans[tree]
        cdef const WalkNode* walk = self.walk + plan.walk_start
        cdef int32_t n = 2 * plan.n_leaves - 1, k, position, kind, n_done = 0
        cdef int64_t bits, one = 1
        cdef int32_t first_leaf[2 * MAX_MASK_LEAVES]
        cdef int32_t n_below[2 * MAX_MASK_LEAVES]
        # Leaves below each node: children stand behind their parents in breadth-first order.
        for k in range(n - 1, -1, -1):
            n_below[k] = 1 if walk[k].is_leaf else n_below[walk[k].left] + n_below[walk[k].left + 1]
        first_leaf[0] = 0
        for k in range(n):
            if walk[k].is_leaf:
                position = <int32_t>plan.leaf_start + first_leaf[k]
                self.leaf_node[position] = self.walk_origin[plan.walk_start + k]
                self.leaf_value[position] = self.values[
                    plan.node_start + self.leaf_node[position], 0]
            else:
                first_leaf[walk[k].left] = first_leaf[k]
                first_leaf[walk[k].left + 1] = first_leaf[k] + n_below[walk[k].left]
        for kind in range(3):
            for k in range(n):
                if walk[k].is_leaf or kind != split_kind(&walk[k]):
                    continue
                position = <int32_t>plan.mask_start + n_done
                # n_below is at most 63 here, so the shift is defined.
                bits = ~(((one << n_below[walk[k].left]) - 1) << first_leaf[k])
                self.mask_column[position] = walk[k].column
                self.mask_threshold64[position] = walk[k].threshold
                self.mask_threshold32[position] = ht_round_down(walk[k].threshold)
                self.mask_bits64[position] = bits
                self.mask_bits32[position] = <int32_t>bits
                self.mask_walk[position] = k
                n_done += 1
                if kind == 0:
                    plan.n_right += 1
                elif kind == 1:
                    plan.n_left += 1
                else:
                    plan.n_category += 1
        return 0


def values_in_range(ensemble):
    """Values of the nodes, which are outputs where a node has no terms."""
    if ensemble.value_range is None:
        return ensemble.values
    return np.clip(ensemble.values, ensemble.value_range[:, 0], ensemble.value_range[:, 1])


cdef int split_kind(const WalkNode* node) noexcept:
    """0: numeric, missing right; 1: numeric, missing left; 2: categories."""
    return 2 if node.category_start >= 0 else node.missing_left
