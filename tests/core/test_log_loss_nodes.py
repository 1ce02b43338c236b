"""Logistic regressions of small nodes against a slow minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from hybridtrees.core.search.lines._linear_tree_fit import LogLossNodes
from hybridtrees.models.linear_tree.node_fitters import criterion_loss

JITTER = 1e-8


def make(seed, n=80, p=3, n_classes=2):
    """Regressors, class numbers that depend on them, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * [1.0, 0.2, 5.0, 1.0][:p] + 0.3
    scores = X @ rng.standard_normal((p, n_classes)) + rng.gumbel(size=(n, n_classes))
    codes = scores.argmax(axis=1).astype(np.int32)
    codes[:n_classes] = np.arange(n_classes)
    return X, codes, rng.random(n) + 0.1


def nodes(X, codes, weight, n_classes, *, l2=0.01, units=None, by_sum=False, criterion="log_loss"):
    return LogLossNodes(X, codes, weight, n_classes, criterion, l2, units, by_sum, JITTER, 10**-6.5)


def scores_of(theta, X):
    return X @ theta[:, 1:].T + theta[:, 0]


def objective(theta, X, codes, weight, penalty, n_outputs):
    """The mean log-loss plus the penalty, with NumPy."""
    theta = theta.reshape(n_outputs, -1)
    loss = criterion_loss("log_loss", scores_of(theta, X), codes, weight) / weight.sum()
    return loss + 0.5 * (penalty * theta[:, 1:] ** 2).sum()


@pytest.mark.parametrize("by_sum", [False, True])
@pytest.mark.parametrize("units", [None, np.array([2.0, 0.5, 1.0])])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_it_is_the_minimum(n_classes, weighted, units, by_sum):
    X, codes, weight = make(n_classes, n_classes=n_classes)
    rows = np.flatnonzero(np.arange(len(X)) % 5 != 4).astype(np.uint32)
    given = weight if weighted else None
    w = weight[rows] if weighted else np.ones(len(rows))
    theta, loss = nodes(X, codes, given, n_classes, units=units, by_sum=by_sum).fit(
        rows, None, 1e-12, 60
    )
    part = X[rows]
    mean = w @ part / w.sum()
    unit = np.sqrt(w @ (part - mean) ** 2 / w.sum()) if units is None else 1.0 / units
    penalty = 0.01 * unit**2 / (w.sum() if by_sum else 1.0) + JITTER
    args = (part, codes[rows], w, penalty, len(theta))
    slow = minimize(objective, np.zeros(theta.size), args, tol=1e-13, options={"maxiter": 5000})
    assert objective(theta, *args) <= slow.fun + 1e-12
    shifted = slow.x.reshape(theta.shape)
    if n_classes > 2:
        shifted = shifted - np.append(shifted[:, 0].mean(), np.zeros(3))
        np.testing.assert_allclose(theta[:, 0].sum(), 0.0, atol=1e-12)
    np.testing.assert_allclose(theta, shifted, atol=2e-4)
    expected = criterion_loss("log_loss", scores_of(theta, part), codes[rows], w)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)


@pytest.mark.parametrize("criterion", ["gini", "hamming"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_criteria(n_classes, criterion):
    X, codes, weight = make(1, n_classes=n_classes)
    rows = np.arange(60, dtype=np.uint32)
    theta, loss = nodes(X, codes, weight, n_classes, criterion=criterion).fit(rows, None, 1e-6, 60)
    expected = criterion_loss(criterion, scores_of(theta, X[:60]), codes[:60], weight[:60])
    np.testing.assert_allclose(loss, expected, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_start_leads_to_the_same_model(n_classes):
    X, codes, weight = make(5, n_classes=n_classes)
    rows = np.arange(len(X), dtype=np.uint32)
    fitter = nodes(X, codes, weight, n_classes)
    theta, _ = fitter.fit(rows, None, 1e-14, 60)
    for start in (theta, 100.0 * theta, -50.0 * np.ones_like(theta)):
        np.testing.assert_allclose(fitter.fit(rows, start, 1e-14, 60)[0], theta, atol=1e-6)


def test_separable_classes_have_a_finite_model():
    X = np.linspace(-1, 1, 40)[:, None]
    codes = (X[:, 0] > 0).astype(np.int32)
    theta, loss = nodes(X, codes, None, 2, l2=0.0).fit(
        np.arange(40, dtype=np.uint32), None, 1e-8, 60
    )
    assert np.isfinite(theta).all() and 0 <= loss < 0.1


def test_constant_regressors_have_no_coefficient():
    X, codes, _ = make(2)
    X[:, 1] = 3.0
    rows = np.arange(len(X), dtype=np.uint32)
    theta, _ = nodes(X, codes, None, 2).fit(rows, None, 1e-10, 60)
    assert theta[0, 2] == 0.0
    bare, _ = nodes(np.ascontiguousarray(X[:, [0, 2]]), codes, None, 2).fit(rows, None, 1e-10, 60)
    np.testing.assert_allclose(theta[0, [0, 1, 3]], bare[0], atol=1e-6)


def test_what_needs_more_care_is_left_alone():
    X, codes, _ = make(3)
    fitter = nodes(X, codes, None, 2)
    assert fitter.fit(np.flatnonzero(codes == 1).astype(np.uint32), None, 1e-4, 60) is None
    assert fitter.fit(np.zeros(0, dtype=np.uint32), None, 1e-4, 60) is None
    many = np.zeros((1 << 22) // 16 + 1, dtype=np.uint32)
    assert fitter.fit(many, None, 1e-4, 60) is None
    copies = np.ascontiguousarray(np.column_stack([X, X[:, 0]]))
    careful = LogLossNodes(copies, codes, None, 2, "log_loss", 0.0, None, False, 0.0, 1e-7)
    assert careful.fit(np.arange(len(X), dtype=np.uint32), None, 1e-4, 60) is None


def test_bad_input():
    X, codes, weight = make(4)
    with pytest.raises(ValueError, match="class numbers"):
        nodes(X, codes + 1, None, 2)
    with pytest.raises(ValueError, match="same rows"):
        nodes(X, codes[1:], None, 2)
    with pytest.raises(ValueError, match="same rows"):
        nodes(X, codes, weight[1:], 2)
    with pytest.raises(ValueError, match="needs a unit"):
        nodes(X, codes, None, 2, units=np.ones(2))
    with pytest.raises(ValueError, match="out of range"):
        nodes(X, codes, None, 2).fit(np.array([80], dtype=np.uint32), None, 1e-4, 60)
    with pytest.raises(ValueError, match="another shape"):
        nodes(X, codes, None, 2).fit(np.array([0], dtype=np.uint32), np.zeros((2, 4)), 1e-4, 60)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rough_fits_end_near_the_minimum(n_classes):
    X, codes, weight = make(7, n=300, n_classes=n_classes)
    fitter, rows = nodes(X, codes, weight, n_classes), np.arange(300, dtype=np.uint32)
    near = fitter.fit(rows, None, 1e-12, 60)[0]
    part = rows[X[:, 0] > 0]
    best = fitter.fit(part, near, 1e-12, 60)[1]
    theta, loss = fitter.fit(part, near, 1e-4, 60, 0.01)
    expected = criterion_loss("log_loss", scores_of(theta, X[part]), codes[part], weight[part])
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    assert best <= loss + 1e-9
    assert loss - best < 2e-3 * weight[part].sum()
    assert loss > best + 1e-12  # it did stop early
