"""Scores of the comparison against scikit-learn's, and what counts as overfitting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hybridtrees._compare.scores import SCORES, Prediction, choose_score, predict, scores_of

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def two_classes(rng, n=300):
    proba = rng.uniform(0.01, 0.99, n).round(2)
    y = (rng.uniform(size=n) < proba).astype(int)
    shares = np.column_stack([1 - proba, proba])
    return y, Prediction(shares.argmax(axis=1), shares, proba)


def three_classes(rng, n=300):
    shares = rng.dirichlet([1, 1, 1], n)
    y = np.array([rng.choice(3, p=p) for p in shares])
    return y, Prediction(shares.argmax(axis=1), shares, shares[:, -1])


def test_regression_scores_equal_scikit_learns(rng):
    peer = pytest.importorskip("sklearn.metrics")
    y, p = rng.gamma(2.0, size=200), rng.gamma(2.0, size=200)
    expected = {
        "rmse": peer.root_mean_squared_error(y, p),
        "mae": peer.mean_absolute_error(y, p),
        "r2": peer.r2_score(y, p),
        "mape": peer.mean_absolute_percentage_error(y, p),
    }
    for name, score in scores_of("regression").items():
        np.testing.assert_allclose(score(y, Prediction(p)), expected.pop(name), **CLOSE)
    assert not expected


@pytest.mark.parametrize("make", [two_classes, three_classes])
def test_class_scores_equal_scikit_learns(make, rng):
    peer = pytest.importorskip("sklearn.metrics")
    y, predicted = make(rng)
    binary = make is two_classes
    area = (
        peer.roc_auc_score(y, predicted.rank)
        if binary
        else peer.roc_auc_score(y, predicted.proba, average="weighted", multi_class="ovr")
    )
    hot = np.eye(3)[y] - predicted.proba if not binary else None
    expected = {
        "auc": area,
        "logloss": peer.log_loss(y, predicted.proba),
        "accuracy": peer.accuracy_score(y, predicted.value),
        "f1": peer.f1_score(y, predicted.value, average="weighted"),
        "brier": peer.brier_score_loss(y, predicted.rank) if binary else (hot**2).sum(1).mean(),
    }
    for name, score in scores_of("classification").items():
        np.testing.assert_allclose(score(y, predicted), expected.pop(name), **CLOSE)
    assert not expected


def test_a_class_without_rows_has_no_area(rng):
    y, predicted = three_classes(rng)
    some = y != 1
    part = Prediction(predicted.value[some], predicted.proba[some], predicted.rank[some])
    assert 0 < SCORES["auc"](y[some], part) < 1
    one = y == 1
    alone = Prediction(predicted.value[one], predicted.proba[one], predicted.rank[one])
    assert math.isnan(SCORES["auc"](y[one], alone))
    assert SCORES["auc"].key(math.nan) == math.inf


def test_delta_and_its_limit():
    auc, rmse = SCORES["auc"], SCORES["rmse"]
    assert auc.delta(0.8, 0.72) == pytest.approx(-10)
    assert not auc.overfits(0.8, 0.73) and auc.overfits(0.8, 0.71)
    assert not auc.overfits(0.8, 0.95)
    assert rmse.delta(10.0, 14.0) == pytest.approx(40)
    assert not rmse.overfits(10.0, 19.0) and rmse.overfits(10.0, 21.0)
    assert rmse.overfits(10.0, 14.0, 0.3) and not rmse.overfits(10.0, 2.0)
    assert rmse.overfits(0.0, 1.0) and not rmse.overfits(0.0, 0.0)
    assert SCORES["r2"].delta(-0.5, -1.0) == pytest.approx(-100)


def test_scores_are_chosen_by_task():
    assert choose_score(None, "regression").name == "rmse"
    assert choose_score(None, "classification").name == "auc"
    with pytest.raises(ValueError, match="score must be one of rmse, mae, r2, mape .*got 'auc'"):
        choose_score("auc", "regression")


class _Knows:
    """A classifier of two of three classes."""

    classes_ = np.array([0, 2])

    def predict_proba(self, X):
        return np.array([[0.25, 0.75], [0.9, 0.1]])


def test_a_model_that_lacks_a_class_gives_it_no_probability():
    predicted = predict(_Knows(), None, 3)
    np.testing.assert_array_equal(predicted.proba, [[0.25, 0, 0.75], [0.9, 0, 0.1]])
    np.testing.assert_array_equal(predicted.value, [2, 0])


class _Clips(_Knows):
    """A classifier whose probabilities tie where its sums do not."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        return np.array([[0.0, 1.0], [0.0, 1.0]])

    def decision_function(self, X):
        return np.array([1.4, 1.1])


def test_rows_are_ordered_by_the_decision_function():
    predicted = predict(_Clips(), None, 2)
    assert SCORES["auc"](np.array([1, 0]), predicted) == 1.0
