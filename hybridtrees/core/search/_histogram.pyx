"""Histograms of binned features: integer statistics of rows, sums by bin, a pool of buffers."""

from cython.parallel cimport parallel, prange
from libc.math cimport copysign, fabsf, frexp, isfinite, ldexp
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from hybridtrees.core.base._exact_sum cimport (
    SUM_ROWS, HtExactSum, ht_add_terms, ht_clear_sum, ht_largest_float, ht_merge_sum, ht_sum_value,
)
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    GRAD_ONLY, PAIR16, PAIR32, UNIFORM_CELLS, BinView, StatsView, float32_t, int16_t, int32_t,
    int64_t, intp_t, uint16_t, uint32_t, uint8_t,
)

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---- C views of the Python objects that kernels read ------------------------------------------


def histogram_offsets(n_bins):
    """First cell of each feature in a histogram, and at the end the number of cells.

    A feature has its value bins and one cell for missing rows. Distances between features at which
    cells would share the low 12 bits of their addresses are increased: with such 4K aliasing, loads
    wait for unrelated stores. If most features have many bins, all have the same distance, which is
    a compile-time constant of the accumulating loop.
    """
    cells = np.asarray(n_bins, dtype=np.int64) + 1
    if np.median(cells) >= 128:
        cells[:] = UNIFORM_CELLS
    cells += cells % 2
    cells[cells * 8 % 1024 == 0] += 16
    total = int(cells.sum())
    if total >= 2**32:
        raise ValueError(f"the histogram of {len(cells)} features has too many cells: {total}")
    return np.concatenate([[0], np.cumsum(cells)]).astype(np.uint32)


cdef class BinnedView:
    """Pointers into a BinnedMatrix or StoredBins, which it keeps alive."""

    def __init__(self, binned):
        self.binned = binned
        self.n_bins = binned.n_bins
        self.has_missing = binned.has_missing
        self.is_categorical = binned.is_categorical
        self.view.n_rows = binned.n_rows
        self.view.n_features = <int32_t>self.n_bins.shape[0]
        if (
            self.has_missing.shape[0] != self.view.n_features
            or self.is_categorical.shape[0] != self.view.n_features
        ):
            raise ValueError("the arrays of the BinnedMatrix are not consistent")
        if self.view.n_rows == 0 or self.view.n_features == 0:
            raise ValueError("a BinnedMatrix needs at least one row and one feature")
        if self.view.n_rows >= 2**32 - 1:
            raise ValueError("more than 4,294,967,294 rows cannot be indexed")
        if hasattr(binned, "records"):
            self.open_matrix(binned)
        else:
            self.open_stored(binned)
        self.view.n_bins = &self.n_bins[0]
        self.view.has_missing = &self.has_missing[0]
        self.view.is_categorical = &self.is_categorical[0]
        self.view.cell_start = &self.cell_start[0]

    cdef int open_matrix(self, binned) except -1:
        self.records = binned.records
        self.columns = binned.columns
        self.cell_start = histogram_offsets(binned.n_bins)
        self.view.record_bytes = self.records.shape[1]
        self.view.n_cells = self.cell_start[self.view.n_features]
        if (
            self.columns.shape[0] != self.view.n_features
            or self.columns.shape[1] != self.view.n_rows
            or self.records.shape[0] != self.view.n_rows
            or self.view.record_bytes < self.view.n_features + 4
        ):
            raise ValueError("the arrays of the BinnedMatrix are not consistent")
        self.view.uniform = bool(np.all(np.diff(self.cell_start) == UNIFORM_CELLS))
        self.view.records = &self.records[0, 0]
        self.view.columns = &self.columns[0, 0]
        return 0

    cdef int open_stored(self, binned) except -1:
        cdef intp_t n_entries
        row_start, row_cells = binned.by_row
        self.row_start = row_start
        self.row_cells = row_cells.view(np.uint8)
        self.column_start = binned.column_start
        self.column_rows = binned.rows
        self.column_codes = binned.codes
        self.default_code = binned.default_code
        self.cell_start = binned.cell_start
        n_entries = self.column_rows.shape[0]
        if (
            self.row_start.shape[0] != self.view.n_rows + 1
            or self.row_start[self.view.n_rows] != n_entries
            or self.column_start.shape[0] != self.view.n_features + 1
            or self.column_start[self.view.n_features] != n_entries
            or self.column_codes.shape[0] != n_entries
            or self.row_cells.shape[0] != n_entries * row_cells.itemsize
            or self.default_code.shape[0] != self.view.n_features
            or self.cell_start.shape[0] != self.view.n_features + 1
        ):
            raise ValueError("the arrays of the StoredBins are not consistent")
        self.view.n_cells = <intp_t>self.cell_start[self.view.n_features] + 1
        self.view.uniform = False
        self.view.records = self.view.columns = NULL
        self.view.record_bytes = 0
        self.view.wide_cells = row_cells.itemsize == 4
        self.view.row_start = &self.row_start[0]
        self.view.column_start = &self.column_start[0]
        self.view.default_code = &self.default_code[0]
        if n_entries > 0:
            self.view.row_cells = &self.row_cells[0]
            self.view.column_rows = &self.column_rows[0]
            self.view.column_codes = &self.column_codes[0]
        return 0


# ---- Statistics of rows: gradients and hessians quantised to integers -------------------------
#
# The step of the fixed-point scale is a power of two, chosen once per tree from the largest
# gradient (hessian) such that the sums use all available bits. With few rows these are 30 bits, and
# float32 gradients lose almost nothing: splits can differ from those of float64 histograms only in
# true ties. Leaf values are not computed from these integers.


cdef enum:
    BLOCK = 8192
    TILE = 256               # rows that are rounded before they are written
    PAIR16_MIN_ROWS = 100000  # from so many rows on 16 bits are used, for their speed
    # Maximum ratio of the largest to the mean gradient; beyond, 16 bits are too few for the mean.
    PAIR16_MAX_SPREAD = 256


cdef inline int bit_length(intp_t value) noexcept nogil:
    cdef int bits = 0
    while value > 0:
        bits += 1
        value >>= 1
    return bits


cdef inline double step_for(double largest, int bits) noexcept nogil:
    """The power of two such that `largest` is below 2**bits steps."""
    cdef int exponent
    if largest <= 0:
        return 1.0
    frexp(largest, &exponent)
    return ldexp(1.0, exponent - bits)


cdef void round_values(
    const float32_t* values, intp_t n, double scale, int32_t* out
) noexcept nogil:
    """OUT numbers of steps, halves rounded away from 0, without a branch on the sign."""
    cdef intp_t i
    cdef double value
    for i in range(n):
        value = values[i] * scale
        out[i] = <int32_t>(value + copysign(0.5, value))


cdef struct Range:
    double largest            # magnitude; not finite if a value is not
    HtExactSum total          # of the magnitudes


cdef void block_range(
    const float32_t* values, intp_t n, int width, bint want_total, Range* out
) noexcept nogil:
    cdef intp_t i, m, first = 0
    cdef double[SUM_ROWS] terms
    out.largest = ht_largest_float(width, values, n)
    ht_clear_sum(&out.total)
    while want_total and first < n:
        m = min(n - first, <intp_t>SUM_ROWS)
        for i in range(m):
            terms[i] = fabsf(values[first + i])
        ht_add_terms(width, &out.total, terms, m)
        first += m


cdef void range_of(
    const float32_t* values, intp_t n, Range* blocks, bint want_mean, int n_threads,
    double* largest, double* mean,
) noexcept nogil:
    """OUT largest and, with `want_mean`, mean magnitude; `blocks` is scratch.

    The mean is an exact sum so that the choice of a layout depends on the values alone.
    """
    cdef intp_t n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef int width = ht_vector_bytes()
    n_threads = <int>max(1, min(n_threads, n_blocks // 8))
    for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="static"):
        block_range(values + block * BLOCK, min(BLOCK, n - block * BLOCK), width, want_mean,
                    &blocks[block])
    for block in range(1, n_blocks):
        # A NaN is larger than any number.
        if not blocks[block].largest <= blocks[0].largest:
            blocks[0].largest = blocks[block].largest
        ht_merge_sum(&blocks[0].total, &blocks[block].total)
    largest[0] = blocks[0].largest
    mean[0] = ht_sum_value(&blocks[0].total) / n


cdef RowValues row_values(const float32_t[::1] grad, hess, intp_t n) except *:
    """Pointers to gradients and hessians (or one for all rows); the caller keeps both alive."""
    cdef RowValues values
    cdef const float32_t[::1] hess_view
    if grad.shape[0] != n:
        raise ValueError("one gradient per row is needed")
    values.grad, values.hess, values.constant_hess = &grad[0], NULL, 1.0
    if isinstance(hess, (int, float)):
        values.constant_hess = hess
        return values
    hess_view = hess
    if hess_view.shape[0] != n:
        raise ValueError("one hessian per row is needed")
    values.hess = &hess_view[0]
    return values


cdef class RowStatistics:
    """Quantised (grad, hess) of all rows of a BinnedMatrix or StoredBins.

    With `use_tail` four-byte statistics are stored in the spare bytes of the records, so that the
    codes and the gradient of a BinnedMatrix share a cache line. Only one user of a BinnedMatrix may
    do so at a time.
    """

    def __init__(self, BinnedView bins, bint use_tail):
        self.bins = bins
        self.use_tail = use_tail and bins.view.records != NULL
        self.own = None
        self.blocks = np.empty((bins.view.n_rows // BLOCK + 1) * sizeof(Range), dtype=np.uint8)

    cdef int quantise(
        self, const RowValues* values, intp_t n_sampled, bint need_counts, int n_threads
    ) except -1 nogil:
        """Choose the layout and the units, and the place; `write` writes the integers."""
        self.choose(values, self.bins.view.n_rows, n_sampled, need_counts, n_threads)
        self.place()
        return 0

    cdef int choose(
        self, const RowValues* values, intp_t n, intp_t n_sampled, bint need_counts, int n_threads
    ) except -1 nogil:
        """Choose the layout and the units for n rows."""
        cdef int count_bits = bit_length(n_sampled)
        cdef int spare_bits = 62 - 2 * count_bits
        cdef const float32_t* hess = values.hess
        cdef double top_grad, mean_grad
        cdef double top_hess = values.constant_hess, mean_hess = values.constant_hess
        cdef bint may_pack = hess != NULL and not need_counts and n >= PAIR16_MIN_ROWS
        cdef Range* blocks
        if self.blocks.shape[0] < (n // BLOCK + 1) * <intp_t>sizeof(Range):
            with gil:
                self.blocks = np.empty((n // BLOCK + 1) * sizeof(Range), dtype=np.uint8)
        blocks = <Range*>&self.blocks[0]
        range_of(values.grad, n, blocks, may_pack, n_threads, &top_grad, &mean_grad)
        if hess != NULL:
            range_of(hess, n, blocks, may_pack, n_threads, &top_hess, &mean_hess)
        if not (isfinite(top_grad) and isfinite(top_hess)):
            with gil:
                raise ValueError(
                    "the gradients overflow 32-bit floats: the target or the sample weights are "
                    "too large, scale them down")
        self.view.count_bits = 0
        self.view.n_words = 2
        if hess == NULL and spare_bits >= 14:
            self.view.layout = GRAD_ONLY
            self.view.n_words = 1
            self.view.count_bits = count_bits
            self.view.grad_unit = step_for(top_grad, min(30, spare_bits))
            self.view.hess_unit = values.constant_hess
        elif (
            may_pack and top_grad < PAIR16_MAX_SPREAD * mean_grad
            and top_hess < PAIR16_MAX_SPREAD * mean_hess
        ):
            self.view.layout = PAIR16
            self.view.grad_unit = step_for(top_grad, 15)
            self.view.hess_unit = step_for(top_hess, 16)
        else:
            self.view.layout = PAIR32
            self.view.grad_unit = step_for(top_grad, 30)
            if need_counts:
                self.view.count_bits = count_bits
                self.view.hess_unit = step_for(top_hess, min(30, spare_bits))
            else:
                self.view.hess_unit = step_for(top_hess, 30)
        return 0

    cdef int place(self) except -1 nogil:
        """Choose where the integers are written."""
        cdef intp_t n = self.bins.view.n_rows
        cdef int width = 8 if self.view.layout == PAIR32 else 4
        # In wide records the tail would be in another cache line.
        if self.use_tail and width == 4 and self.bins.view.record_bytes <= 64:
            self.view.stride = self.bins.view.record_bytes
            self.view.data = self.bins.view.records + self.bins.view.record_bytes - 4
        else:
            if self.own is None or self.own.shape[0] < n * width:
                with gil:
                    self.own = aligned_empty(n * width, "u1")
            self.view.stride = width
            self.view.data = &self.own[0]
        return 0

    cdef void write(self, const RowValues* values, int n_threads) noexcept nogil:
        """Write the integers of every row."""
        cdef intp_t n = self.bins.view.n_rows
        cdef intp_t n_blocks = (n + BLOCK - 1) // BLOCK, block
        n_threads = <int>min(n_threads, n_blocks)
        for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="static"):
            write_rows(&self.view, values, block * BLOCK, min(n, (block + 1) * BLOCK))

    def fill(self, const float32_t[::1] grad, hess, intp_t n_sampled, bint need_counts,
             int n_threads):
        """Quantise from Python; `hess` is a float32 array or one number for all rows."""
        cdef RowValues values = row_values(grad, hess, self.bins.view.n_rows)
        self.quantise(&values, n_sampled, need_counts, n_threads)
        self.write(&values, n_threads)

    @property
    def layout(self):
        """Name, count bits and units of the current quantisation; for tests."""
        names = {<int>GRAD_ONLY: "unit", <int>PAIR16: "pair16", <int>PAIR32: "pair32"}
        return {
            "name": names[self.view.layout],
            "count_bits": self.view.count_bits,
            "n_words": self.view.n_words,
            "grad_unit": self.view.grad_unit,
            "hess_unit": self.view.hess_unit,
        }


cdef void write_rows(
    const StatsView* view, const RowValues* values, intp_t start, intp_t stop
) noexcept nogil:
    """Write the integers of the rows [start, stop)."""
    cdef int32_t[TILE] grad
    cdef int32_t[TILE] hess
    cdef double constant = values.constant_hess * (1.0 / view.hess_unit)
    cdef intp_t n, i
    if values.hess == NULL and view.layout == PAIR32:
        for i in range(TILE):
            hess[i] = <int32_t>(constant + copysign(0.5, constant))
    while start < stop:
        n = min(TILE, stop - start)
        round_values(values.grad + start, n, 1.0 / view.grad_unit, grad)
        if values.hess != NULL:
            round_values(values.hess + start, n, 1.0 / view.hess_unit, hess)
        write_tile(view, grad, hess, n, <uint8_t*>view.data + start * view.stride)
        start += n


cdef void write_tile(
    const StatsView* view, const int32_t* grad, const int32_t* hess, intp_t n, uint8_t* data
) noexcept nogil:
    """Write the integers of at most TILE rows in their layout."""
    cdef intp_t i, stride = view.stride
    cdef int16_t grad16
    cdef uint16_t hess16
    if view.layout == GRAD_ONLY:
        for i in range(n):
            memcpy(data + i * stride, grad + i, 4)
    elif view.layout == PAIR16:
        for i in range(n):
            # The largest may be rounded up beyond 16 bits.
            grad16 = <int16_t>min(max(grad[i], -32767), 32767)
            hess16 = <uint16_t>min(max(hess[i], -65535), 65535)
            memcpy(data + i * stride, &grad16, 2)
            memcpy(data + i * stride + 2, &hess16, 2)
    else:
        for i in range(n):
            memcpy(data + i * stride, grad + i, 4)
            memcpy(data + i * stride + 4, hess + i, 4)


# ---- Histograms of integer statistics over binned features ------------------------------------
#
# A histogram is one flat block of cells: feature f owns the cells ``cell_start[f] + code``, the
# last of which counts the missing rows. The contents of a cell depend on the layout of the
# statistics (`StatsLayout`). All sums are integers, so they do not depend on the order of rows,
# blocks or threads, and ``parent - child`` is exact.
#
# With PAIR16 statistics, blocks of at most 65,536 rows of a large node are accumulated into one
# packed word per cell, ``(grad << 32) + hess``, with one addition instead of two; then they are
# flushed to the two words of the cell. 65,536 values of 16 bits cannot overflow half a word.
#
# Several threads share the rows, each with its own histogram, and then add these up by feature. If
# there are few rows or many features, they share the features of one histogram instead. In both
# cases the thread that completes a feature goes on with it (`FeatureWork`): the sibling's cells and
# the gains of both nodes are computed while the cells are in its cache.
#
# Of StoredBins only the entries of a row are added, and to one more cell the row itself. The cell
# of a feature's rows without an entry is what its other cells lack of that total, so histograms are
# those of the same table as a BinnedMatrix.


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
        intp_t row_start, row_stop
        const int32_t* features
        int32_t first, last
        int64_t* hist

    void ht_accumulate(const HtAccumulation* work, int layout, int uniform)

    ctypedef struct HtStoredAccumulation:
        const int64_t* row_start
        const uint8_t* cells
        intp_t total
        const uint8_t* stats
        intp_t stats_stride
        int count_bits
        const uint32_t* rows
        intp_t row_start_at, row_stop_at
        int64_t* hist

    void ht_accumulate_stored(const HtStoredAccumulation* work, int layout, int wide)

cdef enum:
    PACKED_BLOCK = 65536
    # Smaller nodes (about 12 microseconds) are serial: a parallel region costs microseconds, and
    # far more if the cores are busy.
    PARALLEL_UPDATES = 16384
    FEW_ROWS = 2048              # below, threads share features, as a histogram each costs more
    # Dynamic chunks of rows: a thread that is delayed by another process leaves chunks to others.
    CHUNK_ROWS = 2048
    LEAST_CHUNK_ROWS = 256
    MIN_CHUNKS = 8               # per thread, of at least LEAST_CHUNK_ROWS
    MAX_THREADS = 256
    FEATURE_BLOCK = 64           # features of one pass: their codes are one cache line of a record
    WRITE_ROWS = 256             # rows that are quantised before they are added, from the L1 cache


cdef void accumulate(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop,
    const int32_t* features, int32_t first, int32_t last, int64_t* hist, bint packed,
    const RowValues* values,
) noexcept nogil:
    """Add the rows [row_start, row_stop) of a node to the cells of some features.

    Of StoredBins, to those of all features and to the total.
    """
    cdef int layout = HT_PACKED16 if packed else stats.layout
    cdef HtStoredAccumulation stored
    cdef HtAccumulation work = HtAccumulation(
        bins.records, bins.record_bytes, bins.cell_start, stats.data, stats.stride,
        stats.count_bits, rows, row_start, row_stop, features, first, last, hist)
    if bins.records == NULL:
        stored = HtStoredAccumulation(
            bins.row_start, bins.row_cells, bins.n_cells - 1, stats.data, stats.stride,
            stats.count_bits, rows, row_start, row_stop, hist)
        ht_accumulate_stored(&stored, layout, bins.wide_cells)
        return
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
    if bins.records == NULL:
        memset(hist, 0, bins.n_cells * n_words * sizeof(int64_t))
        return
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
    if bins.records == NULL:
        flush_packed(packed, hist, 0, bins.n_cells)
        return
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
    """Add some rows to the cells of some features, by blocks of features.

    `packed` is scratch for packed words, NULL: no packing.
    """
    cdef intp_t start, stop
    cdef int32_t end
    while first < last:
        end = min(first + FEATURE_BLOCK, last) if bins.records != NULL else last
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
    """OUT histogram of the rows of a node over all features (features NULL) or the listed ones.

    With many features threads share blocks of features, each one cache line of a record; otherwise
    they share rows. Cells of other features are not changed. If `values` is not NULL, statistics
    are written from them on the way, which requires all rows in order and statistics in the
    records. `then`, if not NULL, is run for each feature.
    """
    cdef intp_t updates = n_rows * n_features
    # Packing is worth it if there are more updates than cells to flush.
    cdef bint pack = stats.layout == PAIR16 and updates > 4 * bins.n_cells
    cdef bint few = n_rows < FEW_ROWS and values == NULL
    cdef int32_t size = FEATURE_BLOCK, n_blocks, block
    cdef int64_t* packed
    if bins.records == NULL:
        updates = n_rows * (1 + bins.row_start[bins.n_rows] // bins.n_rows)
        # A histogram for each thread is cleared and added up.
        few = updates < 2 * bins.n_cells
        pack = stats.layout == PAIR16 and updates > 4 * bins.n_cells
    packed = scratch + bins.n_cells * stats.n_words * n_threads if pack else NULL
    if then != NULL:
        updates += then.updates
    if n_threads == 1 or updates < PARALLEL_UPDATES:
        add_features(bins, stats, rows, n_rows, features, 0, n_features, hist, packed, values,
                     then)
        return
    if few and bins.records == NULL:
        # One thread adds the entries, which are in no order that could be shared.
        zero_cells(bins, features, 0, n_features, hist, stats.n_words)
        add_rows(bins, stats, rows, 0, n_rows, features, 0, n_features, hist, packed, values)
        n_blocks = (n_features + size - 1) // size
        for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="dynamic",
                            chunksize=1):
            complete_features(bins, stats, features, block * size,
                              min((block + 1) * size, n_features), hist, then)
        return
    if few:
        size = min(size, (n_features + n_threads - 1) // n_threads)
    n_blocks = (n_features + size - 1) // size
    if not few and (n_blocks < 2 * n_threads or bins.records == NULL):
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
    """OUT histogram of all rows over some features."""
    zero_cells(bins, features, first, last, hist, stats.n_words)
    add_rows(bins, stats, rows, 0, n_rows, features, first, last, hist, packed, values)
    complete_features(bins, stats, features, first, last, hist, then)


cdef void complete_features(
    const BinView* bins, const StatsView* stats, const int32_t* features, int32_t first,
    int32_t last, int64_t* hist, const FeatureWork* then,
) noexcept nogil:
    """Complete the cells of some features, and go on with them."""
    cdef int32_t j
    if bins.records == NULL:
        for j in range(first, last):
            fill_default(bins, stats, features[j] if features != NULL else j, hist)
    if then != NULL:
        then.run(then.context, features, first, last, omp_get_thread_num())


cdef inline void fill_default(
    const BinView* bins, const StatsView* stats, int32_t feature, int64_t* hist
) noexcept nogil:
    """OUT the cell of the rows without an entry: the total less the cells of the entries."""
    cdef intp_t first = bins.cell_start[feature], last = bins.cell_start[feature + 1], cell
    cdef intp_t n_words = stats.n_words, word
    cdef int64_t sums[2]
    for word in range(n_words):
        sums[word] = hist[(bins.n_cells - 1) * n_words + word]
    for cell in range(first, last):
        for word in range(n_words):
            sums[word] -= hist[cell * n_words + word]
    cell = first + bins.default_code[feature]
    for word in range(n_words):
        hist[cell * n_words + word] = sums[word]


cdef struct Part:
    # Sums of one thread.
    int64_t* hist
    int64_t* packed              # NULL: no packing
    intp_t packed_rows           # rows in `packed`
    bint has_cells               # whether `hist` is in use
    intp_t[4] unused             # threads have separate cache lines


cdef void add_in_chunks(
    const BinView* bins, const StatsView* stats, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features, int64_t* hist, int64_t* scratch,
    int64_t* packed, int n_threads, const RowValues* values, const FeatureWork* then,
) noexcept nogil:
    """OUT histogram of a node; threads share the rows."""
    cdef Part[MAX_THREADS] parts
    cdef intp_t chunk, n_chunks
    cdef int32_t j, first, last, feature
    cdef int thread, _once
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
        if bins.records == NULL:
            for _once in prange(1, schedule="static"):
                add_parts(bins, stats, bins.n_cells - 1, bins.n_cells, parts, n_threads)
        for thread in prange(n_threads, schedule="static", chunksize=1):
            first = n_features * thread // n_threads
            last = n_features * (thread + 1) // n_threads
            for j in range(first, last):
                feature = features[j] if features != NULL else j
                add_parts(bins, stats, bins.cell_start[feature], bins.cell_start[feature + 1],
                          parts, n_threads)
            complete_features(bins, stats, features, first, last, hist, then)


cdef void add_chunk(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop, const int32_t* features, int32_t n_features,
    Part* part, const RowValues* values,
) noexcept nogil:
    """Add a chunk of rows to the sums of a thread."""
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
    const BinView* bins, const StatsView* stats, intp_t first, intp_t last, const Part* parts,
    int n_threads,
) noexcept nogil:
    """Add the cells [first, last) of all threads to the histogram of the first thread."""
    cdef intp_t i
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
    """parent -= child for one feature: this gives exactly the sibling's cells."""
    cdef intp_t i
    for i in range(<intp_t>bins.cell_start[feature] * stats.n_words,
                   <intp_t>bins.cell_start[feature + 1] * stats.n_words):
        parent[i] -= child[i]


def histogram(BinnedView bins, RowStatistics statistics, const uint32_t[::1] rows, features,
              int n_threads):
    """Histogram of some rows (None: all in order), int64 of shape (n_cells, n_words); for tests.

    Cells of features that are not listed (None: all are) are 0.
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


# ---- Histograms of open nodes -----------------------------------------------------------------


cdef class HistogramPool:
    """Slots of equal size, allocated on demand and reused: at most `max_bytes`, at least three."""

    def __cinit__(self, intp_t max_bytes):
        self.slots = NULL
        self.free_slots = NULL
        self.n_slots = 0
        self.n_free = 0
        self.slot_words = 0
        self.max_bytes = max_bytes
        self.arrays = []

    def __dealloc__(self):
        free(self.slots)
        free(self.free_slots)

    cdef int reset(self, intp_t slot_words) except -1:
        """Release all slots, and their memory if the size of a histogram has changed."""
        cdef int32_t slot
        if slot_words != self.slot_words:
            self.arrays = []
            self.n_slots = 0
            self.slot_words = slot_words
            self.max_slots = <int32_t>max(3, min(self.max_bytes // (slot_words * 8), 1 << 24))
        self.n_free = self.n_slots
        for slot in range(self.n_slots):
            self.free_slots[slot] = slot
        return 0

    cdef int grow(self) except -1 with gil:
        cdef int64_t[::1] block = aligned_empty(self.slot_words, np.int64)
        cdef intp_t n = self.n_slots + 1
        cdef int64_t** slots = <int64_t**>realloc(self.slots, n * sizeof(int64_t*))
        if slots == NULL:
            raise MemoryError("no memory for another histogram")
        self.slots = slots
        cdef int32_t* free_slots = <int32_t*>realloc(self.free_slots, n * sizeof(int32_t))
        if free_slots == NULL:
            raise MemoryError("no memory for another histogram")
        self.free_slots = free_slots
        self.slots[self.n_slots] = &block[0]
        self.arrays.append(block)
        self.free_slots[self.n_free] = self.n_slots
        self.n_free += 1
        self.n_slots += 1
        return 0

    cdef int take(self) except -2 nogil:
        """Take a free slot; -1 if the pool is full."""
        if self.n_free == 0:
            if self.n_slots >= self.max_slots:
                return -1
            self.grow()
        self.n_free -= 1
        return self.free_slots[self.n_free]

    cdef void release(self, int32_t slot) noexcept nogil:
        self.free_slots[self.n_free] = slot
        self.n_free += 1
