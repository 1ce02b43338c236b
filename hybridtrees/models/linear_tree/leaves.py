"""From a grown tree with models in all nodes to the tree that predicts: pruning, smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.linear import GrownNodes
from hybridtrees.core.tree.pruning import collapse_alphas, prune_nodes
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.models.linear_tree.growing import GrownTree, LinearTable

Floats = NDArray[np.float64]


def bare_tree(grown: GrownTree) -> Tree:
    """Return the tree without its models."""
    nodes = grown.grown.nodes
    tree = Tree(nodes, np.zeros((len(nodes), 1)), grown.grown.categories)
    tree.impurity = grown.impurity
    return tree


# -- pruning --------------------------------------------------------------------------------------


def keep_splits(grown: GrownTree, splits: NDArray[np.bool_]) -> GrownTree:
    """Keep only the given splits; other nodes become leaves."""
    tree, new_node = prune_nodes(bare_tree(grown), splits)
    # Nodes are in preorder: the first of those that became one node is that node itself.
    kept = np.unique(new_node, return_index=True)[1]
    old = grown.grown
    nodes = GrownNodes(
        tree.nodes, tree.categories, old.cells[kept], old.rows, old.start[kept], old.stop[kept]
    )
    return GrownTree(nodes, grown.theta[kept], grown.impurity[kept])


def prune_by_cost(grown: GrownTree, alpha: float) -> GrownTree:
    """Prune by minimal cost-complexity."""
    if alpha <= 0:
        return grown
    return keep_splits(grown, collapse_alphas(bare_tree(grown)) > alpha)


def prune_by_rows(
    grown: GrownTree, leaf: NDArray[np.int32], row_losses: Any, rows: NDArray[np.intp]
) -> GrownTree:
    """Prune by reduced error: keep the splits that lower the loss on held-out rows.

    ``row_losses(theta, rows)`` returns the weighted loss of a model on some rows.
    """
    nodes = grown.grown.nodes
    n = len(nodes)
    members: list[NDArray[Any]] = [rows[leaf == i] for i in range(n)]
    for i in range(n - 1, 0, -1):
        parent = nodes["parent"][i]
        members[parent] = np.concatenate([members[parent], members[i]])
    best = np.array([row_losses(grown.theta[i], members[i]) for i in range(n)])
    splits = np.zeros(n, dtype=bool)
    for i in range(n - 1, -1, -1):
        if nodes["left"][i] < 0:
            continue
        below = best[nodes["left"][i]] + best[nodes["right"][i]]
        if below < best[i]:
            splits[i], best[i] = True, below
    return keep_splits(grown, splits)


# -- smoothing ------------------------------------------------------------------------------------


def smooth(grown: GrownTree, strength: float) -> Floats:
    """Return models smoothed along the path to the root (Quinlan 1992).

    The prediction passed up to a node is (n p + k q) / (n + k), where p is that of its child with n
    rows, q its own, and k the strength. This is linear, hence the result is one model per leaf.
    """
    nodes = grown.grown.nodes
    if strength <= 0:
        return grown.theta
    theta = grown.theta.copy()
    for leaf in np.flatnonzero(nodes["left"] < 0):
        at = leaf
        while nodes["parent"][at] >= 0:
            up, n = nodes["parent"][at], float(nodes["n_samples"][at])
            theta[leaf] = (n * theta[leaf] + strength * grown.theta[up]) / (n + strength)
            at = up
    return theta


# -- the tree that predicts -----------------------------------------------------------------------


def make_tree(
    grown: GrownTree,
    theta: Floats,
    table: LinearTable,
    values: Any,
    responses: Floats | None,
    extrapolate: str,
    factor: float,
) -> Tree:
    """Return the tree with linear leaves, from models for standardised regressors.

    "bounded" limits predictions to the range of a leaf's `responses` (of its scores if None),
    widened by `factor` times that range on either side.
    """
    nodes, features = grown.grown.nodes, table.recipe.linear_features
    slope = theta[:, :, 1:] / table.units
    used = slope.any(axis=1) & (table.scale > 0)
    at_node, at_column = np.nonzero(used)
    limits: dict[str, Any] = {}
    if extrapolate == "clip":
        low, high = _ranges(grown.grown, values, features)
        limits = {"coef_low": low[used], "coef_high": high[used]}
    elif extrapolate == "bounded":
        limits = {"value_range": _bounds(grown.grown, theta, table, responses, factor)}
    return Tree(
        nodes,
        theta[:, :, 0],
        grown.grown.categories,
        coef_ptr=np.concatenate([[0], np.cumsum(used.sum(axis=1))]),
        coef_feature=features[at_column],
        coef=slope.transpose(0, 2, 1)[at_node, at_column],
        coef_center=table.mean[at_column],
        impurity=grown.impurity,
        **limits,
    )


def _ranges(grown: GrownNodes, values: Any, features: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return ranges of the regressors in each node, infinite if all entries are missing."""
    n = len(grown.nodes)
    low, high = np.full((n, len(features)), -np.inf), np.full((n, len(features)), np.inf)
    for i in range(n):
        part = values[grown.rows[grown.start[i] : grown.stop[i]]][:, features]
        part = part.toarray() if hasattr(part, "toarray") else part
        known = ~np.isnan(part)
        some = known.any(axis=0)
        low[i, some] = np.where(known, part, np.inf).min(axis=0)[some]
        high[i, some] = np.where(known, part, -np.inf).max(axis=0)[some]
    return low, high


def _bounds(
    grown: GrownNodes, theta: Floats, table: LinearTable, responses: Floats | None, factor: float
) -> Floats:
    bounds = np.empty((len(grown.nodes), 2, theta.shape[1]))
    for i in range(len(grown.nodes)):
        rows = grown.rows[grown.start[i] : grown.stop[i]]
        if responses is None:
            seen = table.regressors[rows] @ theta[i, :, 1:].T + theta[i, :, 0]
        else:
            seen = responses[rows]
        low, high = seen.min(axis=0), seen.max(axis=0)
        margin = factor * (high - low)
        bounds[i, 0], bounds[i, 1] = low - margin, high + margin
    return bounds


def find_rows(grown: GrownTree, values: Any, n_columns: int) -> NDArray[np.int32]:
    """Return the leaf of each row of a table."""
    return TreeEnsemble([bare_tree(grown)], n_columns).apply(values, 1)[:, 0]
