"""Classification and regression trees, grown on the targets themselves.

The search uses the targets that its criterion needs: centred targets, the indicator of the second
of two classes, or class codes. Values and impurities of nodes are computed here from exact sums.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import TargetLayout
from hybridtrees.core.base.criteria import CRITERIA
from hybridtrees.core.base.exact_sum import exact_mean, group_sums
from hybridtrees.core.grow._leaf_passes import leaf_means, pair_gains
from hybridtrees.core.grow.grower import Grower, LeafModel, RowTarget, Statistics
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import MIN_RANGE, Table
from hybridtrees.core.search._criteria import weighted_medians
from hybridtrees.core.tree.tree import Tree

Floats = NDArray[np.float64]
# Row ids ordered by node, and start and stop of each node.
Segments = tuple[NDArray, NDArray, NDArray]


class TargetStatistics(Statistics):
    """Targets for a criterion, and values and impurities of nodes.

    `target` is float64 of shape (n_rows, n_outputs), or int32 class codes. Rows of weight 0 are not
    used: `rows` are the others, None for all.
    """

    def __init__(self, target: NDArray, weight: NDArray | None, criterion: str, n_classes: int = 0):
        self.criterion = criterion
        self.n_classes = n_classes
        self.rows = None
        if weight is not None and not np.all(weight > 0):
            self.rows = np.flatnonzero(weight > 0).astype(np.uint32)
        if weight is not None:
            # Weights near 1 keep 32-bit hessians in range; scaling by a power of two is exact.
            self.weight_unit = float(2.0 ** np.frexp(weight.max())[1])
            weight = weight / self.weight_unit
        self.weight = weight
        if n_classes > 2:
            self.gain_unit = self.weight_unit
            super().__init__(target=_class_codes(target, weight, n_classes))
            return
        if n_classes:
            y = (target == 1).astype(np.float64).reshape(len(target), 1)
            # The Gini index of two classes is twice the variance of the indicator.
            unit = 2.0 if criterion == "gini" else 1.0
        else:
            self.y = np.asarray(target, dtype=np.float64).reshape(len(target), -1)
            y, self.centers, self.scale = _centred(
                target, weight, self.rows, criterion != "poisson"
            )
            # Impurities are means over the outputs; squared error has the scale squared.
            power = 2 if CRITERIA[criterion] == "squares" else 1
            # May be 0 or infinite, which does not change the tree.
            with np.errstate(over="ignore", under="ignore"):
                unit = float(np.float64(self.scale) ** power / y.shape[1])
        self.gain_unit = float(_times(np.array(unit), self.weight_unit))
        super().__init__(target=_numbers(y, weight, bool(n_classes)))

    def describe(self, grown: Grown, grower: Grower, impurities: bool) -> tuple[NDArray, NDArray]:
        """Values and impurities of the nodes; impurities may be 0 unless `impurities`."""
        nodes, sums, leaf, w = grown.nodes, grown.sums, grown.leaf, self.weight
        if self.n_classes:
            bounds = grown.lower, grown.upper
            return class_values(sums, bounds, self.n_classes, self.criterion)
        means = sums[:, :-1] / sums[:, -1:] * self.scale + self.centers
        if self.criterion == "absolute_error":
            value, impurity = median_values(self.y, w, grower.engine.segments())
            impurity /= self.scale
        elif self.criterion == "poisson":
            value, impurity = poisson_values(nodes, sums, self._scaled, w, leaf)
            value = mean_values(nodes, self.y, w, grower.engine.segments(), means)
        else:
            value = mean_values(nodes, self.y, w, grower.engine.segments(), means)
            impurity = np.zeros(len(nodes))
            if impurities:
                impurity = square_values(nodes, sums, self._scaled, w, leaf)[1]
                impurity = _times(impurity, self.scale)
        impurity = _times(impurity, self.scale)
        if np.isinf(grown.lower).all() and np.isinf(grown.upper).all():
            return value, impurity
        lower, upper = (
            bound[:, None] * self.scale + self.centers for bound in (grown.lower, grown.upper)
        )
        return np.clip(value, lower, upper), impurity

    @property
    def _scaled(self) -> NDArray[np.float64]:
        return (self.y - self.centers) / self.scale


def _class_codes(target: NDArray, weight: NDArray | None, n_classes: int) -> RowTarget:
    codes = target.astype(np.float64)
    if weight is None:
        return RowTarget(codes[:, None], TargetLayout.TARGET_CLASS, n_classes)
    data = np.column_stack([codes, weight])
    return RowTarget(data, TargetLayout.TARGET_CLASS_WEIGHTED, n_classes)


def _numbers(y: NDArray, weight: NDArray | None, binary: bool) -> RowTarget:
    n_sums = y.shape[1]
    if weight is not None or n_sums > 1:
        w = np.ones(len(y)) if weight is None else weight
        y = np.column_stack([y * w[:, None], w])
    layout = TargetLayout.TARGET_VECTOR
    if n_sums == 1:
        weighted = y.shape[1] == 2
        layout = TargetLayout.TARGET_PAIR if weighted else TargetLayout.TARGET_UNWEIGHTED
    return RowTarget(np.ascontiguousarray(y), layout, n_sums, binary)


def _centred(
    target: NDArray, weight: NDArray | None, rows: NDArray | None, center: bool
) -> tuple[NDArray, NDArray, float]:
    """Targets minus their mean, divided by a power of two: `target = y * scale + center`.

    Without a common offset sums lose no digits; the scale keeps squares and 32-bit gradients in
    range.
    """
    y = np.array(target, dtype=np.float64).reshape(len(target), -1)
    part = y if rows is None else y[rows]
    scale = 2.0 ** np.frexp(np.abs(part).max() or 1.0)[1]
    y /= scale
    mean = np.zeros(y.shape[1])
    if center:
        mean = exact_mean(y, weight)
        y -= mean
    return y, mean * scale, float(scale)


class TargetLeaves(LeafModel):
    """Means, medians or class probabilities of nodes, and impurities if `impurities`."""

    def __init__(self, impurities: bool = True):
        self.impurities = impurities

    def fit(self, grown: Grown, statistics: Any, grower: Grower) -> Tree:
        """Make the tree; the gain of a node is its decrease in impurity times its weight."""
        nodes = grown.nodes
        if grower.by_histogram:
            # Replace the gains of quantised sums by those of exact sums.
            pair_gains(nodes, grown.sums)
        if statistics.gain_unit != 1.0:
            nodes["gain"] = _times(nodes["gain"], statistics.gain_unit)
        if statistics.weight_unit != 1.0:
            nodes["weight"] *= statistics.weight_unit
        grown.leaf = grower.engine.row_nodes()
        value, impurity = statistics.describe(grown, grower, self.impurities)
        return Tree(nodes, value, grown.categories, impurity=impurity)


def _times(values: NDArray, factor: float) -> NDArray:
    """Multiply; 0 stays 0 even if the factor is infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return np.multiply(values, factor, out=np.zeros_like(values), where=values != 0)


def cart_params(params: GrowerParams, criterion: str) -> GrowerParams:
    """Parameters for trees on targets: the engine's criterion, small nodes as tasks."""
    return replace(params, criterion=CRITERIA[criterion]).in_subtrees()


def cart_table(
    values: Any,
    is_categorical: NDArray,
    splitter: str,
    max_bins: int = 255,
    weight: NDArray[np.float64] | None = None,
    n_threads: int = 1,
) -> Table:
    """Make the table for a splitter: only "exact" has no bins."""
    if splitter != "exact":
        return Table.in_bins(values, is_categorical, max_bins, weight, n_threads, midpoints=True)
    return Table(values, is_categorical, min_range=MIN_RANGE)


def grow_cart(
    values: Any,
    target: NDArray,
    weight: NDArray[np.float64] | None,
    *,
    criterion: str,
    n_classes: int = 0,
    params: GrowerParams,
    is_categorical: NDArray,
    splitter: str = "exact",
    max_bins: int = 255,
    n_threads: int = 1,
    seed: int = 0,
) -> Grown:
    """Grow one tree on all rows of positive weight; see `TargetStatistics` and `cart_table`."""
    statistics = TargetStatistics(target, weight, criterion, n_classes)
    table = cart_table(values, is_categorical, splitter, max_bins, weight, n_threads)
    params = cart_params(params, criterion)
    with Grower(table, params, TargetLeaves(), n_threads, in_place=True) as grower:
        return grower.grow(statistics, statistics.rows, seed)


# -- values and impurities of nodes, from the sums of their rows ----------------------------------


def class_values(
    sums: Floats, bounds: tuple[Floats, Floats], n_classes: int, criterion: str
) -> tuple[Floats, Floats]:
    """Class probabilities, and the impurity of the class weights.

    With two classes the only sum is the weight of the second, whose share is within `bounds`.
    """
    weight = sums[:, -1:]
    share = sums[:, :-1] / weight
    if share.shape[1] == 1:
        share = np.hstack([1.0 - share, share])[:, :n_classes]
    impurity = class_impurity(share, criterion)
    if n_classes == 2:
        second = np.clip(share[:, 1], *bounds)
        share = np.column_stack([1.0 - second, second])
    return share, impurity


def class_impurity(share: Floats, criterion: str) -> Floats:
    """Impurity of nodes with these shares of the classes."""
    if criterion == "gini":
        impurity = 1.0 - np.sum(share * share, axis=1)
    elif criterion == "misclassification":
        impurity = 1.0 - share.max(axis=1)
    else:
        logs = np.log2(share, out=np.zeros_like(share), where=share > 0)
        impurity = -np.sum(share * logs, axis=1)
    return np.maximum(impurity, 0.0)


def _sum_up(nodes: NDArray, own: Floats) -> Floats:
    """Sum over each node and its descendants, level by level from below."""
    total = own.copy()
    order = np.argsort(nodes["depth"], kind="stable")[::-1]
    depth = nodes["depth"][order]
    for level in np.split(order, np.flatnonzero(np.diff(depth)) + 1):
        level = level[nodes["parent"][level] >= 0]
        np.add.at(total, nodes["parent"][level], total[level])
    return total


def _own_sums(leaf: NDArray, per_row: Floats, n_nodes: int) -> Floats:
    """Sum over the rows that end at each node."""
    ended = leaf >= 0
    return group_sums(leaf[ended], n_nodes, per_row[ended])


def mean_values(
    nodes: NDArray, y: Floats, w: Floats | None, segments: Segments, inner: Floats
) -> Floats:
    """Means of the original targets: a leaf of equal targets gets exactly their value.

    `inner` are the means of all nodes from centred sums, which are used for inner nodes.
    """
    value = np.array(inner, order="C")
    leaf_means(nodes, y, None if w is None else np.ascontiguousarray(w), *segments, value)
    return value


def square_values(
    nodes: NDArray, sums: Floats, y: Floats, w: Floats | None, leaf: NDArray
) -> tuple[Floats, Floats]:
    """Means, and mean squared deviations from them (averaged over the outputs)."""
    n_nodes = len(nodes)
    value = sums[:, :-1] / sums[:, -1:]
    weight = np.ones(len(y)) if w is None else w
    impurity = np.zeros(n_nodes)
    own_weight = _own_sums(leaf, weight, n_nodes)
    for k in range(y.shape[1]):
        own_sum = _own_sums(leaf, weight * y[:, k], n_nodes)
        own_mean = np.divide(own_sum, own_weight, out=np.zeros(n_nodes), where=own_weight > 0)
        own = _own_sums(leaf, weight * (y[:, k] - own_mean[leaf]) ** 2, n_nodes)
        # Sums of squares within groups of rows that end together, and between the parts of each
        # node: this avoids small differences of large sums.
        parent = nodes["parent"]
        gap = np.zeros(n_nodes)
        child = parent >= 0
        shift = value[child, k] - value[parent[child], k]
        np.add.at(gap, parent[child], sums[child, -1] * shift**2)
        gap += own_weight * (own_mean - value[:, k]) ** 2
        impurity += _sum_up(nodes, own + gap) / sums[:, -1]
    return value, impurity / y.shape[1]


def poisson_values(
    nodes: NDArray, sums: Floats, y: Floats, w: Floats | None, leaf: NDArray
) -> tuple[Floats, Floats]:
    """Means, and half the mean Poisson deviance (averaged over the outputs)."""
    value = sums[:, :-1] / sums[:, -1:]
    weight = np.ones(len(y)) if w is None else w
    impurity = np.zeros(len(nodes))
    for k in range(y.shape[1]):
        logs = np.log(y[:, k], out=np.zeros(len(y)), where=y[:, k] > 0)
        own = _own_sums(leaf, weight * y[:, k] * logs, len(nodes))
        mean_logs = np.log(value[:, k], out=np.zeros(len(nodes)), where=value[:, k] > 0)
        impurity += (_sum_up(nodes, own) - sums[:, k] * mean_logs) / sums[:, -1]
    return value, np.maximum(impurity, 0.0) / y.shape[1]


def median_values(y: Floats, w: Floats | None, segments: Segments) -> tuple[Floats, Floats]:
    """Medians, and mean absolute deviations from them (averaged over the outputs)."""
    rows, start, stop = segments
    weight = np.ones(len(y)) if w is None else np.ascontiguousarray(w)
    value = np.empty((len(start), y.shape[1]))
    impurity = np.zeros(len(start))
    for k in range(y.shape[1]):
        column = np.ascontiguousarray(y[:, k])
        value[:, k], deviation = weighted_medians(column, weight, rows, start, stop)
        impurity += deviation
    return value, impurity / y.shape[1]
