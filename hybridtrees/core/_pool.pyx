"""Histograms of open nodes: buffers that are reused, bounded in number."""

from libc.stdlib cimport free, realloc

from hybridtrees.core._types cimport int32_t, int64_t, intp_t

import numpy as np

from hybridtrees.core.dtypes import aligned_empty


cdef class HistogramPool:
    """Slots of equal size, made when first needed, up to `max_bytes` in all (three at least)."""

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
        """Make every slot free; start anew where the size of a histogram has changed."""
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
        """A free slot, or -1 when the pool is full and someone has to give one back."""
        if self.n_free == 0:
            if self.n_slots >= self.max_slots:
                return -1
            self.grow()
        self.n_free -= 1
        return self.free_slots[self.n_free]

    cdef void release(self, int32_t slot) noexcept nogil:
        self.free_slots[self.n_free] = slot
        self.n_free += 1
