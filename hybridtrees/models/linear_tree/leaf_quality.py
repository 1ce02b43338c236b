"""Quality of the models in the leaves: R2 or deviance, and standard errors of coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import CONSTANT_SCALED, TINY
from hybridtrees.linear.solvers import solve_ridge
from hybridtrees.models.linear_tree.growing import GrownTree, LinearTreeGrower
from hybridtrees.models.linear_tree.node_fitters import probabilities

Floats = NDArray[np.float64]


def regression_errors(
    inner: Floats, loss: Floats, n_rows: int, total: float, mean: Floats, origin: Floats
) -> tuple[Floats, Floats]:
    """Return standard errors of the coefficients and intercepts of least squares in one leaf.

    `inner` holds the weighted products of standardised regressors about their `mean` in the leaf,
    `loss` the weighted squared residuals of each output; intercepts are predictions at `origin`.
    Coefficients that are not identified have NaN.
    """
    p = len(mean)
    errors, intercepts = np.full((len(loss), p), np.nan), np.full(len(loss), np.nan)
    variation = np.maximum(np.diag(inner), 0.0)
    varies = variation > CONSTANT_SCALED * total
    unit = np.sqrt(variation[varies])
    corr = inner[np.ix_(varies, varies)] / np.outer(unit, unit)
    solution = solve_ridge(corr, np.zeros((len(unit), 0)), want_inverse=True)
    assert solution.inverse is not None and solution.estimable is not None
    degrees = n_rows - 1 - solution.rank
    if degrees <= 0:
        return errors, intercepts
    variance = loss / degrees
    diagonal = np.where(solution.estimable, np.diag(solution.inverse), np.nan)
    errors[:, varies] = np.sqrt(np.outer(variance, diagonal)) / unit
    if solution.estimable.all():
        away = (origin - mean)[varies] / unit
        intercepts = np.sqrt(variance * (1.0 / total + away @ solution.inverse @ away))
    return errors, intercepts


def logistic_errors(
    regressors: Floats, weight: Floats, theta: Floats, origin: Floats
) -> tuple[Floats, Floats]:
    """Return standard errors from the Fisher information of a logistic or multinomial model."""
    n_outputs, p = theta.shape[0], regressors.shape[1]
    columns = np.column_stack([np.ones(len(regressors)), regressors])
    proba = probabilities(columns @ theta.T)
    if n_outputs == 1:
        proba = proba[:, 1:]
    size = (p + 1) * n_outputs
    information = np.empty((size, size))
    for a in range(n_outputs):
        for b in range(n_outputs):
            curve = weight * proba[:, a] * ((a == b) - proba[:, b])
            block = (columns * curve[:, None]).T @ columns
            block_rows, block_columns = (slice(k * (p + 1), (k + 1) * (p + 1)) for k in (a, b))
            information[block_rows, block_columns] = block
    solution = solve_ridge(information, np.zeros((size, 0)), want_inverse=True)
    assert solution.inverse is not None and solution.estimable is not None
    known = solution.estimable
    if n_outputs > 1:  # all or none: common shifts of the classes lose one dimension per column
        known = np.full(size, solution.rank == (n_outputs - 1) * (p + 1))
    inverse = np.where(known, solution.inverse, np.nan)
    errors, intercepts = np.empty((n_outputs, p)), np.empty(n_outputs)
    place = np.append(1.0, origin)
    for k in range(n_outputs):
        own = slice(k * (p + 1), (k + 1) * (p + 1))
        errors[k] = np.sqrt(np.diag(inverse[own, own])[1:])
        intercepts[k] = np.sqrt(place @ inverse[own, own] @ place)
    return errors, intercepts


def leaf_facts(
    grown: GrownTree, theta: Floats, grower: LinearTreeGrower, weight: Floats | None
) -> tuple[NDArray[Any], Floats, Floats, Floats, Floats, NDArray[Any]]:
    """Return the fields of `LeafFacts`, for the final models `theta` of the nodes."""
    table, recipe, segments = grower.table, grower.table.recipe, grown.grown
    leaves = np.flatnonzero(segments.nodes["left"] < 0)
    n_outputs, p = theta.shape[1], theta.shape[2] - 1
    errors = np.full((len(leaves), n_outputs, p), np.nan)
    intercepts = np.full((len(leaves), n_outputs), np.nan)
    quality = np.empty((len(leaves), 1 if recipe.n_classes else n_outputs))
    present = np.zeros((len(leaves), recipe.n_classes), dtype=bool)
    loss = grown.impurity[leaves].copy()
    smoothed = theta is not grown.theta
    # Standard errors are defined for unpenalised fits only.
    defined = recipe.penalty.alpha == 0 and not smoothed and recipe.criterion != "absolute_error"
    origin = np.where(table.scale > 0, -table.mean / table.units, 0.0)
    for k, leaf in enumerate(leaves):
        rows = segments.rows[segments.start[leaf] : segments.stop[leaf]]
        w = np.ones(len(rows)) if weight is None else weight[rows]
        y = grower.target[rows]
        if recipe.n_classes:
            part = table.regressors[rows]
            scores = part @ theta[leaf, :, 1:].T + theta[leaf, :, 0]
            own = probabilities(scores)[np.arange(len(rows)), y]
            quality[k] = -2.0 * (w @ np.log(np.maximum(own, TINY)))
            present[k] = np.bincount(y, minlength=recipe.n_classes) > 0
            if defined and theta[leaf, :, 1:].any():
                errors[k], intercepts[k] = logistic_errors(part, w, theta[leaf], origin)
            continue
        total = w.sum()
        spread = w @ (y - w @ y / total) ** 2
        if recipe.squared and not smoothed and n_outputs == 1:
            squares = np.array([loss[k] * total])
        else:
            fitted = table.regressors[rows] @ theta[leaf, :, 1:].T + theta[leaf, :, 0]
            squares = w @ (y - fitted) ** 2
        quality[k] = np.where(spread > 0, 1.0 - squares / np.where(spread > 0, spread, 1.0), 0.0)
        if defined and len(rows) >= recipe.min_rows() and p:
            part = table.regressors[rows]
            mean = w @ part / total
            inner = ((part - mean) * w[:, None]).T @ (part - mean)
            errors[k], intercepts[k] = regression_errors(
                inner, squares, len(rows), float(total), mean, origin
            )
    return leaves, loss, quality, errors / table.units, intercepts, present
