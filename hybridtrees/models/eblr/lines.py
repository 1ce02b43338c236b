"""Regressions that get one more column per round, without fitting them from scratch.

Least squares keeps the moments of the table and appends those of the new column, in one pass over
the rows; the coefficients follow from the moments. Logistic regression starts Newton's method from
the coefficients of the previous round. As elsewhere in the package, penalties are on coefficients
of standardised features. Columns of rules stay zeros and ones: standardised, a rule with few rows
would have a small penalty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from hybridtrees.linear.blas import sequential_blas
from hybridtrees.linear.classification import open_classification
from hybridtrees.linear.cross_products import (
    CrossProducts,
    collect_products,
    column_scales,
    standardised,
)
from hybridtrees.linear.newton import LogisticFit, LogLoss, fit_log_loss
from hybridtrees.linear.regression import Line, Options, open_regression
from hybridtrees.linear.solvers import (
    BorderedRidge,
    Solution,
    original_scale,
    solve_products,
    solve_ridge,
)
from hybridtrees.linear.wide import is_wide
from hybridtrees.linear.wide_logistic import LARGEST_HESSIAN
from hybridtrees.models.eblr.factor import RowFactor

Floats = NDArray[np.float64]

# A column is dependent if the others explain all but this share of its variance.
_DEPENDENT = 1e-9
# With so many columns, the factor of the equations is kept from round to round.
_MANY_COLUMNS = 256


class EnrichedTable:
    """Columns of a regression, divided by `scale`, with space for `n_more` columns of rules."""

    def __init__(self, values: Any, n_more: int, scale: Floats | None = None) -> None:
        self.n_own = self.n_columns = values.shape[1]
        self._sparse = hasattr(values, "indptr")
        if self._sparse:
            self._stored = values if scale is None else values.multiply(1.0 / scale).tocsr()
            return
        shape = (values.shape[0], values.shape[1] + n_more)
        self._stored = np.zeros(shape, dtype=values.dtype if scale is None else np.float64)
        self._stored[:, : self.n_own] = values if scale is None else values / scale

    @property
    def values(self) -> Any:
        """The columns so far."""
        return self._stored if self._sparse else self._stored[:, : self.n_columns]

    def append(self, column: Floats) -> None:
        """Add a column."""
        if self._sparse:
            new = sparse.csr_array(column[:, None].astype(self._stored.dtype))
            self._stored = sparse.hstack([self._stored, new], format="csr")
        else:
            self._stored[:, self.n_columns] = column
        self.n_columns += 1


def _indicator_moments(
    values: Any,
    column: Floats,
    moments: CrossProducts,
    y: Floats,
    weight: Floats | None,
    n_threads: int,
) -> tuple[CrossProducts, Floats]:
    """Return moments of a column of zeros and ones, and mean products with the other columns.

    Standardised columns sum to zero. The products are therefore sums over the rows of ones or,
    with the other sign, over the rows of zeros; the fewer rows are used.
    """
    from hybridtrees.linear import _passes

    m = moments
    ones = column > 0
    share = float(ones.sum() if weight is None else weight[ones].sum()) / m.weight
    spread = np.sqrt(share * max(0.0, 1.0 - share) if m.centred else share)
    cross, along = np.zeros(m.n_columns), np.zeros((1, len(m.y_mean)))
    if spread > 0:
        few = not m.centred or 2 * np.count_nonzero(ones) <= len(ones)
        rows = np.flatnonzero(ones if few else ~ones)
        table = standardised(values, m.mean, m.scale, m.fill, rows)
        unit = (1.0 if few else -1.0) / (m.weight * spread)
        cross = _passes.column_sums(table, weight, n_threads)[0] * unit
        scaled = (y[rows] - m.y_mean) / np.where(m.y_scale > 0, m.y_scale, 1.0)
        w = np.ones(len(rows)) if weight is None else weight[rows]
        along[0] = w @ scaled * unit
    new = CrossProducts(
        m.n_rows,
        m.weight,
        np.array([share if m.centred else 0.0]),
        np.array([spread]),
        np.array([[float(spread > 0)]]),
        m.y_mean,
        m.y_scale,
        along,
        np.array([share]),
        m.centred,
    )
    return new, cross


class GrowingLine:
    """A regression on a table that gets one more column per round; see `open_line`."""

    spreads: Floats  # standard deviations of the columns without rules

    def __init__(self, table: EnrichedTable, options: Options) -> None:
        self.table = table
        self.options = options  # with the alpha in its penalty
        alpha = options.penalty.alpha
        assert alpha is not None
        self._l1, self._l2 = options.penalty.parts(alpha)
        self.converged, self.n_iter = True, 0

    def append(self, column: Floats) -> None:
        """Add a column of zeros and ones."""
        raise NotImplementedError

    def solve(self) -> Line:
        """Fit all coefficients of the table."""
        raise NotImplementedError

    def to_user(self, line: Line) -> Line:
        """Convert a line for the columns of the table to their original units."""
        return line

    def degrees(self) -> float:
        """Return the degrees of freedom: nonzero coefficients, or the trace of the hat matrix."""
        raise NotImplementedError

    def fit_round(self) -> tuple[Line, Floats]:
        """Fit all coefficients; return the line in original units, and its scores."""
        line = self.solve()
        user_line, values = self.to_user(line), self.table.values
        return user_line, line.predict(values, None, self.options.n_threads)

    def _note(self, fit: Solution | LogisticFit) -> None:
        self.converged = self.converged and fit.converged
        self.n_iter = max(self.n_iter, fit.n_iter)


class GrowingLeastSquares(GrowingLine):
    """Least squares from moments that grow with the table; see `open_line` for the arguments."""

    def __init__(
        self, values: Any, y: Floats, weight: Floats | None, options: Options, n_more: int
    ) -> None:
        super().__init__(EnrichedTable(values, n_more), options)
        self._y = y[:, None]
        self._weight = weight
        self._moments = collect_products(
            values, self._y, weight, centred=options.fit_intercept, n_threads=options.n_threads
        )
        m = self._moments
        self.spreads = m.scale if m.centred else np.sqrt(np.maximum(m.scale**2 - m.fill**2, 0.0))
        self._beta = np.zeros((self.table.n_columns, 1))
        self._factor: RowFactor | None = None
        self._bordered = BorderedRidge() if values.shape[1] >= _MANY_COLUMNS else None

    def append(self, column: Floats) -> None:
        """Add a column of zeros and ones."""
        moments, values = self._moments, self.table.values
        new, cross = _indicator_moments(
            values, column, moments, self._y, self._weight, self.options.n_threads
        )
        if self._factor is not None:
            self._factor.append(values, moments, column[:, None], new, cross)
        self._moments = moments.append(new, cross[:, None])
        self.table.append(column)
        self._beta = np.vstack([self._beta, [[0.0]]])

    def penalties(self) -> tuple[Floats, Floats]:
        """Return L1 and L2 penalties of the coefficients of standardised columns."""
        scale = np.where(self._moments.scale > 0, self._moments.scale, 1.0)
        if self.options.standardize:
            scale[: self.table.n_own] = 1.0
        return self._l1 / scale, self._l2 / scale**2

    def solve(self) -> Line:
        """Fit all coefficients of the table."""
        moments, options = self._moments, self.options
        l1, l2 = self.penalties()
        solution: Solution | None = None
        if self._factor is None:
            ridge = None if self._bordered is None else self._bordered.solve
            how: dict[str, Any] = {"tol": options.tol, "max_iter": options.max_iter, "ridge": ridge}
            solution = solve_products(moments, l1, l2, start=self._beta, **how)
            if solution.spectral and options.penalty.alpha == 0:
                # The moments of nearly collinear columns have lost the difference between them.
                self._factor = RowFactor(
                    self.table.values, self._y, self._weight, moments, options.n_threads
                )
        if self._factor is not None:
            solution = self._factor.solve()
        assert solution is not None
        self._beta = solution.beta
        coef, _ = original_scale(solution.beta, moments)
        self._note(solution)
        return Line(coef, moments.mean, moments.fill, moments.y_mean)

    def degrees(self) -> float:
        """Effective number of coefficients."""
        l1, l2 = self.penalties()
        m = self._moments
        if l1.any():
            return float(np.count_nonzero(self._beta))
        if self._factor is not None:
            return float(self._factor.rank)
        return _trace(m.corr[np.ix_(m.varies, m.varies)], l2[m.varies])


class GrowingLogistic(GrowingLine):
    """Logistic regression that starts from the previous round's coefficients."""

    def __init__(
        self,
        values: Any,
        codes: NDArray[np.int32],
        weight: Floats | None,
        n_outputs: int,
        options: Options,
        n_more: int,
    ) -> None:
        super().__init__(EnrichedTable(values, n_more), options)
        self._data = codes, weight, n_outputs
        self._columns = self._scales(values)
        self.spreads = self._columns[1]
        if not options.scaled:
            self._columns[1] = (self.spreads > 0).astype(np.float64)
        self._theta: Floats | None = None
        self._dependent = False
        self._moments: CrossProducts | None = None
        if options.penalty.alpha == 0:
            y, centred = np.zeros((len(codes), 1)), options.fit_intercept
            self._moments = collect_products(
                values, y, weight, centred=centred, n_threads=options.n_threads
            )

    def _scales(self, values: Any) -> list[Floats]:
        centred, n_threads = self.options.fit_intercept, self.options.n_threads
        return list(column_scales(values, self._data[1], centred=centred, n_threads=n_threads))

    def append(self, column: Floats) -> None:
        """Add a column of zeros and ones."""
        new = self._scales(column[:, None])
        # Without a penalty, the scale only affects the path of the solver.
        if self.options.penalty.alpha != 0:
            new[1] = (new[1] > 0).astype(np.float64)
        self._columns = [np.append(a, b) for a, b in zip(self._columns, new, strict=True)]
        if self._moments is not None:
            self._append_moments(column)
        self.table.append(column)
        if self._theta is not None:  # the intercept is last
            self._theta = np.insert(self._theta, -1, 0.0, axis=1)

    def _append_moments(self, column: Floats) -> None:
        """Check whether a new column is linearly dependent on the others.

        If so, and without a penalty, the coefficients of minimum norm are wanted. Newton's method
        finds them from zero, but not from the coefficients of fewer columns.
        """
        m = self._moments
        assert m is not None
        y, weight, n_threads = np.zeros((len(column), 1)), self._data[1], self.options.n_threads
        new, cross = _indicator_moments(self.table.values, column, m, y, weight, n_threads)
        left = 1.0
        if m.varies.any() and not self._dependent:
            known = cross[m.varies, None]
            beta = solve_ridge(m.corr[np.ix_(m.varies, m.varies)], known).beta
            left = 1.0 - float((beta * known).sum())
        self._dependent = self._dependent or left < _DEPENDENT
        self._moments = m.append(new, cross[:, None])

    def _problem(self) -> LogLoss:
        codes, weight, n_outputs = self._data
        mean, scale, fill = self._columns
        values = self.table.values
        return LogLoss(
            lambda chosen: standardised(values, mean, scale, fill, chosen),
            codes,
            weight,
            None,
            n_outputs,
            np.full(len(mean), self._l1),
            np.full(len(mean), self._l2),
            self.options.fit_intercept,
            self.options.n_threads,
        )

    def solve(self) -> Line:
        """Fit all coefficients of the table."""
        options = self.options
        start = None if self._dependent else self._theta
        fit = fit_log_loss(self._problem(), start, tol=options.tol, max_iter=options.max_iter)
        self._theta = fit.theta
        self._note(fit)
        mean, scale, fill = self._columns
        inverse = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
        return Line(fit.theta[:, :-1].T * inverse[:, None], mean, fill, fit.theta[:, -1].copy())

    def degrees(self) -> float:
        """Effective number of coefficients."""
        from hybridtrees.linear import _passes

        problem = self._problem()
        assert self._theta is not None
        coef = self._theta[:, :-1]
        if problem.l1.any():
            return float(np.count_nonzero(coef))
        with sequential_blas():
            table = problem.make_table(None)
            theta = np.ascontiguousarray(self._theta.T)
            _, _, hess = _passes.log_loss_pass(
                table, problem.codes, problem.weight, theta, 2, problem.n_threads
            )
        assert hess is not None
        l1, l2 = problem.penalties()
        keep = np.ones(len(l1), dtype=bool)
        keep[len(problem.l1) :: len(problem.l1) + 1] = False  # intercepts are counted elsewhere
        return _trace(hess[np.ix_(keep, keep)] / problem.total, l2[keep])


class Refitted(GrowingLine):
    """Regression on too many columns to keep their products: refitted in every round."""

    def __init__(
        self,
        values: Any,
        target: NDArray[Any],
        weight: Floats | None,
        n_outputs: int,
        options: Options,
        n_more: int,
    ) -> None:
        _, self.spreads, _ = column_scales(values, weight, centred=options.fit_intercept)
        scale = np.where((self.spreads > 0) & options.scaled, self.spreads, 1.0)
        super().__init__(EnrichedTable(values, n_more, scale), options)
        self._data = target, weight, n_outputs
        self._scale = scale
        self._n_used = 0

    def append(self, column: Floats) -> None:
        """Add a column of zeros and ones."""
        self.table.append(column)
        self._scale = np.append(self._scale, 1.0)

    def solve(self) -> Line:
        """Fit all coefficients of the table."""
        target, weight, n_outputs = self._data
        options = replace(self.options, standardize=False)
        alpha = options.penalty.alpha
        assert alpha is not None
        values = self.table.values
        model: Any
        if n_outputs:
            model = open_classification(values, target, weight, None, n_outputs, options)
        else:
            model = open_regression(values, target[:, None], weight, options)
        fit = model.solve(alpha)
        line: Line = model.line(fit)
        self._note(fit)
        self._n_used = int(np.count_nonzero(line.coef))
        return line

    def to_user(self, line: Line) -> Line:
        """Convert a line for the scaled columns to their original units."""
        scale = self._scale
        return Line(line.coef / scale[:, None], line.mean * scale, line.fill * scale, line.base)

    def degrees(self) -> float:
        """Return the number of nonzero coefficients, at most that of the rows."""
        return float(min(self._n_used, self.table.values.shape[0]))


def _trace(gram: Floats, l2: Floats) -> float:
    """Return the trace of (G + L2)^-1 G."""
    if not len(gram):
        return 0.0
    with sequential_blas():
        if l2.any():
            return float(np.trace(np.linalg.solve(gram + np.diag(l2), gram)))
        return float(np.linalg.matrix_rank(gram, hermitian=True))


def open_line(
    values: Any,
    target: NDArray[Any],
    weight: Floats | None,
    n_outputs: int,
    options: Options,
    n_more: int,
) -> GrowingLine:
    """Choose the regression by the shape of the table, to which at most `n_more` columns come."""
    n, p = values.shape[0], values.shape[1] + n_more
    large = (p + 1) * n_outputs > max(LARGEST_HESSIAN, 2 * n_outputs)
    if is_wide(n, p) or large:
        return Refitted(values, target, weight, n_outputs, options, n_more)
    if n_outputs:
        return GrowingLogistic(values, target, weight, n_outputs, options, n_more)
    return GrowingLeastSquares(values, target, weight, options, n_more)
