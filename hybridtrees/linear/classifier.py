"""Logistic regression for two and more classes, with ridge, lasso and elastic net penalties."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees.base import ScoreClassifierMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.linear._base import LinearModel
from hybridtrees.losses import Logistic, Softmax

if TYPE_CHECKING:
    from hybridtrees.linear.newton import LogisticFit
    from hybridtrees.linear.regression import Options
    from hybridtrees.linear.summary import LinearSummary

# A mean loss below this without a penalty means that the classes are separated.
SEPARATED = 1e-6


def warn_separated(stacklevel: int) -> None:
    """Say that the classes can be separated, so that coefficients have no bound."""
    from hybridtrees.linear.solvers import ConvergenceWarning

    warnings.warn(
        "the classes can be separated without error, so that without a penalty the coefficients "
        "grow without bound: use a penalty",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


class LogisticClassifier(ScoreClassifierMixin, LinearModel):
    """Logistic regression, plain or with a ridge, lasso or elastic net penalty.

    Minimises over intercepts and the coefficients b of standardised columns z

        sum_i w_i log-loss_i / sum_i w_i + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2).

    Two classes have one score, the log-odds of the second. More classes have one score each, and
    all of their coefficients are penalised; where nothing else decides, scores are those that add
    up to zero over the classes. Columns that depend on each other get, without a penalty, the
    coefficients of minimum norm on the standardised scale; constant columns get 0.

    The solver is Newton's method, proximal under an L1 penalty; tables with more columns than
    rows go through as many columns as rows or, under an L1 penalty, through working sets of
    columns.

    Parameters
    ----------
    penalty : {None, "ridge", "lasso", "elasticnet"}, default="ridge"
        As in `LinearRegressor`.
    alpha : float or "cv", default=0.001
        Strength of the penalty, per unit of weight; "cv" chooses it by cross-validation of the
        log-loss. It is scikit-learn's 1 / (C * n_rows).
    alpha_scaling : {"mean", "sum"}, default="mean"
        Whether the penalty is added to the mean of the log-losses or to their weighted sum, as in
        linear trees; under "sum" alpha is scikit-learn's 1 / C. See `LinearRegressor`.
    l1_ratio, fit_intercept, standardize, missing_indicator, categorical_features, cv, n_jobs
        As in `LinearRegressor`. Folds have about the same shares of the classes.
    alphas : int or array-like, default=30
        The alphas to try for ``alpha="cv"``, or how many.
    max_iter : int, default=100
        Newton steps at most.
    tol : float, default=1e-9
        Stop after the step that promises to lower the objective by no more than this.
    verbose : int, default=0
        Print a line per Newton step.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (1, n_columns) for two classes, else (n_classes, n_columns)
        For the columns as they came.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Predictions follow `coef_` and `intercept_`, also where they have been edited.
    n_iter_ : int
        Newton steps over all rows.
    coef_names_, alpha_, alphas_, cv_scores_, n_features_in_, feature_names_in_
        As in `LinearRegressor`; `cv_scores_` are log-losses.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LogisticClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LogisticClassifier(alpha=0.1).fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict([[2.5]])
    array(['yes'], dtype=object)
    """

    penalty: str | None = "ridge"
    alphas: Any = 30
    max_iter: int = 100
    tol: float = 1e-9

    def _fit_rows(
        self, values: Any, y: Any, weight: np.ndarray | None, options: Options, unit: float
    ) -> None:
        from hybridtrees.linear.classification import (
            choose_classification_alpha,
            open_classification,
        )
        from hybridtrees.linear.solvers import warn_not_converged

        name = type(self).__name__
        codes, classes = check_target_classification(
            y, values.shape[0], at_least_two=True, estimator_name=name
        )
        n_outputs = 1 if len(classes) == 2 else len(classes)
        model = open_classification(values, codes, weight, None, n_outputs, options)
        choice = choose_classification_alpha(
            values, codes, weight, n_outputs, model, self.alphas, unit, int(self.verbose)
        )
        alpha = self._keep_alpha(choice, unit)
        fit = model.solve(alpha, verbose=int(self.verbose))
        if alpha == 0 and fit.loss < SEPARATED:
            warn_separated(stacklevel=5)
        elif not fit.converged:
            warn_not_converged(name, fit.n_iter, stacklevel=5)
        line = model.line(fit)
        self.classes_ = classes
        self.coef_ = np.array(line.coef.T, order="C")
        self.intercept_ = line.intercept if options.fit_intercept else np.zeros(n_outputs)
        self._keep_line(line, self.intercept_)
        self.n_iter_ = fit.n_iter
        self._loss = Logistic() if n_outputs == 1 else Softmax(n_outputs)
        self._facts = self._describe(model, fit, weight, alpha)

    def _describe(
        self, model: Any, fit: LogisticFit, weight: np.ndarray | None, alpha: float
    ) -> dict[str, Any]:
        """Collect standard errors and the numbers that `summary` shows."""
        from hybridtrees.linear.classification import NarrowClassification, information_errors

        k, p = self.coef_.shape
        codes = model.problem.codes
        w = np.ones(len(codes)) if weight is None else weight
        shares = np.bincount(codes, w, max(2, k)) / w.sum()
        shares = shares[shares > 0]
        errors = np.full((k, p), np.nan), np.full(k, np.nan)
        if alpha == 0 and isinstance(model, NarrowClassification):
            errors = information_errors(model, fit)
        return {
            "std_error": errors[0],
            "intercept_error": errors[1],
            "rows": int(np.count_nonzero(w)),
            "weight": float(w.sum()),
            "log_loss": fit.loss,
            "null_log_loss": float(-(shares * np.log(shares)).sum()),
        }

    def summary(self, label: Any = None) -> LinearSummary:
        """Coefficients with standard errors, z and p values.

        Errors are from the inverse of the observed information, with weights counting as
        repeated rows, and defined where there is no penalty. For more than two classes they are
        those of the coefficients that add up to zero over the classes.

        Parameters
        ----------
        label : object, optional
            The class to describe, where there are more than two; the first by default.

        Returns
        -------
        summary : LinearSummary
        """
        from hybridtrees.linear.summary import LinearSummary, normal_p_value, ratio

        self._check_is_fitted()
        facts, k = self._facts, 0
        if label is not None and len(self.classes_) > 2:
            found = np.flatnonzero(self.classes_ == label)
            if not len(found):
                raise ValueError(f"label must be one of {list(self.classes_)}, got {label!r}")
            k = int(found[0])
        names, coef, error = self._coef_table(k)
        z = ratio(coef, error)
        about = {
            "rows": facts["rows"],
            "class": self.classes_[k if len(self.classes_) > 2 else 1],
            "deviance": 2 * facts["weight"] * facts["log_loss"],
            "null_deviance": 2 * facts["weight"] * facts["null_log_loss"],
            "penalty": self._penalty_text(),
        }
        return LinearSummary(
            "Logistic regression", names, coef, error, z, normal_p_value(z), "z", about
        )
