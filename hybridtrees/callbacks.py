"""Callbacks: what users hang into the training of the XGBoost-style models.

Any object will do that has some of the methods of `TrainingCallback`, those of XGBoost included
as long as they ask no more of the model than `TrainingView` offers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridtrees._parameters import check_real

__all__ = ["LearningRateScheduler", "TrainingCallback", "TrainingView"]

Scores = dict[str, dict[str, list[float]]]


class TrainingView:
    """A training under way, as callbacks see it.

    Attributes
    ----------
    estimator : Estimator
        Its parameters can be read; it is not fitted before the training has ended.
    """

    def __init__(self, estimator: Any, training: Any):
        self.estimator = estimator
        self._training = training
        self._n_rounds = 0
        self._attributes: dict[str, str] = {}

    def num_boosted_rounds(self) -> int:
        """Return the number of rounds done, those of the model it continues included."""
        if self._training is None:
            return self._n_rounds
        return self._training.rounds.start + self._training.n_done

    def close(self) -> None:
        """Let go of the training, as a callback that keeps the view would keep its tables."""
        self._n_rounds = self.num_boosted_rounds()
        self._training = None

    def set_param(self, name: str, value: Any) -> None:
        """Change a parameter of the rounds to come: "learning_rate" (or "eta")."""
        if name not in ("learning_rate", "eta"):
            raise ValueError(f"only 'learning_rate' can be changed in training, got {name!r}")
        rate = check_real("learning_rate", value, 0, closed="right")
        if self._training is None:
            raise ValueError("the training is over: no round is left to change the rate of")
        self._training.steps.learning_rate = rate

    def set_attr(self, **attributes: Any) -> None:
        """Keep texts under names of your own; None takes one away.

        "best_iteration" and "best_score", set together, are what `predict` and the attributes of
        these names go by after the fit, unless `early_stopping_rounds` says otherwise.
        """
        for name, value in attributes.items():
            if value is None:
                self._attributes.pop(name, None)
                continue
            if name == "best_iteration":
                # XGBoost's callback adds the rounds of the model that is continued, which are
                # counted here already; but no round to come can be the best so far.
                value = max(min(int(value), self.num_boosted_rounds() - 1), 0)
            self._attributes[name] = str(value)

    def attr(self, name: str) -> str | None:
        """Return the text under a name, None where there is none."""
        return self._attributes.get(name)

    def attributes(self) -> dict[str, str]:
        """Return all texts by their names; a copy."""
        return dict(self._attributes)

    @property
    def best_iteration(self) -> int:
        """Round that a callback has named the best, by `set_attr`."""
        return int(self._attribute("best_iteration"))

    @property
    def best_score(self) -> float:
        """Score that a callback has named the best, by `set_attr`."""
        return float(self._attribute("best_score"))

    def _attribute(self, name: str) -> str:
        if name not in self._attributes:
            raise AttributeError(f"{name} is there only after set_attr({name}=...)")
        return self._attributes[name]


class TrainingCallback:
    """Base of callbacks; each method may be left out.

    `epoch` is the number of the round, from 0, and `evals_log` holds the scores so far, as
    ``{"validation_0": {"rmse": [...]}, ...}``.
    """

    def before_training(self, model: TrainingView) -> TrainingView:
        """Look before the first round; what is returned is not used."""
        return model

    def after_training(self, model: TrainingView) -> TrainingView:
        """Look after the last round; what is returned is not used."""
        return model

    def before_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Look before a round; True ends the training without it."""
        return False

    def after_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Look after a round; True ends the training."""
        return False


class LearningRateScheduler(TrainingCallback):
    """Gives every round a learning rate of its own.

    Parameters
    ----------
    learning_rates : callable or sequence of floats
        ``learning_rates(round)``, or one for each round.
    """

    def __init__(self, learning_rates: Callable[[int], float] | Sequence[float]):
        if not callable(learning_rates) and not isinstance(learning_rates, list | tuple):
            raise TypeError(
                f"learning_rates must be a callable or a list of floats, got {learning_rates!r}"
            )
        self.learning_rates = learning_rates

    def before_iteration(self, model: TrainingView, epoch: int, evals_log: Scores) -> bool:
        """Set the rate of the round."""
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
