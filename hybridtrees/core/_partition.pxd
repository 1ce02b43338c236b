"""Rows by node: one permutation, split stably."""

from hybridtrees.core._types cimport BinView, SplitInfo, intp_t, uint8_t, uint32_t

cdef void fill_direction(
    const BinView* bins, const SplitInfo* split, uint8_t* goes_left
) noexcept nogil

cdef intp_t split_rows(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* right, uint32_t* left, int n_threads,
) noexcept nogil
