"""Seeded tables that look like real ones: mixed distributions, interactions, noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TASKS = ("regression", "binary", "multiclass")
TABLES = ("mixed", "friedman")
N_CLASSES = 5
SEED = 20260101

# Columns from here on carry no signal, as in most real tables.
N_INFORMATIVE = 10


class Data(NamedTuple):
    """Training and test part of one table."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def _column(z: np.ndarray, kind: int) -> np.ndarray:
    """Turn standard normal draws into a column of one of five kinds."""
    if kind == 0:
        return z
    if kind == 1:  # skewed: prices, areas, counts of money
        return np.exp(z)
    if kind == 2:  # discrete: counts with few levels
        return np.floor(2.0 * np.exp(0.5 * z))
    if kind == 3:  # heavy tails
        return np.sinh(1.5 * z)
    return np.round(50.0 + 10.0 * z)  # integers: ages, scores


def _signal(z: list[np.ndarray]) -> np.ndarray:
    """Combine the informative columns: curves, steps, products, one three-way interaction."""
    return (
        np.sin(2.0 * z[0])
        + z[1] * z[2]
        + np.where(z[3] > 0.5, z[4], 0.0)
        + 0.5 * z[5] ** 2
        + 0.3 * z[6]
        + 0.4 * np.abs(z[7])
        + 0.3 * np.where(z[8] > 0.0, z[0] * z[9], 0.0)
    )


def make_features(
    n: int, p: int, rng: np.random.Generator, zero_inflated: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a float32 table and the noiseless signal in it.

    With `zero_inflated`, 90 % of the rows of six columns in seven hold the value 0.
    """
    if p < N_INFORMATIVE:
        raise ValueError(f"p must be at least {N_INFORMATIVE}, got {p}")
    X = np.empty((n, p), dtype=np.float32)
    informative = []
    for j in range(p):
        z = rng.standard_normal(n)
        column = _column(z, j % 5)
        if zero_inflated and j % 7:
            present = rng.random(n) < 0.1
            column = np.where(present, column, 0.0)
            z = np.where(present, 3.0 * z, 0.0)
        X[:, j] = column
        if j < N_INFORMATIVE:
            informative.append(z)
    return X, _signal(informative)


def make_friedman(n: int, p: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's first function of uniform columns, divided by 5 to a spread near 1.

    Every informative column has an effect of its own that one split can see, which the products
    of symmetric columns in `make_features` do not: scores on this table differ by what a library
    does and hardly by luck. From J. Friedman, "Multivariate adaptive regression splines", 1991.
    """
    X = rng.random((n, p), dtype=np.float32)
    x = X[:, :5].astype(np.float64).T
    curve = 10.0 * np.sin(np.pi * x[0] * x[1]) + 20.0 * (x[2] - 0.5) ** 2
    return X, (curve + 10.0 * x[3] + 5.0 * x[4]) / 5.0


def make_target(signal: np.ndarray, task: str, rng: np.random.Generator) -> np.ndarray:
    """Noisy target of one of the tasks."""
    n = len(signal)
    if task == "regression":
        return (signal + 0.6 * rng.standard_normal(n)).astype(np.float32)
    if task == "binary":
        return (signal - signal.mean() + rng.logistic(size=n) > 0).astype(np.int64)
    if task == "multiclass":
        cuts = np.quantile(signal, np.arange(1, N_CLASSES) / N_CLASSES)
        return np.searchsorted(cuts, signal + 0.6 * rng.standard_normal(n)).astype(np.int64)
    raise ValueError(f"task must be one of {TASKS}, got {task!r}")


def make_data(
    n: int,
    p: int,
    task: str,
    *,
    n_test: int | None = None,
    zero_inflated: bool = False,
    seed: int = SEED,
    table: str = "mixed",
) -> Data:
    """Training and test part (`n_test` rows, by default a quarter of `n`) of one table."""
    if table not in TABLES:
        raise ValueError(f"table must be one of {TABLES}, got {table!r}")
    n_test = max(100, n // 4) if n_test is None else n_test
    rng = np.random.default_rng(seed)
    if table == "friedman":
        X, signal = make_friedman(n + n_test, p, rng)
    else:
        X, signal = make_features(n + n_test, p, rng, zero_inflated)
    y = make_target(signal, task, rng)
    return Data(X[:n], y[:n], X[n:], y[n:])


def score(task: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """RMSE, or log loss of predicted probabilities; smaller is better."""
    if task == "regression":
        return float(np.sqrt(np.mean((np.asarray(prediction, dtype=np.float64) - y) ** 2)))
    probability = np.asarray(prediction, dtype=np.float64)
    if probability.ndim == 1:
        probability = np.column_stack([1.0 - probability, probability])
    chosen = probability[np.arange(len(y)), y]
    return float(-np.mean(np.log(np.clip(chosen, 1e-15, 1.0))))
