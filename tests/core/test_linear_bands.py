"""Bands of linear trees: which trees are summed together, and rows that no leaf clips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linear_leaf_cases import N_FEATURES, check, linear_tree, predictions, table
from strategies import random_tree

from hybridtrees.core.grow._leaf_passes import short_bounds
from hybridtrees.core.tree.tree import TreeEnsemble

BAND = 8  # trees that are summed together: linear_leaves.h


def many(rng, n_trees, **settings):
    return [linear_tree(rng, int(n), **settings) for n in rng.integers(2, 40, n_trees)]


# ---- sums over many trees -----------------------------------------------------------------------


@pytest.mark.parametrize("n_trees", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limits", [{}, {"clip": True}, {"clip": True, "floats": True}])
@pytest.mark.parametrize("missing", [0, 0.1])
def test_any_number_of_trees(rng, n_trees, dtype, limits, missing):
    check(many(rng, n_trees, **limits), table(rng, 90, dtype, missing))


@pytest.mark.parametrize("n_features", [20, 40])
@pytest.mark.parametrize("n_terms", [5, 12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bands_of_wide_leaves(rng, n_features, n_terms, dtype):
    shape = {"n_terms": n_terms, "n_features": n_features}
    trees = many(rng, 11, clip=True, floats=True, **shape)
    check(trees, table(rng, 100, dtype, 0.01, n_features))


# Blocks have 64 rows or up to 256; the last one has what is left.
@pytest.mark.parametrize("n_rows", [1, 4, 5, 63, 65, 128, 200, 256, 257, 600])
def test_any_number_of_rows(rng, n_rows):
    trees = many(rng, 10, clip=True, floats=True)
    X = table(rng, n_rows, np.float32)
    raw = check(trees, X)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(
            predictions(TreeEnsemble(trees, N_FEATURES), X, n_threads), raw
        )


def test_many_columns_in_blocks_of_few_rows(rng):
    shape = {"n_terms": 4, "n_features": 90}
    trees = many(rng, 30, clip=True, **shape)
    check(trees, table(rng, 300, np.float32, 0, 90))


@pytest.mark.parametrize("bound", [False, True])
def test_outputs_have_bands_of_their_own(rng, bound):
    trees = many(rng, 29, clip=True, bound=bound)
    trees[4] = random_tree(rng, 12, N_FEATURES)  # constant leaves end a band
    output = rng.integers(0, 3, len(trees))
    check(trees, table(rng, 120), 3, output)
    # Taken alone, the trees of an output give the same bits.
    X = table(rng, 120)
    raw = predictions(TreeEnsemble(trees, N_FEATURES, 3, output), X)
    for k in range(3):
        own = [tree for tree, at in zip(trees, output, strict=True) if at == k]
        if any(len(tree.coef) for tree in own):
            np.testing.assert_array_equal(
                raw[:, k], predictions(TreeEnsemble(own, N_FEATURES), X)[:, 0]
            )


def test_trees_without_finite_constants(rng):
    # A constant that holds these centres would overflow; sums with the centres do not.
    far = 1.5e308
    trees = many(rng, 12)
    for k in (2, 3, 9):
        trees[k] = replace(
            trees[k], coef=4 * np.sign(trees[k].coef), coef_center=np.full(len(trees[k].coef), far)
        )
    X = table(rng, 70, missing=0)
    X[:, :5] = far
    for chosen in ([2], [2, 3], [2, 9, 3]):
        own = [trees[k] for k in chosen]
        expected = sum(t.values[TreeEnsemble([t], N_FEATURES).apply(X, 1)[:, 0], 0] for t in own)
        raw = predictions(TreeEnsemble(own, N_FEATURES), X)
        np.testing.assert_allclose(raw[:, 0], expected, rtol=1e-14, atol=1e-14)
    # Beside others they are a band of their own.
    X = table(rng, 70)
    mixed = TreeEnsemble([trees[0], trees[2], trees[3], trees[1]], N_FEATURES)
    raw = predictions(TreeEnsemble(trees[:1], N_FEATURES), X)
    for own in (trees[2:4], trees[1:2]):
        TreeEnsemble(own, N_FEATURES).add_raw(X, raw, 1)
    np.testing.assert_array_equal(predictions(mixed, X), raw)


def test_constants_that_overflow_only_together():
    tree = random_tree(np.random.default_rng(0), 1, 1)
    tree = replace(
        tree, values=[[0.0]], coef_ptr=[0, 1], coef_feature=[0], coef=[1.2], coef_center=[1e308]
    )
    X = np.full((6, 1), 1e308 + 1e300)
    one = predictions(TreeEnsemble([tree], 1), X)
    np.testing.assert_allclose(one, 1.2e300, rtol=1e-7)
    np.testing.assert_allclose(predictions(TreeEnsemble([tree] * 9, 1), X), 9 * one)


def test_layouts_are_of_one_state(rng):
    # The one for float32 is made when such a table comes; the arrays may have changed by then.
    trees = many(rng, 3, clip=True, floats=True)
    X = table(rng, 30, np.float32)
    ensemble = TreeEnsemble(trees, N_FEATURES)
    before = predictions(ensemble, X.astype(np.float64))
    ensemble.coef[:] = 5
    ensemble.coef_feature[:] = 10**8
    np.testing.assert_array_equal(predictions(ensemble, X), before)


@pytest.mark.parametrize("n_threads", [-100, -4, 0, 1000])
def test_any_number_of_threads(rng, n_threads):
    trees = many(rng, 2)
    for n_rows in (5, 70):
        X = table(rng, n_rows)
        ensemble = TreeEnsemble(trees, N_FEATURES)
        np.testing.assert_array_equal(predictions(ensemble, X, n_threads), predictions(ensemble, X))
        assert ensemble.apply(X, n_threads).tolist() == ensemble.apply(X, 1).tolist()


def test_parts_of_an_ensemble(rng):
    trees = many(rng, 20, clip=True)
    X = table(rng, 70)
    ensemble = TreeEnsemble(trees, N_FEATURES)
    whole = predictions(ensemble, X)

    def in_parts(*ends):
        raw = np.zeros((70, 1))
        for first, last in zip((0, *ends), (*ends, 20), strict=True):
            ensemble.add_raw(X, raw, 1, first, last)
        return raw

    # Bits are equal where no band is cut; else the order of the sums is another one.
    np.testing.assert_array_equal(in_parts(BAND, 2 * BAND), whole)
    np.testing.assert_array_equal(in_parts(2 * BAND), whole)
    for ends in [(1,), (3, 4, 11), range(1, 20)]:
        np.testing.assert_allclose(in_parts(*ends), whole, rtol=0, atol=1e-13)


# ---- rows that no leaf clips --------------------------------------------------------------------


def two_leaves(low, high, threshold=1.0):
    """A split of feature 0; to its left a line in it, to its right one in feature 1."""
    tree = random_tree(np.random.default_rng(0), 2, 2)
    tree.nodes["feature"][0], tree.nodes["threshold"][0] = 0, threshold
    tree.nodes["category_start"][0] = -1
    counts = np.zeros(3, dtype=np.int64)
    counts[1:] = 1
    return replace(
        tree,
        values=np.zeros((3, 1)),
        coef_ptr=np.concatenate([[0], np.cumsum(counts)]),
        coef_feature=[0, 1],
        coef=[3.0, 7.0],
        coef_center=[0.0, 0.0],
        coef_low=low,
        coef_high=high,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_trees", [1, 9])
def test_bounds_beyond_a_split(dtype, n_trees):
    # The first line is clipped above at 4, where no row with it can be, or at 0.5.
    x = np.array([-2, -1, -0.5, 0.5, 1, 1.5, 4, 5, -3, -0.75], dtype=dtype)
    X = np.column_stack([x, x[::-1]])
    for high in (4.0, 0.5):
        tree = two_leaves([-1.0, -0.5], [high, 0.25])
        left = 3 * np.clip(X[:, 0], -1, high)
        right = 7 * np.clip(X[:, 1], -0.5, 0.25)
        expected = n_trees * np.where(X[:, 0] <= 1, left, right)
        raw = predictions(TreeEnsemble([tree] * n_trees, 2), X)
        np.testing.assert_array_equal(raw[:, 0], expected)
        for k in range(len(X)):
            np.testing.assert_array_equal(
                predictions(TreeEnsemble([tree] * n_trees, 2), X[k : k + 1]), raw[k : k + 1]
            )


def widened(tree, width):
    """The tree, with bounds that floats hold if they did before."""
    width = float(np.float32(width))
    kind = np.float32 if np.all(tree.coef_low == tree.coef_low.astype(np.float32)) else float
    return replace(
        tree,
        coef_low=(tree.coef_low - width).astype(kind),
        coef_high=(tree.coef_high + width).astype(kind),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("floats", [False, True])
def test_other_regressors_do_not_change_the_bits(rng, dtype, floats):
    trees = [widened(tree, 4.0) for tree in many(rng, 20, clip=True, floats=floats)]
    # Rows with x0 <= 50 never come to the only leaf with a term in x6.
    trees.append(two_leaves([-1.0, -0.5], [1.0, 0.5], 50.0))
    trees[-1] = replace(trees[-1], coef_feature=[0, 6])
    X = np.column_stack([table(rng, 200, dtype, 0.02), np.zeros((200, 1), dtype)])
    X[:, 0] = np.nan_to_num(X[:, 0])
    ensemble = TreeEnsemble(trees, 7)
    near = predictions(ensemble, X)
    X[::2, 6] = 1e6  # outside of what x6 is clipped at
    np.testing.assert_array_equal(predictions(ensemble, X), near)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 30), st.sampled_from([np.float32, np.float64]))
def test_wide_and_narrow_bounds(seed, width, dtype):
    rng = np.random.default_rng(seed)
    trees = [widened(tree, width) for tree in many(rng, 9, clip=True, floats=bool(seed % 2))]
    check(trees, table(rng, 40, dtype, 0.05))


# ---- bounds that float32 holds ------------------------------------------------------------------


@given(
    st.floats(-1e300, 1e300) | st.floats(-10, 10) | st.just(np.inf),
    st.floats(0, 1e300) | st.floats(0, 1) | st.just(0.0),
)
def test_short_bounds(bound, margin):
    short = short_bounds(np.array([bound]), np.array([margin]))[0]
    assert bound <= short <= bound + margin / 65536 or short == bound
    if short != bound:
        assert np.float32(short) == short
    if 1e-30 < abs(bound) < 1e30 and margin >= 0.01 * abs(bound):
        assert np.float32(short) == short


def test_short_bounds_are_the_next_ones():
    above = np.nextafter(np.float32(0.1), np.float32(1))
    tenth = 0.1 if np.float32(0.1) < 0.1 else np.nextafter(float(np.float32(0.1)), 1)
    assert short_bounds(np.array([tenth]), np.array([1.0]))[0] == above
    assert short_bounds(np.array([0.5]), np.array([1.0]))[0] == 0.5
