"""One tree as part of a packed forest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees.core.base._types import PackedFlag
from hybridtrees.core.tree._packed import PackedSet, fits_narrow, pack_nodes, walk_packed
from hybridtrees.core.tree.tree import SPARSE_BLOCK, Tree

NARROW_DTYPE = np.dtype([("threshold", np.float32), ("right", np.int32), ("feature", np.int32)])
WIDE_DTYPE = np.dtype([("threshold", np.float64), ("right", np.int32), ("feature", np.int32)])

_SET_HEAD = int(PackedSet.SET_HEAD)


@dataclass
class PackedTree:
    """One packed tree; see `PackedTrees` for the fields."""

    nodes: np.ndarray
    sets: np.ndarray
    table: np.ndarray
    n_samples: np.ndarray
    weight: np.ndarray
    gain: np.ndarray

    def walk(
        self, X: Any, rows: np.ndarray, swapped: int = -1, others: np.ndarray | None = None
    ) -> np.ndarray:
        """Node where each of `rows` ends, with the feature `swapped` of the rows `others`."""
        return walk_tree(self.nodes, self.sets, X, rows, swapped, others)


def walk_tree(
    nodes: np.ndarray,
    sets: np.ndarray,
    X: Any,
    rows: np.ndarray,
    swapped: int = -1,
    others: np.ndarray | None = None,
) -> np.ndarray:
    """Node of one packed tree where each of some rows ends: see `PackedTree.walk`."""
    ended = np.empty(len(rows), dtype=np.int32)
    others = rows if others is None else others
    is_sparse = scipy.sparse.issparse(X)
    if not is_sparse:
        if len(rows) and max(rows.max(), others.max()) >= X.shape[0]:
            raise ValueError(f"rows must be less than {X.shape[0]}")
        walk_packed(nodes, sets, X, rows, swapped, others, ended)
        return ended
    X = X.tocsr()
    for start in range(0, len(rows), SPARSE_BLOCK):
        part = slice(start, start + SPARSE_BLOCK)
        block = X[rows[part]].toarray()
        if swapped >= 0:
            block[:, swapped] = X[others[part]][:, [swapped]].toarray().ravel()
        own = np.arange(len(block), dtype=np.uint32)
        walk_packed(nodes, sets, np.ascontiguousarray(block), own, -1, own, ended[part])
    return ended


def pack_tree(tree: Tree, values: np.ndarray, detailed: bool = False) -> PackedTree:
    """Pack a tree in preorder without linear leaves, whose nodes predict `values`.

    With `detailed`, values and gains of inner nodes are stored: if rows may end there, or if they
    cannot be computed from values and weights of the leaves.
    """
    nodes, leaf = tree.nodes, tree.nodes["left"] < 0
    if nodes["feature"].max() > PackedFlag.FEATURE_MASK:
        raise ValueError(f"a forest can have at most {PackedFlag.FEATURE_MASK + 1} features")
    nodes, sets = _pack_sets(nodes, tree.categories)
    packed = np.empty(len(nodes), dtype=NARROW_DTYPE if fits_narrow(nodes) else WIDE_DTYPE)
    in_leaf = values.shape[1] == 1 and not detailed
    column = np.ascontiguousarray(values[:, 0]) if in_leaf else np.empty(0)
    pack_nodes(nodes, column, detailed, packed)
    table = np.empty((0, values.shape[1]))
    if not in_leaf:
        table = np.ascontiguousarray(values if detailed else values[leaf])
    return PackedTree(
        packed,
        sets,
        table,
        _smallest(nodes["n_samples"] if detailed else nodes["n_samples"][leaf]),
        _smallest(nodes["weight"] if detailed else nodes["weight"][leaf]),
        nodes["gain"].astype(np.float32) if detailed else np.empty(0, dtype=np.float32),
    )


def _pack_sets(nodes: np.ndarray, categories: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes with new starts of category sets, and the sets with their heads (words, limit)."""
    has_set = np.flatnonzero(nodes["category_start"] >= 0)
    if not len(has_set):
        return nodes, np.zeros(1, dtype=np.uint32)
    words = nodes["category_words"][has_set].astype(np.int64)
    ends = np.cumsum(words + _SET_HEAD)
    start = ends - words - _SET_HEAD
    sets = np.empty(ends[-1], dtype=np.uint32)
    sets[start] = words
    sets[start + 1] = nodes["category_limit"][has_set].astype(np.uint32)
    place = np.arange(words.sum()) - np.repeat(np.cumsum(words) - words, words)
    sets[np.repeat(start + _SET_HEAD, words) + place] = categories[
        np.repeat(nodes["category_start"][has_set], words) + place
    ]
    nodes = nodes.copy()
    nodes["category_start"][has_set] = start
    return nodes, sets


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """Non-negative integers in the narrowest dtype, other numbers unchanged."""
    if not np.array_equal(numbers, np.floor(numbers)) or numbers.max() >= 2**32:
        return numbers
    for dtype in (np.uint8, np.uint16, np.uint32):
        if numbers.max() <= np.iinfo(dtype).max:
            return numbers.astype(dtype)
    return numbers
