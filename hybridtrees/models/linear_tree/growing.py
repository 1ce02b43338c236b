"""Growth of linear trees, with a model in every node."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import count_rows
from hybridtrees.core.base._types import Limit
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow.linear import GrownNodes, LinearPenalty, LinearRoom, bin_at, grow_linear
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search.lines._linear_tree_fit import LinearProblem
from hybridtrees.linear.cross_products import column_scales
from hybridtrees.linear.path import Penalty
from hybridtrees.models.linear_tree.node_fitters import (
    AbsoluteFitter,
    LogLossFitter,
    NodeFitter,
    criterion_loss,
    weighted_median,
)
from hybridtrees.models.linear_tree.solutions import NodePenalty, exact_solutions

Floats = NDArray[np.float64]

# Maximum number of regressors for which search="auto" searches all features.
_MAX_SEARCHED = 40
# With more, only this share of the features, and at least so many, pass the screening.
_SCREENED_SHARE, _MIN_SCREENED = 0.1, 8


@dataclass(frozen=True)
class LinearRecipe:
    """How linear trees are grown; numbers of rows may still be shares."""

    criterion: str
    n_classes: int  # 0 in regression
    penalty: Penalty
    standardize: bool
    alpha_scaling: str
    max_depth: int | None
    min_samples_split: int | float
    min_samples_leaf: int | float | str
    min_impurity_decrease: float
    max_leaf_nodes: int | None
    max_bins: int
    candidates: str
    search: str
    split_features: NDArray[np.intp]  # indices of the columns to split on
    linear_features: NDArray[np.intp]  # indices of the regressors
    is_categorical: NDArray[np.bool_]  # for every column
    max_features: int = 0  # drawn per node, 0 for all
    n_threads: int = 1

    @property
    def squared(self) -> bool:
        """Whether the loss is the squared error, so that models follow from sums of products."""
        return self.criterion == "squared_error"

    def min_leaf_rows(self, n_rows: int) -> int:
        """Return the minimum number of rows of a leaf."""
        given = self.min_samples_leaf
        if isinstance(given, str):
            # Leaves residual degrees of freedom, also without a penalty.
            return min(max(10, 2 * (len(self.linear_features) + 1)), max(1, n_rows // 2))
        return count_rows(given, n_rows)

    def min_rows(self) -> int:
        """Return the minimum number of rows of a model that is not a constant."""
        return len(self.linear_features) + 2 if self.penalty.alpha == 0 else 2

    def grower_params(self, n_rows: int, total: float, gain_unit: float) -> GrowerParams:
        """Return the parameters of the engine, whose gains are in units of `gain_unit`."""
        min_leaf = self.min_leaf_rows(n_rows)
        # For other losses, the node fitter checks the gain.
        min_gain = self.min_impurity_decrease * total / gain_unit if self.squared else 0.0
        return GrowerParams(
            frontier="depth-first" if self.max_leaf_nodes is None else "best-first",
            max_depth=self.max_depth or 0,
            max_leaves=min(self.max_leaf_nodes or 0, n_rows),
            min_samples_split=max(2, count_rows(self.min_samples_split, n_rows), 2 * min_leaf),
            min_samples_leaf=min_leaf,
            min_child_weight=0.0,
            min_gain=min_gain,
            max_features=self.max_features,
        )


class LinearTable:
    """A table prepared for linear trees: binned columns to split on, standardised regressors.

    Missing regressors are 0. `mean` and `scale` are in original units; a constant has the scale 0.
    """

    def __init__(self, values: Any, weight: Floats | None, recipe: LinearRecipe):
        self.n_rows = values.shape[0]
        self.recipe = recipe
        self.mean, self.scale, self.regressors = _standardise(
            _dense(values, recipe.linear_features), weight, recipe.n_threads
        )
        split = _dense(values, recipe.split_features)
        mask = recipe.is_categorical[recipe.split_features]
        if recipe.candidates == "quantiles":
            self.splits = Table.of_bins(_root_quantiles(split, recipe.max_bins, mask))
        else:
            self.splits = Table.in_bins(
                split, mask, recipe.max_bins, weight, recipe.n_threads, dense=True
            )

    @cached_property
    def units(self) -> Floats:
        """The scales, with 1 in place of 0."""
        return np.where(self.scale > 0, self.scale, 1.0)


def _dense(values: Any, columns: NDArray[np.intp]) -> NDArray[Any]:
    part = values[:, columns] if len(columns) < values.shape[1] else values
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part)


def _standardise(
    values: NDArray[Any], weight: Floats | None, n_threads: int
) -> tuple[Floats, Floats, Floats]:
    if not values.shape[1]:
        return np.zeros(0), np.zeros(0), np.zeros((values.shape[0], 0))
    rows = None
    if weight is not None and not weight.all():
        rows = np.flatnonzero(weight).astype(np.int64)
    mean, scale, _ = column_scales(values, weight, rows=rows, n_threads=n_threads)
    out = np.subtract(values, mean, dtype=np.float64)
    with np.errstate(divide="ignore"):
        out *= np.where(scale > 0, 1.0 / scale, 0.0)
    np.nan_to_num(out, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return mean, scale, np.ascontiguousarray(out)


def _root_quantiles(
    values: NDArray[Any], max_bins: int, is_categorical: NDArray[Any]
) -> BinnedMatrix:
    """Bin columns at equally spaced quantiles, interpolated as in NumPy.

    Category codes are treated as numbers, each with its own bin.
    """
    shares = np.linspace(0, 1, max_bins)[1:-1]
    edges = []
    for f, is_code in enumerate(is_categorical):
        column = np.sort(values[:, f].astype(np.float64))  # NaN goes last
        column = column[: len(column) - np.count_nonzero(np.isnan(column))]
        cuts = column if is_code or not len(column) else quantiles(column, shares)
        edges.append(np.unique(cuts)[: Limit.MAX_BINS - 1])
    return bin_at(values, edges)


def quantiles(column: Floats, shares: Floats) -> Floats:
    """Return the same as ``np.quantile``, which is slower: it would sort the column again."""
    place = shares * (len(column) - 1)
    below = np.floor(place).astype(np.intp)
    low, high = column[below], column[np.minimum(below + 1, len(column) - 1)]
    part = place - below
    step = high - low
    return np.where(part < 0.5, low + step * part, high - step * (1.0 - part))


def constant_model(
    recipe: LinearRecipe, target: NDArray[Any], weight: Floats, like: Floats
) -> Floats:
    """Return the best constant for some rows, as a model of the shape of `like`."""
    model = np.zeros_like(like)
    if recipe.n_classes:
        share = np.bincount(target, weight, minlength=recipe.n_classes) / weight.sum()
        scores = np.log(np.maximum(share, np.finfo(np.float64).tiny))
        model[:, 0] = scores[1:] - scores[0] if len(like) == 1 else scores
    elif recipe.squared:
        model[:, 0] = weight @ target / weight.sum()
    else:
        model[:, 0] = weighted_median(target[:, 0], weight)
    return model


@dataclass
class GrownTree:
    """A tree with a model in every node."""

    grown: GrownNodes  # features are indices of the table's columns
    theta: Floats  # (n_nodes, n_outputs, p + 1), intercept first, in units of the target
    impurity: Floats  # mean criterion of every node


@dataclass
class LinearTreeGrower:
    """Grows trees on one table for one target."""

    table: LinearTable
    target: NDArray[Any]  # (n_rows, n_outputs), or int32 class codes
    n_threads: int = 1
    problem: LinearProblem | None = field(default=None, init=False)  # of the last tree
    _room: LinearRoom = field(default_factory=LinearRoom, init=False)

    def grow(self, weight: Floats | None, seed: int) -> GrownTree:
        """Grow a tree on rows of positive weight; `seed` is for drawing features."""
        recipe, table = self.table.recipe, self.table
        rows = None
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight).astype(np.uint32)
        n_rows = table.n_rows if rows is None else len(rows)
        total = float(n_rows) if weight is None else float(weight.sum())
        self.problem, unit = problem, _ = self._problem(weight, rows)
        fitter = None if recipe.squared else self._make_fitter(weight, total, unit)
        grown = grow_linear(
            table.splits,
            problem,
            recipe.grower_params(n_rows, total, unit**2),
            self.n_threads,
            rows,
            seed,
            room=self._room,
            fitter=fitter,
            regressors=table.regressors,
            screened=self._screened(),
            exhaustive=recipe.search == "exact",
        )
        nodes = grown.nodes
        inner = nodes["left"] >= 0
        nodes["feature"][inner] = recipe.split_features[nodes["feature"][inner]]
        return self._finish(grown, problem, fitter, unit)

    def _finish(
        self, grown: GrownNodes, problem: LinearProblem, fitter: NodeFitter | None, unit: float
    ) -> GrownTree:
        theta, impurity = self._models(grown, problem, fitter, unit)
        nodes = grown.nodes
        inner = nodes["left"] >= 0
        cost = impurity * nodes["weight"]
        gain = cost[inner] - cost[nodes["left"][inner]] - cost[nodes["right"][inner]]
        nodes["gain"][inner] = np.maximum(gain, 0.0)
        return GrownTree(grown, theta, impurity)

    def grow_and_validate(
        self,
        values: Any,
        weight: Floats | None,
        seed: int,
        share: float,
        draw: np.random.SeedSequence,
    ) -> GrownTree:
        """Grow a tree on a part of the rows, prune it on the others, and refit it to all."""
        from hybridtrees.models.linear_tree.leaves import find_rows, prune_by_rows

        used = np.arange(values.shape[0]) if weight is None else np.flatnonzero(weight)
        aside = np.random.default_rng(draw).permutation(used)[: int(share * len(used))]
        if not 0 < len(aside) < len(used):
            raise ValueError(
                f"validation_fraction={share} holds out {len(aside)} of {len(used)} rows: growing "
                "and pruning need at least one row each"
            )
        part = np.zeros(values.shape[0])
        part[used] = 1.0 if weight is None else weight[used]
        part[aside] = 0.0
        grown = self.grow(part, seed)
        leaf = find_rows(grown, values, values.shape[1])[aside]
        grown = prune_by_rows(grown, leaf, lambda t, rows: self._loss(t, rows, weight), aside)
        return self.refit(grown, values, weight)

    def _loss(
        self,
        theta: Floats,
        rows: NDArray[Any],
        weight: Floats | None,
        regressors: Floats | None = None,
    ) -> float:
        """Return the loss of a model on some rows, whose regressors may be given."""
        recipe = self.table.recipe
        w = np.ones(len(rows)) if weight is None else weight[rows]
        if theta[:, 1:].any():
            part = self.table.regressors[rows] if regressors is None else regressors
            scores = part @ theta[:, 1:].T + theta[:, 0]
        else:
            scores = np.broadcast_to(theta[:, 0], (len(rows), len(theta)))
        if recipe.n_classes:
            return criterion_loss(recipe.criterion, scores, self.target[rows], w)
        away = np.abs(self.target[rows] - scores)
        return float((w @ (away**2 if recipe.squared else away)).sum())

    def line_gains(self, grown: GrownTree, theta: Floats, weight: Floats | None) -> Floats:
        """Return how much the leaves' models `theta` gain over constants, by regressor.

        The gain of a leaf is shared out by |coefficient| times standard deviation in the leaf.
        """
        segments, regressors = grown.grown, self.table.regressors
        gains = np.zeros(regressors.shape[1])
        slopes = np.abs(theta[:, :, 1:]).sum(axis=1)
        for leaf in np.flatnonzero((segments.nodes["left"] < 0) & slopes.any(axis=1)):
            rows = segments.rows[segments.start[leaf] : segments.stop[leaf]]
            w = np.ones(len(rows)) if weight is None else weight[rows]
            used = np.flatnonzero(slopes[leaf])
            whole = regressors[rows]
            part = whole if len(used) == whole.shape[1] else np.ascontiguousarray(whole[:, used])
            effect = slopes[leaf, used] * np.sqrt(w @ (part - w @ part / w.sum()) ** 2)
            if effect.sum() > 0:
                constant = constant_model(self.table.recipe, self.target[rows], w, theta[leaf])
                gain = self._loss(constant, rows, weight)
                gain -= self._loss(theta[leaf], rows, weight, whole)
                gains[used] += max(0.0, gain) * effect / effect.sum()
        return gains

    def refit(self, grown: GrownTree, values: Any, weight: Floats | None) -> GrownTree:
        """Refit the models of all nodes, to all rows of positive weight."""
        from hybridtrees.core.tree.pruning import branch_sizes
        from hybridtrees.models.linear_tree.leaves import bare_tree, find_rows

        leaf = find_rows(grown, values, values.shape[1])
        drawn = np.arange(len(leaf)) if weight is None else np.flatnonzero(weight)
        # Nodes are in preorder: sorted by leaf, the rows of a branch are contiguous.
        rows = drawn[np.argsort(leaf[drawn], kind="stable")].astype(np.uint32)
        sizes = branch_sizes(bare_tree(grown))
        nodes, number = grown.grown.nodes, np.arange(len(sizes))
        start = np.searchsorted(leaf[rows], number)
        stop = np.searchsorted(leaf[rows], number + sizes)
        nodes["n_samples"] = stop - start
        each = np.ones(len(rows)) if weight is None else weight[rows]
        sums = np.concatenate([[0.0], np.cumsum(each)])
        nodes["weight"] = sums[stop] - sums[start]
        used = None if weight is None or weight.all() else np.sort(rows)
        problem, unit = self._problem(weight, used)
        cells = np.zeros((len(nodes), 0))
        fitter = None
        if self.table.recipe.squared:
            pairs = zip(start, stop, strict=True)
            cells = np.stack([problem.collect(rows[a:b]) for a, b in pairs])
        else:
            fitter = self._make_fitter(weight, float(sums[-1]), unit)
        fresh = GrownNodes(nodes, grown.grown.categories, cells, rows, start, stop)
        return self._finish(fresh, problem, fitter, unit)

    # -- the problem that the engine solves ----------------------------------------------------

    def _problem(
        self, weight: Floats | None, rows: NDArray[Any] | None
    ) -> tuple[LinearProblem, float]:
        """Return regressors and targets for the kernels, and the unit of the targets."""
        recipe, table = self.table.recipe, self.table
        min_rows, last = recipe.min_rows(), self.problem
        if recipe.n_classes:
            n_outputs = 1 if recipe.n_classes == 2 else recipe.n_classes
            targets = np.zeros((table.n_rows, n_outputs))
            penalty = LinearPenalty(l2_per_weight=recipe.penalty.parts(self._alpha())[1] + 1e-8)
            how = penalty, min_rows, True, last
            return LinearProblem(table.regressors, targets, weight, *how), 1.0
        y = self.target
        part = y if rows is None else y[rows]
        own = weight if weight is None or rows is None else weight[rows]
        self._center = np.average(part, axis=0, weights=own)
        spread = np.sqrt(np.average((part - self._center) ** 2, axis=0, weights=own).sum())
        unit = float(spread) if np.isfinite(spread) and spread > 0 else 1.0
        targets = (y - self._center) / unit
        if not recipe.squared:
            penalty = LinearPenalty(l2_per_weight=recipe.penalty.parts(self._alpha())[1] + 1e-12)
            how = penalty, min_rows, True, last
        else:
            how = self._penalty(unit), min_rows, False, last
        return LinearProblem(table.regressors, targets, weight, *how), unit

    def _alpha(self) -> float:
        alpha = self.table.recipe.penalty.alpha
        assert alpha is not None
        if self.table.recipe.alpha_scaling == "sum":
            return float(alpha / self.table.n_rows)
        return alpha

    def _penalty(self, unit: float) -> LinearPenalty:
        """Return the penalty for standardised regressors and a target in units of `unit`."""
        recipe = self.table.recipe
        assert recipe.penalty.alpha is not None
        l1, l2 = recipe.penalty.parts(recipe.penalty.alpha)
        by_sum = recipe.alpha_scaling == "sum"
        l1 = l1 / unit
        if recipe.standardize:
            return LinearPenalty(
                l2_relative=0.0 if by_sum else l2,
                l2_relative_sum=l2 if by_sum else 0.0,
                l1_relative=l1,
                l1_sum=by_sum,
            )
        units = self.table.units
        return LinearPenalty(
            l2_per_weight=0.0 if by_sum else l2 / units**2,
            l2_absolute=l2 / units**2 if by_sum else 0.0,
            l1_per_weight=l1 / units,
            l1_sum=by_sum,
        )

    def _screened(self) -> int:
        recipe = self.table.recipe
        n_regressors, n_features = len(recipe.linear_features), len(recipe.split_features)
        if recipe.search == "exact" or (recipe.search == "auto" and n_regressors <= _MAX_SEARCHED):
            return 0
        return max(_MIN_SCREENED, math.ceil(_SCREENED_SHARE * n_features))

    def node_penalty(self) -> NodePenalty:
        """Return the penalty for standardised regressors and a target in original units."""
        recipe = self.table.recipe
        assert recipe.penalty.alpha is not None
        l1, l2 = recipe.penalty.parts(recipe.penalty.alpha)
        scale = None if recipe.standardize else self.table.units
        return NodePenalty(l1, l2, scale, recipe.alpha_scaling == "sum")

    def _make_fitter(self, weight: Floats | None, total: float, unit: float) -> NodeFitter:
        recipe, table, penalty = self.table.recipe, self.table, self.node_penalty()
        assert isinstance(table.splits.binned, BinnedMatrix)
        shared: dict[str, Any] = {
            "regressors": table.regressors,
            "weight": weight,
            "columns": table.splits.binned.columns,
            "penalty": penalty,
            "min_rows": recipe.min_rows(),
            "min_gain": recipe.min_impurity_decrease * total / unit,
            "n_threads": self.n_threads,
        }
        if recipe.n_classes:
            return LogLossFitter(self.target, recipe.n_classes, recipe.criterion, **shared)
        # Dividing the target by its unit divides the loss by it, and squared coefficients by its
        # square.
        shared["penalty"] = replace(penalty, l2=penalty.l2 * unit)
        return AbsoluteFitter((self.target[:, 0] - self._center[0]) / unit, **shared)

    # -- models of the nodes ----------------------------------------------------------------------

    def _models(
        self, grown: GrownNodes, problem: LinearProblem, fitter: NodeFitter | None, unit: float
    ) -> tuple[Floats, Floats]:
        """Return the models of all nodes in units of the target, and their impurities."""
        if fitter is not None:
            fits = [
                fitter.finish(grown.rows[a:b]) for a, b in zip(grown.start, grown.stop, strict=True)
            ]
            theta = np.stack([fit.theta for fit in fits])
            loss = np.array([fit.loss for fit in fits])
            if not self.table.recipe.n_classes:
                theta *= unit
                theta[:, :, 0] += self._center
                loss *= unit
            return theta, loss / grown.nodes["weight"]
        loss, theta = problem.solve(grown.cells)
        exact_solutions(problem, grown.cells, self._penalty(unit), theta, loss)
        theta *= unit
        theta[:, :, 0] += self._center
        return theta, loss * unit**2 / grown.nodes["weight"]
