"""A short account of a boosted model in words."""

from __future__ import annotations

from typing import Any

import numpy as np

# Features that a summary lists.
_MOST_LISTED = 10


def boosting_summary(model: Any, loss: str) -> str:
    """Return rounds, sizes of the trees and the most important features of a boosted model.

    Parameters
    ----------
    model : Estimator
        Fitted, with `trees_`, `n_iter_` and `feature_importances_`.
    loss : str
        Name of what was minimised.

    Returns
    -------
    text : str
    """
    trees = model.trees_
    starts = trees.tree_start[:-1]
    is_leaf = trees.nodes["left"] < 0
    leaves = np.add.reduceat(is_leaf, starts)
    depths = np.maximum.reduceat(trees.nodes["depth"], starts)
    lines = [
        f"{type(model).__name__}: {loss}",
        f"rows {trees.nodes['n_samples'][0]}, features {model.n_features_in_}, outputs "
        f"{trees.n_outputs}",
        f"rounds {model.n_iter_}, trees {len(trees)}",
        f"leaves of a tree: least {leaves.min()}, median {np.median(leaves):g}, most "
        f"{leaves.max()}; depth {depths.max()} at most",
    ]
    return "\n".join(lines + _importance_lines(model))


def _importance_lines(model: Any) -> list[str]:
    importance = model.feature_importances_
    if not importance.any():
        return ["no split"]
    names = getattr(model, "feature_names_in_", None)
    used = np.argsort(-importance, kind="stable")[: np.count_nonzero(importance)]
    lines = ["importance"]
    for j in used[:_MOST_LISTED]:
        lines.append(f"  {importance[j]:.4f}  {f'feature {j}' if names is None else names[j]}")
    if len(used) > _MOST_LISTED:
        lines.append(f"  and {len(used) - _MOST_LISTED} more")
    return lines
