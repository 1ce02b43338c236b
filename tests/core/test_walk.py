"""The walk of many rows through one tree, paths and weights of training rows."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn_trees import reorder
from strategies import random_tree

from hybridtrees.core.tree._walk import TreeWalk
from hybridtrees.core.tree.paths import decision_path, leaf_weights
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.core.tree.walk import find_leaves, find_values


def random_rows(rng, n_rows, n_features, categorical=(), missing=0.1):
    X = rng.normal(size=(n_rows, n_features))
    for feature in categorical:
        X[:, feature] = rng.integers(-2, 110, n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def stopping_leaf(tree, x) -> int:
    """Where a row ends, with splits at which missing values stop."""
    node = 0
    while tree.nodes["left"][node] >= 0:
        value = float(x[tree.nodes["feature"][node]])
        unknown = np.isnan(value)
        if tree.nodes["category_start"][node] >= 0:
            unknown |= not 0 <= value < tree.first_unknown(node)
        if unknown and tree.nodes["missing_left"][node] == 2:
            return node
        left = oracle.goes_left(tree, node, value)
        node = int(tree.nodes["left" if left else "right"][node])
    return node


@given(
    seed=st.integers(0, 10**6),
    n_leaves=st.integers(1, 200),
    n_rows=st.sampled_from([0, 1, 3, 16, 17, 40, 1025]),
    dtype=st.sampled_from([np.float32, np.float64]),
    kind=st.sampled_from(["plain", "categories", "stop", "chain"]),
)
def test_leaves_equal_those_of_the_slow_walk(seed, n_leaves, n_rows, dtype, kind):
    rng = np.random.default_rng(seed)
    categorical = (1, 3) if kind in ("categories", "stop") else ()
    tree = random_tree(rng, n_leaves, 5, categorical=categorical, chain=kind == "chain")
    if kind == "stop":
        inner = tree.nodes["left"] >= 0
        tree.nodes["missing_left"][inner] = rng.integers(0, 3, np.count_nonzero(inner))
    X = random_rows(rng, n_rows, 5, categorical).astype(dtype)
    expected = np.array([stopping_leaf(tree, x) for x in X], dtype=np.int32)
    ensemble = TreeEnsemble([tree], 5)
    for n_threads in (1, 2):
        np.testing.assert_array_equal(find_leaves(ensemble, X, n_threads), expected)
    np.testing.assert_array_equal(find_leaves(ensemble, X[:, ::-1][:, ::-1], 1), expected)
    np.testing.assert_array_equal(find_values(ensemble, X, 1)[:, 0], tree.values[expected, 0])


def test_float32_tables_meet_thresholds_between_their_numbers():
    rng = np.random.default_rng(0)
    grid = np.float32(1) + np.arange(64, dtype=np.float32) * np.finfo(np.float32).eps
    tree = random_tree(rng, 60, 1, thresholds=lambda n: rng.choice(grid, n) + rng.random(n) * 1e-7)
    X = rng.choice(grid, (500, 1))
    ensemble = TreeEnsemble([tree], 1)
    expected = oracle.leaves([tree], X)[:, 0]
    np.testing.assert_array_equal(find_leaves(ensemble, X, 1), expected)
    np.testing.assert_array_equal(find_leaves(ensemble, X.astype(np.float64), 1), expected)


@pytest.mark.parametrize("n_values", [1, 3])
@pytest.mark.parametrize("n_leaves", [1, 2, 63, 64, 65, 300])
def test_values_are_those_of_the_leaves(n_leaves, n_values):
    rng = np.random.default_rng(1)
    tree = random_tree(rng, n_leaves, 4, n_values=n_values)
    X = random_rows(rng, 300, 4)
    ensemble = TreeEnsemble([tree], 4, n_values)
    leaves = find_leaves(ensemble, X, 1)
    np.testing.assert_array_equal(find_values(ensemble, X, 2), tree.values[leaves])


def test_sparse_tables():
    rng = np.random.default_rng(2)
    tree = random_tree(rng, 100, 4)
    X = random_rows(rng, 5000, 4)
    X[np.abs(X) < 1] = 0.0
    ensemble = TreeEnsemble([tree], 4)
    expected = find_leaves(ensemble, X, 1)
    for make in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        np.testing.assert_array_equal(find_leaves(ensemble, make(X), 1), expected)


def test_what_does_not_fit_is_refused():
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 5, 4)
    with pytest.raises(ValueError, match="does not fit"):
        find_leaves(TreeEnsemble([tree], 4), np.zeros((3, 5)), 1)
    with pytest.raises(ValueError, match="one tree"):
        TreeWalk(TreeEnsemble([tree, tree], 4))
    tree.nodes["right"][0] = 4000
    with pytest.raises(ValueError, match="impossible child"):
        find_leaves(TreeEnsemble([tree], 4), np.zeros((3, 4)), 1)


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_paths_and_weights(seed, n_leaves):
    rng = np.random.default_rng(seed)
    tree = reorder(random_tree(rng, n_leaves, 3))[0]
    ensemble = TreeEnsemble([tree], 3)
    train, X = random_rows(rng, 200, 3), random_rows(rng, 20, 3)
    weight = rng.integers(0, 4, 200).astype(float)
    train_leaves = np.where(weight > 0, find_leaves(ensemble, train, 1), -1)
    path = decision_path(tree, find_leaves(ensemble, train, 1)).toarray()
    tree.nodes["weight"] = weight @ path
    reached = np.unique(train_leaves[weight > 0])
    # Leaves, and inner nodes as rows reach them that stop there.
    for ends in (reached, np.flatnonzero(tree.nodes["weight"] > 0)):
        nodes = rng.choice(ends, 20)
        weights = leaf_weights(tree, nodes, train_leaves, weight).toarray()
        expected = (path[:, nodes] * weight[:, None] / tree.nodes["weight"][nodes]).T
        np.testing.assert_allclose(weights, expected)
        plain = leaf_weights(tree, nodes, train_leaves, None).toarray()
        inside = (path[:, nodes] * (weight > 0)[:, None]).T
        np.testing.assert_allclose(plain, inside / inside.sum(axis=1, keepdims=True))
    leaves = find_leaves(ensemble, X, 1)
    for row, way in enumerate(decision_path(tree, leaves).toarray()):
        nodes = np.flatnonzero(way)
        assert nodes[0] == 0 and nodes[-1] == leaves[row]
        np.testing.assert_array_equal(tree.nodes["parent"][nodes[1:]], nodes[:-1])
