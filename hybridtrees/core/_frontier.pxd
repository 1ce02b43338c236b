"""The order in which a tree's open nodes are split."""

from hybridtrees.core._types cimport float64_t, int32_t


cdef struct OpenNode:
    float64_t gain
    int32_t node


cdef class NodeQueue:
    cdef OpenNode* heap
    cdef int32_t n_open, capacity
    cdef int kind
    cdef bint goes_before(self, OpenNode a, OpenNode b) noexcept nogil
    cdef int push(self, int32_t node, float64_t gain) except -1 nogil
    cdef int32_t pop(self) noexcept nogil
