"""Forests of linear trees: bagging, and features drawn for every split."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.models.linear_tree.base import LinearClassTarget, LinearRegressionTarget
from hybridtrees.models.linear_tree.forest_base import LinearForestModel
from hybridtrees.models.linear_tree.node_fitters import probabilities
from hybridtrees.models.shared.forest.base import ClassificationForest, RegressionForest


class LinearForestRegressor(LinearRegressionTarget, RegressionForest, LinearForestModel):
    """A random forest whose trees have linear regressions in their leaves.

    Parameters
    ----------
    n_estimators : int or "auto", default=100
        Trees; "auto" stops when the out-of-bag error has settled.
    criterion, penalty, alpha, l1_ratio, standardize, alpha_scaling
        Loss and penalty of the regressions, as in `LinearTreeRegressor`.
    max_depth, min_samples_split, min_samples_leaf, min_impurity_decrease, max_leaf_nodes
        Limits on the trees, as in `LinearTreeRegressor`.
    max_features : int, float, {"sqrt", "log2"} or None, default=1.0
        Features drawn for each split: a number, a share, or all. The regressions see them all.
    max_bins, candidates, search, linear_features, split_features, categorical_features, \
categorical_effects
        As in `LinearTreeRegressor`.
    extrapolate, bound_factor, smoothing
        As in `LinearTreeRegressor`.
    pruning : {"auto", "bic", "aic", None}, default="auto"
        As in `LinearTreeRegressor`, but "auto" is "aic": trees that are averaged may be larger.
        A bootstrap sample counts as sum(c)^2 / sum(c^2) rows, c how often each row was drawn:
        rows drawn again are no new evidence.
    bootstrap : bool, default=True
        Whether rows are drawn with replacement.
    max_samples : int, float or None, default=None
        Rows drawn for a tree, or their share; as many as there are by default.
    oob_score : bool, str or callable, default=False
        Whether to score each row by the trees that have not seen it: by R2, or by a metric.
    warm_start : bool, default=False
        Whether `fit` adds trees to those there are, on the same table. Only `n_estimators`,
        `oob_score`, `n_jobs` and `verbose` may change.
    random_state : int, Generator, RandomState or None
        Seed of the samples and of the draws of features.
    n_jobs : int, optional
        Trees that are grown at a time; all usable CPUs by default. The forest does not depend
        on it.
    verbose : int, default=0
        A line for every so many trees.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    trees_ : TreeEnsemble
        Indexing gives a `Tree`.
    n_estimators_, n_outputs_, max_features_ : int
    feature_importances_, feature_importances_std_ : ndarrays of shape (n_features,)
        What the splits of a feature take off the loss, and how much trees differ in it.
    oob_score_, oob_curve_, oob_prediction_ : float, ndarray, ndarray
        With `oob_score`: the score, the error after each tree, and the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0, 3 * X[:, 1], -X[:, 1])
    >>> model = LinearForestRegressor(20, max_features=None, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _metric_names = ("mse", "rmse", "mae", "mape", "r2", "mphe")


class LinearForestClassifier(LinearClassTarget, ClassificationForest, LinearForestModel):
    """A random forest whose trees have logistic regressions in their leaves.

    The probabilities of the trees are averaged.

    Parameters
    ----------
    n_estimators : int or "auto", default=100
        Trees; "auto" stops when the out-of-bag error has settled.
    criterion, penalty, alpha, l1_ratio, standardize, alpha_scaling
        Criterion of the splits, and penalty of the regressions, as in `LinearTreeClassifier`.
    max_features : int, float, {"sqrt", "log2"} or None, default=1.0
        Features drawn for each split.
    oob_score : bool, str or callable, default=False
        Whether to score each row by the trees that have not seen it: by the share of right
        classes, or by a metric. As in `RandomForestClassifier`.
    max_depth, min_samples_split, min_samples_leaf, min_impurity_decrease, max_leaf_nodes, \
max_bins, candidates, search, linear_features, split_features, categorical_features, \
categorical_effects, extrapolate, bound_factor, smoothing, pruning, bootstrap, max_samples, \
warm_start, random_state, n_jobs, verbose
        As in `LinearForestRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    oob_decision_function_ : ndarray of shape (n_rows, n_classes)
        With `oob_score`: the probabilities by the trees that have not seen a row.
    trees_, n_estimators_, max_features_, feature_importances_, feature_importances_std_, \
oob_score_, oob_curve_, n_features_in_, feature_names_in_
        As in `LinearForestRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearForestClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = LinearForestClassifier(10, random_state=0).fit(X, y)
    >>> model.predict([[2.0, 2.0], [2.0, -2.0]])
    array(['same', 'other'], dtype='<U5')
    """

    def _add_trees(
        self, trees: Any, table: Any, raw: np.ndarray, n_threads: int, first: int, last: int
    ) -> None:
        for tree in range(first, last):
            scores = np.zeros((len(raw), trees.n_outputs))
            trees.add_raw(table, scores, n_threads, tree, tree + 1)
            proba = probabilities(scores)
            raw += proba[:, 1:] if proba.shape[1] == 2 else proba
