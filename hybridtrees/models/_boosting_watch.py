"""Watchers of the boosting loop: scores, early stopping, progress."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric
from hybridtrees.models._boosting import Training, Watcher

Scores = dict[str, dict[str, list[float]]]


class Evaluation(Watcher):
    """Scores the validation tables by metrics, round by round.

    Parameters
    ----------
    loss : Loss
        Turns raw scores into what the metrics take.
    metrics : sequence of Metric
    scores : dict, optional
        Curves of an earlier part of the training, to be continued.

    Attributes
    ----------
    scores : dict
        ``{"validation_0": {"rmse": [...]}, ...}``
    """

    def __init__(self, loss: Loss, metrics: Sequence[Metric], scores: Scores | None = None):
        self.loss = loss
        self.metrics = metrics
        self.scores: Scores = {
            name: {metric: list(curve) for metric, curve in curves.items()}
            for name, curves in (scores or {}).items()
        }

    def before_training(self, training: Training) -> None:
        """Open a curve for every table and metric."""
        for eval_set in training.eval_sets:
            curves = self.scores.setdefault(eval_set.name, {})
            for metric in self.metrics:
                curves.setdefault(metric.name, [])

    def after_round(self, training: Training) -> bool:
        """Score the tables."""
        for eval_set in training.eval_sets:
            assert eval_set.raw is not None
            prediction = self.loss.score_input(eval_set.raw)
            curves = self.scores[eval_set.name]
            for metric in self.metrics:
                score = metric.function(eval_set.y, prediction, sample_weight=eval_set.weight)
                curves[metric.name].append(float(score))
        return False

    def latest(self) -> list[str]:
        """Return the scores of the latest round as short texts."""
        return [
            f"{name}-{metric}:{curve[-1]:.5f}"
            for name, curves in self.scores.items()
            for metric, curve in curves.items()
            if curve
        ]


class EarlyStopping(Watcher):
    """Ends the training when the last metric on the last table no longer improves.

    Parameters
    ----------
    evaluation : Evaluation
        Stands before this watcher.
    patience : int or None
        Rounds without a better score after which to stop; None to keep track only.

    Attributes
    ----------
    best_round, best_score : int and float, or None before there is a score
    """

    def __init__(self, evaluation: Evaluation, patience: int | None):
        self.evaluation = evaluation
        self.patience = patience
        self.best_round: int | None = None
        self.best_score: float | None = None

    def after_round(self, training: Training) -> bool:
        """Compare the latest score with the best."""
        if not training.eval_sets:
            return False
        metric, table = self.evaluation.metrics[-1], training.eval_sets[-1].name
        score = self.evaluation.scores[table][metric.name][-1]
        if math.isnan(score):
            # Undefined on this table, as the AUC of a single class is: no round would be the best.
            if self.patience is not None:
                raise ValueError(
                    f"early stopping needs a score, but {metric.name} is not defined on {table}"
                )
            return False
        best = self.best_score
        if best is None or (score > best if metric.maximize else score < best):
            self.best_score = score
            self.best_round = training.round
        assert self.best_round is not None
        return self.patience is not None and training.round - self.best_round >= self.patience

    def ending(self, training: Training) -> str:
        """Return how a training that was stopped ended."""
        if self.patience is None:
            return "stopped early"
        return f"stopped early: round {self.best_round} was the best"


class Progress(Watcher):
    """A line every so many rounds, with the time gone and the time to come.

    On a terminal a progress bar stands below the lines, if tqdm is installed. It goes last among
    the watchers, to see that others have ended the training.

    Parameters
    ----------
    every : int
        Rounds from line to line; 0 for silence.
    scores : callable
        Returns what there is to tell, a list of short texts.
    ending : callable
        Returns how a training that was stopped ended.
    """

    def __init__(
        self,
        every: int,
        scores: Callable[[], list[str]],
        ending: Callable[[Training], str] = lambda training: "stopped early",
    ):
        self.every = every
        self.scores = scores
        self.ending = ending
        self._bar: Any = None

    def before_training(self, training: Training) -> None:
        """Start the clock."""
        self._start = time.perf_counter()
        if self.every > 0:
            self._bar = _progress_bar(len(training.rounds))

    def after_round(self, training: Training) -> bool:
        """Print the state of training when its turn has come, and when it ends."""
        if self.every <= 0:
            return False
        if self._bar is not None:
            self._bar.update(1)
        is_last = training.round == training.rounds[-1]
        if (training.n_done - 1) % self.every == 0 or is_last or training.stopped:
            self._print(training)
        return False

    def after_training(self, training: Training) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _print(self, training: Training) -> None:
        elapsed = time.perf_counter() - self._start
        left = elapsed / training.n_done * (len(training.rounds) - training.n_done)
        end = f"at most {left:.1f} s to go"
        if training.stopped:
            end = self.ending(training)
        line = "  ".join([f"[{training.round}]", *self.scores(), f"{elapsed:.1f} s, {end}"])
        if self._bar is not None:
            self._bar.write(line, file=sys.stdout)
        else:
            print(line, file=sys.stdout, flush=True)


def _progress_bar(n_rounds: int) -> Any:
    """Return a bar of tqdm, or None without it or without a terminal to draw on."""
    if not getattr(sys.stderr, "isatty", lambda: False)():
        return None
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return None
    return tqdm(total=n_rounds, unit="round", leave=False)
