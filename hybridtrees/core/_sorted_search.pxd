"""Splits from sorted lists of rows."""

from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._sorted_lists cimport SortedLists
from hybridtrees.core._sorted_scan cimport Cut, NodeView, ScanScratch
from hybridtrees.core._types cimport Entry, float64_t, int32_t, intp_t, uint32_t


cdef class SortedSearch(SortedLists):
    cdef uint32_t* y_place
    cdef float64_t* y_tree
    cdef ScanScratch* scratch         # one per thread
    cdef Cut* cuts                    # of each feature
    cdef const Entry* entries_of(self, const GrowNode* node, int32_t feature) noexcept nogil
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
    cdef bint larger_left(self, const Entry* entries, intp_t n_left, intp_t n) noexcept nogil
    cdef int set_categories(self, int32_t node, bint others_left, intp_t n_left) except -1 nogil
