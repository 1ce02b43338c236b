"""Nodes of a tree while it grows."""

from hybridtrees.core._types cimport (
    Bounds, NodeSums, SplitInfo, float64_t, int32_t, intp_t, uint32_t, uint64_t,
)


cdef struct GrowNode:
    # Rows [start, stop) of the partition; those from `stay` on go to neither child.
    intp_t start
    intp_t stop
    intp_t stay
    NodeSums sums             # integer sums (histograms)
    SplitInfo split
    Bounds bounds             # of the value (monotone constraints)
    uint64_t groups           # interaction groups that hold all features of the path
    int32_t alone             # the one feature left, where it is in no group; -1: none
    uint64_t key              # names the node by its path, for the draws of features
    int32_t parent
    int32_t left
    int32_t right
    int32_t depth
    int32_t slot              # its histogram in the pool, -1: none


cdef class NodeStore:
    cdef GrowNode* nodes
    cdef int32_t n_nodes, capacity
    cdef uint32_t* words      # category sets
    cdef intp_t n_words, word_capacity
    cdef void clear(self) noexcept nogil
    cdef int reserve(self, int32_t n) except -1 nogil
    cdef int new_node(self) except -1 nogil
    cdef int new_children(self, int32_t parent) except -1 nogil
    cdef int new_words(self, intp_t n) except -1 nogil
    cdef uint32_t* words_of(self, const GrowNode* node) noexcept nogil
    cdef int copy(self, NodeStore other) except -1 nogil
    cdef void prune(self, float64_t least_gain) noexcept nogil
    cdef int graft(self, int32_t at, NodeStore other, intp_t shift) except -1 nogil
