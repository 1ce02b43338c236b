"""Losses: gradients and hessians against finite differences, links, starts, extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.losses import Logistic, Softmax, SquaredError, _kernels


def statistics(loss, y, raw, weight=None, n_threads=1):
    """(grad, hess), both (n_outputs, n_rows)."""
    raw = np.ascontiguousarray(raw, dtype=np.float64).reshape(len(y), -1)
    grad = np.full((raw.shape[1], len(y)), np.nan, dtype=np.float32)
    hess = np.full_like(grad, np.nan)
    loss.statistics(np.asarray(y, dtype=np.float64), raw, weight, grad, hess, n_threads)
    return grad, hess


def squared_loss(y, raw):
    return (raw[0] - y) ** 2 / 2


def logistic_loss(y, raw):
    # log(1 + exp(-z)) with z positive for the right class.
    return np.logaddexp(0, -raw[0] if y else raw[0])


def softmax_loss(y, raw):
    return np.logaddexp.reduce(raw) - raw[int(y)]


def finite_differences(function, y, raw, k, step=1e-4):
    """First and second derivative along raw score k."""
    ahead, behind = raw.copy(), raw.copy()
    ahead[k] += step
    behind[k] -= step
    values = function(y, behind), function(y, raw), function(y, ahead)
    return (values[2] - values[0]) / (2 * step), (values[0] - 2 * values[1] + values[2]) / step**2


# The hessian of softmax is taken twice, as an upper bound for the whole matrix.
CASES = {
    "squared": (SquaredError(), squared_loss, 1),
    "logistic": (Logistic(), logistic_loss, 1),
    "softmax": (Softmax(4), softmax_loss, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(rng, name):
    loss, function, factor = CASES[name]
    n, k = 60, loss.n_outputs
    raw = 2 * rng.normal(size=(n, k))
    y = rng.normal(size=n) if name == "squared" else rng.integers(0, max(2, k), n).astype(float)
    grad, hess = statistics(loss, y, raw)
    assert grad.dtype == hess.dtype == np.float32
    for i in range(n):
        for j in range(k):
            first, second = finite_differences(function, y[i], raw[i], j)
            np.testing.assert_allclose(grad[j, i], first, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(hess[j, i], factor * second, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 7, 4096, 4097, 9000])
def test_weights_multiply_both(rng, name, n):
    loss, _, _ = CASES[name]
    k = loss.n_outputs
    raw = rng.normal(size=(n, k))
    y = rng.integers(0, max(2, k), n).astype(float)
    weight = rng.integers(0, 5, n) / 4.0
    grad, hess = statistics(loss, y, raw)
    for n_threads in (1, 2, 3):
        weighted = statistics(loss, y, raw, weight, n_threads)
        # Multiples of 1/4 leave no rounding but that of the product.
        np.testing.assert_allclose(weighted[0], grad * weight, rtol=1e-7)
        np.testing.assert_allclose(weighted[1], hess * weight, rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_threads_change_nothing(rng, name):
    loss, _, _ = CASES[name]
    n, k = 20_000, loss.n_outputs
    raw = rng.normal(size=(n, k))
    y = rng.integers(0, max(2, k), n).astype(float)
    one = statistics(loss, y, raw)
    for n_threads in (2, 3):
        other = statistics(loss, y, raw, None, n_threads)
        np.testing.assert_array_equal(other[0], one[0])
        np.testing.assert_array_equal(other[1], one[1])


def test_squared_error_needs_no_hessian(rng):
    y, raw = rng.normal(size=30), rng.normal(size=(30, 1))
    grad = np.empty((1, 30), dtype=np.float32)
    SquaredError().statistics(y, raw, None, grad, None, 1)
    np.testing.assert_array_equal(grad[0], (raw[:, 0] - y).astype(np.float32))
    with pytest.raises(ValueError, match="needs an array"):
        SquaredError().statistics(y, raw, np.ones(30), grad, None, 1)
    with pytest.raises(ValueError, match="needs an array"):
        Logistic().statistics(y, raw, None, grad, None, 1)


# ---- extremes -----------------------------------------------------------------------------------

EXTREMES = np.array([0, 1e-300, 1, 30, 37, 40, 100, 700, 708, 709, 745, 1e4, 1e300])
EXTREMES = np.concatenate([EXTREMES, -EXTREMES])


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_logistic_far_out(y):
    grad, hess = statistics(Logistic(), np.full(len(EXTREMES), y), EXTREMES)
    p = np.array([math.exp(min(r, 0)) / (1 + math.exp(-abs(r))) for r in EXTREMES])
    np.testing.assert_allclose(grad[0], p - y, rtol=1e-6, atol=1e-38)
    expected = np.array([math.exp(-abs(r)) / (1 + math.exp(-abs(r))) ** 2 for r in EXTREMES])
    # Never nought, so that a leaf of confident rows has a weight.
    np.testing.assert_allclose(hess[0], np.maximum(expected, 1e-16), rtol=1e-4, atol=1e-16)
    assert (hess > 0).all()


def test_softmax_far_out():
    raw = np.array(
        [
            [0, 0, 0],
            [700, -700, 0],
            [-700, -700, -700],
            [1e4, 1e4, 0],
            [-1e300, 0, 1e300],
            # Beyond the reach of exp, but close to each other.
            [1000, 999, 0],
            [-1000, -1002, -1001],
        ]
    )
    y = np.array([0.0, 1, 2, 0, 1, 1, 2])
    grad, hess = statistics(Softmax(3), y, raw)
    shifted = np.exp(raw - raw.max(axis=1, keepdims=True))
    p = shifted / shifted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(grad.T, p - np.eye(3)[y.astype(int)], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(hess.T, np.maximum(2 * p * (1 - p), 1e-16), rtol=1e-6, atol=1e-15)
    assert (hess > 0).all()
    np.testing.assert_allclose(grad.sum(axis=0), 0, atol=1e-6)


@given(st.lists(st.floats(-745, 745), min_size=1, max_size=20))
def test_sigmoid_is_exact_to_a_few_units(raw):
    raw = np.array(raw)
    out = np.empty_like(raw)
    _kernels.sigmoid(raw, out)
    expected = [math.exp(min(r, 0)) / (1 + math.exp(-abs(r))) for r in raw]
    # exp is cut off at +-708, where probabilities are below 1e-307.
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-307)


def test_missing_raw_scores_stay_missing():
    out = np.empty(1)
    _kernels.sigmoid(np.array([np.nan]), out)
    assert np.isnan(out[0])


# ---- links and starts ---------------------------------------------------------------------------


def test_starts_minimise_the_loss(rng):
    n = 400
    weight = rng.random(n)
    for name, (loss, function, _) in CASES.items():
        k = loss.n_outputs
        y = (
            rng.normal(size=n)
            if name == "squared"
            else (rng.random(n) ** 2 * max(2, k)).astype(int)
        )
        y = y.astype(float)
        for w in (None, weight):
            start = loss.init_raw(y, w)
            assert start.shape == (k,)

            def total(raw, function=function, y=y, w=w):
                losses = [function(value, raw) for value in y]
                return np.average(losses, weights=w)

            best = total(start)
            for j in range(k):
                for step in (-0.05, 0.05):
                    moved = start.copy()
                    moved[j] += step
                    assert total(moved) > best


def test_start_of_one_class_is_finite():
    for y in (np.zeros(5), np.ones(5)):
        assert np.isfinite(Logistic().init_raw(y, None)).all()
        assert np.isfinite(Softmax(3).init_raw(y, None)).all()


def test_links():
    assert SquaredError().link(3.5) == 3.5
    np.testing.assert_allclose(Logistic().link(0.25), math.log(1 / 3))
    for bad in (0, 1, -0.5, 2, float("nan")):
        with pytest.raises(ValueError, match="base_score"):
            Logistic().link(bad)


def test_predictions(rng):
    raw = rng.normal(size=(9, 1))
    np.testing.assert_array_equal(SquaredError().predict(raw), raw[:, 0])
    # Also for a column of a larger array.
    proba = Logistic().predict(np.hstack([raw, raw])[:, :1])
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-raw[:, 0])))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-15)
    raw = 300 * rng.normal(size=(9, 4))
    proba = Softmax(4).predict(raw)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba.argmax(axis=1), raw.argmax(axis=1))


# ---- refusals -----------------------------------------------------------------------------------


def test_shapes_that_do_not_fit_are_refused():
    y, raw = np.zeros(4), np.zeros((4, 1))
    grad, hess = np.zeros((1, 4), dtype=np.float32), np.zeros((1, 4), dtype=np.float32)
    bad = [
        ("squared", raw[:3], y, None, grad, hess),
        ("squared", raw, y, None, grad[:, :3].copy(), hess),
        ("squared", raw, y, None, grad, hess[:, :3].copy()),
        ("squared", raw, y, np.ones(3), grad, hess),
        ("squared", raw[:0], y[:0], None, grad[:, :0], hess[:, :0]),
        ("logistic", np.zeros((4, 2)), y, None, np.zeros((2, 4), dtype=np.float32), hess),
        ("softmax", np.zeros((4, 2)), y, None, grad, hess),
    ]
    for arguments in bad:
        with pytest.raises(ValueError):
            _kernels.statistics(*arguments, 1)
    with pytest.raises(KeyError):
        _kernels.statistics("hinge", raw, y, None, grad, hess, 1)
    with pytest.raises(ValueError, match="do not fit"):
        _kernels.sigmoid(np.zeros(3), np.zeros(2))


def test_any_label_is_harmless():
    # The kernel is told class numbers; others match no class and read nothing out of range.
    raw = np.zeros((4, 3))
    grad, _ = statistics(Softmax(3), np.array([-1.0, 3.0, 1e9, 2.0]), raw)
    np.testing.assert_allclose(grad[:, :3], 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(grad[:, 3], [1 / 3, 1 / 3, -2 / 3], rtol=1e-6)
