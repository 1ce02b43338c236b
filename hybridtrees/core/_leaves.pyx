"""Passes over the rows of a grown tree's leaves.

A leaf's rows are cut into blocks of a fixed size. Partial sums of blocks are added in order, so
a sum is the same number for any number of threads. A thread is not woken for less than four
blocks.

The rows of a leaf lie all over the table. Blocks are therefore visited by where they begin in the
table and not leaf by leaf: what one leaf has brought into the caches serves the others, and two
threads work in different parts of the table.
"""

from cython.parallel cimport prange
from libc.string cimport memset

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._targets cimport add_row
from hybridtrees.core._team cimport team_of, threads_for
from hybridtrees.core._types cimport TargetView, float32_t, float64_t, intp_t, uint32_t

import numpy as np

cdef enum:
    PLACES = 1024         # parts of the table that blocks are sorted by
    ADD_BLOCK = 512       # rows of a leaf that are added to at once
    WINDOW_ROWS = 8192    # rows of the table whose scores the nearer caches hold
    LEAF_ROWS = 64        # rows of a leaf in a window, on average, that make up for finding them
    CHAINS = 4            # sums that do not wait for each other


cdef intp_t[:, ::1] cut_in_blocks(intp_t[:, ::1] leaves):
    """From (node, start, stop) of leaves to the same of blocks."""
    return cut(leaves, SUM_BLOCK)


cdef intp_t[:, ::1] cut(intp_t[:, ::1] leaves, intp_t size):
    cdef intp_t k, start, n_blocks = 0
    for k in range(leaves.shape[0]):
        n_blocks += (leaves[k, 2] - leaves[k, 1] + size - 1) // size
    cdef intp_t[:, ::1] blocks = np.empty((n_blocks, 3), dtype=np.intp)
    n_blocks = 0
    for k in range(leaves.shape[0]):
        start = leaves[k, 1]
        while start < leaves[k, 2]:
            blocks[n_blocks, 0] = leaves[k, 0]
            blocks[n_blocks, 1] = start
            blocks[n_blocks, 2] = min(start + size, leaves[k, 2])
            start += size
            n_blocks += 1
    return blocks


cdef intp_t[::1] by_place(const uint32_t* rows, intp_t[:, ::1] blocks):
    """Numbers of the blocks in the order of their first rows, roughly."""
    cdef intp_t n = blocks.shape[0], k
    cdef uint32_t place, largest = 0
    cdef int shift = 0
    cdef intp_t[::1] order = np.empty(n, dtype=np.intp)
    cdef intp_t[PLACES + 1] before
    memset(before, 0, sizeof(before))
    for k in range(n):
        largest = max(largest, rows[blocks[k, 1]])
    while largest >> shift >= PLACES:
        shift += 1
    for k in range(n):
        before[(rows[blocks[k, 1]] >> shift) + 1] += 1
    for k in range(PLACES):
        before[k + 1] += before[k]
    for k in range(n):
        place = rows[blocks[k, 1]] >> shift
        order[before[place]] = k
        before[place] += 1
    return order


cdef void sum_blocks(
    const float32_t* values, const uint32_t* rows, const intp_t[:, ::1] blocks,
    const intp_t* order, intp_t n_blocks, float64_t* partial,
) noexcept nogil:
    """Sums over up to `CHAINS` blocks at the same time, each in the order of its rows.

    An addition waits for the one before it, so that several sums take the time of one.
    """
    cdef const uint32_t* at[CHAINS]
    cdef intp_t size[CHAINS]
    cdef float64_t total[CHAINS]
    cdef intp_t i, j, common = SUM_BLOCK
    for j in range(CHAINS):
        total[j] = 0
        # Where there are fewer blocks the first is summed again, for nothing.
        at[j] = rows + blocks[order[j if j < n_blocks else 0], 1]
        size[j] = blocks[order[j if j < n_blocks else 0], 2] - (at[j] - rows)
        common = min(common, size[j])
    for i in range(common):
        for j in range(CHAINS):
            total[j] += values[at[j][i]]
    for j in range(n_blocks):
        for i in range(common, size[j]):
            total[j] += values[at[j][i]]
        partial[2 * order[j]] = total[j]


cdef int sum_leaves(
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    const uint32_t* rows, intp_t[:, ::1] blocks, float64_t[:, ::1] sums, int n_threads,
) except -1:
    """Float64 sums of grad and hess over each leaf, added to sums[node]."""
    cdef intp_t block, group, n_blocks = blocks.shape[0], n_rows = 0
    cdef intp_t n_groups = (n_blocks + CHAINS - 1) // CHAINS
    cdef float64_t[:, ::1] partial = np.empty((n_blocks, 2))
    cdef intp_t[::1] order = by_place(rows, blocks)
    for block in range(n_blocks):
        n_rows += blocks[block, 2] - blocks[block, 1]
    n_threads = threads_for(<int>min(n_threads, n_groups), n_rows, 4 * SUM_BLOCK)
    with nogil:
        for group in prange(n_groups, num_threads=team_of(n_threads), schedule="dynamic"):
            sum_blocks(grad, rows, blocks, &order[CHAINS * group],
                       min(CHAINS, n_blocks - CHAINS * group), &partial[0, 0])
            if hess != NULL:
                sum_blocks(hess, rows, blocks, &order[CHAINS * group],
                           min(CHAINS, n_blocks - CHAINS * group), &partial[0, 1])
        for block in range(n_blocks):
            if hess == NULL:
                partial[block, 1] = constant_hess * (blocks[block, 2] - blocks[block, 1])
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


cdef intp_t[:, ::1] join_blocks(intp_t[:, ::1] blocks):
    """From (node, start, stop) of blocks back to those of leaves."""
    cdef intp_t j, k, n = 0
    cdef intp_t[:, ::1] leaves = np.empty((blocks.shape[0], 3), dtype=np.intp)
    for k in range(blocks.shape[0]):
        if n > 0 and leaves[n - 1, 0] == blocks[k, 0] and leaves[n - 1, 2] == blocks[k, 1]:
            leaves[n - 1, 2] = blocks[k, 2]
        else:
            for j in range(3):
                leaves[n, j] = blocks[k, j]
            n += 1
    return leaves[:n]


cdef intp_t first_from(
    const uint32_t* rows, intp_t start, intp_t stop, intp_t least
) noexcept nogil:
    """Place of the first of some ascending ids that is not below `least`."""
    cdef intp_t middle
    while start < stop:
        middle = (start + stop) >> 1
        if <intp_t>rows[middle] < least:
            start = middle + 1
        else:
            stop = middle
    return start


cdef intp_t add_below(
    float64_t* raw, intp_t stride, const uint32_t* rows, intp_t start, intp_t stop, intp_t limit,
    float64_t value,
) noexcept nogil:
    """Add to ascending rows as far as they are below a limit; returns the place of the next."""
    cdef float64_t* target
    while start < stop and <intp_t>rows[start] < limit:
        target = <float64_t*>(<char*>raw + rows[start] * stride)
        target[0] += value
        start += 1
    return start


cdef void add_to_windows(
    const float64_t* values, const uint32_t* rows, const intp_t[:, ::1] leaves, float64_t* raw,
    intp_t stride, intp_t window, intp_t first, intp_t last, intp_t* at,
) noexcept nogil:
    """Add to the rows [first, last) of the table, one window of them after the other.

    `at` is scratch, one number per leaf.
    """
    cdef intp_t k
    for k in range(leaves.shape[0]):
        at[k] = first_from(rows, leaves[k, 1], leaves[k, 2], first)
    while first < last:
        first = min(first + window, last)
        for k in range(leaves.shape[0]):
            at[k] = add_below(raw, stride, rows, at[k], leaves[k, 2], first,
                              values[leaves[k, 0]])


cdef int add_to_leaves(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] blocks, float64_t[:] raw,
    int n_threads, bint ascending,
) except -1:
    """raw[row] += values[node of the row's leaf].

    Neighbours in the table belong to different leaves and share a cache line. So threads do not
    share leaves but the table: a thread adds to all rows of a window, whatever their leaf. This
    takes ids that ascend within a leaf, which `ascending` says, and leaves that are not too many.
    """
    cdef intp_t first, n = raw.shape[0], n_leaves, window, part
    cdef intp_t[:, ::1] leaves
    cdef intp_t[:, ::1] at
    n_threads = threads_for(n_threads, n, 4 * SUM_BLOCK)
    if n_threads == 1 or not ascending:
        return add_to_blocks(values, rows, blocks, raw, n_threads)
    leaves = join_blocks(blocks)
    n_leaves = leaves.shape[0]
    window = max(<intp_t>WINDOW_ROWS, LEAF_ROWS * n_leaves)
    part = 4 * window
    if 2 * n_threads * part > n:
        return add_to_blocks(values, rows, blocks, raw, n_threads)
    at = np.empty((n_threads, n_leaves + 8), dtype=np.intp)
    with nogil:
        for first in prange(0, n, part, num_threads=team_of(n_threads),
                            schedule="dynamic", chunksize=1):
            add_to_windows(&values[0], rows, leaves, &raw[0], raw.strides[0], window, first,
                           min(first + part, n), &at[omp_get_thread_num(), 0])
    return 0


cdef int add_to_blocks(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] leaves, float64_t[:] raw,
    int n_threads,
) except -1:
    """The same leaf by leaf, for row ids in any order."""
    cdef intp_t[:, ::1] blocks = cut(leaves, ADD_BLOCK)
    cdef intp_t[::1] order = by_place(rows, blocks)
    cdef intp_t k, block, n_blocks = blocks.shape[0]
    with nogil:
        for k in prange(n_blocks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=32):
            block = order[k]
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
        for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="dynamic",
                            chunksize=4):
            sum_target_rows(target, rows, blocks[block, 1], blocks[block, 2], &partial[block, 0])
    for block in range(n_blocks):
        for k in range(n):
            sums[blocks[block, 0], k] += partial[block, k]
    return 0
