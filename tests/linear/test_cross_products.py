"""Cross products of tables against NumPy, and what can be done with them without the rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hybridtrees.linear import _passes
from hybridtrees.linear.cross_products import (
    collect_products,
    column_scales,
    merge_products,
    standardised,
)


def oracle(X, Y, weight):
    w = np.ones(len(X)) if weight is None else weight
    mean, y_mean = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    y_scale = np.sqrt(np.average((Y - y_mean) ** 2, axis=0, weights=w))
    Z, V = (X - mean) / scale, (Y - y_mean) / y_scale
    total = w.sum()
    return mean, scale, Z.T @ (w[:, None] * Z) / total, Z.T @ (w[:, None] * V) / total


def assert_moments(m, X, Y, weight, tol=1e-11):
    mean, scale, corr, xy = oracle(X, Y, weight)
    np.testing.assert_allclose(m.mean, mean, rtol=1e-12, atol=1e-12 * np.abs(scale).max())
    np.testing.assert_allclose(m.scale, scale, rtol=tol)
    np.testing.assert_allclose(m.corr, corr, atol=tol)
    np.testing.assert_allclose(m.xy, xy, atol=tol)


@pytest.mark.parametrize("layout", ["C", "F", "strided", "float32", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_any_layout(rng, layout, weighted):
    X = rng.standard_normal((700, 6)) * [1, 10, 0.1, 1, 1, 5] + [0, 5, 0, -3, 1, 0]
    Y = X[:, :2] + rng.standard_normal((700, 2))
    weight = rng.random(700) if weighted else None
    values = X
    if layout == "F":
        values = np.asfortranarray(X)
    elif layout == "strided":
        big = np.zeros((1400, 18))
        big[::2, ::3] = X
        values = big[::2, ::3]
    elif layout == "float32":
        values = X.astype(np.float32)
        X = values.astype(np.float64)
    elif layout == "csr":
        X = np.where(rng.random(X.shape) < 0.5, X, 0.0)
        values = sparse.csr_array(X)
    assert_moments(collect_products(values, Y, weight), X, Y, weight)
    mean, scale, fill = column_scales(values, weight)
    np.testing.assert_allclose(scale, oracle(X, Y, weight)[1], rtol=1e-11)
    np.testing.assert_allclose(mean, fill)


def test_missing_entries_are_the_mean_of_the_others(rng):
    X = rng.standard_normal((300, 4)) + 3
    holes = rng.random(X.shape) < 0.2
    weight = rng.random(300)
    shown = np.where(holes, np.nan, X)
    means = [np.average(X[~holes[:, j], j], weights=weight[~holes[:, j]]) for j in range(4)]
    filled = np.where(holes, means, X)
    Y = X[:, :1]
    m = collect_products(shown, Y, weight)
    np.testing.assert_allclose(m.fill, means, rtol=1e-12)
    assert_moments(m, filled, Y, weight)
    assert_moments(collect_products(sparse.csr_array(shown), Y, weight), filled, Y, weight)
    np.testing.assert_allclose(column_scales(shown, weight)[1], m.scale, rtol=1e-11)


def test_far_from_zero_and_sorted(rng):
    # The rows that the center is guessed from are not like the others.
    X = rng.standard_normal((5000, 2)) + 1e7
    X[:, 1] = 1e5
    X[7, 1] = 1e5 + 3
    m = collect_products(X, X[:, :1])
    np.testing.assert_allclose(m.scale, X.std(axis=0), rtol=1e-7)
    y = np.sort(rng.standard_normal(5000))[:, None]
    assert_moments(collect_products(y, y), y, y, None)


def test_constant_columns_have_no_scale():
    for value in (0.0, 0.1, -1e9, 1e-300, 1e300):
        X = np.column_stack([np.full(999, value), np.arange(999.0)])
        m = collect_products(X, X[:, 1:])
        assert m.scale[0] == 0 and m.scale[1] > 0 and not m.corr[0].any()
        assert list(column_scales(X)[1] > 0) == [False, True]


def test_extreme_magnitudes(rng):
    Z = rng.standard_normal((400, 3))
    for unit in (1e-200, 1e-30, 1e30, 1e200):
        m = collect_products(Z * unit, Z[:, :1])
        np.testing.assert_allclose(m.scale / unit, Z.std(axis=0), rtol=1e-10)
        np.testing.assert_allclose(m.corr, np.corrcoef(Z.T), atol=1e-10)


@pytest.mark.parametrize("kind", ["C", "F", "csr"])
def test_threads_do_not_matter(rng, kind):
    X = rng.standard_normal((30_000, 5)).astype(np.float32)
    values = {"C": X, "F": np.asfortranarray(X), "csr": sparse.csr_array(X)}[kind]
    weight = rng.random(len(X))
    one, two, three = (
        collect_products(values, X[:, :1].astype(float), weight, n_threads=k) for k in (1, 2, 3)
    )
    for other in (two, three):
        assert np.array_equal(one.corr, other.corr) and np.array_equal(one.xy, other.xy)
        assert np.array_equal(one.mean, other.mean) and np.array_equal(one.scale, other.scale)
    scales = [column_scales(values, weight, n_threads=k) for k in (1, 2, 3)]
    assert all(np.array_equal(scales[0], other) for other in scales[1:])


@given(st.integers(2, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_merging_groups_of_rows(n_groups, seed, centred):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3)) * [1, 1e6, 1e-6] + [5, 0, 1]
    Y = rng.standard_normal((60, 2)) + 1
    weight = rng.random(60) + 0.01
    group = rng.integers(0, n_groups, 60)
    group[:n_groups] = np.arange(n_groups)
    whole = collect_products(X, Y, weight, centred=centred)
    parts = [
        collect_products(
            X, Y, weight, centred=centred, rows=np.flatnonzero(group == g), fill=whole.fill
        )
        for g in range(n_groups)
    ]
    merged = merge_products(parts)
    assert merged.n_rows == 60
    for name in ("weight", "mean", "scale", "corr", "xy", "y_mean", "y_scale"):
        np.testing.assert_allclose(
            getattr(merged, name), getattr(whole, name), rtol=1e-8, atol=1e-9, err_msg=name
        )


def test_append(rng):
    X = rng.standard_normal((500, 6)) @ rng.standard_normal((6, 6)) + 2
    Y, weight = X[:, :1] + rng.standard_normal((500, 1)), rng.random(500)
    whole = collect_products(X, Y, weight)
    left, right = np.ascontiguousarray(X[:, :4]), np.ascontiguousarray(X[:, 4:])
    a, b = collect_products(left, Y, weight), collect_products(right, Y, weight)
    tables = [standardised(v, m.mean, m.scale, m.fill) for v, m in ((left, a), (right, b))]
    joined = a.append(b, _passes.cross(*tables, weight, 2) / a.weight)
    for name in ("mean", "scale", "corr", "xy"):
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), atol=1e-12)
    with pytest.raises(ValueError, match="same rows"):
        a.append(collect_products(right, Y, weight * 2), np.zeros((4, 2)))


def test_compiled_tables_check_their_arguments(rng):
    from hybridtrees.linear._passes import Table

    X, zero, one = rng.standard_normal((5, 2)), np.zeros(2), np.ones(2)
    with pytest.raises(TypeError):
        Table(X.astype(np.int64), zero, one, zero)
    with pytest.raises(ValueError):
        Table(X, np.zeros(3), one, zero)
    with pytest.raises(ValueError):
        Table(X, zero, one, zero, np.array([5]))
    table = Table(X, zero, one, zero, np.array([3, 3, 0]))
    np.testing.assert_array_equal(table.load(0, 3), X[[3, 3, 0]])
    with pytest.raises(ValueError):
        table.load(0, 4)
    with pytest.raises(ValueError):
        _passes.project(table, np.ones((3, 1)), np.zeros(1), 1)
    with pytest.raises(ValueError, match="weight"):
        _passes.gram(table, np.zeros((5, 1)), np.ones(4), 1)
    with pytest.raises(ValueError, match="targets"):
        _passes.gram(table, np.zeros((4, 1)), None, 1)
    with pytest.raises(ValueError):
        Table(X, zero, one, zero, np.zeros(0, dtype=np.int64))
    with pytest.raises(ValueError):
        _passes.cross(table, Table(X, zero, one, zero), None, 1)


@pytest.mark.parametrize("n", [40, 9001])
def test_some_rows_bring_their_own_weights(rng, n):
    # Weights belong to the rows of the whole table, not to places among those chosen.
    from hybridtrees.linear._passes import Table

    X, Y, weight = rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), rng.exponential(size=n)
    X[::5, 1], weight[::4] = np.nan, 0.0
    rows = rng.permutation(n)[: n // 2]
    zero, one = np.zeros(3), np.ones(3)
    mean, low, high, n_missing = _passes.column_ranges(
        Table(X, zero, one, np.full(3, np.nan), rows), weight
    )
    for j in range(3):
        used = rows[(weight[rows] > 0) & ~np.isnan(X[rows, j])]
        np.testing.assert_allclose(mean[j], np.average(X[used, j], weights=weight[used]))
        assert (low[j], high[j]) == (X[used, j].min(), X[used, j].max())
        assert n_missing[j] == np.isnan(X[rows, j]).sum()
    left, right = Table(X, zero, one, zero, rows), Table(Y, zero[:2], one[:2], zero[:2], rows)
    filled = np.nan_to_num(X[rows])
    for n_threads in (1, 2):
        found = _passes.cross(left, right, weight, n_threads)
        np.testing.assert_allclose(found, filled.T @ (weight[rows, None] * Y[rows]), atol=1e-9)


@pytest.mark.parametrize("weight", [None, np.arange(1.0, 11.0)])
def test_moments_without_a_target(weight):
    X = np.random.default_rng(0).normal(size=(10, 2))
    found = collect_products(X, np.zeros((10, 0)), weight)
    assert found.xy.shape == (2, 0) and found.y_mean.shape == (0,)
    np.testing.assert_allclose(found.mean, np.average(X, axis=0, weights=weight))
