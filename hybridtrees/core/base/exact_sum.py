"""Sums and means over rows that do not depend on the order of the rows, or on blocks or threads.

All sums over rows in models and metrics go through here or through exact_sum.h.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridtrees.core.base._threads import ExactSum
from hybridtrees.core.base._threads import group_sums as _group_sums


def exact_sum(values: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """Weighted sum over the rows: a float, or an array over the columns of a matrix.

    More exact than a sum from left to right: the error per term is below 2^-60 of the largest term.
    """
    values = np.asarray(values)
    if values.ndim > 1:
        columns = values.reshape(len(values), math.prod(values.shape[1:])).T
        sums = np.array([exact_sum(column, weights) for column in columns])
        return sums.reshape(values.shape[1:])
    if values.dtype == bool and weights is None:
        return float(np.count_nonzero(values))
    if weights is not None:
        values = values * weights
    return ExactSum(np.ascontiguousarray(values, dtype=np.float64)).value


def exact_mean(values: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """Mean over the rows: `np.average` along the first axis."""
    total = float(len(values)) if weights is None else exact_sum(weights)
    if total == 0:
        raise ZeroDivisionError("all weights are 0")
    return exact_sum(values, weights) / total


def group_sums(group: np.ndarray, n_groups: int, values: np.ndarray | None = None) -> np.ndarray:
    """Sum of the values in each group, or its number of rows, as `np.bincount`."""
    group = np.ascontiguousarray(group, dtype=np.intp)
    if values is None:
        return np.bincount(group, minlength=n_groups).astype(np.float64)
    return _group_sums(np.ascontiguousarray(values, dtype=np.float64), group, n_groups)
