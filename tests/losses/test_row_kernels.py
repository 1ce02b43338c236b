"""The loops over blocks of rows against NumPy, at sizes around those of the blocks."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees.losses import _kernels

SIZES = (1, 7, 63, 64, 65, 129, 4095, 4097)


@pytest.mark.parametrize("n_classes", [2, 3, 7, 300])
@pytest.mark.parametrize("n", SIZES)
def test_softmax_statistics(n, n_classes):
    if n * n_classes > 100_000:
        n = 200
    rng = np.random.default_rng(n)
    raw = 5 * rng.normal(size=(n, n_classes))
    raw[0] += 700
    y = rng.integers(0, n_classes, n).astype(np.float64)
    weight = rng.uniform(0.5, 2.0, n)
    share = np.exp(raw - raw.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    expected = share.T - (y == np.arange(n_classes)[:, None])
    second = np.maximum(2 * share * (1 - share), 1e-16).T
    grad, hess = (np.full((n_classes, n), np.nan, dtype=np.float32) for _ in range(2))
    _kernels.statistics("softmax", raw, y, None, grad, hess, 1)
    np.testing.assert_allclose(grad, expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(hess, second, rtol=1e-6)
    for n_threads in (2, 3):
        again = [np.empty_like(grad), np.empty_like(hess)]
        _kernels.statistics("softmax", raw, y, None, *again, n_threads)
        np.testing.assert_array_equal(again[0], grad)
        np.testing.assert_array_equal(again[1], hess)
    _kernels.statistics("softmax", raw, y, weight, grad, hess, 2)
    np.testing.assert_allclose(grad, expected * weight, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(hess, second * weight, rtol=1e-6)
    # Without weights and second derivatives there is nothing to write but gradients.
    alone = np.empty_like(grad)
    _kernels.statistics("softmax", raw, y, None, alone, None, 1, None, False)
    np.testing.assert_allclose(alone, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 30.0, 600.0])
@pytest.mark.parametrize("n", SIZES)
def test_sum_of_logistic_losses(n, scale):
    rng = np.random.default_rng(n)
    raw = scale * rng.normal(size=(n, 1))
    y = rng.integers(0, 2, n).astype(np.float64)
    r = raw[:, 0]
    expected = np.sum(np.logaddexp(0.0, np.where(y == 1, -r, r)))
    for n_threads in (1, 2):
        total = _kernels.sum_loss("logistic", raw, y, None, n_threads).value
        assert total == pytest.approx(expected, rel=1e-14)
