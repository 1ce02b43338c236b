"""Slow and obvious versions of what piece-wise linear boosting computes."""

from __future__ import annotations

import numpy as np

CONSTANT = 1e-10
DEPENDENT = 1e-7


def binned_values(binned, columns) -> np.ndarray:
    """Every value replaced by the mean of its bin, in standard units; NaN for missing."""
    out = np.full((binned.n_rows, binned.n_features), np.nan)
    for f, values in enumerate(columns.bin_values):
        if values is not None:
            out[:, f] = np.append(values, np.nan)[binned.columns[f]]
    return out


def centred(column, h):
    """Centre a column at its weighted mean; a missing value stands there."""
    known = ~np.isnan(column)
    total = h[known].sum()
    mean = (h[known] * column[known]).sum() / total if total > 0 else 0.0
    return np.where(known, column - mean, 0.0)


def soft(value, alpha):
    return np.sign(value) * max(abs(value) - alpha, 0.0)


def fit(columns, g, h, ridge, alpha=0.0):
    """Slopes of the best penalised line, and twice the loss that it saves; intercept apart.

    `columns` are tried in order; one that is constant, or explained by those before, is left out.
    """
    score = soft(g.sum(), alpha) ** 2 / (h.sum() + ridge)
    Z = np.column_stack([centred(c, h) for c in columns]) if columns else np.zeros((len(g), 0))
    raw = np.column_stack([np.nan_to_num(c) for c in columns]) if columns else Z
    kept: list[int] = []
    A = Z.T @ (h[:, None] * Z) + ridge * np.eye(Z.shape[1])
    b = -Z.T @ g
    for j in range(Z.shape[1]):
        if (h * Z[:, j] ** 2).sum() <= CONSTANT * (h * raw[:, j] ** 2).sum():
            continue
        left = A[j, j]
        if kept:
            left -= A[j, kept] @ np.linalg.solve(A[np.ix_(kept, kept)], A[kept, j])
        if left > DEPENDENT * A[j, j]:
            kept.append(j)
    slopes = np.zeros(Z.shape[1])
    if kept and alpha == 0:
        slopes[kept] = np.linalg.solve(A[np.ix_(kept, kept)], b[kept])
    elif kept:
        for _ in range(60):
            for j in kept:
                rest = b[j] - A[j] @ slopes + A[j, j] * slopes[j]
                slopes[j] = soft(rest, alpha) / A[j, j]
    score += 2 * (b @ slopes) - slopes @ A @ slopes - 2 * alpha * np.abs(slopes).sum()
    return slopes, score


def cut_gain(inherited, x, left, g, h, ridge, alpha=0.0):
    """Gain of a cut: scores of both sides less that of the node without the feature."""
    gain = -fit(inherited, g, h, ridge, alpha)[1]
    for side in (left, ~left):
        columns = [c[side] for c in inherited]
        if x is not None:
            columns.append(x[side])
        gain += fit(columns, g[side], h[side], ridge, alpha)[1]
    return gain


def additive_gain(above, x, left, g, h, ridge, alpha=0.0):
    """Gain of a cut where the function `above` stays and a number and a slope are added."""
    moved = g + h * above
    return sum(
        fit([] if x is None else [x[side]], moved[side], h[side], ridge, alpha)[1]
        for side in (left, ~left)
    )


def linear_part(models, node, table):
    """The linear part of a node for every row of the table of bin means."""
    n = models["n_regressors"][node]
    feature = models["feature"][node, :n]
    terms = np.nan_to_num(table[:, feature] - models["center"][node, :n])
    return models["offset"][node] + terms @ models["coef"][node, :n]
