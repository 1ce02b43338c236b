"""Cost-complexity pruning, and the shape of subtrees.

A subtree T of a tree costs R(T) + alpha |leaves of T|. The split at node t lowers R by
``decrease[t]``, so collapsing the branch below t is worth while once alpha reaches the mean
decrease of the splits that the branch still has. Those are not all its splits: branches of it
that collapse at a smaller alpha are gone by then. The kernel goes up from the leaves. It starts
the mean of t with t's own decrease and adds the branches below in the order of their alphas,
from the largest down, as long as they would outlive t; such a branch goes together with t and is
done with, so every branch is taken from a heap at most once: O(n log n) for any shape of tree.
"""

from libc.math cimport INFINITY

from hybridtrees.core._types cimport float64_t, int32_t, intp_t, uint8_t

import numpy as np

cdef enum:
    NONE = -1


cdef struct Heap:
    # Skew heaps over the nodes, largest alpha on top, one per open subtree.
    float64_t* alpha
    int32_t* left
    int32_t* right


cdef inline int32_t merge(Heap* heap, int32_t first, int32_t second) noexcept nogil:
    """Join two heaps along their right spines, turning the children over on the way down."""
    cdef int32_t root, node, below
    if first == NONE:
        return second
    if second == NONE:
        return first
    if heap.alpha[first] < heap.alpha[second]:
        first, second = second, first
    root = first
    node = first
    while True:
        below = heap.right[node]
        heap.right[node] = heap.left[node]
        if below == NONE:
            heap.left[node] = second
            return root
        if heap.alpha[below] < heap.alpha[second]:
            below, second = second, below
        heap.left[node] = below
        node = below


def collapse_branches(
    const int32_t[:] left, const int32_t[:] right, const float64_t[::1] decrease,
    float64_t tolerance,
):
    """Alpha at which the branch below each node collapses, by itself or with a larger branch.

    Parameters
    ----------
    left, right : int32 arrays of shape (n_nodes,)
        Children, -1 in a leaf; a child stands behind its parent.
    decrease : float64 array of shape (n_nodes,)
        What the split at each node takes off the cost.
    tolerance : float
        A branch whose alpha falls short of an ancestor's by no more than this share of it
        collapses with the ancestor.

    Returns
    -------
    alpha : float64 array of shape (n_nodes,)
        -inf in leaves.
    collapsed : float64 array of shape (n_nodes,)
        What the cost gains when the branch collapses by itself; NaN where it never does.
    """
    cdef intp_t n = left.shape[0]
    cdef int32_t t, top
    cdef float64_t sum_, count, mean
    alpha_array = np.empty(n)
    collapsed_array = np.full(n, np.nan)
    cdef float64_t[::1] alpha = alpha_array, collapsed = collapsed_array
    cdef float64_t[::1] own = np.zeros(n), total = np.zeros(n), size = np.zeros(n)
    cdef int32_t[::1] heap_left = np.full(n, NONE, dtype=np.int32)
    cdef int32_t[::1] heap_right = np.full(n, NONE, dtype=np.int32)
    cdef int32_t[::1] heap_of = np.full(n, NONE, dtype=np.int32)
    cdef uint8_t[::1] taken = np.zeros(n, dtype=np.uint8)
    cdef Heap heap
    if n == 0:
        return alpha_array, collapsed_array
    heap.alpha, heap.left, heap.right = &own[0], &heap_left[0], &heap_right[0]
    with nogil:
        for t in range(<int32_t>n - 1, -1, -1):
            if left[t] < 0:
                continue
            top = merge(&heap, heap_of[left[t]], heap_of[right[t]])
            sum_, count = decrease[t], 1
            mean = sum_
            while top != NONE and own[top] >= mean - tolerance * (mean if mean > 0 else -mean):
                sum_ += total[top]
                count += size[top]
                mean = sum_ / count
                taken[top] = 1
                top = merge(&heap, heap_left[top], heap_right[top])
            own[t], total[t], size[t] = mean, sum_, count
            heap_of[t] = merge(&heap, top, t)
        # A branch that was taken out goes with the ancestor that took it, and all branches
        # between the two were taken by the same one.
        for t in range(<int32_t>n):
            if left[t] < 0:
                alpha[t] = -INFINITY
                continue
            if not taken[t]:
                alpha[t] = own[t]
                collapsed[t] = total[t]
            alpha[left[t]] = alpha[t]
            alpha[right[t]] = alpha[t]
    return alpha_array, collapsed_array


def preorder(const int32_t[:] left, const int32_t[:] right):
    """Place of every node when each stands before its left and its left before its right branch.

    Parameters
    ----------
    left, right : int32 arrays of shape (n_nodes,)
        Children, -1 in a leaf; a child stands behind its parent.

    Returns
    -------
    place : int32 array of shape (n_nodes,)
    size : int32 array of shape (n_nodes,)
        Nodes of each branch, its root included: in that order they stand at the places
        ``place[t]`` to ``place[t] + size[t] - 1``.
    """
    cdef intp_t n = left.shape[0], t
    place_array, size_array = np.zeros(n, dtype=np.int32), np.ones(n, dtype=np.int32)
    cdef int32_t[::1] place = place_array, size = size_array
    with nogil:
        for t in range(n - 1, -1, -1):
            if left[t] >= 0:
                size[t] += size[left[t]] + size[right[t]]
        for t in range(n):
            if left[t] >= 0:
                place[left[t]] = place[t] + 1
                place[right[t]] = place[t] + 1 + size[left[t]]
    return place_array, size_array
