"""Sums over the rows and nodes of a grown tree, in the order of their numbers."""

from hybridtrees.core._types cimport Node, float64_t, int32_t, intp_t

import numpy as np


def leaf_means(
    const Node[::1] nodes, const float64_t[:, :] y, const float64_t[::1] weight,
    const int32_t[::1] leaf, float64_t[:, ::1] value,
):
    """Write the mean targets of the rows that end at each leaf; of one row, the row itself.

    Parameters
    ----------
    nodes : array of NODE_DTYPE
    y : float64 array of shape (n_rows, n_outputs)
    weight : float64 array of shape (n_rows,), or None
    leaf : int32 array of shape (n_rows,)
        Node where each row ends, negative for rows that take no part.
    value : float64 array of shape (n_nodes, n_outputs)
    """
    cdef intp_t n_nodes = nodes.shape[0], n_outputs = y.shape[1], i, k, node
    cdef bint weighted = weight is not None
    cdef float64_t w
    if (leaf.shape[0] != y.shape[0] or value.shape[0] != n_nodes
            or value.shape[1] != n_outputs or (weighted and weight.shape[0] != y.shape[0])):
        raise ValueError("rows, targets and nodes do not fit each other")
    cdef float64_t[:, ::1] sums = np.zeros((n_nodes, n_outputs + 1))
    cdef intp_t[::1] last = np.full(n_nodes, -1)          # row of the node, -2: several
    with nogil:
        for i in range(leaf.shape[0]):
            node = leaf[i]
            if node < 0 or node >= n_nodes:
                continue
            w = weight[i] if weighted else 1.0
            for k in range(n_outputs):
                sums[node, k] += w * y[i, k]
            sums[node, n_outputs] += w
            last[node] = i if last[node] == -1 else -2
        for node in range(n_nodes):
            if nodes[node].left >= 0:
                continue
            for k in range(n_outputs):
                # A weight would round the mean of one row.
                value[node, k] = y[last[node], k] if last[node] >= 0 else (
                    sums[node, k] / sums[node, n_outputs])


def pair_gains(Node[::1] nodes, const float64_t[:, ::1] sums):
    """Write the gains of splits from sums and weights: the squares between the two means."""
    cdef intp_t k
    cdef const float64_t* left
    cdef const float64_t* right
    cdef float64_t gap
    if sums.shape[0] != nodes.shape[0] or sums.shape[1] != 2:
        raise ValueError("one sum and one weight per node are needed")
    with nogil:
        for k in range(nodes.shape[0]):
            if nodes[k].left >= 0:
                left = &sums[nodes[k].left, 0]
                right = &sums[nodes[k].right, 0]
                gap = left[0] / left[1] - right[0] / right[1]
                nodes[k].gain = gap * gap * left[1] * right[1] / (left[1] + right[1])


def feature_gains(const Node[::1] nodes, float64_t[::1] total):
    """Add to each feature the gains of its splits, those below 0 as 0."""
    cdef intp_t k
    with nogil:
        for k in range(nodes.shape[0]):
            if nodes[k].left >= 0 and 0 <= nodes[k].feature < total.shape[0]:
                total[nodes[k].feature] += max(nodes[k].gain, 0.0)
