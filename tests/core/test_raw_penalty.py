"""The raw penalty of piece-wise linear leaves: lambda on every raw coefficient and the intercept.

The engine centres its columns and eliminates the intercept; the oracle here solves the paper's
equations ``(X'HX + lambda I) b = -X'g`` as they stand, X with a column of ones.
"""

from __future__ import annotations

import numpy as np
import plgb_oracle as oracle
import pytest
from growers import line_grower, tree_of

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow.linear_leaves import LeafRules
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.regressor_columns import RegressorColumns

FITS = ["half_additive", "additive", "full"]


def make(seed=0, n=250, missing=0.0):
    """Columns of unlike spreads, away from zero."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), 1)
    y = np.where(X[:, 0] > 0.2, X[:, 1], -2 * X[:, 1]) + X[:, 2] * (X[:, 3] > 0)
    y = 3 * y + 0.3 * rng.normal(size=n) + 1
    X = X * np.array([0.5, 4.0, 1.0, 0.2]) + np.array([1.0, -6.0, 2.0, 0.5])
    X[rng.random(X.shape) < missing] = np.nan
    hess = rng.uniform(0.5, 2, n).astype(np.float32)
    return X, (-y * hess).astype(np.float32), hess


def opened(X, fit, ridge, refit=True, n_threads=1):
    binned = BinMapper(max_bins=8).fit_transform(X)
    columns = RegressorColumns(X, binned, np.ones(X.shape[1], dtype=bool))
    params = GrowerParams(frontier="best-first", max_leaves=4, max_depth=0, reg_lambda=ridge)
    rules = LeafRules(
        fit=fit, refit=refit, reg_lambda=ridge, raw_penalty=True, extrapolation="linear",
        sample_rows=0,
    )  # fmt: skip
    return line_grower(binned, params, rules, columns, n_threads)


def filled(column, h):
    """Missing values at the mean of the others, in the units of the table."""
    known = ~np.isnan(column)
    total = h[known].sum()
    mean = (h[known] * column[known]).sum() / total if total > 0 else 0.0
    return np.where(known, column, mean)


def solve(columns, g, h, ridge):
    """Intercept, slopes and twice the loss that they save; constant columns are left out."""
    columns = [filled(c, h) for c in columns]
    free = [j for j, c in enumerate(columns) if np.ptp(c) > 1e-9]
    D = np.column_stack([np.ones(len(g)), *(columns[j] for j in free)])
    A = D.T @ (h[:, None] * D) + ridge * np.eye(D.shape[1])
    b = -D.T @ g
    found = np.linalg.solve(A, b)
    slopes = np.zeros(len(columns))
    slopes[free] = found[1:]
    return found[0], slopes, b @ found


def part_above(models, node, X, mean):
    """The slopes of a node times the raw columns, without an intercept."""
    n = models["n_regressors"][node]
    at = models["feature"][node, :n]
    center = models["center"][node, :n] + mean[at]
    raw = np.where(np.isnan(X[:, at]), center, X[:, at])
    return raw @ (models["scale"][node] * models["coef"][node, :n])


def function_above(models, node, X, mean):
    n = models["n_regressors"][node]
    at = models["feature"][node, :n]
    terms = np.nan_to_num(X[:, at] - mean[at] - models["center"][node, :n])
    part = models["offset"][node] + terms @ models["coef"][node, :n]
    return models["value"][node] + models["scale"][node] * part


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("ridge", [0.5, 20.0])
def test_every_gain_is_that_of_the_papers_equations(fit, missing, ridge):
    X, grad, hess = make(1, missing=missing)
    with opened(X, fit, ridge) as grower:
        tree = tree_of(grower, grad, hess)
        mean = grower.leaf_model.columns.mean
        table = oracle.binned_values(grower.table.binned, grower.leaf_model.columns) + mean
        models = grower.search.node_models()
        rows, start, stop = grower.segments()
        checked = 0
        for node in range(tree.n_nodes):
            own = np.sort(rows[start[node] : stop[node]])
            g, h = np.float64(grad[own]), np.float64(hess[own])
            n = models["n_regressors"][node]
            present = list(models["feature"][node, :n])
            if fit == "full":
                center = models["center"][node, :n] + mean[present]
                inherited = list(np.where(np.isnan(table[own][:, present]), center,
                                          table[own][:, present]).T)  # fmt: skip
            elif fit == "half_additive" and n and models["scale"][node] > 0:
                inherited = [part_above(models, node, table[own], mean)]
            else:
                inherited = []
            adds = fit == "additive" and node > 0
            if adds:
                g = g + h * function_above(models, node, table[own], mean)
            parent = 0.0 if adds else solve(inherited, g, h, ridge)[2]
            for f in range(X.shape[1]):
                joins = f not in present if fit == "full" else (
                    fit == "additive" or present != [f])  # fmt: skip
                gains = grower.search.node_gains(node, f)
                codes = grower.table.binned.columns[f][own]
                lacks = codes == grower.table.binned.n_bins[f]
                for side, b in np.argwhere(np.isfinite(gains)):
                    left = ((codes <= b) & ~lacks) | (lacks & (side == 1))
                    expected = -parent
                    for half in (left, ~left):
                        columns = [c[half] for c in inherited]
                        columns += [table[own[half], f]] if joins else []
                        expected += solve(columns, g[half], h[half], ridge)[2]
                    assert gains[side, b] == pytest.approx(expected, rel=5e-4, abs=2e-2)
                    checked += 1
            if tree.nodes["left"][node] >= 0:
                best = max(grower.search.node_gains(node, f).max() for f in range(X.shape[1]))
                assert tree.nodes["gain"][node] == pytest.approx(best, rel=1e-6)
        assert checked > 150 and tree.n_leaves == 4


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_leaves_solve_the_papers_equations(fit, refit, missing):
    ridge = 5.0
    X, grad, hess = make(2, missing=missing)
    with opened(X, fit, ridge, refit) as grower:
        tree = tree_of(grower, grad, hess)
        models, mean = grower.search.node_models(), grower.leaf_model.columns.mean
        rows, start, stop = grower.segments()
    for leaf in np.flatnonzero(tree.nodes["left"] < 0):
        own = np.sort(rows[start[leaf] : stop[leaf]])
        g, h = np.float64(grad[own]), np.float64(hess[own])
        present = models["feature"][leaf, : models["n_regressors"][leaf]]
        raw = np.column_stack([filled(X[own, f], h) for f in present])
        part = slice(tree.coef_ptr[leaf], tree.coef_ptr[leaf + 1])
        output = np.full(len(own), tree.values[leaf, 0])
        for f, coef, center in zip(tree.coef_feature[part], tree.coef[part, 0],
                                   tree.coef_center[part], strict=True):  # fmt: skip
            output += coef * np.nan_to_num(X[own, f] - center)
        joined, parent = models["joined"][leaf], tree.nodes["parent"][leaf]
        n = models["n_regressors"][parent]
        above = np.zeros(len(present))
        above[:n] = models["coef"][parent, :n] * models["scale"][parent]
        alone = fit == "half_additive" and n == 1 and joined == 0
        new = [raw[:, joined]] if joined >= 0 and not alone else []
        if refit or fit == "full":
            intercept, slopes, _ = solve(list(raw.T), g, h, ridge)
            expected = intercept + raw @ slopes
        elif fit == "half_additive":
            columns = [raw @ above, *new] if n else new
            intercept, slopes, _ = solve(columns, g, h, ridge)
            expected = intercept + np.column_stack(columns) @ slopes
        else:
            # The function above, its missing values at the means of the leaf.
            there = np.full((len(own), X.shape[1]), np.nan)
            there[:, present] = raw
            base = function_above(models, parent, there, mean)
            intercept, slopes, _ = solve(new, g + h * base, h, ridge)
            expected = base + intercept + (np.column_stack(new) @ slopes if new else 0.0)
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def test_without_a_penalty_the_scale_of_columns_does_not_matter():
    X, grad, hess = make(3)
    with opened(X, "half_additive", 0.0) as grower:
        raw = tree_of(grower, grad, hess)
        grower.add_to(raw, said := np.zeros(len(X)))
    binned = BinMapper(max_bins=8).fit_transform(X)
    params = GrowerParams(frontier="best-first", max_leaves=4, max_depth=0, reg_lambda=0.0)
    rules = LeafRules(reg_lambda=0.0, extrapolation="linear", sample_rows=0)
    columns = RegressorColumns(X, binned, np.ones(4, dtype=bool))
    with line_grower(binned, params, rules, columns, 1) as grower:
        standard = tree_of(grower, grad, hess)
        grower.add_to(standard, other := np.zeros(len(X)))
    np.testing.assert_array_equal(raw.nodes["feature"], standard.nodes["feature"])
    np.testing.assert_allclose(said, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("fit", FITS)
def test_same_tree_for_any_number_of_threads(fit):
    X, grad, hess = make(4, n=6000, missing=0.05)
    trees = []
    for n_threads in (1, 2, 3):
        with opened(X, fit, 3.0, n_threads=n_threads) as grower:
            trees.append(tree_of(grower, grad, hess))
    for other in trees[1:]:
        assert (trees[0].nodes == other.nodes).all()
        for name in ("values", "coef", "coef_center"):
            np.testing.assert_array_equal(getattr(trees[0], name), getattr(other, name))
