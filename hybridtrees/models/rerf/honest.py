"""Predictions of RERF's regression for rows that it has not seen, for errors out of the bag.

The regression is fitted to all rows, so that its own predictions of them flatter it, the more so
the weaker its penalty. Least squares and ridge have predictions without a row in closed form,
from the diagonal h of the hat matrix: the residual without row i is r_i / (1 - h_i). Other
regressions are fitted to the rows outside of each of a few folds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hybridtrees.models.rerf.linear import N_FOLDS, FittedLine, LinearFits, few_folds

if TYPE_CHECKING:
    from hybridtrees.linear.regression import Options

Floats = NDArray[np.float64]

__all__ = ["N_FOLDS", "honest_level"]

# Rows that nearly determine a coefficient by themselves have no prediction without them.
_MIN_FREEDOM = 1e-6
_BLOCK = 4096


def honest_level(
    fits: LinearFits, line: FittedLine, options: Options, level: Callable[[Floats], Floats]
) -> Floats:
    """Predictions of the rows by regressions that have not seen them, (n_rows, n_values).

    They are kept with the `line` that was fitted to all rows; `level` turns scores to predictions.
    """
    if line.honest is None:
        found = _without_row(fits, line, options)
        line.honest = _by_folds(fits, line, options, level) if found is None else found
    return line.honest


def _without_row(fits: LinearFits, line: FittedLine, options: Options) -> Floats | None:
    """Leave-one-out predictions, None where there is no closed form."""
    from scipy.linalg import pinvh

    from hybridtrees.linear.blas import sequential_blas
    from hybridtrees.linear.regression import NarrowRegression

    model = fits.open(options)
    if fits.n_outputs or options.penalty.has_l1 or not isinstance(model, NarrowRegression):
        return None
    m = model.moments
    varies = np.flatnonzero(m.scale > 0)
    n = len(fits.target)
    l2 = np.broadcast_to(model._penalties(line.alpha)[1], m.scale.shape)
    share = np.full(n, 1.0 / n) if fits.weight is None else fits.weight / fits.weight.sum()
    leverage = np.full(n, 1.0 if options.fit_intercept else 0.0)
    with sequential_blas():
        inverse = pinvh(m.corr[np.ix_(varies, varies)] + np.diag(l2[varies]))
        for start in range(0, n, _BLOCK):
            part = fits.columns[start : start + _BLOCK]
            part = part.toarray() if hasattr(part, "indptr") else part
            part = np.asarray(part, dtype=np.float64)[:, varies]
            part = np.where(np.isnan(part), m.fill[varies], part)
            z = (part - m.mean[varies]) / m.scale[varies]
            leverage[start : start + _BLOCK] += np.einsum("ij,ij->i", z @ inverse, z)
    free = 1.0 - share * leverage
    if not np.all(free[share > 0] > _MIN_FREEDOM):
        return None
    residual = fits.target - line.line.predict(fits.columns, None, options.n_threads)
    return fits.target - residual / np.where(share > 0, free, 1.0)[:, None]


def _by_folds(
    fits: LinearFits, line: FittedLine, options: Options, level: Callable[[Floats], Floats]
) -> Floats:
    """Predictions of the rows of each fold by the regression on the others."""
    found = level(line.line.predict(fits.columns, None, options.n_threads))
    codes = fits.target if fits.n_outputs else None
    for train, test in few_folds(len(fits.target), codes, fits.weight):
        part = LinearFits(fits.columns, fits.target, fits.weight, fits.n_outputs, train)
        other = part.fit(options, line.alpha)
        found[test] = level(other.line.predict(fits.columns, test, options.n_threads))
    return found
