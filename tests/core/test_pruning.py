"""Pruning against brute force and against scikit-learn on its own trees."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn_trees import prune, reorder

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.pruning import (
    branch_sizes,
    collapse_alphas,
    impurity_decrease,
    prune_nodes,
    pruning_path,
)
from hybridtrees.core.tree.tree import Tree


def make_tree(children: dict[int, tuple[int, int]], cost: list[float]) -> Tree:
    """A tree from the children of its inner nodes; every node has weight 1."""
    nodes = np.zeros(len(cost), dtype=NODE_DTYPE)
    nodes["weight"] = 1.0
    for name in ("left", "right", "parent", "feature", "category_start"):
        nodes[name] = -1
    for node, (left, right) in children.items():
        nodes["left"][node], nodes["right"][node], nodes["feature"][node] = left, right, 0
        nodes["threshold"][node] = 10.0 + node
        nodes["parent"][[left, right]] = node
        nodes["depth"][[left, right]] = nodes["depth"][node] + 1
    tree = Tree(nodes, np.arange(len(cost), dtype=float))
    tree.impurity = np.array(cost, dtype=float)
    return tree


@st.composite
def trees(draw, most_leaves: int = 7) -> Tree:
    """Small trees with decreases that are small integers, so that ties are common."""
    children: dict[int, tuple[int, int]] = {}
    leaves, n = [0], 1
    for _ in range(draw(st.integers(0, most_leaves - 1))):
        node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        children[node] = (n, n + 1)
        leaves += [n, n + 1]
        n += 2
    cost = [0.0] * n
    # From the last node up: the cost of a node is that of its children and what its split saves.
    for node in range(n - 1, -1, -1):
        if node in children:
            left, right = children[node]
            cost[node] = cost[left] + cost[right] + draw(st.integers(0, 6))
        else:
            cost[node] = float(draw(st.integers(0, 3)))
    return make_tree(children, cost)


def subtrees(tree: Tree, node: int = 0) -> list[tuple[float, int, frozenset]]:
    """Cost, leaves and inner nodes of every pruned subtree of a branch."""
    found = [(float(tree.impurity[node]), 1, frozenset())]
    left, right = tree.nodes["left"][node], tree.nodes["right"][node]
    if left >= 0:
        for a, b in itertools.product(subtrees(tree, left), subtrees(tree, right)):
            found.append((a[0] + b[0], a[1] + b[1], a[2] | b[2] | {node}))
    return found


@given(trees(), st.integers(0, 24))
def test_pruned_tree_is_the_smallest_of_the_cheapest(tree, quarters):
    alpha = quarters / 4
    cheapest = min(cost + alpha * leaves for cost, leaves, _ in subtrees(tree))
    smallest = min(
        (leaves, inner)
        for cost, leaves, inner in subtrees(tree)
        if cost + alpha * leaves <= cheapest + 1e-9
    )
    kept = np.flatnonzero(collapse_alphas(tree) > alpha + 1e-9)
    assert frozenset(kept.tolist()) == smallest[1]
    assert prune(tree, alpha + 1e-9).n_leaves == smallest[0]


@given(trees())
def test_path_lists_the_costs_of_the_subtrees(tree):
    path = pruning_path(tree)
    assert path.ccp_alphas[0] == 0.0
    assert np.all(np.diff(path.ccp_alphas) >= 0)
    assert np.all(np.diff(path.impurities) >= -1e-12)
    # Behind the last event of each alpha stands the impurity of the tree pruned with it.
    for k in np.flatnonzero(np.append(np.diff(path.ccp_alphas) > 1e-9, True)):
        pruned = prune(tree, path.ccp_alphas[k] + 1e-9)
        leaves = pruned.nodes["left"] < 0
        np.testing.assert_allclose(path.impurities[k], pruned.impurity[leaves].sum(), atol=1e-9)
    np.testing.assert_allclose(path.impurities[-1], tree.impurity[0], atol=1e-9)


@given(trees())
def test_alphas_fall_towards_the_leaves(tree):
    alphas = collapse_alphas(tree)
    inner = np.flatnonzero(tree.nodes["left"] >= 0)
    for side in ("left", "right"):
        assert np.all(alphas[tree.nodes[side][inner]] <= alphas[inner])
    assert np.all(alphas[tree.nodes["left"] < 0] == -np.inf)


@given(trees())
def test_reorder_puts_the_left_branch_behind_its_root(tree):
    made, new_node = reorder(tree)
    assert sorted(new_node) == list(range(tree.n_nodes))
    np.testing.assert_array_equal(made.values[new_node], tree.values)
    np.testing.assert_array_equal(made.impurity[new_node], tree.impurity)
    sizes = branch_sizes(made)
    for node in np.flatnonzero(made.nodes["left"] >= 0):
        left, right = made.nodes["left"][node], made.nodes["right"][node]
        assert left == node + 1
        assert right == left + sizes[left]
        assert made.nodes["parent"][left] == made.nodes["parent"][right] == node
    assert sizes[0] == tree.n_nodes


@given(trees(), st.data())
def test_dropped_nodes_are_found_in_the_leaf_that_took_them(tree, data):
    splits = np.array(data.draw(st.lists(st.booleans(), min_size=tree.n_nodes,
                                         max_size=tree.n_nodes)))  # fmt: skip
    pruned, new_node = prune_nodes(tree, splits)
    for node in range(tree.n_nodes):
        way, at = [], node
        while at >= 0:
            way.append(at)
            at = tree.nodes["parent"][at]
        way = way[::-1]
        cut = next((k for k, at in enumerate(way[:-1]) if not splits[at]), len(way) - 1)
        assert pruned.values[new_node[node], 0] == tree.values[way[cut], 0]
    leaves = pruned.nodes[pruned.nodes["left"] < 0]
    for name in ("right", "feature", "category_start"):
        assert np.all(leaves[name] == -1)
    for name in ("threshold", "gain", "category_words", "missing_left"):
        assert np.all(leaves[name] == 0)


def test_category_sets_and_linear_leaves_move_along():
    tree = make_tree({0: (1, 2), 1: (3, 4), 2: (5, 6)}, [9.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    tree.nodes["category_start"][[0, 1, 2]] = [4, 0, 1]
    tree.nodes["category_words"][[0, 1, 2]] = [1, 1, 3]
    tree.categories = np.array([7, 1, 2, 4, 9], dtype=np.uint32)
    coef = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    tree = replace(
        tree,
        coef_ptr=np.array([0, 0, 2, 2, 3, 4, 5, 5]),
        coef_feature=np.array([0, 1, 0, 2, 1]),
        coef=coef,
        coef_center=-coef,
        coef_low=10 * coef,
        coef_high=20 * coef,
        value_range=np.arange(14.0).reshape(7, 2, 1),
    )
    pruned, _ = prune_nodes(tree, np.array([1, 0, 1, 0, 0, 0, 0], dtype=bool))
    assert pruned.values[:, 0].tolist() == [0, 1, 2, 5, 6]
    assert pruned.category_set(0).tolist() == tree.category_set(0).tolist() == [0, 3]
    assert pruned.category_set(2).tolist() == tree.category_set(2).tolist() == [0, 33, 66]
    assert pruned.categories.tolist() == [9, 1, 2, 4]
    assert pruned.coef_ptr.tolist() == [0, 0, 2, 2, 3, 3]
    assert pruned.coef[:, 0].tolist() == [1.0, 2.0, 5.0]
    assert pruned.coef_center.tolist() == [-1.0, -2.0, -5.0]
    assert pruned.coef_low.tolist() == [10.0, 20.0, 50.0]
    assert pruned.coef_high.tolist() == [20.0, 40.0, 100.0]
    assert pruned.value_range[:, 0, 0].tolist() == [0.0, 2.0, 4.0, 10.0, 12.0]


def test_rows_that_stay_have_no_part_in_the_decrease():
    tree = make_tree({0: (1, 2)}, [10.0, 1.0, 2.0])
    tree.nodes["gain"][0] = 4.0
    assert impurity_decrease(tree)[0] == 7.0
    tree.nodes["missing_left"][0] = 2
    assert impurity_decrease(tree)[0] == 4.0


def test_deep_chain_is_pruned_link_by_link():
    n = 20_000
    children = {2 * k: (2 * k + 2, 2 * k + 1) for k in range(n)}
    # The split nearest to the root saves most, so that every link has an alpha of its own.
    cost = np.zeros(2 * n + 1)
    cost[0 : 2 * n + 1 : 2] = np.arange(n, -1, -1, dtype=float) * np.arange(n + 1, 0, -1) / 2
    tree = make_tree(children, cost.tolist())
    path = pruning_path(tree)
    np.testing.assert_allclose(path.ccp_alphas, np.arange(n + 1), rtol=1e-9)
    assert prune(tree, n / 2).n_leaves == n / 2 + 1


def test_pruning_needs_impurities_and_a_sound_tree():
    tree = make_tree({0: (1, 2)}, [3.0, 1.0, 1.0])
    impurity, tree.impurity = tree.impurity, np.zeros(2)
    with pytest.raises(ValueError, match="impurity of each of the 3 nodes"):
        pruning_path(tree)
    tree.impurity = impurity
    tree.nodes["right"][0] = 7
    with pytest.raises(ValueError, match="follow its parent"):
        prune(tree, 1.0)


# -- scikit-learn ---------------------------------------------------------------------------------


def peer_trees():
    tree = pytest.importorskip("sklearn.tree")
    from sklearn import datasets

    rng = np.random.default_rng(5)
    X, y = datasets.load_diabetes(return_X_y=True)
    yield tree.DecisionTreeRegressor(random_state=0), X, y, None
    yield tree.DecisionTreeRegressor(random_state=0, max_leaf_nodes=40), X, y, None
    yield tree.DecisionTreeRegressor(random_state=0), X, y, rng.random(len(y))
    yield tree.DecisionTreeRegressor(random_state=0, max_depth=6), X, np.c_[y, y**2], None
    yield (
        tree.DecisionTreeRegressor(criterion="absolute_error", random_state=0, max_depth=7),
        X, y, None,
    )  # fmt: skip
    yield tree.DecisionTreeRegressor(criterion="poisson", random_state=0), X, y, None
    for load in (datasets.load_breast_cancer, datasets.load_wine, datasets.load_digits):
        X, y = load(return_X_y=True)
        for criterion in ("gini", "entropy"):
            model = tree.DecisionTreeClassifier(criterion=criterion, random_state=0)
            yield model, X, y, None
            yield model, X, y, rng.random(len(y))


@pytest.mark.peer
def test_path_and_pruned_trees_equal_scikit_learns():
    for model, X, y, weight in peer_trees():
        from sklearn_trees import assert_same_tree, convert_tree

        model.fit(X, y, weight)
        tree, _ = convert_tree(model.tree_)
        theirs = model.cost_complexity_pruning_path(X, y, weight)
        ours = pruning_path(tree)
        size = theirs.impurities[-1]
        np.testing.assert_allclose(ours.ccp_alphas, theirs.ccp_alphas, atol=1e-12 * size)
        np.testing.assert_allclose(ours.impurities, theirs.impurities, atol=1e-12 * size)
        steps = np.flatnonzero(np.diff(ours.ccp_alphas) > 1e-9 * size)
        for k in steps[:: max(1, len(steps) // 4)]:
            alpha = (ours.ccp_alphas[k] + ours.ccp_alphas[k + 1]) / 2
            peer = type(model)(**{**model.get_params(), "ccp_alpha": alpha}).fit(X, y, weight)
            assert_same_tree(prune(tree, alpha), convert_tree(peer.tree_)[0], gains=False)
