"""Predictions and reports of gradient boosting: scores, leaves, importances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees._parameters import attribute
from hybridtrees.core.base.checks import check_arrays
from hybridtrees.models.gradient_boosting.start import init_scores
from hybridtrees.models.shared.boosted_trees import BoostedTrees
from hybridtrees.models.shared.fitted_checks import check_boosting, check_round
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.tree_views import SequenceOfTrees, TreeView


class FittedGB(SequenceOfTrees, BoostedTrees):
    """Methods of a fitted gradient boosting model.

    `len`, indices and iteration are those of `estimators_`.

    Attributes
    ----------
    estimators_ : ndarray of shape (n_rounds, n_trees_per_iteration)
        Views of the trees, with the methods of scikit-learn's trees; a tree is made when its view
        is asked for it. Their values include the learning rate.
    n_estimators_ : int
        Number of rounds that were run.
    n_trees_per_iteration_ : int
        Number of trees of a round.
    init_ : ndarray or estimator
        Initial raw scores, one per output, or the fitted copy of `init`.
    train_score_ : ndarray of shape (n_trees,)
        Loss after each round, on the rows of the round.
    oob_improvement_, oob_scores_, oob_score_ : ndarray, ndarray, float
        With ``subsample < 1``: improvement of the out-of-bag loss over the previous round, this
        loss, and the last of its values. After a warm start that changed `subsample`, rounds grown
        on all rows have NaN.
    evals_result_ : dict
        With validation tables: their scores after each round,
        ``{"validation_0": {"loss": [...]}, ...}``.
    validation_scores_ : ndarray of shape (n_trees,)
        The last metric on the last validation table.
    best_iteration_, best_score_ : int, float
        With `n_iter_no_change`: the round with the best of these scores, and the score.
    max_features_ : int
        Number of features drawn for each split.
    splitter_ : str
        The splitter that was used.
    """

    _is_classifier = False

    loss: str = attribute()
    init_: Any = attribute()
    splitter_: str = attribute()
    train_score_: np.ndarray = attribute()
    best_iteration_: int = attribute()
    best_score_: float = attribute()

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are trees; a monitor gets the estimator before that."""
        return "trees_" in vars(self)

    def _check_fitted(self) -> None:
        if "trees_" in vars(self):
            start = self.init_ if isinstance(self.init_, np.ndarray) else None
            check_boosting(self, start)
            check_round(self, "best_iteration_")
            check_arrays(self, {"train_score_": ("f8", self.n_iter_)})

    def _read_features(self, X: Any) -> Any:
        """Read `X` as in fit, once there are trees."""
        self._check_is_fitted()
        return super()._read_features(X)

    def _constant_start(self) -> np.ndarray:
        if not isinstance(self.init_, np.ndarray):
            raise TypeError(
                f"this {type(self).__name__} starts from another estimator, "
                f"init={type(self.init_).__name__}: it is not a sum of trees"
            )
        return self.init_

    def _start_raw(self, X: Any, n_rows: int, *, base_margin: Any = None) -> np.ndarray:
        return init_scores(self.init_, X, self._loss, n_rows)

    def _best_round(self) -> int | None:
        return vars(self).get("best_iteration_")

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row in each tree; with early stopping, up to the best round.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32
            Indices of nodes, of shape (n_rows, n_rounds) for a regressor of one output, else
            (n_rows, n_rounds, n_trees_per_iteration).
        """
        leaves = self._leaves(X)
        if self._loss.n_outputs == 1 and not self._is_classifier:
            return leaves
        return leaves.reshape(len(leaves), -1, self._loss.n_outputs)

    @property
    def estimators_(self) -> NDArray[np.object_]:
        """The trees of each round, as models of one tree."""
        self._check_is_fitted()
        views = np.array([TreeView(self, k) for k in range(len(self.trees_))], dtype=object)
        return views.reshape(-1, self._loss.n_outputs)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Decrease in squared error by the splits on each feature, normalised to a sum of 1."""
        self._check_is_fitted()
        trees = self.trees_
        sizes = np.diff(trees.tree_start)
        root = np.repeat(trees.nodes["weight"][trees.tree_start[:-1]], sizes)
        inner = trees.nodes["left"] >= 0
        importance = np.bincount(
            trees.nodes["feature"][inner],
            weights=np.maximum(trees.nodes["gain"][inner], 0.0) / root[inner],
            minlength=self.n_features_in_,
        )
        return shares(importance)

    def _training_text(self) -> str:
        text = f"{self.loss}, {self.splitter_} splits\n"
        text += f"training loss {self.train_score_[-1]:.6g} after the last round"
        if "best_iteration_" not in vars(self):
            return text
        best = f"best round {self.best_iteration_} with a score of {self.best_score_:.6g}"
        return f"{text}\n{best}"
