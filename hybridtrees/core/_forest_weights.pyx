"""Rows that share leaves: groups by leaf, proximities, quantiles under the weights of leaves.

Training rows stand group by group, a group being the rows of one leaf of one tree; what a new row
meets in a tree is a segment `[first, last)` of that order. Work is parted by rows of the output,
each of which goes through the trees in their order, so results do not depend on the threads.
"""

from cython.parallel cimport prange
from libc.stdlib cimport qsort

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport (
    float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint64_t,
)

import numpy as np

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define HT_POPCOUNT(word) __builtin_popcountll(word)
    #else
    static int HT_POPCOUNT(unsigned long long word)
    {
        int count = 0;
        for (; word; word &= word - 1)
            count++;
        return count;
    }
    #endif
    """
    int HT_POPCOUNT(uint64_t word) nogil

# Where sums of weights come this close to a level, they have reached it.
cdef float64_t TOLERANCE = 1e-10


cdef int compare(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*>a)[0], y = (<const uint32_t*>b)[0]
    return (x > y) - (x < y)


def group_rows(const int32_t[::1] leaf, int64_t[::1] start, uint32_t[::1] rows):
    """Sort rows by their leaf; those of a leaf keep their order.

    Parameters
    ----------
    leaf : int32 array
        Node of each row, negative for rows without one.
    start : int64 array of shape (n_nodes + 1,)
        Written: where the rows of each node begin.
    rows : uint32 array
        Written: the rows with a node.

    Returns
    -------
    n : int
        Number of rows with a node.
    """
    cdef intp_t i, n_nodes = start.shape[0] - 1
    cdef int64_t position, count
    cdef bint fits = True
    with nogil:
        for i in range(n_nodes + 1):
            start[i] = 0
        for i in range(leaf.shape[0]):
            if leaf[i] >= n_nodes:
                fits = False
                break
            if leaf[i] >= 0:
                start[leaf[i]] += 1
        position = 0
        for i in range(n_nodes + 1):
            count = start[i]
            start[i] = position
            position += count
    if not fits or position > rows.shape[0]:
        raise ValueError("a row is in a node that does not exist, or there is no room for the rows")
    with nogil:
        for i in range(leaf.shape[0]):
            if leaf[i] >= 0:
                rows[start[leaf[i]]] = <uint32_t>i
                start[leaf[i]] += 1
        # Every start has moved to the next one.
        for i in range(n_nodes, 0, -1):
            start[i] = start[i - 1]
        start[0] = 0
    return position


cdef intp_t meet(
    const int64_t* first, const int64_t* last, intp_t n_trees, const uint32_t* rows,
    int32_t* count, uint32_t* met,
) noexcept nogil:
    """Count how often a row meets others, which are listed in `met`."""
    cdef intp_t tree, n_met = 0
    cdef int64_t e
    cdef uint32_t other
    for tree in range(n_trees):
        for e in range(first[tree], last[tree]):
            other = rows[e]
            if count[other] == 0:
                met[n_met] = other
                n_met += 1
            count[other] += 1
    return n_met


cdef float64_t common_trees(
    const uint64_t* one, const uint64_t* other, intp_t n_words
) noexcept nogil:
    cdef intp_t k
    cdef int64_t count = 0
    for k in range(n_words):
        count += HT_POPCOUNT(one[k] & other[k])
    return <float64_t>count


cdef int check_segments(
    const int64_t[:, ::1] first, const int64_t[:, ::1] last, const uint32_t[::1] rows,
    intp_t n_others,
) except -1:
    if first.shape[0] != last.shape[0] or first.shape[1] != last.shape[1]:
        raise ValueError("segments need as many ends as beginnings")
    if np.size(first) and (np.min(first) < 0 or np.max(last) > rows.shape[0]):
        raise ValueError("a segment leaves the list of rows")
    if rows.shape[0] and np.max(rows) >= n_others:
        raise ValueError("a row of the list does not exist")
    return 0


def count_met(const int64_t[:, ::1] first, const int64_t[:, ::1] last, const uint32_t[::1] rows,
              intp_t n_others, int64_t[::1] n_met, int n_threads):
    """n_met[i] = number of other rows that row i shares a leaf with.

    Parameters
    ----------
    first, last : int64 array of shape (n, n_trees)
        Segments of `rows` that each row meets; empty where it takes no part.
    rows : uint32 array
    n_others : int
        All entries of `rows` are less.
    n_met : int64 array of shape (n,)
        Written.
    n_threads : int
    """
    cdef intp_t i, j, n = first.shape[0], n_trees = first.shape[1], thread
    check_segments(first, last, rows, n_others)
    if n_met.shape[0] != n:
        raise ValueError("n_met needs one entry per row")
    if n == 0 or n_trees == 0 or rows.shape[0] == 0:
        n_met[:] = 0
        return
    n_threads = <int>max(1, min(n_threads, n))
    cdef int32_t[:, ::1] count = np.zeros((n_threads, n_others), dtype=np.int32)
    cdef uint32_t[:, ::1] met = np.empty((n_threads, n_others), dtype=np.uint32)
    for i in prange(n, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=64, nogil=True):
        thread = omp_get_thread_num()
        n_met[i] = meet(&first[i, 0], &last[i, 0], n_trees, &rows[0], &count[thread, 0],
                        &met[thread, 0])
        for j in range(n_met[i]):
            count[thread, met[thread, j]] = 0


cdef void write_shares(
    int32_t* count, uint32_t* met, intp_t n_met, const uint64_t* one, const uint64_t[:, ::1] bits,
    float64_t n_trees, int32_t* indices, float64_t* data,
) noexcept nogil:
    cdef intp_t j, n_words = bits.shape[1]
    cdef float64_t total = n_trees
    qsort(met, n_met, sizeof(uint32_t), compare)
    for j in range(n_met):
        if n_words > 0:
            total = common_trees(one, &bits[met[j], 0], n_words)
        indices[j] = <int32_t>met[j]
        data[j] = count[met[j]] / total
        count[met[j]] = 0


def write_met(const int64_t[:, ::1] first, const int64_t[:, ::1] last, const uint32_t[::1] rows,
              intp_t n_others, const uint64_t[:, ::1] own_bits, const uint64_t[:, ::1] bits,
              const int64_t[::1] pointers, int32_t[::1] indices, float64_t[::1] data,
              int n_threads):
    """Write the share of trees in which rows meet, as rows of a CSR matrix.

    Parameters
    ----------
    first, last, rows, n_others, n_threads
        As in `count_met`.
    own_bits, bits : uint64 arrays of shapes (n, n_words) and (n_others, n_words)
        Bit k is set where tree k counts for a row; the share is then that of the trees which
        count for both. Without words it is that of all trees.
    pointers, indices, data
        Of the matrix: the first given, the others written.
    """
    cdef intp_t i, n = first.shape[0], n_trees = first.shape[1], thread, n_met
    cdef bint masked = bits.shape[1] > 0
    check_segments(first, last, rows, n_others)
    if pointers.shape[0] != n + 1 or pointers[n] > min(indices.shape[0], data.shape[0]):
        raise ValueError("the arrays of the matrix do not fit together")
    if masked and (own_bits.shape[0] != n or own_bits.shape[1] != bits.shape[1]
                   or bits.shape[0] != n_others):
        raise ValueError("the bits do not fit the rows")
    if pointers[n] == 0:
        return
    n_threads = <int>max(1, min(n_threads, n))
    cdef int32_t[:, ::1] count = np.zeros((n_threads, n_others), dtype=np.int32)
    cdef uint32_t[:, ::1] met = np.empty((n_threads, n_others), dtype=np.uint32)
    for i in prange(n, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=64, nogil=True):
        thread = omp_get_thread_num()
        n_met = meet(&first[i, 0], &last[i, 0], n_trees, &rows[0], &count[thread, 0],
                     &met[thread, 0])
        if n_met > 0:
            write_shares(&count[thread, 0], &met[thread, 0], n_met,
                         &own_bits[i, 0] if masked else NULL, bits, <float64_t>n_trees,
                         &indices[pointers[i]], &data[pointers[i]])


cdef void quantiles_of_row(
    const int64_t* first, const int64_t* last, intp_t n_trees, const uint32_t* rank,
    const real_t* weight, const float64_t* ordered, const float64_t[::1] levels,
    float64_t* sums, uint32_t* met, float64_t* out,
) noexcept nogil:
    """Weighted quantiles of the targets that one row meets, `levels` ascending."""
    cdef intp_t tree, n_met = 0, j, k
    cdef int64_t e
    cdef float64_t total, share, reached = 0.0, all_trees = 0.0
    for tree in range(n_trees):
        total = 0.0
        for e in range(first[tree], last[tree]):
            total += weight[e]
        if total <= 0.0:
            continue
        all_trees += 1.0
        for e in range(first[tree], last[tree]):
            share = weight[e] / total
            if share <= 0.0:
                continue
            if sums[rank[e]] == 0.0:
                met[n_met] = rank[e]
                n_met += 1
            sums[rank[e]] += share
    qsort(met, n_met, sizeof(uint32_t), compare)
    k = 0
    for j in range(n_met):
        reached += sums[met[j]]
        sums[met[j]] = 0.0
        while k < levels.shape[0] and (
            j == n_met - 1 or reached >= (levels[k] - TOLERANCE) * all_trees
        ):
            out[k] = ordered[met[j]]
            k += 1


def leaf_quantiles(const int64_t[:, ::1] first, const int64_t[:, ::1] last,
                   const uint32_t[::1] rank, const real_t[::1] weight,
                   const float64_t[::1] ordered, const float64_t[::1] levels,
                   float64_t[:, ::1] out, int n_threads):
    """Quantiles of the targets of training rows, weighted by the leaves that a row shares.

    Parameters
    ----------
    first, last : int64 array of shape (n, n_trees)
        Segments that each row meets.
    rank : uint32 array
        For every place of the order, the rank of its row's target.
    weight : float32 or float64 array
        For every place, the weight of its row in the tree; at least 0.
    ordered : float64 array
        Targets by rank.
    levels : float64 array
        Ascending.
    out : float64 array of shape (n, n_levels)
        Written: least target at which the weights reach each level.
    n_threads : int
    """
    cdef intp_t i, n = first.shape[0], n_trees = first.shape[1], thread
    check_segments(first, last, rank, ordered.shape[0])
    if weight.shape[0] != rank.shape[0] or out.shape[0] != n or out.shape[1] != levels.shape[0]:
        raise ValueError("the weights or the output have another length")
    if n == 0 or n_trees == 0 or rank.shape[0] == 0:
        return
    n_threads = <int>max(1, min(n_threads, n))
    cdef float64_t[:, ::1] sums = np.zeros((n_threads, ordered.shape[0]))
    cdef uint32_t[:, ::1] met = np.empty((n_threads, ordered.shape[0]), dtype=np.uint32)
    for i in prange(n, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=16, nogil=True):
        thread = omp_get_thread_num()
        quantiles_of_row(&first[i, 0], &last[i, 0], n_trees, &rank[0], &weight[0], &ordered[0],
                         levels, &sums[thread, 0], &met[thread, 0], &out[i, 0])
