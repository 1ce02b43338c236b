"""Centred moments of leaves against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees.core.grow._leaf_passes import centre_moments


def leaf(rng, n_rows, k, width, lacking):
    """Return columns, weights and the sums that the leaf's moments are made of."""
    z, g, h = rng.normal(size=(n_rows, k)) + 1, rng.normal(size=n_rows), rng.random(n_rows)
    if k > 1:
        z[:, 1] = 0.5  # constant
    by_column = np.zeros((width, 6))
    if lacking and k:
        z[:, 0] -= np.average(z[:, 0], weights=h)
        by_column[0, 5] = 1
    by_column[:k, 0], by_column[:k, 1], by_column[:k, 2] = h.sum(), h @ z, g @ z
    upper = np.triu_indices(k)
    squares = np.zeros(width * (width + 1) // 2)
    squares[: len(upper[0])] = ((z * h[:, None]).T @ z)[upper]
    return z, g, h, by_column, squares


@pytest.mark.parametrize("lacking", [False, True])
def test_moments_are_about_the_means_of_the_leaves(rng, lacking):
    width, counts = 4, [0, 1, 2, 3, 4]
    parts = [leaf(rng, 30, k, width, lacking) for k in counts]
    by_column = np.stack([part[3] for part in parts])
    sums = np.array([[part[1].sum(), part[2].sum()] for part in parts])
    squares = np.stack([part[4] for part in parts])
    n_columns = np.array(counts, dtype=np.int32)
    feature = np.tile(np.arange(width, dtype=np.int32), (len(counts), 1))
    feature[:, 3] = -1  # not used
    shift, scale = rng.normal(size=(len(counts), width)), rng.uniform(0.5, 2, width)
    by_column[:, :, 3:5] = rng.normal(size=(len(counts), width, 2))
    matrix, grad, means, low, high = centre_moments(
        by_column, squares, n_columns, feature, sums, shift, scale, 1e-10
    )
    own = np.where(feature < 0, scale[0], scale)
    center = (means - shift) / own
    np.testing.assert_allclose(low, shift + by_column[:, :, 3] * own)
    np.testing.assert_allclose(high, shift + by_column[:, :, 4] * own)
    for i, (z, g, h, _, _) in enumerate(parts):
        k = counts[i]
        mean = np.average(z, axis=0, weights=h)
        if lacking and k:
            mean[0] = 0.0  # centred before
        away = z - mean
        expected = (away * h[:, None]).T @ away
        slope = g @ away
        if k > 1:
            expected[1], expected[:, 1], slope[1] = 0, 0, 0
        np.testing.assert_allclose(center[i, :k], mean, atol=1e-12)
        np.testing.assert_allclose(matrix[i, :k, :k], expected, atol=1e-10)
        np.testing.assert_allclose(grad[i, :k], slope, atol=1e-10)
        assert not matrix[i, k:].any() and not matrix[i, :, k:].any() and not grad[i, k:].any()
        if k > 1:
            assert not matrix[i, 1].any() and not matrix[i, :, 1].any() and grad[i, 1] == 0


def test_sums_of_other_leaves_are_refused(rng):
    by_column, squares, sums = np.zeros((2, 3, 6)), np.zeros((2, 6)), np.zeros((2, 2))
    count, feature = np.array([3, 3], dtype=np.int32), np.zeros((2, 3), dtype=np.int32)
    more = feature, sums, np.zeros((2, 3)), np.ones(2), 1e-10
    with pytest.raises(ValueError, match="do not fit"):
        centre_moments(by_column, squares[:1], count, *more)
    with pytest.raises(ValueError, match="more columns"):
        centre_moments(by_column, squares, count + 1, *more)
    with pytest.raises(ValueError, match="out of range"):
        centre_moments(by_column, squares, count, feature + 2, *more[1:])
