"""Whole trees: rules, frontiers, samples of rows, the histogram pool, and what goes with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
from growers import newton_grower, tree_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import eighths, grow_tree, make_binned, problems, random_codes, rule_sets, values_of

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow.grower import Statistics
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._histogram_search import HistogramSearch
from hybridtrees.core.tree.tree import TreeEnsemble

FRONTIERS = ("depth-wise", "best-first", "depth-first")
DEEP = GrowerParams(max_depth=0, min_child_weight=0.0, reg_lambda=0.5)


def same_tree(a, b):
    """Every byte of two trees."""
    np.testing.assert_array_equal(a.nodes, b.nodes)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.categories, b.categories)


def sample_problem(rng, n=300, categorical=True, constant=False):
    n_bins = [12, 255, 5, 30]
    kinds = [0, 0, 1, 1] if categorical else None
    binned = make_binned(random_codes(rng, n, n_bins), n_bins, kinds)
    return binned, eighths(rng, n), 1.0 if constant else eighths(rng, n, 1, 8)


# ---- against the oracle -------------------------------------------------------------------------


@given(problems(), rule_sets(), st.sampled_from(FRONTIERS))
def test_any_problem_under_any_rules(problem, params, frontier):
    binned, grad, hess = problem
    params = replace(params, frontier=frontier)
    tree = grow_tree(binned, grad, hess, params)
    oracle.check_tree(tree, binned, grad, hess, params)


@given(problems(max_rows=30), st.sampled_from(FRONTIERS), st.integers(1, 8))
def test_max_leaves(problem, frontier, max_leaves):
    binned, grad, hess = problem
    params = replace(DEEP, frontier=frontier, max_leaves=max_leaves)
    tree = grow_tree(binned, grad, hess, params)
    assert tree.n_leaves <= max_leaves
    oracle.check_tree(tree, binned, grad, hess, params)


@pytest.mark.parametrize("frontier", FRONTIERS)
@pytest.mark.parametrize("constant", [True, False])
def test_larger_trees(rng, frontier, constant):
    binned, grad, hess = sample_problem(rng, constant=constant)
    params = replace(DEEP, frontier=frontier, max_leaves=25, min_samples_leaf=2)
    tree = grow_tree(binned, grad, hess, params, scale=0.25)
    assert tree.n_leaves == 25
    oracle.check_tree(tree, binned, grad, hess, params, scale=0.25)


def test_without_limits_frontiers_agree_on_the_leaves(rng):
    binned, grad, _ = sample_problem(rng)
    trees = [grow_tree(binned, grad, 1.0, replace(DEEP, frontier=f)) for f in FRONTIERS]
    found = {tuple(sorted(t.values[t.nodes["left"] < 0, 0])) for t in trees}
    assert len(found) == 1


@given(problems(max_rows=30), rule_sets(), st.randoms())
def test_a_sample_of_rows(problem, params, random):
    binned, grad, hess = problem
    n = binned.n_rows
    rows = np.array(sorted(random.sample(range(n), random.randint(1, n))), dtype=np.uint32)
    tree = grow_tree(binned, grad, hess, params, rows=rows)
    oracle.check_tree(tree, binned, grad, hess, params, rows=rows)


def test_rows_of_weight_nought_do_not_steer(rng):
    binned, grad, hess = sample_problem(rng, categorical=False)
    keep = rng.random(binned.n_rows) < 0.7
    with_them = grow_tree(binned, grad * keep, hess * keep)
    fields = ["feature", "bin", "left", "right", "gain", "weight"]
    without = grow_tree(binned, grad, hess, rows=np.flatnonzero(keep).astype(np.uint32))
    np.testing.assert_array_equal(with_them.nodes[fields], without.nodes[fields])
    np.testing.assert_array_equal(with_them.values, without.values)


def test_weight_two_is_the_row_twice(rng):
    binned, grad, hess = sample_problem(rng)
    twice = rng.random(binned.n_rows) < 0.4
    factor = np.where(twice, 2, 1).astype(np.float32)
    weighted = grow_tree(binned, grad * factor, hess * factor)
    rows = np.concatenate([np.arange(binned.n_rows), np.flatnonzero(twice)])
    repeated = grow_tree(binned.take(rows), grad[rows], hess[rows])
    fields = ["feature", "bin", "left", "right", "gain", "weight", "missing_left"]
    np.testing.assert_array_equal(weighted.nodes[fields], repeated.nodes[fields])
    np.testing.assert_array_equal(weighted.values, repeated.values)


# ---- the pool -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frontier", FRONTIERS)
@pytest.mark.parametrize("constant", [True, False])
def test_a_pool_that_is_too_small_changes_nothing(rng, frontier, constant):
    binned, grad, hess = sample_problem(rng, 500, constant=constant)
    params = replace(DEEP, frontier=frontier, max_leaves=80)
    tree = grow_tree(binned, grad, hess, params)
    for n_bytes in (1, 20_000):
        same_tree(tree, grow_tree(binned, grad, hess, replace(params, histogram_bytes=n_bytes)))


def test_a_grower_is_reused_across_layouts_and_samples(rng):
    binned, grad, hess = sample_problem(rng)
    jobs = [(grad, 1.0, None), (grad, hess, None), (-grad, hess, np.arange(90)), (grad, 2.0, None)]
    jobs = [(g, h, None if r is None else r.astype(np.uint32)) for g, h, r in jobs]
    fresh = [grow_tree(binned, g, h, DEEP, rows=r) for g, h, r in jobs]
    with newton_grower(binned, DEEP, 1) as grower:
        for _ in range(2):
            for (g, h, r), expected in zip(jobs, fresh, strict=True):
                same_tree(tree_of(grower, g, h, rows=r), expected)


def test_two_growers_of_one_table_do_not_disturb_each_other(rng):
    # The first has the spare bytes of the records; the second needs an array of its own.
    binned, grad, _ = sample_problem(rng)
    other = eighths(rng, binned.n_rows)
    alone = grow_tree(binned, grad, 1.0, DEEP)
    binned.records[:, -4:] = 0
    with newton_grower(binned, DEEP, 1) as first:
        with newton_grower(binned, DEEP, 1) as second:
            same_tree(tree_of(first, grad, 1.0), alone)
            written = binned.records[:, -4:].copy()
            assert written.any()
            tree_of(second, other, 1.0)
            np.testing.assert_array_equal(binned.records[:, -4:], written)
        with newton_grower(binned, DEEP, 1) as third:
            tree_of(third, other, 1.0)
            np.testing.assert_array_equal(binned.records[:, -4:], written)
    # The bytes are free again.
    with newton_grower(binned, DEEP, 1) as grower:
        tree_of(grower, other, 1.0)
    assert (binned.records[:, -4:] != written).any()


@pytest.mark.parametrize("constant", [True, False])
def test_tail_and_own_array_lead_to_the_same_tree(rng, constant):
    binned, grad, hess = sample_problem(rng, constant=constant)
    both = []
    for tail in (True, False):
        search = HistogramSearch(binned, DEEP, tail, 1)
        search.begin(Statistics(grad, hess), None, 0)
        both.append(TreeGrower(search, 0).grow())
    np.testing.assert_array_equal(both[0].nodes, both[1].nodes)
    np.testing.assert_array_equal(both[0].sums, both[1].sums)


# ---- leaves and rows ----------------------------------------------------------------------------


def test_values_are_exact_sums_whatever_the_quantisation(rng):
    # One huge gradient coarsens the integers; sums of leaves must not notice. More than 4,096 rows
    # of a leaf are summed in blocks.
    n = 30_000
    binned = make_binned(rng.integers(0, 8, (n, 1)), 8)
    grad = rng.normal(size=n).astype(np.float32)
    grad[0] = 1e12
    hess = rng.random(n).astype(np.float32)
    params = GrowerParams(max_depth=1, reg_lambda=1.0)
    tree = grow_tree(binned, grad, hess, params)
    assert tree.n_leaves == 2
    for leaf, rows in leaf_rows(tree, binned).items():
        total = sum(map(float, grad[rows])), sum(map(float, hess[rows]))
        np.testing.assert_allclose(tree.nodes["weight"][leaf], total[1], rtol=1e-12)
        np.testing.assert_allclose(tree.values[leaf, 0], -total[0] / (total[1] + 1), rtol=1e-12)


def leaf_rows(tree, binned):
    """Rows of each leaf, by walking raw values."""
    leaf = TreeEnsemble([tree], binned.n_features).apply(values_of(binned), 1)[:, 0]
    return {k: np.flatnonzero(leaf == k) for k in np.unique(leaf)}


@given(problems(), st.sampled_from(FRONTIERS))
def test_rows_stand_leaf_by_leaf_in_their_old_order(problem, frontier):
    binned, grad, hess = problem
    search = HistogramSearch(binned, replace(DEEP, frontier=frontier), True, 1)
    search.begin(Statistics(grad, hess), None, 0)
    grower = TreeGrower(search, 0)
    nodes = grower.grow().nodes
    leaves, (order, start, stop) = grower.row_nodes(), grower.segments()
    assert sorted(order) == list(range(binned.n_rows))
    np.testing.assert_array_equal(stop - start, nodes["n_samples"])
    for k in range(len(nodes)):
        left, right = nodes["left"][k], nodes["right"][k]
        if left < 0:
            np.testing.assert_array_equal(order[start[k] : stop[k]], np.flatnonzero(leaves == k))
        else:
            assert (start[left], stop[left], stop[right]) == (start[k], start[right], stop[k])


@given(problems(), rule_sets(), st.booleans())
def test_raw_scores_of_training_are_those_of_prediction(problem, params, sampled):
    binned, grad, hess = problem
    n = binned.n_rows
    rows = np.arange(0, n, 2, dtype=np.uint32) if sampled else None
    raw = np.zeros((n, 2))
    with newton_grower(binned, params, 1) as grower:
        tree = tree_of(grower, grad, hess, rows=rows, scale=0.5)
        grower.add_to(tree, raw[:, 1])
    expected = np.zeros((n, 1))
    TreeEnsemble([tree], binned.n_features).add_raw(values_of(binned), expected, 1)
    np.testing.assert_array_equal(raw[:, 1], expected[:, 0])
    assert not raw[:, 0].any()


@pytest.mark.parametrize("max_bins", [4, 30, 255])
def test_mapper_grower_and_prediction_agree(rng, max_bins):
    # From raw values through bins to thresholds and category sets, and back.
    n = 600
    X = np.column_stack(
        [
            rng.normal(size=n),
            rng.integers(0, 3, n),
            np.exp(3 * rng.normal(size=n)),
            rng.integers(0, 70, n),
            rng.integers(0, 5, n) * 100,
        ]
    )
    X[rng.random(X.shape) < 0.15] = np.nan
    weight = rng.integers(0, 3, n).astype(float)
    weight[X[:, 3] < 9] = 0
    mapper = BinMapper(max_bins=max_bins, categorical_features=[1, 3, 4])
    binned = mapper.fit(X, sample_weight=weight).transform(X)
    y = np.where(np.isnan(X[:, 3]) | (X[:, 3] % 3 == 0), 2.0, 0) + np.nan_to_num(X[:, 0])
    params = replace(DEEP, max_leaves=40, frontier="best-first")
    raw, expected = np.zeros(n), np.zeros((n, 1))
    with newton_grower(binned, params, 1, mapper.category_to_bin_) as grower:
        tree = tree_of(grower, (-y * weight).astype(np.float32), weight.astype(np.float32))
        grower.add_to(tree, raw)
    TreeEnsemble([tree], 5).add_raw(X, expected, 1)
    np.testing.assert_array_equal(raw, expected[:, 0])
    assert {1, 3, 4} & set(tree.nodes["feature"])


@pytest.mark.parametrize("direction", [1, -1])
def test_unseen_categories_go_where_missing_values_go(direction):
    X = np.array([0, 0, 1, 1, 2, 2, np.nan, np.nan] * 3)[:, None]
    grad = direction * np.float32([3, 3, 3, 3, -3, -3, 3, 3] * 3)
    mapper = BinMapper(categorical_features=[0])
    binned = mapper.fit_transform(X)
    unseen = np.array([3, 4, 31, 32, 255, 256, 1e6, -1, np.nan])[:, None]
    assert set(mapper.transform(unseen).columns[0]) == {3}
    for sets in (mapper.category_to_bin_, None):
        with newton_grower(
            binned, replace(DEEP, max_depth=1, max_cat_to_onehot=0), 1, sets
        ) as grower:
            tree = tree_of(grower, grad, 1.0)
        leaves = TreeEnsemble([tree], 1).apply(unseen, 1)[:, 0]
        assert set(leaves) == {1 if tree.nodes["missing_left"][0] else 2}


# ---- refusals -----------------------------------------------------------------------------------


def test_bad_arguments_are_refused():
    binned = make_binned([[0], [1], [1]], 2)
    good = np.ones(3, dtype=np.float32)
    with newton_grower(binned, GrowerParams(), 1) as grower:
        with pytest.raises(ValueError, match="one gradient per row"):
            tree_of(grower, good[:2], 1.0)
        with pytest.raises(ValueError, match="one hessian per row"):
            tree_of(grower, good, good[:2])
        for rows in ([], [0, 3], [1, 0], [1, 1], [0, 1, 2, 2]):
            with pytest.raises(ValueError, match="rows must"):
                tree_of(grower, good, 1.0, rows=np.array(rows, dtype=np.uint32))
        tree = tree_of(grower, good, 1.0)
        with pytest.raises(ValueError, match="do not fit"):
            grower.add_to(tree, np.zeros(2))


def test_a_failed_start_gives_the_spare_bytes_back():
    binned = make_binned([[0], [1]], 2)
    grad = np.array([1, -1], dtype=np.float32)
    with pytest.raises(KeyError):
        tree_of(newton_grower(binned, replace(GrowerParams(), frontier="upwards")), grad, 1.0)
    grow_tree(binned, grad, 1.0)
    assert binned.records[:, -4:].any()
