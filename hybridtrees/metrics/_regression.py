"""Scores and losses of numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees.input.targets import check_target_regression
from hybridtrees.metrics._checks import (
    check_same_length,
    mean,
    mean_loss,
    regression_pair,
    root_mean_square,
    row_average,
)


def mean_squared_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Mean of the squared errors; over outputs too, if there are several.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    return mean_loss(lambda y, p: np.square(y - p), y_true, y_pred, sample_weight)


def root_mean_squared_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Square root of the mean squared error; with several outputs the mean of their roots.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
    return root_mean_square(y_true - y_pred, weight)


def root_mean_squared_log_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Root mean squared error of log(1 + y), for targets above -1.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions, all greater than -1.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
    for name, values in (("y_true", y_true), ("y_pred", y_pred)):
        if values.min() <= -1:
            raise ValueError(
                f"{name} must be greater than -1 for a logarithmic error, got {values.min()}"
            )
    return root_mean_square(np.log1p(y_true) - np.log1p(y_pred), weight)


def mean_absolute_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Mean of the absolute errors; over outputs too, if there are several.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    return mean_loss(lambda y, p: np.abs(y - p), y_true, y_pred, sample_weight)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Mean of the absolute errors divided by the targets; 0.1 is ten per cent.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
        Huge where a target is 0.
    """
    tiny = np.finfo(np.float64).eps
    return mean_loss(
        lambda y, p: np.abs(y - p) / np.maximum(np.abs(y), tiny), y_true, y_pred, sample_weight
    )


def r2_score(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Coefficient of determination; the mean over outputs, if there are several.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    score : float
        1 for perfect predictions, 0 for those of the mean. An output without variation gives 1
        if it is predicted exactly and 0 otherwise. NaN (with a warning) for a single row.
    """
    y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
    if len(y_true) < 2:
        warnings.warn("R2 is not defined for fewer than two rows", UserWarning, stacklevel=2)
        return math.nan
    error = np.atleast_1d(row_average((y_true - y_pred) ** 2, weight))
    centre = row_average(y_true, weight)
    spread = np.atleast_1d(row_average((y_true - centre) ** 2, weight))
    score = np.where(error == 0, 1.0, 0.0)
    varied = spread != 0
    score[varied] = 1.0 - error[varied] / spread[varied]
    return float(score.mean())


def mean_pinball_loss(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, alpha: float | Sequence[float] = 0.5
) -> float:
    """Mean pinball loss of predicted quantiles; over the levels too, if there are several.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Targets.
    y_pred : array-like of shape (n_rows,) or (n_rows, n_levels)
        Quantiles.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.
    alpha : float or sequence of floats
        Level of each column, from 0 to 1.

    Returns
    -------
    loss : float
    """
    error, levels, weight = _level_errors(y_true, y_pred, sample_weight, alpha)
    return mean(np.maximum(levels * error, (levels - 1) * error), weight)


def mean_expectile_loss(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, alpha: float | Sequence[float] = 0.5
) -> float:
    """Mean of squared errors that weigh alpha above and 1 - alpha below the prediction.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Targets.
    y_pred : array-like of shape (n_rows,) or (n_rows, n_levels)
        Expectiles.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.
    alpha : float or sequence of floats
        Level of each column, from 0 to 1.

    Returns
    -------
    loss : float
    """
    error, levels, weight = _level_errors(y_true, y_pred, sample_weight, alpha)
    return mean(np.where(error > 0, levels, 1 - levels) * error * error, weight)


def mean_pseudo_huber_error(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, slope: float = 1.0
) -> float:
    """Mean of slope^2 (sqrt(1 + (error / slope)^2) - 1), a smooth relative of Huber's loss.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predictions.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.
    slope : float
        Error at which squares go over into absolute values.

    Returns
    -------
    loss : float
    """
    check_real("slope", slope, 0, closed="neither")
    return mean_loss(
        lambda y, p: slope**2 * (np.hypot(1.0, (y - p) / slope) - 1.0),
        y_true,
        y_pred,
        sample_weight,
    )


def poisson_nloglik(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Mean negative log-likelihood of counts under Poisson distributions.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Counts and predicted means.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    from scipy.special import gammaln

    def loss(y: np.ndarray, p: np.ndarray) -> np.ndarray:
        p = np.maximum(p, 1e-16)
        return gammaln(y + 1.0) + p - np.log(p) * y

    return mean_loss(loss, y_true, y_pred, sample_weight)


def gamma_nloglik(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Mean negative log-likelihood of exponential distributions: gamma with dispersion 1.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Positive targets and predicted means.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """

    def loss(y: np.ndarray, p: np.ndarray) -> np.ndarray:
        p = np.maximum(p, 1e-6)
        return y / p + np.log(p)

    return mean_loss(loss, y_true, y_pred, sample_weight)


def gamma_deviance(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Mean gamma deviance, with 1e-6 added on both sides so that 0 is allowed.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets and predicted means, not negative.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
    for name, values in (("y_true", y_true), ("y_pred", y_pred)):
        if values.min() < 0:
            raise ValueError(f"{name} must not be negative, got {values.min()}")
    ratio = (y_true + 1e-6) / (y_pred + 1e-6)
    return 2.0 * mean(ratio - np.log(ratio) - 1.0, weight)


def tweedie_nloglik(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, rho: float = 1.5
) -> float:
    """Mean negative log-likelihood of Tweedie's distribution, but for what y alone decides.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
        Targets, not negative, and predicted means.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.
    rho : float
        Exponent of the variance, from 1 to 2.

    Returns
    -------
    loss : float
    """
    check_real("rho", rho, 1, 2)

    def loss(y: np.ndarray, p: np.ndarray) -> np.ndarray:
        p = np.maximum(p, 1e-16)
        # Both terms have logarithms for limits at the ends of the range.
        first = -np.log(p) if rho == 1 else p ** (1 - rho) / (rho - 1)
        second = np.log(p) if rho == 2 else p ** (2 - rho) / (2 - rho)
        return y * first + second

    return mean_loss(loss, y_true, y_pred, sample_weight)


def _level_errors(
    y_true: Any, y_pred: Any, sample_weight: Any, alpha: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return y_true - y_pred, a column for each level, the levels, and the weights."""
    levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"alpha must be a level from 0 to 1 or a list of such, got {alpha!r}")
    y_true = check_target_regression(y_true, name="y_true")
    y_pred = check_target_regression(y_pred, multi_output=True, name="y_pred")
    check_same_length(y_true, y_pred)
    y_pred = y_pred.reshape(len(y_true), -1)
    if y_pred.shape[1] != len(levels):
        raise ValueError(f"y_pred has {y_pred.shape[1]} columns for {len(levels)} levels in alpha")
    _, _, weight = regression_pair(y_true, y_true, sample_weight)
    return y_true[:, None] - y_pred, levels, weight
