"""Thresholds of other libraries send every double to the side that they send it to."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.exchange.thresholds import at_most_single, below_single, up_to_single

LARGEST = float(np.finfo(np.float32).max)
SPECIAL = [0.0, -0.0, 1e-45, -1e-45, 1e-38, 1.0, LARGEST, -LARGEST, np.inf, -np.inf]
singles = st.one_of(st.floats(width=32, allow_nan=False), st.sampled_from(SPECIAL))
doubles = st.one_of(st.floats(allow_nan=False), singles)


def to_single(x):
    with np.errstate(over="ignore"):
        return np.asarray(x, dtype=np.float64).astype(np.float32)


def neighbours(*centres):
    """Doubles around some numbers, and around the borders of rounding next to them."""
    found = [*SPECIAL, 2.0**128 - 2.0**103, -(2.0**128) + 2.0**103]
    for centre in centres:
        single = np.float32(to_single(centre))
        with np.errstate(all="ignore"):
            beside = [np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf)]
            middles = [(float(single) + float(other)) / 2 for other in beside]
        found += [centre, float(single), *map(float, beside), *middles]
    x = np.array(found)
    x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])
    return x[~np.isnan(x)]


@given(singles)
def test_less_than_a_single(threshold):
    if threshold == -np.inf:
        assert np.isnan(below_single([threshold])[0])
        return
    x = neighbours(threshold)
    np.testing.assert_array_equal(
        x <= below_single([threshold])[0], to_single(x) < np.float32(threshold)
    )


@given(doubles)
def test_single_at_most_a_double(threshold):
    x = neighbours(threshold)
    np.testing.assert_array_equal(
        x <= at_most_single([threshold])[0], to_single(x).astype(np.float64) <= threshold
    )


@given(singles)
def test_up_to_a_single(last):
    x = neighbours(last)
    np.testing.assert_array_equal(x <= up_to_single([last])[0], to_single(x) <= np.float32(last))
