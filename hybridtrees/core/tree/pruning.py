"""Minimal cost-complexity pruning of a fitted tree, and the order of its nodes.

Every inner node has an alpha at which the branch below it collapses (`collapse_alphas`); it never
exceeds that of its parent. The subtree of a given alpha consists of the nodes whose ancestors all
have a larger one, so one pass over the tree is enough for all alphas.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hybridtrees.core.base._types import ROUNDING, Limit
from hybridtrees.core.tree._walk import collapse_branches, preorder
from hybridtrees.core.tree.tree import Tree


class PruningPath(NamedTuple):
    """The subtrees of a tree from itself to its root.

    Attributes
    ----------
    ccp_alphas : ndarray of shape (n_subtrees,)
        Smallest alpha of each subtree, ascending; the first is 0 and belongs to the whole tree.
        Branches that collapse at the same alpha have an entry each.
    impurities : ndarray of shape (n_subtrees,)
        Impurity of each subtree: the mean over its leaves, weighted.
    """

    ccp_alphas: np.ndarray
    impurities: np.ndarray


def impurity_decrease(tree: Tree, impurity: np.ndarray | None = None) -> np.ndarray:
    """Decrease in impurity by the split of every node, relative to the total weight."""
    cost = _node_cost(tree, impurity)
    nodes = tree.nodes
    inner = np.flatnonzero(nodes["left"] >= 0)
    decrease = np.zeros(len(nodes))
    split = nodes[inner]
    left, right = _children(tree)
    decrease[inner] = cost[inner] - cost[left[inner]] - cost[right[inner]]
    # Rows that stay at a node do not count for its split.
    stops = split["missing_left"] == Limit.MISSING_STAYS
    decrease[inner[stops]] = split["gain"][stops] / nodes["weight"][0]
    return np.maximum(decrease, 0.0)


def collapse_alphas(tree: Tree, impurity: np.ndarray | None = None) -> np.ndarray:
    """Alpha at which each inner node becomes a leaf or is removed; -inf in leaves."""
    return _collapse(tree, impurity)[0]


def pruning_path(tree: Tree) -> PruningPath:
    """Return the alphas at which a tree changes, and the impurities of its subtrees."""
    alphas, collapsed = _collapse(tree)
    events = np.flatnonzero(~np.isnan(collapsed))
    events = events[np.argsort(alphas[events], kind="stable")]
    # The cost of the tree is that of its root minus all decreases: this includes rows that stay
    # at inner nodes.
    root = _node_cost(tree)[0]
    whole = max(0.0, root - impurity_decrease(tree).sum())
    impurities = whole + np.concatenate([[0.0], np.cumsum(collapsed[events])])
    return PruningPath(np.concatenate([[0.0], alphas[events]]), impurities)


def prune_nodes(tree: Tree, splits: np.ndarray) -> tuple[Tree, np.ndarray]:
    """Turn all nodes but those of `splits` into leaves, and drop the nodes below leaves.

    Returns the tree in preorder, and for every old node its new number or that of its leaf.
    """
    nodes = tree.nodes
    place, size = preorder(*_children(tree))
    order = np.argsort(place)  # old numbers in preorder
    leaf = ((nodes["left"] < 0) | ~np.asarray(splits, dtype=bool))[order]
    # A leaf hides the rest of its branch, which follows it in preorder.
    end = np.where(leaf, np.arange(len(order)) + size[order], 0)
    hidden = np.zeros(len(order), dtype=bool)
    hidden[1:] = np.maximum.accumulate(end)[:-1] > np.arange(1, len(order))
    new_place = np.cumsum(~hidden, dtype=np.int32) - 1
    kept = order[~hidden]
    new_node = np.empty(len(nodes), dtype=np.int32)
    new_node[order] = new_place
    made = nodes[kept]
    made["parent"][1:] = new_node[made["parent"][1:]]
    inner = ~leaf[~hidden]
    for side in ("left", "right"):
        made[side] = np.where(inner, new_node[made[side]], -1)
    for name in ("feature", "category_start"):
        made[name][~inner] = -1
    for name in (
        "threshold", "gain", "category_words", "category_limit", "bin", "missing_left",
    ):  # fmt: skip
        made[name][~inner] = 0
    categories = _gather_sets(made, tree.categories)
    pruned = Tree(made, tree.values[kept], categories, **_gather_terms(tree, kept))
    pruned.impurity = None if tree.impurity is None else tree.impurity[kept]
    return pruned, new_node


def prune_at(tree: Tree, alpha: float, leaf: np.ndarray) -> tuple[Tree, np.ndarray]:
    """Return the subtree of minimal cost-complexity, and the leaves of rows in it.

    `leaf` has the node of each row, -1 for rows that were not used. As in scikit-learn, an alpha of
    0 does not prune, not even branches without any gain.
    """
    if not alpha > 0:
        return tree, leaf
    tree, new_node = prune_nodes(tree, collapse_alphas(tree) > alpha)
    return tree, np.where(leaf < 0, leaf, new_node[leaf]).astype(np.int32)


def branch_sizes(tree: Tree) -> np.ndarray:
    """Return the number of nodes of the branch of each node, itself included."""
    return preorder(*_children(tree))[1]


def _collapse(tree: Tree, impurity: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    decrease = impurity_decrease(tree, impurity)
    return collapse_branches(*_children(tree), decrease, ROUNDING)


def _node_cost(tree: Tree, impurity: np.ndarray | None = None) -> np.ndarray:
    """Impurity of the nodes times their share of the weight."""
    impurity = tree.impurity if impurity is None else np.asarray(impurity, dtype=np.float64)
    if impurity is None or impurity.shape != (tree.n_nodes,):
        raise ValueError(f"pruning needs the impurity of each of the {tree.n_nodes} nodes")
    return tree.nodes["weight"] * impurity / tree.nodes["weight"][0]


def _children(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the children, checked because the kernels index with them."""
    left, right = tree.nodes["left"], tree.nodes["right"]
    own, n = np.arange(tree.n_nodes), tree.n_nodes
    inner = left >= 0
    if np.any(inner & ((left <= own) | (right <= own) | (left >= n) | (right >= n))):
        raise ValueError("a child must follow its parent, within the tree")
    return left, right


def _gather_sets(nodes: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Concatenate the category sets of the nodes, and write their starts into the nodes."""
    has_set = np.flatnonzero(nodes["category_start"] >= 0)
    words = nodes["category_words"][has_set].astype(np.int64)
    start = np.concatenate([[0], np.cumsum(words)])
    taken = np.repeat(nodes["category_start"][has_set] - start[:-1], words) + np.arange(start[-1])
    nodes["category_start"][has_set] = start[:-1]
    return categories[taken]


def _gather_terms(tree: Tree, kept: np.ndarray) -> dict[str, Any]:
    """Linear parts of the kept nodes."""
    pointers = tree.coef_ptr
    assert pointers is not None
    counts = np.diff(pointers)[kept]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    taken = np.repeat(pointers[kept] - start[:-1], counts) + np.arange(start[-1])
    return {
        "coef_ptr": start,
        "coef_feature": tree.coef_feature[taken],
        "coef": tree.coef[taken],
        "coef_center": tree.coef_center[taken],
        "coef_low": tree.coef_low[taken],
        "coef_high": tree.coef_high[taken],
        "value_range": None if tree.value_range is None else tree.value_range[kept],
    }
