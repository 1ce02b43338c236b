"""Pruning of linear trees by an information criterion.

A split of a linear tree adds a whole regression, which lowers the loss on the rows it was fitted
to even where there is nothing to find. A branch is kept where it lowers

    -2 log-likelihood + price (number of coefficients)

of the rows of its node, with a price of 2 (Akaike 1974) or of the logarithm of the number of all
rows (Schwarz 1978). The likelihood is that of the loss: normal, Laplace or multinomial.
The mean loss in it is that of the rows which the coefficients leave, n - k instead of n: a model
meets its own rows too well.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hybridtrees.models.linear_tree.growing import GrownTree, LinearTreeGrower
from hybridtrees.models.linear_tree.leaves import keep_splits
from hybridtrees.models.linear_tree.node_fitters import criterion_loss
from hybridtrees.models.linear_tree.solutions import centred_products

Floats = NDArray[np.float64]

# Squared errors are known to about this share of the variation of the target.
_NOISE = 1e-12
# Directions of less than this share of a regressor's variation are not there.
_JITTER = 1e-10


def prune_by_information(
    grown: GrownTree,
    grower: LinearTreeGrower,
    weight: Floats | None,
    criterion: str,
    *,
    resampled: bool = False,
) -> GrownTree:
    """Undo the splits that do not pay; `resampled` weights are the counts of a bootstrap sample."""
    nodes, recipe = grown.grown.nodes, grower.table.recipe
    n_outputs = _n_outputs(grown, grower)
    inner = np.flatnonzero(nodes["left"] >= 0)
    if not len(inner):
        return grown
    n_rows = _evidence(nodes, weight, resampled)
    squared = recipe.squared
    price = 2.0 if criterion == "aic" else math.log(n_rows[0])
    loss = _losses(grown, grower, weight) * nodes["weight"] * n_rows[0] / nodes["weight"][0]
    size = _sizes(grown, grower, weight, n_outputs)
    floor = _NOISE * _variation(grower, grown, weight, squared) * n_rows

    def cost(node: int, loss: float, size: float) -> float:
        n = n_rows[node] * n_outputs
        if size >= n:
            return math.inf
        mean = (loss + floor[node]) / (n - size)
        if recipe.n_classes:
            return 2.0 * n * mean + price * size
        return (1.0 if squared else 2.0) * n * math.log(mean) + price * size

    splits = np.zeros(len(nodes), dtype=bool)
    for i in inner[::-1]:
        left, right = nodes["left"][i], nodes["right"][i]
        below = loss[left] + loss[right]
        # The cut itself is fitted, too.
        added = size[left] + size[right] + 1.0
        if cost(i, below, added) < cost(i, loss[i], size[i]):
            splits[i], loss[i], size[i] = True, below, added
    return grown if splits[inner].all() else keep_splits(grown, splits)


def _evidence(nodes: NDArray, weight: Floats | None, resampled: bool) -> Floats:
    """Return how many independent rows each node stands for."""
    if weight is not None and resampled:
        # A row drawn twice brings nothing new. A coefficient that does nothing lowers the weighted
        # loss by sum(w^2) / sum(w) instead of 1, so that a sample is worth Kish's number of rows.
        return nodes["weight"] * (weight.sum() / (weight @ weight))
    # Whole numbers are repeated rows; other weights say how rows stand to each other.
    repeated = weight is not None and bool((weight == np.floor(weight)).all())
    return nodes["weight" if repeated else "n_samples"].astype(np.float64)


def _losses(grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None) -> Floats:
    """Mean loss of every node, of the kind that is minus a log-likelihood."""
    recipe = grower.table.recipe
    if not recipe.n_classes or recipe.criterion == "log_loss":
        return grown.impurity.copy()
    found = np.empty(len(grown.impurity))
    for i in range(len(found)):
        rows, w = _rows_of_node(grown, weight, i)
        scores = grower.table.regressors[rows] @ grown.theta[i, :, 1:].T + grown.theta[i, :, 0]
        found[i] = criterion_loss("log_loss", scores, grower.target[rows], w) / w.sum()
    return found


def _variation(
    grower: LinearTreeGrower, grown: GrownTree, weight: Floats | None, squared: bool
) -> float:
    """Mean loss of the best constant, or a bound of it."""
    if grower.table.recipe.n_classes:
        return 0.0
    rows, w = _rows_of_node(grown, weight, 0)
    away = grower.target[rows] - np.average(grower.target[rows], axis=0, weights=w)
    mean_square = float(np.average((away**2).sum(axis=1), weights=w))
    return mean_square if squared else math.sqrt(mean_square)


def _rows_of_node(
    grown: GrownTree, weight: Floats | None, node: int
) -> tuple[NDArray[np.uint32], Floats]:
    part = grown.grown
    rows = part.rows[part.start[node] : part.stop[node]]
    return rows, np.ones(len(rows)) if weight is None else weight[rows]


def _n_outputs(grown: GrownTree, grower: LinearTreeGrower) -> int:
    """Return how many outputs are free: the score of one of several classes follows."""
    n = grown.theta.shape[1]
    return max(1, n - 1) if grower.table.recipe.n_classes else n


def _sizes(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, n_outputs: int
) -> Floats:
    """Coefficients of the nodes' models, a penalised one counting as the share that is left of it.

    That is the trace of H (H + penalty)^-1, H the second derivative of the loss.
    """
    regressors, n_classes = grower.table.regressors, grower.table.recipe.n_classes
    cells, penalty = grown.grown.cells, grower.node_penalty()
    used = grown.theta[:, :, 1:].any(axis=1)
    sizes = np.full(len(used), float(n_outputs))
    for node in np.flatnonzero(used.any(axis=1)):
        if cells.shape[1]:
            products, weights = grower.problem.products(cells[node : node + 1])
            inner = centred_products(products[0], regressors.shape[1] + 1)[0]
            total = float(weights[0])
        else:
            rows, w = _rows_of_node(grown, weight, node)
            total = float(w.sum())
            away = regressors[rows] - w @ regressors[rows] / w.sum()
            inner = (away * w[:, None]).T @ away
        own = used[node]
        spread = np.sqrt(np.maximum(np.diag(inner), 0.0) / total)
        l2 = penalty.parts(spread, total)[1][own]
        hessian = inner[np.ix_(own, own)] / total
        if n_classes:
            hessian = hessian * _curvature(grown, grower, weight, node)
        unit = np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
        corr = hessian / np.outer(unit, unit)
        kept = corr + np.diag(l2 / unit**2 + _JITTER)
        sizes[node] = n_outputs * (1.0 + float(np.trace(np.linalg.solve(kept, corr))))
    return sizes


def _curvature(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, node: int
) -> float:
    """Second derivative of the log-loss at the shares of the classes.

    It is not taken at the fit: where that tells the classes apart, the derivative there is next
    to nothing, the penalty beside it large, and the coefficients would come for free.
    """
    recipe = grower.table.recipe
    rows, w = _rows_of_node(grown, weight, node)
    share = np.bincount(grower.target[rows], w, recipe.n_classes) / w.sum()
    # The mean of the positive eigenvalues of diag(p) - p p', or p (1 - p) of two classes.
    return float(1.0 - share @ share) / (2 if recipe.n_classes == 2 else recipe.n_classes - 1)
