"""Parts of the imputer: its target, first fills by medians and modes, fills by proximity."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np

from hybridtrees.core.grow.cart import median_values
from hybridtrees.input.validation import check_sample_weight, check_target_classification
from hybridtrees.models.shared.fitted_checks import check_codes
from hybridtrees.models.shared.forest.leaves import Proximities

TASKS = ("auto", "regression", "classification")

# Integers are classes if there are at most so many distinct ones, with so many rows for each.
_MAX_CLASSES = 20
_ROWS_OF_A_CLASS = 5


@dataclass(frozen=True)
class Training:
    """Target and weights of the forests of one fit."""

    y: Any
    weight: np.ndarray | None
    is_classification: bool
    codes: np.ndarray | None  # where the target has classes
    n_classes: int

    @classmethod
    def read(cls, y: Any, sample_weight: Any, n_rows: int, task: str) -> Self:
        """Check the target and the weights for a table of `n_rows` rows."""
        weight = check_sample_weight(sample_weight, n_rows)
        is_classification = y is None or has_classes(y, task)
        codes, n_classes = None, 0
        if is_classification and y is not None:
            codes, classes = check_target_classification(y, n_rows)
            n_classes = len(classes)
        return cls(y, weight, is_classification, codes, n_classes)


def has_classes(y: Any, task: str) -> bool:
    """Return whether a target holds classes; see `ProximityImputer` for "auto"."""
    if task != "auto":
        return task == "classification"
    if any(word in str(getattr(y, "dtype", "")).lower() for word in ("categor", "enum")):
        return True
    target = np.asarray(y)
    if target.dtype.kind == "O":
        if not all(isinstance(v, Real) and not isinstance(v, bool) for v in target.flat):
            return True
        target = target.astype(np.float64)
    if target.dtype.kind == "f" and np.any(target != np.floor(target)):
        return False
    if target.dtype.kind not in "iuf":
        return True
    few = max(2, min(_MAX_CLASSES, target.size // _ROWS_OF_A_CLASS))
    return len(np.unique(target)) <= few


def first_values(
    values: np.ndarray, is_categorical: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """Return the median or mode of each column, NaN if no entry is known."""
    found = np.full(values.shape[1], np.nan)
    for j, column in enumerate(values.T):
        known = ~np.isnan(column)
        if weight is not None:
            known &= weight > 0
        if not known.any():
            continue
        part, own = column[known], None if weight is None else weight[known]
        if is_categorical[j]:
            found[j] = np.bincount(part.astype(np.intp), own).argmax()
        else:
            rows = np.arange(len(part), dtype=np.uint32)
            segment = rows, np.array([0]), np.array([len(part)])
            found[j] = median_values(part[:, None], own, segment)[0][0, 0]
    return found


def first_values_by_class(
    values: np.ndarray, is_categorical: np.ndarray, training: Training, overall: np.ndarray
) -> np.ndarray:
    """Return `first_values` of each class, those of the whole table if a class has none."""
    weight, found = training.weight, np.empty((training.n_classes, values.shape[1]))
    for k in range(training.n_classes):
        own = training.codes == k
        part = first_values(values[own], is_categorical, None if weight is None else weight[own])
        found[k] = np.where(np.isnan(part), overall, part)
    return found


def spreads(values: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of the known entries; deviations of 0 become 1."""
    known = ~np.isnan(values)
    each = known if weight is None else known * weight[:, None]
    total = each.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    center = (np.where(known, values, 0.0) * each).sum(axis=0) / total
    away = np.where(known, values - center, 0.0)
    spread = np.sqrt((away**2 * each).sum(axis=0) / total)
    return center, np.where(spread > 0, spread, 1.0)


class HeldOut:
    """Known entries that are hidden while a table is filled, to measure the error."""

    def __init__(
        self,
        values: np.ndarray,
        is_categorical: np.ndarray,
        weight: np.ndarray | None,
        share: float,  # of the known entries that is hidden
        seed: np.random.SeedSequence,
    ):
        known = ~np.isnan(values)
        if weight is not None:
            known &= weight[:, None] > 0
        places = np.flatnonzero(known)
        drawn = np.random.default_rng(seed).permutation(len(places))[: int(share * len(places))]
        hidden = np.zeros(values.shape, dtype=bool)
        hidden.ravel()[places[drawn]] = True  # a view
        # A column must keep some known entry.
        hidden[:, (known & ~hidden).sum(axis=0) == 0] = False
        self.rows, self.columns = np.nonzero(hidden)
        self.truth = values[hidden]
        self.table = np.where(hidden, np.nan, values)
        self._is_category = is_categorical[self.columns]
        self._spread = spreads(values, weight)[1][self.columns]
        self._weight = np.ones(len(self.rows)) if weight is None else weight[self.rows]

    def error(self, filled: np.ndarray) -> float:
        """Return the mean squared error in variances of the columns; 1 for a wrong category."""
        found = filled[self.rows, self.columns]
        square = ((found - self.truth) / self._spread) ** 2
        each = np.where(self._is_category, found != self.truth, square)
        return float(np.average(each, weights=self._weight))


class Present:
    """The known entries of a table, prepared for weighted means."""

    def __init__(self, values: np.ndarray, is_categorical: np.ndarray, weight: np.ndarray | None):
        self.numeric = np.flatnonzero(~is_categorical)
        self.categorical = np.flatnonzero(is_categorical)
        numbers = values[:, self.numeric]
        gaps = np.isnan(numbers)
        self.center, self.spread = spreads(numbers, weight)
        each = np.ones(len(values)) if weight is None else weight
        # Centred: a large common offset would cost precision in the means.
        self.numbers = np.where(gaps, 0.0, numbers - self.center) * each[:, None]
        self.weights = ~gaps * each[:, None]
        self.indicators = [_one_hot(values[:, j]) * each[:, None] for j in self.categorical]

    def refill(
        self,
        near: Proximities,
        leaves: np.ndarray,
        filled: np.ndarray,
        missing: np.ndarray,
        out_of_bag: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the rows with their missing entries filled by weighted means of near rows."""
        made = filled.copy()
        for block, part in near.rows(leaves, out_of_bag):
            gaps, rows = missing[block], made[block]
            weight = part @ self.weights
            total = part @ self.numbers
            mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
            use = gaps[:, self.numeric] & (weight > 0)
            rows[:, self.numeric] = np.where(use, mean + self.center, rows[:, self.numeric])
            for j, indicator in zip(self.categorical, self.indicators, strict=True):
                sums = part @ indicator
                use = gaps[:, j] & (sums.max(axis=1) > 0)
                rows[use, j] = sums[use].argmax(axis=1)
            made[block] = rows
        return made

    def change(self, before: np.ndarray, after: np.ndarray, missing: np.ndarray) -> float:
        """Return the mean change of numbers, or the share of changed categories if larger."""
        gaps = missing[:, self.numeric]
        moved = np.abs(after - before)[:, self.numeric] / self.spread
        numbers = float(moved[gaps].mean()) if gaps.any() else 0.0
        gaps = missing[:, self.categorical]
        differs = (after != before)[:, self.categorical]
        return max(numbers, float(differs[gaps].mean()) if gaps.any() else 0.0)


def _one_hot(codes: np.ndarray) -> np.ndarray:
    """Return one-hot indicators of a column of codes, rows of zeros for missing ones."""
    known = np.flatnonzero(~np.isnan(codes))
    width = int(codes[known].max()) + 1 if len(known) else 1
    indicator = np.zeros((len(codes), width))
    indicator[known, codes[known].astype(np.intp)] = 1.0
    return indicator


def check_fills(values: np.ndarray, fills: list[np.ndarray | None], categories: list[Any]) -> None:
    """Refuse a stored table, or fills, with invalid codes or numbers that are not finite."""
    for fill in fills:
        if fill is not None and not np.isfinite(fill).all():
            raise ValueError("the fills of ProximityImputer must be finite numbers")
    for f, labels in enumerate(categories):
        if labels is not None:
            check_codes(values[:, f], len(labels))
            for fill in fills:
                if fill is not None:
                    check_codes(fill[:, f], max(1, len(labels)))
