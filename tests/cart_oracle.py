"""A slow CART that tries every split of every node, for comparison with the compiled one.

Trees come in the form of `hybridtrees.core.tree.tree.Tree`, nodes in preorder. Categories are
parted in every possible way. Ties go to the lowest feature, then the lowest threshold.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.tree import Tree

TIE = 1e-10  # gains that differ by less than this share of the node's cost are equal
STOP = 2


def mean_value(target, weight):
    return np.average(target, axis=0, weights=weight)


def median_value(target, weight):
    """Weighted median of every output; between two values where the weights are even."""
    medians = []
    for column in target.T:
        order = np.argsort(column, kind="stable")
        cumulative = np.cumsum(weight[order])
        half = cumulative[-1] / 2
        low = np.searchsorted(cumulative, half, side="left")
        high = np.searchsorted(cumulative, half, side="right")
        medians.append((column[order][low] + column[order][min(high, len(column) - 1)]) / 2)
    return np.array(medians)


def shares(target, weight, n_classes):
    return np.bincount(target, weights=weight, minlength=n_classes) / weight.sum()


def impurity_of(criterion, target, weight, n_classes):
    """Impurity of a node, as scikit-learn defines it."""
    if n_classes:
        share = shares(target, weight, n_classes)
        if criterion == "gini":
            return 1.0 - np.sum(share**2)
        if criterion == "misclassification":
            return 1.0 - share.max()
        positive = share[share > 0]
        return -np.sum(positive * np.log2(positive))
    if criterion == "absolute_error":
        return np.average(
            np.abs(target - median_value(target, weight)).mean(axis=1), weights=weight
        )
    mean = mean_value(target, weight)
    if criterion == "poisson":
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(target > 0, target * np.log(target / mean), 0.0)
        return np.average(logs.mean(axis=1), weights=weight)
    return np.average(((target - mean) ** 2).mean(axis=1), weights=weight)


@dataclass
class Split:
    """A split: which rows go left, and what it brings."""

    gain: float
    feature: int
    left: np.ndarray  # mask over the rows of the node
    stays: np.ndarray
    threshold: float = 0.0
    categories: list = field(default_factory=list)
    missing_left: int = 0


@dataclass
class Oracle:
    """The tree builder; parameters as the engine has them."""

    criterion: str = "squared_error"
    n_classes: int = 0
    max_depth: int = 0
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_child_weight: float = 0.0
    min_gain: float = -np.inf
    missing: str = "learn"
    is_categorical: np.ndarray | None = None

    def fit(self, X, target, weight=None):
        """Return the tree and the node where each row ended, -1 for rows of weight 0."""
        self.X = np.asarray(X, dtype=np.float64)
        self.target = np.asarray(target)
        self.weight = np.ones(len(self.X)) if weight is None else np.asarray(weight, dtype=float)
        if self.is_categorical is None:
            self.is_categorical = np.zeros(self.X.shape[1], dtype=bool)
        self.records, self.values, self.impurity, self.words = [], [], [], []
        self.leaf = np.full(len(self.X), -1, dtype=np.int32)
        self.build(np.flatnonzero(self.weight > 0), -1, 0)
        nodes = np.array([tuple(r[name] for name in NODE_DTYPE.names) for r in self.records],
                         dtype=NODE_DTYPE)  # fmt: skip
        tree = Tree(nodes, np.array(self.values), np.array(self.words, dtype=np.uint32))
        tree.impurity = np.array(self.impurity)
        return tree, self.leaf

    def cost(self, rows):
        weight = self.weight[rows]
        part = (self.criterion, self.target[rows], weight, self.n_classes)
        return weight.sum() * impurity_of(*part)

    def value(self, rows):
        target, weight = self.target[rows], self.weight[rows]
        if self.n_classes:
            return shares(target, weight, self.n_classes)
        value = median_value if self.criterion == "absolute_error" else mean_value
        return value(target, weight)

    def build(self, rows, parent, depth):
        k = len(self.records)
        cost = self.cost(rows)
        total = self.weight[rows].sum()
        record = dict.fromkeys(NODE_DTYPE.names, 0) | {
            "left": -1, "right": -1, "parent": parent, "feature": -1, "category_start": -1,
            "depth": depth, "weight": total, "n_samples": len(rows),
        }  # fmt: skip
        self.records.append(record)
        self.values.append(self.value(rows))
        self.impurity.append(cost / total)
        self.leaf[rows] = k
        if (
            (self.max_depth and depth >= self.max_depth)
            or len(rows) < max(self.min_samples_split, 2 * self.min_samples_leaf)
            or total < 2 * self.min_child_weight
            or cost / total <= np.finfo(float).eps
        ):
            return k
        split = self.best_split(rows)
        if split is None or split.gain < self.min_gain:
            return k
        record.update(
            feature=split.feature, gain=split.gain, threshold=split.threshold,
            missing_left=split.missing_left,
        )  # fmt: skip
        if self.is_categorical[split.feature]:
            bits = np.zeros(
                -(-int(np.nanmax(self.X[:, split.feature]) + 1) // 32) * 32, dtype=np.uint8
            )
            bits[split.categories] = 1
            words = np.packbits(bits, bitorder="little").view(np.uint32)
            record.update(category_start=len(self.words), category_words=len(words), threshold=0.0)
            self.words.extend(words)
        record["left"] = self.build(rows[split.left & ~split.stays], k, depth + 1)
        record["right"] = self.build(rows[~split.left & ~split.stays], k, depth + 1)
        return k

    def best_split(self, rows):
        best, margin = None, TIE * self.cost(rows)
        for feature in range(self.X.shape[1]):
            for split in self.candidates(rows, feature):
                if best is None or split.gain > best.gain + margin:
                    best = split
        return best

    def candidates(self, rows, feature):
        """All admissible splits of a node on one feature, the lowest threshold first."""
        x = self.X[rows, feature]
        missing = np.isnan(x)
        present = np.unique(x[~missing])
        stop = self.missing == "stop"
        sides = []  # (mask of the values that go left, threshold, categories)
        if self.is_categorical[feature]:
            # The first category stays on one side: the mirror image is the same split.
            for size in range(len(present)):
                for others in itertools.combinations(present[1:], size):
                    chosen = [present[0], *others] if len(present) else []
                    if len(chosen) < len(present):
                        sides.append((np.isin(x, chosen), 0.0, [int(c) for c in chosen]))
        else:
            for low, high in itertools.pairwise(present):
                middle = low / 2 + high / 2
                middle = low if middle == high else middle
                sides.append((x <= middle, middle, []))
        if missing.any() and not stop and len(present):
            sides.append((~missing, np.inf, [int(c) for c in present] if
                          self.is_categorical[feature] else []))  # fmt: skip
        for left, threshold, categories in sides:
            for way in self.ways(left, missing, stop, threshold):
                goes = np.where(missing, way == 1, left)
                split = self.rate(rows, goes, missing & stop)
                if split is not None:
                    split.feature, split.threshold = feature, threshold
                    split.categories, split.missing_left = categories, way
                    yield split

    def ways(self, left, missing, stop, threshold):
        """Where missing values may go."""
        if stop:
            return [STOP]
        if np.isinf(threshold):
            return [0]
        if missing.any():
            return [0, 1]
        return [int(np.count_nonzero(left) > np.count_nonzero(~left))]

    def rate(self, rows, left, stays):
        """The split, if both children are large enough."""
        kept = rows[~stays]
        parts = rows[left & ~stays], rows[~left & ~stays]
        for part in parts:
            if len(part) < max(1, self.min_samples_leaf):
                return None
            if self.weight[part].sum() < self.min_child_weight:
                return None
            if self.criterion == "poisson" and np.any(
                (self.target[part] * self.weight[part, None]).sum(axis=0) <= 0
            ):
                return None
        gain = self.cost(kept) - self.cost(parts[0]) - self.cost(parts[1])
        return Split(gain, -1, left, stays)
