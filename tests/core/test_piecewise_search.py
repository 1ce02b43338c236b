"""Splits by the gain of linear models, against dense least squares."""

from __future__ import annotations

import numpy as np
import plgb_oracle as oracle
import pytest
from growers import line_grower, tree_of

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow.linear_leaves import LeafRules
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.core.search._histogram import BinnedView
from hybridtrees.core.search.lines._piecewise_scan import minimise_many
from hybridtrees.core.search.lines._piecewise_search import moments


def make(seed=0, n=250, p=4, missing=0.0, weights=False):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, p)), 1)
    y = np.where(X[:, 0] > 0.2, X[:, 1], -2 * X[:, 1]) + X[:, 2] * (X[:, 3] > 0)
    y = y + 0.3 * rng.normal(size=n)
    X[rng.random((n, p)) < missing] = np.nan
    hess = rng.uniform(0.5, 2, n).astype(np.float32) if weights else 1.0
    grad = (-(y - y.mean()) * hess).astype(np.float32)
    return X, grad, hess


def opened(X, n_threads=1, params=None, **rules):
    binned = BinMapper(max_bins=8).fit_transform(X)
    columns = RegressorColumns(X, binned, np.ones(X.shape[1], dtype=bool))
    params = params or {}
    reg = {name: rules[name] for name in ("reg_lambda", "reg_alpha") if name in rules}
    settings = {"frontier": "best-first", "max_leaves": 4, "max_depth": 0, **reg, **params}
    rules = LeafRules(**{"sample_rows": 0, **rules})
    return line_grower(binned, GrowerParams(**settings), rules, columns, n_threads)


@pytest.mark.parametrize("fit", ["half_additive", "additive", "full"])
@pytest.mark.parametrize(("missing", "weights"), [(0.0, False), (0.15, True)])
@pytest.mark.parametrize(("ridge", "alpha"), [(0.0, 0.0), (1.0, 0.0), (1.0, 3.0)])
def test_every_gain_is_that_of_dense_least_squares(fit, missing, ridge, alpha, weights):
    X, grad, hess = make(1, missing=missing, weights=weights)
    with opened(X, fit=fit, reg_lambda=ridge, reg_alpha=alpha) as grower:
        tree = tree_of(grower, grad, hess)
        table = oracle.binned_values(grower.table.binned, grower.leaf_model.columns)
        models = grower.search.node_models()
        rows, start, stop = grower.segments()
        h = np.broadcast_to(np.float64(hess), len(grad))
        checked = 0
        for node in range(tree.n_nodes):
            own = np.sort(rows[start[node] : stop[node]])
            n = models["n_regressors"][node]
            present = list(models["feature"][node, :n])
            for f in range(X.shape[1]):
                if fit == "full":
                    inherited = [np.nan_to_num(table[own, j] - c) for j, c in
                                 zip(present, models["center"][node], strict=False)]  # fmt: skip
                elif n and models["scale"][node] > 0:
                    inherited = [oracle.linear_part(models, node, table[own])]
                else:
                    inherited = []
                joins = f not in present if fit == "full" else (
                    fit == "additive" or present != [f])  # fmt: skip
                x = table[own, f] if joins else None
                gains = grower.search.node_gains(node, f)
                codes = grower.table.binned.columns[f][own]
                lacks = codes == grower.table.binned.n_bins[f]
                for side in range(2):
                    for b in range(gains.shape[1]):
                        if gains[side, b] == -np.inf:
                            continue
                        left = (codes <= b) & ~lacks | (lacks & (side == 1))
                        g, w = np.float64(grad[own]), np.float64(h[own])
                        if fit == "additive" and node > 0:
                            above = np.full(len(own), models["value"][node])
                            if inherited:
                                above += models["scale"][node] * inherited[0]
                            expected = oracle.additive_gain(above, x, left, g, w, ridge, alpha)
                        else:
                            expected = oracle.cut_gain(inherited, x, left, g, w, ridge, alpha)
                        assert gains[side, b] == pytest.approx(expected, rel=2e-4, abs=1e-3)
                        checked += 1
            if tree.nodes["left"][node] >= 0:
                best = max(grower.search.node_gains(node, f).max() for f in range(X.shape[1]))
                assert tree.nodes["gain"][node] == pytest.approx(best, rel=1e-6)
        assert checked > 150
        assert tree.n_leaves == 4


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("fit", ["half_additive", "additive", "full"])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize(("ridge", "alpha"), [(0.0, 0.0), (2.0, 0.0), (2.0, 4.0)])
def test_leaves_equal_dense_least_squares(fit, refit, missing, ridge, alpha):
    X, grad, hess = make(2, missing=missing, weights=True)
    penalties = {"reg_lambda": ridge, "reg_alpha": alpha}
    with opened(X, fit=fit, refit=refit, extrapolation="linear", **penalties) as grower:
        tree = tree_of(grower, grad, hess)
        models, columns = grower.search.node_models(), grower.leaf_model.columns
        rows, start, stop = grower.segments()
    Z = (X - columns.mean) / columns.scale
    for leaf in np.flatnonzero(tree.nodes["left"] < 0):
        own = rows[start[leaf] : stop[leaf]]
        g, h = np.float64(grad[own]), np.float64(hess[own])
        present = models["feature"][leaf, : models["n_regressors"][leaf]]
        part = slice(tree.coef_ptr[leaf], tree.coef_ptr[leaf + 1])
        slopes = np.zeros(len(present))
        at = [list(present).index(f) for f in tree.coef_feature[part]]
        slopes[at] = tree.coef[part, 0] * columns.scale[tree.coef_feature[part]]
        value = -oracle.soft(g.sum(), alpha) / (h.sum() + ridge)
        parent = tree.nodes["parent"][leaf]
        columns_of = [oracle.centred(Z[own, f], h) for f in present]
        if refit or fit == "full":
            expected = oracle.fit([Z[own, f] for f in present], g, h, ridge, alpha)[0]
        else:
            n = models["n_regressors"][parent]
            above = np.zeros(len(present))
            above[:n] = models["coef"][parent, :n]
            joined = models["joined"][leaf]
            part_above = np.column_stack(columns_of) @ above
            new = [columns_of[joined]] if joined >= 0 and n and not (
                fit == "half_additive" and n == 1 and joined == 0) else []  # fmt: skip
            if n == 0:
                new = [columns_of[joined]]
            if fit == "half_additive":
                parts = [part_above] if n else []
                factors = oracle.fit([*parts, *new], g, h, ridge, alpha)[0]
                expected = above * (factors[0] if n else 0.0)
                if new:
                    expected[joined] += factors[-1]
            else:
                fixed = above * models["scale"][parent]
                moved = g + h * (np.column_stack(columns_of) @ fixed)
                expected = fixed.copy()
                if new:
                    expected[joined] += oracle.fit(new, moved, h, ridge, alpha)[0][0]
                known = h[:, None] * ~np.isnan(Z[own][:, present])
                mean = np.nansum(h[:, None] * Z[own][:, present], axis=0)
                mean /= np.maximum(known.sum(axis=0), 1e-300)
                base = models["value"][parent] + models["scale"][parent] * (
                    models["offset"][parent] + above[:n] @ (mean[:n] - models["center"][parent, :n])
                )
                value = base - oracle.soft(g.sum() + base * h.sum(), alpha) / (h.sum() + ridge)
        np.testing.assert_allclose(slopes, expected, rtol=1e-5, atol=1e-6)
        assert tree.values[leaf, 0] == pytest.approx(value, rel=1e-6, abs=1e-9)


def test_cells_hold_the_moments_of_the_regressors():
    X, grad, hess = make(3, n=3000, missing=0.1, weights=True)
    binned = BinMapper(max_bins=30).fit_transform(X)
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(2, 256)).astype(np.float32)
    rows = np.flatnonzero(rng.random(3000) < 0.9).astype(np.uint32)
    terms = np.array([1, 3], dtype=np.int32)
    r = np.column_stack([tables[k, binned.columns[f]] for k, f in enumerate(terms)])[rows]
    g, h = np.float64(grad[rows]), np.float64(hess[rows])
    view = BinnedView(binned)
    for summed in (True, False):
        if summed:
            lin = r.sum(axis=1)
            expected = [h, h * lin, h * lin**2, g * lin, g]
        else:
            a, b = r.T
            expected = [h, h * a, h * b, h * a * a, h * a * b, h * b * b, g * a, g * b, g]
        for features in ([0, 1, 2, 3], [2, 0]):
            for narrow in (False, True):
                cells = moments(view, grad, hess, rows, features, terms, tables, summed, narrow,
                                True)  # fmt: skip
                for f, cell in zip(features, cells, strict=True):
                    for k, column in enumerate(expected):
                        total = np.bincount(
                            binned.columns[f][rows], weights=column, minlength=len(cell)
                        )
                        np.testing.assert_allclose(
                            cell[:, k], total, rtol=1e-4, atol=1e-3 if narrow else 1e-4
                        )


def minimise(matrix, right, alpha=0.0, signs=None):
    """Coefficients and score of one problem."""
    signs = None if signs is None else signs[None]
    size = np.array([len(right)], dtype=np.int32)
    coef, score = minimise_many(matrix[None], right[None], size, alpha, signs)
    return coef[0], score[0]


def test_small_problems():
    rng = np.random.default_rng(0)
    for n in range(1, 7):
        Z = rng.normal(size=(30, n))
        A, b = Z.T @ Z + np.eye(n), rng.normal(size=n) * 10
        coef, score = minimise(A, b)
        np.testing.assert_allclose(coef, np.linalg.solve(A, b), rtol=1e-9)
        assert score == pytest.approx(b @ coef)
        signs = rng.integers(-1, 2, n).astype(np.int8)
        held, lower = minimise(A, b, 2.0, signs)
        assert (held * signs >= 0).all()
        assert lower <= score
        # No step from the minimum is better.
        at = held @ A @ held / 2 - b @ held + 2 * np.abs(held).sum()
        for step in rng.normal(size=(200, n)) * 0.1:
            other = held + step
            other[signs * other < 0] = 0
            assert other @ A @ other / 2 - b @ other + 2 * np.abs(other).sum() >= at - 1e-9
        # Rows and columns behind the size of a problem are not read.
        padded, size = np.pad(A, (0, 1), constant_values=9.0), np.array([n], dtype=np.int32)
        many = minimise_many(padded[None], np.append(b, 7.0)[None], size)
        np.testing.assert_array_equal(many[0], [[*coef, 0.0]])
        np.testing.assert_array_equal(many[1], [score])
    twice = np.array([[2.0, 2.0], [2.0, 2.0]])
    np.testing.assert_allclose(minimise(twice, np.array([2.0, 2.0]))[0], [1.0, 0.0])


@pytest.mark.parametrize("fit", ["half_additive", "full"])
def test_same_tree_for_any_number_of_threads(fit):
    X, grad, hess = make(4, n=6000, p=12, missing=0.05)
    trees = []
    for n_threads in (1, 2, 3):
        params = {"max_leaves": 12}
        with opened(X, n_threads, params, fit=fit, sample_rows=1024) as grower:
            trees.append(tree_of(grower, grad, hess))
    for other in trees[1:]:
        assert (trees[0].nodes == other.nodes).all()
        for name in ("values", "coef", "coef_center", "coef_low", "coef_high"):
            np.testing.assert_array_equal(getattr(trees[0], name), getattr(other, name))


def test_a_sample_of_the_rows_finds_nearly_the_same_gain():
    X, grad, hess = make(5, n=20000)
    gains = []
    for sample_rows in (0, 2048):
        with opened(X, sample_rows=sample_rows) as grower:
            tree = tree_of(grower, grad, hess)
            gains.append(tree.nodes["gain"][tree.nodes["left"] >= 0].sum())
    assert gains[1] == pytest.approx(gains[0], rel=0.1)
    assert gains[1] != gains[0]
