"""Per-row statistics: from float gradients to the integers that histograms add up."""

from hybridtrees.core._types cimport StatsView, float32_t, intp_t, uint8_t
from hybridtrees.core._views cimport BinnedView


cdef struct RowValues:
    # What the integers are made of.
    const float32_t* grad
    const float32_t* hess          # NULL: one constant
    double constant_hess


cdef void write_rows(
    const StatsView* view, const RowValues* values, intp_t start, intp_t stop
) noexcept nogil


cdef class RowStatistics:
    cdef StatsView view
    cdef BinnedView bins
    cdef uint8_t[::1] own
    cdef double[::1] blocks
    cdef bint use_tail
    cdef int quantise(
        self, const RowValues* values, intp_t n_sampled, bint need_counts, int n_threads
    ) except -1 nogil
    cdef void write(self, const RowValues* values, int n_threads) noexcept nogil
