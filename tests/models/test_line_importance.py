"""Linear leaves count in the importances of linear trees and linear forests."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import (
    LinearForestRegressor,
    LinearTreeClassifier,
    LinearTreeRegressor,
    PLGBRegressor,
)
from hybridtrees.core.tree.pruning import impurity_decrease

N = 400


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 4)) * [1.0, 1.0, 10.0, 1.0]
    y = 3 * X[:, 0] + 0.2 * X[:, 2] + np.where(X[:, 1] > 0, 5.0, -X[:, 0])
    return X, y + 0.1 * rng.standard_normal(N), rng.exponential(size=N)


def test_one_leaf_of_linear_data(table):
    X, _, weight = table
    y = 3 * X[:, 0] + 0.2 * X[:, 2]
    for w in (None, weight):
        model = LinearTreeRegressor(penalty=None, min_samples_leaf=N // 2 + 1).fit(X, y, w)
        assert model.get_n_leaves() == 1
        mean = np.average(X, axis=0, weights=w)
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        effect = np.array([3, 0, 0.2, 0]) * spread
        np.testing.assert_allclose(
            model.feature_importances_, effect / effect.sum(), atol=1e-6, rtol=1e-6
        )


def losses(y, w, constant, scores, kind):
    if kind == "squared":
        return w @ (y - constant) ** 2 - w @ (y - scores) ** 2
    if kind == "absolute":
        return w @ np.abs(y - constant) - w @ np.abs(y - scores)
    proba = [np.where(y, p, 1 - p) for p in (constant, 1 / (1 + np.exp(-scores)))]
    return w @ -np.log(proba[0]) - w @ -np.log(proba[1])


@pytest.mark.parametrize("kind", ["squared", "absolute", "classes"])
def test_by_definition(kind, table):
    X, y, weight = table
    if kind == "classes":
        y = y > np.median(y)
        model = LinearTreeClassifier(max_depth=2, pruning=None, extrapolate="linear")
    else:
        model = LinearTreeRegressor(
            criterion=f"{kind}_error", max_depth=2, pruning=None, extrapolate="linear"
        )
    model.fit(X, y, weight)
    tree, leaf, total = model.tree_, model.apply(X), np.zeros(4)
    inner = tree.nodes["left"] >= 0
    decrease = impurity_decrease(tree)[inner] * weight.sum()
    np.add.at(total, tree.nodes["feature"][inner], decrease)
    raw = model.predict_raw(X)[:, 0]
    slopes = np.zeros((len(tree.nodes), 4))
    node = np.repeat(np.arange(len(tree.nodes)), np.diff(tree.coef_ptr))
    slopes[node, tree.coef_feature] = np.abs(tree.coef[:, 0])
    for k in np.unique(leaf):
        at = leaf == k
        w = weight[at]
        constant = np.average(y[at], weights=w)
        if kind == "absolute":
            order = np.argsort(y[at])
            below = np.cumsum(w[order])
            constant = y[at][order][np.searchsorted(below, below[-1] / 2)]
        gain = losses(y[at], w, constant, raw[at], kind)
        mean = np.average(X[at], axis=0, weights=w)
        effect = slopes[k] * np.sqrt(np.average((X[at] - mean) ** 2, axis=0, weights=w))
        assert gain > 0
        total += gain * effect / effect.sum()
    np.testing.assert_allclose(model.feature_importances_, total / total.sum(), rtol=1e-6)


def test_effects_of_categories_go_to_their_feature(table):
    X, _, _ = table
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, N).astype(float)
    y = 2.0 * codes + 0.01 * X[:, 0]
    model = LinearTreeRegressor(
        categorical_features=[0], categorical_effects=True, min_samples_leaf=N // 2 + 1
    ).fit(np.column_stack([codes, X[:, 0]]), y)
    assert model.get_n_leaves() == 1
    assert model.feature_importances_.shape == (2,)
    assert model.feature_importances_[0] > 0.9


def test_several_outputs_and_forests(table):
    X, y, weight = table
    pair = np.column_stack([y, X[:, 3]])
    tree = LinearTreeRegressor(max_depth=2).fit(X, pair, weight)
    forest = LinearForestRegressor(
        1, bootstrap=False, max_depth=2, max_features=None, pruning="bic", random_state=0
    ).fit(X, pair, weight)
    np.testing.assert_allclose(forest.feature_importances_, tree.feature_importances_, atol=1e-9)
    assert (tree.feature_importances_[[0, 2, 3]] > 0.05).all()


@pytest.mark.parametrize("leaf_fit", ["half_additive", "additive", "full"])
def test_gains_of_plgb_include_its_lines(leaf_fit):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 4))
    y = 3 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(2000)
    model = PLGBRegressor(
        n_estimators=1, learning_rate=1.0, reg_lambda=0.0, max_leaves=8, leaf_fit=leaf_fit,
        refit_leaves=False, search_rows=None, extrapolation="linear", importance_type="total_gain",
    ).fit(X, y)  # fmt: skip
    total = np.sum((y - y.mean()) ** 2) - np.sum((y - model.predict(X)) ** 2)
    assert model.get_score().sum() == pytest.approx(total, rel=2e-3)
    # The shares of the variance that the two terms have, which no constant leaf could reach.
    np.testing.assert_allclose(model.feature_importances_, [0.9, 0.1, 0, 0], atol=0.02)


def test_constant_leaves_count_nothing(table):
    X, y, _ = table
    model = LinearTreeRegressor(linear_features=[], max_depth=2, pruning=None).fit(X, y)
    tree = model.tree_
    expected = np.bincount(tree.nodes["feature"][tree.nodes["left"] >= 0], minlength=4) > 0
    assert (model.feature_importances_ > 0).tolist() == expected.tolist()
