"""Piece-wise linear boosting for numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees import PLGBClassifier, PLGBRegressor, XGBClassifier, XGBRegressor

FITS = ["half_additive", "additive", "full"]
SHAPE = {"max_leaves": 8, "max_depth": None, "grow_policy": "lossguide", "learning_rate": 0.2}


def make(seed=0, n=1500, p=5, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, p))
    y = np.where(X[:, 0] > 0.2, 2 * X[:, 1], -X[:, 1] + X[:, 2]) + np.sin(3 * X[:, 3])
    return X, y + noise * rng.normal(size=n)


def rmse(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_without_lines_it_is_xgboost(subsample):
    X, y = make()
    shared = {"n_estimators": 8, "subsample": subsample, "random_state": 3, **SHAPE}
    ours = PLGBRegressor(max_leaf_features=0, **shared).fit(X, y)
    theirs = XGBRegressor(**shared).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    ours = PLGBClassifier(max_leaf_features=0, **shared).fit(X, y > 0)
    theirs = XGBClassifier(**shared).fit(X, y > 0)
    np.testing.assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))


@pytest.mark.parametrize("leaf_fit", ["half_additive", "full"])
def test_one_tree_recovers_a_piece_wise_linear_function(leaf_fit):
    rng = np.random.default_rng(0)
    X = rng.integers(-20, 21, size=(2000, 3)) / 10
    y = np.where(X[:, 0] <= 0.3, 1 + 2 * X[:, 0] - X[:, 1], 3 - X[:, 0] + 4 * X[:, 1])
    model = PLGBRegressor(
        n_estimators=1, learning_rate=1, max_leaves=6, reg_lambda=0, leaf_fit=leaf_fit
    ).fit(X, y)
    assert model.trees_.nodes["threshold"][0] == pytest.approx(0.35)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    # Between the values that were seen, and a little beyond them.
    new = np.array([[-1.234, 0.777, 0.0], [1.234, -0.777, 0.0], [2.1, 2.1, 0.0]])
    expected = np.where(
        new[:, 0] <= 0.3, 1 + 2 * new[:, 0] - new[:, 1], 3 - new[:, 0] + 4 * new[:, 1]
    )
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-5)


@pytest.mark.parametrize("leaf_fit", FITS)
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize(
    "objective", ["reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "reg:gamma"]
)
def test_training_loss_never_rises(leaf_fit, refit, objective):
    X, y = make(1, n=400)
    y = np.exp(y / 3)
    model = PLGBRegressor(
        objective=objective, n_estimators=12, leaf_fit=leaf_fit, refit_leaves=refit,
        quantile_alpha=0.8, n_jobs=1, **SHAPE,
    )  # fmt: skip
    model.fit(X, y, eval_set=[(X, y)])
    (losses,) = model.evals_result()["validation_0"].values()
    assert (np.diff(losses) <= 1e-6 * np.abs(losses[:-1])).all()
    assert losses[-1] < losses[0]


def test_shift_and_scale_of_the_columns_do_not_matter():
    X, y = make(2)
    X[::17, 1] = np.nan
    moved = X * np.array([1024.0, 2.0**-20, 1, 4, 0.5]) + np.array([2.0**12, 0, 512, 0, -3])
    models = [PLGBRegressor(n_estimators=10, **SHAPE).fit(Z, y) for Z in (X, moved)]
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(moved), atol=1e-4)


def test_collinear_and_constant_columns_stay_sane():
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    X = np.column_stack([x, x + 1e-9 * rng.normal(size=800), 3 * x - 1, np.ones(800), x**3])
    y = np.abs(x) + 0.1 * rng.normal(size=800)
    for reg_lambda in (0.0, 1.0):
        for leaf_fit in FITS:
            model = PLGBRegressor(
                n_estimators=20, leaf_fit=leaf_fit, reg_lambda=reg_lambda, extrapolation="linear",
                min_samples_leaf=10, **SHAPE,
            ).fit(X, y)  # fmt: skip
            assert rmse(model, X, y) < 0.12
            far = np.column_stack([X[:, :3] + 1e-6, X[:, 3:]])
            assert np.abs(model.predict(far) - model.predict(X)).max() < 1


def test_tiny_hessians_stay_finite():
    X, y = make(3, noise=0.0)
    labels = (y > 0).astype(int)
    for reg_lambda in (0.0, 1.0):
        model = PLGBClassifier(
            n_estimators=60, learning_rate=1.0, reg_lambda=reg_lambda, min_child_weight=0,
            max_leaves=16,
        ).fit(X, labels)  # fmt: skip
        proba = model.predict_proba(X)
        assert np.abs(model.decision_function(X)).max() < 1000
        assert ((proba >= 0) & (proba <= 1)).all()
        assert np.mean(model.predict(X) == labels) > 0.99


@pytest.mark.parametrize("objective", ["reg:gamma", "reg:tweedie"])
def test_hessians_that_vanish_make_no_long_steps(objective):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    y = np.exp(3 * np.where(X[:, 0] > 0, X[:, 1], -X[:, 2]))  # from 1e-4 to 1e5: most are far off
    trees = {"n_estimators": 20, "max_leaves": 31, "min_samples_leaf": 16}
    model = PLGBRegressor(objective=objective, extrapolation="linear", **trees).fit(X, y)
    raw = np.array(list(model.staged_predict(X)))
    # A round changes a prediction by a factor of e at most, the step of 10 times the rate.
    assert np.abs(np.diff(np.log(raw), axis=0)).max() < 1 + 1e-6
    assert np.corrcoef(np.log(model.predict(X)), np.log(y))[0, 1] > 0.8


def test_richer_fits_fit_the_training_rows_better():
    errors = {name: [] for name in FITS}
    for seed in range(4):
        X, y = make(10 + seed, noise=0.05)
        for name in FITS:
            model = PLGBRegressor(n_estimators=10, leaf_fit=name, refit_leaves=False, **SHAPE)
            errors[name].append(rmse(model.fit(X, y), X, y))
    means = [np.mean(errors[name]) for name in FITS]
    assert means[1] > means[0] > means[2]


def test_lines_need_fewer_trees_than_numbers():
    X, y = make(4, n=4000)
    train, test = slice(0, 2000), slice(2000, None)
    flat = XGBRegressor(n_estimators=60, **SHAPE).fit(X[train], y[train])
    lines = PLGBRegressor(n_estimators=30, **SHAPE).fit(X[train], y[train])
    assert rmse(lines, X[test], y[test]) < rmse(flat, X[test], y[test])


@pytest.mark.parametrize("leaf_fit", FITS)
def test_same_model_for_any_number_of_threads(leaf_fit):
    X, y = make(5, n=9000)
    models = [
        PLGBRegressor(
            n_estimators=4, leaf_fit=leaf_fit, subsample=0.8, colsample_bynode=0.7, n_jobs=n_jobs,
            random_state=0, search_rows=1024, **SHAPE,
        ).fit(X, y).predict(X)
        for n_jobs in (1, 2, 3)
    ]  # fmt: skip
    np.testing.assert_array_equal(models[0], models[1])
    np.testing.assert_array_equal(models[0], models[2])


def test_a_missing_regressor_counts_as_the_mean_of_its_leaf():
    X, y = make(6)
    X[::5, 1] = np.nan
    model = PLGBRegressor(n_estimators=1, learning_rate=1, max_leaves=2, reg_lambda=0).fit(X, y)
    tree = model.trees_[0]
    for leaf in (1, 2):
        part = slice(tree.coef_ptr[leaf], tree.coef_ptr[leaf + 1])
        row = np.full((1, 5), np.nan)
        split = tree.nodes["feature"][0]
        row[0, split] = X[model.apply(X)[:, 0] == leaf, split][0]
        known = [k for k in range(part.start, part.stop) if tree.coef_feature[k] == split]
        shift = sum(tree.coef[k, 0] * (row[0, split] - tree.coef_center[k]) for k in known)
        expected = y.mean() + tree.values[leaf, 0] + shift
        assert model.predict(row)[0] == pytest.approx(expected)


@pytest.mark.parametrize("n_categories", [30, 193, 250])
def test_many_categories_alone_give_constant_leaves(n_categories):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, n_categories, 4000), rng.normal(size=4000)])
    X[rng.random(4000) < 0.05, 0] = np.nan
    y = np.sin(np.nan_to_num(X[:, 0], nan=-9.0)) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=4000)
    shape = {"n_estimators": 5, "max_leaves": 8, "max_depth": 0, "grow_policy": "lossguide"}
    shared = {**shape, "min_child_weight": 5, "categorical_features": [0], "n_jobs": 1}
    ours = PLGBRegressor(**shared, linear_features=[0], min_samples_leaf=1, learning_rate=0.3)
    other = XGBRegressor(**shared, enable_categorical=True).fit(X, y)
    np.testing.assert_allclose(ours.fit(X, y).predict(X), other.predict(X), atol=2e-5)
    assert (ours.trees_.nodes["category_start"] >= 0).sum() > 5


def test_categories_split_but_do_not_regress():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 8, 1200)
    x = rng.normal(size=1200)
    y = np.where(np.isin(codes, [1, 4, 6]), 2 * x, -x + 1)
    X = np.column_stack([codes, x])
    model = PLGBRegressor(n_estimators=20, categorical_features=[0], **SHAPE).fit(X, y)
    assert rmse(model, X, y) < 0.1
    assert (model.trees_.nodes["category_start"] >= 0).any()
    assert set(model.trees_.coef_feature) == {1}


def test_linear_features_limit_the_lines():
    X, y = make(7)
    model = PLGBRegressor(n_estimators=5, linear_features=[1, 3], **SHAPE).fit(X, y)
    assert set(model.trees_.coef_feature) <= {1, 3}
    capped = PLGBRegressor(n_estimators=5, max_leaf_features=2, max_leaves=16).fit(X, y)
    assert np.diff(capped.trees_.coef_ptr).max() == 2


def test_sparse_and_dense_tables_give_the_same():
    X, y = make(8)
    X[np.abs(X) < 0.4] = 0
    dense = PLGBRegressor(n_estimators=5, **SHAPE).fit(X, y)
    sparse = PLGBRegressor(n_estimators=5, **SHAPE).fit(scipy.sparse.csr_matrix(X), y)
    np.testing.assert_allclose(
        dense.predict(X), sparse.predict(scipy.sparse.csr_matrix(X)), rtol=1e-9
    )


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), leaf_fit=st.sampled_from(FITS), rows=st.integers(2, 60))
def test_small_tables_never_break(seed, leaf_fit, rows):
    rng = np.random.default_rng(seed)
    X = rng.choice([0.0, 1.0, 2.5, np.nan, -1e8], size=(rows, 3))
    y = rng.choice([0.0, 1.0, -3.0], size=rows)
    weight = rng.choice([0.0, 1.0, 2.0], size=rows) + (np.arange(rows) == 0)
    model = PLGBRegressor(n_estimators=3, leaf_fit=leaf_fit, min_child_weight=0, n_jobs=1)
    assert np.isfinite(model.fit(X, y, sample_weight=weight).predict(X)).all()


@pytest.mark.parametrize("leaf_fit", ["half_additive", "additive"])
@pytest.mark.parametrize("extrapolation", ["clip", "linear", "bounded"])
def test_a_slope_from_above_over_a_feature_that_the_leaf_lacks(leaf_fit, extrapolation):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    X[rng.random(X.shape) < 0.05] = np.nan
    x = np.nan_to_num(X)
    y = x[:, 0] * np.where(x[:, 1] > 0, 2, -1) + 0.1 * rng.normal(size=3000)
    model = PLGBRegressor(
        n_estimators=8, leaf_fit=leaf_fit, refit_leaves=False, extrapolation=extrapolation, n_jobs=1
    ).fit(X, y)
    assert rmse(model, X, y) < 0.9 * np.std(y)


@pytest.mark.parametrize(
    ("n", "features", "leaves", "rows"),
    [(60, 5, 4, 20), (200, 5, 6, 20), (1000, 5, 8, 20), (1400, 5, 8, 28), (10000, 5, 16, 30),
     (40000, 5, 31, 30), (10000, 1, 31, 10), (900, 1, 15, 10), (900, 0, 30, 1)],
)  # fmt: skip
def test_limits_on_leaves_depend_on_the_number_of_rows(n, features, leaves, rows):
    X = np.random.default_rng(n).normal(size=(n, 2))
    model = PLGBRegressor(n_estimators=1, max_leaf_features=features).fit(X, np.sin(3 * X[:, 0]))
    assert (model.max_leaves_, model.min_samples_leaf_) == (leaves, rows)
    nodes = model.trees_.nodes[model.trees_.nodes["left"] < 0]
    assert 1 < len(nodes) <= leaves and nodes["n_samples"].min() >= rows
    model.set_params(max_leaves=7, min_samples_leaf=3).fit(X, np.sin(3 * X[:, 0]))
    assert (model.max_leaves_, model.min_samples_leaf_) == (7, 3)


@pytest.mark.parametrize(
    ("n", "n_classes", "leaves"),
    [(100, 2, 4), (500, 2, 5), (500, 10, 6), (10000, 2, 8), (40000, 2, 16)],
)
def test_a_class_says_less_than_a_number(n, n_classes, leaves):
    X = np.random.default_rng(n).normal(size=(n, 2))
    model = PLGBClassifier(n_estimators=1).fit(X, np.arange(n) % n_classes)
    assert model.max_leaves_ == leaves
