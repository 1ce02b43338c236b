"""Forests in little memory: packed trees, which are expanded on access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hybridtrees.core.base._types import PackedFlag
from hybridtrees.core.base.checks import (
    MOST,
    Checked,
    check_arrays,
    check_contiguous,
    check_count,
    check_numbers,
    check_one_of,
    check_starts,
)
from hybridtrees.core.base.criteria import CRITERIA
from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree._packed import (
    add_outside,
    check_packed,
    leaf_payloads,
    predict_packed,
    shift_nodes,
    unpack_nodes,
    widen_nodes,
)
from hybridtrees.core.tree.packing import NARROW_DTYPE, WIDE_DTYPE, PackedTree, pack_tree, walk_tree
from hybridtrees.core.tree.tree import Tree, TreeEnsemble, dense_blocks, take_sets


class PackedTrees(Checked, Sequence):
    """The trees of a forest, in little more than 12 or 16 bytes a node.

    Indexing returns a new `Tree`. `table` has values that do not fit into the leaves. `table`,
    `n_samples` and `weight` have an entry per leaf, or per node if `gain` is stored; otherwise
    gains are computed by `criterion`. `sets` has category sets, each after its number of words and
    limit. With two classes the value is the probability of the second.
    """

    def __init__(
        self, trees: Sequence[PackedTree], n_features: int, criterion: str, n_classes: int = 0
    ):
        if not trees:
            raise ValueError("a forest needs at least one tree")
        self.n_features = n_features
        self.criterion = criterion
        self.n_classes = n_classes
        self.n_values = trees[0].table.shape[1]
        self.tree_start = np.cumsum([0, *(len(tree.nodes) for tree in trees)]).astype(np.int64)
        narrow = all(tree.nodes.dtype == NARROW_DTYPE for tree in trees)
        self.nodes = np.empty(self.tree_start[-1], dtype=NARROW_DTYPE if narrow else WIDE_DTYPE)
        rows = words = 0
        for start, tree in zip(self.tree_start, trees, strict=False):
            part = self.nodes[start : start + len(tree.nodes)]
            if tree.nodes.dtype == part.dtype:
                part[:] = tree.nodes
            else:
                widen_nodes(tree.nodes, part)
            shift_nodes(part, rows, words)
            rows += len(tree.table)
            words += len(tree.sets)
        if words >= 2**31:
            raise MemoryError("the category sets of a forest are too large")
        self.sets = np.concatenate([tree.sets for tree in trees])
        self.table = np.concatenate([tree.table for tree in trees])
        self.n_samples = _join([tree.n_samples for tree in trees])
        self.weight = _join([tree.weight for tree in trees])
        self.gain = np.concatenate([tree.gain for tree in trees])
        self._plain: Any = None

    def extended(self, more: PackedTrees) -> PackedTrees:
        """Return these trees followed by those of `more`, which must have the same layout."""
        for name in ("n_features", "criterion", "n_classes", "n_values", "by_node"):
            mine, other = getattr(self, name), getattr(more, name)
            if mine != other:
                raise ValueError(
                    f"forests of different layouts cannot be joined: {name} is {mine!r} in one "
                    f"and {other!r} in the other"
                )
        # Each forest is treated as one tree.
        wholes = [
            PackedTree(f.nodes, f.sets, f.table, f.n_samples, f.weight, f.gain)
            for f in (self, more)
        ]
        both = PackedTrees(wholes, self.n_features, self.criterion, self.n_classes)
        both.tree_start = np.concatenate([self.tree_start, more.tree_start[1:] + len(self.nodes)])
        return both

    def single(self, index: int) -> PackedTrees:
        """Return one of the trees as a forest of its own."""
        tree = self[index]
        values = tree.values[:, 1:] if self.n_classes == 2 else tree.values
        packed = pack_tree(tree, values, self.by_node)
        return PackedTrees([packed], self.n_features, self.criterion, self.n_classes)

    def add_outside(
        self,
        X: np.ndarray,
        held: tuple[np.ndarray, np.ndarray],
        first: np.ndarray,
        raw: np.ndarray,
        counts: np.ndarray,
        n_threads: int,
        votes: bool = False,
    ) -> None:
        """Add the predictions of trees that have not seen a row to `raw`, their number to `counts`.

        Row i of `X`, in C order, is predicted by the trees from ``first[i]`` on, without those that
        hold it: ``trees[start[i] : start[i + 1]]``, ascending, for ``held = (start, trees)``.
        """
        self._check(X)
        start, trees = held
        n = len(X)
        fits = raw.shape == (n, self.n_values) and len(first) == len(counts) == n
        if not fits or len(start) != n + 1 or (n and (first.min() < 0 or start[-1] > len(trees))):
            raise ValueError("the output or the trees that hold rows do not fit the rows")
        trees = np.append(trees, self.n_trees).astype(np.int32)  # the kernel needs an entry
        where = (self.nodes, self.tree_start, self.sets, X, self.table, self.by_node, votes)
        add_outside(*where, start, trees, first, raw, counts, n_threads)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_start) - 1

    def __len__(self) -> int:
        return self.n_trees

    @property
    def by_node(self) -> bool:
        """Whether the values of inner nodes are stored too."""
        return len(self.gain) > 0

    @property
    def leaf_start(self) -> np.ndarray:
        """First leaf of each tree among all leaves."""
        # A binary tree has one leaf more than inner nodes.
        return (self.tree_start + np.arange(len(self.tree_start))) // 2

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(a.nbytes for a in self.__dict__.values() if isinstance(a, np.ndarray))

    def part(self, index: int) -> np.ndarray:
        """Packed nodes of one tree."""
        return self.nodes[self.tree_start[index] : self.tree_start[index + 1]]

    # -- prediction -----------------------------------------------------------------------------

    def add_raw(
        self,
        X: Any,
        raw: np.ndarray,
        n_threads: int,
        first: int = 0,
        last: int | None = None,
        votes: bool = False,
    ) -> None:
        """Add the predictions of the trees [first, last) to `raw`, (n_rows, n_values).

        With `votes` a tree adds 1 to its most probable class; with two classes, to the second only.
        """
        self._check(X)
        last = self.n_trees if last is None else last
        if raw.shape != (X.shape[0], self.n_values) or not 0 <= first <= last <= self.n_trees:
            raise ValueError("the output or the range of trees does not fit the forest")
        trees = (self.nodes, self.tree_start, first, last, self.sets)
        how = (self.table, self.by_node, votes, self._plain)
        for block, rows in dense_blocks(X, c_order=True):
            predict_packed(*trees, block, *how, raw[rows], None, n_threads)

    def apply(self, X: Any, n_threads: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """Node of each tree where each row ends, int32 of shape (n_rows, n_trees)."""
        self._check(X)
        last = self.n_trees if last is None else last
        if not 0 <= first <= last <= self.n_trees:
            raise ValueError(f"trees {first} to {last} of {self.n_trees} do not exist")
        leaves = np.empty((X.shape[0], last - first), dtype=np.int32)
        trees = (self.nodes, self.tree_start, first, last, self.sets)
        how = (None, False, False, self._plain)
        for block, rows in dense_blocks(X, c_order=True):
            predict_packed(*trees, block, *how, None, leaves[rows], n_threads)
        return leaves

    def walk(self, index: int, X: Any, rows: np.ndarray, **how: Any) -> np.ndarray:
        """Node of tree `index` where each of some rows ends: see `PackedTree.walk`."""
        self._check(X)
        return walk_tree(self.part(index), self.sets, X, rows, **how)

    def _check(self, X: Any) -> None:
        if X.shape[1] != self.n_features:
            raise ValueError(f"the forest has {self.n_features} features, X has {X.shape[1]}")
        if self._plain is None:
            self._plain = not np.any(self.nodes["feature"] >= PackedFlag.MISSING_STOPS)

    # -- reading --------------------------------------------------------------------------------

    def node_values(self, index: int) -> np.ndarray:
        """Values of the nodes of a tree, (n_nodes, n_values); 0 in inner nodes without values."""
        if self.by_node:
            return self.table[self._entries(index)].copy()
        nodes = self.part(index)
        values = np.zeros((len(nodes), self.n_values))
        values[nodes["feature"] < 0] = self._leaf_values(index)
        return values

    def values_of(self, X: Any, index: int, rows: np.ndarray) -> np.ndarray:
        """Values of tree `index` for some rows, (n_rows, n_values)."""
        return self.node_values(index)[self.walk(index, X, rows)]

    def _entries(self, index: int) -> slice:
        """Entries of the leaves of a tree, or of its nodes, in the arrays."""
        start = self.tree_start if self.by_node else self.leaf_start
        return slice(int(start[index]), int(start[index + 1]))

    def rows_ended(self, index: int) -> np.ndarray:
        """Training rows that end at each node of a tree."""
        counts = self.n_samples[self._entries(index)].astype(np.int64)
        nodes = self.part(index)
        if not self.by_node:
            ended = np.zeros(len(nodes), dtype=np.int64)
            ended[nodes["feature"] < 0] = counts
            return ended
        inner = np.flatnonzero(nodes["feature"] >= 0)
        counts[inner] -= counts[inner + 1] + counts[nodes["right"][inner]]
        return counts

    def _leaf_values(self, index: int) -> np.ndarray:
        if len(self.table):
            return self.table[self._entries(index)]
        leaves = self._entries(index)
        values = np.empty(leaves.stop - leaves.start)
        leaf_payloads(self.part(index), values)
        return values[:, None]

    def __getitem__(self, index: Any) -> Tree:  # type: ignore[override]
        if not isinstance(index, int | np.integer):
            raise TypeError(f"the index of a tree must be an integer, got {index!r}")
        if not -self.n_trees <= index < self.n_trees:
            raise IndexError(f"tree {index} of {self.n_trees}")
        index = int(index) % self.n_trees
        packed = self.part(index)
        nodes = np.zeros(len(packed), dtype=NODE_DTYPE)
        values = self.node_values(index)
        unpack_nodes(
            packed,
            nodes,
            values,
            np.empty((0, 1)) if self.by_node else self._leaf_values(index),
            self.n_samples[self._entries(index)].astype(np.int64),
            self.weight[self._entries(index)].astype(np.float64),
            self.sets,
            not self.by_node,
        )
        if self.n_classes == 2:
            values = np.hstack([1.0 - values, values])
        if self.by_node:
            nodes["gain"] = self.gain[self._entries(index)]
        else:
            _restore_gains(nodes, values, self.criterion, self.n_classes)
        return Tree(nodes, values, take_sets(nodes, self.sets))

    def __iter__(self) -> Iterator[Tree]:
        return (self[index] for index in range(self.n_trees))

    def category_sets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Feature, number of words and limit of every split on categories, in all trees."""
        feature = self.nodes["feature"]
        found = np.flatnonzero((feature >= 0) & (feature & PackedFlag.HAS_SET != 0))
        raw = self.nodes[found].view(np.uint8).reshape(len(found), self.nodes.dtype.itemsize)
        start = raw[:, :4].copy().view(np.uint32)[:, 0].astype(np.int64)
        limit = self.sets[start + 1].view(np.int32)
        return feature[found] & PackedFlag.FEATURE_MASK, self.sets[start].astype(np.int64), limit

    def expand(self) -> TreeEnsemble:
        """Return all trees as a `TreeEnsemble`."""
        n_outputs = 2 if self.n_classes == 2 else self.n_values
        return TreeEnsemble(list(self), self.n_features, n_outputs)

    # -- files ----------------------------------------------------------------------------------

    def to_state(self) -> dict:
        """Return the attributes that make up the forest."""
        return {name: value for name, value in self.__dict__.items() if name[0] != "_"}

    __getstate__ = to_state

    def _check_state(self) -> None:
        self._plain = None
        check_forest(self)


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate arrays of several dtypes; integers stay integers."""
    dtype = np.result_type(*{part.dtype for part in parts})
    return np.concatenate([part.astype(dtype, copy=False) for part in parts])


def _restore_gains(nodes: np.ndarray, values: np.ndarray, criterion: str, n_classes: int) -> None:
    """Compute the gain of every split, decrease in impurity times weight, from node values."""
    inner = np.flatnonzero(nodes["left"] >= 0)
    parts = nodes["left"][inner], nodes["right"][inner]
    if CRITERIA[criterion] == "squares":
        w_left, w_right = (nodes["weight"][part] for part in parts)
        gap = np.square(values[parts[0]] - values[parts[1]])
        gap = gap.sum(axis=1) if n_classes else gap.mean(axis=1)
        nodes["gain"][inner] = gap * w_left * w_right / (w_left + w_right)
        return
    score = nodes["weight"] * _score(values, criterion)
    nodes["gain"][inner] = np.maximum(score[parts[0]] + score[parts[1]] - score[inner], 0.0)


def _score(values: np.ndarray, criterion: str) -> np.ndarray:
    """Minus the impurity of nodes, up to a term that is linear in their sums."""
    if criterion == "misclassification":
        return values.max(axis=1)
    logs = np.log(values, out=np.zeros_like(values), where=values > 0)
    score = values * logs
    return score.mean(axis=1) if criterion == "poisson" else score.sum(axis=1) / np.log(2.0)


def check_forest(forest: PackedTrees) -> None:
    """Raise ValueError if walks down a forest, of a damaged file perhaps, are unsafe."""
    check_count(forest, "n_features", 0, PackedFlag.FEATURE_MASK + 1)
    n_values = check_count(forest, "n_values", 1, 2**31 - 1)
    n_classes = check_count(forest, "n_classes", 0, 2**31 - 1)
    if n_classes and n_values != (1 if n_classes <= 2 else n_classes):
        raise ValueError(f"a forest of {n_classes} classes cannot have {n_values} values per leaf")
    check_one_of(forest, "criterion", CRITERIA)
    entries = "leaves or nodes"
    sizes = check_arrays(
        forest,
        {
            "nodes": ((NARROW_DTYPE, WIDE_DTYPE), "n_nodes"),
            "tree_start": ("i8", "n_trees + 1"),
            "sets": ("u4", "n_words"),
            "table": ("f8", "n_rows", n_values),
            "gain": ("f4", "n_gains"),
            "n_samples": (("i8", "u1", "u2", "u4"), entries),
            "weight": (("f8", "u1", "u2", "u4"), entries),
        },
    )
    check_contiguous(forest, ("nodes", "tree_start", "sets", "table"))
    check_starts(forest)
    nodes = forest.nodes
    if not sizes["n_words"]:
        raise ValueError("the category sets of the forest have no words")
    if sizes["n_gains"] not in (0, len(nodes)):
        raise ValueError("the forest needs gains of all nodes or of none")
    expected = len(nodes) if forest.by_node else int(forest.leaf_start[-1])
    n_rows = sizes["n_rows"]
    if n_rows != expected and (n_rows or n_values > 1 or forest.by_node):
        raise ValueError("the table of values of the forest has a wrong length")
    if sizes[entries] != expected:
        raise ValueError("the forest needs n_samples and weight of every leaf")
    check_numbers(forest.n_samples, "n_samples of the forest", 0, MOST)
    check_numbers(forest.weight, "weight of the forest", 0, np.inf)
    stops = (nodes["feature"] >= 0) & (nodes["feature"] & PackedFlag.MISSING_STOPS != 0)
    if not forest.by_node and np.any(stops):
        raise ValueError("rows stop at an inner node of the forest, which has no value")
    scratch = np.empty(int(np.diff(forest.tree_start).max()) + 2, dtype=np.int32)
    for index in range(forest.n_trees):
        check_packed(forest.part(index), forest.n_features, forest.sets, n_rows, scratch)
