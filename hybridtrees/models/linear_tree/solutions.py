"""Accurate models of nodes from sums of products, in place of those of the search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import CONSTANT_SCALED
from hybridtrees.core.grow.linear import LinearPenalty
from hybridtrees.core.search.lines._linear_tree_fit import LinearProblem
from hybridtrees.linear.solvers import solve_elastic_net, solve_ridge

Floats = NDArray[np.float64]

# A regressor with a smaller spread, relative to that in the whole table, counts as constant.
CONSTANT_SPREAD = CONSTANT_SCALED**0.5


@dataclass(frozen=True)
class NodePenalty:
    """L1 and L2 penalties of a node's model."""

    l1: float
    l2: float
    scale: Floats | None = None  # units of the regressors; None for their spread in the node
    by_sum: bool = False  # whether they are added to the sum of the losses, not the mean

    def parts(self, spread: Floats, total: float) -> tuple[Floats, Floats]:
        """Return L1 and L2 of each regressor for the mean loss, given the total weight."""
        unit = spread if self.scale is None else np.where(spread > 0, 1.0 / self.scale, 0.0)
        share = 1.0 / total if self.by_sum else 1.0
        return self.l1 * share * unit, self.l2 * share * unit**2


def exact_solutions(
    problem: LinearProblem, cells: Floats, penalty: LinearPenalty, theta: Floats, loss: Floats
) -> None:
    """Replace solutions, in `theta` and `loss`, that are only accurate enough to rank candidates.

    These are lasso and elastic net, which the search solves to a loose tolerance, and models with
    dependent regressors, of which the search drops the later ones; here they get the solution of
    minimum norm.
    """
    constant = ~theta[:, :, 1:].any(axis=(1, 2))
    if penalty.has_l1:
        todo = np.arange(len(theta))
    else:
        todo = np.flatnonzero((theta[:, 0, 1:] == 0).any(axis=1) & ~constant)
    for node in todo:
        products, weight = problem.products(cells[node : node + 1])
        gram, total = products[0], float(weight[0])
        theta[node], loss[node] = _solve(gram, total, problem.n_columns, penalty, theta[node])


def centred_products(gram: Floats, p: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Centre sums of products of the columns [1, regressors, targets].

    Return the products of regressors, of regressors and targets, and the squares of targets; then
    the means of regressors and of targets.
    """
    mean, level = gram[0, 1:p] / gram[0, 0], gram[0, p:] / gram[0, 0]
    inner = gram[1:p, 1:p] - gram[0, 0] * np.outer(mean, mean)
    cross = gram[1:p, p:] - gram[0, 0] * np.outer(mean, level)
    squares = np.diag(gram)[p:] - gram[0, 0] * level**2
    return inner, cross, np.maximum(squares, 0.0), mean, level


def _solve(
    gram: Floats, total: float, p: int, penalty: LinearPenalty, start: Floats
) -> tuple[Floats, float]:
    inner, cross, squares, mean, level = centred_products(gram, p)
    spread = np.sqrt(np.maximum(np.diag(inner), 0.0) / total)
    varies = spread > CONSTANT_SPREAD
    theta = np.zeros_like(start)
    theta[:, 0] = level
    if not varies.any():
        return theta, float(squares.sum())
    unit = spread[varies]
    corr = inner[np.ix_(varies, varies)] / np.outer(unit, unit) / total
    np.fill_diagonal(corr, 1.0)
    xy = cross[varies] / unit[:, None] / total
    l1, l2 = penalty_parts(penalty, unit, total, varies)
    if penalty.has_l1:
        k = xy.shape[1]
        solution = solve_elastic_net(
            corr,
            xy,
            np.repeat(l1[:, None], k, axis=1),
            np.repeat(l2[:, None], k, axis=1),
            yy=squares / total,
            start=(start[:, 1:][:, varies] * unit).T,
        )
    else:
        solution = solve_ridge(corr, xy, l2)
    theta[:, 1:][:, varies] = (solution.beta / unit[:, None]).T
    slope = theta[:, 1:]
    theta[:, 0] -= slope @ mean
    fitted = np.einsum("ki,ij,kj->k", slope, inner, slope)
    loss = squares - 2.0 * np.einsum("ki,ik->k", slope, cross) + fitted
    return theta, float(np.maximum(loss, 0.0).sum())


def penalty_parts(
    penalty: LinearPenalty, unit: Floats, total: float, kept: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return L1 and L2 for the mean loss and standardised regressors, of those that are kept."""

    def each(value: float | Floats) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), kept.shape)[kept]

    variation = total * unit**2
    l2 = (penalty.l2_relative + penalty.l2_relative_sum / total) * variation
    l2 = l2 + each(penalty.l2_per_weight) * total + each(penalty.l2_absolute)
    l1 = penalty.l1_relative * unit + each(penalty.l1_per_weight)
    l1 = l1 if penalty.l1_sum else l1 * total
    return l1 / unit / total, l2 / variation
