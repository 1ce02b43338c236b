"""Passes over the rows of a grown tree's leaves."""

from hybridtrees.core._types cimport TargetView, float32_t, float64_t, intp_t, uint32_t

cdef enum:
    SUM_BLOCK = 4096      # rows of one partial sum: fixed, so that sums never depend on threads

cdef intp_t[:, ::1] cut_in_blocks(intp_t[:, ::1] leaves)

cdef int sum_leaves(
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    const uint32_t* rows, intp_t[:, ::1] blocks, float64_t[:, ::1] sums, int n_threads,
) except -1

cdef int add_to_leaves(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] blocks, float64_t[:] raw,
    int n_threads, bint ascending,
) except -1

cdef int sum_targets(
    const TargetView* target, const uint32_t* rows, intp_t[:, ::1] blocks,
    float64_t[:, ::1] sums, int n_threads,
) except -1
