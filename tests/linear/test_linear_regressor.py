"""LinearRegressor against scikit-learn, textbook formulas and its own promises."""

from __future__ import annotations

import warnings

import linear_oracle as slow
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees.linear.regressor import LinearRegressor, linear_path
from hybridtrees.linear.solvers import ConvergenceWarning


def table(rng, n, p, kind):
    X = rng.standard_normal((n, p)) * 10 ** rng.uniform(-2, 2, p) + rng.standard_normal(p)
    if kind == "collinear":
        X[:, -1] = X[:, 0] - 2 * X[:, 1]
        X[:, -2] = X[:, 0]
    if kind == "nearly":
        X[:, -1] = X[:, 0] * (1 + 1e-4 * rng.standard_normal(n))
    y = (X - X.mean(0)) / X.std(0) @ rng.standard_normal(p) + rng.standard_normal(n) + 3
    return X, y


SHAPES = [(80, 6, "plain"), (80, 6, "collinear"), (80, 6, "nearly"), (30, 400, "wide")]


@pytest.mark.peer
@pytest.mark.parametrize("n, p, kind", SHAPES)
@pytest.mark.parametrize("penalty, l1_ratio", [("ridge", 0), ("lasso", 1), ("elasticnet", 0.4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(rng, n, p, kind, penalty, l1_ratio, weighted):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = table(rng, n, p, kind)
    w = rng.random(n) + 0.1 if weighted else None
    alpha = 0.2
    Z, mean, scale = slow.standardise(X, w)
    if penalty == "ridge":
        total = n if w is None else w.sum()
        peer = linear_model.Ridge(alpha=alpha * total, solver="svd")
    else:
        peer = linear_model.ElasticNet(alpha=alpha, l1_ratio=l1_ratio, tol=1e-14, max_iter=10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(Z, y, sample_weight=w)
    model = LinearRegressor(penalty=penalty, alpha=alpha, l1_ratio=0.4, tol=1e-14).fit(X, y, w)
    coef, intercept = slow.on_standard_scale(model, mean, scale)
    arguments = (Z, y, w)
    ours = slow.linear_objective(*arguments, coef[0], intercept[0], alpha, l1_ratio)
    theirs = slow.linear_objective(*arguments, peer.coef_, peer.intercept_, alpha, l1_ratio)
    assert ours <= theirs + 1e-8
    np.testing.assert_allclose(model.predict(X), peer.predict(Z), atol=1e-6)
    if penalty != "lasso" or kind != "collinear":  # a lasso may share among equal columns
        np.testing.assert_allclose(coef[0], peer.coef_, atol=1e-6)
    # The defaults are close as well.
    quick = LinearRegressor(penalty=penalty, alpha=alpha, l1_ratio=0.4).fit(X, y, w)
    coef, intercept = slow.on_standard_scale(quick, mean, scale)
    quick_value = slow.linear_objective(*arguments, coef[0], intercept[0], alpha, l1_ratio)
    assert abs(quick_value - theirs) <= 1e-8


@pytest.mark.parametrize("n, p, kind", SHAPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_plain_least_squares_of_minimum_norm(rng, n, p, kind, weighted, fit_intercept):
    X, y = table(rng, n, p, kind)
    w = rng.random(n) + 0.1 if weighted else np.ones(n)
    model = LinearRegressor(fit_intercept=fit_intercept).fit(X, y, w if weighted else None)
    if fit_intercept:
        Z, _, scale = slow.standardise(X, w)
        target = y - np.average(y, weights=w)
    else:
        scale = np.sqrt(np.average(X**2, axis=0, weights=w))
        Z, target = X / scale, y
    root = np.sqrt(w)
    beta, _, rank, _ = np.linalg.lstsq(Z * root[:, None], target * root)
    np.testing.assert_allclose(model.coef_ * scale, beta, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), Z @ beta + (y - target), atol=1e-6)
    assert model.rank_ == rank
    assert fit_intercept or model.intercept_ == 0


def test_without_standardisation_the_penalty_is_on_the_raw_scale(rng):
    linear_model = pytest.importorskip("sklearn.linear_model")
    for n, p in ((60, 5), (20, 300)):
        X, y = table(rng, n, p, "plain")
        model = LinearRegressor(penalty="elasticnet", alpha=0.3, standardize=False, tol=1e-14)
        residual = y - model.fit(X, y).predict(X)
        grad = 0.15 * model.coef_ - (X - X.mean(axis=0)).T @ residual / n
        assert slow.subgradient_violation(grad, model.coef_, 0.15) < 1e-5
        assert abs(residual.mean()) < 1e-10 and np.count_nonzero(model.coef_) > 0
        ridge = LinearRegressor(penalty="ridge", alpha=0.3, standardize=False).fit(X, y)
        expected = linear_model.Ridge(alpha=0.3 * n, solver="svd").fit(X, y)
        np.testing.assert_allclose(ridge.coef_, expected.coef_, atol=1e-8)


def test_standard_errors_are_those_of_the_textbook(rng):
    n = 70
    X, w = rng.standard_normal((n, 3)) * [1, 100, 0.01] + [0, 50, 1], rng.random(n) + 0.2
    y = X @ [1.0, 0.02, 5.0] + rng.standard_normal(n)
    for weight in (None, w):
        s = LinearRegressor().fit(X, y, weight).summary()
        W = np.ones(n) if weight is None else weight
        A = np.column_stack([np.ones(n), X])
        inverse = np.linalg.inv(A.T @ (W[:, None] * A))
        beta = inverse @ A.T @ (W * y)
        sigma2 = W @ (y - A @ beta) ** 2 / (n - 4)
        error = np.sqrt(sigma2 * np.diag(inverse))
        np.testing.assert_allclose(s.coef, beta, rtol=1e-8)
        np.testing.assert_allclose(s.std_error, error, rtol=1e-8)
        np.testing.assert_allclose(s.statistic, beta / error, rtol=1e-8)
        stats = pytest.importorskip("scipy.stats")
        np.testing.assert_allclose(s.p_value, 2 * stats.t.sf(np.abs(beta / error), n - 4))
        assert s.facts["df_residual"] == n - 4
        assert s.facts["sigma"] == pytest.approx(np.sqrt(sigma2))
        spread = W @ (y - np.average(y, weights=W)) ** 2
        assert s.facts["r2"] == pytest.approx(1 - sigma2 * (n - 4) / spread)
    assert "x1" in str(s) and "std error" in str(s)
    assert s.to_dict()["t"] == s.statistic.tolist()


def test_errors_of_what_is_not_determined(rng):
    X = rng.standard_normal((50, 4))
    X[:, 2] = X[:, 0]
    X[:, 3] = 7.0
    y = X[:, 0] + X[:, 1] + rng.standard_normal(50)
    s = LinearRegressor().fit(X, y).summary()
    assert list(np.isnan(s.std_error)) == [True, True, False, True, True]
    alone = LinearRegressor().fit(X[:, :2], y).summary()
    assert s.std_error[2] == pytest.approx(alone.std_error[2], rel=1e-6)
    assert s.coef[1] == pytest.approx(alone.coef[1] / 2) and s.coef[4] == 0
    assert s.odds_ratio is None and "odds" not in str(s) and "odds_ratio" not in s.to_dict()
    penalised = LinearRegressor(penalty="ridge").fit(X, y).summary()
    assert np.isnan(penalised.std_error).all() and np.isfinite(penalised.coef).all()
    tight = LinearRegressor().fit(X[:3], y[:3]).summary()  # no degree of freedom is left
    assert np.isnan(tight.std_error).all() and str(tight)
    # A nearly perfect fit keeps the digits of its errors.
    y = X[:, 0] + 1e-9 * rng.standard_normal(50)
    s = LinearRegressor().fit(X[:, :2], y).summary()
    A = np.column_stack([np.ones(50), X[:, :2]])
    left = y - A @ np.linalg.lstsq(A, y)[0]
    assert s.facts["sigma"] == pytest.approx(np.sqrt(left @ left / 47), rel=1e-4)


def test_several_targets_are_fitted_as_if_alone(rng):
    X = rng.standard_normal((60, 4))
    Y = X @ rng.standard_normal((4, 3)) + rng.standard_normal((60, 3)) * [1, 10, 0.1]
    for parameters in ({}, {"penalty": "ridge"}, {"penalty": "lasso", "alpha": 0.05}):
        model = LinearRegressor(**parameters).fit(X, Y)
        assert model.coef_.shape == (3, 4) and model.intercept_.shape == (3,)
        for k in range(3):
            alone = LinearRegressor(**parameters).fit(X, Y[:, k])
            np.testing.assert_allclose(model.coef_[k], alone.coef_, atol=1e-8)
            np.testing.assert_allclose(model.predict(X)[:, k], alone.predict(X), atol=1e-8)
            np.testing.assert_allclose(model.summary(k).coef, alone.summary().coef, atol=1e-8)
    with pytest.raises(ValueError, match="target must be"):
        model.summary(3)


@pytest.mark.parametrize(
    ("penalty", "l1_ratio", "share", "span"),
    [("lasso", 0.5, 1.0, 1e-4), ("elasticnet", 0.2, 0.2, 1e-4), ("ridge", 0.5, 1e-3, 1e-7)],
)
def test_the_grid_of_alphas(rng, penalty, l1_ratio, share, span):
    X, y = table(rng, 60, 5, "plain")
    path = linear_path(X, y, penalty=penalty, l1_ratio=l1_ratio, alphas=7)
    # At the largest the coefficients have just become 0; a ridge takes a small share of L1 for it.
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    largest = np.abs(Z.T @ (y - y.mean())).max() / 60 / share
    np.testing.assert_allclose(path.alphas, largest * span ** (np.arange(7) / 6), rtol=1e-9)


@pytest.mark.parametrize("n_columns", [4, 260])
def test_a_path_has_the_models_of_its_alphas(rng, n_columns):
    X, y = table(rng, 50, n_columns, "plain")
    w = rng.exponential(size=50)
    path = linear_path(X, y, sample_weight=w, penalty="elasticnet", alphas=[0.5, 0.05], tol=1e-13)
    for alpha, coef, intercept in zip(path.alphas, path.coefs, path.intercepts, strict=True):
        model = LinearRegressor(penalty="elasticnet", alpha=alpha, tol=1e-13).fit(X, y, w)
        np.testing.assert_allclose(coef, model.coef_, atol=1e-7)
        np.testing.assert_allclose(intercept, model.intercept_, atol=1e-7)


# By moments, and by the rows of a table that is too wide for them.
@pytest.mark.parametrize("n_columns", [5, 260])
def test_cross_validation_equals_refits_fold_by_fold(rng, n_columns):
    X, y = table(rng, 60, n_columns, "plain")
    w = rng.random(60) + 0.1
    alphas = np.array([1.0, 0.1, 0.01])
    order = rng.permutation(60)
    splits = [(np.setdiff1d(order, part), part) for part in np.array_split(order, 4)]
    for penalty in ("ridge", "lasso", "elasticnet"):
        model = LinearRegressor(penalty=penalty, alpha="cv", alphas=alphas, cv=splits, tol=1e-13)
        model.fit(X, y, w)
        for f, (train, test) in enumerate(splits):
            for a, alpha in enumerate(alphas):
                part = LinearRegressor(penalty=penalty, alpha=alpha, tol=1e-13)
                part.fit(X[train], y[train], w[train])
                error = np.average((part.predict(X[test]) - y[test]) ** 2, weights=w[test])
                assert model.cv_scores_[a, f] == pytest.approx(error, rel=1e-6)
        assert model.alpha_ == alphas[model.cv_scores_.mean(axis=1).argmin()]
        direct = LinearRegressor(penalty=penalty, alpha=model.alpha_).fit(X, y, w)
        np.testing.assert_allclose(model.coef_, direct.coef_, atol=1e-8)
    # Folds that overlap take another way to the same numbers.
    overlapping = [*splits, splits[0]]
    again = LinearRegressor(
        penalty="elasticnet", alpha="cv", alphas=alphas, cv=overlapping, tol=1e-13
    ).fit(X, y, w)
    np.testing.assert_allclose(again.cv_scores_[:, :4], model.cv_scores_, rtol=1e-8)


def test_cross_validation_by_default(rng):
    X = rng.standard_normal((100, 260))
    y = X[:, 0] * 3 + rng.standard_normal(100)
    for columns in (20, 260):  # from moments, and fold by fold
        model = LinearRegressor(penalty="lasso", alpha="cv").fit(X[:, :columns], y)
        assert model.alphas_.shape == (100,) and model.cv_scores_.shape == (100, 5)
        assert model.alphas_[0] > model.alpha_ > model.alphas_[-1]
        assert model.score(X[:, :columns], y) > 0.8
        again = LinearRegressor(penalty="lasso", alpha="cv").fit(X[:, :columns], y)
        assert np.array_equal(again.cv_scores_, model.cv_scores_)
    wide = LinearRegressor(penalty="ridge", alpha="cv", alphas=5, cv=3)
    X = rng.standard_normal((40, 300))
    assert wide.fit(X, X[:, 0]).cv_scores_.shape == (5, 3)
    wide.set_params(alpha=0.1).fit(X, X[:, 0])
    assert not hasattr(wide, "alphas_")


def test_path(rng):
    X, y = table(rng, 90, 7, "plain")
    path = linear_path(X, y, alphas=20)
    assert path.coefs.shape == (20, 7) and path.names[0] == "x0"
    assert np.count_nonzero(path.coefs[0]) == 0 and np.count_nonzero(path.coefs[1]) > 0
    for k in (0, 7, 19):
        one = LinearRegressor(penalty="lasso", alpha=path.alphas[k]).fit(X, y)
        scale = X.std(axis=0)
        np.testing.assert_allclose(path.coefs[k] * scale, one.coef_ * scale, atol=1e-4)
        assert path.intercepts[k] == pytest.approx(one.intercept_, abs=1e-3)
    assert linear_path(X, np.column_stack([y, y]), alphas=3).coefs.shape == (3, 2, 7)
    assert linear_path(X, y, penalty="ridge", alphas=[1.0, 2.0]).alphas.tolist() == [2.0, 1.0]
    with pytest.raises(ValueError, match="penalty"):
        linear_path(X, y, penalty=None)


@settings(max_examples=20)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, "ridge", "lasso"]),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from([0.0, 1e6]),
    st.sampled_from([5, 300]),
)
def test_units_of_the_columns_do_not_matter(seed, penalty, unit, shift, p):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, p)), rng.standard_normal(40)
    moved = X * unit + shift * unit
    model = LinearRegressor(penalty=penalty, alpha=0.1, tol=1e-13)
    expected = model.fit(X, y).predict(X)
    np.testing.assert_allclose(model.fit(moved, y).predict(moved), expected, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, "ridge"]))
def test_units_of_the_target(seed, penalty):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    model = LinearRegressor(penalty=penalty, alpha=0.1)
    expected = model.fit(X, y).predict(X)
    for unit, shift in ((1e-6, 0.0), (1e6, 1e9), (1e200, 0.0)):
        found = model.fit(X, y * unit + shift).predict(X)
        np.testing.assert_allclose((found - shift) / unit, expected, atol=1e-6)
    lasso = LinearRegressor(penalty="lasso", alpha=0.1).fit(X, y)
    larger = LinearRegressor(penalty="lasso", alpha=0.1 * 1e6).fit(X, y * 1e6)
    np.testing.assert_allclose(larger.coef_ / 1e6, lasso.coef_, atol=1e-7)


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, "ridge", "lasso"]))
def test_a_weight_is_a_number_of_rows(seed, penalty):
    rng = np.random.default_rng(seed)
    X, y, times = rng.standard_normal((20, 3)), rng.standard_normal(20), rng.integers(0, 4, 20)
    times[:8] += 1
    model = LinearRegressor(penalty=penalty, alpha=0.05, tol=1e-14)
    weighted = model.fit(X, y, times).predict(X)
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
def test_threads_do_not_matter(rng, penalty):
    X = rng.standard_normal((20_000, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.01] = np.nan
    y = rng.standard_normal(20_000)
    models = [
        LinearRegressor(penalty=penalty, alpha="cv", alphas=5, n_jobs=k).fit(X, y)
        for k in (1, 2, 3)
    ]
    predictions = [m.predict(X) for m in models]
    for other, prediction in zip(models[1:], predictions[1:], strict=True):
        assert np.array_equal(models[0].coef_, other.coef_)
        assert models[0].intercept_ == other.intercept_
        assert np.array_equal(predictions[0], prediction)


def test_warns_when_it_gives_up(rng):
    X = rng.standard_normal((50, 20))
    X[:, 1:] = X[:, :1] + 0.01 * X[:, 1:]
    y = X @ rng.standard_normal(20)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        LinearRegressor(penalty="lasso", alpha=1e-6, max_iter=1, tol=1e-15).fit(X, y)
