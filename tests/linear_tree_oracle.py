"""Linear trees by brute force: every candidate is refitted with NumPy from its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def fit_line(Z, y, w, ridge=None):
    """Weighted least squares with an intercept: (intercept, coefficients, loss).

    `ridge` gives what is added to the diagonal, from the centred sums of squares and the weight.
    """
    mean, level = w @ Z / w.sum(), w @ y / w.sum()
    A, b = (Z - mean) * np.sqrt(w)[:, None], (y - level) * np.sqrt(w)
    if ridge is None:
        coef = np.linalg.lstsq(A, b, rcond=None)[0]
    else:
        extra = np.sqrt(ridge((A**2).sum(axis=0), w.sum()))
        A_long = np.vstack([A, np.diag(extra)])
        coef = np.linalg.lstsq(A_long, np.append(b, np.zeros(len(extra))), rcond=None)[0]
    return level - mean @ coef, coef, float(((b - A @ coef) ** 2).sum())


@dataclass
class Split:
    feature: int
    edge: float
    missing_left: bool
    gain: float


def best_split(X, Z, y, w, edges, min_leaf, ridge=None, least_rows=0):
    """Best of all thresholds in `edges`; None where none lowers the loss."""

    def loss(rows):
        part = Z[rows] if rows.sum() >= least_rows else Z[rows][:, :0]
        own = None if part.shape[1] == 0 else ridge
        return fit_line(part, y[rows], w[rows], own)[2]

    everything = np.ones(len(y), dtype=bool)
    node = loss(everything)
    best = None
    for f, cuts in enumerate(edges):
        missing = np.isnan(X[:, f])
        for side in (False, True) if missing.any() else (False,):
            for edge in [*cuts, np.inf] if missing.any() else cuts:
                left = np.where(missing, side, X[:, f] <= edge)
                if min(left.sum(), (~left).sum()) < max(1, min_leaf):
                    continue
                gain = node - loss(left) - loss(~left)
                if gain > 1e-10 * node and (best is None or gain > best.gain + 1e-12 * node):
                    best = Split(f, edge, side, gain)
    return best


def grow(X, Z, y, w, edges, min_leaf, max_depth, ridge=None):
    """Splits in preorder, as (feature, edge, rows)."""
    split = best_split(X, Z, y, w, edges, min_leaf, ridge) if max_depth else None
    if split is None or len(y) < 2 * min_leaf:
        return [(-1, np.nan, len(y))]
    missing = np.isnan(X[:, split.feature])
    left = np.where(missing, split.missing_left, X[:, split.feature] <= split.edge)
    parts = [(split.feature, split.edge, len(y))]
    for rows in (left, ~left):
        parts += grow(X[rows], Z[rows], y[rows], w[rows], edges, min_leaf, max_depth - 1, ridge)
    return parts
