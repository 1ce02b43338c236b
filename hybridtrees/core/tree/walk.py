"""Leaves and values of rows in a single tree of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hybridtrees.core.tree._walk import TreeWalk, add_node_values
from hybridtrees.core.tree.tree import Tree, TreeEnsemble, dense_blocks

# Up to so many leaves the bit masks of `_predict` are faster than a walk.
_FEW_LEAVES = 64
# Fewer rows than it takes to make up for laying out a tree.
_FEW_ROWS = 4096

# Cached layouts of trees, kept here because they are not part of the state of a tree.
_walks: WeakKeyDictionary[TreeEnsemble, TreeWalk] = WeakKeyDictionary()


def find_leaves(ensemble: TreeEnsemble, X: Any, n_threads: int) -> np.ndarray:
    """Return the node of a single tree where each row ends."""
    walk = _walks.get(ensemble)
    if walk is None:
        walk = _walks[ensemble] = TreeWalk(ensemble)
    if isinstance(X, np.ndarray):
        return walk.leaves(X, n_threads)
    leaves = np.empty(X.shape[0], dtype=np.int32)
    for block, rows in dense_blocks(X):
        leaves[rows] = walk.leaves(block, n_threads)
    return leaves


def find_values(ensemble: TreeEnsemble, X: Any, n_threads: int) -> np.ndarray:
    """Return the values of the nodes of a single tree where rows end."""
    constant = len(ensemble.coef) == 0 and ensemble.value_range is None
    if constant and len(ensemble.nodes) >= 2 * _FEW_LEAVES:
        return ensemble.values.take(find_leaves(ensemble, X, n_threads), axis=0)
    raw = np.zeros((X.shape[0], ensemble.n_outputs))
    ensemble.add_raw(X, raw, n_threads)
    return raw


def add_grown(trees: Sequence[Tree], X: Any, raw: np.ndarray, n_threads: int) -> None:
    """Add trees of one value, grown just now, to the columns of `raw`, one tree to each."""
    if isinstance(X, np.ndarray) and len(X) < _FEW_ROWS and not any(map(_has_lines, trees)):
        for tree, column in zip(trees, raw.T, strict=True):
            add_node_values(tree.nodes, tree.values[:, 0], tree.categories, X, column)
        return
    n_trees = len(trees)
    ensemble = TreeEnsemble(trees, X.shape[1], n_trees, range(n_trees), grown=True)
    ensemble.add_raw(X, raw, n_threads)


def _has_lines(tree: Tree) -> bool:
    return len(tree.coef_feature) > 0 or tree.value_range is not None
