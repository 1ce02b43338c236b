"""Paths of rows through a tree, and the weights of training rows in predictions."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from hybridtrees.core.tree.pruning import branch_sizes
from hybridtrees.core.tree.tree import Tree


def decision_path(tree: Tree, leaves: np.ndarray) -> scipy.sparse.csr_matrix:
    """Mark the nodes on the paths of rows to their leaves, both ends included."""
    pointers = np.concatenate([[0], np.cumsum(tree.nodes["depth"][leaves] + 1, dtype=np.int64)])
    indices = np.empty(pointers[-1], dtype=_index_dtype(pointers[-1]))
    parent = tree.nodes["parent"]
    node, place = np.asarray(leaves), pointers[1:] - 1
    # From the leaves up, for all rows at once; node numbers increase towards the leaf.
    while len(node):
        indices[place] = node
        node = parent[node]
        on = node >= 0
        node, place = node[on], place[on] - 1
    data = np.ones(len(indices), dtype=np.intp)
    shape = (len(leaves), tree.n_nodes)
    return scipy.sparse.csr_matrix((data, indices, pointers.astype(indices.dtype)), shape=shape)


def leaf_weights(
    tree: Tree, leaves: np.ndarray, train_leaves: np.ndarray, train_weight: np.ndarray | None
) -> scipy.sparse.csr_array:
    """Return the weights (n_rows, n_train) of training rows in the predictions of rows.

    The training rows of a row that ends at an inner node are those of the whole branch, so the
    tree must be in preorder. `train_leaves` is -1 for rows that were not used in the fit.
    """
    n_train = len(train_leaves)
    order = np.argsort(train_leaves, kind="stable")
    ordered = train_leaves[order]
    first = np.searchsorted(ordered, leaves)
    last = np.searchsorted(ordered, leaves + branch_sizes(tree)[leaves])
    counts = last - first
    pointers = np.concatenate([[0], np.cumsum(counts)])
    place = np.repeat(first - pointers[:-1], counts) + np.arange(pointers[-1])
    dtype = _index_dtype(max(pointers[-1], n_train))
    if train_weight is None:
        data = np.repeat(1.0 / counts, counts)
    else:
        data = train_weight[order][place] / np.repeat(tree.nodes["weight"][leaves], counts)
    indices = order[place].astype(dtype)
    shape = (len(leaves), n_train)
    result = scipy.sparse.csr_array((data, indices, pointers.astype(dtype)), shape=shape)
    result.sort_indices()
    return result


def _index_dtype(largest: int) -> type:
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64
