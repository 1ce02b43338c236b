"""Least squares on tables with too many columns for a Gram matrix.

The columns are standardised once (dense) or on the fly (sparse). With an L1 penalty the solver is
coordinate descent on residuals over a working set of columns. Without one the solution lies in the
span of the rows: a table of few rows is rotated to as few columns, others are solved by LSQR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.cross_products import column_scales
from hybridtrees.linear.solvers import Solution, solve_elastic_net

Floats = NDArray[np.float64]

# Maximum number of columns for a Gram matrix, and the number that is never too wide.
MAX_GRAM = 4096
_NARROW = 256
# Maximum number of rows that are rotated.
_MAX_ROTATED = 4096
# Maximum size of a working set that is solved from its Gram matrix.
MAX_PRODUCTS = 1024
_FIRST_COLUMNS = 64
_EPS = float(np.finfo(np.float64).eps)


def is_wide(n_rows: int, n_columns: int) -> bool:
    """Whether a table has too many columns for a Gram matrix."""
    return n_columns > MAX_GRAM or n_columns > max(n_rows, _NARROW)


@dataclass
class WideTable:
    """Standardised columns of a wide table."""

    # (p,): as in `CrossProducts`
    mean: Floats
    scale: Floats
    fill: Floats
    columns: Any  # `_descent.Columns` of the columns that vary, None if none does
    varies: NDArray[np.bool_]
    stored: Any  # The array behind `columns`

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.columns.n_rows)

    def unscaled(self, beta: Floats) -> Floats:
        """Return coefficients of all original columns from those of the columns that vary."""
        coef = np.zeros((len(self.mean), beta.shape[1]))
        coef[self.varies] = beta / self.scale[self.varies][:, None]
        return coef


def open_wide(
    values: Any,
    weight: Floats | None,
    *,
    centred: bool,
    scaled: bool,
    rows: NDArray[np.int64] | None = None,
) -> WideTable:
    """Center and scale the columns of a wide table."""
    from hybridtrees.linear._descent import Columns

    mean, scale, fill = column_scales(values, weight, centred=centred, rows=rows)
    if rows is not None:
        values = values[rows]
    varies = scale > 0
    if not scaled:
        scale = np.where(varies, 1.0, 0.0)
    inverse = 1.0 / np.where(varies, scale, 1.0)
    if hasattr(values, "indptr"):
        stored = _filled(values, fill)
        stored = stored if varies.all() else stored[:, np.flatnonzero(varies)]
        if not varies.any():
            return WideTable(mean, scale, fill, None, varies, stored)
        columns: Columns | None = Columns(stored, mean[varies], inverse[varies])
    else:
        stored = np.array(values, dtype=np.float64, order="F")
        stored = np.where(np.isnan(stored), fill, stored) if np.isnan(stored).any() else stored
        stored -= mean
        stored *= inverse
        stored = np.asfortranarray(stored if varies.all() else stored[:, varies])
        columns = Columns(stored) if varies.any() else None
    return WideTable(mean, scale, fill, columns, varies, stored)


def _filled(values: Any, fill: Floats) -> Any:
    """Return a CSC array of float64 with missing entries filled."""
    stored = values.tocsc().astype(np.float64)
    stored.data = stored.data.copy()
    of_entry = np.repeat(np.arange(values.shape[1]), np.diff(stored.indptr))
    missing = np.isnan(stored.data)
    stored.data[missing] = fill[of_entry[missing]]
    return stored


# ---- Rotation: as many columns as rows --------------------------------------------------------


def rotate(wide: WideTable) -> tuple[Floats, Callable[[Floats], Floats]] | None:
    """Return F, with at most as many columns as rows, and the map from g to Q g, where Z = F Q'.

    Q is orthonormal, so that norms and ridge penalties are kept. None if there are too many rows.
    """
    if wide.n_rows > _MAX_ROTATED:
        return None
    if not hasattr(wide.stored, "indptr"):
        q, r = np.linalg.qr(wide.stored.T)
        return np.ascontiguousarray(r.T), lambda g: q @ g
    inverse = 1.0 / wide.scale[wide.varies]
    scaled = wide.stored.multiply(inverse).tocsr()
    shift = wide.mean[wide.varies] * inverse
    along = scaled @ shift
    kernel = (scaled @ scaled.T).toarray() - along - along[:, None] + shift @ shift
    values, vectors = np.linalg.eigh(kernel)
    kept = values > len(values) * _EPS * values[-1]
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]

    def back(g: Floats) -> Floats:
        inner = np.ascontiguousarray((vectors / roots) @ g)
        if inner.ndim == 1:
            return np.asarray(wide.columns.gradient(inner))
        outputs = [wide.columns.gradient(np.ascontiguousarray(c)) for c in inner.T]
        return np.column_stack(outputs)

    return vectors * roots, back


# ---- Least squares ----------------------------------------------------------------------------


def wide_ridge(wide: WideTable, y: Floats, w: Floats, l2: float, max_iter: int) -> Solution:
    """Solve ridge or minimum norm least squares; y is (n, k) and centred, w sums to 1."""
    with sequential_blas():
        root = np.sqrt(w)[:, None]
        rotated = rotate(wide)
        if rotated is None:
            return _by_lsqr(wide, y * root, root[:, 0], l2, max_iter)
        features, back = rotated
        features = features * root
        left, singular, right = np.linalg.svd(features, full_matrices=False)
        kept = singular > max(wide.stored.shape) * _EPS * singular[0]
        gain = singular[kept] / (singular[kept] ** 2 + l2)
        g = right[kept].T @ (gain[:, None] * (left[:, kept].T @ (y * root)))
        return Solution(back(g), int(kept.sum()))


def _by_lsqr(wide: WideTable, y: Floats, root: Floats, l2: float, max_iter: int) -> Solution:
    from scipy.sparse.linalg import LinearOperator, lsqr

    z = wide.columns
    operator = LinearOperator(
        (z.n_rows, z.n_columns),
        matvec=lambda b: root * z.times(np.ascontiguousarray(b).ravel()),
        rmatvec=lambda u: z.gradient(np.ascontiguousarray(u).ravel() * root),
        dtype=np.float64,
    )
    found = [
        lsqr(operator, y[:, k], np.sqrt(l2), 1e-12, 1e-12, 0.0, max_iter) for k in range(y.shape[1])
    ]
    beta = np.column_stack([result[0] for result in found])
    n_iter = max(result[2] for result in found)
    return Solution(beta, min(wide.stored.shape), None, None, n_iter, n_iter < max_iter)


def wide_elastic_net(
    wide: WideTable,
    y: Floats,
    w: Floats,
    l1: float,
    l2: float,
    *,
    start: Floats | None = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> Solution:
    """Solve the elastic net of one target of shape (n,), centred and of unit scale; w sums to 1.

    The working set starts with the support and the columns of steepest slope, and grows by those
    that violate their optimality condition. While it is small, descent uses its Gram matrix, which
    is faster and, with direct solutions on the support, more accurate.
    """
    from hybridtrees.linear import _descent

    z = wide.columns
    p = z.n_columns
    b = np.zeros(p) if start is None else np.array(start, dtype=np.float64)
    lasso, ridge = np.full(p, l1), np.full(p, l2)
    yy = float(w @ y**2)
    none = np.zeros(0)
    working = b != 0
    with sequential_blas():
        q = z.gradient(w * y)
        u = w * (y - z.times(b))
        grad = z.gradient(u) if b.any() else q
        n_iter, step_tol = 0, np.sqrt(tol)
        while True:
            grew = widen(working, np.abs(grad) - l1 * (1 + 1e-12))
            chosen = np.flatnonzero(working)
            if len(chosen) <= MAX_PRODUCTS:
                n_iter += _descend_products(wide, chosen, w, q, l1, l2, yy, b, tol, max_iter)
            else:
                step_tol *= 1.0 if grew else 0.1
                n_iter += _descent.descend_columns(
                    z, w, u, lasso, ridge, b, none, chosen, step_tol, max(1, max_iter - n_iter)
                )
            u = w * (y - z.times(b))
            grad = z.gradient(u)
            gap = _descent.gap_of(b, grad, q, lasso, ridge, yy)
            settled = not (~working & (np.abs(grad) > l1 * (1 + 1e-12))).any()
            if n_iter >= max_iter or step_tol < 1e-15 or (settled and gap <= tol):
                break
            if settled and len(chosen) <= MAX_PRODUCTS and not grew:
                break  # no further improvement is possible
    found = int(np.count_nonzero(b))
    return Solution(b[:, None], found, None, None, n_iter, gap <= tol)


def widen(working: NDArray[np.bool_], excess: Floats) -> bool:
    """Add the columns of largest positive excess to a working set, at most doubling it."""
    outside = np.where(working, -np.inf, excess)
    room = max(_FIRST_COLUMNS, int(working.sum()))
    candidates = np.flatnonzero(outside > 0)
    if len(candidates) > room:
        candidates = candidates[np.argsort(-outside[candidates], kind="stable")[:room]]
    working[candidates] = True
    return len(candidates) > 0


def take_columns(wide: WideTable, chosen: NDArray[np.int64]) -> Floats:
    """Return some standardised columns as a dense array."""
    if not hasattr(wide.stored, "indptr"):
        return np.asarray(wide.stored[:, chosen])
    mean, scale = wide.mean[wide.varies][chosen], wide.scale[wide.varies][chosen]
    return np.asarray((wide.stored[:, chosen].toarray() - mean) / scale)


def _descend_products(
    wide: WideTable,
    chosen: NDArray[np.int64],
    w: Floats,
    q: Floats,
    l1: float,
    l2: float,
    yy: float,
    b: Floats,
    tol: float,
    max_iter: int,
) -> int:
    """Solve on a working set by its Gram matrix; b is overwritten."""
    if not len(chosen):
        return 0
    part = take_columns(wide, chosen)
    solution = solve_elastic_net(
        part.T @ (w[:, None] * part),
        q[chosen][:, None],
        np.full((len(chosen), 1), l1),
        np.full((len(chosen), 1), l2),
        yy=np.array([yy]),
        start=b[chosen][:, None],
        tol=0.1 * tol,
        max_iter=max_iter,
    )
    b[chosen] = solution.beta[:, 0]
    return solution.n_iter
