"""Histograms of integer statistics over binned features."""

from hybridtrees.core._statistics cimport RowValues
from hybridtrees.core._types cimport (
    BinView, StatsView, intp_t, int32_t, int64_t, uint8_t, uint32_t
)

cdef void build_histogram(
    const BinView* bins, const StatsView* stats,
    const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features,
    int64_t* hist, int64_t* scratch, int n_threads, const RowValues* values,
) noexcept nogil

cdef void subtract_histogram(
    int64_t* parent, const int64_t* child, intp_t n_words, int n_threads
) noexcept nogil

cdef intp_t scratch_words(const BinView* bins, const StatsView* stats, int n_threads) noexcept nogil
