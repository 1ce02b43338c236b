"""Penalised logistic regression on narrow and wide tables, for one alpha or many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridtrees.input.folds import Rows
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.cross_products import column_scales, standardised
from hybridtrees.linear.newton import (
    LogisticFit,
    LogLoss,
    Newton,
    fit_log_loss,
    null_intercepts,
    null_start,
)
from hybridtrees.linear.path import AlphaChoice, choose_alpha, follow_path
from hybridtrees.linear.regression import Line, Options
from hybridtrees.linear.solvers import solve_ridge
from hybridtrees.linear.wide import is_wide, open_wide
from hybridtrees.linear.wide_logistic import LARGEST_HESSIAN, WideLogLoss, fit_wide

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


class Sample(NamedTuple):
    """The rows of a table to fit."""

    values: Any
    codes: Codes
    weight: Floats | None
    rows: Rows | None  # None for all
    n_outputs: int


class NarrowClassification:
    """Logistic regression by Newton's method."""

    def __init__(self, sample: Sample, options: Options) -> None:
        values, _, weight, rows, _ = sample
        mean, scale, fill = column_scales(
            values, weight, centred=options.fit_intercept, rows=rows, n_threads=options.n_threads
        )
        if not options.scaled:
            scale = np.where(scale > 0, 1.0, 0.0)
        self.mean, self.scale, self.fill = mean, scale, fill
        self.options = options
        self.problem = LogLoss(
            lambda chosen: standardised(values, mean, scale, fill, chosen),
            *sample[1:],
            l1=np.zeros(len(mean)),
            l2=np.zeros(len(mean)),
            fit_intercept=options.fit_intercept,
            n_threads=options.n_threads,
        )

    def steepest(self) -> float:
        """Return the largest slope of the loss where all coefficients are 0."""
        grad = self.derivatives(null_start(self.problem), 1)[0]
        return float(np.abs(grad.reshape(self.problem.n_outputs, -1)[:, :-1]).max(initial=0.0))

    def derivatives(self, theta: Floats, order: int) -> tuple[Floats, Floats | None]:
        """Return gradient and hessian of the mean loss."""
        with sequential_blas():
            return Newton(self.problem).evaluate(theta.ravel(), order)[1:]

    def solve(self, alpha: float, start: Floats | None = None, verbose: int = 0) -> LogisticFit:
        """Solve for one alpha."""
        l1, l2 = self.options.penalty.parts(alpha)
        self.problem.l1[:] = l1
        self.problem.l2[:] = l2
        return fit_log_loss(self.problem, start, verbose=verbose, **self.options.limits)

    def line(self, fit: LogisticFit) -> Line:
        """Return the solution as a function of the original columns."""
        inverse = np.where(self.scale > 0, 1.0 / np.where(self.scale > 0, self.scale, 1.0), 0.0)
        coef = fit.theta[:, :-1].T * inverse[:, None]
        return Line(coef, self.mean, self.fill, fit.theta[:, -1].copy())


class WideClassification:
    """Logistic regression for tables with too many columns for a hessian; see `wide`."""

    def __init__(self, sample: Sample, options: Options) -> None:
        values, codes, weight, rows, n_outputs = sample
        self.wide = open_wide(
            values, weight, centred=options.fit_intercept, scaled=options.scaled, rows=rows
        )
        self.options = options
        if rows is not None:
            codes, weight = codes[rows], None if weight is None else weight[rows]
        w = np.full(len(codes), 1.0 / len(codes)) if weight is None else weight / weight.sum()
        self.problem = WideLogLoss(self.wide, codes, w, n_outputs, 0.0, 0.0, options.fit_intercept)

    def _null(self) -> Floats:
        problem = self.problem
        theta = np.zeros((problem.n_outputs, int(self.wide.varies.sum()) + 1))
        if problem.fit_intercept:
            theta[:, -1] = null_intercepts(problem.codes, problem.w, problem.n_outputs)
        return theta

    def steepest(self) -> float:
        """Return the largest slope of the loss where all coefficients are 0."""
        if self.wide.columns is None:
            return 0.0
        problem = self.problem
        _, p = problem.probabilities(problem.scores(self._null()))
        grad = problem.project(problem.w * (p - problem.truth()))
        return float(np.abs(grad[:, :-1]).max())

    def solve(self, alpha: float, start: Floats | None = None, verbose: int = 0) -> LogisticFit:
        """Solve for one alpha."""
        self.problem.l1, self.problem.l2 = self.options.penalty.parts(alpha)
        start = self._null() if start is None else start
        if self.wide.columns is None:
            return LogisticFit(start, 1, True, float("nan"))
        return fit_wide(self.problem, start, verbose=verbose, **self.options.limits)

    def line(self, fit: LogisticFit) -> Line:
        """Return the solution as a function of the original columns."""
        coef = self.wide.unscaled(fit.theta[:, :-1].T)
        return Line(coef, self.wide.mean, self.wide.fill, fit.theta[:, -1].copy())


def open_classification(
    values: Any,
    codes: Codes,
    weight: Floats | None,
    rows: Rows | None,
    n_outputs: int,
    options: Options,
) -> NarrowClassification | WideClassification:
    """Choose the solver by the shape of the table and the number of classes."""
    n, p = values.shape
    large = (p + 1) * n_outputs > max(LARGEST_HESSIAN, 2 * n_outputs)
    kind = WideClassification if is_wide(n, p) or large else NarrowClassification
    return kind(Sample(values, codes, weight, rows, n_outputs), options)


def choose_classification_alpha(
    values: Any,
    codes: Codes,
    weight: Floats | None,
    n_outputs: int,
    model: NarrowClassification | WideClassification,
    alphas: Any = 30,
    unit: float = 1.0,
    verbose: int = 0,
) -> AlphaChoice:
    """Choose alpha by the cross-validated log-loss; `model` is that of all rows."""
    options = model.options

    def losses(grid: Floats, folds: list[tuple[Rows, Rows]]) -> Iterator[Floats]:
        for fold, (train, test) in enumerate(folds):
            part = open_classification(values, codes, weight, train, n_outputs, options)
            w = None if weight is None else weight[test]
            lines = map(part.line, follow_path(part.solve, grid, lambda fit: fit.theta))
            scores = (line.predict(values, test, options.n_threads) for line in lines)
            found = np.array([mean_log_loss(score, codes[test], w) for score in scores])
            if verbose:
                print(f"fold {fold}: minimum log-loss {found.min():.6g}")
            yield found

    return choose_alpha(model, losses, len(codes), codes, weight, alphas, unit)


def mean_log_loss(scores: Floats, codes: Codes, weight: Floats | None) -> float:
    """Return the mean log-loss of scores of shape (n_rows, n_outputs)."""
    if scores.shape[1] == 1:
        losses = np.logaddexp(0.0, np.where(codes == 1, -scores[:, 0], scores[:, 0]))
    else:
        top = scores.max(axis=1)
        losses = np.log(np.exp(scores - top[:, None]).sum(axis=1)) + top
        losses -= scores[np.arange(len(codes)), codes]
    return float(np.average(losses, weights=weight))


def information_errors(model: NarrowClassification, fit: LogisticFit) -> tuple[Floats, Floats]:
    """Return standard errors of coefficients and intercepts of the original columns.

    They come from the inverse of the information, without a penalty. With several classes it is the
    pseudo-inverse, for coefficients that sum to 0 over the classes. NaN where the data do not
    determine a coefficient.
    """
    problem = model.problem
    k, p = problem.n_outputs, len(model.scale)
    varies = model.scale > 0
    own = np.append(varies, problem.fit_intercept)
    free = np.tile(own, k)
    _, hess = model.derivatives(fit.theta, 2)
    assert hess is not None
    none = np.zeros((int(free.sum()), 0))
    solution = solve_ridge(hess[np.ix_(free, free)], none, want_inverse=True)
    assert solution.inverse is not None and solution.estimable is not None
    known = solution.estimable
    if k > 1:  # one dimension per column is lost, since a shift of all scores has no effect
        known = np.full(len(known), solution.rank == (k - 1) * int(own.sum()))
    cov = np.zeros((k * (p + 1), k * (p + 1)))
    cov[np.ix_(free, free)] = np.where(known, solution.inverse, np.nan) / problem.total
    scale = np.where(varies, model.scale, 1.0)
    errors, intercept_errors = np.full((k, p), np.nan), np.full(k, np.nan)
    origin = np.append(np.where(varies, -model.mean / scale, 0.0), 1.0)
    for c in range(k):
        block = cov[c * (p + 1) : (c + 1) * (p + 1), c * (p + 1) : (c + 1) * (p + 1)]
        errors[c, varies] = (np.sqrt(np.diag(block)[:p]) / scale)[varies]
        if problem.fit_intercept:
            intercept_errors[c] = np.sqrt(origin @ block @ origin)
    return errors, intercept_errors
