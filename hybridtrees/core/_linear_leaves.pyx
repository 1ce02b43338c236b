"""Linear leaves laid out for prediction.

Where most rows use many regressors, as in boosted trees, the regressors of a row are set side by
side in float64 once, and its leaves are evaluated by the kernels of `linear_leaves.h`. Otherwise,
and where leaves have several outputs, the terms are read with the table itself.
"""

from libc.math cimport INFINITY, isfinite
from libc.stdint cimport uint16_t

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

cdef enum:
    MAX_REGRESSORS = 65534       # columns are 16-bit numbers, and one more is always zero
    ALIGNED_PAIRS = 4            # pairs of doubles in a cache line


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
        most = max(len(regressors), int(np.diff(ensemble.coef_ptr).max()))
        self.by_rows = self.values.shape[1] == 1 and (
            most <= MAX_REGRESSORS and len(regressors) <= 2 * n_met)
        if not self.by_rows:
            return
        self.regressors = regressors
        self.in_order = bool(regressors.max() == len(regressors) - 1)
        self.stride = (len(regressors) + 1) | 1
        self.column = np.zeros(int(regressors.max()) + 1, dtype=np.int32)
        np.asarray(self.column)[regressors] = np.arange(len(regressors))
        self.lay_out_records()

    def lay_out_records(self):
        """Give every node where rows may end its two records."""
        cdef intp_t tree, node, n_pairs, n_trees = self.tree_start.shape[0] - 1
        cdef intp_t size[2]
        cdef bint finite
        self.folded_start = np.full(self.nodes.shape[0], -1, dtype=np.int32)
        self.exact_start = np.full(self.nodes.shape[0], -1, dtype=np.int32)
        self.n_pairs = np.zeros(n_trees, dtype=np.int32)
        self.first_end = np.zeros(n_trees, dtype=np.int32)
        self.is_folded = np.zeros(n_trees, dtype=np.uint8)
        stack = np.empty(self.nodes.shape[0] + 1, dtype=np.int32)
        size[0] = size[1] = 0
        for tree in range(n_trees):
            if self.is_linear[tree]:
                self.place_records(tree, stack, size)
        if max(size[0], size[1]) >= 2**31:
            self.by_rows = False
            return
        self.folded = aligned_empty(max(1, 2 * size[0]), np.float64)
        self.exact = aligned_empty(max(1, 2 * size[1]), np.float64)
        for tree in range(n_trees):
            finite = True
            for node in range(self.tree_start[tree], self.tree_start[tree + 1]):
                if self.exact_start[node] < 0:
                    continue
                n_pairs = self.n_pairs[tree]
                if n_pairs == 0:
                    n_pairs = (self.coef_ptr[node + 1] - self.coef_ptr[node]) // 2 + 1
                finite &= self.fill_record(
                    node, n_pairs, False, &self.folded[2 * <intp_t>self.folded_start[node]])
                self.fill_record(
                    node, n_pairs, True, &self.exact[2 * <intp_t>self.exact_start[node]])
            self.is_folded[tree] = finite

    cdef int place_records(self, intp_t tree, int32_t[::1] stack, intp_t* size) except -1:
        """Choose the places of the records of a tree, leaves from left to right."""
        cdef intp_t first = self.tree_start[tree], node, n_pairs, most = 0, n_open = 1
        for node in range(first, self.tree_start[tree + 1]):
            most = max(most, self.coef_ptr[node + 1] - self.coef_ptr[node])
        # Equal numbers of pairs spare the processor a guess for each row.
        most = most // 2 + 1
        self.n_pairs[tree] = <int32_t>most if most <= HT_UNROLLED_PAIRS else 0
        size[0] = (size[0] + ALIGNED_PAIRS - 1) // ALIGNED_PAIRS * ALIGNED_PAIRS
        size[1] = (size[1] + ALIGNED_PAIRS - 1) // ALIGNED_PAIRS * ALIGNED_PAIRS
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
            n_pairs = self.n_pairs[tree]
            if n_pairs == 0:
                n_pairs = (self.coef_ptr[node + 1] - self.coef_ptr[node]) // 2 + 1
            if self.first_end[tree] < 0:
                self.first_end[tree] = <int32_t>node
            self.folded_start[node] = <int32_t>size[0]
            self.exact_start[node] = <int32_t>size[1]
            size[0] += ht_record_pairs(n_pairs, False, self.clipped, self.ranged)
            size[1] += ht_record_pairs(n_pairs, True, self.clipped, self.ranged)
        return 0

    cdef bint fill_record(
        self, intp_t node, intp_t n_pairs, bint exact, float64_t* record
    ) noexcept:
        """Write the record of a node; returns whether its constant is finite."""
        cdef intp_t first = self.coef_ptr[node], n_terms = self.coef_ptr[node + 1] - first, k
        cdef uint16_t* column = <uint16_t*>record
        cdef float64_t* coef = record + 2 * ht_column_pairs(n_pairs)
        cdef float64_t* center = coef + 2 * n_pairs
        cdef float64_t* low = center + 2 * n_pairs if exact else center
        cdef float64_t* high = low + 2 * n_pairs
        cdef float64_t constant = self.values[node, 0]
        column[0] = <uint16_t>n_pairs
        # Terms that are not there multiply the column of zeros by zero.
        for k in range(2 * n_pairs):
            if k > 0:
                column[k] = <uint16_t>self.regressors.shape[0]
            coef[k] = 0
            if exact:
                center[k] = 0
            if self.clipped:
                low[k] = -INFINITY
                high[k] = INFINITY
        for k in range(n_terms):
            column[k + 1] = <uint16_t>self.column[self.coef_feature[first + k]]
            coef[k] = self.coef[first + k, 0]
            if exact:
                center[k] = self.coef_center[first + k]
            else:
                constant -= self.coef[first + k, 0] * self.coef_center[first + k]
            if self.clipped:
                low[k] = self.coef_low[first + k]
                high[k] = self.coef_high[first + k]
        coef[2 * n_pairs - 1] = constant
        if self.ranged:
            high = high + 2 * n_pairs if self.clipped else low
            high[0] = self.value_range[node, 0, 0]
            high[1] = self.value_range[node, 1, 0]
        return isfinite(constant)
