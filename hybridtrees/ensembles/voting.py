"""Voting: members that are fitted side by side, and whose predictions are averaged or counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import check_boolean, check_option, check_real, clone
from hybridtrees.base import RegressorMixin, atomic_fit
from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.ensembles.conditional import OptionalProbabilities
from hybridtrees.ensembles.members import (
    USE_HARD,
    VOTING,
    Explained,
    Rows,
    check_probabilities,
    member_codes,
    member_numbers,
    member_probabilities,
)
from hybridtrees.ensembles.out_of_fold import joined_folds, shares_of, weighted_sum
from hybridtrees.ensembles.transforming import TransformingMembers

VALIDATION = "validation"


class _Voting(TransformingMembers):
    """What both kinds share.

    Parameters
    ----------
    weights : sequence of float, "validation" or None
        Weight of each member, dropped ones included; equal ones by default. "validation" takes
        them from the predictions of rows that members have not seen, by the folds of `cv`.
    cv : int, splitter or iterable of pairs (training rows, test rows)
        Folds for ``weights="validation"``, not used otherwise: a number of them, dealt out at
        random with equal shares of each class; an object of scikit-learn with a method `split`;
        or row numbers.

    Attributes
    ----------
    weights_ : ndarray of shape (n_members,)
        The weights that are used; they sum to 1.
    """

    weights: Sequence[float] | str | None = None

    @atomic_fit
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, time: Any = None
    ) -> Self:
        """Fit the members.

        Parameters
        ----------
        X : array-like, data frame, dict of columns or sparse matrix of shape (n_rows, n_features)
            The table, as the members take it.
        y : array-like of shape (n_rows,)
            Numbers, or class labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights, for members that all take them.
        groups : array-like of shape (n_rows,), optional
            With ``weights="validation"``: rows of one group are never divided by the folds.
        time : array-like of shape (n_rows,), optional
            With ``weights="validation"``: numbers or dates; each fold trains on the rows before
            those that it predicts.

        Returns
        -------
        self : estimator
        """
        members = self._check_members()
        self._check_common()
        self._check_options(members)
        validates = isinstance(self.weights, str)
        given = None if validates else self._given_weights()
        cv = self._checked_cv() if validates else None
        rows = self._learn_rows(X, y, sample_weight)
        self._check_weights(members, rows.weight)
        if given is not None:
            self._fit_members(members, rows)
            self.weights_ = given
            return self
        folds = self._make_folds(cv, rows, groups, time)
        answers = self._fit_members(members, rows, folds, self._answer)
        found, seen = joined_folds(len(rows), folds, answers)
        weight = None if rows.weight is None else rows.weight[seen]
        values = [self._value(one[seen], rows, seen, weight) for one in found]
        self.weights_ = shares_of(self._shares(values), len(members))
        return self

    def _check_options(self, members: list[tuple[str, Any]]) -> None:
        """Check the parameters of one kind."""
        if isinstance(self.weights, str) and self.weights != VALIDATION:
            raise ValueError(
                f"weights must be {VALIDATION!r}, a number for each estimator or None, got "
                f"{self.weights!r}"
            )

    def _answer(self, k: int, member: Any, table: Any) -> np.ndarray:
        """Return what a member says of rows that it has not seen."""
        raise NotImplementedError

    def _value(self, answers: np.ndarray, rows: Rows, seen: np.ndarray, weight: Any) -> float:
        """Return the error of these answers."""
        raise NotImplementedError

    def _shares(self, errors: list[float]) -> np.ndarray:
        """Return weights by errors, up to a common factor."""
        raise NotImplementedError

    def _given_weights(self) -> np.ndarray:
        """Check `weights`, and return those of the members that are not dropped."""
        pairs = self._pairs()
        kept = [name in self._names for name, _ in pairs]
        if self.weights is None:
            return shares_of(np.ones(sum(kept)), sum(kept))
        weights = np.ravel(np.asarray(self.weights, dtype=object))
        if len(weights) != len(pairs):
            raise ValueError(
                f"weights must have one number for each of the {len(pairs)} estimators, got "
                f"{len(weights)}"
            )
        numbers = np.array([check_real("weights", value, 0) for value in weights])[kept]
        if not numbers.any():
            raise ValueError(f"weights must have a positive number, got {self.weights!r}")
        return shares_of(numbers, len(numbers))

    @classmethod
    def of_fitted(cls, members: Sequence[tuple[str, Any]], weights: Any, **params: Any) -> Self:
        """Join models that are fitted already to the same table."""
        weights = np.asarray(weights, dtype=np.float64)
        unfitted = [(name, clone(model)) for name, model in members]
        made = cls(estimators=unfitted, weights=weights.tolist(), **params)
        made._check_members()
        made.estimators_ = [model for _, model in members]
        made.weights_ = shares_of(weights, len(members))
        first = made.estimators_[0]
        for name in ("n_features_in_", "feature_names_in_", "classes_", "n_classes_"):
            if hasattr(first, name):
                setattr(made, name, getattr(first, name))
        return made

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._check_shares()


class VotingRegressor(RegressorMixin, _Voting):
    """Average of regressors: the mean or median of their predictions.

    With ``weights="validation"`` the weight of a member is proportional to 1 / MSE, the mean
    squared error of its predictions of rows that it has not seen. These are the best weights for
    members without bias whose errors do not depend on each other.

    Parameters
    ----------
    average : {"mean", "median"}
        Whether to predict the weighted mean or the weighted median, which a single member that is
        far off does not move.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTRegressor, LinearRegressor, VotingRegressor
    >>> X = np.arange(8.0)[:, None]
    >>> members = [("line", LinearRegressor()), ("tree", CARTRegressor(max_depth=1))]
    >>> model = VotingRegressor(members).fit(X, X[:, 0])
    >>> model.transform([[1.0]])
    array([[1. , 1.5]])
    >>> model.predict([[1.0]])
    array([1.25])
    """

    average: Literal["mean", "median"] = "mean"

    def _check_options(self, members: list[tuple[str, Any]]) -> None:
        super()._check_options(members)
        check_option("average", self.average, ("mean", "median"))

    def _answer(self, k: int, member: Any, table: Any) -> np.ndarray:
        return member_numbers(member, table)

    def _value(self, answers: np.ndarray, rows: Rows, seen: np.ndarray, weight: Any) -> float:
        return float(exact_mean(np.square(rows.target[seen] - answers), weight))

    def _shares(self, errors: list[float]) -> np.ndarray:
        values = np.array(errors)
        if (values == 0).any():
            return np.asarray(values == 0, dtype=np.float64)
        return np.asarray(values.min() / values)

    def transform(self, X: Any) -> Any:
        """Return the predictions of the members.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_rows, n_members)
            Or a data frame, if `set_output` asks for one.
        """
        numbers = np.column_stack(self._ask_members(member_numbers, X))
        return self._wrap(numbers, self.get_feature_names_out(), X)

    def _explained_members(self) -> Explained:
        if self.average == "median":
            raise TypeError("average='median': a median of members has no exact Shapley values")
        return super()._explained_members()

    def _predictions(self, X: Any) -> np.ndarray:
        numbers = self._ask_members(member_numbers, X)
        if self.average == "median":
            return weighted_median(np.column_stack(numbers), self.weights_)
        return weighted_sum(numbers, self.weights_)


class VotingClassifier(ClassWeightMixin, OptionalProbabilities, _Voting):
    """Committee of classifiers: votes are counted, or probabilities are averaged.

    With ``weights="validation"`` the weight of a member is ``log((1 - e) / e) + log(K - 1)``, where
    e is the share of wrong predictions of rows that it has not seen, and K the number of classes.
    These are the best weights of independent voters. A member that is no better than a guess gets
    0. The share e is taken to be at least half a row and at most all rows but that half.

    Parameters
    ----------
    voting : {"hard", "soft"}
        Whether members vote for classes, or their probabilities are averaged.
    flatten_transform : bool
        With ``voting="soft"``: whether `transform` puts the probabilities of all members side by
        side, in shape (n_rows, n_members * n_classes), or returns one matrix for each member.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.

    Examples
    --------
    >>> from hybridtrees import CARTClassifier, LogisticClassifier, VotingClassifier
    >>> from hybridtrees.datasets import load_breast_cancer
    >>> data = load_breast_cancer()
    >>> members = [("line", LogisticClassifier()), ("tree", CARTClassifier(max_depth=4))]
    >>> model = VotingClassifier(members, voting="soft").fit(data.data, data.target)
    >>> model.predict_proba(data.data[:1]).shape
    (1, 2)
    """

    voting: Literal["hard", "soft"] = "hard"
    flatten_transform: bool = True

    def _check_options(self, members: list[tuple[str, Any]]) -> None:
        super()._check_options(members)
        check_option("voting", self.voting, VOTING)
        check_boolean("flatten_transform", self.flatten_transform)
        for name, member in members if self.voting == "soft" else ():
            check_probabilities(member, f"the member {name!r}", USE_HARD)

    def _answer(self, k: int, member: Any, table: Any) -> np.ndarray:
        return member_codes(member, table, self.classes_).astype(np.float64)

    def _value(self, answers: np.ndarray, rows: Rows, seen: np.ndarray, weight: Any) -> float:
        assert rows.codes is not None
        n_rows = float(np.count_nonzero(seen))
        if weight is not None:  # the sum of small weights, such as shares, counts no rows
            n_rows = max(float(np.count_nonzero(weight)), float(weight.sum()))
        half = 0.5 / n_rows
        share = float(exact_mean(answers != rows.codes[seen], weight))
        return min(max(share, half), 1.0 - half)

    def _shares(self, errors: list[float]) -> np.ndarray:
        wrong = np.clip(errors, 1e-15, 1.0 - 1e-15)
        guess = np.log(max(self.n_classes_ - 1, 1))
        return np.asarray(np.maximum(np.log1p(-wrong) - np.log(wrong) + guess, 0.0))

    def _class_codes(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        if self.voting == "soft":
            return super()._class_codes(X)
        codes = self._all_codes(X)
        votes = np.zeros((len(codes[0]), len(self.classes_)))
        at = np.arange(len(votes))
        for code, weight in zip(codes, self.weights_, strict=True):
            votes[at, code] += weight
        # Sums of the same weights in another order must be ties.
        return np.asarray(votes.round(12).argmax(axis=1))

    def _all_codes(self, X: Any) -> list[np.ndarray]:
        return self._ask_members(lambda m, table: member_codes(m, table, self.classes_), X)

    def _all_probabilities(self, X: Any) -> list[np.ndarray]:
        return self._ask_members(lambda m, table: member_probabilities(m, table, self.classes_), X)

    def _explained_members(self) -> Explained:
        if self.voting == "hard":
            raise TypeError("voting='hard': counted votes have no exact Shapley values")
        return super()._explained_members()

    def _probabilities(self, X: Any) -> np.ndarray:
        return weighted_sum(self._all_probabilities(X), self.weights_)

    def _has_probabilities(self) -> bool:
        return self.voting == "soft"

    def transform(self, X: Any) -> Any:
        """Return the votes or probabilities of the members.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        votes : ndarray
            ``voting="hard"``: positions of the labels in `classes_`, (n_rows, n_members).
            ``voting="soft"``: probabilities, (n_rows, n_members * n_classes), or
            (n_members, n_rows, n_classes) with ``flatten_transform=False``.
        """
        self._check_is_fitted()
        if self.voting == "hard":
            codes = np.column_stack(self._all_codes(X))
            return self._wrap(codes, self.get_feature_names_out(), X)
        parts = self._all_probabilities(X)
        if not self.flatten_transform:
            return np.stack(parts)
        return self._wrap(np.hstack(parts), self.get_feature_names_out(), X)

    def _column_names(self) -> list[str]:
        if self.voting == "hard":
            return list(self._names)
        return [f"{name}{k}" for name in self._names for k in range(len(self.classes_))]

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if len(self.classes_) == 0:
            raise ValueError("a VotingClassifier needs classes")


def weighted_median(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted median of each row: half the weight lies on either side.

    Where a value divides the weights exactly, it is the mean of that value and the next.
    """
    used = weights > 0
    values, weights = values[:, used], weights[used]
    order = np.argsort(values, axis=1, kind="stable")
    sums = np.cumsum(weights[order], axis=1)
    sums /= sums[:, -1:]
    values = np.take_along_axis(values, order, axis=1)
    at = np.arange(len(values))
    # Sums of equal weights may miss a half by rounding.
    low = (sums < 0.5 - 1e-9).sum(axis=1)
    high = np.minimum((sums < 0.5 + 1e-9).sum(axis=1), values.shape[1] - 1)
    return np.asarray(0.5 * (values[at, low] + values[at, high]))
