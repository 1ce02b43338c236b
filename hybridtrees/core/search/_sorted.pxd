"""Sorted lists of rows per feature, for the exact search."""

from hybridtrees.core.base._types cimport SortedEntry, intp_t, uint32_t, uint8_t

cdef intp_t count_present(const SortedEntry* entries, intp_t n) noexcept nogil

cdef intp_t divide_list(
    SortedEntry* entries, intp_t n, const uint8_t* side, SortedEntry* scratch,
) noexcept nogil

cdef intp_t divide_ids(
    uint32_t* rows, intp_t n, const uint8_t* side, uint32_t* scratch, intp_t* n_staying,
) noexcept nogil
