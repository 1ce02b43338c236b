"""Linear regression with ridge, lasso and elastic net penalties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybridtrees.base import RegressorMixin
from hybridtrees.input.validation import check_sample_weight, check_target_regression
from hybridtrees.linear._base import LinearModel, PenaltyName

if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line, Options
    from hybridtrees.linear.solvers import Solution
    from hybridtrees.linear.summary import LinearSummary


class LinearRegressor(RegressorMixin, LinearModel):
    """Linear regression, plain or with a ridge, lasso or elastic net penalty.

    Minimises over the intercept b0 and the coefficients b of standardised columns z::

        sum_i w_i (y_i - b0 - z_i'b)^2 / (2 sum_i w_i)
            + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2),

    where each column is centred at its weighted mean and divided by its weighted standard
    deviation. The penalty is added to a mean, so that its effect does not depend on the number of
    rows; `alpha_scaling` chooses the sum instead. A ridge sets l1_ratio to 0, a lasso to 1.
    Coefficients are reported for the original columns. Several targets are fitted independently.

    Without a penalty, linearly dependent columns get the coefficients of minimum norm on the
    standardised scale. Constant columns get 0. Tables with up to 4096 columns, and not more columns
    than rows (or 256), are solved from the products of their columns, wider ones directly.

    Parameters
    ----------
    alpha_scaling : {"mean", "sum"}
        Whether the penalty is added to half the mean of the squared errors or to half their
        weighted sum. An alpha for "sum" has the effect of that alpha divided by the sum of the
        weights for "mean". With ``standardize=False`` a ridge with "sum" is scikit-learn's
        ``Ridge(alpha)``, a lasso with "mean" its ``Lasso(alpha)``. `alphas`, `alphas_` and `alpha_`
        are scaled the same way. All folds of a cross-validation use the same alpha per unit of
        weight.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        One number per feature: the coefficient of a number; for a category the standard deviation
        of the effects of its levels over the training rows where it is not missing, a measure of
        how much the category moves predictions. Missing indicators are not included.
    term_coef_ : ndarray of shape (n_columns,) or (n_targets, n_columns)
        Coefficients of all columns of the regression; without categories and indicators the same
        as `coef_`.
    intercept_ : float or ndarray of shape (n_targets,)
        Predictions use `term_coef_` and `intercept_` even if they have been edited.
    n_iter_ : int
        Number of sweeps of the coordinate descent; 1 for a direct solution.
    rank_ : int
        Numerical rank of the centred columns; under an L1 penalty the number of nonzero columns.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearRegressor
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LinearRegressor().fit(X, [1.0, 3.0, 5.0, 7.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        name = type(self).__name__
        target = check_target_regression(y, n_rows, multi_output=True, estimator_name=name)
        if target.ndim == 2 and target.shape[1] == 0:
            raise ValueError("y has no columns: at least one target is needed")
        return target

    def _fit_rows(
        self, values: Any, target: np.ndarray, weight: Any, options: Options, unit: float
    ) -> None:
        from hybridtrees.linear.regression import (
            NarrowRegression,
            choose_regression_alpha,
            exact_least_squares,
            open_regression,
        )
        from hybridtrees.linear.solvers import warn_not_converged

        name = type(self).__name__
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
        self.term_coef_ = line.coef[:, 0].copy() if single else np.array(line.coef.T, order="C")
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
        """Return standard errors and the numbers that `summary` shows, one entry per target."""
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
                # The residuals are lost in the rounding of the sums: compute them from the rows.
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
        return raw[:, 0] if np.ndim(self.term_coef_) == 1 else raw

    def summary(self, target: int = 0) -> LinearSummary:
        """Return the coefficients with standard errors, t and p values.

        The covariance is ``sigma^2 (X'WX)^-1``, for weights inverse to the variances of the rows.
        It is not defined under a penalty.

        Parameters
        ----------
        target : int
            Number of the target, if there are several.

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
        """Return the tags of a multi-output regressor."""
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
        For the original columns; (n_alphas, n_targets, n_columns) with several targets.
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
    penalty: PenaltyName = "lasso",
    l1_ratio: float = 0.5,
    alphas: Any = LinearRegressor.alphas,
    **parameters: Any,
) -> LinearPath:
    """Fit linear regressions for many alphas, each starting from the last.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
    sample_weight : array-like of shape (n_rows,), optional
    penalty : {"ridge", "lasso", "elasticnet"}, default="lasso"
    l1_ratio : float, default=0.5
    alphas : int or array-like, default=100
        Alphas, or their number.
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
    return LinearPath(grid * unit, coefs, intercepts, model._design.names)
