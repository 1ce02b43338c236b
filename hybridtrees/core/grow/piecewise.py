"""Growing trees whose leaves are linear models, split by the gain of these models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow._leaf_passes import add_lines
from hybridtrees.core.grow.grower import Grower, GrowerParams, newton_values, records_tail
from hybridtrees.core.grow.leaf_fit import (
    LeafMoments,
    LeafRows,
    LeafRules,
    gradient_shift,
    solve_composed,
    solve_leaves,
    sum_leaves,
)
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.core.search._moment_search import MomentSearch
from hybridtrees.core.tree.tree import Tree, TreeEnsemble


class MomentGrower(Grower):
    """Grows trees with linear leaves on one table; to be used as a context manager.

    Parameters
    ----------
    binned : BinnedMatrix
    params : GrowerParams
    rules : LeafRules
    columns : RegressorColumns
        Of the same table.
    n_threads : int
    category_to_bin : sequence, optional
        As for `Grower`.

    Attributes
    ----------
    longest_step : float
        Largest output of a leaf before the factor, whatever its rows say. Where hessians nearly
        vanish a line through a few rows may be steep, and others of its leaf far away.
    """

    def __init__(
        self,
        binned: BinnedMatrix,
        params: GrowerParams,
        rules: LeafRules,
        columns: RegressorColumns,
        n_threads: int,
        category_to_bin: Sequence[np.ndarray | None] | None = None,
    ):
        super().__init__(binned, params, n_threads, category_to_bin)
        self.rules = rules
        self.columns = columns.in_raw_units() if rules.raw_penalty else columns
        self.longest_step = np.inf

    def __enter__(self) -> MomentGrower:
        self._tail = records_tail(self.binned)
        use_tail = self._tail.__enter__()
        rules = self.rules
        self._search = MomentSearch(
            self.binned, self.params, use_tail, self.n_threads, rules.fit, rules.max_regressors,
            self.columns.bin_values, rules.sample_rows,
            self.columns.mean if rules.raw_penalty else None,
        )  # fmt: skip
        self._grower = TreeGrower(self._search, self.params.max_leaves)
        return self

    def grow(
        self,
        grad: np.ndarray,
        hess: np.ndarray | float,
        *,
        rows: np.ndarray | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ) -> Tree:
        """Grow one tree and fit its leaves; see `Grower.grow`."""
        self._search.begin(grad, hess, rows, seed)
        nodes, sums, splits, category_bins = self._grower.grow()
        bare = self._make_tree(nodes, newton_values(sums, self.params, splits), category_bins)
        self._bare, self._sums, self._splits = bare, sums, splits
        self._models = self._search.node_models()
        self._leaves = self._leaf_rows(bare)
        return self.fit_leaves(grad, hess, sums, scale=scale)

    def _leaf_rows(self, tree: Tree) -> LeafRows:
        rows, start, stop = self.segments()
        leaves = np.flatnonzero(tree.nodes["left"] < 0)
        n_columns = self._models["n_regressors"][leaves]
        width = max(1, int(n_columns.max()))
        feature = np.ascontiguousarray(self._models["feature"][leaves, :width])
        return LeafRows(
            leaves, rows, start[leaves].astype(np.int64), stop[leaves].astype(np.int64),
            np.ascontiguousarray(n_columns), feature,
        )  # fmt: skip

    @property
    def leaves(self) -> LeafRows:
        """Leaves of the tree grown last, with their rows."""
        return self._leaves

    def fit_leaves(
        self,
        grad: np.ndarray,
        hess: np.ndarray | float,
        sums: np.ndarray,
        *,
        scale: float = 1.0,
    ) -> Tree:
        """Return the tree grown last, its leaves fitted to some gradients and hessians.

        Parameters
        ----------
        grad, hess
            As in `grow`.
        sums : float64 array of shape (n_nodes, 2)
            Sums of both over the rows of each node.
        scale : float
            Factor on the leaves.

        Returns
        -------
        tree : Tree
        """
        bare, leaves, rules = self._bare, self._leaves, self.rules
        if not leaves.n_columns.any():
            return replace(bare, values=newton_values(sums, self.params, self._splits) * scale)
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
        models, leaves, columns = self._models, self._leaves, self.columns
        width = leaves.feature.shape[1]
        feature = np.maximum(leaves.feature, 0)
        mean = (moments.mean - columns.mean[feature]) / columns.scale[feature]
        above = models["coef"][parents, :width] * (mean - models["center"][parents, :width])
        base = models["offset"][parents] + above.sum(axis=1)
        base = models["value"][parents] + models["scale"][parents] * base
        return np.where(parents >= 0, base, 0.0)

    def _leaf_values(self, sums: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Return intercepts: those of the leaves are added to `base`, within the bounds."""
        values = newton_values(sums, replace(self.params, monotonic=None), self._splits)
        values[self._leaves.leaves] += base
        if self.params.monotonic is not None:
            values = np.clip(values, self._splits["lower"], self._splits["upper"])
        return values

    def _linear_tree(
        self, values: np.ndarray, moments: LeafMoments, coef: np.ndarray, scale: float
    ) -> Tree:
        bare, leaves, rules, columns = self._bare, self._leaves, self.rules, self.columns
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
            limits[:, 0] = self._splits["lower"] * scale
            limits[:, 1] = self._splits["upper"] * scale
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
        self.update_raw(tree, output)
        leaves = self._leaves
        for leaf, start, stop in zip(leaves.leaves, leaves.start, leaves.stop, strict=True):
            rows = leaves.rows[start:stop]
            if self._weighs is not None:
                rows = rows[self._weighs[rows]]
            if len(rows):
                own = np.clip(output[rows], *limits[leaf])
                limits[leaf] = own.min(), own.max()

    def update_raw(self, tree: Tree, raw: np.ndarray) -> None:
        """Add the tree that was grown last to `raw`, one number per row of the table."""
        values, leaves = self.columns.values, self._leaves
        if len(tree.coef_feature) == 0 and tree.value_range is None:
            super().update_raw(tree, raw)
        elif len(leaves.rows) == len(values):
            parts = leaves.rows, leaves.start, leaves.stop, leaves.leaves
            add_lines(values, *parts, tree, raw, self.n_threads)
        else:  # some rows were not drawn, and are in no leaf yet
            TreeEnsemble([tree], values.shape[1]).add_raw(values, raw[:, None], self.n_threads)


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
