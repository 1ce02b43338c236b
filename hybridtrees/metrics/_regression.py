"""Metrics of regression."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_real
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.input.targets import check_target_regression
from hybridtrees.metrics._checks import (
    PAIR,
    WEIGHT,
    check_same_length,
    documented,
    mean,
    regression_pair,
    root_mean,
    row_mean,
)

Floats = NDArray[np.float64]

_LEVELS = (
    """y_true : array-like of shape (n_rows,)
    Targets.
y_pred : array-like of shape (n_rows,) or (n_rows, n_levels)
    Predictions for each level.""",
    WEIGHT,
    """alpha : float or sequence of floats
    Level of each column, from 0 to 1.""",
)


@row_mean()
def mean_squared_error(y_true: Floats, y_pred: Floats) -> Floats:
    """Mean squared error, averaged over outputs."""
    return np.square(y_true - y_pred)


@row_mean(average=root_mean)
def root_mean_squared_error(y_true: Floats, y_pred: Floats) -> Floats:
    """Root mean squared error, averaged over outputs."""
    return np.square(y_true - y_pred)


@row_mean("Targets and predictions, all greater than -1.", average=root_mean)
def root_mean_squared_log_error(y_true: Floats, y_pred: Floats) -> Floats:
    """Root mean squared error of log(1 + y), for targets above -1."""
    for name, values in (("y_true", y_true), ("y_pred", y_pred)):
        if values.min() <= -1:
            raise ValueError(
                f"{name} must be greater than -1 for a logarithmic error, got {values.min()}"
            )
    error: Floats = np.log1p(y_true) - np.log1p(y_pred)
    return np.square(error)


@row_mean()
def mean_absolute_error(y_true: Floats, y_pred: Floats) -> Floats:
    """Mean absolute error, averaged over outputs."""
    return np.abs(y_true - y_pred)


@row_mean(note="Huge where a target is 0.")
def mean_absolute_percentage_error(y_true: Floats, y_pred: Floats) -> Floats:
    """Mean absolute error relative to the targets; 0.1 is ten per cent."""
    return np.abs(y_true - y_pred) / np.maximum(np.abs(y_true), np.finfo(np.float64).eps)


@documented(
    PAIR.format("Targets and predictions."),
    WEIGHT,
    returns="""score : float
    1 for perfect predictions, 0 for the mean as prediction. A constant output gives 1 if it is
    predicted exactly, else 0. NaN (with a warning) for a single row.""",
)
def r2_score(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Coefficient of determination R2, averaged over outputs."""
    y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
    if len(y_true) < 2:
        warnings.warn("R2 is not defined for fewer than two rows", UserWarning, stacklevel=2)
        return math.nan
    error = np.atleast_1d(exact_mean((y_true - y_pred) ** 2, weight))
    spread = np.atleast_1d(exact_mean((y_true - exact_mean(y_true, weight)) ** 2, weight))
    score = np.where(error == 0, 1.0, 0.0)
    varied = spread != 0
    score[varied] = 1.0 - error[varied] / spread[varied]
    return float(score.mean())


@documented(*_LEVELS, returns="loss : float")
def mean_pinball_loss(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, alpha: float | Sequence[float] = 0.5
) -> float:
    """Mean pinball loss of predicted quantiles, averaged over levels."""
    error, levels, weight = _level_errors(y_true, y_pred, sample_weight, alpha)
    return mean(np.maximum(levels * error, (levels - 1) * error), weight)


@documented(*_LEVELS, returns="loss : float")
def mean_expectile_loss(
    y_true: Any, y_pred: Any, *, sample_weight: Any = None, alpha: float | Sequence[float] = 0.5
) -> float:
    """Mean squared error, weighted alpha above and 1 - alpha below the prediction."""
    error, levels, weight = _level_errors(y_true, y_pred, sample_weight, alpha)
    return mean(np.where(error > 0, levels, 1 - levels) * error * error, weight)


@row_mean(
    "Targets and predictions.",
    """slope : float
    Error from which the loss is about linear.""",
)
def mean_pseudo_huber_error(y_true: Floats, y_pred: Floats, *, slope: float = 1.0) -> Floats:
    """Mean pseudo-Huber loss, slope^2 (sqrt(1 + (error / slope)^2) - 1)."""
    check_real("slope", slope, 0, closed="neither")
    return slope**2 * (np.hypot(1.0, (y_true - y_pred) / slope) - 1.0)


@row_mean("Counts and predicted means.")
def poisson_nloglik(y_true: Floats, y_pred: Floats) -> Floats:
    """Mean negative log-likelihood of Poisson distributions."""
    from scipy.special import gammaln

    means = np.maximum(y_pred, 1e-16)
    return gammaln(y_true + 1.0) + means - np.log(means) * y_true


@row_mean("Positive targets and predicted means.")
def gamma_nloglik(y_true: Floats, y_pred: Floats) -> Floats:
    """Mean negative log-likelihood of exponential distributions: gamma with dispersion 1."""
    means = np.maximum(y_pred, 1e-6)
    return y_true / means + np.log(means)


@row_mean("Targets and predicted means, not negative.")
def gamma_deviance(y_true: Floats, y_pred: Floats) -> Floats:
    """Mean gamma deviance; 1e-6 is added to targets and predictions, so that 0 is allowed."""
    for name, values in (("y_true", y_true), ("y_pred", y_pred)):
        if values.min() < 0:
            raise ValueError(f"{name} must not be negative, got {values.min()}")
    ratio = (y_true + 1e-6) / (y_pred + 1e-6)
    return 2.0 * (ratio - np.log(ratio) - 1.0)


@row_mean(
    "Targets, not negative, and predicted means.",
    """rho : float
    Exponent of the variance, from 1 to 2.""",
)
def tweedie_nloglik(y_true: Floats, y_pred: Floats, *, rho: float = 1.5) -> Floats:
    """Mean negative log-likelihood of Tweedie distributions, without terms of y alone."""
    check_real("rho", rho, 1, 2)
    means = np.maximum(y_pred, 1e-16)
    # At the ends of the range the terms become logarithms.
    first = -np.log(means) if rho == 1 else means ** (1 - rho) / (rho - 1)
    second = np.log(means) if rho == 2 else means ** (2 - rho) / (2 - rho)
    return y_true * first + second


def _level_errors(
    y_true: Any, y_pred: Any, sample_weight: Any, alpha: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return y_true - y_pred with a column per level, the levels, and the weights."""
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
