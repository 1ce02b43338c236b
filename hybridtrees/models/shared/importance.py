"""Importance of features by the splits that use them."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.tree.tree import TreeEnsemble

IMPORTANCE_TYPES = ("gain", "weight", "cover", "total_gain", "total_cover")

# Features that a summary lists.
_MAX_LISTED = 10


def split_importance(ensemble: TreeEnsemble, kind: str) -> np.ndarray:
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
    total = np.bincount(splits["feature"], weights=amount, minlength=n)
    if kind.startswith("total"):
        return total
    return np.divide(total, count, out=np.zeros(n), where=count > 0)


def shares(sums: np.ndarray) -> np.ndarray:
    """Return numbers divided by their sum, or all zeros as they are."""
    total = sums.sum()
    return sums / total if total > 0 else sums


def importance_lines(importance: np.ndarray, names: np.ndarray | None) -> list[str]:
    """Return the most important features in words, for a summary."""
    if not importance.any():
        return ["no split"]
    used = np.argsort(-importance, kind="stable")[: np.count_nonzero(importance)]
    lines = ["importance"]
    for j in used[:_MAX_LISTED]:
        lines.append(f"  {importance[j]:.4f}  {f'feature {j}' if names is None else names[j]}")
    if len(used) > _MAX_LISTED:
        lines.append(f"  and {len(used) - _MAX_LISTED} more")
    return lines
