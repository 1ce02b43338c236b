"""The two scales of alpha in linear models: per unit of weight, and for the sum of all."""

from __future__ import annotations

import numpy as np
import pytest
from model_files import drop_parameter

import hybridtrees
from hybridtrees import LinearRegressor, LinearTreeRegressor, LogisticClassifier, linear_path

PENALTIES = ["ridge", "lasso", "elasticnet"]


def make(rng, n=70, p=5, classes=0):
    X = rng.normal(size=(n, p)) * np.array([1.0, 3.0, 0.2, 10.0, 1.0])[:p]
    score = X[:, 0] - 0.4 * X[:, 1] + rng.normal(size=n)
    weight = rng.uniform(0.2, 4.0, n)
    if classes:
        return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)), weight
    return X, score + 2.0, weight


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_a_sum_has_alpha_times_the_weights_of_a_mean(rng, penalty, weighted, classes):
    X, y, weight = make(rng, classes=classes)
    weight = weight if weighted else None
    total = len(y) if weight is None else weight.sum()
    model = LogisticClassifier if classes else LinearRegressor
    by_sum = model(penalty=penalty, alpha=3.0, alpha_scaling="sum").fit(X, y, weight)
    by_mean = model(penalty=penalty, alpha=3.0 / total).fit(X, y, weight)
    np.testing.assert_allclose(by_sum.coef_, by_mean.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_sum.intercept_, by_mean.intercept_, rtol=1e-9)
    assert by_sum.alpha_ == pytest.approx(3.0)
    assert by_mean.alpha_ == pytest.approx(3.0 / total)
    other = model(penalty=penalty, alpha=3.0).fit(X, y, weight)
    assert np.abs(other.coef_ - by_sum.coef_).max() > 1e-3


@pytest.mark.peer
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_scikit_learn(rng, weighted):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y, weight = make(rng)
    weight = weight if weighted else None
    raw = {"penalty": "ridge", "alpha_scaling": "sum", "standardize": False}
    ours = LinearRegressor(alpha=7.0, **raw).fit(X, y, weight)
    peer = linear_model.Ridge(alpha=7.0, solver="svd").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-8)
    assert ours.intercept_ == pytest.approx(peer.intercept_)
    X, y, _ = make(rng, classes=2)
    ours = LogisticClassifier(alpha=1 / 0.3, **raw).fit(X, y, weight)
    peer = linear_model.LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000)
    peer.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, peer.coef_, rtol=1e-5)


@pytest.mark.parametrize("scaling", ["mean", "sum"])
def test_a_linear_tree_without_splits_is_the_linear_model(rng, scaling):
    X, y, weight = make(rng)
    shared = {"penalty": "ridge", "alpha": 0.7, "alpha_scaling": scaling}
    line = LinearRegressor(**shared).fit(X, y, weight)
    tree = LinearTreeRegressor(**shared, ccp_alpha=1e9, extrapolate="linear").fit(X, y, weight)
    np.testing.assert_allclose(line.predict(X), tree.predict(X), rtol=1e-6)


@pytest.mark.parametrize("model", [LinearRegressor, LogisticClassifier])
def test_cross_validation_tries_and_reports_alphas_of_the_same_scale(rng, model):
    X, y, weight = make(rng, n=120, classes=2 * (model is LogisticClassifier))
    total, alphas = weight.sum(), np.array([100.0, 10.0, 1.0])
    shared = {"penalty": "ridge", "alpha": "cv"}
    by_sum = model(**shared, alphas=alphas, alpha_scaling="sum").fit(X, y, weight)
    by_mean = model(**shared, alphas=alphas / total).fit(X, y, weight)
    np.testing.assert_allclose(by_sum.alphas_, alphas)
    np.testing.assert_allclose(by_sum.cv_scores_, by_mean.cv_scores_, rtol=1e-9)
    assert by_sum.alpha_ == pytest.approx(by_mean.alpha_ * total)
    again = model(penalty="ridge", alpha=by_sum.alpha_, alpha_scaling="sum").fit(X, y, weight)
    np.testing.assert_allclose(again.coef_, by_sum.coef_, rtol=1e-9)
    # A grid of its own finds the same model on either scale.
    grids = [model(**shared, alphas=7, alpha_scaling=s).fit(X, y, weight) for s in ("mean", "sum")]
    np.testing.assert_allclose(grids[1].coef_, grids[0].coef_, rtol=1e-9)
    np.testing.assert_allclose(grids[1].alphas_, grids[0].alphas_ * total)


def test_a_path_has_alphas_of_the_same_scale(rng):
    X, y, weight = make(rng)
    total = weight.sum()
    by_sum = linear_path(X, y, weight, alphas=[20.0, 2.0], alpha_scaling="sum")
    by_mean = linear_path(X, y, weight, alphas=[20.0 / total, 2.0 / total])
    np.testing.assert_allclose(by_sum.alphas, [20.0, 2.0])
    np.testing.assert_allclose(by_sum.coefs, by_mean.coefs, rtol=1e-9, atol=1e-12)


def test_other_scales_are_refused_before_any_work():
    with pytest.raises(ValueError, match=r"alpha_scaling must be one of .*'mean', 'sum'.* 'rows'"):
        LinearRegressor(alpha_scaling="rows").fit("no table", None)


def test_files_from_before_there_were_two_scales_still_load(rng, tmp_path):
    X, y, _ = make(rng)
    model = LinearRegressor(penalty="ridge", alpha=0.5).fit(X, y)
    model.save(tmp_path / "new.htree")
    drop_parameter(tmp_path / "new.htree", tmp_path / "old.htree", "alpha_scaling")
    loaded = hybridtrees.load(tmp_path / "old.htree")
    assert loaded.alpha_scaling == "mean"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
