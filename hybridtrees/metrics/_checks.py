"""Checks, means and docstring sections that metrics share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.input.targets import check_sample_weight, check_target_regression

Metric = TypeVar("Metric", bound=Callable[..., Any])


def regression_pair(
    y_true: Any, y_pred: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return targets and predictions of equal shape, and the weights."""
    y_true = check_target_regression(y_true, multi_output=True, name="y_true")
    y_pred = check_target_regression(y_pred, multi_output=True, name="y_pred")
    check_same_length(y_true, y_pred)
    if y_true.shape != y_pred.shape:
        raise ValueError(f"y_true has the shape {y_true.shape}, y_pred {y_pred.shape}")
    return y_true, y_pred, check_sample_weight(sample_weight, len(y_true))


def label_vector(labels: Any, name: str) -> np.ndarray:
    """Return labels as a 1-D array of their own dtype."""
    if not isinstance(labels, np.ndarray) and hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    vector = np.asarray(labels)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector.ravel()
    if vector.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got the shape {vector.shape}")
    return vector


def check_same_length(y_true: np.ndarray, y_pred: np.ndarray) -> None:
    """Refuse predictions with another number of rows."""
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
    """Refuse values outside [0, 1]."""
    if not (proba.min() >= 0 and proba.max() <= 1):  # NaN fails both comparisons
        raise ValueError("y_proba must hold probabilities from 0 to 1")


def check_n_columns(n_classes: int, proba: np.ndarray, name: str = "y_proba") -> None:
    """Refuse probabilities of another number of classes than `n_classes`."""
    n_columns = 2 if proba.ndim == 1 else proba.shape[1]
    if n_classes != n_columns:
        raise ValueError(
            f"y_true holds {n_classes} classes, but {name} has {n_columns} columns; "
            "name all classes in `labels`"
        )


def known_classes(labels: Any) -> np.ndarray | None:
    """Return the classes given by the user, sorted, or None."""
    return None if labels is None else np.unique(np.asarray(labels))


def mean(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the weighted mean over the rows, averaged over columns."""
    return float(np.mean(exact_mean(values, weight)))


def root_mean(squares: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the root of the weighted mean, averaged over columns."""
    return float(np.mean(np.sqrt(exact_mean(squares, weight))))


# ---- Metrics that are the mean of a loss of each row ------------------------------------------

PAIR = """y_true, y_pred : array-like of shape (n_rows,) or (n_rows, n_outputs)
    {}"""
WEIGHT = """sample_weight : array-like of shape (n_rows,), optional
    Row weights."""
LABELS = """labels : array-like, optional
    All classes, needed where `y_true` does not hold each of them."""


def documented(*parameters: str, returns: str) -> Callable[[Metric], Metric]:
    """Return a decorator that adds the sections Parameters and Returns to a docstring."""
    sections = f"""

Parameters
----------
{chr(10).join(parameters)}

Returns
-------
{returns}
"""

    def decorate(function: Metric) -> Metric:
        function.__doc__ = inspect.cleandoc(function.__doc__ or "") + sections
        return function

    return decorate


def row_mean(
    pair: str = "Targets and predictions.",
    *more: str,
    note: str = "",
    average: Callable[[np.ndarray, np.ndarray | None], float] = mean,
) -> Callable[[Metric], Callable[..., float]]:
    """Return a decorator that turns a loss of each row into a metric: its mean, after checks.

    In the docstring `pair` and `more` describe the parameters, `note` the result.
    """

    def decorate(loss: Metric) -> Callable[..., float]:
        def metric(y_true: Any, y_pred: Any, *, sample_weight: Any = None, **given: Any) -> float:
            y_true, y_pred, weight = regression_pair(y_true, y_pred, sample_weight)
            return average(loss(y_true, y_pred, **given), weight)

        functools.update_wrapper(
            metric, loss, ("__module__", "__name__", "__qualname__", "__doc__")
        )
        own = inspect.signature(metric, follow_wrapped=False).parameters
        named = list(inspect.signature(loss).parameters.values())[2:]
        metric.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*list(own.values())[:3], *named], return_annotation="float"
        )
        returns = "loss : float" + (f"\n    {note}" if note else "")
        return documented(PAIR.format(pair), WEIGHT, *more, returns=returns)(metric)

    return decorate
