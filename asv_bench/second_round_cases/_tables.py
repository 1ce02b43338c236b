"""Tables that several topics use, and the cost of a fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

TEST_ROWS = 5000


def pieces(n_rows: int, n_columns: int, classes: bool = False, seed: int = 0) -> tuple[Any, Any]:
    """Return a table whose target is linear in pieces, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    y = X[:, 0] + np.where(X[:, 1] > 0, 2 * X[:, 2], -X[:, 3]) + np.sin(2 * X[:, 4])
    if classes:
        return X, (y + rng.logistic(size=n_rows) > 0).astype(np.int64)
    return X, y + 0.3 * rng.normal(size=n_rows)


def with_levels(n_rows: int, n_columns: int, n_levels: int) -> tuple[Any, Any]:
    """Return a table whose first column holds codes of levels, few of which are frequent."""
    rng = np.random.default_rng(0)
    X, y = pieces(n_rows, n_columns)
    rest = (n_levels * rng.beta(0.6, 2, size=n_rows - n_levels)).astype(int)
    codes = rng.permutation(np.concatenate([np.arange(n_levels), rest]))
    X[:, 0] = codes
    return X, y + rng.normal(size=n_levels)[codes]


def cost(work: Callable[[], Any], threads: int) -> tuple[float, Any]:
    """Return the seconds of some work (of the processor, with one thread) and its result."""
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    result = work()
    return clock() - start, result


def error(model: Any, n_columns: int) -> float:
    """Return the error on new rows of `pieces`: root mean square, or the mean log loss."""
    if hasattr(model, "predict_proba"):
        X, y = pieces(TEST_ROWS, n_columns, True, seed=1)
        own = model.predict_proba(X)[np.arange(len(y)), y]
        return float(-np.log(np.maximum(own, 1e-15)).mean())
    X, y = pieces(TEST_ROWS, n_columns, seed=1)
    return float(np.sqrt(((model.predict(X) - y) ** 2).mean()))


def one_second(threads: int) -> tuple[float, float]:
    """Stand in for a peer where the goal is a time."""
    return 1.0, float("nan")
