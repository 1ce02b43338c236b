"""Linear models in the nodes of linear trees: sums of products, and fits from them."""

from hybridtrees.core.base._types cimport float64_t, int32_t, intp_t, uint32_t
from hybridtrees.core.search.lines._linear_kernels cimport LinearRules


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
        const float64_t* start, float64_t* scratch, float64_t* left, float64_t* right,
        float64_t* coef,
    ) noexcept nogil


ctypedef struct LogLossFit:
    intp_t n
    const uint32_t* order           # 0, 1, ..: all rows of the table
    float64_t total                 # weight
    float64_t* table                # (n, n_padded): 1, regressors
    float64_t* scaled               # the same times a root of the curvature
    float64_t* cell                 # its sums of products
    float64_t* weight               # (n,)
    float64_t* own                  # (n,): class numbers
    float64_t* by_row               # (n,): scratch
    float64_t* by_column            # (n_padded,): scratch
    float64_t* proba                # (n, n_outputs)
    float64_t* scores               # (n, n_outputs)
    float64_t* hess                 # (size, size)
    float64_t* factor               # its Cholesky factor
    # (size,): outputs of n_columns each
    float64_t* grad
    float64_t* step
    float64_t* trial
    float64_t* ridge
    float64_t* unit
    float64_t* spread               # (n_columns,)
    float64_t* shares               # (n_classes,)
    float64_t* theta
    float64_t log_loss              # summed, at the last coefficients that were scored
    bint scored                     # whether these are `theta`


cdef class LogLossNodes:
    cdef const float64_t[:, ::1] regressors
    cdef const int32_t[::1] codes
    cdef const float64_t[::1] weight     # or None
    cdef const float64_t[::1] units      # or None
    cdef int n_classes, n_outputs, n_columns, n_padded, size, width, criterion
    cdef double l2, jitter, constant
    cdef bint by_sum
    cdef float64_t[::1] scratch
    cdef uint32_t[::1] numbers           # 0, 1, ..
    cdef void place(self, intp_t n, LogLossFit* fit)
    cdef int load(self, LogLossFit* fit, const uint32_t* rows) noexcept nogil
    cdef void start_at_shares(self, LogLossFit* fit) noexcept nogil
    cdef float64_t score(self, LogLossFit* fit, const float64_t* theta) noexcept nogil
    cdef void differentiate(self, LogLossFit* fit) noexcept nogil
    cdef void slope(self, LogLossFit* fit, int a) noexcept nogil
    cdef void block(self, LogLossFit* fit, int a, int b) noexcept nogil
    cdef void anchor(self, LogLossFit* fit) noexcept nogil
    cdef int direction(self, LogLossFit* fit) noexcept nogil
    cdef int newton(
        self, LogLossFit* fit, double tol, int max_iter, double rough
    ) noexcept nogil
    cdef void drop_constants(self, LogLossFit* fit) noexcept nogil
    cdef float64_t loss_of(self, LogLossFit* fit) noexcept nogil
