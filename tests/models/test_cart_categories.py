"""Splits on categories: as good as the best of all partitions, with any number of categories."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cart_data import whole_weights
from cart_oracle import Oracle, impurity_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn_trees import assert_same_up_to_ties

from hybridtrees import CARTClassifier, CARTRegressor


def best_partition(criterion, codes, target, weight, n_classes):
    """Largest gain over all 2^(q-1) - 1 partitions of the categories."""
    present = np.unique(codes)

    def cost(rows):
        part = (criterion, target[rows], weight[rows], n_classes)
        return weight[rows].sum() * impurity_of(*part)

    everything = np.ones(len(codes), dtype=bool)
    best = 0.0
    for size in range(1, len(present)):
        for chosen in itertools.combinations(present[1:], size):
            left = np.isin(codes, chosen)
            best = max(best, cost(everything) - cost(left) - cost(~left))
    return best


@pytest.mark.parametrize("q", [2, 3, 5, 8])
@pytest.mark.parametrize("criterion", ["squared_error", "gini", "entropy"])
def test_best_of_all_partitions(criterion, q):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        codes = np.r_[np.arange(q), rng.integers(0, q, 60)].astype(float)
        weight = rng.random(len(codes)) + 0.1
        if criterion == "squared_error":
            target, n_classes = rng.normal(size=(len(codes), 1)), 0
            model = CARTRegressor(max_depth=1, categorical_features=[0])
        else:
            target, n_classes = rng.integers(0, 2, len(codes)), 2
            model = CARTClassifier(criterion=criterion, max_depth=1, categorical_features=[0])
        tree = model.fit(codes[:, None], target, weight).tree_
        expected = best_partition(criterion, codes, target, weight, n_classes)
        np.testing.assert_allclose(tree.nodes["gain"][0], expected, rtol=1e-9)
        left = np.isin(codes, tree.category_set(0))
        assert weight[left].sum() == pytest.approx(tree.nodes["weight"][1])
        np.testing.assert_array_equal(model.apply(codes[:, None]) == 1, left)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.booleans())
def test_trees_equal_the_slow_ones(seed, classes):
    rng = np.random.default_rng(seed)
    n = 40
    X = np.c_[rng.integers(0, 6, n), rng.integers(0, 5, n), rng.normal(size=n)].astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:6, 0], X[:5, 1] = np.arange(6), np.arange(5)  # every code occurs
    # No limit on the leaves: under one the best partition need not follow the mean response.
    shape = {"max_depth": 3}
    mask = np.array([True, True, False])
    weight = whole_weights(n, seed)
    if classes:
        target = rng.integers(0, 2, n)
        model = CARTClassifier(categorical_features=mask, **shape).fit(X, target, weight)
        slow = Oracle("gini", 2, is_categorical=mask, **shape)
    else:
        target = rng.normal(size=(n, 1))
        model = CARTRegressor(categorical_features=mask, **shape).fit(X, target, weight)
        slow = Oracle(is_categorical=mask, **shape)
    assert_same_up_to_ties(model.tree_, slow.fit(X, target, weight)[0], X)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("cls", [CARTRegressor, CARTClassifier])
def test_ten_thousand_categories(cls, splitter):
    rng = np.random.default_rng(0)
    q = 10_000
    codes = np.r_[rng.permutation(q), rng.integers(0, q, 3 * q)].astype(float)
    effect = rng.integers(0, 2, q)
    y = effect[codes.astype(int)]
    model = cls(splitter=splitter, max_depth=1, categorical_features=[0]).fit(codes[:, None], y)
    if splitter == "exact":
        # Where the categories are parted by their effect, one split is enough.
        np.testing.assert_array_equal(model.predict(codes[:, None]), y)
        chosen = model.tree_.category_set(0)
        chosen = chosen[chosen < q]
        np.testing.assert_array_equal(chosen, np.flatnonzero(effect == effect[chosen[0]]))
    else:
        assert model.score(codes[:, None], y) > 0.0
    deep = cls(splitter=splitter, categorical_features=[0]).fit(codes[:, None], y)
    assert deep.get_n_leaves() >= 2


def test_many_classes_part_by_sets():
    # With more than two classes no order of the categories is sure to contain the best
    # partition; a pure partition is still to be found in the end.
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 12, 400).astype(float)
    y = codes.astype(int) % 4
    model = CARTClassifier(categorical_features=[0]).fit(codes[:, None], y)
    assert model.score(codes[:, None], y) == 1.0


@pytest.mark.parametrize("criterion", ["absolute_error", "poisson"])
def test_other_criteria(criterion):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 7, 200).astype(float)
    y = np.array([1.0, 9.0, 2.0, 8.0, 1.5, 9.5, 5.0])[codes.astype(int)]
    model = CARTRegressor(criterion=criterion, categorical_features=[0]).fit(codes[:, None], y)
    np.testing.assert_allclose(model.predict(codes[:, None]), y, rtol=1e-12)


def test_several_outputs():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, 300).astype(float)
    Y = rng.normal(size=(9, 3))[codes.astype(int)]
    model = CARTRegressor(categorical_features=[0]).fit(codes[:, None], Y)
    np.testing.assert_allclose(model.predict(codes[:, None]), Y, atol=1e-12)


def test_strings_of_a_data_frame_are_categories():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"colour": ["red", "blue", "green", "blue", "red"] * 4, "x": range(20)}
    )
    y = (frame["colour"] == "blue").astype(float)
    model = CARTRegressor().fit(frame, y)
    assert model.get_n_leaves() == 2
    np.testing.assert_array_equal(model.predict(frame), y)
    np.testing.assert_array_equal(model.feature_importances_, [1.0, 0.0])
