"""Prediction sets and calibrated probabilities on simulated data."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.uncertainty.calibration import Isotonic, Temperature
from hybridtrees.uncertainty.sets import adaptive_scores

LABELS = np.array(["low", "middle", "top"])


def simulate(rng, n):
    X = rng.normal(size=(n, 3))
    scores = 1.5 * np.column_stack([X[:, 0], X[:, 1], -X[:, 0] * (X[:, 2] > 0)])
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return X, (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)


def log_loss(proba, codes):
    return -np.log(np.clip(proba[np.arange(len(codes)), codes], 1e-9, 1)).mean()


@pytest.mark.parametrize("method", ["lac", "aps"])
@pytest.mark.parametrize(
    "model",
    [
        ht.XGBClassifier(n_estimators=15, max_depth=3, conformal="cv"),
        ht.RandomForestClassifier(
            n_estimators=200, min_samples_leaf=5, conformal="auto", random_state=0
        ),
        ht.LogisticClassifier(conformal="cv+"),
    ],
    ids=["cv", "oob", "cv+"],
)
def test_sets_cover_what_they_say(model, method):
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, codes = simulate(rng, 400)
        new, new_codes = simulate(rng, 1000)
        model.set_params(n_jobs=1).fit(X, LABELS[codes])
        member = model.predict_set(new, 0.9, method)
        assert member.shape == (1000, 3) and member.dtype == bool
        found.append(member[np.arange(1000), new_codes].mean())
    assert abs(np.mean(found) - 0.9) < 0.015 + 2 * np.std(found) / np.sqrt(6)


def test_sets_by_rows_of_the_caller():
    rng = np.random.default_rng(0)
    X, codes = simulate(rng, 3000)
    model = ht.XGBClassifier(n_estimators=10, n_jobs=1).fit(X[:1000], codes[:1000])
    model.conformalize(X[1000:2000], codes[1000:2000])
    member = model.predict_set(X[2000:], 0.8)
    assert abs(member[np.arange(1000), codes[2000:]].mean() - 0.8) < 0.04
    # One probability decides: every class above it is in.
    proba = model.predict_proba(X[2000:])
    assert proba[member].min() >= proba[~member].max()


def test_adaptive_scores_of_one_row():
    scores = adaptive_scores(np.array([[0.2, 0.5, 0.3]]), np.array([0.5]))
    np.testing.assert_allclose(scores, [[0.9, 0.25, 0.65]])


def test_draws_depend_on_the_seed_alone():
    rng = np.random.default_rng(0)
    X, codes = simulate(rng, 400)
    model = ht.LogisticClassifier(conformal="cv", n_jobs=1).fit(X, codes)
    first = model.predict_set(X, 0.8, "aps")
    np.testing.assert_array_equal(first, model.predict_set(X, 0.8, "aps"))
    assert (first != model.predict_set(X, 0.8, "aps", random_state=1)).any()


@pytest.mark.parametrize("calibrate", ["temperature", "isotonic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibration_mends_a_model_that_is_too_sure(calibrate, n_classes):
    rng = np.random.default_rng(0)
    X, codes = simulate(rng, 800)
    new, new_codes = simulate(rng, 3000)
    codes, new_codes = np.minimum(codes, n_classes - 1), np.minimum(new_codes, n_classes - 1)
    model = ht.XGBClassifier(calibrate=calibrate, n_jobs=1).fit(X, LABELS[codes])
    proba = model.predict_proba(new)
    assert log_loss(proba, new_codes) < 0.9 * log_loss(model._probabilities(new), new_codes)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.min() > 0
    np.testing.assert_array_equal(model.predict(new), model.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(new))
    with pytest.raises(ValueError, match="conformal='auto'"):
        model.predict_set(new)


def test_isotonic_regression_is_that_of_scikit_learn():
    isotonic = pytest.importorskip("sklearn.isotonic")
    rng = np.random.default_rng(0)
    second = rng.random(300).round(2)
    codes = (rng.random(300) < second**2).astype(int)
    weight = rng.integers(1, 4, 300) + 0.0
    mine = Isotonic.learn(np.column_stack([1 - second, second]), codes, weight)
    theirs = isotonic.IsotonicRegression().fit(second, codes, weight)
    known = np.unique(second)
    found = mine.apply(np.column_stack([1 - known, known]))[:, 1]
    np.testing.assert_allclose(found, np.clip(theirs.predict(known), 1 / 302, 301 / 302))


def test_temperature_leaves_the_order_of_classes():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(4), size=100)
    heated = Temperature(2.5).apply(proba)
    np.testing.assert_array_equal(np.argsort(proba), np.argsort(heated))


def test_a_class_that_a_fold_has_not_seen():
    rng = np.random.default_rng(0)
    X, codes = simulate(rng, 100)
    codes[codes == 2] = 0
    codes[0] = 2
    for way in ("cv", "cv+"):
        model = ht.CARTClassifier(max_depth=2, conformal=way, calibrate="isotonic", n_jobs=1)
        model.fit(X, LABELS[codes])
        assert model.predict_proba(X).shape == model.predict_set(X).shape == (100, 3)


def test_labels_without_probabilities():
    rng = np.random.default_rng(0)
    X, codes = simulate(rng, 60)
    members = [("a", ht.CARTClassifier()), ("b", ht.LogisticClassifier())]
    model = ht.VotingClassifier(members, voting="hard", conformal="cv")
    with pytest.raises(ValueError, match="VotingClassifier predicts no probabilities"):
        model.fit(X, codes)
