"""Trees and ensembles as containers: building, taking apart, pickling, refusing damage."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_tree

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.tree import Tree, TreeEnsemble


def small_tree():
    """x0 <= 1.5, and on the right x1 in {0, 2}: three leaves."""
    nodes = np.zeros(5, dtype=NODE_DTYPE)
    nodes["left"] = [1, -1, 3, -1, -1]
    nodes["right"] = [2, -1, 4, -1, -1]
    nodes["parent"] = [-1, 0, 0, 2, 2]
    nodes["feature"] = [0, -1, 1, -1, -1]
    nodes["depth"] = [0, 1, 1, 2, 2]
    nodes["threshold"][0] = 1.5
    nodes["category_start"] = [-1, -1, 0, -1, -1]
    nodes["category_words"][2] = 1
    return Tree(nodes, [0.0, 1.0, 0.0, 2.0, 3.0], np.array([0b101], dtype=np.uint32))


def mixed_trees(rng):
    """Trees with and without category sets and linear leaves."""
    kinds = [{}, {"categorical": (0, 2)}, {"linear": 0.8}, {"categorical": (1,), "linear": 0.5}]
    return [
        random_tree(rng, size, 4, **kind) for size, kind in zip([9, 70, 40, 25], kinds, strict=True)
    ]


def same(a: Tree, b: Tree):
    for name in (
        "nodes",
        "values",
        "categories",
        "coef_ptr",
        "coef_feature",
        "coef",
        "coef_center",
        "coef_low",
        "coef_high",
    ):
        one, other = getattr(a, name), getattr(b, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)


def predictions(ensemble, X):
    raw = np.zeros((len(X), ensemble.n_outputs))
    ensemble.add_raw(X, raw, 1)
    return raw


# ---- building -----------------------------------------------------------------------------------


def test_a_tree_knows_its_size():
    tree = small_tree()
    assert (tree.n_nodes, tree.n_leaves, tree.depth) == (5, 3, 2)
    assert tree.values.shape == (5, 1)
    assert tree.category_set(2).tolist() == [0, 2]
    assert tree.coef_ptr.tolist() == [0] * 6
    X = np.array([[1.5, 9], [1.6, 0], [2, 1], [2, 2], [np.nan, 2], [9, np.nan]])
    ensemble = TreeEnsemble([tree], 2)
    assert ensemble.apply(X, 1)[:, 0].tolist() == [1, 3, 4, 3, 3, 4]
    assert predictions(ensemble, X)[:, 0].tolist() == [1, 2, 3, 2, 2, 3]


def test_category_sets_of_many_words():
    tree = small_tree()
    tree.categories = np.array([7, 1, 0, 1 << 31, 1], dtype=np.uint32)
    tree.nodes["category_start"][2], tree.nodes["category_words"][2] = 1, 3
    assert tree.category_set(2).tolist() == [0, 95]


def test_ensembles_count_their_trees(rng):
    trees = mixed_trees(rng)
    ensemble = TreeEnsemble(trees, 4)
    assert len(ensemble) == ensemble.n_trees == 4
    assert ensemble.tree_start.tolist() == np.cumsum([0] + [t.n_nodes for t in trees]).tolist()
    with pytest.raises(ValueError, match="at least one tree"):
        TreeEnsemble([], 4)


def test_trees_can_be_taken_out_and_put_back(rng):
    trees = mixed_trees(rng)
    ensemble = TreeEnsemble(trees, 4)
    for k in range(4):
        same(ensemble[k], trees[k])
        same(ensemble[k - 4], trees[k])
    for bad in (4, -5):
        with pytest.raises(IndexError):
            ensemble[bad]
    again = TreeEnsemble([ensemble[k] for k in (3, 1)], 4)
    X = np.abs(10 * rng.normal(size=(80, 4)))
    np.testing.assert_allclose(predictions(again, X), oracle.predict([trees[3], trees[1]], X))


def test_an_ensemble_does_not_share_memory_with_its_trees(rng):
    trees = mixed_trees(rng)
    ensemble = TreeEnsemble(trees, 4)
    before = copy.deepcopy(trees)
    ensemble.nodes["category_start"] += 1
    ensemble.values[:] = 0
    for tree, old in zip(trees, before, strict=True):
        same(tree, old)


@pytest.mark.parametrize("clone", ["pickle", "deepcopy", "state"])
def test_round_trips(rng, clone):
    trees = mixed_trees(rng)
    ensemble = TreeEnsemble(trees, 4, 2, [0, 1, 1, 0])
    X = np.abs(10 * rng.normal(size=(80, 4)))
    expected = predictions(ensemble, X)
    if clone == "pickle":
        other = pickle.loads(pickle.dumps(ensemble))
    elif clone == "deepcopy":
        other = copy.deepcopy(ensemble)
    else:
        state = ensemble.to_state()
        assert "_plans" not in state
        other = TreeEnsemble.from_state(state)
    np.testing.assert_array_equal(predictions(other, X), expected)
    np.testing.assert_array_equal(other.apply(X, 1), ensemble.apply(X, 1))
    for k in range(4):
        same(other[k], trees[k])
        same(pickle.loads(pickle.dumps(trees[k])), trees[k])


def test_read_only_arrays_predict(rng):
    # As they come from a memory map.
    trees = mixed_trees(rng)
    ensemble = TreeEnsemble(trees, 4)
    for value in vars(ensemble).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    X = rng.normal(size=(70, 4))
    np.testing.assert_allclose(predictions(ensemble, X), oracle.predict(trees, X))


# ---- refusals -----------------------------------------------------------------------------------


def damaged_state(**changes):
    """The state of an ensemble of two small trees, with arrays replaced."""
    state = TreeEnsemble([small_tree(), small_tree()], 2).to_state()
    state = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}
    for name, change in changes.items():
        state[name] = change(state[name])
    return state


def put(field, node, value):
    """A change of one field of one node."""

    def change(nodes):
        nodes[field][node] = value
        return nodes

    return change


DAMAGE = {
    "child beyond the tree": {"nodes": put("left", 0, 5)},
    "child far away": {"nodes": put("right", 7, 2**31 - 1)},
    "own child": {"nodes": put("left", 2, 2)},
    "child before its parent": {"nodes": put("right", 2, 1)},
    "same child twice": {"nodes": put("left", 0, 2)},
    "child of two": {"nodes": put("right", 0, 3)},
    "no right child": {"nodes": put("right", 0, -1)},
    "no left child": {"nodes": put("right", 1, 3)},
    "split became a leaf": {"nodes": put("left", 5, -1)},
    "leaf became a split": {"nodes": put("left", 1, 3)},
    "feature too large": {"nodes": put("feature", 0, 2)},
    "feature negative": {"nodes": put("feature", 2, -1)},
    "set beyond the words": {"nodes": put("category_start", 2, 3)},
    "set of no words": {"nodes": put("category_words", 2, 0)},
    "set of negative length": {"nodes": put("category_words", 2, -5)},
    "set that overflows": {"nodes": put("category_words", 2, 2**31 - 1)},
    "threshold": {"nodes": put("threshold", 0, np.nan)},
    "direction of missing values": {"nodes": put("missing_left", 0, 3)},
    "direction of missing categories": {"nodes": put("missing_left", 2, 127)},
    "depth too small": {"nodes": put("depth", 3, 0)},
    "depth negative": {"nodes": put("depth", 8, -3)},
    "parent of another": {"nodes": put("parent", 3, 0)},
    "own parent": {"nodes": put("parent", 2, 2)},
    "parents in a circle": {"nodes": put("parent", 0, 4)},
    "set of a leaf": {"nodes": put("category_start", 1, 0)},
    "no features": {"n_features": lambda n: -1},
    "half a feature": {"n_features": lambda n: 2.5},
    "no outputs": {"n_outputs": lambda n: 0},
    "too many outputs": {"n_outputs": lambda n: 2**62},
    "nodes of another machine": {"nodes": lambda a: a.astype(a.dtype.newbyteorder())},
    "trees do not cover the nodes": {"tree_start": lambda a: a[:-1]},
    "trees start late": {"tree_start": lambda a: a + 1},
    "trees overlap": {"tree_start": lambda a: np.array([0, 7, 10])},
    "empty tree": {"tree_start": lambda a: np.array([0, 5, 5, 10])},
    "no trees": {"tree_start": lambda a: a[:0]},
    "differences of starts overflow": {
        "tree_start": lambda a: np.array([0, 2**63 - 1, -(2**63), -1, 10])
    },
    "starts run backwards": {"tree_start": lambda a: np.array([0, 12, 10])},
    "values missing": {"values": lambda a: a[:-1]},
    "two values for one output": {"values": lambda a: np.hstack([a, a])},
    "outputs missing": {"tree_output": lambda a: a[:1]},
    "output too large": {"tree_output": lambda a: a + 1},
    "output negative": {"tree_output": lambda a: a - 1},
    "pointers missing": {"coef_ptr": lambda a: a[:-1]},
    "pointers beyond the terms": {"coef_ptr": lambda a: a + np.arange(len(a))},
    "pointers start late": {"coef_ptr": lambda a: a + 1},
    "terms without coefficients": {"coef_feature": lambda a: np.zeros(3, dtype=np.int32)},
    "nodes of another type": {"nodes": lambda a: a.astype([(n, "f8") for n in a.dtype.names])},
    "values of another type": {"values": lambda a: a.astype(np.float32)},
    "values of one dimension": {"values": lambda a: a[:, 0].copy()},
    "sets of another type": {"categories": lambda a: a.astype(np.int64)},
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused(kind):
    state = damaged_state(**DAMAGE[kind])
    with pytest.raises(ValueError):
        TreeEnsemble.from_state(state)
    with pytest.raises(ValueError):
        TreeEnsemble.__new__(TreeEnsemble).__setstate__(state)


@pytest.mark.parametrize(
    "change", ["pointer back", "feature too large", "feature negative", "centre"]
)
def test_damaged_linear_leaves_are_refused(rng, change):
    ensemble = TreeEnsemble([random_tree(rng, 8, 3, linear=1)], 3)
    if change == "pointer back":
        leaf = np.flatnonzero(np.diff(ensemble.coef_ptr))[1]
        ensemble.coef_ptr[leaf] += 100
    elif change == "centre":
        ensemble.coef_center = ensemble.coef_center[:-1]
    else:
        ensemble.coef_feature[-1] = 3 if change == "feature too large" else -1
    with pytest.raises(
        ValueError, match="coef_center of" if change == "centre" else "linear leaves"
    ):
        predictions(ensemble, np.zeros((9, 3)))


@given(st.data())
def test_no_damage_crashes(data):
    """Any bytes in any node: an error or a prediction, never a walk into the wild."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    n_leaves = data.draw(st.sampled_from([2, 20, 50, 80]))
    ensemble = TreeEnsemble([random_tree(rng, n_leaves, 3, categorical=(1,))] * 2, 3)
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.integers(0, len(ensemble.nodes) - 1))
        byte = data.draw(st.integers(0, NODE_DTYPE.itemsize - 1))
        ensemble.nodes.view(np.uint8)[node * NODE_DTYPE.itemsize + byte] = data.draw(
            st.integers(0, 255)
        )
    X = 40 * rng.normal(size=(70, 3))
    X[::7] = np.nan
    try:
        raw = predictions(ensemble, X)
    except ValueError:
        return
    leaves = ensemble.apply(X, 1)
    starts = ensemble.tree_start[:-1]
    expected = (
        ensemble.values[starts[0] + leaves[:, 0], 0] + ensemble.values[starts[1] + leaves[:, 1], 0]
    )
    np.testing.assert_array_equal(raw[:, 0], expected)


def test_an_ensemble_without_spare_words_predicts():
    # A file may hold no category words at all where no split needs them.
    tree = small_tree()
    tree.nodes["category_start"] = -1
    state = TreeEnsemble([tree], 2).to_state()
    state["categories"] = np.zeros(0, dtype=np.uint32)
    X = np.ones((70, 2))
    assert set(predictions(TreeEnsemble.from_state(state), X)[:, 0]) == {1.0}


@pytest.mark.parametrize("n_rows", [2, 70])
def test_calls_that_do_not_fit_are_refused(n_rows):
    ensemble = TreeEnsemble([small_tree(), small_tree()], 2)
    X, raw = np.ones((n_rows, 2)), np.zeros((n_rows, 1))
    with pytest.raises(ValueError, match="do not fit the trees"):
        ensemble.add_raw(X[:, :1], raw, 1)
    with pytest.raises(ValueError, match="do not fit the trees"):
        ensemble.add_raw(X, np.zeros((n_rows, 2)), 1)
    with pytest.raises(ValueError, match="do not fit the trees"):
        ensemble.add_raw(X, raw[:-1], 1)
    for first, last in [(-1, 1), (0, 3), (2, 1)]:
        with pytest.raises(ValueError, match="do not exist"):
            ensemble.add_raw(X, raw, 1, first, last)
        with pytest.raises(ValueError):
            ensemble.apply(X, 1, first, last)
    with pytest.raises(ValueError):
        ensemble.add_raw(X.astype(np.int64), raw, 1)
    with pytest.raises(ValueError):
        ensemble.add_raw(X.astype(">f8"), raw, 1)
    with pytest.raises(ValueError):
        ensemble.add_raw(X[:, 0], raw, 1)
    frozen = raw.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError):
        ensemble.add_raw(X, frozen, 1)
    assert not raw.any()


def test_trees_grown_just_now_predict_the_same_and_skip_the_checks():
    rng = np.random.default_rng(5)
    trees, X = mixed_trees(rng), rng.uniform(0, 3, size=(50, 4))
    grown = TreeEnsemble(trees, 4, grown=True)
    np.testing.assert_array_equal(predictions(grown, X), predictions(TreeEnsemble(trees, 4), X))
    # What comes from a file, or was changed since, is checked whatever it was.
    damaged = pickle.loads(pickle.dumps(grown))
    damaged.nodes["feature"][0] = 9
    with pytest.raises(ValueError, match="feature that does not exist"):
        predictions(damaged, X)
