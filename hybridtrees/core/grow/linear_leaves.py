"""Linear models as leaves, for trees that are split by the gain of these models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hybridtrees.core.grow._leaf_passes import add_lines
from hybridtrees.core.grow.grower import Grower, LeafModel, newton_values
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.leaf_fit import (
    LeafMoments,
    LeafRows,
    LeafRules,
    gradient_shift,
    solve_composed,
    solve_leaves,
    sum_leaves,
)
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search._moment_search import MomentSearch
from hybridtrees.core.tree.tree import Tree, TreeEnsemble


def linear_leaf_grower(
    table: Table, params: GrowerParams, rules: LeafRules, columns: RegressorColumns, n_threads: int
) -> Grower:
    """Grow trees with linear leaves on a table in bins."""
    leaves = LinearLeaves(params, rules, columns, n_threads)
    return Grower(table, params, leaves, n_threads, search=leaves.open_search)


class LinearLeaves(LeafModel):
    """A line in every leaf.

    Parameters
    ----------
    params : GrowerParams
    rules : LeafRules
    columns : RegressorColumns
        Of the table that is split.
    n_threads : int

    Attributes
    ----------
    longest_step : float
        Largest output of a leaf before the factor, whatever its rows say. Where hessians nearly
        vanish a line through a few rows may be steep, and others of its leaf far away.
    leaves : LeafRows
        Leaves of the tree grown last, with their rows.
    """

    def __init__(
        self, params: GrowerParams, rules: LeafRules, columns: RegressorColumns, n_threads: int
    ):
        self.params = params
        self.rules = rules
        self.columns = columns.in_raw_units() if rules.raw_penalty else columns
        self.n_threads = n_threads
        self.longest_step = np.inf

    def open_search(
        self, table: Table, params: GrowerParams, n_threads: int, statistics: Any, use_tail: bool
    ) -> MomentSearch:
        """Open the search whose gains are those of lines."""
        rules = self.rules
        return MomentSearch(
            table.binned, params, use_tail, n_threads, rules.fit, rules.max_regressors,
            self.columns.bin_values, rules.sample_rows,
            self.columns.mean if rules.raw_penalty else None,
        )  # fmt: skip

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float) -> Tree:
        """Fit a line to the rows of every leaf; see `LeafModel.fit`."""
        self._grower, self._bounds = grower, grown
        values = newton_values(grown.sums, self.params, grown)
        self._bare = Tree(grown.nodes, values, grown.categories)
        self._models = grower.search.node_models()
        self.leaves = self._leaf_rows(self._bare)
        grad, hess = statistics.gradients()
        return self.refit(grad, hess, grown.sums, scale)

    def _leaf_rows(self, tree: Tree) -> LeafRows:
        rows, start, stop = self._grower.segments()
        leaves = np.flatnonzero(tree.nodes["left"] < 0)
        n_columns = self._models["n_regressors"][leaves]
        width = max(1, int(n_columns.max()))
        feature = np.ascontiguousarray(self._models["feature"][leaves, :width])
        return LeafRows(
            leaves, rows, start[leaves].astype(np.int64), stop[leaves].astype(np.int64),
            np.ascontiguousarray(n_columns), feature,
        )  # fmt: skip

    def refit(
        self, grad: np.ndarray, hess: np.ndarray | float, sums: np.ndarray, scale: float = 1.0
    ) -> Tree:
        """Fit the leaves of the tree grown last to some gradients and hessians.

        `sums` are those of both over the rows of each node.
        """
        bare, leaves, rules = self._bare, self.leaves, self.rules
        if not leaves.n_columns.any():
            return replace(bare, values=newton_values(sums, self.params, self._bounds) * scale)
        at, sums = leaves.leaves, sums.copy()
        moments = sum_leaves(self.columns, leaves, grad, hess, sums[at], self.n_threads)
        parents = bare.nodes["parent"][at]
        fixed, base = np.zeros_like(moments.grad), np.zeros(len(at))
        if rules.refit or rules.fit == "full":
            coef = solve_leaves(moments, leaves, rules, sums[at])
        else:
            if rules.fit == "additive":
                base = self._above(moments, parents)
                sums[at, 0] += sums[at, 1] * base
            fixed, coef = solve_composed(
                moments, leaves, rules, sums[at], self._models, parents
            )  # fmt: skip
        sums[at, 0] += gradient_shift(moments, coef, rules)
        values = self._leaf_values(sums, base)
        self._weighs = None if isinstance(hess, int | float) else hess > 0
        return self._linear_tree(values, moments, fixed + coef, scale)

    def _above(self, moments: LeafMoments, parents: np.ndarray) -> np.ndarray:
        """Return what the functions above say at the means of the leaves."""
        models, leaves, columns = self._models, self.leaves, self.columns
        width = leaves.feature.shape[1]
        feature = np.maximum(leaves.feature, 0)
        mean = (moments.mean - columns.mean[feature]) / columns.scale[feature]
        above = models["coef"][parents, :width] * (mean - models["center"][parents, :width])
        base = models["offset"][parents] + above.sum(axis=1)
        base = models["value"][parents] + models["scale"][parents] * base
        return np.where(parents >= 0, base, 0.0)

    def _leaf_values(self, sums: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Return intercepts: those of the leaves are added to `base`, within the bounds."""
        values = newton_values(sums, self.params, None)
        values[self.leaves.leaves] += base
        if self.params.monotonic is not None:
            values = np.clip(values, self._bounds.lower, self._bounds.upper)
        return values

    def _linear_tree(
        self, values: np.ndarray, moments: LeafMoments, coef: np.ndarray, scale: float
    ) -> Tree:
        bare, leaves, rules, columns = self._bare, self.leaves, self.rules, self.columns
        width = leaves.feature.shape[1]
        used = (np.arange(width) < leaves.n_columns[:, None]) & (coef != 0) & np.isfinite(coef)
        # A slope from above over a feature that all rows of the leaf lack has no range.
        used &= moments.low <= moments.high
        count = np.zeros(bare.n_nodes, dtype=np.int64)
        count[leaves.leaves] = used.sum(axis=1)
        feature = leaves.feature[used]
        low, high = (), ()
        if rules.extrapolation == "clip":
            margin = rules.margin * columns.deviation[feature]
            low = -_short(margin - moments.low[used], margin)
            high = _short(margin + moments.high[used], margin)
        tree = Tree(
            bare.nodes,
            values * scale,
            bare.categories,
            coef_ptr=np.append(0, np.cumsum(count)),
            coef_feature=feature,
            coef=coef[used] / columns.scale[feature] * scale,
            coef_center=moments.mean[used],
            coef_low=low,
            coef_high=high,
        )
        limits = self._value_limits(tree, scale)
        return tree if limits is None else replace(tree, value_range=limits[:, :, None])

    def _value_limits(self, tree: Tree, scale: float) -> np.ndarray | None:
        """Lowest and highest output of each node, from constraints and the policy."""
        limits = np.empty((tree.n_nodes, 2))
        limits[:, 0], limits[:, 1] = -np.inf, np.inf
        if self.params.monotonic is not None:
            limits[:, 0] = self._bounds.lower * scale
            limits[:, 1] = self._bounds.upper * scale
        step = self.params.max_delta_step * scale
        if step > 0:
            limits = np.clip(limits, -step, step)
        longest = self.longest_step * scale
        far = _reach(tree) > longest
        limits[far] = np.clip(limits[far], -longest, longest)
        if self.rules.extrapolation == "bounded":
            self._bound(tree, limits)
        return None if np.isinf(limits).all() else limits

    def _bound(self, tree: Tree, limits: np.ndarray) -> None:
        """Keep the outputs of leaves within those of their rows."""
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
        """Add the tree grown last to the scores of all rows; see `Grower.add_to`."""
        if len(tree.coef_feature) == 0 and tree.value_range is None:
            super().add_to(grower, tree, raw, values)
        else:
            self._add(tree, raw)

    def _add(self, tree: Tree, raw: np.ndarray) -> None:
        table, leaves = self.columns.values, self.leaves
        if len(leaves.rows) == len(table):
            parts = leaves.rows, leaves.start, leaves.stop, leaves.leaves
            add_lines(table, *parts, tree, raw, self.n_threads)
        else:  # some rows were not drawn, and are in no leaf yet
            TreeEnsemble([tree], table.shape[1]).add_raw(table, raw[:, None], self.n_threads)


def _short(bound: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """Move bounds up to numbers that float32 holds, where that is little beside the margin.

    Prediction clips a float32 table without a detour through float64 then.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = bound.astype(np.float32)
        above = np.where(near < bound, np.nextafter(near, np.float32(np.inf)), near)
        moved = above.astype(np.float64)
        return np.where(moved - bound <= margin / 65536, moved, bound)


def _reach(tree: Tree) -> np.ndarray:
    """Return how far from 0 the output of each node can be."""
    reach = np.abs(tree.values[:, 0])
    if len(tree.coef_feature):
        low, high = tree.coef_low - tree.coef_center, tree.coef_high - tree.coef_center
        terms = np.abs(tree.coef[:, 0]) * np.maximum(np.abs(low), np.abs(high))
        node = np.repeat(np.arange(tree.n_nodes), np.diff(tree.coef_ptr))
        reach = reach + np.bincount(node, weights=terms, minlength=tree.n_nodes)
    return reach
