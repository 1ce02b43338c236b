"""Which rows train, which validate, which test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hybridtrees._parameters import Seed, check_integer
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.input.folds import check_per_row, check_times, make_folds

TRAIN, VALIDATION = 0.70, 0.15  # the rest tests
FEWEST_ROWS = 10


class Fold(NamedTuple):
    """Row numbers to train on and to validate on."""

    train: np.ndarray
    validation: np.ndarray


@dataclass(frozen=True)
class Split:
    """Row numbers of training, validation and test."""

    folds: list[Fold]  # One, or k for k-fold validation
    rest: np.ndarray  # All rows but those of the test: what the chosen models are fitted on
    test: np.ndarray  # Rows that the chosen models are scored on
    by_time: bool  # Whether rows stand in the order of time; otherwise row numbers ascend

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows that train (in the first fold), validate and test."""
        fold = self.folds[0]
        return len(fold.train), len(fold.validation), len(self.test)


def split_rows(
    n_rows: int,
    *,
    strata: Any = None,
    time: Any = None,
    n_folds: int | None = None,
    random_state: Seed = 0,
) -> Split:
    """Divide rows into 70 % training, 15 % validation and 15 % test, as `compare` does.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 10.
    strata : array-like of shape (n_rows,), optional
        Classes; each is divided on its own, so that all parts have the same shares of them.
    time : array-like of shape (n_rows,), optional
        Numbers or dates. The earliest rows train and the latest test; a fold trains on what lies
        before the rows that it validates on.
    n_folds : int, optional
        Cut the 85 % that do not test into this number of folds.
    random_state : int, Generator, RandomState, SeedSequence or None
        Seed of the shuffle; without effect if `time` is given.

    Returns
    -------
    plan : Split
        Row numbers: `rest` and `test`, and `folds` with `train` and `validation`.

    Examples
    --------
    >>> from hybridtrees import split_rows
    >>> plan = split_rows(20, random_state=0)
    >>> plan.sizes
    (14, 3, 3)
    >>> len(plan.rest), len(plan.folds)
    (17, 1)
    """
    check_integer("n_rows", n_rows, 0)
    strata, time = check_per_row(strata, "strata", n_rows), check_times(time, n_rows)
    if n_rows < FEWEST_ROWS:
        raise ValueError(f"a comparison needs at least {FEWEST_ROWS} rows, got {n_rows}")
    if n_folds is not None and not 2 <= n_folds <= n_rows // 3:
        raise ValueError(f"folds must be from 2 to {n_rows // 3} for {n_rows} rows, got {n_folds}")
    if time is not None:
        order = np.argsort(time, kind="stable")
        first, second = round(TRAIN * n_rows), round((TRAIN + VALIDATION) * n_rows)
        rest, test = order[:second], order[second:]
        folds = [Fold(order[:first], order[first:second])]
        if n_folds is not None:
            parts = np.array_split(rest, n_folds + 1)
            folds = [Fold(np.concatenate(parts[:k]), parts[k]) for k in range(1, n_folds + 1)]
        return Split(folds, rest, test, True)
    rng = np.random.default_rng(seed_sequence(random_state))
    groups = np.zeros(n_rows, dtype=int) if strata is None else strata
    position = _places_within_strata(groups, rng)
    is_test = position >= TRAIN + VALIDATION
    rest, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    folds = [Fold(np.flatnonzero(position < TRAIN), rest[position[rest] >= TRAIN])]
    if n_folds is not None:
        folds = _dealt_out(rest, strata, n_folds, rng)
    return Split(folds, rest, test, False)


def _dealt_out(
    rows: np.ndarray, strata: np.ndarray | None, n_folds: int, rng: np.random.Generator
) -> list[Fold]:
    """Folds of rows at random, class by class, so that none lacks one."""
    classes = None if strata is None else strata[rows]
    folds = make_folds(n_folds, len(rows), classes, name="folds", rng=rng)
    return [Fold(rows[train], rows[validation]) for train, validation in folds]


def repeated_folds(
    plan: Split, n_folds: int, n_repeats: int, strata: np.ndarray | None, seed: int
) -> list[list[Fold]]:
    """Folds of the rows that do not test, divided anew in each repeat.

    In the order of time there is one way only: each of the last `n_folds` runs of rows, as long
    as the test, is held out once, and all that lies before it trains.
    """
    rest = plan.rest
    if plan.by_time:
        length = min(len(plan.test), len(rest) // (n_folds + 1))
        starts = len(rest) - length * np.arange(n_folds, 0, -1)
        return [[Fold(rest[:start], rest[start : start + length]) for start in starts]]
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))  # other draws than the split's
    return [_dealt_out(rest, strata, n_folds, rng) for _ in range(n_repeats)]


def _places_within_strata(strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Place of each row in the shuffled order of its stratum, from 0 to below 1.

    Halves are added, so that a stratum of two or three rows gives the test part one of them
    only where that is its due.
    """
    position = np.empty(len(strata))
    for stratum in np.unique(strata):
        rows = rng.permutation(np.flatnonzero(strata == stratum))
        position[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return position


def nested_parts(
    rows: np.ndarray, sizes: list[int], by_time: bool, strata: np.ndarray | None, seed: object
) -> list[np.ndarray]:
    """Subsets of rows, each within the next, for the rungs of successive halving.

    They are drawn at random, class by class, or are the last rows `by_time`.
    """
    if by_time:
        return [rows[len(rows) - size :] for size in sizes]
    rng = np.random.default_rng(seed_sequence(seed))
    groups = np.zeros(len(rows), dtype=int) if strata is None else strata[rows]
    order = np.argsort(_places_within_strata(groups, rng), kind="stable")
    return [rows[np.sort(order[:size])] for size in sizes]
