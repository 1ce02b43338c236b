"""Small nodes of binned tables: the search by drawn features against that along sorted lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.grow import grower as grower_module
from hybridtrees.core.grow._leaf_passes import feature_gains, leaf_means, pair_gains
from hybridtrees.core.grow.cart import TargetLeaves, TargetStatistics, cart_params, cart_table
from hybridtrees.core.grow.grower import BareLeaves, Grower
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import BinThresholds
from hybridtrees.core.search._sorted import bin_ends
from hybridtrees.core.search._sorted_search import SortedSearch

RULES = {"max_depth": 0, "min_gain": -np.inf, "min_child_weight": 0.0, "frontier": "depth-first"}


def draw_table(rng, n, p=7, missing=0.0):
    """Many and few values, a category, and rows that are equal in all of them."""
    X = rng.normal(size=(n, p))
    X[:, 1] = np.round(X[:, 1])
    X[:, 2] = rng.integers(0, 5, n)
    X[:, 3] = rng.integers(0, 2, n)
    X[rng.random(n) < 0.2] = X[0]
    X[rng.random(X.shape) < missing] = np.nan
    is_categorical = np.zeros(p, dtype=bool)
    is_categorical[2] = True
    return X, is_categorical


def grow_both(X, is_categorical, y, weight, seed=0, **rules):
    """Nodes of the search by drawn features, and of the one along lists of the same bins."""
    params = GrowerParams(**{**RULES, **rules})
    table = cart_table(X, is_categorical, "hist", weight=weight)
    drawn = grow_cart(table, y, weight, params, seed)
    whole = replace(cart_params(params, "squared_error"), subtree_rows=0)
    statistics = TargetStatistics(y.reshape(-1, 1), weight, "squared_error")
    with Grower(table, whole, BareLeaves(), search=along_lists) as along:
        grown = along.grow(statistics, statistics.rows, seed)
        return drawn.tree.nodes, grown.nodes, drawn, along.row_nodes()


def grow_cart(table, y, weight, params, seed=0):
    """Grow a tree as CART does."""
    statistics = TargetStatistics(y.reshape(-1, 1), weight, "squared_error")
    params = cart_params(params, "squared_error")
    with Grower(table, params, TargetLeaves()) as grower:
        return grower.grow(statistics, statistics.rows, seed)


def along_lists(table, params, n_threads, statistics, use_tail):
    """Open a search along the lists of the bins, where histograms would do."""
    shape = (table.n_features, table.n_rows, table.n_categories, params, n_threads)
    return SortedSearch(*shape, *statistics.shape, table.lists(n_threads), True)


def assert_same(mine, theirs):
    for name in ("left", "right", "feature", "n_samples", "missing_left", "depth"):
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    numeric = (mine["left"] >= 0) & (mine["category_start"] < 0)
    np.testing.assert_array_equal(mine["threshold"][numeric], theirs["threshold"][numeric])


@given(
    st.integers(2, 400),
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 2, 3, 7]),
    st.booleans(),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["none", "counts", "numbers"]),
    st.sampled_from([1, 1, 3, 20]),
)
def test_the_trees_are_those_of_sorted_lists(n, seed, max_features, ties, missing, weights, leaf):
    rng = np.random.default_rng(seed)
    X, is_categorical = draw_table(rng, n, missing=missing)
    y = rng.integers(-4, 5, n).astype(float) if seed % 2 else rng.normal(size=n)
    weight = None
    if weights == "counts":
        weight = rng.multinomial(n, np.full(n, 1 / n)).astype(float)
    elif weights == "numbers":
        weight = rng.uniform(0.1, 3.0, n)
    rules = {"max_features": max_features, "random_ties": ties, "min_samples_leaf": leaf}
    mine, theirs, drawn, ended = grow_both(X, is_categorical, y, weight, seed, **rules)
    assert_same(mine, theirs)
    np.testing.assert_array_equal(drawn.leaf, ended)


@pytest.mark.parametrize("n", [63, 64, 65, 66, 511, 512])
@pytest.mark.parametrize("rules", [{}, {"min_child_weight": 4.0}, {"max_depth": 3}])
def test_every_size_of_node_and_bound_on_children(rng, n, rules):
    X, is_categorical = draw_table(rng, n)
    weight = rng.integers(1, 4, n).astype(float)
    mine, theirs, _, _ = grow_both(X, is_categorical, rng.normal(size=n), weight, **rules)
    assert len(mine) > 5
    assert_same(mine, theirs)


@pytest.mark.parametrize("max_features", [1, 8])
def test_nodes_above_the_limit_are_divided_by_histograms(rng, monkeypatch, max_features):
    """The same tree, whether its nodes become tasks early or late, where sums are exact."""
    n = 3000
    X, is_categorical = draw_table(rng, n, p=40)
    y = rng.integers(0, 2, n).astype(float)
    grown = []
    for limit in (64, 700, 5000):
        monkeypatch.setattr(grower_module, "SUBTREE_ROWS_BINNED", limit)
        monkeypatch.setattr(grower_module, "SUBTREE_ROWS_FEW_FEATURES", limit)
        table = cart_table(X, is_categorical, "hist")
        params = GrowerParams(**RULES, max_features=max_features)
        grown.append(grow_cart(table, y, None, params))
    for other in grown[1:]:
        np.testing.assert_array_equal(other.leaf, grown[0].leaf)


# ---- thresholds ---------------------------------------------------------------------------------


def test_thresholds_stand_in_the_middle_of_the_gap():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    y = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    mine, _, _, _ = grow_both(X, np.zeros(1, bool), y, None)
    assert mine["threshold"][0] == 6.0
    # Rows of no weight make bins, and have no say in the gap.
    weight = np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    mine, _, _, _ = grow_both(X, np.zeros(1, bool), y, weight)
    assert mine["threshold"][0] == 6.0


def test_few_values_give_the_thresholds_of_the_exact_search(rng):
    n = 400
    X = rng.integers(0, 60, (n, 4)).astype(float)
    y = rng.normal(size=n)
    trees = []
    for splitter in ("hist", "exact"):
        table = cart_table(X, np.zeros(4, bool), splitter)
        trees.append(grow_cart(table, y, None, GrowerParams(**RULES)).tree)
    assert trees[0].n_leaves > 100
    for name in ("feature", "threshold", "left", "right"):
        np.testing.assert_array_equal(trees[0].nodes[name], trees[1].nodes[name])


@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float64]), st.integers(2, 600))
def test_thresholds_part_the_training_rows_as_the_bins_do(seed, dtype, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(dtype)
    # Neighbouring numbers, between which no float32 fits.
    X[:, 2] = 1.0 + rng.integers(0, 300, n) * np.finfo(dtype).eps
    y = rng.normal(size=n)
    table = cart_table(X, np.zeros(3, bool), "hist", max_bins=16)
    grown = grow_cart(table, y, None, GrowerParams(**RULES))
    at = np.zeros(n, dtype=int)
    nodes = grown.tree.nodes
    while np.any(nodes["left"][at] >= 0):
        inner = np.flatnonzero(nodes["left"][at] >= 0)
        own = nodes[at[inner]]
        left = X[inner, own["feature"]] <= own["threshold"]
        at[inner] = np.where(left, own["left"], own["right"])
    np.testing.assert_array_equal(at, grown.leaf)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_bins(rng, order, dtype):
    n, p = 5000, 3
    X = np.asarray(rng.normal(size=(n, p)), dtype=dtype, order=order)
    X[rng.random(X.shape) < 0.1] = np.nan
    codes = rng.integers(0, 9, (p, n)).astype(np.uint8)
    least, largest = np.full((p, 256), np.inf), np.full((p, 256), -np.inf)
    bin_ends(X, codes, least, largest, 2)
    for f in range(p):
        for code in range(9):
            own = X[codes[f] == code, f]
            assert least[f, code] == np.nanmin(own) and largest[f, code] == np.nanmax(own)
    assert np.all(least[:, 9:] == np.inf) and np.all(largest[:, 9:] == -np.inf)
    with pytest.raises(ValueError, match="do not fit"):
        bin_ends(X[1:], codes, least, largest, 1)
    with pytest.raises(TypeError, match="float32"):
        bin_ends(np.zeros((n, p), dtype=int), codes, least, largest, 1)


def test_sparse_tables_have_the_thresholds_of_dense_ones(rng):
    import scipy.sparse

    X = rng.normal(size=(300, 20)) * (rng.random((300, 20)) < 0.3)
    table = cart_table(X, np.zeros(20, bool), "hist")
    own = BinThresholds(table.binned, scipy.sparse.csc_array(X))
    for mine, theirs in zip(own._ends, table.bin_thresholds._ends, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_rows_without_weight_do_not_move_thresholds(rng, form):
    import scipy.sparse

    X, weight = rng.normal(size=(300, 4)), np.repeat([0.0, 2.0], 150)
    X[rng.random(X.shape) < 0.2] = np.nan
    read = scipy.sparse.csc_array if form == "sparse" else np.asarray
    both = (
        cart_table(read(X), np.zeros(4, bool), "hist", weight=weight),
        cart_table(read(X[150:]), np.zeros(4, bool), "hist"),
    )
    for mine, theirs in zip(*(table.bin_thresholds._ends for table in both), strict=True):
        np.testing.assert_array_equal(mine, theirs)


# ---- sums over nodes ----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_means_and_gains_of_nodes(rng, weighted):
    nodes = np.zeros(5, dtype=NODE_DTYPE)
    nodes["left"], nodes["right"] = [1, -1, 3, -1, -1], [2, -1, 4, -1, -1]
    nodes["feature"] = [2, -1, 0, -1, -1]
    leaf = np.array([1, 1, 3, 4, 4, -1, 1], dtype=np.int32)
    y = rng.normal(size=(7, 2))
    weight = rng.uniform(0.5, 2.0, 7) if weighted else None
    value = np.full((5, 2), 9.0)
    rows = np.argsort(leaf, kind="stable").astype(np.uint32)
    start, stop = (np.searchsorted(leaf[rows], np.arange(5), side) for side in ("left", "right"))
    leaf_means(nodes, y, weight, rows, start, stop, value)
    assert np.all(value[[0, 2]] == 9.0)
    np.testing.assert_array_equal(value[3], y[2])
    for node in (1, 4):
        own = leaf == node
        mean = np.average(y[own], axis=0, weights=None if weight is None else weight[own])
        np.testing.assert_allclose(value[node], mean, rtol=1e-14)
    sums = np.array([[3.0, 6.0], [1.0, 2.0], [2.0, 4.0], [2.0, 1.0], [0.0, 3.0]])
    pair_gains(nodes, sums)
    # The decrease of the sum of squares: 2^2 / 1 + 0^2 / 3 - 2^2 / 4.
    np.testing.assert_allclose(nodes["gain"], [0.0, 0.0, 3.0, 0.0, 0.0], atol=1e-15)
    total = np.zeros(3)
    feature_gains(nodes, total)
    np.testing.assert_allclose(total, [3.0, 0.0, 0.0], atol=1e-15)
