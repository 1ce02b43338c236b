"""The node of a tree that is laid out for walks."""

from hybridtrees.core.base._types cimport float64_t, int32_t, uint8_t


cdef struct WalkNode:
    # 32 bytes. The right child follows the left one; the child of a leaf is the leaf itself.
    float64_t threshold
    int32_t left
    int32_t column               # position of its feature among the used ones
    int32_t category_start       # -1: numeric
    int32_t category_words
    int32_t category_limit
    uint8_t missing_left
    uint8_t is_leaf
    uint8_t leaf_below           # bit 0: the left child is a leaf, bit 1: the right one
