"""Trees laid out for prediction.

Two forms of each tree: the walk form has small nodes whose right child follows the left one, and
the bit-mask form of `_masks.pyx` lists the splits, each with the leaves that survive when a row
goes right; trees of very many leaves have none.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free

from hybridtrees.core._linear_leaves cimport LinearLeaves
from hybridtrees.core._masks cimport BitMasks
from hybridtrees.core._types cimport Node, int32_t, int64_t, intp_t
from hybridtrees.core._walk_node cimport WalkNode

import numpy as np

from hybridtrees.core.checks import check_nodes


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
        cdef int32_t[::1] masked_leaves
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
        self.order = np.argsort(ensemble.tree_output, kind="stable").astype(np.int32)
        self.output_start = np.searchsorted(
            np.asarray(ensemble.tree_output)[np.asarray(self.order)],
            np.arange(self.n_outputs + 1)).astype(np.int64)
        self.any_linear = len(ensemble.coef) > 0
        self.linear = LinearLeaves(ensemble) if self.any_linear else None
        self.summed = self.n_values == 1 and (not self.any_linear or self.linear.by_rows)
        self.any_stops = bool(np.any(ensemble.nodes["missing_left"] == 2))
        total = self.nodes.shape[0]
        features = ensemble.nodes["feature"]
        is_split = ensemble.nodes["left"] >= 0
        self.only_numbers = bool(
            np.any(is_split) and np.all(ensemble.nodes["category_start"] < 0)
            and not self.any_stops)
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
        masked_leaves = np.zeros(self.n_trees, dtype=np.int32)
        self.leaf_node = np.empty(total, dtype=np.int32)
        self.leaf_value = np.zeros(total + 32)       # some are read behind those of a tree
        stack = np.empty(total + 1, dtype=np.int32)
        for tree in range(self.n_trees):
            self.plans[tree].node_start = start[tree]
            self.plans[tree].walk_start = start[tree]
            self.plans[tree].leaf_start = start[tree]
            self.plans[tree].output = output[tree]
            self.plans[tree].linear = self.any_linear and self.linear.is_linear[tree]
            self.lay_out(tree, column_of)
            self.lay_out_leaves(tree, stack)
            masked_leaves[tree] = 0 if self.plans[tree].stops else self.plans[tree].n_leaves
        self.narrow_masks = BitMasks(True)
        self.narrow_masks.lay_out(self.walk, start, masked_leaves)
        if not self.float_thresholds:
            self.wide_masks = BitMasks(False)
            self.wide_masks.lay_out(self.walk, start, masked_leaves)

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
            if node.left < 0:
                walk[k].is_leaf = 1
                walk[k].left = k
                walk[k].threshold = INFINITY
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
                walk[k].leaf_below = (nodes[node.left].left < 0) | (
                    (nodes[node.right].left < 0) << 1)
                plan.n_category += node.category_start >= 0
                plan.stops = plan.stops or node.missing_left == 2
                origin[n] = node.left
                origin[n + 1] = node.right
                n += 2
            k += 1
        return 0

    cdef int lay_out_leaves(self, intp_t tree, int32_t[::1] stack) except -1:
        """List the leaves from left to right."""
        cdef TreePlan* plan = &self.plans[tree]
        cdef const Node* nodes = &self.nodes[plan.node_start]
        cdef intp_t position = plan.leaf_start, n_open = 1
        cdef int32_t node
        stack[0] = 0
        while n_open:
            n_open -= 1
            node = stack[n_open]
            if nodes[node].left < 0:
                self.leaf_node[position] = node
                self.leaf_value[position] = self.values[plan.node_start + node, 0]
                position += 1
            else:
                stack[n_open] = nodes[node].right
                stack[n_open + 1] = nodes[node].left
                n_open += 2
        return 0


def values_in_range(ensemble):
    """Values of the nodes, which are outputs where a node has no terms."""
    if ensemble.value_range is None:
        return ensemble.values
    return np.clip(ensemble.values, ensemble.value_range[:, 0], ensemble.value_range[:, 1])
