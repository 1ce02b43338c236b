"""Linear models in the nodes of linear trees: sums of products, and fits from them."""

from hybridtrees.core.base._types cimport float64_t, int32_t, intp_t, uint32_t
from hybridtrees.core.search._linear_kernels cimport LinearRules


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
