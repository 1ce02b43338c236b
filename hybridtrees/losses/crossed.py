"""Losses of classes on numbers, and of numbers on classes, as XGBoost's estimators allow.

They share kernels with losses of registry.py and differ in their targets and predictions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hybridtrees.core.tree.additive import Link
from hybridtrees.losses._base import Loss
from hybridtrees.losses._rules import TwoClasses
from hybridtrees.losses.registry import (
    HingeLoss,
    Logistic,
    Softmax,
    SquaredError,
    SquaredLogError,
    row,
)

__all__ = [
    "HingeLabels",
    "LogisticShares",
    "LogitScores",
    "SoftmaxLabels",
    "SoftmaxShares",
    "SquaredErrorOfTwo",
    "SquaredLogErrorOfTwo",
]


@row
class LogisticShares(Logistic):
    """Negative log-likelihood of shares from 0 to 1, which are predicted."""

    kind = "logistic_shares"
    kernel = "logistic"
    task = "regression"
    friedman = ()
    xgboost: tuple[str, ...] = ("reg:logistic", "binary:logistic")
    max_classes = 0
    metrics = ("logloss", "rmse", "mae", "error", "auc", "aucpr", "brier")

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the shares."""
        return self.score_input(raw)

    def output_link(self) -> Link:
        """Return the link from scores to shares."""
        return replace(super().output_link(), of_numbers=True)


@row
class LogitScores(LogisticShares):
    """The same loss; scores are predicted, and `base_score` is one."""

    kind = "logit_scores"
    kernel = "logistic"
    xgboost = ("binary:logitraw",)

    def _start(self, y: np.ndarray, weight: np.ndarray | None, output: int) -> float:
        # XGBoost takes the mean for a score.
        return Loss.link(self, SquaredError._start(self, y, weight, output))

    def link(self, base_score: float) -> float:
        """Return the score unchanged."""
        return base_score

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return Loss.predict(self, raw)

    def output_link(self) -> Link:
        """Return the identity."""
        return Link()


@row
class HingeLabels(HingeLoss):
    """Hinge loss of the numbers 0 and 1, which are predicted."""

    kind = "hinge_labels"
    kernel = "binary_hinge"
    task = "regression"
    max_classes = 0

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return 0 or 1."""
        return self.score_input(raw)

    def output_link(self) -> Link:
        """Return the link from scores to labels."""
        return replace(super().output_link(), of_numbers=True)


class _NumberedClasses(Softmax):
    """Classes numbered from 0 as a target of numbers: their number is that of the largest + 1."""

    task = "regression"
    friedman = ()
    max_classes = 0
    counts_classes = True


@row
class SoftmaxShares(_NumberedClasses):
    """Negative log-likelihood of class numbers; predicts the probability of each."""

    kind = "softmax_shares"
    kernel = "softmax"
    xgboost = ("multi:softprob",)


@row
class SoftmaxLabels(_NumberedClasses):
    """Negative log-likelihood of class numbers, which are predicted."""

    kind = "softmax_labels"
    kernel = "softmax"
    xgboost = ("multi:softmax",)

    def predict(self, raw: np.ndarray) -> np.ndarray:
        """Return the most probable class number."""
        return np.asarray(raw.argmax(axis=1), dtype=np.float64)

    def score_input(self, raw: np.ndarray) -> np.ndarray:
        """Return the probabilities."""
        return super().predict(raw)

    def output_link(self) -> Link:
        """Refuse: no link chooses the largest score."""
        raise TypeError("predictions of 'multi:softmax' are labels: use 'multi:softprob'")


@row
class SquaredErrorOfTwo(TwoClasses):
    """Half the squared error on the numbers 0 and 1 of two classes.

    Predictions, limited to [0, 1], are the probabilities of the second.
    """

    kind = "squared_of_two"
    kernel = "squared"
    xgboost: tuple[str, ...] = ("reg:squarederror", "reg:linear")
    metrics = ("rmse", "mae", "logloss", "error", "auc", "aucpr", "brier")
    score_scale = "portion"
    constant_hessian = True
    border = 0.5
    _start = SquaredError._start

    def link(self, base_score: float) -> float:
        """Return the score unchanged."""
        return base_score

    def _positive(self, raw: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(raw, 0.0, 1.0))


@row
class SquaredLogErrorOfTwo(SquaredErrorOfTwo):
    """Half the squared difference of log(1 + x) on the numbers 0 and 1 of two classes."""

    kind = "squared_log_of_two"
    kernel = "squared_log"
    xgboost = ("reg:squaredlogerror",)
    constant_hessian = False
    _start = SquaredLogError._start
