"""Random forests: bagged trees with scikit-learn's parameter names and Breiman's defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.input.validation import check_target_classification
from hybridtrees.models.shared.class_weights import (
    SampleFactors,
    check_class_weight,
    class_factors,
    weight_rows,
)
from hybridtrees.models.shared.forest.base import ClassificationForest
from hybridtrees.models.shared.forest.packed import PackedForest, PackedRegressionForest

_VOTING = ("soft", "hard")
_CLASS_WEIGHTS = ("balanced", "balanced_subsample")


class RandomForestRegressor(PackedRegressionForest):
    """A random forest for regression (Breiman 2001).

    Takes the parameters of scikit-learn's ``RandomForestRegressor``. By default splits try a third
    of the features, as Breiman's, and leaves have five rows; his five were for a node to be split.

    Parameters
    ----------
    n_estimators : int or "auto", default=100
        Number of trees; "auto" grows until the out-of-bag error has settled, 1000 at most.
    criterion : {"squared_error", "friedman_mse", "absolute_error", "poisson"}, \
default="squared_error"
        Impurity that splits reduce. Leaves predict the mean, under "absolute_error" the median.
    splitter : {"hist", "exact"}, default="hist"
        Search the thresholds between at most `max_bins` bins of each feature, or all, as in
        `CARTRegressor`.
    max_depth, min_samples_split, min_weight_fraction_leaf, max_leaf_nodes, min_impurity_decrease
        Limits of each tree, as in `CARTRegressor`.
    min_samples_leaf : int or float, default=5
        Minimum number of distinct rows of a leaf, or their share of all rows.
    max_features : int, float, {"sqrt", "log2"} or None, default=1/3
        Features drawn for each split: a number, a share, or all.
    bootstrap : bool, default=True
        Whether rows are drawn with replacement. Otherwise `max_samples` of them are drawn
        without, or all are taken.
    max_samples : int, float or None, default=None
        Rows drawn for each tree (at most 100 times all rows), or their share; all by default.
    oob_score : bool, str or callable, default=False
        Whether to score the forest on rows out of the bag: True for R2, or the name of a metric,
        or a function of (y, prediction).
    ccp_alpha : float, default=0
        Price of a leaf in pruning each tree, per row as in `CARTRegressor`.
    monotonic_cst : array-like or dict, optional
        As in `CARTRegressor`.
    missing : {"learn", "stop"}, default="learn"
        Where missing values go, as in `CARTRegressor`.
    categorical_features : array-like, optional
        Columns that hold categories, beside the string and category columns of a data frame.
    max_bins : int, default=255
        Maximum number of bins of a feature under ``splitter="hist"``.
    keep_rows : bool or "auto", default="auto"
        Whether to keep which training rows are in each leaf, for `predict_quantiles`,
        `predict_interval` and `leaf_weights`; "auto" does so while it takes at most 256 MB.
    random_state : int, Generator, RandomState or None
        Seed of all draws. The same seed gives the same forest for any `n_jobs`.
    n_jobs : int, optional
        Threads, each of which grows trees of its own; all usable CPUs by default.
    verbose : int, default=0
        Print a line every `verbose` trees.
    warm_start : bool, default=False
        Whether `fit` adds trees to those there are. Data and parameters must be the same, but
        for `n_estimators`, `oob_score`, `keep_rows`, `n_jobs` and `verbose`.

    Attributes
    ----------
    trees_ : sequence of Tree
        The trees, made from their packed form on access.
    n_estimators_ : int
        Number of trees.
    oob_score_ : float
    oob_prediction_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Means over the trees whose samples a row is not in, NaN where there are none.
    oob_curve_ : ndarray of shape (n_estimators_,)
        Out-of-bag error after each tree: mean squared error, or the metric of `oob_score`.
    feature_importances_, feature_importances_std_ : ndarray of shape (n_features,)
        Mean decrease in impurity, and its standard deviation over the trees. It favours features
        of many values; see `oob_permutation_importance`.
    n_outputs_, max_features_, n_features_in_, feature_names_in_
        As in `CARTRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import RandomForestRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = RandomForestRegressor(oob_score=True, random_state=0).fit(X, X[:, 0])
    >>> bool(model.oob_score_ > 0.8)
    True
    """

    min_samples_leaf: int | float | str = 5
    max_features: int | float | str | None = 1 / 3


class RandomForestClassifier(ClassificationForest, PackedForest):
    """A random forest for classification (Breiman 2001).

    Takes the parameters of scikit-learn's ``RandomForestClassifier``, with the same defaults.

    Parameters
    ----------
    n_estimators, splitter, max_depth, min_samples_split, min_weight_fraction_leaf, \
max_leaf_nodes, min_impurity_decrease, bootstrap, max_samples, ccp_alpha, missing, \
categorical_features, max_bins, random_state, n_jobs, verbose, warm_start
        As in `RandomForestRegressor`.
    criterion : {"gini", "entropy", "log_loss", "misclassification"}, default="gini"
        Impurity that splits reduce; "log_loss" is another name of "entropy", which is in bits.
    min_samples_leaf : int or float, default=1
        Minimum number of distinct rows of a leaf, or their share of all rows.
    max_features : int, float, {"sqrt", "log2"} or None, default="sqrt"
        Features drawn for each split: a number, a share, or all.
    class_weight : dict, "balanced", "balanced_subsample" or None
        Factors on the weights of the rows of each class, 1 for classes that a dict leaves out;
        "balanced" gives every class the same total, "balanced_subsample" in each sample.
    voting : {"soft", "hard"}, default="soft"
        Average the probabilities of the trees, or count their votes.
    oob_score : bool, str or callable, default=False
        Whether to score the forest on rows out of the bag: True for the accuracy, or the name of
        a metric, or a function of (y, predicted classes), both as positions in `classes_`.
    monotonic_cst : array-like or dict, optional
        As in `CARTClassifier`, for the probability of the second of two classes.
    keep_rows : bool or "auto", default="auto"
        Whether to keep which training rows are in each leaf, for `leaf_weights`; "auto" does not.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    oob_decision_function_ : ndarray of shape (n_rows, n_classes)
        Probabilities (or shares of votes) by the trees whose samples a row is not in.
    oob_curve_ : ndarray of shape (n_estimators_,)
        Out-of-bag error after each tree: share of wrong classes, or the metric of `oob_score`.
    trees_, n_estimators_, oob_score_, feature_importances_, feature_importances_std_, \
n_outputs_, max_features_, n_features_in_, feature_names_in_
        As in `RandomForestRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import RandomForestClassifier
    >>> X = np.arange(20.0)[:, None]
    >>> model = RandomForestClassifier(random_state=0).fit(X, np.where(X[:, 0] > 9, "b", "a"))
    >>> model.predict([[2.0], [17.0]])
    array(['a', 'b'], dtype='<U1')
    """

    _criteria = ("gini", "entropy", "log_loss", "misclassification")
    _class_factors: Any

    criterion: str = "gini"
    max_features: int | float | str | None = "sqrt"
    class_weight: Any = None
    voting: str = "soft"

    def _check_parameters(self) -> None:
        check_option("voting", self.voting, _VOTING)
        super()._check_parameters()
        check_class_weight(self.class_weight, _CLASS_WEIGHTS)

    def _more_growth(self) -> dict[str, Any]:
        factors = self._class_factors
        kept = factors.tolist() if isinstance(factors, np.ndarray) else factors
        return {"class_weight": kept, "voting": self.voting}

    def _votes(self) -> bool:
        return self.voting == "hard"

    def _class_factor(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        factors = self.class_weight
        if factors is not None and not (isinstance(factors, str) and factors == _CLASS_WEIGHTS[1]):
            factors = class_factors(factors, target, self.classes_)
            weight_rows(factors, target)  # refuses factors that are all 0
        self._class_factors = factors
        return self._factor_of(target)

    def _factor_of(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        if self._class_factors is None:
            return None
        return SampleFactors(self._class_factors, target, self.n_classes_)

    def _kept_factor(self) -> Callable[[np.ndarray], np.ndarray] | None:
        return self._factor_of(self._train_target)

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        return check_target_classification(
            y, n_rows, classes=self.classes_, estimator_name=type(self).__name__
        )[0]

    def _tree_error(
        self, target: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None
    ) -> float:
        if predicted.shape[1] == 1 < self.n_classes_:
            codes = predicted[:, 0] > 0.5
        else:
            codes = predicted.argmax(axis=1)
        return float(np.average(codes != target, weights=weight))
