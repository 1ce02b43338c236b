"""RERF: a penalised regression, and a random forest on its residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees.base import ClassifierMixin, DecisionMixin, RegressorMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.linear._base import LogisticParameters
from hybridtrees.linear.regression import Line
from hybridtrees.metrics import accuracy_score, r2_score
from hybridtrees.models.rerf.base import RERFModel
from hybridtrees.models.rerf.linear import probabilities
from hybridtrees.models.shared.targets import read_regression_target
from hybridtrees.models.shared.tree_parameters import MaxFeatures


class RERFRegressor(RegressorMixin, RERFModel):
    """Regression-enhanced random forest (Zhang, Nettleton and Zhu 2019).

    A penalised linear regression g is fitted, then a random forest on the residuals y - g(x); the
    prediction is the sum of both. The regression extrapolates beyond the training rows, which a
    forest cannot do; the forest models what is not linear.

    The regression minimises::

        sum_i w_i (y_i - g(x_i))^2 / (2 sum_i w_i)
            + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)

    over the coefficients b of standardised columns: the objective of scikit-learn's
    ``Lasso(alpha)`` and ``ElasticNet(alpha, l1_ratio)`` after a ``StandardScaler``; ``Ridge(a)``
    corresponds to ``alpha = a / n_rows``.

    Weights count as repeated rows: with ``bootstrap=False``, where every tree has all rows, a row
    of weight two gives the same model as that row twice. Bootstrap samples are drawn in proportion
    to the weights. A repeated row changes the number of rows and their indices, so that the same
    seed draws other samples; with an integer `max_samples` their distribution is the same.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        One number per feature: the coefficient of a number; for a category the standard deviation
        of the effects of its levels; 0 for those not in `linear_features`.
    term_coef_ : ndarray of shape (n_columns,) or (n_outputs, n_columns)
        Coefficients of the columns of the regression.
    term_names_ : ndarray of str
        Names of the columns of the regression.
    intercept_ : float or ndarray of shape (n_outputs,)
        Intercept of the regression.
    oob_prediction_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        With `oob_score`: regression plus forest, by regressions and trees that were not trained on
        the row. Least squares and ridge use leave-one-out predictions from the hat matrix, with the
        means, scales and alpha of all rows; a lasso, an elastic net or a wide table uses five
        folds. Trees are grown on the residuals of the regression on all rows. NaN for rows that are
        in the sample of every tree.
    oob_score_, oob_curve_ : float, ndarray of shape (n_estimators,)
        R2 of these, and their mean squared error after 1, 2, ... trees.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import RERFRegressor
    >>> X = np.arange(100.0)[:, None]
    >>> y = 2 * X[:, 0] + 10 * (X[:, 0] > 50)
    >>> model = RERFRegressor(n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.predict([[200.0]])[0] > 380)
    True
    """

    _has_oob = True

    max_features: MaxFeatures = 1.0

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = read_regression_target(y, n_rows, type(self).__name__)
        self._single = target.ndim == 1
        return target.reshape(n_rows, -1)

    def _indicators(self, target: np.ndarray) -> np.ndarray:
        return target

    def _level(self, raw: np.ndarray) -> np.ndarray:
        return raw

    def _set_intercept(self, line: Line) -> None:
        intercept = line.intercept if self.fit_intercept else np.zeros(line.coef.shape[1])
        self.intercept_ = float(intercept[0]) if self._single else intercept

    def _keep_oob(self, total: np.ndarray, target: np.ndarray, weight: np.ndarray | None) -> None:
        known = ~np.isnan(total).any(axis=1)
        w = None if weight is None else weight[known]
        self.oob_prediction_ = total[:, 0] if self._single else total
        self.oob_score_ = float("nan")
        if known.any():
            self.oob_score_ = float(r2_score(target[known], total[known], sample_weight=w))

    def _predictions(self, X: Any) -> np.ndarray:
        raw = self.predict_raw(X)
        return raw[:, 0] if self._single else raw

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor of several outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class RERFClassifier(
    ClassWeightMixin, DecisionMixin, ClassifierMixin, LogisticParameters, RERFModel
):
    """Logistic regression, and a random forest on its residuals.

    Residuals are class indicators minus the probabilities of the regression, one per class (of two
    classes, that of the second); leaves of the forest have a value for each. The forest's
    predictions are added to the probabilities. Only `predict_proba` clips the sums to [0, 1] and
    normalises them.

    The regression minimises::

        sum_i w_i log-loss_i / sum_i w_i + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)

    over the coefficients b of standardised columns; scikit-learn's ``LogisticRegression(C=c)``
    after a ``StandardScaler`` corresponds to ``penalty="ridge", alpha = 1 / (c * n_rows)``.

    Parameters
    ----------
    max_features : int, float, {"sqrt", "log2", "third"} or None
        Features drawn for each split of the forest. The published runs draw all, and grow leaves
        of one row: sums that leave [0, 1] are then frequent, and probabilities too bold.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) for two classes, else (n_classes, n_features)
        One number per feature: the coefficient of a number; for a category the standard deviation
        of the effects of its levels; 0 for those not in `linear_features`.
    term_coef_ : ndarray of shape (1, n_columns) for two classes, else (n_classes, n_columns)
        Coefficients of the columns of the regression.
    term_names_ : ndarray of str
        Names of the columns of the regression.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts of the regression.
    oob_decision_function_ : ndarray of shape (n_rows, n_classes)
        With `oob_score`: the sums, not clipped, of regressions on the rows of other folds (of five)
        and of the trees that a row is out of bag for.
    oob_score_, oob_curve_ : float, ndarray of shape (n_estimators,)
        Accuracy of these, and their mean squared error after 1, 2, ... trees.

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

    max_features: MaxFeatures = "sqrt"
    min_samples_leaf: int | float = 5

    # Sums are not clipped, which would make ties; 0.5 separates two classes.
    _border = 0.5

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        codes, self.classes_ = check_target_classification(
            y, n_rows, at_least_two=True, estimator_name=type(self).__name__
        )
        return codes

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _indicators(self, target: np.ndarray) -> np.ndarray:
        if self._n_outputs() == 1:
            return np.asarray((target == 1).astype(np.float64)[:, None])
        return np.asarray(np.eye(self._n_outputs())[target])

    def _level(self, raw: np.ndarray) -> np.ndarray:
        return probabilities(raw)

    def _set_intercept(self, line: Line) -> None:
        n_outputs = line.coef.shape[1]
        self.intercept_ = line.intercept if self.fit_intercept else np.zeros(n_outputs)

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
        """Return the sums clipped to [0, 1] and normalised."""
        clipped = np.clip(self.predict_raw(X), 0.0, 1.0)
        if clipped.shape[1] == 1:
            return np.hstack([1.0 - clipped, clipped])
        # The residuals of a row sum to 0, so that some class has a positive sum.
        return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))

    def _class_codes(self, X: Any) -> np.ndarray:
        """Return the classes of the largest sum, without clipping."""
        scores = self.decision_function(X)
        return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
