"""Linear leaves of LightGBM: a row with a missing regressor gets the constant of the leaf.

In our linear leaves a missing regressor adds nothing. With one regressor that is the same if the
line is centred where it has the value of the constant. With several a leaf becomes a chain of
splits on "is missing", for the regressors that a row may lack there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hybridtrees.exchange.assembly import ForeignTrees


@dataclass
class LinearLeaves:
    """Lines of leaves: a constant and some terms each."""

    node: np.ndarray  # by leaf: its node among those of all trees
    constant: np.ndarray
    counts: np.ndarray  # terms
    feature: np.ndarray
    coef: np.ndarray

    def scale(self, factor: float) -> None:
        """Multiply all lines by a number."""
        self.constant, self.coef = self.constant * factor, self.coef * factor


def without_missing(flat: ForeignTrees, linear: LinearLeaves, where: str) -> ForeignTrees:
    """Return the trees with linear leaves, and chains of splits above those that need them."""
    origin = np.cumsum(flat.sizes) - flat.sizes
    tree_of = np.repeat(np.arange(len(flat.sizes)), flat.sizes)
    parents = _parents(flat, origin[tree_of])
    start = np.concatenate([[0], np.cumsum(linear.counts)]).tolist()
    added = _Added(flat)
    for k, leaf in enumerate(linear.node.tolist()):
        terms = slice(start[k], start[k + 1])
        features, coefs = linear.feature[terms].tolist(), linear.coef[terms].tolist()
        pairs = [(f, c) for f, c in zip(features, coefs, strict=True) if c != 0]
        value = float(flat.values[leaf, 0])
        lacking = _may_lack(flat, parents, leaf, set(features))
        if not pairs and not lacking:
            flat.values[leaf, 0] = linear.constant[k]
            continue
        if len(features) == 1 and pairs and lacking:
            center = (value - float(linear.constant[k])) / pairs[0][1]
            if np.isfinite(center):
                added.term(leaf, *pairs[0], center)
                continue
        at = added.chain(leaf, int(tree_of[leaf]), sorted(lacking), value)
        added.values[at] = float(linear.constant[k])
        for feature, coef in pairs:
            added.term(at, feature, coef, 0.0)
    return added.joined(tree_of, origin)


def _parents(flat: ForeignTrees, origin: np.ndarray) -> tuple[list[int], list[bool], np.ndarray]:
    """Return the parent of every node, whether a missing value gets there, and the origins."""
    parent = np.full(len(origin), -1, dtype=np.int64)
    gets_missing = np.zeros(len(origin), dtype=bool)
    inner = np.flatnonzero(flat.left >= 0)
    for child, side in ((flat.left, True), (flat.right, False)):
        to = origin[inner] + child[inner]
        parent[to] = inner
        gets_missing[to] = flat.missing_left[inner] == side
    return parent.tolist(), gets_missing.tolist(), origin


def _may_lack(
    flat: ForeignTrees,
    parents: tuple[list[int], list[bool], np.ndarray],
    leaf: int,
    features: set[int],
) -> set[int]:
    """Return the regressors that may be missing in rows of a leaf."""
    parent, gets_missing, _ = parents
    lacking = set(features)
    node, steps = leaf, 0
    # A faulty file may hold a cycle, which is refused later.
    while parent[node] >= 0 and lacking and steps < len(parent):
        if not gets_missing[node]:
            lacking.discard(int(flat.feature[parent[node]]))
        node, steps = parent[node], steps + 1
    return lacking


class _Added:
    """Nodes and terms that are added to trees."""

    def __init__(self, flat: ForeignTrees) -> None:
        self._flat = flat
        self._n_given = len(flat.left)
        # By added node: tree, feature, left and right child (-1 in a leaf), cover, gain of 0.
        self._tree: list[int] = []
        self._feature: list[int] = []
        self._children: list[tuple[int, int]] = []
        self._cover: list[tuple[float, int]] = []
        self._values: list[float] = []
        self._terms: list[tuple[int, int, float, float]] = []
        self._split: dict[int, tuple[int, int, int]] = {}
        self.values = self

    def __setitem__(self, node: int, value: float) -> None:
        if node < self._n_given:
            self._flat.values[node, 0] = value
        else:
            self._values[node - self._n_given] = value

    def term(self, node: int, feature: int, coef: float, center: float) -> None:
        """Add a term to the line of a leaf."""
        self._terms.append((node, feature, coef, center))

    def chain(self, leaf: int, tree: int, features: list[int], value: float) -> int:
        """Split a leaf by "is missing"; rows that miss nothing end at the node returned."""
        flat = self._flat
        n_samples = 0 if flat.n_samples is None else int(flat.n_samples[leaf])
        at = leaf
        for feature in features:
            whole = self._n_given + len(self._tree)
            self._tree += [tree, tree]
            self._feature += [-1, -1]
            self._children += [(-1, -1), (-1, -1)]
            # All rows that were counted are put among those that miss nothing.
            self._cover += [(float(flat.weight[leaf]), n_samples), (0.0, 0)]
            self._values += [value, value]
            if at < self._n_given:
                self._split[at] = feature, whole, whole + 1
            else:
                self._feature[at - self._n_given] = feature
                self._children[at - self._n_given] = whole, whole + 1
            at = whole
        return at

    def joined(self, tree_of: np.ndarray, origin: np.ndarray) -> ForeignTrees:
        """Return all trees, with nodes numbered within them again."""
        flat = self._flat
        owner = np.concatenate([tree_of, np.array(self._tree, dtype=np.int64)])
        order = np.argsort(owner, kind="stable")
        sizes = np.bincount(owner, minlength=len(flat.sizes))
        start = np.cumsum(sizes) - sizes
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - start[owner[order]]
        # Old nodes keep their number within the tree: added ones come after them.
        inner = flat.left >= 0
        left = np.concatenate([flat.left, [a for a, _ in self._children]]).astype(np.int64)
        right = np.concatenate([flat.right, [b for _, b in self._children]]).astype(np.int64)
        feature = np.concatenate([flat.feature, self._feature]).astype(np.int64)
        for node, (own, a, b) in self._split.items():
            feature[node], left[node], right[node] = own, a, b
        fresh = np.ones(len(owner), dtype=bool)
        fresh[: self._n_given] = ~inner
        fresh &= left >= 0
        left[fresh], right[fresh] = place[left[fresh]], place[right[fresh]]
        more = len(self._tree)
        threshold = np.concatenate([flat.threshold, np.zeros(more)])
        threshold[fresh] = np.inf
        cover, counts = np.array(self._cover or np.zeros((0, 2))).T
        n_samples = np.zeros(len(flat.left)) if flat.n_samples is None else flat.n_samples
        where_to = np.empty(len(order), dtype=np.int64)
        where_to[order] = np.arange(len(order))
        if flat.categories is not None:
            flat.categories.node = where_to[flat.categories.node]
        table = np.array(self._terms, dtype=np.float64).reshape(-1, 4).T
        gain = np.zeros(len(flat.left)) if flat.gain is None else flat.gain
        return ForeignTrees(
            sizes=sizes,
            left=left[order],
            right=right[order],
            feature=feature[order],
            threshold=threshold[order],
            missing_left=np.concatenate([flat.missing_left, np.zeros(more, bool)])[order],
            values=np.concatenate([flat.values, np.array(self._values).reshape(-1, 1)])[order],
            weight=np.concatenate([flat.weight, cover])[order],
            gain=np.concatenate([gain, np.zeros(more)])[order],
            n_samples=np.concatenate([n_samples, counts])[order].astype(np.int64),
            categories=flat.categories,
            terms=(where_to[table[0].astype(np.int64)], table[1].astype(np.int64), *table[2:]),
        )
