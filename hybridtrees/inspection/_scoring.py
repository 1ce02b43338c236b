"""Scores of a fitted model by name: larger is better, losses are negated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from hybridtrees import metrics
from hybridtrees.input.targets import check_target_classification
from hybridtrees.metrics import METRICS, Metric, get_metric

# Names of scikit-learn for the same scores.
ALIASES = {
    "neg_root_mean_squared_error": "rmse",
    "neg_mean_squared_error": "mse",
    "neg_mean_absolute_error": "mae",
    "neg_log_loss": "logloss",
    "roc_auc": "auc",
}
_ON_LABELS = {
    "accuracy": Metric("accuracy", metrics.accuracy_score, True),
    "error": Metric("error", metrics.error_rate, False),
    "merror": Metric("merror", metrics.error_rate, False),
}
_FOR_CLASSES = ("logloss", "mlogloss", "error", "merror", "brier", "auc", "aucpr", "accuracy")


class Predictions:
    """Predictions of a model for a table, computed at most once."""

    def __init__(self, estimator: Any, table: Any) -> None:
        self.estimator, self.table = estimator, table

    @cached_property
    def labels(self) -> np.ndarray:
        """Predicted numbers or labels."""
        return cast(np.ndarray, self.estimator.predict(self.table))

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Probability of the second of two classes, else of each class."""
        proba = np.asarray(self.estimator.predict_proba(self.table))
        return proba[:, 1] if proba.shape[1] == 2 else proba


@dataclass(frozen=True)
class Scorer:
    """A score of (predictions, y, sample_weight)."""

    measure: Callable[[Predictions, Any, Any], float]  # the value as the metric defines it
    maximize: bool = True
    negated: bool = False  # whether the caller asks for the negative, as by "neg_log_loss"
    staged: bool = True  # whether it needs predictions only, not the model itself

    def reported(self, predictions: Predictions, y: Any, weight: Any) -> float:
        """Return the value under the name and sign that the caller asked for."""
        value = self.measure(predictions, y, weight)
        return -value if self.negated else value

    def __call__(self, predictions: Predictions, y: Any, weight: Any) -> float:
        """Return the value, negated where smaller is better."""
        value = self.measure(predictions, y, weight)
        return value if self.maximize else -value


def make_scorers(scoring: Any, estimator: Any) -> dict[str, Scorer]:
    """Return functions of (predictions, y, sample_weight) by name, from the parameter `scoring`."""
    if scoring is None:
        scoring = "accuracy" if hasattr(estimator, "classes_") else "r2"
    if isinstance(scoring, Mapping):
        pairs = list(scoring.items())
    elif isinstance(scoring, list | set) or type(scoring) is tuple:
        pairs = [(_name_of(item), item) for item in scoring]
    else:
        pairs = [(_name_of(scoring), scoring)]
    if not pairs:
        raise ValueError("scoring must name at least one score, got an empty collection")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(f"scoring names a score twice: {[name for name, _ in pairs]}")
    return {name: _scorer(item, estimator) for name, item in pairs}


def _name_of(item: Any) -> str:
    if isinstance(item, str):
        return item
    return str(getattr(item, "name", None) or getattr(item, "__name__", None) or repr(item))


def _scorer(item: Any, estimator: Any) -> Scorer:
    if isinstance(item, str):
        return _named_scorer(item, estimator)
    if isinstance(item, Metric):
        return _metric_scorer(item, estimator)
    if not callable(item):
        raise TypeError(
            "scoring must be a name, a Metric, a function of (estimator, X, y), or a list or dict "
            f"of these, got {item!r}"
        )

    def score(predictions: Predictions, y: Any, weight: Any) -> float:
        extra = {} if weight is None else {"sample_weight": weight}
        return float(item(predictions.estimator, predictions.table, y, **extra))

    return Scorer(score, staged=False)


def _named_scorer(name: str, estimator: Any) -> Scorer:
    known = ALIASES.get(name, name)
    if known in _ON_LABELS:
        return _metric_scorer(_ON_LABELS[known], estimator)
    if known.partition("@")[0] not in METRICS:
        names = ", ".join([*METRICS, "accuracy", *ALIASES])
        raise ValueError(f"scoring names the unknown score {name!r}; the scores are {names}")
    scorer = _metric_scorer(get_metric(known), estimator)
    return replace(scorer, negated=name.startswith("neg_"))


def _metric_scorer(metric: Metric, estimator: Any) -> Scorer:
    """Score by a metric; for a classifier, from class codes and probabilities."""
    classes = getattr(estimator, "classes_", None)
    if classes is None and metric.name.partition("@")[0] in _FOR_CLASSES:
        raise ValueError(
            f"scoring={metric.name!r} needs a classifier, got {type(estimator).__name__}"
        )
    on_labels = classes is None or metric in _ON_LABELS.values()
    if not on_labels and not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"scoring={metric.name!r} needs predict_proba, which {type(estimator).__name__} "
            "does not have"
        )

    def score(predictions: Predictions, y: Any, weight: Any) -> float:
        if on_labels:
            return metric.function(y, predictions.labels, sample_weight=weight)
        codes, _ = check_target_classification(y, classes=classes)
        return metric.function(codes, predictions.probabilities, sample_weight=weight)

    return Scorer(score, metric.maximize)
