"""Boosted trees along sorted lists: the growers of tree_method "exact" and "approx"."""

from __future__ import annotations

from dataclasses import replace

import exact_oracle as eo
import numpy as np
import oracle
import pytest
import scipy.sparse
from growers import approx_grower, exact_grower, newton_grower, tree_of
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow.params import SUBTREE_ROWS, GrowerParams
from hybridtrees.core.tree.tree import TreeEnsemble

DEEP = GrowerParams(max_depth=0, min_child_weight=0.0, reg_lambda=0.5)


def table(rng, n=200, missing=0.15, dtype=np.float64):
    """Two columns of numbers, one of few values, one of categories."""
    X = np.column_stack(
        [rng.normal(size=n), rng.integers(0, 9, n), rng.integers(0, 12, n), rng.random(n)]
    ).astype(dtype)
    X[rng.random(X.shape) < missing] = np.nan
    return X


KINDS = np.array([0, 0, 1, 0], dtype=bool)


def statistics(rng, n):
    grad = (rng.integers(-32, 33, n) / 8).astype(np.float32)
    return grad, (rng.integers(1, 9, n) / 8).astype(np.float32)


def raw_of(tree, X):
    raw = np.zeros((X.shape[0], 1))
    TreeEnsemble([tree], X.shape[1]).add_raw(X, raw, 1)
    return raw[:, 0]


# ---- exact --------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [True, False], ids=["one hessian", "hessians"])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"reg_alpha": 1.0, "max_delta_step": 0.7},
        {"min_child_weight": 4.0, "min_gain": 1.1, "max_depth": 4},
    ],
    ids=["plain", "penalties", "limits"],
)
def test_exact_trees_are_the_oracles(rng, constant, rules):
    X = table(rng, 90)[:, :3]
    kinds = np.zeros(3, dtype=bool)
    grad, hess = statistics(rng, 90)
    hess = 1.0 if constant else hess
    params = replace(DEEP, **rules)
    with exact_grower(X, kinds, params, 1) as grower:
        tree = tree_of(grower, grad, hess, scale=0.25)
    target = eo.newton_target(grad, np.broadcast_to(hess, 90))
    problem = eo.Problem(X, target, grower.params)
    grown = eo.grow(problem)
    assert eo.check_tree(grown, problem) >= 5
    np.testing.assert_array_equal(tree.nodes, grown.tree.nodes)
    expected = [0.25 * oracle.leaf_value(*sums, params) for sums in grown.tree.values]
    np.testing.assert_allclose(tree.values[:, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampled", [False, True], ids=["all rows", "sample"])
def test_raw_scores_of_training_are_those_of_prediction(rng, dtype, sparse, sampled):
    X = table(rng, dtype=dtype)
    X[:, 1] = np.where(X[:, 1] > 4, X[:, 1], 0)
    values = scipy.sparse.csc_array(X) if sparse else X
    grad, hess = statistics(rng, 200)
    rows = np.flatnonzero(rng.random(200) < 0.5).astype(np.uint32) if sampled else None
    raw = np.zeros((200, 2))
    with exact_grower(values, KINDS, DEEP, 1) as grower:
        for k in range(3):
            raw[:] = 0
            tree = tree_of(grower, np.roll(grad, k), hess, rows=rows, scale=0.5)
            grower.add_to(tree, raw[:, 1])
            np.testing.assert_array_equal(raw[:, 1], raw_of(tree, X))
            assert not raw[:, 0].any()
            assert tree.nodes["n_samples"][0] == (200 if rows is None else len(rows))
    assert tree.n_leaves > 10


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.booleans())
def test_any_table(seed, n, sampled):
    rng = np.random.default_rng(seed)
    X = table(rng, n, missing=rng.choice([0.0, 0.3, 1.0], p=[0.3, 0.6, 0.1]))
    X[:, 0] = np.round(X[:, 0])
    grad, hess = statistics(rng, n)
    rows = np.sort(rng.permutation(n)[: n // 2 + 1]).astype(np.uint32) if sampled else None
    raw = np.zeros(n)
    with exact_grower(X, KINDS, replace(DEEP, max_depth=3), 1) as grower:
        tree = tree_of(grower, grad, hess, rows=rows)
        grower.add_to(tree, raw)
    np.testing.assert_array_equal(raw, raw_of(tree, X))
    used = np.arange(n) if rows is None else rows
    leaf = TreeEnsemble([tree], 4).apply(X, 1)[used, 0]
    for k in np.unique(leaf):
        own = used[leaf == k]
        assert tree.nodes["n_samples"][k] == len(own)
        value = oracle.leaf_value(grad[own].sum(dtype=float), hess[own].sum(dtype=float), DEEP)
        np.testing.assert_allclose(tree.values[k, 0], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("frontier", ["depth-wise", "best-first"])
@pytest.mark.parametrize("max_leaves", [0, 12])
def test_threads_change_nothing(rng, frontier, max_leaves):
    n = SUBTREE_ROWS * 3
    X, (grad, hess) = table(rng, n), statistics(rng, n)
    params = replace(DEEP, frontier=frontier, max_leaves=max_leaves, max_depth=9)
    trees, raws = [], []
    for n_threads in (1, 2, 3):
        raw = np.zeros(n)
        with exact_grower(X, KINDS, params, n_threads) as grower:
            trees.append(tree_of(grower, grad, hess, seed=5))
            grower.add_to(trees[-1], raw)
        raws.append(raw)
    for tree, raw in zip(trees[1:], raws[1:], strict=True):
        np.testing.assert_array_equal(tree.nodes, trees[0].nodes)
        np.testing.assert_array_equal(tree.values, trees[0].values)
        np.testing.assert_array_equal(tree.categories, trees[0].categories)
        np.testing.assert_array_equal(raw, raws[0])


def test_histograms_of_all_values_lead_to_the_same_splits(rng):
    # Few distinct values: bins lose nothing. Eighths: integers of the histogram neither.
    X = table(rng, 300)
    X[:, 0], X[:, 3] = np.round(4 * X[:, 0]), np.round(9 * X[:, 3])
    grad, hess = statistics(rng, 300)
    params = replace(DEEP, max_depth=5, max_cat_to_onehot=0, frontier="depth-first")
    mapper = BinMapper(categorical_features=KINDS)
    binned = mapper.fit_transform(X)
    for constant in (True, False):
        with (
            exact_grower(X, KINDS, params, 1) as exact,
            newton_grower(binned, params, 1, mapper.category_to_bin_) as hist,
        ):
            a = tree_of(exact, grad, 1.0 if constant else hess)
            b = tree_of(hist, grad, 1.0 if constant else hess)
        leaves = [TreeEnsemble([tree], 4).apply(X, 1)[:, 0] for tree in (a, b)]
        pairs = {pair for pair in zip(*leaves, strict=True)}
        assert len(pairs) == a.n_leaves == b.n_leaves > 10
        np.testing.assert_allclose(raw_of(a, X), raw_of(b, X), rtol=1e-9)
        np.testing.assert_allclose(sorted(a.nodes["gain"]), sorted(b.nodes["gain"]), atol=1e-6)


def test_the_largest_numbers_are_refused(rng):
    grad = np.full(20, np.inf, dtype=np.float32)
    with exact_grower(rng.random((20, 2)), np.zeros(2), DEEP, 1) as grower:
        with pytest.raises(ValueError, match="overflow"):
            tree_of(grower, grad, 1.0)
        with pytest.raises(ValueError, match="rows must"):
            tree_of(grower, np.zeros(20, np.float32), 1.0, rows=np.array([3, 2], np.uint32))
        tree = tree_of(grower, np.arange(20, dtype=np.float32), 1.0)
        with pytest.raises(ValueError, match="do not fit"):
            grower.add_to(tree, np.zeros(19))


def test_thinned_trees_have_fewer_thresholds(rng):
    X = rng.normal(size=(3000, 1))
    grad = rng.normal(size=3000).astype(np.float32)
    found = {}
    for share in (0.0, 0.01, 0.1):
        params = replace(DEEP, candidate_share=share, max_depth=1)
        with exact_grower(X, np.zeros(1), params, 1) as grower:
            cuts = [tree_of(grower, np.roll(grad, k), 1.0).nodes["threshold"][0] for k in range(60)]
        found[share] = len(set(cuts))
    assert found[0.0] > found[0.01] > found[0.1] > 2
    assert found[0.1] <= 10


# ---- approx -------------------------------------------------------------------------------------


def test_candidates_are_quantiles_of_the_hessians(rng):
    n = 4000
    X = rng.normal(size=(n, 2))
    grad = rng.normal(size=n).astype(np.float32)
    kinds = np.zeros(2, dtype=bool)
    with approx_grower(X, kinds, DEEP, 1, 16) as grower:
        for power in (0.0, 4.0, -4.0):
            # Hessians that put the candidates to the right, then to the left.
            hess = np.exp(power * X[:, 0]).astype(np.float32)
            tree = tree_of(grower, grad, hess)
            binned = BinMapper(max_bins=16).fit_transform(X, hess.astype(np.float64))
            with newton_grower(binned, DEEP, 1) as plain:
                expected = tree_of(plain, grad, hess)
            np.testing.assert_array_equal(tree.nodes, expected.nodes)
            np.testing.assert_array_equal(tree.values, expected.values)
            raw = np.zeros(n)
            grower.add_to(tree, raw)
            np.testing.assert_array_equal(raw, raw_of(tree, X))
            cuts = tree.nodes["threshold"][tree.nodes["feature"] == 0]
            assert np.sign(np.median(cuts)) == np.sign(power) or power == 0


@pytest.mark.parametrize("sampled", [False, True], ids=["all rows", "sample"])
def test_approx_raw_scores(rng, sampled):
    X = table(rng)
    grad, hess = statistics(rng, 200)
    rows = np.flatnonzero(rng.random(200) < 0.5).astype(np.uint32) if sampled else None
    with approx_grower(X, KINDS, DEEP, 1, 20) as grower:
        for h in (1.0, hess, 1.0, 2.0, np.zeros(200, np.float32), hess):
            raw = np.zeros(200)
            tree = tree_of(grower, grad, h, rows=rows, seed=3, scale=0.5)
            grower.add_to(tree, raw)
            np.testing.assert_array_equal(raw, raw_of(tree, X))


def test_equal_hessians_are_binned_once(rng, monkeypatch):
    calls = []
    fit_encode = BinMapper.fit_encode
    monkeypatch.setattr(
        BinMapper, "fit_encode", lambda self, *a: calls.append(1) or fit_encode(self, *a)
    )
    X, (grad, hess) = table(rng), statistics(rng, 200)
    with approx_grower(X, KINDS, DEEP, 1, 20) as grower:
        for _ in range(3):
            tree_of(grower, grad, 1.0)
        assert len(calls) == 1
        tree_of(grower, grad, hess)
        tree_of(grower, grad, hess)
        assert len(calls) == 3
    # Nothing is left behind: another grower of the same table starts anew.
    with approx_grower(X, KINDS, DEEP, 1, 20) as grower:
        tree_of(grower, grad, 1.0)
    assert len(calls) == 4


@pytest.mark.parametrize("n_threads", [2, 3])
def test_approx_threads_change_nothing(rng, n_threads):
    X, (grad, hess) = table(rng, 3000), statistics(rng, 3000)
    trees = []
    for threads in (1, n_threads):
        with approx_grower(X, KINDS, DEEP, threads, 30) as grower:
            trees.append(tree_of(grower, grad, hess))
    np.testing.assert_array_equal(trees[0].nodes, trees[1].nodes)
    np.testing.assert_array_equal(trees[0].values, trees[1].values)
