"""Passes over the rows of leaves, and cells of moments, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from growers import line_grower, tree_of

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow._leaf_passes import add_lines, leaf_moments
from hybridtrees.core.grow.linear_leaves import LeafRules
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.core.search._histogram import BinnedView
from hybridtrees.core.search.lines._piecewise_search import moments
from hybridtrees.core.tree.tree import TreeEnsemble


def leaves_of(n, n_leaves, rng):
    """Rows of random leaves, in the order of the table, and where each leaf has its own."""
    leaf = rng.integers(0, n_leaves, n)
    rows = np.argsort(leaf, kind="stable").astype(np.uint32)
    stop = np.cumsum(np.bincount(leaf, minlength=n_leaves))
    return rows, stop - np.bincount(leaf, minlength=n_leaves), stop


def case(n=1500, p=6, n_leaves=5, width=4, missing=0.0, dtype=np.float32, order="C", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (n, p)).astype(dtype)
    X[rng.random((n, p)) < missing] = np.nan
    hess = rng.uniform(0, 2, n).astype(np.float32)
    hess[rng.random(n) < 0.1] = 0
    return {
        "values": np.asarray(X, order=order),
        "leaves": leaves_of(n, n_leaves, rng),
        "n_columns": rng.integers(0, width + 1, n_leaves).astype(np.int32),
        "feature": np.array([rng.permutation(p)[:width] for _ in range(n_leaves)], dtype=np.int32),
        "shift": rng.normal(3, 1, (n_leaves, width)),
        "factor": rng.uniform(0.5, 2, (n_leaves, width)),
        "grad": rng.normal(size=n).astype(np.float32),
        "hess": hess,
    }


def summed(given, n_threads=1, hess=None, vector_bytes=0):
    names = ("n_columns", "feature", "shift", "factor", "grad")
    arrays = [given[name] for name in names]
    hess = given["hess"] if hess is None else hess
    return leaf_moments(
        given["values"], *given["leaves"], *arrays, hess, n_threads, vector_bytes
    )  # fmt: skip


def expected_sums(given, leaf, hess):
    rows, start, stop = given["leaves"]
    own, k = rows[start[leaf] : stop[leaf]], given["n_columns"][leaf]
    x = given["values"][own][:, given["feature"][leaf, :k]].astype(np.float64)
    z = (x - given["shift"][leaf, :k]) * given["factor"][leaf, :k]
    known, z = ~np.isnan(z), np.nan_to_num(z)
    h, g = np.broadcast_to(np.float64(hess), len(given["grad"]))[own], given["grad"][own]
    counts = known & (h > 0)[:, None]
    columns = np.stack([
        h @ known, h @ z, np.float64(g) @ z,
        np.where(counts, z, np.inf).min(axis=0, initial=np.inf),
        np.where(counts, z, -np.inf).max(axis=0, initial=-np.inf), (~known).sum(axis=0),
    ], axis=1)  # fmt: skip
    return columns, ((z * h[:, None]).T @ z)[np.triu_indices(k)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [True, False])
def test_sums_of_leaves(dtype, order, missing, weights):
    given = case(missing=missing, dtype=dtype, order=order)
    given["n_columns"][:2] = 4, 0
    hess = given["hess"] if weights else 0.5
    columns, squares = summed(given, hess=hess)
    for leaf, k in enumerate(given["n_columns"]):
        by_column, pairs = expected_sums(given, leaf, hess)
        np.testing.assert_allclose(columns[leaf, :k], by_column, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(squares[leaf, : len(pairs)], pairs, rtol=1e-9, atol=1e-9)
        assert not columns[leaf, k:].any()


def test_sums_of_a_large_table_do_not_depend_on_threads_and_vectors():
    given = case(n=70_000, p=3, n_leaves=7, width=3, missing=0.01, seed=1)
    given["n_columns"][:] = 3
    columns, squares = summed(given)
    for leaf in range(7):
        by_column, pairs = expected_sums(given, leaf, given["hess"])
        np.testing.assert_allclose(columns[leaf], by_column, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(squares[leaf], pairs, rtol=1e-8, atol=1e-7)
    for n_threads, vector_bytes in ((2, 0), (3, 0), (1, 16), (2, 32)):
        again = summed(given, n_threads, vector_bytes=vector_bytes)
        np.testing.assert_array_equal(again[0], columns)
        np.testing.assert_array_equal(again[1], squares)


def test_rows_in_any_order_and_leaves_without_rows():
    given = case(n=70_000, p=3, n_leaves=3, width=2, seed=2)
    given["n_columns"][:] = 2
    rows, start, stop = given["leaves"]
    rng = np.random.default_rng(0)
    mixed = np.concatenate([rng.permutation(rows[a:b]) for a, b in zip(start, stop, strict=True)])
    stop[1] = start[1]
    given["leaves"] = mixed, start, stop
    columns, squares = summed(given)
    for leaf in range(3):
        by_column, pairs = expected_sums(given, leaf, given["hess"])
        np.testing.assert_allclose(columns[leaf], by_column, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(squares[leaf], pairs, rtol=1e-8, atol=1e-7)


def test_what_does_not_fit_is_refused():
    given = case()
    rows, start, stop = given["leaves"]
    wrong = rows.copy()
    wrong[7] = len(given["values"])
    for leaves in ((wrong, start, stop), (rows, start, stop + 1), (rows, start, stop[:-1])):
        with pytest.raises(ValueError, match=r"row|length"):
            summed({**given, "leaves": leaves})
    for name, value in (("feature", 6), ("n_columns", 5)):
        array = given[name].copy()
        array.flat[0] = value
        given["n_columns"][0] = 4
        with pytest.raises(ValueError, match="column"):
            summed({**given, name: array})


@pytest.mark.parametrize("extrapolation", ["clip", "linear", "bounded"])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_outputs_of_leaves_are_predictions(extrapolation, missing):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    grad = (np.abs(X[:, 0]) * X[:, 1] + X[:, 2]).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    binned = BinMapper(max_bins=20).fit_transform(X)
    columns = RegressorColumns(X, binned, np.ones(5, dtype=bool))
    params = GrowerParams(frontier="best-first", max_leaves=9, max_depth=0)
    with line_grower(
        binned, params, LeafRules(extrapolation=extrapolation, margin=0.0), columns, 1
    ) as grower:
        tree = tree_of(grower, grad, 1.0)
        raw = np.ones((3000, 2))
        grower.add_to(tree, raw[:, 1])
        half = np.zeros(3000)
        rows = np.arange(0, 3000, 2, dtype=np.uint32)
        other = tree_of(grower, grad, 1.0, rows=rows)
        grower.add_to(other, half)
    assert len(tree.coef) > 8
    for each, added in ((tree, raw[:, 1] - 1), (other, half)):
        predicted = np.zeros((3000, 1))
        TreeEnsemble([each], 5).add_raw(X, predicted, 1)
        np.testing.assert_allclose(added, predicted[:, 0], rtol=1e-9, atol=1e-9)
    assert (raw[:, 0] == 1).all()
    leaves = TreeEnsemble([tree], 5).apply(X, 1)[:, 0]
    nodes = np.unique(leaves)
    order = np.argsort(leaves, kind="stable").astype(np.uint32)
    stop = np.searchsorted(leaves[order], nodes, side="right").astype(np.int64)
    start = np.append(0, stop[:-1])
    for n_threads in (1, 2):
        again = np.ones(3000)
        add_lines(X, order, start, stop, nodes, tree, again, n_threads)
        np.testing.assert_array_equal(again, raw[:, 1])
    with pytest.raises(ValueError, match="node"):
        add_lines(X, order, start, stop, nodes + 100, tree, again, 1)
    with pytest.raises(ValueError, match="differ in length"):
        add_lines(X, order, start, stop, nodes, tree, again[1:], 1)


@pytest.mark.parametrize("n_terms", [1, 2, 5, 7])
@pytest.mark.parametrize("features", [[0], [0, 1], [2, 3, 4], [1, 2, 3, 4, 5, 6], [6, 0, 3, 1, 5]])
def test_cells_do_not_depend_on_the_width_of_vectors(n_terms, features):
    rng = np.random.default_rng(n_terms)
    binned = BinMapper(max_bins=16).fit_transform(rng.normal(size=(1300, 7)))
    tables = rng.normal(size=(n_terms, 256)).astype(np.float32)
    terms = rng.permutation(7)[:n_terms].astype(np.int32)
    grad = rng.normal(size=1300).astype(np.float32)
    hess = rng.uniform(0.5, 2, 1300).astype(np.float32)
    rows = np.flatnonzero(rng.random(1300) < 0.9).astype(np.uint32)
    lin = sum(tables[k, binned.columns[f]] for k, f in enumerate(terms))[rows].astype(np.float64)
    g, h = np.float64(grad[rows]), np.float64(hess[rows])
    view = BinnedView(binned)
    for narrow in (False, True):
        for with_grad in (False, True):
            given = (view, grad, hess, rows, features, terms, tables, True, narrow, with_grad)
            cells = moments(*given)
            columns = [h, h * lin, h * lin**2, g * lin, *[g] * with_grad]
            for f, cell, narrower in zip(features, cells, moments(*given, width=16), strict=True):
                np.testing.assert_array_equal(cell, narrower)
                assert cell.shape[1] == (8 if with_grad else 4)
                for k, column in enumerate(columns):
                    total = np.bincount(binned.columns[f][rows], column, minlength=len(cell))
                    np.testing.assert_allclose(cell[:, k], total, rtol=1e-4, atol=2e-4)
