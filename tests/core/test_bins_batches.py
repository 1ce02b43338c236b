"""BinMapper.fit_batches: the bins of `fit`, bit for bit, from batches of any length."""

from __future__ import annotations

import numpy as np
import pytest
from batch_tables import cut
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees import BinMapper


def make_table(rng, n_rows, dtype):
    """Columns with many and few values, missing ones, constants and categories."""
    X = np.empty((n_rows, 6), dtype=dtype)
    X[:, 0] = rng.normal(size=n_rows)
    X[:, 1] = rng.integers(0, 5, n_rows) / 3
    X[:, 2] = np.where(rng.random(n_rows) < 0.5, np.nan, rng.exponential(size=n_rows))
    X[:, 3] = rng.choice([np.nan, -0.0, 0.0], n_rows)
    X[:, 4] = rng.integers(0, 12, n_rows)
    X[:, 5] = np.where(rng.random(n_rows) < 0.1, np.nan, rng.integers(-1, 3, n_rows))
    return X


def assert_same_bins(mine, other):
    """Edges, bins and categories are the same to the last bit."""
    for name in ("bin_edges_", "category_to_bin_"):
        for a, b in zip(getattr(mine, name), getattr(other, name), strict=True):
            assert (a is None) == (b is None)
            assert a is None or (a.dtype == b.dtype and a.tobytes() == b.tobytes())
    np.testing.assert_array_equal(mine.n_bins_, other.n_bins_)
    np.testing.assert_array_equal(mine.is_categorical_, other.is_categorical_)


@given(
    n_rows=st.integers(1, 300),
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=4),
    max_bins=st.sampled_from([2, 7, 255]),
    subsample=st.sampled_from([None, 1, 40, 200_000]),
    weighted=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_bins_are_those_of_the_whole_table(
    n_rows, seed, sizes, max_bins, subsample, weighted, dtype
):
    rng = np.random.default_rng(seed)
    X = make_table(rng, n_rows, dtype)
    # Sums of such weights depend on their order.
    weight = rng.integers(0, 3, n_rows) * rng.uniform(0.1, 1, n_rows) if weighted else None
    if weighted and not weight.any():
        weight[0] = 0.3
    given = {"max_bins": max_bins, "subsample": subsample, "random_state": seed}
    given["categorical_features"] = [4, 5]
    whole = BinMapper(**given).fit(X, weight)
    parts = [X[a:b] if weight is None else (X[a:b], weight[a:b]) for a, b in cut(n_rows, sizes)]
    n_usable = n_rows if weight is None else np.count_nonzero(weight)
    for mapper in (
        BinMapper(**given).fit_batches(parts),
        BinMapper(**given).fit_batches(iter(parts), n_usable),
    ):
        assert_same_bins(mapper, whole)
        np.testing.assert_array_equal(mapper.transform(X).columns, whole.transform(X).columns)


def test_a_float64_batch_among_float32_ones():
    rng = np.random.default_rng(0)
    X = make_table(rng, 1000, np.float32).astype(np.float64)
    X[700:, 0] = rng.normal(size=300)
    parts = [X[:700].astype(np.float32), X[700:]]
    for max_bins in (5, 255):
        given = {"max_bins": max_bins, "subsample": 400}
        whole = BinMapper(**given).fit(X)
        assert_same_bins(BinMapper(**given).fit_batches(parts), whole)


def test_wrong_batches():
    X = np.zeros((4, 2))
    mapper = BinMapper().fit(np.ones((3, 1)))
    for batches, n_rows, kind, message in (
        (iter([X]), None, TypeError, "readable more than once unless n_rows is given"),
        ([X, X[:, :1]], None, ValueError, "all batches must have the 2 columns of the first"),
        ([X], 5, ValueError, "batches must hold n_rows = 5 rows, got 4"),
        ([X], 3, ValueError, "batches must hold n_rows = 3 rows, got 4"),
        ([], None, ValueError, "n_rows must be an integer of at least 1"),
        ([(X, np.zeros(4))], None, ValueError, "n_rows must be"),
        ([(X, [1, 2])], None, ValueError, "the weights of batches must have shape"),
        ([X + np.inf], None, ValueError, "X must be finite or NaN"),
        ([X], 0, ValueError, "n_rows must be"),
    ):
        with pytest.raises(kind, match=message):
            mapper.fit_batches(batches, n_rows)
    assert mapper.n_features_in_ == 1 and mapper.n_bins_.tolist() == [1]  # as it was
