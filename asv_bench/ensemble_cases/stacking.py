"""Stacking of a ridge regression, a forest and boosting, against scikit-learn's own models."""

from __future__ import annotations

import functools
from typing import Any

import measuring
import numpy as np

N_ROWS, N_FEATURES, N_TEST, N_FOLDS = 50_000, 28, 10_000, 5


@functools.cache
def make_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features and a target with slopes, steps and products, training rows first."""
    rng = np.random.default_rng(20)
    X = rng.normal(size=(n_rows + N_TEST, N_FEATURES))
    y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + (X[:, 4] > 0.5) + X[:, 5:12].sum(1)
    return X, y + rng.normal(size=len(y))


def measure(model: Any, n_rows: int, n_threads: int) -> tuple[float, float]:
    """Return the seconds of a fit, and R2 on rows that were not in it."""
    X, y = make_table(n_rows)
    seconds = measuring.fit_seconds(model, X[:n_rows], y[:n_rows], n_threads)
    return seconds, float(model.score(X[n_rows:], y[n_rows:]))


def ours(n_threads: int, n_rows: int = N_ROWS) -> tuple[float, float]:
    """Fit our stack, trees with their default search."""
    import hybridtrees as ht

    # The defaults of scikit-learn's forest, which grows larger trees from all features.
    forest = {"n_estimators": 100, "max_features": 1.0, "min_samples_leaf": 1, "random_state": 0}
    members = [
        ("ridge", ht.LinearRegressor(penalty="ridge", alpha=1.0, alpha_scaling="sum")),
        ("forest", ht.RandomForestRegressor(**forest)),
        ("boosting", ht.GradientBoostingRegressor(random_state=0)),
    ]
    model = ht.StackingRegressor(members, cv=N_FOLDS, n_jobs=n_threads)
    return measure(model, n_rows, n_threads)


def peer(n_threads: int, n_rows: int = N_ROWS) -> tuple[float, float]:
    """Fit scikit-learn's stack of its own models, members side by side."""
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor, StackingRegressor
    from sklearn.linear_model import Ridge

    members = [
        ("ridge", Ridge()),
        ("forest", RandomForestRegressor(n_estimators=100, random_state=0)),
        ("boosting", GradientBoostingRegressor(random_state=0)),
    ]
    model = StackingRegressor(members, cv=N_FOLDS, n_jobs=n_threads)
    return measure(model, n_rows, n_threads)


CASES = [
    {
        "name": "stacking of ridge, forest, boosting with 5 folds, 50k x 28",
        "goal": 0.2,
        "limit": 0.5,
        "ours": ours,
        "peer": peer,
        "unit": "time ratio",
    }
]
