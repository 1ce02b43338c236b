"""Pruning of linear trees by an information criterion.

A split of a linear tree adds a whole regression, which lowers the training loss even if there is
no structure. A branch is kept if it lowers

    -2 log-likelihood + price (number of coefficients)

of the rows of its node. The price is 2 (Akaike 1974) or the logarithm of the number of all rows
(Schwarz 1978); the likelihood is that of the loss: normal, Laplace or multinomial. Its mean loss
is over n - k instead of n rows, k being the number of coefficients, since the training loss is too
small.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.models.linear_tree.growing import GrownTree, LinearTreeGrower
from hybridtrees.models.linear_tree.leaves import keep_splits
from hybridtrees.models.linear_tree.node_fitters import criterion_loss

Floats = NDArray[np.float64]

# Rounding error of squared errors, as a share of the variation of the target.
_NOISE = 1e-12
# Directions with less than this share of a regressor's variation do not count.
_JITTER = 1e-10
# Maximum number of entries of the systems that are solved together.
_MAX_ENTRIES = 1 << 18


def prune_by_information(
    grown: GrownTree,
    grower: LinearTreeGrower,
    weight: Floats | None,
    criterion: str,
    *,
    resampled: bool = False,
) -> GrownTree:
    """Remove the splits that do not lower the criterion.

    `resampled` weights are the counts of a bootstrap sample.
    """
    nodes, recipe = grown.grown.nodes, grower.table.recipe
    n_outputs = _n_outputs(grown, grower)
    inner = np.flatnonzero(nodes["left"] >= 0)
    if not len(inner):
        return grown
    n_rows = _effective_rows(nodes, weight, resampled)
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
            return float(2.0 * n * mean + price * size)
        return float((1.0 if squared else 2.0) * n * math.log(mean) + price * size)

    splits = np.zeros(len(nodes), dtype=bool)
    for i in inner[::-1]:
        left, right = nodes["left"][i], nodes["right"][i]
        below = loss[left] + loss[right]
        # The threshold is a parameter, too.
        added = size[left] + size[right] + 1.0
        if cost(i, below, added) < cost(i, loss[i], size[i]):
            splits[i], loss[i], size[i] = True, below, added
    return grown if splits[inner].all() else keep_splits(grown, splits)


def _effective_rows(nodes: NDArray[Any], weight: Floats | None, resampled: bool) -> Floats:
    """Return the effective number of rows of each node."""
    if weight is not None and resampled:
        # Kish's effective sample size: a repeated row adds no information. A useless coefficient
        # lowers the weighted loss by sum(w^2) / sum(w) instead of 1.
        return np.asarray(nodes["weight"] * (weight.sum() / (weight @ weight)))
    # Integer weights are repeated rows; other weights are relative.
    repeated = weight is not None and bool((weight == np.floor(weight)).all())
    return nodes["weight" if repeated else "n_samples"].astype(np.float64)


def _losses(grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None) -> Floats:
    """Return the mean loss of every node that is a negative log-likelihood."""
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
    """Return the mean loss of the best constant, or an upper bound."""
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
    """Return the number of free outputs: of several classes, one score follows from the others."""
    n = grown.theta.shape[1]
    return int(max(1, n - 1) if grower.table.recipe.n_classes else n)


def _sizes(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, n_outputs: int
) -> Floats:
    """Return the effective number of coefficients of every node.

    That is the trace of H (H + penalty)^-1, H being the second derivative of the loss.
    """
    penalty = grower.node_penalty()
    used = (grown.theta[:, :, 1:] != 0).any(axis=1)
    sizes = np.full(len(used), float(n_outputs))
    full = used.all(axis=1)
    p = used.shape[1]
    # Nodes that use all regressors have systems of the same size, solved together.
    groups = [] if p == 0 else _chunks(np.flatnonzero(full), max(1, _MAX_ENTRIES // p**2))
    groups += [np.array([node]) for node in np.flatnonzero(used.any(axis=1) & ~full)]
    for nodes in groups:
        inner, total = _centred(grown, grower, weight, nodes)
        own = np.flatnonzero(used[nodes[0]])
        spread = np.sqrt(np.maximum(np.einsum("ijj->ij", inner), 0.0) / total[:, None])
        l2 = np.stack([penalty.parts(s, t)[1] for s, t in zip(spread, total, strict=True)])[:, own]
        hessian = inner[:, own[:, None], own] / total[:, None, None]
        if grower.table.recipe.n_classes:
            curves = [_curvature(grown, grower, weight, int(node)) for node in nodes]
            hessian = hessian * np.array(curves)[:, None, None]
        unit = np.sqrt(np.maximum(np.einsum("ijj->ij", hessian), np.finfo(float).tiny))
        corr = hessian / (unit[:, :, None] * unit[:, None, :])
        kept = corr.copy()
        np.einsum("ijj->ij", kept)[...] += l2 / unit**2 + _JITTER
        trace = np.trace(np.linalg.solve(kept, corr), axis1=1, axis2=2)
        sizes[nodes] = n_outputs * (1.0 + trace)
    return sizes


def _chunks(nodes: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]


def _centred(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, nodes: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return the centred products of the regressors of some nodes, and the weights of the nodes."""
    regressors, cells = grower.table.regressors, grown.grown.cells
    p = regressors.shape[1]
    if cells.shape[1]:
        assert grower.problem is not None
        products, total = grower.problem.products(cells[nodes])
        level = products[:, 0, 0]
        mean = products[:, 0, 1 : p + 1] / level[:, None]
        outer = mean[:, :, None] * mean[:, None, :]
        return products[:, 1 : p + 1, 1 : p + 1] - level[:, None, None] * outer, total
    inner, total = np.empty((len(nodes), p, p)), np.empty(len(nodes))
    for k, node in enumerate(nodes.tolist()):
        rows, w = _rows_of_node(grown, weight, node)
        total[k] = w.sum()
        part = regressors[rows]
        away = part - w @ part / total[k]
        inner[k] = (away * w[:, None]).T @ away
    return inner, total


def _curvature(
    grown: GrownTree, grower: LinearTreeGrower, weight: Floats | None, node: int
) -> float:
    """Return the second derivative of the log-loss at the shares of the classes.

    It is not taken at the fit. If that separates the classes, the derivative is nearly zero: the
    penalty would dominate it, and the coefficients would not count.
    """
    recipe = grower.table.recipe
    rows, w = _rows_of_node(grown, weight, node)
    share = np.bincount(grower.target[rows], w, recipe.n_classes) / w.sum()
    # The mean of the positive eigenvalues of diag(p) - p p', or p (1 - p) of two classes.
    return float(1.0 - share @ share) / (2 if recipe.n_classes == 2 else recipe.n_classes - 1)
