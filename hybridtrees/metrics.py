"""Scores and losses, with row weights.

The functions take targets and predictions in the order and under the names that scikit-learn
uses and give the same numbers. `METRICS` lists those that can watch over training, under the
names that xgboost gives them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hybridtrees._targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)

__all__ = [
    "METRICS",
    "Metric",
    "accuracy_score",
    "error_rate",
    "get_metric",
    "log_loss",
    "mean_absolute_error",
    "mean_squared_error",
    "r2_score",
    "roc_auc_score",
    "root_mean_squared_error",
]


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
    y_true, y_pred, weight = _regression_pair(y_true, y_pred, sample_weight)
    error = y_true - y_pred
    return _mean(error * error, weight)


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
    y_true, y_pred, weight = _regression_pair(y_true, y_pred, sample_weight)
    error = y_true - y_pred
    return float(np.sqrt(_row_average(error * error, weight)).mean())


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
    y_true, y_pred, weight = _regression_pair(y_true, y_pred, sample_weight)
    return _mean(np.abs(y_true - y_pred), weight)


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
    y_true, y_pred, weight = _regression_pair(y_true, y_pred, sample_weight)
    if len(y_true) < 2:
        warnings.warn("R2 is not defined for fewer than two rows", UserWarning, stacklevel=2)
        return math.nan
    error = np.atleast_1d(_row_average((y_true - y_pred) ** 2, weight))
    centre = _row_average(y_true, weight)
    spread = np.atleast_1d(_row_average((y_true - centre) ** 2, weight))
    score = np.where(error == 0, 1.0, 0.0)
    varied = spread != 0
    score[varied] = 1.0 - error[varied] / spread[varied]
    return float(score.mean())


def accuracy_score(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Share (by weight) of rows whose label is predicted rightly.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        Labels: numbers or strings.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    score : float
    """
    y_true, y_pred = _label_vector(y_true, "y_true"), _label_vector(y_pred, "y_pred")
    _check_same_length(y_true, y_pred)
    right = np.asarray(y_true == y_pred)
    if right.shape != y_true.shape:  # NumPy gives up on comparing text with numbers
        right = np.zeros(len(y_true), dtype=bool)
    return _mean(right, check_sample_weight(sample_weight, len(y_true)))


def error_rate(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Share (by weight) of rows whose label is predicted wrongly.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        Labels: numbers or strings.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    loss : float
    """
    return 1.0 - accuracy_score(y_true, y_pred, sample_weight=sample_weight)


def log_loss(y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> float:
    """Mean negative logarithm of the probability given to the true class.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Labels.
    y_proba : array-like of shape (n_rows,) or (n_rows, n_classes)
        Probability of the second of two classes, or of each class in sorted order.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.
    labels : array-like, optional
        All classes, needed where `y_true` does not hold each of them.

    Returns
    -------
    loss : float
    """
    proba = np.asarray(y_proba)
    if proba.dtype.kind != "f":
        proba = proba.astype(np.float64)
    classes = None if labels is None else np.unique(np.asarray(labels))
    codes, classes = check_target_classification(y_true, classes=classes, name="y_true")
    _check_same_length(codes, proba)
    if proba.ndim == 2 and proba.shape[1] == 1:
        proba = proba[:, 0]
    n_classes = 2 if proba.ndim == 1 else proba.shape[1]
    if len(classes) != n_classes:
        raise ValueError(
            f"y_true holds {len(classes)} classes, but y_proba has {n_classes} columns; "
            "name all classes in `labels`"
        )
    _check_probabilities(proba)
    if proba.ndim == 1:
        chosen = np.where(codes == 1, proba, 1 - proba)
    else:
        chosen = proba[np.arange(len(codes)), codes]
    tiny = np.finfo(proba.dtype).eps
    loss = -np.log(np.clip(chosen, tiny, 1 - tiny))
    return _mean(loss, check_sample_weight(sample_weight, len(codes)))


def roc_auc_score(y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
    """Area under the ROC curve: the chance that a positive row is scored above a negative one.

    Ties count one half. The rows are sorted once.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
        Labels of two classes; the larger one is positive.
    y_score : array-like of shape (n_rows,)
        Scores, such as probabilities of the positive class.
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    score : float
        NaN (with a warning) if only one class is present.
    """
    codes, classes = check_target_classification(y_true, name="y_true")
    score = np.asarray(y_score)
    score = (
        check_target_regression(score, len(codes), name="y_score")
        if (score.dtype.kind != "f" or score.ndim != 1)
        else score
    )
    _check_same_length(codes, score)
    if np.isnan(score).any():
        raise ValueError("Input y_score contains NaN")
    if len(classes) > 2:
        raise ValueError(f"roc_auc_score needs two classes, y_true holds {len(classes)}")
    weight = check_sample_weight(sample_weight, len(codes))
    if len(classes) < 2:
        warnings.warn(
            "only one class is present: the area under the ROC curve is not defined",
            UserWarning,
            stacklevel=2,
        )
        return math.nan
    return _area_under_roc(codes, score, weight)


def _area_under_roc(codes: np.ndarray, score: np.ndarray, weight: np.ndarray | None) -> float:
    order = np.argsort(score)
    score = score[order]
    positive = codes[order].astype(np.float64)
    negative = 1.0 - positive
    if weight is not None:
        weight = weight[order]
        positive *= weight
        negative *= weight
    # Last row of each run of equal scores; sums up to there include the whole tie.
    last = np.append(np.flatnonzero(score[1:] != score[:-1]), len(score) - 1)
    positive = np.cumsum(positive)[last]
    negative = np.cumsum(negative)[last]
    # Trapezoids: a tie's positives stand above all earlier negatives and half of its own.
    width = np.diff(positive, prepend=0.0)
    height = negative - 0.5 * np.diff(negative, prepend=0.0)
    total = positive[-1] * negative[-1]
    return float(np.dot(width, height) / total) if total > 0 else math.nan


class Metric(NamedTuple):
    """A function that can watch over training.

    Attributes
    ----------
    name : str
        The name by which it is asked for and reported.
    function : callable
        Takes targets (numbers, or codes of classes), predictions and `sample_weight`.
        Predictions of classifiers are probabilities: of the second class for two classes, of
        each class in columns for more.
    maximize : bool
        Whether larger is better.
    """

    name: str
    function: Callable[..., float]
    maximize: bool


def _binary_error(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    return error_rate(y_true, np.asarray(y_proba) > 0.5, sample_weight=sample_weight)


def _multiclass_error(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    return error_rate(y_true, np.argmax(y_proba, axis=1), sample_weight=sample_weight)


def _coded_log_loss(y_true: Any, y_proba: Any, *, sample_weight: Any = None) -> float:
    proba = np.asarray(y_proba)
    labels = range(2 if proba.ndim == 1 else proba.shape[1])
    return log_loss(y_true, proba, sample_weight=sample_weight, labels=list(labels))


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("rmse", root_mean_squared_error, False),
        Metric("mse", mean_squared_error, False),
        Metric("mae", mean_absolute_error, False),
        Metric("r2", r2_score, True),
        Metric("logloss", _coded_log_loss, False),
        Metric("mlogloss", _coded_log_loss, False),
        Metric("error", _binary_error, False),
        Metric("merror", _multiclass_error, False),
        Metric("auc", roc_auc_score, True),
    )
}


def get_metric(name: str) -> Metric:
    """Return the metric of a name, or raise a ValueError that lists the names there are."""
    try:
        return METRICS[name]
    except (KeyError, TypeError):
        raise ValueError(f"unknown metric {name!r}; the metrics are {', '.join(METRICS)}") from None


def _regression_pair(
    y_true: Any, y_pred: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    y_true = check_target_regression(y_true, multi_output=True, name="y_true")
    y_pred = check_target_regression(y_pred, multi_output=True, name="y_pred")
    _check_same_length(y_true, y_pred)
    if y_true.shape != y_pred.shape:
        if y_true.size != y_pred.size:
            raise ValueError(f"y_true has the shape {y_true.shape}, y_pred {y_pred.shape}")
        y_true, y_pred = y_true.ravel(), y_pred.ravel()
    return y_true, y_pred, check_sample_weight(sample_weight, len(y_true))


def _label_vector(labels: Any, name: str) -> np.ndarray:
    """Labels as a vector; numbers of all kinds and text are kept as they are."""
    if not isinstance(labels, np.ndarray) and hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.ravel()
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got the shape {labels.shape}")
    return labels


def _check_same_length(y_true: np.ndarray, y_pred: np.ndarray) -> None:
    if y_pred.ndim == 0 or len(y_true) != len(y_pred):
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: the targets have "
            f"{len(y_true)} rows, the predictions have the shape {y_pred.shape}"
        )


def _check_probabilities(proba: np.ndarray) -> None:
    if not (proba.min() >= 0 and proba.max() <= 1):  # NaN fails both comparisons
        raise ValueError("y_proba must hold probabilities from 0 to 1")


def _row_average(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.average(values, axis=0, weights=weight)


def _mean(values: np.ndarray, weight: np.ndarray | None) -> float:
    return float(np.mean(_row_average(values, weight)))
