"""Random forests: bagged trees with scikit-learn's parameter names and Breiman's defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hybridtrees._parameters import check_option
from hybridtrees.base import ClassifierMixin, RegressorMixin
from hybridtrees.input.validation import check_target_classification, check_target_regression
from hybridtrees.metrics import METRICS, accuracy_score
from hybridtrees.models.cart.base import CARTModel
from hybridtrees.models.cart.estimators import CARTClassifier, CARTRegressor
from hybridtrees.models.forest.base import ForestModel
from hybridtrees.models.forest.growing import OutOfBag, most_probable, two_columns
from hybridtrees.models.forest.quantiles import QuantilePrediction

_VOTING = ("soft", "hard")
_CLASS_WEIGHTS = ("balanced", "balanced_subsample")


class RandomForestRegressor(RegressorMixin, QuantilePrediction, ForestModel):
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
        Least distinct rows of a leaf, or their share of all rows.
    max_features : int, float, {"sqrt", "log2"} or None, default=1/3
        Features drawn for each split: a number, a share, or all.
    bootstrap : bool, default=True
        Whether rows are drawn with replacement. Otherwise `max_samples` of them are drawn
        without, or all are taken.
    max_samples : int, float or None, default=None
        Rows drawn for each tree (at most 100 times all rows), or their share; all by default.
    oob_score : bool, str or callable, default=False
        Whether to judge the forest by rows out of the bag: True for R2, or the name of a metric,
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
        Most bins of a feature under ``splitter="hist"``.
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
        The trees, made from their packed form when asked for.
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

    n_outputs_: int

    _tree_class = CARTRegressor
    _default_metric = "mse"
    _metric_names = (
        "mse", "rmse", "mae", "mape", "rmsle", "r2", "mphe", "quantile", "expectile",
        "poisson-nloglik", "gamma-nloglik", "gamma-deviance", "tweedie-nloglik",
    )  # fmt: skip

    def __init__(
        self,
        n_estimators: int | str = 100,
        *,
        criterion: str = "squared_error",
        splitter: str = "hist",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 5,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = 1 / 3,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: Any = False,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        missing: str = "learn",
        categorical_features: Any = None,
        max_bins: int = 255,
        keep_rows: bool | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        warm_start: bool = False,
    ):
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.ccp_alpha = ccp_alpha
        self.monotonic_cst = monotonic_cst
        self.missing = missing
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.keep_rows = keep_rows
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start

    def _default_score(self, oob: OutOfBag) -> float:
        return oob.error(METRICS["r2"])

    def _keep_oob(self, oob: OutOfBag) -> None:
        prediction = oob.prediction()
        self.oob_prediction_ = prediction[:, 0] if self.n_outputs_ == 1 else prediction

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        target = check_target_regression(
            y, n_rows, multi_output=True, estimator_name=type(self).__name__
        ).reshape(n_rows, -1)
        if target.shape[1] != self.n_outputs_:
            raise ValueError(f"y must have {self.n_outputs_} outputs, got {target.shape[1]}")
        return target

    def _tree_error(self, target: np.ndarray, said: np.ndarray, weight: np.ndarray | None) -> float:
        gap = np.abs(target - said)
        if self._trees.criterion != "absolute_error":
            gap = gap * gap
        return float(np.average(gap.mean(axis=1), weights=weight))

    def predict(self, X: Any) -> np.ndarray:
        """Predict the mean of what the trees say.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        prediction : ndarray of shape (n_rows,), or (n_rows, n_outputs) for several outputs
        """
        mean = self._mean(X)
        return mean[:, 0] if self.n_outputs_ == 1 else mean

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

    def _outputs(self) -> str:
        return f"outputs {self.n_outputs_}"

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor for one or more outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class RandomForestClassifier(ClassifierMixin, ForestModel):
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
        Least distinct rows of a leaf, or their share of all rows.
    max_features : int, float, {"sqrt", "log2"} or None, default="sqrt"
        Features drawn for each split: a number, a share, or all.
    class_weight : dict, "balanced", "balanced_subsample" or None
        Factors on the weights of the rows of each class, 1 for classes that a dict leaves out;
        "balanced" gives every class the same total, "balanced_subsample" in each sample.
    voting : {"soft", "hard"}, default="soft"
        Average the probabilities of the trees, or count their votes.
    oob_score : bool, str or callable, default=False
        Whether to judge the forest by rows out of the bag: True for the accuracy, or the name of
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

    classes_: np.ndarray
    n_classes_: int
    n_outputs_: int
    _class_factors: Any

    _tree_class = CARTClassifier
    _default_metric = "error"
    _target_names = ("classes_", "n_classes_", "n_outputs_")
    _metric_names = ("error", "merror", "logloss", "mlogloss", "brier", "auc", "aucpr")

    def __init__(
        self,
        n_estimators: int | str = 100,
        *,
        criterion: str = "gini",
        splitter: str = "hist",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        class_weight: Any = None,
        voting: str = "soft",
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        oob_score: Any = False,
        ccp_alpha: float = 0.0,
        monotonic_cst: Any = None,
        missing: str = "learn",
        categorical_features: Any = None,
        max_bins: int = 255,
        keep_rows: bool | str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        warm_start: bool = False,
    ):
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.class_weight = class_weight
        self.voting = voting
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.ccp_alpha = ccp_alpha
        self.monotonic_cst = monotonic_cst
        self.missing = missing
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.keep_rows = keep_rows
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start

    def _check_parameters(self) -> CARTModel:
        check_option("voting", self.voting, _VOTING)
        tree = super()._check_parameters()
        if isinstance(self.class_weight, str) and self.class_weight not in _CLASS_WEIGHTS:
            raise ValueError(
                "class_weight must be None, 'balanced', 'balanced_subsample' or a dict, got "
                f"{self.class_weight!r}"
            )
        if not self._balances_samples():
            assert isinstance(tree, CARTClassifier)
            tree.class_weight = self.class_weight
            tree._check_parameters()
        return tree

    def _more_growth(self) -> dict[str, Any]:
        factors = self._class_factors
        kept = factors.tolist() if isinstance(factors, np.ndarray) else factors
        return {"class_weight": kept, "voting": self.voting}

    def _balances_samples(self) -> bool:
        return isinstance(self.class_weight, str) and self.class_weight == "balanced_subsample"

    def _votes(self) -> bool:
        return self.voting == "hard"

    def _n_classes(self) -> int:
        return self.n_classes_

    def _class_factor(
        self, tree: CARTModel, target: np.ndarray
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        if self.class_weight is None:
            self._class_factors = None
            return None
        if self._balances_samples():
            self._class_factors = "balanced_subsample"
        else:
            rows = tree._row_weight(target, None)
            assert rows is not None
            factors = np.ones(self.n_classes_)
            factors[target] = rows
            self._class_factors = factors
        return self._factor_of(target)

    def _factor_of(self, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        n_classes, fixed = self.n_classes_, self._class_factors

        def factor(counts: np.ndarray) -> np.ndarray:
            if not isinstance(fixed, str):
                return fixed[target]
            sums = np.bincount(target, weights=counts, minlength=n_classes)
            # Classes that a sample has none of have no rows in it either.
            return (sums.sum() / (n_classes * np.where(sums > 0, sums, 1.0)))[target]

        return factor

    def _kept_factor(self) -> Callable[[np.ndarray], np.ndarray] | None:
        if self._class_factors is None:
            return None
        assert self._train_target is not None
        return self._factor_of(self._train_target)

    def _default_score(self, oob: OutOfBag) -> float:
        target, mean, weight = oob.score_input()
        if not len(target):
            return float("nan")
        return accuracy_score(target, most_probable(mean), sample_weight=weight)

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_decision_function_ = oob.prediction()

    def _known_target(self, y: Any, n_rows: int) -> np.ndarray:
        return check_target_classification(
            y, n_rows, classes=self.classes_, estimator_name=type(self).__name__
        )[0]

    def _tree_error(self, target: np.ndarray, said: np.ndarray, weight: np.ndarray | None) -> float:
        found = (said[:, 0] > 0.5) if said.shape[1] == 1 < self.n_classes_ else said.argmax(axis=1)
        return float(np.average(found != target, weights=weight))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of every class: the mean of the trees, or their votes.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        mean = self._mean(X)
        return two_columns(mean) if self.n_classes_ == 2 else mean

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict the logarithm of the probability of every class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_rows, n_classes)
            -inf where no tree knows of a class.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            Of equally probable classes the first.
        """
        return self._labels(self._mean(X))

    def _labels(self, mean: np.ndarray) -> np.ndarray:
        if self.n_classes_ == 2:
            return self.classes_[(mean[:, 0] > 0.5).astype(np.intp)]
        return self.classes_[mean.argmax(axis=1)]

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the classes by the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        labels : ndarray of shape (n_rows,)
        """
        for mean in self._staged_means(X):
            yield self._labels(mean)

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
            yield two_columns(mean) if self.n_classes_ == 2 else mean

    def _outputs(self) -> str:
        return f"classes {self.n_classes_}"
