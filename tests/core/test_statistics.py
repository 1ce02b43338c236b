"""Quantised statistics against the oracle's rounding, layout by layout."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from strategies import make_binned

from hybridtrees.core.search._histogram import BinnedView, RowStatistics

LARGE = 100_000  # from here on pairs of 16 bits are used


def filled(grad, hess, *, use_tail=True, n_sampled=None, need_counts=False, n_threads=1):
    """(statistics, binned) of a one-column table with these statistics in it."""
    grad = np.asarray(grad, dtype=np.float32)
    binned = make_binned(np.zeros((len(grad), 1)), 1)
    statistics = RowStatistics(BinnedView(binned), use_tail)
    statistics.fill(grad, hess, n_sampled or len(grad), need_counts, n_threads)
    return statistics, binned


def tail(binned, dtype):
    return np.ascontiguousarray(binned.records[:, -4:]).view(dtype)


finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(hnp.arrays(np.float32, st.integers(1, 50), elements=finite))
def test_unit_layout_writes_rounded_gradients_into_the_records(grad):
    statistics, binned = filled(grad, 0.75)
    layout = statistics.layout
    assert (layout["name"], layout["n_words"]) == ("unit", 1)
    assert layout["hess_unit"] == 0.75
    assert layout["count_bits"] == int(len(grad)).bit_length()
    largest = float(np.abs(grad).max())
    assert layout["grad_unit"] == oracle.power_of_two_step(largest, 30)
    expected = oracle.quantise(grad, layout["grad_unit"])
    np.testing.assert_array_equal(tail(binned, np.int32)[:, 0], expected)
    # Nothing but the spare bytes has been touched.
    assert not binned.records[:, :-4].any()


def test_halves_are_rounded_away_from_zero():
    # The largest is 3/4, so a step is 2**-30.
    half = 2.0**-31
    grad = [0.75, half, -half, 3 * half, -3 * half, 0.9 * half, -0.9 * half, 0.0]
    _, binned = filled(grad, 1.0)
    np.testing.assert_array_equal(tail(binned, np.int32)[:, 0], [3 * 2**28, 1, -1, 2, -2, 0, 0, 0])


def test_gradients_of_zero_have_a_step():
    statistics, binned = filled(np.zeros(5), np.zeros(5, dtype=np.float32))
    assert statistics.layout["grad_unit"] == statistics.layout["hess_unit"] == 1.0
    statistics, binned = filled(np.zeros(5), 1.0)
    assert not tail(binned, np.int32).any()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n", [4095, 4096, 4097, 9000, 65_537])
@pytest.mark.parametrize("place", [0, -1])
def test_the_largest_may_stand_in_any_block(n, n_threads, place):
    grad, hess = np.full(n, 0.25, dtype=np.float32), np.full(n, 0.5, dtype=np.float32)
    grad[place], hess[place] = -40.0, 9.0
    layout = filled(grad, hess, n_threads=n_threads)[0].layout
    assert layout["name"] == "pair32"
    assert layout["grad_unit"] == oracle.power_of_two_step(40.0, 30)
    assert layout["hess_unit"] == oracle.power_of_two_step(9.0, 30)
    unit = filled(grad, 1.0, n_threads=n_threads)[0].layout
    bits = min(30, 62 - 2 * n.bit_length())
    assert unit["grad_unit"] == oracle.power_of_two_step(40.0, bits)


@pytest.mark.parametrize("n_sampled", [1, 3, 4, 255, 256, 65_535, 65_536, 10**6, 2**24 - 1])
def test_unit_sums_cannot_overflow(n_sampled):
    layout = filled([1.0, -1.0], 1.0, n_sampled=n_sampled)[0].layout
    assert layout["name"] == "unit"
    assert n_sampled < 2 ** layout["count_bits"]
    largest = int(1.0 / layout["grad_unit"])
    assert (n_sampled * largest << layout["count_bits"]) + n_sampled < 2**63
    assert largest >= 2**13


@pytest.mark.parametrize("n_sampled", [1, 1000, 2**20, 2**24])
@pytest.mark.parametrize("need_counts", [False, True])
def test_pair32_sums_cannot_overflow(n_sampled, need_counts):
    hess = np.array([1.0, 0.5], dtype=np.float32)
    layout = filled([1.0, -1.0], hess, n_sampled=n_sampled, need_counts=need_counts)[0].layout
    assert (layout["name"], layout["n_words"]) == ("pair32", 2)
    assert (layout["count_bits"] > 0) == need_counts
    assert int(1.0 / layout["grad_unit"]) * n_sampled < 2**63
    if need_counts:
        assert n_sampled < 2 ** layout["count_bits"]
    assert (int(1.0 / layout["hess_unit"]) * n_sampled << layout["count_bits"]) < 2**63


def test_too_many_rows_for_one_word_take_pairs():
    layout = filled([1.0, -1.0], 1.0, n_sampled=2**24)[0].layout
    assert layout["name"] == "pair32"
    assert layout["hess_unit"] == 2.0**-29


def large_statistics(n=LARGE):
    rng = np.random.default_rng(7)
    grad = rng.uniform(-1, 1, n).astype(np.float32)
    hess = rng.uniform(0, 0.25, n).astype(np.float32)
    # The first one rounds to a step more than 16 bits hold.
    grad[0], hess[0] = np.nextafter(np.float32(1), np.float32(0)), np.float32(0.25)
    grad[1], hess[1] = -grad[0], np.nextafter(np.float32(0.25), np.float32(0))
    hess[0] = hess[1]
    return grad, hess


def test_pair16_rounds_and_caps():
    grad, hess = large_statistics()
    statistics, binned = filled(grad, hess)
    layout = statistics.layout
    assert (layout["name"], layout["n_words"], layout["count_bits"]) == ("pair16", 2, 0)
    assert layout["grad_unit"] == 2.0**-15
    assert layout["hess_unit"] == 2.0**-18
    halves = tail(binned, np.uint16)
    got_grad, got_hess = halves[:, 0].view(np.int16), halves[:, 1]
    np.testing.assert_array_equal(got_grad, oracle.quantise(grad, 2.0**-15, 32767))
    np.testing.assert_array_equal(got_hess, oracle.quantise(hess, 2.0**-18, 65535))
    assert (got_grad[0], got_grad[1], got_hess[0]) == (32767, -32767, 65535)


@pytest.mark.parametrize("change", ["fewer rows", "counts", "gradient spread", "hessian spread"])
def test_pair16_is_left_where_it_would_lose_too_much(change):
    grad, hess = large_statistics(LARGE - 1 if change == "fewer rows" else LARGE)
    if change == "gradient spread":
        grad[5] = 200.0
    if change == "hessian spread":
        hess[5] = 100.0
    statistics, _ = filled(grad, hess, need_counts=change == "counts")
    assert statistics.layout["name"] == "pair32"


@pytest.mark.parametrize("hess", [1.0, "array"])
def test_own_array_leaves_the_records_alone(rng, hess):
    grad = rng.normal(size=30).astype(np.float32)
    if hess == "array":
        hess = rng.random(30).astype(np.float32)
    _, binned = filled(grad, hess, use_tail=False)
    assert not binned.records.any()


def test_threads_write_the_same(rng):
    grad = rng.normal(size=40_000).astype(np.float32)
    one = tail(filled(grad, 1.0)[1], np.int32)
    for n_threads in (2, 3):
        np.testing.assert_array_equal(
            tail(filled(grad, 1.0, n_threads=n_threads)[1], np.int32), one
        )


def test_read_only_statistics_are_fine(rng):
    grad = rng.normal(size=10).astype(np.float32)
    hess = rng.random(10).astype(np.float32)
    grad.flags.writeable = hess.flags.writeable = False
    assert filled(grad, hess)[0].layout["name"] == "pair32"


def test_wrong_lengths_are_refused():
    binned = make_binned(np.zeros((3, 1)), 1)
    statistics = RowStatistics(BinnedView(binned), False)
    with pytest.raises(ValueError, match="one gradient per row"):
        statistics.fill(np.zeros(4, dtype=np.float32), 1.0, 3, False, 1)
    with pytest.raises(ValueError, match="one hessian per row"):
        statistics.fill(np.zeros(3, dtype=np.float32), np.zeros(2, dtype=np.float32), 3, False, 1)
