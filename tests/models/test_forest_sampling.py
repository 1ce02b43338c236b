"""Samples, draws of features, seeds: what makes the trees of a forest differ."""

from __future__ import annotations

import numpy as np
import pytest
from cart_data import integer_table, noisy_classes, smooth_table

from hybridtrees import CARTClassifier, CARTRegressor
from hybridtrees.core.base._types import PackedFlag
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.shared.bagging import RowSampler

MASK = int(PackedFlag.FEATURE_MASK)
SAME_FIELDS = (
    "threshold", "left", "right", "parent", "feature", "missing_left", "n_samples", "weight",
    "depth", "category_start", "category_words",
)  # fmt: skip


def assert_same_tree(mine, expected, exact=True):
    for name in SAME_FIELDS:
        np.testing.assert_array_equal(mine.nodes[name], expected.nodes[name], err_msg=name)
    np.testing.assert_allclose(mine.values, expected.values, rtol=1e-12, atol=1e-12)
    scale = expected.nodes["gain"].max()
    np.testing.assert_allclose(mine.nodes["gain"], expected.nodes["gain"], 1e-6, 1e-9 * scale)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
def test_without_draws_each_tree_is_cart(splitter, criterion):
    X, y = integer_table(200, missing=0.1)
    y = y - y.min()
    params = {"criterion": criterion, "splitter": splitter, "min_samples_leaf": 2, "n_jobs": 1}
    forest = RandomForestRegressor(2, bootstrap=False, max_features=None, **params).fit(X, y)
    tree = CARTRegressor(**params).fit(X, y)
    for grown in forest.trees_:
        assert_same_tree(grown, tree.tree_)
    np.testing.assert_allclose(forest.predict(X), tree.predict(X), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("criterion", ["gini", "entropy", "misclassification"])
def test_without_draws_each_tree_is_a_cart_classifier(n_classes, criterion):
    X, y = noisy_classes(200, n_classes)
    params = {"criterion": criterion, "min_samples_leaf": 3, "splitter": "exact", "n_jobs": 1}
    forest = RandomForestClassifier(2, bootstrap=False, max_features=None, **params).fit(X, y)
    tree = CARTClassifier(**params).fit(X, y)
    for grown in forest.trees_:
        assert_same_tree(grown, tree.tree_)
    np.testing.assert_allclose(forest.predict_proba(X), tree.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    "params",
    [
        {"missing": "stop"},
        {"monotonic_cst": [1, 0, 0, 0]},
        {"max_leaf_nodes": 9},
        {"max_depth": 3},
        {"ccp_alpha": 0.05},
        {"categorical_features": [0, 2]},
        {"min_impurity_decrease": 0.05},
    ],
    ids=str,
)
def test_parameters_of_trees_are_handed_on(params):
    X, y = integer_table(250, missing=0.05)
    params = {"splitter": "exact", "min_samples_leaf": 1, "n_jobs": 1, **params}
    forest = RandomForestRegressor(1, bootstrap=False, max_features=None, **params).fit(X, y)
    tree = CARTRegressor(**params).fit(X, y)
    mine, expected = forest.trees_[0], tree.tree_
    fields = [name for name in SAME_FIELDS if not name.startswith("category")]
    for name in fields:
        np.testing.assert_array_equal(mine.nodes[name], expected.nodes[name], err_msg=name)
    for node in np.flatnonzero(expected.nodes["category_start"] >= 0):
        np.testing.assert_array_equal(mine.category_set(node), expected.category_set(node))
    np.testing.assert_allclose(forest.predict(X), tree.predict(X), rtol=1e-12)
    np.testing.assert_array_equal(forest.apply(X)[:, 0], tree.apply(X))


def test_bootstrap_has_63_percent_of_the_rows():
    n, draws = 1000, [RowSampler(1000, 1000, True).counts(seed) for seed in range(300)]
    distinct = np.array([np.count_nonzero(counts) for counts in draws]) / n
    expected = 1 - (1 - 1 / n) ** n
    # The share of one sample has a standard deviation of about 0.0098.
    assert abs(distinct.mean() - expected) < 5 * 0.0098 / np.sqrt(300)
    assert 0.005 < distinct.std() < 0.015
    total = np.sum(draws, axis=0)
    assert total.sum() == 300 * n
    # Counts of a row over the samples are nearly Poisson with mean and variance 300.
    assert abs(total.var() / 300 - 1) < 0.25


def test_samples_without_replacement():
    sampler = RowSampler(50, 20, False)
    draws = np.array([sampler.counts(seed) for seed in range(2000)])
    assert set(np.unique(draws)) == {0, 1}
    assert np.all(draws.sum(axis=1) == 20)
    share = draws.mean(axis=0)
    assert np.all(np.abs(share - 0.4) < 6 * np.sqrt(0.24 / 2000))
    assert not RowSampler(50, 50, False).leaves_out


def test_rows_are_drawn_by_weight():
    weight = np.array([0.0, 1.0, 2.0, 5.0, 0.0])
    sampler = RowSampler(5, 8, True, weight)
    share = np.mean([sampler.counts(seed) for seed in range(4000)], axis=0) / 8
    np.testing.assert_allclose(share, weight / 8, atol=0.02)
    assert share[0] == share[4] == 0
    np.testing.assert_array_equal(sampler.out_of_bag(np.array([0, 0, 3, 5, 0])), [1])
    whole = RowSampler(5, 3, False, weight)
    np.testing.assert_array_equal(whole.row_weight(whole.counts(0)), weight)


def test_features_are_drawn_alike():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    forest = RandomForestRegressor(1000, max_features=1, max_depth=1, random_state=0).fit(X, y)
    root = [forest.trees_.part(k)["feature"][0] & MASK for k in range(1000)]
    counts = np.bincount(root, minlength=5)
    # Chi-squared with 4 degrees of freedom: above 23.5 once in 10,000.
    assert np.sum((counts - 200) ** 2 / 200) < 23.5


@pytest.mark.parametrize(("p", "drawn"), [(5, 2), (64, 9), (65, 8), (70, 16), (70, 40)])
def test_sets_of_features_are_drawn_alike(p, drawn):
    # Two columns that are the same and decide: either of them is used whenever it is drawn.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, p))
    X[:, -1] = X[:, 1]
    y = np.sign(X[:, 1])
    params = {"max_features": drawn, "max_depth": 1, "bootstrap": False, "n_jobs": 1}
    forest = RandomForestRegressor(1500, random_state=0, **params).fit(X, y)
    root = np.array([forest.trees_.part(k)["feature"][0] & MASK for k in range(1500)])
    share = 1 - (p - drawn) * (p - drawn - 1) / (p * (p - 1))
    for found, expected in ((np.isin(root, [1, p - 1]), share), (root == p - 1, share / 2)):
        assert abs(found.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / 1500)


def test_the_best_of_the_drawn_features_is_taken():
    # One feature decides; drawn two of six at a time it splits a third of the roots.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 6))
    y = np.sign(X[:, 4])
    forest = RandomForestRegressor(800, max_features=2, max_depth=1, random_state=0).fit(X, y)
    root = np.array([forest.trees_.part(k)["feature"][0] & MASK for k in range(800)])
    assert abs(np.mean(root == 4) - 1 / 3) < 5 * np.sqrt(2 / 9 / 800)


@pytest.mark.parametrize("splitter", ["hist", "exact"])
def test_no_feature_is_preferred_for_its_place(splitter):
    # In nodes of two rows every split is as good as any other.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    params = {"max_features": None, "min_samples_leaf": 1, "splitter": splitter}
    forest = RandomForestRegressor(60, random_state=0, **params).fit(X, y)
    counts = np.zeros(4)
    for tree in forest.trees_:
        last = (tree.nodes["n_samples"] == 2) & (tree.nodes["left"] >= 0)
        counts += np.bincount(tree.nodes["feature"][last], minlength=4)
    share = counts / counts.sum()
    assert np.all(np.abs(share - 0.25) < 5 * np.sqrt(0.1875 / counts.sum()))


@pytest.mark.parametrize("cls", [RandomForestRegressor, RandomForestClassifier])
@pytest.mark.parametrize("splitter", ["hist", "exact"])
def test_bit_identical_for_any_number_of_threads(cls, splitter):
    X, y = noisy_classes(300, 3)
    params = {"splitter": splitter, "oob_score": True, "random_state": 3}
    models = [cls(20, n_jobs=n_jobs, **params).fit(X, y) for n_jobs in (1, 2, 3)]
    for other in models[1:]:
        for name, array in models[0].trees_.to_state().items():
            np.testing.assert_array_equal(array, getattr(other.trees_, name), err_msg=name)
        np.testing.assert_array_equal(models[0].oob_curve_, other.oob_curve_)
        np.testing.assert_array_equal(models[0].predict(X), other.predict(X))
        np.testing.assert_array_equal(models[0].feature_importances_, other.feature_importances_)


def test_threads_do_not_change_predictions():
    X, y = smooth_table(3000)
    model = RandomForestRegressor(5, random_state=0).fit(X, y)
    expected = model.set_params(n_jobs=1).predict(X)
    for n_jobs in (2, 5):
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).predict(X), expected)


@pytest.mark.parametrize("cls", [RandomForestRegressor, RandomForestClassifier])
def test_warm_start_continues_the_same_forest(cls):
    X, y = noisy_classes(200, 3)
    whole = cls(20, random_state=0, oob_score=True, keep_rows=True).fit(X, y)
    with pytest.warns(UserWarning, match="out-of-bag"):
        part = cls(4, random_state=0, oob_score=True, keep_rows=True, warm_start=True).fit(X, y)
    part.set_params(n_estimators=20).fit(X, y)
    for name, array in whole.trees_.to_state().items():
        np.testing.assert_array_equal(array, getattr(part.trees_, name), err_msg=name)
    np.testing.assert_array_equal(whole.oob_curve_, part.oob_curve_)
    np.testing.assert_allclose(whole.feature_importances_, part.feature_importances_, 1e-12)
    np.testing.assert_array_equal(
        whole.leaf_weights(X[:5]).toarray(), part.leaf_weights(X[:5]).toarray()
    )
    with pytest.warns(UserWarning, match="n_estimators"):
        part.fit(X, y)
    with pytest.raises(ValueError, match="n_estimators must be at least 20"):
        part.set_params(n_estimators=10).fit(X, y)
    with pytest.raises(ValueError, match="warm_start=True continues"):
        part.set_params(n_estimators=30).fit(X + 1, y)
    assert len(part.trees_) == 20


def test_a_seed_is_left_as_it_is():
    X, y = smooth_table(60)
    seed = np.random.SeedSequence(5)
    first = RandomForestRegressor(3, random_state=seed).fit(X, y).predict(X)
    np.testing.assert_array_equal(
        first, RandomForestRegressor(3, random_state=seed).fit(X, y).predict(X)
    )
    other = RandomForestRegressor(3, random_state=6).fit(X, y).predict(X)
    assert np.any(first != other)


def test_variance_of_the_mean():
    # Var(mean of B trees) = rho sigma^2 + (1 - rho) / B sigma^2 (Hastie et al., eq. 15.1), over
    # training sets and draws; rho and sigma^2 from single trees of the same forests.
    rng = np.random.default_rng(0)
    point = np.full((1, 4), 0.3)
    said = []
    for seed in range(120):
        X = rng.uniform(size=(60, 4))
        y = X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=60)
        model = RandomForestRegressor(30, max_features=2, random_state=seed, n_jobs=1).fit(X, y)
        said.append(model._tree_values(point, 1)[:, 0, 0])
    said = np.array(said)
    sigma2 = said.var(ddof=1)
    pairs = np.cov(said[:, :20].T)
    rho = (pairs.sum() - np.trace(pairs)) / (20 * 19) / sigma2
    assert 0 < rho < 1
    for n_trees in (1, 5, 30):
        expected = rho * sigma2 + (1 - rho) / n_trees * sigma2
        found = said[:, :n_trees].mean(axis=1).var(ddof=1)
        # A variance of 120 draws has a relative standard error of 0.13.
        assert abs(found / expected - 1) < 0.4


@pytest.mark.parametrize("cls", [RandomForestRegressor, RandomForestClassifier])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_equal_weights_are_none(cls, bootstrap):
    X, y = noisy_classes(100, 3)
    params = {"bootstrap": bootstrap, "max_samples": 0.7, "random_state": 0, "n_jobs": 1}
    plain = cls(5, **params).fit(X, y).trees_.to_state()
    for weight in [np.ones(100)] + [np.full(100, 3.0)] * bootstrap:
        for name, array in cls(5, **params).fit(X, y, weight).trees_.to_state().items():
            np.testing.assert_array_equal(array, plain[name], err_msg=name)


def test_samples_larger_than_the_table():
    X, y = noisy_classes(100, 3)
    forest = RandomForestClassifier(4, max_samples=2.5, random_state=0).fit(X, y)
    assert [len(rows) for rows in forest.estimators_samples_] == [250] * 4
    assert forest.trees_[0].nodes["weight"][0] == 250
    same = RandomForestClassifier(4, max_samples=250, random_state=0).fit(X, y)
    assert np.array_equal(forest.predict_proba(X), same.predict_proba(X))
