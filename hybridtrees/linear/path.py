"""Penalties: what the parameters mean, grids of alphas, folds, the choice of an alpha."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer, check_option, check_real

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

PENALTIES = (None, "ridge", "lasso", "elasticnet")
ALPHA_SCALINGS = ("mean", "sum")
# The smallest alpha of a grid, as a share of the largest.
_LASSO_RANGE = 1e-4
_RIDGE_RANGE = 1e-7
# A pure ridge has no largest alpha that matters; this share of L1 stands in for one.
_LEAST_L1 = 1e-3
_FOLD_SEED = 20260101


@dataclass(frozen=True)
class Penalty:
    """alpha * (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)."""

    alpha: float | None  # None where it is to be found by cross-validation
    l1_ratio: float

    @property
    def has_l1(self) -> bool:
        """Whether there is an L1 part."""
        return self.l1_ratio > 0 and self.alpha != 0

    def per_row(self, unit: float) -> Penalty:
        """Return the penalty of a mean loss, given the one of `unit` times that loss."""
        return self if self.alpha is None else replace(self, alpha=self.alpha / unit)

    def parts(self, alpha: float) -> tuple[float, float]:
        """L1 and L2 penalty at an alpha."""
        return alpha * self.l1_ratio, alpha * (1.0 - self.l1_ratio)


def check_penalty(penalty: Any, alpha: Any, l1_ratio: Any) -> Penalty:
    """Check the three parameters and return the penalty that they mean."""
    name = check_option("penalty", penalty, PENALTIES)
    ratio = check_real("l1_ratio", l1_ratio, 0, 1)
    assert ratio is not None
    if isinstance(alpha, str):
        if alpha != "cv":
            raise ValueError(f"alpha must be a real number of at least 0 or 'cv', got {alpha!r}")
        value = None
    else:
        value = check_real("alpha", alpha, 0)
    if name is None:
        return Penalty(0.0, 0.0)
    return Penalty(value, {"ridge": 0.0, "lasso": 1.0}.get(name, ratio))


def check_alphas(alphas: Any) -> int | Floats:
    """Check the number of alphas, or the alphas themselves, sorted from large to small."""
    if isinstance(alphas, Integral):
        number = check_integer("alphas", alphas, 1)
        assert number is not None
        return number
    try:
        grid = np.unique(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
    except (TypeError, ValueError):
        grid = np.zeros(0)
    if not len(grid) or not np.isfinite(grid).all() or grid[-1] <= 0:
        raise ValueError(
            f"alphas must be a positive integer or a list of positive numbers, got {alphas!r}"
        )
    return grid


def alpha_grid(alphas: int | Floats, steepest: float, l1_ratio: float, unit: float = 1.0) -> Floats:
    """Alphas from large to small, of a number of them or a given grid.

    `steepest` is the largest slope of the mean loss along a standardised column where all
    coefficients are 0, which they stay from alpha = steepest / l1_ratio on. A given grid is for
    `unit` times the mean loss, see `Penalty.per_row`.
    """
    if not isinstance(alphas, int):
        return alphas / unit
    largest = steepest / max(l1_ratio, _LEAST_L1)
    if not largest > 0:  # nothing to explain: any penalty will do
        largest = 1.0
    smallest = largest * (_LASSO_RANGE if l1_ratio > 0 else _RIDGE_RANGE)
    return np.geomspace(largest, smallest, alphas) if alphas > 1 else np.array([largest])


def check_cv(cv: Any, name: str = "cv") -> int | list[tuple[Any, Any]]:
    """Check the number of folds, or pairs of (training rows, test rows), and return a list of them.

    An iterator is used up by this: call it once for each fit.
    """
    if isinstance(cv, Integral):
        number = check_integer(name, cv, 2)
        assert number is not None
        return number
    if isinstance(cv, str) or not isinstance(cv, Iterable):
        raise TypeError(
            f"{name} must be an integer of at least 2 or an iterable of pairs (training rows, test "
            f"rows), got {cv!r}"
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


def make_folds(
    cv: int | list[tuple[Any, Any]],
    n_rows: int,
    codes: NDArray | None = None,
    weight: Floats | None = None,
    name: str = "cv",
) -> list[tuple[Rows, Rows]]:
    """Training and test rows of each fold.

    For a number of folds, rows are dealt out in an order that looks random and is the same every
    time, class by class where there are classes, and those of weight zero last.
    """
    if not isinstance(cv, int):
        folds = [(_row_numbers(a, n_rows, name), _row_numbers(b, n_rows, name)) for a, b in cv]
        for side, part in (("training", 0), ("test", 1)):
            if weight is not None and any(not weight[fold[part]].any() for fold in folds):
                raise ValueError(
                    f"sample_weight is zero for all {side} rows of a fold: choose other folds by "
                    f"{name}"
                )
        return folds
    if cv > n_rows:
        raise ValueError(f"{name}={cv} folds need at least as many rows, got {n_rows}")
    order = np.random.default_rng(_FOLD_SEED).permutation(n_rows)
    if codes is not None:
        order = order[np.argsort(codes[order], kind="stable")]
    if weight is not None:
        order = order[np.argsort(weight[order] == 0, kind="stable")]
        counted = int(np.count_nonzero(weight))
        if cv > counted:
            raise ValueError(
                f"{name}={cv} folds need at least as many rows of positive sample_weight, "
                f"got {counted}"
            )
    fold = np.empty(n_rows, dtype=np.int64)
    fold[order] = np.arange(n_rows) % cv
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(cv)]


def _row_numbers(rows: Any, n_rows: int, name: str) -> Rows:
    try:
        rows = np.asarray(rows)
    except ValueError:  # rows of a ragged list
        rows = np.zeros(0)
    if rows.dtype == bool and rows.shape == (n_rows,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
        raise ValueError(f"{name} must hold pairs of row numbers or masks, none of them empty")
    if rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(f"{name} holds row numbers outside [0, {n_rows})")
    return rows.astype(np.int64)


class AlphaChoice(NamedTuple):
    """An alpha, and what was tried to find it by cross-validation."""

    alpha: float
    alphas: Floats | None = None
    losses: Floats | None = None  # (n_alphas, n_folds)


def choose_alpha(
    model: Any,
    fold_losses: Callable[[Floats, list[tuple[Rows, Rows]]], Iterable[Floats]],
    n_rows: int,
    codes: NDArray | None,
    weight: Floats | None,
    alphas: Any,
    unit: float,
) -> AlphaChoice:
    """Return the alpha that is given, or the largest one of minimum mean loss over the folds.

    `fold_losses` gives, for each fold, the loss on its test rows at each alpha.
    """
    penalty, cv = model.options.penalty, model.options.cv
    if penalty.alpha is not None:
        return AlphaChoice(penalty.alpha)
    folds = make_folds(cv, n_rows, codes, weight)
    grid = alpha_grid(check_alphas(alphas), model.steepest(), penalty.l1_ratio, unit)
    losses = np.column_stack(list(fold_losses(grid, folds)))
    return AlphaChoice(float(grid[int(np.argmin(losses.mean(axis=1)))]), grid, losses)


def follow_path(
    solve: Callable[[float, Any], Any], alphas: Floats, start_of: Callable[[Any], Floats]
) -> Iterator[Any]:
    """Solutions for alphas from large to small, each starting from the one before."""
    start = None
    for alpha in alphas:
        solution = solve(float(alpha), start)
        start = start_of(solution)
        yield solution
