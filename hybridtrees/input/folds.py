"""Folds of cross-validation: which rows train, and which rows test."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer

Rows = NDArray[np.int64]
Folds = list[tuple[Rows, Rows]]

# Folds by a number are the same in every fit, unless the caller has a generator of its own.
_SEED = 20260101


def check_cv(cv: Any, name: str = "cv") -> Any:
    """Return a number of folds, an object with a method `split`, or a list of pairs of rows.

    An iterator is used up by this: call it once for each fit.
    """
    if isinstance(cv, Integral):
        return check_integer(name, cv, 2)
    if hasattr(cv, "split") and not isinstance(cv, str | bytes):
        return cv
    if isinstance(cv, str | bytes | np.ndarray) or not isinstance(cv, Iterable):
        raise TypeError(
            f"{name} must be an integer of at least 2 or an iterable of pairs (training rows, test "
            f"rows) or an object with a method split, got {cv!r}"
        )
    try:
        splits = [tuple(split) for split in cv]
    except TypeError as error:
        raise TypeError(f"{name} must hold pairs (training rows, test rows): {error}") from error
    if not splits:
        raise ValueError(
            f"{name} holds no pair (training rows, test rows); an iterator is used up by one fit"
        )
    if any(len(split) != 2 for split in splits):
        raise ValueError(f"{name} must hold pairs (training rows, test rows)")
    return splits


def check_per_row(values: Any, name: str, n_rows: int) -> NDArray[Any] | None:
    """Return an optional argument that has one entry for each row."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one entry for each of the {n_rows} rows, got the shape {array.shape}"
        )
    return array


def check_times(values: Any, n_rows: int) -> NDArray[Any] | None:
    """Return `time` as numbers or dates without missing ones."""
    array = check_per_row(values, "time", n_rows)
    if array is None:
        return None
    if array.dtype.kind not in "iufM":
        raise ValueError(f"time must be numbers or dates (datetime64), got {array.dtype}")
    if (array != array).any():  # NaN and NaT
        raise ValueError("time must not have missing values")
    return array


def make_folds(
    cv: Any,
    n_rows: int,
    classes: NDArray[Any] | None = None,
    weight: NDArray[Any] | None = None,
    name: str = "cv",
    *,
    groups: NDArray[Any] | None = None,
    time: NDArray[Any] | None = None,
    rng: np.random.Generator | None = None,
) -> Folds:
    """Training and test rows of each fold of what `check_cv` has returned.

    A number of folds deals the rows out at random, in equal shares of each of the `classes`.
    Rows of one of the `groups` stay together. With `time`, each fold trains on the rows before
    those it tests on. Rows of weight zero are dealt out last.
    """
    if not isinstance(cv, int):
        if hasattr(cv, "split"):
            cv = list(cv.split(np.zeros((n_rows, 1)), classes, groups))
        folds = [(_row_numbers(a, n_rows, name), _row_numbers(b, n_rows, name)) for a, b in cv]
        for side, part in (("training", 0), ("test", 1)):
            if weight is not None and any(not weight[fold[part]].any() for fold in folds):
                raise ValueError(
                    f"sample_weight is zero for all {side} rows of a fold: choose other folds by "
                    f"{name}"
                )
        return folds
    used = np.arange(n_rows) if weight is None else np.flatnonzero(weight)
    if cv > len(used):
        what = "rows" if weight is None else "rows of positive sample_weight"
        raise ValueError(
            f"{name}={cv} folds need at least as many {what}, got {len(used)} sample(s)"
        )
    if time is not None:
        parts = _stretches(time, cv + 1, name)
        return [(np.sort(np.concatenate(parts[:k])), np.sort(parts[k])) for k in range(1, cv + 1)]
    rng = np.random.default_rng(_SEED) if rng is None else rng
    if groups is not None:
        fold = _whole_groups(groups, cv, rng, name)
    else:
        order = rng.permutation(used)
        if classes is not None:
            order = order[np.argsort(classes[order], kind="stable")]
        order = np.append(order, np.setdiff1d(np.arange(n_rows), used))
        fold = np.empty(n_rows, dtype=np.int64)
        fold[order] = np.arange(n_rows) % cv
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]


def _stretches(time: NDArray[Any], n_parts: int, name: str) -> list[Rows]:
    """Divide rows in time order into parts of about equal size; equal times stay together."""
    order = np.argsort(time, kind="stable")
    ordered = time[order]
    starts = 1 + np.flatnonzero(ordered[1:] != ordered[:-1])
    if len(starts) < n_parts - 1:
        raise ValueError(
            f"{name}={n_parts - 1} folds in time order need at least {n_parts} distinct times, "
            f"got {len(starts) + 1}"
        )
    cuts: list[int] = []
    first = 0
    for k in range(1, n_parts):
        free = starts[first : len(starts) - (n_parts - 1 - k)]
        nearest = int(np.argmin(np.abs(free - k * len(order) / n_parts)))
        cuts.append(int(free[nearest]))
        first += nearest + 1
    return np.split(order, cuts)


def _whole_groups(groups: NDArray[Any], n_folds: int, rng: np.random.Generator, name: str) -> Rows:
    """Fold of each row. Groups go, largest first, to the fold with the fewest rows so far."""
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if n_folds > len(sizes):
        raise ValueError(f"{name}={n_folds} folds need at least as many groups, got {len(sizes)}")
    shuffled = rng.permutation(len(sizes))
    fold_of = np.empty(len(sizes), dtype=np.int64)
    rows = np.zeros(n_folds)
    for g in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of[g] = np.argmin(rows)
        rows[fold_of[g]] += sizes[g]
    return fold_of[group.ravel()]


def _row_numbers(rows: Any, n_rows: int, name: str) -> Rows:
    """Row numbers of one part of a fold, which may come as a mask."""
    try:
        found = np.asarray(rows)
    except ValueError:  # rows of a ragged list
        found = np.zeros(0)
    if found.dtype == bool and found.shape == (n_rows,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found):
        raise ValueError(f"{name} must hold pairs of row numbers or masks, none of them empty")
    if found.min() < 0 or found.max() >= n_rows:
        raise ValueError(f"{name} holds row numbers outside [0, {n_rows})")
    return found.astype(np.int64)
