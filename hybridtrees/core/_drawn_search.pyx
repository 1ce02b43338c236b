"""Splits of small nodes on few of many features.

Where only some features are drawn at a node, it does not pay to keep the rows in the order of
all of them, as sorted lists do. Here a node keeps its rows alone, and they are brought into the
order of a feature when it is drawn: by comparing all pairs of few rows, by counting the codes of
many. Both leave equal codes in the order of the rows, so the lists, and with them the trees, are
those of the sorted lists.

Of a sum and a weight per row, not even the order is needed: many rows are added up by their codes.
"""

from libc.math cimport INFINITY
from libc.string cimport memcmp

from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._search cimport SplitSearch
from hybridtrees.core._sorted_lists cimport SortedLists
from hybridtrees.core._sorted_scan cimport Cut, NodeView
from hybridtrees.core._sorted_search cimport SortedSearch
from hybridtrees.core._types cimport (
    SQUARES, TARGET_PAIR, TARGET_UNIT,
    BinView, Entry, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)

cdef extern from "drawn_scan.h" nogil:
    ctypedef struct ht_pairs:
        const double* stats
        double sum
        double weight
        double least_weight
        double bar
        double noise
        double slack
        intp_t first
        intp_t last

    ctypedef struct ht_found:
        double score
        intp_t n_left
        bint tied

    void ht_list_codes(
        const uint8_t* codes, const uint32_t* rows, intp_t n, int missing_code, Entry* out)
    bint ht_cut_codes(
        const ht_pairs* node, const uint8_t* codes, const uint32_t* rows, intp_t n,
        int missing_code, ht_found* found)
    bint ht_sum_pairs(
        const double* stats, const uint32_t* rows, intp_t n, double* copy, double* totals)
    bint ht_sum_units(
        const double* stats, const uint32_t* rows, intp_t n, double* copy, double* totals)

cdef enum:
    COPIED_ROWS = 64


cdef class DrawnSearch(SortedSearch):
    """Searches lent nodes of binned features; the parameters are those of the lists.

    It has no lists of a table, and is used by one thread.
    """

    cdef uint8_t* codes               # of the lent rows, feature by feature
    cdef intp_t code_stride           # from one feature to the next
    cdef const int32_t* missing_code  # of each feature
    cdef const uint8_t* records       # codes of the table, row by row
    cdef intp_t record_bytes
    cdef const uint32_t* origin       # rows of the table that were lent
    cdef float64_t* node_stats        # targets of the node, one behind the other
    cdef bint pairs                   # whether the loops made for pairs do

    def __init__(self, n_features, n_rows, n_categories, params, n_sums, width):
        SortedSearch.__init__(self, n_features, n_rows, n_categories, params, 1, n_sums, width,
                              None, False, True)
        self.codes = <uint8_t*>self.buffer(self.n_features * (self.n_rows + 128))
        self.node_stats = <float64_t*>self.buffer(2 * self.n_rows * sizeof(float64_t))

    cdef int take_codes(
        self, SplitSearch lender, const BinView* bins, const GrowNode* node
    ) except -1 nogil:
        cdef int32_t k
        cdef intp_t i, last, first = 0, n = node.stop - node.start
        cdef const uint32_t* rows = &lender.rows[node.start]
        cdef const uint8_t* source
        cdef uint8_t* target
        self.take_rows(lender, node)
        self.pairs = (self.rules.criterion == SQUARES and self.rules.monotone == NULL
                      and self.target.layout in (TARGET_UNIT, TARGET_PAIR))
        self.missing_code = bins.n_bins
        self.records = bins.records
        self.record_bytes = bins.record_bytes
        self.origin = rows
        # An odd number of cache lines: the columns do not compete for the same sets.
        self.code_stride = (n + 63) // 64 * 64 | 64
        # From records, where the codes of a row stand together, some rows at a time: what is read
        # and what is written then stay in the cache.
        while first < n:
            last = min(n, first + COPIED_ROWS)
            for k in range(self.n_features):
                source = bins.records + k
                target = self.codes + k * self.code_stride
                for i in range(first, last):
                    target[i] = source[rows[i] * bins.record_bytes]
            first = last
        return 0

    cdef const Entry* entries_of(self, const GrowNode* node, int32_t feature) noexcept nogil:
        ht_list_codes(self.codes + feature * self.code_stride, &self.rows[node.start],
                      node.stop - node.start, self.missing_code[feature], self.lists)
        return self.lists

    cdef bint sum_node(self, const GrowNode* node) noexcept nogil:
        cdef const uint32_t* rows = &self.rows[node.start]
        cdef intp_t n = node.stop - node.start
        if not self.pairs:
            return SortedLists.sum_node(self, node)
        if self.target.layout == TARGET_UNIT:
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
                # Sets of bins are short enough to be made of bits always.
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
        """As along lists; but where the rows are all alike there is no need to ask by feature."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef const uint8_t* first = self.record_of(self.rows[n.start])
        cdef intp_t i
        for i in range(n.start + 1, n.stop):
            if memcmp(first, self.record_of(self.rows[i]), self.n_features) != 0:
                return SortedSearch.first_that_cuts(self, view, node)
        return -1

    cdef const uint8_t* record_of(self, uint32_t row) noexcept nogil:
        """Codes of a lent row."""
        return self.records + <intp_t>self.origin[row] * self.record_bytes

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
        """Best cuts without lists, but for categories and missing values."""
        cdef ht_pairs pairs
        cdef ht_found found
        cdef intp_t least_rows = max(<intp_t>1, <intp_t>self.rules.min_samples_leaf)
        cdef const uint32_t* rows = &self.rows[node.start]
        cdef int32_t j, f
        cdef Cut* cut
        pairs.stats = self.node_stats
        pairs.sum = view.totals[0]
        pairs.weight = view.totals[1]
        pairs.least_weight = self.rules.min_child_weight
        # The bounds, bars and margins of `best_cut`, `cut_fast` and `draw_tied`.
        pairs.noise = 1e-22 * view.totals[2] / pairs.weight
        pairs.slack = 2e-13 * abs(view.parent_score) / pairs.weight
        pairs.bar = 0
        if self.rules.any_gain:
            pairs.bar = (-1e-9 * abs(view.parent_score) - 1e-300) / pairs.weight
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
