"""Linear models in the leaves of trees that are split by the gain of such models."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from hybridtrees.core.base._types import CONSTANT
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow._leaf_passes import (
    add_lines,
    centre_moments,
    column_units,
    leaf_moments,
    line_reach,
    line_terms,
)
from hybridtrees.core.grow.grower import (
    Grower,
    LeafModel,
    Statistics,
    kept_elsewhere,
    leaf_sums,
    newton_values,
)
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search.lines._piecewise_scan import minimise_many
from hybridtrees.core.search.lines._piecewise_search import PiecewiseSearch
from hybridtrees.core.tree.tree import Tree
from hybridtrees.core.tree.walk import add_grown


@dataclass(frozen=True)
class LeafRules:
    """How leaves are fitted.

    `fit`: the free coefficients of a leaf are a factor for the linear part of its parent and the
    coefficient of the last split feature ("half_additive"), the latter only ("additive"), or all
    ("full"). `raw_penalty`: the penalty is on coefficients in the units of the table and on the
    output where every feature is 0 (Shi, Li and Li 2019), and there is no L1 penalty. Otherwise it
    is on coefficients in standard units and on the output at the means of the leaf.
    `extrapolation` beyond the range of the leaf's rows: "linear"; "clip", values are clipped to
    the range, extended by `margin` standard deviations; or "bounded", outputs are clipped to those
    of the leaf's rows.
    """

    fit: str = "half_additive"
    refit: bool = True  # fit all coefficients of the leaves, whatever `fit` is
    max_regressors: int = 5
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    raw_penalty: bool = False
    monotonic: np.ndarray | None = None  # signs of the coefficients of each feature, 0 for any
    extrapolation: str = "clip"
    margin: float = 0.5
    sample_rows: int = 8192  # see `PiecewiseSearch`


@dataclass
class LeafRows:
    """Leaves of a tree, with their rows and regressors."""

    leaves: np.ndarray  # node numbers
    rows: np.ndarray
    start: np.ndarray  # the rows of a leaf are rows[start:stop]
    stop: np.ndarray
    n_columns: np.ndarray
    feature: np.ndarray  # (n_leaves, width), of which the first n_columns are used


@dataclass
class LeafMoments:
    """Centred moments of the leaves' regressors, in the units of `RegressorColumns`."""

    matrix: np.ndarray  # sums of h z z', (n_leaves, width, width); 0 for constant columns
    grad: np.ndarray  # sums of g z
    mean: np.ndarray  # of the columns, in units of the table
    low: np.ndarray  # their range
    high: np.ndarray


def linear_leaf_grower(
    table: Table, params: GrowerParams, rules: LeafRules, columns: RegressorColumns, n_threads: int
) -> Grower:
    """Make a grower of trees with linear leaves on a binned table."""
    leaves = LinearLeaves(params, rules, columns, n_threads)
    return Grower(table, params, leaves, n_threads, search=leaves.open_search)


class LinearLeaves(LeafModel):
    """A linear model in every leaf; `leaves` are those of the last tree, with their rows."""

    def __init__(
        self, params: GrowerParams, rules: LeafRules, columns: RegressorColumns, n_threads: int
    ):
        self.params = params
        self.rules = rules
        self.columns = columns.in_raw_units() if rules.raw_penalty else columns
        self.n_threads = n_threads
        # Maximum output of a leaf before the factor `scale`. With tiny hessians a line through a
        # few rows may be steep, and other rows of its leaf far away.
        self.longest_step = np.inf

    def open_search(
        self, table: Table, params: GrowerParams, n_threads: int, statistics: Any, use_tail: bool
    ) -> PiecewiseSearch:
        """Open the search by gains of linear models."""
        rules = self.rules
        assert isinstance(table.binned, BinnedMatrix)
        return PiecewiseSearch(
            table.binned, params, use_tail, n_threads, rules.fit, rules.max_regressors,
            self.columns.bin_values, rules.sample_rows,
            self.columns.mean if rules.raw_penalty else None,
        )  # fmt: skip

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float = 1.0) -> Tree:
        """Fit a linear model to the rows of every leaf; see `LeafModel.fit`."""
        self._grown = grown
        if not self._fits_all:
            self._models = grower.search.node_models()
        rows, start, stop = grower.engine.segments()
        leaves, n_columns, feature = grower.search.leaf_regressors()
        self.leaves = LeafRows(leaves, rows, start[leaves], stop[leaves], n_columns, feature)
        return self.refit(statistics.grad, statistics.hess, grown.sums, scale)

    @property
    def _fits_all(self) -> bool:
        """Whether all coefficients of the leaves are free."""
        return self.rules.refit or self.rules.fit == "full"

    def refit(
        self, grad: np.ndarray, hess: np.ndarray | float, sums: np.ndarray, scale: float = 1.0
    ) -> Tree:
        """Fit the leaves of the last tree to gradients and hessians, with their `sums` by node."""
        grown, leaves, rules, columns = self._grown, self.leaves, self.rules, self.columns
        if not leaves.n_columns.any():
            values = newton_values(sums, self.params, grown)
            return Tree(grown.nodes, values * scale, grown.categories)
        at, sums = leaves.leaves, sums.copy()
        moments = sum_leaves(columns, leaves, grad, hess, sums[at], self.n_threads)
        base = None
        if self._fits_all:
            coef = slopes = solve_leaves(moments, leaves, rules, sums[at])
        else:
            parents = grown.nodes["parent"][at]
            if rules.fit == "additive":
                base = self._above(moments, parents)
                sums[at, 0] += sums[at, 1] * base
            fixed, coef = solve_composed(
                moments, leaves, rules, sums[at], self._models, parents
            )  # fmt: skip
            slopes = fixed + coef
        if rules.raw_penalty:
            sums[at, 0] += gradient_shift(moments, coef, rules)
        self._weighs = None if isinstance(hess, int | float) else hess > 0
        terms = line_terms(
            len(grown.nodes), at, leaves.n_columns, leaves.feature, slopes, moments.mean,
            moments.low, moments.high, columns.scale, columns.deviation,
            rules.margin if rules.extrapolation == "clip" else math.nan, scale,
        )  # fmt: skip
        limited = self._may_limit_values()
        values = self._leaf_values(sums, base) * scale
        tree = Tree(grown.nodes, values, grown.categories, **terms)
        limits = self._value_limits(tree, scale) if limited else None
        return tree if limits is None else replace(tree, value_range=limits[:, :, None])

    def replay(self, tree: Tree, leaf: np.ndarray, statistics: Statistics, scale: float) -> Tree:
        """Fit the lines of the leaves, with their features, to other rows; see `LeafModel`."""
        if not self._fits_all:
            raise ValueError("lines that are composed along their paths cannot be fitted again")
        no_rows, none = np.zeros(0, dtype=np.uint32), np.zeros(0)
        sums = leaf_sums(tree, leaf, statistics)
        self._grown = Grown(tree.nodes, sums, no_rows, no_rows, no_rows, none, none, {})
        self._grown.categories = tree.categories
        self.leaves = replayed_rows(tree, leaf)
        grad, hess = statistics.gradients()
        return _kept_lines(tree, self.refit(grad, hess, sums, scale), leaf)

    def add_replayed(self, tree: Tree, leaf: np.ndarray, raw: np.ndarray) -> None:
        """Add a replayed tree to the scores of its rows."""
        if len(tree.coef_feature) == 0 and tree.value_range is None:
            super().add_replayed(tree, leaf, raw)
        else:
            self._add(tree, raw)

    def _above(self, moments: LeafMoments, parents: np.ndarray) -> np.ndarray:
        """Return the outputs of the parents' functions at the means of the leaves."""
        models, leaves, columns = self._models, self.leaves, self.columns
        width = leaves.feature.shape[1]
        feature = np.maximum(leaves.feature, 0)
        mean = (moments.mean - columns.mean[feature]) / columns.scale[feature]
        above = models["coef"][parents, :width] * (mean - models["center"][parents, :width])
        base = models["offset"][parents] + above.sum(axis=1)
        base = models["value"][parents] + models["scale"][parents] * base
        return np.where(parents >= 0, base, 0.0)

    def _leaf_values(self, sums: np.ndarray, base: np.ndarray | None) -> np.ndarray:
        """Return intercepts, for leaves on top of `base`, within the bounds."""
        values = newton_values(sums, self.params, None)
        if base is not None:
            values[self.leaves.leaves] += base
        if self.params.monotonic is not None:
            values = np.clip(values, self._grown.lower, self._grown.upper)
        return values

    def _may_limit_values(self) -> bool:
        """Whether constraints or `extrapolation` may limit the outputs of nodes."""
        params, bounded = self.params, self.rules.extrapolation == "bounded"
        stepped = params.max_delta_step > 0 or self.longest_step < np.inf
        return bounded or stepped or params.monotonic is not None

    def _value_limits(self, tree: Tree, scale: float) -> np.ndarray | None:
        """Lowest and highest output of each node, from constraints and `extrapolation`."""
        step, longest = self.params.max_delta_step * scale, self.longest_step * scale
        monotonic, bounded = self.params.monotonic, self.rules.extrapolation == "bounded"
        far = None
        if longest < np.inf:
            pointers = cast(np.ndarray, tree.coef_ptr)
            terms = tree.coef_center, tree.coef_low, tree.coef_high
            far = line_reach(tree.values, pointers, tree.coef, *terms) > longest
        limits = np.empty((len(tree.nodes), 2))
        limits[:, 0], limits[:, 1] = -np.inf, np.inf
        if monotonic is not None:
            limits[:, 0] = self._grown.lower * scale
            limits[:, 1] = self._grown.upper * scale
        if step > 0:
            limits = np.clip(limits, -step, step)
        if far is not None:
            limits[far] = np.clip(limits[far], -longest, longest)
        if bounded:
            self._bound(tree, limits)
        return None if np.isinf(limits).all() else limits

    def _bound(self, tree: Tree, limits: np.ndarray) -> None:
        """Limit the outputs of leaves to those of their rows."""
        output = np.zeros(len(self.columns.values))
        self._add(tree, output)
        leaves = self.leaves
        for leaf, start, stop in zip(leaves.leaves, leaves.start, leaves.stop, strict=True):
            rows = leaves.rows[start:stop]
            if self._weighs is not None:
                rows = rows[self._weighs[rows]]
            if len(rows):
                own = np.clip(output[rows], *limits[leaf])
                limits[leaf] = own.min(), own.max()

    def add_to(
        self, grower: Grower, tree: Tree, raw: np.ndarray, values: np.ndarray | None
    ) -> None:
        """Add the last tree to the scores of all rows; see `Grower.add_to`."""
        if len(tree.coef_feature) == 0 and tree.value_range is None:
            super().add_to(grower, tree, raw, values)
        else:
            self._add(tree, raw)

    def _add(self, tree: Tree, raw: np.ndarray) -> None:
        table, leaves = self.columns.values, self.leaves
        if len(leaves.rows) == len(table):
            parts = leaves.rows, leaves.start, leaves.stop, leaves.leaves
            add_lines(table, *parts, tree, raw, self.n_threads)
        else:  # the leaves of rows outside the sample are not known
            add_grown([tree], table, raw[:, None], self.n_threads)


# Attributes of a tree with a number for each term of its lines.
_TERMS = ("coef_feature", "coef", "coef_center", "coef_low", "coef_high")


def replayed_rows(tree: Tree, leaf: np.ndarray) -> LeafRows:
    """Leaves that have rows, with the features of their lines, and rows by the leaf of each."""
    order = np.argsort(leaf, kind="stable")
    ordered = leaf[order]
    leaves = np.unique(ordered).astype(np.intp)
    counts = np.diff(cast(np.ndarray, tree.coef_ptr))
    count = counts[leaves]
    width = max(1, int(count.max()))
    feature = np.full((len(leaves), width), -1, dtype=np.int32)
    has_rows = np.isin(np.arange(tree.n_nodes), leaves)
    feature[np.arange(width) < count[:, None]] = tree.coef_feature[np.repeat(has_rows, counts)]
    return LeafRows(
        leaves,
        order.astype(np.uint32),
        np.searchsorted(ordered, leaves, side="left").astype(np.int64),
        np.searchsorted(ordered, leaves, side="right").astype(np.int64),
        count.astype(np.int32),
        feature,
    )


def _kept_lines(old: Tree, new: Tree, leaf: np.ndarray) -> Tree:
    """Return a replayed tree in which the leaves without rows are as they were."""
    values = kept_elsewhere(old, leaf, new.values[:, 0])
    bare = np.bincount(leaf, minlength=old.n_nodes) == 0
    bare &= old.nodes["left"] < 0
    if not bare.any():
        return replace(new, values=values)
    counts = [np.diff(cast(np.ndarray, tree.coef_ptr)) for tree in (new, old)]
    nodes = [np.repeat(np.arange(old.n_nodes), count) for count in counts]
    kept = [~bare[nodes[0]], bare[nodes[1]]]
    node = np.concatenate([own[part] for own, part in zip(nodes, kept, strict=True)])
    order = np.argsort(node, kind="stable")

    def joined(name: str) -> np.ndarray:
        parts = (getattr(tree, name)[part] for tree, part in zip((new, old), kept, strict=True))
        return np.asarray(np.concatenate(list(parts))[order])

    limits = new.value_range
    if limits is not None or old.value_range is not None:
        infinite = np.broadcast_to(np.array([[-np.inf], [np.inf]]), (old.n_nodes, 2, 1))
        own, before = (infinite if t.value_range is None else t.value_range for t in (new, old))
        limits = np.where(bare[:, None, None], before, own)
    return replace(
        new,
        values=values,
        coef_ptr=np.append(0, np.cumsum(np.bincount(node, minlength=old.n_nodes))),
        value_range=limits,
        **{name: joined(name) for name in _TERMS},
    )


def sum_leaves(
    columns: RegressorColumns,
    leaves: LeafRows,
    grad: np.ndarray,
    hess: np.ndarray | float,
    sums: np.ndarray,
    n_threads: int,
) -> LeafMoments:
    """Moments of the regressors of all leaves; `sums` are those of grad and hess, by leaf."""
    mean, factor = column_units(leaves.feature, columns.mean, columns.scale)
    terms = (leaves.feature, mean, factor, grad, hess, n_threads)
    by_column, squares = leaf_moments(
        columns.values, leaves.rows, leaves.start, leaves.stop, leaves.n_columns, *terms
    )  # fmt: skip
    if by_column[:, :, 5].any():
        # Missing values are replaced by the mean of their leaf, which is known now.
        lacking = np.flatnonzero(by_column[:, :, 5].any(axis=1))
        known, total = by_column[lacking, :, 0], by_column[lacking, :, 1]
        shift = np.divide(total, known, out=np.zeros_like(total), where=known > 0)
        mean[lacking] += shift * columns.scale[np.maximum(leaves.feature[lacking], 0)]
        by_column[lacking], squares[lacking] = leaf_moments(
            columns.values, leaves.rows, leaves.start[lacking], leaves.stop[lacking],
            leaves.n_columns[lacking],
            np.ascontiguousarray(leaves.feature[lacking]),
            mean[lacking], np.ascontiguousarray(factor[lacking]), grad, hess, n_threads,
        )  # fmt: skip
    return LeafMoments(*centre_moments(
        by_column, squares, leaves.n_columns, leaves.feature, np.ascontiguousarray(sums), mean,
        columns.scale, CONSTANT,
    ))  # fmt: skip


def _free_means(moments: LeafMoments) -> np.ndarray:
    """Means of the columns in units of the table, 0 for constant columns."""
    return np.where(np.einsum("ijj->ij", moments.matrix) > 0, moments.mean, 0.0)


def with_output_at_zero(moments: LeafMoments, sums: np.ndarray, rules: LeafRules) -> LeafMoments:
    """Moments that include the raw penalty of the output at zero, see `_piecewise_scan`."""
    if not rules.raw_penalty:
        return moments
    mean = _free_means(moments)
    total = sums[:, 1] + rules.reg_lambda
    pull = np.divide(rules.reg_lambda, total, out=np.zeros(len(sums)), where=total > 0)
    factor = (pull * sums[:, 1])[:, None, None]
    return replace(
        moments,
        matrix=moments.matrix + factor * mean[:, :, None] * mean[:, None, :],
        grad=moments.grad + (pull * sums[:, 0])[:, None] * mean,
    )


def gradient_shift(moments: LeafMoments, coef: np.ndarray, rules: LeafRules) -> np.ndarray:
    """Return the terms of a raw penalty in the sums of gradients of leaf values."""
    return -rules.reg_lambda * (_free_means(moments) * coef).sum(axis=1)


def solve_leaves(
    moments: LeafMoments, leaves: LeafRows, rules: LeafRules, sums: np.ndarray
) -> np.ndarray:
    """Coefficients of all regressors of the leaves, (n_leaves, width); `sums` of grad and hess."""
    moments = with_output_at_zero(moments, sums, rules)
    signs = None
    if rules.monotonic is not None:
        signs = np.ascontiguousarray(rules.monotonic[np.maximum(leaves.feature, 0)])
    return minimise_many(
        moments.matrix, -moments.grad, leaves.n_columns, rules.reg_alpha, signs, rules.reg_lambda
    )[0]


def solve_composed(
    moments: LeafMoments, leaves: LeafRows, rules: LeafRules, sums: np.ndarray,
    models: dict[str, np.ndarray], parents: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Coefficients if only a factor for the inherited part and the last feature are free.

    `models` are those of `PiecewiseSearch.node_models`; with "additive", `sums` are those at the
    inherited function. Returns the inherited coefficients, and those that are added to them.
    """
    n, width = leaves.feature.shape
    above = np.where(parents[:, None] >= 0, models["coef"][parents, :width], 0.0)
    joined = models["joined"][leaves.leaves]
    basis = np.zeros((n, width, 2))
    basis[:, :, 0] = above
    # A feature that is the whole inherited part must not appear twice.
    alone = (models["n_regressors"][parents] == 1) & (joined == 0)
    new = np.flatnonzero((joined >= 0) & ~(alone & (rules.fit == "half_additive")))
    basis[new, joined[new], 1] = 1.0
    fixed = np.zeros((n, width))
    if rules.fit == "additive":
        fixed = above * models["scale"][parents, None]
        basis[:, :, 0] = 0.0
    moved = moments.grad + np.einsum("ijk,ik->ij", moments.matrix, fixed)
    moments = with_output_at_zero(replace(moments, grad=moved), sums, rules)
    ridge = np.full((n, 2), rules.reg_lambda)
    if rules.raw_penalty:
        # In units in which a factor of 1 leaves the parent's part unchanged.
        scale = np.where(parents >= 0, models["scale"][parents], 0.0)
        ridge[:, 0] /= np.where(scale > 0, scale, 1.0) ** 2
    matrix = np.einsum("ija,ijk,ikb->iab", basis, moments.matrix, basis)
    free = np.einsum("ijj->ij", matrix) > 0
    matrix[:, [0, 1], [0, 1]] += np.where(free, ridge, 0.0)
    signs = None
    if rules.monotonic is not None:
        signs = np.zeros((n, 2), dtype=np.int8)
        signs[:, 0] = 1
        last = leaves.feature[new, joined[new]]
        signs[new, 1] = rules.monotonic[last]
    right = -np.einsum("ija,ij->ia", basis, moments.grad)
    sizes = np.full(n, 2, dtype=np.int32)
    factors, _ = minimise_many(matrix, right, sizes, rules.reg_alpha, signs)
    return fixed, np.einsum("ija,ia->ij", basis, factors)
