"""An estimator that remembers its rows, and settings of it, for tests of searches."""

from __future__ import annotations

import numpy as np

from hybridtrees.base import Estimator, RegressorMixin

LEVELS = {"level": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]}


class Spy(RegressorMixin, Estimator):
    """Remembers which rows it is fitted to and asked for; column 0 holds their numbers."""

    fits: list[np.ndarray] = []
    asked: list[np.ndarray] = []

    def __init__(self, level=0.0, fails=False):
        self.level, self.fails = level, fails

    def fit(self, X, y, sample_weight=None):
        if self.fails:
            raise RuntimeError("of its own accord")
        Spy.fits.append(np.array(X[:, 0]))
        return self

    def predict(self, X):
        Spy.asked.append(np.array(X[:, 0]))
        return np.full(len(X), self.level)
