"""Ordered target statistics: a category becomes a number, the mean response of its rows.

Sets of categories follow the noise of rare ones when there are many. A mean response in place of
the category has no such freedom, but it must not contain the response of the row that it stands
for. So a training row gets the mean of those rows of its category that come before it in a random
order (Prokhorenkova et al. 2018, "CatBoost: unbiased boosting with categorical features"). Rows to
predict get the mean of all. The order is that of hashes of the row numbers, and sums are integers,
so that the numbers do not depend on threads.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from hybridtrees._persistence import register
from hybridtrees.core.base._threads import row_bits
from hybridtrees.core.base._types import TINY
from hybridtrees.core.base.checks import Checked, check_arrays
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum, group_sums
from hybridtrees.input.sources import Categories

StatisticsChoice = bool | Literal["auto"]

# "auto" takes columns of more categories than this. Sets of fewer are searched well: LightGBM
# limits them to 32 categories.
MANY_CATEGORIES = 30
# "auto" leaves out columns whose means are known almost without noise: sets of such categories do
# not follow noise, and a category says more than its mean.
KNOWN_MEANS = 0.98
PRIOR_ROWS = 1.0  # rows with the mean of all that are added to each category, as in CatBoost

_SEED = 0x0DE2  # of the orders; a column adds its number
_SUM_BITS = 62  # of an int64, without its sign and a bit to spare for rounding


@register
class TargetStatistics(Checked):
    """The statistics of some columns.

    Parameters
    ----------
    features : ndarray of int64, ascending
        The columns that are replaced.
    directions : ndarray of shape (n_columns, n_responses)
        What the mean is taken of: the response, or of several classes or targets the combination
        that differs most between the categories of the column.
    prior : ndarray of shape (n_columns,)
        The mean of all rows.
    start : ndarray of int64 of shape (n_columns + 1,)
    table : ndarray
        From `start` of a column on: the statistic of missing values, then those of its categories.
    """

    def __init__(
        self,
        features: np.ndarray,
        directions: np.ndarray,
        prior: np.ndarray,
        start: np.ndarray,
        table: np.ndarray,
    ) -> None:
        self.features = features
        self.directions = directions
        self.prior = prior
        self.start = start
        self.table = table

    @classmethod
    def learn(
        cls,
        values: np.ndarray,
        categories: Categories,
        target: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None,
        choice: StatisticsChoice,
    ) -> tuple[TargetStatistics, np.ndarray] | None:
        """Choose columns; return their statistics and the training table, None without any.

        `target` holds class codes if `n_classes` is not 0, else numbers, a column per target.
        """
        scaled = _scaled_weight(weight)
        features, directions = [], []
        for j, labels in enumerate(categories):
            if labels is None or (choice == "auto" and len(labels) < MANY_CATEGORIES):
                continue
            codes = _codes(values[:, j], len(labels))
            between = _Between(codes, len(labels) + 1, target, n_classes, scaled)
            if choice == "auto" and not between.is_for_statistics():
                continue
            features.append(j)
            directions.append(between.direction())
        if not features:
            return None
        chosen = np.array(features, dtype=np.int64), np.array(directions)
        return cls._along(*chosen, values, categories, target, n_classes, weight)

    @classmethod
    def _along(
        cls,
        features: np.ndarray,
        directions: np.ndarray,
        values: np.ndarray,
        categories: Categories,
        target: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None,
    ) -> tuple[TargetStatistics, np.ndarray]:
        """Return the statistics of given columns and directions, and the training table."""
        scaled = _scaled_weight(weight)
        sizes = [len(_labels_of(categories, j)) + 1 for j in features]
        responses = [_response(target, n_classes, direction) for direction in directions]
        prior = [exact_mean(response, scaled) for response in responses]
        start = np.append(0, np.cumsum(sizes)).astype(np.int64)
        made = cls(features, directions, np.array(prior), start, np.empty(start[-1]))
        return made, made.order(values, target, n_classes, weight, learn=True)

    def learn_again(
        self,
        values: np.ndarray,
        categories: Categories,
        target: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None,
    ) -> tuple[TargetStatistics, np.ndarray]:
        """Return the statistics of the same columns from other rows, and their training table."""
        rows = values, categories, target, n_classes, weight
        return self._along(self.features, self.directions, *rows)

    def order(
        self,
        values: np.ndarray,
        target: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None,
        *,
        learn: bool = False,
    ) -> np.ndarray:
        """Return a training table with the ordered statistics of its own rows."""
        scaled = _scaled_weight(weight)
        out = np.array(values)
        for k, j in enumerate(self.features):
            first, stop = self.start[k], self.start[k + 1]
            codes = _codes(values[:, j], stop - first - 1)
            deviation = _response(target, n_classes, self.directions[k]) - self.prior[k]
            before, of_all = _ordered_means(codes, stop - first, deviation, scaled, _SEED + int(j))
            out[:, j] = before + self.prior[k]
            if learn:
                self.table[first:stop] = of_all + self.prior[k]
        return out

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return a table to predict, with the statistics of all training rows."""
        out = np.array(values)
        for k, j in enumerate(self.features):
            own = self.table[self.start[k] : self.start[k + 1]]
            out[:, j] = own[_codes(values[:, j], len(own) - 1)]
        return out

    def check_categories(self, categories: Categories) -> None:
        """Refuse statistics of other columns than those with these categories."""
        for j, size in zip(self.features, np.diff(self.start), strict=True):
            labels = categories[j] if j < len(categories) else None
            if labels is None or len(labels) + 1 != size:
                raise ValueError("the statistics of categories are those of other columns")

    def _check_state(self) -> None:
        sizes = check_arrays(
            self,
            {
                "features": (np.int64, "k"),
                "directions": (np.float64, "k", "m"),
                "prior": (np.float64, "k"),
                "start": (np.int64, "n"),
                "table": (np.float64, "cells"),
            },
        )
        start, table = self.start, self.table
        good = sizes["n"] == sizes["k"] + 1 and start[0] == 0 and start[-1] == len(table)
        good = good and bool((np.diff(start) > 0).all() and (np.diff(self.features) > 0).all())
        good = good and bool((self.features >= 0).all() and np.isfinite(table).all())
        if not good or not np.isfinite(self.prior).all() or not np.isfinite(self.directions).all():
            raise ValueError("the state of TargetStatistics is not consistent")


class _Between:
    """How much the responses differ between the categories of a column, and within them."""

    def __init__(
        self,
        codes: np.ndarray,
        n_codes: int,
        target: np.ndarray,
        n_classes: int,
        weight: np.ndarray | None,
    ) -> None:
        self.rows = group_sums(codes, n_codes, weight)
        seen = self.rows > 0
        self.rows = self.rows[seen]
        sums, self.squares = [], 0.0
        self.scales: list[float] = []
        columns = list(_columns(target, n_classes))
        for column in columns:
            deviation = column - exact_mean(column, weight)
            scale = 1.0
            if n_classes == 0:  # targets may have different units; squares must not overflow
                scale = float(np.abs(deviation).max()) or 1.0
                unit = math.sqrt(exact_mean((deviation / scale) ** 2, weight)) or 1.0
                scale *= unit if len(columns) > 1 else 1.0
            deviation /= scale
            self.scales.append(scale)
            moment = deviation if weight is None else deviation * weight
            sums.append(group_sums(codes, n_codes, moment)[seen])
            self.squares += exact_sum(deviation * moment)
        self.sums = np.column_stack(sums)

    def is_for_statistics(self) -> bool:
        """Whether there are many categories, whose means are not known almost without noise.

        The reliability of a mean of n rows is n / (n + within / between), in variances, those of an
        analysis of variance with random effects (Searle, Casella and McCulloch 1992, ch. 3.6).
        """
        rows, n_seen = self.rows, len(self.rows)
        n_rows = exact_sum(rows)
        if n_seen <= MANY_CATEGORIES:
            return False
        explained = float(sum(exact_sum(column * column / rows) for column in self.sums.T))
        within = max(self.squares - explained, 0.0) / max(n_rows - n_seen, 1.0)
        even = (n_rows - exact_sum(rows * rows) / n_rows) / (n_seen - 1)
        between = (explained / (n_seen - 1) - within) / even if even > 0 else 0.0
        if between <= 0:
            return True
        reliability = exact_sum(rows * rows / (rows + within / between)) / n_rows
        return bool(reliability < KNOWN_MEANS)

    def direction(self) -> np.ndarray:
        """Return the combination of responses that differs most between the categories.

        The first principal component of the means (Coppersmith, Hong and Hosking 1999, of classes).
        It is rounded, since the last bits of an eigenvector depend on the linear algebra library.
        """
        if self.sums.shape[1] == 1:
            return np.ones(1)
        spread = self.sums.T @ (self.sums / self.rows[:, None])
        top = np.linalg.eigh(spread / max(np.abs(spread).max(), TINY))[1][:, -1]
        top = top * np.sign(top[np.argmax(np.abs(top).round(6))])
        return np.asarray(top.round(6) / np.array(self.scales))


def _labels_of(categories: Categories, j: int) -> np.ndarray:
    """Return the labels of a column of categories."""
    labels = categories[j]
    assert labels is not None
    return labels


def _columns(target: np.ndarray, n_classes: int) -> Any:
    """Yield the responses, one per target, or per class (of two classes the second)."""
    if n_classes:
        for code in range(1 if n_classes == 2 else 0, n_classes):
            yield (target == code).astype(np.float64)
    else:
        yield from np.asarray(target, dtype=np.float64).reshape(len(target), -1).T


def _response(target: np.ndarray, n_classes: int, direction: np.ndarray) -> np.ndarray:
    """Return the response of each row along a direction."""
    if n_classes > 2:
        return direction[target.astype(np.intp)]
    total = np.zeros(len(target))
    for column, factor in zip(_columns(target, n_classes), direction, strict=True):
        total += column * factor
    return total


def _scaled_weight(weight: np.ndarray | None) -> np.ndarray | None:
    """Return weights with a mean of 1 over the rows of positive weight: their unit is a row."""
    if weight is None:
        return None
    n_counted = np.count_nonzero(weight)
    return np.asarray(weight * (n_counted / exact_sum(weight))) if n_counted else None


def _codes(column: np.ndarray, n_categories: int) -> np.ndarray:
    """Return 0 for missing values, 1 for the first category, and so on."""
    missing = np.isnan(column)
    codes = np.where(missing, -1, column).astype(np.intp) + 1
    return np.where(codes > n_categories, 0, codes)


def _ordered_means(
    codes: np.ndarray, n_codes: int, deviation: np.ndarray, weight: np.ndarray | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean deviation before each row in its category, and of all rows of a category."""
    n_rows = len(codes)
    order = np.argsort(row_bits(seed, np.arange(n_rows, dtype=np.uint32)), kind="stable")
    order = order[np.argsort(codes[order], kind="stable")]
    ends = np.cumsum(np.bincount(codes, minlength=n_codes))
    first = np.append(0, ends[:-1])
    moment = deviation if weight is None else deviation * weight
    found = [
        _prefix_sums(column[order], first, ends, codes[order])
        for column in (moment, np.ones(n_rows) if weight is None else weight)
    ]
    (above, all_above), (below, all_below) = found
    before = np.empty(n_rows)
    before[order] = above / (below + PRIOR_ROWS)
    return before, all_above / (all_below + PRIOR_ROWS)


def _prefix_sums(
    column: np.ndarray, first: np.ndarray, ends: np.ndarray, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum before each row in its group, and of the whole group, by integers."""
    largest = float(np.abs(column).max())
    exponent = _SUM_BITS - math.frexp(largest)[1] - len(column).bit_length() if largest else 0
    sums = np.append(0, np.cumsum(np.rint(np.ldexp(column, exponent)).astype(np.int64)))
    before = sums[:-1] - sums[first][group]
    return np.ldexp(before.astype(np.float64), -exponent), np.ldexp(
        (sums[ends] - sums[first]).astype(np.float64), -exponent
    )
