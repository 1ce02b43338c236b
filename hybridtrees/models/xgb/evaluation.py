"""Callbacks of the XGBoost-style models."""

from __future__ import annotations

from typing import Any

from hybridtrees.callbacks import TrainingView
from hybridtrees.models.shared.boosting import Training, Watcher
from hybridtrees.models.shared.boosting_evaluation import read_eval_sets, read_metrics
from hybridtrees.models.shared.early_stopping import Evaluation

__all__ = ["Callbacks", "check_callbacks", "read_eval_sets", "read_metrics"]

_HOOKS = ("before_training", "after_training", "before_iteration", "after_iteration")


def check_callbacks(callbacks: Any) -> list[Any]:
    """Check the parameter `callbacks`, and return them as a list."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"callbacks must be a list or None, got {callbacks!r}")
    for one in callbacks:
        if isinstance(one, type) or not any(callable(getattr(one, hook, None)) for hook in _HOOKS):
            raise TypeError(
                f"callbacks must hold objects with some of the methods {', '.join(_HOOKS)}, "
                f"got {one!r}"
            )
        if getattr(one, "save_best", False):
            raise ValueError(
                f"callbacks must not cut off rounds, as {type(one).__name__}(save_best=True) does: "
                "predict goes by the best round without it"
            )
    return list(callbacks)


class Callbacks(Watcher):
    """Passes the looks of the loop on to the callbacks of the user.

    Parameters
    ----------
    callbacks : list
        See `hybridtrees.callbacks.TrainingCallback`.
    estimator : Estimator
    evaluation : Evaluation
        Stands before this watcher.
    """

    def __init__(self, callbacks: list[Any], estimator: Any, evaluation: Evaluation):
        self.callbacks = callbacks
        self.estimator = estimator
        self.evaluation = evaluation
        self.view: TrainingView | None = None

    def best(self) -> tuple[int, float] | None:
        """Return the best round and its score, if a callback has named them."""
        view = self.view
        if view is None or view.attr("best_iteration") is None or view.attr("best_score") is None:
            return None
        return view.best_iteration, view.best_score

    def _ask(self, hook: str, *more: Any) -> bool:
        methods = [getattr(one, hook, None) for one in self.callbacks]
        answers = [method(self.view, *more) for method in methods if method is not None]
        return any(answers) if more else False

    def before_training(self, training: Training) -> None:
        """Ask before the first round."""
        self.view = TrainingView(self.estimator, training)
        self._ask("before_training")

    def before_round(self, training: Training) -> bool:
        """Ask before a round."""
        scores = self.evaluation.scores
        return self._ask("before_iteration", training.round, scores)

    def after_round(self, training: Training) -> bool:
        """Ask after a round."""
        scores = self.evaluation.scores
        return self._ask("after_iteration", training.round, scores)

    def after_training(self, training: Training) -> None:
        """Ask after the last round."""
        self._ask("after_training")
        assert self.view is not None
        self.view.close()
