"""Split search against brute force. It is reached through trees of one split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import eighths, grow_tree, make_binned, problems, random_codes, rule_sets

from hybridtrees.core.grow.params import GrowerParams

# One split, nothing in its way.
FREE = GrowerParams(max_depth=1, min_child_weight=0.0, reg_lambda=0.0)


def check(binned, grad, hess, params, **more):
    """Hold one split against the oracle and return the tree."""
    tree = grow_tree(binned, grad, hess, params)
    oracle.check_tree(tree, binned, grad, hess, params, **more)
    return tree


@given(problems(), rule_sets(max_depth=1))
def test_any_problem_under_any_rules(problem, params):
    check(*problem, params)


@given(problems(max_features=2, max_bins=8, missing=False), rule_sets(max_depth=1))
def test_any_problem_without_missing_values(problem, params):
    check(*problem, params)


@given(problems(categorical=False))
def test_numbers_by_brute_force(problem):
    check(*problem, FREE)


@pytest.mark.parametrize("kind", ["unit", "pair32", "counts"])
def test_real_numbers_come_as_close_as_rounding_allows(rng, kind):
    n = 400
    n_bins = [255, 30, 4, 255]
    for _ in range(5):
        binned = make_binned(random_codes(rng, n, n_bins), n_bins, [0, 0, 1, 1])
        grad = rng.normal(size=n).astype(np.float32)
        hess = 1.0 if kind == "unit" else rng.random(n).astype(np.float32)
        params = replace(FREE, reg_lambda=1.0, min_samples_leaf=3 if kind == "counts" else 1)
        # 30 bits of the largest gradient, and gains are differences of scores.
        check(binned, grad, hess, params, rtol=1e-6)


@given(st.data())
def test_order_by_mean_response_beats_every_subset(data):
    # Fisher: with no penalty the best division of categories is a cut of that order.
    q = data.draw(st.integers(2, 8))
    n = data.draw(st.integers(2, 40))
    missing = data.draw(st.booleans())
    codes = data.draw(st.lists(st.integers(0, q if missing else q - 1), min_size=n, max_size=n))
    grad = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=n, max_size=n)), np.float32)
    steps = data.draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    hess = np.array(steps, np.float32) / 8 if data.draw(st.booleans()) else 1.0
    binned = make_binned(np.array(codes)[:, None], q, True)
    params = replace(FREE, max_cat_to_onehot=0)
    tree = grow_tree(binned, grad, hess, params)
    grad, hess = np.float64(grad), np.broadcast_to(np.float64(hess), n)
    best = oracle.all_subsets_score(binned.columns[0], grad, hess, params)
    gain = best - oracle.score(grad.sum(), hess.sum(), params)
    # There is no score where there is one group only.
    if best == -np.inf or gain <= 1e-9:
        assert tree.n_nodes == 1
    else:
        np.testing.assert_allclose(tree.nodes["gain"][0], gain, rtol=1e-9)


def test_few_categories_are_split_one_against_the_rest():
    # In the order of means 0 < 1 < 2 < 3 the best cut is in the middle.
    codes = np.repeat([0, 1, 2, 3], 5)[:, None]
    grad = np.repeat([-4.0, -3.0, 3.0, 4.0], 5)
    binned = make_binned(codes, 4, True)
    cut = check(binned, grad, 1.0, replace(FREE, max_cat_to_onehot=3))
    assert oracle.known_categories(cut, 0, 4) == {2, 3}
    alone = check(binned, grad, 1.0, replace(FREE, max_cat_to_onehot=4))
    assert len(oracle.known_categories(alone, 0, 4)) == 1
    assert alone.nodes["gain"][0] < cut.nodes["gain"][0]


def test_categories_go_left_by_rising_leaf_value():
    # Leaf values are minus the mean gradient: 2 has the lowest, then 0.
    codes = np.array([0, 0, 1, 1, 2, 2])[:, None]
    binned = make_binned(codes, 3, True)
    tree = check(binned, [1, 1, -5, -5, 3, 3], 1.0, replace(FREE, max_cat_to_onehot=0))
    assert oracle.known_categories(tree, 0, 3) == {0, 2}
    assert tree.values[1, 0] < tree.values[2, 0]


def test_all_255_categories_and_missing(rng):
    codes = np.tile(np.arange(256), 4)[:, None]
    tree = check(make_binned(codes, 255, True), eighths(rng, 1024), 1.0, FREE)
    n_left = 4 * (len(oracle.known_categories(tree, 0, 255)) + int(tree.nodes["missing_left"][0]))
    assert tree.nodes["n_samples"][1] == n_left


def test_empty_categories_are_in_no_set():
    codes = np.array([1, 1, 4, 4])[:, None]
    binned = make_binned(codes, 7, True)
    tree = check(binned, [1, 1, -1, -1], 1.0, replace(FREE, max_cat_to_onehot=0))
    assert oracle.known_categories(tree, 0, 7) == {1}


# ---- missing values -----------------------------------------------------------------------------


@pytest.mark.parametrize(("grad_missing", "left"), [(3.0, True), (-3.0, False)])
@pytest.mark.parametrize("hess", [1.0, "array"])
@pytest.mark.parametrize("categorical", [False, True])
def test_missing_values_go_to_the_better_side(grad_missing, left, hess, categorical):
    codes = np.array([0, 0, 1, 1, 2, 2])[:, None]
    grad = np.array([3, 3, -3, -3, grad_missing, grad_missing])
    hess = np.ones(6, dtype=np.float32) if hess == "array" else hess
    binned = make_binned(codes, 2, categorical)
    tree = check(binned, grad, hess, replace(FREE, max_cat_to_onehot=0))
    assert bool(tree.nodes["missing_left"][0]) == left
    assert tree.nodes["n_samples"][1] == 2 + 2 * left


@pytest.mark.parametrize("n_bins", [1, 3, 255])
def test_values_left_and_missing_right(n_bins):
    # Only whether a value is there tells the gradients apart.
    codes = np.concatenate([n_bins - 1 - np.arange(12) % n_bins, np.full(5, n_bins)])[:, None]
    grad = np.repeat([2.0, -1.0], [12, 5])
    tree = check(make_binned(codes, n_bins), grad, 1.0, FREE)
    assert tree.nodes["threshold"][0] == np.inf
    assert tree.nodes["bin"][0] == n_bins - 1
    assert not tree.nodes["missing_left"][0]
    assert list(tree.nodes["n_samples"]) == [17, 12, 5]


def test_a_category_alone_against_missing():
    tree = check(make_binned([[0], [0], [1], [1]], 1, True), [1, 1, -1, -1], 1.0, FREE)
    assert oracle.known_categories(tree, 0, 1) == {0}
    assert list(tree.nodes["n_samples"]) == [4, 2, 2]


def test_missing_rows_against_few_categories_together():
    codes = np.array([0, 1, 2, 0, 1, 2, 3, 3])[:, None]
    grad = np.repeat([1.0, -1.0], [6, 2])
    tree = check(make_binned(codes, 3, True), grad, 1.0, replace(FREE, max_cat_to_onehot=4))
    assert oracle.known_categories(tree, 0, 3) == {0, 1, 2}
    assert list(tree.nodes["n_samples"]) == [8, 6, 2]


def test_without_missing_rows_they_will_follow_the_heavier_child():
    binned = make_binned([[0], [1], [1]], 2)
    assert not check(binned, [1, -1, -1], 1.0, FREE).nodes["missing_left"][0]
    heavy = np.array([4, 1, 1], dtype=np.float32)
    assert check(binned, [1, -1, -1], heavy, FREE).nodes["missing_left"][0]
    # Other rows of the table may have missing values: the rows of the node count.
    binned = make_binned([[0], [1], [1], [2]], 2)
    tree = grow_tree(
        binned, [1, -1, -1, 50], heavy[[0, 1, 2, 0]], FREE, rows=np.arange(3, dtype=np.uint32)
    )
    assert tree.nodes["missing_left"][0] == 1
    assert list(tree.nodes["n_samples"]) == [3, 1, 2]


def test_gradients_of_missing_rows_with_next_to_no_hessian_count():
    # The hessian of the missing row rounds to nothing, its gradient does not.
    codes = np.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 0])[:, None]
    grad = np.array([1, 1, -1, -1, 100, 1, 1, -1, -1, 1], dtype=np.float32)
    hess = np.full(10, 0.25, dtype=np.float32)
    hess[4] = 1e-16
    rounded = hess.copy()
    rounded[4] = 0
    for kinds, one_hot in [([0, 0], 0), ([1, 0], 0), ([1, 0], 4)]:
        # A second column on which the children can be split.
        binned = make_binned(np.c_[codes, np.arange(10)], [4, 10], kinds)
        params = replace(FREE, max_depth=3, reg_lambda=1.0, max_cat_to_onehot=one_hot)
        tree = grow_tree(binned, grad, hess, params)
        oracle.check_tree(tree, binned, grad, rounded, params)


# ---- rules --------------------------------------------------------------------------------------


def ramp(n=10):
    """One row per bin; the gradient grows, so the free split is in the middle."""
    return make_binned(np.arange(n)[:, None], n), np.arange(n) - (n - 1) / 2


@pytest.mark.parametrize("hess", [1.0, "array"])
@pytest.mark.parametrize(("least", "n_nodes"), [(5.0, 3), (5.0 + 2**-10, 1)])
def test_min_child_weight_is_met_exactly(hess, least, n_nodes):
    binned, grad = ramp()
    hess = np.ones(10, dtype=np.float32) if hess == "array" else hess
    assert check(binned, grad, hess, replace(FREE, min_child_weight=least)).n_nodes == n_nodes


@pytest.mark.parametrize("hess", [1.0, "array"])
@pytest.mark.parametrize(("least", "n_nodes"), [(5, 3), (6, 1)])
def test_min_samples_leaf_counts_rows(hess, least, n_nodes):
    binned, grad = ramp()
    hess = np.linspace(0.125, 8, 10, dtype=np.float32) if hess == "array" else hess
    assert grow_tree(binned, grad, hess, replace(FREE, min_samples_leaf=least)).n_nodes == n_nodes


def test_min_samples_leaf_moves_the_split():
    binned, _ = ramp()
    grad = np.array([9.0] + [-1.0] * 9)
    assert list(check(binned, grad, 1.0, FREE).nodes["n_samples"]) == [10, 1, 9]
    tree = check(binned, grad, 1.0, replace(FREE, min_samples_leaf=3))
    assert list(tree.nodes["n_samples"]) == [10, 3, 7]


def test_min_gain_is_the_least_gain():
    binned, grad = ramp()
    gain = float(check(binned, grad, 1.0, FREE).nodes["gain"][0])
    assert check(binned, grad, 1.0, replace(FREE, min_gain=gain)).n_nodes == 3
    assert check(binned, grad, 1.0, replace(FREE, min_gain=np.nextafter(gain, 1e9))).n_nodes == 1


def test_no_gain_no_split():
    binned, _ = ramp()
    assert check(binned, np.ones(10), 1.0, FREE).n_nodes == 1
    assert check(binned, np.zeros(10), 1.0, FREE).n_nodes == 1


def test_reg_alpha_takes_its_share_of_the_gradient():
    binned, grad = ramp(4)
    tree = check(binned, grad, 1.0, replace(FREE, reg_alpha=0.5))
    # Sums -2 and 2, each less 0.5, over two rows.
    np.testing.assert_allclose(tree.values[:, 0], [0, 0.75, -0.75])
    np.testing.assert_allclose(tree.nodes["gain"][0], 2 * 1.5**2 / 2)
    assert check(binned, grad, 1.0, replace(FREE, reg_alpha=2.0)).n_nodes == 1


def test_max_delta_step_limits_values_and_gains():
    binned, grad = ramp(4)
    tree = check(binned, grad, 1.0, replace(FREE, max_delta_step=0.25))
    np.testing.assert_allclose(tree.values[:, 0], [0, 0.25, -0.25])
    # Each child saves 2 (2 * 0.25) - 2 * 0.25^2.
    np.testing.assert_allclose(tree.nodes["gain"][0], 2 * (1 - 0.125))


# ---- ties and sizes -----------------------------------------------------------------------------


def test_ties_go_to_the_lower_feature_and_the_lower_bin():
    codes = np.array([0, 0, 3, 3])
    tree = check(make_binned(np.array([codes] * 3).T, 5), [1, 1, -1, -1], 1.0, FREE)
    assert (tree.nodes["feature"][0], tree.nodes["bin"][0]) == (0, 0)
    # Cutting off either end gains the same.
    tree = check(make_binned([[0], [1], [1], [2]], 3), [1, 0, 0, 1], 1.0, FREE)
    assert tree.nodes["bin"][0] == 0


# Two features that differ in two rows only; the second is better by 2 % of `step`, relatively.
@pytest.mark.parametrize(("step", "feature"), [(0.0, 0), (2.0**-20, 0), (2.0**-10, 1)])
@pytest.mark.parametrize("hess", [1.0, "array"])
def test_gains_within_the_rounding_of_float32_are_a_tie(step, feature, hess):
    first = np.repeat([0, 1], 100)
    second = first.copy()
    second[[99, 100]] = second[[100, 99]]
    grad = np.repeat([1.0, -1.0], 100)
    grad[99], grad[100] = 0.5, 0.5 + step
    hess = np.ones(200, dtype=np.float32) if hess == "array" else hess
    tree = check(make_binned(np.array([first, second]).T, 2), grad, hess, FREE)
    assert tree.nodes["feature"][0] == feature


@pytest.mark.parametrize("n_bins", [2, 7, 8, 9, 128, 254, 255])
@pytest.mark.parametrize("hess", [1.0, "array"])
def test_every_cut_can_be_found(n_bins, hess):
    # A gradient that changes its sign after bin b, for the first, the last and some other b.
    codes = np.arange(n_bins)[:, None]
    binned = make_binned(codes, n_bins)
    hess = np.ones(n_bins, dtype=np.float32) if hess == "array" else hess
    for b in sorted({0, 1, n_bins // 2, n_bins - 2} & set(range(n_bins - 1))):
        tree = grow_tree(binned, np.where(codes[:, 0] <= b, 1.0, -1.0), hess, FREE)
        assert (tree.nodes["bin"][0], tree.nodes["n_samples"][1]) == (b, b + 1)


# Around powers of two the bits that are left for the sum of gradients change.
@pytest.mark.parametrize("n", [255, 256, 32_767, 32_768, 65_535, 65_536, 131_071, 131_072])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_as_large_as_they_come(n, sign):
    codes = np.zeros((n, 1))
    codes[-n // 50 :] = 2
    codes[-n // 100 :] = 3
    # All bits of the fixed-point numbers are set.
    grad = np.where(codes[:, 0] < 2, sign, -sign) * np.float32(1 - 2.0**-24)
    tree = check(make_binned(codes, 3), grad, 0.5, FREE, rtol=1e-6)
    assert (tree.nodes["bin"][0], bool(tree.nodes["missing_left"][0])) == (0, False)
    assert tree.nodes["n_samples"][1] == (codes < 2).sum()


def test_one_row_constant_columns_and_all_missing():
    assert check(make_binned([[0]], 3), [5.0], 1.0, FREE).n_nodes == 1
    binned = make_binned([[0, 2, 255, 1]] * 6, [1, 4, 255, 3], [0, 0, 0, 1])
    assert check(binned, np.arange(6.0), 1.0, FREE).n_nodes == 1


# Few cells are scanned serially, more by two threads at once for two children, many by feature.
@pytest.mark.parametrize("n_features", [3, 10, 80])
def test_threads_find_the_same_split(rng, n_features):
    n = 300
    n_bins = np.where(np.arange(n_features) % 5, 255, 6)
    binned = make_binned(random_codes(rng, n, n_bins), n_bins, np.arange(n_features) % 4 == 3)
    grad, hess = eighths(rng, n), eighths(rng, n, 1, 8)
    params = replace(FREE, max_depth=2, min_child_weight=1.0)
    one = grow_tree(binned, grad, hess, params)
    if n_features < 80:
        oracle.check_tree(one, binned, grad, hess, params)
    for n_threads in (2, 3):
        other = grow_tree(binned, grad, hess, params, n_threads=n_threads)
        np.testing.assert_array_equal(other.nodes, one.nodes)
        np.testing.assert_array_equal(other.categories, one.categories)
