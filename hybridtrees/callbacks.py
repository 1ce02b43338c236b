"""Callbacks for the training of XGB and PLGB models.

A callback is any object with some of the methods of `TrainingCallback`. Callbacks of XGBoost work
too, as long as they use no more of the model than `TrainingView` has.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from hybridtrees._parameters import check_boolean, check_integer, check_real

__all__ = [
    "EarlyStopping",
    "LearningRateScheduler",
    "TrainingCallback",
    "TrainingCheckPoint",
    "TrainingView",
]

Scores = dict[str, dict[str, list[float]]]


class TrainingView:
    """The running training, as callbacks see it.

    Attributes
    ----------
    estimator : Estimator
        Its parameters can be read; it is not fitted until the training has ended.
    """

    def __init__(self, estimator: Any, training: Any, snapshot: Callable[[Any], Any]):
        self.estimator = estimator
        self._training = training
        self._snapshot: Callable[[Any], Any] | None = snapshot
        self._n_kept: int | None = None
        self._views = [self]  # and those of fewer rounds, which have the same list
        self._n_rounds = 0
        self._attributes: dict[str, str] = {}

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds so far, including those of a continued model."""
        if self._n_kept is not None:
            return self._n_kept
        if self._training is None:
            return self._n_rounds
        return int(self._training.rounds.start + self._training.n_done)

    def __getitem__(self, rounds: slice) -> TrainingView:
        """Return a view of the first rounds, ``view[:n]``.

        If `after_training` returns it, the model has no others.
        """
        if not isinstance(rounds, slice) or rounds.start not in (None, 0) or rounds.step:
            raise ValueError(f"rounds are taken from the first on, as in view[:9], got {rounds!r}")
        n_rounds = self.num_boosted_rounds()
        kept = copy.copy(self)
        kept._n_kept = n_rounds if rounds.stop is None else min(int(rounds.stop), n_rounds)
        kept._attributes = dict(self._attributes)
        self._views.append(kept)
        return kept

    def save_model(self, fname: str | PathLike[str]) -> None:
        """Write the model with the rounds so far, as `save_model` of the estimator does.

        A model without that method, such as one of PLGB, becomes a file for `hybridtrees.load`.
        """
        if self._snapshot is None:
            raise ValueError("the training is over: save the estimator")
        model = self._snapshot(self._training)
        getattr(model, "save_model", model.save)(fname)

    def close(self) -> None:
        """Drop the reference to the training, so that kept views do not keep its tables."""
        for view in self._views:
            view._n_rounds = view.num_boosted_rounds()
            view._training = view._snapshot = None

    def set_param(self, name: str, value: Any) -> None:
        """Change "learning_rate" (or "eta") for the following rounds."""
        if name not in ("learning_rate", "eta"):
            raise ValueError(f"only 'learning_rate' can be changed in training, got {name!r}")
        rate = check_real("learning_rate", value, 0, closed="right")
        if self._training is None:
            raise ValueError("the training is over: learning_rate can no longer be changed")
        self._training.steps.learning_rate = rate

    def set_attr(self, **attributes: Any) -> None:
        """Store strings under names of your choice; None removes one.

        If "best_iteration" and "best_score" are both set, they become the attributes of the
        fitted model that `predict` uses, unless `early_stopping_rounds` determines them.
        """
        for name, value in attributes.items():
            if value is None:
                self._attributes.pop(name, None)
                continue
            if name == "best_iteration":
                # XGBoost's callback adds the rounds of a continued model, which are counted here
                # already: limit the number to the last round.
                value = max(min(int(value), self.num_boosted_rounds() - 1), 0)
            self._attributes[name] = str(value)

    def attr(self, name: str) -> str | None:
        """Return the string stored under a name, or None."""
        return self._attributes.get(name)

    def attributes(self) -> dict[str, str]:
        """Return a copy of all strings by name."""
        return dict(self._attributes)

    @property
    def best_iteration(self) -> int:
        """Best round, as set by `set_attr`."""
        return int(self._attribute("best_iteration"))

    @best_iteration.setter
    def best_iteration(self, value: int) -> None:
        self.set_attr(best_iteration=value)

    @property
    def best_score(self) -> float:
        """Best score, as set by `set_attr`."""
        return float(self._attribute("best_score"))

    @best_score.setter
    def best_score(self, value: float) -> None:
        self.set_attr(best_score=value)

    def _attribute(self, name: str) -> str:
        if name not in self._attributes:
            raise AttributeError(f"{name} is only available after set_attr({name}=...)")
        return self._attributes[name]


class TrainingCallback:
    """Base class of callbacks; each method is optional.

    `epoch` is the number of the round, from 0, and `evals_log` holds the scores so far, as
    ``{"validation_0": {"rmse": [...]}, ...}``.
    """

    def before_training(self, model: TrainingView) -> TrainingView:
        """Run before the first round; the result is ignored."""
        return model

    def after_training(self, model: TrainingView) -> TrainingView:
        """Run after the last round; may return fewer rounds, ``model[:n]``, which are kept."""
        return model

    def before_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Run before a round; return True to end the training without it."""
        return False

    def after_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Run after a round; return True to end the training."""
        return False


class LearningRateScheduler(TrainingCallback):
    """Sets the learning rate of every round.

    Parameters
    ----------
    learning_rates : callable or sequence of floats
        A function of the round number, or one rate for each round.
    """

    def __init__(self, learning_rates: Callable[[int], float] | Sequence[float]):
        if not callable(learning_rates) and not isinstance(learning_rates, list | tuple):
            raise TypeError(
                f"learning_rates must be a callable or a list of floats, got {learning_rates!r}"
            )
        self.learning_rates = learning_rates

    def before_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Set the learning rate of the round."""
        if callable(self.learning_rates):
            rate = self.learning_rates(epoch)
        elif epoch < len(self.learning_rates):
            rate = self.learning_rates[epoch]
        else:
            raise ValueError(
                f"learning_rates has {len(self.learning_rates)} entries, but there is a round "
                f"{epoch}"
            )
        model.set_param("learning_rate", rate)
        return False


class EarlyStopping(TrainingCallback):
    """Stops when a score has not improved for some rounds.

    Parameters
    ----------
    rounds : int
        Number of rounds without improvement.
    metric_name, data_name : str, optional
        The score; the last metric and the last table by default.
    maximize : bool, optional
        Whether larger scores are better, by default for "auc", "aucpr" and "r2".
    save_best : bool
        Whether the model keeps only the rounds up to the best. Predictions use these in any case.
    min_delta : float
        Least improvement that counts.
    """

    def __init__(
        self,
        rounds: int,
        *,
        metric_name: str | None = None,
        data_name: str | None = None,
        maximize: bool | None = None,
        save_best: bool = False,
        min_delta: float = 0.0,
    ):
        self.rounds = check_integer("rounds", rounds, 1)
        self.metric_name, self.data_name, self.maximize = metric_name, data_name, maximize
        self.save_best = check_boolean("save_best", save_best)
        self.min_delta = check_real("min_delta", min_delta, 0)

    def before_training(self, model: TrainingView) -> TrainingView:
        """Forget an earlier training."""
        self._best, self._since = math.nan, 0
        return model

    def after_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Compare the score of the round with the best."""
        if not evals_log:
            raise ValueError("EarlyStopping needs an eval_set (or X_val and y_val) in fit")
        curves = _chosen(evals_log, "data_name", self.data_name)
        name = list(curves)[-1] if self.metric_name is None else self.metric_name
        score = float(_chosen(curves, "metric_name", self.metric_name)[-1])
        larger = self.maximize
        if larger is None:
            larger = name.partition("@")[0] in ("auc", "aucpr", "r2")
        gain = score - self._best if larger else self._best - score
        if gain > self.min_delta or math.isnan(self._best):
            self._best, self._since = score, 0
            model.set_attr(best_score=score, best_iteration=epoch)
        else:
            self._since += 1
        return self._since >= self.rounds

    def after_training(self, model: TrainingView) -> TrainingView:
        """Keep the rounds up to the best, if that is asked for."""
        return model[: model.best_iteration + 1] if self.save_best else model


def _chosen(scores: dict[str, Any], parameter: str, name: str | None) -> Any:
    """Return an entry by name, the last one by default."""
    if name is None:
        return scores[list(scores)[-1]]
    if name not in scores:
        known = ", ".join(map(repr, scores))
        raise ValueError(f"{parameter} must be one of {known}, got {name!r}")
    return scores[name]


class TrainingCheckPoint(TrainingCallback):
    """Saves the model every few rounds.

    Parameters
    ----------
    directory : str or path-like
        Where the files go, which are named ``name_<round>.json``; of XGB they are files of XGBoost.
    name : str
        Beginning of their names.
    interval : int
        Number of rounds from one file to the next.
    """

    def __init__(self, directory: str | PathLike[str], name: str = "model", *, interval: int = 100):
        self.directory, self.name = os.fspath(directory), name
        self.interval = check_integer("interval", interval, 1)

    def after_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Save the model if its round has come."""
        if model.num_boosted_rounds() % self.interval == 0:
            model.save_model(os.path.join(self.directory, f"{self.name}_{epoch}.json"))
        return False
