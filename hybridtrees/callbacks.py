"""Callbacks for the training of XGB and PLGB models.

A callback is any object with some of the methods of `TrainingCallback`. Callbacks of XGBoost work
too, as long as they use no more of the model than `TrainingView` has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridtrees._parameters import check_real

__all__ = ["LearningRateScheduler", "TrainingCallback", "TrainingView"]

Scores = dict[str, dict[str, list[float]]]


class TrainingView:
    """The running training, as callbacks see it.

    Attributes
    ----------
    estimator : Estimator
        Its parameters can be read; it is not fitted until the training has ended.
    """

    def __init__(self, estimator: Any, training: Any):
        self.estimator = estimator
        self._training = training
        self._n_rounds = 0
        self._attributes: dict[str, str] = {}

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds so far, including those of a continued model."""
        if self._training is None:
            return self._n_rounds
        return int(self._training.rounds.start + self._training.n_done)

    def close(self) -> None:
        """Drop the reference to the training, so that kept views do not keep its tables."""
        self._n_rounds = self.num_boosted_rounds()
        self._training = None

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

    @property
    def best_score(self) -> float:
        """Best score, as set by `set_attr`."""
        return float(self._attribute("best_score"))

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
        """Run after the last round; the result is ignored."""
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
