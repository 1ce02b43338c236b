"""Least squares on nearly collinear columns, with columns added one by one.

The standardised table is A = U F, where U has orthonormal columns and is not stored, and F is small
and has full row rank. For a new column z let c = A'z. Solving F'a = c gives its components a in the
span of U. The rest e = z - U a, of length d, is a new direction::

    F  <-  F  a        U'y  <-  U'y
           0  d                 e'y / d

F is a square root of A'A, so that F has twice as many correct digits as the products A'A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.cross_products import CrossProducts, standardised
from hybridtrees.linear.solvers import Solution

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_MAX_ROWS = 8192
# Eigenvalues of A'A, as shares of the largest: those above the first are accurate, those below the
# second may be rounding errors.
_CLEAR = 1e-8
_LOST = 1e-13
# Singular values below this share of the largest lose digits, which a second pass recovers.
_SOUND = 1e-4
# A column of length 1 whose new part is shorter than this is linearly dependent on the others.
_DEPENDENT = 1e-8


class RowFactor:
    """Factor of a standardised table that grows column by column."""

    def __init__(
        self, values: Any, y: Floats, weight: Floats | None, moments: CrossProducts, n_threads: int
    ) -> None:
        self._n_threads = n_threads
        y_scale = np.where(moments.y_scale > 0, moments.y_scale, 1.0)
        self._y = (y - moments.y_mean) / y_scale
        self._weight = weight
        self._total = moments.weight
        with sequential_blas():
            table = standardised(values, moments.mean, moments.scale, moments.fill)
            found = self._from_moments(table, moments) or self._from_rows(table)
        self._factor, self._along = found
        self.rank = len(self._factor)

    def _from_moments(self, table: Any, moments: CrossProducts) -> tuple[Floats, Floats] | None:
        """Return the factor from the products A'A, None if they are not accurate enough.

        Every eigenvalue must be clearly positive or lost in rounding. For the latter, a pass over
        the rows checks that these combinations of columns are zero.
        """
        from hybridtrees.linear import _passes

        square, vectors = np.linalg.eigh(moments.corr)
        kept, gone = square > _CLEAR * square[-1], square < _LOST * square[-1]
        if not (kept | gone).all() or not kept.any():
            return None
        nothing = np.ascontiguousarray(vectors[:, gone])
        if nothing.shape[1]:
            none = np.zeros(nothing.shape[1])
            rows = _passes.project(table, nothing, none, self._n_threads)
            rows = rows**2 if self._weight is None else rows**2 * self._weight[:, None]
            length = np.sqrt(rows.sum(axis=0).max() / self._total)
            if length > max(table.n_rows, table.n_columns) * _EPS * np.sqrt(square[-1]):
                return None
        size = np.sqrt(square[kept])[:, None]
        return size * vectors[:, kept].T, (vectors[:, kept].T @ moments.xy) / size

    def _from_rows(self, table: Any) -> tuple[Floats, Floats]:
        """Return the factor from the rows themselves."""
        whole = self._triangle(table)
        p = table.n_columns
        left, size, right = np.linalg.svd(whole[:, :p], full_matrices=False)
        kept = size > max(table.n_rows, p) * _EPS * size[0]
        return size[kept, None] * right[kept], left[:, kept].T @ whole[:, p:]

    def _triangle(self, table: Any) -> Floats:
        """Return the triangular factor of the columns and y, updated block by block."""
        n, p = table.n_rows, table.n_columns
        step = min(_MAX_ROWS, max(1024, 4 * p))
        triangle = np.zeros((0, p + 1))
        for start in range(0, n, step):
            stop = min(n, start + step)
            block = np.hstack([table.load(start, stop), self._y[start:stop]])
            if self._weight is not None:
                block *= np.sqrt(self._weight[start:stop])[:, None]
            triangle = np.asarray(np.linalg.qr(np.vstack([triangle, block]), mode="r"))
        return np.asarray(triangle / np.sqrt(self._total))

    def append(
        self, values: Any, moments: CrossProducts, column: Floats, new: CrossProducts, cross: Floats
    ) -> None:
        """Add a column with the moments `new` to the table `values`.

        `cross` holds the mean products of the standardised columns with the new one.
        """
        with sequential_blas():
            left, size, right = np.linalg.svd(self._factor, full_matrices=False)

            def within(products: Floats) -> Floats:
                return np.asarray(left @ ((right @ products) / size))

            part = within(cross)
            square = float(new.scale[0] > 0) - float(part @ part)
            along = float(new.xy[0, 0]) - float(part @ self._along[:, 0])
            if size[-1] < _SOUND * size[0] or square < _SOUND:
                coef = right.T @ ((left.T @ part) / size)
                part, square, along = self._correct(
                    values, moments, column, new, coef, part, within
                )
        self._factor = np.column_stack([self._factor, part])
        if square > _DEPENDENT**2:
            length = np.sqrt(square)
            row = np.zeros((1, self._factor.shape[1]))
            row[0, -1] = length
            self._factor = np.vstack([self._factor, row])
            self._along = np.vstack([self._along, [[along / length]]])
            self.rank += 1

    def _correct(
        self,
        values: Any,
        moments: CrossProducts,
        column: Floats,
        new: CrossProducts,
        coef: Floats,
        part: Floats,
        within: Callable[[Floats], Floats],
    ) -> tuple[Floats, float, float]:
        """Project a column onto the span of the others again, to remove rounding errors.

        Return its components in the span, the squared length of the rest, and its product with y.
        """
        from hybridtrees.linear import _passes

        scale = new.scale[0] if new.scale[0] > 0 else 1.0
        weight = self._weight
        table = standardised(values, moments.mean, moments.scale, moments.fill)
        fitted = _passes.project(
            table, np.ascontiguousarray(coef[:, None]), np.zeros(1), self._n_threads
        )
        rest = (column - new.mean) / scale - fitted
        own = standardised(rest, np.zeros(1), np.ones(1), np.zeros(1))
        more = within(_passes.cross(table, own, weight, self._n_threads)[:, 0] / self._total)
        w = np.ones(len(rest)) if weight is None else weight
        square = float(w @ rest[:, 0] ** 2) / self._total - float(more @ more)
        along = float((w * rest[:, 0]) @ self._y[:, 0]) / self._total
        return part + more, square, along - float(more @ self._along[:, 0])

    def solve(self) -> Solution:
        """Return the coefficients of minimum norm, for standardised columns."""
        with sequential_blas():
            left, size, right = np.linalg.svd(self._factor, full_matrices=False)
            beta = right.T @ ((left.T @ self._along) / size[:, None])
        return Solution(beta, self.rank, spectral=True)
