"""Rounds of boosting with linear leaves, and leaves re-estimated for robust losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean, exact_sum
from hybridtrees.core.grow.grower import Statistics
from hybridtrees.core.grow.linear_leaves import LeafRows, LinearLeaves
from hybridtrees.core.tree.tree import Tree
from hybridtrees.models.shared.boosting_steps import NewtonSteps, estimate

# Reweighted steps per tree. The next trees make up for what is left.
_ROUNDS = 6
# Least distance from a row to the line, as a share of the leaf's mean distance.
_NEAREST = 1e-3


class ReweightedSteps(NewtonSteps):
    """Steps for absolute and quantile errors, which have no curvature to step by.

    The lines of the leaves are found by iteratively reweighted least squares: a row at distance d
    counts with the weight ``level / d`` above the line and ``(1 - level) / d`` below it. What the
    loss makes of the residuals around the slopes then is the intercept. A leaf whose line does no
    better than a number keeps the number.
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
        """Lines of the leaves, for the loss itself."""
        grower, rate = self.grower, self.learning_rate
        model = grower.leaf_model
        assert isinstance(model, LinearLeaves)
        leaves = model.leaves
        flat = replace(
            grown, coef_ptr=None, coef_feature=(), coef=(), coef_center=(), coef_low=(),
            coef_high=(), value_range=None,
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
        """Return nodes and the values that the loss gives them at `raw`."""
        kept, self.raw = self.raw, raw
        try:
            return estimate(self, tree, self.grower.segments(), output, None, self.monotonic)
        finally:
            self.raw = kept

    def _sides(self, output: int) -> tuple[float, float]:
        """Slopes of the loss above and below the line."""
        level = self.loss._shape(output)[0]
        return level, 1 - level

    def _row_weights(self, distance: np.ndarray, leaves: LeafRows, output: int) -> np.ndarray:
        """Return weights of mean 1 in every leaf, so that penalties keep their size."""
        above, below = self._sides(output)
        size = np.abs(distance)
        own = np.ones(len(distance)) if self.weight is None else self.weight
        weight = np.zeros(len(distance))
        for start, stop in zip(leaves.start, leaves.stop, strict=True):
            of = leaves.rows[start:stop]
            least = _NEAREST * exact_mean(size[of]) + 1e-300
            side = np.where(distance[of] > 0, above, below)
            part = own[of] * side / np.maximum(size[of], least)
            mean = exact_mean(part)
            weight[of] = part / mean if mean > 0 and np.isfinite(mean) else own[of]
        return weight

    def _keep_better(
        self, tree: Tree, flat: Tree, leaves: LeafRows, residual: np.ndarray, output: int
    ) -> Tree:
        """Take the slopes from leaves that are better off without them."""
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
        for node in worse:
            coef[tree.coef_ptr[node] : tree.coef_ptr[node + 1]] = 0.0
        return replace(tree, coef=coef)


def _leaf_sums(grad: np.ndarray, hess: np.ndarray, leaves: LeafRows, tree: Tree) -> np.ndarray:
    """Add up the rows of every leaf, in an array over all nodes."""
    sums = np.zeros((tree.n_nodes, 2))
    for node, start, stop in zip(leaves.leaves, leaves.start, leaves.stop, strict=True):
        of = leaves.rows[start:stop]
        sums[node] = exact_sum(grad[of]), exact_sum(hess[of])
    return sums
