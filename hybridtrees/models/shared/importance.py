"""Importance of features by the splits that use them."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.tree.tree import TreeEnsemble

IMPORTANCE_TYPES = ("gain", "weight", "cover", "total_gain", "total_cover")


def split_importance(ensemble: TreeEnsemble, kind: str) -> np.ndarray:
    """Return the importance of every feature, not normalised.

    Parameters
    ----------
    ensemble : TreeEnsemble
    kind : str
        "weight": number of splits; "total_gain", "total_cover": sums of the gain and of the
        hessians over a feature's splits; "gain", "cover": their means.

    Returns
    -------
    importance : ndarray of shape (n_features,)
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
