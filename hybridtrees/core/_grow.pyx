"""The grower: one loop for every tree, without the GIL.

A node is evaluated (its best split found), waits in the frontier, and is split when its turn
comes: the best gain first, level by level, or depth first. Of two children the smaller one's
histogram is summed from its rows, the other's is what remains of the parent's.
"""

from cython.parallel cimport prange
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from hybridtrees.core._frontier cimport NodeQueue
from hybridtrees.core._histogram cimport build_histogram, scratch_words, subtract_histogram
from hybridtrees.core._leaves cimport SUM_BLOCK, add_to_leaves, cut_in_blocks, sum_leaves
from hybridtrees.core._partition cimport fill_direction, split_rows
from hybridtrees.core._pool cimport HistogramPool
from hybridtrees.core._rng cimport draw_sorted, keyed
from hybridtrees.core._split cimport SCAN_WORDS, find_split, node_weight, sums_from_histogram
from hybridtrees.core._statistics cimport RowStatistics
from hybridtrees.core._types cimport (
    PAIR32, Node, NodeSums, SplitInfo, SplitRules,
    float32_t, float64_t, int32_t, int64_t, intp_t, uint8_t, uint32_t, uint64_t,
)
from hybridtrees.core._views cimport BinnedView

import numpy as np

from hybridtrees.core.dtypes import NODE_DTYPE, aligned_empty

cdef enum:
    LANE_ROWS = 4096          # rows of a node whose children are searched at the same time
    STREAM_TREE = 1           # streams of the feature draws
    STREAM_LEVEL = 2
    STREAM_NODE = 3

cdef struct GrowNode:
    # A node while its tree grows: rows [start, stop) of the partition.
    intp_t start
    intp_t stop
    NodeSums sums
    SplitInfo split
    int32_t parent
    int32_t left
    int32_t right
    int32_t depth
    int32_t slot              # its histogram in the pool, -1: none


cdef class TreeGrower:
    """Grows trees on one BinnedMatrix; its buffers are reused from tree to tree.

    Parameters
    ----------
    binned : BinnedMatrix
    params : GrowerParams
    use_tail : bool
        Whether the records' spare bytes may hold this grower's statistics.
    n_threads : int
    """

    cdef BinnedView bins
    cdef RowStatistics statistics
    cdef SplitRules rules
    cdef readonly int n_threads
    cdef int32_t max_depth, max_leaves
    cdef int64_t min_samples_split
    cdef float64_t by_tree, by_level, by_node
    # rows by node
    cdef uint32_t[::1] rows
    cdef uint32_t[::1] row_scratch
    cdef intp_t n_sampled
    # nodes and frontier
    cdef GrowNode* nodes
    cdef int32_t n_nodes, capacity
    cdef NodeQueue queue
    # histograms
    cdef HistogramPool pool
    cdef int64_t[::1] hist_scratch
    cdef float64_t[::1] scan_scratch
    cdef SplitInfo* by_feature
    # features of this tree, level and node
    cdef int32_t[::1] tree_features
    cdef int32_t[::1] node_features
    cdef int32_t n_tree_features
    cdef uint64_t seed

    def __cinit__(self):
        self.nodes = NULL
        self.by_feature = NULL
        self.capacity = 0
        self.hist_scratch = None

    def __init__(self, binned, params, bint use_tail, int n_threads):
        self.bins = BinnedView(binned)
        self.statistics = RowStatistics(self.bins, use_tail)
        self.n_threads = n_threads
        self.queue = NodeQueue(params.frontier)
        self.pool = HistogramPool(params.histogram_bytes)
        self.max_depth = params.max_depth or 2**15 - 1      # what a node's int16 can count
        self.max_leaves = params.max_leaves
        self.min_samples_split = max(2, params.min_samples_split)
        self.by_tree, self.by_level, self.by_node = params.feature_fractions
        self.rules.reg_lambda = params.reg_lambda
        self.rules.reg_alpha = params.reg_alpha
        self.rules.max_delta_step = params.max_delta_step
        self.rules.min_child_weight = params.min_child_weight
        self.rules.min_gain = params.min_gain
        self.rules.min_samples_leaf = max(1, params.min_samples_leaf)
        self.rules.max_cat_to_onehot = params.max_cat_to_onehot
        cdef intp_t n = self.bins.view.n_rows
        cdef int32_t p = self.bins.view.n_features
        self.rows = np.empty(n, dtype=np.uint32)
        self.row_scratch = np.empty(n, dtype=np.uint32)
        self.tree_features = np.empty(p, dtype=np.int32)
        self.node_features = np.empty(2 * p, dtype=np.int32)
        self.scan_scratch = np.empty(max(2, n_threads) * SCAN_WORDS)
        self.by_feature = <SplitInfo*>realloc(NULL, 2 * p * sizeof(SplitInfo))
        if self.by_feature == NULL:
            raise MemoryError("no memory for the splits of the features")

    def __dealloc__(self):
        free(self.nodes)
        free(self.by_feature)

    cdef int take_slot(self) except -1 nogil:
        """A slot of the pool; when it is full, the one of the last node of the frontier.

        A node that loses its histogram costs its children a pass over their rows each, no more.
        """
        cdef int slot = self.pool.take()
        cdef int32_t i, worst = -1
        if slot < 0:
            for i in range(self.queue.n_open):
                if self.nodes[self.queue.heap[i].node].slot >= 0 and (
                    worst < 0
                    or self.queue.goes_before(self.queue.heap[worst], self.queue.heap[i])
                ):
                    worst = i
            self.release_slot(self.queue.heap[worst].node)
            slot = self.pool.take()
        return slot

    cdef void release_slot(self, int32_t node) noexcept nogil:
        if self.nodes[node].slot >= 0:
            self.pool.release(self.nodes[node].slot)
            self.nodes[node].slot = -1

    cdef int new_node(self) except -1 nogil:
        cdef int32_t n
        cdef GrowNode* nodes
        if self.n_nodes == self.capacity:
            n = 2 * self.capacity + 64
            nodes = <GrowNode*>realloc(self.nodes, n * sizeof(GrowNode))
            if nodes == NULL:
                with gil:
                    raise MemoryError("no memory for the nodes of a tree")
            self.nodes = nodes
            self.capacity = n
        memset(self.nodes + self.n_nodes, 0, sizeof(GrowNode))
        self.nodes[self.n_nodes].left = -1
        self.nodes[self.n_nodes].right = -1
        self.nodes[self.n_nodes].parent = -1
        self.nodes[self.n_nodes].slot = -1
        self.nodes[self.n_nodes].split.feature = -1
        self.n_nodes += 1
        return self.n_nodes - 1

    # ---- the loop -----------------------------------------------------------------------------

    cdef bint may_split(self, int32_t node) noexcept nogil:
        """Whether the stopping rules allow a split at all, before any search."""
        cdef GrowNode* n = &self.nodes[node]
        cdef float64_t hess = <float64_t>n.sums.hess * self.statistics.view.hess_unit
        return (
            n.depth < self.max_depth
            and n.sums.n_samples >= self.min_samples_split
            and n.sums.n_samples >= 2 * self.rules.min_samples_leaf
            and hess >= 2 * self.rules.min_child_weight
        )

    cdef void histogram_of(self, int32_t node) noexcept nogil:
        """Sum the node's own rows into its slot."""
        cdef GrowNode* n = &self.nodes[node]
        cdef bint whole = node == 0 and self.n_sampled == self.bins.view.n_rows
        cdef bint listed = self.n_tree_features < self.bins.view.n_features
        cdef uint32_t* rows = &self.rows[0] + n.start
        if whole and not listed and self.statistics.view.layout != PAIR32:
            rows = NULL
        build_histogram(
            &self.bins.view, &self.statistics.view, rows, n.stop - n.start,
            &self.tree_features[0] if listed else NULL, self.n_tree_features,
            self.pool.slots[n.slot], &self.hist_scratch[0], self.n_threads,
        )

    cdef void search(self, int32_t node, int32_t lane, int n_threads) noexcept nogil:
        """Find the node's best split; two lanes may search two nodes at once."""
        cdef GrowNode* n = &self.nodes[node]
        cdef int32_t p = self.bins.view.n_features, k, m
        cdef int32_t* features = &self.node_features[lane * p]
        cdef const int32_t* source = &self.tree_features[0]
        k = self.n_tree_features
        if self.by_level < 1:
            m = max(1, <int32_t>(k * self.by_level))
            draw_sorted(keyed(self.seed, STREAM_LEVEL, n.depth), 0, source, k, m, features)
            source = features
            k = m
        if self.by_node < 1:
            m = max(1, <int32_t>(k * self.by_node))
            draw_sorted(keyed(self.seed, STREAM_NODE, node), 0, source, k, m, features)
            source = features
            k = m
        find_split(
            &self.bins.view, &self.statistics.view, &self.rules, self.pool.slots[n.slot], &n.sums,
            source, k, self.by_feature + lane * p, &self.scan_scratch[lane * SCAN_WORDS],
            n_threads, &n.split,
        )

    cdef int enlist(self, int32_t node) except -1 nogil:
        """After its search a node joins the frontier, or gives back its histogram."""
        if self.nodes[node].split.feature >= 0:
            self.queue.push(node, self.nodes[node].split.gain)
        else:
            self.release_slot(node)
        return 0

    cdef int evaluate_children(self, int32_t parent) except -1 nogil:
        """Histograms and best splits of the two children of `parent`."""
        cdef int32_t small = self.nodes[parent].left, large = self.nodes[parent].right
        cdef int32_t lane
        cdef bint want_small, want_large, two_lanes
        cdef int slot
        if (self.nodes[small].stop - self.nodes[small].start
                > self.nodes[large].stop - self.nodes[large].start):
            small, large = large, small
        want_small = self.may_split(small)
        want_large = self.may_split(large)
        if want_large and self.nodes[parent].slot >= 0:
            slot = self.take_slot()
            self.nodes[small].slot = slot
            self.histogram_of(small)
            slot = self.nodes[parent].slot
            self.nodes[parent].slot = -1
            self.nodes[large].slot = slot
            subtract_histogram(self.pool.slots[slot], self.pool.slots[self.nodes[small].slot],
                               self.pool.slot_words)
            if not want_small:
                self.release_slot(small)
        else:
            self.release_slot(parent)
            if want_small:
                slot = self.take_slot()
                self.nodes[small].slot = slot
                self.histogram_of(small)
            if want_large:
                slot = self.take_slot()
                self.nodes[large].slot = slot
                self.histogram_of(large)
        # In large nodes the other threads are awake anyway.
        two_lanes = (want_small and want_large and self.n_threads > 1
                     and self.nodes[parent].stop - self.nodes[parent].start > LANE_ROWS
                     and 1024 < self.bins.view.n_cells < 16384)
        if two_lanes:
            for lane in prange(2, num_threads=2, schedule="static", chunksize=1):
                self.search(large if lane else small, lane, 1)
        else:
            if want_small:
                self.search(small, 0, self.n_threads)
            if want_large:
                self.search(large, 0, self.n_threads)
        for lane in range(2):
            if want_large if lane else want_small:
                self.enlist(large if lane else small)
        return 0

    cdef int split_node(self, int32_t node) except -1 nogil:
        """Move the node's rows and create its children."""
        cdef uint8_t goes_left[256]
        cdef int32_t left = self.new_node()
        cdef int32_t right = self.new_node()
        cdef GrowNode* n = &self.nodes[node]
        cdef GrowNode* child
        cdef intp_t n_left
        fill_direction(&self.bins.view, &n.split, goes_left)
        n_left = split_rows(
            self.bins.view.columns + n.split.feature * self.bins.view.n_rows, goes_left,
            &self.rows[0] + n.start, n.stop - n.start, &self.row_scratch[0] + n.start,
            self.n_threads)
        n.left = left
        n.right = right
        child = &self.nodes[left]
        child.parent = node
        child.depth = n.depth + 1
        child.start = n.start
        child.stop = n.start + n_left
        child.sums = n.split.left
        child.sums.n_samples = n_left
        child = &self.nodes[right]
        child.parent = node
        child.depth = n.depth + 1
        child.start = n.start + n_left
        child.stop = n.stop
        child.sums.grad = n.sums.grad - n.split.left.grad
        child.sums.hess = n.sums.hess - n.split.left.hess
        child.sums.n_samples = n.sums.n_samples - n_left
        return 0

    cdef int grow_nodes(self) except -1 nogil:
        """From the root to the last leaf."""
        cdef int32_t node, n_leaves = 1
        cdef int slot
        self.n_nodes = 0
        self.queue.n_open = 0
        self.new_node()
        self.nodes[0].stop = self.n_sampled
        slot = self.take_slot()
        self.nodes[0].slot = slot
        self.histogram_of(0)
        self.nodes[0].sums = sums_from_histogram(
            &self.bins.view, &self.statistics.view, self.pool.slots[slot], self.tree_features[0])
        self.nodes[0].sums.n_samples = self.n_sampled
        if self.may_split(0):
            self.search(0, 0, self.n_threads)
            self.enlist(0)
        while self.queue.n_open > 0 and (self.max_leaves <= 0 or n_leaves < self.max_leaves):
            node = self.queue.pop()
            self.split_node(node)
            n_leaves += 1
            if self.max_leaves <= 0 or n_leaves < self.max_leaves:
                self.evaluate_children(node)
        while self.queue.n_open > 0:
            self.nodes[self.queue.pop()].split.feature = -1
        return 0

    # ---- entry points -------------------------------------------------------------------------

    def grow(self, const float32_t[::1] grad, hess, rows=None, uint64_t seed=0):
        """Grow one tree and return its nodes and values as arrays.

        Parameters
        ----------
        grad : float32 array, one per row
        hess : float32 array, or one number where all rows have the same
        rows : uint32 array of ascending row ids, or None for all rows
        seed : int
            Seed of the feature draws.

        Returns
        -------
        nodes : array of NODE_DTYPE; thresholds are left to the caller, who knows the edges
        values : float64 array, one per node: the Newton step of its exact float64 sums
        category_bins : dict from node id to the uint32[8] set of bins that go left
        """
        cdef const float32_t[::1] hess_view
        cdef const float32_t* hess_pointer = NULL
        cdef float64_t constant_hess = 1.0
        cdef int32_t p = self.bins.view.n_features
        cdef intp_t n_words, n = self.bins.view.n_rows
        if grad.shape[0] != n:
            raise ValueError("one gradient per row is needed")
        if isinstance(hess, (int, float)):
            constant_hess = hess
        else:
            hess_view = hess
            if hess_view.shape[0] != n:
                raise ValueError("one hessian per row is needed")
            hess_pointer = &hess_view[0]
        self.seed = seed
        self.set_rows(rows)
        self.n_tree_features = max(1, <int32_t>(p * self.by_tree))
        draw_sorted(keyed(seed, STREAM_TREE, 0), 0, NULL, p, self.n_tree_features,
                    &self.tree_features[0])
        cdef bint need_counts = self.rules.min_samples_leaf > 1
        with nogil:
            self.statistics.quantise(&grad[0], hess_pointer, constant_hess, self.n_sampled,
                                     need_counts, self.n_threads)
        self.pool.reset(self.bins.view.n_cells * self.statistics.view.n_words)
        n_words = scratch_words(&self.bins.view, &self.statistics.view, self.n_threads)
        if self.hist_scratch is None or self.hist_scratch.shape[0] < n_words:
            self.hist_scratch = aligned_empty(n_words, np.int64)
        with nogil:
            self.grow_nodes()
        return self.collect(&grad[0], hess_pointer, constant_hess)

    cdef int set_rows(self, rows) except -1:
        cdef const uint32_t[::1] given
        cdef intp_t i, n = self.bins.view.n_rows
        if rows is None:
            self.n_sampled = n
            for i in prange(n, num_threads=self.n_threads if n > 65536 else 1, nogil=True,
                            schedule="static"):
                self.rows[i] = <uint32_t>i
            return 0
        given = rows
        if given.shape[0] == 0 or given.shape[0] > n:
            raise ValueError("rows must name between one and all rows")
        for i in range(given.shape[0]):
            if given[i] >= n or (i > 0 and given[i] <= given[i - 1]):
                raise ValueError("rows must be ascending ids of rows")
            self.rows[i] = given[i]
        self.n_sampled = given.shape[0]
        return 0

    cdef collect(self, const float32_t* grad, const float32_t* hess, double constant_hess):
        """Exact sums, leaf values, and the tree as arrays."""
        cdef int32_t k, parent
        cdef GrowNode* n
        nodes = np.zeros(self.n_nodes, dtype=NODE_DTYPE)
        sums = np.zeros((self.n_nodes, 2))
        values = np.empty(self.n_nodes)
        cdef Node[::1] out = nodes
        cdef float64_t[:, ::1] exact = sums
        cdef float64_t[::1] value = values
        category_bins = {}
        cdef const uint32_t[:] words
        sum_leaves(grad, hess, constant_hess, &self.rows[0], self.leaf_blocks(), exact,
                   self.n_threads)
        # Children have larger ids than their parents: one backward pass adds them up.
        for k in range(self.n_nodes - 1, 0, -1):
            parent = self.nodes[k].parent
            exact[parent, 0] += exact[k, 0]
            exact[parent, 1] += exact[k, 1]
        for k in range(self.n_nodes):
            n = &self.nodes[k]
            value[k] = node_weight(exact[k, 0], exact[k, 1], &self.rules)
            out[k].weight = exact[k, 1]
            out[k].n_samples = n.stop - n.start
            out[k].left = n.left
            out[k].right = n.right
            out[k].parent = n.parent
            out[k].depth = n.depth
            out[k].feature = n.split.feature
            out[k].category_start = -1
            if n.left >= 0:
                out[k].gain = n.split.gain
                out[k].bin = n.split.bin
                out[k].missing_left = n.split.missing_left
                if n.split.is_categorical:
                    words = <uint32_t[:8]>n.split.categories
                    category_bins[k] = np.array(words)
        return nodes, values, category_bins

    def leaf_blocks(self):
        """Rows of the leaves in blocks of bounded size: node, start and stop of each."""
        cdef int32_t k
        leaves = [(k, self.nodes[k].start, self.nodes[k].stop)
                  for k in range(self.n_nodes) if self.nodes[k].left < 0]
        return cut_in_blocks(np.array(leaves, dtype=np.intp))

    def update_raw(self, const float64_t[::1] values, float64_t[:] raw):
        """raw[row] += values[leaf of the row], for every row of the matrix."""
        cdef intp_t block, n = self.bins.view.n_rows, n_blocks = (n + SUM_BLOCK - 1) // SUM_BLOCK
        cdef int n_threads = <int>min(self.n_threads, n_blocks)
        if raw.shape[0] != n or values.shape[0] != self.n_nodes:
            raise ValueError("raw and values do not fit the tree that was grown last")
        if self.n_sampled == n:
            add_to_leaves(values, &self.rows[0], self.leaf_blocks(), raw, self.n_threads)
            return
        with nogil:
            for block in prange(n_blocks, num_threads=n_threads, schedule="static"):
                self.walk_rows(block * SUM_BLOCK, min(n, (block + 1) * SUM_BLOCK), &values[0],
                               &raw[0], raw.strides[0])

    cdef void walk_rows(
        self, intp_t start, intp_t stop, const float64_t* values, float64_t* raw, intp_t stride,
    ) noexcept nogil:
        """Down the tree by codes, for trees grown on a sample of the rows."""
        cdef intp_t row
        cdef float64_t* target
        for row in range(start, stop):
            target = <float64_t*>(<char*>raw + row * stride)
            target[0] += values[self.leaf_of(row)]

    cdef int32_t leaf_of(self, intp_t row) noexcept nogil:
        cdef int32_t k = 0, code
        cdef const uint8_t* record = self.bins.view.records + row * self.bins.view.record_bytes
        cdef SplitInfo* split
        cdef bint go_left
        while self.nodes[k].left >= 0:
            split = &self.nodes[k].split
            code = record[split.feature]
            if code == self.bins.view.n_bins[split.feature]:
                go_left = split.missing_left
            elif split.is_categorical:
                go_left = (split.categories[code >> 5] >> (code & 31)) & 1
            else:
                go_left = code <= split.bin
            k = self.nodes[k].left if go_left else self.nodes[k].right
        return k

    def apply(self):
        """Leaf of every row of the matrix in the tree that was grown last."""
        return np.array([self.leaf_of(row) for row in range(self.bins.view.n_rows)], np.int32)

    @property
    def row_order(self):
        """The sampled row ids, leaf by leaf."""
        return np.asarray(self.rows)[: self.n_sampled].copy()
