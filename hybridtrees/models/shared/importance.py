"""Importance of features by the splits that use them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree.tree import TreeEnsemble

ImportanceType = Literal["gain", "weight", "cover", "total_gain", "total_cover"]
IMPORTANCE_TYPES = ("gain", "weight", "cover", "total_gain", "total_cover")

# Features that a summary lists.
_MAX_LISTED = 10


def split_importance(ensemble: TreeEnsemble, kind: str) -> NDArray[np.float64]:
    """Return the importance of every feature, not normalised.

    "weight" is the number of splits; "total_gain" and "total_cover" are sums of the gain and of
    the hessians over a feature's splits, "gain" and "cover" their means.
    """
    if kind not in IMPORTANCE_TYPES:
        raise ValueError(f"importance_type must be one of {IMPORTANCE_TYPES}, got {kind!r}")
    splits = ensemble.nodes[ensemble.nodes["left"] >= 0]
    n = ensemble.n_features
    count = np.bincount(splits["feature"], minlength=n).astype(np.float64)
    if kind == "weight":
        return count
    amount = splits["gain"] if kind.endswith("gain") else splits["weight"]
    total: NDArray[Any] = np.bincount(splits["feature"], weights=amount, minlength=n)
    if kind.startswith("total"):
        return total
    mean = np.zeros(n)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def shares(sums: np.ndarray) -> NDArray[np.float64]:
    """Divide numbers by their sum; all zeros stay as they are."""
    total = sums.sum()
    return sums / total if total > 0 else sums


def importance_lines(importance: np.ndarray, names: np.ndarray | None) -> list[str]:
    """Return the lines of a summary that list the most important features."""
    if not importance.any():
        return ["no split"]
    used = np.argsort(-importance, kind="stable")[: np.count_nonzero(importance)]
    lines = ["importance"]
    for j in used[:_MAX_LISTED]:
        lines.append(f"  {importance[j]:.4f}  {f'feature {j}' if names is None else names[j]}")
    if len(used) > _MAX_LISTED:
        lines.append(f"  and {len(used) - _MAX_LISTED} more")
    return lines
