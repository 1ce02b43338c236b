"""Linear leaves against a slow sum over their terms: outputs, clipping, ranges, forms of trees."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import oracle
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from linear_leaf_cases import N_FEATURES, check, linear_tree, predictions, table
from strategies import random_tree

from hybridtrees._persistence import load, register, save
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.core.tree.walk import find_values

# Leaves of a tree by what finds the leaf: one word of bits, several, the walk.
FORMS = {"one word": [1, 8, 31], "words": [40, 64, 130], "walk": [900]}


# ---- one output ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limits", [{}, {"clip": True}, {"bound": True, "clip": True}])
def test_every_form(rng, form, dtype, limits):
    trees = [linear_tree(rng, n, **limits) for n in FORMS[form]]
    check(trees, table(rng, 100, dtype))


# Vectors hold tables of up to 16 and of up to 32 regressors, more are read one by one.
@pytest.mark.parametrize("n_features", [15, 16, 31, 32, 50])
@pytest.mark.parametrize("n_terms", [4, 11])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limits", [{}, {"bound": True, "clip": True}])
def test_any_number_of_regressors(rng, n_features, n_terms, dtype, limits):
    trees = [
        linear_tree(rng, n, n_terms=n_terms, n_features=n_features, **limits)
        for n in (20, 31, 20, 60)
    ]
    features = np.unique(np.concatenate([tree.coef_feature for tree in trees]))
    assert len(features) == n_features
    for missing in (0, 0.05):
        check(trees, table(rng, 90, dtype, missing, n_features))


# Terms are added in pairs, with bodies of their own for up to four pairs.
@pytest.mark.parametrize("n_terms", [0, 1, 2, 3, 5, 7, 8, 9, 20])
@pytest.mark.parametrize("missing", [0, 0.2])
@pytest.mark.parametrize("limits", [{}, {"clip": True}, {"bound": True}])
def test_any_number_of_terms(rng, n_terms, missing, limits):
    trees = [linear_tree(rng, n, n_terms=n_terms, **limits) for n in (12, 12, 12, 70)]
    check(trees, table(rng, 80, missing=missing))


def test_a_value_by_hand():
    tree = random_tree(np.random.default_rng(0), 1, 2)
    tree = replace(
        tree,
        values=[[10.0]],
        coef_ptr=[0, 2],
        coef_feature=[1, 0],
        coef=[2.0, -1.0],
        coef_center=[0.5, 3.0],
        coef_low=[0.0, -np.inf],
        coef_high=[1.0, np.inf],
        value_range=[[[5.0], [12.0]]],
    )
    X = np.array([[3, 0.5], [3, 9], [3, -9], [np.nan, 0.25], [1, np.nan], [9, 1], [-99, 0]])
    expected = [10, 11, 9, 9.5, 12, 5, 12]
    for n in (1, 2):
        # Two trees are enough for the regressors to be set side by side.
        ensemble = TreeEnsemble([tree] * n, 2)
        assert ensemble.layout.any_linear
        assert predictions(ensemble, X)[:, 0].tolist() == [n * v for v in expected]


def test_few_terms_of_many_features(rng):
    # Too many regressors to set them side by side for the few that a row needs.
    tree = random_tree(rng, 40, 300, linear=1)
    X = rng.normal(size=(90, 300))
    X[rng.random(X.shape) < 0.1] = np.nan
    raw = predictions(TreeEnsemble([tree], 300), X)
    np.testing.assert_allclose(raw, oracle.predict([tree], X), rtol=1e-12)


def test_linear_and_constant_trees_and_outputs(rng):
    trees = [
        linear_tree(rng, 9, bound=True),
        random_tree(rng, 9, N_FEATURES),
        linear_tree(rng, 80, clip=True),
        linear_tree(rng, 30, n_terms=0, bound=True),
        random_tree(rng, 90, N_FEATURES),
    ]
    ensemble = TreeEnsemble(trees, N_FEATURES)
    assert ensemble.value_range.shape == (len(ensemble.nodes), 2, 1)
    assert np.isinf(ensemble.value_range[17:34]).all()
    check(trees, table(rng, 100))
    check(trees, table(rng, 100), 3, [2, 0, 0, 1, 2])


def test_ranges_alone(rng):
    trees = [linear_tree(rng, n, n_terms=0, bound=True) for n in (8, 50, 70)]
    assert not TreeEnsemble(trees, N_FEATURES).layout.any_linear
    check(trees, table(rng, 80))


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("n_values", [1, 2])
def test_rows_that_stop_at_a_node_get_its_line(rng, inner, n_values):
    trees = [linear_tree(rng, 20, n_values=n_values, inner=inner, bound=True) for _ in range(3)]
    for tree in trees[:2]:
        tree.nodes["missing_left"][rng.random(tree.n_nodes) < 0.7] = 2
    X = table(rng, 90, missing=0.15)
    ensemble = TreeEnsemble(trees, N_FEATURES, n_values)
    expected = np.zeros((90, n_values))
    ends = ensemble.apply(X, 1)
    for k, tree in enumerate(trees):
        expected += [oracle.node_output(tree, ends[i, k], x) for i, x in enumerate(X)]
    assert (trees[0].nodes["left"][ends[:, 0]] >= 0).any()
    np.testing.assert_allclose(predictions(ensemble, X), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(predictions(ensemble, X[:3]), predictions(ensemble, X)[:3])


def test_infinite_values_and_huge_centres(rng):
    trees = [linear_tree(rng, 20, n_terms=3) for _ in range(3)]
    X = table(rng, 60)
    X[0, 0], X[1, 1] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        check(trees, X)
    # No constant could hold this centre, though every difference to it is an ordinary number.
    trees[1].coef_center[:] = 1e300
    trees[1].coef[:] = 1e20
    X[:, :5] = np.where(np.isnan(X[:, :5]), np.nan, 1e300)
    expected = oracle.predict(trees, X)
    assert np.isfinite(expected).all()
    check(trees, X)


@given(st.integers(0, 2**32 - 1), st.integers(1, 70), st.integers(0, 12), st.booleans())
def test_random_trees(seed, n_leaves, n_terms, limited):
    rng = np.random.default_rng(seed)
    limits = {"clip": limited, "bound": limited and n_terms % 2 == 0}
    trees = [linear_tree(rng, n, n_terms=n_terms, **limits) for n in (n_leaves, 3)]
    check(trees, table(rng, 12, missing=0.3))


# ---- several outputs ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limits", [{}, {"clip": True}, {"bound": True, "clip": True}])
def test_several_outputs(rng, form, limits):
    trees = [linear_tree(rng, n, n_values=3, **limits) for n in FORMS[form]]
    check(trees, table(rng, 80), 3)


# ---- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_values", [1, 2])
def test_strides_and_sparse_tables(rng, n_values):
    trees = [linear_tree(rng, n, n_values=n_values, clip=True) for n in (9, 20, 70)]
    X = table(rng, 80)
    X[rng.random(X.shape) < 0.4] = 0
    expected = check(trees, X, n_values)
    ensemble = TreeEnsemble(trees, N_FEATURES, n_values)
    wide = np.empty((160, 2 * N_FEATURES))
    wide[::2, ::2] = X
    tables = [np.asfortranarray(X), wide[::2, ::2], scipy.sparse.csr_array(X)]
    for other in [*tables, scipy.sparse.csc_matrix(X)]:
        np.testing.assert_array_equal(predictions(ensemble, other), expected)


@pytest.mark.parametrize("n_values", [1, 2])
def test_threads_change_nothing(rng, n_values):
    trees = [linear_tree(rng, n, n_values=n_values, bound=True) for n in (31, 20, 70)]
    X = table(rng, 1000)
    ensemble = TreeEnsemble(trees, N_FEATURES, n_values)
    one = predictions(ensemble, X)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(predictions(ensemble, X, n_threads), one)


def test_values_of_a_single_tree(rng):
    X = table(rng, 70)
    for n_leaves in (5, 200):
        for tree in (
            linear_tree(rng, n_leaves, clip=True),
            linear_tree(rng, n_leaves, n_terms=0, bound=True),
        ):
            values = find_values(TreeEnsemble([tree], N_FEATURES), X, 1)
            np.testing.assert_allclose(values, oracle.predict([tree], X), rtol=1e-12, atol=1e-12)


# ---- containers ---------------------------------------------------------------------------------

FIELDS = ["coef_ptr", "coef_feature", "coef", "coef_center", "coef_low", "coef_high", "value_range"]


@register
class LeafHolder:
    """Something that can be saved."""


@pytest.mark.parametrize("clone", ["none", "pickle", "deepcopy", "file"])
@pytest.mark.parametrize("n_values", [1, 2])
def test_round_trips(rng, clone, n_values, tmp_path):
    trees = [linear_tree(rng, n, n_values=n_values, clip=True, bound=True) for n in (9, 70)]
    ensemble = other = TreeEnsemble(trees, N_FEATURES, n_values)
    if clone == "pickle":
        other = pickle.loads(pickle.dumps(ensemble))
    elif clone == "deepcopy":
        other = copy.deepcopy(ensemble)
    elif clone == "file":
        holder = LeafHolder()
        holder.state = ensemble.to_state()
        save(holder, tmp_path / "leaves")
        other = TreeEnsemble.from_state(load(tmp_path / "leaves").state)
    X = table(rng, 70)
    np.testing.assert_array_equal(predictions(other, X), predictions(ensemble, X))
    for k, tree in enumerate(trees):
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(other[k], name), getattr(tree, name), name)


def test_shapes_and_defaults(rng):
    nodes = random_tree(rng, 1, 2).nodes
    terms = {"coef_ptr": [0, 2], "coef_feature": [0, 1], "coef_center": [0, 0]}
    tree = Tree(nodes, [1.0], coef=[1, 2], **terms)
    assert (tree.coef.shape, tree.coef.dtype) == ((2, 1), np.float64)
    assert (tree.coef_low == -np.inf).all()
    assert (tree.coef_high == np.inf).all()
    assert len(tree.coef_low) == len(tree.coef_high) == 2
    assert tree.value_range is None
    assert Tree(nodes, [[1.0, 2.0]]).coef.shape == (0, 2)
    assert TreeEnsemble([tree], 2).value_range is None


WRONG = {
    "flat coefficients": ("coef", lambda a: a[:, 0].copy()),
    "coefficients of three values": ("coef", lambda a: np.hstack([a, a])),
    "a coefficient missing": ("coef", lambda a: a[:-1]),
    "a lower end missing": ("coef_low", lambda a: a[:-1]),
    "an upper end missing": ("coef_high", lambda a: a[:-1]),
    "ends crossed": ("coef_low", lambda a: a + 100),
    "an end that is no number": ("coef_high", lambda a: a * np.nan),
    "ranges of some nodes": ("value_range", lambda a: a[:-1]),
    "ranges of other values": ("value_range", lambda a: np.concatenate([a, a], axis=2)),
    "ranges with one end": ("value_range", lambda a: a[:, :1].copy()),
    "ranges crossed": ("value_range", lambda a: a[:, ::-1].copy()),
    "ranges that are no numbers": ("value_range", lambda a: a * np.nan),
    "ranges of another type": ("value_range", lambda a: a.astype(np.float32)),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("n_values", [1, 2])
def test_what_does_not_fit_is_refused(rng, kind, n_values):
    tree = linear_tree(rng, 20, n_values=n_values, clip=True, bound=True)
    ensemble = TreeEnsemble([tree], N_FEATURES, n_values)
    name, change = WRONG[kind]
    setattr(ensemble, name, change(getattr(ensemble, name)))
    with pytest.raises(ValueError):
        predictions(ensemble, table(rng, 9))
