"""What a comparison notes of the columns of a table."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees._compare.data import make_data, numbers_rows


def drawn(low, high, n, seed=0):
    """Whole numbers of a range, none of them twice."""
    return low + np.random.default_rng(seed).choice(high - low, n, replace=False)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("n", np.arange(12.0)),
        ("shuffled", drawn(1, 301, 300)),
        ("with_gaps", drawn(1000, 2200, 300)),  # of 1200 members 300 are left
        ("small", drawn(1, 61, 40).astype(float)),
        ("customer_id", drawn(0, 10**9, 300)),
        ("customerNo", drawn(0, 10**9, 300)),
        ("Account number", drawn(0, 10**9, 300)),
        ("key", (2**60 + drawn(0, 10**9, 300)).astype(np.uint64)),
    ],
)
def test_numbers_of_rows_are_recognised(name, column):
    assert numbers_rows(name, column)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("inhabitants", drawn(200, 10**6, 300)),
        ("seconds", 1_700_000_000 + 3600 * np.arange(3000)),
        ("age", np.arange(300) % 90),
        ("size", np.arange(300) + 0.5),
        ("known_partly", np.r_[np.arange(300.0), np.nan]),
        ("infinite", np.r_[np.arange(300.0), np.inf]),
        ("customer_id", np.arange(300) // 2),
        ("notes", drawn(200, 10**6, 300)),  # no word of it is "no"
        ("text", np.array(["1", "2", "3"], dtype=object)),
        ("one", np.array([7])),
    ],
)
def test_other_columns_do_not_number_rows(name, column):
    assert not numbers_rows(name, column)


def test_no_count_of_independent_rows_is_taken_for_numbers_of_rows():
    rng = np.random.default_rng(0)
    for n in (20, 60, 400):
        for scale in (30, 1000, 10**5):
            for seed in range(50):
                counts = np.random.default_rng(seed).integers(0, scale, n)
                assert not numbers_rows("count", counts)
            assert not numbers_rows("amount", np.floor(rng.lognormal(np.log(scale), 1.0, n)))


@pytest.mark.parametrize("time", [None, "n", 0])
def test_numbers_of_rows_in_tables_are_noted(time):
    day = np.datetime64("2024-01-01") + np.arange(60)
    X = {"n": drawn(1, 61, 60), "size": np.arange(60) % 7, "day": day}
    notes = make_data(X, np.arange(60) / 2, time=time).notes
    said = [note for note in notes if "numbers the rows" in note]
    # Nor are the days that elapse, a feature made here, numbers of rows.
    assert said == ([] if time is not None else [notes[-1]])
    assert time is not None or notes[-1].startswith("'n' numbers the rows: leave it out")


def test_numbers_of_rows_that_are_categories_are_noted_once():
    X = np.c_[drawn(1, 61, 60), np.arange(60) % 7]
    notes = make_data(X, np.arange(60) / 2, categorical_features=[0]).notes
    assert notes == ["'x0' numbers the rows: leave it out if it means nothing else"]
