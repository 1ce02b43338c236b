"""What the linear regressor and the logistic classifier share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees.base import Estimator, RawScoreMixin, atomic_fit
from hybridtrees.core.base.checks import check_array, check_type
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.linear.design import Design

# The solvers are imported where they are used, to keep `import hybridtrees` quick.
if TYPE_CHECKING:
    from hybridtrees.linear.path import AlphaChoice
    from hybridtrees.linear.regression import Line, Options


def check_line(line: Any, n_columns: int) -> int:
    """Return the number of outputs of a `Line`, given as a tuple, if its arrays fit together."""
    if not isinstance(line, tuple) or len(line) != 4:
        raise ValueError("a linear function is made of four arrays")
    coef, center, fill, base = line
    check_array(coef, "coef of a linear function", "f8", [n_columns, "n_outputs"])
    check_array(center, "mean of a linear function", "f8", [n_columns])
    check_array(fill, "fill of a linear function", "f8", [n_columns])
    check_array(base, "base of a linear function", "f8", [coef.shape[1]])
    return coef.shape[1]


class RegressionParameters(Estimator):
    """Parameters of a penalised regression, alone or as a part of a hybrid."""

    penalty: str | None = None
    alpha: float | str = 1e-3
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

    def _options(self) -> Options:
        """Check the parameters, all before any work."""
        from hybridtrees.linear.path import check_cv, check_penalty
        from hybridtrees.linear.regression import Options

        cv, penalty = check_cv(self.cv), check_penalty(self.penalty, self.alpha, self.l1_ratio)
        check_boolean("missing_indicator", self.missing_indicator)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)
        tol = check_real("tol", self.tol, 0, closed="right")
        max_iter = check_integer("max_iter", self.max_iter, 1, 2**31 - 1)
        assert tol is not None and max_iter is not None
        if not tol > 0:
            raise ValueError(f"tol must be a real number greater than 0, got {self.tol!r}")
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
        """Learn the columns of the regression from the features, and return the table of them."""
        self._design = Design(
            self._reader,
            values,
            drop_first=self.penalty is None and bool(self.fit_intercept),
            indicators=bool(self.missing_indicator),
        )
        return self._design.expand(values)


class LinearModel(RawScoreMixin, RegressionParameters):
    """Columns, scores and reports of a linear model."""

    alpha_scaling: str = "mean"
    alphas: Any = 100

    coef_: np.ndarray
    intercept_: float | np.ndarray
    _facts: dict[str, Any]

    def _options(self) -> Options:
        from hybridtrees.linear.path import ALPHA_SCALINGS, check_alphas

        check_option("alpha_scaling", self.alpha_scaling, ALPHA_SCALINGS)
        check_alphas(self.alphas)
        return super()._options()

    def _fit_rows(
        self, values: Any, y: Any, weight: np.ndarray | None, options: Options, unit: float
    ) -> None:
        """Fit the coefficients to columns and a target as it came.

        The penalty in `options` is that of the mean loss, `unit` times as large for the user.
        """
        raise NotImplementedError

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the coefficients.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN counts as the mean. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            A number per row, also of shape (n_rows, n_targets), or labels of two classes or more.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self : estimator
        """
        options = self._options()
        values = self._fit_columns(X)
        weight = check_sample_weight(sample_weight, values.shape[0])
        unit = self._alpha_unit(values.shape[0], weight)
        options = replace(options, penalty=options.penalty.per_row(unit))
        self._fit_rows(values, y, weight, options, unit)
        return self

    def _alpha_unit(self, n_rows: int, weight: np.ndarray | None) -> float:
        """Return how many times the mean loss `alpha` is added to; the solvers take it at one."""
        if self.alpha_scaling == "mean":
            return 1.0
        return float(n_rows) if weight is None else float(weight.sum())

    def _fit_columns(self, X: Any) -> Any:
        """Learn the columns of the regression and return the table of them."""
        values = self._fit_features(X, categorical_features=self.categorical_features)
        columns = self._fit_design(values)
        self.coef_names_ = np.array(self._design.names, dtype=object)
        return columns

    def _keep_alpha(self, choice: AlphaChoice, unit: float) -> float:
        """Keep an alpha, and what a cross-validation has tried; return it for the mean loss."""
        for name in ("alphas_", "cv_scores_"):
            self.__dict__.pop(name, None)
        if choice.alphas is not None:
            self.cv_scores_, self.alphas_ = choice.losses, choice.alphas * unit
        self.alpha_ = choice.alpha * unit
        return choice.alpha

    def _keep_line(self, line: Line, intercept: np.ndarray) -> None:
        """Keep what predictions need beside `coef_` and `intercept_`."""
        self._coef = np.array(line.coef, order="C")
        self._center = line.mean
        self._fill = line.fill
        self._at_center = np.ascontiguousarray(line.base)
        self._at_origin = np.array(intercept)

    def _line(self) -> Line:
        """Return the line that `coef_` and `intercept_` describe, be they edited or not.

        It starts from the means of the columns, which saves the digits that a far origin would
        take; so what the fitted numbers were changed by is added to the prediction there.
        """
        from hybridtrees.linear.regression import Line

        n_columns, n_outputs = self._coef.shape
        coef = np.asarray(self.coef_, dtype=np.float64)
        intercept = np.asarray(self.intercept_, dtype=np.float64)
        if coef.size != n_columns * n_outputs or intercept.size not in (1, n_outputs):
            raise ValueError(
                f"coef_ and intercept_ must have {n_outputs} x {n_columns} and {n_outputs} "
                f"numbers, got the shapes {coef.shape} and {intercept.shape}"
            )
        coef = np.ascontiguousarray(coef.reshape(n_outputs, n_columns).T)
        base = self._at_center + (intercept.ravel() - self._at_origin)
        moved = coef - self._coef
        if moved.any():
            base += self._center @ moved
        return Line(coef, self._center, self._fill, base)

    def _check_fitted(self) -> None:
        design = check_type(self, "_design", Design)
        design.check_reader(self._reader)
        line = self._coef, self._center, self._fill, self._at_center
        n_outputs = check_line(line, design.n_columns)
        # Files of the first versions lack it.
        vars(self).setdefault("_at_origin", np.array(self.intercept_, dtype=np.float64).ravel())
        check_array(self._at_origin, "_at_origin", "f8", [n_outputs])
        classes = vars(self).get("classes_")
        if classes is not None and n_outputs != (1 if len(classes) <= 2 else len(classes)):
            raise ValueError(f"{len(classes)} classes cannot have {n_outputs} linear functions")

    def _raw_scores(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        values = self._design.expand(self._read_features(X))
        n_threads = 1 if values.shape[0] < 4096 else effective_threads(self.n_jobs)
        return self._line().predict(values, None, n_threads)

    def _coef_table(self, k: int) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Names, coefficients and standard errors of output `k`, the intercept first."""
        names, coef = list(self.coef_names_), self._line().coef[:, k]
        error = self._facts["std_error"][k]
        if not self.fit_intercept:
            return names, coef, error
        coef = np.append(np.ravel(self.intercept_)[k], coef)
        return ["intercept", *names], coef, np.append(self._facts["intercept_error"][k], error)

    def _penalty_text(self) -> str:
        return "none" if self.penalty is None else f"{self.penalty}, alpha {self.alpha_:g}"
