"""LogisticClassifier against scikit-learn, textbook formulas and its own promises."""

from __future__ import annotations

import warnings

import linear_oracle as slow
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.solvers import ConvergenceWarning


def table(rng, n, p, n_classes, kind="plain"):
    X = rng.standard_normal((n, p)) * 10 ** rng.uniform(-2, 2, p) + rng.standard_normal(p)
    if kind == "collinear":
        X[:, -1] = X[:, 0] - 2 * X[:, 1]
    Z = (X - X.mean(0)) / X.std(0)
    scores = Z @ rng.standard_normal((p, n_classes)) / np.sqrt(p)
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def violation(Z, y, w, coef, intercept, alpha, l1_ratio):
    """How far a solution is from its optimality conditions."""
    scores = Z @ coef.T + intercept
    full = np.column_stack([np.zeros(len(Z)), scores]) if len(coef) == 1 else scores
    p = np.exp(full - full.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    residual = (p - (y[:, None] == np.arange(full.shape[1]))) * (w / w.sum())[:, None]
    residual = residual[:, 1:] if len(coef) == 1 else residual
    grad = residual.T @ Z + alpha * (1 - l1_ratio) * coef
    worst = slow.subgradient_violation(grad.ravel(), coef.ravel(), alpha * l1_ratio)
    return max(worst, np.abs(residual.sum(axis=0)).max())


SHAPES = [
    (150, 5, 2, "plain"),
    (150, 5, 2, "collinear"),
    (150, 4, 3, "plain"),
    (150, 4, 3, "collinear"),
    (30, 300, 2, "wide"),
    (30, 300, 3, "wide"),
]


@pytest.mark.parametrize("n, p, n_classes, kind", SHAPES)
@pytest.mark.parametrize("penalty, l1_ratio", [("ridge", 0), ("lasso", 1), ("elasticnet", 0.4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_meets_the_optimality_conditions(rng, n, p, n_classes, kind, penalty, l1_ratio, weighted):
    X, y = table(rng, n, p, n_classes, kind)
    w = rng.random(n) + 0.1 if weighted else np.ones(n)
    model = LogisticClassifier(penalty=penalty, alpha=0.03, l1_ratio=0.4, tol=1e-14)
    model.fit(X, y, w if weighted else None)
    Z, mean, scale = slow.standardise(X, w)
    coef, intercept = slow.on_standard_scale(model, mean, scale)
    assert violation(Z, y, w, coef, intercept, 0.03, l1_ratio) < 1e-6
    assert np.abs(coef).max() > 0.01
    if n_classes > 2:
        assert abs(intercept.sum()) < 1e-8


@pytest.mark.peer
@pytest.mark.parametrize("n, p, n_classes, kind", SHAPES[:4])
@pytest.mark.parametrize("penalty, l1_ratio", [("ridge", 0), ("lasso", 1), ("elasticnet", 0.4)])
def test_equals_scikit_learn(rng, n, p, n_classes, kind, penalty, l1_ratio):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = table(rng, n, p, n_classes, kind)
    w, alpha = rng.random(n) + 0.1, 0.03
    Z, mean, scale = slow.standardise(X, w)
    solver = "lbfgs" if l1_ratio == 0 else "saga"
    peer = linear_model.LogisticRegression(
        C=1 / (alpha * w.sum()), l1_ratio=l1_ratio, solver=solver, tol=1e-12, max_iter=20_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(Z, y, sample_weight=w)
    for tol in (1e-14, 1e-9):
        model = LogisticClassifier(penalty=penalty, alpha=alpha, l1_ratio=0.4, tol=tol)
        coef, intercept = slow.on_standard_scale(model.fit(X, y, w), mean, scale)
        ours = slow.logistic_objective(Z, y, w, coef, intercept, alpha, l1_ratio)
        theirs = slow.logistic_objective(Z, y, w, peer.coef_, peer.intercept_, alpha, l1_ratio)
        assert abs(ours - theirs) <= 1e-8
    model.set_params(tol=1e-14).fit(X, y, w)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(Z), atol=1e-6)
    if l1_ratio == 0 or kind == "plain":
        coef, _ = slow.on_standard_scale(model, mean, scale)
        np.testing.assert_allclose(coef, peer.coef_, atol=2e-6)


def test_two_classes_as_many(rng):
    # With a ridge penalty, two scores of softmax are the single score cut in halves.
    X, y = table(rng, 100, 3, 2)
    binary = LogisticClassifier(alpha=0.05, tol=1e-14).fit(X, y)
    Z, mean, scale = slow.standardise(X, None)
    coef, intercept = slow.on_standard_scale(binary, mean, scale)
    half = np.vstack([-coef, coef]) / 2
    halves = np.append(-intercept, intercept) / 2
    assert violation(Z, y, np.ones(100), half, halves, 0.1, 0) < 1e-6


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors_are_those_of_the_textbook(rng, n_classes, weighted):
    X, y = table(rng, 300, 3, n_classes)
    w = rng.random(300) + 0.2 if weighted else np.ones(300)
    model = LogisticClassifier(penalty=None, tol=1e-14).fit(X, y, w if weighted else None)
    A = np.column_stack([np.ones(300), X])
    p = model.predict_proba(X)
    if n_classes == 2:
        info = A.T @ ((w * p[:, 0] * p[:, 1])[:, None] * A)
        error = np.sqrt(np.diag(np.linalg.inv(info)))
    else:
        # Against a baseline class, as textbooks have it; then mapped to what adds up to zero.
        blocks = [
            [A.T @ ((w * p[:, a] * ((a == b) - p[:, b]))[:, None] * A) for b in (1, 2)]
            for a in (1, 2)
        ]
        cov = np.linalg.inv(np.block(blocks))
        centre = np.array([[-1, -1], [2, -1], [-1, 2]]) / 3
        full = np.kron(centre, np.eye(4)) @ cov @ np.kron(centre, np.eye(4)).T
        error = np.sqrt(np.diag(full))[:4]
    s = model.summary(label=0) if n_classes == 3 else model.summary()
    np.testing.assert_allclose(s.std_error, error, rtol=1e-5)
    np.testing.assert_allclose(s.statistic, s.coef / s.std_error)
    stats = pytest.importorskip("scipy.stats")
    np.testing.assert_allclose(s.p_value, 2 * stats.norm.sf(np.abs(s.statistic)), rtol=1e-6)
    np.testing.assert_allclose(s.odds_ratio, np.exp(s.coef))
    half = stats.norm.ppf(0.975) * error
    np.testing.assert_allclose(s.odds_ratio_low, np.exp(s.coef - half), rtol=1e-4)
    np.testing.assert_allclose(s.odds_ratio_high, np.exp(s.coef + half), rtol=1e-4)
    assert s.to_dict()["odds_ratio_low"] == s.odds_ratio_low.tolist()
    assert all(word in str(s) for word in ("odds ratio", "2.5 %", "97.5 %"))
    deviance = 2 * w @ -np.log(p[np.arange(300), y])
    assert s.facts["deviance"] == pytest.approx(deviance)
    shares = np.bincount(y, w) / w.sum()
    assert s.facts["null_deviance"] == pytest.approx(-2 * w.sum() * shares @ np.log(shares))
    assert "intercept" in str(s)
    if n_classes == 3:
        with pytest.raises(ValueError, match="label"):
            model.summary(label=9)


def test_errors_of_what_is_not_determined(rng):
    X, y = table(rng, 200, 3, 2)
    X = np.column_stack([X, X[:, 0], np.ones(200)])
    s = LogisticClassifier(penalty=None).fit(X, y).summary()
    assert list(np.isnan(s.std_error)) == [True, True, False, False, True, True]
    alone = LogisticClassifier(penalty=None).fit(X[:, :3], y).summary()
    np.testing.assert_allclose(s.std_error[2:4], alone.std_error[2:], rtol=1e-5)
    np.testing.assert_allclose(s.coef[[1, 4]], alone.coef[1] / 2, rtol=1e-4)
    y3 = table(rng, 200, 3, 3)[1]
    assert np.isnan(LogisticClassifier(penalty=None).fit(X, y3).summary().std_error).all()


def test_separated_classes(rng):
    X = np.linspace(-1, 1, 40)[:, None]
    y = X[:, 0] > 0
    with pytest.warns(ConvergenceWarning, match="separated"):
        model = LogisticClassifier(penalty=None).fit(X, y)
    assert model.score(X, y) == 1 and np.isfinite(model.coef_).all()
    model = LogisticClassifier().fit(X, y)
    assert model.score(X, y) == 1
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        LogisticClassifier(alpha=1e-6, max_iter=1).fit(X, rng.random(40) > 0.5)


def test_a_large_table_is_started_from_a_part(rng):
    X = rng.standard_normal((200_000, 3)).astype(np.float32)
    X[:, 2] *= X[:, 1]
    y = X[:, 0] + X[:, 1] ** 3 + rng.logistic(size=len(X)) > 1
    order = np.argsort(y, kind="stable")  # all of one class first
    for penalty, l1_ratio in ((None, 0), ("ridge", 0), ("lasso", 1)):
        model = LogisticClassifier(penalty=penalty, alpha=0.01, tol=1e-12).fit(X[order], y[order])
        Z, mean, scale = slow.standardise(X.astype(np.float64), None)
        coef, intercept = slow.on_standard_scale(model, mean, scale)
        alpha = 0.01 if penalty else 0.0
        worst = violation(Z, y.astype(int), np.ones(len(X)), coef, intercept, alpha, l1_ratio)
        assert worst < 1e-6 and model.n_iter_ <= 6
    rare = np.zeros(len(X), dtype=int)
    rare[[5, 77, 1234]] = 1  # the part does not see the class
    assert LogisticClassifier(alpha=1e-3).fit(X, rare).predict_proba(X)[:, 1].mean() < 1e-3


@pytest.mark.parametrize("n_columns", [4, 260])
def test_cross_validation_equals_refits_fold_by_fold(rng, n_columns):
    X, y = table(rng, 90, n_columns, 3)
    w, alphas = rng.random(90) + 0.1, np.array([0.3, 0.03])
    order = rng.permutation(90)
    splits = [(np.setdiff1d(order, part), part) for part in np.array_split(order, 3)]
    for penalty in ("ridge", "lasso"):
        model = LogisticClassifier(penalty=penalty, alpha="cv", alphas=alphas, cv=splits)
        model.fit(X, y, w)
        for f, (train, test) in enumerate(splits):
            for a, alpha in enumerate(alphas):
                part = LogisticClassifier(penalty=penalty, alpha=alpha)
                proba = part.fit(X[train], y[train], w[train]).predict_proba(X[test])
                loss = np.average(-np.log(proba[np.arange(30), y[test]]), weights=w[test])
                assert model.cv_scores_[a, f] == pytest.approx(loss, rel=1e-5)
        assert model.alpha_ == alphas[model.cv_scores_.mean(axis=1).argmin()]
    model = LogisticClassifier(penalty="lasso", alpha="cv", alphas=6, cv=3)
    X, y = table(rng, 40, 300, 2)
    assert model.fit(X, y).cv_scores_.shape == (6, 3)


@settings(max_examples=15)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["ridge", "lasso"]),
    st.sampled_from([1e-6, 1e6]),
    st.sampled_from([0.0, 1e6]),
    st.sampled_from([(4, 2), (4, 3), (300, 2)]),
)
def test_units_of_the_columns_do_not_matter(seed, penalty, unit, shift, shape):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, shape[0])), rng.integers(0, shape[1], 40)
    y[:3] = np.arange(3) % shape[1]
    moved = X * unit + shift * unit
    model = LogisticClassifier(penalty=penalty, alpha=0.05, tol=1e-12)
    expected = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.fit(moved, y).predict_proba(moved), expected, atol=1e-5)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["ridge", "lasso"]), st.sampled_from([2, 3]))
def test_a_weight_is_a_number_of_rows(seed, penalty, n_classes):
    rng = np.random.default_rng(seed)
    X, y, times = rng.standard_normal((30, 3)), np.arange(30) % n_classes, rng.integers(0, 4, 30)
    times[:6] += 1
    model = LogisticClassifier(penalty=penalty, alpha=0.02, tol=1e-13)
    weighted = model.fit(X, y, times).predict_proba(X)
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_do_not_matter(rng, penalty, n_classes):
    X = rng.standard_normal((20_000, 4)).astype(np.float32)
    y = np.argmax(X[:, :n_classes] + rng.gumbel(size=(20_000, n_classes)), axis=1)
    X[rng.random(X.shape) < 0.01] = np.nan
    models = [LogisticClassifier(penalty=penalty, n_jobs=k).fit(X, y) for k in (1, 2, 3)]
    first = models[0].predict_proba(X)
    for other in models[1:]:
        assert np.array_equal(models[0].coef_, other.coef_)
        assert np.array_equal(models[0].intercept_, other.intercept_)
        assert np.array_equal(first, other.predict_proba(X))


def test_without_an_intercept(rng):
    for n_classes in (2, 3):
        X, y = table(rng, 100, 3, n_classes)
        model = LogisticClassifier(penalty=None, fit_intercept=False, tol=1e-13).fit(X, y)
        assert not model.intercept_.any()
        p = model.predict_proba(X)
        residual = p - (y[:, None] == np.arange(n_classes))
        assert np.abs((X / np.abs(X).max(0)).T @ residual).max() < 1e-5
    X, y = table(rng, 30, 300, 2)
    assert not LogisticClassifier(fit_intercept=False).fit(X, y).intercept_.any()


def test_many_rows_and_columns_without_products(rng, monkeypatch):
    # The method for tables too large in both directions, tried on a small one.
    from hybridtrees.linear import wide

    X, y = table(rng, 60, 360, 3)
    expected = LogisticClassifier(alpha=0.05, tol=1e-13).fit(X, y)
    target = rng.standard_normal(60)
    from hybridtrees.linear.regressor import LinearRegressor

    line = LinearRegressor(penalty="ridge", alpha=0.1).fit(X, target)
    monkeypatch.setattr(wide, "_MAX_ROTATED", 10)
    found = LogisticClassifier(alpha=0.05, tol=1e-13).fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    again = LinearRegressor(penalty="ridge", alpha=0.1).fit(X, target)
    np.testing.assert_allclose(again.predict(X), line.predict(X), atol=1e-6)
    # Working sets too large for products.
    lasso = LogisticClassifier(penalty="lasso", alpha=0.02).fit(X, y).predict_proba(X)
    least = LinearRegressor(penalty="lasso", alpha=0.02).fit(X, target).predict(X)
    from hybridtrees.linear import wide_logistic

    monkeypatch.setattr(wide, "MAX_PRODUCTS", 0)
    monkeypatch.setattr(wide_logistic, "MAX_PRODUCTS", 0)
    found = LogisticClassifier(penalty="lasso", alpha=0.02).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found, lasso, atol=1e-4)
    found = LinearRegressor(penalty="lasso", alpha=0.02).fit(X, target).predict(X)
    np.testing.assert_allclose(found, least, atol=1e-4)
