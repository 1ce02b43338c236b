"""Mixtures of experts: planted laws, known special cases, input, files, threads."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.linear.solvers import ConvergenceWarning


def planted(n=4000, seed=0, noise=0.2):
    """Two lines, divided by a logistic gate at x0 = 0.5 of slope 6."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    first = rng.random(n) < 1 / (1 + np.exp(-6 * (X[:, 0] - 0.5)))
    y = np.where(first, 1 + 2 * X[:, 1], -1 - X[:, 1] + X[:, 0])
    return X, y + noise * rng.standard_normal(n), first


def crossed(n=3000, seed=0):
    """Classes by x1, turned round where x0 > 0."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


LOOSE = {"alpha": 1e-8, "gate_alpha": 1e-6, "random_state": 0}


def test_a_planted_law_is_recovered():
    X, y, first = planted()
    model = ht.MixtureOfExpertsRegressor(**LOOSE).fit(X, y)
    # Experts are sorted by their shares; the first law has the smaller one.
    assert model.expert_shares_[0] > model.expert_shares_[1]
    second, one = model.experts_
    np.testing.assert_allclose(one.coef, [[0.0, 2.0]], atol=0.05)
    np.testing.assert_allclose(second.coef, [[1.0, -1.0]], atol=0.05)
    np.testing.assert_allclose([one.intercept[0], second.intercept[0]], [1, -1], atol=0.05)
    np.testing.assert_allclose(np.sqrt(model.expert_variances_), 0.2, rtol=0.1)
    slope = model.gate_coef_[1] - model.gate_coef_[0]
    level = model.gate_intercept_[1] - model.gate_intercept_[0]
    assert -level / slope[0] == pytest.approx(0.5, abs=0.05)
    assert slope[0] == pytest.approx(6, rel=0.15)
    assert abs(slope[1]) < 0.5
    posterior = model.responsibilities(X, y)[:, 1]
    assert np.mean((posterior > 0.5) == first) > 0.97
    assert model.score(X, y) > ht.LinearRegressor().fit(X, y).score(X, y) + 0.2


def test_one_expert_is_a_ridge_regression():
    X, y, _ = planted(300)
    weight = np.random.default_rng(5).random(300)
    ridge = ht.LinearRegressor(penalty="ridge", alpha=0.1).fit(X, y, weight)
    model = ht.MixtureOfExpertsRegressor(n_experts=1, alpha=0.1).fit(X, y, weight)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.experts_[0].coef[0], ridge.coef_, rtol=1e-9)
    assert model.responsibilities(X).tolist() == [[1.0]] * 300


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_expert_is_a_logistic_regression(n_classes):
    X, y, _ = planted(300)
    labels = np.digitize(y, [0.0, 1.5][: n_classes - 1])
    weight = np.random.default_rng(5).random(300)
    logistic = ht.LogisticClassifier(alpha=0.01, tol=1e-14).fit(X, labels, weight)
    model = ht.MixtureOfExpertsClassifier(n_experts=1, alpha=0.01, tol=0.0)
    model.fit(X, labels, weight)
    np.testing.assert_allclose(model.predict_proba(X), logistic.predict_proba(X), atol=1e-6)


def test_classes_that_no_line_separates():
    X, y = crossed()
    assert ht.LogisticClassifier().fit(X, y).score(X, y) < 0.6
    model = ht.MixtureOfExpertsClassifier(random_state=0).fit(X, y)
    test = crossed(seed=1)
    assert model.score(*test) > 0.97
    assert list(model.classes_) == ["other", "same"]
    gate = model.responsibilities(test[0])
    by_expert = model.predict_experts(test[0])
    assert by_expert.shape == (3000, 2, 2)
    proba = (gate[:, :, None] * by_expert).sum(axis=1)
    np.testing.assert_allclose(model.predict_proba(test[0]), proba, rtol=1e-12)


def test_small_trees_as_experts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 2))
    y = np.where(X[:, 0] > 0, np.floor(4 * X[:, 1]), -np.floor(4 * X[:, 1]))
    model = ht.MixtureOfExpertsRegressor(expert="tree", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert all(tree.get_depth() <= 3 for tree in model.experts_)
    other = ht.CARTRegressor(max_depth=3, min_weight_fraction_leaf=0.01)
    same = ht.MixtureOfExpertsRegressor(expert=other, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert same.get_params()["expert__max_depth"] == 3
    assert not hasattr(other, "tree_")


def test_a_perfect_border_keeps_the_gate_finite():
    X = np.linspace(-1, 1, 400)[:, None]
    y = np.where(X[:, 0] > 0, 5.0, -5.0)
    for gate_alpha, steep in ((1e-2, 20), (1e-8, 1e6)):
        model = ht.MixtureOfExpertsRegressor(gate_alpha=gate_alpha, random_state=0, max_iter=2000)
        model.fit(X, y)
        assert 0 < np.abs(model.gate_coef_).max() < steep
        assert np.isfinite(model.gate_coef_).all()


def test_no_expert_shrinks_to_one_row():
    X, y, _ = planted(200)
    y[0] = 500.0
    model = ht.MixtureOfExpertsRegressor(n_experts=3, min_variance=0.01, max_iter=1000)
    model.set_params(random_state=0).fit(X, y)
    assert model.expert_variances_.min() >= 0.01 * y.var() * (1 - 1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("expert", ["regression", "tree"])
def test_degenerate_tables(expert):
    single = np.ones((3, 2))
    for X, y in (
        (single, np.array([0.0, 1.0, 2.0])),
        (np.array([[0.0], [1.0]]), np.array([0.0, 1.0])),
        (np.array([[np.nan], [np.nan], [1.0]]), np.array([0.0, 1.0, 1.0])),
        (np.array([[1e300], [-1e300], [0.0]]), np.array([1e90, -1e90, 0.0])),
        (np.arange(5.0)[:, None], np.full(5, 7.0)),
    ):
        given = {"n_experts": 6, "random_state": 0, "max_iter": 20}
        if expert == "tree":
            given["expert"] = "tree"
        model = ht.MixtureOfExpertsRegressor(**given).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.responsibilities(X, y)).all()
        if len(np.unique(y)) > 1:
            labels = np.unique(y, return_inverse=True)[1]
            model = ht.MixtureOfExpertsClassifier(**given).fit(X, labels)
            np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert ht.MixtureOfExpertsRegressor(random_state=0).fit(X, y).predict(X) == pytest.approx(7.0)


def test_weights_are_repeated_rows():
    X, y, _ = planted(120)
    weight = np.random.default_rng(0).integers(0, 3, 120)
    rows = np.repeat(np.arange(120), weight)
    model = ht.MixtureOfExpertsRegressor(random_state=0)
    expected = model.fit(X[rows], y[rows]).predict(X)
    likelihood = model.log_likelihood_
    model.fit(X, y, weight)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)
    assert model.log_likelihood_ == pytest.approx(likelihood, rel=1e-8)
    shares = model.responsibilities(X)
    model.fit(X, y, weight * 1e-100)
    np.testing.assert_allclose(model.responsibilities(X), shares, rtol=1e-6)


def test_weights_of_classes():
    X, y = crossed(300)
    y[X[:, 1] > 0.2] = "same"
    share = np.mean(y == "same")
    factors = np.where(y == "same", 0.5 / share, 0.5 / (1 - share))
    model = ht.MixtureOfExpertsClassifier(random_state=0, max_iter=2000)
    expected = model.fit(X, y, factors).predict_proba(X)
    model.set_params(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)


def test_the_order_of_classes_and_units_do_not_matter():
    X, y = crossed(500)
    model = ht.MixtureOfExpertsClassifier(random_state=0)
    proba = model.fit(X, y == "same").predict_proba(X)
    turned = model.fit(X * 1000 - 7, y != "same").predict_proba(X * 1000 - 7)
    np.testing.assert_allclose(turned[:, ::-1], proba, atol=1e-6)


@pytest.mark.parametrize("expert", ["linear", "tree"])
def test_any_number_of_threads_gives_the_same_model(expert):
    X, y, _ = planted(30_000)
    given = {"expert": expert, "n_restarts": 2, "max_iter": 5, "tol": 1.0, "random_state": 3}
    one, two = (ht.MixtureOfExpertsRegressor(n_jobs=n_jobs, **given).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.log_likelihood_curve_, two.log_likelihood_curve_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.gate_coef_, two.gate_coef_)


def test_more_restarts_are_never_worse():
    X, y, _ = planted(300)
    ends = [
        ht.MixtureOfExpertsRegressor(n_experts=3, n_restarts=n, random_state=0, max_iter=1000)
        .fit(X, y)
        .log_likelihood_curve_[-1]
        for n in (1, 3, 6)
    ]
    assert ends == sorted(ends)


def test_a_run_that_is_cut_off_says_so():
    X, y, _ = planted(300)
    with pytest.warns(ConvergenceWarning, match="MixtureOfExpertsRegressor did not converge in 2"):
        model = ht.MixtureOfExpertsRegressor(max_iter=2, random_state=0).fit(X, y)
    assert model.n_iter_ == 2 == len(model.log_likelihood_curve_)
    assert not model.converged_
    assert "stopped after 2 iterations" in model.summary()


def test_lines_of_progress(capsys):
    X, y, _ = planted(300)
    ht.MixtureOfExpertsRegressor(n_restarts=2, verbose=1, random_state=0).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("MixtureOfExpertsRegressor run 1  [1] ")
    assert any(line.startswith("MixtureOfExpertsRegressor run 2  [1] ") for line in lines)


def test_a_summary_names_terms():
    X, y, _ = planted(300)
    model = ht.MixtureOfExpertsRegressor(random_state=0).fit({"a": X[:, 0], "b": X[:, 1]}, y)
    text = model.summary()
    for word in ("2 experts (linear)", "share", "sd of y", "gate 0", "expert 1", "intercept"):
        assert word in text
    assert list(model.term_names_) == ["a", "b"]
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["a", "b"]
