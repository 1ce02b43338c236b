"""Fitted trees and ensembles of them, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import scipy.sparse

from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.checks import Checked, check_nodes
from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree._layout import EnsembleLayout
from hybridtrees.core.tree._predict import add_predictions, find_leaves

# Rows of a sparse table that are made dense at a time.
SPARSE_BLOCK = 4096
# Rows of a table that are copied to C order at a time.
_COPIED_BLOCK = 16384


def _empty(dtype: Any) -> np.ndarray:
    return np.zeros(0, dtype=dtype)


def pack_categories(goes_left: np.ndarray, unknown_left: bool) -> tuple[np.ndarray, int]:
    """Return a category set in the fewest words, and the node's ``category_limit``.

    In a bit set, codes from its end up to the next multiple of 32 go left if `unknown_left`.
    """
    n_bits = -len(goes_left) % 32
    n_words = (len(goes_left) + n_bits) // 32
    n_left = np.count_nonzero(goes_left)
    if n_words > Limit.SHORT_SET and min(n_left, len(goes_left) - n_left) < n_words:
        if 2 * n_left <= len(goes_left):
            return np.flatnonzero(goes_left).astype(np.uint32), len(goes_left)
        return np.flatnonzero(~goes_left).astype(np.uint32), -len(goes_left)
    bits = np.append(goes_left, np.full(n_bits, unknown_left))
    return np.packbits(bits, bitorder="little").view(np.uint32), 0


def pack_sets(goes_left: np.ndarray, unknown_left: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """`pack_categories` of each row of (n_sets, n_categories), short sets all at once."""
    n_bits = -goes_left.shape[1] % 32
    if goes_left.shape[1] + n_bits > 32 * Limit.SHORT_SET:
        pairs = zip(goes_left, unknown_left.tolist(), strict=True)
        return [pack_categories(one, unknown) for one, unknown in pairs]
    bits = np.hstack([goes_left, np.repeat(unknown_left[:, None], n_bits, axis=1)])
    packed = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
    return [(words, 0) for words in packed]


def _by_value(coef: Any, n_values: int) -> np.ndarray:
    """Coefficients with a column per value."""
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    if coef.ndim == 1 and n_values == 1:
        return coef[:, None]
    return coef if len(coef) else np.zeros((0, n_values))


def _limits(limits: Any, n_terms: int, missing: float) -> np.ndarray:
    """One limit per term: `missing` if none are given."""
    if limits is None or len(limits) == 0:
        return np.full(n_terms, missing)
    return np.ascontiguousarray(limits, dtype=np.float64)


def _join_ranges(trees: Sequence[Tree]) -> np.ndarray | None:
    """Ranges of the nodes of all trees, infinite for trees without ranges."""
    if all(tree.value_range is None for tree in trees):
        return None
    infinite = np.array([[-np.inf], [np.inf]])
    shapes = [(tree.n_nodes, 2, tree.values.shape[1]) for tree in trees]
    ranges = [infinite if tree.value_range is None else tree.value_range for tree in trees]
    return np.concatenate([np.broadcast_to(*pair) for pair in zip(ranges, shapes, strict=True)])


@dataclass(eq=False)
class Tree:
    """One tree: nodes, their values, category sets and linear leaves.

    Parameters
    ----------
    nodes : ndarray of NODE_DTYPE
        Node 0 is the root; a child has a larger id than its parent; ``left`` is -1 in a leaf.
        ``x <= threshold`` goes left. A missing value goes left if ``missing_left`` is 1, right if
        it is 0; if it is 2, the row ends at the node and gets its value.
    values : ndarray of shape (n_nodes, n_values)
        Value of every node: one number, or one per output.
    categories : ndarray of uint32
        Category sets of all nodes. A node's set starts at its ``category_start`` and has
        ``category_words`` words. With a ``category_limit`` of 0 these are bits, and categories in
        the set go left. With a limit n > 0 they are sorted codes: these go left, other codes below
        n go right; with -n it is the other way round. Codes beyond the limit count as missing.
    coef_ptr, coef_feature, coef, coef_center : ndarray
        Linear leaves in compressed rows: node i adds ``coef * (x[feature] - center)`` over the
        terms ``coef_ptr[i]`` to ``coef_ptr[i + 1]``; a missing x adds nothing. `coef` has a
        column per value, and may be one-dimensional if there is one value.
    impurity : ndarray of shape (n_nodes,), optional
        Impurity of every node under the criterion that the tree was grown with.
    coef_low, coef_high : ndarray of shape (n_terms,)
        Range to which x is clipped before it is centred; empty: no clipping.
    value_range : ndarray of shape (n_nodes, 2, n_values), optional
        Lowest and highest output of every node, its linear part included.
    """

    nodes: np.ndarray
    values: np.ndarray
    categories: np.ndarray = field(default_factory=lambda: _empty(np.uint32))
    coef_ptr: np.ndarray | None = None
    coef_feature: np.ndarray = field(default_factory=lambda: _empty(np.int32))
    coef: np.ndarray = field(default_factory=lambda: _empty(np.float64))
    coef_center: np.ndarray = field(default_factory=lambda: _empty(np.float64))
    impurity: np.ndarray | None = None
    coef_low: np.ndarray = field(default_factory=lambda: _empty(np.float64))
    coef_high: np.ndarray = field(default_factory=lambda: _empty(np.float64))
    value_range: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.nodes = np.ascontiguousarray(self.nodes, dtype=NODE_DTYPE)
        self.values = np.asarray(self.values, dtype=np.float64)
        self.values = np.ascontiguousarray(self.values.reshape(len(self.nodes), -1))
        if self.coef_ptr is None:
            self.coef_ptr = np.zeros(len(self.nodes) + 1, dtype=np.int64)
        self.coef_ptr = np.ascontiguousarray(self.coef_ptr, dtype=np.int64)
        self.coef_feature = np.ascontiguousarray(self.coef_feature, dtype=np.int32)
        self.coef_center = np.ascontiguousarray(self.coef_center, dtype=np.float64)
        self.coef = _by_value(self.coef, self.values.shape[1])
        self.coef_low = _limits(self.coef_low, len(self.coef_feature), -np.inf)
        self.coef_high = _limits(self.coef_high, len(self.coef_feature), np.inf)
        if self.value_range is not None:
            self.value_range = np.ascontiguousarray(self.value_range, dtype=np.float64)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.nodes)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.nodes["left"] < 0))

    @property
    def depth(self) -> int:
        """Edges from the root to the deepest leaf."""
        return int(self.nodes["depth"].max())

    def category_set(self, node: int) -> np.ndarray:
        """Codes of the categories that go left at a node."""
        start, limit = (int(self.nodes[f"category_{name}"][node]) for name in ("start", "limit"))
        words = self.categories[start : start + int(self.nodes["category_words"][node])]
        if limit > 0:
            return words.astype(np.intp)
        if limit < 0:
            return np.delete(np.arange(-limit), words)
        return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))

    def first_unknown(self, node: int) -> int:
        """First code that counts as missing at a node that is split on categories."""
        limit = int(self.nodes["category_limit"][node])
        return abs(limit) if limit else 32 * int(self.nodes["category_words"][node])


class TreeEnsemble(Checked):
    """Trees in one set of arrays; each adds to its `tree_output`, or has one value per output.

    Trees that were `grown` just now are laid out at once, without the checks of arrays that
    anyone may have changed.
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        n_features: int,
        n_outputs: int = 1,
        tree_output: Sequence[int] | np.ndarray | None = None,
        grown: bool = False,
    ):
        if not trees:
            raise ValueError("an ensemble needs at least one tree")
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.tree_start = np.cumsum([0, *(tree.n_nodes for tree in trees)]).astype(np.int64)
        if tree_output is None:
            tree_output = np.zeros(len(trees))
        self.tree_output = np.asarray(tree_output, dtype=np.int32)
        # As bytes: NumPy would compare structured dtypes field by field for every tree.
        whole = np.dtype((np.void, NODE_DTYPE.itemsize))
        self.nodes = np.concatenate([tree.nodes.view(whole) for tree in trees]).view(NODE_DTYPE)
        self.values = np.concatenate([tree.values for tree in trees])
        shifts = np.cumsum([0, *(len(tree.categories) for tree in trees)])
        for index in np.flatnonzero(np.diff(shifts)):
            part = self.nodes[self.tree_start[index] : self.tree_start[index + 1]]
            part["category_start"][part["category_start"] >= 0] += shifts[index]
        # One extra word: kernels take the address of the first.
        words = [tree.categories for tree in trees]
        self.categories = np.concatenate([*words, np.zeros(1, dtype=np.uint32)])
        counts = np.concatenate([np.diff(cast(np.ndarray, tree.coef_ptr)) for tree in trees])
        self.coef_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.coef_feature = np.concatenate([tree.coef_feature for tree in trees])
        width = self.values.shape[1]
        self.coef = np.concatenate([_by_value(tree.coef, width) for tree in trees])
        self.coef_center = np.concatenate([tree.coef_center for tree in trees])
        n_terms = [len(tree.coef_feature) for tree in trees]
        pairs = list(zip(trees, n_terms, strict=True))
        self.coef_low = np.concatenate([_limits(t.coef_low, n, -np.inf) for t, n in pairs])
        self.coef_high = np.concatenate([_limits(t.coef_high, n, np.inf) for t, n in pairs])
        self.value_range = _join_ranges(trees)
        self._layout = EnsembleLayout(self, check=False) if grown else None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_start) - 1

    def __len__(self) -> int:
        return self.n_trees

    def __getitem__(self, index: int) -> Tree:
        """Return a tree, as views and copies."""
        if not -self.n_trees <= index < self.n_trees:
            raise IndexError(f"tree {index} of {self.n_trees}")
        part = slice(*self.tree_start[index % self.n_trees :][:2])
        nodes = self.nodes[part].copy()
        categories = take_sets(nodes, self.categories)
        pointers = self.coef_ptr[part.start : part.stop + 1]
        terms = slice(pointers[0], pointers[-1])
        return Tree(
            nodes,
            self.values[part],
            categories,
            pointers - pointers[0],
            self.coef_feature[terms],
            self.coef[terms],
            self.coef_center[terms],
            coef_low=self.coef_low[terms],
            coef_high=self.coef_high[terms],
            value_range=None if self.value_range is None else self.value_range[part],
        )

    def __iter__(self) -> Iterator[Tree]:
        return (self[index] for index in range(self.n_trees))

    def category_sets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Feature, number of words and limit of every split on categories, in all trees."""
        found = self.nodes[self.nodes["category_start"] >= 0]
        return found["feature"], found["category_words"], found["category_limit"]

    @property
    def layout(self) -> EnsembleLayout:
        """The trees laid out for prediction, made when first needed."""
        if self._layout is None:
            self._layout = EnsembleLayout(self)
        return self._layout

    def add_raw(
        self, X: Any, raw: np.ndarray, n_threads: int, first: int = 0, last: int | None = None
    ) -> None:
        """Add the predictions of the trees [first, last) to `raw`, (n_rows, n_outputs)."""
        last = self.n_trees if last is None else last
        for block, rows in dense_blocks(X):
            add_predictions(self.layout, block, raw[rows], first, last, n_threads)

    def apply(self, X: Any, n_threads: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """Leaf ids (node numbers within each tree), int32 of shape (n_rows, n_trees)."""
        last = self.n_trees if last is None else last
        leaves = np.empty((X.shape[0], max(0, last - first)), dtype=np.int32)
        for block, rows in dense_blocks(X):
            find_leaves(self.layout, block, leaves[rows], first, last, n_threads)
        return leaves

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_layout"}

    to_state = __getstate__

    def _check_state(self) -> None:
        self._layout = None
        check_nodes(self)


def dense_blocks(X: Any, c_order: bool = False) -> Iterator[tuple[np.ndarray, slice]]:
    """Yield a table in dense blocks, in C order if `c_order`, with their rows."""
    sparse = scipy.sparse.issparse(X)
    if not sparse and (not c_order or X.flags.c_contiguous):
        yield X, slice(None)
        return
    X = X.tocsr() if sparse else X
    size = SPARSE_BLOCK if sparse else _COPIED_BLOCK
    for start in range(0, X.shape[0], size):
        rows = slice(start, min(start + size, X.shape[0]))
        yield X[rows].toarray() if sparse else np.ascontiguousarray(X[rows]), rows


def take_sets(nodes: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Copy the category sets of one tree, and adjust their starts in the nodes."""
    has_set = nodes["category_start"] >= 0
    if not has_set.any():
        return _empty(np.uint32)
    first = nodes["category_start"][has_set].min()
    last = (nodes["category_start"] + nodes["category_words"])[has_set].max()
    nodes["category_start"][has_set] -= first
    return words[first:last].copy()
