"""Histograms of integer statistics over binned features.

A histogram is one flat block of cells: feature f owns the cells ``cell_start[f] + code``, the
last of them counts the missing rows. What a cell holds depends on the layout of the statistics
(`StatsLayout`). All sums are integers, so they do not depend on the order of rows, blocks or
threads, and ``parent - child`` is exact.

With PAIR16 statistics a large node is accumulated in blocks of at most 65,536 rows into one
packed word per cell, ``(grad << 32) + hess``, one add instead of two; each block is then flushed
into the two words of the cell. 65,536 values of 16 bits cannot overflow a half.
"""

from cython.parallel cimport prange
from libc.string cimport memset

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._types cimport (
    PAIR16, BinView, StatsView, int32_t, int64_t, intp_t, uint8_t, uint32_t,
)
from hybridtrees.core._statistics cimport RowStatistics
from hybridtrees.core._views cimport BinnedView

import numpy as np

cdef extern from "accumulate.h" nogil:
    enum:
        HT_PACKED16

    ctypedef struct HtAccumulation:
        const uint8_t* records
        intp_t record_bytes
        const uint32_t* cell_start
        const uint8_t* stats
        intp_t stats_stride
        int count_bits
        const uint32_t* rows
        intp_t row_start
        intp_t row_stop
        const int32_t* features
        int32_t first
        int32_t last
        int64_t* hist

    void ht_accumulate(const HtAccumulation* work, int layout, int uniform)

cdef enum:
    PACKED_BLOCK = 65536
    # A parallel region costs microseconds when the cores are idle and far more when they are
    # not: below this many updates, about 40 microseconds, a node is done serially.
    PARALLEL_UPDATES = 65536
    # Threads take chunks of rows as they come: one that is held up by another process does not
    # hold up all, and the last one to end is late by less than a chunk. Packed blocks are flushed
    # chunk by chunk, so theirs are larger.
    MIN_CHUNKS = 4               # per thread
    MAX_CHUNKS = 32
    CHUNK_ROWS = 8192
    PACKED_CHUNK_ROWS = 32768
    MAX_THREADS = 256
    # Features of one pass: their codes are one cache line of a record.
    FEATURE_BLOCK = 64


cdef void accumulate(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop,
    const int32_t* features, int32_t first, int32_t last, int64_t* hist, bint packed,
) noexcept nogil:
    """Add the rows [row_start, row_stop) of a node to the cells of some features."""
    cdef HtAccumulation work
    work.records = bins.records
    work.record_bytes = bins.record_bytes
    work.cell_start = bins.cell_start
    work.stats = stats.data
    work.stats_stride = stats.stride
    work.count_bits = stats.count_bits
    work.rows = rows
    work.row_start = row_start
    work.row_stop = row_stop
    work.features = features
    work.first = first
    work.last = last
    work.hist = hist
    ht_accumulate(&work, HT_PACKED16 if packed else stats.layout, bins.uniform)


cdef inline void flush_packed(
    const int64_t* packed, int64_t* hist, intp_t first, intp_t last
) noexcept nogil:
    """hist[cell] += packed[cell] for the cells [first, last)."""
    cdef intp_t cell
    cdef int64_t hess
    for cell in range(first, last):
        hess = <int64_t><uint32_t>packed[cell]
        hist[2 * cell] += packed[cell] >> 32
        hist[2 * cell + 1] += hess


cdef void zero_cells(
    const BinView* bins, const int32_t* features, int32_t first, int32_t last,
    int64_t* hist, intp_t n_words,
) noexcept nogil:
    cdef int32_t j
    cdef intp_t start
    if features == NULL:
        start = bins.cell_start[first]
        memset(hist + start * n_words, 0,
               (bins.cell_start[last] - start) * n_words * sizeof(int64_t))
        return
    for j in range(first, last):
        start = bins.cell_start[features[j]]
        memset(hist + start * n_words, 0,
               (bins.cell_start[features[j] + 1] - start) * n_words * sizeof(int64_t))


cdef void flush_features(
    const BinView* bins, const int32_t* features, int32_t first, int32_t last,
    const int64_t* packed, int64_t* hist,
) noexcept nogil:
    cdef int32_t j
    if features == NULL:
        flush_packed(packed, hist, bins.cell_start[first], bins.cell_start[last])
        return
    for j in range(first, last):
        flush_packed(packed, hist, bins.cell_start[features[j]],
                     bins.cell_start[features[j] + 1])


cdef void add_part(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop,
    const int32_t* features, int32_t first, int32_t last,
    int64_t* hist, int64_t* packed,
) noexcept nogil:
    """Add some rows over some features to a histogram; `packed` NULL: without packing."""
    cdef intp_t start, stop
    if packed == NULL:
        accumulate(bins, stats, rows, row_start, row_stop, features, first, last, hist, False)
        return
    start = row_start
    while start < row_stop:
        stop = min(start + PACKED_BLOCK, row_stop)
        zero_cells(bins, features, first, last, packed, 1)
        accumulate(bins, stats, rows, start, stop, features, first, last, packed, True)
        flush_features(bins, features, first, last, packed, hist)
        start = stop


cdef intp_t scratch_words(
    const BinView* bins, const StatsView* stats, int n_threads
) noexcept nogil:
    """64-bit words of scratch that `build_histogram` needs."""
    return bins.n_cells * (n_threads * stats.n_words + n_threads)


cdef void build_histogram(
    const BinView* bins, const StatsView* stats,
    const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features,
    int64_t* hist, int64_t* scratch, int n_threads,
) noexcept nogil:
    """Histogram of the rows of a node over all features (features NULL) or those listed.

    Wide data is split over features, so that each thread sees whole cache lines of the records;
    narrow data over rows, the parts summed afterwards. Cells of features that are not listed
    are left as they are.
    """
    cdef intp_t n_cells = bins.n_cells
    cdef int32_t n_words = stats.n_words
    cdef intp_t updates = n_rows * n_features
    # One word per cell pays where a block brings more rows than there are cells to flush.
    cdef bint pack = stats.layout == PAIR16 and updates > 4 * n_cells
    cdef int32_t n_blocks = (n_features + FEATURE_BLOCK - 1) // FEATURE_BLOCK
    cdef int32_t block, chunk, n_chunks
    cdef int thread
    cdef uint8_t started[MAX_THREADS]
    cdef int64_t* packed = scratch + n_cells * n_words * n_threads
    if n_threads == 1 or updates < PARALLEL_UPDATES:
        zero_cells(bins, features, 0, n_features, hist, n_words)
        add_rows(bins, stats, rows, 0, n_rows, features, n_features, hist,
                 packed if pack else NULL)
        return
    if n_blocks >= 2 * n_threads:
        # Blocks of features write disjoint cells of one histogram and of one packed scratch.
        for block in prange(n_blocks, num_threads=n_threads, schedule="dynamic", chunksize=1):
            zero_cells(bins, features, block * FEATURE_BLOCK,
                       min((block + 1) * FEATURE_BLOCK, n_features), hist, n_words)
            add_part(bins, stats, rows, 0, n_rows, features, block * FEATURE_BLOCK,
                     min((block + 1) * FEATURE_BLOCK, n_features), hist,
                     packed if pack else NULL)
        return
    n_chunks = <int32_t>(n_rows // (PACKED_CHUNK_ROWS if pack else CHUNK_ROWS))
    n_chunks = max(MIN_CHUNKS * n_threads, min(n_chunks, MAX_CHUNKS * n_threads))
    n_threads = min(n_threads, MAX_THREADS)
    memset(started, 0, n_threads)
    for chunk in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1):
        add_chunk(bins, stats, rows, n_rows * chunk // n_chunks,
                  n_rows * (chunk + 1) // n_chunks, features, n_features,
                  hist if omp_get_thread_num() == 0
                  else scratch + omp_get_thread_num() * n_cells * n_words,
                  packed + omp_get_thread_num() * n_cells if pack else NULL,
                  started + omp_get_thread_num())
    if not started[0]:
        zero_cells(bins, features, 0, n_features, hist, n_words)
    for thread in range(1, n_threads):
        if started[thread]:
            add_histogram(bins, features, n_features, hist,
                          scratch + thread * n_cells * n_words, n_words)


cdef void add_chunk(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop, const int32_t* features, int32_t n_features,
    int64_t* hist, int64_t* packed, uint8_t* started,
) noexcept nogil:
    """Add some rows to a thread's own histogram, which its first chunk clears."""
    if not started[0]:
        zero_cells(bins, features, 0, n_features, hist, stats.n_words)
        started[0] = 1
    add_rows(bins, stats, rows, row_start, row_stop, features, n_features, hist, packed)


cdef void add_rows(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop, const int32_t* features, int32_t n_features,
    int64_t* hist, int64_t* packed,
) noexcept nogil:
    """Add some rows to a histogram, block of features by block of features."""
    cdef int32_t first = 0
    while first < n_features:
        add_part(bins, stats, rows, row_start, row_stop, features, first,
                 min(first + FEATURE_BLOCK, n_features), hist, packed)
        first += FEATURE_BLOCK


cdef void add_histogram(
    const BinView* bins, const int32_t* features, int32_t n_features,
    int64_t* hist, const int64_t* part, int32_t n_words,
) noexcept nogil:
    cdef intp_t i
    cdef int32_t j
    if features == NULL:
        for i in range(bins.n_cells * n_words):
            hist[i] += part[i]
        return
    for j in range(n_features):
        for i in range(bins.cell_start[features[j]] * n_words,
                       bins.cell_start[features[j] + 1] * n_words):
            hist[i] += part[i]


cdef void subtract_histogram(
    int64_t* parent, const int64_t* child, intp_t n_words
) noexcept nogil:
    """parent -= child: what is left is the sibling's histogram, exactly."""
    cdef intp_t i
    for i in range(n_words):
        parent[i] -= child[i]


def histogram(BinnedView bins, RowStatistics statistics, const uint32_t[::1] rows, features,
              int n_threads):
    """Histogram of some rows as an int64 array of shape (n_cells, n_words).

    Parameters
    ----------
    bins : BinnedView
    statistics : RowStatistics
        Filled with the gradients and hessians of all rows.
    rows : uint32 array of row ids, or None for all rows in order
    features : ascending feature numbers, or None for all; the cells of others stay 0
    n_threads : int
    """
    cdef intp_t i, n = bins.view.n_rows if rows is None else rows.shape[0]
    cdef const int32_t[::1] listed
    cdef const int32_t* feature_pointer = NULL
    cdef const uint32_t* row_pointer = NULL
    cdef int32_t n_features = bins.view.n_features
    if features is not None:
        listed = np.ascontiguousarray(features, dtype=np.int32)
        n_features = <int32_t>listed.shape[0]
        for i in range(n_features):
            if not 0 <= listed[i] < bins.view.n_features:
                raise ValueError(f"feature {listed[i]} is out of range")
        if rows is None:
            rows = np.arange(n, dtype=np.uint32)
        if n_features:
            feature_pointer = &listed[0]
    if rows is not None:
        for i in range(n):
            if rows[i] >= bins.view.n_rows:
                raise ValueError(f"row {rows[i]} is out of range")
        if n:
            row_pointer = &rows[0]
    out = np.zeros((bins.view.n_cells, statistics.view.n_words), dtype=np.int64)
    cdef int64_t[:, ::1] hist = out
    cdef int64_t[::1] scratch = np.empty(
        scratch_words(&bins.view, &statistics.view, n_threads), dtype=np.int64)
    if n and n_features:
        with nogil:
            build_histogram(&bins.view, &statistics.view, row_pointer, n, feature_pointer,
                            n_features, &hist[0, 0], &scratch[0], n_threads)
    return out
