"""What a fitted gradient boosting model can be asked: scores, leaves, importances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.base import Estimator
from hybridtrees.core.base.checks import check_arrays
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.losses import Loss
from hybridtrees.models.gradient_boosting.start import init_scores
from hybridtrees.models.shared.boosting_summary import boosting_summary
from hybridtrees.models.shared.fitted_checks import check_boosting, check_round


class FittedGB(Estimator):
    """Predictions and readings of the regressor and the classifier."""

    _is_classifier = False

    loss: str
    n_jobs: int | None
    init_: Any
    splitter_: str
    train_score_: np.ndarray
    best_iteration_: int
    best_score_: float
    trees_: TreeEnsemble
    _loss: Loss

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are trees: a monitor sees the estimator before."""
        return "trees_" in vars(self)

    def _check_fitted(self) -> None:
        if "trees_" in vars(self):
            start = self.init_ if isinstance(self.init_, np.ndarray) else None
            check_boosting(self, start)
            check_round(self, "best_iteration_")
            check_arrays(self, {"train_score_": ("f8", self.n_iter_)})

    # -- predict --------------------------------------------------------------------------------

    def _read_features(self, X: Any) -> Any:
        """Return the values of `X` in the form learned in fit, once there are trees."""
        self._check_is_fitted()
        return super()._read_features(X)

    def _staged_raw(self, X: Any) -> Iterator[np.ndarray]:
        """Raw scores after every round, all in the same array."""
        values = self._read_features(X)
        n_threads = self._predict_threads(values.shape[0])
        raw = init_scores(self.init_, X, self._loss, values.shape[0])
        n_outputs = self._loss.n_outputs
        for first in range(0, self._n_trees_used(), n_outputs):
            self.trees_.add_raw(values, raw, n_threads, first, first + n_outputs)
            yield raw

    def predict_raw(self, X: Any) -> np.ndarray:
        """Add up start and trees, before the link.

        After early stopping only the trees up to the best round count.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        raw : ndarray of shape (n_rows, n_outputs)
        """
        values = self._read_features(X)
        raw = init_scores(self.init_, X, self._loss, values.shape[0])
        n_threads = self._predict_threads(values.shape[0])
        self.trees_.add_raw(values, raw, n_threads, 0, self._n_trees_used())
        return raw

    def _n_trees_used(self) -> int:
        """Trees that make predictions: after early stopping those up to the best round."""
        best = vars(self).get("best_iteration_")
        return len(self.trees_) if best is None else (best + 1) * self._loss.n_outputs

    def _predict_threads(self, n_rows: int) -> int:
        # A few rows are done before a second thread would have woken up.
        return 1 if n_rows < 512 else effective_threads(self.n_jobs)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row in each tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32
            Node numbers within the trees, of shape (n_rows, n_rounds) for a regressor of one
            output, else (n_rows, n_rounds, n_trees_per_iteration). After early stopping the
            rounds up to the best.
        """
        values = self._read_features(X)
        n_threads = self._predict_threads(values.shape[0])
        leaves = self.trees_.apply(values, n_threads, 0, self._n_trees_used())
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
        total = importance.sum()
        return importance / total if total > 0 else importance

    def summary(self) -> str:
        """Return a short account of the model in words.

        Returns
        -------
        text : str
        """
        self._check_is_fitted()
        score = f"training loss {self.train_score_[-1]:.6g} after the last round"
        if "best_iteration_" in vars(self):
            best = f"best round {self.best_iteration_} with a score of {self.best_score_:.6g}"
            score = f"{score}\n{best}"
        return boosting_summary(self, f"{self.loss}, {self.splitter_} splits\n{score}")
