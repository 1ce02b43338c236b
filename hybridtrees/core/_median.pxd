"""Absolute deviations from the median on both sides of every cut."""

from hybridtrees.core._types cimport Entry, TargetView, float64_t, int32_t, intp_t, uint32_t


cdef void order_rows(
    const TargetView* target, int32_t output, const Entry* by_y, intp_t n, uint32_t* place,
    float64_t* tree,
) noexcept nogil

cdef void move_left(
    const float64_t* node_tree, float64_t* left, intp_t n, intp_t place
) noexcept nogil

cdef float64_t left_deviation(
    const float64_t* node_tree, const float64_t* left, intp_t n
) noexcept nogil

cdef float64_t right_deviation(
    const float64_t* node_tree, const float64_t* left, intp_t n
) noexcept nogil

cdef void take_out(float64_t* node_tree, intp_t n, intp_t place) noexcept nogil

cdef float64_t side_median(
    const float64_t* node_tree, const float64_t* left, intp_t n, bint right
) noexcept nogil
