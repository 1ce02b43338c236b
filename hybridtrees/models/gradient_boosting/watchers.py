"""Watchers of gradient boosting: losses in training, out of bag and in validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric
from hybridtrees.models.shared.boosting import EvalSet, Training, Watcher
from hybridtrees.models.shared.boosting_evaluation import read_metrics
from hybridtrees.models.shared.watchers import EarlyStopping, Evaluation

# Stands for the loss that is minimised; `LossEvaluation` computes it from raw scores.
LOSS = Metric("loss", lambda *_args, **_named: math.nan, False)


@dataclass(eq=False)
class LossCurves(Watcher):
    """Loss on the rows of each round, and on the rows that are out of bag.

    The latter is NaN for rounds grown on all rows, and empty if all rounds are.
    """

    loss: Loss
    y: np.ndarray
    weight: np.ndarray | None
    train: list[float] = field(default_factory=list)
    oob: list[float] = field(default_factory=list)
    oob_improvement: list[float] = field(default_factory=list)
    _before: float = math.nan

    def resume(self, train: np.ndarray, oob: np.ndarray, improvement: np.ndarray) -> None:
        """Continue the curves of an earlier fit."""
        self.train, self.oob = train.tolist(), oob.tolist()
        self.oob_improvement = improvement.tolist()

    def before_round(self, training: Training) -> bool:
        """Keep the out-of-bag loss before the round; compute it if the last round has none."""
        if training.rows is not None:
            self._before = self.oob[-1] if self.oob else math.nan
            if math.isnan(self._before):
                self._before = self._mean(training, self._left_out(training))
        return False

    def after_round(self, training: Training) -> bool:
        """Compute the losses after the round."""
        rows = training.rows
        self.train.append(self._mean(training, rows))
        if not math.isfinite(self.train[-1]):
            raise ValueError(
                f"the training loss is {self.train[-1]} after round {training.round}: lower "
                "learning_rate or scale y down"
            )
        if rows is not None:
            loss = self._mean(training, self._left_out(training))
            self._add_oob(loss, self._before - loss)
        elif self.oob:
            self._add_oob(math.nan, math.nan)
        return False

    def _add_oob(self, loss: float, improvement: float) -> None:
        """Add the out-of-bag values of the latest round; NaN for earlier rounds without any."""
        for curve, value in ((self.oob, loss), (self.oob_improvement, improvement)):
            curve.extend([math.nan] * (len(self.train) - 1 - len(curve)))
            curve.append(value)

    def latest(self) -> list[str]:
        """Return the losses of the latest round as short texts."""
        texts = [f"loss:{self.train[-1]:.5f}"]
        if self.oob and not math.isnan(self.oob[-1]):
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
    """Return the mean loss of some rows in scikit-learn's unit, NaN without rows."""
    if rows is not None:
        if len(rows) == 0:
            return math.nan
        y, raw = y[rows], np.ascontiguousarray(raw[rows])
        weight = None if weight is None else weight[rows]
    return float(loss.deviance_factor * loss.mean_loss(y, raw, weight, n_threads))


def read_loss_metrics(loss: Loss, eval_metric: Any) -> list[Metric]:
    """Return the metrics of `eval_metric`; "loss", the default, is `LOSS`."""
    return read_metrics(loss, "loss" if eval_metric is None else eval_metric, also=[LOSS])


class LossEvaluation(Evaluation):
    """Scores the validation tables; `LOSS` is computed from raw scores."""

    def table_scores(self, table: EvalSet, n_threads: int) -> list[float]:
        """Return the score of each metric."""
        assert table.raw is not None
        others = iter(self.by_metrics(table, [m for m in self.metrics if m is not LOSS]))
        return [
            mean_deviance(self.loss, table.y, table.raw, table.weight, None, n_threads)
            if metric is LOSS
            else next(others)
            for metric in self.metrics
        ]


class NoChange(EarlyStopping):
    """Stops by scikit-learn's rule, and tracks the best round.

    It stops when the score is not better, by `tol`, than any of the `patience` scores before it.
    """

    def __init__(self, evaluation: Evaluation, patience: int | None, tol: float):
        super().__init__(evaluation, patience)
        self.tol = tol

    def before_training(self, training: Training) -> None:
        """Find the best round of an earlier fit."""
        curve = self.evaluation.stopping_curve()
        if curve:
            signed = np.array(curve) * (-1 if self.evaluation.metrics[-1].maximize else 1)
            best = int(np.nanargmin(signed)) if not np.isnan(signed).all() else None
            if best is not None:
                self.best_score = curve[best]
                self.best_round = training.rounds.start - len(curve) + best

    def after_round(self, training: Training) -> bool:
        """Compare the latest score with the best, and with the ones just before it."""
        super().after_round(training)
        curve = self.evaluation.stopping_curve()
        if self.patience is None or len(curve) <= self.patience:
            return False
        score, recent = curve[-1], curve[-self.patience - 1 : -1]
        if self.evaluation.metrics[-1].maximize:
            return not any(score - self.tol > before for before in recent)
        return not any(score + self.tol < before for before in recent)


@dataclass(eq=False)
class Monitor(Watcher):
    """Calls ``function(round, estimator, state)`` after every round; True ends the training.

    Before that, `keep` sets the fitted attributes of the estimator.
    """

    function: Callable[..., Any]
    estimator: Any
    keep: Callable[[], None]

    def after_round(self, training: Training) -> bool:
        """Call the function."""
        self.keep()
        state = {"raw_predictions": training.steps.raw, "rows": training.rows}
        return bool(self.function(training.round, self.estimator, state))
