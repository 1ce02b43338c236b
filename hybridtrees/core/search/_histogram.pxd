"""Histograms of binned features: integer statistics of rows, sums by bin, a pool of buffers."""

from hybridtrees.core.base._types cimport (
    BinView, StatsView, float32_t, int32_t, int64_t, intp_t, uint32_t, uint8_t,
)


cdef class BinnedView:
    cdef BinView view
    cdef readonly object binned
    cdef uint8_t[:, ::1] records
    cdef uint8_t[:, ::1] columns
    cdef const int32_t[::1] n_bins
    cdef const uint8_t[::1] has_missing
    cdef const uint8_t[::1] is_categorical
    cdef uint32_t[::1] cell_start


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
    cdef void write(self, const RowValues* values, int n_threads) noexcept nogil


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
