"""Re-estimated leaf values: closed forms, minimisers, quantile conventions, hostile groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loss_cases import CASES, FixedHuber, leaf_values, residuals

from hybridtrees import losses
from hybridtrees.losses import _kernels

N_ROWS = 700  # of the fixture `weight`
N_LEAVES = 5


@pytest.fixture
def leaf(rng):
    """Leaf 3 stays empty, some rows take no part."""
    return rng.choice([-1, 0, 1, 2, 4], size=700)


def fitted_leaves(case, rng, weight, leaf):
    """Targets, raw predictions and weights, and the values of the leaves for them."""
    y, raw = case.targets(rng, N_ROWS), rng.normal(size=N_ROWS)
    ours = leaf_values(case.loss, y, raw, weight, leaf, N_LEAVES)
    return y, raw, np.ones(N_ROWS) if weight is None else weight, ours


def newton(case, y, raw, w):
    """One step with derivatives by differences."""
    step = 1e-4
    low, middle, high = (case.value(y, raw + d) for d in (-step, 0, step))
    first, second = (high - low) / (2 * step), (high - 2 * middle + low) / step**2
    return -np.sum(w * first) / np.sum(w * second)


@pytest.mark.parametrize("name", ["squared", "logistic", "exponential", "pseudo_huber"])
def test_newton_steps(rng, name, weight, leaf):
    case = CASES[name]
    y, raw, w, ours = fitted_leaves(case, rng, weight, leaf)
    for j in (0, 1, 2, 4):
        rows = leaf == j
        expected = newton(case, y[rows], raw[rows], w[rows])
        np.testing.assert_allclose(ours[j], expected, rtol=1e-5)
    assert ours[3] == 0


def test_likelihood_formulas(rng, weight, leaf):
    y, raw = rng.integers(0, 2, 700).astype(float), rng.normal(size=700)
    w = np.ones(700) if weight is None else weight
    p = 1 / (1 + np.exp(-raw))
    by_hand = {
        losses.Logistic: (w * (y - p), w * p * (1 - p)),
        losses.ExponentialLoss: (
            w * np.where(y == 1, np.exp(-raw), -np.exp(raw)),
            w * np.where(y == 1, np.exp(-raw), np.exp(raw)),
        ),
        losses.SquaredError: (w * (y - raw), w),
    }
    for loss, (top, bottom) in by_hand.items():
        ours = leaf_values(loss(), y, raw, weight, leaf, N_LEAVES)
        for j in (0, 1, 2, 4):
            expected = top[leaf == j].sum() / bottom[leaf == j].sum()
            np.testing.assert_allclose(ours[j], expected, rtol=1e-12)


@pytest.mark.parametrize("n", [4095, 4096, 4097, 8193])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_of_several_blocks(rng, n, weighted):
    # Rows far apart: one that were left out or taken twice would show.
    y, raw = rng.integers(0, 2, n).astype(float), rng.normal(size=n)
    weight = rng.exponential(size=n) if weighted else None
    w = np.ones(n) if weight is None else weight
    leaf = np.zeros(n, dtype=int)
    leaf[::7] = 1
    p = 1 / (1 + np.exp(-raw))
    for loss, top, bottom in (
        (losses.Logistic(), w * (y - p), w * p * (1 - p)),
        (losses.SquaredError(), w * (y - raw), w),
        (losses.PoissonDeviance(), w * y, w * np.exp(raw)),
    ):
        expected = np.bincount(leaf, top) / np.bincount(leaf, bottom)
        expected = np.log(expected) if isinstance(loss, losses.PoissonDeviance) else expected
        known = [None, y - p] if isinstance(loss, losses.Logistic) else [None]
        for residual in known:
            ours = leaf_values(loss, y, raw, weight, leaf, 2, residual=residual)
            np.testing.assert_allclose(ours, expected, rtol=1e-11)


def test_softmax_rule(rng, weight, leaf):
    loss, raw = losses.Softmax(3), rng.normal(size=(700, 3))
    y = rng.integers(0, 3, 700).astype(float)
    res = residuals(loss, y, raw)
    w = np.ones(700) if weight is None else weight
    proba = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    for k in range(3):
        # The raw scores of other classes have moved on since the residuals were taken.
        ours = leaf_values(
            loss, y, raw + 1.0, weight, leaf, N_LEAVES, output=k, residual=res[k].copy()
        )
        top, bottom = w * ((y == k) - proba[:, k]), w * proba[:, k] * (1 - proba[:, k])
        for j in (0, 1, 2, 4):
            expected = 2 / 3 * top[leaf == j].sum() / bottom[leaf == j].sum()
            np.testing.assert_allclose(ours[j], expected, rtol=1e-11)
    with pytest.raises(ValueError, match="residuals"):
        leaf_values(loss, y, raw, weight, leaf, N_LEAVES)


@pytest.mark.parametrize(
    "name", ["poisson", "gamma", "tweedie", "tweedie_1", "tweedie_2", "quantile", "absolute"]
)
def test_values_minimise_the_loss(rng, name, weight, leaf):
    optimize = pytest.importorskip("scipy.optimize")
    case = CASES[name]
    y, raw, w, ours = fitted_leaves(case, rng, weight, leaf)
    for j in (0, 1, 2, 4):
        rows = leaf == j

        def total(step, rows=rows):
            return np.sum(w[rows] * case.value(y[rows], raw[rows] + step))

        best = optimize.minimize_scalar(total, bounds=(-8, 8), method="bounded")
        assert total(ours[j]) <= best.fun * (1 + 1e-12)
        if name not in ("quantile", "absolute"):
            np.testing.assert_allclose(ours[j], best.x, atol=1e-4)


def test_huber_rule(rng, weight, leaf):
    y, raw, loss = rng.normal(size=700), rng.normal(size=700), FixedHuber()
    loss.delta = 0.8
    ours = leaf_values(loss, y, raw, weight, leaf, N_LEAVES)
    for j in (0, 1, 2, 4):
        rows = leaf == j
        d, w = (y - raw)[rows], None if weight is None else weight[rows]
        median = np.quantile(d, 0.5, method="inverted_cdf", weights=w)
        cut = np.sign(d - median) * np.minimum(0.8, np.abs(d - median))
        np.testing.assert_allclose(ours[j], median + np.average(cut, weights=w), rtol=1e-12)


def test_a_leaf_of_zeros_steps_down_by_a_bounded_amount():
    y, raw = np.zeros(4), np.array([0.0, 1, 2, -700])
    for loss in (losses.PoissonDeviance(), losses.TweedieDeviance(1.5)):
        value = leaf_values(loss, y, raw, None, [0, 0, 0, 0], 1)
        assert value == -19
    far = np.full(4, -700.0)
    assert leaf_values(losses.PoissonDeviance(), np.ones(4), far, None, [0] * 4, 1) == 19


def test_certain_leaves_do_not_move():
    y = np.array([1.0, 1.0])
    raw = np.array([600.0, 700.0])
    assert leaf_values(losses.Logistic(), y, raw, None, [0, 0], 1) == 0
    assert leaf_values(losses.HingeLoss(), y, raw, None, [0, 0], 1) == 0


# ---- quantiles ----------------------------------------------------------------------------------

LEVELS = st.one_of(st.sampled_from([0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 1.0]), st.floats(0, 1))
VALUES = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-1e9, 1e9)), min_size=1, max_size=80
)


@given(VALUES, LEVELS)
def test_plain_quantiles(values, level):
    values = np.array(values)
    ours = losses.quantile(values, None, level)
    assert ours == np.sort(values)[min(max(int(np.ceil(level * len(values))) - 1, 0), len(values))]
    between = losses.quantile(values, None, level, "weibull")
    np.testing.assert_allclose(
        between, np.quantile(values, level, method="weibull"), rtol=1e-12, atol=1e-300
    )
    np.testing.assert_array_equal(
        losses.quantile(values, None, level, "linear"), np.quantile(values, level)
    )


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=1, max_size=60), LEVELS)
def test_weighted_quantiles_are_those_of_repeated_rows(pairs, level):
    values, weight = np.array(pairs, dtype=float).T.copy()
    ours = losses.quantile(values, weight, level)
    if weight.sum() == 0:
        assert ours == 0
        return
    repeated = np.repeat(values, weight.astype(int))
    assert ours == losses.quantile(repeated, None, level)


@pytest.mark.parametrize("n", [1, 2, 15, 17, 100, 5000])
def test_scikit_learns_percentiles(rng, n):
    stats = pytest.importorskip("sklearn.utils.stats")
    for values in (rng.normal(size=n), rng.integers(0, 5, n).astype(float)):
        for weight in (np.ones(n), rng.random(n)):
            for level in (0.01, 0.1, 0.3, 0.5, 0.9, 0.99):
                theirs = stats._weighted_percentile(values, weight, 100 * level)
                assert losses.quantile(values, weight, 100 * level / 100) == theirs
                if weight[0] == 1:
                    assert losses.quantile(values, None, 100 * level / 100) == theirs
                    # Theirs is another here where sums of 0.1 are rounded.
                    tenths = np.full(n, 0.1)
                    assert losses.quantile(values, tenths, 100 * level / 100) == theirs


@pytest.mark.parametrize("n", [50, 20_000])
def test_orders_that_are_hard_to_sort(rng, n):
    half = np.arange(n // 2, dtype=float)
    shapes = [
        np.arange(n, dtype=float),
        np.arange(n, dtype=float)[::-1],
        np.zeros(n),
        np.concatenate([half, half[::-1]]),
        np.tile([0.0, 1.0], n // 2),
    ]
    for values in shapes:
        for level in (0.1, 0.5, 0.9):
            expected = np.quantile(values, level, method="inverted_cdf")
            assert losses.quantile(values, None, level) == expected
            assert losses.quantile(values, np.ones(n), level) == expected
    values = rng.normal(size=n)
    values[::7] = np.nan  # no meaning, but no harm
    losses.quantile(values, None, 0.5)
    losses.quantile(values, rng.random(n), 0.5)
    losses.quantile(np.full(n, np.nan), rng.random(n), 0.5)


# ---- groups -------------------------------------------------------------------------------------


@given(st.lists(st.integers(-2, 5), max_size=50))
def test_groups(leaf):
    rows, start = losses.group_rows(np.array(leaf, dtype=np.int32), 6)
    for j in range(6):
        np.testing.assert_array_equal(
            rows[start[j] : start[j + 1]], np.flatnonzero(np.array(leaf) == j)
        )
    assert start[-1] == len(rows) == sum(value >= 0 for value in leaf)


@pytest.mark.parametrize("name", ["squared", "absolute", "huber", "gamma", "logistic"])
@pytest.mark.parametrize("n_leaves", [1, 7, 400])
def test_threads_change_nothing(rng, name, n_leaves):
    case = CASES[name]
    n = 30_000
    y, raw, weight = case.targets(rng, n), rng.normal(size=n), rng.random(n)
    leaf = (rng.random(n) ** 2 * n_leaves).astype(np.int32)
    for w in (None, weight):
        one = leaf_values(case.loss, y, raw, w, leaf, n_leaves)
        for n_threads in (2, 3):
            other = leaf_values(case.loss, y, raw, w, leaf, n_leaves, n_threads=n_threads)
            np.testing.assert_array_equal(one, other)


def test_several_targets(rng):
    y, raw = rng.normal(size=(500, 2)), rng.normal(size=(500, 2))
    leaf = rng.integers(0, 3, 500)
    for loss, one in (
        (losses.SquaredError(2), losses.SquaredError()),
        (losses.AbsoluteError(2), losses.AbsoluteError()),
    ):
        ours = leaf_values(loss, y, raw, None, leaf, 3, output=1)
        expected = leaf_values(one, y[:, 1].copy(), raw[:, 1], None, leaf, 3)
        np.testing.assert_allclose(ours, expected, rtol=1e-13)


def test_no_rows_at_all():
    rows, start = losses.group_rows(np.full(3, -1, dtype=np.int32), 2)
    for loss in (losses.SquaredError(), losses.AbsoluteError(), losses.HuberError()):
        values = loss.leaf_values(np.ones(3), np.ones((3, 1)), None, None, rows, start)
        np.testing.assert_array_equal(values, [0, 0])
    # Rows without weight are as good as none.
    for loss in (losses.SquaredError(), losses.AbsoluteError(), losses.HuberError()):
        values = leaf_values(loss, np.ones(3), np.zeros(3), np.zeros(3), [0, 0, 1], 2)
        np.testing.assert_array_equal(values, [0, 0])


def test_groups_out_of_range_are_refused():
    y, raw = np.zeros(4), np.zeros((4, 1))
    good = np.arange(4, dtype=np.uint32), np.array([0, 4], dtype=np.int64)
    bad = [
        (np.array([9], dtype=np.uint32), np.array([0, 1], dtype=np.int64)),
        (good[0], np.array([0, 5], dtype=np.int64)),
        (good[0], np.array([-1, 4], dtype=np.int64)),
        (good[0], np.array([0, 3, 2], dtype=np.int64)),
        (good[0], np.array([0, 2**62, 4], dtype=np.int64)),
    ]
    for loss in (losses.AbsoluteError(), losses.HuberError()):
        for rows, start in bad:
            with pytest.raises(ValueError, match="start|rows"):
                loss.leaf_values(y, raw, None, None, rows, start)
    out = np.zeros(1)
    arguments = ("squared", raw, y[:, None], None, None)
    for rows, start in bad[:3]:
        with pytest.raises(ValueError):
            _kernels.leaf_sums(*arguments, 0, 0, 0, rows, start, 1, out, 1)
    for changed in ({"output": 1}, {"weight": np.zeros(3)}, {"y": np.zeros((3, 1))}):
        given = {"output": 0, "weight": None, "y": y[:, None]} | changed
        with pytest.raises(ValueError):
            _kernels.leaf_sums(
                "squared", raw, given["y"], given["weight"], None, given["output"], 0, 0, *good,
                1, out, 1,
            )  # fmt: skip
    with pytest.raises(ValueError, match="leaf contains 7"):
        losses.group_rows(np.array([0, 7], dtype=np.int32), 2)
    with pytest.raises(KeyError):
        losses.quantile(y, None, 0.5, "nearest")
    with pytest.raises(ValueError, match="level"):
        losses.quantile(y, None, 1.5)
