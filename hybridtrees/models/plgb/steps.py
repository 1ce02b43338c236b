"""Boosting steps that re-estimate linear leaves for robust losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hybridtrees.core.base._types import TINY
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum
from hybridtrees.core.grow.grower import Statistics
from hybridtrees.core.grow.linear_leaves import LeafRows, LinearLeaves
from hybridtrees.core.tree.tree import Tree
from hybridtrees.models.shared.boosting_steps import NewtonSteps, estimate

# Reweighted fits per tree. They need not converge: the next trees correct what is left.
_ROUNDS = 6
# Minimum distance of a row from the line in the weights, as a share of the leaf's mean distance.
_NEAREST = 1e-3


class ReweightedSteps(NewtonSteps):
    """Steps for absolute and quantile errors, which have no curvature for Newton steps.

    The slopes of the leaves are found by iteratively reweighted least squares: a row at distance d
    has the weight ``level / d`` above the line and ``(1 - level) / d`` below it. The intercept then
    minimises the loss of the residuals from these slopes. A leaf whose line is no better than a
    constant gets the constant.
    """

    def take(self, rows: np.ndarray | None, seeds: np.ndarray) -> list[Tree]:
        """Grow one tree per output on the rows, and add them to `raw` of all rows."""
        loss, hess = self.loss, self._hess
        loss.statistics(self.y, self.raw, self.weight, self._grad, hess, self.n_threads)
        trees = []
        for k in range(self.n_outputs):
            statistics = Statistics(self._grad[k], 1.0 if hess is None else hess[k])
            grown = self.grower.grow(statistics, rows, int(seeds[k]))
            tree = self._estimate(grown.tree, k)
            self.grower.add_to(tree, self.raw[:, k])
            trees.append(tree)
        return trees

    def _estimate(self, grown: Tree, output: int) -> Tree:
        """Return the tree with leaves that minimise the loss itself."""
        grower, rate = self.grower, self.learning_rate
        model = grower.leaf_model
        assert isinstance(model, LinearLeaves)
        leaves = model.leaves
        none = np.empty(0)
        flat = replace(
            grown, coef_ptr=None, coef_feature=none, coef=none, coef_center=none, coef_low=none,
            coef_high=none, value_range=None,
        )  # fmt: skip
        nodes, values = self._intercepts(flat, output, self.raw)
        flat.values[nodes, 0] = values
        if not leaves.n_columns.any():
            return replace(flat, values=flat.values * rate)
        target = self.y if self.y.ndim == 1 else self.y[:, output]
        residual = target - self.raw[:, output]
        tree, line = flat, np.zeros(len(residual))
        grower.add_to(flat, line)
        for _ in range(_ROUNDS):
            weight = self._row_weights(residual - line, leaves, output)
            sums = _leaf_sums(-weight * residual, weight, leaves, flat)
            tree = model.refit(
                (-weight * residual).astype(np.float32), weight.astype(np.float32), sums
            )
            line = np.zeros(len(residual))
            grower.add_to(tree, line)
        slopes = replace(tree, values=np.zeros_like(tree.values), value_range=None)
        moved = self.raw.copy()
        grower.add_to(slopes, moved[:, output])
        nodes, values = self._intercepts(flat, output, moved)
        tree.values[nodes, 0] = values
        tree = self._keep_better(tree, flat, leaves, residual, output)
        limits = None if tree.value_range is None else tree.value_range * rate
        return replace(tree, values=tree.values * rate, coef=tree.coef * rate, value_range=limits)

    def _intercepts(
        self, tree: Tree, output: int, raw: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and the values that minimise the loss at the scores `raw`."""
        kept, self.raw = self.raw, raw
        try:
            return estimate(self, tree, self.grower.segments(), output, None, self.monotonic)
        finally:
            self.raw = kept

    def _sides(self, output: int) -> tuple[float, float]:
        """Return the slopes of the loss above and below the line."""
        level = self.loss._shape(output)[0]
        return level, 1 - level

    def _row_weights(self, distance: np.ndarray, leaves: LeafRows, output: int) -> np.ndarray:
        """Return weights with a mean of 1 in every leaf, so that penalties keep their strength."""
        above, below = self._sides(output)
        size = np.abs(distance)
        own = np.ones(len(distance)) if self.weight is None else self.weight
        weight = np.zeros(len(distance))
        for start, stop in zip(leaves.start, leaves.stop, strict=True):
            of = leaves.rows[start:stop]
            smallest = _NEAREST * exact_mean(size[of]) + TINY
            side = np.where(distance[of] > 0, above, below)
            part = own[of] * side / np.maximum(size[of], smallest)
            mean = exact_mean(part)
            weight[of] = part / mean if mean > 0 and np.isfinite(mean) else own[of]
        return weight

    def _keep_better(
        self, tree: Tree, flat: Tree, leaves: LeafRows, residual: np.ndarray, output: int
    ) -> Tree:
        """Replace lines by constants in leaves where these have no larger loss."""
        above, below = self._sides(output)
        own = np.ones(len(residual)) if self.weight is None else self.weight
        losses = []
        for each in (tree, flat):
            line = np.zeros(len(residual))
            self.grower.add_to(each, line)
            rest = residual - line
            rest = own * np.where(rest > 0, above * rest, -below * rest)
            losses.append([exact_sum(rest[leaves.rows[a:b]]) for a, b in
                           zip(leaves.start, leaves.stop, strict=True)])  # fmt: skip
        worse = leaves.leaves[~(np.array(losses[0]) < np.array(losses[1]))]
        tree.values[worse] = flat.values[worse]
        coef = tree.coef.copy()
        assert tree.coef_ptr is not None
        for node in worse:
            coef[tree.coef_ptr[node] : tree.coef_ptr[node + 1]] = 0.0
        return replace(tree, coef=coef)


def _leaf_sums(grad: np.ndarray, hess: np.ndarray, leaves: LeafRows, tree: Tree) -> np.ndarray:
    """Return the sums over the rows of every leaf, in an array over all nodes."""
    sums = np.zeros((tree.n_nodes, 2))
    for node, start, stop in zip(leaves.leaves, leaves.start, leaves.stop, strict=True):
        of = leaves.rows[start:stop]
        sums[node] = exact_sum(grad[of]), exact_sum(hess[of])
    return sums
