"""Penalties, grids of alphas, and the choice of alpha by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees.input.folds import Folds, make_folds

Floats = NDArray[np.float64]

PENALTIES = (None, "ridge", "lasso", "elasticnet")
ALPHA_SCALINGS = ("mean", "sum")
# The smallest alpha of a grid, as a share of the largest.
_LASSO_RANGE = 1e-4
_RIDGE_RANGE = 1e-7
# The usual alpha of a classifier: that of scikit-learn's default at 1,000 rows.
_USUAL = 1e-3
# The largest alpha depends on the L1 part; for a ridge this ratio is used instead.
_MIN_L1_RATIO = 1e-3


@dataclass(frozen=True)
class Penalty:
    """alpha * (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)."""

    alpha: float | None  # None if it is chosen by cross-validation, or not known yet
    l1_ratio: float
    automatic: bool = False  # whether alpha follows from the table

    @property
    def has_l1(self) -> bool:
        """Whether there is an L1 part."""
        return self.l1_ratio > 0 and self.alpha != 0

    def per_row(self, unit: float) -> Penalty:
        """Return the penalty of the mean loss, given that of `unit` times the mean loss."""
        return self if self.alpha is None else replace(self, alpha=self.alpha / unit)

    def for_table(self, n_columns: int, n_rows: int, weight: Floats | None) -> Penalty:
        """Return the penalty for a table, if it follows from the table.

        Almost any classes of fewer rows than columns can be separated by a line: a small penalty
        makes it sure of them. There alpha is chosen by cross-validation.
        """
        if not self.automatic:
            return self
        known = n_rows if weight is None else int(np.count_nonzero(weight))
        return replace(self, alpha=_USUAL if n_columns < known else None, automatic=False)

    def parts(self, alpha: float) -> tuple[float, float]:
        """Return the L1 and L2 penalty for an alpha."""
        return alpha * self.l1_ratio, alpha * (1.0 - self.l1_ratio)


def check_penalty(penalty: Any, alpha: Any, l1_ratio: Any, *, automatic: bool = False) -> Penalty:
    """Check the three parameters and return the penalty; `automatic`: alpha may be "auto"."""
    name = check_option("penalty", penalty, PENALTIES)
    ratio = check_real("l1_ratio", l1_ratio, 0, 1)
    assert ratio is not None
    by_size = automatic and isinstance(alpha, str) and alpha == "auto"
    if isinstance(alpha, str):
        if alpha != "cv" and not by_size:
            allowed = ", 'auto' or 'cv'" if automatic else " or 'cv'"
            raise ValueError(f"alpha must be a real number of at least 0{allowed}, got {alpha!r}")
        value = None
    else:
        value = check_real("alpha", alpha, 0)
    if name is None:
        return Penalty(0.0, 0.0)
    return Penalty(value, {"ridge": 0.0, "lasso": 1.0}.get(name, ratio), by_size)


def check_alphas(alphas: Any) -> int | Floats:
    """Check the number of alphas, or return the alphas sorted from large to small."""
    if isinstance(alphas, Integral):
        return check_integer("alphas", alphas, 1)
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
    """Return alphas from large to small, from their number or a given grid.

    `steepest` is the largest slope of the mean loss where all coefficients are 0; they stay 0 for
    alphas of at least steepest / l1_ratio. A given grid is for `unit` times the mean loss, see
    `Penalty.per_row`.
    """
    if not isinstance(alphas, int):
        return alphas / unit
    largest = steepest / max(l1_ratio, _MIN_L1_RATIO)
    if not largest > 0:  # the target is constant: any penalty will do
        largest = 1.0
    smallest = largest * (_LASSO_RANGE if l1_ratio > 0 else _RIDGE_RANGE)
    return np.geomspace(largest, smallest, alphas) if alphas > 1 else np.array([largest])


class AlphaChoice(NamedTuple):
    """An alpha, and the results of its cross-validation."""

    alpha: float
    alphas: Floats | None = None
    losses: Floats | None = None  # (n_alphas, n_folds)


def choose_alpha(
    model: Any,
    fold_losses: Callable[[Floats, Folds], Iterable[Floats]],
    n_rows: int,
    codes: NDArray[Any] | None,
    weight: Floats | None,
    alphas: Any,
    unit: float,
) -> AlphaChoice:
    """Return the given alpha, or the largest one with minimum mean loss over the folds.

    `fold_losses` returns, for each fold, the loss on its test rows for each alpha.
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
    """Yield solutions for alphas from large to small, each starting from the last."""
    start = None
    for alpha in alphas:
        solution = solve(float(alpha), start)
        start = start_of(solution)
        yield solution
