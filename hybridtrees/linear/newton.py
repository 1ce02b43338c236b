"""Logistic and multinomial regression by Newton's method, proximal where there is an L1 penalty.

Minimises over the coefficients b of standardised columns and unpenalised intercepts

    sum_i w_i log-loss_i / sum_i w_i + sum_j (l1_j |b_j| + l2_j b_j^2 / 2).

Two classes have one score, more classes have one each. As a shift of all scores of a row has no
effect, unpenalised coefficients are chosen to sum to 0 over the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import DECREASE, SMALLEST_STEP, TINY
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.solvers import solve_elastic_net

Floats = NDArray[np.float64]
Rows = NDArray[np.int64] | None

# Tables with more rows are first fitted on a subset.
_START_ROWS = 1 << 15
_EPS = float(np.finfo(np.float64).eps)
# Steps with a smaller expected decrease may reuse the last hessian.
_SMALL_STEP = 1e-3


@dataclass
class LogLoss:
    """A penalised log-loss over rows of a table."""

    make_table: Callable[[Rows], Any]  # From row numbers (None for all) to a standardised `Table`
    codes: NDArray[np.int32]  # Class numbers of all rows of the table
    weight: Floats | None
    rows: Rows  # The rows to fit, all by default
    n_outputs: int  # 1 for two classes, else the number of classes
    # (p,)
    l1: Floats
    l2: Floats
    fit_intercept: bool = True
    n_threads: int = 1
    total: float = field(init=False)

    def __post_init__(self) -> None:
        codes, weight = self.chosen()
        self.total = float(len(codes) if weight is None else weight.sum())

    def chosen(self) -> tuple[NDArray[np.int32], Floats | None]:
        """Return codes and weights of the rows to fit."""
        if self.rows is None:
            return self.codes, self.weight
        return self.codes[self.rows], None if self.weight is None else self.weight[self.rows]

    def penalties(self) -> tuple[Floats, Floats]:
        """Return L1 and L2 penalty of every coefficient, in the order of the gradient."""
        return (
            np.tile(np.append(self.l1, 0.0), self.n_outputs),
            np.tile(np.append(self.l2, 0.0), self.n_outputs),
        )


@dataclass
class LogisticFit:
    """Result of a fit."""

    theta: Floats  # (n_outputs, p + 1): Coefficients of standardised columns, the intercept last
    n_iter: int
    converged: bool
    # Mean loss without the penalty, perhaps before a last step of expected decrease below `tol`
    loss: float


class _Factor:
    """A factorised positive semi-definite matrix."""

    def __init__(self, matrix: Floats) -> None:
        from scipy.linalg import lapack

        self._lapack = lapack
        # Scaled to a unit diagonal: the block of a class that is nearly certain is tiny.
        diagonal = np.sqrt(np.diag(matrix))
        self._inverse = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
        scaled = matrix * self._inverse * self._inverse[:, None]
        self._cholesky, info = lapack.dpotrf(scaled, lower=1)
        rcond = 0.0
        if info == 0:
            norm = np.abs(scaled).sum(axis=0).max()
            rcond, _ = lapack.dpocon(self._cholesky, norm, uplo="L")
        self._spectral = rcond < 1e-12
        if self._spectral:
            # Not scaled: the minimum norm is that of the original coefficients.
            self._values, self._vectors = np.linalg.eigh(matrix)
            self._kept = self._values > 10 * len(matrix) * _EPS * max(self._values[-1], 0.0)

    def solve(self, right: Floats) -> Floats:
        """Solve, with minimum norm where the matrix is singular."""
        if self._spectral:
            vectors = self._vectors[:, self._kept]
            solution: Floats = vectors @ ((vectors.T @ right) / self._values[self._kept])
            return solution
        solution, _ = self._lapack.dpotrs(self._cholesky, right * self._inverse, lower=1)
        return np.asarray(solution * self._inverse)


def fit_log_loss(
    problem: LogLoss,
    start: Floats | None = None,
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
    verbose: int = 0,
) -> LogisticFit:
    """Fit by Newton's method; without `start`, a large table is first fitted on a subset of rows.

    It stops after a step with an expected decrease of at most `tol`; what remains is far less.
    """
    with sequential_blas():
        n_rows = len(problem.codes) if problem.rows is None else len(problem.rows)
        if start is None and n_rows > 4 * _START_ROWS:
            chosen = np.linspace(0, n_rows - 1, _START_ROWS).astype(np.int64)
            part = chosen if problem.rows is None else problem.rows[chosen]
            small = replace(problem, rows=part)
            n_classes = max(2, problem.n_outputs)
            if small.total > 0 and len(np.unique(problem.codes[part])) == n_classes:
                start = Newton(small).run(null_start(small), 1e-4, 8, 0).theta
        newton = Newton(problem)
        return newton.run(null_start(problem) if start is None else start, tol, max_iter, verbose)


def null_intercepts(codes: NDArray[np.int32], weight: Floats | None, n_outputs: int) -> Floats:
    """Return the intercepts that predict the class shares if all coefficients are 0."""
    logs = np.log(np.clip(_shares(codes, weight, n_outputs), 1e-12, None))
    return np.asarray(logs[1] - logs[0] if n_outputs == 1 else logs - logs.mean())


def null_start(problem: LogLoss) -> Floats:
    """Return coefficients of 0 with the intercepts that predict the class shares."""
    theta = np.zeros((problem.n_outputs, len(problem.l1) + 1))
    if problem.fit_intercept:
        theta[:, -1] = null_intercepts(*problem.chosen(), problem.n_outputs)
    return theta


def _null_objective(problem: LogLoss) -> float:
    """Return the objective at `null_start`."""
    theta = null_start(problem)[:, -1]
    shares = _shares(*problem.chosen(), problem.n_outputs)
    scores = np.append(0.0, theta) if problem.n_outputs == 1 else theta
    top = scores.max()
    return float(top + np.log(np.exp(scores - top).sum()) - shares @ scores)


def _shares(codes: NDArray[np.int32], weight: Floats | None, n_outputs: int) -> Floats:
    total = len(codes) if weight is None else weight.sum()
    return np.bincount(codes, weight, max(2, n_outputs)) / float(total)


class Newton:
    """Newton's method for one `LogLoss`."""

    def __init__(self, problem: LogLoss) -> None:
        from hybridtrees.linear import _passes

        self._pass = _passes.log_loss_pass
        self.problem = problem
        self.table = problem.make_table(problem.rows)
        self.l1, self.l2 = problem.penalties()
        self.width = len(problem.l1) + 1
        self.free = np.tile(
            np.append(np.ones(self.width - 1, dtype=bool), problem.fit_intercept), problem.n_outputs
        )

    def evaluate(self, theta: Floats, order: int) -> tuple[float, Floats, Floats | None]:
        """Return the penalised objective, and gradient and hessian of the mean loss."""
        problem = self.problem
        coef = np.ascontiguousarray(theta.reshape(problem.n_outputs, self.width).T)
        loss, grad, hess = self._pass(
            self.table, problem.codes, problem.weight, coef, order, problem.n_threads
        )
        objective = loss / problem.total + self.penalty(theta)
        grad = np.zeros(0) if grad is None else grad / problem.total
        return objective, grad, None if hess is None else hess / problem.total

    def penalty(self, theta: Floats) -> float:
        """Return the penalty on all coefficients."""
        return float(self.l1 @ np.abs(theta) + 0.5 * self.l2 @ theta**2)

    def _anchored(self, hess: Floats) -> Floats:
        """Return the hessian, made definite along shifts of all scores, which have no effect."""
        k = self.problem.n_outputs
        if k == 1:
            return hess
        unpenalised = (self.l1 + self.l2 == 0)[: self.width] & self.free[: self.width]
        columns = np.flatnonzero(unpenalised)
        level = max(float(np.mean(np.diag(hess))), TINY) / k
        hess = hess.copy()
        for a in range(k):
            for b in range(k):
                hess[a * self.width + columns, b * self.width + columns] += level
        return hess

    def _direction(
        self, theta: Floats, grad: Floats, hess: Floats, factor: _Factor | None
    ) -> tuple[Floats, float, _Factor | None]:
        """Return the Newton step, the decrease expected from the slope, and the factor used."""
        free = self.free
        step = np.zeros_like(theta)
        if not self.l1.any():
            slope = grad + self.l2 * theta
            if factor is None:
                matrix = self._anchored(hess).copy()
                matrix.flat[:: len(matrix) + 1] += self.l2
                factor = _Factor(matrix if free.all() else matrix[np.ix_(free, free)])
            step[free] = -factor.solve(slope[free])
            return step, float(-slope @ step), factor
        matrix = self._anchored(hess)[np.ix_(free, free)]
        at = theta[free]
        loose = self._violation(theta, grad)
        solution = solve_elastic_net(
            matrix,
            (matrix @ at - grad[free])[:, None],
            self.l1[free][:, None],
            self.l2[free][:, None],
            start=at[:, None],
            tol=max(1e-13, 1e-3 * loose),
            max_iter=2000,
        )
        step[free] = solution.beta[:, 0] - at
        change = float(grad @ step) + self.penalty(theta + step) - self.penalty(theta)
        return step, -change, None

    def _violation(self, theta: Floats, grad: Floats) -> float:
        slope = grad + self.l2 * theta
        away = np.where(
            theta != 0, np.abs(slope + np.sign(theta) * self.l1), np.abs(slope) - self.l1
        )
        return float(max(0.0, away[self.free].max(initial=0.0)))

    def run(self, start: Floats, tol: float, max_iter: int, verbose: int) -> LogisticFit:
        """Iterate from `start`."""
        theta = np.array(start, dtype=np.float64).ravel()
        objective, grad, hess = self.evaluate(theta, 2)
        # A start from other rows or another penalty may be worse than coefficients of 0.
        if start.any() and not objective <= _null_objective(self.problem):
            theta = null_start(self.problem).ravel()
            objective, grad, hess = self.evaluate(theta, 2)
        factor: _Factor | None = None
        last = np.inf
        for n_iter in range(1, max_iter + 1):
            assert hess is not None
            step, gain, factor = self._direction(theta, grad, hess, factor)
            if verbose:
                print(f"[{n_iter}] objective {objective:.10g}, expected decrease {gain / 2:.3g}")
            if not gain / 2 > tol:
                at = self.penalty(theta)
                theta = theta + step
                return self._result(theta, n_iter, True, objective - at)
            if factor is not None and gain > 0.1 * last:
                factor = None  # the old hessian is not good enough
            small = not self.l1.any() and gain < _SMALL_STEP
            last = gain
            size = 1.0
            while True:
                trial = theta + size * step
                new = self.evaluate(trial, 1 if small and factor is not None else 2)
                if new[0] <= objective - DECREASE * size * gain or size < SMALLEST_STEP:
                    break
                size *= 0.5
                factor = None
            if not small or new[2] is not None:
                factor = None
            if not new[0] < objective:
                return self._result(theta, n_iter, False, objective - self.penalty(theta))
            theta, objective, grad = trial, new[0], new[1]
            hess = hess if new[2] is None else new[2]
        return self._result(theta, max_iter, False, objective - self.penalty(theta))

    def _result(self, theta: Floats, n_iter: int, converged: bool, loss: float) -> LogisticFit:
        theta = theta.reshape(self.problem.n_outputs, self.width)
        if self.problem.fit_intercept and self.problem.n_outputs > 1:
            theta[:, -1] -= theta[:, -1].mean()  # a shift of all scores has no effect
        return LogisticFit(theta, n_iter, converged, loss)
