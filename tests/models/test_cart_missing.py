"""Missing values in single trees: a learned side, the larger child, or no further."""

from __future__ import annotations

import numpy as np
import pytest
from cart_data import integer_table, whole_weights
from cart_oracle import Oracle
from sklearn_trees import assert_same_up_to_ties

from hybridtrees import CARTClassifier, CARTRegressor
from hybridtrees.core.tree.pruning import branch_sizes

NAN = np.nan


def small_table(n=50, missing=0.25, seed=0):
    X, y = integer_table(n, missing=missing, seed=seed)
    return X[:, :3], y


@pytest.mark.parametrize("missing", ["learn", "stop"])
@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
def test_regressor_equals_the_slow_one(criterion, missing):
    for seed in range(4):
        X, y = small_table(seed=seed)
        y = np.abs(y)
        weight = whole_weights(len(y)) if seed % 2 else None
        model = CARTRegressor(criterion=criterion, missing=missing, min_samples_leaf=3)
        model.fit(X, y, weight)
        tree, leaf = Oracle(
            criterion, missing=missing, min_samples_leaf=3, min_samples_split=6
        ).fit(X, y[:, None], weight)
        compared = assert_same_up_to_ties(model.tree_, tree, X)
        if compared == tree.n_nodes:
            np.testing.assert_array_equal(model._train_leaves, leaf)


@pytest.mark.parametrize("missing", ["learn", "stop"])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "misclassification"])
def test_classifier_equals_the_slow_one(criterion, missing):
    for seed in range(4):
        X, y = small_table(seed=seed)
        codes = np.digitize(y, [2.0, 6.0])
        weight = whole_weights(len(y))
        model = CARTClassifier(criterion=criterion, missing=missing, min_samples_leaf=3)
        model.fit(X, codes, weight)
        slow = Oracle(criterion, 3, missing=missing, min_samples_leaf=3, min_samples_split=6)
        assert_same_up_to_ties(model.tree_, slow.fit(X, codes, weight)[0], X)


def test_the_side_is_learned():
    x = np.r_[np.arange(10.0), np.full(5, NAN)][:, None]
    for high, side in ((0.0, 1), (9.0, 0)):
        y = np.r_[np.repeat([0.0, 9.0], 5), np.full(5, high)]
        tree = CARTRegressor(max_depth=1).fit(x, y).tree_
        assert tree.nodes["missing_left"][0] == side
        assert tree.nodes["threshold"][0] == 4.5
    # Missing values may be parted from all others.
    y = np.r_[np.zeros(10), np.full(5, 4.0)]
    model = CARTRegressor(max_depth=1).fit(x, y)
    assert model.predict([[NAN], [1e9], [-1e9]]).tolist() == [4.0, 0.0, 0.0]


def test_without_missing_values_in_fit_they_go_to_the_larger_child():
    X = np.arange(10.0)[:, None]
    for cut in (3, 7):
        model = CARTRegressor().fit(X, (X[:, 0] >= cut).astype(float))
        assert model.predict([[NAN]])[0] == (1.0 if cut == 3 else 0.0)


def test_stop_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [NAN], [NAN]])
    y = np.array([0.0, 2.0, 10.0, 12.0, 50.0, 100.0])
    model = CARTRegressor(missing="stop", max_depth=1).fit(X, y)
    tree = model.tree_
    # The rows without a value are at the root and in none of its children.
    assert tree.nodes["n_samples"].tolist() == [6, 2, 2]
    assert tree.nodes["missing_left"][0] == 2
    assert tree.values[:, 0].tolist() == [29.0, 1.0, 11.0]
    # The gain is counted over the rows with a value: their sum of squares falls from 104 to 4.
    np.testing.assert_allclose(tree.nodes["gain"][0], 100.0)
    np.testing.assert_allclose(tree.impurity[0], np.var(y))
    assert model.predict([[0.5], [2.5], [NAN]]).tolist() == [1.0, 11.0, 29.0]
    assert model.apply([[0.5], [2.5], [NAN]]).tolist() == [1, 2, 0]
    assert model._train_leaves.tolist() == [1, 1, 2, 2, 0, 0]
    assert model.decision_path([[NAN], [9.0]]).toarray().tolist() == [[1, 0, 0], [1, 0, 1]]
    # All observations of the node make the prediction, those of its leaves among them.
    weights = model.leaf_weights([[NAN], [9.0]]).toarray()
    np.testing.assert_allclose(weights, [[1 / 6] * 6, [0, 0, 0.5, 0.5, 0, 0]])


@pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])
def test_rows_end_where_fit_left_them(cls):
    X, y = integer_table(300, missing=0.2)
    y = y if cls is CARTRegressor else np.digitize(y, [4.0, 8.0])
    for missing in ("learn", "stop"):
        for shape in ({}, {"max_leaf_nodes": 12}, {"splitter": "hist"}, {"ccp_alpha": 0.01}):
            model = cls(missing=missing, **shape).fit(X, y)
            np.testing.assert_array_equal(model.apply(X), model._train_leaves)
            counts = np.bincount(model._train_leaves, minlength=model.tree_.n_nodes)
            sizes = branch_sizes(model.tree_)
            ends = np.r_[0, np.cumsum(counts)]
            inside = ends[np.arange(len(sizes)) + sizes] - ends[: len(sizes)]
            np.testing.assert_array_equal(inside, model.tree_.nodes["n_samples"])


def test_stop_predicts_the_mean_of_the_node():
    X, y = integer_table(300, missing=0.2)
    weight = whole_weights(len(y))
    model = CARTRegressor(missing="stop", min_samples_leaf=4).fit(X, y, weight)
    fresh = integer_table(400, missing=0.4, seed=5)[0]
    weights = model.leaf_weights(fresh)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights @ y, model.predict(fresh))
    assert np.any(model.tree_.nodes["left"][model.apply(fresh)] >= 0)


def test_stop_and_learn_agree_without_missing_values():
    X, y = integer_table()
    a, b = (CARTRegressor(missing=missing).fit(X, y).tree_ for missing in ("learn", "stop"))
    for name in ("left", "feature", "threshold", "n_samples", "gain"):
        np.testing.assert_array_equal(a.nodes[name], b.nodes[name])


def test_a_column_of_nothing_but_missing_values():
    X, y = integer_table(60)
    X[:, 1] = NAN
    for missing in ("learn", "stop"):
        model = CARTRegressor(missing=missing).fit(X, y)
        assert 1 not in model.tree_.nodes["feature"]
    nothing = np.full((60, 2), NAN)
    assert CARTRegressor().fit(nothing, y).predict(nothing)[0] == pytest.approx(y.mean())


def test_categories_that_fit_has_not_met_are_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"c": list("aabbccdd")})
    y = [0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 6.0]
    model = CARTRegressor(missing="stop", max_depth=1).fit(frame, y)
    new = pandas.DataFrame({"c": ["a", "d", "z", None]})
    assert model.predict(new).tolist() == [0.0, 5.25, 2.625, 2.625]
