"""Sets of categories as bits and as lists: what they hold, how they are read, how they grow."""

from __future__ import annotations

import pickle
from dataclasses import replace

import exact_oracle as eo
import numpy as np
import oracle
import pytest
from exact_problems import params_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_tree

from hybridtrees import CARTClassifier, CARTRegressor, RandomForestRegressor
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.packing import pack_tree
from hybridtrees.core.tree.tree import TreeEnsemble, pack_categories
from hybridtrees.core.tree.walk import find_leaves

# Codes at the ends of sets, of words, and far away.
STRANGE = [-1.0, -0.5, 0.0, 0.5, 31.0, 32.0, 255.0, 256.0, 2.0**31, 2.0**33, 1e30, np.nan]


def stump(words, limit, missing_left=0):
    tree = random_tree(np.random.default_rng(0), 2, 1)
    nodes = tree.nodes
    nodes["left"][0], nodes["right"][0] = 1, 2
    nodes["category_start"][0], nodes["category_words"][0] = 0, len(words)
    nodes["category_limit"][0], nodes["missing_left"][0] = limit, missing_left
    nodes["n_samples"], nodes["weight"] = [2, 1, 1], [2, 1, 1]
    return replace(tree, categories=np.asarray(words, dtype=np.uint32))


def ends(tree, X):
    """Where rows end, by every way down a tree."""
    ensemble = TreeEnsemble([tree], 1)
    found = ensemble.apply(X, 1)[:, 0]
    np.testing.assert_array_equal(find_leaves(ensemble, X, 1), found)
    packed = PackedTrees([pack_tree(tree, tree.values, True)], 1, "squared_error", 0)
    np.testing.assert_array_equal(packed.apply(X, 1)[:, 0], found)
    np.testing.assert_array_equal(packed[0].category_set(0), tree.category_set(0))
    assert packed[0].first_unknown(0) == tree.first_unknown(0)
    for rows in (slice(None), slice(0, 3)):
        raw = np.zeros((len(X[rows]), 1))
        ensemble.add_raw(X[rows], raw, 1)
        np.testing.assert_array_equal(raw[:, 0], tree.values[found[rows], 0])
    return found


# ---- packing and reading ------------------------------------------------------------------------


@given(
    st.integers(1, 3000), st.floats(0, 1), st.integers(0, 10**6), st.booleans(), st.integers(0, 2)
)
def test_any_set(n, share, seed, unknown_left, missing_left):
    goes_left = np.random.default_rng(seed).random(n) < share
    words, limit = pack_categories(goes_left, unknown_left)
    assert words.dtype == np.uint32
    n_bits = -(-n // 32)
    fewest = min(goes_left.sum(), (~goes_left).sum())
    assert len(words) == (n_bits if n_bits <= 8 else min(n_bits, fewest))
    tree = stump(words, limit, missing_left)
    known = tree.category_set(0)
    np.testing.assert_array_equal(known[known < n], np.flatnonzero(goes_left))
    if limit == 0:
        assert tree.first_unknown(0) == 32 * n_bits
        assert set(range(n, 32 * n_bits)) & set(known) == (
            set(range(n, 32 * n_bits)) if unknown_left else set()
        )
    else:
        assert tree.first_unknown(0) == abs(limit) == n
    X = np.concatenate([np.arange(n), STRANGE])[:, None]
    expected = np.where(goes_left, 1, 2)
    unknown = {0: 2, 1: 1, 2: 0}[missing_left]
    found = ends(tree, X)
    np.testing.assert_array_equal(found[:n], expected)
    np.testing.assert_array_equal(ends(tree, X.astype(np.float32))[:n], expected)
    for code, end in zip(STRANGE, found[n:], strict=True):
        inside = 0 <= code < tree.first_unknown(0)
        assert end == ((1 if int(code) in set(known) else 2) if inside else unknown)


@pytest.mark.parametrize("limit", [5, -5])
def test_empty_lists(limit):
    tree = stump([], limit)
    assert tree.category_set(0).tolist() == ([] if limit > 0 else [0, 1, 2, 3, 4])
    X = np.array([0.0, 4.0, 5.0, np.nan, -1.0])[:, None]
    side = 2 if limit > 0 else 1
    assert ends(tree, X).tolist() == [side, side, 2, 2, 2]


@pytest.mark.parametrize("limit", [2**31 - 1, -(2**31) + 1, -(2**31)])
def test_limits_as_large_as_can_be(limit):
    tree = stump([3, 70_000, 2**31 - 3], limit, missing_left=0)
    listed, other = (1, 2) if limit > 0 else (2, 1)
    X = np.array([3.0, 4.0, 70_000.0, 2.0**31 - 3, 2.0**31, 1e20])[:, None]
    leaves = TreeEnsemble([tree], 1).apply(X, 1)[:, 0]
    assert leaves.tolist() == [listed, other, listed, listed, 2, 2]


@pytest.mark.parametrize("field, value", [("words", -1), ("words", 4), ("start", 1), ("start", 9)])
def test_lists_out_of_range_are_refused(field, value):
    tree = stump([1, 2, 3], 300)
    tree.nodes[f"category_{field}"][0] = value
    ensemble = TreeEnsemble([tree], 1)
    ensemble.categories = ensemble.categories[:3]
    with pytest.raises(ValueError, match="out of range"):
        ensemble.apply(np.ones((9, 1)), 1)


def test_sets_move_with_their_trees(rng):
    trees = [random_tree(rng, n, 3, categorical=(0, 2)) for n in (9, 40, 70)]
    assert any((tree.nodes["category_limit"] < 0).any() for tree in trees)
    ensemble = pickle.loads(pickle.dumps(TreeEnsemble(trees, 3)))
    X = np.column_stack([rng.integers(-1, 100, 90), rng.normal(size=90), rng.integers(0, 99, 90)])
    np.testing.assert_array_equal(ensemble.apply(X, 1), oracle.leaves(trees, X))
    for k, tree in enumerate(trees):
        for node in np.flatnonzero(tree.nodes["category_start"] >= 0):
            np.testing.assert_array_equal(ensemble[k].category_set(node), tree.category_set(node))


# ---- growing ------------------------------------------------------------------------------------


def spread_problem(rng, kind, spread, missing):
    """Thirty categories, whose codes are `spread` apart; a number; few or many rows of each."""
    n = 300
    code = np.floor(30 * rng.random(n) ** 2)
    X = np.column_stack([spread * code, rng.normal(size=n)])
    X[rng.random(n) < missing, 0] = np.nan
    y = rng.normal(size=30)[code.astype(int)] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n)
    if kind == "newton":
        target = eo.newton_target(y, np.exp(rng.normal(size=n)))
    else:
        target = eo.unit_target(y)
    return eo.Problem(X, target, params_of(kind, max_depth=6), np.array([1, 0], dtype=np.uint8))


@pytest.mark.parametrize("kind", ["squares", "newton"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("spread", [20, 4000])
def test_lists_grow_the_tree_that_bits_grow(kind, missing, spread):
    bits, lists = (
        eo.grow(spread_problem(np.random.default_rng(5), kind, k, missing)) for k in (1, spread)
    )
    nodes = bits.tree.nodes
    for name in nodes.dtype.names:
        if not name.startswith("category"):
            np.testing.assert_array_equal(lists.tree.nodes[name], nodes[name], err_msg=name)
    np.testing.assert_array_equal(lists.tree.values, bits.tree.values)
    sets = np.flatnonzero(nodes["category_start"] >= 0)
    assert len(sets) > 8
    assert (nodes["category_limit"] == 0).all()
    limits = lists.tree.nodes["category_limit"][sets]
    assert (limits > 0).any()
    assert (limits < 0).any()
    size = "weight" if kind == "newton" else "n_samples"
    for node in sets:
        known = bits.tree.category_set(node)
        found = lists.tree.category_set(node)
        assert lists.tree.first_unknown(node) == 29 * spread + 1
        np.testing.assert_array_equal(found[found % spread == 0] // spread, known[known < 30])
        # Codes that are nobody's go together, to the child with more known categories.
        left, right = nodes[size][nodes["left"][node]], nodes[size][nodes["right"][node]]
        nobody = np.flatnonzero(np.arange(29 * spread) % spread)
        nobody_left = np.isin(nobody, found)
        assert nobody_left.all() == nobody_left.any()
        if left != right and not missing:
            assert nobody_left.all() == (left > right)


def test_a_split_of_the_missing_from_the_rest_names_no_category():
    codes = np.r_[np.arange(0, 900, 3), np.full(100, np.nan)]
    model = CARTRegressor(categorical_features=[0]).fit(codes[:, None], np.isnan(codes))
    assert model.tree_.n_nodes == 3
    assert model.tree_.nodes["category_words"][0] == len(model.tree_.categories) == 0
    np.testing.assert_array_equal(model.predict(codes[:, None]), np.isnan(codes))


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier, RandomForestRegressor])
def test_sets_shrink_with_their_nodes(cls, splitter):
    rng = np.random.default_rng(1)
    n, q = 4000, 3000
    codes = np.r_[0, q - 1, rng.integers(0, q, n - 2)]
    y = (rng.normal(size=q)[codes] + rng.normal(size=n) > 0).astype(int)
    X = np.column_stack([codes, rng.normal(size=n)]).astype(float)
    extra = {"n_estimators": 2, "random_state": 0} if cls is RandomForestRegressor else {}
    model = cls(
        splitter=splitter, categorical_features=[0], categorical_statistics=False, **extra
    ).fit(X, y)
    trees = model.trees_ if cls is RandomForestRegressor else [model.tree_]
    n_sets = 0
    for tree in trees:
        nodes = tree.nodes[tree.nodes["category_start"] >= 0]
        n_sets += len(nodes)
        assert nodes["category_words"].max() <= q // 32 + 1
        if splitter == "exact":
            # No split names more categories than its smaller side has rows.
            sides = [tree.nodes["n_samples"][nodes[side]] for side in ("left", "right")]
            assert (nodes["category_words"] <= np.minimum(*sides)).all()
        else:
            # The rare categories that share a bin go the same way.
            assert (nodes["category_words"] < 80).all()
    assert n_sets > 2
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
