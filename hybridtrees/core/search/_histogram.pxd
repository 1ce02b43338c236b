"""Histograms of binned features: integer statistics of rows, sums by bin, a pool of buffers."""

from hybridtrees.core.base._types cimport (
    BinView, StatsView, float32_t, int32_t, int64_t, intp_t, uint16_t, uint32_t,
    uint8_t,
)


cdef class BinnedView:
    cdef BinView view
    cdef readonly object binned
    cdef uint8_t[:, ::1] records             # of a BinnedMatrix
    cdef uint8_t[:, ::1] columns
    cdef const int64_t[::1] row_start        # of StoredBins
    cdef const uint8_t[::1] row_cells
    cdef const int64_t[::1] column_start
    cdef const uint32_t[::1] column_rows
    cdef const uint8_t[::1] column_codes
    cdef const uint8_t[::1] default_code
    cdef const int32_t[::1] n_bins
    cdef const uint8_t[::1] has_missing
    cdef const uint8_t[::1] is_categorical
    cdef const uint32_t[::1] cell_start
    cdef int open_matrix(self, binned) except -1
    cdef int open_stored(self, binned) except -1


cdef inline uint32_t cell_at(const BinView* bins, int64_t entry) noexcept nogil:
    """Cell of an entry of StoredBins."""
    if bins.wide_cells:
        return (<const uint32_t*>bins.row_cells)[entry]
    return (<const uint16_t*>bins.row_cells)[entry]


cdef inline intp_t entry_of(const BinView* bins, intp_t row, int32_t feature) noexcept nogil:
    """Code of a feature in a row of StoredBins, by bisection of the row's entries."""
    cdef int64_t first = bins.row_start[row], last = bins.row_start[row + 1], middle
    cdef uint32_t start = bins.cell_start[feature], cell
    while first < last:
        middle = (first + last) >> 1
        if cell_at(bins, middle) < start:
            first = middle + 1
        else:
            last = middle
    if first < bins.row_start[row + 1]:
        cell = cell_at(bins, first)
        if cell < bins.cell_start[feature + 1]:
            return cell - start
    return bins.default_code[feature]


cdef inline int32_t feature_of(const BinView* bins, uint32_t cell, int32_t least) noexcept nogil:
    """Feature that has a cell, at least `least`, by bisection."""
    cdef int32_t last = bins.n_features, middle
    while last - least > 1:
        middle = (least + last) >> 1
        if bins.cell_start[middle] <= cell:
            least = middle
        else:
            last = middle
    return least


cdef inline int32_t code_at(const BinView* bins, intp_t row, int32_t feature) noexcept nogil:
    """Code of a feature in a row."""
    if bins.records != NULL:
        return bins.columns[feature * bins.n_rows + row]
    return <int32_t>entry_of(bins, row, feature)


cdef struct RowValues:
    # Gradients and hessians before quantisation.
    const float32_t* grad
    const float32_t* hess          # NULL: constant_hess for all rows
    double constant_hess

cdef RowValues row_values(const float32_t[::1] grad, hess, intp_t n) except *


cdef class RowStatistics:
    cdef StatsView view
    cdef BinnedView bins
    cdef uint8_t[::1] own
    cdef uint8_t[::1] blocks
    cdef bint use_tail
    cdef int quantise(
        self, const RowValues* values, intp_t n_sampled, bint need_counts, int n_threads
    ) except -1 nogil
    cdef int choose(
        self, const RowValues* values, intp_t n, intp_t n_sampled, bint need_counts, int n_threads
    ) except -1 nogil
    cdef int place(self) except -1 nogil
    cdef void write(self, const RowValues* values, int n_threads) noexcept nogil


cdef void write_rows(
    const StatsView* view, const RowValues* values, intp_t start, intp_t stop
) noexcept nogil


cdef struct FeatureWork:
    # Work on features as soon as their cells are complete, in the same thread. These are
    # features[first:last], or [first, last) if `features` is NULL.
    void (*run)(
        void* context, const int32_t* features, int32_t first, int32_t last, int thread
    ) noexcept nogil
    void* context
    intp_t updates               # cost for all features, in updates of a cell

cdef void build_histogram(
    const BinView* bins, const StatsView* stats,
    const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features,
    int64_t* hist, int64_t* scratch, int n_threads, const RowValues* values,
    const FeatureWork* then,
) noexcept nogil

cdef void add_rows(
    const BinView* bins, const StatsView* stats, const uint32_t* rows,
    intp_t row_start, intp_t row_stop,
    const int32_t* features, int32_t first, int32_t last,
    int64_t* hist, int64_t* packed, const RowValues* values,
) noexcept nogil

cdef void subtract_cells(
    const BinView* bins, const StatsView* stats, int32_t feature, int64_t* parent,
    const int64_t* child,
) noexcept nogil

cdef intp_t scratch_words(const BinView* bins, const StatsView* stats, int n_threads) noexcept nogil


cdef class HistogramPool:
    cdef list arrays
    cdef int64_t** slots
    cdef int32_t* free_slots
    cdef int32_t n_free, max_slots
    cdef readonly int32_t n_slots
    cdef intp_t slot_words, max_bytes
    cdef int reset(self, intp_t slot_words) except -1
    cdef int grow(self) except -1 with gil
    cdef int take(self) except -2 nogil
    cdef void release(self, int32_t slot) noexcept nogil
