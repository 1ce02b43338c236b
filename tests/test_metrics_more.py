"""Percentages, logarithms, F1, Brier and areas of several classes against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees import metrics

peer = pytest.importorskip("sklearn.metrics")

N_ROWS = 500  # of the fixture `weight`
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.parametrize("name", ["mean_absolute_percentage_error", "root_mean_squared_log_error"])
@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_regression(name, n_outputs, weight, rng):
    shape = (500,) if n_outputs is None else (500, n_outputs)
    y, prediction = rng.gamma(2.0, size=shape), rng.gamma(2.0, size=shape)
    ours = getattr(metrics, name)(y, prediction, sample_weight=weight)
    theirs = getattr(peer, name)(y, prediction, sample_weight=weight)
    assert type(ours) is float
    np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_percentages_of_nothing():
    theirs = peer.mean_absolute_percentage_error([0, 1], [1, 1])
    np.testing.assert_allclose(metrics.mean_absolute_percentage_error([0, 1], [1, 1]), theirs)


def test_logarithms_need_values_above_minus_one():
    for y, prediction, name in (([1, -1], [1, 1], "y_true"), ([1, 1], [1, -2], "y_pred")):
        with pytest.raises(ValueError, match=f"{name} must be greater than -1"):
            metrics.root_mean_squared_log_error(y, prediction)
    assert np.isnan(metrics.get_metric("rmsle").function([1, 1], [1, -2]))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.95])
def test_pinball_loss(alpha, weight, rng):
    y, prediction = rng.normal(size=500), rng.normal(size=500)
    ours = metrics.mean_pinball_loss(y, prediction, alpha=alpha, sample_weight=weight)
    theirs = peer.mean_pinball_loss(y, prediction, alpha=alpha, sample_weight=weight)
    np.testing.assert_allclose(ours, theirs, **CLOSE)
    both = np.column_stack([prediction, y + 1])
    theirs = (theirs + peer.mean_pinball_loss(y, y + 1, alpha=0.3, sample_weight=weight)) / 2
    ours = metrics.mean_pinball_loss(y, both, alpha=[alpha, 0.3], sample_weight=weight)
    np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_expectile_loss(weight, rng):
    y, prediction = rng.normal(size=500), rng.normal(size=500)
    ours = metrics.mean_expectile_loss(y, prediction, alpha=0.5, sample_weight=weight)
    theirs = peer.mean_squared_error(y, prediction, sample_weight=weight) / 2
    np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert metrics.mean_expectile_loss([0.0], [-2.0], alpha=0.9) == pytest.approx(3.6)
    assert metrics.mean_expectile_loss([0.0], [2.0], alpha=0.9) == pytest.approx(0.4)


def test_levels_must_fit():
    for alpha in (1.5, [0.1, -0.2], [[0.5]], float("nan")):
        with pytest.raises(ValueError, match="alpha must be a level from 0 to 1"):
            metrics.mean_pinball_loss([1, 2], [1, 2], alpha=alpha)
    with pytest.raises(ValueError, match="1 columns for 2 levels"):
        metrics.mean_pinball_loss([1, 2], [1, 2], alpha=[0.1, 0.2])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        metrics.mean_pinball_loss([1, 2], [1, 2, 3])


def test_deviances(weight, rng):
    y, prediction = rng.gamma(2.0, size=500), rng.gamma(2.0, size=500)
    theirs = peer.mean_gamma_deviance(y + 1e-6, prediction + 1e-6, sample_weight=weight)
    ours = metrics.gamma_deviance(y, prediction, sample_weight=weight)
    np.testing.assert_allclose(ours, theirs, **CLOSE)
    # Likelihoods are deviances up to a factor and a term of y alone.
    for power in (1, 1.3, 1.9, 2):
        gain = metrics.tweedie_nloglik(y, prediction, rho=power, sample_weight=weight)
        gain -= metrics.tweedie_nloglik(y, y, rho=power, sample_weight=weight)
        theirs = peer.mean_tweedie_deviance(y, prediction, power=power, sample_weight=weight)
        np.testing.assert_allclose(2 * gain, theirs, rtol=1e-10)
    for function, power in ((metrics.poisson_nloglik, 1), (metrics.gamma_nloglik, 2)):
        gain = function(y, prediction, sample_weight=weight) - function(y, y, sample_weight=weight)
        theirs = peer.mean_tweedie_deviance(y, prediction, power=power, sample_weight=weight)
        np.testing.assert_allclose(2 * gain, theirs, rtol=1e-10)
    with pytest.raises(ValueError, match="y_pred must not be negative"):
        metrics.gamma_deviance([1], [-1])
    with pytest.raises(ValueError, match="rho"):
        metrics.tweedie_nloglik([1], [1], rho=3)


def test_poisson_likelihood_is_the_distributions(rng):
    stats = pytest.importorskip("scipy.stats")
    y, prediction = rng.poisson(3.0, 50), rng.gamma(2.0, size=50)
    expected = -stats.poisson.logpmf(y, prediction).mean()
    np.testing.assert_allclose(metrics.poisson_nloglik(y, prediction), expected, **CLOSE)
    assert np.isfinite(metrics.poisson_nloglik([1.0], [0.0]))


# ---- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
@pytest.mark.parametrize("labels", [[0, 1], ["a", "b", "c"], [1.0, 2.0, 5.0]])
def test_f1(average, labels, weight, rng):
    y, prediction = rng.choice(labels, 500), rng.choice(labels[::-1], 500)
    ours = metrics.f1_score(y, prediction, average=average, sample_weight=weight)
    theirs = peer.f1_score(y, prediction, average=average, sample_weight=weight)
    np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_f1_of_two_classes(weight, rng):
    y, prediction = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    for pos_label in (0, 1):
        ours = metrics.f1_score(y, prediction, pos_label=pos_label, sample_weight=weight)
        theirs = peer.f1_score(y, prediction, pos_label=pos_label, sample_weight=weight)
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert metrics.f1_score([0, 0], [0, 0]) == 0.0
    with pytest.raises(ValueError, match="average='binary' is for two classes"):
        metrics.f1_score([0, 1, 2], [0, 1, 2])
    with pytest.raises(ValueError, match="pos_label=1 is not among"):
        metrics.f1_score(["a", "b"], ["a", "b"])
    with pytest.raises(ValueError, match="average must be one of"):
        metrics.f1_score([0, 1], [0, 1], average="mean")


def test_f1_of_a_class_that_is_never_predicted():
    y, prediction = ["a", "b", "b"], ["c", "b", "b"]
    for average in ("macro", "weighted", None):
        theirs = peer.f1_score(y, prediction, average=average, zero_division=0)
        np.testing.assert_allclose(metrics.f1_score(y, prediction, average=average), theirs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_brier(dtype, weight, rng):
    y, proba = rng.choice(["no", "yes"], 500), rng.random(500).astype(dtype)
    theirs = peer.brier_score_loss(y, proba, sample_weight=weight, pos_label="yes")
    for given_proba in (proba, np.column_stack([1 - proba, proba])):
        ours = metrics.brier_score_loss(y, given_proba, sample_weight=weight)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12 if dtype == np.float64 else 1e-6)
    y, proba = rng.integers(0, 4, 500), rng.dirichlet(np.ones(4), 500)
    np.testing.assert_allclose(
        metrics.brier_score_loss(y, proba, sample_weight=weight),
        peer.brier_score_loss(y, proba, sample_weight=weight),
        **CLOSE,
    )
    with pytest.raises(ValueError, match="probabilities from 0 to 1"):
        metrics.brier_score_loss([0, 1], [0.5, 1.5])
    with pytest.raises(ValueError, match="3 columns"):
        metrics.brier_score_loss([0, 1], np.full((2, 3), 1 / 3))


@pytest.mark.parametrize("ties", [False, True])
def test_areas_of_several_classes(ties, weight, rng):
    y = rng.choice(["a", "b", "c", "d"], 500, p=[0.4, 0.3, 0.2, 0.1])
    proba = rng.dirichlet(np.ones(4), 500) + 0.3 * (y[:, None] == np.array(["a", "b", "c", "d"]))
    if ties:
        proba = np.round(proba, 1) + 0.01
    proba /= proba.sum(axis=1, keepdims=True)
    for average in ("macro", "weighted", None):
        ours = metrics.roc_auc_score(
            y, proba, multi_class="ovr", average=average, sample_weight=weight
        )
        theirs = peer.roc_auc_score(
            y, proba, multi_class="ovr", average=average, sample_weight=weight
        )
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    for average in ("macro", "weighted"):
        ours = metrics.roc_auc_score(y, proba, multi_class="ovo", average=average)
        theirs = peer.roc_auc_score(y, proba, multi_class="ovo", average=average)
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    if weight is not None:
        # Weights in pairs of classes: as many rows.
        whole = rng.integers(1, 4, 500)
        for average in ("macro", "weighted"):
            ours = metrics.roc_auc_score(
                y, proba, multi_class="ovo", average=average, sample_weight=whole
            )
            theirs = peer.roc_auc_score(
                np.repeat(y, whole),
                np.repeat(proba, whole, axis=0),
                multi_class="ovo",
                average=average,
            )
            np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_areas_of_several_classes_need_a_column_each(rng):
    proba = rng.dirichlet(np.ones(3), 6)
    y = [0, 1, 2, 0, 1, 2]
    with pytest.raises(ValueError, match="needs two classes, y_true holds 3"):
        metrics.roc_auc_score(y, proba)
    with pytest.raises(ValueError, match="a column for each class"):
        metrics.roc_auc_score(y, proba[:, 0], multi_class="ovr")
    with pytest.raises(ValueError, match="2 classes, but y_score has 3 columns"):
        metrics.roc_auc_score([0, 1, 1, 0, 1, 1], proba, multi_class="ovr")
    with pytest.raises(ValueError, match="average must be 'macro' or 'weighted'"):
        metrics.roc_auc_score(y, proba, multi_class="ovo", average=None)
    given_labels = metrics.roc_auc_score(
        [0, 1, 1, 0, 1, 1], proba, multi_class="ovr", labels=[0, 1, 2], average=None
    )
    np.testing.assert_array_equal(np.isnan(given_labels), [False, False, True])
    two = np.column_stack([1 - proba[:, 0], proba[:, 0]])
    y = [0, 1, 1, 0, 1, 1]
    assert metrics.roc_auc_score(y, two) == metrics.roc_auc_score(y, proba[:, 0])


@pytest.mark.parametrize("ties", [False, True])
def test_average_precision(ties, weight, rng):
    y = rng.integers(0, 2, 500)
    score = y + rng.normal(size=500)
    if ties:
        score = np.round(score, 1)
    np.testing.assert_allclose(
        metrics.average_precision_score(y, score, sample_weight=weight),
        peer.average_precision_score(y, score, sample_weight=weight),
        **CLOSE,
    )
    with pytest.raises(ValueError, match="two classes"):
        metrics.average_precision_score([0, 1, 2], [0.1, 0.2, 0.3])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=12))
def test_precision_recall_area_by_its_definition(rows):
    y, score = (np.array(column) for column in zip(*rows, strict=True))
    if y.all() or not y.any():
        with pytest.warns(UserWarning, match="only one class"):
            assert np.isnan(metrics.pr_auc_score(y, score))
        return
    # Precision over fine steps of recall, false positives growing evenly between two scores.
    area, true, false = 0.0, 0.0, 0.0
    for value in np.unique(score)[::-1]:
        new_true, new_false = (y & (score == value)).sum(), (~y & (score == value)).sum()
        steps = (np.arange(20_000) + 0.5) / 20_000
        t, f = true + steps * new_true, false + steps * new_false
        area += new_true * np.mean(t / (t + f))
        true, false = true + new_true, false + new_false
    np.testing.assert_allclose(metrics.pr_auc_score(y, score), area / true, rtol=1e-5)
