"""Regressions that get one more column at a time, against fits to the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hybridtrees.linear.cross_products import collect_products
from hybridtrees.linear.path import Penalty
from hybridtrees.linear.regression import Options
from hybridtrees.models.eblr.factor import RowFactor
from hybridtrees.models.eblr.lines import GrowingLeastSquares, GrowingLogistic, open_line

PLAIN = Options(Penalty(0.0, 0.0))


def whole_moments(line, y, weight):
    return collect_products(line.table.values, y, weight, centred=line.options.fit_intercept)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_appended_moments_are_those_of_the_whole_table(seed, weighted, centred, missing, thin):
    rng = np.random.default_rng(seed)
    n = 70
    X = rng.standard_normal((n, 3)) * [1.0, 1e3, 1e-3] + [0.0, 5.0, 1.0]
    X *= rng.random((n, 3)) < (0.4 if thin else 1.0)
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    y = rng.standard_normal((n, 1)) + 3
    weight = rng.random(n) * (rng.random(n) < 0.8) if weighted else None
    values = sparse.csr_array(X) if thin else X
    options = Options(Penalty(0.0, 0.0), fit_intercept=centred)
    line = GrowingLeastSquares(values, y[:, 0], weight, options, 3)
    for share in (0.1, 0.5, 0.9):
        line.append((rng.random(n) < share).astype(np.float64))
    found, expected = line._moments, whole_moments(line, y, weight)
    for name in ("mean", "scale", "corr", "xy", "y_mean", "y_scale"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-9, err_msg=name
        )


def test_columns_that_never_vary(rng):
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    line = GrowingLeastSquares(X, y, None, PLAIN, 2)
    line.append(np.ones(40))
    line.append(np.zeros(40))
    coef = line.solve().coef[:, 0]
    np.testing.assert_array_equal(coef[2:], 0.0)
    table = np.column_stack([np.ones(40), X])
    np.testing.assert_allclose(coef[:2], np.linalg.lstsq(table, y, rcond=None)[0][1:])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_factor_grows_to_least_squares_of_minimum_norm(rng, weighted):
    n = 300
    X = rng.standard_normal((n, 4))
    # One column is a sum of others but for a millionth, one is another again.
    X = np.column_stack([X, X[:, 0] + X[:, 1] + 1e-6 * rng.standard_normal(n), 3 * X[:, 2]])
    y = X[:, 0] - X[:, 3] + 0.2 * rng.standard_normal(n)
    weight = rng.uniform(0.5, 2, n) if weighted else None
    line = GrowingLeastSquares(X, y, weight, PLAIN, 3)
    line.solve()
    assert isinstance(line._factor, RowFactor)
    columns = [X[:, 0] > 0.3, (X[:, 1] > 0) & (X[:, 2] < 1)]
    columns.append(columns[0] & ~columns[1])
    for column in columns:
        line.append(column.astype(np.float64))
        fitted = line.solve()
        w = np.ones(n) if weight is None else weight
        Z = line.table.values - np.average(line.table.values, axis=0, weights=w)
        scale = np.sqrt(np.average(Z**2, axis=0, weights=w))
        root = np.sqrt(w)[:, None]
        centred = y - np.average(y, weights=w)
        beta = np.linalg.lstsq(Z / scale * root, centred * root[:, 0], rcond=1e-13)[0]
        # The nearly dependent column takes digits of the coefficients, not of the predictions.
        np.testing.assert_allclose(
            fitted.coef[:, 0] * scale, beta, rtol=1e-4, atol=1e-9 * np.abs(beta).max()
        )
        predicted = fitted.predict(line.table.values)[:, 0]
        np.testing.assert_allclose(
            predicted, Z / scale @ beta + np.average(y, weights=w), atol=1e-9
        )
    assert line.degrees() == np.linalg.matrix_rank(Z / scale)


def test_a_dependent_column_has_no_length_of_its_own(rng):
    half = (np.arange(60) % 2).astype(np.float64)
    X = np.column_stack([half, rng.standard_normal(60)])
    X = np.column_stack([X, X[:, 1] * (1 + 1e-9)])
    line = GrowingLeastSquares(X, rng.standard_normal(60), None, PLAIN, 1)
    line.solve()
    rank = line._factor.rank
    line.append(1.0 - half)
    assert line._factor.rank == rank
    coef = line.solve().coef[:, 0]
    assert coef[3] == pytest.approx(-coef[0])


@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_logistic_starts_do_not_change_the_end(rng, alpha, l1_ratio, n_outputs):
    n = 500
    X = rng.standard_normal((n, 3))
    codes = rng.integers(0, max(2, n_outputs), n).astype(np.int32)
    options = Options(Penalty(alpha, l1_ratio), tol=1e-14, max_iter=200)
    columns = [(X[:, j] > 0.5).astype(np.float64) for j in range(3)] + [
        (X[:, 0] > 0.5).astype(np.float64)
    ]
    warm = GrowingLogistic(X, codes, None, n_outputs, options, 4)
    cold = GrowingLogistic(X, codes, None, n_outputs, options, 4)
    for column in columns:
        warm.append(column)
        cold.append(column)
        line = warm.solve()
    cold._theta = None
    expected = cold.solve()
    values = warm.table.values
    np.testing.assert_allclose(line.predict(values), expected.predict(values), atol=1e-5)
    if not l1_ratio:  # else a column that is there twice may share its coefficient anyhow
        np.testing.assert_allclose(line.coef, expected.coef, atol=1e-5)


def test_wide_tables_are_fitted_anew(rng):
    X = rng.standard_normal((50, 400)) * 3 + 1
    y = X[:, 0] + 0.1 * rng.standard_normal(50)
    options = Options(Penalty(0.1, 1.0))
    line = open_line(X, y, None, 0, options, 1)
    line.append((X[:, 1] > 1).astype(np.float64))
    fitted = line.solve()
    mine = line.to_user(fitted)
    table = np.column_stack([X, X[:, 1] > 1])
    np.testing.assert_allclose(
        mine.predict(table), fitted.predict(line.table.values), rtol=1e-9, atol=1e-9
    )
    # The conditions of optimality: the slope of the loss is alpha where a coefficient is not 0.
    residual = y - mine.predict(table)[:, 0]
    scale = np.append(X.std(axis=0), 1.0)
    slope = (table - table.mean(axis=0)).T @ residual / 50 / scale
    used = mine.coef[:, 0] != 0
    assert used.any() and line.degrees() == used.sum()
    np.testing.assert_allclose(np.abs(slope[used]), 0.1, atol=1e-3)
    assert np.abs(slope).max() < 0.101
