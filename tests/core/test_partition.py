"""The stable partition of row ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hybridtrees.core.search._split import partition_rows


def check(codes, goes_left, rows, n_threads=1):
    before = rows.copy()
    left = goes_left[codes[before]] == 1
    n_left = partition_rows(codes, goes_left, rows, n_threads)
    assert n_left == left.sum()
    np.testing.assert_array_equal(rows[:n_left], before[left])
    np.testing.assert_array_equal(rows[n_left:], before[~left])


@given(
    hnp.arrays(np.uint8, st.integers(1, 60)),
    hnp.arrays(np.uint8, 256, elements=st.integers(0, 1)),
    st.randoms(),
    st.integers(1, 3),
)
def test_both_sides_keep_their_order(codes, goes_left, random, n_threads):
    n = random.randint(1, len(codes))
    rows = np.array(random.sample(range(len(codes)), n), dtype=np.uint32)
    check(codes, goes_left, rows, n_threads)


# From 16,384 rows on the ids are split in chunks.
@pytest.mark.parametrize("n", [16_383, 16_384, 16_385, 50_001])
@pytest.mark.parametrize("n_threads", [1, 2, 3, 5, 70])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_chunks(rng, n, n_threads, share):
    codes = rng.integers(0, 256, n, dtype=np.uint8)
    goes_left = (np.arange(256) < 256 * share).astype(np.uint8)
    check(codes, goes_left, np.arange(n, dtype=np.uint32), n_threads)
    rows = rng.permutation(n).astype(np.uint32)
    check(codes, goes_left, rows, n_threads)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_chunks_that_go_to_one_side_as_a_whole(n_threads):
    n = 40_000
    codes = np.zeros(n, dtype=np.uint8)
    codes[n // 2 :] = 1
    for goes in ([1, 0], [0, 1]):
        goes_left = np.zeros(256, dtype=np.uint8)
        goes_left[:2] = goes
        check(codes, goes_left, np.arange(n, dtype=np.uint32), n_threads)


def test_no_rows():
    assert (
        partition_rows(np.zeros(3, np.uint8), np.zeros(256, np.uint8), np.zeros(0, np.uint32), 1)
        == 0
    )


def test_bad_arguments_are_refused():
    codes, table = np.zeros(3, dtype=np.uint8), np.zeros(256, dtype=np.uint8)
    with pytest.raises(ValueError, match="256 entries"):
        partition_rows(codes, table[:255], np.zeros(1, np.uint32), 1)
    with pytest.raises(ValueError, match="out of range"):
        partition_rows(codes, table, np.array([3], np.uint32), 1)
    table[9] = 2
    with pytest.raises(ValueError, match="0 and 1"):
        partition_rows(codes, table, np.zeros(1, np.uint32), 1)
