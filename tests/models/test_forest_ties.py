"""Exact ties: votes of one half, quantiles at a step, alphas at which a branch goes."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import LinearTreeRegressor
from hybridtrees.core.tree.pruning import collapse_alphas
from hybridtrees.models.forest.estimators import RandomForestClassifier, RandomForestRegressor
from hybridtrees.models.forest.growing import as_votes


def even_classes(n_classes):
    """Rows that cannot be told apart, as many of each class."""
    labels = np.array(["a", "b", "c"][:n_classes])
    return np.zeros((6 * n_classes, 1)), np.tile(labels[::-1], 6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("missing", ["learn", "stop"])
def test_equal_shares_go_to_the_first_class(n_classes, voting, missing):
    X, y = even_classes(n_classes)
    forest = RandomForestClassifier(3, bootstrap=False, voting=voting, missing=missing).fit(X, y)
    expected = (
        [1.0, 0.0, 0.0][:n_classes] if voting == "hard" else np.full(n_classes, 1 / n_classes)
    )
    np.testing.assert_allclose(forest.predict_proba(X[:1])[0], expected, rtol=1e-12)
    if n_classes == 2 or voting == "hard":  # three thirds are rounded
        assert forest.predict(X).tolist() == ["a"] * len(X)
        assert next(iter(forest.staged_predict(X))).tolist() == ["a"] * len(X)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_trees_that_cancel_each_other_leave_the_first_class(voting):
    """Rows are told apart by trees that see other samples; one half of the votes is not most."""
    X, y = even_classes(2)
    cancelled = 0
    for seed in range(40):
        forest = RandomForestClassifier(2, voting=voting, oob_score=False, random_state=seed)
        share = forest.fit(X, y).predict_proba(X[:1])[0, 1]
        if share == 0.5:
            cancelled += 1
            assert (forest.predict(X) == "a").all()
            *_, last = forest.staged_predict(X)
            assert (last == "a").all()
    assert cancelled


def test_equal_shares_out_of_the_bag():
    np.testing.assert_array_equal(as_votes(np.array([[0.5], [0.6]])), [[0.0], [1.0]])
    thirds = np.array([[0.25, 0.375, 0.375], [0.4, 0.4, 0.2]])
    np.testing.assert_array_equal(as_votes(thirds), [[0, 1, 0], [1, 0, 0]])
    X, y = even_classes(2)
    with pytest.warns(UserWarning, match="sample of every tree"):
        forest = RandomForestClassifier(2, voting="hard", oob_score=True, random_state=2).fit(X, y)
    said = forest.oob_decision_function_
    known = ~np.isnan(said[:, 1])
    assert (said[:, 1] == 0.5).any()
    right = np.where(said[known, 1] > 0.5, "b", "a") == y[known]
    assert forest.oob_score_ == pytest.approx(right.mean())
    # What permutation importances count.
    assert forest._tree_error(np.array([0, 0, 1]), np.full((3, 1), 0.5), None) == 1 / 3


@pytest.mark.parametrize("n_trees", [1, 3, 7])
def test_quantiles_at_a_step_take_the_lower_target(n_trees):
    """At the share k / n the least target that reaches it is the k-th, rounding or not."""
    for n in (3, 4, 7, 10, 23, 49):
        y = np.random.default_rng(n).permutation(n) + 1.0
        forest = RandomForestRegressor(n_trees, bootstrap=False, min_samples_leaf=n)
        forest.fit(np.zeros((n, 1)), y)
        levels = np.arange(1, n + 1) / n
        found = forest.predict_quantiles([[0.0]], levels)[0]
        np.testing.assert_array_equal(found, np.arange(1, n + 1))
        np.testing.assert_array_equal(forest.predict_quantiles([[0.0]], levels - 1e-6)[0], found)
        above = forest.predict_quantiles([[0.0]], levels[:-1] + 1e-6)[0]
        np.testing.assert_array_equal(above, found[1:])


@pytest.mark.parametrize("cls", [RandomForestClassifier, RandomForestRegressor])
def test_a_branch_goes_at_the_alpha_that_it_is_worth(cls):
    """Of equally good subtrees the smallest is kept."""
    X = np.repeat([[0.0], [1.0]], 8, axis=0)
    y = np.repeat([0, 1], 8)
    worth = 0.5 if cls is RandomForestClassifier else 0.25
    options = {"bootstrap": False, "min_samples_leaf": 1}
    for alpha, n_leaves in ((worth, 1), (np.nextafter(worth, 0), 2), (np.nextafter(worth, 1), 1)):
        forest = cls(2, ccp_alpha=alpha, **options).fit(X, y)
        assert [tree.n_leaves for tree in forest.trees_] == [n_leaves, n_leaves]


def test_a_branch_of_a_linear_tree_goes_at_the_alpha_that_it_is_worth():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] > 0, 3 * X[:, 1], -X[:, 1]) + 0.5 * rng.normal(size=300)
    options = {"max_depth": 3, "pruning": None}
    tree = LinearTreeRegressor(**options).fit(X, y).tree_
    alphas = np.unique(collapse_alphas(tree)[tree.nodes["left"] >= 0])
    assert len(alphas) > 2
    for alpha in alphas:
        n_splits = (collapse_alphas(tree) > alpha).sum()
        at = LinearTreeRegressor(ccp_alpha=alpha, **options).fit(X, y)
        assert at.get_n_leaves() == n_splits + 1
        below = LinearTreeRegressor(ccp_alpha=np.nextafter(alpha, 0), **options).fit(X, y)
        assert below.get_n_leaves() > n_splits + 1
