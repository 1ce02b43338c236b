"""Forests in little memory: packing, unpacking, checks and prediction."""

from hybridtrees.core.base._types cimport float32_t, float64_t, int32_t


cdef packed struct NarrowNode:
    # 12 bytes: every threshold of the forest is a float32.
    float32_t threshold
    int32_t right
    int32_t feature


cdef packed struct WideNode:
    float64_t threshold
    int32_t right
    int32_t feature


ctypedef fused node_t:
    NarrowNode
    WideNode


cpdef enum PackedSet:
    SET_HEAD = 2             # entries before the words of a set
