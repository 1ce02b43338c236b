"""Slow definitions of what forests compute, tree by tree and row by row."""

from __future__ import annotations

import numpy as np


def tree_leaf(tree, row):
    """Node of a `Tree` where one row ends."""
    k = 0
    while tree.nodes["left"][k] >= 0:
        node = tree.nodes[k]
        x = row[node["feature"]]
        if node["category_start"] >= 0:
            if np.isnan(x) or not 0 <= x < tree.first_unknown(k):
                side = node["missing_left"]
            else:
                side = 1 if int(x) in tree.category_set(k) else 0
        else:
            side = node["missing_left"] if np.isnan(x) else int(x <= node["threshold"])
        if side == 2:
            break
        k = node["left"] if side else node["right"]
    return int(k)


def leaves(model, X):
    """Leaf of every row in every tree."""
    X = np.asarray(model._read_features(X), dtype=np.float64)  # categories as codes
    return np.array([[tree_leaf(tree, row) for tree in model.trees_] for row in X])


def counts(model):
    """How often each training row is in the sample of each tree, (n_trees, n_rows)."""
    return np.array([model._tree_counts(tree) for tree in range(len(model.trees_))])


def values(model, X):
    """What every tree says of every row, (n_trees, n_rows, n_values)."""
    ended = leaves(model, X)
    return np.array([tree.values[ended[:, k]] for k, tree in enumerate(model.trees_)])


def proximity(ended, others, own_counts=None, other_counts=None):
    """Share of the trees (of those that count for both rows) in which two rows meet."""
    n_trees = ended.shape[1]
    own = np.ones(ended.shape, bool) if own_counts is None else own_counts.T == 0
    other = np.ones(others.shape, bool) if other_counts is None else other_counts.T == 0
    result = np.zeros((len(ended), len(others)))
    for i in range(len(ended)):
        for j in range(len(others)):
            both = [k for k in range(n_trees) if own[i, k] and other[j, k]]
            if both:
                result[i, j] = np.mean([ended[i, k] == others[j, k] for k in both])
    return result


def leaf_weights(model, X, X_train, weight=None):
    """Weights of the training rows in the predictions of a forest whose rows end in leaves."""
    ended, train = leaves(model, X), leaves(model, X_train)
    seen = counts(model).astype(float)
    if weight is not None:
        seen *= weight
    result = np.zeros((len(ended), len(train)))
    for k in range(ended.shape[1]):
        for i in range(len(ended)):
            share = np.where(train[:, k] == ended[i, k], seen[k], 0.0)
            result[i] += share / share.sum() / ended.shape[1]
    return result


def weighted_quantile(y, weight, level):
    """Least y at which the weights of the entries up to it reach the level."""
    y, weight = y[weight > 0], weight[weight > 0]
    order = np.argsort(y, kind="stable")
    reached = np.cumsum(weight[order])
    place = np.searchsorted(reached, (level - 1e-10) * reached[-1])
    return y[order][min(place, len(y) - 1)]
