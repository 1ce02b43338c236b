"""Friedman's gradient boosting, with scikit-learn's parameter names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_real
from hybridtrees.base import RegressorMixin
from hybridtrees.input.validation import check_target_classification, check_target_regression
from hybridtrees.losses import Loss, check_levels, friedman_loss, lists_losses
from hybridtrees.models.gradient_boosting.base import GradientBoostingModel, Part
from hybridtrees.models.shared.boosted_trees import StagedClassifierMixin
from hybridtrees.models.shared.targets import LARGEST_TARGET

_LARGEST_SINGLE = float(np.finfo(np.float32).max)


@lists_losses
class GradientBoostingRegressor(RegressorMixin, GradientBoostingModel):
    """Gradient boosting (Friedman 2001, 2002), for a number.

    Every round grows a regression tree on the negative gradients of the loss and gives its
    leaves the values that minimise the loss of their rows. Takes the parameters of
    scikit-learn's ``GradientBoostingRegressor``, with the same defaults; with exact splits it
    makes the same model where no two splits are equally good.

    Parameters
    ----------
    loss : str, default="squared_error"
        What is minimised:
        {friedman: regression}.
        "poisson", "gamma" and "tweedie" predict a positive mean by its logarithm.
    learning_rate : float, default=0.1
        Factor on every tree.
    n_estimators : int, default=100
        Boosting rounds.
    subsample : float, default=1
        Share of the rows drawn for each round, without replacement.
    criterion : {"friedman_mse", "squared_error"}, default="friedman_mse"
        Both mean the squared error of the residuals, whose splits they share.
    max_depth : int or None, default=3
        Largest depth of a tree; None for no limit.
    init : None, "zero" or estimator, default=None
        Where to start: at the constant that minimises the loss, at a raw score of zero, or at
        the predictions of an estimator, of which a copy is fitted.
    random_state : int, Generator, RandomState or None
        Seed of the draws of rows and features. The same seed gives the same model for any
        `n_jobs`.
    alpha : float or list of floats, default=0.9
        Level of the quantile, or of the absolute residuals at which "huber" goes over from
        squares to absolute values. With several levels of "quantile" a tree is grown for each
        in every round, and the predictions of a row are sorted, so that quantiles never cross
        (rearrangement, Chernozhukov, Fernandez-Val and Galichon 2010).
    verbose : int, default=0
        Print a line every so many rounds, with elapsed and remaining time.
    warm_start : bool, default=False
        Whether `fit` adds rounds to the model it has, up to `n_estimators`.
    validation_fraction : float, default=0.1
        Share of the rows held out with `n_iter_no_change`, if `fit` is given no validation table.
    n_iter_no_change : int, optional
        Stop when the last metric on the last validation table is not better than in one of so
        many rounds before. The rounds up to the best one then make the predictions, where
        scikit-learn takes all of them.
    tol : float, default=1e-4
        By how much it has to be better.
    ccp_alpha : float, default=0
        Price of a leaf in minimal cost-complexity pruning of every tree, per row: what the mean
        squared error of the tree on its target must fall by, as in `CARTRegressor`.
    power : float, default=1.5
        Variance power of "tweedie", from 1 to 2.
    splitter : {"auto", "exact", "hist"}, default="auto"
        Search every threshold, or those between at most `max_bins` bins of each feature, which
        is faster; "auto" takes bins above 10,000 rows. Under "exact" a feature whose values
        range over no more than 1e-7 counts as constant, as in scikit-learn.
    monotonic_cst : array-like or dict, optional
        1 where the prediction may only rise with a feature, -1 where it may only fall, else 0:
        one entry per feature, or a dict by name or number. Of an estimator to start from it asks
        nothing.
    interaction_cst : {"pairwise", "no_interactions"} or sequence of sequences, optional
        Groups of features, by name or number, that may be split on along one path; the features
        in no group make one more. "pairwise" allows any two. At most 63 groups.
    eval_metric : str, callable or list of these, optional
        What the validation tables are scored by: "loss" (the default), names of metrics that suit
        the loss ("rmse", "mae", "mse", "r2", "mape", "rmsle", ...), or functions
        ``metric(y_true, y_pred[, sample_weight])``, of which smaller values are better.
    min_samples_split, min_samples_leaf, min_weight_fraction_leaf, min_impurity_decrease, \
max_features, max_leaf_nodes, max_bins, categorical_features, n_jobs
        As in `CARTRegressor`.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The fitted trees, the learning rate in their values.
    n_estimators_, n_iter_ : int
        Rounds that were run.
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    n_trees_per_iteration_ : int
    init_ : ndarray or estimator
        Raw scores to start from, one per output, or the fitted copy of `init`.
    train_score_ : ndarray of shape (n_estimators,)
        Loss after each round, of the rows that it was grown on.
    oob_improvement_, oob_scores_, oob_score_ : ndarray, ndarray, float
        With ``subsample < 1``: how much the loss of the rows left out of a round fell against
        the round before, this loss, and the last of them. After a warm start that changed
        `subsample`, rounds grown on all rows have NaN.
    evals_result_ : dict
        Scores of every validation table after each round, where there are some:
        ``{"validation_0": {"loss": [...]}, ...}``.
    validation_scores_ : ndarray of shape (n_estimators,)
        Of these the last metric on the last table.
    best_iteration_, best_score_ : int, float
        With `n_iter_no_change`: the round with the best of these scores, and the score.
    max_features_ : int
    splitter_ : str
        What "auto" came to.
    feature_importances_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import GradientBoostingRegressor
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = GradientBoostingRegressor().fit(X, X[:, 0] > 100)
    >>> model.predict(X[:1]).round(2)
    array([0.])
    """

    loss: str = "squared_error"
    alpha: float | Sequence[float] = 0.9
    power: float = 1.5

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_levels("alpha", self.alpha)
        check_real("power", self.power, 1, 2)
        self._make_loss()

    def _make_loss(self) -> Loss:
        return friedman_loss(self.loss, alpha=self.alpha, power=self.power)

    def _encode_target(self, y: Any, n_rows: int, again: bool) -> np.ndarray:
        target = check_target_regression(y, n_rows, estimator_name=type(self).__name__)
        largest = np.abs(target).max()
        # Gradients of the histograms are float32.
        limit = _LARGEST_SINGLE if self._uses_bins(n_rows) else LARGEST_TARGET
        if largest > limit:
            raise ValueError(f"y must not exceed {limit:.3g} in magnitude, got {largest:.3g}")
        return target

    def _encode_validation(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        return check_target_regression(y, n_rows, name=name, estimator_name=type(self).__name__)

    def _predictions(self, X: Any) -> np.ndarray:
        return self._from_raw(self._raw_scores(X))


@lists_losses
class GradientBoostingClassifier(StagedClassifierMixin, GradientBoostingModel):
    """Gradient boosting (Friedman 2001, 2002), for classes.

    One tree per round for two classes, one per class and round for more, with leaf values of one
    Newton step. Takes the parameters of scikit-learn's ``GradientBoostingClassifier``, with the
    same defaults; with exact splits it makes the same model where no two splits are equally
    good.

    Parameters
    ----------
    loss : str, default="log_loss"
        What is minimised:
        {friedman: classification}.
        The first is the binomial or multinomial deviance, "exponential" AdaBoost's loss of two
        classes.
    learning_rate, n_estimators, subsample, criterion, min_samples_split, min_samples_leaf, \
min_weight_fraction_leaf, max_depth, min_impurity_decrease, random_state, max_features, \
verbose, max_leaf_nodes, warm_start, validation_fraction, n_iter_no_change, tol, ccp_alpha, \
splitter, max_bins, categorical_features, interaction_cst, n_jobs
        As in `GradientBoostingRegressor`; the rows held out have equal shares of each class.
    monotonic_cst : array-like or dict, optional
        As in `GradientBoostingRegressor`, for the probability of the second of two classes.
    eval_metric : str, callable or list of these, optional
        "loss" (the default), "logloss", "error", "auc", "aucpr", "brier", "rmse", "mae" for two
        classes, "loss", "mlogloss", "merror", "auc", "aucpr" for more, or functions, which get
        class numbers, and probabilities of the second class or of each.
    init : None, "zero" or estimator, default=None
        Where to start: at the shares of the classes, at a raw score of zero, or at the
        probabilities of an estimator, of which a copy is fitted to class numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    trees_, n_estimators_, n_iter_, n_trees_per_iteration_, init_, train_score_, \
oob_improvement_, oob_scores_, oob_score_, evals_result_, validation_scores_, best_iteration_, \
best_score_, max_features_, splitter_, feature_importances_, n_features_in_, feature_names_in_
        As in `GradientBoostingRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import GradientBoostingClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> labels = np.where(X[:, 0] > 100, "high", "low")
    >>> GradientBoostingClassifier(n_estimators=20).fit(X, labels).predict(X[-1:])
    array(['high'], dtype='<U4')
    """

    _is_classifier = True

    loss: str = "log_loss"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        friedman_loss(self.loss, n_classes=2)

    def _make_loss(self) -> Loss:
        return friedman_loss(self.loss, n_classes=self.n_classes_)

    def _encode_target(self, y: Any, n_rows: int, again: bool) -> np.ndarray:
        known = self.classes_ if again else None
        codes, classes = check_target_classification(
            y, n_rows, classes=known, estimator_name=type(self).__name__
        )
        self.classes_ = classes
        self.n_classes_ = len(classes)
        return codes.astype(np.float64)

    def _weighted_part(self, X: Any, values: Any, y: Any, sample_weight: Any, again: bool) -> Part:
        """Rows with a weight, which must be of two classes or more."""
        part = super()._weighted_part(X, values, y, sample_weight, again)
        if part.y.min() == part.y.max():
            where = "" if len(part.y) == values.shape[0] else " where sample_weight is positive"
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but y holds the one class "
                f"{self.classes_.tolist()[int(part.y[0])]!r}{where}"
            )
        return part

    def _encode_validation(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        codes, _ = check_target_classification(
            y, n_rows, classes=self.classes_, name=name, estimator_name=type(self).__name__
        )
        return codes.astype(np.float64)

    def _draw_validation(self, rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
        """Rows to hold out, as many of each class as its share; one row of each stays."""
        counts = np.bincount(y.astype(np.intp), minlength=self.n_classes_)
        wanted = self.validation_fraction * counts
        held = np.minimum(np.floor(wanted).astype(np.intp), np.maximum(counts - 1, 0))
        missing = max(1, round(self.validation_fraction * len(y))) - held.sum()
        # The rest of the rows come from the classes whose shares were cut the most.
        for code in np.argsort(held - wanted, kind="stable"):
            if missing > 0 and held[code] < counts[code] - 1:
                held[code] += 1
                missing -= 1
        if held.sum() == 0:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} holds out none of the {len(y)} "
                "rows, for every class needs one to train on; give X_val"
            )
        drawn = [
            rng.choice(np.flatnonzero(y == code), count, replace=False)
            for code, count in enumerate(held)
        ]
        return np.sort(np.concatenate(drawn))

    def _raw_codes(self, raw: np.ndarray) -> np.ndarray:
        # Even odds go to the second class, as in scikit-learn.
        return (raw[:, 0] >= 0).astype(np.intp) if raw.shape[1] == 1 else raw.argmax(axis=1)

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Raw scores after every round, up to the best after early stopping.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        scores : ndarray
            As from `decision_function`, of a model with the rounds so far.
        """
        for raw in self._staged_raw(X):
            yield (raw[:, 0] if raw.shape[1] == 1 else raw).copy()
