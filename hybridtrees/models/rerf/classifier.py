"""The classifier of RERF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hybridtrees.base import ClassifierMixin, DecisionMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.metrics import accuracy_score
from hybridtrees.models.rerf.base import RERFModel
from hybridtrees.models.rerf.linear import probabilities

if TYPE_CHECKING:
    from hybridtrees.linear.regression import Line


class RERFClassifier(DecisionMixin, ClassifierMixin, RERFModel):
    """Logistic regression, and a random forest on what its probabilities leave.

    The forest is grown on the indicators of the classes less their probabilities under the
    regression, one residual per class in vector leaves (of two classes, that of the second), and
    its predictions are added to the probabilities. The sum ranks rows as it is; only
    `predict_proba` cuts it to [0, 1] and brings it to a sum of 1.

    The regression minimises

        sum_i w_i log-loss_i / sum_i w_i + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)

    over the coefficients b of standardised columns; scikit-learn's ``LogisticRegression(C=c)``
    after a ``StandardScaler`` is ``penalty="ridge", alpha = 1 / (c * n_rows)``.

    Parameters
    ----------
    n_estimators : int or "auto", default=100
        Trees of the forest.
    penalty : {None, "ridge", "lasso", "elasticnet"}, default="ridge"
    max_features : int, float, {"sqrt", "log2"} or None, default=None
        Features drawn for each split of the forest; all by default, as in the published runs.
    max_iter, tol : int, float
        Limits of Newton's method, as in `LogisticClassifier`.
    alpha, l1_ratio, fit_intercept, standardize, linear_features, missing_indicator, \
categorical_encoding, tune, tune_by, criterion, splitter, max_depth, min_samples_split, \
min_samples_leaf, min_weight_fraction_leaf, max_leaf_nodes, min_impurity_decrease, bootstrap, \
max_samples, oob_score, ccp_alpha, monotonic_cst, missing, categorical_features, max_bins, \
keep_rows, warm_start, cv, random_state, n_jobs, verbose
        As in `RERFRegressor`. Settings of `tune` are compared by the squared error of the sum for
        the indicators of the classes (the Brier score, not cut to [0, 1]).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    coef_ : ndarray of shape (1, n_columns) for two classes, else (n_classes, n_columns)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    oob_decision_function_ : ndarray of shape (n_rows, n_classes)
        With `oob_score`: the sum for each class, as it is, by regressions on the rows outside of
        the row's fold (of five) and by the trees that have not seen it.
    oob_score_, oob_curve_ : float, ndarray of shape (n_estimators,)
        Accuracy of these, and their mean squared error after 1, 2, ... trees.
    forest_, coef_names_, alpha_, n_iter_, best_params_, best_score_, tune_results_, \
feature_importances_, n_features_in_, feature_names_in_
        As in `RERFRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import RERFClassifier
    >>> X = np.arange(100.0)[:, None]
    >>> y = (X[:, 0] > 70) | (X[:, 0] < 10)
    >>> model = RERFClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> model.predict([[5.0], [40.0], [90.0]])
    array([ True, False,  True])
    """

    # Sums that are not cut, since that would make ties; one half is the border of two classes.
    _border = 0.5

    max_iter: int = 100
    tol: float = 1e-9

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        name = type(self).__name__
        codes, classes = check_target_classification(y, n_rows, estimator_name=name)
        if len(classes) < 2:
            raise ValueError(
                f"{name} needs at least two classes, but y holds the one class "
                f"{classes.tolist()[0]!r}"
            )
        self.classes_ = classes
        return codes

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _indicators(self, target: np.ndarray) -> np.ndarray:
        if self._n_outputs() == 1:
            return (target == 1).astype(np.float64)[:, None]
        return np.eye(self._n_outputs())[target]

    def _level(self, raw: np.ndarray) -> np.ndarray:
        return probabilities(raw)

    def _set_coef(self, line: Line) -> None:
        self.coef_ = np.ascontiguousarray(line.coef.T)
        self.intercept_ = line.intercept if self.fit_intercept else np.zeros(len(self.coef_))

    def _keep_oob(self, total: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> None:
        known = ~np.isnan(total).any(axis=1)
        w = None if weight is None else weight[known]
        both = np.hstack([1.0 - total, total]) if total.shape[1] == 1 else total
        self.oob_decision_function_ = both
        found = both[known].argmax(axis=1)
        self.oob_score_ = float("nan")
        if known.any():
            self.oob_score_ = float(accuracy_score(target[known], found, sample_weight=w))

    def _probabilities(self, X: Any) -> np.ndarray:
        """Return the sums cut to [0, 1], adding up to 1."""
        cut = np.clip(self.predict_raw(X), 0.0, 1.0)
        if cut.shape[1] == 1:
            return np.hstack([1.0 - cut, cut])
        # The residuals of a row add up to 0, so that some sum of it is positive.
        return cut / cut.sum(axis=1, keepdims=True)

    def _class_codes(self, X: Any) -> np.ndarray:
        """Classes of the largest sum, before it is cut."""
        scores = self.decision_function(X)
        return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
