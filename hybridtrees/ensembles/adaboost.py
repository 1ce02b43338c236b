"""AdaBoost: AdaBoost.M1 and SAMME for classes, AdaBoost.R2 for numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import check_option
from hybridtrees._persistence import register
from hybridtrees.base import ScoreClassifierMixin
from hybridtrees.core.base.checks import check_type
from hybridtrees.core.base.criteria import CLASSIFICATION_CRITERIA, REGRESSION_CRITERIA
from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.tree._walk import row_medians
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.packing import pack_tree
from hybridtrees.core.tree.tree import TreeEnsemble, dense_blocks
from hybridtrees.ensembles.adaboost_base import AdaBoostModel, Boosting, Verdict
from hybridtrees.ensembles.adaboost_members import member_predictions
from hybridtrees.losses import ExponentialLoss, Loss, Softmax
from hybridtrees.metrics import accuracy_score, r2_score
from hybridtrees.models.shared.fitted_checks import check_categories, check_ensemble
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget
from hybridtrees.models.shared.tree_parameters import ClassificationCriterion, RegressionCriterion

register(PackedTrees)

R2_LOSSES = ("linear", "square", "exponential")

# A member that is better than guessing by no more than this is useless: rounding alone may give it
# such an error.
_EDGE = 1e-12

# Rows whose members' predictions are in memory at a time.
_BLOCK = 4096


class AdaBoostClassifier(ClassWeightMixin, ClassTarget, ScoreClassifierMixin, AdaBoostModel):
    """AdaBoost for classes: AdaBoost.M1 for two (Freund and Schapire 1997), SAMME for more.

    Each member votes for a class with the weight ``alpha = learning_rate * (log((1 - error) /
    error) + log(n_classes - 1))`` (Zhu, Zou, Rosset and Hastie 2009). Rows that it misses are
    multiplied by ``exp(alpha)`` for the next one. Takes the parameters of scikit-learn's
    ``AdaBoostClassifier`` and gives the same classes with ``splitter="exact"`` unless splits tie.

    Parameters
    ----------
    resample : bool
        Whether a member is fitted to rows drawn with replacement by their weights, as many as there
        are, instead of to all rows with these weights. Errors are those of all rows in both cases.
        A member that is useless by bad luck is replaced by that of another draw, at most ten.
    max_depth : int or None
        Maximum depth of a tree: 1 for stumps, None for 32,767, the limit of the engine.
    criterion : {"gini", "entropy", "log_loss", "misclassification"}
        Impurity that splits reduce; "log_loss" is the same as "entropy", in bits.
    class_weight : dict, "balanced" or None
        Factors on the first weights of the rows of each class, 1 for those that a dict does not
        name; "balanced" gives every class the same total weight.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import AdaBoostClassifier
    >>> X = np.arange(20.0)[:, None]
    >>> y = np.where((X[:, 0] > 5) & (X[:, 0] < 13), "in", "out")
    >>> model = AdaBoostClassifier(n_estimators=3).fit(X, y)
    >>> model.predict([[2.0], [9.0], [18.0]])
    array(['out', 'in', 'out'], dtype='<U3')
    >>> model.estimator_errors_.round(3)
    array([0.3  , 0.25 , 0.167])
    """

    _criteria = CLASSIFICATION_CRITERIA

    resample: bool = False
    max_depth: int | None = 1
    criterion: ClassificationCriterion = "gini"

    # -- fit ------------------------------------------------------------------------------------

    def _assess(self, prediction: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Verdict:
        missed = prediction != target
        error = float(exact_sum(missed * weight) / exact_sum(weight))
        if error <= 0:
            return Verdict(0.0)
        if error >= 1 - 1 / self.n_classes_ - _EDGE:
            return Verdict(error, useless=True)
        odds = math.log((1 - error) / error) + math.log(self.n_classes_ - 1)
        alpha = float(self.learning_rate) * odds
        # The same as larger weights of the missed rows once the sum is 1, but never infinite.
        factor = np.array([math.exp(-alpha), 1.0])
        return Verdict(error, alpha, weight * factor.take(missed.view(np.uint8)))

    def _lone_useless(self, verdict: Verdict) -> Verdict:
        raise ValueError(
            f"the first member has a weighted error of {verdict.error:.3g}, no better than "
            "guessing: AdaBoost needs a better estimator or other features"
        )

    def _member_classes(self) -> np.ndarray | None:
        return self.classes_

    def _n_scores(self) -> int:
        """Return the number of scores: one of two classes, else one per class."""
        return self.n_classes_ if self.n_classes_ > 2 else 1

    def _kept_trees(self, made: Boosting) -> TreeEnsemble:
        """Return the trees with the weighted votes of their nodes as values."""
        trees = []
        for (tree, by_node), alpha in zip(made.members, made.alphas, strict=True):
            values = np.zeros((len(by_node), self._n_scores()))
            self._vote(values, by_node, alpha)
            trees.append(replace(tree, values=values, coef=np.zeros(0), impurity=None))
        return TreeEnsemble(trees, self.n_features_in_, self._n_scores())

    def _check_trees(self) -> None:
        trees = check_ensemble(self, "trees_", self._n_scores())
        if trees.values.shape[1] != self._n_scores() or len(trees.coef):
            raise ValueError("a tree of AdaBoost has constant leaves, with all scores in each")

    def _vote(self, scores: np.ndarray, codes: np.ndarray, alpha: float) -> None:
        """Add the votes of a member to the scores: of two classes half its weight, or minus it."""
        if self.n_classes_ == 2:
            scores[:, 0] += np.where(codes == 1, alpha / 2, -alpha / 2)
        elif self.n_classes_ > 2:
            scores[np.arange(len(codes)), codes] += alpha

    # -- predict --------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def _loss(self) -> Loss:
        """The loss whose link turns scores into probabilities."""
        return ExponentialLoss() if self.n_classes_ <= 2 else Softmax(self.n_classes_)

    def _raw_scores(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        if "trees_" in vars(self):
            values = self._read_features(X)
            raw = np.zeros((values.shape[0], self._n_scores()))
            self.trees_.add_raw(values, raw, self._predict_threads(len(raw)))
            return raw
        for stage in self._staged_raw(X):
            raw = stage
        return raw

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the scores after each round, all in the same array."""
        self._check_is_fitted()
        if "trees_" not in vars(self):
            columns = self._read_columns(X)
            raw = np.zeros((columns.shape[0], self._n_scores()))
            for member, alpha in zip(self.estimators_, self.estimator_weights_, strict=True):
                codes = member_predictions(member, columns.table, self.classes_)
                self._vote(raw, codes, float(alpha))
                yield raw
            return
        values = self._read_features(X)
        raw = np.zeros((values.shape[0], self._n_scores()))
        n_threads = self._predict_threads(len(raw))
        for tree in range(self.n_iter_):
            self.trees_.add_raw(values, raw, n_threads, tree, tree + 1)
            yield raw

    def predict_raw(self, X: Any) -> np.ndarray:
        """Return the sums of the votes, not divided by the sum of the weights.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, 1) for two classes, else (n_rows, n_classes)
            With two classes, half the weights of the members for the second minus half those for
            the first. This is the score f of the exponential loss ``exp(-y f)`` with y = 1 or -1,
            half the log-odds. With more classes, the weights of the members for each, which are log
            probabilities up to a constant.
        """
        return self._raw_scores(X)

    def _decisions(self, raw: np.ndarray, total: float) -> np.ndarray:
        """Divide scores by the sum of the weights, in scikit-learn's units."""
        if self.n_classes_ <= 2:
            return raw[:, 0] * (4 / total)
        share = raw / total
        return (self.n_classes_ * share - 1) / (self.n_classes_ - 1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the mean votes, weighted by the members' weights, in scikit-learn's units.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
            From -2 to 2 for two classes, positive if the second is predicted. For more classes from
            ``-1 / (n_classes - 1)`` if no member votes for a class to 1 if all do.
        """
        return self._decisions(self._raw_scores(X), float(self.estimator_weights_.sum()))

    def _from_raw(self, raw: np.ndarray) -> np.ndarray:
        if self.n_classes_ == 1:
            return np.ones((len(raw), 1))
        return np.asarray(self._loss.predict(raw))

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._from_raw(self._raw_scores(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict class probabilities by the link of the exponential loss.

        For two classes ``1 / (1 + exp(-2 f))`` with the score f of `predict_raw`, for more the
        softmax of the votes. scikit-learn divides the scores by the sum of the weights first, which
        keeps its probabilities near each other however many members agree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        return self._calibrated(self._probabilities(X))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the decision function after each round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        scores : ndarray of shape (n_rows,) for two classes, else (n_rows, n_classes)
        """
        for raw, total in zip(self._staged_raw(X), self._totals(), strict=True):
            yield self._decisions(raw, total)

    def _totals(self) -> list[float]:
        totals: list[float] = np.cumsum(self.estimator_weights_).tolist()
        return totals

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted classes after each round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        labels : ndarray of shape (n_rows,)
        """
        for raw in self._staged_raw(X):
            yield np.asarray(self.classes_[self._raw_codes(raw)])

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the probabilities after each round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        proba : ndarray of shape (n_rows, n_classes)
        """
        for raw in self._staged_raw(X):
            yield self._from_raw(raw)

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Yield the accuracy after each round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Yields
        ------
        score : float
        """
        for labels in self.staged_predict(X):
            yield accuracy_score(y, labels, sample_weight=sample_weight)


class AdaBoostRegressor(RegressionTarget, AdaBoostModel):
    """AdaBoost.R2 for numbers (Drucker 1997): the weighted median of its members.

    The loss L of a row is its absolute error as a share of the largest one, its square, or
    ``1 - exp(-share)``. With the mean loss ``error``, weighted as in the round, and
    ``beta = error / (1 - error)``, a member gets the weight ``learning_rate * log(1 / beta)``, and
    rows are multiplied by ``beta ** (learning_rate * (1 - L))``. A mean loss of at least 1/2 ends
    the training.

    Parameters
    ----------
    resample : bool
        Whether a member is fitted to rows drawn with replacement by their weights, as many as there
        are; so do Drucker's paper and scikit-learn. Otherwise it is fitted to all rows with these
        weights, and no row is drawn. A member that is useless by bad luck is replaced by that of
        another draw, at most ten.
    max_depth : int or None
        Maximum depth of a tree; None for 32,767, the limit of the engine.
    loss : {"linear", "square", "exponential"}
        Loss of a row, by which weights change.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import AdaBoostRegressor
    >>> X = np.arange(40.0)[:, None]
    >>> model = AdaBoostRegressor(n_estimators=10, resample=False).fit(X, X[:, 0] > 13)
    >>> model.predict([[2.0], [30.0]])
    array([0., 1.])
    """

    _criteria = REGRESSION_CRITERIA

    resample: bool = True
    max_depth: int | None = 3
    criterion: RegressionCriterion = "squared_error"
    loss: Literal["linear", "square", "exponential"] = "linear"

    def _takes_several(self) -> bool:
        return False

    # -- fit ------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("loss", self.loss, R2_LOSSES)

    def _assess(self, prediction: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Verdict:
        gap = np.abs(prediction - target.reshape(-1))
        if not np.all(weight > 0):
            gap[weight <= 0] = 0.0  # such rows say nothing about the largest error
        largest = float(gap.max())
        if largest > 0:
            gap /= largest
        if self.loss == "square":
            gap *= gap
        elif self.loss == "exponential":
            gap = -np.expm1(-gap)
        error = float(exact_sum(gap, weight) / exact_sum(weight))
        if error <= 0:
            return Verdict(0.0)
        if error >= 0.5:
            return Verdict(error, useless=True)
        rate = float(self.learning_rate) * math.log(error / (1 - error))
        # Relative to the row of the largest loss, so that not all weights can vanish.
        return Verdict(error, -rate, weight * np.exp(rate * (gap.max() - gap)))

    def _lone_useless(self, verdict: Verdict) -> Verdict:
        return Verdict(verdict.error)

    def _member_classes(self) -> np.ndarray | None:
        return None

    def _kept_trees(self, made: Boosting) -> PackedTrees:
        """Return the packed trees: their values cannot be added up, so that no scorer is needed."""
        # Values of inner nodes are stored only if they do not follow from those of the leaves.
        detailed = (
            self.criterion == "absolute_error"
            or self.missing == "stop"
            or self.monotonic_cst is not None
        )
        trees = [pack_tree(tree, tree.values, detailed) for tree, _ in made.members]
        return PackedTrees(trees, self.n_features_in_, str(self.criterion))

    def _check_trees(self) -> None:
        trees: PackedTrees = check_type(self, "trees_", PackedTrees)
        if (trees.n_features, trees.n_values, trees.n_classes) != (self.n_features_in_, 1, 0):
            raise ValueError("the trees of AdaBoost have other features or several values")
        check_categories(trees.category_sets(), self._reader.coded)

    # -- predict --------------------------------------------------------------------------------

    def _blocks(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions of all members for blocks of rows, (n_rows, n_members)."""
        self._check_is_fitted()
        if "trees_" not in vars(self):
            table = self._read_columns(X).table
            predictions = [member_predictions(member, table, None) for member in self.estimators_]
            yield np.column_stack(predictions)
            return
        values, trees = self._read_features(X), self.trees_
        n_threads = self._predict_threads(values.shape[0])
        by_node = np.concatenate([trees.node_values(index)[:, 0] for index in range(len(trees))])
        size = _BLOCK * max(1, n_threads)
        for dense, _ in dense_blocks(values):
            for first in range(0, dense.shape[0], size):
                leaves = trees.apply(dense[first : first + size], n_threads)
                yield by_node.take(leaves + trees.tree_start[:-1])

    def _medians(self, values: np.ndarray, n_members: int) -> np.ndarray:
        """Return the weighted medians over the first members."""
        weight = self.estimator_weights_[:n_members]
        # Integers, whose sums do not depend on the order of the members.
        bits = 61 - n_members.bit_length()
        steps = np.rint(np.ldexp(weight / (weight.max() or 1.0), bits)).astype(np.int64)
        out = np.empty(len(values))
        row_medians(values, steps, out, self._predict_threads(len(values)))
        return out

    def _predictions(self, X: Any) -> np.ndarray:
        return np.concatenate([self._medians(part, self.n_iter_) for part in self._blocks(X)])

    def predict_members(self, X: Any) -> np.ndarray:
        """Return the predictions of the members, of which `predict` is the weighted median.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_rows, n_members)
        """
        return np.concatenate(list(self._blocks(X)))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predictions after each round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        prediction : ndarray of shape (n_rows,)
        """
        values = self.predict_members(X)
        for n_members in range(1, self.n_iter_ + 1):
            yield self._medians(values, n_members)

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Yield R2 after each round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Yields
        ------
        score : float
        """
        for prediction in self.staged_predict(X):
            yield r2_score(y, prediction, sample_weight=sample_weight)
