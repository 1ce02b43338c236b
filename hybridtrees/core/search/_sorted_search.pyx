"""Splits from sorted lists of rows: every threshold, no binning."""

from cython.parallel cimport prange
from libc.float cimport DBL_MIN
from libc.math cimport INFINITY
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy, memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._threads cimport raise_stop, team_of
from hybridtrees.core.base._types cimport (
    ABSOLUTE, HT_ALL_KEYS, HT_MISSING_KEY, HT_ROUNDING, HT_TIE_CUTS, HT_TIE_FEATURES,
    HT_TIE_SORTED, HT_TIE_SQUARES, MISSING_STAYS, NEWTON, SHORT_SET, SQUARES, STREAM_CUT,
    STREAM_REST, STREAM_TIE, TARGET_PAIR, TARGET_UNWEIGHTED, BinView, SortedEntry, SplitRules,
    TargetView, float64_t, int32_t, int64_t, int8_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._criteria cimport (
    SIDES, Cut, NodeView, ScanScratch, add_row, best_cut, draw_tied, list_median, no_cut,
    order_rows, row_weight, side_score, sum_rows,
)
from hybridtrees.core.search._histogram cimport cell_at, feature_of
from hybridtrees.core.search._search cimport GrowNode, SplitSearch, sum_targets
from hybridtrees.core.search._sorted cimport divide_ids, divide_list
from hybridtrees.core.search._split cimport (
    bounded_weight, ends_group, is_smoothed, larger_left, zero_gain,
)

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty
from hybridtrees.core.search._sorted import sort_columns


# ---- Categories of a node in the order of their response --------------------------------------
#
# The list of a categorical feature is rewritten with the categories in the order of their mean
# response (leaf weight, share of a class), and the position of a category as key. Then it can be
# cut like the list of a numeric feature.


cdef struct Response:
    float64_t value
    uint32_t start       # first entry of the category
    uint32_t stop


cdef int compare(const void* a, const void* b) noexcept nogil:
    """By response, then by code."""
    cdef const Response* x = <const Response*>a
    cdef const Response* y = <const Response*>b
    if x.value != y.value:
        return -1 if x.value < y.value else 1
    return -1 if x.start < y.start else 1


cdef intp_t reorder_list(
    const TargetView* target, const SplitRules* rules, int32_t n_categories,
    const SortedEntry* entries, intp_t n, int32_t output, float64_t* sums,
    float64_t* response, uint32_t* start, SortedEntry* out,
) noexcept nogil:
    """OUT the list in the order of the categories' responses; returns the number of categories.

    Scratch: n_sums + 2 numbers in `sums`, two per category in `response`. OUT start[j]: first entry
    of category j of the new order in `entries`. Categories of one group have the same key.
    """
    cdef Response* found = <Response*>response
    cdef intp_t i = 0, j, k, n_found = 0, n_out = 0, before = 0
    cdef float64_t weight, more = 0, more_weight = 0
    cdef uint32_t group = 0
    cdef bint smoothed = is_smoothed(rules, n_categories)
    if smoothed and rules.cat_smooth > 0:
        memset(sums, 0, (target.n_sums + 2) * sizeof(float64_t))
        for k in range(n):
            add_row(target, target.data + <intp_t>entries[k].row * target.width, sums)
        more = rules.cat_smooth * sums[output] / n
        more_weight = rules.cat_smooth * sums[target.n_sums] / n
    while i < n and entries[i].key != HT_MISSING_KEY:
        memset(sums, 0, (target.n_sums + 2) * sizeof(float64_t))
        j = i
        while j < n and entries[j].key == entries[i].key:
            add_row(target, target.data + <intp_t>entries[j].row * target.width, sums)
            j += 1
        weight = sums[target.n_sums] + more_weight
        if rules.criterion == NEWTON:
            # The leaf weight decreases with the gradient; the direction only matters for groups.
            weight += rules.reg_lambda
        found[n_found].value = (sums[output] + more) / weight if weight > 0 else INFINITY
        if smoothed and rules.criterion == NEWTON:
            found[n_found].value = -found[n_found].value      # groups as in a histogram
        found[n_found].start = <uint32_t>i
        found[n_found].stop = <uint32_t>j
        n_found += 1
        i = j
    qsort(found, n_found, sizeof(Response), compare)
    for j in range(n_found):
        start[j] = found[j].start
        for k in range(found[j].start, found[j].stop):
            out[n_out].key = group
            out[n_out].row = entries[k].row
            n_out += 1
        if not smoothed or ends_group(rules, <float64_t>before, <float64_t>n_out, <float64_t>i):
            before = n_out
            group += 1
    memcpy(out + n_out, entries + n_out, (n - n_out) * sizeof(SortedEntry))
    return n_found


# ---- Sorted lists of rows, and their slices that belong to the nodes of a tree ----------------
#
# Every feature has a list of the rows in the order of its values (`_sorted`). A node owns the same
# slice of every list. Splitting a node divides the slices stably, so nothing is sorted twice. A
# small node may become a subtree task: its entries and targets are copied, with rows numbered from
# 0. The copies fit the cache, and threads can work on different tasks.


cdef enum:
    PARALLEL_ENTRIES = 65536          # minimum number of entries of a node for several threads


cdef class SortedLists(SplitSearch):
    """The rows of a tree's nodes, as one list per feature.

    `n_categories` is 0 for a numeric feature; `n_sums` and `width` are sums per node and numbers
    per row of the targets. Without `lists` of a table, the search is for subtree tasks of at most
    `n_rows` rows. With `keep_lists` every tree works on a copy of the lists. With `one_list` there
    is only memory for the list of one feature, made on demand.
    """

    def __cinit__(self):
        self.keep = []
        self.master = NULL

    def __init__(self, n_features, n_rows, n_categories, params, n_threads, n_sums, width,
                 lists=None, bint keep_lists=False, bint one_list=False):
        cdef const int32_t[::1] categories = n_categories
        cdef SortedEntry[:, ::1] view
        cdef int t
        self.n_threads = n_threads
        self.n_rows = n_rows
        self.stride = n_rows
        self.n_features = n_features
        self.use_rules(params)
        self.n_lists = n_features + (n_sums if self.rules.criterion == ABSOLUTE else 0)
        if categories.shape[0] != n_features or n_features < 1 or n_rows < 1:
            raise ValueError("the sorted search needs rows, features and n_categories of each")
        self.n_categories = &categories[0]
        self.keep.append(categories)
        if lists is not None:
            view = lists
            if view.shape[0] < (n_features if keep_lists else self.n_lists) \
                    or view.shape[1] != n_rows:
                raise ValueError("the lists do not fit the table")
            self.keep.append(view)
            self.lists = &view[0, 0]
            if keep_lists:
                self.master = self.lists
        if lists is None or keep_lists:
            self.lists = <SortedEntry*>self.buffer(
                (1 if one_list else self.n_lists) * self.n_rows * sizeof(SortedEntry))
        self.row_scratch = np.empty(2 * n_rows, dtype=np.uint32)
        self.side = <uint8_t*>self.buffer(n_rows)
        self.local_id = <uint32_t*>self.buffer(4 * n_rows)
        self.totals = <float64_t*>self.buffer(8 * (n_sums + 2))
        self.own_target = NULL
        if lists is None:
            self.own_target = <float64_t*>self.buffer(8 * n_rows * width)
        self.list_scratch = <SortedEntry**>self.buffer(self.n_threads * sizeof(SortedEntry*))
        for t in range(self.n_threads):
            self.list_scratch[t] = <SortedEntry*>self.buffer(self.n_rows * sizeof(SortedEntry))

    cdef void* buffer(self, intp_t n_bytes) except NULL:
        """Memory that lives as long as the search."""
        cdef uint8_t[::1] block = aligned_empty(max(64, n_bytes), np.uint8)
        self.keep.append(block)
        return &block[0]

    # ---- a new tree ---------------------------------------------------------------------------

    def begin(self, statistics, rows, seed):
        """Start a new tree on some rows: ascending ids, or None for all."""
        cdef int32_t k
        cdef SortedEntry[:, ::1] lists
        cdef intp_t i
        target = statistics.targets()
        self.seed = seed
        self.use_target(target.data, target.layout, target.n_sums, target.binary)
        self.set_rows(rows)
        if self.rules.criterion == ABSOLUTE:
            # One more list per output: the rows in the order of y.
            lists = <SortedEntry[:self.n_lists, :self.n_rows]>self.lists
            y = target.data[:, : target.n_sums]
            if target.data.shape[1] > target.n_sums:
                # The position of a row of weight 0 does not matter.
                with np.errstate(divide="ignore", invalid="ignore"):
                    y = y / target.data[:, target.n_sums:]
                y[~np.isfinite(y)] = 0.0
            sort_columns(np.ascontiguousarray(y), np.zeros(target.n_sums, dtype=np.uint8), lists,
                         self.n_features, self.n_threads)
        memset(self.side, 0, self.n_rows)
        for i in range(self.n_sampled):
            self.side[self.rows[i]] = 1
        with nogil:
            self.draw_tree_features()
            for k in prange(self.n_lists, num_threads=team_of(self.n_threads), schedule="static"):
                self.fill_list(k)

    cdef void fill_list(self, int32_t k) noexcept nogil:
        """Fill a list of this tree: that of the table, without rows outside the sample."""
        cdef SortedEntry* target = self.lists + k * self.stride
        cdef const SortedEntry* source = target
        cdef intp_t i, n = 0
        if self.master != NULL and k < self.n_features:
            source = self.master + k * self.stride
        if self.n_sampled == self.n_rows:
            if source != target:
                memcpy(target, source, self.n_rows * sizeof(SortedEntry))
            return
        for i in range(self.n_rows):
            target[n] = source[i]
            n += self.side[source[i].row]

    # ---- dividing a node ----------------------------------------------------------------------

    cdef bint sum_node(self, const GrowNode* node) noexcept nogil:
        """Compute the sums of a node; false if all targets are equal, so that it needs no split."""
        return sum_rows(&self.target, &self.rows[node.start], node.stop - node.start,
                        self.totals) or self.rules.criterion == NEWTON

    cdef void mark_sides(self, const GrowNode* node) noexcept nogil:
        """OUT side of each row of the node: 1 left, 0 right, 2 stays at the node."""
        cdef const SortedEntry* entries = self.lists + node.split.feature * self.stride
        cdef uint32_t key, split_key = node.split.key
        cdef uint8_t missing = node.split.missing_left
        cdef const uint32_t* words = self.store.words_of(node)
        cdef intp_t i
        if node.split.is_categorical and node.split.categories[0] == 0:
            for i in range(node.start, node.stop):
                key = entries[i].key
                self.side[entries[i].row] = missing if key == HT_MISSING_KEY else (
                    (words[key >> 5] >> (key & 31)) & 1)
            return
        if node.split.is_categorical:
            mark_listed(node, entries, words, self.side)
            return
        for i in range(node.start, node.stop):
            key = entries[i].key
            self.side[entries[i].row] = missing if key == HT_MISSING_KEY else key <= split_key

    cdef int divide(self, int32_t node) except -1 nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        cdef GrowNode* left = &self.store.nodes[n.left]
        cdef GrowNode* right = &self.store.nodes[n.right]
        cdef intp_t n_left, n_staying = 0, size = n.stop - n.start
        self.mark_sides(n)
        n_left = divide_ids(&self.rows[0] + n.start, size, self.side,
                            &self.row_scratch[0] + 2 * n.start, &n_staying)
        n.stay = n.stop - n_staying
        left.start = n.start
        left.stop = n.start + n_left
        left.stay = left.stop
        right.start = left.stop
        right.stop = n.stay
        right.stay = right.stop
        self.constrain_children(node)
        if self.rules.monotone != NULL and self.rules.criterion == ABSOLUTE:
            # The bounds need medians of both children, even if these are leaves.
            self.divide_lists(n, self.n_features, self.n_lists)
            self.part_bounds(node, self.value_of(left), self.value_of(right))
            self.divide_lists(n, 0, self.n_features)
            return raise_stop(self.stopped)
        if self.rules.monotone != NULL:
            self.part_bounds(node, self.value_of(left), self.value_of(right))
        if self.may_split(n.left) or self.may_split(n.right):
            self.divide_lists(n, 0, self.n_lists)
        return raise_stop(self.stopped)

    cdef void divide_lists(
        self, const GrowNode* node, int32_t first, int32_t last
    ) noexcept nogil:
        """Divide the slices of the lists [first, last) between the node's children."""
        cdef intp_t size = node.stop - node.start
        cdef int32_t k
        if size * (last - first) < PARALLEL_ENTRIES:
            for k in range(first, last):
                divide_list(self.lists + k * self.stride + node.start, size, self.side,
                            self.list_scratch[0])
            return
        for k in prange(first, last, num_threads=team_of(self.n_threads), schedule="dynamic",
                        chunksize=1):
            if not self.stops():
                divide_list(self.lists + k * self.stride + node.start, size, self.side,
                            self.list_scratch[omp_get_thread_num()])

    cdef float64_t value_of(self, const GrowNode* node) noexcept nogil:
        """Value of a node: leaf weight, median (absolute error) or mean of its rows."""
        self.sum_node(node)
        if self.rules.criterion == NEWTON:
            return bounded_weight(self.totals[0], self.totals[1], &self.rules, &node.bounds)
        if self.rules.criterion == ABSOLUTE:
            return list_median(
                &self.target, self.lists + self.n_features * self.stride + node.start,
                node.stop - node.start, self.totals[self.target.n_sums])
        return self.totals[0] / self.totals[self.target.n_sums]

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        sum_targets(&self.target, &self.rows[0], self.row_ends(), sums, self.n_threads)
        return 0

    # ---- small nodes as tasks -----------------------------------------------------------------

    cdef int open_task(self, int32_t node, SplitSearch other) except -1 nogil:
        return (<SortedLists>other).take_lists(self, &self.store.nodes[node])

    cdef int take_lists(self, SortedLists whole, const GrowNode* node) except -1 nogil:
        """Prepare the search of a subtree task: copy its lists, with rows numbered from 0."""
        cdef intp_t i, n = node.stop - node.start
        cdef const SortedEntry* source
        cdef SortedEntry* target
        cdef int32_t k
        self.take_rows(whole, node)
        for i in range(n):
            whole.local_id[whole.rows[node.start + i]] = <uint32_t>i
        for k in range(self.n_lists):
            source = whole.lists + k * whole.stride + node.start
            target = self.lists + k * self.stride
            for i in range(n):
                target[i].key = source[i].key
                target[i].row = whole.local_id[source[i].row]
        return 0

    cdef int take_rows(self, SplitSearch whole, const GrowNode* node) except -1 nogil:
        """Copy the targets of a subtree task and the features of the tree, and make its root."""
        cdef intp_t i, n = node.stop - node.start, width = whole.target.width
        self.n_sampled = n
        self.n_tree_features = whole.n_tree_features
        self.seed = whole.seed
        memcpy(&self.tree_features[0], &whole.tree_features[0],
               whole.n_tree_features * sizeof(int32_t))
        self.target = whole.target
        self.target.data = self.own_target
        self.target.n_rows = self.n_rows
        for i in range(n):
            memcpy(self.own_target + i * width,
                   whole.target.data + <intp_t>whole.rows[node.start + i] * width, width * 8)
            self.rows[i] = <uint32_t>i
        self.open_root()
        self.store.nodes[0].depth = node.depth
        self.store.nodes[0].key = node.key
        self.store.nodes[0].bounds = node.bounds
        self.store.nodes[0].groups = node.groups
        self.store.nodes[0].alone = node.alone
        return 0


cdef void mark_listed(
    const GrowNode* node, const SortedEntry* entries, const uint32_t* codes, uint8_t* side
) noexcept nogil:
    """`mark_sides` for a category set that is a list; both lists are sorted by code."""
    cdef const uint32_t* end = codes + node.split.category_words
    cdef bint others_left = <int32_t>node.split.categories[0] < 0
    cdef uint32_t key
    cdef intp_t i
    for i in range(node.start, node.stop):
        key = entries[i].key
        while codes < end and codes[0] < key:
            codes += 1
        side[entries[i].row] = node.split.missing_left if key == HT_MISSING_KEY else (
            (codes < end and codes[0] == key) != others_left)


# ---- The best split of a node: one pass along its slice of every list -------------------------


cdef enum:
    FAR_BYTES = 262144           # targets of more bytes do not fit the L2 cache


cdef int compare_codes(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*>a)[0], y = (<const uint32_t*>b)[0]
    return (x > y) - (x < y)


cdef class SortedSearch(SortedLists):
    """Searches the nodes of trees on sorted lists; parameters as for `SortedLists`."""

    def __init__(self, n_features, n_rows, n_categories, params, n_threads, n_sums, width,
                 lists=None, bint keep_lists=False, bint one_list=False):
        SortedLists.__init__(self, n_features, n_rows, n_categories, params, n_threads, n_sums,
                             width, lists, keep_lists, one_list)
        cdef int32_t numbers = n_sums + 2, t
        cdef intp_t n = n_rows
        cdef bint absolute = self.rules.criterion == ABSOLUTE
        cdef bint categorical = False
        self.cuts = <Cut*>self.buffer(self.n_features * sizeof(Cut))
        self.draws_cuts = params.random_ties and params.random_cuts
        if absolute:
            self.y_place = <uint32_t*>self.buffer(4 * n * n_sums)
            self.y_tree = <float64_t*>self.buffer(8 * (4 * n + 2) * n_sums)
        for t in range(self.n_features):
            categorical = categorical or self.n_categories[t] > 0
        self.scratch = <ScanScratch*>self.buffer(self.n_threads * sizeof(ScanScratch))
        for t in range(self.n_threads):
            # Padded by a cache line, as all threads write to these.
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

    cdef const SortedEntry* entries_of(self, const GrowNode* node, int32_t feature) noexcept nogil:
        """The node's rows in the order of a feature."""
        return self.lists + feature * self.stride + node.start

    cdef Cut scan_feature(
        self, const NodeView* view, const GrowNode* node, int32_t feature, int thread
    ) noexcept nogil:
        """Best cut of one feature."""
        cdef const SortedEntry* entries = self.entries_of(node, feature)
        cdef intp_t n = node.stop - node.start
        cdef ScanScratch* scratch = &self.scratch[thread]
        cdef int8_t monotone = self.rules.monotone[feature] if self.rules.monotone != NULL else 0
        cdef bint far = self.target.n_rows * self.target.width * 8 > FAR_BYTES
        cdef int32_t order, n_orders = 1
        cdef SplitRules rules
        cdef Cut cut, best = no_cut()
        if self.n_categories[feature] == 0:
            return best_cut(&self.target, &self.rules, view, entries, n, monotone, far, scratch)
        if self.target.n_sums > 1:
            n_orders = self.target.n_sums
        if entries[0].key == entries[n - 1].key:
            return best
        rules = self.rules
        if is_smoothed(&rules, self.n_categories[feature]):
            rules.reg_lambda += rules.cat_l2      # criteria other than Newton's have no penalty
        for order in range(n_orders):
            reorder_list(&self.target, &self.rules, self.n_categories[feature], entries, n, order,
                         scratch.sides, scratch.response, scratch.category_start, scratch.entries)
            cut = best_cut(&self.target, &rules, view, scratch.entries, n, 0, far, scratch)
            cut.order = order
            # The first one apart: the margin of a gain of -inf would be NaN.
            if order == 0 or cut.gain > best.gain + HT_TIE_SORTED * abs(best.gain):
                best = cut
        return best

    cdef void scan_features(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil:
        """OUT `cuts` of the listed features."""
        cdef int32_t j
        # A median takes as long as the scores of about twenty entries.
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
        """Feature of the best cut, -1: none. Of equal ones the lowest, or a random one."""
        cdef int32_t j, best = -1, n_tied = 0, f
        for j in range(n):
            f = features[j]
            if self.cuts[f].gain > -INFINITY and (best < 0 or self.cuts[f].gain > (
                    self.cuts[best].gain + HT_TIE_SORTED * abs(self.cuts[best].gain) + margin)):
                best = f
        if best < 0 or not self.rules.random_ties:
            return best
        cdef float64_t gain = self.cuts[best].gain
        cdef float64_t least = gain - HT_TIE_SORTED * abs(gain) - margin
        for j in range(n):
            f = features[j]
            if self.cuts[f].gain >= least:
                n_tied += 1
                if uniform(keyed(node.key, STREAM_TIE, n_tied)) * n_tied < 1.0:
                    best = f
        return best

    cdef int32_t first_that_cuts(self, const NodeView* view, int32_t node) noexcept nogil:
        """The first feature, in random order, that can be cut if no drawn one can; or -1."""
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
        if self.rules.criterion != SQUARES or (
            self.target.layout not in (TARGET_UNWEIGHTED, TARGET_PAIR)
        ):
            # Gains are small differences of large scores.
            margin = HT_TIE_FEATURES * abs(parent)
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
            or self.cuts[best].gain < self.rules.min_gain * (1 - HT_ROUNDING)
            or (self.rules.criterion == NEWTON and self.cuts[best].gain < HT_ROUNDING * parent)
        ):
            return 0
        return self.set_split(&view, node, best, self.cuts[best])

    cdef int set_split(
        self, const NodeView* view, int32_t node, int32_t feature, Cut cut
    ) except -1 nogil:
        """Write the split of a cut."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef const SortedEntry* entries = self.entries_of(n, feature)
        cdef intp_t size = n.stop - n.start
        cdef ScanScratch* scratch = &self.scratch[0]
        cdef bint categorical = self.n_categories[feature] > 0
        cdef const SortedEntry* ordered = entries
        if categorical:
            reorder_list(&self.target, &self.rules, self.n_categories[feature], entries, size,
                         cut.order, scratch.sides, scratch.response, scratch.category_start,
                         scratch.entries)
            ordered = scratch.entries
        if self.draws_cuts and not cut.alone:
            cut.n_left = draw_tied(
                &self.target, &self.rules, view, ordered, size,
                self.rules.monotone[feature] if self.rules.monotone != NULL else 0, scratch, cut,
                keyed(n.key, STREAM_CUT, 0))
        n.split.gain = cut.gain
        n.split.feature = feature
        n.split.is_categorical = categorical
        n.split.missing_left = cut.missing_left
        n.split.key = HT_ALL_KEYS
        n.split.low_row = n.split.high_row = entries[0].row
        if self.rules.stop_missing:
            n.split.missing_left = MISSING_STAYS
        elif size == cut.n_left or entries[size - 1].key != HT_MISSING_KEY:
            n.split.missing_left = self.left_is_larger(ordered, cut.n_left, size)
        if categorical:
            self.set_categories(node, self.left_is_larger(ordered, cut.n_left, size), cut.n_left)
        elif cut.n_left < size and entries[cut.n_left].key != HT_MISSING_KEY:
            n.split.key = entries[cut.n_left - 1].key
            n.split.low_row = entries[cut.n_left - 1].row
            n.split.high_row = entries[cut.n_left].row
        return 0

    cdef bint left_is_larger(
        self, const SortedEntry* entries, intp_t n_left, intp_t n
    ) noexcept nogil:
        """Whether the left child is the larger one: see `larger_left`."""
        cdef float64_t weight = 0
        cdef intp_t i
        if self.rules.criterion != NEWTON:
            return larger_left(<int64_t>n_left, <int64_t>n)
        for i in range(n_left):
            weight += row_weight(&self.target, entries[i].row)
        return larger_left(weight, self.totals[self.target.n_sums])

    cdef int set_categories(self, int32_t node, bint others_left, intp_t n_left) except -1 nogil:
        """Write the category set of a split from the categories in the order of their response.

        Unseen categories go to the larger child (`others_left`), so only those that go to the other
        child are named.
        """
        cdef GrowNode* n = &self.store.nodes[node]
        cdef int32_t n_categories = self.n_categories[n.split.feature]
        cdef const SortedEntry* entries = self.entries_of(n, n.split.feature)
        cdef const SortedEntry* ordered = self.scratch[0].entries
        cdef uint32_t* named = self.scratch[0].category_start
        cdef intp_t size = n.stop - n.start, i = 0, j = 0, at, n_named = 0
        cdef intp_t n_words = (n_categories + 31) // 32
        cdef uint32_t code
        cdef uint32_t* words
        cdef int32_t start
        # `named` overwrites the starts of categories, each of which has been read before.
        while i < size and ordered[i].key != HT_MISSING_KEY:
            at = named[j]
            code = entries[at].key
            if (i < n_left) != others_left:
                named[n_named] = code
                n_named += 1
            j += 1
            while at < size and entries[at].key == code:
                at += 1
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


# ---- Splits of small nodes on few of many features --------------------------------------------
#
# If a node draws only some features, lists of all features are not worth their cost. Here a node
# keeps only its rows, which are sorted by a feature when it is drawn: few rows by comparing all
# pairs, many by counting their codes. Both sorts are stable, so the lists and the trees are the
# same as with sorted lists. With one target per row, sums by code replace the sort of many rows.


cdef extern from "drawn_scan.h" nogil:
    ctypedef struct ht_pairs:
        const double* stats
        double sum, weight, least_weight, bar, noise, slack
        intp_t first, last

    ctypedef struct ht_found:
        double score
        intp_t n_left
        bint tied

    void ht_list_codes(
        const uint8_t* codes, const uint32_t* rows, intp_t n, int missing_code, SortedEntry* out)
    bint ht_cut_codes(
        const ht_pairs* node, const uint8_t* codes, const uint32_t* rows, intp_t n,
        int missing_code, ht_found* found)
    bint ht_sum_pairs(
        const double* stats, const uint32_t* rows, intp_t n, double* copy, double* totals)
    bint ht_sum_units(
        const double* stats, const uint32_t* rows, intp_t n, double* copy, double* totals)

cdef enum:
    COPIED_ROWS = 64


cdef class SmallNodeSearch(SortedSearch):
    """Searches subtree tasks of binned features on one thread; parameters as for `SortedLists`."""

    def __init__(self, n_features, n_rows, n_categories, params, n_sums, width):
        SortedSearch.__init__(self, n_features, n_rows, n_categories, params, 1, n_sums, width,
                              None, False, True)
        self.codes = <uint8_t*>self.buffer(self.n_features * (self.n_rows + 128))
        self.node_stats = <float64_t*>self.buffer(2 * self.n_rows * sizeof(float64_t))

    cdef int take_codes(
        self, SplitSearch whole, const BinView* bins, const GrowNode* node
    ) except -1 nogil:
        cdef int32_t k
        cdef intp_t i, last, first = 0, n = node.stop - node.start
        cdef const uint32_t* rows = &whole.rows[node.start]
        cdef const uint8_t* source
        cdef uint8_t* target
        self.take_rows(whole, node)
        self.pairs = (self.rules.criterion == SQUARES and self.rules.monotone == NULL
                      and self.target.layout in (TARGET_UNWEIGHTED, TARGET_PAIR))
        self.missing_code = bins.n_bins
        self.bins = bins
        self.origin = rows
        # An odd number of cache lines, so that columns use different cache sets.
        self.code_stride = (n + 63) // 64 * 64 | 64
        if bins.records == NULL:
            self.take_entries(n)
            return 0
        # Transposed in blocks of rows, so that source and target stay in the cache.
        while first < n:
            last = min(n, first + COPIED_ROWS)
            for k in range(self.n_features):
                source = bins.records + k
                target = self.codes + k * self.code_stride
                for i in range(first, last):
                    target[i] = source[rows[i] * bins.record_bytes]
            first = last
        return 0

    cdef void take_entries(self, intp_t n) noexcept nogil:
        """`take_codes` of StoredBins."""
        cdef const BinView* bins = self.bins
        cdef int32_t k
        cdef intp_t i
        cdef int64_t entry
        cdef uint32_t cell
        for k in range(self.n_features):
            memset(self.codes + k * self.code_stride, bins.default_code[k], n)
        for i in range(n):
            k = 0
            for entry in range(bins.row_start[self.origin[i]], bins.row_start[self.origin[i] + 1]):
                cell = cell_at(bins, entry)
                k = feature_of(bins, cell, k)
                self.codes[k * self.code_stride + i] = <uint8_t>(cell - bins.cell_start[k])

    cdef const SortedEntry* entries_of(self, const GrowNode* node, int32_t feature) noexcept nogil:
        ht_list_codes(self.codes + feature * self.code_stride, &self.rows[node.start],
                      node.stop - node.start, self.missing_code[feature], self.lists)
        return self.lists

    cdef bint sum_node(self, const GrowNode* node) noexcept nogil:
        cdef const uint32_t* rows = &self.rows[node.start]
        cdef intp_t n = node.stop - node.start
        if not self.pairs:
            return SortedLists.sum_node(self, node)
        if self.target.layout == TARGET_UNWEIGHTED:
            return ht_sum_units(self.target.data, rows, n, self.node_stats, self.totals)
        return ht_sum_pairs(self.target.data, rows, n, self.node_stats, self.totals)

    cdef void mark_sides(self, const GrowNode* node) noexcept nogil:
        cdef int32_t feature = node.split.feature
        cdef const uint8_t* codes = self.codes + feature * self.code_stride
        cdef int32_t missing_code = self.missing_code[feature], code
        cdef uint8_t missing = node.split.missing_left
        cdef uint32_t row, key = node.split.key
        cdef const uint32_t* words = self.store.words_of(node)
        cdef intp_t i
        for i in range(node.start, node.stop):
            row = self.rows[i]
            code = codes[row]
            if code == missing_code:
                self.side[row] = missing
            elif node.split.is_categorical:
                # Sets of bins are always short enough to be bit sets.
                self.side[row] = (words[code >> 5] >> (code & 31)) & 1
            else:
                self.side[row] = <uint32_t>code <= key

    cdef void divide_lists(
        self, const GrowNode* node, int32_t first, int32_t last
    ) noexcept nogil:
        """Nothing: there are no lists."""

    cdef Cut scan_feature(
        self, const NodeView* view, const GrowNode* node, int32_t feature, int thread
    ) noexcept nogil:
        if not self.pairs:
            return SortedSearch.scan_feature(self, view, node, feature, thread)
        self.cut_pairs(view, node, &feature, 1)
        return self.cuts[feature]

    cdef int32_t first_that_cuts(self, const NodeView* view, int32_t node) noexcept nogil:
        """As with lists, but without a search if all rows have the same codes."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef intp_t i
        for i in range(n.start + 1, n.stop):
            if not self.same_codes(self.rows[n.start], self.rows[i]):
                return SortedSearch.first_that_cuts(self, view, node)
        return -1

    cdef bint same_codes(self, uint32_t one, uint32_t other) noexcept nogil:
        """Whether two rows of the task have the same codes."""
        cdef const BinView* bins = self.bins
        cdef intp_t a = self.origin[one], b = self.origin[other]
        cdef intp_t size = bins.row_start[a + 1] - bins.row_start[a] if bins.records == NULL else 0
        cdef intp_t width = 4 if bins.wide_cells else 2
        if bins.records != NULL:
            return memcmp(bins.records + a * bins.record_bytes,
                          bins.records + b * bins.record_bytes, self.n_features) == 0
        return size == bins.row_start[b + 1] - bins.row_start[b] and memcmp(
            bins.row_cells + bins.row_start[a] * width,
            bins.row_cells + bins.row_start[b] * width, size * width) == 0

    cdef void scan_features(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil:
        cdef int32_t j
        if self.pairs:
            self.cut_pairs(view, node, features, n)
            return
        for j in range(n):
            self.cuts[features[j]] = self.scan_feature(view, node, features[j], 0)

    cdef void cut_pairs(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil:
        """OUT `cuts`; lists are only made for categories and missing values."""
        cdef ht_pairs pairs
        cdef ht_found found
        cdef intp_t least_rows = max(<intp_t>1, <intp_t>self.rules.min_samples_leaf)
        cdef const uint32_t* rows = &self.rows[node.start]
        cdef int32_t j, f
        cdef Cut* cut
        pairs.stats = self.node_stats
        pairs.sum = view.totals[0]
        pairs.weight = view.totals[1]
        pairs.least_weight = max(self.rules.min_child_weight, DBL_MIN)
        # As in `best_cut`, `cut_fast` and `draw_tied`, twice as wide: what may tie is drawn there.
        pairs.noise = HT_TIE_SQUARES * view.totals[2] / pairs.weight
        pairs.slack = 2 * HT_TIE_CUTS * abs(view.parent_score) / pairs.weight
        pairs.bar = 0
        if self.rules.any_gain:
            pairs.bar = zero_gain(view.parent_score) / pairs.weight
        pairs.first = least_rows - 1
        pairs.last = view.n_rows - least_rows
        for j in range(n):
            f = features[j]
            cut = &self.cuts[f]
            if self.n_categories[f] > 0 or not ht_cut_codes(
                    &pairs, self.codes + f * self.code_stride, rows, view.n_rows,
                    self.missing_code[f], &found):
                cut[0] = SortedSearch.scan_feature(self, view, node, f, 0)
                continue
            cut.gain = found.score * pairs.weight if found.n_left > 0 else -INFINITY
            cut.n_left = found.n_left
            cut.order = 0
            cut.missing_left = 0
            cut.alone = not found.tied
