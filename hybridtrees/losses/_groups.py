"""Rows grouped by leaf, and quantiles of each group."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.tree import _walk
from hybridtrees.losses import _kernels


def group_rows(leaf: np.ndarray, n_leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort rows by leaf, without those of a negative leaf.

    The rows of leaf j are ``rows[start[j]:start[j + 1]]``, ascending.
    """
    rows = np.empty(len(leaf), dtype=np.uint32)
    start = np.empty(n_leaves + 1, dtype=np.int64)
    count = _walk.group_rows(np.ascontiguousarray(leaf, dtype=np.int32), start, rows)
    return rows[:count], start


def leaf_quantiles(
    values: np.ndarray,
    weight: np.ndarray | None,
    rows: np.ndarray,
    start: np.ndarray,
    level: float,
    rule: str,
    n_threads: int,
) -> np.ndarray:
    """Quantile of the values in every group; 0 where there is no row or no weight."""
    scratch = np.empty((1 if weight is None else 2, len(rows)))
    out = np.empty(len(start) - 1)
    _kernels.leaf_quantiles(values, weight, rows, start, level, rule, scratch, out, n_threads)
    return out


def quantile(
    values: np.ndarray, weight: np.ndarray | None, level: float, rule: str = "inverted_cdf"
) -> float:
    """Quantile of all values.

    Without weights `rule` names one of NumPy's methods: "inverted_cdf", "weibull" or "linear".
    With weights the method is always "inverted_cdf".
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    if rule == "linear" and weight is None:
        return float(np.quantile(values, level))
    if rule == "linear":
        rule = "inverted_cdf"
    rows = np.arange(len(values), dtype=np.uint32)
    start = np.array([0, len(values)], dtype=np.int64)
    return float(leaf_quantiles(values, weight, rows, start, level, rule, 1)[0])
