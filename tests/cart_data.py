"""Data on which single trees are compared."""

from __future__ import annotations

import numpy as np


def smooth_table(n: int = 300, n_features: int = 5, seed: int = 0):
    """Columns of float32 numbers and a noisy target, all without ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    y = 3 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * (X[:, 0] > 0) + rng.normal(size=n)
    return X, y.astype(np.float64)


def noisy_classes(n: int = 300, n_classes: int = 3, seed: int = 0):
    """Classes that overlap everywhere, so that hardly a node is pure."""
    X, y = smooth_table(n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    cuts = np.quantile(y, np.arange(1, n_classes) / n_classes)
    codes = np.digitize(y, cuts)
    drawn = rng.random(n) < 0.3
    codes[drawn] = rng.integers(0, n_classes, drawn.sum())
    return X, codes


def whole_weights(n: int, seed: int = 0) -> np.ndarray:
    """Weights that are whole numbers: their sums are exact, and splits of equal gain are rare."""
    return np.random.default_rng(seed).integers(1, 1000, n).astype(np.float64)


def integer_table(n: int = 400, missing: float = 0.0, seed: int = 0):
    """Columns of at most 60 distinct values, a target without ties."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 60, size=(n, 4)).astype(np.float64)
    y = 0.2 * X[:, 0] + 5 * np.sin(X[:, 1] / 9) + rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y
