"""Ordered target statistics against a slow loop, and what they must not know."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.base._threads import row_bits
from hybridtrees.input.target_statistics import _SEED, TargetStatistics


def table(n_rows, n_levels, seed=0, missing=0.0):
    """Two columns of codes, of which the first holds categories."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, n_levels, (n_rows, 2)).astype(np.float64)
    values[rng.random((n_rows, 2)) < missing] = np.nan
    labels = np.array([f"c{k}" for k in range(n_levels)], dtype=object)
    return values, [labels, None], rng


def slow_means(codes, response, weight=None):
    """Mean response of earlier rows of the category, and of all its rows, by loops."""
    n = len(codes)
    weight = np.ones(n) if weight is None else weight * (np.count_nonzero(weight) / weight.sum())
    prior = (weight * response).sum() / weight.sum()
    bits = row_bits(_SEED, np.arange(n, dtype=np.uint32))
    codes = np.where(np.isnan(codes), -1, codes)
    before, of_all = np.empty(n), np.empty(n)
    for i in range(n):
        alike = [j for j in range(n) if codes[i] == codes[j]]
        for out, rows in (
            (before, [j for j in alike if (bits[j], j) < (bits[i], i)]),
            (of_all, alike),
        ):
            own = sum(weight[j] * response[j] for j in rows)
            out[i] = (own + prior) / (sum(weight[j] for j in rows) + 1)
    return before, of_all, prior


@given(st.integers(0, 2**31), st.booleans(), st.integers(2, 8))
def test_statistics_are_those_of_a_loop(seed, weighted, n_levels):
    values, categories, rng = table(60, n_levels, seed, missing=0.1)
    y = rng.normal(size=60) * 10.0 ** rng.integers(-5, 6)
    weight = rng.integers(0, 4, 60).astype(np.float64) if weighted else None
    made, ordered = TargetStatistics.learn(values, categories, y, 0, weight, True)
    before, of_all, prior = slow_means(values[:, 0], y, weight)
    scale = np.abs(y).max()
    np.testing.assert_allclose(ordered[:, 0], before, atol=1e-9 * scale, rtol=0)
    np.testing.assert_allclose(made.apply(values)[:, 0], of_all, atol=1e-9 * scale, rtol=0)
    np.testing.assert_array_equal(ordered[:, 1], values[:, 1])
    unseen, missing = made.apply(np.array([[n_levels + 5.0, 0.0], [np.nan, 0.0]]))[:, 0]
    assert unseen == missing
    if not np.isnan(values[:, 0]).any():
        assert missing == pytest.approx(prior, rel=1e-12)


def test_a_row_knows_nothing_of_its_own_target():
    values, categories, rng = table(300, 20)
    y = rng.normal(size=300)
    made, ordered = TargetStatistics.learn(values, categories, y, 0, None, True)
    bits = row_bits(_SEED, np.arange(300, dtype=np.uint32))
    for i in range(0, 300, 17):
        other = y.copy()
        other[i] += 100.0
        changed = made.order(values, other, 0, None)  # with the prior of y
        later = (values[:, 0] == values[i, 0]) & (bits > bits[i])
        assert not later[i]
        same = np.isclose(changed[:, 0], ordered[:, 0], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(~same, later)


def test_classes_and_targets_are_one_number():
    values, categories, rng = table(3000, 40)
    score = rng.normal(size=40)[values[:, 0].astype(int)] + rng.normal(size=3000)
    classes = np.digitize(score, [-0.8, 0.8])
    made, _ = TargetStatistics.learn(values, categories, classes, 3, None, "auto")
    np.testing.assert_array_equal(made.features, [0])
    d = made.directions[0]
    # The classes are in order, so the contrast is that of the first and the last.
    assert d[0] * d[2] < 0 and min(d[0], d[2]) < d[1] < max(d[0], d[2])
    made, ordered = TargetStatistics.learn(values[:200], categories, classes[:200], 3, None, True)
    before = slow_means(values[:200, 0], made.directions[0][classes[:200]])[0]
    np.testing.assert_allclose(ordered[:, 0], before, atol=1e-12)
    # Of several targets, in any unit, the one that the categories tell something about counts.
    targets = np.column_stack([rng.normal(size=3000) * 1e6, score])
    several, _ = TargetStatistics.learn(values, categories, targets, 0, None, True)
    share = np.abs(several.directions[0] * targets.std(axis=0))
    assert share[1] > 5 * share[0]


def test_auto_takes_many_categories_with_noisy_means():
    values, categories, rng = table(3000, 40)
    level = rng.normal(size=40)[values[:, 0].astype(int)]
    noisy, known = level + 3 * rng.normal(size=3000), level + 0.1 * rng.normal(size=3000)
    few, short, _ = table(3000, 30)

    def takes(values, categories, y, choice="auto"):
        return TargetStatistics.learn(values, categories, y, 0, None, choice) is not None

    assert takes(values, categories, noisy)
    assert takes(values, categories, noisy * 1e200)
    assert takes(values, categories, rng.normal(size=3000))
    assert not takes(values, categories, known)
    assert not takes(few, short, noisy)
    assert takes(few, short, noisy, True) and takes(values, categories, known, True)


def test_weights_have_no_unit_and_zero_is_no_row():
    values, categories, rng = table(500, 12)
    y, weight = rng.normal(size=500), rng.random(500)
    weight[::7] = 0.0
    one, ordered = TargetStatistics.learn(values, categories, y, 0, weight, True)
    other, again = TargetStatistics.learn(values, categories, y, 0, weight * 1024.0, True)
    np.testing.assert_array_equal(ordered, again)
    np.testing.assert_array_equal(one.table, other.table)
    spoilt = y.copy()
    spoilt[::7] = 1e3
    last, _ = TargetStatistics.learn(values, categories, spoilt, 0, weight, True)
    np.testing.assert_allclose(last.table, one.table, atol=1e-9)


def test_constant_targets_and_a_single_row():
    values, categories, _ = table(50, 40)
    for y in (np.zeros(50), np.full(50, 7.0)):
        _, ordered = TargetStatistics.learn(values, categories, y, 0, None, True)
        np.testing.assert_array_equal(ordered[:, 0], y)
    made, ordered = TargetStatistics.learn(values[:1], categories, np.array([3.0]), 0, None, True)
    assert ordered[0, 0] == 3.0 and made.apply(values[:1])[0, 0] == 3.0


def test_a_spoilt_state_is_refused():
    values, categories, rng = table(50, 5)
    made, _ = TargetStatistics.learn(values, categories, rng.normal(size=50), 0, None, True)
    made._check_state()
    made.check_categories(categories)
    state = dict(vars(made))
    for name, value in (
        ("start", np.array([0, 99])),
        ("start", np.array([0])),
        ("features", np.array([-1])),
        ("table", np.full(6, np.nan)),
        ("prior", np.array([np.inf])),
    ):
        with pytest.raises(ValueError):
            TargetStatistics.from_state({**state, name: value})
    with pytest.raises(ValueError, match="other columns"):
        made.check_categories([None, None])
