"""The kernels of Shapley values against the sum over all coalitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shap_oracle import background_game, path_game, random_rows, random_tree, shapley

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree._shap import ShapTrees, add_background_values, add_path_values
from hybridtrees.core.tree._walk import add_known_scores
from hybridtrees.core.tree.tree import Tree, TreeEnsemble

FORMS = {
    "constant": {},
    "several values": {"n_values": 3},
    "lines": {"lines": 3},
    "lines of several values": {"lines": 4, "n_values": 2},
    "clipped": {"lines": 3, "clipped": True},
    "bounded": {"lines": 3, "bounded": True},
    "bounded constants": {"bounded": True},
    "missing stays": {"stays": True},
    "all at once": {"lines": 4, "clipped": True, "bounded": True, "stays": True, "n_values": 2},
    "without weight": {"lines": 2, "weightless": True},
}


def run(trees, X, n_threads=1, background=None, pairs=True):
    values = np.zeros((len(X), trees.n_outputs, trees.n_players))
    both = np.zeros((*values.shape, trees.n_players)) if pairs else None
    if background is None:
        add_path_values(trees, X, values, both, n_threads)
    else:
        add_background_values(trees, X, background, values, both, n_threads)
    return values, both


def compare(tree, X, player, background=None):
    n_players = int(max(player)) + 1
    ensemble = TreeEnsemble([tree], X.shape[1], tree.values.shape[1])
    trees = ShapTrees(ensemble, player, n_players)
    values, pairs = run(trees, X, background=background)
    alone, _ = run(trees, X, background=background, pairs=False)
    np.testing.assert_allclose(values, alone, rtol=1e-12, atol=1e-12)
    for row, x in enumerate(X):
        if background is None:
            game = path_game(tree, x, player)
        else:
            game = background_game(tree, x, background, player)
        single, both, base = shapley(game, n_players)
        np.testing.assert_allclose(values[row], single.T, atol=1e-10)
        np.testing.assert_allclose(pairs[row], both.transpose(2, 0, 1), atol=1e-10)
        if background is None:
            np.testing.assert_allclose(trees.base, base, atol=1e-12)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("seed", range(2))
def test_path_values(name, seed):
    rng = np.random.default_rng([seed, list(FORMS).index(name)])
    tree = random_tree(rng, 5, 4, **FORMS[name])
    compare(tree, random_rows(rng, 2, 5), np.arange(5))


@pytest.mark.parametrize("name", FORMS)
def test_background_values(name):
    rng = np.random.default_rng([list(FORMS).index(name), 1])
    tree = random_tree(rng, 5, 4, **FORMS[name])
    compare(tree, random_rows(rng, 2, 5), np.arange(5), random_rows(rng, 5, 5))


@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(sorted(FORMS)))
@settings(max_examples=10, deadline=None)
def test_any_tree(seed, name):
    rng = np.random.default_rng(seed)
    n_features, depth = int(rng.integers(2, 5)), int(rng.integers(0, 5))
    tree = random_tree(rng, n_features, depth, **FORMS[name])
    rows, others = random_rows(rng, 1, n_features), random_rows(rng, 3, n_features)
    compare(tree, rows, np.arange(n_features))
    compare(tree, rows, np.arange(n_features), others)


@pytest.mark.parametrize("background", [False, True])
def test_columns_of_one_feature(background):
    """Columns made of the same feature enter together, on the path and in the line."""
    rng = np.random.default_rng(7)
    tree = random_tree(rng, 6, 4, lines=4, clipped=True)
    X, others = random_rows(rng, 2, 6), random_rows(rng, 4, 6)
    compare(tree, X, np.array([0, 1, 1, 2, 0, 2]), others if background else None)


def test_eight_features():
    rng = np.random.default_rng(11)
    tree = random_tree(rng, 8, 4, lines=2)
    compare(tree, random_rows(rng, 1, 8), np.arange(8))


@pytest.mark.parametrize("name", FORMS)
def test_long_paths_against_tables(name):
    """The sum over pairs of rows and the tables by pattern are two ways to the same values."""
    rng = np.random.default_rng([3, list(FORMS).index(name)])
    tree = random_tree(rng, 9, 8, **FORMS[name])
    trees = ShapTrees(TreeEnsemble([tree], 9, tree.values.shape[1]), np.arange(9), 9)
    X, others = random_rows(rng, 20, 9), random_rows(rng, 15, 9)
    found = []
    for most in (12, 2, 0):
        values = np.zeros((20, trees.n_outputs, 9))
        pairs = np.zeros((*values.shape, 9))
        add_background_values(trees, X, others, values, pairs, 1, most)
        found.append((values, pairs))
    for values, pairs in found[1:]:
        np.testing.assert_allclose(values, found[0][0], atol=1e-10)
        np.testing.assert_allclose(pairs, found[0][1], atol=1e-10)


def chain(rng, depth):
    """A tree that splits on a new feature at every level of its only long path."""
    nodes = np.zeros(2 * depth + 1, dtype=NODE_DTYPE)
    nodes["left"] = nodes["right"] = nodes["feature"] = nodes["category_start"] = -1
    for level in range(depth):
        at = 2 * level
        share = rng.uniform(0.7, 0.95)
        nodes[at]["left"], nodes[at]["right"], nodes[at]["feature"] = at + 1, at + 2, level
        for child, part in ((at + 1, 1 - share), (at + 2, share)):
            nodes[child]["parent"], nodes[child]["depth"] = at, level + 1
            nodes[child]["weight"] = part * (nodes[at]["weight"] if level else 1.0)
    nodes["parent"][0], nodes["weight"][0] = -1, 1.0
    return Tree(nodes, rng.normal(size=len(nodes)))


@pytest.mark.parametrize("depth", [30, 60, 200])
def test_deep_paths_add_up(depth):
    rng = np.random.default_rng(depth)
    trees = TreeEnsemble([chain(rng, depth)], depth)
    X = np.abs(rng.normal(size=(70, depth)))
    X[rng.random(X.shape) < 0.02] *= -1
    laid = ShapTrees(trees, np.arange(depth), depth)
    values, pairs = run(laid, X)
    raw = np.zeros((70, 1))
    trees.add_raw(X, raw, 1)
    np.testing.assert_allclose(values.sum(axis=2) + laid.base, raw, atol=1e-10)
    np.testing.assert_allclose(pairs.sum(axis=3), values, atol=1e-10)
    others = X[:5].copy()
    values, _ = run(laid, X, background=others, pairs=False)
    np.testing.assert_allclose(values.sum(axis=2)[:, 0] + raw[:5].mean(), raw[:, 0], atol=1e-10)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_same_bits_for_any_threads(background, dtype):
    rng = np.random.default_rng(5)
    forest = [random_tree(rng, 6, 5, lines=2, clipped=True) for _ in range(5)]
    trees = ShapTrees(TreeEnsemble(forest, 6), np.arange(6), 6)
    X = random_rows(rng, 300, 6).astype(dtype)
    others = random_rows(rng, 10, 6).astype(dtype) if background else None
    first = run(trees, X, 1, others)
    for n_threads in (2, 3):
        for one, other in zip(first, run(trees, X, n_threads, others), strict=True):
            np.testing.assert_array_equal(one, other)
    alone = run(trees, X[17:18], 1, others)
    np.testing.assert_array_equal(alone[0][0], first[0][17])


def test_trees_of_several_outputs():
    rng = np.random.default_rng(9)
    forest = [random_tree(rng, 4, 3) for _ in range(6)]
    output = [0, 1, 2, 2, 1, 0]
    together = ShapTrees(TreeEnsemble(forest, 4, 3, output), np.arange(4), 4)
    X, others = random_rows(rng, 12, 4), random_rows(rng, 5, 4)
    for background in (None, others):
        values, pairs = run(together, X, background=background)
        for k in range(3):
            own = [tree for tree, o in zip(forest, output, strict=True) if o == k]
            alone = ShapTrees(TreeEnsemble(own, 4), np.arange(4), 4)
            single, both = run(alone, X, background=background)
            np.testing.assert_allclose(values[:, k], single[:, 0], atol=1e-13)
            np.testing.assert_allclose(pairs[:, k], both[:, 0], atol=1e-13)


def test_wrong_shapes():
    rng = np.random.default_rng(1)
    ensemble = TreeEnsemble([random_tree(rng, 4, 3)], 4)
    trees = ShapTrees(ensemble, np.arange(4), 4)
    X = random_rows(rng, 3, 4)
    with pytest.raises(ValueError, match="do not fit"):
        add_path_values(trees, X[:, :3], np.zeros((3, 1, 4)), None, 1)
    with pytest.raises(ValueError, match="do not fit"):
        add_path_values(trees, X, np.zeros((3, 1, 4)), np.zeros((3, 1, 4, 3)), 1)
    with pytest.raises(ValueError, match="does not fit"):
        add_background_values(trees, X, X, np.zeros((3, 2, 4)), None, 1)
    with pytest.raises(ValueError, match="at least one row"):
        add_background_values(trees, X, X[:0], np.zeros((3, 1, 4)), None, 1)
    with pytest.raises(ValueError, match="needs a player"):
        ShapTrees(ensemble, np.arange(3), 4)
    with pytest.raises(ValueError, match="does not exist"):
        ShapTrees(ensemble, np.arange(4), 3)
    ensemble.nodes["feature"][0] = 99
    with pytest.raises(ValueError, match="does not exist"):
        ShapTrees(ensemble, np.arange(4), 4)


@pytest.mark.parametrize("known", [[], [0], [1, 3], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("name", FORMS)
def test_scores_of_known_columns(name, known):
    rng = np.random.default_rng([13, list(FORMS).index(name), len(known)])
    trees = [random_tree(rng, 5, 4, **FORMS[name]) for _ in range(3)]
    X = random_rows(rng, 9, 5)
    X[:, np.isin(range(5), known, invert=True)] = np.nan
    ensemble = TreeEnsemble(trees, 5, trees[0].values.shape[1])
    found = np.ones((9, ensemble.n_outputs))
    flags = np.isin(range(5), known).astype(np.uint8)
    add_known_scores(ensemble, flags, X, found)
    games = [[path_game(tree, x, np.arange(5))(frozenset(known)) for tree in trees] for x in X]
    expected = 1 + np.sum(games, axis=1).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    alone = np.ones((1, ensemble.n_outputs))
    add_known_scores(ensemble, flags, X[4:5], alone)
    np.testing.assert_array_equal(alone[0], found[4])
    with pytest.raises(ValueError, match="do not fit"):
        add_known_scores(ensemble, flags, X[:, :4].copy(), found)


def test_known_scores_of_a_deep_chain():
    """Trees of a thousand levels need no recursion, and little memory."""
    depth = 1000
    nodes = np.zeros(2 * depth + 1, dtype=NODE_DTYPE)
    for name in ("left", "right", "parent", "category_start"):
        nodes[name] = -1
    inner = np.arange(0, 2 * depth, 2)
    nodes["left"][inner], nodes["right"][inner] = inner + 1, inner + 2
    nodes["parent"][1::2], nodes["parent"][2::2] = inner, inner
    nodes["depth"][1::2] = nodes["depth"][2::2] = np.arange(1, depth + 1)
    nodes["feature"][inner] = np.arange(depth) % 2
    nodes["weight"] = nodes["n_samples"] = 1
    nodes["threshold"][inner] = -np.arange(depth, dtype=float)
    values = np.zeros((2 * depth + 1, 1))
    values[-1] = 2.0**60
    ensemble = TreeEnsemble([Tree(nodes, values)], 2, 1)
    found = np.zeros((1, 1))
    X = np.array([[10.0, np.nan]])
    add_known_scores(ensemble, np.array([1, 0], dtype=np.uint8), X, found)
    assert found[0, 0] == 2.0**60 * 0.5 ** (depth // 2)
