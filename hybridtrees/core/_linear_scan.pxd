"""Candidate cuts of one feature, by the loss of linear models on both sides."""

from hybridtrees.core._linear_problem cimport LinearProblem
from hybridtrees.core._types cimport SplitInfo, float64_t, int32_t, intp_t, uint8_t, uint32_t
from hybridtrees.core._views cimport BinnedView


cdef struct ScanNode:
    # A node whose features are searched.
    const float64_t* total     # its sums of products
    float64_t* coef            # its own fit, (n_targets, n_columns)
    float64_t loss             # of that fit
    float64_t least_rows       # of a child
    float64_t least_weight
    float64_t least_gain       # a split must gain more


cdef class LinearScan:
    cdef BinnedView bins
    cdef LinearProblem problem
    cdef intp_t most_cells
    cdef float64_t[:, ::1] sums            # by thread: left sums of the cuts, and a running one
    cdef float64_t[:, ::1] losses          # by thread: left and right losses of the cuts
    cdef float64_t[:, ::1] scratch
    cdef void collect(
        self, int32_t feature, const uint32_t* rows, intp_t n, float64_t* cells) noexcept nogil
    cdef void fit(self, ScanNode* at) noexcept nogil
    cdef float64_t variation(self, const float64_t* total) noexcept nogil
    cdef void search(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
        SplitInfo* out, intp_t n_kept) noexcept nogil
    cdef void search_order(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
        const int32_t* order, int32_t n, SplitInfo* out, intp_t n_kept) noexcept nogil
    cdef int32_t list_cuts(
        self, const ScanNode* at, const float64_t* cells, const float64_t* before, int thread,
        const int32_t* order, int32_t n, int32_t* cuts) noexcept nogil
    cdef void order_categories(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int target,
        int32_t* order) noexcept nogil
    cdef void fill_split(
        self, int32_t feature, const float64_t* cells, const int32_t* order, int32_t cut,
        bint left_is_larger, SplitInfo* split) noexcept nogil
