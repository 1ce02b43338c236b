"""Errors out of the bag of RERF: neither of its parts has seen the row."""

import numpy as np
import pytest

from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.regressor import LinearRegressor
from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor
from hybridtrees.models.rerf.linear import few_folds


def forest_part(model, X):
    """Mean of the trees that have not seen a row, from the trees and their samples."""
    forest = model.forest_
    total, count = 0.0, np.zeros(len(X))
    for k, (tree, leaf) in enumerate(zip(forest.trees_, forest.apply(X).T, strict=True)):
        left_out = forest._tree_counts(k) == 0
        total = total + np.where(left_out[:, None], tree.values[leaf], 0.0)
        count += left_out
    return total / count[:, None]


def without_each_row(X, Y, weight, alpha, fit_intercept, standardize):
    """Ridge without each row, one after the other; means and scales are those of all rows."""
    share = weight / weight.sum()
    mean = share @ X if fit_intercept else np.zeros(X.shape[1])
    scale = np.sqrt(share @ (X - mean) ** 2) if standardize else np.ones(X.shape[1])
    Z = (X - mean) / scale
    if fit_intercept:
        Z = np.column_stack([Z, np.ones(len(Z))])
    price = np.full(Z.shape[1], alpha)
    price[X.shape[1] :] = 0.0
    found = np.empty_like(Y)
    for i in range(len(Z)):
        others = np.arange(len(Z)) != i
        A = Z[others].T @ (share[others, None] * Z[others]) + np.diag(price)
        found[i] = Z[i] @ np.linalg.solve(A, Z[others].T @ (share[others, None] * Y[others]))
    return found


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_without_each_row(rng, alpha, standardize, fit_intercept, weighted):
    X = rng.normal(1.0, [1.0, 5.0, 0.2], (60, 3))
    Y = X[:, [0, 1]] ** 2 + rng.normal(size=(60, 2))
    weight = rng.uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    model = RERFRegressor(
        30, penalty="ridge", alpha=alpha, standardize=standardize, fit_intercept=fit_intercept,
        oob_score=True, max_depth=3, random_state=0, n_jobs=1,
    ).fit(X, Y, weight if weighted else None)  # fmt: skip
    line = without_each_row(X, Y, weight, alpha, fit_intercept, standardize)
    expected = line + forest_part(model, X)
    np.testing.assert_allclose(model.oob_prediction_, expected, rtol=1e-6, atol=1e-6)
    error = np.average(((Y - expected) ** 2).mean(axis=1), weights=weight)
    assert model.oob_curve_[-1] == pytest.approx(error, rel=1e-6)
    # The forest itself is grown on ordinary residuals.
    plain = RERFRegressor(**{**model.get_params(), "oob_score": False})
    plain.fit(X, Y, weight if weighted else None)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))


def test_missing_and_sparse_entries(rng):
    from scipy import sparse

    X = rng.normal(size=(80, 4)) * (rng.random((80, 4)) < 0.5)
    y = X[:, 0] + rng.normal(size=80)
    params = {"oob_score": True, "random_state": 0, "n_jobs": 1, "max_depth": 3}
    dense = RERFRegressor(30, **params).fit(X, y)
    packed = RERFRegressor(30, **params).fit(sparse.csc_array(X), y)
    np.testing.assert_allclose(packed.oob_prediction_, dense.oob_prediction_, atol=1e-8)
    holes = X.copy()
    holes[:9, 1] = np.nan
    filled = np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes)
    model = RERFRegressor(30, **params).fit(holes, y)
    line = without_each_row(filled, y[:, None], np.ones(80), 1e-3, True, True)
    np.testing.assert_allclose(
        model.oob_prediction_, (line + forest_part(model, holes))[:, 0], atol=1e-5
    )


@pytest.mark.parametrize("penalty", ["lasso", "elasticnet"])
def test_other_penalties_are_fitted_to_other_folds(rng, penalty):
    X = rng.normal(size=(90, 4))
    y = X[:, 0] + rng.normal(size=90)
    linear = {"penalty": penalty, "alpha": 0.05, "l1_ratio": 0.4, "n_jobs": 1}
    model = RERFRegressor(30, **linear, oob_score=True, random_state=0).fit(X, y)
    line = np.full(90, np.nan)
    for train, test in few_folds(90):
        assert not np.intersect1d(train, test).size
        line[test] = LinearRegressor(**linear).fit(X[train], y[train]).predict(X[test])
    expected = line + forest_part(model, X)[:, 0]
    np.testing.assert_allclose(model.oob_prediction_, expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regressions_are_fitted_to_other_folds(rng, n_classes):
    X = rng.normal(size=(150, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=150), [0.0, 1.0][: n_classes - 1])
    linear = {"penalty": "ridge", "alpha": 0.05, "n_jobs": 1}
    model = RERFClassifier(30, **linear, oob_score=True, random_state=0, max_depth=3).fit(X, y)
    line = np.full((150, n_classes), np.nan)
    for train, test in few_folds(150, y):
        line[test] = LogisticClassifier(**linear).fit(X[train], y[train]).predict_proba(X[test])
    forest = forest_part(model, X)
    if n_classes == 2:
        forest = np.hstack([-forest, forest])
    np.testing.assert_allclose(model.oob_decision_function_, line + forest, atol=1e-5)


@pytest.mark.parametrize("penalty", ["ridge", "lasso"])
def test_noise_is_tuned_to_the_strongest_penalty(penalty):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 70)), rng.normal(size=100)
    new, truth = rng.normal(size=(1000, 70)), rng.normal(size=1000)
    model = RERFRegressor(
        20, penalty=penalty, tune={"alpha": [1e-3, 1.0, 100.0]}, max_depth=3, random_state=0,
        n_jobs=1,
    ).fit(X, y)  # fmt: skip
    assert model.alpha_ > 0.5
    assert np.mean((model.predict(new) - truth) ** 2) < 1.3


def test_a_regression_that_overfits_is_found_out():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 70)), rng.normal(size=100)
    new, truth = rng.normal(size=(1000, 70)), rng.normal(size=1000)
    for rows in (100, 50):  # with 50 there are more columns than rows
        model = RERFRegressor(30, penalty=None, oob_score=True, random_state=0, n_jobs=1)
        model.fit(X[:rows], y[:rows])
        assert model.oob_score_ < -0.5 and model.score(new, truth) < -0.5


def test_a_row_that_has_a_coefficient_of_its_own(rng):
    pandas = pytest.importorskip("pandas")
    label = np.array(["a"] * 30 + ["b"] * 29 + ["alone"])
    frame = pandas.DataFrame({"k": label, "x": rng.normal(size=60)})
    y = rng.normal(size=60) + 50.0 * (label == "alone")
    model = RERFRegressor(40, penalty=None, oob_score=True, random_state=0, n_jobs=1)
    model.fit(frame, y)
    assert np.isfinite(model.oob_prediction_).all()
    # Nothing but the row itself tells of its level.
    assert abs(model.oob_prediction_[-1] - y[-1]) > 20


def test_means_of_categories_leave_out_the_fold(rng):
    pandas = pytest.importorskip("pandas")
    y = rng.normal(size=40)
    frame = pandas.DataFrame({"k": rng.choice(["a", "b"], 40), "i": [f"r{i}" for i in range(40)]})
    model = RERFRegressor(3, categorical_encoding="target_mean", random_state=0, n_jobs=1)
    model.fit(frame, y)
    made = model._columns.make_training(model._read_features(frame), y[:, None], None)
    for train, test in few_folds(40):
        for row in test:
            own = train[(frame["k"].iloc[train] == frame["k"].iloc[row]).to_numpy()]
            expected = (y[own].sum() + y.mean()) / (len(own) + 1)
            assert made[row, 0] == pytest.approx(expected, rel=1e-5)
    # The mean of a category of one row is that of all rows: it explains nothing.
    assert np.ptp(made[:, 1]) == 0 and model.coef_[1] == 0
