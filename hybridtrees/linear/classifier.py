"""Logistic regression with ridge, lasso and elastic net penalties."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees.base import ScoreClassifierMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.linear._base import LinearModel, LogisticParameters
from hybridtrees.losses import Logistic, Softmax

if TYPE_CHECKING:
    from hybridtrees.linear.newton import LogisticFit
    from hybridtrees.linear.regression import Options
    from hybridtrees.linear.summary import LinearSummary

# Without a penalty, a mean loss below this means that the classes are separable.
SEPARATED = 1e-6


def warn_separated(stacklevel: int) -> None:
    """Warn that the classes are separable, so that coefficients are unbounded."""
    from hybridtrees.linear.solvers import ConvergenceWarning

    warnings.warn(
        "the classes can be separated without error, so that without a penalty the coefficients "
        "grow without bound: use a penalty",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


class LogisticClassifier(ClassWeightMixin, ScoreClassifierMixin, LogisticParameters, LinearModel):
    """Logistic regression, plain or with a ridge, lasso or elastic net penalty.

    Minimises over the intercepts and the coefficients b of standardised columns::

        sum_i w_i log-loss_i / sum_i w_i + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2).

    Two classes have one score, the log-odds of the second. More classes have one score each, and
    all of their coefficients are penalised; coefficients that are not determined otherwise sum to 0
    over the classes. Without a penalty, linearly dependent columns get the coefficients of minimum
    norm on the standardised scale. Constant columns get 0.

    The solver is Newton's method, proximal under an L1 penalty. Tables with more columns than rows
    are rotated to as many columns as rows or, under an L1 penalty, solved on working sets of
    columns.

    Parameters
    ----------
    alpha : float, "auto" or "cv"
        Strength of the penalty per unit of weight, scikit-learn's 1 / (C * n_rows). "cv" chooses it
        by cross-validation of the log-loss; "auto" is "cv" if there are at least as many columns as
        rows, else 0.001.
    alpha_scaling : {"mean", "sum"}
        Whether the penalty is added to the mean of the log-losses or to their weighted sum. With
        "sum" alpha is scikit-learn's 1 / C. `alphas`, `alphas_` and `alpha_` are scaled the same
        way. All folds of a cross-validation use the same alpha per unit of weight.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) for two classes, else (n_classes, n_features)
        One number per feature: the coefficient of a number; for a category the standard deviation
        of the effects of its levels over the training rows where it is not missing.
    term_coef_ : ndarray of shape (1, n_columns) for two classes, else (n_classes, n_columns)
        Coefficients of all columns of the regression.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Predictions use `term_coef_` and `intercept_` even if they have been edited.
    n_iter_ : int
        Number of Newton steps over all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LogisticClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = LogisticClassifier(alpha=0.1).fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict([[2.5]])
    array(['yes'], dtype=object)
    """

    alphas: Any = 30

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        codes, self.classes_ = check_target_classification(
            y, n_rows, at_least_two=True, estimator_name=type(self).__name__
        )
        return codes

    def _fit_rows(
        self, values: Any, target: np.ndarray, weight: Any, options: Options, unit: float
    ) -> None:
        from hybridtrees.linear.classification import (
            choose_classification_alpha,
            open_classification,
        )
        from hybridtrees.linear.solvers import warn_not_converged

        codes, n_classes = target, len(self.classes_)
        n_outputs = 1 if n_classes == 2 else n_classes
        model = open_classification(values, codes, weight, None, n_outputs, options)
        choice = choose_classification_alpha(
            values, codes, weight, n_outputs, model, self.alphas, unit, int(self.verbose)
        )
        alpha = self._keep_alpha(choice, unit)
        fit = model.solve(alpha, verbose=int(self.verbose))
        if alpha == 0 and fit.loss < SEPARATED:
            warn_separated(stacklevel=5)
        elif not fit.converged:
            warn_not_converged(type(self).__name__, fit.n_iter, stacklevel=5)
        line = model.line(fit)
        self.term_coef_ = np.array(line.coef.T, order="C")
        self.intercept_ = line.intercept if options.fit_intercept else np.zeros(n_outputs)
        self._keep_line(line, self.intercept_)
        self.n_iter_ = fit.n_iter
        self._loss = Logistic() if n_outputs == 1 else Softmax(n_outputs)
        self._facts = self._describe(model, fit, weight, alpha)

    def _describe(
        self, model: Any, fit: LogisticFit, weight: np.ndarray | None, alpha: float
    ) -> dict[str, Any]:
        """Return standard errors and the numbers that `summary` shows."""
        from hybridtrees.linear.classification import NarrowClassification, information_errors

        k, p = self.term_coef_.shape
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
        """Return the coefficients with standard errors, z and p values, and odds ratios.

        Standard errors come from the inverse of the observed information, where weights count as
        repeated rows. They are not defined under a penalty. With more than two classes they refer
        to coefficients that sum to 0 over the classes.

        Parameters
        ----------
        label : object, optional
            The class to describe, if there are more than two; by default the first.

        Returns
        -------
        summary : LinearSummary
        """
        from hybridtrees.linear.summary import LinearSummary, normal_p_value, odds_ratios, ratio

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
        p_value, odds = normal_p_value(z), odds_ratios(coef, error)
        return LinearSummary(
            "Logistic regression", names, coef, error, z, p_value, "z", about, *odds
        )
