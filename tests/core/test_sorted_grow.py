"""Growing along sorted lists: small nodes, threads, frontiers, drawn features, sampled rows."""

from __future__ import annotations

from dataclasses import replace

import exact_oracle as eo
import numpy as np
import pytest
from exact_problems import KINDS, ONE_OUTPUT, params_of, problems, random_problem
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.grow.grower import BareLeaves, Grower, Statistics
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search._sorted_search import SortedSearch

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def with_rules(problem, **rules):
    params = replace(problem.params, **rules)
    return eo.Problem(problem.X, problem.target, params, problem.kinds, problem.rows)


def mixed_problem(rng, kind, n, **rules):
    """Numbers and categories with missing values."""
    kinds = np.array([0, 1, 0, 0, 1], dtype=np.uint8)
    problem = random_problem(rng, kind, n, 5, n_values=20, kinds=kinds, **rules)
    problem.X[:, 3] = rng.normal(size=n)
    return problem


# ---- small nodes, threads -----------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("missing", ["learn", "stop"])
def test_lending_changes_nothing(rng, kind, missing):
    problem = mixed_problem(rng, kind, 200)
    problem = with_rules(problem, missing=missing)
    whole = eo.grow(problem)
    assert whole.tree.n_leaves > 20
    for subtree_rows, n_threads in ((2, 1), (7, 3), (40, 1), (40, 2), (40, 3), (199, 2), (200, 1),
                                 (5000, 3)):  # fmt: skip
        grown = eo.grow(with_rules(problem, subtree_rows=subtree_rows), n_threads=n_threads)
        eo.same_grown(whole, grown)
        for mine, theirs in zip(grown.segments, whole.segments, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", ONE_OUTPUT)
def test_lending_under_monotone_constraints(rng, kind):
    signs = np.array([1, 0, -1, 0, 0], dtype=np.int8)
    problem = with_rules(mixed_problem(rng, kind, 200), monotonic=signs)
    whole = eo.grow(problem)
    for subtree_rows in (10, 60):
        grown = eo.grow(with_rules(problem, subtree_rows=subtree_rows), n_threads=2)
        eo.same_grown(whole, grown)
        np.testing.assert_array_equal(grown.splits["lower"], whole.splits["lower"])
        np.testing.assert_array_equal(grown.splits["upper"], whole.splits["upper"])


@pytest.mark.parametrize(
    "rules",
    [
        {"max_features": 2},
        {"feature_fractions": (0.8, 0.7, 0.7)},
        {"random_ties": True},
        {"max_depth": 4, "min_samples_leaf": 3},
        {"frontier": "best-first"},
        {"frontier": "depth-wise"},
    ],
    ids=lambda rules: "-".join(rules),
)
@pytest.mark.parametrize("kind", ["squares", "gini-weighted", "absolute", "newton"])
def test_draws_and_orders_do_not_depend_on_lending(rng, kind, rules):
    problem = mixed_problem(rng, kind, 200, **rules)
    for seed in (0, 1, 2**64 - 1):
        whole = eo.grow(problem, seed=seed)
        for subtree_rows, n_threads in ((9, 3), (90, 1), (1000, 2)):
            tasks = with_rules(problem, subtree_rows=subtree_rows)
            eo.same_grown(whole, eo.grow(tasks, n_threads=n_threads, seed=seed))


@pytest.mark.parametrize(
    "kind", ["newton", "squares", "squares-outputs", "gini-weighted", "entropy", "absolute"]
)
def test_threads_change_nothing_in_large_nodes(rng, kind):
    # So many entries that the lists are scanned and divided by several threads.
    problem = mixed_problem(rng, kind, 16_000, max_depth=3)
    whole = eo.grow(problem)
    for n_threads in (2, 3):
        eo.same_grown(whole, eo.grow(problem, n_threads=n_threads), same_words=True)
        tasks = with_rules(problem, subtree_rows=5000)
        eo.same_grown(whole, eo.grow(tasks, n_threads=n_threads))


@given(st.data(), st.sampled_from(list(KINDS)), st.integers(1, 25))
def test_lent_trees_are_best_trees(data, kind, subtree_rows):
    problem = with_rules(data.draw(problems(kind)), subtree_rows=subtree_rows)
    eo.check_tree(eo.grow(problem), problem)


# ---- numbering and frontiers --------------------------------------------------------------------


def preorder(nodes):
    """Numbers of the nodes on the way down, the left side first."""
    stack, found = [0], []
    while stack:
        k = stack.pop()
        found.append(k)
        if nodes["left"][k] >= 0:
            stack += [nodes["right"][k], nodes["left"][k]]
    return found


@pytest.mark.parametrize("subtree_rows", [0, 30])
@pytest.mark.parametrize("frontier", ["best-first", "depth-first", "depth-wise"])
def test_nodes_are_numbered_down_the_left_side(rng, frontier, subtree_rows):
    problem = mixed_problem(rng, "squares", 200, frontier=frontier, subtree_rows=subtree_rows)
    nodes = eo.grow(problem).tree.nodes
    assert preorder(nodes) == list(range(len(nodes)))
    inner = nodes["left"] >= 0
    np.testing.assert_array_equal(nodes["left"][inner], np.flatnonzero(inner) + 1)
    plain = eo.grow(with_rules(problem, preorder=False))
    order = np.array(preorder(plain.tree.nodes))
    for name in ("feature", "threshold", "gain", "n_samples", "depth", "weight"):
        np.testing.assert_array_equal(plain.tree.nodes[name][order], nodes[name])
    children = plain.tree.nodes["left"]
    assert (children[children >= 0] > np.flatnonzero(children >= 0)).all()


@EVERY_KIND
def test_best_first_growth_ends_at_the_same_tree(rng, kind):
    problem = mixed_problem(rng, kind, 150)
    whole = eo.grow(with_rules(problem, frontier="depth-first"))
    best = eo.grow(with_rules(problem, frontier="best-first"))
    eo.same_grown(whole, best)
    limited = with_rules(problem, frontier="best-first", max_leaves=whole.tree.n_leaves)
    eo.same_grown(whole, eo.grow(limited))


@EVERY_KIND
def test_best_first_growth_takes_the_largest_gains(rng, kind):
    problem = random_problem(rng, kind, 150, n_values=40, frontier="best-first", preorder=False)
    gains = eo.grow(problem).tree.nodes["gain"]
    for max_leaves in (1, 2, 5, 9):
        grown = eo.grow(with_rules(problem, max_leaves=max_leaves))
        nodes = grown.tree.nodes
        assert grown.tree.n_leaves == max_leaves
        # A split node is better than every one that was open when it was split.
        inner = np.flatnonzero(nodes["left"] >= 0)
        order = inner[np.argsort(nodes["left"][inner])]
        open_nodes = {0}
        for k in order:
            assert gains[k] >= max(gains[j] for j in open_nodes) * (1 - 1e-9)
            open_nodes = (open_nodes - {k}) | {int(nodes["left"][k]), int(nodes["right"][k])}


# ---- rows ---------------------------------------------------------------------------------------


@given(st.data(), st.sampled_from(list(KINDS)))
def test_sampled_rows(data, kind):
    problem = data.draw(problems(kind))
    n = len(problem.X)
    chosen = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    problem.rows = np.array(sorted(chosen), dtype=np.uint32)
    grown = eo.grow(problem)
    eo.check_tree(grown, problem)
    assert (grown.leaf >= 0).sum() == len(chosen)


@EVERY_KIND
def test_a_sample_is_the_table_of_its_rows(rng, kind):
    problem = mixed_problem(rng, kind, 200)
    rows = np.flatnonzero(rng.random(200) < 0.6).astype(np.uint32)
    target = replace(problem.target, data=np.ascontiguousarray(problem.target.data[rows]))
    part = eo.grow(eo.Problem(problem.X[rows], target, problem.params, problem.kinds))
    # Rows outside the sample must not matter, whatever they hold.
    problem.target.data[np.setdiff1d(np.arange(200), rows), :] = 0.0
    problem.rows = rows
    for subtree_rows in (0, 25):
        grown = eo.grow(with_rules(problem, subtree_rows=subtree_rows))
        grown.leaf = grown.leaf[rows]
        eo.same_grown(grown, part)


def test_weight_two_is_the_row_twice(rng):
    for kind in ("squares-weighted", "gini-weighted", "entropy-weighted", "absolute-weighted"):
        problem = random_problem(rng, kind, 80)
        twice = np.flatnonzero(rng.random(80) < 0.4)
        rows = np.concatenate([np.arange(80), twice])
        double = problem.target.data.copy()
        columns = slice(1, 2) if "gini" in kind or "entropy" in kind else slice(None)
        double[twice, columns] *= 2
        weighted = eo.grow(eo.Problem(problem.X, replace(problem.target, data=double),
                                      problem.params))  # fmt: skip
        data = np.ascontiguousarray(problem.target.data[rows])
        repeated = eo.grow(eo.Problem(problem.X[rows], replace(problem.target, data=data),
                                      problem.params))  # fmt: skip
        for name in ("feature", "threshold", "left"):
            np.testing.assert_array_equal(weighted.tree.nodes[name], repeated.tree.nodes[name])
        np.testing.assert_allclose(weighted.tree.values, repeated.tree.values, atol=1e-12)


# ---- several trees, and refusals ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["newton", "squares", "absolute", "gini"])
def test_kept_lists_serve_many_trees(rng, kind):
    problem = mixed_problem(rng, kind, 120, subtree_rows=20)
    target = problem.target
    table = Table(problem.X, problem.kinds)
    grower = Grower(table, problem.params, BareLeaves(), 2)
    before = table.lists(1)[:5].copy()
    for k in range(6):
        rows = None if k % 2 else np.flatnonzero(rng.random(120) < 0.5).astype(np.uint32)
        data = target.data[rng.permutation(120)]
        problem = eo.Problem(problem.X, replace(target, data=data), problem.params, problem.kinds,
                             rows)  # fmt: skip
        grown = grower.grow(Statistics(target=problem.target), rows, k)
        alone = eo.grow(problem, seed=k)
        np.testing.assert_array_equal(grown.sums, alone.tree.values)
        for name in ("left", "feature", "gain", "missing_left", "n_samples"):
            np.testing.assert_array_equal(grown.nodes[name], alone.tree.nodes[name])
        np.testing.assert_array_equal(grower.row_nodes(), alone.leaf)
    np.testing.assert_array_equal(table.lists(1)[:5], before)


def test_what_does_not_fit_is_refused(rng):
    problem = random_problem(rng, "squares", 20)
    table, data = Table(problem.X, problem.kinds), problem.target.data

    def grow(rows=None, **changed):
        own = {name: changed.pop(name) for name in ("data", "layout") if name in changed}
        params = replace(problem.params, **changed)
        statistics = Statistics(target=replace(problem.target, **own))
        Grower(table, params, BareLeaves()).grow(statistics, rows)

    with pytest.raises(ValueError, match="one target per row"):
        grow(data=data[:-1].copy())
    with pytest.raises(ValueError, match="unknown layout"):
        grow(layout=5)
    for rows in ([], [0, 20], [1, 0], [1, 1]):
        with pytest.raises(ValueError, match="rows must"):
            grow(np.array(rows, dtype=np.uint32))
    for signs in (np.zeros(2, np.int8), np.zeros(4, np.int8)):
        with pytest.raises(ValueError, match="one monotone constraint"):
            grow(monotonic=signs)
    with pytest.raises(ValueError, match="do not fit"):
        SortedSearch(3, 20, table.n_categories, problem.params, 1, 1, 1, table.lists(1)[:2])
    with pytest.raises(ValueError, match="rows, features and n_categories"):
        SortedSearch(2, 20, table.n_categories, problem.params, 1, 1, 1, table.lists(1))
    with pytest.raises(KeyError):
        grow(criterion="luck")


def test_a_chain_as_deep_as_its_rows():
    # Each split takes off one row; nodes count their depth in 16 bits.
    n = 400
    y = 3.0 ** -np.arange(n).astype(np.float64)
    problem = eo.Problem(np.arange(n)[:, None] * 1.0, eo.unit_target(y), params_of("squares"))
    for subtree_rows in (0, 50, 1000):
        grown = eo.grow(with_rules(problem, subtree_rows=subtree_rows))
        assert grown.tree.depth > 20
        assert np.isin(grown.leaf, np.flatnonzero(grown.tree.nodes["left"] < 0)).all()
