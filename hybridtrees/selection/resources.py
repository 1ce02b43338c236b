"""What the rungs of a search have more and more of: rounds, trees, or rows.

Boosted models and forests are continued from rung to rung: their next rounds or trees are those
that one long fit would have. Other models are fitted anew, to more rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._parameters import clone
from hybridtrees.base import Estimator
from hybridtrees.input._user_tables import Columns
from hybridtrees.input.targets import check_sample_weight
from hybridtrees.inspection._scoring import Predictions, Scorer
from hybridtrees.models.shared.boosted_model import BoostedModel
from hybridtrees.models.shared.boosted_trees import BoostedTrees
from hybridtrees.selection.cross_validation import Stage
from hybridtrees.selection.halving import rung_shrinks

FEWEST_ROUNDS, MOST_ROUNDS = 20, 1000
FEWEST_TREES, MOST_TREES = 10, 100
FEWEST_ROWS = 500
# Rounds that `MOST_ROUNDS` stand for at another rate: a model of small steps needs more of them.
REFERENCE_RATE = 0.1
_MOST_STRETCH = 10.0
# Stages of a step that are scored; their scores are means over folds, and smooth.
_STAGES = 20
_LOOKS = 4  # steps of a rung

Given = dict[str, Any]  # further arguments of `fit`


@dataclass(frozen=True)
class Part:
    """Rows of a table, as an estimator takes them."""

    table: Any
    y: np.ndarray
    weight: np.ndarray | None

    @classmethod
    def of(cls, columns: Columns, y: np.ndarray, weight: Any, rows: np.ndarray) -> Part:
        """Take rows of the whole table."""
        table = columns.take(rows).table
        if isinstance(table, np.ndarray) and table.base is None:
            table.flags.writeable = False  # the cache of bins need not copy it
        given = None if weight is None else check_sample_weight(weight[rows], len(rows))
        return cls(table, y[rows], given)

    def fit(self, model: Any, given: Given) -> Any:
        """Fit a model to the rows."""
        extra = given if self.weight is None else {**given, "sample_weight": self.weight}
        return model.fit(self.table, self.y, **extra)


@dataclass
class Grown:
    """A model of one fold, and the scores of its test rows after some of its rounds."""

    model: Any
    scores: dict[int, float]  # by the number of rounds or trees, or by the rows
    seconds: float


class Resource:
    """What a rung gives its candidates.

    `parts` of a fold are its training rows on every rung.
    """

    name = "rows"
    parameter: str | None = None
    stages = False  # whether the best number is found among stages

    def __init__(self, most: int, shrinks: list[int]) -> None:
        self.levels = [math.ceil(most / shrink) for shrink in shrinks]

    def steps(self, rung: int) -> list[int]:
        """Return the amounts at which a rung stops to look, the last of which is its own."""
        return self.levels[rung : rung + 1]

    def amount(self, model: Any, level: int) -> int:
        """Return how much of an amount a candidate gets."""
        return level

    def prepared(self, model: Any) -> Any:
        """Set the parameters of a fresh copy, so that it can be fitted rung by rung."""
        return model

    def fit(self, model: Any, old: Any, amount: int, part: Part, given: Given) -> Any:
        """Return a fitted model, which continues `old`."""
        return part.fit(model, given)

    def scores(
        self, model: Any, known: int, amount: int, test: Part, scorer: Scorer
    ) -> dict[int, float]:
        """Return the scores of test rows by amount; up to `known` they are known."""
        return {amount: scorer.reported(Predictions(model, test.table), test.y, test.weight)}

    def setting(self, params: dict[str, Any], amount: int) -> dict[str, Any]:
        """Return the parameters of a candidate with the amount that was found."""
        return dict(params)

    def final(self, model: Any, amount: int) -> Any:
        """Set the amount that was found in an estimator for all rows."""
        return model.set_params(**self.setting({}, amount))


class Trees(Resource):
    """Trees of a forest, which a warm start adds."""

    name, parameter = "trees", "n_estimators"

    def prepared(self, model: Any) -> Any:
        """Set the parameters of a fresh copy, so that it can be fitted rung by rung."""
        return model.set_params(warm_start=True)

    def fit(self, model: Any, old: Any, amount: int, part: Part, given: Given) -> Any:
        """Return the old model with more trees."""
        model = model if old is None else old
        return part.fit(model.set_params(n_estimators=amount), given)

    def setting(self, params: dict[str, Any], amount: int) -> dict[str, Any]:
        """Return the parameters with the number of trees, of which more do no harm."""
        return {**params, "n_estimators": self.levels[-1]}


class Rounds(Trees):
    """Rounds of boosting; of these, the best number is chosen by the test rows of all folds."""

    name, stages = "rounds", True

    def __init__(self, most: int, shrinks: list[int], by_rate: bool) -> None:
        super().__init__(most, shrinks)
        self.by_rate = by_rate  # whether learning rates differ

    def steps(self, rung: int) -> list[int]:
        """Return numbers of rounds after which a candidate may have peaked."""
        last = self.levels[rung]
        if rung == 0:
            return [last]
        first = self.levels[rung - 1]
        between = {round(first * (last / first) ** (k / _LOOKS)) for k in range(1, _LOOKS)}
        return [*sorted(between - {first, last}), last]

    def amount(self, model: Any, level: int) -> int:
        """Return the number of rounds: its product with the learning rate is the same for all."""
        rate = model.learning_rate
        if not self.by_rate or not isinstance(rate, int | float) or not rate > 0:
            return level  # `fit` refuses invalid rates
        return max(1, round(level * min(REFERENCE_RATE / rate, _MOST_STRETCH)))

    def prepared(self, model: Any) -> Any:
        """Set the parameters of a fresh copy: early stopping must not cut the rounds of a rung."""
        if isinstance(model, BoostedModel):
            return model.set_params(early_stopping_rounds=None)
        return model.set_params(warm_start=True, n_iter_no_change=None)

    def fit(self, model: Any, old: Any, amount: int, part: Part, given: Given) -> Any:
        """Return a model of the old model's rounds and more."""
        if not isinstance(model, BoostedModel):
            return super().fit(model, old, amount, part, given)
        done = 0 if old is None else old.n_iter_
        extra = given if old is None else {**given, "xgb_model": old}
        return part.fit(model.set_params(n_estimators=amount - done), extra)

    def scores(
        self, model: Any, known: int, amount: int, test: Part, scorer: Scorer
    ) -> dict[int, float]:
        """Return the scores after some of the new rounds."""
        amount = model.n_iter_  # a callback may have ended the training
        if not scorer.staged:
            return super().scores(model, known, amount, test, scorer)
        step = max(1, (amount - known) // _STAGES)
        wanted = [*range(known + step, amount, step), amount]
        stages = zip(wanted, _stages(model, test.table, wanted), strict=True)
        return {n: scorer.reported(stage, test.y, test.weight) for n, stage in stages}

    def setting(self, params: dict[str, Any], amount: int) -> dict[str, Any]:
        """Return the parameters with the number of rounds."""
        return {**params, "n_estimators": amount}

    def final(self, model: Any, amount: int) -> Any:
        """Set the number of rounds, without early stopping."""
        stop = "early_stopping_rounds" if isinstance(model, BoostedModel) else "n_iter_no_change"
        return super().final(model.set_params(**{stop: None}), amount)


def _stages(model: BoostedTrees, table: Any, rounds: list[int]) -> Iterator[Stage]:
    """Yield the predictions after these numbers of rounds."""
    for raw in model._staged_raw(table, rounds=rounds):
        if hasattr(model, "classes_"):
            proba = model._loss.predict(raw)
            yield Stage(model, model._from_raw(raw), proba)
        else:
            yield Stage(model, model._from_raw(raw).copy())


def choose_resource(
    estimator: Any, tuned: set[str], most: int | None, n_rows: int, n_candidates: int
) -> Resource:
    """Return the resource of a search: rounds, trees, or rows of `n_rows` at most."""
    params = estimator.get_params(deep=False)
    ours = isinstance(estimator, Estimator) and "n_estimators" not in tuned
    if ours and isinstance(estimator, BoostedTrees):
        most = most or MOST_ROUNDS
        shrinks = rung_shrinks(most, FEWEST_ROUNDS, n_candidates)
        return Rounds(most, shrinks, "learning_rate" in tuned)
    if ours and {"n_estimators", "warm_start"} <= set(params):
        most = most or max(MOST_TREES, int(params["n_estimators"]))
        return Trees(most, rung_shrinks(most, FEWEST_TREES, n_candidates))
    most = n_rows if most is None else min(most, n_rows)
    return Resource(most, rung_shrinks(most, FEWEST_ROWS, n_candidates))


def fresh(estimator: Any, setting: dict[str, Any], seed: int, n_threads: int) -> Any:
    """Return a copy with parameters set; those that are None are seeds and threads of the search.

    All candidates have the same seed: what they draw by chance differs no more than it must.
    """
    model = clone(estimator).set_params(**setting)
    params = model.get_params()
    more: dict[str, Any] = {}
    for key in sorted(key for key, value in params.items() if value is None):
        owner, _, last = key.rpartition("__")
        if last == "random_state":
            more[key] = seed
        elif last == "n_jobs" and isinstance(params[owner] if owner else model, Estimator):
            more[key] = n_threads
    return model.set_params(**more) if more else model
