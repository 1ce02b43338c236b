"""Constraints, extrapolation, robust losses and parameters of piece-wise linear boosting."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import PLGBClassifier, PLGBRegressor, load


def make(seed=0, n=1500, p=4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, p))
    y = X[:, 0] + np.sin(4 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.3 * rng.normal(size=n)
    return X, y


@pytest.mark.parametrize("leaf_fit", ["half_additive", "additive", "full"])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("extrapolation", ["clip", "linear"])
def test_monotone_constraints_hold_inside_and_across_leaves(leaf_fit, refit, extrapolation):
    X, y = make()
    X[::11, 1] = np.nan
    signs = np.array([1, -1, 0, 0])
    model = PLGBRegressor(
        n_estimators=25, max_leaves=12, leaf_fit=leaf_fit, refit_leaves=refit,
        extrapolation=extrapolation, monotone_constraints=signs,
    ).fit(X, y)  # fmt: skip
    rng = np.random.default_rng(1)
    grid = np.linspace(-4, 4, 161)
    for feature in (0, 1):
        for row in rng.uniform(-2.5, 2.5, size=(20, 4)):
            points = np.tile(row, (161, 1))
            points[:, feature] = grid
            steps = np.diff(model.predict(points)) * signs[feature]
            assert steps.min() >= -1e-9
    assert np.ptp(model.predict(X)) > 1


def test_monotone_robust_losses():
    X, y = make(1)
    model = PLGBRegressor(
        objective="reg:absoluteerror", n_estimators=15, max_leaves=8, monotone_constraints={0: 1}
    ).fit(X, y)
    grid = np.linspace(-3, 3, 121)
    for row in np.random.default_rng(2).uniform(-2, 2, size=(15, 4)):
        points = np.tile(row, (121, 1))
        points[:, 0] = grid
        assert np.diff(model.predict(points)).min() >= -1e-9


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantiles_reach_their_coverage(level):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 3))
    y = 2 * X[:, 0] + (1 + X[:, 1]) * rng.normal(size=6000)
    model = PLGBRegressor(
        objective="reg:quantileerror", quantile_alpha=level, n_estimators=40, max_leaves=6
    ).fit(X[:4000], y[:4000])
    below = np.mean(y[4000:] <= model.predict(X[4000:]))
    assert below == pytest.approx(level, abs=0.035)


def test_the_line_of_a_robust_loss_is_not_that_of_squares():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1000, 1))
    y = 3 * X[:, 0]
    y[X[:, 0] > 0.8] = -40  # outliers that pull a least-squares line down
    kept = X[:, 0] < 0.8
    settings = {"n_estimators": 60, "max_leaves": 2, "linear_features": [0], "max_bin": 3}
    robust = PLGBRegressor(objective="reg:absoluteerror", **settings).fit(X, y)
    squares = PLGBRegressor(**settings).fit(X, y)
    errors = [np.abs(m.predict(X)[kept] - y[kept]).mean() for m in (robust, squares)]
    assert errors[0] < 0.1 < errors[1]


@pytest.mark.parametrize(
    ("objective", "positive"),
    [("reg:pseudohubererror", False), ("count:poisson", True), ("reg:tweedie", True),
     ("reg:gamma", True), ("reg:expectileerror", False)],
)  # fmt: skip
def test_all_losses_learn(objective, positive):
    X, y = make(2)
    if positive:
        y = np.exp(y / 2)
    model = PLGBRegressor(objective=objective, expectile_alpha=0.5, n_estimators=40).fit(X, y)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9


def test_own_loss_and_many_classes():
    X, y = make(3)
    own = PLGBRegressor(objective=lambda t, p: (p - t, np.ones_like(t)), n_estimators=40)
    assert np.corrcoef(own.fit(X, y).predict(X), y)[0, 1] > 0.95
    labels = np.digitize(y, [-1, 1])
    model = PLGBClassifier(n_estimators=20, max_leaves=31).fit(X, labels)
    assert model.score(X, labels) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_predictions_do_not_run_away_unless_asked():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(2000, 2))
    y = 5 * X[:, 0] + (X[:, 1] > 0.5)
    near, far = np.array([[1.1, 0.3]]), np.array([[1e6, 0.3]])
    values = {}
    for policy in ("clip", "linear", "bounded"):
        model = PLGBRegressor(extrapolation=policy, n_estimators=100, max_leaves=4).fit(X, y)
        values[policy] = float(model.predict(near)[0]), float(model.predict(far)[0])
    # A line goes on for a while by default, then stays; "linear" goes on, "bounded" does not.
    assert values["clip"][0] == pytest.approx(5.5, abs=0.1)
    assert 5.6 < values["clip"][1] < 6
    assert values["linear"][1] > 1e5
    assert max(values["bounded"]) < 5.2


def test_continued_training_and_early_stopping():
    X, y = make(4)
    shared = {"max_leaves": 6, "random_state": 0, "subsample": 0.9, "n_jobs": 1}
    whole = PLGBRegressor(n_estimators=8, **shared).fit(X, y)
    part = PLGBRegressor(n_estimators=5, **shared).fit(X, y)
    rest = PLGBRegressor(n_estimators=3, **shared).fit(X, y, xgb_model=part)
    np.testing.assert_allclose(rest.predict(X), whole.predict(X), rtol=1e-6)
    model = PLGBRegressor(n_estimators=300, learning_rate=0.5, early_stopping_rounds=5, **shared)
    model.fit(X[:1000], y[:1000], X_val=X[1000:], y_val=y[1000:])
    assert model.n_iter_ < 300
    assert model.best_iteration == model.n_iter_ - 6


def test_files_keep_the_model(tmp_path):
    X, y = make(5)
    model = PLGBRegressor(n_estimators=5).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [("leaf_fit", "half"), ("max_leaf_features", 17), ("max_leaf_features", -1),
     ("refit_leaves", "yes"), ("extrapolation", "wild"), ("extrapolation_margin", -1.0),
     ("search_rows", 10), ("min_samples_leaf", 0), ("linear_features", [9]),
     ("linear_features", "a")],
)  # fmt: skip
def test_bad_parameters_are_named(name, value):
    X, y = make(6, n=50)
    with pytest.raises((ValueError, TypeError), match=name):
        PLGBRegressor(**{name: value}).fit(X, y)
