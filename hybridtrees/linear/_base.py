"""Base classes of the linear models, and of the linear part of hybrid models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from hybridtrees._parameters import (
    attribute,
    check_boolean,
    check_integer,
    check_option,
    check_real,
    check_verbose,
)
from hybridtrees._predictor import Predictor
from hybridtrees.base import RawScoreMixin, atomic_fit
from hybridtrees.core.base.checks import check_array, check_type
from hybridtrees.core.base.threads import effective_threads, predict_threads
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear.design import Design

# The solvers are imported where they are used, to keep `import hybridtrees` fast.
if TYPE_CHECKING:
    from hybridtrees.core.tree.additive import AdditiveForm
    from hybridtrees.linear.path import AlphaChoice
    from hybridtrees.linear.regression import Line, Options


PenaltyName = Literal["ridge", "lasso", "elasticnet"]


def check_line(line: Any, n_columns: int) -> int:
    """Check the arrays of a `Line`, given as a tuple, and return its number of outputs."""
    if not isinstance(line, tuple) or len(line) != 4:
        raise ValueError("a linear function must have four arrays")
    coef, center, fill, base = line
    check_array(coef, "coef of a linear function", "f8", [n_columns, "n_outputs"])
    check_array(center, "mean of a linear function", "f8", [n_columns])
    check_array(fill, "fill of a linear function", "f8", [n_columns])
    check_array(base, "base of a linear function", "f8", [coef.shape[1]])
    return int(coef.shape[1])


class RegressionParameters(Predictor):
    """Parameters of a penalised regression, alone or as part of a hybrid model.

    Parameters
    ----------
    penalty : {None, "ridge", "lasso", "elasticnet"}
        Penalty of the regression: none, L2, L1, or both.
    alpha : float or "cv"
        Strength of the penalty, per unit of weight; "cv" chooses it by cross-validation of the
        regression.
    l1_ratio : float
        Share of the L1 penalty under "elasticnet".
    fit_intercept : bool
        Whether to fit an intercept. Without one, columns are not centred, and are divided by their
        root mean squares.
    standardize : bool
        Whether the penalty applies to the coefficients of standardised columns or to those of the
        original columns.
    missing_indicator : bool
        Whether to add a 0/1 column for each feature with missing values in fit. Missing values are
        replaced by the weighted mean of the column in any case.
    categorical_features : array-like or None
        Categorical columns (names, indices or a mask), in addition to the string and category
        columns of a data frame. Each category has a 0/1 column, except for the first one if
        `penalty` is None and there is an intercept. In a row with a missing category these columns
        hold the shares of the categories.
    cv : int or iterable of (training rows, test rows)
        Folds for ``alpha="cv"``. For a number of folds, rows are shuffled with a fixed seed, and
        stratified by class in classification.
    max_iter : int
        Maximum number of sweeps of the coordinate descent.
    tol : float
        Duality gap, relative to the variance of y, at which the coordinate descent stops.
    n_jobs : int or None
        Number of threads; all usable CPUs by default. The result does not depend on it.

    Attributes
    ----------
    term_names_ : ndarray of str
        Names of the columns: those of the features (x0, x1, ... if they have none), then
        ``feature=category``, then ``feature is missing``.
    alpha_ : float
        Strength of the penalty that was used.
    """

    penalty: PenaltyName | None = None
    alpha: float | Literal["auto", "cv"] = 1e-3  # "auto" in classifiers only
    l1_ratio: float = 0.5
    fit_intercept: bool = True
    standardize: bool = True
    missing_indicator: bool = False
    categorical_features: Any = None
    cv: Any = 5
    max_iter: int = 10_000
    tol: float = 1e-10
    n_jobs: int | None = None
    verbose: int = 0

    _alpha_by_size: ClassVar[bool] = False  # whether alpha may be "auto"

    def _options(self) -> Options:
        """Check the parameters and return them as options of the solvers."""
        from hybridtrees.input.folds import check_cv
        from hybridtrees.linear.path import check_penalty
        from hybridtrees.linear.regression import Options

        cv = check_cv(self.cv)
        penalty = check_penalty(
            self.penalty, self.alpha, self.l1_ratio, automatic=self._alpha_by_size
        )
        check_boolean("missing_indicator", self.missing_indicator)
        check_verbose(self.verbose)
        tol = check_real("tol", self.tol, 0, closed="right")
        max_iter = check_integer("max_iter", self.max_iter, 1, 2**31 - 1)
        return Options(
            penalty=penalty,
            fit_intercept=check_boolean("fit_intercept", self.fit_intercept),
            standardize=check_boolean("standardize", self.standardize),
            tol=tol,
            max_iter=max_iter,
            n_threads=effective_threads(self.n_jobs),
            cv=cv,
        )

    def _fit_design(self, values: Any) -> Any:
        """Learn the columns of the regression from the features, and return their table."""
        self._design = Design(
            self._reader,
            values,
            drop_first=self.penalty is None and bool(self.fit_intercept),
            indicators=bool(self.missing_indicator),
        )
        return self._design.expand(values)


class TermCoefficients:
    """`coef_` with one entry per input feature, for models with `term_coef_`, one per column."""

    term_coef_: np.ndarray  # (n_terms,) or (n_outputs, n_terms)

    def _by_feature(self, coef: np.ndarray) -> np.ndarray:
        """Return (n_outputs, n_features) numbers from (n_terms, n_outputs) coefficients."""
        raise NotImplementedError

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients, one per feature: of a category, the spread of the effects of its levels."""
        terms = np.asarray(self.term_coef_, dtype=np.float64)
        found = self._by_feature(np.atleast_2d(terms).T)
        found.setflags(write=False)  # predictions use `term_coef_`
        return found[0] if terms.ndim == 1 else found

    def _take_old_coef(self) -> np.ndarray | None:
        """Remove `coef_` of files of the first versions, where it had one entry per column."""
        vars(self).pop("coef_names_", None)
        old: np.ndarray | None = vars(self).pop("coef_", None)
        return old


class LogisticParameters(RegressionParameters):
    """Defaults of a penalised logistic regression, which Newton's method solves.

    Parameters
    ----------
    alpha : float, "auto" or "cv"
        Strength of the penalty, per unit of weight. "cv" chooses it by cross-validation of the
        regression; "auto" is "cv" if there are at least as many columns as rows, else 0.001.
    max_iter : int
        Maximum number of Newton steps.
    tol : float
        The solver stops when the expected decrease of the objective is at most this.
    """

    penalty: PenaltyName | None = "ridge"
    alpha: float | Literal["auto", "cv"] = "auto"
    max_iter: int = 100
    tol: float = 1e-9

    _alpha_by_size: ClassVar[bool] = True


class LinearModel(TermCoefficients, RawScoreMixin, RegressionParameters):
    """Base class of `LinearRegressor` and `LogisticClassifier`.

    Parameters
    ----------
    verbose : int
        Whether to print a line per fit, or per Newton step of a classifier.
    alphas : int or array-like
        Alphas to try for ``alpha="cv"``, or their number. They are evenly spaced on a log scale,
        down from the smallest one at which an L1 penalty sets all coefficients to 0.

    Attributes
    ----------
    alphas_, cv_scores_ : ndarrays of shape (n_alphas,) and (n_alphas, n_folds)
        With ``alpha="cv"``: the alphas, and the mean squared errors, or log-losses, on the test
        rows.
    """

    alpha_scaling: Literal["mean", "sum"] = "mean"
    alphas: Any = 100

    intercept_: float | np.ndarray = attribute()
    _facts: dict[str, Any] = attribute()

    def _options(self) -> Options:
        from hybridtrees.linear.path import ALPHA_SCALINGS, check_alphas

        check_option("alpha_scaling", self.alpha_scaling, ALPHA_SCALINGS)
        check_alphas(self.alphas)
        return super()._options()

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        """Return the target as numbers or class codes."""
        raise NotImplementedError

    def _fit_rows(
        self, values: Any, target: np.ndarray, weight: Any, options: Options, unit: float
    ) -> None:
        """Fit the coefficients to columns and the target.

        The penalty in `options` refers to the mean loss; the user's alpha is `unit` times as large.
        """
        raise NotImplementedError

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN is replaced by the mean. String and category columns of a frame are categorical.
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Numbers for a regressor, class labels of shape (n_rows,) for a classifier.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self : estimator
        """
        options = self._options()
        values = self._fit_columns(X)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._weigh_classes(target, weight)
        unit = self._alpha_unit(values.shape[0], weight)
        penalty = options.penalty.per_row(unit).for_table(values.shape[1], len(target), weight)
        options = replace(options, penalty=penalty)
        self._fit_rows(values, target, weight, options, unit)
        return self

    def _alpha_unit(self, n_rows: int, weight: np.ndarray | None) -> float:
        """Return the user's alpha divided by that of the solvers, which minimise the mean loss."""
        if self.alpha_scaling == "mean":
            return 1.0
        return float(n_rows) if weight is None else float(weight.sum())

    def _fit_columns(self, X: Any) -> Any:
        """Learn the columns of the regression and return their table."""
        values = self._fit_features(X, categorical_features=self.categorical_features)
        return self._fit_design(values)

    @property
    def term_names_(self) -> np.ndarray:
        """Names of the columns of the regression."""
        self._check_is_fitted()
        return np.array(self._design.names, dtype=object)

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients, one per feature; may be edited if every feature is one column."""
        self._check_is_fitted()
        return self.term_coef_ if self._design.is_plain else super().coef_

    @coef_.setter
    def coef_(self, given: Any) -> None:
        if not self._design.is_plain:
            raise AttributeError("coef_ summarises categories or indicators: edit term_coef_")
        self.term_coef_ = given

    def _by_feature(self, coef: np.ndarray) -> np.ndarray:
        return self._design.by_feature(coef, self._fill)

    def _keep_alpha(self, choice: AlphaChoice, unit: float) -> float:
        """Store an alpha and the results of its cross-validation; return the solvers' alpha."""
        for name in ("alphas_", "cv_scores_"):
            self.__dict__.pop(name, None)
        if choice.alphas is not None:
            self.cv_scores_, self.alphas_ = choice.losses, choice.alphas * unit
        self.alpha_ = choice.alpha * unit
        return choice.alpha

    def _keep_line(self, line: Line, intercept: np.ndarray) -> None:
        """Store what predictions need beside `term_coef_` and `intercept_`."""
        self._coef = np.array(line.coef, order="C")
        self._center = line.mean
        self._fill = line.fill
        self._at_center = np.ascontiguousarray(line.base)
        self._at_origin = np.array(intercept)

    def _line(self) -> Line:
        """Return the line of `term_coef_` and `intercept_`, which the user may have edited.

        A line is kept relative to the means of the columns, which is more exact than relative to
        the origin. Edits are therefore added to the prediction at the means.
        """
        from hybridtrees.linear.regression import Line

        n_columns, n_outputs = self._coef.shape
        coef = np.asarray(self.term_coef_, dtype=np.float64)
        intercept = np.asarray(self.intercept_, dtype=np.float64)
        if coef.size != n_columns * n_outputs or intercept.size not in (1, n_outputs):
            raise ValueError(
                f"term_coef_ and intercept_ must have {n_outputs} x {n_columns} and {n_outputs} "
                f"numbers, got the shapes {coef.shape} and {intercept.shape}"
            )
        coef = np.ascontiguousarray(coef.reshape(n_outputs, n_columns).T)
        base = self._at_center + (intercept.ravel() - self._at_origin)
        moved = coef - self._coef
        if moved.any():
            base += self._center @ moved
        return Line(coef, self._center, self._fill, base)

    def _check_fitted(self) -> None:
        old = self._take_old_coef()
        if old is not None:
            self.term_coef_ = old
        design = check_type(self, "_design", Design)
        design.check_reader(self._reader)
        line = self._coef, self._center, self._fill, self._at_center
        n_outputs = check_line(line, design.n_columns)
        # Missing in files of the first versions.
        vars(self).setdefault("_at_origin", np.array(self.intercept_, dtype=np.float64).ravel())
        check_array(self._at_origin, "_at_origin", "f8", [n_outputs])
        classes = vars(self).get("classes_")
        if classes is not None and n_outputs != (1 if len(classes) <= 2 else len(classes)):
            raise ValueError(f"{len(classes)} classes cannot have {n_outputs} linear functions")

    def _raw_scores(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        values = self._design.expand(self._read_features(X))
        n_threads = predict_threads(self.n_jobs, values.shape[0])
        return self._line().predict(values, None, n_threads)

    def _additive_form(self) -> AdditiveForm:
        from hybridtrees.core.tree.additive import feature_columns
        from hybridtrees.linear.terms import design_terms, regression_form, terms_tree

        columns = list(feature_columns(self._reader))
        constant, terms = design_terms(self._design, self._line(), columns)
        trees = [terms_tree(terms, columns, len(constant))]
        return regression_form(self, constant, trees, columns)

    def _coef_table(self, k: int) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Return names, coefficients and standard errors of output `k`, the intercept first."""
        names, coef = self._design.names, self._line().coef[:, k]
        error = self._facts["std_error"][k]
        if not self.fit_intercept:
            return names, coef, error
        coef = np.append(np.ravel(self.intercept_)[k], coef)
        return ["intercept", *names], coef, np.append(self._facts["intercept_error"][k], error)

    def _penalty_text(self) -> str:
        return "none" if self.penalty is None else f"{self.penalty}, alpha {self.alpha_:g}"
