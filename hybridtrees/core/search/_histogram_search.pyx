"""Splits from histograms of binned features.

The histogram of the smaller child is summed from its rows; that of the other one is the parent's
minus it. Both are scanned feature by feature at once, while their cells are in the cache.
"""

from libc.math cimport fabs
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from hybridtrees.core.base._types cimport (
    HT_EQUAL_RATIO, N_CODES, PAIR32, SplitInfo, float64_t, int32_t, int64_t, intp_t, uint32_t,
    uint8_t,
)
from hybridtrees.core.search._histogram cimport (
    BinnedView, FeatureWork, HistogramPool, RowStatistics, build_histogram, code_at, row_values,
    scratch_words, subtract_cells,
)
from hybridtrees.core.search._search cimport (
    GrowNode, SplitSearch, divide_slice, sum_leaves, sum_targets,
)
from hybridtrees.core.search._split cimport (
    SCAN_WORDS, bounded_weight, choose_split, code_goes_left, fill_direction, find_split,
    larger_left, open_scan, scan_gain, split_rows, split_stored, sums_from_histogram,
)

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


cdef bint written_at_root(HistogramSearch search) noexcept nogil:
    """Whether statistics are written in the pass of the root's histogram over all records."""
    return (
        search.statistics.view.stride == search.bins.view.record_bytes
        and search.statistics.view.layout != PAIR32
        and search.n_sampled == search.bins.view.n_rows
        and search.n_tree_features == search.bins.view.n_features
    )


cdef void finish_features(
    void* context, const int32_t* features, int32_t first, int32_t last, int thread
) noexcept nogil:
    """OUT the sibling's cells of some features, and the gains of their splits in both nodes."""
    cdef Children* work = <Children*>context
    cdef const uint8_t* drawn
    cdef int32_t j, k, feature
    if work.rest != NULL:
        for j in range(first, last):
            subtract_cells(work.bins, work.stats, features[j] if features != NULL else j,
                           work.rest, work.summed)
    for k in range(work.n_searches):
        drawn = work.searches[k].drawn
        for j in range(first, last):
            feature = features[j] if features != NULL else j
            if drawn == NULL or drawn[feature]:
                scan_gain(&work.searches[k].scan, feature, work.scratch + thread * SCAN_WORDS)


cdef class HistogramSearch(SplitSearch):
    """Searches the nodes of trees on one BinnedMatrix or StoredBins.

    `use_tail`: whether statistics may be stored in the spare bytes of the records.
    """

    def __cinit__(self):
        self.by_feature = NULL
        self.hist_scratch = None

    def __init__(self, binned, params, bint use_tail, int n_threads):
        self.bins = BinnedView(binned)
        self.statistics = RowStatistics(self.bins, use_tail)
        self.n_threads = n_threads
        self.pool = HistogramPool(params.histogram_bytes)
        self.n_rows = self.bins.view.n_rows
        self.n_features = self.bins.view.n_features
        self.use_rules(params)
        # More than two threads need scratch for both sides of a split.
        self.row_scratch = np.empty((2 if n_threads > 2 else 1) * self.n_rows, dtype=np.uint32)
        self.is_drawn = np.empty(2 * self.n_features, dtype=np.uint8)
        self.scan_scratch = np.empty(n_threads * SCAN_WORDS)
        self.allocate_splits()

    cdef int allocate_splits(self) except -1:
        """Allocate the best splits of the features of two nodes."""
        self.by_feature = <SplitInfo*>realloc(NULL, 2 * self.n_features * sizeof(SplitInfo))
        if self.by_feature == NULL:
            raise MemoryError("no memory for the splits of the features")
        return 0

    def __dealloc__(self):
        free(self.by_feature)

    def begin(self, statistics, rows, seed):
        """Start a new tree on some rows: ascending ids, or None for all.

        Small nodes are searched exactly by the target of the statistics, if there is one.
        """
        cdef bint need_counts = self.rules.min_samples_leaf > 1
        cdef intp_t n_words
        grad, hess = statistics.gradients()
        target = statistics.target
        self.values = row_values(grad, hess, self.n_rows)
        self.kept = grad, hess
        self.seed = seed
        self.set_rows(rows)
        if target is not None:
            self.use_target(target.data, target.layout, target.n_sums, target.binary)
        with nogil:
            self.draw_tree_features()
            self.statistics.quantise(&self.values, self.n_sampled, need_counts, self.n_threads)
            if not written_at_root(self):
                self.statistics.write(&self.values, self.n_threads)
        self.pool.reset(self.bins.view.n_cells * self.statistics.view.n_words)
        n_words = scratch_words(&self.bins.view, &self.statistics.view, self.n_threads)
        if self.hist_scratch is None or self.hist_scratch.shape[0] < n_words:
            self.hist_scratch = aligned_empty(n_words, np.int64)

    # ---- histograms ---------------------------------------------------------------------------

    cdef int histogram_of(self, int32_t node) except -1 nogil:
        """Sum the rows of a node into a new slot."""
        self.take_slot(node)
        return self.sum_rows(node, NULL)

    cdef int sum_rows(self, int32_t node, Children* work) except -1 nogil:
        """Sum the rows of a node into its slot, and do `work` (or NULL) on each feature."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef FeatureWork then
        cdef bint whole = node == 0 and self.n_sampled == self.bins.view.n_rows
        cdef bint listed = self.n_tree_features < self.bins.view.n_features
        cdef uint32_t* rows = &self.rows[0] + n.start
        if work != NULL:
            work.bins = &self.bins.view
            work.stats = &self.statistics.view
            work.summed = self.pool.slots[n.slot]
            work.scratch = &self.scan_scratch[0]
            then.run = finish_features
            then.context = work
            then.updates = self.bins.view.n_cells * (work.n_searches + (work.rest != NULL))
        if whole and not listed and self.statistics.view.layout != PAIR32:
            rows = NULL
        build_histogram(
            &self.bins.view, &self.statistics.view, rows, n.stop - n.start,
            &self.tree_features[0] if listed else NULL, self.n_tree_features,
            self.pool.slots[n.slot], &self.hist_scratch[0], self.n_threads,
            &self.values if node == 0 and written_at_root(self) else NULL,
            &then if work != NULL else NULL,
        )
        return 0

    # ---- what the grower asks -----------------------------------------------------------------

    cdef bint may_split(self, int32_t node) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        cdef float64_t hess = <float64_t>n.sums.hess * self.statistics.view.hess_unit
        return (
            SplitSearch.may_split(self, node)
            and (node == 0 or hess >= 2 * self.rules.min_child_weight)
        )

    cdef void open_search(self, int32_t node, int32_t lane, NodeSearch* search) noexcept nogil:
        """OUT the search of a node with a slot; each lane holds the search of one node."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef uint8_t* drawn = &self.is_drawn[lane * self.n_features]
        cdef int32_t j
        search.node = node
        search.features = self.draw_node_features(node, lane, &search.n_features)
        search.drawn = NULL
        if search.features != &self.tree_features[0]:
            search.drawn = drawn
            memset(drawn, 0, self.n_features)
            for j in range(search.n_features):
                drawn[search.features[j]] = 1
        open_scan(&search.scan, &self.bins.view, &self.statistics.view, &self.rules,
                  self.pool.slots[n.slot], &n.sums, &n.bounds,
                  self.by_feature + lane * self.n_features)

    cdef void search(self, int32_t node) noexcept nogil:
        """Find the best split of a node from its histogram."""
        cdef NodeSearch search
        self.open_search(node, 0, &search)
        find_split(&search.scan, search.features, search.n_features, &self.scan_scratch[0],
                   self.n_threads, &self.store.nodes[node].split)
        self.accept(node)

    cdef void close_searches(self, Children* work) noexcept nogil:
        """Choose the splits of the nodes whose features were scanned."""
        cdef NodeSearch* search
        cdef int32_t k
        for k in range(work.n_searches):
            search = &work.searches[k]
            choose_split(&search.scan, search.features, search.n_features, work.scratch,
                         &self.store.nodes[search.node].split)
            self.accept(search.node)

    cdef void accept(self, int32_t node) noexcept nogil:
        """Complete the chosen split, or drop it if all targets of the node are equal."""
        cdef GrowNode* n = &self.store.nodes[node]
        n.split.key = <uint32_t>n.split.bin
        n.split.category_start = -1
        if self.rules.any_gain and n.split.feature >= 0 and self.is_pure(n):
            n.split.feature = -1

    cdef bint is_pure(self, const GrowNode* node) noexcept nogil:
        """Whether all targets of a node are equal; False if there are none."""
        cdef const float64_t* data = self.target.data
        cdef intp_t i, width = self.target.width
        cdef const float64_t* first
        cdef const float64_t* row
        if data == NULL:
            return False
        first = data + <intp_t>self.rows[node.start] * width
        for i in range(node.start + 1, node.stop):
            row = data + <intp_t>self.rows[i] * width
            if width == 1:
                if row[0] != first[0]:
                    return False
            elif fabs(row[0] * first[1] - first[0] * row[1]) > (
                    HT_EQUAL_RATIO * fabs(first[0] * row[1])):
                return False
        return True

    cdef int evaluate_root(self) except -1 nogil:
        self.histogram_of(0)
        self.store.nodes[0].sums = sums_from_histogram(
            &self.bins.view, &self.statistics.view, self.pool.slots[self.store.nodes[0].slot],
            self.tree_features[0])
        self.store.nodes[0].sums.n_samples = self.n_sampled
        if self.may_split(0) and (
            <float64_t>self.store.nodes[0].sums.hess * self.statistics.view.hess_unit
            >= 2 * self.rules.min_child_weight
        ):
            self.search(0)
        return 0

    cdef int fill_children(
        self, int32_t node, bint left, bint right, bint scanned
    ) except -1 nogil:
        """Make the histograms of the wanted children, and with `scanned` find their best splits."""
        cdef Children work
        cdef int32_t small = self.store.nodes[node].left, large = self.store.nodes[node].right
        cdef bint want_small = left, want_large = right
        if (self.store.nodes[small].stop - self.store.nodes[small].start
                > self.store.nodes[large].stop - self.store.nodes[large].start):
            small, large = large, small
            want_small, want_large = right, left
        work.rest = NULL
        if want_large and self.store.nodes[node].slot >= 0:
            self.take_slot(small)
            self.store.nodes[large].slot = self.store.nodes[node].slot
            self.store.nodes[node].slot = -1
            work.rest = self.pool.slots[self.store.nodes[large].slot]
            self.fill_child(small, want_small and scanned, large, scanned, &work)
            if not want_small:
                self.forget(small)
            return 0
        self.forget(node)
        if want_small:
            self.take_slot(small)
            self.fill_child(small, scanned, -1, False, &work)
        if want_large:
            self.take_slot(large)
            self.fill_child(large, scanned, -1, False, &work)
        return 0

    cdef int fill_child(
        self, int32_t node, bint scanned, int32_t sibling, bint sibling_scanned, Children* work
    ) except -1 nogil:
        """Sum a child's rows and, if wanted, scan the child and its sibling."""
        work.n_searches = 0
        if scanned:
            self.open_search(node, 0, &work.searches[0])
            work.n_searches = 1
        if sibling_scanned:
            self.open_search(sibling, 1, &work.searches[work.n_searches])
            work.n_searches += 1
        self.sum_rows(node, work)
        self.close_searches(work)
        return 0

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        return self.fill_children(node, left, right, True)

    cdef int divide(self, int32_t node) except -1 nogil:
        cdef uint8_t goes_left[N_CODES]
        cdef GrowNode* n = &self.store.nodes[node]
        cdef intp_t n_left
        fill_direction(&self.bins.view, &n.split, goes_left)
        if self.bins.view.records == NULL:
            n_left = split_stored(
                &self.bins.view, n.split.feature, goes_left, &self.rows[0] + n.start,
                n.stop - n.start, &self.row_scratch[0] + n.start)
        else:
            n_left = split_rows(
                self.bins.view.columns + n.split.feature * self.bins.view.n_rows, goes_left,
                &self.rows[0] + n.start, n.stop - n.start, &self.row_scratch[0] + n.start,
                &self.row_scratch[self.n_rows] + n.start if self.n_threads > 2 else NULL,
                self.n_threads)
        n.stay = n.stop
        if self.target.data != NULL and not self.any_missing(n):
            n.split.missing_left = larger_left(<int64_t>n_left, <int64_t>(n.stop - n.start))
        self.set_children(node, n_left)
        return 0

    cdef void set_children(self, int32_t node, intp_t n_left) noexcept nogil:
        """Set the rows, sums and constraints of the children of a node."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef GrowNode* child
        divide_slice(n, &self.store.nodes[n.left], &self.store.nodes[n.right], n_left)
        child = &self.store.nodes[n.left]
        child.sums = n.split.left
        child.sums.n_samples = n_left
        child = &self.store.nodes[n.right]
        child.sums.grad = n.sums.grad - n.split.left.grad
        child.sums.hess = n.sums.hess - n.split.left.hess
        child.sums.n_samples = n.sums.n_samples - n_left
        self.constrain_children(node)
        if self.rules.monotone != NULL:
            self.part_bounds(node, self.value_of(n.left), self.value_of(n.right))

    cdef float64_t value_of(self, int32_t node) noexcept nogil:
        """Leaf value of a node, from its quantised sums."""
        cdef GrowNode* n = &self.store.nodes[node]
        return bounded_weight(<float64_t>n.sums.grad * self.statistics.view.grad_unit,
                              <float64_t>n.sums.hess * self.statistics.view.hess_unit,
                              &self.rules, &n.bounds)

    cdef bint any_missing(self, const GrowNode* node) noexcept nogil:
        """Whether the split feature is missing in a row of the node."""
        cdef int32_t f = node.split.feature
        cdef intp_t i
        if self.bins.view.has_missing[f]:
            for i in range(node.start, node.stop):
                if code_at(&self.bins.view, self.rows[i], f) == self.bins.view.n_bins[f]:
                    return True
        return False

    cdef int open_task(self, int32_t node, SplitSearch other) except -1 nogil:
        return other.take_codes(self, &self.bins.view, &self.store.nodes[node])

    cdef void take_back(self, int32_t node, SplitSearch other) noexcept nogil:
        cdef int32_t k
        cdef SplitInfo* split
        for k in range(other.store.n_nodes):
            split = &other.store.nodes[k].split
            if other.store.nodes[k].left >= 0 and not split.is_categorical:
                # Keys of the task's lists are bins; HT_ALL_KEYS becomes the last bin.
                split.bin = <int32_t>min(
                    split.key, <uint32_t>(self.bins.view.n_bins[split.feature] - 1))
        SplitSearch.take_back(self, node, other)

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        if self.target.data != NULL:
            sum_targets(&self.target, &self.rows[0], self.row_ends(), sums, self.n_threads)
            return 0
        sum_leaves(self.values.grad, self.values.hess, self.values.constant_hess, &self.rows[0],
                   self.row_ends(), sums, self.n_threads)
        return 0

    cdef int32_t n_node_sums(self) noexcept nogil:
        return 1 if self.target.data == NULL else self.target.n_sums

    # ---- rows outside the sample ---------------------------------------------------------------

    cdef bint can_walk(self) noexcept nogil:
        return self.target.data == NULL

    cdef int32_t leaf_of(self, intp_t row) noexcept nogil:
        """Walk down the tree by codes."""
        cdef int32_t k = 0, code
        cdef GrowNode* nodes = self.store.nodes
        cdef SplitInfo* split
        while nodes[k].left >= 0:
            split = &nodes[k].split
            code = code_at(&self.bins.view, row, split.feature)
            k = nodes[k].left if code_goes_left(&self.bins.view, split, code) else nodes[k].right
        return k
