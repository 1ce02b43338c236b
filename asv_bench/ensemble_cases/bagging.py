"""Bagging and pasting against scikit-learn's bagging: time, and bytes of stored members."""

from __future__ import annotations

import pickle
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import measuring
import numpy as np

N_FEATURES = 28
BAGGED_ROWS = 100_000
PASTED_ROWS = 1_000_000
STORED_ROWS = 5_000
TEST_ROWS = 20_000

Result = tuple[float, float]


@cache
def table(n_rows: int) -> tuple[np.ndarray, ...]:
    """Return training and test rows of two classes with interactions, waves and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows + TEST_ROWS, N_FEATURES))
    mean = X[:, 0] * X[:, 1] + X[:, 2] + np.sin(3 * X[:, 3])
    y = (mean + 0.5 * rng.standard_normal(len(X)) > 0).astype(np.int64)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def timed(model: Any, n_rows: int, n_threads: int) -> Result:
    """Return seconds of the fit, and the accuracy."""
    X, y, X_test, y_test = table(n_rows)
    return measuring.fit_seconds(model, X, y, n_threads), model.score(X_test, y_test)


def bag_ours(n_threads: int) -> Result:
    """Fit 50 trees of full depth."""
    import hybridtrees

    model = hybridtrees.BaggingClassifier(n_estimators=50, n_jobs=n_threads, random_state=0)
    return timed(model, BAGGED_ROWS, n_threads)


def bag_peer(n_threads: int) -> Result:
    """Fit scikit-learn's 50 trees."""
    from sklearn.ensemble import BaggingClassifier

    model = BaggingClassifier(n_estimators=50, n_jobs=n_threads, random_state=0)
    return timed(model, BAGGED_ROWS, n_threads)


def paste_ours(n_threads: int) -> Result:
    """Paste 200 small votes by importance."""
    import hybridtrees

    model = hybridtrees.PastingClassifier(
        n_estimators=200, n_iter_no_change=None, n_jobs=n_threads, random_state=0
    )
    return timed(model, PASTED_ROWS, n_threads)


def paste_peer(n_threads: int) -> Result:
    """Fit scikit-learn's trees of 800 random rows each."""
    from sklearn.ensemble import BaggingClassifier

    model = BaggingClassifier(n_estimators=200, max_samples=800, n_jobs=n_threads, random_state=0)
    return timed(model, PASTED_ROWS, n_threads)


def store_ours(n_threads: int) -> Result:
    """Return the bytes of the file of 500 trees."""
    import hybridtrees

    model = hybridtrees.BaggingClassifier(n_estimators=500, n_jobs=n_threads, random_state=0)
    _, score = timed(model, STORED_ROWS, n_threads)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.htree"
        model.save(path)
        return float(path.stat().st_size), score


def store_peer(n_threads: int) -> Result:
    """Return the bytes of scikit-learn's pickle of 500 trees."""
    from sklearn.ensemble import BaggingClassifier

    model = BaggingClassifier(n_estimators=500, n_jobs=n_threads, random_state=0)
    _, score = timed(model, STORED_ROWS, n_threads)
    return float(len(pickle.dumps(model))), score


CASES = [
    {
        "name": "bagging of 50 full-depth trees, 100k x 28",
        "goal": 0.15,
        "limit": 0.4,
        "ours": bag_ours,
        "peer": bag_peer,
        "unit": "time ratio",
    },
    {
        "name": "pasting Ivotes, 1M x 28 in precincts of 800, 200 members",
        "goal": 0.5,
        "limit": 1.0,
        "ours": paste_ours,
        "peer": paste_peer,
        "unit": "time ratio",
    },
    {
        "name": "memory of 500 members on disk / scikit-learn's pickle",
        "goal": 0.2,
        "limit": 0.5,
        "ours": store_ours,
        "peer": store_peer,
        "unit": "size ratio",
    },
]
