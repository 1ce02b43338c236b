"""Sums that depend on their terms alone: any order, any parts, and close to the true sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.core.base._threads import ExactSum
from hybridtrees.core.base.exact_sum import exact_mean, exact_sum, group_sums

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


def parts_merged(values, cuts, rng):
    """Sum of the parts between cuts, merged in any order."""
    parts = [ExactSum(part) for part in np.split(values, np.sort(cuts))]
    total = ExactSum()
    for k in rng.permutation(len(parts)):
        total.merge(parts[k])
    return total.value


@given(st.lists(NUMBERS, max_size=40), st.randoms(use_true_random=False))
def test_any_order_and_any_cut_give_the_same_bits(numbers, random):
    rng = np.random.default_rng(random.randrange(2**32))
    values = np.array(numbers, dtype=np.float64)
    expected = exact_sum(values)
    moved = rng.permutation(values)
    assert exact_sum(moved) == expected
    assert parts_merged(moved, rng.integers(0, len(values) + 1, 4), rng) == expected
    one_by_one = ExactSum()
    for value in moved:
        one_by_one.add(np.array([value]))
    assert one_by_one.value == expected


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_close_to_the_true_sum(numbers):
    true, largest = math.fsum(numbers), max(map(abs, numbers))
    bound = len(numbers) * math.ldexp(largest, -60) + math.ldexp(abs(true), -52) + 5e-324
    assert abs(exact_sum(numbers) - true) <= bound


@pytest.mark.parametrize("spread", [0, 3, 30, 300])
def test_long_sums(rng, spread):
    """More than a block of terms, over several slices, of both signs and cancelling."""
    values = rng.standard_normal(5000) * 10.0 ** rng.uniform(-spread, spread, 5000)
    values = np.concatenate([values, -values[::2], rng.standard_normal(7)])
    expected = exact_sum(values)
    for _ in range(5):
        moved = rng.permutation(values)
        assert exact_sum(moved) == expected
        assert parts_merged(moved, rng.integers(0, len(values), 20), rng) == expected
    bound = len(values) * np.abs(values).max() * 2.0**-60
    assert abs(expected - math.fsum(values)) <= bound + abs(expected) * 2.0**-52
    plain = abs(math.fsum(values) - float(np.cumsum(values)[-1]))
    assert abs(expected - math.fsum(values)) <= plain + bound


def test_sums_of_whole_numbers_are_exact(rng):
    values = rng.integers(-(2**40), 2**40, 3000)
    assert exact_sum(values) == values.sum()
    assert exact_sum(values > 0) == np.count_nonzero(values > 0)


def test_ends_of_the_range():
    tiny, huge = 5e-324, np.finfo(np.float64).max
    assert exact_sum([tiny, tiny, tiny]) == 3 * tiny
    assert exact_sum([huge, -huge]) == 0
    assert exact_sum([huge / 2, huge / 4]) == 0.75 * huge
    assert exact_sum([huge, huge]) == math.inf
    assert exact_sum([2.0**-1000, 2.0**-1030]) == 2.0**-1000 + 2.0**-1030
    assert exact_sum([2.0**1000, 2.0**970]) == 2.0**1000 + 2.0**970
    assert exact_sum([]) == 0
    zero = exact_sum([-0.0, -0.0])
    assert zero == 0
    assert math.copysign(1, zero) == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf, -3.0], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_what_is_not_finite(values, expected):
    for order in (values, values[::-1]):
        assert exact_sum(order) == pytest.approx(expected, nan_ok=True)
        total = ExactSum(np.array(order[:1]))
        total.merge(ExactSum(np.array(order[1:])))
        assert total.value == pytest.approx(expected, nan_ok=True)


def test_columns_weights_and_means(rng):
    values, weight = rng.standard_normal((300, 3)), rng.random(300)
    np.testing.assert_allclose(exact_sum(values), values.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(exact_sum(values, weight), weight @ values, rtol=1e-12)
    expected = np.average(values, axis=0, weights=weight)
    np.testing.assert_allclose(exact_mean(values, weight), expected, rtol=1e-12)
    assert exact_mean(values[:, 0]) == pytest.approx(values[:, 0].mean())
    with pytest.raises(ZeroDivisionError):
        exact_mean(values, np.zeros(300))


def test_groups(rng):
    group, values = rng.integers(0, 9, 4000), rng.standard_normal(4000) * 1e6
    values[group == 3] *= 1e-30  # a group keeps its digits beside larger ones
    found = group_sums(group, 10, values)
    expected = [math.fsum(values[group == k]) for k in range(10)]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    order = rng.permutation(4000)
    np.testing.assert_array_equal(group_sums(group[order], 10, values[order]), found)
    np.testing.assert_array_equal(group_sums(group, 10), np.bincount(group, minlength=10))
    for bad in (-1, 10):
        with pytest.raises(ValueError, match="group holds"):
            group_sums(np.array([0, bad]), 10, np.zeros(2))
    with pytest.raises(ValueError, match="fit together"):
        group_sums(np.zeros(3), 1, np.zeros(2))
