"""Products of wide sparse tables, and equations that grow by a column at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hybridtrees.linear import _passes
from hybridtrees.linear.cross_products import collect_products
from hybridtrees.linear.solvers import BorderedRidge, solve_ridge
from hybridtrees.linear.sparse_products import is_mostly_zero, sparse_gram


def wide_table(rng, n=1500, p=300):
    """Mostly zero, with a full column far from zero, an empty one and a missing entry."""
    X = np.where(rng.random((n, p)) < 0.02, rng.normal(size=(n, p)) + 2, 0.0)
    X[:, 3] = rng.normal(size=n) + 1e4
    X[:, 5] = 0.0
    X[7, 9] = np.nan
    return X


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gram_is_that_of_the_dense_rows(rng, weighted, some, dtype):
    X = wide_table(rng).astype(dtype)
    n, p = X.shape
    table = sparse.csr_array(X)
    assert is_mostly_zero(table) and not is_mostly_zero(X)
    center, inverse, fill = 0.1 * rng.random(p), rng.random(p) + 0.5, rng.random(p)
    center[3] = 1e4
    targets = rng.normal(size=(n, 2))
    weight = rng.random(n) if weighted else None
    rows = np.sort(rng.choice(n, 900, replace=False)) if some else None
    found = sparse_gram(table, (center, inverse, fill), targets, weight, rows)
    known = _passes.Table(X, center, inverse, fill, rows)
    expected = _passes.gram(known, targets, weight, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_a_sparse_table_are_those_of_the_dense_one(rng, weighted):
    X = wide_table(rng)
    y = rng.normal(size=(len(X), 1)) + 50
    weight = rng.random(len(X)) if weighted else None
    found = collect_products(sparse.csr_array(X), y, weight)
    expected = collect_products(X, y, weight)
    for name in ("mean", "scale", "corr", "xy", "fill", "y_mean", "y_scale"):
        own, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(own, other, rtol=1e-11, atol=1e-11, err_msg=name)


def correlated(rng, n, p):
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    X /= np.sqrt((X**2).mean(axis=0))
    return X.T @ X / n, X.T @ rng.normal(size=(n, 2)) / n


def test_appended_columns_extend_the_factor(rng):
    corr, xy = correlated(rng, 400, 30)
    l2 = rng.random(30)
    solver = BorderedRidge()
    for p in (20, 21, 21, 25, 30):
        found = solver.solve(corr[:p, :p], xy[:p], l2[:p])
        expected = solve_ridge(corr[:p, :p], xy[:p], l2[:p])
        np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-10, atol=1e-12)
        assert found.rank == p and not found.spectral
    known = solver._factor
    solver.solve(corr, xy, l2)
    np.testing.assert_array_equal(solver._factor, known)


def test_dependent_columns_get_the_solution_of_minimum_norm(rng):
    corr, xy = correlated(rng, 400, 8)
    twice = np.concatenate([np.arange(8), [2]])
    corr, xy = corr[np.ix_(twice, twice)], xy[twice]
    solver = BorderedRidge()
    solver.solve(corr[:8, :8], xy[:8], np.zeros(8))
    found = solver.solve(corr, xy, np.zeros(9))
    assert found.spectral and found.rank == 8
    np.testing.assert_allclose(found.beta[2], found.beta[8], atol=1e-8)
    np.testing.assert_array_equal(found.beta, solve_ridge(corr, xy, np.zeros(9)).beta)


def test_eblr_of_many_categories_predicts_as_with_dense_columns(rng, monkeypatch):
    from hybridtrees import EBLRRegressor
    from hybridtrees.linear import cross_products
    from hybridtrees.models.eblr import lines

    codes = rng.integers(0, 300, 2000)
    X = np.column_stack([codes, rng.normal(size=(2000, 3))]).astype(float)
    y = rng.normal(size=300)[codes] + np.where(X[:, 1] > 0, X[:, 2], 0) + rng.normal(size=2000)
    model = EBLRRegressor(n_rules=4, categorical_features=[0], n_jobs=1)
    found = model.fit(X, y).predict(X)
    monkeypatch.setattr(cross_products, "is_mostly_zero", lambda values: False)
    monkeypatch.setattr(lines, "_MANY_COLUMNS", 10**9)
    np.testing.assert_allclose(found, model.fit(X, y).predict(X), rtol=1e-8, atol=1e-8)
