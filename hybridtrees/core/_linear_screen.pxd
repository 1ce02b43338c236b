"""A quick look at features, before some of them are searched in full."""

from hybridtrees.core._linear_problem cimport LinearProblem
from hybridtrees.core._linear_scan cimport ScanNode
from hybridtrees.core._types cimport float64_t, int32_t, intp_t, uint32_t
from hybridtrees.core._views cimport BinnedView


cdef class LinearScreen:
    cdef BinnedView bins
    cdef LinearProblem problem
    cdef intp_t stride                     # doubles of the sums of a bin
    cdef intp_t most_cells
    cdef readonly int32_t chunk            # features that pass over the rows together
    cdef float64_t[::1] factor             # Cholesky factor of the node's products
    cdef float64_t[::1] residual           # of the node's rows, times the root of their weights
    cdef float64_t[:, ::1] sums            # by thread: of every bin of the features of a chunk
    cdef float64_t[:, ::1] moved           # by thread: sums left of the cuts, cuts side by side
    cdef void begin(self, const ScanNode* at) noexcept nogil
    cdef void take_residuals(
        self, const ScanNode* at, int target, const uint32_t* rows, intp_t n) noexcept nogil
    cdef void score(
        self, const ScanNode* at, const uint32_t* rows, intp_t n, const int32_t* features,
        int32_t n_features, int thread, float64_t* scores) noexcept nogil
    cdef float64_t best_cut(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
    ) noexcept nogil
