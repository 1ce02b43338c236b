"""Smoothing of splits by sets of categories: `cat_smooth`, `cat_l2`, `min_data_per_group`."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import GradientBoostingRegressor, PLGBRegressor, XGBClassifier, XGBRegressor

PLAIN = {"cat_smooth": 0, "min_data_per_group": 1}
MODELS = {
    "hist": (XGBRegressor, {"tree_method": "hist"}),
    "exact": (XGBRegressor, {"tree_method": "exact"}),
    "approx": (XGBRegressor, {"tree_method": "approx"}),
    "plgb": (PLGBRegressor, {}),
    "gb": (GradientBoostingRegressor, {"splitter": "exact"}),
    "gb hist": (GradientBoostingRegressor, {"splitter": "hist"}),
}


def table(n=3000, n_levels=40, seed=0, effect=0.5):
    """A number and a column of categories, some of them rare."""
    rng = np.random.default_rng(seed)
    code = np.minimum(rng.geometric(0.08, n) - 1, n_levels - 1)
    X = np.column_stack([code.astype(np.float64), rng.normal(size=n)])
    level = np.random.default_rng(99).normal(size=n_levels) * effect
    return X, level[code] + np.sin(2 * X[:, 1]) + rng.normal(size=n)


def make(name, **params):
    kind, own = MODELS[name]
    if kind is not GradientBoostingRegressor and params.get("min_data_per_group") == 1:
        params = {"cat_l2": 0, **params}
    return kind(
        n_estimators=5,
        max_depth=4,
        categorical_features=[0],
        categorical_statistics=False,
        n_jobs=1,
        **own,
        **params,
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("least", [100, 140])
def test_both_sides_of_a_set_have_the_least_number_of_rows(name, least):
    X, y = table()
    model = make(name, min_data_per_group=least).fit(X, y)
    free = make(name, **PLAIN).fit(X, y)
    sizes = []
    for each in (model, free):
        nodes = each.trees_.nodes
        root = np.repeat(each.trees_.tree_start[:-1], np.diff(each.trees_.tree_start))
        sets = np.flatnonzero((nodes["left"] >= 0) & (nodes["category_start"] >= 0))
        assert len(sets)
        rows = [nodes["n_samples"][nodes[side][sets] + root[sets]] for side in ("left", "right")]
        sizes.append(int(np.min(rows)))
    assert sizes[0] >= least > sizes[1]


@pytest.mark.parametrize("name", MODELS)
def test_noise_of_rare_categories_is_not_learned(name):
    X, y = table(2000, n_levels=60, effect=0.0)
    X_test, _ = table(4000, n_levels=60, seed=1, effect=0.0)
    truth = np.sin(2 * X_test[:, 1])
    errors = [
        np.mean((make(name, **params).fit(X, y).predict(X_test) - truth) ** 2)
        for params in ({}, PLAIN)
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize(
    "params",
    [{}, {"cat_smooth": 200.0}, {"cat_l2": 300.0}, {"min_data_per_group": 400}, {"cat_smooth": 0}],
    ids=str,
)
def test_histograms_and_lists_make_the_same_splits(params, missing):
    X, y = table()
    X[np.random.default_rng(5).random(len(X)) < missing, 0] = np.nan
    y = np.round(8 * y) / 8
    X[:, 1] = np.round(2 * X[:, 1])
    models = [
        XGBRegressor(
            n_estimators=1, max_depth=3, base_score=0.0, categorical_features=[0],
            categorical_statistics=False, n_jobs=1,
            tree_method=method, **params,
        ).fit(X, y)
        for method in ("hist", "exact")
    ]  # fmt: skip
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), rtol=1e-6)
    plain = make("hist", **PLAIN).set_params(n_estimators=1, max_depth=3, base_score=0.0)
    assert np.any(models[0].predict(X) != plain.fit(X, y).predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_few_categories_are_split_as_before(name):
    X, y = table(300, n_levels=4)
    np.testing.assert_array_equal(
        make(name).fit(X, y).predict(X), make(name, **PLAIN).fit(X, y).predict(X)
    )


def test_threads_change_nothing():
    X, y = table(6000)
    for kind, target in ((XGBClassifier, y > 0), (PLGBRegressor, y)):
        one = kind(
            n_estimators=5, categorical_features=[0], categorical_statistics=False, n_jobs=1
        ).fit(X, target)
        two = kind(
            n_estimators=5, categorical_features=[0], categorical_statistics=False, n_jobs=2
        ).fit(X, target)
        assert one.trees_.nodes.tobytes() == two.trees_.nodes.tobytes()


def test_small_tables_have_small_groups():
    # One of ten categories could not be parted from the others by groups of 100 rows.
    X = np.column_stack([np.arange(300) % 10, np.zeros(300)]).astype(np.float64)
    y = 5.0 * (X[:, 0] == 2)
    model = make("hist").set_params(n_estimators=1, max_depth=1).fit(X, y)
    assert model.trees_.nodes["n_samples"][1:].min() == 30
