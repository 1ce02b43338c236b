"""What a fitted gradient boosting model predicts and reports: scores, leaves, importances."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.core.base.checks import check_arrays
from hybridtrees.models.gradient_boosting.start import init_scores
from hybridtrees.models.shared.boosted_trees import BoostedTrees
from hybridtrees.models.shared.fitted_checks import check_boosting, check_round
from hybridtrees.models.shared.importance import shares


class FittedGB(BoostedTrees):
    """Predictions and reports of the regressor and the classifier."""

    _is_classifier = False

    loss: str
    init_: Any
    splitter_: str
    train_score_: np.ndarray
    best_iteration_: int
    best_score_: float

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are trees: a monitor sees the estimator before."""
        return "trees_" in vars(self)

    def _check_fitted(self) -> None:
        if "trees_" in vars(self):
            start = self.init_ if isinstance(self.init_, np.ndarray) else None
            check_boosting(self, start)
            check_round(self, "best_iteration_")
            check_arrays(self, {"train_score_": ("f8", self.n_iter_)})

    def _read_features(self, X: Any) -> Any:
        """Return the values of `X` in the form learned in fit, once there are trees."""
        self._check_is_fitted()
        return super()._read_features(X)

    def _start_raw(self, X: Any, n_rows: int) -> np.ndarray:  # type: ignore[override]
        return init_scores(self.init_, X, self._loss, n_rows)

    def _best_round(self) -> int | None:
        return vars(self).get("best_iteration_")

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree; after early stopping of the rounds up to the best.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            A table with the features of fit.

        Returns
        -------
        leaves : ndarray of int32
            Node numbers within the trees, of shape (n_rows, n_rounds) for a regressor of one
            output, else (n_rows, n_rounds, n_trees_per_iteration).
        """
        leaves = self._leaves(X)
        if self._loss.n_outputs == 1 and not self._is_classifier:
            return leaves
        return leaves.reshape(len(leaves), -1, self._loss.n_outputs)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Squared error that the splits of each feature take off, summing to 1 (or all 0)."""
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
