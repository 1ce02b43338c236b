"""EM of mixtures of experts: against plain NumPy, and the likelihood never falls."""

from __future__ import annotations

import warnings

import mixture_oracle as oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hybridtrees as ht
from hybridtrees.ensembles import mixture_em as em
from hybridtrees.ensembles.members import Rows
from hybridtrees.ensembles.mixture_experts import LinearExperts, LogisticExperts, MemberExperts
from hybridtrees.input._user_tables import open_columns
from hybridtrees.linear.cross_products import standardised


def make_blocks(X, n_threads=1):
    p = X.shape[1]
    return em.Blocks(standardised(X, np.zeros(p), np.ones(p), np.zeros(p)), n_threads)


@pytest.fixture
def problem():
    """Rows of several blocks' worth of shapes, with weights, and responsibilities."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 2))
    shares = rng.dirichlet(np.ones(3), 150).T.copy()
    return make_blocks(X), np.column_stack([X, np.ones(150)]), rng, shares, rng.random(150) + 0.1


def test_one_linear_iteration_equals_the_oracle(problem):
    blocks, Z, rng, shares, weight = problem
    y = rng.standard_normal(150)
    experts = LinearExperts(blocks, y, weight, 3, 2.0, 1e-6)
    experts.update(shares)
    for k in range(3):
        b, variance = oracle.linear_step(Z, y, weight * shares[k], 2.0, 1e-6)
        np.testing.assert_allclose(experts.state.coef[k], b, rtol=1e-10, atol=1e-12)
        assert experts.state.variance[k] == pytest.approx(variance, rel=1e-10)
    gate = rng.standard_normal((3, 3))
    found = np.empty((3, 150))
    value = em.expectation(blocks, gate, experts, weight, found)
    coef, variance = experts.state
    densities = np.stack([oracle.normal(y, Z @ coef[k], variance[k]) for k in range(3)])
    expected, total = oracle.expectation(Z, gate, densities, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert value == pytest.approx(total, rel=1e-12)


def test_the_gate_takes_a_newton_step(problem):
    blocks, Z, rng, shares, weight = problem
    ridge = em.ridge_terms(3, 5.0)
    start = 0.1 * rng.standard_normal((3, 3))
    start -= start.mean(axis=0)
    value, grad, _ = em.softmax_slopes(blocks, start, shares, weight)
    plain = oracle.softmax_objective(Z, start, shares, weight, 0 * ridge)
    assert value == pytest.approx(plain, rel=1e-12)
    for k, j in np.ndindex(3, 3):
        shift = np.zeros((3, 3))
        shift[k, j] = 1e-5
        up, down = (
            oracle.softmax_objective(Z, start + s * shift, shares, weight, 0 * ridge)
            for s in (1, -1)
        )
        assert grad[k, j] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-6)
    new = em.softmax_step(blocks, start, shares, weight, ridge)
    expected = oracle.newton_step(Z, start, shares, weight, ridge)
    np.testing.assert_allclose(new, expected - expected.mean(axis=0), rtol=1e-6, atol=1e-9)


def test_a_newton_step_too_far_is_halved():
    # From this far off, a full Newton step of a logistic regression overshoots.
    X = np.array([[-1.0], [1.0], [2.0]])
    blocks, weight = make_blocks(X), np.ones(3)
    Z = np.column_stack([X, np.ones(3)])
    targets = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    ridge = em.ridge_terms(2, 0.02)
    start = np.array([[-2.0, 0.0], [2.0, 0.0]])
    before = oracle.softmax_objective(Z, start, targets, weight, ridge)
    full = oracle.newton_step(Z, start, targets, weight, ridge)
    assert oracle.softmax_objective(Z, full, targets, weight, ridge) < before
    new = em.softmax_step(blocks, start, targets, weight, ridge)
    assert oracle.softmax_objective(Z, new, targets, weight, ridge) > before


def test_one_logistic_iteration_equals_the_oracle(problem):
    blocks, Z, rng, shares, weight = problem
    codes = rng.integers(0, 3, 150)
    experts = LogisticExperts(blocks, codes, 3, weight, 3, 1.0)
    experts.update(shares)
    truth = (codes == np.arange(3)[:, None]).astype(float)
    ridge = em.ridge_terms(3, 1.0)
    for k in range(3):
        args = Z, np.zeros((3, 3)), truth, weight * shares[k], ridge
        expected = oracle.newton_step(*args)
        np.testing.assert_allclose(
            experts.state[k], expected - expected.mean(axis=0), rtol=1e-6, atol=1e-9
        )
        rows = slice(0, 150)
        found = experts.log_density(rows, Z)[k]
        proba = [oracle.softmax(experts.state[k] @ z) for z in Z]
        each = np.log([p[c] for p, c in zip(proba, codes, strict=True)])
        np.testing.assert_allclose(found, each, rtol=1e-10)


def test_a_worse_member_is_not_taken():
    X = np.arange(40.0)[:, None]
    y = (X[:, 0] - 20) / 12
    rows = Rows(open_columns(X), y, None)
    given = (rows, np.ones(40), 1, 0, 1, y, np.asarray, 1e-6, None)
    experts = MemberExperts(ht.CARTRegressor(max_depth=4), *given)
    shares = np.ones((1, 40))
    experts.update(shares)
    first = experts.state
    experts.estimator = ht.CARTRegressor(max_depth=1)
    experts.update(shares)
    assert experts.state.members[0] is first.members[0]
    assert experts.state.variance == first.variance
    experts.estimator = ht.CARTRegressor(max_depth=5)
    experts.update(shares)
    assert experts.state.members[0] is not first.members[0]


def fit_quietly(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(*args)


@given(
    st.integers(0, 2**31),
    st.integers(1, 4),
    st.sampled_from(["regression", "tree", "binary", "classes", "class tree"]),
)
def test_the_penalised_likelihood_never_falls(seed, n_experts, kind):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 60)), int(rng.integers(1, 4))
    X = rng.integers(-3, 4, (n, p)) * 10.0 ** rng.integers(-3, 4)
    X[rng.random((n, p)) < 0.1] = np.nan
    weight = rng.integers(0, 3, n).astype(float)
    weight[:2] = 1.0
    given = {"n_experts": n_experts, "n_restarts": 2, "random_state": 0, "tol": 0.0}
    given |= {"max_iter": 40, "n_jobs": 1, "alpha": 10.0 ** rng.integers(-9, 1)}
    given |= {"gate_alpha": 10.0 ** rng.integers(-9, 1)}
    if "tree" in kind:
        given |= {"expert": "tree", "max_iter": 10}
    if kind in ("regression", "tree"):
        y = np.where(rng.random(n) < 0.5, np.nan_to_num(X[:, 0]), -1.0) + rng.integers(0, 2, n)
        model = fit_quietly(ht.MixtureOfExpertsRegressor(**given), X, y, weight)
        assert np.isfinite(model.predict(X)).all()
    else:
        y = rng.integers(0, 2 if kind == "binary" else 3, n)
        y[:2] = [0, 1]
        model = fit_quietly(ht.MixtureOfExpertsClassifier(**given), X, y, weight)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    curve = model.log_likelihood_curve_
    assert np.isfinite(curve).all()
    assert (np.diff(curve) >= 0).all()
    assert curve[-1] == model.restart_log_likelihoods_.max()
    assert model.log_likelihood_ >= curve[-1]
    np.testing.assert_allclose(model.responsibilities(X, y).sum(axis=1), 1.0)


def test_the_log_likelihood_is_that_of_the_model():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 2))
    y = np.where(X[:, 0] > 0, 30.0, -10.0) * X[:, 1] + rng.standard_normal(200)
    weight = rng.random(200) * 7
    model = ht.MixtureOfExpertsRegressor(random_state=0).fit(X, y, weight)
    gate, experts = model.responsibilities(X), model.predict_experts(X)
    densities = oracle.normal(y[:, None], experts, model.expert_variances_)
    total = weight @ np.log((gate * densities).sum(axis=1))
    assert model.log_likelihood_ == pytest.approx(total, rel=1e-9)
    labels = y > 0
    model = ht.MixtureOfExpertsClassifier(random_state=0, max_iter=2000).fit(X, labels, weight)
    proba = model.predict_proba(X)[np.arange(200), labels.astype(int)]
    assert model.log_likelihood_ == pytest.approx(weight @ np.log(proba), rel=1e-9)


def test_blocks_cover_all_rows_and_may_be_loaded_anew(monkeypatch):
    X = np.random.default_rng(0).standard_normal((20_000, 7))
    kept = make_blocks(X)
    monkeypatch.setattr(em, "_KEPT_CELLS", 0)
    loaded = make_blocks(X)
    assert loaded._kept is None
    for blocks in (kept, loaded):
        assert len(blocks.slices) > 2
        parts = blocks.run(lambda rows, block: block)
        np.testing.assert_array_equal(np.vstack(parts)[:, :-1], X)
        assert (np.vstack(parts)[:, -1] == 1).all()


def test_sums_do_not_depend_on_threads_but_may_have_few_parts(monkeypatch):
    X = np.random.default_rng(0).standard_normal((30_000, 7))
    function = lambda rows, block: (float(block.sum()), block.T @ block)  # noqa: E731
    with make_blocks(X, 1) as one, make_blocks(X, 3) as three:
        assert one._pool is None and three._pool is not None
        for cells in (1, 64, 1 << 30):
            first, second = one.total(function, cells), three.total(function, cells)
            assert first[0] == second[0]
            np.testing.assert_array_equal(first[1], second[1])
            np.testing.assert_allclose(first[1][:-1, :-1], X.T @ X)
