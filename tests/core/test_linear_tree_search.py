"""The search for linear splits against refits of every candidate."""

from __future__ import annotations

import linear_tree_oracle as oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow.linear import LinearPenalty, LinearProblem, bin_at, grow_linear
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table

RIDGES = {
    "none": (LinearPenalty(), None),
    "relative": (LinearPenalty(l2_relative=0.1), lambda v, w: 0.1 * v),
    "relative_sum": (LinearPenalty(l2_relative_sum=3.0), lambda v, w: 3.0 * v / w),
    "per_weight": (LinearPenalty(l2_per_weight=0.2), lambda v, w: np.full(len(v), 0.2 * w)),
    "absolute": (LinearPenalty(l2_absolute=2.0), lambda v, w: np.full(len(v), 2.0)),
}


def make(seed, n=60, n_features=2, p=2, missing=0.0, weighted=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[rng.random(X.shape) < missing] = np.nan
    Z = rng.normal(size=(n, p))
    filled = np.nan_to_num(X)
    y = np.where(filled[:, 0] > 0.3, Z.sum(axis=1), -Z[:, 0]) + 0.3 * rng.normal(size=n)
    w = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    return X, Z, y, w


def grow(X, Z, y, w, edges, penalty=None, *, least_rows=0, rows=None, **params):
    problem = LinearProblem(Z, y.reshape(len(y), -1), w, penalty or LinearPenalty(), least_rows)
    own = {"max_depth": 1, "min_samples_leaf": 5, "frontier": "depth-first", **params}
    grower_params = GrowerParams(min_child_weight=0.0, **own)
    n_threads = own.pop("n_threads", 1)
    return grow_linear(table_of(X, edges), problem, grower_params, n_threads, rows), problem


def table_of(X, edges):
    return Table.of_bins(bin_at(X, edges))


def quantile_edges(X, n=8):
    return [np.unique(np.nanquantile(x, np.linspace(0, 1, n)[1:-1])) for x in X.T]


@pytest.mark.parametrize("p", [0, 1, 3, 7, 9, 20])
def test_sums_of_products(p):
    rng = np.random.default_rng(p)
    Z, targets, w = rng.normal(size=(50, p)), rng.normal(size=(50, 2)), rng.random(50)
    problem = LinearProblem(Z, targets, w, LinearPenalty())
    rows = rng.permutation(50)[:37].astype(np.uint32)
    products, weight = problem.products(problem.collect(rows)[None])
    table = np.column_stack([np.ones(50), Z, targets])[rows]
    expected = (table * w[rows][:, None]).T @ table
    expected[-2:, -2:] = np.where(np.eye(2), expected[-2:, -2:], products[0][-2:, -2:])
    np.testing.assert_allclose(products[0], expected, rtol=1e-12, atol=1e-12)
    assert np.isclose(weight[0], w[rows].sum())


@pytest.mark.parametrize("name", RIDGES)
@pytest.mark.parametrize("p", [1, 4, 11])
def test_fits_of_cells(name, p):
    penalty, ridge = RIDGES[name]
    _, Z, y, w = make(p, n=70, p=p)
    problem = LinearProblem(Z, y[:, None], w, penalty)
    parts = [np.arange(a, a + 40, dtype=np.uint32) for a in (0, 5, 11, 17, 30)]
    loss, coef = problem.solve(np.stack([problem.collect(rows) for rows in parts]))
    for k, rows in enumerate(parts):
        intercept, slopes, expected = oracle.fit_line(Z[rows], y[rows], w[rows], ridge)
        np.testing.assert_allclose(coef[k, 0], np.append(intercept, slopes), atol=1e-10)
        assert np.isclose(loss[k], expected, rtol=1e-10)


@pytest.mark.parametrize("name", RIDGES)
def test_every_candidate(name):
    """A table with one cut leaves the search no choice, so that its gain is that candidate's."""
    penalty, ridge = RIDGES[name]
    X, Z, y, w = make(3, n=50)
    node = oracle.fit_line(Z, y, w, ridge)[2]
    for f, cuts in enumerate(quantile_edges(X)):
        for edge in cuts:
            left = X[:, f] <= edge
            sides = [oracle.fit_line(Z[r], y[r], w[r], ridge)[2] for r in (left, ~left)]
            grown, _ = grow(X[:, [f]], Z, y, w, [np.array([edge])], penalty)
            assert np.isclose(grown.nodes["gain"][0], node - sum(sides), rtol=1e-9)


@pytest.mark.parametrize("n", [60, 160], ids=["from rows", "from sums of bins"])
@given(st.integers(0, 10**6), st.sampled_from(list(RIDGES)), st.sampled_from([0.0, 0.15]))
def test_best_split(n, seed, name, missing):
    penalty, ridge = RIDGES[name]
    X, Z, y, w = make(seed, n, missing=missing)
    edges = quantile_edges(X)
    expected = oracle.best_split(X, Z, y, w, edges, 5, ridge)
    grown, _ = grow(X, Z, y, w, edges, penalty)
    node = grown.nodes[0]
    assert np.isclose(node["gain"], expected.gain, rtol=1e-8)
    if np.isfinite(expected.edge) and not missing:
        assert (node["feature"], node["threshold"]) == (expected.feature, expected.edge)


@pytest.mark.parametrize("n_edges", [5, 12])
@pytest.mark.parametrize("seed", range(4))
def test_whole_trees(seed, n_edges):
    """The larger child's sums are what is left of the parent's: several levels show it.

    Nodes of at most 16 rows per bin have no sums of bins: with 12 edges, all but the root.
    """
    X, Z, y, w = make(seed, n=400 if n_edges == 5 else 200, n_features=3, p=3)
    edges = quantile_edges(X, n_edges)
    grown, _ = grow(X, Z, y, w, edges, max_depth=3, min_samples_leaf=12)
    found = [
        (
            int(node["feature"]),
            node["threshold"] if node["left"] >= 0 else np.nan,
            node["n_samples"],
        )
        for node in grown.nodes
    ]
    expected = oracle.grow(X, Z, y, w, edges, 12, 3)
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=1e-12)


def test_sums_of_the_nodes():
    X, Z, y, w = make(5, n=120)
    grown, problem = grow(X, Z, y, w, quantile_edges(X), max_depth=3)
    assert len(grown.nodes) > 3
    for i in range(len(grown.nodes)):
        own = problem.collect(grown.rows[grown.start[i] : grown.stop[i]])
        np.testing.assert_allclose(grown.cells[i], own, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("memory", [256 * 2**20, 1])
def test_threads_and_memory(memory):
    """Neither threads nor whether sums are kept for the children change the tree."""
    X, Z, y, w = make(7, n=400, n_features=5, p=4)
    edges = quantile_edges(X, 20)
    trees = []
    for n_threads in (1, 3):
        problem = LinearProblem(Z, y[:, None], w, LinearPenalty(l2_relative=0.01))
        params = GrowerParams(max_depth=4, min_samples_leaf=10, histogram_bytes=memory)
        trees.append(grow_linear(table_of(X, edges), problem, params, n_threads))
    assert trees[0].nodes.tobytes() == trees[1].nodes.tobytes()
    assert trees[0].cells.tobytes() == trees[1].cells.tobytes()
    kept, _ = grow(
        X, Z, y, w, edges, LinearPenalty(l2_relative=0.01), max_depth=4, min_samples_leaf=10
    )
    for name in ("feature", "threshold", "n_samples"):
        assert sorted(kept.nodes[name]) == sorted(trees[0].nodes[name])


def test_categories_by_residual():
    """The order of the categories' residuals finds two sets that no order of codes would."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 6, 300).astype(float)
    Z = rng.normal(size=(300, 1))
    up = np.isin(codes, [1, 4])
    y = 3.0 * Z[:, 0] + 5.0 * up
    mapper = BinMapper(max_bins=10, categorical_features=[0])
    binned = mapper.fit_transform(codes[:, None])
    problem = LinearProblem(Z, y[:, None], None, LinearPenalty())
    params = GrowerParams(max_depth=1, min_samples_leaf=5, min_child_weight=0.0)
    grown = grow_linear(Table.of_bins(binned, mapper.category_to_bin_), problem, params)
    words = grown.categories.view(np.uint8)
    left = np.flatnonzero(np.unpackbits(words, bitorder="little")[:6])
    assert set(left) in ({1, 4}, {0, 2, 3, 5})
    assert problem.solve(grown.cells)[0][1:] == pytest.approx(0.0, abs=1e-18 + 1e-10)


def test_lasso_of_candidates():
    """Soft thresholds by hand: one regressor, one cut."""
    X, Z, y, w = make(11, n=60, p=1)
    Z = Z - w @ Z / w.sum()
    edge = np.array([0.1])

    def loss(rows, l1=0.4):
        z, t, v = Z[rows, 0], y[rows], w[rows]
        z, t = z - v @ z / v.sum(), t - v @ t / v.sum()
        s, c = v @ (z * z), v @ (z * t)
        b = np.sign(c) * max(abs(c) - l1 * v.sum(), 0.0) / s
        return v @ (t - b * z) ** 2

    left = X[:, 0] <= edge[0]
    expected = loss(np.full(60, True)) - loss(left) - loss(~left)
    grown, _ = grow(X[:, :1], Z, y, w, [edge], LinearPenalty(l1_per_weight=0.4))
    assert np.isclose(grown.nodes["gain"][0], expected, rtol=1e-6)


def score_by_hand(X, Z, y, w, edges, least):
    """Gain of the best cut of each feature, if products of regressors were shared out evenly."""
    Z = np.column_stack([np.ones(len(Z)), Z])
    gram = (Z * w[:, None]).T @ Z
    residual = y - Z @ np.linalg.solve(gram, Z.T @ (w * y))
    slopes = Z * (w * residual)[:, None]
    scores = []
    for f, cuts in enumerate(edges):
        found = [-np.inf]
        missing = np.isnan(X[:, f])
        for cut in cuts:
            for left in (X[:, f] <= cut, (X[:, f] <= cut) | missing):
                if min(left.sum(), (~left).sum()) < least:
                    continue
                share = w[left].sum() / w.sum()
                moved = slopes[left].sum(axis=0) - share * slopes.sum(axis=0)
                found.append(moved @ np.linalg.solve(gram, moved) / (share * (1 - share)))
        scores.append(max(found))
    return np.array(scores)


@pytest.mark.parametrize("seed", range(6))
def test_screening_by_hand(seed):
    """With one feature to be kept, it is the one of the best score."""
    rng = np.random.default_rng(seed)
    X, Z, y = rng.normal(size=(200, 6)), rng.normal(size=(200, 4 + seed)), rng.normal(size=200)
    X[rng.random(X.shape) < 0.1 * (seed % 3)] = np.nan
    w = np.ones(200) if seed < 3 else rng.uniform(0.5, 2, 200)
    edges = quantile_edges(np.where(np.isnan(X), 0.0, X), 8)
    expected = score_by_hand(X, Z, y, w, edges, 20)
    params = GrowerParams(max_depth=1, min_samples_leaf=20, min_child_weight=0.0)
    problem = LinearProblem(Z, y[:, None], None if seed < 3 else w, LinearPenalty())
    nodes = grow_linear(table_of(X, edges), problem, params, screened=1).nodes
    assert nodes["feature"][0] == expected.argmax()


def wide_table(kind, seed, n=700, p=24):
    """Correlated regressors, counts that are mostly zero, no cut at all, one of ten categories."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    f = seed % p
    if kind == "factors":
        X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, p)) + 0.5 * X
        signal = X[:, :5].sum(axis=1) + np.where(X[:, f] > 0, X[:, 7] - X[:, 8], 0.0)
    elif kind == "counts":
        X = rng.poisson(0.5, size=(n, p)) * rng.exponential(size=(n, p))
        signal = X @ rng.normal(size=p) + np.where(X[:, f] > 0, 2 * X[:, (f + 3) % p], 0.0)
    elif kind == "smooth":
        signal = 3 * np.sin(1.5 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3]
    elif kind == "one-hot":
        own = rng.integers(0, 10, size=n)
        X[:, :10] = own[:, None] == np.arange(10)
        signal = X @ rng.normal(size=p) + np.where(own == 3, 2 * X[:, 12], X[:, 13])
    else:  # hardly anything to find
        signal = X[:, :5].sum(axis=1) + np.where(X[:, f] > 0.2, 0.25 * X[:, 7], 0.0)
    return X, signal + rng.normal(size=n)


@pytest.mark.parametrize("kind", ["factors", "counts", "smooth", "one-hot", "weak"])
@pytest.mark.parametrize("lasso", [False, True], ids=["ridge", "lasso"])
def test_screening_keeps_the_winner(kind, lasso):
    """The best eight of 24 features by their scores hold the best cut of all of them."""
    hits, n_tables = 0, 10
    for seed in range(n_tables):
        X, y = wide_table(kind, seed)
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        penalty = LinearPenalty(l1_per_weight=0.02) if lasso else LinearPenalty(l2_relative=0.01)
        problem = LinearProblem(Z, y[:, None], None, penalty)
        params = GrowerParams(max_depth=1, min_samples_leaf=70, min_child_weight=0.0)
        binned = bin_at(X, quantile_edges(X, 12))
        first = grow_linear(Table.of_bins(binned), problem, params)
        quick = grow_linear(Table.of_bins(binned), problem, params, screened=8)
        again = grow_linear(Table.of_bins(binned), problem, params, 3, screened=8)
        assert quick.nodes.tobytes() == again.nodes.tobytes()
        names = ["feature", "bin"]
        hits += first.nodes[names][0] == quick.nodes[names][0]
    assert hits >= 0.9 * n_tables


def test_screening_of_categories():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, size=(400, 3)).astype(float)
    z = rng.normal(size=400)
    y = np.where(np.isin(codes[:, 1], [0, 3, 5]), 2.0, 0.0) + z + 0.3 * rng.normal(size=400)
    mapper = BinMapper(max_bins=16, categorical_features=[True] * 3)
    binned = mapper.fit_transform(codes)
    problem = LinearProblem(z[:, None], y[:, None], None, LinearPenalty())
    params = GrowerParams(max_depth=1, min_samples_leaf=20, min_child_weight=0.0)
    table = Table.of_bins(binned, mapper.category_to_bin_)
    assert grow_linear(table, problem, params, screened=1).nodes["feature"][0] == 1


def test_screening_leaves_features_out():
    """With one feature to be kept, only that one can be split on."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    y = np.where(X[:, 3] > 0, X[:, 0], -X[:, 0])
    params = GrowerParams(max_depth=1, min_samples_leaf=10, min_child_weight=0.0)
    for n_rows in (500, 36):
        problem = LinearProblem(X[:n_rows, :1], y[:n_rows, None], None, LinearPenalty())
        binned = bin_at(X[:n_rows], quantile_edges(X[:n_rows], 6))
        nodes = grow_linear(Table.of_bins(binned), problem, params, screened=1).nodes
        assert nodes["feature"][0] == 3


def test_rows_out_of_range():
    problem = LinearProblem(np.zeros((3, 1)), np.zeros((3, 1)), None, LinearPenalty())
    with pytest.raises(ValueError, match="out of range"):
        problem.collect(np.array([3], dtype=np.uint32))
    with pytest.raises(ValueError, match="another problem"):
        problem.solve(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="same rows"):
        LinearProblem(np.zeros((3, 1)), np.zeros((4, 1)), None, LinearPenalty())
