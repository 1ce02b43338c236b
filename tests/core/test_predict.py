"""Prediction against a walk row by row: bit masks, blocked walks, single rows."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from strategies import random_tree

from hybridtrees.core.tree.tree import TreeEnsemble

# Leaves of a tree, by the form that scores it: one word of leaves, several, the walk. Words have
# 32 leaves, or 64 where blocks are float64; there the walk begins at fewer leaves.
FORMS = {
    "word": [1, 2, 3, 31, 32],
    "words": [33, 63, 64, 65, 96, 97, 128, 200],
    "walk": [400, 900, 1200],
}
DTYPES = (np.float32, np.float64)


def float32_thresholds(rng):
    """Thresholds that are float32 numbers: float64 tables may then be narrowed."""
    return lambda n: rng.normal(size=n).astype(np.float32).astype(np.float64)


def make_trees(rng, sizes, n_features, *, narrow=False, **more):
    draw = float32_thresholds(rng) if narrow else None
    return [random_tree(rng, size, n_features, thresholds=draw, **more) for size in sizes]


def table(rng, trees, n_rows, n_features, dtype=np.float64, missing=0.1):
    """Random values, many of them thresholds or their neighbours, some missing."""
    X = rng.normal(size=(n_rows, n_features)).astype(dtype)
    cuts = np.concatenate([t.nodes["threshold"][t.nodes["left"] >= 0] for t in trees])
    if len(cuts):
        near = rng.choice(cuts, X.shape).astype(dtype)
        far = np.where(rng.random(X.shape) < 0.5, np.inf, -np.inf).astype(dtype)
        near = np.where(rng.random(X.shape) < 0.5, np.nextafter(near, far), near)
        X = np.where(rng.random(X.shape) < 0.6, near, X)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def check(trees, X, *, n_outputs=1, tree_output=None, n_threads=1):
    """Sums and leaves of all rows, which must agree with the oracle to the last bit."""
    ensemble = TreeEnsemble(trees, X.shape[1], n_outputs, tree_output)
    raw = np.zeros((len(X), n_outputs))
    ensemble.add_raw(X, raw, n_threads)
    # Only the terms of linear leaves are added in another order.
    rounding = {"rtol": 1e-12, "atol": 1e-12} if len(ensemble.coef) else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(raw, oracle.predict(trees, X, n_outputs, tree_output), **rounding)
    leaves = ensemble.apply(X, n_threads)
    assert leaves.dtype == np.int32
    np.testing.assert_array_equal(leaves, oracle.leaves(trees, X))
    return raw


# ---- forms and types ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("narrow", [False, True])
def test_every_form_on_every_type(rng, form, dtype, narrow):
    trees = make_trees(rng, FORMS[form], 6, narrow=narrow)
    check(trees, table(rng, trees, 150, 6, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_forms_mixed(rng, dtype):
    trees = make_trees(rng, [5, 70, 40, 1, 120, 1000, 32], 4)
    check(trees, table(rng, trees, 130, 4, dtype))


@given(st.integers(0, 2**32 - 1), st.integers(1, 150), st.integers(1, 5), st.booleans())
def test_random_trees(seed, n_leaves, n_features, narrow):
    rng = np.random.default_rng(seed)
    trees = make_trees(rng, [n_leaves, 3], n_features, narrow=narrow)
    for dtype in DTYPES:
        check(trees, table(rng, trees, 20, n_features, dtype, missing=0.3))


@pytest.mark.parametrize("n_leaves", [32, 64, 100, 300])
@pytest.mark.parametrize("mirrored", [False, True])
def test_chains(rng, n_leaves, mirrored):
    # As deep as can be: one leaf per level. Where the left subtrees are the large ones, each
    # split reaches into many words of leaves.
    trees = [random_tree(rng, n_leaves, 3, chain=True) for _ in range(2)]
    assert trees[0].depth == n_leaves - 1
    if mirrored:
        for tree in trees:
            left = tree.nodes["left"].copy()
            tree.nodes["left"], tree.nodes["right"] = tree.nodes["right"], left
    check(trees, table(rng, trees, 100, 3))


@pytest.mark.parametrize("n_leaves", [4, 50, 80, 1100])
def test_one_feature_of_many_is_used(rng, n_leaves):
    tree = random_tree(rng, n_leaves, 1)
    tree.nodes["feature"][tree.nodes["left"] >= 0] = 17
    check([tree], table(rng, [tree], 70, 40))


# Blocks of 64 rows, up to four rows one by one.
@pytest.mark.parametrize("n_threads", [1, 3])
def test_any_number_of_rows(rng, n_threads):
    trees = make_trees(rng, [6, 70, 900], 3)
    X = table(rng, trees, 200, 3)
    whole = check(trees, X)
    ensemble = TreeEnsemble(trees, 3)
    for n in range(201):
        raw = np.zeros((n, 1))
        ensemble.add_raw(X[:n], raw, n_threads)
        np.testing.assert_array_equal(raw, whole[:n])


def test_threads_change_nothing(rng):
    trees = make_trees(rng, [31] * 5 + [50, 1000], 5)
    X = table(rng, trees, 3000, 5)
    ensemble = TreeEnsemble(trees, 5)
    results = []
    for n_threads in (1, 2, 3):
        raw = np.full((3000, 1), 0.3)
        ensemble.add_raw(X, raw, n_threads)
        results.append((raw, ensemble.apply(X, n_threads)))
    for raw, leaves in results[1:]:
        np.testing.assert_array_equal(raw, results[0][0])
        np.testing.assert_array_equal(leaves, results[0][1])


# ---- thresholds ---------------------------------------------------------------------------------


def stump(threshold, missing_left=0):
    tree = random_tree(np.random.default_rng(0), 2, 1)
    tree.nodes["threshold"][0] = threshold
    tree.nodes["missing_left"][0] = missing_left
    return tree


THRESHOLDS = [0.0, -0.0, 0.1, -0.1, 0.5, 1 / 3, 1e-30, 1e-45, 1e-300, 1e30, -1e30, 3.4e38, 1e300]


@pytest.mark.parametrize("threshold", [*THRESHOLDS, -1e300, np.inf, -3.4028234663852886e38])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("missing_left", [0, 1])
def test_values_one_step_off_a_threshold(threshold, dtype, missing_left):
    with np.errstate(over="ignore", under="ignore"):
        near = np.array([threshold], dtype=np.float64).astype(dtype)
        infinity = np.array([np.inf], dtype=dtype)
        steps = [near]
        for direction in (infinity, -infinity):
            steps += [np.nextafter(near, direction), np.nextafter(steps[-1], direction)]
        # In float64 also those that become the threshold when they are rounded to float32.
        steps += [(near * factor).astype(dtype) for factor in (1 + 1e-12, 1 - 1e-12, 1.5, -1)]
    X = np.concatenate([*steps, np.array([0, 1e-320, -1e-320, 1e38, -1e38, np.nan], dtype)])[
        :, None
    ]
    trees = [stump(threshold, missing_left)]
    check(trees, X)
    # With a threshold that is no float32 beside it, float64 tables are not narrowed.
    check([*trees, stump(0.1), stump(1e-300, 1)], X)
    check(trees, X[:3])


@given(st.floats(allow_nan=False, allow_infinity=False), st.data())
def test_narrowing_never_changes_a_side(threshold, data):
    with np.errstate(over="ignore"):
        threshold = float(np.float32(threshold))
    near = st.floats(min_value=threshold - 1e-3, max_value=threshold + 1e-3)
    some = st.floats(allow_infinity=False)
    values = data.draw(st.lists(near | some, min_size=5, max_size=12))
    check([stump(threshold, data.draw(st.integers(0, 1)))], np.array(values)[:, None])


def test_missing_values_follow_their_direction(rng):
    for n_leaves in (2, 20, 40, 90):
        for missing_left in (0, 1):
            tree = random_tree(rng, n_leaves, 3)
            tree.nodes["missing_left"] = missing_left
            side = "left" if missing_left else "right"
            leaf = 0
            while tree.nodes["left"][leaf] >= 0:
                leaf = tree.nodes[side][leaf]
            X = np.full((9, 3), np.nan)
            assert set(TreeEnsemble([tree], 3).apply(X, 1)[:, 0]) == {leaf}
            check([tree], X)
            check([tree], X.astype(np.float32))


# ---- categories ---------------------------------------------------------------------------------


def category_table(rng, trees, n_rows, n_features, categorical, dtype):
    X = table(rng, trees, n_rows, n_features, dtype)
    codes = np.array([*range(100), -1, -7, 127, 128, 1e6, 2**31, 1e18, 1e38, np.nan], dtype=dtype)
    for feature in categorical:
        X[:, feature] = rng.choice(codes, n_rows)
    return X


@pytest.mark.parametrize("sizes", [[2, 20, 32], [40, 64], [65, 110], [700]])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("categorical", [(0,), (0, 1, 2), (1, 3)])
def test_categories(rng, sizes, dtype, categorical):
    trees = make_trees(rng, sizes, 4, categorical=categorical)
    X = category_table(rng, trees, 200, 4, categorical, dtype)
    check(trees, X)
    check(trees, X[:4])


def test_codes_without_a_bit_count_as_missing():
    tree = random_tree(np.random.default_rng(1), 2, 1, categorical=(0,))
    tree.nodes["category_words"], tree.nodes["category_limit"] = 1, 0
    tree.categories = np.array([0b101], dtype=np.uint32)
    X = np.array([0, 1, 2, 31, 32, 33, 64, 1e9, 1e300, -1, -1e300, np.nan])[:, None]
    left, right = int(tree.nodes["left"][0]), int(tree.nodes["right"][0])
    for missing_left, other in ((0, right), (1, left)):
        tree.nodes["missing_left"][0] = missing_left
        expected = [left, right, left, right] + [other] * 8
        assert TreeEnsemble([tree], 1).apply(X, 1)[:, 0].tolist() == expected
        check([tree], X)


# ---- outputs and leaves -------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[8, 20, 30], [40, 50, 3], [800, 9, 70]])
def test_several_outputs(rng, sizes):
    trees = make_trees(rng, sizes * 2, 4)
    X = table(rng, trees, 140, 4)
    for n in (1, 4, 140):
        check(trees, X[:n], n_outputs=3, tree_output=[0, 1, 2, 2, 0, 0])


@pytest.mark.parametrize("sizes", [[8, 20], [70], [800, 5]])
def test_vector_leaves(rng, sizes):
    trees = make_trees(rng, sizes, 4, n_values=3)
    X = table(rng, trees, 140, 4)
    for n in (2, 140):
        check(trees, X[:n], n_outputs=3)


@pytest.mark.parametrize("sizes", [[8, 20, 1], [70], [800, 5]])
@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_leaves(rng, sizes, dtype):
    trees = make_trees(rng, sizes, 4, linear=0.7)
    assert trees[0].coef_ptr[-1] > 0
    X = table(rng, trees, 140, 4, dtype, missing=0.3)
    for n in (3, 140):
        check(trees, X[:n])
        check(trees, X[:n], n_outputs=2, tree_output=[1] * len(trees))


@pytest.mark.parametrize("n_trees", [7, 8, 9, 25])
@pytest.mark.parametrize("dtype", DTYPES)
def test_few_rows_walk_many_trees_together(rng, n_trees, dtype):
    sizes = rng.integers(1, 40, n_trees)
    for linear in (0, 0.7):
        trees = make_trees(rng, sizes, 4, linear=linear)
        X = table(rng, trees, 30, 4, dtype, missing=0.2)
        for first in range(0, 28, 4):
            check(trees, X[first : first + 1 + first % 3])


def test_linear_and_constant_trees_together(rng):
    trees = make_trees(rng, [7, 50], 4, linear=1) + make_trees(rng, [9, 700], 4)
    check(trees, table(rng, trees, 100, 4))


def test_predictions_are_added_to_what_is_there(rng):
    trees = make_trees(rng, [20, 3], 3)
    X = table(rng, trees, 90, 3)
    ensemble = TreeEnsemble(trees, 3)
    raw = np.full((90, 1), 100.0)
    ensemble.add_raw(X, raw, 1)
    np.testing.assert_allclose(raw, 100 + oracle.predict(trees, X))


@pytest.mark.parametrize("n_rows", [2, 90])
def test_ranges_of_trees(rng, n_rows):
    trees = make_trees(rng, [20, 50, 900, 5], 3)
    X = table(rng, trees, n_rows, 3)
    ensemble = TreeEnsemble(trees, 3)
    for first in range(5):
        for last in range(first, 5):
            raw = np.zeros((n_rows, 1))
            ensemble.add_raw(X, raw, 1, first, last)
            np.testing.assert_array_equal(raw, oracle.predict(trees[first:last], X))
            leaves = ensemble.apply(X, 1, first, last)
            np.testing.assert_array_equal(leaves, oracle.leaves(trees[first:last], X))
    # Parts one after the other are the whole.
    parts, whole = np.zeros((n_rows, 1)), np.zeros((n_rows, 1))
    ensemble.add_raw(X, parts, 1, 0, 2)
    ensemble.add_raw(X, parts, 1, 2)
    ensemble.add_raw(X, whole, 1)
    np.testing.assert_array_equal(parts, whole)


# ---- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_strides_and_read_only(rng, dtype):
    trees = make_trees(rng, [9, 45, 70], 5)
    X = table(rng, trees, 101, 5, dtype)
    expected = check(trees, X)
    wide = np.empty((202, 15), dtype=dtype)
    wide[1::2, 2::3] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    backwards = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    assert backwards.strides[0] < 0 > backwards.strides[1]
    ensemble = TreeEnsemble(trees, 5)
    for table_ in (np.asfortranarray(X), wide[1::2, 2::3], frozen, backwards):
        for n in (3, 101):
            raw = np.zeros((n, 1))
            ensemble.add_raw(table_[:n], raw, 1)
            np.testing.assert_array_equal(raw, expected[:n])
            np.testing.assert_array_equal(
                ensemble.apply(table_[:n], 2), oracle.leaves(trees, X[:n])
            )


def test_raw_of_any_strides(rng):
    trees = make_trees(rng, [9, 70], 3)
    X = table(rng, trees, 100, 3)
    expected = check(trees, X, n_outputs=2, tree_output=[1, 0])
    around = np.zeros((4, 200))
    raw = around[1:3, ::2].T
    TreeEnsemble(trees, 3, 2, [1, 0]).add_raw(X, raw, 2)
    np.testing.assert_array_equal(raw, expected)
    assert not around[[0, 3]].any()
    assert not around[:, 1::2].any()


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_tables(rng, make, monkeypatch):
    # Small pieces, so that several are needed.
    monkeypatch.setattr("hybridtrees.core.tree.tree.SPARSE_BLOCK", 30)
    trees = make_trees(rng, [9, 70], 6)
    X = table(rng, trees, 100, 6)
    X[rng.random(X.shape) < 0.6] = 0.0
    ensemble = TreeEnsemble(trees, 6)
    raw = np.zeros((100, 1))
    ensemble.add_raw(make(X), raw, 1)
    np.testing.assert_array_equal(raw, oracle.predict(trees, X))
    np.testing.assert_array_equal(ensemble.apply(make(X), 1), oracle.leaves(trees, X))
