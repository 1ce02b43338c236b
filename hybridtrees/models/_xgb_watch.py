"""What the XGBoost-style models are watched by: tables, metrics, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybridtrees._validation import FeatureReader, check_sample_weight
from hybridtrees.callbacks import TrainingView
from hybridtrees.losses import Loss
from hybridtrees.metrics import Metric, callable_metric
from hybridtrees.models._boosting import EvalSet, Training, Watcher
from hybridtrees.models._boosting_watch import Evaluation

_HOOKS = ("before_training", "after_training", "before_iteration", "after_iteration")


def read_metrics(loss: Loss, eval_metric: Any) -> list[Metric]:
    """Return the metrics that are asked for by name or given as functions.

    Parameters
    ----------
    loss : Loss
    eval_metric : str, callable, list of these, or None
        None for the first metric of the loss.

    Returns
    -------
    metrics : list of Metric
        Each name once.
    """
    given = loss.metrics[0] if eval_metric is None else eval_metric
    if not isinstance(given, list | tuple):
        given = [given]
    if not given:
        raise ValueError("eval_metric must name at least one metric, got an empty list")
    found = [callable_metric(one) if callable(one) else loss.metric(one) for one in given]
    return list({metric.name: metric for metric in reversed(found)}.values())[::-1]


def read_eval_sets(
    reader: FeatureReader,
    encode: Callable[[Any, int, str], np.ndarray],
    pairs: Sequence[tuple[Any, Any]] | None,
    weights: Sequence[Any] | None,
    last: tuple[Any, Any, Any],
) -> Iterator[EvalSet]:
    """Read the validation tables in the form that fit has learned.

    Parameters
    ----------
    reader : FeatureReader
    encode : callable
        ``encode(y, n_rows, name)``, which checks a target.
    pairs : list of (X, y) or None
    weights : list of array-likes or None
    last : tuple
        X, y and weights of one more table, or None three times.

    Yields
    ------
    eval_set : EvalSet
    """
    for name, given in (("eval_set", pairs), ("sample_weight_eval_set", weights)):
        if not isinstance(given, list | tuple | None):
            raise TypeError(f"{name} must be a list, got {type(given).__name__}")
    pairs = list(pairs or ())
    weights = [None] * len(pairs) if weights is None else list(weights)
    if len(weights) != len(pairs):
        raise ValueError(
            f"sample_weight_eval_set must have one entry per pair of eval_set, got "
            f"{len(weights)} for {len(pairs)}"
        )
    if (last[0] is None) != (last[1] is None):
        raise ValueError("X_val and y_val go together: one of them is missing")
    if last[0] is None and last[2] is not None:
        raise ValueError("sample_weight_val needs X_val and y_val")
    if last[0] is not None:
        pairs.append(last[:2])
        weights.append(last[2])
    for index, (pair, weight) in enumerate(zip(pairs, weights, strict=True)):
        name = f"validation_{index}"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            what = type(pair).__name__
            raise ValueError(f"eval_set[{index}] must be a pair (X, y), got {what}")
        values = reader.read(pair[0])
        n_rows = values.shape[0]
        y = encode(pair[1], n_rows, f"the y of {name}")
        weight = check_sample_weight(weight, n_rows, name=f"the sample_weight of {name}")
        yield EvalSet(name, values, y, weight)


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

    def _ask(self, hook: str, training: Training, *more: Any) -> bool:
        view = TrainingView(self.estimator, training)
        methods = [getattr(one, hook, None) for one in self.callbacks]
        answers = [method(view, *more) for method in methods if method is not None]
        return any(answers) if more else False

    def before_training(self, training: Training) -> None:
        """Ask before the first round."""
        self._ask("before_training", training)

    def before_round(self, training: Training) -> bool:
        """Ask before a round."""
        scores = self.evaluation.scores
        return self._ask("before_iteration", training, training.round, scores)

    def after_round(self, training: Training) -> bool:
        """Ask after a round."""
        scores = self.evaluation.scores
        return self._ask("after_iteration", training, training.round, scores)

    def after_training(self, training: Training) -> None:
        """Ask after the last round."""
        self._ask("after_training", training)
