"""Forests of linear trees: bagging, and features drawn for every split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.base import ClassifierMixin, RegressorMixin
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.input.validation import check_target_classification
from hybridtrees.metrics import METRICS, accuracy_score
from hybridtrees.models.forest.growing import OutOfBag, most_probable, two_columns
from hybridtrees.models.linear_tree.estimators import regression_target
from hybridtrees.models.linear_tree.forest_base import LinearForestModel


class LinearForestRegressor(RegressorMixin, LinearForestModel):
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
    trees_ : TreeEnsemble
        Indexing gives a `Tree`.
    n_estimators_, n_outputs_, max_features_ : int
    feature_importances_, feature_importances_std_ : ndarrays of shape (n_features,)
        What the splits of a feature take off the loss, and how much trees differ in it.
    oob_score_, oob_curve_, oob_prediction_ : float, ndarray, ndarray
        With `oob_score`: the score, the error after each tree, and the predictions.
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.

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

    _criteria = ("squared_error", "absolute_error")
    _default_metric = "mse"
    _metric_names = ("mse", "rmse", "mae", "mape", "r2", "mphe")
    _target_names = ("n_outputs_",)

    def __init__(
        self,
        n_estimators: int | str = 100,
        *,
        criterion: str = "squared_error",
        penalty: str | None = "ridge",
        alpha: float = 1e-3,
        l1_ratio: float = 0.5,
        standardize: bool = True,
        alpha_scaling: str = "mean",
        max_depth: int | None = 5,
        min_samples_split: int | float = 6,
        min_samples_leaf: int | float | str = "auto",
        min_impurity_decrease: float = 0.0,
        max_leaf_nodes: int | None = None,
        max_features: int | float | str | None = 1.0,
        max_bins: int = 64,
        candidates: str = "bins",
        search: str = "auto",
        linear_features: Any = None,
        split_features: Any = None,
        categorical_features: Any = None,
        categorical_effects: bool = False,
        extrapolate: str = "bounded",
        bound_factor: float = 1.0,
        smoothing: float = 0.0,
        pruning: str | None = "auto",
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: Any = False,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.standardize = standardize
        self.alpha_scaling = alpha_scaling
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_leaf_nodes = max_leaf_nodes
        self.max_features = max_features
        self.max_bins = max_bins
        self.candidates = candidates
        self.search = search
        self.linear_features = linear_features
        self.split_features = split_features
        self.categorical_features = categorical_features
        self.categorical_effects = categorical_effects
        self.extrapolate = extrapolate
        self.bound_factor = bound_factor
        self.smoothing = smoothing
        self.pruning = pruning
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = regression_target(y, n_rows, str(self.criterion), type(self).__name__)
        self.n_outputs_ = target.shape[1]
        return target

    def _default_score(self, oob: OutOfBag) -> float:
        return oob.error(METRICS["r2"])

    def _keep_oob(self, oob: OutOfBag) -> None:
        prediction = oob.prediction()
        self.oob_prediction_ = prediction[:, 0] if self.n_outputs_ == 1 else prediction

    def predict(self, X: Any) -> np.ndarray:
        """Predict the mean of the trees.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs) for several outputs
        """
        values = self._table_of(X)
        raw = np.zeros((values.shape[0], self._trees.n_outputs))
        self._trees.add_raw(values, raw, self._predict_threads(values.shape[0]))
        raw /= len(self._trees)
        return raw[:, 0] if self.n_outputs_ == 1 else raw

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions of the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        prediction : ndarray
            As from `predict`.
        """
        for mean in self._staged_means(X):
            yield mean[:, 0] if self.n_outputs_ == 1 else mean

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor for one or more outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.criterion != "absolute_error"
        return tags


class LinearForestClassifier(ClassifierMixin, LinearForestModel):
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

    _criteria = ("log_loss", "gini", "misclassification")
    _default_metric = "error"
    _metric_names = ("error", "merror", "logloss", "mlogloss", "brier", "auc", "aucpr")
    _target_names = ("classes_", "n_classes_")

    def __init__(
        self,
        n_estimators: int | str = 100,
        *,
        criterion: str = "log_loss",
        penalty: str | None = "ridge",
        alpha: float = 1e-3,
        l1_ratio: float = 0.5,
        standardize: bool = True,
        alpha_scaling: str = "mean",
        max_depth: int | None = 5,
        min_samples_split: int | float = 6,
        min_samples_leaf: int | float | str = "auto",
        min_impurity_decrease: float = 0.0,
        max_leaf_nodes: int | None = None,
        max_features: int | float | str | None = 1.0,
        max_bins: int = 64,
        candidates: str = "bins",
        search: str = "auto",
        linear_features: Any = None,
        split_features: Any = None,
        categorical_features: Any = None,
        categorical_effects: bool = False,
        extrapolate: str = "bounded",
        bound_factor: float = 1.0,
        smoothing: float = 0.0,
        pruning: str | None = "auto",
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: Any = False,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.standardize = standardize
        self.alpha_scaling = alpha_scaling
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_leaf_nodes = max_leaf_nodes
        self.max_features = max_features
        self.max_bins = max_bins
        self.candidates = candidates
        self.search = search
        self.linear_features = linear_features
        self.split_features = split_features
        self.categorical_features = categorical_features
        self.categorical_effects = categorical_effects
        self.extrapolate = extrapolate
        self.bound_factor = bound_factor
        self.smoothing = smoothing
        self.pruning = pruning
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        codes, self.classes_ = check_target_classification(
            y, n_rows, estimator_name=type(self).__name__
        )
        self.n_classes_ = len(self.classes_)
        return codes

    def _n_classes(self) -> int:
        return max(2, self.n_classes_)

    def _tree_values(self, trees: TreeEnsemble, values: Any, first: int = 0) -> np.ndarray:
        from hybridtrees.models.linear_tree.node_fitters import probabilities

        proba = probabilities(super()._tree_values(trees, values, first))
        return proba[:, 1:] if proba.shape[1] == 2 else proba

    def _default_score(self, oob: OutOfBag) -> float:
        target, mean, weight = oob.score_input()
        if not len(target):
            return float("nan")
        return accuracy_score(target, most_probable(mean), sample_weight=weight)

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_decision_function_ = oob.prediction()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of every class: the mean of the trees.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        *_, mean = self._staged_means(X)
        return self._both(mean)

    def _both(self, mean: np.ndarray) -> np.ndarray:
        if self.n_classes_ == 1:
            return np.ones((len(mean), 1))
        return two_columns(mean) if self.n_classes_ == 2 else mean

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        labels : ndarray of shape (n_rows,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the probabilities by the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        proba : ndarray of shape (n_rows, n_classes)
        """
        for mean in self._staged_means(X):
            yield self._both(mean)

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the classes by the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        labels : ndarray of shape (n_rows,)
        """
        for proba in self.staged_predict_proba(X):
            yield self.classes_[proba.argmax(axis=1)]
