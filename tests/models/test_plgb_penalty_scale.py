"""PLGB's `penalty_scale`: the paper's penalty on raw coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from model_files import drop_parameter

import hybridtrees
from hybridtrees import PLGBClassifier, PLGBRegressor


def make(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * np.array([1.0, 5.0, 0.3]) + np.array([1.0, -2.0, 0.5])
    y = np.where(X[:, 0] > 1, X[:, 1], -X[:, 1]) + 4 * X[:, 2] + 0.1 * rng.normal(size=n)
    return X, y


@pytest.mark.parametrize("reg_lambda", [0.0, 3.0])
def test_leaves_solve_the_papers_equations(reg_lambda):
    X, y = make()
    model = PLGBRegressor(
        n_estimators=1, learning_rate=1, base_score=0, max_leaves=4, reg_lambda=reg_lambda,
        penalty_scale="raw", extrapolation="linear", n_jobs=1,
    ).fit(X, y)  # fmt: skip
    tree, leaf, said = model.trees_[0], model.apply(X)[:, 0], model.predict(X)
    assert tree.n_leaves == 4
    for node in np.unique(leaf):
        own = leaf == node
        used = tree.coef_feature[tree.coef_ptr[node] : tree.coef_ptr[node + 1]]
        D = np.column_stack([np.ones(own.sum()), X[own][:, used]])
        b = np.linalg.solve(D.T @ D + reg_lambda * np.eye(D.shape[1]), D.T @ y[own])
        np.testing.assert_allclose(said[own], D @ b, rtol=1e-5, atol=1e-5)


def test_units_matter_to_the_raw_penalty_alone():
    X, y = make(1)
    other = X * np.array([1000.0, 0.001, 30.0]) + np.array([0.0, 3.0, -100.0])
    shape = {"n_estimators": 5, "max_leaves": 6, "reg_lambda": 10.0, "n_jobs": 1}
    gap = {}
    for scale in ("standard", "raw"):
        model = PLGBRegressor(**shape, penalty_scale=scale)
        gap[scale] = np.abs(model.fit(X, y).predict(X) - model.fit(other, y).predict(other)).max()
    assert gap["standard"] < 1e-4 < 1e-1 < gap["raw"]


@pytest.mark.parametrize("leaf_fit", ["half_additive", "additive", "full"])
@pytest.mark.parametrize("refit", [True, False])
def test_more_rounds_fit_better(leaf_fit, refit):
    X, y = make(2)
    model = PLGBRegressor(
        n_estimators=20, leaf_fit=leaf_fit, refit_leaves=refit, max_leaves=6, penalty_scale="raw"
    ).fit(X, y)
    errors = [np.mean((y - said) ** 2) for said in model.staged_predict(X)]
    assert (np.diff(errors) < 0).all() and errors[-1] < 0.1 * np.var(y)


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror"])
def test_monotone_constraints_hold(objective):
    X, y = make(3)
    model = PLGBRegressor(
        objective=objective, n_estimators=10, max_leaves=6, monotone_constraints=[0, 1, 1],
        penalty_scale="raw", reg_lambda=2.0, n_jobs=1,
    ).fit(X, y)  # fmt: skip
    grid = np.repeat(X[:40], 25, axis=0)
    for f in (1, 2):
        moved = grid.copy()
        moved[:, f] = np.tile(np.linspace(X[:, f].min() - 1, X[:, f].max() + 1, 25), 40)
        assert np.diff(model.predict(moved).reshape(40, 25), axis=1).min() > -1e-6


def test_classes_and_files(tmp_path):
    X, y = make(4)
    model = PLGBClassifier(n_estimators=5, penalty_scale="raw").fit(X, y > 0)
    assert np.mean(model.predict(X) == (y > 0)) > 0.9
    model.save(tmp_path / "new.htree")
    drop_parameter(tmp_path / "new.htree", tmp_path / "old.htree", "penalty_scale")
    assert hybridtrees.load(tmp_path / "new.htree").penalty_scale == "raw"
    loaded = hybridtrees.load(tmp_path / "old.htree")
    assert loaded.penalty_scale == "standard"
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_what_is_refused_before_any_work():
    with pytest.raises(ValueError, match=r"penalty_scale must be one of .*'standard', 'raw'"):
        PLGBRegressor(penalty_scale="paper").fit("no table", None)
    with pytest.raises(ValueError, match=r"reg_alpha must be 0 with penalty_scale='raw'.* got 0.5"):
        PLGBRegressor(penalty_scale="raw", reg_alpha=0.5).fit("no table", None)
