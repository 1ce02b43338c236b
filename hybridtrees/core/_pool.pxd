"""Histograms of open nodes: buffers that are reused, bounded in number."""

from hybridtrees.core._types cimport int32_t, int64_t, intp_t


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
