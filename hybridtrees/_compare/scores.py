"""The scores by which models are compared, and the predictions that they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees import metrics


@dataclass(frozen=True)
class Prediction:
    """Predictions of a model for some rows."""

    value: np.ndarray  # (n_rows,): numbers; for classes the code of the likeliest
    proba: Any = None  # (n_rows, n_classes): probabilities of all classes
    # (n_rows,): what orders the rows of two classes. Not always a function of the probability:
    # RERF clips its sums into probabilities, which makes ties
    rank: Any = None

    @property
    def codes(self) -> list[int]:
        """Codes of all classes."""
        return list(range(self.proba.shape[1]))

    @property
    def positive(self) -> np.ndarray:
        """Probability of the second of two classes, or of each of more."""
        proba: np.ndarray = self.proba
        return proba[:, 1] if proba.shape[1] == 2 else proba


def predict(model: Any, X: Any, n_classes: int) -> Prediction:
    """Predict rows by a model that knows classes by their codes, though perhaps not all of them."""
    if not n_classes:
        return Prediction(np.asarray(model.predict(X), dtype=np.float64))
    known = np.asarray(model.predict_proba(X), dtype=np.float64)
    proba = np.zeros((len(known), n_classes))
    proba[:, np.asarray(model.classes_, dtype=np.intp)] = known
    rank = proba[:, -1]
    if n_classes == 2 and len(model.classes_) == 2 and hasattr(model, "decision_function"):
        rank = np.asarray(model.decision_function(X), dtype=np.float64)
    return Prediction(proba.argmax(axis=1), proba, rank)


def _auc(y: np.ndarray, predicted: Prediction) -> float:
    """Two classes: the area; more: each against the rest, weighted by the shares of classes."""
    n_classes = len(predicted.codes)
    counts = np.bincount(y, minlength=n_classes)
    if np.count_nonzero(counts) < 2:
        return math.nan
    if n_classes == 2:
        return float(metrics.roc_auc_score(y, predicted.rank))
    areas = metrics.roc_auc_score(
        y, predicted.positive, average=None, multi_class="ovr", labels=predicted.codes
    )
    # A class without a row has no area.
    return float(np.average(areas[counts > 0], weights=counts[counts > 0]))


def _of_values(function: Callable[..., float]) -> Callable[[np.ndarray, Prediction], float]:
    return lambda y, predicted: function(y, predicted.value)


def _of_shares(function: Callable[..., float]) -> Callable[[np.ndarray, Prediction], float]:
    return lambda y, predicted: function(y, predicted.positive, labels=predicted.codes)


@dataclass(frozen=True)
class Score:
    """A score."""

    name: str  # What users call it
    label: str  # What tables call it
    task: str
    maximize: bool  # Whether larger is better
    # Largest relative difference between validation and training that counts as no overfitting,
    # by default: a tenth of a score, and for an error, which may come near 0 on the training
    # rows, the error itself. The published study chose by eye, and below these
    limit: float
    # Of the true values or codes, and a `Prediction`
    function: Callable[[np.ndarray, Prediction], float]
    # The same for many resamples at once; see `resampled`
    by_counts: Callable[[np.ndarray, Prediction, np.ndarray], np.ndarray]

    def __call__(self, y: np.ndarray, predicted: Prediction) -> float:
        """Return the score of a prediction."""
        return float(self.function(y, predicted))

    def resampled(self, y: np.ndarray, predicted: Prediction, counts: np.ndarray) -> np.ndarray:
        """Return the score of each resample, a row of counts; NaN where it is not defined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.by_counts(y, predicted, counts)

    def key(self, value: float) -> float:
        """Return what sorts the best first; undefined scores last."""
        if math.isnan(value):
            return math.inf
        return -value if self.maximize else value

    def delta(self, train: float, validation: float) -> float:
        """Relative difference between validation and training, in per cent of the latter.

        Negative means overfitting for a score that is to be large, positive for an error.
        """
        if validation == train:
            return 0.0
        return 100.0 * (validation - train) / abs(train) if train else math.inf

    def overfits(self, train: float, validation: float, limit: float | None = None) -> bool:
        """Whether validation is worse than training by more than the limit (a share)."""
        delta = self.delta(train, validation)
        worse = -delta if self.maximize else delta
        return bool(worse > 100.0 * (self.limit if limit is None else limit))


def _weighted_f1(y: np.ndarray, predicted: Prediction) -> float:
    return float(metrics.f1_score(y, predicted.value, average="weighted"))


# ---- Resamples --------------------------------------------------------------------------------


Resampled = Callable[[np.ndarray, Prediction, np.ndarray], np.ndarray]


def _mean_of(loss: Callable[[np.ndarray, Prediction], np.ndarray]) -> Resampled:
    """Mean of what each row adds to a score."""
    return lambda y, predicted, counts: counts @ loss(y, predicted) / counts.sum(axis=1)


def _squared(y: np.ndarray, predicted: Prediction) -> np.ndarray:
    squares: np.ndarray = np.square(y - predicted.value)
    return squares


def _relative(y: np.ndarray, predicted: Prediction) -> np.ndarray:
    size: np.ndarray = np.maximum(np.abs(y), np.finfo(np.float64).eps)
    errors: np.ndarray = np.abs(y - predicted.value) / size
    return errors


def _log_loss(y: np.ndarray, predicted: Prediction) -> np.ndarray:
    tiny = np.finfo(np.float64).eps
    losses: np.ndarray = -np.log(np.clip(predicted.proba[np.arange(len(y)), y], tiny, 1 - tiny))
    return losses


def _brier(y: np.ndarray, predicted: Prediction) -> np.ndarray:
    squares: np.ndarray
    if len(predicted.codes) == 2:
        squares = np.square(predicted.positive - y)
    else:
        squares = np.square(predicted.proba - (y[:, None] == predicted.codes)).sum(axis=1)
    return squares


def _resampled_r2(y: np.ndarray, predicted: Prediction, counts: np.ndarray) -> np.ndarray:
    centred = y - y.mean()  # so that the difference below loses no digits
    total = counts @ centred**2 - (counts @ centred) ** 2 / counts.sum(axis=1)
    return np.where(total > 0, 1 - counts @ _squared(y, predicted) / total, np.nan)


def _resampled_auc(y: np.ndarray, predicted: Prediction, counts: np.ndarray) -> np.ndarray:
    if len(predicted.codes) == 2:
        return _areas(y == 1, predicted.rank, counts)
    shares = np.stack([counts @ (y == k) for k in predicted.codes])
    areas = np.stack([_areas(y == k, predicted.proba[:, k], counts) for k in predicted.codes])
    # A class without a row has no area.
    shares[np.isnan(areas)] = 0.0
    mean: np.ndarray = (shares * np.nan_to_num(areas)).sum(axis=0) / shares.sum(axis=0)
    return mean


def _areas(positive: np.ndarray, rank: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Share of pairs of a positive and another row in the right order; ties count a half."""
    order = np.argsort(rank, kind="stable")
    ties = np.flatnonzero(np.r_[True, np.diff(rank[order]) != 0])
    counts = counts[:, order]
    above = np.add.reduceat(counts * positive[order], ties, axis=1)
    below = np.add.reduceat(counts * ~positive[order], ties, axis=1)
    pairs = (above * (np.cumsum(below, axis=1) - 0.5 * below)).sum(axis=1)
    areas: np.ndarray = pairs / (above.sum(axis=1) * below.sum(axis=1))
    return areas


def _resampled_f1(y: np.ndarray, predicted: Prediction, counts: np.ndarray) -> np.ndarray:
    total = np.zeros(len(counts))
    for k in predicted.codes:
        is_class, is_said = y == k, predicted.value == k
        true = counts @ is_class
        both = np.maximum(true + counts @ is_said, 1.0)
        total += true * 2.0 * (counts @ (is_class & is_said)) / both
    mean: np.ndarray = total / counts.sum(axis=1)
    return mean


_NUMBERS, _CLASSES = "regression", "classification"

# The first of each task is the default.
SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score(
            "rmse", "RMSE", _NUMBERS, False, 1.0, _of_values(metrics.root_mean_squared_error),
            lambda *given: np.sqrt(_mean_of(_squared)(*given)),
        ),
        Score(
            "mae", "MAE", _NUMBERS, False, 1.0, _of_values(metrics.mean_absolute_error),
            _mean_of(lambda y, predicted: np.abs(y - predicted.value)),
        ),
        Score("r2", "R2", _NUMBERS, True, 0.1, _of_values(metrics.r2_score), _resampled_r2),
        Score(
            "mape", "MAPE", _NUMBERS, False, 1.0,
            _of_values(metrics.mean_absolute_percentage_error), _mean_of(_relative),
        ),
        Score("auc", "AUC", _CLASSES, True, 0.1, _auc, _resampled_auc),
        Score(
            "logloss", "log-loss", _CLASSES, False, 1.0, _of_shares(metrics.log_loss),
            _mean_of(_log_loss),
        ),
        Score(
            "accuracy", "accuracy", _CLASSES, True, 0.1, _of_values(metrics.accuracy_score),
            _mean_of(lambda y, predicted: predicted.value == y),
        ),
        Score("f1", "weighted F1", _CLASSES, True, 0.1, _weighted_f1, _resampled_f1),
        Score(
            "brier", "Brier", _CLASSES, False, 1.0, _of_shares(metrics.brier_score_loss),
            _mean_of(_brier),
        ),
    )
}  # fmt: skip


def scores_of(task: str) -> dict[str, Score]:
    """Return the scores of a task by their names, the default first."""
    return {name: score for name, score in SCORES.items() if score.task == task}


def choose_score(name: str | None, task: str) -> Score:
    """Return a score by its name, or the default of the task."""
    known = scores_of(task)
    if name is None:
        return next(iter(known.values()))
    if name not in known:
        raise ValueError(f"score must be one of {', '.join(known)} for {task}, got {name!r}")
    return known[name]
