"""Intervals from held-out residuals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hybridtrees._parameters import is_classifier
from hybridtrees._persistence import register
from hybridtrees.core.base.checks import (
    Checked,
    check_array,
    check_arrays,
    check_numbers,
    check_type,
)
from hybridtrees.uncertainty.held_out import HeldOut
from hybridtrees.uncertainty.ranks import Scores

METHODS = ("auto", "constant")

# Fewer rows say too little of where residuals are large.
_FEW_ROWS = 50

# The spread is not taken for less than this share of its mean.
_LEAST_SPREAD = 0.05

# Powers of the spread that residuals are divided by.
_POWERS = (0.0, 0.5, 1.0)


def quantile_levels(model: Any) -> tuple[float, ...]:
    """Return the levels that a fitted model predicts side by side, none if it predicts numbers."""
    levels = getattr(vars(model).get("_loss"), "alpha", ())
    return levels if isinstance(levels, tuple) and len(levels) > 1 else ()


def ask_bounds(model: Any, X: Any) -> tuple[np.ndarray, ...]:
    """Return what held-out rows are compared with, (n_rows, n_targets) each.

    These are the predictions, or the outer two of several quantiles.
    """
    found = np.asarray(model.predict(X), dtype=np.float64)
    found = found.reshape(len(found), -1)
    levels = quantile_levels(model)
    if not levels:
        return (found,)
    return found[:, [int(np.argmin(levels))]], found[:, [int(np.argmax(levels))]]


@register
class Intervals(Checked):
    """Held-out rows beside what was predicted for them, and how the residuals spread."""

    lower: np.ndarray  # target less the lower bound, (n_rows, n_targets)
    upper: np.ndarray  # target less the upper bound
    spread: np.ndarray  # expected size of the residuals, by trees that have not seen the row
    weight: np.ndarray | None
    fold: np.ndarray | None
    models: list[Any]  # those of the folds, empty unless they all predict
    forest: Any  # predicts the spread, or None
    power: np.ndarray  # of the spread, for each target

    @classmethod
    def learn(
        cls, held: HeldOut, X: Any, target: np.ndarray, weight: np.ndarray | None, forest: Any
    ) -> Intervals:
        """Compare held-out predictions with the target; a `forest` learns the spread.

        X, target and weight are those of the held-out rows.
        """
        made = cls()
        low, high = held.answers[0], held.answers[-1]
        target = target.reshape(len(target), -1)
        if target.shape != low.shape:
            raise ValueError(
                f"intervals need one prediction for each target, got {low.shape[1]} predictions of "
                f"{target.shape[1]}"
            )
        made.lower, made.upper = target - low, target - high
        made.weight, made.fold, made.models = weight, held.fold, held.models
        made.spread, made.power = np.ones(low.shape), np.zeros(low.shape[1])
        made.forest = None
        if forest is not None and len(held.answers) == 1 and len(target) >= _FEW_ROWS:
            made._learn_spread(X, forest)
        return made

    def _learn_spread(self, X: Any, forest: Any) -> None:
        """Learn where residuals are large, and how far to trust that."""
        size = np.abs(self.lower)
        if not np.all(np.isfinite(size)) or not size.any(axis=0).all():
            return
        level = np.average(size, axis=0, weights=self.weight)
        with warnings.catch_warnings():
            # The warning that some rows have no out-of-bag prediction: see below.
            warnings.simplefilter("ignore", UserWarning)
            forest.fit(X, size[:, 0] if size.shape[1] == 1 else size, self.weight)
        spread = forest.oob_prediction_.reshape(size.shape)
        # A row that is in every sample has no out-of-bag prediction.
        spread = _not_small(np.where(np.isnan(spread), level, spread), level)
        for j in range(size.shape[1]):
            self.power[j] = _best_power(size[:, j], spread[:, j], self.weight)
        if self.power.any():
            self.spread, self.forest, self._level = spread, _without_rows(forest), level

    def predict(self, model: Any, X: Any, coverage: float, method: str) -> np.ndarray:
        """Return the interval of each row, (n_rows, 2, n_targets)."""
        bounds = [ask_bounds(each, X) for each in self.models or [model]]
        n_rows, n_targets = bounds[0][0].shape
        found = np.empty((n_rows, 2, n_targets))
        spread = np.ones((n_rows, n_targets))
        scaled = self.forest is not None and method != "constant"
        if scaled:
            spread = _not_small(
                self.forest.predict(model._spread_table(X)).reshape(spread.shape), self._level
            )
        for j in range(n_targets):
            power = float(self.power[j]) if scaled else 0.0
            low = np.column_stack([both[0][:, j] for both in bounds])
            high = np.column_stack([both[-1][:, j] for both in bounds])
            sides = self._sides(j, power, low, high, spread[:, j], coverage)
            found[:, 0, j], found[:, 1, j] = sides
        if np.isinf(found).any():
            warnings.warn(
                f"{len(self.lower)} held-out rows are too few for a coverage of {coverage}: "
                "intervals are infinite",
                UserWarning,
                stacklevel=4,
            )
        return found

    def _sides(
        self,
        j: int,
        power: float,
        low: np.ndarray,
        high: np.ndarray,
        spread: np.ndarray,
        coverage: float,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both bounds of one target, from the bounds that each model predicts."""
        own, scale = self.spread[:, j] ** power, spread**power
        below = Scores.of(-self.lower[:, j] / own, self.weight, self.fold)
        above = Scores.of(self.upper[:, j] / own, self.weight, self.fold)
        left, right = below.sides(coverage)
        if left < below.own * (1.0 - 1e-9):  # too few rows for each side: both together
            both = np.maximum(-self.lower[:, j], self.upper[:, j]) / own
            below = above = Scores.of(both, self.weight, self.fold)
            left = right = below.budget(coverage)
        first = -below.upper(left, -low, scale)
        last = above.upper(right, high, scale)
        crossed = first > last
        first[crossed] = last[crossed] = (first[crossed] + last[crossed]) / 2.0
        return first, last

    def check_owner(self, owner: Any) -> None:
        """Refuse models about other features, or of another kind, than the owner's."""
        check_models(owner, self.models, owner.n_features_in_)
        if self.forest is not None:
            check_models(owner, [self.forest], owner._spread_width())

    def _check_state(self) -> None:
        sizes = check_arrays(
            self, {name: ("f8", "n_rows", "n_targets") for name in ("lower", "upper", "spread")}
        )
        check_arrays(self, {"power": ("f8", "n_targets")}, sizes)
        if not sizes["n_rows"] or not sizes["n_targets"]:
            raise ValueError("intervals must have held-out rows")
        for name in ("lower", "upper"):
            if np.isnan(getattr(self, name)).any():
                raise ValueError("a held-out residual is not a number")
        check_numbers(self.spread, "the spread of residuals", 1e-300, np.inf)
        check_numbers(self.power, "the power of the spread", 0.0, 1.0 + 1e-6)
        check_rows(self, sizes["n_rows"])
        if self.forest is not None:
            check_arrays(self, {"_level": ("f8", "n_targets")}, sizes)


def _not_small(spread: np.ndarray, level: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(spread, _LEAST_SPREAD * level))


def _best_power(size: np.ndarray, spread: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the power of the spread of the largest likelihood, for Laplace residuals.

    A power above 0 must raise the likelihood by more than half the logarithm of the number of rows.
    """

    def loss(power: float) -> float:
        logs = power * np.average(np.log(spread), weights=weight)
        return float(logs + np.log(np.average(size / spread**power, weights=weight)))

    losses = [loss(power) for power in _POWERS]
    best = int(np.argmin(losses))
    gain = (losses[0] - losses[best]) * len(size)
    return _POWERS[best] if gain > 0.5 * np.log(len(size)) else 0.0


def _without_rows(forest: Any) -> Any:
    """Return the forest without its results about training rows."""
    for name in ("oob_prediction_", "oob_curve_", "oob_score_"):
        vars(forest).pop(name, None)
    return forest


def check_rows(holder: Any, n_rows: int) -> None:
    """Refuse weights, folds and models that do not fit the held-out rows."""
    if holder.weight is not None:
        check_array(holder.weight, "the weights of held-out rows", "f8", [n_rows])
        check_numbers(holder.weight, "the weights of held-out rows", 0.0, np.inf)
        if not holder.weight.any():
            raise ValueError("held-out rows must have a weight")
    models = check_type(holder, "models", list)
    if (holder.fold is None) != (not models):
        raise ValueError("folds of held-out rows must have models")
    if holder.fold is not None:
        check_array(holder.fold, "the folds of held-out rows", "i4", [n_rows])
        check_numbers(holder.fold, "the folds of held-out rows", 0, len(models))
        used = holder.fold if holder.weight is None else holder.fold[holder.weight > 0]
        if int(used.max()) + 1 != len(models):
            raise ValueError("a model has no held-out rows")


def check_models(owner: Any, models: list[Any], width: int) -> None:
    """Refuse models that do not fit their owner, and tables of so many columns."""
    for model in models:
        if getattr(model, "n_features_in_", None) != width:
            raise ValueError(f"a model of {type(owner).__name__} is about other features")
        if not hasattr(model, "predict") or is_classifier(model) != is_classifier(owner):
            raise ValueError(f"a model of {type(owner).__name__} is of another kind")
