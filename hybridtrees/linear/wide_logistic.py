"""Logistic and multinomial regression on wide tables: see `wide`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import DECREASE
from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.newton import LogisticFit, LogLoss, fit_log_loss
from hybridtrees.linear.solvers import solve_elastic_net
from hybridtrees.linear.wide import MAX_PRODUCTS, WideTable, rotate, take_columns, widen

Floats = NDArray[np.float64]

# Maximum size of a hessian that is factorised.
LARGEST_HESSIAN = 3000
_MAX_CG_STEPS = 250


@dataclass
class WideLogLoss:
    """Penalised log-loss over the columns of a wide table that vary."""

    wide: WideTable
    codes: NDArray[np.int32]  # Class number of each row of `wide`
    w: Floats  # Weights of the rows, which sum to 1
    n_outputs: int
    l1: float
    l2: float
    fit_intercept: bool

    def scores(self, theta: Floats) -> Floats:
        """Return scores (n_outputs, n_rows) at theta of shape (n_outputs, p + 1)."""
        z = self.wide.columns
        return np.stack([z.times(np.ascontiguousarray(t[:-1])) + t[-1] for t in theta])

    def probabilities(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean loss, and probabilities in the shape of the scores."""
        rows = np.arange(scores.shape[1])
        if self.n_outputs == 1:
            signed = np.where(self.codes == 1, scores[0], -scores[0])
            loss = float(self.w @ np.logaddexp(0.0, -signed))
            small = np.exp(-np.abs(scores))
            return loss, np.where(scores >= 0, 1.0, small) / (1.0 + small)
        top = scores.max(axis=0)
        p = np.exp(scores - top)
        total = p.sum(axis=0)
        loss = float(self.w @ (np.log(total) + top - scores[self.codes, rows]))
        return loss, p / total

    def truth(self) -> Floats:
        """Return the true classes as 0 and 1 in the shape of the scores."""
        if self.n_outputs == 1:
            return np.asarray(self.codes == 1, dtype=np.float64)[None]
        return np.asarray(self.codes == np.arange(self.n_outputs)[:, None], dtype=np.float64)

    def penalty(self, theta: Floats) -> float:
        """Return the penalty, which does not apply to intercepts."""
        b = theta[:, :-1]
        return float(self.l1 * np.abs(b).sum() + 0.5 * self.l2 * (b**2).sum())

    def project(self, residual: Floats) -> Floats:
        """Return Z'r and the sums of r, of shape (n_outputs, p + 1)."""
        z = self.wide.columns
        free = 1.0 if self.fit_intercept else 0.0
        return np.stack([np.append(z.gradient(r), free * r.sum()) for r in residual])


def fit_wide(
    problem: WideLogLoss, start: Floats, *, tol: float, max_iter: int, verbose: int = 0
) -> LogisticFit:
    """Fit, starting from coefficients and intercepts of shape (n_outputs, p + 1)."""
    with sequential_blas():
        if problem.l1 > 0:
            fit = _proximal(problem, start, tol, max_iter, verbose)
            if problem.fit_intercept and problem.n_outputs > 1:
                fit.theta[:, -1] -= fit.theta[:, -1].mean()  # a shift of all scores has no effect
            return fit
        rotated = rotate(problem.wide)
        if rotated is not None and rotated[0].shape[1] * problem.n_outputs < LARGEST_HESSIAN:
            return _rotated(problem, rotated, tol, max_iter, verbose)
        return _newton_cg(problem, start, tol, max_iter, verbose)


def _rotated(
    problem: WideLogLoss,
    rotated: tuple[Floats, Callable[[Floats], Floats]],
    tol: float,
    max_iter: int,
    verbose: int,
) -> LogisticFit:
    from hybridtrees.linear._passes import Table

    features, back = rotated
    zeros, ones = np.zeros(features.shape[1]), np.ones(features.shape[1])

    def make_table(rows: NDArray[np.int64] | None) -> Table:
        return Table(features, zeros, ones, zeros, rows)  # centred already

    sample = (problem.codes, problem.w, None, problem.n_outputs)
    small = LogLoss(make_table, *sample, zeros, problem.l2 * ones, problem.fit_intercept)
    fit = fit_log_loss(small, tol=tol, max_iter=max_iter, verbose=verbose)
    beta = back(np.ascontiguousarray(fit.theta[:, :-1].T))
    return LogisticFit(
        np.column_stack([beta.T, fit.theta[:, -1]]), fit.n_iter, fit.converged, fit.loss
    )


def _newton_cg(
    problem: WideLogLoss, start: Floats, tol: float, max_iter: int, verbose: int
) -> LogisticFit:
    """Fit by Newton's method with conjugate gradients, without forming the hessian."""
    theta, truth = np.array(start, dtype=np.float64), problem.truth()
    ridge = np.full(theta.shape[1], problem.l2)
    ridge[-1] = 0.0
    loss, p = problem.probabilities(problem.scores(theta))
    objective = loss + problem.penalty(theta)
    for n_iter in range(1, max_iter + 1):
        grad = problem.project(problem.w * (p - truth)) + ridge * theta
        step = -_conjugate_gradients(problem, p, ridge, grad)
        gain = -float((grad * step).sum())
        if verbose:
            print(f"[{n_iter}] objective {objective:.10g}, expected decrease {gain / 2:.3g}")
        size, moved = 1.0, False
        while size > 1e-8:
            trial = theta + size * step
            loss, p_new = problem.probabilities(problem.scores(trial))
            new = loss + problem.penalty(trial)
            if new <= objective - DECREASE * size * gain or (gain / 2 <= tol and new <= objective):
                moved = True
                break
            size *= 0.5
        if moved:
            theta, objective, p = trial, new, p_new
        if gain / 2 <= tol or not moved:
            return LogisticFit(theta, n_iter, gain / 2 <= tol, objective - problem.penalty(theta))
    return LogisticFit(theta, max_iter, False, objective - problem.penalty(theta))


def _conjugate_gradients(problem: WideLogLoss, p: Floats, ridge: Floats, grad: Floats) -> Floats:
    """Solve hessian x = grad, the more accurately the smaller the gradient is."""

    def times(x: Floats) -> Floats:
        along = problem.scores(x)
        if problem.n_outputs == 1:
            change = p * (1.0 - p) * along
        else:
            change = p * (along - (p * along).sum(axis=0))
        return problem.project(problem.w * change) + ridge * x

    x, residual = np.zeros_like(grad), grad.copy()
    direction, square = residual.copy(), float((residual**2).sum())
    goal = square * min(0.01, square)
    for _ in range(_MAX_CG_STEPS):
        if square <= goal or square == 0.0:
            break
        image = times(direction)
        curve = float((direction * image).sum())
        if curve <= 0.0:
            break
        x += (square / curve) * direction
        residual -= (square / curve) * image
        new = float((residual**2).sum())
        direction = residual + (new / square) * direction
        square = new
    return x


def _proximal(
    problem: WideLogLoss, start: Floats, tol: float, max_iter: int, verbose: int
) -> LogisticFit:
    """Fit by proximal Newton steps, one class at a time, solved by coordinate descent."""
    theta, truth = np.array(start, dtype=np.float64), problem.truth()
    scores = problem.scores(theta)
    loss, p = problem.probabilities(scores)
    objective = loss + problem.penalty(theta)
    # One class at a time converges more slowly than its last step suggests.
    limit = tol if problem.n_outputs == 1 else 0.01 * tol
    for n_iter in range(1, max_iter + 1):
        gain = 0.0
        for k in range(problem.n_outputs):
            step, expected = _class_step(problem, theta, p, truth, k)
            gain += expected
            along = problem.wide.columns.times(np.ascontiguousarray(step[:-1])) + step[-1]
            size = 1.0
            while size > 1e-8 and expected > 0:
                trial, trial_scores = theta.copy(), scores.copy()
                trial[k] += size * step
                trial_scores[k] += size * along
                loss, p_new = problem.probabilities(trial_scores)
                new = loss + problem.penalty(trial)
                slack = 1e-15 * abs(objective)
                if new <= objective - DECREASE * size * expected + slack:
                    theta, scores, p, objective = trial, trial_scores, p_new, new
                    break
                size *= 0.5
        if verbose:
            print(f"[{n_iter}] objective {objective:.10g}, expected decrease {gain / 2:.3g}")
        if gain / 2 <= limit:
            return LogisticFit(theta, n_iter, True, objective - problem.penalty(theta))
    return LogisticFit(theta, max_iter, False, objective - problem.penalty(theta))


def _class_step(
    problem: WideLogLoss, theta: Floats, p: Floats, truth: Floats, k: int
) -> tuple[Floats, float]:
    """Return the step of the coefficients of one class, and its expected decrease."""
    from hybridtrees.linear import _descent

    z, l1 = problem.wide.columns, problem.l1
    b = np.ascontiguousarray(theta[k, :-1])
    intercept = theta[k, -1:].copy() if problem.fit_intercept else np.zeros(0)
    v = problem.w * np.maximum(p[k] * (1.0 - p[k]), 1e-10)
    u = problem.w * (truth[k] - p[k])
    grad = z.gradient(u)
    chosen = b != 0
    widen(chosen, np.abs(grad) - l1)
    working = np.flatnonzero(chosen)
    away = np.abs(np.sign(b) * l1 + problem.l2 * b - grad)
    worst = float(np.where(b != 0, away, np.maximum(np.abs(grad) - l1, 0.0)).max())
    new, total = b.copy(), float(u.sum())
    lasso, ridge = np.full(len(b), l1), np.full(len(b), problem.l2)
    accuracy = max(1e-13, 1e-2 * max(worst, abs(total)))
    if len(working) < MAX_PRODUCTS:
        _descend_products(problem, working, v, u, new, intercept, accuracy)
    else:
        _descent.descend_columns(z, v, u, lasso, ridge, new, intercept, working, accuracy, 1000)
    step = np.append(new - b, (intercept[0] - theta[k, -1]) if problem.fit_intercept else 0.0)
    change = l1 * (np.abs(new).sum() - np.abs(b).sum())
    change += 0.5 * problem.l2 * float(new @ new - b @ b)
    return step, float(grad @ step[:-1]) + total * float(step[-1]) - float(change)


def _descend_products(
    problem: WideLogLoss,
    working: NDArray[np.int64],
    v: Floats,
    u: Floats,
    b: Floats,
    intercept: Floats,
    accuracy: float,
) -> None:
    """Minimise the quadratic model on a working set by its Gram matrix.

    `b` and `intercept` (perhaps empty) are overwritten.
    """
    part = take_columns(problem.wide, working)
    part = np.column_stack([part, np.ones((len(v), len(intercept)))])
    if not part.shape[1]:
        return
    at = np.concatenate([b[working], intercept])
    gram = part.T @ (v[:, None] * part)
    penalised = np.append(np.ones(len(working)), np.zeros(len(intercept)))[:, None]
    solution = solve_elastic_net(
        gram,
        (part.T @ u + gram @ at)[:, None],
        problem.l1 * penalised,
        problem.l2 * penalised,
        start=at[:, None],
        tol=accuracy,
        max_iter=2000,
    )
    b[working] = solution.beta[: len(working), 0]
    intercept[:] = solution.beta[len(working) :, 0]
