"""Targets of forests: what their regressors and classifiers differ in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.metrics import METRICS, accuracy_score
from hybridtrees.models.shared.forest.out_of_bag import OutOfBag, most_probable, two_columns
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget


class RegressionForest(RegressionTarget):
    """The target of a forest for regression. Stands before the family among the bases."""

    _default_metric = "mse"

    def _default_score(self, oob: OutOfBag) -> float:
        return oob.error(METRICS["r2"])

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_prediction_ = self._squeeze(oob.prediction())

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return self._squeeze(mean)


class ClassificationForest(ClassTarget):
    """The target of a forest for classification. Stands before the family among the bases."""

    _default_metric = "error"
    _metric_names = ("error", "merror", "logloss", "mlogloss", "brier", "auc", "aucpr")

    def _default_score(self, oob: OutOfBag) -> float:
        target, mean, weight = oob.score_input()
        if not len(target):
            return float("nan")
        return accuracy_score(target, most_probable(mean), sample_weight=weight)

    def _keep_oob(self, oob: OutOfBag) -> None:
        self.oob_decision_function_ = oob.prediction()

    def _by_class(self, mean: np.ndarray) -> np.ndarray:
        """Probabilities of all classes; trees know only the second of two."""
        if self.n_classes_ == 1:
            return np.ones((len(mean), 1))
        return two_columns(mean) if self.n_classes_ == 2 else mean

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._by_class(self._predict_values(X))  # type: ignore[attr-defined]

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the probabilities by the first tree, the first two, and so on.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Yields
        ------
        proba : ndarray of shape (n_rows, n_classes)
        """
        for mean in self._staged_values(X):  # type: ignore[attr-defined]
            yield self._by_class(mean)

    def _finish(self, mean: np.ndarray) -> np.ndarray:
        return self.classes_[self._by_class(mean).argmax(axis=1)]
