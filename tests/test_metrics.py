"""Metrics against those of scikit-learn and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees import metrics

peer = pytest.importorskip("sklearn.metrics")

N_ROWS = 500  # of the fixture `weight`
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize(
    "name", ["mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "r2_score"]
)
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_regression(name, n_outputs, weight, rng):
    shape = (500,) if n_outputs is None else (500, n_outputs)
    y = rng.normal(size=shape) * 100 + 7
    prediction = y + rng.normal(size=shape)
    ours = getattr(metrics, name)(y, prediction, sample_weight=weight)
    theirs = getattr(peer, name)(y, prediction, sample_weight=weight)
    assert type(ours) is float
    np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_r2_without_variation():
    for y, prediction in (([2, 2], [2, 2]), ([2, 2], [1, 3]), ([[1, 2], [1, 3]], [[1, 2], [2, 2]])):
        assert metrics.r2_score(y, prediction) == peer.r2_score(y, prediction)
    with pytest.warns(UserWarning, match="fewer than two rows"):
        assert np.isnan(metrics.r2_score([1], [1]))


@pytest.mark.parametrize("labels", [[0, 1], ["a", "b", "c"], [False, True], [1.0, 2.0, 5.0]])
def test_accuracy_and_error(labels, weight, rng):
    y, prediction = rng.choice(labels, 500), rng.choice(labels, 500)
    ours = metrics.accuracy_score(y, prediction, sample_weight=weight)
    np.testing.assert_allclose(
        ours, peer.accuracy_score(y, prediction, sample_weight=weight), **CLOSE
    )
    np.testing.assert_allclose(
        metrics.error_rate(y, prediction, sample_weight=weight), 1 - ours, **CLOSE
    )
    assert metrics.accuracy_score(list(y), y.astype(object)) == 1.0


def test_labels_of_different_kinds_are_unequal():
    assert metrics.accuracy_score([0, 1], ["0", "1"]) == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_log_loss_of_two_classes(dtype, weight, rng):
    y = rng.choice(["no", "yes"], 500)
    proba = rng.random(500).astype(dtype)
    proba[:3] = [0, 1, 0.5]
    expected = peer.log_loss(y, proba, sample_weight=weight)
    rtol = 1e-12 if dtype == np.float64 else 1e-6
    for given_proba in (proba, proba[:, None], np.column_stack([1 - proba, proba])):
        ours = metrics.log_loss(y, given_proba, sample_weight=weight)
        np.testing.assert_allclose(ours, expected, rtol=rtol)


def test_log_loss_of_many_classes(weight, rng):
    y = rng.integers(0, 4, 500)
    proba = rng.dirichlet(np.ones(4), 500)
    np.testing.assert_allclose(
        metrics.log_loss(y, proba, sample_weight=weight),
        peer.log_loss(y, proba, sample_weight=weight),
        **CLOSE,
    )
    part = y < 3
    np.testing.assert_allclose(
        metrics.log_loss(y[part], proba[part], labels=[0, 1, 2, 3]),
        peer.log_loss(y[part], proba[part], labels=[0, 1, 2, 3]),
        **CLOSE,
    )
    with pytest.raises(ValueError, match="3 classes, but y_proba has 4 columns"):
        metrics.log_loss(y[part], proba[part])


def test_log_loss_refuses_what_is_no_probability():
    for proba in ([0.5, 1.5], [-0.1, 0.5], [np.nan, 0.5]):
        with pytest.raises(ValueError, match="probabilities from 0 to 1"):
            metrics.log_loss([0, 1], proba)


@pytest.mark.parametrize("ties", [False, True])
def test_roc_auc(ties, weight, rng):
    y = rng.integers(0, 2, 500)
    score = y + rng.normal(size=500)
    if ties:
        score = np.round(score, 1)
    for given_score in (score, score.astype(np.float32), list(score)):
        np.testing.assert_allclose(
            metrics.roc_auc_score(y, given_score, sample_weight=weight),
            peer.roc_auc_score(y, given_score, sample_weight=weight),
            **CLOSE,
        )
    np.testing.assert_allclose(
        metrics.roc_auc_score(np.where(y, "yes", "no"), score), metrics.roc_auc_score(y, score)
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(1, 3)), min_size=2))
def test_roc_auc_by_its_definition(rows):
    y, score, weight = (np.array(column) for column in zip(*rows, strict=True))
    if y.all() or not y.any():
        with pytest.warns(UserWarning, match="only one class"):
            assert np.isnan(metrics.roc_auc_score(y, score))
        return
    pairs = [
        (w1 * w2, 1.0 if s1 > s2 else 0.5 if s1 == s2 else 0.0)
        for y1, s1, w1 in zip(y, score, weight, strict=True)
        for y2, s2, w2 in zip(y, score, weight, strict=True)
        if y1 and not y2
    ]
    expected = sum(w * value for w, value in pairs) / sum(w for w, _ in pairs)
    ours = metrics.roc_auc_score(y, score, sample_weight=weight)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_roc_auc_errors():
    with pytest.raises(ValueError, match="two classes, y_true holds 3"):
        metrics.roc_auc_score([0, 1, 2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="contains NaN"):
        metrics.roc_auc_score([0, 1], [0.1, np.nan])
    assert np.isnan(metrics.roc_auc_score([0, 1], [0.1, 0.2], sample_weight=[1, 0]))


def test_lengths_must_agree():
    for function in (metrics.mean_squared_error, metrics.accuracy_score, metrics.log_loss):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            function([0, 1], [1, 0, 1])
    with pytest.raises(ValueError, match="one entry for each of the 2 rows"):
        metrics.mean_squared_error([0, 1], [1, 0], sample_weight=[1])
    with pytest.raises(ValueError, match="shape"):
        metrics.mean_squared_error(np.ones((2, 2)), np.ones((2, 3)))


def test_table_of_metrics(rng):
    y = rng.integers(0, 2, 50)
    proba = rng.random(50)
    table = metrics.METRICS
    assert all(name == metric.name for name, metric in table.items())
    assert {name for name, metric in table.items() if metric.maximize} == {"auc", "aucpr", "r2"}
    np.testing.assert_allclose(table["error"].function(y, proba), np.mean(y != (proba > 0.5)))
    np.testing.assert_allclose(table["logloss"].function(y, proba), peer.log_loss(y, proba))
    classes = rng.integers(0, 3, 50)
    columns = rng.dirichlet(np.ones(3), 50)
    np.testing.assert_allclose(
        table["merror"].function(classes, columns), np.mean(classes != columns.argmax(axis=1))
    )
    # A part without some class still has a loss, since the columns tell how many there are.
    np.testing.assert_allclose(
        table["mlogloss"].function(classes[:1], columns[:1]), -np.log(columns[0, classes[0]])
    )
    np.testing.assert_allclose(table["logloss"].function([1], np.array([0.25])), -np.log(0.25))
    assert metrics.get_metric("auc").maximize
    for wrong in ("nope", ["auc"], None):
        with pytest.raises(ValueError, match="unknown metric .*; the metrics are rmse, "):
            metrics.get_metric(wrong)
