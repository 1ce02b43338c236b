"""Splits from histograms of binned features."""

from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._pool cimport HistogramPool
from hybridtrees.core._search cimport SplitSearch
from hybridtrees.core._statistics cimport RowStatistics
from hybridtrees.core._types cimport SplitInfo, float32_t, float64_t, int32_t, int64_t, intp_t
from hybridtrees.core._views cimport BinnedView


cdef class HistogramSearch(SplitSearch):
    cdef BinnedView bins
    cdef RowStatistics statistics
    cdef HistogramPool pool
    cdef int64_t[::1] hist_scratch
    cdef float64_t[::1] scan_scratch
    cdef SplitInfo* by_feature
    cdef const float32_t[::1] grad
    cdef const float32_t[::1] hess
    cdef float64_t constant_hess
    cdef int take_slot(self) except -1 nogil
    cdef int histogram_of(self, int32_t node) except -1 nogil
    cdef int child_histograms(self, int32_t node, bint left, bint right) except -1 nogil
    cdef void search(self, int32_t node, int32_t lane, int n_threads) noexcept nogil
    cdef bint is_pure(self, const GrowNode* node) noexcept nogil
    cdef float64_t value_of(self, int32_t node) noexcept nogil
    cdef bint any_missing(self, const GrowNode* node) noexcept nogil
