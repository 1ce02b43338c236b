"""The metrics that can monitor training, by XGBoost's names."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from hybridtrees.metrics._checks import mean, regression_pair
from hybridtrees.metrics._classification import brier_score_loss, error_rate, log_loss
from hybridtrees.metrics._ranking import pr_auc_score, roc_auc_score
from hybridtrees.metrics._regression import (
    gamma_deviance,
    gamma_nloglik,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_expectile_loss,
    mean_pinball_loss,
    mean_pseudo_huber_error,
    mean_squared_error,
    poisson_nloglik,
    r2_score,
    root_mean_squared_log_error,
    tweedie_nloglik,
)


class Metric(NamedTuple):
    """A metric that can monitor training."""

    name: str
    function: Callable[..., float]  # of targets (or class codes), predictions, sample_weight
    maximize: bool  # whether larger is better


def _rmse(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    # One root over all outputs, as in XGBoost; scikit-learn averages the roots.
    return math.sqrt(mean_squared_error(y_true, y_pred, sample_weight=sample_weight))


def _rmsle(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    # Undefined predictions are no reason to stop training.
    y_true, y_pred, _ = regression_pair(y_true, y_pred, sample_weight)
    if y_pred.min() <= -1:
        return math.nan
    return root_mean_squared_log_error(y_true, y_pred, sample_weight=sample_weight)


def _log_cosh(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    # log(cosh(d)) = log(exp(d) + exp(-d)) - log(2), without the overflow of cosh.
    y, p, weight = regression_pair(y_true, y_pred, sample_weight)
    return mean(np.logaddexp(y - p, p - y) - math.log(2), weight)


def _binary_error(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, threshold: float = 0.5
) -> float:
    wrong = np.asarray(y_true) != (np.asarray(y_proba) > threshold)
    if wrong.ndim == 2:  # several targets of two classes each
        return mean(wrong, sample_weight)
    return error_rate(np.zeros(len(wrong), dtype=bool), wrong, sample_weight=sample_weight)


def _multiclass_error(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    return error_rate(y_true, np.argmax(y_proba, axis=1), sample_weight=sample_weight)


def _labels(y_proba: Any) -> list[int]:
    """Return all class codes: the rows need not hold each of them."""
    return list(range(2 if np.ndim(y_proba) == 1 else np.shape(y_proba)[1]))


def _coded_log_loss(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    return log_loss(y_true, y_proba, sample_weight=sample_weight, labels=_labels(y_proba))


def _coded_brier(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    return brier_score_loss(y_true, y_proba, sample_weight=sample_weight, labels=_labels(y_proba))


def _auc(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    several: dict[str, Any] = {}
    if np.ndim(y_score) != 1:
        several = {"average": "weighted", "multi_class": "ovr", "labels": _labels(y_score)}
    return float(roc_auc_score(y_true, y_score, sample_weight=sample_weight, **several))


def _aucpr(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    labels = None if np.ndim(y_score) == 1 else _labels(y_score)
    return pr_auc_score(y_true, y_score, sample_weight=sample_weight, labels=labels)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("rmse", _rmse, False),
        Metric("mse", mean_squared_error, False),
        Metric("mae", mean_absolute_error, False),
        Metric("mape", mean_absolute_percentage_error, False),
        Metric("rmsle", _rmsle, False),
        Metric("r2", r2_score, True),
        Metric("mphe", mean_pseudo_huber_error, False),
        Metric("logcosh", _log_cosh, False),
        Metric("quantile", mean_pinball_loss, False),
        Metric("expectile", mean_expectile_loss, False),
        Metric("poisson-nloglik", poisson_nloglik, False),
        Metric("gamma-nloglik", gamma_nloglik, False),
        Metric("gamma-deviance", gamma_deviance, False),
        Metric("tweedie-nloglik", tweedie_nloglik, False),
        Metric("logloss", _coded_log_loss, False),
        Metric("mlogloss", _coded_log_loss, False),
        Metric("error", _binary_error, False),
        Metric("merror", _multiclass_error, False),
        Metric("brier", _coded_brier, False),
        Metric("auc", _auc, True),
        Metric("aucpr", _aucpr, True),
    )
}

# Metrics with a parameter: its name and its range.
_PARAMETERS: dict[str, tuple[str, float, float]] = {
    "error": ("threshold", 0, 1),
    "tweedie-nloglik": ("rho", 1, 2),
    "mphe": ("slope", 0, math.inf),
    "quantile": ("alpha", 0, 1),
    "expectile": ("alpha", 0, 1),
}


def get_metric(name: str, **parameters: Any) -> Metric:
    """Return a metric by name, or raise a ValueError that lists all names.

    A parameter after an @ takes precedence over `parameters`, of which others than the metric's
    own are ignored.
    """
    base, _, text = name.partition("@") if isinstance(name, str) else (None, "", "")
    if base not in METRICS or ("@" in name and base not in _PARAMETERS):
        raise ValueError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}") from None
    metric = METRICS[base]
    if base not in _PARAMETERS:
        return metric
    key, low, high = _PARAMETERS[base]
    if "@" in name:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise ValueError(f"the metric {name!r} needs a number from {low} to {high} after the @")
        parameters = {key: value}
    if parameters.get(key) is None:
        return metric
    bound = functools.partial(metric.function, **{key: parameters[key]})
    return Metric(name, bound, metric.maximize)


def takes_weight(function: Callable[..., Any]) -> bool:
    """Whether a function takes `sample_weight` as a keyword."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a builtin
        return False
    named = parameters.get("sample_weight")
    if named is not None:
        return named.kind is not inspect.Parameter.POSITIONAL_ONLY
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def callable_metric(function: Callable[..., Any], maximize: bool = False) -> Metric:
    """Make a metric from ``function(y_true, y_pred[, sample_weight]) -> float``, named after it."""
    if not callable(function):
        raise TypeError(f"eval_metric must be a name or a callable, got {function!r}")
    name = getattr(function, "__name__", type(function).__name__)
    weighs = takes_weight(function)

    def evaluate(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
        given = {} if sample_weight is None or not weighs else {"sample_weight": sample_weight}
        score = function(y_true, y_pred, **given)
        if isinstance(score, np.ndarray) and score.size == 1:
            score = score.item()
        if not isinstance(score, Real):
            raise ValueError(f"the metric {name} must return a number, got {score!r}")
        return float(score)

    return Metric(name, evaluate, maximize)
