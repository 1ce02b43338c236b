"""Watchers of the boosting loop: scores, early stopping, callbacks, progress."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.callbacks import TrainingCallback, TrainingView
from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric
from hybridtrees.models.shared.boosting import EvalSet, Training, Watcher

Scores = dict[str, dict[str, list[float]]]

_HOOKS = ("before_training", "after_training", "before_iteration", "after_iteration")


class Evaluation(Watcher):
    """Scores the validation tables after every round; earlier `scores` are continued."""

    def __init__(self, loss: Loss, metrics: Sequence[Metric], scores: Scores | None = None):
        self.loss = loss
        self.metrics = metrics
        self.scores: Scores = scores or {}
        self.scores = self.copied_scores()
        self._last = ""

    def before_training(self, training: Training) -> None:
        """Open a curve for every table and metric."""
        for eval_set in training.eval_sets:
            curves = self.scores.setdefault(eval_set.name, {})
            for metric in self.metrics:
                curves.setdefault(metric.name, [])
            self._last = eval_set.name

    def after_round(self, training: Training) -> bool:
        """Score the tables."""
        for table in training.eval_sets:
            scores = self.table_scores(table, training.steps.n_threads)
            for metric, score in zip(self.metrics, scores, strict=True):
                self.scores[table.name][metric.name].append(score)
        return False

    def table_scores(self, table: EvalSet, n_threads: int) -> list[float]:
        """Return the score of each metric."""
        return self.by_metrics(table, self.metrics)

    def by_metrics(self, table: EvalSet, metrics: Sequence[Metric]) -> list[float]:
        """Return the scores by some metrics of predictions."""
        if not metrics:
            return []
        assert table.raw is not None
        prediction = self.loss.score_input(table.raw)
        if np.may_share_memory(prediction, table.raw):
            prediction = prediction.copy()  # a user's function may modify it
        return [
            float(metric.function(table.y, prediction, sample_weight=table.weight))
            for metric in metrics
        ]

    def stopping_curve(self) -> list[float]:
        """Return the curve that early stopping uses: the last metric on the last table."""
        return self.scores[self._last][self.metrics[-1].name] if self._last else []

    def copied_scores(self) -> Scores:
        """Return a copy of the curves so far."""
        return {
            name: {metric: list(curve) for metric, curve in curves.items()}
            for name, curves in self.scores.items()
        }

    def latest(self) -> list[str]:
        """Return the scores of the latest round as short texts."""
        return [
            f"{name}-{metric}:{curve[-1]:.5f}"
            for name, curves in self.scores.items()
            for metric, curve in curves.items()
            if curve
        ]


@dataclass(eq=False)
class EarlyStopping(Watcher):
    """Ends the training `patience` rounds after the best score; None only tracks the best.

    The last metric on the last table counts. It goes after the evaluation among the watchers.
    """

    evaluation: Evaluation
    patience: int | None
    best_round: int | None = None
    best_score: float | None = None

    def after_round(self, training: Training) -> bool:
        """Compare the latest score with the best."""
        if not training.eval_sets:
            return False
        metric, score = self.evaluation.metrics[-1], self.evaluation.stopping_curve()[-1]
        if math.isnan(score):
            # As the AUC of a table with a single class: no round would be the best.
            if self.patience is not None:
                raise ValueError(
                    f"early stopping needs a score, but {metric.name} is not defined on "
                    f"{training.eval_sets[-1].name}"
                )
            return False
        best = self.best_score
        if best is None or (score > best if metric.maximize else score < best):
            self.best_score = score
            self.best_round = training.round
        assert self.best_round is not None
        return self.patience is not None and training.round - self.best_round >= self.patience

    def ending(self, training: Training) -> str:
        """Return the text for a training that was stopped."""
        if self.patience is None:
            return "stopped early"
        return f"stopped early: round {self.best_round} was the best"


def check_callbacks(callbacks: Any) -> list[Any]:
    """Check the parameter `callbacks`, and return them as a list."""
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"callbacks must be a list or None, got {callbacks!r}")
    for one in callbacks:
        if isinstance(one, type) or not any(callable(getattr(one, hook, None)) for hook in _HOOKS):
            raise TypeError(
                f"callbacks must hold objects with some of the methods {', '.join(_HOOKS)}, "
                f"got {one!r}"
            )
        if getattr(one, "save_best", False) and not isinstance(one, TrainingCallback):
            name = type(one).__name__
            raise ValueError(
                f"callbacks hold a {name} of {type(one).__module__} with save_best=True, which "
                f"takes the rounds of a Booster: use {name} of hybridtrees.callbacks"
            )
    return list(callbacks)


@dataclass(eq=False)
class Callbacks(Watcher):
    """Calls the user's callbacks, see `hybridtrees.callbacks`; goes after the evaluation."""

    callbacks: list[Any]
    estimator: Any
    evaluation: Evaluation
    snapshot: Callable[[Training], Any]
    best_round: int | None = None
    best_score: float | None = None

    def _call(self, hook: str, *more: Any) -> bool:
        methods = [getattr(one, hook, None) for one in self.callbacks]
        answers = [method(self.view, *more) for method in methods if method is not None]
        return any(answers) if more else False

    def before_training(self, training: Training) -> None:
        """Call the hooks before the first round."""
        self.view = TrainingView(self.estimator, training, self.snapshot)
        self._call("before_training")

    def before_round(self, training: Training) -> bool:
        """Call the hooks before a round."""
        return self._call("before_iteration", training.round, self.evaluation.scores)

    def after_round(self, training: Training) -> bool:
        """Call the hooks after a round."""
        return self._call("after_iteration", training.round, self.evaluation.scores)

    def after_training(self, training: Training) -> None:
        """Call the hooks after the last round."""
        for one in self.callbacks:
            method = getattr(one, "after_training", None)
            answer = None if method is None else method(self.view)
            if isinstance(answer, TrainingView):
                self.view = answer
        training.keep(max(self.view.num_boosted_rounds() - training.rounds.start, 0))
        self.view.close()
        if {"best_iteration", "best_score"} <= set(self.view.attributes()):
            self.best_round, self.best_score = self.view.best_iteration, self.view.best_score


@dataclass(eq=False)
class Progress(Watcher):
    """Prints a line every `every` rounds, with elapsed and remaining time.

    With `bare` lines of scores have no times and are those of xgboost.

    On a terminal it also draws a progress bar, if tqdm is installed. It goes last among the
    watchers, to see whether another one has ended the training.
    """

    every: int
    scores: Callable[[], list[str]]
    ending: Callable[[Training], str] = lambda training: "stopped early"
    bare: bool = False
    _bar: Any = None

    def before_training(self, training: Training) -> None:
        """Start the clock."""
        self._start = time.perf_counter()
        self._bar = _progress_bar(len(training.rounds))

    def after_round(self, training: Training) -> bool:
        """Print a line if one is due, or if the training ends."""
        if self._bar is not None:
            self._bar.update(1)
        is_last = training.round == training.rounds[-1]
        if (training.n_done - 1) % self.every == 0 or is_last or training.stopped:
            self._print(training)
        return False

    def after_training(self, training: Training) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def _print(self, training: Training) -> None:
        elapsed = time.perf_counter() - self._start
        left = elapsed / training.n_done * (len(training.rounds) - training.n_done)
        end = f"at most {left:.1f} s to go"
        if training.stopped:
            end = self.ending(training)
        scores = self.scores()
        line = "  ".join([f"[{training.round}]", *scores, f"{elapsed:.1f} s, {end}"])
        if self.bare and scores:
            line = "\t".join([f"[{training.round}]", *scores])
        if self._bar is not None:
            self._bar.write(line, file=sys.stdout)
        else:
            print(line, file=sys.stdout, flush=True)


def _progress_bar(n_rounds: int) -> Any:
    """Return a bar of tqdm, None if there is no tqdm or no terminal."""
    if not getattr(sys.stderr, "isatty", lambda: False)():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=n_rounds, unit="round", leave=False)
