"""Packed trees: the same trees in less memory, and no damage that leads a walk astray."""

from __future__ import annotations

import pickle

import forest_oracle as oracle
import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table

import hybridtrees
from hybridtrees import CARTClassifier, CARTRegressor
from hybridtrees.core.tree._walk import count_met, group_rows, leaf_quantiles
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.packing import NARROW_DTYPE, WIDE_DTYPE, pack_tree
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor

MODELS = {
    "one value": lambda X, y: RandomForestRegressor(4, random_state=0).fit(X, y),
    "two values": lambda X, y: RandomForestRegressor(4, random_state=0).fit(X, np.c_[y, -y]),
    "two classes": lambda X, y: RandomForestClassifier(4, random_state=0).fit(X, y > 3),
    "classes": lambda X, y: RandomForestClassifier(4, random_state=0).fit(
        X, np.digitize(y, [2, 6])
    ),
    "stops": lambda X, y: RandomForestRegressor(4, missing="stop", random_state=0).fit(X, y),
    "medians": lambda X, y: RandomForestRegressor(
        3, criterion="absolute_error", random_state=0
    ).fit(X, y),
    "categories": lambda X, y: RandomForestRegressor(
        4, categorical_features=[0, 1], random_state=0
    ).fit(X, y),
    "stops and categories": lambda X, y: RandomForestRegressor(
        4, categorical_features=[0, 1], missing="stop", random_state=0
    ).fit(X, y),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


def fitted(name):
    X, y = integer_table(150, missing=0.1)
    return MODELS[name](X, y), X


def said(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@EVERY_MODEL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_walks_agree_with_the_trees(name, dtype, order):
    model, X = fitted(name)
    X = np.asarray(X, dtype=dtype, order=order)
    np.testing.assert_array_equal(model.apply(X), oracle.leaves(model, X))
    mean = oracle.values(model, X).mean(axis=0)
    prediction = said(model, X)
    np.testing.assert_allclose(prediction.reshape(len(X), -1), mean, rtol=1e-12, atol=1e-12)
    expanded = model.trees_.expand()
    raw = np.zeros((len(X), expanded.n_outputs))
    expanded.add_raw(model._read_features(X), raw, 1)
    np.testing.assert_allclose(raw / len(model.trees_), mean, rtol=1e-12, atol=1e-12)


@EVERY_MODEL
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
def test_many_rows_end_where_each_of_them_does(rng, name, dtype, missing):
    model, X = fitted(name)
    if not missing:
        X = np.nan_to_num(X, nan=7.0)
    X[:3] = [[3, 5, -1e30, 5], [4, 6, 1e30, 1e30], [0, 59, 0, 59]]
    expected = oracle.leaves(model, X)
    # Several tiles, the last of them not full; runs of equal rows leave branches empty.
    rows = np.concatenate([rng.integers(0, len(X), 4500), np.full(700, 2)])
    many = np.ascontiguousarray(X[rows], dtype=dtype)
    for n_jobs in (1, 3):
        model.n_jobs = n_jobs
        np.testing.assert_array_equal(model.apply(many), expected[rows])
        # The sums run over the trees in their order, whatever stands around a row.
        np.testing.assert_array_equal(said(model, many), said(model, X.astype(dtype))[rows])


def test_chunks_cover_all_rows():
    X, y = smooth_table(300)
    model = RandomForestRegressor(2, random_state=0).fit(X, y)
    expected = model.apply(X)
    for n_rows in (1, 2, 3, 5, 16, 17, 300):
        for n_jobs in (1, 2, 4, 7):
            found = model.trees_.apply(np.ascontiguousarray(X[:n_rows]), n_jobs)
            np.testing.assert_array_equal(found, expected[:n_rows])


@EVERY_MODEL
def test_files_and_pickles(name, tmp_path):
    model, X = fitted(name)
    expected = said(model, X)
    model.save(tmp_path / "forest")
    for copy in (pickle.loads(pickle.dumps(model)), hybridtrees.load(tmp_path / "forest")):
        np.testing.assert_array_equal(said(copy, X), expected)
        np.testing.assert_array_equal(copy.apply(X), model.apply(X))
        np.testing.assert_array_equal(copy.trees_[1].nodes, model.trees_[1].nodes)


@pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])
@pytest.mark.parametrize("detailed", [False, True])
def test_a_tree_comes_back(cls, detailed):
    X, y = noisy_classes(200, 3)
    tree = cls(min_samples_leaf=2, splitter="exact").fit(X, y).tree_
    criterion, n_classes = ("gini", 3) if cls is CARTClassifier else ("squared_error", 0)
    packed = PackedTrees([pack_tree(tree, tree.values, detailed)], 5, criterion, n_classes)
    back = packed[0]
    for field in tree.nodes.dtype.names:
        if field == "gain":
            np.testing.assert_allclose(back.nodes["gain"], tree.nodes["gain"], 1e-6, 1e-6)
        elif field != "bin":
            np.testing.assert_array_equal(back.nodes[field], tree.nodes[field], err_msg=field)
    np.testing.assert_allclose(back.values, tree.values, atol=1e-12)
    assert packed[-1].n_nodes == tree.n_nodes
    with pytest.raises(IndexError):
        packed[1]


def test_thresholds_keep_their_digits():
    X = np.array([[0.1], [0.2], [0.3]]) + 1e-12
    model = RandomForestRegressor(
        2, bootstrap=False, splitter="exact", min_samples_leaf=1, max_features=None
    ).fit(X, [0.0, 1.0, 2.0])
    assert model.trees_.nodes.dtype == WIDE_DTYPE
    assert set(model.trees_[0].nodes["threshold"][model.trees_[0].nodes["left"] >= 0]) == set(
        CARTRegressor().fit(X, [0.0, 1.0, 2.0]).tree_.nodes["threshold"][[0, 2]]
    )
    whole = RandomForestRegressor(2, random_state=0).fit(np.arange(40.0)[:, None], np.arange(40.0))
    assert whole.trees_.nodes.dtype == NARROW_DTYPE


def test_narrow_and_wide_trees_side_by_side():
    X, y = smooth_table(60)
    narrow = CARTRegressor().fit(np.round(X), y).tree_
    wide = CARTRegressor().fit(X + 1e-9, y).tree_
    trees = [pack_tree(tree, tree.values) for tree in (narrow, wide)]
    assert [tree.nodes.dtype for tree in trees] == [NARROW_DTYPE, WIDE_DTYPE]
    joined = PackedTrees(trees, 5, "squared_error")
    first = PackedTrees(trees[:1], 5, "squared_error")
    longer = first.extended(PackedTrees(trees[1:], 5, "squared_error"))
    for forest in (joined, longer):
        np.testing.assert_array_equal(forest[0].nodes["threshold"], narrow.nodes["threshold"])
        np.testing.assert_array_equal(forest[1].nodes["threshold"], wide.nodes["threshold"])
        leaf = wide.nodes["left"] < 0
        np.testing.assert_array_equal(forest[1].values[leaf], wide.values[leaf])


def test_memory_of_a_deep_forest():
    sklearn = pytest.importorskip("sklearn.ensemble")
    X, y = smooth_table(3000)
    mine = RandomForestRegressor(5, min_samples_leaf=1, random_state=0).fit(X, y)
    peer = sklearn.RandomForestRegressor(5, max_features=1 / 3, random_state=0).fit(X, y)
    assert len(pickle.dumps(mine)) < 0.4 * len(pickle.dumps(peer))


@EVERY_MODEL
def test_no_damage_crashes(name):
    model, X = fitted(name)
    state = model.trees_.to_state()
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(120):
        damaged = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        part = ["nodes", "tree_start", "sets", "nodes", "table"][rng.integers(5)]
        raw = damaged[part].view(np.uint8).reshape(-1)
        if not len(raw):
            continue
        raw[rng.integers(len(raw), size=3)] = rng.integers(256, size=3)
        try:
            forest = PackedTrees.from_state(damaged)
            forest.add_raw(X, np.zeros((len(X), forest.n_values)), 1)
            with np.errstate(all="ignore"):  # a damaged value may be any number
                forest[0]
        except (ValueError, MemoryError, IndexError):
            seen += 1
    assert seen > 10
    for change in (
        {"n_features": 1},
        {"nodes": state["nodes"][:-1]},
        {"weight": state["weight"][1:]},
        {"nodes": np.zeros(5)},
        {"n_values": 9},
        {"sets": state["sets"][:0]},
        {"n_samples": -state["n_samples"].astype(np.int64)},
        {"n_samples": state["n_samples"][:, None]},
        {"weight": state["weight"] * np.nan},
        {"gain": np.zeros(1, dtype=np.float32)},
        {"criterion": "none"},
        {"n_classes": 7},
        {"nodes": state["nodes"].astype(state["nodes"].dtype.newbyteorder())},
    ):
        with pytest.raises(ValueError):
            PackedTrees.from_state({**state, **change})


@EVERY_MODEL
def test_rows_that_stop_need_values_to_stop_at(name):
    model, X = fitted(name)
    state = model.trees_.to_state()
    state["nodes"] = state["nodes"].copy()
    inner = state["nodes"]["feature"] >= 0
    state["nodes"]["feature"][inner] |= 2**29
    if model.trees_.by_node:
        assert np.isfinite(PackedTrees.from_state(state).node_values(0)).all()
    else:
        with pytest.raises(ValueError, match="rows stop at an inner node"):
            PackedTrees.from_state(state)


@EVERY_MODEL
def test_a_forest_of_leaves_only_is_refused(name):
    model, _ = fitted(name)
    state = model.trees_.to_state()
    state["nodes"] = state["nodes"].copy()
    state["nodes"]["feature"] = -1
    with pytest.raises(ValueError, match="impossible"):
        PackedTrees.from_state(state)


def test_groups_of_rows():
    leaf = np.array([2, -1, 0, 2, 5, 0], dtype=np.int32)
    start, rows = np.empty(7, dtype=np.int64), np.empty(5, dtype=np.uint32)
    assert group_rows(leaf, start, rows) == 5
    assert start.tolist() == [0, 2, 2, 4, 4, 4, 5]
    assert rows.tolist() == [2, 5, 0, 3, 4]
    with pytest.raises(ValueError, match="but there are 3 nodes"):
        group_rows(leaf, start[:4], rows)
    with pytest.raises(ValueError, match="too short"):
        group_rows(leaf, start, rows[:3])


def test_segments_are_checked():
    first, last = np.zeros((1, 1), dtype=np.int64), np.full((1, 1), 9, dtype=np.int64)
    rows, n_met = np.zeros(3, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="segment is out of range"):
        count_met(first, last, rows, 4, n_met, 1)
    with pytest.raises(ValueError, match="row is out of range"):
        count_met(first, np.ones_like(last), rows + 7, 4, n_met, 1)
    with pytest.raises(ValueError, match="wrong length"):
        leaf_quantiles(
            first, np.ones_like(last), rows, np.ones(2), np.ones(4), np.array([0.5]),
            np.zeros((1, 1)), 1,
        )  # fmt: skip
