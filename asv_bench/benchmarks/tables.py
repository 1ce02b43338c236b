"""Families on tables that are not dense numbers: categories, and sparse matrices."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from . import common
from .datasets import SEED
from .estimators import RECIPES, make_estimator

N_LEVELS = 300  # of each category column, more than there are bins


class Categories:
    """Fits to a table of which a third are categories, frequent and rare ones."""

    params = (common.N_ROWS, list(RECIPES), ["regression", "binary"])
    param_names = ["n", "family", "task"]
    timeout = 600

    def setup_cache(self) -> None:
        common.write_tables(["regression", "binary"])

    def setup(self, n: int, family: str, task: str) -> None:
        if n > RECIPES[family].max_rows:
            raise NotImplementedError("not measured")
        data = common.read_table(n, task)
        columns = list(range(0, common.N_FEATURES, 3))
        self.X, self.y = data.X.astype(np.float64), data.y
        for j in columns:
            # Ranks squared: the first levels are rare, the last are frequent.
            rank = np.argsort(np.argsort(self.X[:, j])) / n
            self.X[:, j] = np.floor(N_LEVELS * rank**2)
        more = (
            {"feature_types": ["c" if j in columns else "q" for j in range(common.N_FEATURES)]}
            if RECIPES[family].family == "XGB"
            else {"categorical_features": columns}
        )
        self.estimator = make_estimator(family, task, 2, **more)

    def time_fit(self, n: int, family: str, task: str) -> None:
        self.estimator.fit(self.X, self.y)


class Sparse:
    """Fit and prediction of a one-hot table in CSR form with 1 % of its cells stored."""

    params = (common.N_ROWS, [name for name, r in RECIPES.items() if r.sparse])
    param_names = ["n", "family"]
    timeout = 600
    n_columns = {"quick": 200, "full": 2000}[common.MODE]

    def setup(self, n: int, family: str) -> None:
        if n > RECIPES[family].max_rows:
            raise NotImplementedError("not measured")
        rng = np.random.default_rng(SEED)
        n_groups = self.n_columns // 100
        codes = rng.integers(100, size=(n, n_groups)) + 100 * np.arange(n_groups)
        start = np.arange(0, n * n_groups + 1, n_groups)
        ones = np.ones(n * n_groups, dtype=np.float32)
        self.X = sparse.csr_array((ones, codes.ravel(), start), shape=(n, self.n_columns))
        effect = rng.normal(size=self.n_columns)
        self.y = (effect[codes].sum(axis=1) + rng.logistic(size=n) > 0).astype(np.int64)
        self.estimator = make_estimator(family, "binary", 2)
        rows = slice(0, 5000)
        self.fitted = make_estimator(family, "binary", 2).fit(self.X[rows], self.y[rows])

    def time_fit(self, n: int, family: str) -> None:
        self.estimator.fit(self.X, self.y)

    def time_predict(self, n: int, family: str) -> None:
        self.fitted.predict_proba(self.X)
