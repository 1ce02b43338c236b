"""RERF: a penalised regression, and a random forest on its residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.base import ClassifierMixin, DecisionMixin, RegressorMixin
from hybridtrees.input.validation import check_target_classification
from hybridtrees.linear.regression import Line
from hybridtrees.metrics import accuracy_score, r2_score
from hybridtrees.models.rerf.base import RERFModel
from hybridtrees.models.rerf.linear import probabilities
from hybridtrees.models.shared.targets import read_regression_target


class RERFRegressor(RegressorMixin, RERFModel):
    """Regression-enhanced random forest (Zhang, Nettleton and Zhu 2019).

    A penalised linear regression g is fitted, then a random forest on the residuals y - g(x); the
    prediction is g(x) plus that of the forest. The line goes on where the training rows end,
    which a forest alone cannot do, and the forest finds what is not a line.

    The regression minimises

        sum_i w_i (y_i - g(x_i))^2 / (2 sum_i w_i)
            + alpha (l1_ratio |b|_1 + (1 - l1_ratio) / 2 |b|_2^2)

    over the coefficients b of standardised columns: the objective of scikit-learn's
    ``Lasso(alpha)`` and ``ElasticNet(alpha, l1_ratio)`` after a ``StandardScaler``; a
    ``Ridge(a)`` is ``alpha = a / n_rows`` here.

    Weights count as repeated rows: with ``bootstrap=False``, where every tree has all rows, a row
    of weight two gives the same model as that row twice. A bootstrap draws rows in proportion to
    their weights, as many as the table has. A row twice is one row more to draw and takes another
    place in the table, so that the same seed draws other samples; with the same number of draws
    (an integer `max_samples`) the samples have the same distribution, but are not the same.

    Parameters
    ----------
    n_estimators : int or "auto", default=100
        Trees of the forest.
    penalty : {None, "ridge", "lasso", "elasticnet"}, default="ridge"
        Penalty of the regression.
    alpha : float or "cv", default=0.001
        Its strength, per unit of weight; "cv" chooses it by cross-validation of the regression
        alone.
    l1_ratio : float, default=0.5
        Share of the L1 part under "elasticnet".
    fit_intercept, standardize, missing_indicator
        Of the regression, as in `LinearRegressor`.
    linear_features : array-like, optional
        Features of the regression (names, numbers or a mask); all by default. The forest has all.
    categorical_encoding : {"onehot", "target_mean"}, default="onehot"
        How the regression sees categories: a column for each, or one with the mean target of the
        category (drawn a little towards that of all rows). The means that the regression is
        fitted to are over rows of other folds, lest a row of a rare category explain itself. The
        forest takes categories as they are.
    tune : bool, dict of lists, or list of such dicts, default=False
        Settings to be tried: values of `penalty`, `alpha`, `l1_ratio` and of any parameter of the
        forest. True tries five alphas where there is a penalty, two numbers of features per
        split and three sizes of leaves. A regression, or a sorted table, that several settings
        share is made once.
    tune_by : "oob", int or iterable of (training rows, test rows), default="oob"
        What settings are compared by: the squared error of the sum on rows out of the bag (see
        `oob_prediction_`), or on the test rows of folds.
    splitter : {"hist", "exact"}, default="hist"
        Search of the forest, on at most `max_bins` bins or over all values. The published forests
        were exact. Bins take a fraction of the time and are the default for it; where columns have
        long tails, in which the line errs most, the exact search can be a little better.
    criterion, max_depth, min_samples_split, min_weight_fraction_leaf, \
max_leaf_nodes, min_impurity_decrease, bootstrap, max_samples, ccp_alpha, monotonic_cst, missing, \
max_bins, keep_rows
        Of the forest, as in `RandomForestRegressor`. `monotonic_cst` is about the forest's part.
    min_samples_leaf : int or float, default=1
        Minimum number of distinct rows of a leaf.
    max_features : int, float, {"sqrt", "log2"} or None, default="sqrt"
        Features drawn for each split.
    oob_score : bool, default=False
        Whether to score the sum on rows that neither of its parts has seen.
    categorical_features : array-like, optional
        Columns that hold categories, beside the string and category columns of a data frame.
    warm_start : bool, default=False
        Whether another `fit` keeps the trees there are and grows those that a larger
        `n_estimators` asks for. Data and other parameters must be the same. Not with `tune`.
    cv, max_iter, tol
        Of the regression, as in `LinearRegressor`.
    random_state : int, Generator, RandomState or None
        Seed of the forest; all settings of `tune` have the same.
    n_jobs : int, optional
        Threads; all usable CPUs by default. The result does not depend on it.
    verbose : int, default=0
        Print a line for every so many trees, and for every setting.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    coef_ : ndarray of shape (n_columns,) or (n_outputs, n_columns)
    intercept_ : float or ndarray of shape (n_outputs,)
    coef_names_ : ndarray of str
        Columns of the regression.
    forest_ : ResidualForest
        The forest on the residuals, with the methods of `RandomForestRegressor`.
    alpha_ : float
        The penalty's strength that was used.
    n_iter_ : int
        Iterations of the regression.
    oob_prediction_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        With `oob_score`: regression plus forest, by regressions and trees that have not seen the
        row. Least squares and ridge without a row follow from the hat matrix, with the means,
        scales and alpha of all rows; a lasso, an elastic net or a wide table is fitted to the
        others of five folds. Forests are grown on the residuals of the one regression on all
        rows. NaN for rows that all trees have seen.
    oob_score_, oob_curve_ : float, ndarray of shape (n_estimators,)
        R2 of these, and their mean squared error after 1, 2, ... trees.
    best_params_, best_score_, tune_results_ : dict, float, list
        With `tune`: the setting of the smallest error, that error, and all of them.
    feature_importances_ : ndarray of shape (n_features,)
        Those of the forest.

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

    max_features: int | float | str | None = "sqrt"

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = read_regression_target(y, n_rows, type(self).__name__)
        self._single = target.ndim == 1
        return target.reshape(n_rows, -1)

    def _indicators(self, target: np.ndarray) -> np.ndarray:
        return target

    def _level(self, raw: np.ndarray) -> np.ndarray:
        return raw

    def _set_coef(self, line: Line) -> None:
        intercept = line.intercept if self.fit_intercept else np.zeros(line.coef.shape[1])
        self.coef_ = line.coef[:, 0].copy() if self._single else np.ascontiguousarray(line.coef.T)
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
        codes, self.classes_ = check_target_classification(
            y, n_rows, at_least_two=True, estimator_name=type(self).__name__
        )
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
