"""RERF for classification."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.models.forest.estimators import RandomForestRegressor
from hybridtrees.models.rerf.estimators import RERFClassifier


def corner(rng, n=600, n_classes=2):
    X = rng.standard_normal((n, 3))
    score = 2 * X[:, 0] + 4.0 * ((X[:, 1] > 0.5) & (X[:, 2] > 0)) + rng.logistic(size=n) * 0.3
    cuts = [0.0] if n_classes == 2 else [-1.0, 2.0]
    return X, np.digitize(score, cuts)


def forest_seed(random_state):
    return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_sum_of_its_parts(rng, penalty, n_classes):
    X, y = corner(rng, n_classes=n_classes)
    linear = {"penalty": penalty, "alpha": 0.01}
    trees = {"n_estimators": 6, "max_depth": 4, "max_features": None, "min_samples_leaf": 1}
    model = RERFClassifier(**trees, **linear, random_state=2, n_jobs=1).fit(X, y)
    g = LogisticClassifier(**linear, n_jobs=1).fit(X, y)
    p = g.predict_proba(X)
    residual = (np.eye(n_classes)[y] - p)[:, 1] if n_classes == 2 else np.eye(n_classes)[y] - p
    forest = RandomForestRegressor(**trees, random_state=forest_seed(2), n_jobs=1)
    forest.fit(X, residual)
    new = rng.standard_normal((200, 3)) * 2
    level = g.predict_proba(new)[:, 1] if n_classes == 2 else g.predict_proba(new)
    expected = level + forest.predict(new)
    raw = model.predict_raw(new)
    np.testing.assert_allclose(raw[:, 0] if n_classes == 2 else raw, expected, atol=1e-7)
    parts = model.partial(new)
    np.testing.assert_allclose(parts.linear, level, atol=1e-7)
    np.testing.assert_allclose(parts.forest, forest.predict(new), atol=1e-7)
    np.testing.assert_allclose(model.coef_, g.coef_, atol=1e-8)


def test_the_score_is_not_cut_and_probabilities_are(rng):
    X, y = corner(rng)
    model = RERFClassifier(n_estimators=20, random_state=0, n_jobs=1).fit(X, y)
    score = model.decision_function(X) + 0.5
    np.testing.assert_allclose(score, model.predict_raw(X)[:, 0])
    assert score.min() < 0 and score.max() > 1
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba[:, 1], np.clip(score, 0, 1))
    assert len(np.unique(score)) > len(np.unique(proba[:, 1]))  # cutting makes ties
    np.testing.assert_array_equal(model.predict(X), (score > 0.5).astype(int))


def test_probabilities_of_three_classes(rng):
    X, y = corner(rng, n_classes=3)
    labels = np.array(["low", "middle", "top"])[y]
    model = RERFClassifier(n_estimators=20, random_state=0, n_jobs=1).fit(X, labels)
    raw, proba = model.predict_raw(X), model.predict_proba(X)
    np.testing.assert_allclose(raw.sum(axis=1), 1.0, atol=1e-6)
    assert proba.min() >= 0 and proba.sum(axis=1) == pytest.approx(np.ones(600))
    cut = np.clip(raw, 0, 1)
    np.testing.assert_allclose(proba, cut / cut.sum(axis=1, keepdims=True))
    assert list(model.classes_) == ["low", "middle", "top"]
    np.testing.assert_array_equal(model.predict(X), model.classes_[raw.argmax(axis=1)])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_out_of_bag(rng, n_classes):
    X, y = corner(rng, n_classes=n_classes)
    model = RERFClassifier(n_estimators=40, oob_score=True, random_state=0, n_jobs=1).fit(X, y)
    found = model.oob_decision_function_
    assert found.shape == (600, n_classes)
    assert model.oob_score_ == np.mean(found.argmax(axis=1) == y)
    own = found[:, 1:] - (y == 1)[:, None] if n_classes == 2 else found - np.eye(3)[y]
    assert model.oob_curve_[-1] == pytest.approx(np.mean(own**2), rel=1e-6)
    line = LogisticClassifier(n_jobs=1).fit(X, y)
    assert model.oob_score_ > line.score(X, y)


@pytest.mark.parametrize("by", ["oob", 3])
def test_tuning(rng, by):
    X = rng.standard_normal((600, 10))
    score = X[:, 2:].sum(axis=1) + 6.0 * (X[:, 0] > 0) * (X[:, 1] > 0)
    model = RERFClassifier(
        n_estimators=25, tune={"alpha": [10.0, 1e-3], "max_depth": [1, 4]}, tune_by=by,
        random_state=0, n_jobs=1,
    ).fit(X, np.digitize(score, [0, 4]))  # fmt: skip
    # The corner needs two splits, the sum a weak penalty.
    assert model.best_params_ == {"alpha": 1e-3, "max_depth": 4}


def test_weights_and_refusals(rng):
    X, y = corner(rng, n=200)
    heavy = np.where(y == 1, 50.0, 1.0)
    plain = RERFClassifier(n_estimators=10, random_state=0, n_jobs=1).fit(X, y)
    weighted = RERFClassifier(n_estimators=10, random_state=0, n_jobs=1).fit(X, y, heavy)
    assert weighted.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    with pytest.raises(ValueError, match="needs at least two classes"):
        RERFClassifier().fit(X, np.zeros(200))


def test_target_means_of_three_classes(rng):
    pandas = pytest.importorskip("pandas")
    color = rng.choice(["a", "b", "c"], 300)
    y = np.where(rng.random(300) < 0.1, 0, np.searchsorted(["a", "b", "c"], color))
    frame = pandas.DataFrame({"color": color, "x": rng.standard_normal(300)})
    model = RERFClassifier(
        n_estimators=5, categorical_encoding="target_mean", random_state=0, n_jobs=1
    ).fit(frame, y)
    assert len(model.term_names_) == 4
    assert model.score(frame, y) > 0.85


def test_alpha_by_cross_validation(rng):
    X, y = corner(rng, n=200)
    model = RERFClassifier(n_estimators=2, alpha="cv", cv=3, n_jobs=1).fit(X, y)
    assert model.alpha_ == LogisticClassifier(alpha="cv", cv=3, n_jobs=1).fit(X, y).alpha_
