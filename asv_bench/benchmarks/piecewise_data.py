"""Data whose truth is piece-wise linear, and data with slopes in time to extrapolate."""

from __future__ import annotations

import numpy as np

NOISE = 0.2


def make_piecewise_linear(
    n: int, p: int, rng: np.random.Generator, *, depth: int = 4, n_slopes: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Table of standard normal columns and a target with a linear function in each of many cells.

    The cells are the leaves of a random tree of the given depth; each has slopes on a few columns
    of its own. The noise has a standard deviation of `NOISE`.
    """
    X = rng.standard_normal((n, p)).astype(np.float32)
    cell = np.zeros(n, dtype=np.int64)
    for _ in range(depth):
        # Each cell of this level has a column and a threshold of its own.
        column = rng.integers(0, p, cell.max() + 1)
        threshold = 0.5 * rng.standard_normal(cell.max() + 1)
        cell = 2 * cell + (X[np.arange(n), column[cell]] > threshold[cell])
    n_cells = 2**depth
    slopes = np.zeros((n_cells, p))
    for c in range(n_cells):
        chosen = rng.choice(p, n_slopes, replace=False)
        slopes[c, chosen] = rng.standard_normal(n_slopes) / np.sqrt(n_slopes) * 2
    level = rng.standard_normal(n_cells)
    y = level[cell] + np.einsum("ij,ij->i", X, slopes[cell])
    return X, y + NOISE * rng.standard_normal(n)


def make_time_slopes(
    n: int, p: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Table whose first column is time from 0 to 1.3, with one of four slopes in time per group.

    Returns
    -------
    X, y : arrays
    late : bool array
        The rows after time 1: the test set lies beyond the range of the training set.
    """
    X = rng.standard_normal((n, p))
    X[:, 0] = rng.uniform(0, 1.3, n)
    group = 2 * (X[:, 1] > 0) + (X[:, 2] > 0)
    slope = np.array([-2.0, -0.5, 1.0, 2.5])[group]
    y = slope * X[:, 0] + np.sin(2 * X[:, 3]) + 0.5 * X[:, 4]
    return X, y + NOISE * rng.standard_normal(n), X[:, 0] > 1


def make_trend_changes(
    n: int, p: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Table whose first column is time from 0 to 1.3, with four slopes in time, one by one.

    The last slope holds from 0.75 on, so that it can be learned from the rows before time 1.
    Narrow leaves at the end of the training range are what makes it hard.

    Returns
    -------
    X, y, late
        As for `make_time_slopes`.
    """
    X = rng.standard_normal((n, p))
    X[:, 0] = rng.uniform(0, 1.3, n)
    levels = np.cumsum([0.0, 0.25, -0.5, 0.75, -4.0])
    y = np.interp(X[:, 0], [0.0, 0.25, 0.5, 0.75, 1.75], levels) + X[:, 1] + 0.5 * X[:, 2]
    return X, y + NOISE * rng.standard_normal(n), X[:, 0] > 1
