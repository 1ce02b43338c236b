"""Linear leaves laid out for prediction.

Where most rows use many regressors, as in boosted trees, the regressors of a row are set side by
side once, and its leaves are evaluated by the kernels of `linear_leaves.h`. Otherwise, and where
leaves have several outputs, the terms are read with the table itself.
"""

from libc.float cimport DBL_MAX
from libc.math cimport INFINITY, fabs

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

cdef enum:
    MOST_ABOVE = 64          # splits above a node that are looked at


cdef class LinearLeaves:
    """The linear parts of an ensemble with checked arrays.

    Parameters
    ----------
    ensemble : TreeEnsemble
    """

    def __init__(self, ensemble):
        self.float_chunks = None
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
        bounds = np.concatenate([ensemble.coef_low, ensemble.coef_high])
        with np.errstate(over="ignore"):
            self.float_bounds = bool(np.all(bounds.astype(np.float32) == bounds))
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
        self.column = np.zeros(int(regressors.max()) + 1, dtype=np.int32)
        np.asarray(self.column)[regressors] = np.arange(len(regressors))
        self.number_chunks()

    def number_chunks(self):
        """Give every node where rows may end its chunks, and fill what all forms share."""
        cdef intp_t tree, node, n_trees = self.tree_start.shape[0] - 1
        self.first_chunk = np.full(self.nodes.shape[0], -1, dtype=np.int32)
        self.first_end = np.zeros(n_trees, dtype=np.int32)
        self.is_finite = np.ones(n_trees, dtype=np.uint8)
        self.n_chunks = self.most_terms = 0
        self.box = np.empty((2, self.regressors.shape[0]))
        self.box[0], self.box[1] = -INFINITY, INFINITY
        stack = np.empty(self.nodes.shape[0] + 1, dtype=np.int32)
        above = np.empty(self.nodes.shape[0] + 1, dtype=np.int32)
        for tree in range(n_trees):
            if self.is_linear[tree]:
                self.place_chunks(tree, stack, above)
        if self.float_bounds:
            self.float_box = np.asarray(self.box).astype(np.float32)
        if self.n_chunks >= 2**31:
            self.by_rows = False
            return
        # Equal numbers of pairs spare the processor a guess for each row.
        self.n_pairs = <int>(self.most_terms // 2 + 1) if self.most_terms < HT_LANES else 0
        self.exact = aligned_empty(2 * HT_LANES * max(1, self.n_chunks), np.float64)
        if self.ranged:
            self.chunk_range = np.zeros((max(1, self.n_chunks), 2))
        self.wide_form = HT_PAIRS
        if (ht_vector_bytes() == 64 and self.regressors.shape[0] < HT_TABLE_COLUMNS
                and self.most_terms // HT_LANES + 1 < HT_MANY_CHUNKS):
            self.wide_form = HT_DOUBLES
        self.wide_size = ht_chunk_size(self.wide_form, self.clipped)
        self.wide_chunks = aligned_empty(self.wide_size * max(1, self.n_chunks), np.float64)
        for tree in range(n_trees):
            for node in range(self.tree_start[tree], self.tree_start[tree + 1]):
                if self.first_chunk[node] >= 0:
                    self.is_finite[tree] &= self.fill_exact(node)
                    self.fill_chunks(node)

    cdef int form_for(self, bint narrow) except -1:
        """Form of the chunks that suits a table of float32 or float64; they are laid out."""
        cdef float64_t[::1] made
        cdef intp_t chunk, size, wide_size
        if not (narrow and self.float_bounds and self.wide_form == HT_DOUBLES):
            return self.wide_form
        if self.float_chunks is None:
            size, wide_size = ht_chunk_size(HT_FLOATS, self.clipped), self.wide_size
            made = aligned_empty(size * max(1, self.n_chunks), np.float64)
            for chunk in range(self.n_chunks):
                ht_narrow_chunk(&self.wide_chunks[wide_size * chunk], self.clipped,
                                &made[size * chunk])
            # Another thread may have been here meanwhile, and be reading what it made.
            if self.float_chunks is None:
                self.float_chunks = made
        return HT_FLOATS

    cdef intp_t chunks_of(self, intp_t node) noexcept:
        """Chunks of lanes that the terms of a node and its constant take."""
        return (self.coef_ptr[node + 1] - self.coef_ptr[node]) // HT_LANES + 1

    cdef int place_chunks(self, intp_t tree, int32_t[::1] stack, int32_t[::1] above) except -1:
        """Number the chunks of a tree, leaves from left to right; above: its nodes' parents."""
        cdef intp_t first = self.tree_start[tree], node, n_open = 1
        self.first_end[tree] = -1
        stack[0] = 0
        above[0] = -1
        while n_open:
            n_open -= 1
            node = first + stack[n_open]
            if self.nodes[node].left >= 0:
                above[self.nodes[node].right] = above[self.nodes[node].left] = stack[n_open]
                stack[n_open] = self.nodes[node].right
                stack[n_open + 1] = self.nodes[node].left
                n_open += 2
                if self.nodes[node].missing_left != 2:
                    continue
            if self.first_end[tree] < 0:
                self.first_end[tree] = <int32_t>node
            # Where there is no room for all, the number of chunks tells it in the end.
            self.first_chunk[node] = <int32_t>min(self.n_chunks, <intp_t>0x7FFFFFFF)
            self.n_chunks += self.chunks_of(node)
            self.most_terms = max(
                self.most_terms, self.coef_ptr[node + 1] - self.coef_ptr[node])
            if self.clipped:
                self.narrow_box(tree, node, above)
        return 0

    cdef int narrow_box(self, intp_t tree, intp_t node, const int32_t[::1] above) except -1:
        """Take out of the box what the terms of a node clip.

        A row that has its regressors came here past all splits on them: bounds beyond these do
        not matter. In very deep trees not all splits are looked at, which makes the box smaller
        than it could be.
        """
        cdef intp_t first = self.tree_start[tree], k, column
        cdef int32_t here, parent, n_above
        cdef float64_t low, high
        for k in range(self.coef_ptr[node], self.coef_ptr[node + 1]):
            low, high = -INFINITY, INFINITY
            here = <int32_t>(node - first)
            n_above = 0
            while above[here] >= 0 and n_above < MOST_ABOVE:
                n_above += 1
                parent = above[here]
                if (self.nodes[first + parent].feature == self.coef_feature[k]
                        and self.nodes[first + parent].category_start < 0):
                    if self.nodes[first + parent].left == here:
                        high = min(high, self.nodes[first + parent].threshold)
                    else:
                        low = max(low, self.nodes[first + parent].threshold)
                here = parent
            column = self.column[self.coef_feature[k]]
            if self.coef_low[k] > low:
                self.box[0, column] = max(self.box[0, column], self.coef_low[k])
            if self.coef_high[k] < high:
                self.box[1, column] = min(self.box[1, column], self.coef_high[k])
        return 0

    cdef intp_t constant_lane(self, intp_t node) noexcept:
        """The lane of the constant: the last one in use."""
        return 2 * self.n_pairs - 1 if self.n_pairs > 0 else HT_LANES * self.chunks_of(node) - 1

    cdef bint fill_exact(self, intp_t node) noexcept:
        """Write what exact sums need; returns whether complete rows can do without.

        The constants of a band, and the lanes with them, must not overflow.
        """
        cdef intp_t first = self.coef_ptr[node], chunk = self.first_chunk[node], k, at
        cdef intp_t n_terms = self.coef_ptr[node + 1] - first
        cdef intp_t constant = self.constant_lane(node)
        for k in range(HT_LANES * self.chunks_of(node)):
            at = 2 * HT_LANES * (chunk + k // HT_LANES) + k % HT_LANES
            self.exact[at] = self.coef[first + k, 0] if k < n_terms else 0
            self.exact[at + HT_LANES] = self.coef_center[first + k] if k < n_terms else 0
            if k == constant:
                self.exact[at] = self.values[node, 0]
        if self.ranged:
            self.chunk_range[chunk, 0] = self.value_range[node, 0, 0]
            self.chunk_range[chunk, 1] = self.value_range[node, 1, 0]
        return fabs(self.folded_constant(node)) < DBL_MAX / (4 * HT_BAND)

    cdef float64_t folded_constant(self, intp_t node) noexcept:
        """The value of a node where all regressors are 0, if no range ended there."""
        cdef float64_t value = self.values[node, 0]
        cdef intp_t k
        for k in range(self.coef_ptr[node], self.coef_ptr[node + 1]):
            value -= self.coef[k, 0] * self.coef_center[k]
        return value

    cdef int fill_chunks(self, intp_t node) except -1:
        """Write the chunks of a node in the form of doubles."""
        cdef intp_t first = self.coef_ptr[node], n_terms = self.coef_ptr[node + 1] - first, k
        cdef intp_t n = self.chunks_of(node)
        cdef float64_t* chunk = &self.wide_chunks[self.wide_size * self.first_chunk[node]]
        cdef float64_t* own
        for k in range(HT_LANES * n):
            own = chunk + self.wide_size * (k // HT_LANES)
            if k < n_terms:
                ht_set_lane(own, self.wide_form, self.clipped, k % HT_LANES,
                            self.column[self.coef_feature[first + k]], self.coef[first + k, 0],
                            self.coef_low[first + k], self.coef_high[first + k])
            else:
                ht_set_lane(own, self.wide_form, self.clipped, k % HT_LANES,
                            <int32_t>self.regressors.shape[0],
                            self.folded_constant(node) if k == self.constant_lane(node) else 0,
                            -INFINITY, INFINITY)
        ht_set_count(chunk, self.wide_form, <int32_t>n)
        return 0
