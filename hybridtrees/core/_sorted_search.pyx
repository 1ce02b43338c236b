"""Splits from sorted lists of rows: every threshold, no binning.

The best split of a node is found by one pass along its slice of every list.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdlib cimport qsort
from libc.string cimport memset

from hybridtrees.core._categories cimport order_categories
from hybridtrees.core._category_sets cimport SHORT_SET
from hybridtrees.core._interrupt cimport raise_stop
from hybridtrees.core._median cimport order_rows
from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._rng cimport keyed, uniform
from hybridtrees.core._sorted cimport MISSING_KEY
from hybridtrees.core._sorted_lists cimport PARALLEL_ENTRIES, SortedLists
from hybridtrees.core._sorted_scan cimport (
    SIDES, Cut, NodeView, ScanScratch, best_cut, draw_tied,
)
from hybridtrees.core._targets cimport row_weight, side_score
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport (
    ABSOLUTE, NEWTON, SQUARES, TARGET_PAIR, TARGET_UNIT,
    Entry, float64_t, int8_t, int32_t, intp_t, uint32_t,
)

cdef enum:
    FAR_BYTES = 262144           # targets that no longer fit the cache near the core
    STREAM_TIE = 5
    STREAM_CUT = 6
    STREAM_REST = 7

cdef float64_t TIE = 1e-11


cdef int compare_codes(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*>a)[0], y = (<const uint32_t*>b)[0]
    return (x > y) - (x < y)


cdef class SortedSearch(SortedLists):
    """Searches the nodes of trees on sorted lists; the parameters are those of the lists."""

    def __init__(self, n_features, n_rows, n_categories, params, n_threads, n_sums, width,
                 lists=None, bint keep_lists=False, bint one_list=False):
        SortedLists.__init__(self, n_features, n_rows, n_categories, params, n_threads, n_sums,
                             width, lists, keep_lists, one_list)
        cdef int32_t numbers = n_sums + 2, t
        cdef intp_t n = n_rows
        cdef bint absolute = self.rules.criterion == ABSOLUTE
        cdef bint categorical = False
        self.cuts = <Cut*>self.buffer(self.n_features * sizeof(Cut))
        if absolute:
            self.y_place = <uint32_t*>self.buffer(4 * n * n_sums)
            self.y_tree = <float64_t*>self.buffer(8 * (4 * n + 2) * n_sums)
        for t in range(self.n_features):
            categorical = categorical or self.n_categories[t] > 0
        self.scratch = <ScanScratch*>self.buffer(self.n_threads * sizeof(ScanScratch))
        for t in range(self.n_threads):
            # Rounded up to a cache line: the threads write to these all the time.
            self.scratch[t].sides = <float64_t*>self.buffer(8 * (SIDES * numbers + 8))
            self.scratch[t].entries = self.list_scratch[t]
            self.scratch[t].tree = NULL
            self.scratch[t].response = NULL
            self.scratch[t].category_start = NULL
            if absolute:
                self.scratch[t].tree = <float64_t*>self.buffer(8 * (6 * n + 4) * n_sums)
            if categorical:
                self.scratch[t].response = <float64_t*>self.buffer(16 * n)
                self.scratch[t].category_start = <uint32_t*>self.buffer(4 * n)

    cdef const Entry* entries_of(self, const GrowNode* node, int32_t feature) noexcept nogil:
        """The node's rows in the order of a feature."""
        return self.lists + feature * self.stride + node.start

    cdef Cut scan_feature(
        self, const NodeView* view, const GrowNode* node, int32_t feature, int thread
    ) noexcept nogil:
        """Best cut of one feature."""
        cdef const Entry* entries = self.entries_of(node, feature)
        cdef intp_t n = node.stop - node.start
        cdef ScanScratch* scratch = &self.scratch[thread]
        cdef int8_t monotone = self.rules.monotone[feature] if self.rules.monotone != NULL else 0
        cdef bint far = self.target.n_rows * self.target.width * 8 > FAR_BYTES
        cdef int32_t order, n_orders = 1
        cdef Cut cut, best
        if self.n_categories[feature] == 0:
            return best_cut(&self.target, &self.rules, view, entries, n, monotone, far, scratch)
        if self.target.n_sums > 1:
            n_orders = self.target.n_sums
        best.gain = -INFINITY
        best.n_left = 0
        best.order = 0
        best.missing_left = 0
        best.alone = False
        if entries[0].key == entries[n - 1].key:
            return best
        for order in range(n_orders):
            order_categories(&self.target, &self.rules, entries, n, order, scratch.sides,
                             scratch.response, scratch.category_start, scratch.entries)
            cut = best_cut(&self.target, &self.rules, view, scratch.entries, n, 0, far, scratch)
            cut.order = order
            # An infinite margin would be no number.
            if order == 0 or cut.gain > best.gain + TIE * abs(best.gain):
                best = cut
        return best

    cdef void scan_features(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil:
        """Best cuts of the features listed, into `cuts`."""
        cdef int32_t j
        # A median takes as long as a score of sums over some twenty entries.
        cdef intp_t cost = 16 if self.rules.criterion == ABSOLUTE else 1
        if (node.stop - node.start) * n * cost < PARALLEL_ENTRIES:
            for j in range(n):
                self.cuts[features[j]] = self.scan_feature(view, node, features[j], 0)
            return
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            if not self.stops():
                self.cuts[features[j]] = self.scan_feature(view, node, features[j],
                                                           omp_get_thread_num())

    cdef int32_t best_feature(
        self, const GrowNode* node, const int32_t* features, int32_t n, float64_t margin
    ) noexcept nogil:
        """The feature of the best cut, -1 without any; of equal ones the lowest, or one drawn."""
        cdef int32_t j, best = -1, n_tied = 0, f
        for j in range(n):
            f = features[j]
            if self.cuts[f].gain > -INFINITY and (best < 0 or self.cuts[f].gain > (
                    self.cuts[best].gain + TIE * abs(self.cuts[best].gain) + margin)):
                best = f
        if best < 0 or not self.rules.random_ties:
            return best
        cdef float64_t least = (self.cuts[best].gain - TIE * abs(self.cuts[best].gain) - margin)
        for j in range(n):
            f = features[j]
            if self.cuts[f].gain >= least:
                n_tied += 1
                if uniform(keyed(node.key, STREAM_TIE, n_tied)) * n_tied < 1.0:
                    best = f
        return best

    cdef int32_t first_that_cuts(self, const NodeView* view, int32_t node) noexcept nogil:
        """Where no drawn feature can be cut: the first of all, in random order, that can."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef int32_t* features = &self.node_features[0]
        cdef int32_t k, j, f, left = self.keep_allowed(node, &self.tree_features[0],
                                                       self.n_tree_features, features)
        for k in range(left):
            j = k + <int32_t>(uniform(keyed(n.key, STREAM_REST, k)) * (left - k))
            f = features[j]
            features[j] = features[k]
            features[k] = f
            self.cuts[f] = self.scan_feature(view, n, f, 0)
            if self.cuts[f].gain > -INFINITY:
                return f
        return -1

    cdef int search(self, int32_t node) except -1 nogil:
        """Find the node's best split."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef NodeView view
        cdef int32_t n_features = 0, k, best
        cdef const int32_t* features
        cdef float64_t parent = 0, margin = 0
        n.split.feature = -1
        if not self.sum_node(n):
            return 0
        view.totals = self.totals
        view.n_rows = n.stop - n.start
        view.bounds = n.bounds
        view.y_place = self.y_place
        view.y_tree = self.y_tree
        if self.totals[self.target.n_sums] < 2 * self.rules.min_child_weight:
            return 0
        if self.rules.criterion == ABSOLUTE:
            for k in range(self.target.n_sums):
                order_rows(&self.target, k,
                           self.lists + (self.n_features + k) * self.stride + n.start,
                           view.n_rows, self.y_place + k * self.target.n_rows,
                           self.y_tree + k * (4 * view.n_rows + 2))
        else:
            parent = side_score(&self.target, &self.rules, self.totals, &n.bounds)
        view.parent_score = parent
        if self.rules.criterion != SQUARES or self.target.layout not in (TARGET_UNIT, TARGET_PAIR):
            # The gain is a small difference of large scores.
            margin = 1e-14 * abs(parent)
        features = self.draw_node_features(node, 0, &n_features)
        self.scan_features(&view, n, features, n_features)
        raise_stop(self.stopped)
        best = self.best_feature(n, features, n_features, margin)
        if best < 0 and 0 < self.max_features and n_features < self.n_tree_features:
            best = self.first_that_cuts(&view, node)
        if best < 0:
            return 0
        if not self.rules.any_gain and (
            self.cuts[best].gain <= 0
            or self.cuts[best].gain < self.rules.min_gain * (1 - 1e-12)
            or (self.rules.criterion == NEWTON and self.cuts[best].gain < 1e-12 * parent)
        ):
            return 0
        return self.set_split(&view, node, best, self.cuts[best])

    cdef int set_split(
        self, const NodeView* view, int32_t node, int32_t feature, Cut cut
    ) except -1 nogil:
        """Write the split that a cut stands for."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef const Entry* entries = self.entries_of(n, feature)
        cdef intp_t size = n.stop - n.start
        cdef ScanScratch* scratch = &self.scratch[0]
        cdef bint categorical = self.n_categories[feature] > 0
        cdef const Entry* ordered = entries
        if categorical:
            order_categories(&self.target, &self.rules, entries, size, cut.order, scratch.sides,
                             scratch.response, scratch.category_start, scratch.entries)
            ordered = scratch.entries
        if self.rules.random_ties and not cut.alone:
            cut.n_left = draw_tied(
                &self.target, &self.rules, view, ordered, size,
                self.rules.monotone[feature] if self.rules.monotone != NULL else 0, scratch, cut,
                keyed(n.key, STREAM_CUT, 0))
        n.split.gain = cut.gain
        n.split.feature = feature
        n.split.is_categorical = categorical
        n.split.missing_left = cut.missing_left
        n.split.key = MISSING_KEY - 1
        n.split.low_row = entries[0].row
        n.split.high_row = entries[0].row
        if size > cut.n_left and entries[size - 1].key == MISSING_KEY:
            if self.rules.stop_missing:
                n.split.missing_left = 2
        elif self.rules.stop_missing:
            n.split.missing_left = 2
        else:
            n.split.missing_left = self.larger_left(ordered, cut.n_left, size)
        if categorical:
            self.set_categories(node, self.larger_left(ordered, cut.n_left, size), cut.n_left)
        elif cut.n_left < size and entries[cut.n_left].key != MISSING_KEY:
            n.split.key = entries[cut.n_left - 1].key
            n.split.low_row = entries[cut.n_left - 1].row
            n.split.high_row = entries[cut.n_left].row
        return 0

    cdef bint larger_left(self, const Entry* entries, intp_t n_left, intp_t n) noexcept nogil:
        """Without a missing row to learn from, they follow the larger child.

        The larger one has more rows, or the larger hessian where there are hessians.
        """
        cdef float64_t weight = 0
        cdef intp_t i
        if self.rules.criterion != NEWTON:
            return 2 * n_left > n
        for i in range(n_left):
            weight += row_weight(&self.target, entries[i].row)
        return 2 * weight > self.totals[self.target.n_sums]

    cdef int set_categories(self, int32_t node, bint others_left, intp_t n_left) except -1 nogil:
        """Write the category set of a split from the categories in the order of their response.

        Categories that the node has not seen follow the larger child: that order would otherwise
        send all of them to the same end. So it is enough to name those that go to the other one.
        """
        cdef GrowNode* n = &self.store.nodes[node]
        cdef int32_t n_categories = self.n_categories[n.split.feature]
        cdef const Entry* entries = self.entries_of(n, n.split.feature)
        cdef const Entry* ordered = self.scratch[0].entries
        cdef uint32_t* named = self.scratch[0].category_start
        cdef intp_t size = n.stop - n.start, i = 0, n_named = 0
        cdef intp_t n_words = (n_categories + 31) // 32
        cdef uint32_t key, code
        cdef uint32_t* words
        cdef int32_t start
        # Where a category starts is read before the place is written to: it is not needed again.
        while i < size and ordered[i].key != MISSING_KEY:
            key = ordered[i].key
            if (i < n_left) != others_left:
                named[n_named] = entries[named[key]].key
                n_named += 1
            while i < size and ordered[i].key == key:
                i += 1
        if n_words > SHORT_SET and n_named < n_words:
            qsort(named, n_named, sizeof(uint32_t), compare_codes)
            start = self.store.new_words(n_named)
            n = &self.store.nodes[node]
            for i in range(n_named):
                self.store.words[start + i] = named[i]
            n.split.category_words = <int32_t>n_named
            n.split.categories[0] = <uint32_t>(-n_categories if others_left else n_categories)
        else:
            start = self.store.new_words(n_words)
            n = &self.store.nodes[node]
            words = self.store.words + start
            memset(words, 255 if others_left else 0, n_words * sizeof(uint32_t))
            for i in range(n_named):
                code = named[i]
                words[code >> 5] ^= (<uint32_t>1) << (code & 31)
            n.split.category_words = <int32_t>n_words
            n.split.categories[0] = 0
        n.split.category_start = start
        return 0

    cdef int evaluate_root(self) except -1 nogil:
        if self.may_split(0):
            self.search(0)
        return 0

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        if left:
            self.search(self.store.nodes[node].left)
        if right:
            self.search(self.store.nodes[node].right)
        return 0
