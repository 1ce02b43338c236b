"""Bagging: any model on bootstrap samples of the rows and subsets of the features."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hybridtrees._class_weight import ClassWeightMixin
from hybridtrees._parameters import check_option
from hybridtrees.base import ClassifierMixin, RegressorMixin
from hybridtrees.ensembles.bagging_base import BaggingModel
from hybridtrees.ensembles.members import USE_HARD, VOTING, Rows, check_probabilities, member_votes
from hybridtrees.metrics import accuracy_score, r2_score
from hybridtrees.models.cart.estimators import CARTClassifier, CARTRegressor


class BaggingRegressor(RegressorMixin, BaggingModel):
    """Bagging for regression (Breiman 1996): the mean of models fitted to bootstrap samples.

    Takes the parameters of scikit-learn's ``BaggingRegressor``.

    Attributes
    ----------
    oob_prediction_ : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        With `oob_score`: mean prediction of the members that have not seen a row, NaN if there are
        none.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import BaggingRegressor, LinearTreeRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = BaggingRegressor(LinearTreeRegressor(max_depth=2), 20, random_state=0)
    >>> bool(model.fit(X, np.abs(X[:, 0])).score(X, np.abs(X[:, 0])) > 0.9)
    True
    """

    _has_oob = True
    _takes_several_targets = True

    def _default_member(self) -> Any:
        return CARTRegressor()

    def _member_values(self, member: Any, table: Any) -> np.ndarray:
        values = np.asarray(member.predict(table), dtype=np.float64)
        return values[:, None] if values.ndim == 1 else values

    def _keep_oob(self, mean: np.ndarray, counts: np.ndarray, rows: Rows) -> None:
        known = counts > 0
        weight = None if rows.weight is None else rows.weight[known]
        self.oob_prediction_ = mean[:, 0] if rows.target.ndim == 1 else mean
        self.oob_score_ = float("nan")
        if known.any():
            target, found = rows.target[known], self.oob_prediction_[known]
            self.oob_score_ = r2_score(target, found, sample_weight=weight)

    def _predictions(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        if self._forest is not None:
            return np.asarray(self._forest.predict(X))
        mean = self._mean_values(X)
        return mean[:, 0] if mean.shape[1] == 1 else mean

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a regressor; several outputs if members take them."""
        tags = super().__sklearn_tags__()
        member = CARTRegressor() if self.estimator is None else self.estimator
        if hasattr(member, "__sklearn_tags__"):
            tags.target_tags.multi_output = member.__sklearn_tags__().target_tags.multi_output
        return tags


class BaggingClassifier(ClassWeightMixin, ClassifierMixin, BaggingModel):
    """Bagging for classification (Breiman 1996): models fitted to bootstrap samples vote.

    Takes the parameters of scikit-learn's ``BaggingClassifier``.

    Parameters
    ----------
    voting : {"soft", "hard"}
        Average the probabilities of the members, or count their votes.
    class_weight : dict, "balanced" or None
        Factors on the weights of the rows of each class, 1 for those that a dict does not name;
        "balanced" gives every class the same total weight. The same as passing these factors as
        `sample_weight`: with `bootstrap` rows are drawn in proportion to them.

    Attributes
    ----------
    oob_decision_function_ : ndarray of shape (n_rows, n_classes)
        With `oob_score`: probabilities (or shares of votes) by the members that have not seen a
        row, NaN if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import BaggingClassifier
    >>> X = np.arange(20.0)[:, None]
    >>> model = BaggingClassifier(random_state=0).fit(X, np.where(X[:, 0] > 9, "b", "a"))
    >>> model.predict([[2.0], [17.0]])
    array(['a', 'b'], dtype='<U1')
    """

    _has_oob = True

    voting: Literal["soft", "hard"] = "soft"

    def _check_parameters(self) -> Any:
        check_option("voting", self.voting, VOTING)
        member = super()._check_parameters()
        if self.voting == "soft":
            check_probabilities(member, "estimator", USE_HARD)
        return member

    def _default_member(self) -> Any:
        return CARTClassifier()

    def _member_values(self, member: Any, table: Any) -> np.ndarray:
        return member_votes(member, table, self.classes_, self.voting)

    def _keep_oob(self, mean: np.ndarray, counts: np.ndarray, rows: Rows) -> None:
        known = counts > 0
        self.oob_decision_function_ = mean
        self.oob_score_ = float("nan")
        if known.any():
            assert rows.codes is not None
            weight = None if rows.weight is None else rows.weight[known]
            best = mean[known].argmax(axis=1)
            self.oob_score_ = accuracy_score(rows.codes[known], best, sample_weight=weight)

    def _probabilities(self, X: Any) -> np.ndarray:
        self._check_is_fitted()
        if self._forest is None:
            return self._mean_values(X)
        return np.asarray(self._forest.predict_proba(X))
