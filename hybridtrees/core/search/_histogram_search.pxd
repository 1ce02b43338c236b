"""Splits from histograms of binned features."""

from hybridtrees.core.base._types cimport (
    BinView, SplitInfo, StatsView, float64_t, int32_t, int64_t, intp_t,
    uint8_t,
)
from hybridtrees.core.search._histogram cimport BinnedView, RowStatistics, RowValues
from hybridtrees.core.search._search cimport GrowNode, SplitSearch
from hybridtrees.core.search._split cimport NodeScan


cdef struct NodeSearch:
    # The search of one node.
    int32_t node
    NodeScan scan
    const int32_t* features      # drawn for the node
    int32_t n_features
    const uint8_t* drawn         # the same as flags, NULL: all features of the tree


cdef struct Children:
    # What is done with the histogram of a child: see `finish_features`.
    const BinView* bins
    const StatsView* stats
    const int64_t* summed
    int64_t* rest                # the parent's cells, which become the sibling's; or NULL
    NodeSearch[2] searches
    int32_t n_searches
    float64_t* scratch           # SCAN_WORDS for each thread


cdef class HistogramSearch(SplitSearch):
    cdef BinnedView bins
    cdef RowStatistics statistics
    cdef int64_t[::1] hist_scratch
    cdef float64_t[::1] scan_scratch
    cdef SplitInfo* by_feature               # of two nodes
    cdef uint8_t[::1] is_drawn               # the same
    cdef RowValues values                    # of the current tree
    cdef tuple kept                          # arrays behind `values`
    cdef int allocate_splits(self) except -1
    cdef void set_children(self, int32_t node, intp_t n_left) noexcept nogil
    cdef int histogram_of(self, int32_t node) except -1 nogil
    cdef int sum_rows(self, int32_t node, Children* work) except -1 nogil
    cdef int fill_children(
        self, int32_t node, bint left, bint right, bint scanned
    ) except -1 nogil
    cdef int fill_child(
        self, int32_t node, bint scanned, int32_t sibling, bint sibling_scanned, Children* work
    ) except -1 nogil
    cdef void open_search(self, int32_t node, int32_t lane, NodeSearch* search) noexcept nogil
    cdef void close_searches(self, Children* work) noexcept nogil
    cdef void accept(self, int32_t node) noexcept nogil
    cdef void search(self, int32_t node) noexcept nogil
    cdef bint is_pure(self, const GrowNode* node) noexcept nogil
    cdef float64_t value_of(self, int32_t node) noexcept nogil
    cdef bint any_missing(self, const GrowNode* node) noexcept nogil
