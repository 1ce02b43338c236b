"""Slow, obvious versions of the exact search, which the tests compare the engine with.

Costs are written down as the textbooks have them (squared deviations from the mean, entropies,
deviations from the median), gains as what a split takes off the cost; the engine knows none of
these formulas. A split is found by trying every candidate, and a tree is followed node by node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
import oracle

from hybridtrees.core.base._types import TargetLayout
from hybridtrees.core.grow.grower import BareLeaves, Grower, RowTarget, Statistics
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table
from hybridtrees.core.tree.tree import Tree

SLACK = 1e-9  # share of a node's cost that rounding may be worth

UNIT, PAIR, VECTOR, CLASS, CLASS_WEIGHTED = TargetLayout

# ---- targets ------------------------------------------------------------------------------------


def unit_target(y, binary=False) -> RowTarget:
    return RowTarget(np.array(y, dtype=np.float64).reshape(-1, 1), UNIT, 1, binary)


def weighted_target(y, weight, binary=False) -> RowTarget:
    y, w = np.array(y, dtype=np.float64).reshape(len(weight), -1), np.asarray(weight, float)
    data = np.column_stack([y * w[:, None], w])
    layout = PAIR if y.shape[1] == 1 else VECTOR
    return RowTarget(data, layout, y.shape[1], binary)


def newton_target(grad, hess) -> RowTarget:
    return RowTarget(np.column_stack([grad, hess]).astype(np.float64), PAIR, 1)


def class_target(codes, n_classes, weight=None) -> RowTarget:
    columns = [np.asarray(codes, float)] + ([] if weight is None else [np.asarray(weight, float)])
    layout = CLASS if weight is None else CLASS_WEIGHTED
    return RowTarget(np.ascontiguousarray(np.column_stack(columns)), layout, n_classes)


def row_sums(target: RowTarget) -> np.ndarray:
    """What each row adds to its node: one number per output or class, and its weight."""
    data = target.data
    if target.layout == UNIT:
        return np.column_stack([data, np.ones(len(data))])
    if target.layout in (PAIR, VECTOR):
        return data
    weight = data[:, 1] if target.layout == CLASS_WEIGHTED else np.ones(len(data))
    return np.column_stack(
        [np.eye(target.n_sums)[data[:, 0].astype(int)] * weight[:, None], weight]
    )


# ---- costs --------------------------------------------------------------------------------------


def median(y, weight) -> float:
    """Weighted median; the mean of two values that halve the weight exactly."""
    order = np.argsort(y, kind="stable")
    below = np.cumsum(weight[order])
    low = y[order][np.flatnonzero(2 * below >= below[-1])[0]]
    high = y[order][np.flatnonzero(2 * below > below[-1])[0]]
    return (low + high) / 2


FREE = (-np.inf, np.inf)


def cost(sums, params, binary=False, bounds=FREE) -> float:
    """Impurity times weight of a set of rows; for Newton steps minus twice the loss saved.

    Under monotone constraints a Newton step keeps to the bounds of the node.
    """
    weight, columns = sums[:, -1], sums[:, :-1].T
    total = weight.sum()
    if params.criterion == "newton":
        grad, hess = columns[0].sum(), total + params.reg_lambda
        if bounds == FREE or hess <= 0:
            return -oracle.score(grad, total, params)
        w = value(sums, params, bounds)
        return 2 * grad * w + hess * w * w + 2 * params.reg_alpha * abs(w)
    if params.criterion in ("entropy", "misclassified"):
        by_class = columns.sum(axis=1)
        by_class = np.append(by_class, total - by_class[0]) if binary else by_class
        if params.criterion == "misclassified":
            return total - by_class.max()
        return -sum(s * np.log2(s / total) for s in by_class if s > 0)
    result = 0.0
    for column in columns:
        y = column / weight
        mean = column.sum() / total
        if params.criterion == "squares":
            result += np.sum(weight * (y - mean) ** 2)
        elif params.criterion == "poisson":
            result += sum(w * v * np.log(v / mean) for v, w in zip(y, weight, strict=True) if v > 0)
        else:
            result += np.sum(weight * np.abs(y - median(y, weight)))
    return float(result)


def value(sums, params, bounds=FREE) -> float:
    """Value of a node with one output, which monotone constraints are about."""
    if params.criterion == "newton":
        return float(np.clip(oracle.leaf_value(*sums.sum(axis=0), params), *bounds))
    if params.criterion == "absolute":
        return median(sums[:, 0] / sums[:, 1], sums[:, 1])
    return sums[:, 0].sum() / sums[:, 1].sum()


# ---- candidates ---------------------------------------------------------------------------------


@dataclass
class Split:
    """A candidate, for the rows of one node."""

    feature: int
    name: object  # threshold, or the set of categories that goes left
    missing_left: int
    left: np.ndarray
    right: np.ndarray
    gain: float = -np.inf


def thinned(x, weight, start, share) -> list[float]:
    """Values behind which a cut is tried: one per `share` of the weight, not before it."""
    step, total = share * weight.sum(), start
    kept, needed = [], start + share * weight.sum()
    for v in np.unique(x[~np.isnan(x)]):
        total += weight[x == v].sum()
        if total >= needed:
            kept.append(v)
            needed = total + step
    return kept


def numeric_cuts(x, weight, share):
    """Pairs (threshold, missing left) in the order in which they win ties."""
    missing = np.isnan(x)
    present = np.unique(x[~missing])
    sides = [0, 1] if missing.any() else [0]
    for side in sides:
        allowed = thinned(x, weight, side * weight[missing].sum(), share) if share else present
        for low, high in pairwise(present):
            if low in allowed:
                middle = low / 2 + high / 2
                yield (low if middle >= high else middle), side
        if side == 0 and missing.any() and len(present):
            yield np.inf, 0


def category_cuts(x):
    """Every subset, the mirror images too."""
    missing = np.isnan(x)
    present = [int(c) for c in np.unique(x[~missing])]
    for size in range(1, len(present) + 1):
        for chosen in combinations(present, size):
            whole = size == len(present)
            if not whole or missing.any():
                yield frozenset(chosen), 0
            if missing.any() and not whole:
                yield frozenset(chosen), 1


@dataclass
class Node:
    """A node on the way down: its rows and the bounds of its value."""

    rows: np.ndarray
    depth: int = 0
    lower: float = -np.inf
    upper: float = np.inf

    @property
    def bounds(self) -> tuple[float, float]:
        return self.lower, self.upper


@dataclass
class Problem:
    """A table, its targets and the rules; everything that the oracle looks at."""

    X: np.ndarray
    target: RowTarget
    params: GrowerParams
    kinds: np.ndarray | None = None
    rows: np.ndarray | None = None
    sums: np.ndarray = field(init=False)

    def __post_init__(self):
        self.X = np.asarray(self.X)
        self.sums = row_sums(self.target)
        if self.kinds is None:
            self.kinds = np.zeros(self.X.shape[1], dtype=np.uint8)

    def cost(self, rows, bounds=FREE) -> float:
        return cost(self.sums[rows], self.params, self.target.binary, bounds)

    def is_pure(self, rows) -> bool:
        sums = self.sums[rows]
        return bool(np.all(sums[:, :-1] * sums[0, -1] == sums[0, :-1] * sums[:, -1:]))

    def scale(self, rows) -> float:
        """What gains of a node are measured against."""
        sums = self.sums[rows]
        squares = np.sum(sums[:, :-1] ** 2 / np.maximum(sums[:, -1:], 1e-300))
        return abs(self.cost(rows)) + squares + sums[:, -1].sum()

    def candidates(self, node: Node) -> list[Split]:
        """All admissible splits of a node with their gains, in the order that ties follow."""
        found = []
        for f in range(self.X.shape[1]):
            x = self.X[node.rows, f].astype(np.float64)
            missing = np.isnan(x)
            stops = self.params.missing == "stop"
            seen = x[~missing] if stops else x
            rows = node.rows[~missing] if stops else node.rows
            if self.kinds[f]:
                cuts = category_cuts(seen)
            else:
                cuts = numeric_cuts(seen, self.sums[rows, -1], self.params.candidate_share)
            for name, side in cuts:
                left = np.isin(seen, list(name)) if self.kinds[f] else seen <= name
                left = np.where(np.isnan(seen), side == 1, left)
                split = Split(f, name, side, rows[left], rows[~left])
                if self.admissible(node, split):
                    parts = (self.cost(part, node.bounds) for part in (split.left, split.right))
                    split.gain = self.cost(rows, node.bounds) - sum(parts)
                    found.append(split)
                    split.missing_left = self.side(missing, split)
        return found

    def side(self, missing, split) -> int:
        """Where missing values go: learned, stop, or with the larger child."""
        if self.params.missing == "stop":
            return 2
        if missing.any():
            return split.missing_left
        if self.params.criterion == "newton":
            left, right = (self.sums[part, -1].sum() for part in (split.left, split.right))
            return int(left > right)
        return int(len(split.left) > len(split.right))

    def admissible(self, node: Node, split: Split) -> bool:
        params = self.params
        for part in (split.left, split.right):
            if len(part) < max(1, params.min_samples_leaf):
                return False
            if self.sums[part, -1].sum() < params.min_child_weight:
                return False
            if params.criterion == "poisson" and np.any(self.sums[part, :-1].sum(axis=0) <= 0):
                return False
        sign = 0 if params.monotonic is None else params.monotonic[split.feature]
        if sign == 0 or self.kinds[split.feature]:
            return True
        # A Newton step is brought within the bounds, any other value has to lie there by itself.
        parts = (split.left, split.right)
        a, b = (value(self.sums[part], params, node.bounds) for part in parts)
        return sign * (b - a) >= 0 and all(node.lower <= v <= node.upper for v in (a, b))

    def may_split(self, node: Node) -> bool:
        params, n = self.params, len(node.rows)
        return (
            (params.max_depth <= 0 or node.depth < params.max_depth)
            and n >= max(2, params.min_samples_split)
            and n >= 2 * params.min_samples_leaf
            and self.sums[node.rows, -1].sum() >= 2 * params.min_child_weight
            and (params.criterion == "newton" or not self.is_pure(node.rows))
        )

    def best(self, node: Node) -> tuple[Split | None, list[Split]]:
        """The split that the rules lead to, and all that are as good."""
        found = self.candidates(node) if self.may_split(node) else []
        if not found:
            return None, []
        top = max(split.gain for split in found)
        slack = SLACK * self.scale(node.rows)
        if self.params.min_gain > -np.inf and (top <= slack or top < self.params.min_gain):
            return None, []
        tied = [split for split in found if split.gain >= top - slack]
        return tied[0], tied

    def children(self, node: Node, split: Split) -> tuple[Node, Node]:
        below = [Node(part, node.depth + 1, node.lower, node.upper)
                 for part in (split.left, split.right)]  # fmt: skip
        sign = 0 if self.params.monotonic is None else self.params.monotonic[split.feature]
        if sign:
            values = [value(self.sums[child.rows], self.params, node.bounds) for child in below]
            middle = sum(values) / 2
            low, high = below if sign > 0 else below[::-1]
            low.upper = high.lower = middle
        return below[0], below[1]


# ---- trees --------------------------------------------------------------------------------------


@dataclass
class Grown:
    """What the engine grew."""

    tree: Tree  # its values are the sums of the nodes
    leaf: np.ndarray
    splits: dict
    segments: tuple


def grow(problem: Problem, *, n_threads=1, seed=0) -> Grown:
    """Grow one tree along sorted lists; `problem.params` say what is lent."""
    params, target = problem.params, problem.target
    kinds = np.zeros(problem.X.shape[1]) if problem.kinds is None else problem.kinds
    table = Table(problem.X, kinds)
    with Grower(table, params, BareLeaves(), n_threads, in_place=True) as grower:
        grown = grower.grow(Statistics(target=target), problem.rows, seed)
        tree = Tree(grown.nodes, grown.sums, grown.categories)
        return Grown(tree, grower.row_nodes(), vars(grown), grower.segments())


def same_grown(a: Grown, b: Grown, *, same_words: bool = False) -> None:
    """Every bit of two trees; but the words of category sets may stand in another order."""
    names = [name for name in a.tree.nodes.dtype.names if name != "category_start" or same_words]
    for name in names:
        np.testing.assert_array_equal(a.tree.nodes[name], b.tree.nodes[name], err_msg=name)
    for k in np.flatnonzero(a.tree.nodes["category_start"] >= 0):
        np.testing.assert_array_equal(a.tree.category_set(k), b.tree.category_set(k))
    np.testing.assert_array_equal(a.tree.values, b.tree.values)
    np.testing.assert_array_equal(a.leaf, b.leaf)


def split_of(tree: Tree, k: int, node: Node, problem: Problem) -> Split:
    """The split of a grown node, as a division of the node's rows."""
    record = tree.nodes[k]
    x = problem.X[node.rows, record["feature"]].astype(np.float64)
    missing = np.isnan(x)
    if record["category_start"] >= 0:
        name = frozenset(int(c) for c in tree.category_set(k)) & set(x[~missing])
        left = np.isin(x, list(name))
    else:
        name = float(record["threshold"])
        left = x <= name
    side = int(record["missing_left"])
    stays = missing & (side == 2)
    left = np.where(missing, side == 1, left)
    return Split(int(record["feature"]), name, side, node.rows[left & ~stays],
                 node.rows[~left & ~stays], float(record["gain"]))  # fmt: skip


def check_tree(grown: Grown, problem: Problem, *, ties: bool = True) -> int:
    """Assert that a tree is the one that the rules lead to; returns its number of splits.

    With `ties` numeric splits must be the first of those that are equally good; without, any of
    them will do. Sets of categories may be any of the best.
    """
    tree, sums, n_splits = grown.tree, problem.sums, 0
    rows = np.arange(len(problem.X)) if problem.rows is None else np.asarray(problem.rows)
    expected_leaf = np.full(len(problem.X), -1)
    open_nodes = [(0, Node(rows))]
    while open_nodes:
        k, node = open_nodes.pop()
        record, own = tree.nodes[k], sums[node.rows]
        assert (record["depth"], record["n_samples"]) == (node.depth, len(node.rows)), k
        np.testing.assert_allclose(tree.values[k], own.sum(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(record["weight"], own[:, -1].sum(), rtol=1e-12)
        bounds = grown.splits["lower"][k], grown.splits["upper"][k]
        np.testing.assert_allclose(bounds, (node.lower, node.upper), rtol=1e-12, atol=1e-12)
        order, start, stop = grown.segments
        assert sorted(order[start[k] : stop[k]]) == sorted(node.rows), k
        expected_leaf[node.rows] = k
        best, tied = problem.best(node)
        if record["left"] < 0:
            assert best is None, f"node {k} can be split: {best}"
            assert (record["feature"], record["gain"], record["category_start"]) == (-1, 0, -1)
            continue
        n_splits += 1
        assert best is not None, f"node {k} should not have been split"
        split = split_of(tree, k, node, problem)
        slack = SLACK * problem.scale(node.rows)
        assert abs(split.gain - best.gain) <= slack, (k, split, best)
        assert split.feature == best.feature or not ties, (k, split, best)
        if problem.kinds[split.feature] or not ties:
            twins = [s for s in tied if {s.left.tobytes(), s.right.tobytes()}
                     == {split.left.tobytes(), split.right.tobytes()}]  # fmt: skip
            assert twins, (k, split, tied)
        else:
            names = (split.name, split.missing_left), (best.name, best.missing_left)
            assert names[0] == names[1], (k, split, best)
        assert tree.nodes["parent"][record["left"]] == k == tree.nodes["parent"][record["right"]]
        left, right = problem.children(node, split)
        open_nodes += [(int(record["left"]), left), (int(record["right"]), right)]
    np.testing.assert_array_equal(grown.leaf, expected_leaf)
    return n_splits
