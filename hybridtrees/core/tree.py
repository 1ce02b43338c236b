"""Fitted trees: fixed-width arrays, and many of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse

from hybridtrees.core._plan import TreePlans
from hybridtrees.core._predict import add_predictions, find_leaves
from hybridtrees.core.dtypes import NODE_DTYPE

# Rows of a sparse table that are made dense at a time.
SPARSE_BLOCK = 4096


def _empty(dtype) -> np.ndarray:
    return np.zeros(0, dtype=dtype)


@dataclass(eq=False)
class Tree:
    """One tree: nodes, their values, category sets and linear leaves.

    Parameters
    ----------
    nodes : ndarray of NODE_DTYPE
        Node 0 is the root; a child has a larger id than its parent; ``left`` is -1 in a leaf.
        ``x <= threshold`` goes left, a missing value goes left where ``missing_left`` is 1; where
        it is 2, a row with a missing value stops there and gets the value of that node.
    values : ndarray of shape (n_nodes, n_values)
        Value of every node: one number, or one per output.
    categories : ndarray of uint32
        Category sets of all nodes, bit by bit. A node's set starts at its ``category_start`` and
        has ``category_words`` words; the categories in it go left.
    coef_ptr, coef_feature, coef, coef_center : ndarray
        Linear leaves in compressed rows: node i adds ``coef * (x[feature] - center)`` over the
        entries ``coef_ptr[i]`` to ``coef_ptr[i + 1]``; a missing x adds nothing.
    impurity : ndarray of shape (n_nodes,), optional
        Impurity of every node under the criterion that the tree was grown with.
    """

    nodes: np.ndarray
    values: np.ndarray
    categories: np.ndarray = field(default_factory=lambda: _empty(np.uint32))
    coef_ptr: np.ndarray | None = None
    coef_feature: np.ndarray = field(default_factory=lambda: _empty(np.int32))
    coef: np.ndarray = field(default_factory=lambda: _empty(np.float64))
    coef_center: np.ndarray = field(default_factory=lambda: _empty(np.float64))
    impurity: np.ndarray | None = None

    def __post_init__(self):
        self.nodes = np.ascontiguousarray(self.nodes, dtype=NODE_DTYPE)
        self.values = np.asarray(self.values, dtype=np.float64)
        self.values = np.ascontiguousarray(self.values.reshape(len(self.nodes), -1))
        if self.coef_ptr is None:
            self.coef_ptr = np.zeros(len(self.nodes) + 1, dtype=np.int64)

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
        start = int(self.nodes["category_start"][node])
        words = self.categories[start : start + int(self.nodes["category_words"][node])]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return np.flatnonzero(bits)


class TreeEnsemble:
    """Trees in one set of arrays; each adds to one output, or to all of them.

    Parameters
    ----------
    trees : sequence of Tree
    n_features : int
    n_outputs : int
    tree_output : sequence of int, optional
        Output that each tree adds to. Not used by trees with one value per output.
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        n_features: int,
        n_outputs: int = 1,
        tree_output: Sequence[int] | None = None,
    ):
        if not trees:
            raise ValueError("an ensemble needs at least one tree")
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.tree_start = np.cumsum([0, *(tree.n_nodes for tree in trees)]).astype(np.int64)
        if tree_output is None:
            tree_output = np.zeros(len(trees))
        self.tree_output = np.asarray(tree_output, dtype=np.int32)
        self.nodes = np.concatenate([tree.nodes for tree in trees])
        self.values = np.concatenate([tree.values for tree in trees])
        shifts = np.cumsum([0, *(len(tree.categories) for tree in trees)])
        for index in np.flatnonzero(np.diff(shifts)):
            part = self.nodes[self.tree_start[index] : self.tree_start[index + 1]]
            part["category_start"][part["category_start"] >= 0] += shifts[index]
        # One word more than needed: kernels take the address of the first.
        words = [tree.categories for tree in trees]
        self.categories = np.concatenate([*words, np.zeros(1, dtype=np.uint32)])
        counts = np.concatenate([np.diff(tree.coef_ptr) for tree in trees])
        self.coef_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.coef_feature = np.concatenate([tree.coef_feature for tree in trees])
        self.coef = np.concatenate([tree.coef for tree in trees])
        self.coef_center = np.concatenate([tree.coef_center for tree in trees])
        self._plans: TreePlans | None = None

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_start) - 1

    def __len__(self) -> int:
        return self.n_trees

    def __getitem__(self, index: int) -> Tree:
        """Return the tree at an index, as views and small copies."""
        if not -self.n_trees <= index < self.n_trees:
            raise IndexError(f"tree {index} of {self.n_trees}")
        part = slice(*self.tree_start[index % self.n_trees :][:2])
        nodes = self.nodes[part].copy()
        sets = nodes["category_start"] >= 0
        categories = _empty(np.uint32)
        if sets.any():
            first = nodes["category_start"][sets].min()
            last = (nodes["category_start"] + nodes["category_words"])[sets].max()
            categories = self.categories[first:last].copy()
            nodes["category_start"][sets] -= first
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
        )

    @property
    def plans(self) -> TreePlans:
        """The trees laid out for prediction, made when first needed."""
        if self._plans is None:
            self._plans = TreePlans(self)
        return self._plans

    def add_raw(self, X, raw: np.ndarray, n_threads: int, first: int = 0, last: int | None = None):
        """Add the predictions of the trees [first, last) to `raw`, (n_rows, n_outputs)."""
        last = self.n_trees if last is None else last
        for block, rows in _dense_blocks(X):
            add_predictions(self.plans, block, raw[rows], first, last, n_threads)

    def apply(self, X, n_threads: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """Leaf ids (node numbers within each tree), int32 of shape (n_rows, n_trees)."""
        last = self.n_trees if last is None else last
        leaves = np.empty((X.shape[0], max(0, last - first)), dtype=np.int32)
        for block, rows in _dense_blocks(X):
            find_leaves(self.plans, block, leaves[rows], first, last, n_threads)
        return leaves

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_plans"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._plans = None

    # The arrays are the state, for files as for pickles.
    to_state = __getstate__

    @classmethod
    def from_state(cls, state: dict) -> TreeEnsemble:
        """Rebuild from `to_state`; the arrays are checked when first used."""
        ensemble = cls.__new__(cls)
        ensemble.__setstate__(state)
        return ensemble


def _dense_blocks(X):
    """Yield the table itself, or a sparse one in dense pieces."""
    if not scipy.sparse.issparse(X):
        yield X, slice(None)
        return
    X = X.tocsr()
    for start in range(0, X.shape[0], SPARSE_BLOCK):
        rows = slice(start, min(start + SPARSE_BLOCK, X.shape[0]))
        yield X[rows].toarray(), rows
