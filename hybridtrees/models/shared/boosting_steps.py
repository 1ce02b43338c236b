"""One round of boosting: Newton steps as in XGBoost, or Friedman's regression trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hybridtrees.core.base._types import TargetLayout
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.core.grow.cart import square_values
from hybridtrees.core.grow.grower import Grower, RowTarget, Statistics
from hybridtrees.core.tree.pruning import collapse_alphas, prune_nodes
from hybridtrees.core.tree.tree import Tree
from hybridtrees.losses import Loss
from hybridtrees.models.shared.constraints import bounded_values
from hybridtrees.models.shared.row_draws import draw_by_gradient

Segments = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(eq=False)
class BoostingSteps:
    """State of a training, which `take` advances by one round."""

    grower: Grower  # opened on the training table
    loss: Loss
    y: np.ndarray
    weight: np.ndarray | None
    raw: np.ndarray  # scores of the training rows, updated in place
    learning_rate: float
    n_threads: int
    monotonic: np.ndarray | None = None  # for leaf values that the loss re-estimates

    def __post_init__(self) -> None:
        self.n_outputs = self.loss.n_outputs
        self.outputs = list(range(self.n_outputs))  # of the trees of a round

    def take(self, rows: np.ndarray | None, seeds: np.ndarray) -> list[Tree]:
        """Grow a tree for each of `outputs` on the rows, and add them to `raw` of all rows."""
        raise NotImplementedError


@dataclass(eq=False)
class NewtonSteps(BoostingSteps):
    """Trees on gradients and hessians (Chen and Guestrin 2016)."""

    gradient_share: float = 1.0  # share of the rows drawn by their gradients, in place of `rows`
    n_parallel: int = 1  # trees of an output in a round, whose mean is the step
    draw: Callable[[int, int], np.ndarray | None] | None = (
        None  # rows of each, if there are several
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.outputs = np.repeat(self.outputs, self.n_parallel).tolist()
        shape = (self.n_outputs, len(self.y))
        self._grad = np.empty(shape, dtype=np.float32)
        constant = self.loss.constant_hessian and self.weight is None and self.gradient_share >= 1
        self._hess = None if constant else np.empty(shape, dtype=np.float32)

    def take(self, rows: np.ndarray | None, seeds: np.ndarray) -> list[Tree]:
        """Grow a tree for each of `outputs` on the rows, and add them to `raw` of all rows."""
        loss, hess = self.loss, self._hess
        loss.statistics(self.y, self.raw, self.weight, self._grad, hess, self.n_threads)
        if self.gradient_share < 1:
            # One sample for the trees of all outputs.
            rows = draw_by_gradient(
                int(seeds[0]), self._grad, hess, self.gradient_share, self.n_threads
            )
        trees, scale = [], self.learning_rate / self.n_parallel
        for seed, k in zip(seeds.tolist(), self.outputs, strict=True):
            statistics = Statistics(self._grad[k], 1.0 if hess is None else hess[k])
            if self.n_parallel > 1 and self.draw is not None:
                rows = self.draw(seed, len(self.raw))
            tree = self.grower.grow(statistics, rows, seed, scale=scale).tree
            self.grower.add_to(tree, self.raw[:, k])
            trees.append(tree)
        return trees


@dataclass(eq=False)
class FriedmanSteps(BoostingSteps):
    """Regression trees on pseudo-residuals, leaves re-estimated by the loss (Friedman 2001)."""

    ccp_alpha: float = 0.0  # trees are pruned before their leaves are re-estimated
    center: bool = False  # whether the mean of the residuals may be far from 0

    def __post_init__(self) -> None:
        super().__post_init__()
        y, weight = self.y, self.weight
        shape = (self.n_outputs, len(y))
        single = self.grower.table.binned is not None  # histograms take float32 gradients
        self._target = np.empty(shape, dtype=np.float32 if single else np.float64)
        self._weight32 = None
        if single and weight is not None:
            self._weight32 = np.empty(shape, dtype=np.float32)
        self._residual = np.empty(len(y)) if single else None
        self._hess = 1.0 if weight is None else weight.astype(np.float32)
        self._pairs = None
        if not single and weight is not None:
            self._pairs = np.empty((len(y), 2))
            self._pairs[:, 1] = weight
        self._leaves_of_residuals = self.loss.leaves_of_residuals(y)

    def take(self, rows: np.ndarray | None, seeds: np.ndarray) -> list[Tree]:
        """Grow one tree per output on the rows, and add them to `raw` of all rows."""
        loss, target = self.loss, self._target
        if self._residual is None:
            loss.residuals(self.y, self.raw, self.weight, target, self.n_threads)
        else:
            loss.first_order(self.y, self.raw, self.weight, target, self._weight32, self.n_threads)
        return [self._grow(k, rows, int(seeds[k])) for k in range(self.n_outputs)]

    def _residual_of(self, output: int) -> np.ndarray:
        """Return the pseudo-residuals of an output in float64."""
        target: np.ndarray = self._target[output]
        if self._residual is None:
            return target
        if self._weight32 is None:
            return np.asarray(np.negative(target, out=self._residual))
        np.divide(target, self._weight32[output], out=self._residual, dtype=np.float64)
        return np.negative(self._residual, out=self._residual)

    def _statistics(self, output: int) -> Statistics:
        """Return what the tree of an output is grown on."""
        target = self._target[output]
        if self._residual is not None:
            return Statistics(target, self._hess)
        mean = 0.0
        if self.center:
            mean = exact_mean(target, self.weight)
            target = target - mean
        if self._pairs is None:
            return Statistics(
                target=RowTarget(target[:, None], TargetLayout.TARGET_UNWEIGHTED, 1), center=mean
            )
        assert self.weight is not None
        np.multiply(target, self.weight, out=self._pairs[:, 0])
        return Statistics(target=RowTarget(self._pairs, TargetLayout.TARGET_PAIR, 1), center=mean)

    def _grow(self, output: int, rows: np.ndarray | None, seed: int) -> Tree:
        tree = self.grower.grow(self._statistics(output), rows, seed).tree
        new_node = None
        if self.ccp_alpha > 0:
            tree, new_node = self._prune(tree, self._residual_of(output))
        if not self.loss.leaf_is_mean:
            self._estimate_leaves(tree, output, new_node)
        elif self.monotonic is not None:
            tree.values[:, 0] = bounded_values(tree, tree.values[:, 0], self.monotonic)
        tree.values *= self.learning_rate
        values = None if new_node is None else tree.values[new_node, 0]
        self.grower.add_to(tree, self.raw[:, output], values)
        return tree

    def _estimate_leaves(self, tree: Tree, output: int, new_node: np.ndarray | None) -> None:
        """Set the leaves to the values that minimise the loss."""
        segments = self.grower.segments()
        if new_node is not None:
            # The first of the nodes that pruning merged is their common ancestor, with all rows.
            first = np.unique(new_node, return_index=True)[1]
            segments = segments[0], segments[1][first], segments[2][first]
        residual = self._residual_of(output) if self._leaves_of_residuals else None
        nodes, values = estimate(self, tree, segments, output, residual, self.monotonic)
        tree.values[nodes, 0] = values

    def _prune(self, tree: Tree, residual: np.ndarray) -> tuple[Tree, np.ndarray]:
        weight = tree.nodes["weight"]
        sums = np.column_stack([tree.values[:, 0] * weight, weight])
        leaf = self.grower.row_nodes()
        impurity = square_values(tree.nodes, sums, residual[:, None], self.weight, leaf)[1]
        return prune_nodes(tree, collapse_alphas(tree, impurity) > self.ccp_alpha)


def estimate(
    steps: BoostingSteps,
    tree: Tree,
    segments: Segments,
    output: int,
    residual: np.ndarray | None,
    monotonic: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the leaves (all nodes under constraints) and the values that minimise the loss."""
    if monotonic is None:
        nodes, groups, start = leaf_groups(tree, segments)
    else:
        nodes, groups, start = node_groups(segments)
    values = steps.loss.leaf_values(
        steps.y, steps.raw, residual, steps.weight, groups, start, output=output,
        n_threads=steps.n_threads,
    )  # fmt: skip
    return nodes, values if monotonic is None else bounded_values(tree, values, monotonic)


def node_groups(segments: Segments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all nodes and their rows, as `leaf_groups` does for leaves."""
    rows, begin, end = segments
    groups = np.concatenate([rows[a:b] for a, b in zip(begin, end, strict=True)])
    start = np.concatenate([[0], np.cumsum(end - begin)]).astype(np.int64)
    return np.arange(len(begin)), groups, start


def leaf_groups(tree: Tree, segments: Segments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return leaves, rows and start: the rows of leaf j are ``rows[start[j]:start[j + 1]]``."""
    rows, begin, end = segments
    leaves = np.flatnonzero(tree.nodes["left"] < 0)
    leaves = leaves[np.argsort(begin[leaves], kind="stable")]
    start = np.append(begin[leaves], end[leaves[-1]]).astype(np.int64)
    return leaves, rows, start
