"""What regressors and classifiers have in common, for type checkers and readers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hybridtrees.base import Estimator


class Predictor(Estimator):
    """An estimator that predicts a target; families and mixins bring the methods."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of each row."""
        raise NotImplementedError

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2 of a regressor, the accuracy of a classifier."""
        raise NotImplementedError
