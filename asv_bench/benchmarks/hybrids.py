"""Hybrids that no other library has: linear forests on small tables, EBLR with many categories."""

from __future__ import annotations

import numpy as np

import hybridtrees

from . import common
from .datasets import SEED

SIZES = ["300 x 10", "1000 x 15", "5000 x 20", "40000 x 20"]
MOST_ROWS = {"quick": 1000, "full": 40_000}[common.MODE]
N_LEVELS = {"quick": 300, "full": 3490}[common.MODE]


def pieces(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table whose target is linear in pieces, with noise."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(n, p))
    y = X[:, 0] + np.where(X[:, 1] > 0, 2 * X[:, 2], -X[:, 3]) + np.sin(2 * X[:, 4])
    return X, y + 0.3 * rng.normal(size=n)


class LinearForests:
    """Fit of a linear forest with its defaults."""

    params = (SIZES, ["Regressor", "Classifier"], common.N_JOBS)
    param_names = ["size", "kind", "n_jobs"]
    timeout = 600

    def setup(self, size: str, kind: str, n_jobs: int) -> None:
        n, p = (int(number) for number in size.split(" x "))
        if n > MOST_ROWS or (n > 5000 and kind == "Classifier"):
            raise NotImplementedError("not measured")
        self.X, self.y = pieces(n, p)
        if kind == "Classifier":
            self.y = (self.y > 0).astype(np.int64)
        forest = getattr(hybridtrees, f"LinearForest{kind}")
        self.estimator = forest(common.N_TREES, n_jobs=n_jobs, random_state=0)

    def time_fit(self, size: str, kind: str, n_jobs: int) -> None:
        self.estimator.fit(self.X, self.y)


class ManyCategories:
    """Fit of EBLR to a table with a column of thousands of categories."""

    timeout = 600

    def setup(self) -> None:
        n = 33_000 if common.MODE == "full" else 3000
        self.X, self.y = pieces(n, 10)
        rng = np.random.default_rng(SEED)
        # Few of the levels are frequent.
        rest = (N_LEVELS * rng.beta(0.6, 2, size=n - N_LEVELS)).astype(int)
        self.X[:, 0] = rng.permutation(np.concatenate([np.arange(N_LEVELS), rest]))
        self.y += rng.normal(size=N_LEVELS)[self.X[:, 0].astype(int)]
        self.estimator = hybridtrees.EBLRRegressor(categorical_features=[0])

    def time_fit(self) -> None:
        self.estimator.fit(self.X, self.y)
