"""Histograms of integer statistics over binned features."""

from hybridtrees.core._statistics cimport RowValues
from hybridtrees.core._types cimport (
    BinView, StatsView, intp_t, int32_t, int64_t, uint8_t, uint32_t
)

cdef struct FeatureWork:
    # What is done with features as soon as their cells are complete, by the thread that has them.
    # `features` is the list that first and last count in, NULL: they are features themselves.
    void (*run)(
        void* context, const int32_t* features, int32_t first, int32_t last, int thread
    ) noexcept nogil
    void* context
    intp_t updates               # what it costs for all features, in updates of a cell

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
