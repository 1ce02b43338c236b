"""Initial constants, links, predictions and the range of targets."""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import CASES

from hybridtrees import losses

N_ROWS = 301  # of the fixture `weight`

# Those of XGBoost for hinge, pseudo-Huber and the squared log error do not minimise, nor does
# scikit-learn's for Huber. XGBoost's quantiles lie between two targets, of which one is the best.
# The median is near the best start under log cosh.
NO_MINIMUM = {"hinge", "pseudo_huber", "huber", "smooth_quantile", "log_cosh", "squared_log"}


@pytest.mark.parametrize("name", sorted(set(CASES) - NO_MINIMUM))
def test_starts_minimise_the_loss(rng, name, weight):
    optimize = pytest.importorskip("scipy.optimize")
    case = CASES[name]
    y = case.targets(rng, 301)
    start = case.loss.init_raw(y, weight)
    assert start.shape == (1,)
    value = CASES[name.removeprefix("smooth_")].value  # of the loss itself

    def total(raw):
        return np.average(value(y, raw), weights=weight)

    best = optimize.minimize_scalar(total, bounds=(-9, 9), method="bounded")
    assert total(start[0]) <= best.fun + 1e-9 * abs(best.fun)


def test_the_start_of_hinge_is_the_heavier_class():
    y = np.array([0.0, 1.0, 1.0, 0.0])
    for weight, expected in (
        (None, 0.0),  # a tie, as XGBoost has it
        ([1.0, 1.0, 1.5, 1.0], 1.0),
        ([3.0, 1.0, 1.0, 0.0], 0.0),
        ([3.0, 2.0, 2.0, 0.5], 1.0),
    ):
        weight = None if weight is None else np.array(weight)
        assert losses.HingeLoss().init_raw(y, weight).tolist() == [expected]


def test_starts_of_friedman_are_scikit_learns(rng, weight):
    dummy = pytest.importorskip("sklearn.dummy")
    for n in (300, 301):
        y, w = rng.normal(size=n), None if weight is None else weight[:n]
        for loss, strategy in (
            (losses.SquaredError(), {"strategy": "mean"}),
            (losses.AbsoluteError(), {"strategy": "quantile", "quantile": 0.5}),
            (losses.HuberError(0.8), {"strategy": "quantile", "quantile": 0.5}),
            (losses.QuantileError(0.9), {"strategy": "quantile", "quantile": 0.9}),
            (losses.QuantileError(0.33), {"strategy": "quantile", "quantile": 0.33}),
        ):
            peer = dummy.DummyRegressor(**strategy).fit(y[:, None], y, sample_weight=w)
            np.testing.assert_allclose(
                loss.init_raw(y, w), peer.constant_.ravel(), rtol=1e-14, atol=1e-16
            )


def test_starts_in_closed_form(rng, weight):
    y = rng.gamma(2.0, size=301)
    mean = np.average(y, weights=weight)
    for loss in (losses.PoissonDeviance(), losses.GammaDeviance(), losses.TweedieDeviance(1.3)):
        np.testing.assert_allclose(loss.init_raw(y, weight), [np.log(mean)], rtol=1e-14)
    y = rng.integers(0, 2, 301).astype(float)
    share = np.average(y, weights=weight)
    odds = np.log(share / (1 - share))
    np.testing.assert_allclose(losses.Logistic().init_raw(y, weight), [odds], rtol=1e-13)
    np.testing.assert_allclose(losses.ExponentialLoss().init_raw(y, weight), [odds / 2], rtol=1e-13)


def test_expectiles(rng, weight):
    y = rng.normal(size=301)
    w = np.ones(301) if weight is None else weight
    starts = losses.ExpectileError([0.05, 0.5, 0.95]).init_raw(y, weight)
    np.testing.assert_allclose(starts[1], np.average(y, weights=weight), rtol=1e-12)
    assert starts[0] < starts[1] < starts[2]
    for alpha, start in zip((0.05, 0.5, 0.95), starts, strict=True):
        above, below = np.maximum(y - start, 0), np.maximum(start - y, 0)
        np.testing.assert_allclose(
            alpha * np.sum(w * above), (1 - alpha) * np.sum(w * below), rtol=1e-10
        )
    ends = losses.ExpectileError([0, 1]).init_raw(y, weight)
    np.testing.assert_array_equal(ends, [y[w > 0].min(), y[w > 0].max()])


def test_starts_are_finite_for_targets_at_the_end_of_the_range():
    for y in (np.zeros(5), np.ones(5)):
        for loss in (
            losses.Logistic(),
            losses.ExponentialLoss(),
            losses.HingeLoss(),
            losses.PoissonDeviance(),
            losses.TweedieDeviance(),
        ):
            assert np.isfinite(loss.init_raw(y, None)).all()


def test_links_are_the_inverse_of_predictions(rng):
    for loss in (losses.PoissonDeviance(), losses.GammaDeviance(), losses.TweedieDeviance()):
        for value in (1e-9, 0.5, 3.0, 1e9):
            raw = np.array([[loss.link(value)]])
            np.testing.assert_allclose(loss.predict(raw), [value], rtol=1e-13)
        for bad in (0, -1, float("nan")):
            with pytest.raises(ValueError, match=f"base_score .* {loss.kind} loss"):
                loss.link(bad)
    for loss in (losses.Logistic(), losses.ExponentialLoss()):
        for value in (1e-9, 0.25, 0.5, 0.9):
            raw = np.array([[loss.link(value)]])
            proba = loss.predict(raw)
            np.testing.assert_allclose(proba, [[1 - value, value]], rtol=1e-9)
            np.testing.assert_array_equal(loss.score_input(raw), proba[:, 1])
        for bad in (0, 1, -0.5, float("nan")):
            with pytest.raises(ValueError, match="base_score"):
                loss.link(bad)
    assert losses.HingeLoss().link(0.3) == 0.3


def test_predictions_far_out_are_finite():
    raw = np.array([[-1e300], [-1000.0], [700.0], [1000.0], [1e300]])
    for loss in (losses.PoissonDeviance(), losses.ExponentialLoss(), losses.Logistic()):
        assert np.isfinite(loss.predict(raw)).all()


def test_hinge_predicts_sides():
    raw = np.array([[-0.5], [0.0], [0.5]])
    np.testing.assert_array_equal(losses.HingeLoss().predict(raw), [[1, 0], [1, 0], [0, 1]])
    np.testing.assert_array_equal(losses.HingeLoss().score_input(raw), [0, 0, 1])


def test_several_targets_of_two_classes(rng):
    raw = rng.normal(size=(6, 3))
    expected = 1 / (1 + np.exp(-raw))
    np.testing.assert_allclose(losses.Logistic(3).predict(raw), expected)
    np.testing.assert_allclose(losses.Logistic(3).score_input(raw), expected)
    np.testing.assert_array_equal(losses.HingeLoss(3).predict(raw), raw > 0)
    np.testing.assert_allclose(losses.PoissonDeviance(3).predict(raw), np.exp(raw))


def test_quantiles_never_cross(rng):
    raw = rng.normal(size=(50, 3))
    for levels in ([0.1, 0.5, 0.9], [0.9, 0.1, 0.5]):
        for loss in (losses.QuantileError(levels), losses.ExpectileError(levels)):
            predicted = loss.predict(raw)
            order = np.argsort(levels)
            assert (np.diff(predicted[:, order], axis=1) >= 0).all()
            np.testing.assert_array_equal(np.sort(predicted, axis=1), np.sort(raw, axis=1))
            # What does not cross is left alone.
            np.testing.assert_array_equal(loss.predict(predicted), predicted)
    raw = rng.normal(size=(5, 1))
    np.testing.assert_array_equal(losses.QuantileError(0.3).predict(raw), raw[:, 0])


@pytest.mark.parametrize(
    ("loss", "good", "bad", "message"),
    [
        (losses.PoissonDeviance(), [0, 3], [1, -0.5], "y must be at least 0 .*, got -0.5 in row 1"),
        (losses.TweedieDeviance(), [0, 3], [1, -2], "y must be at least 0 .*, got -2.0 in row 1"),
        (losses.GammaDeviance(), [0.1, 3], [1, 0], "y must be positive .*, got 0.0 in row 1"),
        (losses.TweedieDeviance(2), [0.1, 3], [1, 0], "y must be positive .*, got 0.0 in row 1"),
        (losses.Logistic(), [0, 0.5], [0, 1.5], "y must be from 0 to 1 .*, got 1.5 in row 1"),
        (losses.ExponentialLoss(), [0, 1], [0, 0.5], "y must be 0 or 1 .*, got 0.5 in row 1"),
        (losses.HingeLoss(), [0, 1], [2, 0], "y must be 0 or 1 .*, got 2.0 in row 0"),
        (losses.Softmax(3), [0, 2], [1, 3], "y must be a class number from 0 to 2, got 3.0"),
        (losses.Softmax(3), [0, 2], [0.5, 1], "y must be a class number from 0 to 2, got 0.5"),
    ],
)
def test_targets_out_of_range(loss, good, bad, message):
    loss.check_target(np.array(good, dtype=float))
    with pytest.raises(ValueError, match=message):
        loss.check_target(np.array(bad, dtype=float))
    with pytest.raises(ValueError, match="^the y of the table must be"):
        loss.check_target(np.array(bad, dtype=float), "the y of the table")


def test_targets_of_several_outputs_name_the_row():
    with pytest.raises(ValueError, match="got -1.0 in row 1"):
        losses.PoissonDeviance(2).check_target(np.array([[1.0, 2.0], [3.0, -1.0]]))
    losses.SquaredError().check_target(np.array([-1e300, 1e300]))
