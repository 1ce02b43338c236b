"""Trees of scikit-learn in the form of ours, and node by node comparison of the two."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.pruning import collapse_alphas, prune_nodes
from hybridtrees.core.tree.tree import Tree


def convert_tree(theirs) -> tuple[Tree, np.ndarray]:
    """Return a fitted scikit-learn tree (`model.tree_`) as Tree, and our number of its nodes.

    The nodes are put in preorder, in which its best-first trees do not come.
    """
    inner = theirs.children_left >= 0
    nodes = np.zeros(theirs.node_count, dtype=NODE_DTYPE)
    nodes["left"] = theirs.children_left
    nodes["right"] = theirs.children_right
    nodes["parent"][0] = -1
    for side in ("left", "right"):
        nodes["parent"][nodes[side][inner]] = np.flatnonzero(inner)
    for k in np.flatnonzero(inner):
        nodes["depth"][nodes["left"][k]] = nodes["depth"][nodes["right"][k]] = nodes["depth"][k] + 1
    nodes["feature"] = np.where(inner, theirs.feature, -1)
    nodes["threshold"] = np.where(inner, theirs.threshold, 0.0)
    nodes["missing_left"] = np.where(inner, theirs.missing_go_to_left, 0)
    nodes["n_samples"] = theirs.n_node_samples
    nodes["weight"] = theirs.weighted_n_node_samples
    nodes["category_start"] = -1
    cost = theirs.weighted_n_node_samples * theirs.impurity
    split = nodes[inner]
    nodes["gain"][inner] = cost[inner] - cost[split["left"]] - cost[split["right"]]
    values = theirs.value.reshape(theirs.node_count, -1)
    tree = Tree(nodes, values)
    tree.impurity = theirs.impurity
    return reorder(tree)


def assert_same_tree(ours: Tree, theirs: Tree, *, rtol: float = 1e-9, gains: bool = True) -> None:
    """Fail where two trees differ in a node: split, counts, impurity or value."""
    assert ours.n_nodes == theirs.n_nodes
    for name in ("left", "right", "parent", "depth", "feature", "n_samples"):
        np.testing.assert_array_equal(ours.nodes[name], theirs.nodes[name], err_msg=name)
    inner = ours.nodes["left"] >= 0
    np.testing.assert_array_equal(
        ours.nodes["threshold"][inner], theirs.nodes["threshold"][inner], err_msg="threshold"
    )
    np.testing.assert_allclose(ours.nodes["weight"], theirs.nodes["weight"], rtol=rtol)
    # Impurities near zero are differences of large numbers.
    scale = max(1e-300, float(np.max(theirs.impurity)))
    np.testing.assert_allclose(
        ours.impurity, theirs.impurity, rtol=rtol, atol=1e-12 * scale, err_msg="impurity"
    )
    size = max(1e-300, float(np.abs(theirs.values).max()))
    np.testing.assert_allclose(ours.values, theirs.values, rtol=rtol, atol=1e-12 * size)
    if gains:
        np.testing.assert_allclose(
            ours.nodes["gain"], theirs.nodes["gain"], rtol=1e-6, atol=1e-9 * scale
        )


def sides(tree: Tree, node: int, x: np.ndarray) -> np.ndarray:
    """Where values go at a node: 1 left, 0 right, 2 nowhere."""
    split = tree.nodes[node]
    if split["category_start"] >= 0:
        left = np.isin(x, tree.category_set(node))
    else:
        left = x <= split["threshold"]
    return np.where(np.isnan(x), split["missing_left"], left)


def assert_same_up_to_ties(ours: Tree, theirs: Tree, X: np.ndarray, *, rtol: float = 1e-9) -> int:
    """Walk down two trees side by side; fail where they differ by more than a tie.

    Nodes that hold the same rows must agree in counts, impurity, value and the gain of their
    splits. Where splits of equal gain part the rows differently the walk ends, since what lies
    below may differ by right. Returns the number of nodes compared.
    """
    size = max(1e-300, float(np.max(theirs.impurity)))
    scale = size * float(theirs.nodes["weight"][0])
    compared = 0
    todo = [(0, 0, np.arange(len(X)))]
    while todo:
        a, b, rows = todo.pop()
        one, other = ours.nodes[a], theirs.nodes[b]
        compared += 1
        assert one["n_samples"] == other["n_samples"]
        np.testing.assert_allclose(one["weight"], other["weight"], rtol=rtol)
        np.testing.assert_allclose(ours.values[a], theirs.values[b], rtol=rtol, atol=1e-12)
        # The logarithms of a pure node cancel up to rounding.
        noise = 1e-12 * size + 1e-15 * np.abs(theirs.values[b]).max()
        np.testing.assert_allclose(ours.impurity[a], theirs.impurity[b], rtol=rtol, atol=noise)
        assert (one["left"] < 0) == (other["left"] < 0)
        if one["left"] < 0:
            continue
        np.testing.assert_allclose(one["gain"], other["gain"], rtol=1e-6, atol=1e-10 * scale)
        side = sides(ours, a, X[rows, one["feature"]])
        peer = sides(theirs, b, X[rows, other["feature"]])
        mirror = np.where(peer == 2, 2, 1 - peer)
        if np.array_equal(side, peer):
            todo += [(one["left"], other["left"], rows[side == 1])]
            todo += [(one["right"], other["right"], rows[side == 0])]
        elif np.array_equal(side, mirror):
            todo += [(one["left"], other["right"], rows[side == 1])]
            todo += [(one["right"], other["left"], rows[side == 0])]
    return compared


def prune(tree, alpha):
    """Return the smallest subtree of minimum cost at `alpha`, in preorder."""
    return prune_nodes(tree, collapse_alphas(tree) > alpha)[0]


def reorder(tree):
    """Return the tree in preorder, and the new number of every old node."""
    return prune_nodes(tree, np.ones(tree.n_nodes, dtype=bool))
