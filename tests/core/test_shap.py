"""The kernels of Shapley values against the sum over all coalitions."""

import numpy as np
import pytest
from shap_oracle import background_game, path_game, random_rows, random_tree, shapley

from hybridtrees.core.tree._shap import ShapTrees, add_path_values
from hybridtrees.core.tree._shap_background import add_background_values
from hybridtrees.core.tree.tree import TreeEnsemble

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
@pytest.mark.parametrize("seed", range(6))
def test_path_values(name, seed):
    rng = np.random.default_rng([seed, list(FORMS).index(name)])
    tree = random_tree(rng, 5, 4, **FORMS[name])
    compare(tree, random_rows(rng, 4, 5), np.arange(5))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_background_values(name, seed):
    rng = np.random.default_rng([seed, list(FORMS).index(name), 1])
    tree = random_tree(rng, 5, 4, **FORMS[name])
    compare(tree, random_rows(rng, 3, 5), np.arange(5), random_rows(rng, 6, 5))
