"""Drawn thresholds: one of each feature at random (Geurts, Ernst and Wehenkel 2006)."""

from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._types cimport (
    HT_ALL_KEYS, HT_MISSING_KEY, MISSING_STAYS, N_CODES, POISSON, STREAM_CUT, TARGET_UNWEIGHTED,
    BinView, SortedEntry, TargetView, float64_t, int32_t, int64_t, int8_t, intp_t, uint32_t,
    uint8_t,
)
from hybridtrees.core.search._criteria cimport (
    Cut, NodeView, add_row, best_cut, no_cut, side_score,
)
from hybridtrees.core.search._search cimport GrowNode, SplitSearch
from hybridtrees.core.search._sorted_search cimport SmallNodeSearch, SortedSearch, reorder_list
from hybridtrees.core.search._split cimport larger_left


cdef class DrawnSearch(SmallNodeSearch):
    """Searches whole trees of binned features on one thread; other parameters as there.

    `bin_values` are the smallest and the largest value of each bin, and the middles between these,
    (n_features, 256) each.
    """

    cdef const float64_t[:, ::1] least
    cdef const float64_t[:, ::1] largest
    cdef const float64_t[:, ::1] middle
    cdef uint8_t* copy                # codes of a node's rows
    cdef bint plain                   # squared error of rows of weight 1

    def __init__(self, n_features, n_rows, n_categories, params, n_sums, width, bin_values):
        SmallNodeSearch.__init__(self, n_features, n_rows, n_categories, params, n_sums, width)
        self.least, self.largest, self.middle = bin_values
        self.copy = <uint8_t*>self.buffer(n_rows)
        for values in bin_values:
            if values.shape != (n_features, N_CODES):
                raise ValueError("the values of the bins do not fit the table")

    cdef int take_codes(
        self, SplitSearch whole, const BinView* bins, const GrowNode* node
    ) except -1 nogil:
        SmallNodeSearch.take_codes(self, whole, bins, node)
        self.plain = self.pairs and self.target.layout == TARGET_UNWEIGHTED
        return 0

    # ---- the threshold ------------------------------------------------------------------------

    cdef float64_t draw(self, const GrowNode* node, int32_t feature) noexcept nogil:
        return uniform(keyed(node.key, STREAM_CUT, feature))

    cdef int32_t draw_code(
        self, const GrowNode* node, int32_t feature, int32_t low, int32_t high,
        float64_t* threshold,
    ) noexcept nogil:
        """The last code that goes left, if the codes of the node are `low` to `high` > `low`.

        OUT the threshold: uniform between the smallest and the largest value of the node, where the
        rows of a bin have the middle of its values, and then moved out of the values of a bin.
        """
        cdef const float64_t* middle = &self.middle[feature, 0]
        cdef float64_t share = self.draw(node, feature)
        cdef float64_t value = middle[low] + share * (middle[high] - middle[low])
        # The bins have about as many rows each, so that this is near.
        cdef int32_t last = low + <int32_t>(share * (high - low))
        while last > low and middle[last] > value:
            last -= 1
        while last + 1 < high and middle[last + 1] <= value:
            last += 1
        value = max(value, self.largest[feature, last])
        threshold[0] = value if value < self.least[feature, last + 1] else (
            self.largest[feature, last])
        return last

    cdef void find_range(
        self, const GrowNode* node, int32_t feature, uint8_t* copy, int32_t* low, int32_t* high
    ) noexcept nogil:
        """OUT the codes of a node's rows, the smallest and the largest of them."""
        cdef const uint8_t* codes = self.codes + feature * self.code_stride
        cdef const uint32_t* rows = &self.rows[node.start]
        cdef intp_t i, n = node.stop - node.start
        cdef uint8_t least = 255, most = 0, code
        for i in range(n):
            code = codes[rows[i]]
            copy[i] = code
            least = min(least, code)
            most = max(most, code)
        low[0] = least
        high[0] = most

    # ---- cuts ---------------------------------------------------------------------------------

    cdef Cut scan_feature(
        self, const NodeView* view, const GrowNode* node, int32_t feature, int thread
    ) noexcept nogil:
        cdef int32_t low, high, last
        cdef intp_t n = node.stop - node.start
        cdef float64_t threshold
        cdef Cut cut = no_cut()
        cut.alone = True
        if self.n_categories[feature] > 0:
            return self.scan_categories(view, node, feature)
        self.find_range(node, feature, self.copy, &low, &high)
        if low == high:
            return cut
        if high == self.missing_code[feature]:
            return self.scan_missing(view, node, feature)
        last = self.draw_code(node, feature, low, high, &threshold)
        if self.plain:
            self.cut_units(view, n, <uint8_t>last, &cut)
        elif self.rules.monotone == NULL and self.rules.criterion != POISSON:
            self.cut_sums(view, node, <uint8_t>last, &cut)
        else:
            return self.scan_two(view, node, feature, last)
        return cut

    cdef void cut_units(
        self, const NodeView* view, intp_t n, uint8_t last, Cut* cut
    ) noexcept nogil:
        """Cut rows of weight 1, of codes `copy`, after a code; squared error."""
        cdef float64_t[4] sums
        cdef float64_t left, d, mean = view.totals[0] / view.totals[1]
        cdef const float64_t* y = self.node_stats      # pairs with the weights
        cdef const uint8_t* codes = self.copy
        cdef intp_t i = 0, k, n_left = 0
        cdef int32_t goes_left
        # Four sums in a fixed order: their additions need not wait for each other.
        sums[0] = sums[1] = sums[2] = sums[3] = 0
        while i + 4 <= n:
            for k in range(4):
                goes_left = codes[i + k] <= last
                n_left += goes_left
                sums[k] += y[2 * (i + k)] * goes_left     # without a branch
            i += 4
        while i < n:
            goes_left = codes[i] <= last
            n_left += goes_left
            sums[0] += y[2 * i] * goes_left
            i += 1
        if min(n_left, n - n_left) < max(1, self.rules.min_samples_leaf) or (
                min(n_left, n - n_left) < self.rules.min_child_weight):
            return
        left = (sums[0] + sums[1]) + (sums[2] + sums[3])
        d = left - mean * n_left
        cut.gain = d * d * n / (<float64_t>n_left * (n - n_left))
        cut.n_left = n_left

    cdef void cut_sums(
        self, const NodeView* view, const GrowNode* node, uint8_t last, Cut* cut
    ) noexcept nogil:
        """Cut rows of codes `copy` after a code, by the sums of the left side."""
        cdef const TargetView* target = &self.target
        cdef const uint32_t* rows = &self.rows[node.start]
        cdef int32_t k, n_sums = target.n_sums
        cdef float64_t* left = self.scratch[0].sides
        cdef float64_t* right = left + n_sums + 2
        cdef intp_t i, n = node.stop - node.start, n_left = 0
        memset(left, 0, (n_sums + 2) * sizeof(float64_t))
        for i in range(n):
            if self.copy[i] <= last:
                add_row(target, target.data + <intp_t>rows[i] * target.width, left)
                n_left += 1
        for k in range(n_sums + 1):
            right[k] = view.totals[k] - left[k]
        if min(n_left, n - n_left) < max(1, self.rules.min_samples_leaf) or (
                min(left[n_sums], right[n_sums]) < self.rules.min_child_weight):
            return
        cut.gain = (side_score(target, &self.rules, left, NULL)
                    + side_score(target, &self.rules, right, NULL) - view.parent_score)
        cut.n_left = n_left

    cdef Cut scan_two(
        self, const NodeView* view, const GrowNode* node, int32_t feature, int32_t last
    ) noexcept nogil:
        """The cut after a code, as the only one of a list with two keys; -1: no code goes left."""
        cdef const uint8_t* codes = self.codes + feature * self.code_stride
        cdef int32_t missing_code = self.missing_code[feature], code
        cdef SortedEntry* list = self.scratch[0].entries
        cdef intp_t i, n = node.stop - node.start
        cdef intp_t[3] place
        cdef uint32_t[3] key
        cdef int8_t monotone = self.rules.monotone[feature] if self.rules.monotone != NULL else 0
        cdef int part
        cdef Cut cut
        key[0] = 0
        key[1] = 1
        key[2] = HT_MISSING_KEY
        memset(place, 0, sizeof(place))
        for i in range(node.start, node.stop):
            code = codes[self.rows[i]]
            place[1] += code <= last and code != missing_code
            place[2] += code != missing_code
        for i in range(node.start, node.stop):
            code = codes[self.rows[i]]
            part = 2 if code == missing_code else code > last
            list[place[part]].key = key[part]
            list[place[part]].row = self.rows[i]
            place[part] += 1
        cut = best_cut(&self.target, &self.rules, view, list, n, monotone, False, self.scratch)
        cut.alone = True
        return cut

    cdef Cut scan_missing(
        self, const NodeView* view, const GrowNode* node, int32_t feature
    ) noexcept nogil:
        """The drawn cut of a feature with missing values, or that between these and all others."""
        cdef float64_t threshold
        return self.scan_two(view, node, feature, self.redraw(node, feature, &threshold))

    cdef int32_t redraw(
        self, const GrowNode* node, int32_t feature, float64_t* threshold
    ) noexcept nogil:
        """`draw_code` for all rows that are not missing; with one code, that code and infinity."""
        cdef const uint8_t* codes = self.codes + feature * self.code_stride
        cdef int32_t low = 256, high = -1, code
        cdef intp_t i
        for i in range(node.start, node.stop):
            code = codes[self.rows[i]]
            if code != self.missing_code[feature]:
                low = min(low, code)
                high = max(high, code)
        if low < high:
            return self.draw_code(node, feature, low, high, threshold)
        threshold[0] = INFINITY
        return high

    cdef Cut scan_categories(
        self, const NodeView* view, const GrowNode* node, int32_t feature
    ) noexcept nogil:
        """A drawn place in the order of the categories' responses."""
        cdef const SortedEntry* entries = self.entries_of(node, feature)
        cdef SortedEntry* list = self.scratch[0].entries
        cdef intp_t i, n = node.stop - node.start, n_groups = 0
        cdef uint32_t last
        cdef Cut cut = no_cut()
        if entries[0].key == entries[n - 1].key:
            return cut
        reorder_list(&self.target, &self.rules, self.n_categories[feature], entries, n, 0,
                     self.scratch[0].sides, self.scratch[0].response,
                     self.scratch[0].category_start, list)
        for i in range(n):
            if list[i].key != HT_MISSING_KEY:
                n_groups = list[i].key + 1
        last = <uint32_t>(self.draw(node, feature) * (n_groups - 1))
        for i in range(n):
            if list[i].key != HT_MISSING_KEY:
                list[i].key = list[i].key > last
        cut = best_cut(&self.target, &self.rules, view, list, n, 0, False, self.scratch)
        cut.alone = True
        return cut

    cdef void scan_features(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil:
        cdef int32_t j
        for j in range(n):
            self.cuts[features[j]] = self.scan_feature(view, node, features[j], 0)

    cdef int set_split(
        self, const NodeView* view, int32_t node, int32_t feature, Cut cut
    ) except -1 nogil:
        """Write the split of a cut, with its threshold."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef float64_t threshold
        cdef int32_t low, high, last
        cdef intp_t size = n.stop - n.start
        if self.n_categories[feature] > 0:
            return SortedSearch.set_split(self, view, node, feature, cut)
        self.find_range(n, feature, self.copy, &low, &high)
        n.split.gain = cut.gain
        n.split.feature = feature
        n.split.is_categorical = False
        n.split.low_row = n.split.high_row = self.rows[n.start]
        n.split.missing_left = cut.missing_left
        if high == self.missing_code[feature]:
            last = self.redraw(n, feature, &threshold)
            if self.values_stay_left(n, feature, cut):
                threshold = INFINITY
                last = high - 1
        else:
            last = self.draw_code(n, feature, low, high, &threshold)
            n.split.missing_left = larger_left(<int64_t>cut.n_left, <int64_t>size)
        if self.rules.stop_missing:
            n.split.missing_left = MISSING_STAYS
        n.split.key = HT_ALL_KEYS if threshold == INFINITY else <uint32_t>last
        memcpy(n.split.categories, &threshold, sizeof(float64_t))
        return 0

    cdef bint values_stay_left(
        self, const GrowNode* node, int32_t feature, Cut cut
    ) noexcept nogil:
        """Whether a cut is that between all values and the missing ones."""
        cdef const uint8_t* codes = self.codes + feature * self.code_stride
        cdef intp_t i, n_present = 0
        for i in range(node.start, node.stop):
            n_present += codes[self.rows[i]] != self.missing_code[feature]
        return cut.n_left == n_present
