"""Solvers from moments: optimality, minimum norm, warm starts, accuracy under collinearity."""

from __future__ import annotations

import linear_oracle as slow
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.linear import _descent, _passes
from hybridtrees.linear._passes import Table
from hybridtrees.linear.cross_products import collect_products, standardised
from hybridtrees.linear.solvers import (
    original_scale,
    ridge_path,
    solve_elastic_net,
    solve_least_squares,
    solve_products,
    solve_ridge,
)


def random_problem(seed, n=40, p=6, dependent=False):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, p))
    if dependent:
        Z[:, -1] = Z[:, 0]
        Z[:, -2] = Z[:, 1] + Z[:, 2]
    y = Z @ rng.standard_normal(p) + rng.standard_normal(n)
    return Z.T @ Z / n, (Z.T @ y / n), float(y @ y / n), rng


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 0.01, 1.0]))
def test_elastic_net_meets_its_optimality_conditions(seed, dependent, l2):
    gram, q, yy, rng = random_problem(seed, dependent=dependent)
    l1 = float(10 ** rng.uniform(-3, 0)) * np.abs(q).max()
    penalties = np.full((len(q), 1), l1), np.full((len(q), 1), l2)
    start = rng.standard_normal((len(q), 1))
    for begin in (None, start):
        s = solve_elastic_net(
            gram, q[:, None], *penalties, yy=np.array([yy]), start=begin, tol=1e-13
        )
        b = s.beta[:, 0]
        assert s.converged
        assert slow.subgradient_violation(gram @ b - q + l2 * b, b, l1) < 1e-5


def test_gap_bounds_the_distance_to_the_optimum():
    gram, q, yy, _ = random_problem(3)
    l1, l2 = np.full(6, 0.1), np.full(6, 0.05)

    def value(b):
        return yy / 2 + b @ gram @ b / 2 - q @ b + l1 @ np.abs(b) + l2 @ b**2 / 2

    best = solve_elastic_net(gram, q[:, None], l1[:, None], l2[:, None], tol=1e-14).beta[:, 0]
    for b in (np.zeros(6), best + 0.01, best * 0.9):
        gap = _descent.gap_of(b, q - gram @ b, q, l1, l2, yy) * yy
        assert gap >= value(b) - value(best) - 1e-12
    assert _descent.gap_of(best, q - gram @ best, q, l1, l2, yy) < 1e-10


def test_unpenalised_coordinates_among_penalised_ones():
    gram, q, _, _ = random_problem(5)
    l1 = np.array([0.0, 0.2, 0.2, 0.0, 0.2, 0.2])
    b = solve_elastic_net(gram, q[:, None], l1[:, None], np.zeros((6, 1)), tol=1e-12).beta[:, 0]
    grad = gram @ b - q
    assert np.abs(grad[[0, 3]]).max() < 1e-10 and slow.subgradient_violation(grad, b, l1) < 1e-10


def test_a_warm_start_at_the_solution_is_done_at_once():
    gram, q, yy, _ = random_problem(11, n=200, p=30)
    shape = (30, 1)
    arguments = (gram, q[:, None], np.full(shape, 0.05), np.zeros(shape))
    cold = solve_elastic_net(*arguments, yy=np.array([yy]))
    warm = solve_elastic_net(*arguments, yy=np.array([yy]), start=cold.beta)
    assert warm.n_iter == 1 and np.allclose(warm.beta, cold.beta)


def test_descent_checks_its_arguments():
    ok = np.eye(2), np.ones(2), np.ones(2), np.ones(2), 1.0, np.zeros(2), 1e-8, 10
    with pytest.raises(ValueError):
        _descent.descend_gram(*ok[:5], np.zeros(3), *ok[6:])
    z = _descent.Columns(np.asfortranarray(np.ones((3, 2))))
    with pytest.raises(ValueError):
        z.gradient(np.ones(2))
    with pytest.raises(ValueError):
        z.times(np.ones(3))
    arrays = np.ones(3), np.ones(3), np.ones(2), np.ones(2), np.zeros(2), np.zeros(0)
    with pytest.raises(ValueError, match="working"):
        _descent.descend_columns(z, *arrays, np.array([2]), 1e-8, 5)


@given(st.integers(0, 2**32 - 1))
def test_residual_form_equals_covariance_form(seed):
    rng = np.random.default_rng(seed)
    Z = np.asfortranarray(rng.standard_normal((25, 8)))
    y, v = rng.standard_normal(25), rng.random(25)
    l1, l2 = np.full(8, 0.3), np.full(8, 0.1)
    gram, q = Z.T @ (v[:, None] * Z), Z.T @ (v * y)
    expected = np.zeros(8)
    _descent.descend_gram(gram, q, l1, l2, -1.0, expected, 1e-13, 10_000)
    b, u = np.zeros(8), v * y
    _descent.descend_columns(
        _descent.Columns(Z), v, u, l1, l2, b, np.zeros(0), np.arange(8), 1e-12, 10_000
    )
    np.testing.assert_allclose(b, expected, atol=1e-8)
    np.testing.assert_allclose(u, v * (y - Z @ b), atol=1e-10)


def test_ridge_and_its_path():
    gram, q, _, _ = random_problem(2)
    betas = ridge_path(gram, q[:, None], np.array([1.0, 0.1]))
    for l2, beta in zip((1.0, 0.1), betas, strict=True):
        expected = np.linalg.solve(gram + l2 * np.eye(6), q)
        np.testing.assert_allclose(beta[:, 0], expected, rtol=1e-10)
        np.testing.assert_allclose(solve_ridge(gram, q[:, None], l2).beta[:, 0], expected)


def test_dependent_columns_get_the_minimum_norm():
    gram, q, _, _ = random_problem(4, dependent=True)
    s = solve_ridge(gram, q[:, None], want_inverse=True)
    assert s.rank == 4 and s.spectral
    np.testing.assert_allclose(s.beta[:, 0], np.linalg.pinv(gram, rcond=1e-10) @ q, atol=1e-9)
    np.testing.assert_allclose(s.inverse, np.linalg.pinv(gram, rcond=1e-10), atol=1e-8)
    assert list(s.estimable) == [False, False, False, True, False, False]


@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_by_blocks_of_rows(rng, weighted):
    X = rng.standard_normal((5000, 4))
    near = X[:, 0] + 1e-7 * rng.standard_normal(5000)  # products cannot tell these apart
    X = np.column_stack([X, near])
    y = X @ [1.0, 2, 3, 4, 5] + rng.standard_normal(5000)
    w = rng.random(5000) if weighted else None
    m = collect_products(X, y[:, None], w)
    table = standardised(X, m.mean, m.scale, m.fill)
    s = solve_least_squares(table, ((y - m.y_mean) / m.y_scale)[:, None], w)
    Z = (X - m.mean) / m.scale
    root = np.ones(5000) if w is None else np.sqrt(w)
    expected = np.linalg.lstsq(Z * root[:, None], (y - m.y_mean) * root)[0] / m.y_scale
    assert s.rank == 5
    # Eight of sixteen digits are lost to the condition of the table, by the best method too.
    np.testing.assert_allclose(s.beta[:, 0], expected, rtol=1e-5)
    rows = np.arange(0, 5000, 3)
    part = standardised(X, m.mean, m.scale, m.fill, rows)
    s = solve_least_squares(part, y[rows, None], None if w is None else w[rows])
    expected = np.linalg.lstsq((Z * root[:, None])[rows], (y * root)[rows])[0]
    np.testing.assert_allclose(s.beta[:, 0], expected, rtol=1e-5)


def test_refit_after_new_columns_from_moments_alone(rng):
    X, y = rng.standard_normal((300, 5)), rng.standard_normal((300, 1))
    m = collect_products(X, y)
    first = solve_products(collect_products(X[:, :3], y), l1=0.02)
    start = np.vstack([first.beta, np.zeros((2, 1))])
    warm, cold = solve_products(m, l1=0.02, start=start), solve_products(m, l1=0.02)
    np.testing.assert_allclose(warm.beta, cold.beta, atol=1e-8)
    coef, intercept = original_scale(solve_products(m).beta, m)
    design = np.column_stack([np.ones(300), X])
    np.testing.assert_allclose(np.vstack([intercept, coef]), np.linalg.lstsq(design, y)[0])


@pytest.mark.parametrize(("n_outputs", "p"), [(1, 3), (3, 3), (1, 70), (3, 30)])
def test_log_loss_and_its_derivatives(rng, n_outputs, p):
    X, w = rng.standard_normal((120, p)), rng.random(120)
    codes = rng.integers(0, max(2, n_outputs), 120).astype(np.int32)
    theta = rng.standard_normal((p + 1, n_outputs)) / np.sqrt(p)
    table = Table(X, np.zeros(p), np.ones(p), np.zeros(p))

    def loss(flat):
        coef = flat.reshape(n_outputs, p + 1)
        return float(w @ slow.log_losses(X @ coef[:, :p].T + coef[:, p], codes))

    value, grad, hess = _passes.log_loss_pass(table, codes, w, theta, 2, 1)
    flat, step = theta.T.ravel().copy(), 1e-5
    assert value == pytest.approx(loss(flat), rel=1e-12)
    axes = np.eye(len(flat)) * step
    numeric = [(loss(flat + e) - loss(flat - e)) / (2 * step) for e in axes]
    np.testing.assert_allclose(grad, numeric, atol=1e-6)

    def gradient(at):
        coef = np.ascontiguousarray(at.reshape(n_outputs, p + 1).T)
        return _passes.log_loss_pass(table, codes, w, coef, 1, 1)[1]

    numeric = [(gradient(flat + e) - gradient(flat - e)) / (2 * step) for e in axes]
    np.testing.assert_allclose(hess, numeric, atol=1e-6)
    np.testing.assert_array_equal(hess, hess.T)
    assert _passes.log_loss_pass(table, codes, w, theta, 0, 1)[1:] == (None, None)
    with pytest.raises(ValueError):
        _passes.log_loss_pass(table, codes + 5, w, theta, 0, 1)


def test_log_loss_far_out(rng):
    table = Table(np.array([[1e4], [-1e4], [1e4]]), np.zeros(1), np.ones(1), np.zeros(1))
    codes = np.array([1, 0, 0], dtype=np.int32)
    value, grad, hess = _passes.log_loss_pass(table, codes, None, np.array([[1.0], [0.0]]), 2, 1)
    assert value == pytest.approx(1e4) and np.isfinite(hess).all()
    np.testing.assert_allclose(grad, [1e4, 1.0])
