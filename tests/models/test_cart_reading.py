"""Reading a fitted tree: weights of the training rows, paths, importances, files."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table, whole_weights

import hybridtrees
from hybridtrees import CARTClassifier, CARTRegressor
from hybridtrees.base import NotFittedError

BOTH = pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])


def test_worked_example():
    """Nine observations; one leaf holds the second, third, fifth and ninth and predicts 16."""
    y = np.array([10.0, 18, 24, 8, 2, 9, 16, 10, 20])
    inside = np.array([1, 2, 4, 8])
    X = np.zeros((9, 2))
    X[inside, 0] = 1.0
    X[:, 1] = [0, 0, 0, 1, 0, 1, 0, 1, 0]
    model = CARTRegressor().fit(X, y)
    leaf = model.apply(X[1:2])[0]
    assert np.flatnonzero(model.apply(X) == leaf).tolist() == inside.tolist()
    assert model.predict(X[1:2]).tolist() == [16.0]
    weights = model.leaf_weights(X[1:2])
    expected = np.zeros(9)
    expected[inside] = 0.25
    np.testing.assert_array_equal(weights.toarray()[0], expected)
    assert weights.nnz == 4
    assert (weights @ y).tolist() == [16.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "shape", [{}, {"max_leaf_nodes": 9}, {"ccp_alpha": 0.02}, {"max_depth": 3}]
)
def test_weights_make_up_the_predictions(shape, weighted):
    X, y = smooth_table()
    weight = whole_weights(len(y)) if weighted else None
    if weighted:
        weight[::7] = 0.0
    new = smooth_table(200, seed=4)[0]
    model = CARTRegressor(**shape).fit(X, y, weight)
    weights = model.leaf_weights(new)
    assert weights.shape == (200, len(y)) and weights.has_sorted_indices
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights @ y, model.predict(new), rtol=1e-9)
    if weighted:
        assert not weights[:, ::7].count_nonzero()
    same = model.apply(new)[:, None] == model.apply(X)[None, :]
    if weighted:
        same[:, ::7] = False
    np.testing.assert_array_equal(weights.toarray() > 0, same)
    X, codes = noisy_classes()
    model = CARTClassifier(class_weight="balanced", **shape).fit(X, codes, weight)
    proba = model.leaf_weights(new) @ np.eye(3)[codes]
    np.testing.assert_allclose(proba, model.predict_proba(new), atol=1e-12)
    Y = np.c_[y, -y]
    model = CARTRegressor(**shape).fit(X, Y, weight)
    np.testing.assert_allclose(model.leaf_weights(new) @ Y, model.predict(new), rtol=1e-9)


def test_the_median_has_these_weights():
    X, y = smooth_table()
    model = CARTRegressor(criterion="absolute_error", max_depth=3).fit(X, y)
    for row, prediction in zip(model.leaf_weights(X[:20]), model.predict(X[:20]), strict=True):
        held = y[row.toarray().ravel() > 0]
        assert prediction == pytest.approx(np.median(held))


@BOTH
def test_paths_lead_to_the_leaves(cls):
    X, y = noisy_classes()
    model = cls(max_leaf_nodes=20).fit(X, y)
    path = model.decision_path(X)
    assert path.shape == (len(y), model.tree_.n_nodes)
    leaves = model.apply(X)
    nodes = model.tree_.nodes
    for row in range(0, len(y), 17):
        way = path.indices[path.indptr[row] : path.indptr[row + 1]]
        assert way[0] == 0 and way[-1] == leaves[row]
        np.testing.assert_array_equal(nodes["parent"][way[1:]], way[:-1])
    np.testing.assert_array_equal(np.asarray(path.sum(axis=0)).ravel(), nodes["n_samples"])


@BOTH
def test_nodes_stand_in_preorder(cls):
    X, y = noisy_classes()
    for shape in ({}, {"max_leaf_nodes": 20}, {"ccp_alpha": 0.01}, {"splitter": "hist"}):
        tree = cls(**shape).fit(X, y).tree_
        inner = np.flatnonzero(tree.nodes["left"] >= 0)
        np.testing.assert_array_equal(tree.nodes["left"][inner], inner + 1)
        for side in ("left", "right"):
            np.testing.assert_array_equal(tree.nodes["parent"][tree.nodes[side][inner]], inner)


def test_importances_are_shares_of_the_decrease():
    X, y = smooth_table()
    model = CARTRegressor(max_depth=2).fit(X, y)
    tree = model.tree_
    cost = tree.nodes["weight"] * tree.impurity
    expected = np.zeros(5)
    for node in np.flatnonzero(tree.nodes["left"] >= 0):
        left, right = tree.nodes["left"][node], tree.nodes["right"][node]
        expected[tree.nodes["feature"][node]] += cost[node] - cost[left] - cost[right]
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum())
    assert not CARTRegressor().fit(X, np.ones(len(y))).feature_importances_.any()


@BOTH
@pytest.mark.parametrize("shape", [{}, {"ccp_alpha": "cv", "cv": 3, "random_state": 0}])
def test_copies_say_the_same(cls, shape, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = integer_table(120, missing=0.1)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame["e"] = np.where(y > 4, "high", "low")
    y = y if cls is CARTRegressor else np.where(y > 6, "up", "down")
    model = cls(missing="stop", **shape).fit(frame, y, np.arange(len(y)))
    model.save(tmp_path / "model")
    for other in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        hybridtrees.load(tmp_path / "model"),
    ):
        assert other.get_params() == model.get_params()
        np.testing.assert_array_equal(other.tree_.nodes, model.tree_.nodes)
        np.testing.assert_array_equal(other.tree_.impurity, model.tree_.impurity)
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
        assert (other.leaf_weights(frame) != model.leaf_weights(frame)).nnz == 0
        assert other.summary() == model.summary()
        assert [hasattr(m, "cv_scores_") for m in (other, model)] in ([True] * 2, [False] * 2)


@BOTH
def test_nothing_is_read_before_fit(cls):
    X = np.zeros((2, 2))
    model = cls()
    for call in ("predict", "apply", "decision_path", "leaf_weights"):
        with pytest.raises(NotFittedError):
            getattr(model, call)(X)
    for call in ("get_depth", "get_n_leaves", "summary"):
        with pytest.raises(NotFittedError):
            getattr(model, call)()
    with pytest.raises(NotFittedError):
        _ = model.tree_


def test_the_summary_weighs_the_leaves():
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0.0, 2.0, 10.0, 18.0])
    # Impurities of the leaves: 1 of the weight 2 and 16 of the weight 6.
    text = CARTRegressor(max_depth=1).fit(X, y, [1, 1, 3, 3]).summary()
    assert f"mean of the leaves {(2 * 1 + 6 * 16) / 8:.6g}" in text


def test_summary_says_what_there_is():
    pandas = pytest.importorskip("pandas")
    X, y = smooth_table()
    frame = pandas.DataFrame(X, columns=["one", "two", "three", "four", "five"])
    text = CARTRegressor(max_depth=2).fit(frame, y).summary()
    assert "CARTRegressor: squared_error, exact splits" in text
    assert "rows 300, features 5, outputs 1" in text
    assert "nodes 7, leaves 4, depth 2" in text
    assert "one" in text and "pruned" not in text
    text = CARTClassifier(ccp_alpha="cv", cv_rule="1se").fit(*noisy_classes()).summary()
    assert "classes 3" in text and "rule '1se'" in text and "validation error" in text
    assert "pruned with alpha 0.5" in CARTRegressor(ccp_alpha=0.5).fit(X, y).summary()
    assert "no split" in CARTRegressor().fit(X, np.ones(len(y))).summary()
    wide = np.random.default_rng(0).normal(size=(300, 30))
    assert "and " in CARTRegressor().fit(wide, wide.sum(axis=1)).summary().splitlines()[-1]


def test_probabilities_and_their_logarithms():
    X, y = noisy_classes()
    names = np.array(["a", "b", "c"])[y]
    model = CARTClassifier(max_depth=4).fit(X, names)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba, rtol=1e-14)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    binary = CARTClassifier(max_depth=4).fit(X, y > 0)
    proba = binary.predict_proba(X)
    np.testing.assert_array_equal(binary.predict(X), proba.argmax(axis=1).astype(bool))
    assert model.n_classes_ == 3 and model.n_outputs_ == 1
