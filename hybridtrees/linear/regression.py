"""Penalised least squares on narrow and wide tables, for one alpha or many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.input.folds import Rows
from hybridtrees.linear import wide as wide_tables
from hybridtrees.linear.cross_products import (
    CrossProducts,
    collect_products,
    merge_products,
    standardised,
)
from hybridtrees.linear.path import AlphaChoice, Penalty, choose_alpha, follow_path
from hybridtrees.linear.solvers import (
    Solution,
    check_coefficients,
    original_scale,
    ridge_path,
    solve_least_squares,
    solve_products,
)

Floats = NDArray[np.float64]

_FEW_ROWS = 16


@dataclass(frozen=True)
class Options:
    """Options of the solvers; `cv` is the result of `check_cv`."""

    penalty: Penalty
    fit_intercept: bool = True
    standardize: bool = True
    tol: float = 1e-10
    max_iter: int = 10_000
    n_threads: int = 1
    cv: int | list[tuple[Any, Any]] = 5

    @property
    def limits(self) -> dict[str, Any]:
        """When an iterative solver stops."""
        return {"tol": self.tol, "max_iter": self.max_iter}

    @property
    def scaled(self) -> bool:
        """Whether columns are scaled; without a penalty that has no effect on the solution."""
        return self.standardize or self.penalty.alpha == 0


@dataclass
class Line:
    """A fitted linear function, `base` + (x - mean) coef."""

    coef: Floats  # (p, k)
    # (p,): the point where `base` is the prediction, and replacements of missing values
    mean: Floats
    fill: Floats
    base: Floats  # (k,)

    @property
    def intercept(self) -> Floats:
        """Prediction at the origin."""
        return self.base - self.mean @ self.coef

    def predict(self, values: Any, rows: Rows | None = None, n_threads: int = 1) -> Floats:
        """Return predictions of shape (n_rows, k)."""
        from hybridtrees.linear import _passes
        from hybridtrees.linear.blas import sequential_blas

        # BLAS uses one thread for a few rows anyway, and limiting it takes time.
        few = values.shape[0] <= _FEW_ROWS
        with nullcontext() if few else sequential_blas():
            table = standardised(values, self.mean, np.ones(len(self.mean)), self.fill, rows)
            coef = np.ascontiguousarray(self.coef)
            return _passes.project(table, coef, np.ascontiguousarray(self.base), n_threads)


class NarrowRegression:
    """Least squares from cross products."""

    def __init__(self, moments: CrossProducts, options: Options) -> None:
        self.moments = moments
        self.options = options

    @classmethod
    def collect(
        cls,
        values: Any,
        y: Floats,
        weight: Floats | None,
        rows: Rows | None,
        options: Options,
        fill: Floats | None = None,
    ) -> NarrowRegression:
        """Collect the cross products of some rows."""
        centred, n_threads = options.fit_intercept, options.n_threads
        moments = collect_products(
            values, y, weight, centred=centred, rows=rows, fill=fill, n_threads=n_threads
        )
        return cls(moments, options)

    def steepest(self) -> float:
        """Return the largest slope of the loss where all coefficients are 0."""
        m = self.moments
        slopes = np.abs(m.xy) * m.y_scale
        if not self.options.scaled:
            slopes = slopes * m.scale[:, None]
        return float(slopes.max(initial=0.0))

    def _penalties(self, alpha: float) -> tuple[Any, Any]:
        l1, l2 = self.options.penalty.parts(alpha)
        if self.options.scaled:
            return l1, l2
        scale = np.where(self.moments.varies, self.moments.scale, 1.0)
        return l1 / scale, l2 / scale**2

    def solve(
        self, alpha: float, start: Floats | None = None, *, want_inverse: bool = False
    ) -> Solution:
        """Solve for one alpha."""
        l1, l2 = self._penalties(alpha)
        how = {"want_inverse": want_inverse, **self.options.limits}
        return solve_products(self.moments, l1, l2, start=start, **how)

    def path(self, alphas: Floats) -> Iterator[Solution]:
        """Yield solutions for alphas from large to small, each starting from the last."""
        m = self.moments
        if not self.options.penalty.has_l1 and self.options.scaled and m.varies.any():
            for beta in ridge_path(m.corr, m.xy, self.options.penalty.parts(1.0)[1] * alphas):
                yield Solution(beta, m.n_columns)
            return
        yield from follow_path(self.solve, alphas, lambda solution: solution.beta)

    def line(self, solution: Solution) -> Line:
        """Return the solution as a function of the original columns."""
        m = self.moments
        coef, _ = original_scale(solution.beta, m)
        return Line(coef, m.mean, m.fill, m.y_mean)

    def loss(self, solution: Solution, test: CrossProducts) -> float:
        """Return the mean squared error on other rows, from their cross products."""
        line = self.line(solution)
        bias = test.y_mean - line.base - (test.mean - line.mean) @ line.coef
        slope = test.scale[:, None] * line.coef
        within = (
            test.y_scale**2
            - 2.0 * test.y_scale * (slope * test.xy).sum(axis=0)
            + (slope * (test.corr @ slope)).sum(axis=0)
        )
        return float(np.mean(bias**2 + np.maximum(within, 0.0)))


def exact_least_squares(
    values: Any, y: Floats, weight: Floats | None, moments: CrossProducts
) -> Solution:
    """Solve least squares by QR from the rows, for columns that are nearly dependent."""
    y_scale = np.where(moments.y_scale > 0, moments.y_scale, 1.0)
    targets = (y - moments.y_mean) / y_scale
    table = standardised(values, moments.mean, moments.scale, moments.fill)
    solution = solve_least_squares(table, targets, weight, want_inverse=True)
    varies = moments.varies
    assert solution.inverse is not None and solution.estimable is not None
    solution.inverse = solution.inverse[np.ix_(varies, varies)]
    solution.estimable = solution.estimable[varies]
    solution.beta[:, moments.y_scale == 0] = 0.0
    return solution


class WideRegression:
    """Least squares on a table with too many columns for cross products; see `wide`."""

    def __init__(
        self, values: Any, y: Floats, weight: Floats | None, rows: Rows | None, options: Options
    ) -> None:
        centred = options.fit_intercept
        self.wide = wide_tables.open_wide(
            values, weight, centred=centred, scaled=options.scaled, rows=rows
        )
        self.options = options
        if rows is not None:
            y, weight = y[rows], None if weight is None else weight[rows]
        self.w = np.full(len(y), 1.0 / len(y)) if weight is None else weight / weight.sum()
        self.y_mean = self.w @ y if centred else np.zeros(y.shape[1])
        deviation = y - self.y_mean
        unit = np.abs(deviation).max(axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        self.y_scale = np.sqrt(self.w @ (deviation / unit) ** 2) * unit
        self.y = deviation / np.where(self.y_scale > 0, self.y_scale, 1.0)

    def steepest(self) -> float:
        """Return the largest slope of the loss where all coefficients are 0."""
        if self.wide.columns is None:
            return 0.0
        slopes = [
            np.abs(self.wide.columns.gradient(self.w * self.y[:, k])).max() * scale
            for k, scale in enumerate(self.y_scale)
        ]
        return float(max(slopes))

    def solve(self, alpha: float, start: Floats | None = None) -> Solution:
        """Solve for one alpha."""
        k = self.y.shape[1]
        options = self.options
        l1, l2 = options.penalty.parts(alpha)
        if self.wide.columns is None:
            return Solution(np.zeros((0, k)), 0)
        if l1 == 0:
            return wide_tables.wide_ridge(self.wide, self.y, self.w, l2, options.max_iter)
        parts = []
        for j, scale in enumerate(self.y_scale):
            if scale == 0:
                parts.append(Solution(np.zeros((self.wide.columns.n_columns, 1)), 0))
                continue
            given = (self.wide, np.ascontiguousarray(self.y[:, j]), self.w, l1 / scale, l2)
            own = None if start is None else start[:, j]
            parts.append(wide_tables.wide_elastic_net(*given, start=own, **options.limits))
        return Solution(
            np.hstack([part.beta for part in parts]),
            max(part.rank for part in parts),
            n_iter=max(part.n_iter for part in parts),
            converged=all(part.converged for part in parts),
        )

    def path(self, alphas: Floats) -> Iterator[Solution]:
        """Yield solutions for alphas from large to small, each starting from the last."""
        return follow_path(self.solve, alphas, lambda solution: solution.beta)

    def line(self, solution: Solution) -> Line:
        """Return the solution as a function of the original columns."""
        with np.errstate(over="ignore"):
            coef = self.wide.unscaled(solution.beta * self.y_scale)
        check_coefficients(coef)
        return Line(coef, self.wide.mean, self.wide.fill, self.y_mean)

    def loss(
        self, solution: Solution, y: Floats, weight: Floats | None, values: Any, rows: Rows
    ) -> float:
        """Return the mean squared error on some rows of a table."""
        left = y - self.line(solution).predict(values, rows, self.options.n_threads)
        return float(np.average((left**2).mean(axis=1), weights=weight))


def open_regression(
    values: Any, y: Floats, weight: Floats | None, options: Options, rows: Rows | None = None
) -> NarrowRegression | WideRegression:
    """Choose the solver by the shape of the table."""
    if wide_tables.is_wide(*values.shape):
        return WideRegression(values, y, weight, rows, options)
    return NarrowRegression.collect(values, y, weight, rows, options)


def choose_regression_alpha(
    values: Any,
    y: Floats,
    weight: Floats | None,
    model: NarrowRegression | WideRegression,
    alphas: Any = 100,
    unit: float = 1.0,
) -> AlphaChoice:
    """Choose alpha by the cross-validated squared error; `model` is that of all rows."""
    options = model.options

    def collect(rows: Rows, fill: Floats) -> NarrowRegression:
        return NarrowRegression.collect(values, y, weight, rows, options, fill)

    def narrow_losses(grid: Floats, folds: list[tuple[Rows, Rows]]) -> Iterator[Floats]:
        # Products are collected for the test rows of each fold. If the folds are a partition of
        # the rows, the training products are the merged products of the other folds.
        assert isinstance(model, NarrowRegression)
        fill = model.moments.fill
        tests = [collect(test, fill).moments for _, test in folds]
        seen = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(y))
        parted = len(folds) > 1 and (seen == 1).all()
        parted &= all(len(train) + len(test) == len(y) for train, test in folds)
        parted &= all(not np.isin(train, test).any() for train, test in folds)
        for fold, (train, _) in enumerate(folds):
            if parted:
                others = [moments for k, moments in enumerate(tests) if k != fold]
                part = NarrowRegression(merge_products(others), options)
            else:
                part = collect(train, fill)
            yield np.array([part.loss(solution, tests[fold]) for solution in part.path(grid)])

    def wide_losses(grid: Floats, folds: list[tuple[Rows, Rows]]) -> Iterator[Floats]:
        for train, test in folds:
            part = WideRegression(values, y, weight, train, options)
            held_out = y[test], None if weight is None else weight[test], values, test
            yield np.array([part.loss(solution, *held_out) for solution in part.path(grid)])

    losses = narrow_losses if isinstance(model, NarrowRegression) else wide_losses
    return choose_alpha(model, losses, len(y), None, weight, alphas, unit)
