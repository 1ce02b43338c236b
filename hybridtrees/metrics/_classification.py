"""Metrics of classification, from predicted labels or probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.core.base.exact_sum import group_sums
from hybridtrees.input.targets import check_sample_weight, check_target_classification
from hybridtrees.metrics._checks import (
    LABELS,
    WEIGHT,
    check_n_columns,
    check_probabilities,
    check_same_length,
    documented,
    known_classes,
    label_vector,
    mean,
    probabilities,
)

_PREDICTED = """y_true, y_pred : array-like of shape (n_rows,)
    Labels: numbers or strings."""
_PROBABLE = (
    """y_true : array-like of shape (n_rows,)
    Labels.
y_proba : array-like of shape (n_rows,) or (n_rows, n_classes)
    Probability of the second of two classes, or of each class in sorted order.""",
    WEIGHT,
    LABELS,
)


@documented(_PREDICTED, WEIGHT, returns="score : float")
def accuracy_score(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Accuracy: weighted share of rows whose label is predicted correctly."""
    y_true, y_pred = label_vector(y_true, "y_true"), label_vector(y_pred, "y_pred")
    check_same_length(y_true, y_pred)
    right = np.asarray(y_true == y_pred)
    if right.shape != y_true.shape:  # NumPy does not compare text with numbers
        right = np.zeros(len(y_true), dtype=bool)
    return mean(right, check_sample_weight(sample_weight, len(y_true)))


@documented(_PREDICTED, WEIGHT, returns="loss : float")
def error_rate(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    """Error rate: weighted share of rows whose label is predicted wrongly."""
    return 1.0 - accuracy_score(y_true, y_pred, sample_weight=sample_weight)


def f1_score(
    y_true: Any,
    y_pred: Any,
    *,
    average: str | None = "binary",
    pos_label: Any = 1,
    sample_weight: Any = None,
) -> Any:
    """F1 score: harmonic mean of precision and recall.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        Labels.
    average : {"binary", "macro", "micro", "weighted"} or None
        "binary": the score of `pos_label`. "macro": the mean over all classes. "micro": the score
        from the sums of the counts of all classes. "weighted": the mean, weighted by the shares
        of the classes in `y_true`. None: the scores of all classes, in sorted order.
    pos_label : label
        The positive class of "binary".
    sample_weight : array-like of shape (n_rows,), optional
        Row weights.

    Returns
    -------
    score : float or ndarray of shape (n_classes,)
        0 for a class that is neither present nor predicted.
    """
    check_option("average", average, ("binary", "macro", "micro", "weighted", None))
    y_true, y_pred = label_vector(y_true, "y_true"), label_vector(y_pred, "y_pred")
    check_same_length(y_true, y_pred)
    try:
        classes, codes = np.unique(np.concatenate([y_true, y_pred]), return_inverse=True)
    except TypeError:
        raise TypeError("y_true and y_pred hold labels of kinds that cannot be compared") from None
    true, predicted = codes[: len(y_true)], codes[len(y_true) :]
    weight = check_sample_weight(sample_weight, len(y_true))
    n_classes, hit = len(classes), true == predicted
    present = group_sums(true, n_classes, weight)
    claimed = group_sums(predicted, n_classes, weight)
    right = group_sums(true[hit], n_classes, None if weight is None else weight[hit])
    if average == "binary":
        if n_classes > 2:
            raise ValueError(
                f"average='binary' is for two classes, the labels are {n_classes}; choose "
                "'weighted', 'macro', 'micro' or None"
            )
        hits = np.flatnonzero(classes == pos_label)
        if not len(hits) and n_classes == 2:
            raise ValueError(f"pos_label={pos_label!r} is not among the labels {list(classes)}")
        return float(_f1(right, present, claimed)[hits[0]]) if len(hits) else 0.0
    if average == "micro":
        return float(_f1(right.sum(), present.sum(), claimed.sum()))
    scores = _f1(right, present, claimed)
    if average is None:
        return scores
    return float(np.average(scores, weights=present if average == "weighted" else None))


def _f1(right: Any, present: Any, claimed: Any) -> np.ndarray:
    total = np.asarray(present + claimed)
    scores = np.zeros_like(total)
    np.divide(2.0 * right, total, out=scores, where=total > 0)
    return scores


@documented(*_PROBABLE, returns="loss : float")
def log_loss(y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> float:
    """Log-loss: mean negative logarithm of the probability of the true class."""
    codes, proba = _coded(y_true, y_proba, labels)
    if proba.ndim == 1:
        chosen = np.where(codes == 1, proba, 1 - proba)
    else:
        chosen = proba[np.arange(len(codes)), codes]
    tiny = np.finfo(proba.dtype).eps
    loss = -np.log(np.clip(chosen, tiny, 1 - tiny))
    return mean(loss, check_sample_weight(sample_weight, len(codes)))


@documented(
    *_PROBABLE,
    returns="""loss : float
    From 0 to 1 for two classes; from 0 to 2, summed over the columns, for more.""",
)
def brier_score_loss(
    y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
) -> float:
    """Brier score: mean squared difference between probabilities and true classes."""
    codes, proba = _coded(y_true, y_proba, labels)
    weight = check_sample_weight(sample_weight, len(codes))
    if proba.ndim == 2 and proba.shape[1] > 2:
        missed = np.eye(proba.shape[1])[codes] - proba
        return mean((missed * missed).sum(axis=1), weight)
    positive = (proba if proba.ndim == 1 else proba[:, 1]).astype(np.float64)
    return mean((codes - positive) ** 2, weight)


def _coded(y_true: Any, y_proba: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return checked class codes and probabilities."""
    proba = probabilities(y_proba)
    codes, classes = check_target_classification(
        y_true, classes=known_classes(labels), name="y_true"
    )
    check_same_length(codes, proba)
    check_n_columns(len(classes), proba)
    check_probabilities(proba)
    return codes, proba
