"""Linear models in the nodes of linear trees: sums, cuts of a feature, screening."""

from hybridtrees.core.base._types cimport SplitInfo, float64_t, int32_t, intp_t, uint32_t, uint8_t
from hybridtrees.core.search._histogram cimport BinnedView
from hybridtrees.core.search._linear_kernels cimport LinearRules

cdef enum:
    UNDECIDED = 2     # missing_left: no row of the node lacks a value, and sides are not yet known


cdef class LinearProblem:
    cdef LinearRules rules
    cdef readonly object table                # (n_rows, stride): [1, z.., targets..] sqrt(weight)
    cdef float64_t[:, ::1] view
    cdef const float64_t[::1] weight          # of the rows, or None
    cdef readonly int n_padded, cell_size
    cdef int width
    cdef int32_t[::1] at
    cdef float64_t[::1] per_weight, absolute, least, l1_per_weight
    cdef intp_t scratch_size(self) noexcept nogil
    cdef void add_rows(self, const uint32_t* rows, intp_t n, float64_t* cell) noexcept nogil
    cdef void losses(
        self, const float64_t* cells, intp_t stride, const float64_t* total, int n,
        const float64_t* start, float64_t* scratch, float64_t* loss, float64_t* coef,
    ) noexcept nogil


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
    cdef void order_by_residual(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int target,
        int32_t* order) noexcept nogil
    cdef void fill_split(
        self, int32_t feature, const float64_t* cells, const int32_t* order, int32_t cut,
        bint left_is_larger, SplitInfo* split) noexcept nogil


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
