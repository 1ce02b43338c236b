"""Pruning of linear trees by an information criterion.

A split of a linear tree adds a whole regression, which lowers the loss on the rows it was fitted
to even where there is nothing to find. A branch is kept where it lowers

    -2 log-likelihood + price (number of coefficients)

of the rows of its node, with a price of 2 (Akaike 1974) or of the logarithm of the number of all
rows (Schwarz 1978). The likelihood is that of the loss: normal, Laplace or multinomial.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hybridtrees.models._linear_tree_growth import GrownTree, LinearTreeGrower
from hybridtrees.models._linear_tree_judges import criterion_loss, probabilities
from hybridtrees.models._linear_tree_leaves import keep_splits
from hybridtrees.models._linear_tree_solutions import centred_products

Floats = NDArray[np.float64]

# Squared errors are known to about this share of the variation of the target.
_NOISE = 1e-12
# Directions of less than this share of a regressor's variation are not there.
_JITTER = 1e-10


def prune_by_information(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, criterion: str
) -> GrownTree:
    """Undo the splits that do not pay for their coefficients.

    Parameters
    ----------
    grown : GrownTree
    grower : LinearTreeGrower
        What the tree was grown by.
    weight : ndarray of shape (n_rows,) or None
    criterion : {"aic", "bic"}
    """
    nodes = grown.grown.nodes
    inner = np.flatnonzero(nodes["left"] >= 0)
    if not len(inner):
        return grown
    # Whole numbers are repeated rows; other weights say how rows stand to each other.
    repeated = weight is not None and bool((weight == np.floor(weight)).all())
    n_rows = nodes["weight" if repeated else "n_samples"].astype(np.float64)
    price = 2.0 if criterion == "aic" else math.log(n_rows[0])
    loss = _losses(grown, grower, weight) * nodes["weight"] * n_rows[0] / nodes["weight"][0]
    size = np.array([_size(grown, grower, weight, i) for i in range(len(nodes))])
    floor = _NOISE * _variation(grower, grown, weight) * n_rows

    def cost(node: int, loss: float, size: float) -> float:
        if grower.table.recipe.n_classes:
            return 2.0 * loss + price * size
        n = n_rows[node] * grown.theta.shape[1]
        if size >= n:
            return math.inf
        power = 1.0 if grower.table.recipe.squared else 2.0
        return power * n * math.log((loss + floor[node]) / (n - size)) + price * size

    splits = np.zeros(len(nodes), dtype=bool)
    for i in inner[::-1]:
        left, right = nodes["left"][i], nodes["right"][i]
        below = loss[left] + loss[right]
        # The cut itself is fitted, too.
        added = size[left] + size[right] + 1.0
        if cost(i, below, added) < cost(i, loss[i], size[i]):
            splits[i], loss[i], size[i] = True, below, added
    return grown if splits[inner].all() else keep_splits(grown, splits)


def _losses(grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None) -> Floats:
    """Mean loss of every node, of the kind that is minus a log-likelihood."""
    recipe = grower.table.recipe
    if not recipe.n_classes or recipe.criterion == "log_loss":
        return grown.impurity.copy()
    found = np.empty(len(grown.impurity))
    for i, (rows, w) in enumerate(_rows_of_nodes(grown, weight)):
        scores = grower.table.regressors[rows] @ grown.theta[i, :, 1:].T + grown.theta[i, :, 0]
        found[i] = criterion_loss("log_loss", scores, grower.target[rows], w) / w.sum()
    return found


def _variation(grower: LinearTreeGrower, grown: GrownTree, weight: Floats | None) -> float:
    """Mean loss of the best constant, or a bound of it."""
    if grower.table.recipe.n_classes:
        return 0.0
    rows, w = next(_rows_of_nodes(grown, weight))
    away = grower.target[rows] - np.average(grower.target[rows], axis=0, weights=w)
    mean_square = float(np.average((away**2).sum(axis=1), weights=w))
    return mean_square if grower.table.recipe.squared else math.sqrt(mean_square)


def _rows_of_nodes(grown: GrownTree, weight: Floats | None):  # noqa: ANN202
    part = grown.grown
    for start, stop in zip(part.start, part.stop, strict=True):
        rows = part.rows[start:stop]
        yield rows, np.ones(len(rows)) if weight is None else weight[rows]


def _size(grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, node: int) -> float:
    """Coefficients of a node's model, a penalised one counting as the share that is left of it.

    That is the trace of H (H + penalty)^-1, H the second derivative of the loss.
    """
    recipe = grower.table.recipe
    theta = grown.theta[node]
    n_outputs = max(1, theta.shape[0] - 1) if recipe.n_classes else theta.shape[0]
    used = theta[:, 1:].any(axis=0)
    if not used.any():
        return float(n_outputs)
    inner, total = _curvature(grown, grower, weight, node)
    spread = np.sqrt(np.maximum(np.diag(inner[0]), 0.0) / total)
    l2 = grower.judge_penalty().parts(spread, total)[1][used]
    hessian = inner[1][np.ix_(used, used)] / total
    unit = np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
    corr = hessian / np.outer(unit, unit)
    kept = corr + np.diag(l2 / unit**2 + _JITTER)
    return n_outputs * (1.0 + float(np.trace(np.linalg.solve(kept, corr))))


def _curvature(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, node: int
) -> tuple[tuple[Floats, Floats], float]:
    """Return products of the regressors about their means, plain and weighted by curvature."""
    segments, table = grown.grown, grower.table
    if segments.cells.shape[1]:
        products, total = grower.problem.products(segments.cells[node : node + 1])
        inner = centred_products(products[0], table.regressors.shape[1] + 1)[0]
        return (inner, inner), float(total[0])
    rows = segments.rows[segments.start[node] : segments.stop[node]]
    w = np.ones(len(rows)) if weight is None else weight[rows]
    part = table.regressors[rows]
    inner = _about_mean(part, w)
    if not table.recipe.n_classes:
        return (inner, inner), float(w.sum())
    theta = grown.theta[node]
    proba = probabilities(part @ theta[:, 1:].T + theta[:, 0])
    # The mean of the positive eigenvalues of diag(p) - p p'.
    curve = (1.0 - (proba**2).sum(axis=1)) / (2.0 if len(theta) == 1 else len(theta) - 1.0)
    return (inner, _about_mean(part, w * np.maximum(curve, 1e-300))), float(w.sum())


def _about_mean(part: Floats, weight: Floats) -> Floats:
    away = part - weight @ part / weight.sum()
    return (away * weight[:, None]).T @ away
