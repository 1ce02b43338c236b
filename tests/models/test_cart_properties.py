"""Properties that hold for any table, and equality with the slow tree."""

from __future__ import annotations

import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table, whole_weights
from cart_oracle import Oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn_trees import assert_same_tree, assert_same_up_to_ties

from hybridtrees import CARTClassifier, CARTRegressor
from hybridtrees.core.bins.mapper import BinMapper

CRITERIA = ("squared_error", "absolute_error", "poisson", "gini", "entropy", "misclassification")
EVERY_CRITERION = pytest.mark.parametrize("criterion", CRITERIA)


def model_of(criterion, **params):
    cls = CARTRegressor if criterion in CRITERIA[:3] else CARTClassifier
    return cls(criterion=criterion, **params)


def target_of(criterion, y):
    return np.abs(y) if criterion in CRITERIA[:3] else np.digitize(y, [3.0, 7.0])


@st.composite
def tables(draw):
    """Small tables with ties everywhere: columns, targets and weights are small integers."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, p = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    X = rng.integers(0, draw(st.integers(1, 12)), size=(n, p)).astype(float)
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    y = rng.integers(0, draw(st.integers(2, 6)), n)
    y[0] = 1  # a positive sum, for the deviance
    weight = rng.integers(0, 4, n).astype(float)
    weight[0] = 1.0
    return X, y, weight if draw(st.booleans()) else None


@settings(max_examples=25)
@given(tables(), st.sampled_from(CRITERIA), st.sampled_from(["learn", "stop"]), st.integers(1, 4))
def test_trees_equal_the_slow_ones(table, criterion, missing, leaf):
    X, y, weight = table
    model = model_of(criterion, missing=missing, min_samples_leaf=leaf).fit(X, y, weight)
    n_classes = getattr(model, "n_classes_", 0)
    target = np.unique(y, return_inverse=True)[1] if n_classes else y[:, None].astype(float)
    slow = Oracle(
        criterion, n_classes, missing=missing, min_samples_leaf=leaf, min_samples_split=2 * leaf
    )
    used = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    tree = slow.fit(X, target, weight)[0]
    assert_same_up_to_ties(model.tree_, tree, X[used])


@EVERY_CRITERION
@pytest.mark.parametrize("shape", [{}, {"min_samples_leaf": 5}, {"max_leaf_nodes": 15}])
def test_exact_and_hist_agree_on_few_values(criterion, shape):
    # Thresholds stand between neighbours in the node or in the table, and part the same rows.
    for missing in (0.0, 0.1):
        X, y = integer_table(300, missing=missing)
        y = target_of(criterion, y)
        weight = whole_weights(len(y))
        exact = model_of(criterion, **shape).fit(X, y, weight)
        hist = model_of(criterion, splitter="hist", **shape).fit(X, y, weight)
        for name in ("left", "right", "feature", "n_samples", "missing_left", "depth"):
            np.testing.assert_array_equal(exact.tree_.nodes[name], hist.tree_.nodes[name])
        np.testing.assert_allclose(exact.tree_.values, hist.tree_.values, rtol=1e-9)
        np.testing.assert_allclose(exact.tree_.impurity, hist.tree_.impurity, atol=1e-9)
        np.testing.assert_array_equal(exact._train_leaves, hist._train_leaves)
        np.testing.assert_array_equal(hist.apply(X), hist._train_leaves)


@EVERY_CRITERION
def test_hist_bins_hold_the_values_together(criterion):
    X, y = smooth_table(2000)
    y = target_of(criterion, y)
    model = model_of(criterion, splitter="hist", max_bins=8, max_depth=6).fit(X, y)
    codes = BinMapper(max_bins=8).fit_transform(X).columns
    nodes = model.tree_.nodes
    rows = {0: np.arange(len(X))}
    for k in np.flatnonzero(nodes["left"] >= 0):
        feature, own = nodes["feature"][k], rows[k]
        left = X[own, feature] <= nodes["threshold"][k]
        assert codes[feature, own[left]].max() < codes[feature, own[~left]].min()
        rows[nodes["left"][k]], rows[nodes["right"][k]] = own[left], own[~left]


@EVERY_CRITERION
@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_the_same_tree_for_any_number_of_threads(criterion, splitter):
    X, y = smooth_table(6000, 8)
    y = target_of(criterion, y + 5)
    for shape in ({"max_depth": 6}, {"max_leaf_nodes": 20, "max_features": 3, "random_state": 1}):
        trees = [
            model_of(criterion, splitter=splitter, n_jobs=n, **shape).fit(X, y).tree_
            for n in (1, 2, 3)
        ]
        for other in trees[1:]:
            np.testing.assert_array_equal(other.nodes, trees[0].nodes)
            np.testing.assert_array_equal(other.values, trees[0].values)
            np.testing.assert_array_equal(other.impurity, trees[0].impurity)


@EVERY_CRITERION
def test_a_weight_of_two_is_the_row_twice(criterion):
    X, y = integer_table(150)
    y = target_of(criterion, y)
    twice = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = model_of(criterion, max_depth=5).fit(X, y, twice.astype(float)).tree_
    repeated = model_of(criterion, max_depth=5).fit(X.repeat(twice, 0), y.repeat(twice)).tree_
    for name in ("left", "feature", "threshold", "weight"):
        np.testing.assert_array_equal(weighted.nodes[name], repeated.nodes[name])
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-9)
    np.testing.assert_allclose(weighted.impurity, repeated.impurity, atol=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA[:3])
def test_scaling_the_target_scales_predictions(criterion):
    X, y = smooth_table()
    y = np.abs(y)
    one = model_of(criterion, min_samples_leaf=5).fit(X, y)
    four = model_of(criterion, min_samples_leaf=5).fit(X, 4 * y)
    np.testing.assert_array_equal(one.tree_.nodes["feature"], four.tree_.nodes["feature"])
    np.testing.assert_allclose(four.predict(X), 4 * one.predict(X), rtol=1e-12)


@EVERY_CRITERION
def test_a_monotone_transform_of_a_feature_keeps_the_tree(criterion):
    X, y = smooth_table()
    y = target_of(criterion, y)
    plain = model_of(criterion, min_samples_leaf=5).fit(X, y)
    bent = model_of(criterion, min_samples_leaf=5).fit(np.exp(X.astype(np.float64)), y)
    np.testing.assert_array_equal(plain.tree_.nodes["feature"], bent.tree_.nodes["feature"])
    np.testing.assert_array_equal(plain._train_leaves, bent._train_leaves)
    np.testing.assert_array_equal(plain.tree_.values, bent.tree_.values)


@EVERY_CRITERION
def test_stopping_rules_hold(criterion):
    X, y = smooth_table(400)
    y = target_of(criterion, y)
    weight = whole_weights(len(y))
    for shape in ({}, {"max_leaf_nodes": 25}, {"splitter": "hist"}):
        tree = model_of(criterion, max_depth=5, min_samples_split=40, min_samples_leaf=9,
                        min_weight_fraction_leaf=0.03, **shape).fit(X, y, weight).tree_  # fmt: skip
        inner = tree.nodes["left"] >= 0
        assert tree.depth <= 5 and tree.n_leaves > 4
        assert tree.n_leaves <= shape.get("max_leaf_nodes", 1000)
        assert tree.nodes["n_samples"][inner].min() >= 40
        assert tree.nodes["n_samples"][~inner].min() >= 9
        assert tree.nodes["weight"][~inner].min() >= 0.03 * weight.sum()
        limit = 0.002 * tree.impurity[0]
        least = model_of(criterion, min_impurity_decrease=limit, **shape).fit(X, y, weight).tree_
        inner = least.nodes["left"] >= 0
        gains = least.nodes["gain"][inner] / weight.sum()
        assert inner.any() and gains.min() >= limit * (1 - 1e-9)


def test_best_first_takes_the_largest_gains():
    X, y = smooth_table()
    whole = CARTRegressor(min_samples_leaf=5).fit(X, y).tree_
    for leaves in (2, 3, 6, 11):
        tree = CARTRegressor(min_samples_leaf=5, max_leaf_nodes=leaves).fit(X, y).tree_
        assert tree.n_leaves == leaves
        # Grown by hand: the open node of the largest gain is split next.
        opened, gains = [0], []
        for _ in range(leaves - 1):
            node = max(opened, key=lambda k: whole.nodes["gain"][k])
            opened.remove(node)
            opened += [whole.nodes["left"][node], whole.nodes["right"][node]]
            gains.append(whole.nodes["gain"][node])
        inner = tree.nodes["left"] >= 0
        np.testing.assert_allclose(np.sort(tree.nodes["gain"][inner]), np.sort(gains), rtol=1e-9)


def test_constraints_hold_everywhere():
    X, y = smooth_table(400)
    constraints = np.array([1, 0, -1, 0, 1])
    grid = np.linspace(-3, 3, 60)
    models = [CARTRegressor(criterion=name, monotonic_cst=constraints) for name in CRITERIA[:3]]
    for model in models:
        model.fit(X, np.exp(y / 3))
    classes = (y > 0).astype(int)
    models += [CARTClassifier(criterion=c, monotonic_cst=constraints).fit(X, classes)
               for c in CRITERIA[3:]]  # fmt: skip
    models += [
        CARTRegressor(monotonic_cst=constraints, splitter="hist", max_leaf_nodes=40).fit(X, y)
    ]
    for model in models:
        for feature in np.flatnonzero(constraints):
            rows = X[:30].repeat(len(grid), 0)
            rows[:, feature] = np.tile(grid, 30)
            is_classifier = isinstance(model, CARTClassifier)
            out = model.predict_proba(rows)[:, 1] if is_classifier else model.predict(rows)
            steps = np.diff(out.reshape(30, -1), axis=1) * constraints[feature]
            assert steps.min() >= -1e-12
        assert model.get_n_leaves() > 5


def test_random_ties_keep_the_gains():
    X, y = noisy_classes()
    X = np.c_[X, X]
    first = CARTClassifier(max_depth=3).fit(X, y)
    drawn = [CARTClassifier(max_depth=3, random_state=seed).fit(X, y) for seed in range(8)]
    assert first.tree_.nodes["feature"].max() < 5
    assert max(model.tree_.nodes["feature"].max() for model in drawn) >= 5
    for model in drawn:
        assert model.tree_.nodes["gain"][0] == pytest.approx(first.tree_.nodes["gain"][0])
    again = CARTClassifier(max_depth=3, random_state=0).fit(X, y)
    assert_same_tree(again.tree_, drawn[0].tree_)
