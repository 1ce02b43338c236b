"""Linear regression with ridge, lasso and elastic net penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybridtrees.base import RegressorMixin
from hybridtrees.input.validation import check_sample_weight, check_target_regression
from hybridtrees.linear._base import LinearModel

if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line, Options
    from hybridtrees.linear.solvers import Solution
    from hybridtrees.linear.summary import LinearSummary


class LinearRegressor(RegressorMixin, LinearModel):
    """Linear regression, plain or with a ridge, lasso or elastic net penalty.

    Minimises over the intercept b0 and the coefficients b of standardised columns z

        sum_i w_i (y_i - b0 - z_i'b)^2 / (2 sum_i w_i)
            + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2),

    where each column has its weighted mean subtracted and is divided by its weighted standard
    deviation. The squared error is a mean, so that alpha has the same effect on a table and on
    that table twice; `alpha_scaling` chooses the sum instead. Coefficients are reported for the
    columns as they came. With several targets the objectives add up, so that each is fitted as if
    it were alone.

    Columns that depend on each other get, without a penalty, the coefficients of minimum norm on
    the standardised scale; constant columns get 0. Tables with at most 4096 columns, and not
    more than rows, are solved from one pass of sums over the rows; wider ones from their columns.

    Parameters
    ----------
    penalty : {None, "ridge", "lasso", "elasticnet"}, default=None
        "ridge" is l1_ratio 0, "lasso" is l1_ratio 1, whatever `l1_ratio` says.
    alpha : float or "cv", default=0.001
        Strength of the penalty, per unit of weight; "cv" chooses it by cross-validation of the
        squared error.
    l1_ratio : float, default=0.5
        Share of the L1 part under "elasticnet".
    fit_intercept : bool, default=True
        Without an intercept, columns are not centred and are divided by their root mean squares.
    standardize : bool, default=True
        Whether the penalty is on the coefficients of standardised columns; if not, on those of
        the columns as they came.
    alpha_scaling : {"mean", "sum"}, default="mean"
        Whether the penalty is added to half the mean of the squared errors or to half their
        weighted sum, as in linear trees. An alpha under "sum" is that alpha divided by the sum of
        the weights under "mean"; with ``standardize=False`` a ridge under "sum" is scikit-learn's
        ``Ridge(alpha)``, a lasso under "mean" its ``Lasso(alpha)``. `alphas`, `alphas_` and
        `alpha_` are scaled the same way. All folds of a cross-validation have the alpha per unit
        of weight in common.
    missing_indicator : bool, default=False
        Add a column of zeros and ones for each feature with missing values in fit. Missing
        values themselves are replaced by the weighted mean of the column in any case.
    categorical_features : array-like, optional
        Columns that hold categories (names, numbers or a mask), beside the string and category
        columns of a data frame. Each category has a column of zeros and ones, but for the first
        one where `penalty` is None and there is an intercept. A missing category counts as each
        category by its share.
    cv : int or iterable of (training rows, test rows), default=5
        Folds for ``alpha="cv"``. A number of folds deals the rows out in a fixed shuffled order.
    alphas : int or array-like, default=100
        The alphas to try for ``alpha="cv"``, or how many: evenly spaced in their logarithms, from
        the one that leaves no coefficient under an L1 penalty.
    max_iter : int, default=10000
        Sweeps of the coordinate descent at most.
    tol : float, default=1e-10
        Duality gap, relative to the variance of y, at which the coordinate descent stops.
    n_jobs : int, optional
        Threads; all usable CPUs by default. The result does not depend on it.
    verbose : int, default=0
        Print a line per fit.

    Attributes
    ----------
    coef_ : ndarray of shape (n_columns,) or (n_targets, n_columns)
    intercept_ : float or ndarray of shape (n_targets,)
        Predictions follow these two, also where they have been edited.
    coef_names_ : ndarray of str
        Names of the columns: those of the features (x0, x1, ... where they have none), then
        ``feature=category``, then ``feature is missing``.
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    n_iter_ : int
        Sweeps of the coordinate descent; 1 for a direct solution.
    alpha_ : float
        The penalty's strength that was used.
    alphas_, cv_scores_ : ndarrays of shape (n_alphas,) and (n_alphas, n_folds)
        With ``alpha="cv"``: what was tried, and the mean squared errors on the test rows.
    rank_ : int
        Numerical rank of the centred columns; under an L1 penalty the number of columns in use.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearRegressor
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LinearRegressor().fit(X, [1.0, 3.0, 5.0, 7.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    def _fit_rows(
        self, values: Any, y: Any, weight: np.ndarray | None, options: Options, unit: float
    ) -> None:
        from hybridtrees.linear.regression import (
            NarrowRegression,
            choose_regression_alpha,
            exact_least_squares,
            open_regression,
        )
        from hybridtrees.linear.solvers import warn_not_converged

        name = type(self).__name__
        target = check_target_regression(y, values.shape[0], multi_output=True, estimator_name=name)
        if target.ndim == 2 and target.shape[1] == 0:
            raise ValueError("y has no columns: at least one target is needed")
        targets = target.reshape(len(target), -1)
        model = open_regression(values, targets, weight, options)
        choice = choose_regression_alpha(values, targets, weight, model, self.alphas, unit)
        alpha = self._keep_alpha(choice, unit)
        plain = alpha == 0 and isinstance(model, NarrowRegression)
        if isinstance(model, NarrowRegression):
            solution = model.solve(alpha, want_inverse=plain)
            if plain and solution.spectral:
                solution = exact_least_squares(values, targets, weight, model.moments)
        else:
            solution = model.solve(alpha)
        if not solution.converged:
            warn_not_converged(name, solution.n_iter, stacklevel=5)
        line = model.line(solution)
        intercept = line.intercept if options.fit_intercept else np.zeros(targets.shape[1])
        self._keep_line(line, intercept)
        single = target.ndim == 1
        self.coef_ = line.coef[:, 0].copy() if single else np.array(line.coef.T, order="C")
        self.intercept_ = float(intercept[0]) if single else intercept
        self.n_iter_ = solution.n_iter
        self.rank_ = solution.rank
        self._facts = self._describe(values, targets, weight, options, model, solution, line)
        if self.verbose:
            about = f"alpha {self.alpha_:.6g}, rank {self.rank_}, {self.n_iter_} iteration(s)"
            print(f"{name}: {about}")

    def _describe(
        self,
        values: Any,
        targets: np.ndarray,
        weight: np.ndarray | None,
        options: Options,
        model: Any,
        solution: Solution,
        line: Line,
    ) -> dict[str, np.ndarray]:
        """Collect standard errors and the numbers that `summary` shows, one entry per target."""
        from hybridtrees.linear.regression import NarrowRegression

        p, k = line.coef.shape
        facts: dict[str, Any] = {
            "std_error": np.full((k, p), np.nan),
            "intercept_error": np.full(k, np.nan),
        }
        w = np.ones(len(targets)) if weight is None else weight
        n_rows, total = int(np.count_nonzero(w)), float(w.sum())
        explained = None
        if isinstance(model, NarrowRegression):  # the share of the variance of y, from moments
            b, m = solution.beta, model.moments
            explained = 2.0 * (b * m.xy).sum(axis=0) - (b * (m.corr @ b)).sum(axis=0)
        with np.errstate(over="ignore"):  # the square of a huge target is infinite
            if explained is None or (explained > 1 - 1e-6).any():
                # What is left is lost in the rounding of the sums: look at the rows.
                left = targets - line.predict(values, None, options.n_threads)
                mean_square = w @ left**2 / total
            else:
                mean_square = model.moments.y_scale**2 * (1.0 - explained)
            center = w @ targets / total if options.fit_intercept else 0.0
            spread = w @ (targets - center) ** 2 / total
        degrees = n_rows - solution.rank - int(options.fit_intercept)
        with np.errstate(divide="ignore", invalid="ignore"):
            facts["r2"] = np.where(spread > 0, 1.0 - mean_square / spread, np.nan)
        facts["n_rows"], facts["mean_square"] = np.full(k, n_rows), mean_square
        facts["df_residual"] = np.full(k, degrees)
        if solution.inverse is None or solution.estimable is None or degrees <= 0:
            facts["sigma"] = np.full(k, np.nan)
            return facts
        variance = mean_square * total / degrees
        facts["sigma"] = np.sqrt(variance)
        varies = model.moments.varies
        scale = model.moments.scale[varies]
        diagonal = np.where(solution.estimable, np.diag(solution.inverse), np.nan)
        facts["std_error"][:, varies] = np.sqrt(np.outer(variance / total, diagonal)) / scale
        if options.fit_intercept and solution.estimable.all():
            m = model.moments.mean[varies] / scale
            facts["intercept_error"] = np.sqrt(variance / total * (1 + m @ solution.inverse @ m))
        return facts

    def _predictions(self, X: Any) -> np.ndarray:
        raw = self._raw_scores(X)
        return raw[:, 0] if np.ndim(self.coef_) == 1 else raw

    def summary(self, target: int = 0) -> LinearSummary:
        """Coefficients with standard errors, t and p values.

        Errors are those of least squares with weights inverse to the variances of the rows,
        ``sigma^2 (X'WX)^-1``, and defined where there is no penalty.

        Parameters
        ----------
        target : int
            Which target, where there are several.

        Returns
        -------
        summary : LinearSummary
        """
        from hybridtrees.linear.summary import LinearSummary, ratio, student_p_value

        self._check_is_fitted()
        facts, k = self._facts, int(target)
        n_targets = self._coef.shape[1]
        if not 0 <= k < n_targets:
            raise ValueError(f"target must be an integer in [0, {n_targets - 1}], got {target!r}")
        names, coef, error = self._coef_table(k)
        t, degrees = ratio(coef, error), int(facts["df_residual"][k])
        n_rows, r2 = int(facts["n_rows"][k]), float(facts["r2"][k])
        spare = n_rows - int(self.fit_intercept)
        about = {
            "rows": n_rows,
            "rank": self.rank_,
            "df_residual": degrees,
            "sigma": float(facts["sigma"][k]),
            "r2": r2,
            "adjusted_r2": 1 - (1 - r2) * spare / degrees if degrees > 0 else float("nan"),
            "penalty": self._penalty_text(),
        }
        p_value = student_p_value(t, degrees) if degrees > 0 else np.full(len(t), np.nan)
        return LinearSummary("Linear regression", names, coef, error, t, p_value, "t", about)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor of several targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class LinearPath(NamedTuple):
    """Coefficients along a path of alphas.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        From large to small.
    coefs : ndarray of shape (n_alphas, n_columns)
        For the columns as they came; (n_alphas, n_targets, n_columns) with several targets.
    intercepts : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
    names : list of str
        Names of the columns.
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    names: list[str]


def linear_path(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    penalty: str = "lasso",
    l1_ratio: float = 0.5,
    alphas: Any = LinearRegressor.alphas,
    **parameters: Any,
) -> LinearPath:
    """Linear regressions for many alphas, each started from the one before.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
    sample_weight : array-like of shape (n_rows,), optional
    penalty : {"ridge", "lasso", "elasticnet"}, default="lasso"
    l1_ratio : float, default=0.5
    alphas : int or array-like, default=100
        The alphas, or how many.
    **parameters
        Further parameters of `LinearRegressor`.

    Returns
    -------
    path : LinearPath

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import linear_path
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> path = linear_path(X, X[:, 0], alphas=5)
    >>> path.coefs.shape, int(np.count_nonzero(path.coefs[0]))
    ((5, 3), 0)
    """
    from hybridtrees.linear.path import alpha_grid, check_alphas
    from hybridtrees.linear.regression import open_regression
    from hybridtrees.linear.solvers import warn_not_converged

    if penalty is None:
        raise ValueError("penalty must be one of 'ridge', 'lasso', 'elasticnet', got None")
    model = LinearRegressor(
        penalty=penalty, alpha="cv", l1_ratio=l1_ratio, alphas=alphas, **parameters
    )
    options = model._options()
    values = model._fit_columns(X)
    target = check_target_regression(y, values.shape[0], multi_output=True)
    targets = target.reshape(len(target), -1)
    weight = check_sample_weight(sample_weight, values.shape[0])
    regression = open_regression(values, targets, weight, options)
    unit = model._alpha_unit(len(targets), weight)
    l1_ratio = options.penalty.l1_ratio
    grid = alpha_grid(check_alphas(alphas), regression.steepest(), l1_ratio, unit)
    lines = []
    for solution in regression.path(grid):
        if not solution.converged:
            warn_not_converged("linear_path", solution.n_iter)
        lines.append(regression.line(solution))
    coefs = np.stack([line.coef.T for line in lines])
    intercepts = np.stack([line.intercept for line in lines])
    if target.ndim == 1:
        coefs, intercepts = coefs[:, 0], intercepts[:, 0]
    return LinearPath(grid * unit, coefs, intercepts, list(model.coef_names_))
