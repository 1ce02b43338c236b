"""Checks and means that all metrics share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees.input.targets import check_sample_weight, check_target_regression


def regression_pair(
    y_true: Any, y_pred: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return targets and predictions of one shape, and the weights."""
    y_true = check_target_regression(y_true, multi_output=True, name="y_true")
    y_pred = check_target_regression(y_pred, multi_output=True, name="y_pred")
    check_same_length(y_true, y_pred)
    if y_true.shape != y_pred.shape:
        if y_true.size != y_pred.size:
            raise ValueError(f"y_true has the shape {y_true.shape}, y_pred {y_pred.shape}")
        y_true, y_pred = y_true.ravel(), y_pred.ravel()
    return y_true, y_pred, check_sample_weight(sample_weight, len(y_true))


def mean_loss(
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    y_true: Any,
    y_pred: Any,
    sample_weight: Any,
) -> float:
    """Weighted mean, over rows and outputs, of a function of checked targets and predictions."""
    y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
    return mean(loss(y_true, y_pred), weight)


def root_mean_square(error: np.ndarray, weight: np.ndarray | None) -> float:
    """Root of the weighted mean of squares; with several outputs the mean of their roots."""
    return float(np.sqrt(row_average(error * error, weight)).mean())


def label_vector(labels: Any, name: str) -> np.ndarray:
    """Labels as a vector; numbers of all kinds and text are kept as they are."""
    if not isinstance(labels, np.ndarray) and hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.ravel()
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got the shape {labels.shape}")
    return labels


def check_same_length(y_true: np.ndarray, y_pred: np.ndarray) -> None:
    """Refuse predictions of another number of rows."""
    if y_pred.ndim == 0 or len(y_true) != len(y_pred):
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: the targets have "
            f"{len(y_true)} rows, the predictions have the shape {y_pred.shape}"
        )


def probabilities(y_proba: Any) -> np.ndarray:
    """Return probabilities as floats, a single column as a vector."""
    proba = np.asarray(y_proba)
    if proba.dtype.kind != "f":
        proba = proba.astype(np.float64)
    if proba.ndim == 2 and proba.shape[1] == 1:
        proba = proba[:, 0]
    return proba


def check_probabilities(proba: np.ndarray) -> None:
    """Refuse what is not from 0 to 1."""
    if not (proba.min() >= 0 and proba.max() <= 1):  # NaN fails both comparisons
        raise ValueError("y_proba must hold probabilities from 0 to 1")


def check_n_columns(n_classes: int, proba: np.ndarray, name: str = "y_proba") -> None:
    """Refuse probabilities of another number of classes."""
    n_columns = 2 if proba.ndim == 1 else proba.shape[1]
    if n_classes != n_columns:
        raise ValueError(
            f"y_true holds {n_classes} classes, but {name} has {n_columns} columns; "
            "name all classes in `labels`"
        )


def known_classes(labels: Any) -> np.ndarray | None:
    """Return the classes that the caller names, sorted; None where there are none named."""
    return None if labels is None else np.unique(np.asarray(labels))


def row_average(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Weighted mean over the rows."""
    return np.average(values, axis=0, weights=weight)


def mean(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Weighted mean over the rows, and over columns if there are several."""
    return float(np.mean(row_average(values, weight)))
