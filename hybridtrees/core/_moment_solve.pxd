"""Small penalised least-squares problems."""

from hybridtrees.core._types cimport float64_t, int8_t, int32_t

cdef float64_t solve_ridge(
    int32_t n, float64_t* matrix, const float64_t* right, float64_t* coef
) noexcept nogil

cdef float64_t solve_constrained(
    int32_t n, const float64_t* matrix, const float64_t* right, float64_t alpha,
    const int8_t* sign, float64_t* coef,
) noexcept nogil
