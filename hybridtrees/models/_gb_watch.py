"""Watchers of Friedman's boosting: losses of the training, out of the bag, in validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees.losses import Loss
from hybridtrees.models._boosting import Training, Watcher


class LossCurves(Watcher):
    """Loss of the rows that a tree was grown on, and of those that were left out.

    Parameters
    ----------
    loss : Loss
    y : float64 array of shape (n_rows,)
    weight : float64 array of shape (n_rows,) or None
    before : LossCurves, optional
        Those of an earlier part of the training, to be continued.

    Attributes
    ----------
    train, oob, oob_improvement : list of float
        One per round; the last two are empty where all rows are used.
    """

    def __init__(self, loss: Loss, y: np.ndarray, weight: np.ndarray | None):
        self.loss = loss
        self.y = y
        self.weight = weight
        self.train: list[float] = []
        self.oob: list[float] = []
        self.oob_improvement: list[float] = []
        self._initial = math.nan

    def resume(self, train: np.ndarray, oob: np.ndarray, improvement: np.ndarray) -> None:
        """Continue the curves of an earlier part of the training."""
        self.train, self.oob = train.tolist(), oob.tolist()
        self.oob_improvement = improvement.tolist()

    def before_round(self, training: Training) -> bool:
        """Take the loss that the first tree improves on."""
        if training.rows is not None and not self.oob:
            self._initial = self._mean(training, self._left_out(training))
        return False

    def after_round(self, training: Training) -> bool:
        """Take the losses after the round."""
        rows = training.rows
        self.train.append(self._mean(training, rows))
        if rows is not None:
            last = self.oob[-1] if self.oob else self._initial
            self.oob.append(self._mean(training, self._left_out(training)))
            self.oob_improvement.append(last - self.oob[-1])
        return False

    def latest(self) -> list[str]:
        """Return the losses of the latest round as short texts."""
        texts = [f"loss:{self.train[-1]:.5f}"]
        if self.oob:
            texts.append(f"out of bag:{self.oob[-1]:.5f}")
        return texts

    def _left_out(self, training: Training) -> np.ndarray:
        left_out = np.ones(len(self.y), dtype=bool)
        left_out[training.rows] = False
        return np.flatnonzero(left_out)

    def _mean(self, training: Training, rows: np.ndarray | None) -> float:
        raw, n_threads = training.steps.raw, training.steps.n_threads
        return mean_deviance(self.loss, self.y, raw, self.weight, rows, n_threads)


def mean_deviance(
    loss: Loss,
    y: np.ndarray,
    raw: np.ndarray,
    weight: np.ndarray | None,
    rows: np.ndarray | None = None,
    n_threads: int = 1,
) -> float:
    """Mean loss of some rows in scikit-learn's unit; nan without rows."""
    if rows is not None:
        if len(rows) == 0:
            return math.nan
        y, raw = y[rows], np.ascontiguousarray(raw[rows])
        weight = None if weight is None else weight[rows]
    return float(loss.deviance_factor * loss.mean_loss(y, raw, weight, n_threads))


class ValidationCurve(Watcher):
    """Loss of the last validation table, and the rule that ends the training by it.

    Parameters
    ----------
    loss : Loss
    patience : int or None
        Stop when the loss is not better than one of so many before it; None to go on.
    tol : float
        By how much it has to be better.
    scores : list of float
        Losses of an earlier part of the training.

    Attributes
    ----------
    scores : list of float
        One per round.
    """

    def __init__(self, loss: Loss, patience: int | None, tol: float, scores: list[float]):
        self.loss = loss
        self.patience = patience
        self.tol = tol
        self.scores = scores

    def after_round(self, training: Training) -> bool:
        """Take the loss after the round."""
        table = training.eval_sets[-1]
        assert table.raw is not None
        score = mean_deviance(
            self.loss, table.y, table.raw, table.weight, None, training.steps.n_threads
        )
        recent = self.scores[-self.patience :] if self.patience else []
        self.scores.append(score)
        if self.patience is None or len(recent) < self.patience:
            return False
        return not any(score + self.tol < before for before in recent)

    def latest(self) -> list[str]:
        """Return the loss of the latest round as a short text."""
        return [f"validation:{self.scores[-1]:.5f}"]


class Monitor(Watcher):
    """Calls a function of the user after every round.

    Parameters
    ----------
    function : callable
        ``function(round, estimator, state)``; a true answer ends the training.
    estimator : Estimator
    keep : callable
        Gives the estimator what is known of the training so far.
    """

    def __init__(
        self,
        function: Callable[[int, Any, dict[str, Any]], Any],
        estimator: Any,
        keep: Callable[[Training], None],
    ):
        self.function = function
        self.estimator = estimator
        self.keep = keep

    def after_round(self, training: Training) -> bool:
        """Ask the function."""
        self.keep(training)
        state = {"raw_predictions": training.steps.raw, "rows": training.rows}
        return bool(self.function(training.round, self.estimator, state))
