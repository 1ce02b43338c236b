"""Rows in the order of each feature: the lists that the exact search runs along."""

from hybridtrees.core.base._types cimport Entry, intp_t, uint32_t, uint8_t


cdef uint32_t MISSING_KEY


cdef intp_t count_present(const Entry* entries, intp_t n) noexcept nogil

cdef intp_t divide_list(
    Entry* entries, intp_t n, const uint8_t* side, Entry* scratch,
) noexcept nogil

cdef intp_t divide_ids(
    uint32_t* rows, intp_t n, const uint8_t* side, uint32_t* scratch, intp_t* n_staying,
) noexcept nogil
