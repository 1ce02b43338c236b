"""Where does a value go? Every walk down a tree against one table of cases.

The contract stands in core/base/_category_sets.pxd.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
from strategies import random_tree

import hybridtrees as ht
from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.packing import pack_tree
from hybridtrees.core.tree.tree import TreeEnsemble, pack_categories
from hybridtrees.core.tree.walk import add_grown, find_leaves

LEFT, RIGHT, MISSING = 1, 0, None
THRESHOLD = 1.5
INFINITY = np.inf

# Value at a split `x <= 1.5`, and its side.
NUMBERS = [
    (1.5, LEFT),
    (np.nextafter(np.float32(1.5), np.float32(2)), RIGHT),
    (np.nextafter(np.float32(1.5), np.float32(1)), LEFT),
    (0.0, LEFT),
    (-0.0, LEFT),
    (-INFINITY, LEFT),
    (INFINITY, RIGHT),
    (np.nan, MISSING),
]

# Code at a split of 40 categories or 400 of which the multiples of 3 go left, and its side. The
# first set is made of 64 bits; the others are lists, of the codes on one side.
N_CATEGORIES = {"bits": 40, "left_list": 400, "right_list": 400}
CODES = [
    (0.0, LEFT),
    (1.0, RIGHT),
    (33.0, LEFT),
    (34.0, RIGHT),
    (36.5, LEFT),  # a fraction is cut off
    (-0.5, MISSING),
    (-1.0, MISSING),
    (1e9, MISSING),
    (2.0**31, MISSING),
    (INFINITY, MISSING),
    (np.nan, MISSING),
]
# The first code beyond the set.
END = {"bits": 64.0, "left_list": 400.0, "right_list": 400.0}

SPLITS = ["number", *N_CATEGORIES]


def stump(split, missing_left):
    """A tree of one split, whose leaves have the values 1 (left) and 2; the root has 3."""
    tree = random_tree(np.random.default_rng(0), 2, 1)
    nodes = tree.nodes
    nodes["left"][0], nodes["right"][0], nodes["threshold"][0] = 1, 2, THRESHOLD
    nodes["missing_left"][0] = missing_left
    nodes["n_samples"], nodes["weight"] = [2, 1, 1], [2, 1, 1]
    nodes["category_start"][0], words, limit = -1, np.zeros(0, dtype=np.uint32), 0
    if split != "number":
        goes_left = np.arange(N_CATEGORIES[split]) % 3 == 0
        words, limit = pack_categories(goes_left, False)
        if split != "bits":
            sides = goes_left if split == "left_list" else ~goes_left
            words = np.flatnonzero(sides).astype(np.uint32)
            limit = len(goes_left) if split == "left_list" else -len(goes_left)
        nodes["category_start"][0], nodes["category_words"][0] = 0, len(words)
        nodes["category_limit"][0] = limit
    values = np.array([[3.0], [1.0], [2.0]])
    return replace(tree, categories=words, values=values)


# ---- the walks: each returns the node where every row of a table ends -----------------------


def by_oracle(tree, X):
    return oracle.leaves([tree], X)[:, 0]


def by_ensemble(tree, X):
    return TreeEnsemble([tree], 1).apply(X, 1)[:, 0]


def by_walk(tree, X):
    return find_leaves(TreeEnsemble([tree], 1), X, 1)


def _node_of(values):
    return np.select([values == 1.0, values == 2.0, values == 3.0], [1, 2, 0], -1)


def by_quickscorer(tree, X):
    # Many rows at a time are scored by bit masks, unless rows may stop.
    many = np.repeat(X, 300, axis=0)
    raw = np.zeros((len(many), 1))
    TreeEnsemble([tree], 1).add_raw(many, raw, 1)
    assert (raw.reshape(len(X), 300) == raw[::300]).all()
    return _node_of(raw[::300, 0])


def by_single_rows(tree, X):
    raw = np.zeros((len(X), 1))
    for row in range(len(X)):
        TreeEnsemble([tree], 1).add_raw(X[row : row + 1], raw[row : row + 1], 1)
    return _node_of(raw[:, 0])


def by_grown(tree, X):
    raw = np.zeros((len(X), 2))
    add_grown([tree, tree], X, raw, 1)
    assert (raw[:, 0] == raw[:, 1]).all()
    return _node_of(raw[:, 0])


def _packed(tree):
    return PackedTrees([pack_tree(tree, tree.values, True)], 1, "squared_error", 0)


def by_packed_apply(tree, X):
    return _packed(tree).apply(X, 1)[:, 0]


def by_packed_values(tree, X):
    raw = np.zeros((len(X), 1))
    _packed(tree).add_raw(X, raw, 1)
    return _node_of(raw[:, 0])


def by_many_packed(tree, X):
    # Many rows at a time are divided node by node, instead of walking one by one.
    many = _packed(tree).apply(np.repeat(X, 300, axis=0), 1)[:, 0].reshape(len(X), 300)
    assert (many == many[:, :1]).all()
    return many[:, 0]


def by_packed_rows(tree, X):
    rows = np.arange(len(X), dtype=np.uint32)
    return np.asarray(_packed(tree).walk(0, np.ascontiguousarray(X), rows))


def by_wide_packed(tree, X):
    # A threshold that float32 does not have makes the nodes wide.
    nodes = tree.nodes.copy()
    if nodes["category_start"][0] < 0:
        nodes["threshold"][0] = np.nextafter(THRESHOLD, 2)
    return by_packed_apply(replace(tree, nodes=nodes), X)


WALKS = [by_oracle, by_ensemble, by_walk, by_quickscorer, by_single_rows, by_grown, by_packed_apply,
         by_packed_values, by_many_packed, by_packed_rows, by_wide_packed]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing_left", [0, 1, int(Limit.MISSING_STAYS)])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_every_walk_follows_the_table(walk, split, missing_left, dtype):
    cases = NUMBERS if split == "number" else [*CODES, (END[split], MISSING)]
    X = np.array([[value] for value, _ in cases], dtype=dtype)
    missing = {0: 2, 1: 1, Limit.MISSING_STAYS: 0}[missing_left]
    expected = [missing if side is MISSING else 2 - side for _, side in cases]
    assert walk(stump(split, missing_left), X).tolist() == expected


# ---- growth: rows go in training where they go in prediction --------------------------------

CATEGORY, HOLED, WHOLE = range(3)


def table(rng, n=700):
    """A column of categories, one with missing values, one without; the category matters most."""
    X = rng.normal(size=(n, 3))
    X[:, CATEGORY] = np.floor(12 * rng.random(n) ** 2)
    X[rng.random(n) < 0.2, HOLED] = np.nan
    effect = rng.normal(size=12)
    holed = np.nan_to_num(X[:, HOLED], nan=0.7)
    return X, 3 * effect[X[:, CATEGORY].astype(int)] + holed + X[:, WHOLE] ** 2


SHARED = {"categorical_features": [CATEGORY], "random_state": 0}
GROWN = {
    "cart": ht.CARTRegressor(max_depth=6, **SHARED),
    "cart_hist": ht.CARTRegressor(max_depth=6, splitter="hist", **SHARED),
    "cart_stop": ht.CARTRegressor(max_depth=6, missing="stop", **SHARED),
    "forest": ht.RandomForestRegressor(3, max_depth=7, bootstrap=False, **SHARED),
    "linear_tree": ht.LinearTreeRegressor(max_depth=4, **SHARED),
    "xgb": ht.XGBRegressor(n_estimators=3, max_depth=5, **SHARED),
    "xgb_exact": ht.XGBRegressor(n_estimators=3, max_depth=5, tree_method="exact", **SHARED),
    "xgb_approx": ht.XGBRegressor(n_estimators=3, max_depth=5, tree_method="approx", **SHARED),
    "plgb": ht.PLGBRegressor(n_estimators=3, max_leaves=12, **SHARED),
    "boosting": ht.GradientBoostingRegressor(
        n_estimators=3, splitter="exact", categorical_features=[CATEGORY], random_state=0
    ),
}


def trees_of(model):
    trees = model.trees_ if hasattr(model, "trees_") else model._trees
    return list(trees)


@pytest.mark.parametrize("name", GROWN)
def test_training_rows_end_where_predictions_do(rng, name):
    X, y = table(rng)
    model = GROWN[name].fit(X, y)
    for tree, ended in zip(trees_of(model), oracle_leaves(model, X), strict=True):
        reached = np.zeros(tree.n_nodes, dtype=np.int64)
        for node in ended:
            while node >= 0:
                reached[node] += 1
                node = tree.nodes["parent"][node]
        np.testing.assert_array_equal(tree.nodes["n_samples"], reached)


def oracle_leaves(model, X):
    # Codes of categories are as the model has read them: here the numbers from 0 on.
    return oracle.leaves(trees_of(model), X).T


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_rows_of_a_round_and_others_get_their_predictions(rng, splitter, subsample):
    # The scores of training rows come from the partition of the growth, those of rows that were
    # not drawn from a walk by bins or numbers.
    X, y = table(rng)
    model = ht.GradientBoostingRegressor(
        n_estimators=8, splitter=splitter, subsample=subsample, random_state=0,
        categorical_features=[CATEGORY],
    ).fit(X, y, eval_set=[(X, y)])  # fmt: skip
    stages = [np.mean((y - stage) ** 2) for stage in model.staged_predict(X)]
    np.testing.assert_allclose(model.evals_result_["validation_0"]["loss"], stages, rtol=1e-9)
    if subsample == 1:
        np.testing.assert_allclose(model.train_score_, stages, rtol=1e-9)
    else:
        # Both parts are means of the same errors: the whole lies between them.
        ends = np.sort([model.train_score_, model.oob_scores_], axis=0)
        assert np.all(ends[0] <= np.array(stages) * (1 + 1e-9))
        assert np.all(ends[1] >= np.array(stages) * (1 - 1e-9))


# ---- what a node has not seen follows its larger child --------------------------------------

STUMPS = {
    "cart": ht.CARTRegressor(max_depth=1, **SHARED),
    "cart_hist": ht.CARTRegressor(max_depth=1, splitter="hist", **SHARED),
    "linear_tree": ht.LinearTreeRegressor(max_depth=1, min_samples_leaf=20, **SHARED),
    "xgb": ht.XGBRegressor(n_estimators=1, max_depth=1, **SHARED),
    "xgb_exact": ht.XGBRegressor(n_estimators=1, max_depth=1, tree_method="exact", **SHARED),
    "plgb": ht.PLGBRegressor(n_estimators=1, max_leaves=2, **SHARED),
}


@pytest.mark.parametrize("on_codes", [True, False], ids=["codes", "numbers"])
@pytest.mark.parametrize("few_left", [True, False])
@pytest.mark.parametrize("name", STUMPS)
def test_unseen_values_follow_the_larger_child(rng, name, on_codes, few_left):
    n = 400
    X = rng.normal(size=(n, 2))
    # No row has the codes 3 and 4, and none lacks a value.
    X[:, CATEGORY] = rng.choice([0, 1, 2, 5], n)
    small = (X[:, CATEGORY] == 1) if on_codes else X[:, 1] > np.quantile(X[:, 1], 0.8)
    y = np.where(small == few_left, -4.0, 4.0) + 0.01 * rng.normal(size=n)
    model = STUMPS[name].fit(X, y)
    (tree,) = trees_of(model)
    sizes = tree.nodes["n_samples"][[tree.nodes["left"][0], tree.nodes["right"][0]]]
    larger = tree.nodes["left" if sizes[0] > sizes[1] else "right"][0]
    strange = np.array([3.0, 4.0, 99.0, np.nan]) if on_codes else np.array([np.nan])
    Z = np.zeros((len(strange), 2))
    Z[:, CATEGORY if on_codes else 1] = strange
    assert (oracle.leaves([tree], Z)[:, 0] == larger).all()
