"""AdaBoost against scikit-learn: 200 trees on 100,000 rows, and the size of 500 members."""

from __future__ import annotations

import pickle
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import measuring
import numpy as np

N_ROWS = 100_000
N_FEATURES = 28
N_TREES = 200
N_STORED = 500

Result = tuple[float, float]


@cache
def table(n_rows: int = N_ROWS) -> tuple[np.ndarray, ...]:
    """Return training and test rows of two classes that stumps cannot tell apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows * 3 // 2, N_FEATURES)).astype(np.float32)
    mean = X[:, 0] * X[:, 1] + X[:, 2] + np.sin(3 * X[:, 3]) + 0.5 * X[:, 4] ** 2
    y = (mean + rng.standard_normal(len(X)) > 0.5).astype(np.int64)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def fit_ours(depth: int, n_threads: int) -> Result:
    """Fit ours."""
    import hybridtrees

    X, y, X_test, y_test = table()
    model = hybridtrees.AdaBoostClassifier(
        n_estimators=N_TREES, max_depth=depth, n_jobs=n_threads, random_state=0
    )
    return measuring.fit_seconds(model, X, y, n_threads), model.score(X_test, y_test)


def fit_peer(depth: int, n_threads: int) -> Result:
    """Fit scikit-learn's, which has one thread."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, y, X_test, y_test = table()
    tree = DecisionTreeClassifier(max_depth=depth)
    model = AdaBoostClassifier(tree, n_estimators=N_TREES, random_state=0)
    return measuring.fit_seconds(model, X, y, n_threads), model.score(X_test, y_test)


def _stored(model: Any) -> tuple[Any, float]:
    X, y, X_test, y_test = (part[:3000] for part in table())
    model.fit(X, y)
    return model, model.score(X_test, y_test)


def store_ours(n_threads: int) -> Result:
    """Return the megabytes of our file of 500 stumps."""
    import hybridtrees

    settings: dict[str, Any] = {"learning_rate": 0.1, "n_jobs": n_threads, "random_state": 0}
    model, score = _stored(hybridtrees.AdaBoostClassifier(n_estimators=N_STORED, **settings))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.stat().st_size / 1e6, score


def store_peer(n_threads: int) -> Result:
    """Return the megabytes of scikit-learn's pickle of 500 stumps."""
    from sklearn.ensemble import AdaBoostClassifier

    settings: dict[str, Any] = {"learning_rate": 0.1, "random_state": 0}
    model, score = _stored(AdaBoostClassifier(n_estimators=N_STORED, **settings))
    return len(pickle.dumps(model)) / 1e6, score


CASES = [
    {
        "name": "AdaBoost, 200 stumps, 100k x 28",
        "goal": 0.03,
        "limit": 0.15,
        "ours": lambda n_threads: fit_ours(1, n_threads),
        "peer": lambda n_threads: fit_peer(1, n_threads),
        "unit": "time ratio",
    },
    {
        "name": "AdaBoost, 200 trees of depth 3, 100k x 28",
        "goal": 0.05,
        "limit": 0.2,
        "ours": lambda n_threads: fit_ours(3, n_threads),
        "peer": lambda n_threads: fit_peer(3, n_threads),
        "unit": "time ratio",
    },
    {
        "name": "AdaBoost, 500 stumps on disk",
        "goal": 0.2,
        "limit": 0.5,
        "ours": store_ours,
        "peer": store_peer,
        "unit": "size ratio",
    },
]
