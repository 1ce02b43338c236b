"""Histograms of integer statistics over binned features.

A histogram is one flat block of cells: feature f owns the cells ``cell_start[f] + code``, the
last of them counts the missing rows. What a cell holds depends on the layout of the statistics
(`StatsLayout`). All sums are integers, so they do not depend on the order of rows, blocks or
threads, and ``parent - child`` is exact.

With PAIR16 statistics a large node is accumulated in blocks of at most 65,536 rows into one
packed word per cell, ``(grad << 32) + hess``, one add instead of two; each block is then flushed
into the two words of the cell. 65,536 values of 16 bits cannot overflow a half.

Several threads have a histogram each, which are added up at the end, some features by each
thread; or, where there are few rows or many features, some features of one histogram. Either way
the thread that has completed a feature goes on with it (`FeatureWork`): the sibling's cells, and
the splits of both, come from cells that are in its nearest cache, and no thread is woken twice.
"""

from cython.parallel cimport parallel, prange
from libc.string cimport memset

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport (
    PAIR16, BinView, StatsView, int32_t, int64_t, intp_t, uint8_t, uint32_t,
)
from hybridtrees.core._statistics cimport RowStatistics, RowValues, write_rows
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
    # not: below this many updates, about 12 microseconds, a node is done serially.
    PARALLEL_UPDATES = 16384
    # Of fewer rows, threads take features: a histogram for each would cost more than it saves.
    FEW_ROWS = 2048
    # Threads take chunks of rows as they come: one that is held up by another process does not
    # hold up all, and the last one to end is late by less than a chunk.
    CHUNK_ROWS = 2048
    LEAST_CHUNK_ROWS = 256
    MIN_CHUNKS = 8               # per thread, of at least so many rows
    MAX_THREADS = 256
    # Features of one pass: their codes are one cache line of a record.
    FEATURE_BLOCK = 64
    # Rows that are quantised and then added while they are in the nearest cache.
    WRITE_ROWS = 256


cdef void accumulate(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop,
    const int32_t* features, int32_t first, int32_t last, int64_t* hist, bint packed,
    const RowValues* values,
) noexcept nogil:
    """Add the rows [row_start, row_stop) of a node to the cells of some features."""
    cdef HtAccumulation work
    cdef int layout = HT_PACKED16 if packed else stats.layout
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
    if values == NULL:
        ht_accumulate(&work, layout, bins.uniform)
        return
    while work.row_start < row_stop:
        work.row_stop = min(work.row_start + WRITE_ROWS, row_stop)
        write_rows(stats, values, work.row_start, work.row_stop)
        ht_accumulate(&work, layout, bins.uniform)
        work.row_start = work.row_stop


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


cdef void add_rows(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop,
    const int32_t* features, int32_t first, int32_t last,
    int64_t* hist, int64_t* packed, const RowValues* values,
) noexcept nogil:
    """Add some rows over some features to a histogram, block of features by block of features.

    `packed` NULL: without packing.
    """
    cdef intp_t start, stop
    cdef int32_t end
    while first < last:
        end = min(first + FEATURE_BLOCK, last)
        if packed == NULL:
            accumulate(bins, stats, rows, row_start, row_stop, features, first, end, hist, False,
                       values)
        else:
            start = row_start
            while start < row_stop:
                stop = min(start + PACKED_BLOCK, row_stop)
                zero_cells(bins, features, first, end, packed, 1)
                accumulate(bins, stats, rows, start, stop, features, first, end, packed, True,
                           values)
                flush_features(bins, features, first, end, packed, hist)
                start = stop
        first = end


cdef intp_t scratch_words(
    const BinView* bins, const StatsView* stats, int n_threads
) noexcept nogil:
    """64-bit words of scratch that `build_histogram` needs."""
    return bins.n_cells * (n_threads * stats.n_words + n_threads)


cdef void build_histogram(
    const BinView* bins, const StatsView* stats,
    const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features,
    int64_t* hist, int64_t* scratch, int n_threads, const RowValues* values,
    const FeatureWork* then,
) noexcept nogil:
    """Histogram of the rows of a node over all features (features NULL) or those listed.

    Wide data is split over features, so that each thread sees whole cache lines of the records;
    narrow data over rows. Cells of features that are not listed are left as they are. `values`
    not NULL: the statistics are written from them on the way, which takes all rows in order, and
    statistics inside the records. `then` not NULL: run for each feature.
    """
    cdef intp_t updates = n_rows * n_features
    # One word per cell pays where a block brings more rows than there are cells to flush.
    cdef bint pack = stats.layout == PAIR16 and updates > 4 * bins.n_cells
    cdef bint few = n_rows < FEW_ROWS and values == NULL
    cdef int32_t size = FEATURE_BLOCK, n_blocks, block
    cdef int64_t* packed = scratch + bins.n_cells * stats.n_words * n_threads if pack else NULL
    if then != NULL:
        updates += then.updates
    if n_threads == 1 or updates < PARALLEL_UPDATES:
        add_features(bins, stats, rows, n_rows, features, 0, n_features, hist, packed, values,
                     then)
        return
    if few:
        size = min(size, (n_features + n_threads - 1) // n_threads)
    n_blocks = (n_features + size - 1) // size
    if not few and n_blocks < 2 * n_threads:
        add_in_chunks(bins, stats, rows, n_rows, features, n_features, hist, scratch, packed,
                      min(n_threads, MAX_THREADS), values, then)
        return
    # Blocks of features write disjoint cells of one histogram and of one packed scratch.
    for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=1):
        add_features(bins, stats, rows, n_rows, features, block * size,
                     min((block + 1) * size, n_features), hist, packed, values, then)


cdef void add_features(
    const BinView* bins, const StatsView* stats, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t first, int32_t last, int64_t* hist, int64_t* packed,
    const RowValues* values, const FeatureWork* then,
) noexcept nogil:
    """Histogram of all rows over some features."""
    zero_cells(bins, features, first, last, hist, stats.n_words)
    add_rows(bins, stats, rows, 0, n_rows, features, first, last, hist, packed, values)
    if then != NULL:
        then.run(then.context, features, first, last, omp_get_thread_num())


cdef struct Part:
    # What one thread has summed.
    int64_t* hist
    int64_t* packed              # NULL: without packing
    intp_t packed_rows           # rows in `packed`
    bint has_cells               # whether there is anything in `hist`
    intp_t[4] unused             # two threads share no cache line


cdef void add_in_chunks(
    const BinView* bins, const StatsView* stats, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features, int64_t* hist, int64_t* scratch,
    int64_t* packed, int n_threads, const RowValues* values, const FeatureWork* then,
) noexcept nogil:
    """Histogram of a node, its rows shared among threads."""
    cdef Part[MAX_THREADS] parts
    cdef intp_t chunk, n_chunks
    cdef int32_t j, first, last
    cdef int thread
    for thread in range(n_threads):
        parts[thread].hist = scratch + thread * bins.n_cells * stats.n_words if thread else hist
        parts[thread].packed = packed + thread * bins.n_cells if packed != NULL else NULL
        parts[thread].packed_rows = 0
        parts[thread].has_cells = False
    n_chunks = max(n_rows // CHUNK_ROWS,
                   min(n_rows // LEAST_CHUNK_ROWS, MIN_CHUNKS * n_threads), 1)
    with parallel(num_threads=team_of(n_threads)):
        for chunk in prange(n_chunks, schedule="dynamic", chunksize=1):
            add_chunk(bins, stats, rows, n_rows * chunk // n_chunks,
                      n_rows * (chunk + 1) // n_chunks, features, n_features,
                      &parts[omp_get_thread_num()], values)
        for thread in prange(n_threads, schedule="static", chunksize=1):
            first = n_features * thread // n_threads
            last = n_features * (thread + 1) // n_threads
            for j in range(first, last):
                add_parts(bins, stats, features[j] if features != NULL else j, parts, n_threads)
            if then != NULL:
                then.run(then.context, features, first, last, omp_get_thread_num())


cdef void add_chunk(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop, const int32_t* features, int32_t n_features,
    Part* part, const RowValues* values,
) noexcept nogil:
    """Add a few rows to what a thread has summed."""
    cdef intp_t n = row_stop - row_start
    if part.packed == NULL or part.packed_rows + n > PACKED_BLOCK:
        if not part.has_cells:
            zero_cells(bins, features, 0, n_features, part.hist, stats.n_words)
            part.has_cells = True
    if part.packed == NULL:
        add_rows(bins, stats, rows, row_start, row_stop, features, 0, n_features, part.hist,
                 NULL, values)
        return
    if part.packed_rows + n > PACKED_BLOCK:
        flush_features(bins, features, 0, n_features, part.packed, part.hist)
        part.packed_rows = 0
    if part.packed_rows == 0:
        zero_cells(bins, features, 0, n_features, part.packed, 1)
    part.packed_rows += n
    accumulate(bins, stats, rows, row_start, row_stop, features, 0, n_features, part.packed,
               True, values)


cdef void add_parts(
    const BinView* bins, const StatsView* stats, int32_t feature, const Part* parts,
    int n_threads,
) noexcept nogil:
    """Add up the cells of one feature over all threads, in the histogram of the first."""
    cdef intp_t first = bins.cell_start[feature], last = bins.cell_start[feature + 1], i
    cdef int64_t* hist = parts[0].hist
    cdef const int64_t* more
    cdef int thread
    if not parts[0].has_cells:
        memset(hist + first * stats.n_words, 0, (last - first) * stats.n_words * sizeof(int64_t))
    for thread in range(n_threads):
        if thread > 0 and parts[thread].has_cells:
            more = parts[thread].hist
            for i in range(first * stats.n_words, last * stats.n_words):
                hist[i] += more[i]
        if parts[thread].packed_rows > 0:
            flush_packed(parts[thread].packed, hist, first, last)


cdef void subtract_cells(
    const BinView* bins, const StatsView* stats, int32_t feature, int64_t* parent,
    const int64_t* child,
) noexcept nogil:
    """parent -= child for one feature: what is left are the sibling's cells, exactly."""
    cdef intp_t i
    for i in range(<intp_t>bins.cell_start[feature] * stats.n_words,
                   <intp_t>bins.cell_start[feature + 1] * stats.n_words):
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
                            n_features, &hist[0, 0], &scratch[0], n_threads, NULL, NULL)
    return out
