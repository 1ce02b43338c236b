"""Solvers of penalised least squares from cross products of standardised columns.

All of them minimise over b, for correlations R of the columns and r with the target,

    b'R b / 2 - r'b + sum_j (l1_j |b_j| + l2_j b_j^2 / 2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.cross_products import CrossProducts

Floats = NDArray[np.float64]

# Below this reciprocal condition number equations are solved by an eigendecomposition.
_SINGULAR = 1e-10
_EPS = float(np.finfo(np.float64).eps)
_MAX_QR_ROWS = 8192


class ConvergenceWarning(UserWarning):
    """Warns that a solver stopped before it reached the tolerance."""


def warn_not_converged(what: str, n_iter: int, stacklevel: int = 3) -> None:
    """Warn that a solver did not converge."""
    warnings.warn(
        f"{what} did not converge in {n_iter} iterations: raise max_iter, the penalty (alpha), "
        "or tol",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


@dataclass
class Solution:
    """Coefficients of standardised columns, and facts about the solution."""

    beta: Floats  # (p, k): one column per target
    rank: int  # Numerical rank of the equations
    inverse: Floats | None = None  # (p, p): (Pseudo-)inverse of R + l2, if requested
    # Which coefficients the data determine, if `inverse` was requested
    estimable: NDArray[np.bool_] | None = None
    n_iter: int = 1
    converged: bool = True
    spectral: bool = False  # Whether the equations were too ill-conditioned for a Cholesky factor


def solve_ridge(
    corr: Floats, xy: Floats, l2: Floats | float = 0.0, *, want_inverse: bool = False
) -> Solution:
    """Solve ridge regression or least squares: by Cholesky, or with minimum norm if singular."""
    from scipy.linalg import lapack

    p = len(corr)
    system = _with_ridge(corr, l2)
    with sequential_blas():
        factor, info = lapack.dpotrf(system, lower=1)
        if info == 0 and _is_sound(factor, system):
            beta, _ = lapack.dpotrs(factor, xy, lower=1)
            inverse = None
            if want_inverse:
                lower, _ = lapack.dpotri(factor, lower=1)
                inverse = np.tril(lower) + np.tril(lower, -1).T
            every = np.ones(p, dtype=bool) if want_inverse else None
            return Solution(beta, p, inverse, every)
        values, vectors = np.linalg.eigh(system)
        kept = values > 10 * p * _EPS * values[-1]
        return _from_spectrum(vectors, values, vectors.T @ xy, kept, want_inverse)


def _with_ridge(corr: Floats, l2: Floats | float) -> Floats:
    system = corr.copy()
    system.ravel()[:: len(corr) + 1] += l2
    return system


def _is_sound(factor: Floats, system: Floats) -> bool:
    """Whether a Cholesky factor is that of a well-conditioned system."""
    from scipy.linalg import lapack

    norm = np.abs(system).sum(axis=0).max()
    rcond, _ = lapack.dpocon(factor, norm, uplo="L")
    return bool(rcond > _SINGULAR)


class BorderedRidge:
    """Ridge regression on columns to which others are appended.

    The Cholesky factor is kept, and gets a row per new column: p^2 operations in place of p^3 / 3.
    """

    def __init__(self) -> None:
        self._factor: Floats | None = None

    def solve(self, corr: Floats, xy: Floats, l2: Floats) -> Solution:
        """Return the same as `solve_ridge`; corr, xy and l2 are those of last time, and more."""
        from scipy.linalg import lapack

        with sequential_blas():
            factor = self._extended(corr, l2)
            if factor is None or not _is_sound(factor, _with_ridge(corr, l2)):
                self._factor = None
                return solve_ridge(corr, xy, l2)
            self._factor = factor
            beta, _ = lapack.dpotrs(factor, xy, lower=1)
        return Solution(beta, len(corr))

    def _extended(self, corr: Floats, l2: Floats) -> Floats | None:
        """Return the factor of all columns; None if they are dependent."""
        from scipy.linalg import lapack

        p = len(corr)
        if self._factor is None:
            factor, info = lapack.dpotrf(_with_ridge(corr, l2), lower=1)
            return None if info else factor
        known = len(self._factor)
        factor = np.zeros((p, p), order="F")
        factor[:known, :known] = self._factor
        if p > known:
            rows, _ = lapack.dtrtrs(self._factor, corr[:known, known:], lower=1)
            rest = _with_ridge(corr[known:, known:], l2[known:]) - rows.T @ rows
            own, info = lapack.dpotrf(rest, lower=1)
            if info:
                return None
            factor[known:, :known] = rows.T
            factor[known:, known:] = own
        return factor


def _from_spectrum(
    vectors: Floats, values: Floats, right: Floats, kept: Any, want_inverse: bool
) -> Solution:
    """Return the solution from an eigendecomposition and the rotated right-hand side."""
    vectors = vectors[:, kept]
    beta = vectors @ (right[kept] / values[kept][:, None])
    rank = int(np.count_nonzero(kept))
    if not want_inverse:
        return Solution(beta, rank, spectral=True)
    inverse = (vectors / values[kept]) @ vectors.T
    # A coefficient is determined if its axis lies in the span of the kept eigenvectors.
    estimable = 1.0 - (vectors**2).sum(axis=1) < 1e-8
    return Solution(beta, rank, inverse, estimable, spectral=True)


def ridge_path(corr: Floats, xy: Floats, l2s: Floats) -> Floats:
    """Return the solutions for several ridge penalties, from one eigendecomposition."""
    with sequential_blas():
        values, vectors = np.linalg.eigh(corr)
        right = vectors.T @ xy
        return np.stack([vectors @ (right / (np.maximum(values, 0) + l2)[:, None]) for l2 in l2s])


def solve_least_squares(
    table: Any, y: Floats, weight: Floats | None, *, want_inverse: bool = False
) -> Solution:
    """Solve least squares with minimum norm by QR, for columns too collinear for their products.

    The triangular factor is updated block by block, so that the table is not copied as a whole.
    """
    n, p = table.n_rows, table.n_columns
    step = max(1, min(_MAX_QR_ROWS, max(1024, 4 * p)))
    factor = np.zeros((0, p + y.shape[1]))
    total = float(n) if weight is None else float(weight.sum())
    with sequential_blas():
        for start in range(0, n, step):
            stop = min(n, start + step)
            block = np.hstack([table.load(start, stop), y[start:stop]])
            if weight is not None:
                block *= np.sqrt(weight[start:stop])[:, None]
            factor = np.asarray(np.linalg.qr(np.vstack([factor, block]), mode="r"))
        factor /= np.sqrt(total)
        left, singular, right = np.linalg.svd(factor[:, :p], full_matrices=False)
        kept = singular > max(n, p) * _EPS * singular[0]
        projected = singular[:, None] * (left.T @ factor[:, p:])
        return _from_spectrum(right.T, singular**2, projected, kept, want_inverse)


def solve_elastic_net(
    corr: Floats,
    xy: Floats,
    l1: Floats,
    l2: Floats,
    *,
    yy: Floats | None = None,
    start: Floats | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> Solution:
    """Solve the elastic net by coordinate descent, with penalties per coefficient.

    It stops at a duality gap of `tol`, relative to the mean squares `yy` of the targets. Without
    them, or if a coefficient has no L1 penalty, it stops by the optimality conditions.
    """
    from hybridtrees.linear import _descent

    corr = np.ascontiguousarray(corr)
    beta = np.zeros(xy.shape) if start is None else np.array(start, dtype=np.float64)
    n_iter, converged = 0, True
    with sequential_blas():
        for k in range(xy.shape[1]):
            b, penalty = np.ascontiguousarray(beta[:, k]), np.ascontiguousarray(l1[:, k])
            scale = -1.0 if yy is None or not (penalty > 0).all() else float(yy[k])
            scale = -1.0 if scale == 0 else scale
            q, ridge = np.ascontiguousarray(xy[:, k]), np.ascontiguousarray(l2[:, k])
            sweeps, reached = _descent.descend_gram(
                corr, q, penalty, ridge, scale, b, tol, max_iter
            )
            beta[:, k] = b
            n_iter, converged = max(n_iter, sweeps), converged and reached <= tol
    return Solution(beta, int(np.count_nonzero(beta.any(axis=1))), None, None, n_iter, converged)


def solve_products(
    moments: CrossProducts,
    l1: float | Floats = 0.0,
    l2: float | Floats = 0.0,
    *,
    start: Floats | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
    want_inverse: bool = False,
    ridge: Callable[[Floats, Floats, Floats], Solution] | None = None,
) -> Solution:
    """Solve for standardised columns and targets (see `original_scale`); constants get 0.

    Penalties refer to standardised columns and original targets. `ridge` solves the equations if
    there is no L1 penalty, in place of `solve_ridge`.
    """
    p, k = moments.xy.shape
    varies = moments.varies
    every = varies.all()
    corr = moments.corr if every else moments.corr[np.ix_(varies, varies)]
    xy = moments.xy if every else moments.xy[varies]
    squares = np.broadcast_to(np.asarray(l2, dtype=np.float64), p)[varies]
    lasso = np.broadcast_to(np.asarray(l1, dtype=np.float64), p)[varies]
    if not varies.any():
        empty = np.zeros((0, 0))
        return Solution(np.zeros((p, k)), 0, empty, np.ones(0, dtype=bool))
    if not lasso.any() and ridge is not None:
        solution = ridge(corr, xy, squares)
    elif not lasso.any():
        solution = solve_ridge(corr, xy, squares, want_inverse=want_inverse)
    else:
        y_scale = np.where(moments.y_scale > 0, moments.y_scale, np.inf)
        solution = solve_elastic_net(
            corr,
            xy,
            lasso[:, None] / y_scale,
            np.repeat(squares[:, None], k, axis=1),
            yy=(moments.y_scale > 0).astype(np.float64),
            start=None if start is None else start[varies],
            tol=tol,
            max_iter=max_iter,
        )
    if not every:
        beta = np.zeros((p, k))
        beta[varies] = solution.beta
        solution.beta = beta
    return solution


def original_scale(beta: Floats, moments: CrossProducts) -> tuple[Floats, Floats]:
    """Return coefficients and intercepts of the original columns from standardised ones."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(moments.scale > 0, 1.0 / moments.scale, 0.0)
        coef = beta * inverse[:, None] * moments.y_scale
    check_coefficients(coef)
    return coef, moments.y_mean - moments.mean @ coef


def check_coefficients(coef: Floats) -> None:
    """Refuse coefficients that have overflowed."""
    large = ~np.isfinite(coef).all(axis=1)
    if large.any():
        raise ValueError(
            f"column {int(np.argmax(large))} of X varies too little beside y: its coefficient is "
            "beyond the range of float64"
        )
