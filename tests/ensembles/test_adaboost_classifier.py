"""AdaBoostClassifier against the algorithm written down, scikit-learn and theory."""

from __future__ import annotations

import numpy as np
import pytest
from ensembles import adaboost_oracle as oracle

import hybridtrees as ht


def problem(n, n_classes, seed=0, p=5):
    """Rows without equal values, and classes that no stump can tell apart."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    mean = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(n)
    y = np.digitize(mean, np.quantile(mean, np.arange(1, n_classes) / n_classes))
    return X, y, rng.exponential(size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize(("n_classes", "rate"), [(2, 1.0), (2, 0.3), (3, 1.0), (4, 0.5)])
def test_equals_the_oracle_round_by_round(rounds, n_classes, rate, splitter, weighted):
    X, y, weight = problem(90, n_classes)
    weight = weight if weighted else None
    model = ht.AdaBoostClassifier(n_estimators=12, learning_rate=rate, splitter=splitter)
    model.fit(X, y, sample_weight=weight)
    expected = oracle.samme(X, y, n_classes, 12, rate, weight)
    assert model.n_iter_ == len(expected) > 5
    for (w, said), one in zip(rounds, expected, strict=False):
        np.testing.assert_allclose(w, one["weight"], rtol=1e-10)
        np.testing.assert_array_equal(said, one["stump"].predict(X))
    np.testing.assert_allclose(model.estimator_errors_, [r["error"] for r in expected], rtol=1e-10)
    np.testing.assert_allclose(model.estimator_weights_, [r["alpha"] for r in expected], rtol=1e-9)
    votes = oracle.samme_votes(expected, X, n_classes)
    np.testing.assert_array_equal(model.predict(X), votes.argmax(axis=1))
    proba = np.exp(votes) / np.exp(votes).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), proba, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_equals_scikit_learn(n_classes, depth, weighted):
    ensemble = pytest.importorskip("sklearn.ensemble")
    tree = pytest.importorskip("sklearn.tree")
    X, y, weight = problem(800, n_classes, seed=2, p=6)
    weight = weight if weighted else None
    given = {"n_estimators": 25, "learning_rate": 0.7}
    # Small and pure nodes have ties between features, which scikit-learn breaks at random.
    few = {"max_depth": depth, "min_samples_leaf": 20}
    peer = ensemble.AdaBoostClassifier(
        tree.DecisionTreeClassifier(**few), **given, random_state=1
    ).fit(X, y, sample_weight=weight)
    model = ht.AdaBoostClassifier(**given, **few, splitter="exact").fit(X, y, sample_weight=weight)
    assert model.n_iter_ == len(peer.estimators_) == 25
    new = problem(500, n_classes, seed=1, p=6)[0]
    np.testing.assert_array_equal(model.predict(new), peer.predict(new))
    np.testing.assert_allclose(model.estimator_weights_, peer.estimator_weights_, rtol=1e-9)
    np.testing.assert_allclose(model.estimator_errors_, peer.estimator_errors_, rtol=1e-9)
    ours, theirs = model.decision_function(new), peer.decision_function(new)
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(model.feature_importances_, peer.feature_importances_, atol=1e-8)
    pairs = zip(
        model.staged_decision_function(new), peer.staged_decision_function(new), strict=True
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-11)
    for ours, theirs in zip(model.staged_predict(new), peer.staged_predict(new), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    pairs = zip(model.staged_score(X, y, weight), peer.staged_score(X, y, weight), strict=True)
    np.testing.assert_allclose(*zip(*pairs, strict=True))


def test_relation_to_the_probabilities_of_scikit_learn():
    ensemble = pytest.importorskip("sklearn.ensemble")
    for n_classes in (2, 4):
        X, y, _ = problem(300, n_classes)
        peer = ensemble.AdaBoostClassifier(n_estimators=20).fit(X, y)
        model = ht.AdaBoostClassifier(n_estimators=20, splitter="exact").fit(X, y)
        logs = np.log(peer.predict_proba(X))
        # Theirs are those of scores divided by the sum of the weights; with more than two classes
        # they also lack the factor of the weights in the loss, (K - 1)^2 / K.
        total = model.estimator_weights_.sum()
        scale = total * (0.5 if n_classes == 2 else (n_classes - 1) ** 2 / n_classes)
        scaled = np.exp(scale * (logs - logs.max(axis=1, keepdims=True)))
        scaled /= scaled.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X), scaled, rtol=1e-7)


@pytest.mark.parametrize("given", [{}, {"max_depth": 3}, {"learning_rate": 0.3}, {"max_bins": 8}])
def test_the_exponential_loss_falls_every_round(given):
    X, y, weight = problem(2000, 2)
    model = ht.AdaBoostClassifier(n_estimators=60, **given).fit(X, y, sample_weight=weight)
    sign = np.where(y == 1, 1.0, -1.0)
    losses = [np.average(np.ones(len(y)), weights=weight)]
    totals = np.cumsum(model.estimator_weights_)
    for decision, total in zip(model.staged_decision_function(X), totals, strict=True):
        losses.append(np.average(np.exp(-sign * decision * total / 4), weights=weight))
    assert len(losses) > 20
    assert np.all(np.diff(losses) < 0)
    error = model.estimator_errors_
    if not given.get("learning_rate"):
        # Each round multiplies it by 2 sqrt(error (1 - error)): the bound of Freund and Schapire.
        bound = np.cumprod(2 * np.sqrt(error * (1 - error)))
        np.testing.assert_allclose(losses[1:], bound, rtol=1e-8)
    staged = list(model.staged_predict(X))
    wrong = [np.average(labels != y, weights=weight) for labels in staged]
    assert np.all(np.array(wrong) <= losses[1:])


def test_scores_and_probabilities_fit_together():
    X, y, _ = problem(400, 2)
    model = ht.AdaBoostClassifier(n_estimators=15).fit(X, y)
    raw, total = model.predict_raw(X), model.estimator_weights_.sum()
    assert raw.shape == (400, 1)
    np.testing.assert_allclose(model.decision_function(X), 4 * raw[:, 0] / total, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * raw[:, 0])))
    loss = ht.GradientBoostingClassifier(loss="exponential", n_estimators=1).fit(X, y)._loss
    np.testing.assert_array_equal(model.predict_proba(X), loss.predict(raw))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    X, y, _ = problem(400, 3)
    model = ht.AdaBoostClassifier(n_estimators=15).fit(X, y)
    votes, total = model.predict_raw(X), model.estimator_weights_.sum()
    np.testing.assert_allclose(votes.sum(axis=1), total)
    np.testing.assert_allclose(model.decision_function(X), votes / total * 1.5 - 0.5, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_stages_are_shorter_trainings(n_classes):
    X, y, _ = problem(300, n_classes)
    model = ht.AdaBoostClassifier(n_estimators=8, max_depth=2).fit(X, y)
    assert model.n_iter_ == 8
    names = ("predict", "predict_proba", "decision_function")
    stages = [list(getattr(model, f"staged_{name}")(X)) for name in names]
    for n_rounds in (1, 4, 8):
        short = ht.AdaBoostClassifier(n_estimators=n_rounds, max_depth=2).fit(X, y)
        for name, stage in zip(names, stages, strict=True):
            np.testing.assert_array_equal(stage[n_rounds - 1], getattr(short, name)(X))
        scores = list(model.staged_score(X, y))
        assert scores[n_rounds - 1] == short.score(X, y)


def test_a_perfect_member_ends_the_training():
    X = np.arange(12.0)[:, None]
    model = ht.AdaBoostClassifier().fit(X, X[:, 0] > 4)
    assert model.n_iter_ == 1
    assert model.estimator_weights_.tolist() == [1.0]
    assert model.estimator_errors_.tolist() == [0.0]
    assert model.score(X, X[:, 0] > 4) == 1
    one = ht.AdaBoostClassifier().fit(X, np.full(12, "only"))
    assert one.n_iter_ == 1
    assert set(one.predict(X)) == {"only"}
    np.testing.assert_array_equal(one.predict_proba(X), np.ones((12, 1)))
    np.testing.assert_array_equal(one.decision_function(X), np.zeros(12))


def test_a_useless_member_is_dropped():
    # Constant features: after the first round the classes weigh the same, nothing can be learned.
    X, y = np.ones((10, 2)), np.repeat([0, 1], [7, 3])
    for splitter in ("exact", "hist"):
        model = ht.AdaBoostClassifier(splitter=splitter).fit(X, y)
        assert model.n_iter_ == 1
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], 0.3)
        with pytest.raises(ValueError, match=r"first member has a weighted error of 0\.5"):
            ht.AdaBoostClassifier(splitter=splitter).fit(X, np.repeat([0, 1], 5))


@pytest.mark.parametrize("counts", [[35, 5], [38, 2], [26, 7, 7], [28, 6, 6], [22, 9, 9]])
def test_rounding_makes_no_members(counts):
    """After one round all classes weigh the same, but for rounding."""
    model = ht.AdaBoostClassifier().fit(np.ones((40, 1)), np.repeat(np.arange(len(counts)), counts))
    assert model.n_iter_ == 1


def test_huge_learning_rates_stay_finite():
    X, y, _ = problem(200, 2)
    model = ht.AdaBoostClassifier(learning_rate=1e6, n_estimators=10).fit(X, y)
    assert np.isfinite(model.estimator_weights_).all()
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_repeated_rows(n_classes, splitter):
    X, y, _ = problem(200, n_classes)
    counts = np.random.default_rng(1).integers(0, 4, 200)
    given = {"n_estimators": 10, "max_depth": 2, "splitter": splitter}
    weighted = ht.AdaBoostClassifier(**given).fit(X, y, sample_weight=counts)
    kept = np.repeat(np.arange(200), counts)
    repeated = ht.AdaBoostClassifier(**given).fit(X[kept], y[kept])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-9)
    scaled = ht.AdaBoostClassifier(**given).fit(X, y, sample_weight=8.0 * counts)
    np.testing.assert_array_equal(weighted.predict_proba(X), scaled.predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_order_of_rows_does_not_matter(n_classes):
    X, y, weight = problem(3000, n_classes)
    weight = np.round(weight, 3)
    order = np.random.default_rng(2).permutation(3000)
    model = ht.AdaBoostClassifier(n_estimators=20, max_depth=3)
    before = model.fit(X, y, sample_weight=weight).predict_proba(X)
    after = model.fit(X[order], y[order], sample_weight=weight[order]).predict_proba(X)
    np.testing.assert_array_equal(before, after)


def test_monotone_constraints_hold():
    X, y, _ = problem(600, 2)
    model = ht.AdaBoostClassifier(n_estimators=30, max_depth=3, monotonic_cst={2: -1}).fit(X, y)
    grid = np.repeat(X[:50], 40, axis=0)
    grid[:, 2] = np.tile(np.linspace(-3, 3, 40), 50)
    steps = np.diff(model.decision_function(grid).reshape(50, 40), axis=1)
    assert np.all(steps <= 1e-12)
    with pytest.raises(ValueError, match="monotonic_cst needs two classes"):
        ht.AdaBoostClassifier(monotonic_cst={2: 1}).fit(X, np.arange(600) % 3)
