"""Splits from sorted lists of rows: every threshold, no binning."""

from hybridtrees.core.base._types cimport (
    BinView, SortedEntry, SplitRules, TargetView, float64_t, int32_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._criteria cimport Cut, NodeView, ScanScratch
from hybridtrees.core.search._search cimport GrowNode, SplitSearch


cdef intp_t reorder_list(
    const TargetView* target, const SplitRules* rules, int32_t n_categories,
    const SortedEntry* entries, intp_t n, int32_t output, float64_t* sums,
    float64_t* response, uint32_t* start, SortedEntry* out,
) noexcept nogil


cdef class SortedLists(SplitSearch):
    cdef object keep                  # arrays behind the pointers below
    cdef SortedEntry* master          # lists of the table that trees copy, or NULL
    cdef SortedEntry* lists           # lists of the nodes
    cdef SortedEntry** list_scratch   # one list per thread
    cdef intp_t stride                # rows of a list
    cdef int32_t n_lists              # features, then one list per output (ABSOLUTE)
    cdef const int32_t* n_categories  # 0: numeric
    cdef uint8_t* side                # of each row: see `mark_sides`
    cdef uint32_t* local_id           # number of each row in its subtree task
    cdef float64_t* totals            # of the current node
    cdef float64_t* own_target        # targets of a subtree task
    cdef void* buffer(self, intp_t n_bytes) except NULL
    cdef void fill_list(self, int32_t k) noexcept nogil
    cdef bint sum_node(self, const GrowNode* node) noexcept nogil
    cdef void mark_sides(self, const GrowNode* node) noexcept nogil
    cdef void divide_lists(
        self, const GrowNode* node, int32_t first, int32_t last
    ) noexcept nogil
    cdef float64_t value_of(self, const GrowNode* node) noexcept nogil
    cdef int take_lists(self, SortedLists whole, const GrowNode* node) except -1 nogil
    cdef int take_rows(self, SplitSearch whole, const GrowNode* node) except -1 nogil


cdef class SortedSearch(SortedLists):
    cdef uint32_t* y_place
    cdef float64_t* y_tree
    cdef ScanScratch* scratch         # one per thread
    cdef Cut* cuts                    # of each feature
    cdef bint draws_cuts              # whether one of equal thresholds is drawn
    cdef const SortedEntry* entries_of(self, const GrowNode* node, int32_t feature) noexcept nogil
    cdef Cut scan_feature(
        self, const NodeView* view, const GrowNode* node, int32_t feature, int thread
    ) noexcept nogil
    cdef void scan_features(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil
    cdef int32_t best_feature(
        self, const GrowNode* node, const int32_t* features, int32_t n, float64_t margin
    ) noexcept nogil
    cdef int32_t first_that_cuts(self, const NodeView* view, int32_t node) noexcept nogil
    cdef int search(self, int32_t node) except -1 nogil
    cdef int set_split(
        self, const NodeView* view, int32_t node, int32_t feature, Cut cut
    ) except -1 nogil
    cdef bint left_is_larger(
        self, const SortedEntry* entries, intp_t n_left, intp_t n
    ) noexcept nogil
    cdef int set_categories(self, int32_t node, bint others_left, intp_t n_left) except -1 nogil


cdef class SmallNodeSearch(SortedSearch):
    cdef uint8_t* codes               # of the task's rows, feature by feature
    cdef intp_t code_stride           # from one feature to the next
    cdef const int32_t* missing_code  # of each feature
    cdef const BinView* bins          # the table
    cdef const uint32_t* origin       # rows of the task in the table
    cdef float64_t* node_stats        # targets of the node's rows, contiguous
    cdef bint pairs                   # whether the kernels for pairs apply
    cdef void take_entries(self, intp_t n) noexcept nogil
    cdef bint same_codes(self, uint32_t one, uint32_t other) noexcept nogil
    cdef void cut_pairs(
        self, const NodeView* view, const GrowNode* node, const int32_t* features, int32_t n
    ) noexcept nogil
