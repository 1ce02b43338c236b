"""Shares of the training rows of a node that go each way, for rows whose side is not known."""

from libc.math cimport isfinite

from hybridtrees.core.base._types cimport MISSING_STAYS, Node, float64_t, intp_t


cdef extern from "shap.h" nogil:
    enum:
        HT_SIDE_RIGHT, HT_SIDE_LEFT, HT_SIDE_STAY


cdef inline float64_t cover(const Node* nodes, intp_t node, bint by_weight) noexcept nogil:
    return nodes[node].weight if by_weight else <float64_t>nodes[node].n_samples


cdef inline void find_shares(const Node* nodes, intp_t node, float64_t* shares) noexcept nogil:
    """OUT the shares of the rows of a node that go right, left and stay.

    By weight; if it says nothing, by number of rows, or else equal.
    """
    cdef int way
    cdef float64_t total = 0
    for way in range(2):
        shares[HT_SIDE_LEFT] = max(0.0, cover(nodes, nodes[node].left, way == 0))
        shares[HT_SIDE_RIGHT] = max(0.0, cover(nodes, nodes[node].right, way == 0))
        shares[HT_SIDE_STAY] = 0
        total = shares[HT_SIDE_LEFT] + shares[HT_SIDE_RIGHT]
        if nodes[node].missing_left == MISSING_STAYS:
            shares[HT_SIDE_STAY] = max(0.0, cover(nodes, node, way == 0) - total)
            total += shares[HT_SIDE_STAY]
        if total > 0 and isfinite(total):
            break
    else:
        shares[HT_SIDE_LEFT] = shares[HT_SIDE_RIGHT] = total = 1
        shares[HT_SIDE_STAY] = 0
        total = 2
    for way in range(3):
        shares[way] /= total
