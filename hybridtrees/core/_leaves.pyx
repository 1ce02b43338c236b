"""Passes over the rows of a grown tree's leaves.

A leaf's rows are cut into blocks of a fixed size. Partial sums of blocks are added in order, so
a sum is the same number for any number of threads. A thread is not woken for less than four
blocks.
"""

from cython.parallel cimport prange

from hybridtrees.core._targets cimport add_row
from hybridtrees.core._types cimport TargetView, float32_t, float64_t, intp_t, uint32_t

import numpy as np


cdef intp_t[:, ::1] cut_in_blocks(intp_t[:, ::1] leaves):
    """From (node, start, stop) of leaves to the same of blocks."""
    cdef intp_t k, start, n_blocks = 0
    for k in range(leaves.shape[0]):
        n_blocks += (leaves[k, 2] - leaves[k, 1] + SUM_BLOCK - 1) // SUM_BLOCK
    cdef intp_t[:, ::1] blocks = np.empty((n_blocks, 3), dtype=np.intp)
    n_blocks = 0
    for k in range(leaves.shape[0]):
        start = leaves[k, 1]
        while start < leaves[k, 2]:
            blocks[n_blocks, 0] = leaves[k, 0]
            blocks[n_blocks, 1] = start
            blocks[n_blocks, 2] = min(start + SUM_BLOCK, leaves[k, 2])
            start += SUM_BLOCK
            n_blocks += 1
    return blocks


cdef void sum_rows(
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    const uint32_t* rows, intp_t start, intp_t stop, float64_t* out,
) noexcept nogil:
    cdef intp_t i
    cdef float64_t total_grad = 0, total_hess = 0
    for i in range(start, stop):
        total_grad += grad[rows[i]]
    if hess != NULL:
        for i in range(start, stop):
            total_hess += hess[rows[i]]
    else:
        total_hess = constant_hess * (stop - start)
    out[0] = total_grad
    out[1] = total_hess


cdef int sum_leaves(
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    const uint32_t* rows, intp_t[:, ::1] blocks, float64_t[:, ::1] sums, int n_threads,
) except -1:
    """Float64 sums of grad and hess over each leaf, added to sums[node]."""
    cdef intp_t block, n_blocks = blocks.shape[0]
    cdef float64_t[:, ::1] partial = np.empty((n_blocks, 2))
    n_threads = <int>max(1, min(n_threads, n_blocks // 4))
    with nogil:
        for block in prange(n_blocks, num_threads=n_threads, schedule="dynamic",
                            chunksize=4):
            sum_rows(grad, hess, constant_hess, rows, blocks[block, 1], blocks[block, 2],
                     &partial[block, 0])
    for block in range(n_blocks):
        sums[blocks[block, 0], 0] += partial[block, 0]
        sums[blocks[block, 0], 1] += partial[block, 1]
    return 0


cdef void add_to_rows(
    float64_t* raw, intp_t stride, const uint32_t* rows, intp_t start, intp_t stop,
    float64_t value,
) noexcept nogil:
    cdef intp_t i
    cdef float64_t* target
    for i in range(start, stop):
        target = <float64_t*>(<char*>raw + rows[i] * stride)
        target[0] += value


cdef int add_to_leaves(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] blocks, float64_t[:] raw,
    int n_threads,
) except -1:
    """raw[row] += values[node of the row's leaf]."""
    cdef intp_t block, n_blocks = blocks.shape[0]
    n_threads = <int>max(1, min(n_threads, n_blocks // 4))
    with nogil:
        for block in prange(n_blocks, num_threads=n_threads, schedule="dynamic",
                            chunksize=4):
            add_to_rows(&raw[0], raw.strides[0], rows, blocks[block, 1], blocks[block, 2],
                        values[blocks[block, 0]])
    return 0


cdef void sum_target_rows(
    const TargetView* target, const uint32_t* rows, intp_t start, intp_t stop, float64_t* out
) noexcept nogil:
    cdef intp_t i
    for i in range(start, stop):
        add_row(target, target.data + <intp_t>rows[i] * target.width, out)


cdef int sum_targets(
    const TargetView* target, const uint32_t* rows, intp_t[:, ::1] blocks,
    float64_t[:, ::1] sums, int n_threads,
) except -1:
    """Sums and weight of the targets of each node's rows, added to sums[node]."""
    cdef intp_t block, n_blocks = blocks.shape[0], k, n = target.n_sums + 1
    cdef float64_t[:, ::1] partial = np.zeros((n_blocks, n))
    n_threads = <int>max(1, min(n_threads, n_blocks // 4))
    with nogil:
        for block in prange(n_blocks, num_threads=n_threads, schedule="dynamic",
                            chunksize=4):
            sum_target_rows(target, rows, blocks[block, 1], blocks[block, 2], &partial[block, 0])
    for block in range(n_blocks):
        for k in range(n):
            sums[blocks[block, 0], k] += partial[block, k]
    return 0
