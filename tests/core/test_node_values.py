"""Values and impurities of nodes against their definitions, row by row."""

from __future__ import annotations

import exact_oracle as eo
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.grow.cart import class_values, grow_cart, median_values
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._criteria import weighted_medians

REGRESSION = {
    "squared_error": "squares",
    "friedman_mse": "squares",
    "absolute_error": "absolute",
    "poisson": "poisson",
}
CLASSES = {
    "gini": "squares",
    "entropy": "entropy",
    "log_loss": "entropy",
    "misclassification": "misclassified",
}
RULES = {"max_depth": 4, "min_gain": -np.inf, "min_child_weight": 0.0, "frontier": "depth-first"}


def grow(X, target, weight=None, *, criterion, n_classes=0, splitter="exact", **rules):
    return grow_cart(
        X,
        target,
        weight,
        criterion=criterion,
        n_classes=n_classes,
        params=GrowerParams(**(RULES | rules)),
        is_categorical=np.zeros(X.shape[1], dtype=bool),
        splitter=splitter,
    )


def rows_below(grown):
    """For each node the rows that reached it, from where they ended."""
    nodes = grown.tree.nodes
    found = [set(np.flatnonzero(grown.leaf == k)) for k in range(len(nodes))]
    for k in range(len(nodes) - 1, 0, -1):
        found[nodes["parent"][k]] |= found[k]
    return [np.array(sorted(rows)) for rows in found]


def table(rng, n=120, missing=0.1):
    X = rng.integers(0, 12, (n, 3)).astype(np.float64)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def check(grown, target, weight, criterion, engine_criterion, n_classes, rtol=1e-9):
    """Impurity, value, weight and gain of every node."""
    nodes, rows_of = grown.tree.nodes, rows_below(grown)
    weight = np.ones(len(target)) if weight is None else weight
    if n_classes:
        sums, n_outputs = eo.row_sums(eo.class_target(target, n_classes, weight)), 1
    else:
        sums, n_outputs = eo.row_sums(eo.weighted_target(target, weight)), target.shape[1]
    params = GrowerParams(criterion=engine_criterion)
    cost = np.array([eo.cost(sums[rows], params) / n_outputs for rows in rows_of])
    total = np.array([weight[rows].sum() for rows in rows_of])
    top = cost[0] / total[0]
    np.testing.assert_allclose(grown.tree.impurity, cost / total, rtol=rtol, atol=1e-12 * top)
    np.testing.assert_allclose(nodes["weight"], total, rtol=1e-12)
    for k, rows in enumerate(rows_of):
        assert nodes["n_samples"][k] == len(rows)
        if n_classes:
            expected = sums[rows, :-1].sum(axis=0) / total[k]
        elif criterion == "absolute_error":
            expected = [eo.median(column, weight[rows]) for column in target[rows].T]
        else:
            expected = np.average(target[rows], axis=0, weights=weight[rows])
        np.testing.assert_allclose(grown.tree.values[k], expected, rtol=1e-12, atol=1e-12)
    inner = np.flatnonzero(nodes["left"] >= 0)
    kept = [np.concatenate([rows_of[nodes[side][k]] for side in ("left", "right")]) for k in inner]
    gain = [eo.cost(sums[rows], params) / n_outputs for rows in kept]
    gain -= cost[nodes["left"][inner]] + cost[nodes["right"][inner]]
    np.testing.assert_allclose(nodes["gain"][inner], gain, rtol=rtol, atol=1e-9 * cost[0])
    assert len(inner) > 4


# ---- every criterion ----------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", REGRESSION)
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("missing", ["learn", "stop"])
def test_regression(rng, criterion, weighted, n_outputs, missing):
    X = table(rng)
    target = rng.gamma(2.0, 3.0, (120, n_outputs))
    target[rng.random(target.shape) < 0.2] = 0.0
    weight = rng.random(120) + 0.1 if weighted else None
    grown = grow(X, target, weight, criterion=criterion, missing=missing)
    check(grown, target, weight, criterion, REGRESSION[criterion], 0)


@pytest.mark.parametrize("criterion", CLASSES)
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("missing", ["learn", "stop"])
def test_classes(rng, criterion, weighted, n_classes, missing):
    X = table(rng)
    target = rng.integers(0, n_classes, 120).astype(np.int32)
    weight = rng.random(120) + 0.1 if weighted else None
    grown = grow(X, target, weight, criterion=criterion, n_classes=n_classes, missing=missing)
    check(grown, target, weight, criterion, CLASSES[criterion], n_classes)
    assert (grown.tree.impurity >= 0).all()
    assert (grown.tree.values >= 0).all()


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
def test_binned_features(rng, criterion, weighted):
    X = table(rng)
    target = rng.gamma(2.0, 3.0, (120, 1))
    weight = rng.integers(1, 9, 120) / 4 if weighted else None
    grown = grow(X, target, weight, criterion=criterion, splitter="hist")
    check(grown, target, weight, criterion, REGRESSION[criterion], 0)


@pytest.mark.parametrize("criterion", [*REGRESSION, *CLASSES])
def test_rows_of_weight_nought_take_no_part(rng, criterion):
    X, weight = table(rng), rng.integers(0, 3, 120).astype(float)
    n_classes = 3 if criterion in CLASSES else 0
    target = rng.integers(0, 3, 120).astype(np.int32) if n_classes else rng.random((120, 1))
    how = {"criterion": criterion, "n_classes": n_classes}
    # Nor do their targets, however large.
    wild = np.where((weight == 0)[:, None], 1e8, target) if not n_classes else target
    grown = grow(X, wild, weight, **how)
    kept = weight > 0
    part = grow(X[kept], target[kept], weight[kept], **how)
    for name in ("feature", "threshold", "n_samples", "missing_left"):
        np.testing.assert_array_equal(grown.tree.nodes[name], part.tree.nodes[name])
    np.testing.assert_allclose(grown.tree.values, part.tree.values, rtol=1e-12)
    np.testing.assert_allclose(grown.tree.impurity, part.tree.impurity, rtol=1e-9, atol=1e-12)
    assert set(grown.leaf[~kept]) == {-1}
    np.testing.assert_array_equal(grown.leaf[kept], part.leaf)


# ---- numbers of any size ------------------------------------------------------------------------


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
def test_an_offset_takes_no_digits(rng, criterion, weighted, splitter):
    X = table(rng, 200)
    weight = rng.integers(1, 9, 200) / 4 if weighted else None
    # Multiples of 2**-16: the offset leaves them as they are.
    noise = rng.integers(-(2**16), 2**16, (200, 1)) / 2**16
    near, far = (
        grow(X, noise + offset, weight, criterion=criterion, splitter=splitter)
        for offset in (0.0, 1e9)
    )
    np.testing.assert_array_equal(far.tree.nodes["feature"], near.tree.nodes["feature"])
    np.testing.assert_array_equal(far.tree.nodes["threshold"], near.tree.nodes["threshold"])
    np.testing.assert_allclose(far.tree.impurity, near.tree.impurity, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(far.tree.values - 1e9, near.tree.values, atol=5e-7)
    np.testing.assert_allclose(far.tree.nodes["gain"], near.tree.nodes["gain"], rtol=1e-6)


@pytest.mark.parametrize("criterion", REGRESSION)
@pytest.mark.parametrize("power", [-900, -300, 60, 400, 600])
def test_units_of_any_size(rng, criterion, power):
    X, target = table(rng), rng.gamma(2.0, 3.0, (120, 2))
    scale = 2.0**power
    one, other = (grow(X, target * s, criterion=criterion) for s in (1.0, scale))
    np.testing.assert_array_equal(one.tree.nodes["feature"], other.tree.nodes["feature"])
    np.testing.assert_array_equal(one.leaf, other.leaf)
    np.testing.assert_allclose(one.tree.values * scale, other.tree.values, rtol=1e-12)
    # Squares of such numbers may be none; the tree is the same for all that.
    if REGRESSION[criterion] != "squares" or abs(power) <= 400:
        factor = scale**2 if REGRESSION[criterion] == "squares" else scale
        np.testing.assert_allclose(one.tree.impurity * factor, other.tree.impurity, rtol=1e-9)


def test_a_leaf_of_equal_targets_has_their_value(rng):
    X = np.arange(300.0)[:, None]
    target = np.repeat([0.1, 1 / 3, 1e9 + 0.7], 100)[:, None]
    # Deviations of some units in the last place of the largest target, and their squares.
    for criterion, most in (("squared_error", 1e-11), ("absolute_error", 0.0), ("poisson", 1e-5)):
        grown = grow(X, target, criterion=criterion)
        leaves = grown.tree.nodes["left"] < 0
        np.testing.assert_allclose(grown.tree.values[grown.leaf, 0], target[:, 0], rtol=1e-14)
        assert grown.tree.n_leaves == 3
        assert grown.tree.impurity[leaves].max() <= most


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "gini", "poisson"])
def test_values_keep_to_their_bounds(rng, criterion):
    # Under a constraint a child's child may not pass the middle of its uncle.
    n_classes = 2 if criterion == "gini" else 0
    X = rng.random((300, 2))
    signal = 3 * X[:, 0] + np.sin(9 * X[:, 1]) + 2 * rng.random(300)
    target = (signal > 2).astype(np.int32) if n_classes else signal[:, None] + 2
    grown = grow(X, target, criterion=criterion, n_classes=n_classes, max_depth=0,
                 monotonic=np.array([1, 0], dtype=np.int8))  # fmt: skip
    value = grown.tree.values[:, -1]
    nodes = grown.tree.nodes

    def extremes(k):
        if nodes["left"][k] < 0:
            return value[k], value[k]
        (a, b), (c, d) = extremes(nodes["left"][k]), extremes(nodes["right"][k])
        if nodes["feature"][k] == 0:
            assert b <= c + 1e-12
        return min(a, c), max(b, d)

    extremes(0)
    assert (nodes["feature"] == 0).sum() >= 3
    if n_classes:
        np.testing.assert_allclose(grown.tree.values.sum(axis=1), 1.0, rtol=1e-15)


# ---- medians ------------------------------------------------------------------------------------


@given(st.data())
def test_medians_of_any_nodes(data):
    n = data.draw(st.integers(1, 30))
    y = np.array(data.draw(st.lists(st.integers(-20, 20), min_size=n, max_size=n))) / 4.0
    weight = np.array(data.draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))) / 2.0
    rows = np.array(data.draw(st.permutations(range(n))), dtype=np.uint32)
    cuts = sorted(data.draw(st.sets(st.integers(1, n), min_size=1)))
    start, stop = np.array([0, *cuts[:-1]], dtype=np.intp), np.array(cuts, dtype=np.intp)
    medians, deviations = weighted_medians(y, weight, rows, start, stop)
    for k in range(len(start)):
        own = rows[start[k] : stop[k]]
        middle = eo.median(y[own], weight[own])
        assert medians[k] == middle
        away = np.average(np.abs(y[own] - middle), weights=weight[own])
        np.testing.assert_allclose(deviations[k], away, rtol=1e-12, atol=1e-15)


def test_medians_of_nested_nodes_with_rows_that_stay(rng):
    n = 60
    y, weight = rng.integers(0, 9, n).astype(float), rng.integers(1, 4, n).astype(float)
    rows = rng.permutation(n).astype(np.uint32)
    # The root, its children with a gap between them, theirs, and the child behind the gap.
    start, stop = np.array([0, 5, 5, 11, 30]), np.array([60, 25, 9, 25, 58])
    medians, deviations = weighted_medians(y, weight, rows, start, stop)
    for k in range(len(start)):
        own = rows[start[k] : stop[k]]
        assert medians[k] == eo.median(y[own], weight[own])
        away = np.average(np.abs(y[own] - medians[k]), weights=weight[own])
        np.testing.assert_allclose(deviations[k], away, rtol=1e-12)


def test_medians_of_unweighted_rows_are_numpys(rng):
    for n in (1, 2, 3, 10, 11, 1000):
        y = rng.normal(size=n)
        rows, start, stop = np.arange(n, dtype=np.uint32), np.zeros(1, np.intp), np.array([n])
        medians, deviations = weighted_medians(y, np.ones(n), rows, start, stop)
        np.testing.assert_allclose(medians[0], np.median(y), rtol=1e-15)
        np.testing.assert_allclose(deviations[0], np.mean(np.abs(y - np.median(y))), rtol=1e-12)


def test_medians_of_several_outputs(rng):
    y, rows = rng.normal(size=(20, 3)), rng.permutation(20).astype(np.uint32)
    segments = rows, np.array([0, 0, 8]), np.array([20, 8, 20])
    value, impurity = median_values(y, None, segments)
    for k, own in enumerate((rows, rows[:8], rows[8:])):
        np.testing.assert_allclose(value[k], np.median(y[own], axis=0))
        np.testing.assert_allclose(impurity[k], np.abs(y[own] - np.median(y[own], axis=0)).mean())


def test_medians_that_do_not_fit_are_refused():
    y, rows = np.zeros(4), np.arange(4, dtype=np.uint32)
    for start, stop in [(0, 0), (2, 1), (0, 5), (-1, 2)]:
        with pytest.raises(ValueError, match="no rows"):
            weighted_medians(y, y, rows, np.array([start]), np.array([stop]))
    with pytest.raises(ValueError, match="before its descendants"):
        weighted_medians(y, y, rows, np.array([0, 0]), np.array([2, 4]))
    with pytest.raises(ValueError, match="out of range"):
        weighted_medians(y[:3], y, rows, np.array([0]), np.array([4]))
    with pytest.raises(ValueError, match="out of range"):
        weighted_medians(y, y[:3], rows, np.array([0]), np.array([4]))


# ---- class shares -------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CLASSES)
def test_shares_of_pure_and_even_nodes(criterion):
    sums = np.array([[0.0, 4.0], [4.0, 4.0], [2.0, 4.0], [1.0, 4.0]])
    free = np.full(4, -np.inf), np.full(4, np.inf)
    share, impurity = class_values(sums, free, 2, criterion)
    np.testing.assert_array_equal(share[:, 1], [0, 1, 0.5, 0.25])
    entropy = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    expected = {"squares": [0, 0, 0.5, 0.375], "entropy": [0, 0, 1, entropy],
                "misclassified": [0, 0, 0.5, 0.25]}[CLASSES[criterion]]  # fmt: skip
    np.testing.assert_allclose(impurity, expected, rtol=1e-15)
    one, nothing = class_values(np.array([[0.0, 3.0]]), (free[0][:1], free[1][:1]), 1, criterion)
    assert one.tolist() == [[1.0]] and nothing.tolist() == [0.0]
