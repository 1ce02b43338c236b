"""Trees on tables large enough for threads and 16-bit statistics, and draws of features."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import oracle
import pytest
from growers import newton_grower, tree_of
from strategies import eighths, grow_tree, make_binned, random_codes

from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._histogram import BinnedView, RowStatistics

BEST = GrowerParams(frontier="best-first", max_depth=0, max_leaves=31)


def assert_threads_agree(binned, grad, hess, params, rows=None):
    """Trees and raw scores for 1, 2 and 3 threads, to the last bit; returns the tree."""
    results = []
    for n_threads in (1, 2, 3):
        raw = np.zeros(binned.n_rows)
        with newton_grower(binned, params, n_threads) as grower:
            tree = tree_of(grower, grad, hess, rows=rows, seed=5)
            grower.add_to(tree, raw)
        results.append((tree, raw))
    for tree, raw in results[1:]:
        np.testing.assert_array_equal(tree.nodes, results[0][0].nodes)
        np.testing.assert_array_equal(tree.values, results[0][0].values)
        np.testing.assert_array_equal(tree.categories, results[0][0].categories)
        np.testing.assert_array_equal(raw, results[0][1])
    return results[0][0]


# ---- threads ------------------------------------------------------------------------------------


# 60,000 rows: histograms, partitions and sums of several nodes run in parallel.
@pytest.mark.parametrize("kind", ["unit", "pair32", "counts"])
@pytest.mark.parametrize("sampled", [False, True])
def test_narrow_tables(rng, kind, sampled):
    n = 60_000
    n_bins = [255, 40, 255, 7, 200]
    binned = make_binned(random_codes(rng, n, n_bins), n_bins, [0, 0, 0, 1, 1])
    grad = (rng.normal(size=n) + binned.columns[1] / 20).astype(np.float32)
    hess = 1.0 if kind == "unit" else rng.random(n).astype(np.float32)
    params = replace(BEST, min_samples_leaf=20 if kind == "counts" else 1)
    rows = np.flatnonzero(rng.random(n) < 0.8).astype(np.uint32) if sampled else None
    tree = assert_threads_agree(binned, grad, hess, params, rows)
    assert tree.n_leaves == 31


@pytest.mark.parametrize("kind", ["unit", "pair32"])
@pytest.mark.parametrize("fractions", [(1.0, 1.0, 1.0), (0.7, 0.9, 0.8)])
def test_wide_tables(rng, kind, fractions):
    # 420 features are seven blocks; splits are searched by feature.
    n, p = 500, 420
    n_bins = np.where(np.arange(p) % 3, 255, 20)
    binned = make_binned(random_codes(rng, n, n_bins), n_bins, np.arange(p) % 7 == 0)
    grad = rng.normal(size=n).astype(np.float32)
    hess = 1.0 if kind == "unit" else rng.random(n).astype(np.float32)
    params = replace(BEST, frontier="depth-wise", max_leaves=0, max_depth=4)
    assert_threads_agree(binned, grad, hess, replace(params, feature_fractions=fractions))


@pytest.mark.parametrize("kind", ["unit", "pair32"])
@pytest.mark.parametrize("fractions", [(1.0, 1.0, 1.0), (0.9, 0.7, 0.6)])
@pytest.mark.parametrize("pool", [256 * 2**20, 1])
def test_small_nodes(rng, kind, fractions, pool):
    # Both children are scanned feature by feature, by the threads that have summed them.
    n, n_bins = 6000, [255] * 15 + [30] * 4
    is_categorical = np.arange(19) >= 16
    binned = make_binned(random_codes(rng, n, n_bins), n_bins, is_categorical)
    grad = (rng.normal(size=n) + binned.columns[3] / 90).astype(np.float32)
    hess = 1.0 if kind == "unit" else rng.random(n).astype(np.float32)
    params = replace(BEST, feature_fractions=fractions, histogram_bytes=pool)
    tree = assert_threads_agree(binned, grad, hess, params)
    assert tree.n_leaves == 31


@pytest.mark.parametrize("n_features", [310, 331])
def test_a_wide_table_is_split_where_the_signal_is(rng, n_features):
    # The signal stands in the last feature of all, behind whole blocks of features.
    n = 400
    codes = rng.integers(0, 21, (n, n_features))
    grad = np.where(codes[:, -1] <= 7, 4.0, -4.0) + eighths(rng, n, -8, 8)
    binned = make_binned(codes, 20)
    for n_threads in (1, 2):
        tree = grow_tree(binned, grad, 1.0, replace(BEST, max_leaves=2), n_threads=n_threads)
        assert (tree.nodes["feature"][0], tree.nodes["bin"][0]) == (n_features - 1, 7)


def test_a_small_pool_under_threads(rng):
    n = 30_000
    binned = make_binned(random_codes(rng, n, [255] * 6), 255)
    grad = rng.normal(size=n).astype(np.float32)
    tree = assert_threads_agree(binned, grad, 1.0, BEST)
    small = assert_threads_agree(binned, grad, 1.0, replace(BEST, histogram_bytes=1))
    np.testing.assert_array_equal(tree.nodes, small.nodes)


# ---- 16-bit statistics --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(11)
    n = 100_000
    n_bins = [6, 255, 4, 9]
    binned = make_binned(random_codes(rng, n, n_bins), n_bins, [0, 0, 1, 1])
    grad = eighths(rng, n) + (binned.columns[0] >= 3) + 2 * (binned.columns[3] % 2)
    return binned, grad.astype(np.float32), eighths(rng, n, 1, 8)


def test_pair16_against_the_oracle(large):
    binned, grad, hess = large
    statistics = RowStatistics(BinnedView(binned), False)
    statistics.fill(grad, hess, len(grad), False, 1)
    assert statistics.layout["name"] == "pair16"
    params = GrowerParams(max_depth=2)
    small = make_binned(binned.columns[[0, 2, 3]].T, [6, 4, 9], [0, 1, 1])
    tree = grow_tree(small, grad, hess, params)
    assert tree.n_leaves == 4
    oracle.check_tree(tree, small, grad, hess, params)


@pytest.mark.parametrize("sampled", [False, True])
def test_pair16_is_exact_where_pair32_is(large, sampled):
    # Multiples of 1/8 fit into 16 bits: the layouts, chosen by the need for counts, must agree.
    binned, grad, hess = large
    rows = np.arange(0, len(grad), 3, dtype=np.uint32) if sampled else None
    params = replace(BEST, min_child_weight=100.0)
    narrow = assert_threads_agree(binned, grad, hess, params, rows)
    wide = grow_tree(binned, grad, hess, replace(params, min_samples_leaf=2), rows=rows, seed=5)
    np.testing.assert_array_equal(narrow.nodes, wide.nodes)
    np.testing.assert_array_equal(narrow.values, wide.values)


def test_pair16_of_a_small_pool(large):
    binned, grad, hess = large
    tree = grow_tree(binned, grad, hess, BEST)
    small = grow_tree(binned, grad, hess, replace(BEST, histogram_bytes=1))
    np.testing.assert_array_equal(tree.nodes, small.nodes)


@pytest.mark.parametrize("kind", ["unit", "pair16"])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_histogram_of_the_root_writes_the_statistics(large, kind, n_threads):
    binned, grad, hess = large
    hess = 1.0 if kind == "unit" else hess
    statistics = RowStatistics(BinnedView(binned), True)
    statistics.fill(grad, hess, len(grad), False, 1)
    assert statistics.layout["name"] == kind
    expected = binned.records.copy()
    binned.records[:, -4:] = 77
    grow_tree(binned, grad, hess, replace(BEST, max_leaves=2), n_threads=n_threads)
    np.testing.assert_array_equal(binned.records, expected)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_sums_and_scores_of_the_leaves(large, n_threads):
    binned, grad, hess = large
    raw = np.linspace(-1, 1, len(grad))
    with newton_grower(binned, replace(BEST, max_leaves=60), n_threads) as grower:
        tree = tree_of(grower, grad, hess)
        grower.add_to(tree, raw)
        leaf = grower.engine.row_nodes()
    np.testing.assert_array_equal(raw, np.linspace(-1, 1, len(grad)) + tree.values[leaf, 0])
    # Multiples of 1/8 are added without rounding.
    weight = np.bincount(leaf, hess)
    leaves = np.flatnonzero(tree.nodes["left"] < 0)
    np.testing.assert_array_equal(tree.nodes["weight"][leaves], weight[leaves])
    value = -np.bincount(leaf, grad)[leaves] / (weight[leaves] + 1)
    np.testing.assert_allclose(tree.values[leaves, 0], value, rtol=1e-15)


def test_scores_of_windows_of_the_table():
    rng = np.random.default_rng(17)
    n = 200_000
    binned = make_binned(random_codes(rng, n, [255, 9]), [255, 9])
    grad = (np.abs(binned.columns[0] - 100.0) + 10.0 * binned.columns[1]).astype(np.float32)
    start = np.linspace(-1, 1, 2 * n).reshape(n, 2)
    for n_threads in (1, 2, 3):
        with newton_grower(binned, replace(BEST, max_leaves=20), n_threads) as grower:
            tree = tree_of(grower, grad, 1.0)
            leaf = grower.engine.row_nodes()
            for ascending in (False, True):
                raw = start.copy()
                grower.engine.add_to(tree.values[:, 0].copy(), raw[:, 1], ascending)
                np.testing.assert_array_equal(raw[:, 1], start[:, 1] + tree.values[leaf, 0])
                np.testing.assert_array_equal(raw[:, 0], start[:, 0])


# ---- draws of features --------------------------------------------------------------------------


def draw_problem(rng, n=200, p=5):
    binned = make_binned(random_codes(rng, n, [9] * p), 9)
    return binned, eighths(rng, n), 1.0


def test_features_of_a_tree(rng):
    # Each tree is the one that some three of the five features lead to, and all triples occur.
    binned, grad, hess = draw_problem(rng)
    params = GrowerParams(max_depth=3, feature_fractions=(0.6, 1.0, 1.0))
    grown = {}
    for triple in combinations(range(5), 3):
        part = make_binned(binned.columns[list(triple)].T, 9)
        nodes = grow_tree(part, grad, hess, GrowerParams(max_depth=3)).nodes.copy()
        inner = nodes["left"] >= 0
        nodes["feature"][inner] = np.array(triple)[nodes["feature"][inner]]
        grown[nodes.tobytes()] = triple
    assert len(grown) == 10
    drawn = Counter(
        grown[grow_tree(binned, grad, hess, params, seed=seed).nodes.tobytes()]
        for seed in range(300)
    )
    assert len(drawn) == 10
    # 30 are expected of each; five standard deviations are 26.
    assert min(drawn.values()) > 4
    assert max(drawn.values()) < 56


@pytest.mark.parametrize("share", [0.2, 0.05, 0.39])
def test_at_least_one_feature_is_left(rng, share):
    binned, grad, hess = draw_problem(rng)
    params = GrowerParams(max_depth=2, feature_fractions=(share, 1.0, 1.0))
    used = []
    for seed in range(60):
        nodes = grow_tree(binned, grad, hess, params, seed=seed).nodes
        used.append(set(nodes["feature"][nodes["left"] >= 0]))
    assert all(len(features) == 1 for features in used)
    assert set.union(*used) == set(range(5))


def feature_gains(binned, grad, hess, rows, params):
    """Best gain of every feature at a node."""
    grad, hess = np.float64(grad), np.broadcast_to(np.float64(hess), len(grad))
    found = oracle.options(binned, grad, hess, rows, params).by_feature
    return np.array([max((s.gain for s in found[f]), default=-np.inf) for f in found])


@pytest.mark.parametrize("by", ["level", "node"])
def test_features_of_a_level_and_of_a_node(rng, by):
    # Two of five features are drawn: at least one other feature must not beat the chosen one.
    binned, grad, hess = draw_problem(rng)
    fractions = (1.0, 0.4, 1.0) if by == "level" else (1.0, 1.0, 0.4)
    params = GrowerParams(max_depth=3, feature_fractions=fractions, min_child_weight=0.0)
    shared, roots = 0, Counter()
    for seed in range(40):
        tree = grow_tree(binned, grad, hess, params, seed=seed)
        rows_of = {0: np.arange(binned.n_rows)}
        allowed: dict[int, list] = {}
        for k, node in enumerate(tree.nodes):
            if node["left"] < 0:
                continue
            codes = binned.columns[node["feature"], rows_of[k]]
            left = (codes <= node["bin"]) & (codes < 9) | (codes == 9) & (node["missing_left"] == 1)
            rows_of[int(node["left"])] = rows_of[k][left]
            rows_of[int(node["right"])] = rows_of[k][~left]
            gains = feature_gains(binned, grad, hess, rows_of[k], params)
            np.testing.assert_allclose(gains[node["feature"]], node["gain"], rtol=1e-9)
            pairs = {
                pair
                for pair in combinations(range(5), 2)
                if node["feature"] in pair and gains[list(pair)].max() <= node["gain"] * (1 + 1e-9)
            }
            assert pairs, "no draw of two features leads to this split"
            allowed.setdefault(int(node["depth"]), []).append(pairs)
        common = all(set.intersection(*sets) for sets in allowed.values())
        assert common or by == "node"
        shared += common
        roots[int(tree.nodes["feature"][0])] += 1
    if by == "node":
        assert shared < 40, "every level used the same features throughout"
    assert len(roots) >= 3


def test_draws_depend_on_the_seed_alone(rng):
    binned, grad, hess = draw_problem(rng)
    params = GrowerParams(max_depth=4, feature_fractions=(0.8, 0.7, 0.7))
    with newton_grower(binned, params, 1) as grower:
        trees = [tree_of(grower, grad, hess, seed=seed) for seed in (1, 2, 2**64 - 1, 1)]
    same = trees[0].nodes.tobytes() == trees[3].nodes.tobytes()
    assert same and trees[0].nodes.tobytes() != trees[1].nodes.tobytes()
    small = grow_tree(binned, grad, hess, replace(params, histogram_bytes=1), seed=1)
    np.testing.assert_array_equal(small.nodes, trees[0].nodes)


def test_fractions_multiply(rng):
    # Half of eight features per tree, half of those per level, half of those per node: one. The
    # weakest feature could not win against a second one, yet all occur.
    binned, grad, hess = draw_problem(rng, 300, 8)
    params = GrowerParams(max_depth=1, feature_fractions=(0.5, 0.5, 0.5))
    roots = set()
    for seed in range(200):
        tree = grow_tree(binned, grad, hess, params, seed=seed)
        roots.add(int(tree.nodes["feature"][0]))
    assert roots == set(range(8))
