"""Exact splits against brute force, under every criterion, and what decides between equal ones."""

from __future__ import annotations

from dataclasses import replace

import exact_oracle as eo
import numpy as np
import pytest
from exact_problems import KINDS, ONE_OUTPUT, params_of, problems, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
# Many kinds: half as many examples of each as the profile asks for.
FEW = settings(max_examples=settings().max_examples // 2)
ONE_VALUE = pytest.mark.parametrize("kind", ONE_OUTPUT)


# ---- numbers ------------------------------------------------------------------------------------


@EVERY_KIND
@FEW
@given(data=st.data())
def test_any_problem_under_any_rules(kind, data):
    problem = data.draw(problems(kind))
    eo.check_tree(eo.grow(problem), problem)


@EVERY_KIND
@pytest.mark.parametrize("missing", [0.0, 0.3], ids=["full", "missing"])
def test_whole_trees(rng, kind, missing):
    problem = random_problem(rng, kind, 70, missing=missing, min_samples_leaf=2)
    assert eo.check_tree(eo.grow(problem), problem) > 8


@EVERY_KIND
@pytest.mark.parametrize("missing", ["learn", "stop"])
def test_every_stump(rng, kind, missing):
    # More rows, no luck with ties: the best threshold of the root and the sums of its children.
    for _ in range(3):
        problem = random_problem(rng, kind, 150, n_values=40, max_depth=1, missing=0.2)
        problem.params = replace(problem.params, missing=missing)
        assert eo.check_tree(eo.grow(problem), problem) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_layout_of_the_table(rng, dtype):
    problem = random_problem(rng, "squares", 60)
    problem.X = problem.X.astype(dtype)
    whole = eo.grow(problem)
    wide = np.zeros((120, 9), dtype=dtype)
    wide[::2, ::3] = problem.X
    for X in (np.asfortranarray(problem.X), wide[::2, ::3]):
        eo.same_grown(whole, eo.grow(eo.Problem(X, problem.target, problem.params)))


@EVERY_KIND
def test_a_column_that_only_tells_present_from_missing(rng, kind):
    problem = random_problem(rng, kind, 40, 2, missing=0.0, max_depth=1)
    problem.X[:, 0] = 7.0
    problem.X[problem.sums[:, 0] > np.median(problem.sums[:, 0]), 0] = np.nan
    problem.X[:, 1] = 1.0
    grown = eo.grow(problem)
    eo.check_tree(grown, problem)
    root = grown.tree.nodes[0]
    assert (root["feature"], root["threshold"], root["missing_left"]) == (0, np.inf, 0)
    stop = replace(problem.params, missing="stop")
    assert eo.grow(replace_params(problem, stop)).tree.n_nodes == 1


def replace_params(problem, params):
    return eo.Problem(problem.X, problem.target, params, problem.kinds, problem.rows)


@EVERY_KIND
def test_columns_that_cannot_be_split(kind):
    X = np.column_stack([np.full(8, 3.0), np.full(8, np.nan)])
    steps = np.arange(16).reshape(8, 2) - 8
    problem = random_problem(np.random.default_rng(0), kind, 8)
    problem = eo.Problem(X, problem.target, problem.params)
    assert len(np.unique(steps)) == 16
    assert eo.grow(problem).tree.n_nodes == 1


@EVERY_KIND
def test_one_row(rng, kind):
    grown = eo.grow(random_problem(rng, kind, 1))
    assert grown.tree.n_nodes == 1
    assert grown.leaf.tolist() == [0]


# ---- monotone constraints -----------------------------------------------------------------------


@ONE_VALUE
@FEW
@given(data=st.data())
def test_monotone_constraints(kind, data):
    signs = np.array(data.draw(st.lists(st.integers(-1, 1), min_size=3, max_size=3)), np.int8)
    problem = data.draw(problems(kind, monotonic=signs))
    p = problem.X.shape[1]
    problem.params = replace(problem.params, monotonic=signs[:p].copy())
    eo.check_tree(eo.grow(problem), problem)


@ONE_VALUE
def test_whole_monotone_trees(rng, kind):
    signs = np.array([1, 0, -1], dtype=np.int8)
    problem = random_problem(rng, kind, 60, missing=0.0, monotonic=signs)
    assert eo.check_tree(eo.grow(problem), problem) > 3


# ---- categories ---------------------------------------------------------------------------------

# One number per row and no penalty: the best of all subsets is a cut in the order of the means.
SUBSETS = ["newton", "squares", "squares-weighted", "entropy-binary", "entropy-binary-weighted",
           "misclassified-binary", "poisson", "poisson-weighted"]  # fmt: skip


@pytest.mark.parametrize("kind", SUBSETS)
@FEW
@given(data=st.data())
def test_categories_against_all_subsets(kind, data):
    fixed = {"min_child_weight": 0.0, "min_samples_leaf": 1, "max_depth": 2}
    if kind == "newton":
        fixed |= {"reg_lambda": 0.0, "reg_alpha": 0.0, "max_delta_step": 0.0}
    if kind == "poisson" or kind == "poisson-weighted":
        # Sides whose targets are all 0 are not allowed, which is no matter of order.
        fixed["missing"] = "learn"
    problem = data.draw(problems(kind, max_rows=20, n_values=7, categorical=True, **fixed))
    if kind.startswith("poisson"):
        problem.target.data[:, 0] += 1.0
        problem = eo.Problem(problem.X, problem.target, problem.params, problem.kinds)
    eo.check_tree(eo.grow(problem), problem)


def ordered_gain(problem, f, order_by):
    """Best gain of a cut of the categories of f in the order of their mean of one sum."""
    x, rows = problem.X[:, f], np.arange(len(problem.X))
    codes = np.unique(x[~np.isnan(x)])
    mean = {c: problem.sums[x == c, order_by].sum() / problem.sums[x == c, -1].sum() for c in codes}
    order = sorted(codes, key=lambda c: (mean[c], c))
    sides = [(np.isin(x, order[: k + 1]), way) for k in range(len(order)) for way in (0, 1)]
    best = -np.inf
    for left, way in sides:
        left = left | (np.isnan(x) & (way == 1))
        if 0 < left.sum() < len(x):
            parts = rows[left], rows[~left]
            best = max(best, problem.cost(rows) - sum(map(problem.cost, parts)))
    return best


@EVERY_KIND
def test_the_order_by_every_output_is_tried(rng, kind):
    for _ in range(4):
        problem = random_problem(rng, kind, 60, 1, n_values=12, kinds=np.ones(1), max_depth=1)
        if KINDS[kind][0] == "newton":
            problem.params = replace(problem.params, reg_lambda=0.0)
        grown = eo.grow(problem)
        best = max(ordered_gain(problem, 0, k) for k in range(problem.target.n_sums))
        np.testing.assert_allclose(grown.tree.nodes["gain"][0], best, rtol=1e-9)
        split = eo.split_of(grown.tree, 0, eo.Node(np.arange(60)), problem)
        gain = problem.cost(np.arange(60)) - problem.cost(split.left) - problem.cost(split.right)
        np.testing.assert_allclose(gain, best, rtol=1e-9)


def test_ten_thousand_categories(rng):
    n = 30_000
    code = rng.integers(0, 10_000, n).astype(np.float64)
    effect = rng.normal(size=10_000)
    y = effect[code.astype(int)]
    problem = eo.Problem(code[:, None], eo.unit_target(y), params_of("squares", max_depth=1), [1])
    problem.kinds = np.ones(1, dtype=np.uint8)
    grown = eo.grow(problem)
    # Two groups of a sorted column of numbers: the best cut of the effects themselves.
    plain = eo.grow(eo.Problem(y[:, None], problem.target, problem.params))
    np.testing.assert_allclose(grown.tree.nodes["gain"][0], plain.tree.nodes["gain"][0], rtol=1e-9)
    left = np.isin(code, grown.tree.category_set(0))
    assert max(y[left]) < min(y[~left])


def test_categories_beside_numbers(rng):
    problem = random_problem(rng, "squares", 80, 4, n_values=7, kinds=np.array([0, 1, 0, 1]))
    problem.kinds = problem.kinds.astype(np.uint8)
    problem.params = replace(problem.params, max_depth=3)
    assert eo.check_tree(eo.grow(problem), problem) > 4


# ---- ties ---------------------------------------------------------------------------------------


def tied_problem(kind, random_ties=False, copies=3):
    """A symmetric target: x <= 1 and x <= 5 gain the same, on every copy of the column."""
    x = np.arange(8.0)
    X = np.column_stack([x] * copies)
    high = np.array([1, 1, 0, 0, 0, 0, 1, 1])
    if KINDS[kind][1] == "newton":
        target = eo.newton_target(high - 0.5, np.ones(8))
    elif KINDS[kind][1] == "classes":
        target = eo.class_target(high, 3, np.ones(8) if KINDS[kind][2] else None)
    else:
        binary = KINDS[kind][1] == "binary"
        y = np.column_stack([high + 1.0 - binary] * (2 if "outputs" in KINDS[kind][1] else 1))
        target = (eo.weighted_target(y, np.ones(8), binary) if KINDS[kind][2] or y.shape[1] > 1
                  else eo.unit_target(y, binary))  # fmt: skip
    return eo.Problem(X, target, params_of(kind, max_depth=1, random_ties=random_ties))


@EVERY_KIND
def test_the_lowest_feature_and_threshold_win(kind):
    problem = tied_problem(kind)
    best, tied = problem.best(eo.Node(np.arange(8)))
    assert len(tied) >= 6
    root = eo.grow(problem).tree.nodes[0]
    assert (root["feature"], root["threshold"]) == (0, best.name)


@EVERY_KIND
def test_random_ties_draw_every_tied_split_and_no_other(kind):
    problem = tied_problem(kind, random_ties=True)
    _, tied = problem.best(eo.Node(np.arange(8)))
    allowed = {(split.feature, split.name) for split in tied}
    counts = dict.fromkeys(allowed, 0)
    n_draws = 60 * len(allowed)
    for seed in range(n_draws):
        root = eo.grow(problem, seed=seed).tree.nodes[0]
        counts[int(root["feature"]), float(root["threshold"])] += 1
    assert set(counts) == allowed
    # 60 draws are expected of each; the chance of fewer than 25 is below 1e-7.
    assert min(counts.values()) > 25, counts


def test_random_ties_leave_a_clear_winner_alone(rng):
    for kind in KINDS:
        problem = random_problem(rng, kind, 50, n_values=50)
        node = eo.Node(np.arange(50))
        if len(problem.best(node)[1]) > 1:
            continue
        problem.params = replace(problem.params, max_depth=1)
        whole = eo.grow(problem)
        problem.params = replace(problem.params, random_ties=True)
        for seed in range(5):
            eo.same_grown(whole, eo.grow(problem, seed=seed))


@EVERY_KIND
@FEW
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_random_ties_are_ties(kind, data, seed):
    problem = data.draw(problems(kind, random_ties=True, max_rows=16))
    eo.check_tree(eo.grow(problem, seed=seed), problem, ties=False)


# ---- thinned candidates -------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.5], ids=["fast loop", "general loop"])
@pytest.mark.parametrize("share", [0.5, 0.2, 0.1, 0.03])
def test_candidates_stand_a_share_of_the_hessian_apart(rng, alpha, share):
    for _ in range(3):
        problem = random_problem(rng, "newton", 90, 2, n_values=60, reg_alpha=alpha,
                                 candidate_share=share, max_depth=2)  # fmt: skip
        assert eo.check_tree(eo.grow(problem), problem) > 0


def test_thinning_leaves_few_candidates(rng):
    # Whatever the gradients, the root is cut at one of the few places.
    x = rng.normal(size=2000)
    hess = rng.random(2000) + 0.5
    places = {float(v) for v in eo.thinned(x, hess, 0.0, 0.1)}
    assert 8 <= len(places) <= 10
    params = params_of("newton", max_depth=1, candidate_share=0.1)
    for _ in range(30):
        target = eo.newton_target(rng.normal(size=2000), hess)
        grown = eo.grow(eo.Problem(x[:, None], target, params))
        assert x[x <= grown.tree.nodes["threshold"][0]].max() in places
