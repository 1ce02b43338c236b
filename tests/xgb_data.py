"""Data on which boosted models are compared."""

from __future__ import annotations

import numpy as np

TASKS = ("regression", "binary", "multiclass")


def integer_table(n: int = 2000, missing: float = 0.0, seed: int = 0):
    """Columns of at most 200 distinct values, a target without ties, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 200, size=(n, 6)).astype(np.float64)
    signal = 0.3 * X[:, 0] + 30 * np.sin(X[:, 1] / 20) + X[:, 2] * X[:, 3] / 400
    y = signal + 5 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, rng.random(n) + 0.5


def smooth_table(n: int = 12000, seed: int = 0):
    """Continuous columns and so much noise that the score hardly depends on luck with cuts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    y = 10 * np.sin(2 * X[:, 0]) + 5 * X[:, 1] + 3 * X[:, 2] ** 2
    y += 4 * np.abs(X[:, 3]) * (X[:, 4] > 0) + 10 * rng.normal(size=n)
    return X, 5 * y + 25


def target(task: str, y: np.ndarray) -> np.ndarray:
    """Turn the target of a regression into that of a task."""
    if task == "regression":
        return y
    return (y > 50).astype(int) if task == "binary" else np.digitize(y, [30, 50, 70])


def output(model, X) -> np.ndarray:
    """Probabilities of a classifier, predictions of a regressor."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def loss_of(task: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """Root mean squared error, or log-loss."""
    if task == "regression":
        return float(np.sqrt(np.mean((y - prediction) ** 2)))
    return float(-np.mean(np.log(prediction[np.arange(len(y)), y])))


def loss_ratio(task: str, ours, theirs, seeds=(0, 1, 2)) -> float:
    """Loss of one model on new rows by that of another, over several draws of the data."""
    losses = np.zeros(2)
    for seed in seeds:
        X, y = smooth_table(seed=seed)
        y, half = target(task, y), len(X) // 2
        for i, model in enumerate((ours, theirs)):
            model.fit(X[:half], y[:half])
            losses[i] += loss_of(task, y[half:], output(model, X[half:]))
    return losses[0] / losses[1]
