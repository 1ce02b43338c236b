"""AdaBoostRegressor against AdaBoost.R2 written down, scikit-learn and medians by sorting."""

from __future__ import annotations

import numpy as np
import pytest
from ensembles import adaboost_oracle as oracle

import hybridtrees as ht
from hybridtrees.core.tree._walk import row_medians

LOSSES = ("linear", "square", "exponential")


def problem(n, seed=0, p=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = X[:, 0] * X[:, 1] + 2 * np.sin(X[:, 2]) + 0.3 * rng.standard_normal(n)
    return X, y, rng.exponential(size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize(("loss", "rate"), [(loss, 1.0) for loss in LOSSES] + [("linear", 0.4)])
def test_equals_the_oracle_round_by_round(rounds, loss, rate, splitter, weighted):
    X, y, weight = problem(80)
    weight = weight if weighted else None
    model = ht.AdaBoostRegressor(
        n_estimators=8, max_depth=1, loss=loss, learning_rate=rate, resample=False,
        splitter=splitter,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    expected = oracle.r2(X, y, loss, 8, rate, weight)
    assert model.n_iter_ == len(expected) > 3
    for (w, said), one in zip(rounds, expected, strict=False):
        np.testing.assert_allclose(w, one["weight"], rtol=1e-9)
        np.testing.assert_allclose(said, one["stump"].predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.estimator_errors_, [r["error"] for r in expected], rtol=1e-9)
    np.testing.assert_allclose(model.estimator_weights_, [r["alpha"] for r in expected], rtol=1e-9)
    said = np.column_stack([r["stump"].predict(X) for r in expected])
    np.testing.assert_allclose(model.predict_members(X), said, rtol=1e-9)
    median = oracle.weighted_median(said, np.array([r["alpha"] for r in expected]))
    np.testing.assert_allclose(model.predict(X), median, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_samples_give_the_weights_of_the_paper(rounds, loss):
    X, y, weight = problem(300)
    model = ht.AdaBoostRegressor(n_estimators=10, loss=loss, random_state=3).fit(
        X, y, sample_weight=weight
    )
    w = weight / weight.sum()
    assert len(rounds) == model.n_iter_ == 10
    for k, (counts, said) in enumerate(rounds):
        assert counts.sum() == 300
        np.testing.assert_array_equal(counts, np.floor(counts))
        # Rows that are not in the sample are predicted too, and count in the error.
        np.testing.assert_allclose(said, model.predict_members(X)[:, k], rtol=1e-12)
        error, alpha, w = oracle.r2_update(said, y, w, loss, 1.0)
        np.testing.assert_allclose(model.estimator_errors_[k], error, rtol=1e-10)
        np.testing.assert_allclose(model.estimator_weights_[k], alpha, rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_medians_equal_those_of_scikit_learn(loss):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y, _ = problem(500)
    peer = ensemble.AdaBoostRegressor(n_estimators=30, loss=loss, random_state=0).fit(X, y)
    n = len(peer.estimators_)
    said = np.column_stack([member.predict(X) for member in peer.estimators_])
    model = ht.AdaBoostRegressor(n_estimators=n, loss=loss, random_state=0).fit(X, y)
    model.estimator_weights_ = peer.estimator_weights_[:n]
    np.testing.assert_array_equal(model._medians(said, n), peer.predict(X))
    for k, theirs in enumerate(peer.staged_predict(X), 1):
        np.testing.assert_array_equal(model._medians(said, k), theirs)


@pytest.mark.parametrize("loss", LOSSES)
def test_equals_scikit_learn_given_the_same_samples(loss, monkeypatch):
    """Only the draws differ: with those of scikit-learn the models are the same."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    tree = pytest.importorskip("sklearn.tree")
    import hybridtrees.ensembles.adaboost_base as base

    X, y, weight = problem(1500)
    # Small nodes have ties between features, which scikit-learn breaks at random.
    few = {"max_depth": 2, "min_weight_fraction_leaf": 0.1}
    peer = ensemble.AdaBoostRegressor(
        tree.DecisionTreeRegressor(**few), n_estimators=12, loss=loss, random_state=5
    ).fit(X, y, sample_weight=weight)
    random = np.random.RandomState(5)

    def their_counts(seed, n_rows, n_drawn, w):
        random.randint(np.iinfo(np.int32).max)  # the seed of their tree
        drawn = random.choice(np.arange(n_rows), size=n_drawn, replace=True, p=w / w.sum())
        return np.bincount(drawn, minlength=n_rows)

    monkeypatch.setattr(base, "bootstrap_counts", their_counts)
    model = ht.AdaBoostRegressor(n_estimators=12, loss=loss, splitter="exact", **few)
    model.fit(X, y, sample_weight=weight)
    assert model.n_iter_ == len(peer.estimators_) == 12
    np.testing.assert_allclose(model.estimator_weights_, peer.estimator_weights_, rtol=1e-8)
    np.testing.assert_allclose(model.estimator_errors_, peer.estimator_errors_, rtol=1e-8)
    new = problem(300, seed=1)[0]
    np.testing.assert_allclose(model.predict(new), peer.predict(new), rtol=1e-8)
    np.testing.assert_allclose(model.feature_importances_, peer.feature_importances_, rtol=1e-6)


@pytest.mark.parametrize("n_members", [1, 2, 3, 8, 9, 40, 333])
@pytest.mark.parametrize("kind", ["real", "ties", "equal", "sorted"])
def test_row_medians(n_members, kind):
    rng = np.random.default_rng(n_members)
    values = rng.standard_normal((70, n_members))
    if kind == "ties":
        values = np.round(values)
    elif kind == "equal":
        values[:] = 4.0
    elif kind == "sorted":
        values.sort(axis=1)
    for weight in (rng.integers(0, 50, n_members), np.ones(n_members, dtype=np.int64)):
        weight[rng.integers(n_members)] += 1
        expected = oracle.weighted_median(values, weight)
        for n_threads in (1, 2):
            out = np.empty(70)
            row_medians(values, weight, out, n_threads)
            np.testing.assert_array_equal(out, expected)


def test_row_medians_refuse_wrong_input():
    values, out = np.zeros((3, 2)), np.empty(3)
    for weight in (np.ones(3, dtype=np.int64), np.zeros(0, dtype=np.int64), np.array([-1, 2])):
        with pytest.raises(ValueError, match="weight"):
            row_medians(values, weight, out, 1)
    with pytest.raises(ValueError, match="wrong length"):
        row_medians(values, np.ones(2, dtype=np.int64), np.empty(2), 1)
    values[:] = np.nan
    row_medians(values, np.ones(2, dtype=np.int64), out, 1)
    assert np.isnan(out).all()


@pytest.mark.parametrize("resample", [False, True])
def test_stages_are_shorter_trainings(resample):
    X, y, _ = problem(300)
    given = {"resample": resample, "random_state": 1}
    model = ht.AdaBoostRegressor(n_estimators=9, **given).fit(X, y)
    assert model.n_iter_ == 9
    stages, scores = list(model.staged_predict(X)), list(model.staged_score(X, y))
    for n_rounds in (1, 5, 9):
        short = ht.AdaBoostRegressor(n_estimators=n_rounds, **given).fit(X, y)
        np.testing.assert_array_equal(stages[n_rounds - 1], short.predict(X))
        assert scores[n_rounds - 1] == short.score(X, y)


def test_stops():
    X = np.arange(16.0)[:, None]
    for resample in (False, True):
        # A tree fits steps perfectly.
        model = ht.AdaBoostRegressor(resample=resample, random_state=0).fit(X, X[:, 0] > 7)
        assert model.estimator_errors_[-1] == 0.0
        assert model.estimator_weights_[-1] == 1.0
        np.testing.assert_array_equal(model.predict(X), X[:, 0] > 7)
        # Two values of the same frequency and no feature: all errors are the largest.
        lone = ht.AdaBoostRegressor(resample=False).fit(np.ones((8, 1)), np.tile([0, 1], 4))
        assert lone.n_iter_ == 1
        np.testing.assert_array_equal(lone.predict(np.ones((2, 1))), [0.5, 0.5])
    # A later member with an error of one half or more is dropped.
    X, y, _ = problem(60, seed=4)
    noise = np.random.default_rng(0).standard_normal(60)
    model = ht.AdaBoostRegressor(max_depth=1, loss="linear", resample=False, n_estimators=500)
    model.fit(X, noise)
    assert 1 < model.n_iter_ < 500
    assert np.all(model.estimator_errors_ < 0.5)


def test_zero_weights_are_left_out():
    X, y, weight = problem(200)
    kept = np.random.default_rng(1).random(200) < 0.7
    y = np.where(kept, y, 1e6)  # errors of rows without weight must not count
    model = ht.AdaBoostRegressor(n_estimators=8, resample=False)
    part = model.fit(X[kept], y[kept], sample_weight=weight[kept]).predict(X)
    whole = model.fit(X, y, sample_weight=weight * kept).predict(X)
    np.testing.assert_allclose(whole, part, rtol=1e-10)
    drawn = ht.AdaBoostRegressor(n_estimators=8, random_state=0)
    assert drawn.fit(X, y, sample_weight=weight * kept).predict(X).max() < 100


def test_monotone_constraints_hold():
    X, y, _ = problem(500)
    model = ht.AdaBoostRegressor(monotonic_cst={2: 1}, random_state=0, n_estimators=20).fit(X, y)
    grid = np.repeat(X[:40], 30, axis=0)
    grid[:, 2] = np.tile(np.linspace(-3, 3, 30), 40)
    assert np.all(np.diff(model.predict(grid).reshape(40, 30), axis=1) >= 0)


@pytest.mark.parametrize("criterion", ["absolute_error", "friedman_mse", "poisson"])
def test_other_criteria(criterion):
    X, y, _ = problem(300)
    y = np.exp(y / 4)
    for depth in (1, 3):
        model = ht.AdaBoostRegressor(
            criterion=criterion, max_depth=depth, resample=False, splitter="exact"
        ).fit(X, y)
        assert model.score(X, y) > 0.2
        assert model.feature_importances_.argmax() in (0, 1, 2)
