"""Gradients, hessians, pseudo-residuals and sums of all losses against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import CASES, KINKED, MAJORISED, residuals, statistics

from hybridtrees import losses
from hybridtrees.losses import _kernels

EXTREMES = np.array([0, 1e-300, 1, 30, 40, 100, 700, 709, 745, 1e4, 1e30])
EXTREMES = np.concatenate([EXTREMES, -EXTREMES])


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def smooth_points(name, case, rng, n):
    """Rows that stay clear of the kinks of a loss."""
    y = case.targets(rng, n)
    raw = rng.normal(size=n)
    margin = np.abs(raw - y) if name != "hinge" else np.abs(1 - (2 * y - 1) * raw)
    if name == "huber":
        margin = np.minimum(margin, np.abs(margin - 0.8))
    if name in KINKED | {"expectile", "huber"}:
        y, raw = y[margin > 0.01], raw[margin > 0.01]
    if name == "squared_log":
        inside = (raw > -0.9) & (np.log1p(np.maximum(raw, -0.9)) < np.log1p(y) + 0.99)
        y, raw = y[inside], raw[inside]
    return y, raw


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_the_formula(rng, name):
    case = CASES[name]
    y, raw = smooth_points(name, case, rng, 300)
    grad, hess = statistics(case.loss, y, raw)
    assert grad.dtype == hess.dtype == np.float32
    step = 1e-4
    low, middle, high = (case.value(y, raw + d) for d in (-step, 0, step))
    np.testing.assert_allclose(grad[0], (high - low) / (2 * step), rtol=2e-5, atol=2e-6)
    if name in KINKED | MAJORISED:
        return
    second = case.hessian_factor * (high - 2 * middle + low) / step**2
    np.testing.assert_allclose(hess[0], second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(MAJORISED))
def test_parabolas_lie_above_the_smooth_losses(rng, name):
    case = CASES[name]
    y, raw = np.zeros(400), np.concatenate([3 * rng.normal(size=398), [0.0, 1e-9]])
    grad, hess = (a[0].astype(np.float64) for a in statistics(case.loss, y, raw))
    step = np.linspace(-12, 12, 481)[:, None]
    parabola = case.value(y, raw) + grad * step + hess * step**2 / 2
    assert np.all(parabola >= case.value(y, raw + step) - 1e-4)
    # And touch it on the other side of the target: none lower would do.
    mirror = -2 * raw
    touch = case.value(y, raw) + grad * mirror + hess * mirror**2 / 2
    np.testing.assert_allclose(touch, case.value(y, -raw), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_scales_of_smooth_losses_adapt(rng, weighted):
    y, raw = rng.normal(size=(101, 2)), rng.normal(size=(101, 2))
    weight = rng.random(101) if weighted else None
    for loss, targets in (
        (losses.SmoothAbsoluteError(2), y),
        (losses.SmoothQuantileError([0.2, 0.7]), y[:, :1]),
    ):
        statistics(loss, np.squeeze(targets), raw, weight)
        roots = np.sqrt(np.abs(targets - raw))
        np.testing.assert_allclose(loss.scale, np.average(roots, axis=0, weights=weight) ** 2)


def test_smooth_losses_stop_where_nothing_is_left():
    y = np.array([3.0, -1.0, 2.0])
    for loss in (losses.SmoothAbsoluteError(), losses.SmoothQuantileError(0.3)):
        for weight in (None, np.array([1.0, 2.0, 0.0])):
            raw = y + (0.0 if weight is None else np.array([0.0, 0.0, 5.0]))
            grad, hess = statistics(loss, y, raw, weight)
            np.testing.assert_allclose(grad, 0, atol=1e-30)
            assert np.isfinite(hess).all()


def test_kinked_losses_have_a_hessian_of_one(rng):
    for name in ("absolute", "quantile"):
        case = CASES[name]
        assert case.loss.constant_hessian
        y, raw = smooth_points(name, case, rng, 50)
        grad, hess = statistics(case.loss, y, raw)
        assert (hess == 1).all()
        alone = np.empty_like(grad)
        case.loss.statistics(y, raw[:, None], None, alone, None, 1)
        np.testing.assert_array_equal(alone, grad)
    grad, hess = statistics(losses.HingeLoss(), [1.0, 1.0, 0.0], [0.5, 1.5, -2.0])
    np.testing.assert_array_equal(grad, [[-1, 0, 0]])
    np.testing.assert_allclose(hess, [[1, 1e-16, 1e-16]])


def test_residuals_are_negative_gradients_in_double_precision(rng, case):
    y, raw = case.targets(rng, 500), rng.normal(size=500)
    out = residuals(case.loss, y, raw)
    grad, _ = statistics(case.loss, y, raw)
    np.testing.assert_allclose(out, -grad, rtol=1e-6, atol=1e-7)
    if isinstance(case.loss, losses.Logistic):
        np.testing.assert_allclose(out[0], y - 1 / (1 + np.exp(-raw)), rtol=1e-13, atol=1e-15)
    # Weights are for those who fit the residuals, not for the residuals.
    np.testing.assert_array_equal(residuals(case.loss, y, raw, rng.random(500)), out)


def test_ties_follow_the_dialect():
    y, raw = np.array([1.0, 2.0, 3.0]), np.full(3, 2.0)
    for dialect, middle in (("friedman", -1.0), ("xgboost", 0.0)):
        loss = losses.AbsoluteError(dialect=dialect)
        np.testing.assert_array_equal(statistics(loss, y, raw)[0], [[1, middle, -1]])
    for dialect, middle in (("friedman", -0.25), ("xgboost", 0.75)):
        loss = losses.QuantileError(0.25, dialect)
        np.testing.assert_array_equal(statistics(loss, y, raw)[0], [[0.75, middle, -0.25]])


@pytest.mark.parametrize("n", [1, 7, 4096, 4097, 9000])
def test_weights_multiply_both(rng, case, n):
    y, raw = case.targets(rng, n), rng.normal(size=n)
    weight = rng.integers(0, 5, n) / 4.0
    grad, hess = statistics(case.loss, y, raw)
    for n_threads in (1, 2, 3):
        weighted = statistics(case.loss, y, raw, weight, n_threads)
        np.testing.assert_allclose(weighted[0], grad * weight, rtol=1e-6)
        np.testing.assert_allclose(weighted[1], hess * weight, rtol=1e-6)


def test_first_order_statistics_have_the_weights_for_hessians(rng, case):
    y, raw = case.targets(rng, 5000), rng.normal(size=5000)
    weight = rng.random(5000)
    grad, hess = statistics(case.loss, y, raw)
    plain = statistics(case.loss, y, raw, method="first_order")
    np.testing.assert_allclose(plain[0], grad, rtol=1e-6, atol=1e-7)
    assert (plain[1] == 1).all()
    alone = np.empty_like(grad)
    case.loss.first_order(y, raw[:, None], None, alone, None, 1)
    np.testing.assert_array_equal(alone, plain[0])
    weighted = statistics(case.loss, y, raw, weight, method="first_order")
    np.testing.assert_allclose(weighted[0], grad * weight, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(weighted[1], weight[None], rtol=1e-6)


def test_threads_change_nothing(rng, case):
    n = 20_001
    y, raw, weight = case.targets(rng, n), rng.normal(size=n), rng.random(n)
    one = (*statistics(case.loss, y, raw, weight), residuals(case.loss, y, raw))
    total = case.loss.mean_loss(y, raw[:, None], weight)
    for n_threads in (2, 3):
        other = (
            *statistics(case.loss, y, raw, weight, n_threads),
            residuals(case.loss, y, raw, None, n_threads),
        )
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
        assert case.loss.mean_loss(y, raw[:, None], weight, n_threads) == total


def test_far_out_everything_is_finite(rng, case):
    for y in (0.0, 1.0):
        if y == 0 and not np.isfinite(case.value(0.0, 0.0)):
            continue
        target = np.full(len(EXTREMES), y)
        for weight in (None, np.full(len(EXTREMES), 3.0)):
            grad, hess = statistics(case.loss, target, EXTREMES, weight)
            assert np.isfinite(grad).all()
            assert np.isfinite(hess).all()
            assert (hess > 0).all()
        assert not np.isnan(residuals(case.loss, target, EXTREMES)).any()


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie", "exponential", "logistic"])
def test_values_at_seven_hundred(name):
    case = CASES[name]
    y, raw = np.array([1.0, 1.0]), np.array([700.0, -700.0])
    out = residuals(case.loss, y, raw)[0]
    expected = {
        "poisson": [1 - np.exp(700), 1],
        "gamma": [-1, np.exp(700)],
        "tweedie": [-np.exp(420), np.exp(280)],
        "exponential": [np.exp(-700), np.exp(700)],
        "logistic": [np.exp(-700), 1],
    }[name]
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_mean_loss(rng, case):
    y, raw, weight = case.targets(rng, 9000), rng.normal(size=9000), rng.random(9000)
    values = case.value(y, raw)
    np.testing.assert_allclose(case.loss.mean_loss(y, raw[:, None], None), values.mean())
    np.testing.assert_allclose(
        case.loss.mean_loss(y, raw[:, None], weight), np.average(values, weights=weight)
    )


def test_softmax_residuals_and_loss(rng):
    loss, raw = losses.Softmax(4), 3 * rng.normal(size=(5000, 4))
    y = rng.integers(0, 4, 5000).astype(float)
    proba = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    for n_threads in (1, 2, 3):
        out = residuals(loss, y, raw, None, n_threads)
        np.testing.assert_allclose(out.T, np.eye(4)[y.astype(int)] - proba, rtol=1e-12, atol=1e-14)
    chosen = -np.log(proba[np.arange(5000), y.astype(int)])
    np.testing.assert_allclose(loss.mean_loss(y, raw, None), chosen.mean())
    grad, hess = statistics(loss, y, raw, method="first_order")
    np.testing.assert_allclose(grad, -out, atol=1e-6)
    assert (hess == 1).all()


def test_each_output_has_its_own_target_or_level(rng):
    y, raw = rng.normal(size=(6000, 3)), rng.normal(size=(6000, 3))
    for several, one in (
        (losses.SquaredError(3), losses.SquaredError()),
        (losses.AbsoluteError(3, "xgboost"), losses.AbsoluteError(1, "xgboost")),
        (losses.PseudoHuberError(2.0, 3), losses.PseudoHuberError(2.0)),
    ):
        grad, hess = statistics(several, y, raw)
        for k in range(3):
            alone = statistics(one, y[:, k], raw[:, k])
            np.testing.assert_array_equal(grad[k], alone[0][0])
            np.testing.assert_array_equal(hess[k], alone[1][0])
        np.testing.assert_array_equal(several.init_raw(y, None)[1], one.init_raw(y[:, 1], None)[0])
    several, y = losses.QuantileError([0.1, 0.5, 0.9]), y[:, 0].copy()
    grad, _ = statistics(several, y, raw)
    values = []
    for k, alpha in enumerate((0.1, 0.5, 0.9)):
        one = losses.QuantileError(alpha)
        np.testing.assert_array_equal(grad[k], statistics(one, y, raw[:, k])[0][0])
        values.append(one.mean_loss(y, raw[:, k : k + 1].copy(), None))
    np.testing.assert_allclose(several.mean_loss(y, raw, None), np.mean(values))


def test_hubers_distance_adapts(rng):
    y, raw, weight = rng.normal(size=101), rng.normal(size=101), rng.random(101)
    loss = losses.HuberError(0.7)
    residuals(loss, y, raw)
    assert loss.delta == np.quantile(np.abs(y - raw), 0.7, method="inverted_cdf")
    residuals(loss, y, raw, weight)
    expected = np.quantile(np.abs(y - raw), 0.7, method="inverted_cdf", weights=weight)
    assert loss.delta == expected
    grad, _ = statistics(loss, y, raw, weight)
    np.testing.assert_allclose(
        grad[0], weight * np.clip(raw - y, -loss.delta, loss.delta), rtol=1e-6
    )


def test_kernels_refuse_what_does_not_fit():
    y, raw, grad = np.zeros(4), np.zeros((4, 1)), np.zeros((1, 4), dtype=np.float32)
    shape = np.zeros((1, 2))
    bad = [
        ("poisson", raw, y, None, grad, grad.copy(), 1, None),
        ("poisson", raw, y, None, grad, grad.copy(), 1, np.zeros((2, 2))),
        ("poisson", raw, y, None, grad, grad.copy(), 1, np.zeros((1, 3))),
        ("poisson", raw, np.zeros((4, 3)), None, grad, grad.copy(), 1, shape),
        ("poisson", raw, np.zeros(3), None, grad, grad.copy(), 1, shape),
        ("softmax", raw, np.zeros((4, 2)), None, grad, grad.copy(), 1, shape),
        ("squared", np.zeros((4, 2)), y, None, np.zeros((2, 4), dtype=np.float32), None, 1, None),
    ]
    for arguments in bad:
        with pytest.raises(ValueError):
            _kernels.statistics(*arguments)
    with pytest.raises(ValueError, match="out do not fit"):
        _kernels.residuals("squared", raw, y, np.zeros((1, 3)), 1)
    with pytest.raises(ValueError, match="weight"):
        _kernels.sum_loss("squared", raw, y, np.zeros(3), 1)
