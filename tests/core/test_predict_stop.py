"""Rows that stop at an inner node for want of a value (``missing_left`` is 2)."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_tree

from hybridtrees.core.tree.tree import TreeEnsemble

DTYPES = (np.float32, np.float64)
# Forms of trees that do not stop: 32-bit masks, 64-bit masks, the walk.
SIZES = [2, 9, 32, 50, 64, 90]


def stopping_tree(rng, n_leaves, n_features, share=0.5, **more):
    """A tree some of whose nodes keep the rows that lack a value."""
    tree = random_tree(rng, n_leaves, n_features, **more)
    inner = np.flatnonzero(tree.nodes["left"] >= 0)
    tree.nodes["missing_left"][inner[rng.random(len(inner)) < share]] = 2
    if len(inner):
        tree.nodes["missing_left"][rng.choice(inner)] = 2
    return tree


def table(rng, n_rows, n_features, dtype=np.float64, categorical=(), missing=0.3):
    X = rng.normal(size=(n_rows, n_features)).astype(dtype)
    codes = np.array([*range(100), -1, 127, 1e6, 1e38], dtype=dtype)
    for feature in categorical:
        X[:, feature] = rng.choice(codes, n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def stopping_leaf(tree, x) -> int:
    """Node where a row ends, if need be an inner one."""
    k = 0
    while tree.nodes["left"][k] >= 0:
        record = tree.nodes[k]
        v = float(x[record["feature"]])
        known = not np.isnan(v)
        if record["category_start"] >= 0:
            known = known and 0 <= v < tree.first_unknown(k)
        if record["missing_left"] == 2 and not known:
            return k
        k = int(record["left" if oracle.goes_left(tree, k, v) else "right"])
    return k


def expected_raw(trees, X, n_outputs, tree_output):
    raw = np.zeros((len(X), n_outputs))
    for i, x in enumerate(X):
        for k, tree in enumerate(trees):
            node = stopping_leaf(tree, x)
            if tree.values.shape[1] > 1:
                raw[i] += tree.values[node]
                continue
            linear = 0.0
            for term in range(tree.coef_ptr[node], tree.coef_ptr[node + 1]):
                value = float(x[tree.coef_feature[term]])
                if not np.isnan(value):
                    linear += tree.coef[term] * (value - tree.coef_center[term])
            raw[i, 0 if tree_output is None else tree_output[k]] += tree.values[node, 0] + linear
    return raw


def check(trees, X, *, n_outputs=1, tree_output=None):
    """Few rows, a block and more, one thread and several: all to the last bit."""
    ensemble = TreeEnsemble(trees, X.shape[1], n_outputs, tree_output)
    raw = expected_raw(trees, X, n_outputs, tree_output)
    leaves = np.array([[stopping_leaf(tree, x) for tree in trees] for x in X])
    for n in (1, 4, 5, 64, len(X)):
        for n_threads in (1, 3):
            got = np.zeros((min(n, len(X)), n_outputs))
            ensemble.add_raw(X[:n], got, n_threads)
            np.testing.assert_array_equal(got, raw[:n])
            np.testing.assert_array_equal(ensemble.apply(X[:n], n_threads), leaves[:n])
    return leaves


@pytest.mark.parametrize("n_leaves", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_trees_of_every_size(rng, n_leaves, dtype):
    tree = stopping_tree(rng, n_leaves, 4)
    leaves = check([tree], table(rng, 150, 4, dtype))
    assert (tree.nodes["left"][leaves] >= 0).any(), "some rows stop"
    assert (tree.nodes["left"][leaves] < 0).any(), "some do not"


@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.integers(1, 4))
def test_random_trees(seed, n_leaves, n_features):
    rng = np.random.default_rng(seed)
    tree = stopping_tree(rng, n_leaves, n_features, categorical=range(seed % 3))
    X = table(rng, 20, n_features, DTYPES[seed % 2], range(min(seed % 3, n_features)), 0.5)
    check([tree, random_tree(rng, 5, n_features)], X)


def test_beside_trees_that_do_not_stop(rng):
    trees = [random_tree(rng, 20, 4), stopping_tree(rng, 30, 4), random_tree(rng, 90, 4),
             stopping_tree(rng, 70, 4), random_tree(rng, 40, 4)]  # fmt: skip
    check(trees, table(rng, 130, 4))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_leaves", [2, 30, 80])
def test_categories(rng, dtype, n_leaves):
    trees = [stopping_tree(rng, n_leaves, 4, categorical=(0, 2)) for _ in range(2)]
    check(trees, table(rng, 150, 4, dtype, (0, 2)))


def test_a_code_without_a_bit_stops():
    tree = random_tree(np.random.default_rng(1), 2, 1, categorical=(0,))
    tree.nodes["category_words"], tree.nodes["category_limit"] = 1, 0
    tree.nodes["missing_left"][0] = 2
    tree.categories = np.array([0b101], dtype=np.uint32)
    X = np.array([0, 1, 2, 31, 32, 33, 1e9, 1e300, -1, -1e300, np.nan])[:, None]
    left, right = int(tree.nodes["left"][0]), int(tree.nodes["right"][0])
    expected = [left, right, left, right] + [0] * 7
    assert TreeEnsemble([tree], 1).apply(X, 1)[:, 0].tolist() == expected
    check([tree], X)


@pytest.mark.parametrize("sizes", [[8, 20], [40, 3], [80, 5]])
def test_several_outputs(rng, sizes):
    X = table(rng, 140, 4)
    vector = [stopping_tree(rng, size, 4, n_values=3) for size in sizes]
    check(vector, X, n_outputs=3)
    one_each = [stopping_tree(rng, size, 4) for size in sizes * 2]
    check(one_each, X, n_outputs=3, tree_output=[0, 2, 1, 1])


def test_linear_parts(rng):
    # An inner node may have coefficients too: they count for the rows that stop there.
    tree = stopping_tree(rng, 20, 4)
    counts = rng.integers(0, 3, tree.n_nodes)
    tree.coef_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    tree.coef_feature = rng.integers(0, 4, counts.sum()).astype(np.int32)
    tree.coef, tree.coef_center = rng.normal(size=(2, counts.sum()))
    check([tree], table(rng, 140, 4))


def test_rows_without_any_value_stay_at_the_root(rng):
    for n_leaves in (2, 20, 90):
        tree = stopping_tree(rng, n_leaves, 3, share=1.0)
        leaves = check([tree], np.full((70, 3), np.nan))
        assert set(leaves[:, 0]) == {0}


def test_rows_without_missing_values_are_not_touched(rng):
    tree = stopping_tree(rng, 50, 3)
    plain = copy.deepcopy(tree)
    plain.nodes["missing_left"] = 0
    X = table(rng, 200, 3, missing=0.0)
    raw = [np.zeros((200, 1)), np.zeros((200, 1))]
    for part, one in zip(raw, (tree, plain), strict=True):
        TreeEnsemble([one], 3).add_raw(X, part, 1)
    np.testing.assert_array_equal(*raw)
    np.testing.assert_array_equal(raw[0], oracle.predict([plain], X))


def test_round_trip_and_refusal(rng):
    tree = stopping_tree(rng, 9, 3)
    X = table(rng, 90, 3)
    ensemble = pickle.loads(pickle.dumps(TreeEnsemble([tree], 3)))
    np.testing.assert_array_equal(ensemble[0].nodes, tree.nodes)
    check([ensemble[0]], X)
    ensemble.nodes["missing_left"][0] = 3
    with pytest.raises(ValueError, match="missing_left"):
        TreeEnsemble.from_state(ensemble.to_state())
