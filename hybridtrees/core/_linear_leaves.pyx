"""Linear leaves laid out for prediction.

Where most rows use many regressors, as in boosted trees, the regressors of a row are set side by
side once, and its leaves are evaluated by the kernels of `linear_leaves.h`. Otherwise, and where
leaves have several outputs, the terms are read with the table itself.
"""

from libc.math cimport INFINITY, isfinite

import numpy as np

from hybridtrees.core.dtypes import aligned_empty


cdef class LinearLeaves:
    """The linear parts of an ensemble with checked arrays.

    Parameters
    ----------
    ensemble : TreeEnsemble
    """

    def __init__(self, ensemble):
        self.nodes = ensemble.nodes
        self.tree_start = ensemble.tree_start
        self.values = ensemble.values
        self.coef_ptr = ensemble.coef_ptr
        self.coef_feature = ensemble.coef_feature
        self.coef = ensemble.coef
        self.coef_center = ensemble.coef_center
        self.coef_low = ensemble.coef_low
        self.coef_high = ensemble.coef_high
        self.ranged = ensemble.value_range is not None
        if self.ranged:
            self.value_range = ensemble.value_range
        self.clipped = bool(
            np.any(ensemble.coef_low > -np.inf) or np.any(ensemble.coef_high < np.inf)
        )
        n_trees = len(ensemble.tree_start) - 1
        n_terms = np.diff(ensemble.coef_ptr[ensemble.tree_start])
        self.is_linear = (n_terms > 0).astype(np.uint8)
        regressors = np.unique(ensemble.coef_feature).astype(np.int32)
        # How many terms a row meets: it ends in one leaf of each tree.
        ends = (ensemble.nodes["left"] < 0) | (ensemble.nodes["missing_left"] == 2)
        n_ends = np.add.reduceat(ends.astype(np.int64), ensemble.tree_start[:n_trees])
        n_met = np.sum(n_terms / n_ends)
        self.by_rows = self.values.shape[1] == 1 and len(regressors) <= 2 * n_met
        if not self.by_rows:
            return
        self.regressors = regressors
        self.in_order = bool(regressors.max() == len(regressors) - 1)
        self.stride = ht_row_stride(len(regressors) + 1)
        self.column = np.zeros(int(regressors.max()) + 1, dtype=np.int32)
        np.asarray(self.column)[regressors] = np.arange(len(regressors))
        self.lay_out_records()

    def lay_out_records(self):
        """Give every node where rows may end its record."""
        cdef intp_t tree, node, n_trees = self.tree_start.shape[0] - 1, n_lines = 0
        self.record_start = np.full(self.nodes.shape[0], -1, dtype=np.int32)
        self.first_end = np.zeros(n_trees, dtype=np.int32)
        self.n_pairs = np.zeros(n_trees, dtype=np.uint8)
        self.is_finite = np.ones(n_trees, dtype=np.uint8)
        stack = np.empty(self.nodes.shape[0] + 1, dtype=np.int32)
        for tree in range(n_trees):
            if self.is_linear[tree]:
                self.place_records(tree, stack, &n_lines)
        if n_lines >= 2**31:
            self.by_rows = False
            return
        self.records = aligned_empty(max(1, HT_LINE * n_lines), np.float64)
        for tree in range(n_trees):
            for node in range(self.tree_start[tree], self.tree_start[tree + 1]):
                if self.record_start[node] >= 0:
                    self.is_finite[tree] &= self.fill_record(
                        node, self.n_pairs[tree],
                        &self.records[HT_LINE * <intp_t>self.record_start[node]])

    cdef intp_t n_chunks(self, intp_t node) noexcept:
        """Chunks of lanes that the terms of a node and its constant take."""
        return (self.coef_ptr[node + 1] - self.coef_ptr[node]) // HT_LINE + 1

    cdef int place_records(self, intp_t tree, int32_t[::1] stack, intp_t* n_lines) except -1:
        """Choose the places of the records of a tree, leaves from left to right."""
        cdef intp_t first = self.tree_start[tree], node, n_open = 1, most = 0
        self.first_end[tree] = -1
        stack[0] = 0
        while n_open:
            n_open -= 1
            node = first + stack[n_open]
            if self.nodes[node].left >= 0:
                stack[n_open] = self.nodes[node].right
                stack[n_open + 1] = self.nodes[node].left
                n_open += 2
                if self.nodes[node].missing_left != 2:
                    continue
            if self.first_end[tree] < 0:
                self.first_end[tree] = <int32_t>node
            most = max(most, self.coef_ptr[node + 1] - self.coef_ptr[node])
            # Where there is no room for all, the number of lines tells it in the end.
            self.record_start[node] = <int32_t>min(n_lines[0], <intp_t>0x7FFFFFFF)
            n_lines[0] += ht_record_lines(self.n_chunks(node), self.clipped)
        # Equal numbers of pairs spare the processor a guess for each row.
        if most < HT_LINE:
            self.n_pairs[tree] = <uint8_t>(most // 2 + 1)
        return 0

    cdef bint fill_record(self, intp_t node, intp_t n_pairs, float64_t* record) noexcept:
        """Write the record of a node; returns whether the constant of complete rows is finite."""
        cdef intp_t first = self.coef_ptr[node], n_terms = self.coef_ptr[node + 1] - first, k
        cdef intp_t n = self.n_chunks(node), n_lanes = HT_LINE * n
        cdef int32_t* column = <int32_t*>(record + HT_HEAD)
        cdef float64_t* coef = record + HT_LINE * ht_head_lines(n)
        cdef float64_t* low = coef + n_lanes
        cdef float64_t* high = low + n_lanes
        cdef float64_t* exact = high + n_lanes if self.clipped else low
        cdef float64_t* center = exact + n_lanes
        cdef float64_t constant = self.values[node, 0]
        record[0] = self.value_range[node, 0, 0] if self.ranged else -INFINITY
        record[1] = self.value_range[node, 1, 0] if self.ranged else INFINITY
        record[2] = <float64_t>n
        record[3] = 0
        for k in range(n_lanes):
            column[k] = <int32_t>self.regressors.shape[0]
            coef[k] = exact[k] = center[k] = 0
            if self.clipped:
                low[k] = -INFINITY
                high[k] = INFINITY
        for k in range(n_terms):
            column[k] = self.column[self.coef_feature[first + k]]
            coef[k] = exact[k] = self.coef[first + k, 0]
            center[k] = self.coef_center[first + k]
            constant -= coef[k] * center[k]
            if self.clipped:
                low[k] = self.coef_low[first + k]
                high[k] = self.coef_high[first + k]
        k = 2 * n_pairs - 1 if n_pairs > 0 else n_lanes - 1
        coef[k] = constant
        exact[k] = self.values[node, 0]
        return isfinite(constant)
