"""Scans of tables: distinct values, samples, categories; and the edges made of values."""

import numpy as np
import pytest

from hybridtrees.core.bins import _bins
from hybridtrees.core.bins.columns import category_bins, edges_between, round_down


def layouts(X):
    """The same table in many layouts."""
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "C": np.ascontiguousarray(X),
        "F": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "rows backwards": np.ascontiguousarray(X[::-1])[::-1],
        "columns backwards": np.ascontiguousarray(X[:, ::-1])[:, ::-1],
        "read only": read_only,
        "part": np.ascontiguousarray(np.hstack([X, X]))[:, : X.shape[1]],
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distinct_values(dtype):
    rng = np.random.default_rng(0)
    n = 3000
    X = np.column_stack(
        [
            rng.integers(0, 255, n),
            rng.integers(0, 256, n),
            np.arange(n) % 257,
            np.where(np.arange(n) < n - 1, 1.0, 2.0),
            np.full(n, np.nan),
            np.where(rng.random(n) < 0.5, np.nan, rng.integers(-3, 3, n) * 0.1),
            np.where(rng.random(n) < 0.5, 0.0, -0.0),
            rng.standard_normal(n),
            *rng.integers(0, 7, (40, n)) * 1e-3,
        ]
    ).astype(dtype)
    for weights in (None, (rng.random(n) < 0.7).astype(float)):
        kept = X if weights is None else X[weights > 0]
        expected = [np.unique(c[~np.isnan(c)]).astype(float) for c in kept.T]
        for limit in (2, 100, 255):
            for name, table in layouts(X).items():
                for n_threads in (1, 2, 3):
                    found = _bins.distinct_values(table, weights, limit, n_threads)
                    for f, values in enumerate(found):
                        if len(expected[f]) > limit:
                            assert values is None, (name, f)
                        else:
                            assert np.array_equal(values, expected[f]), (name, f)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_distinct_values_find_infinities(dtype, sign):
    for row, column in ((0, 0), (999, 6), (513, 3)):
        X = np.random.default_rng(1).standard_normal((1000, 7)).astype(dtype)
        X[row, column] = sign * np.inf
        for table in layouts(X).values():
            assert _bins.distinct_values(table, None, 255, 2) is None


def test_sample_rows():
    for n, m in ((10, 10), (1000, 1), (5000, 700), (7, 0)):
        rows = _bins.sample_rows(n, m, 3)
        assert len(rows) == m
        assert (np.diff(rows) > 0).all()
        assert m == 0 or (rows[0] >= 0 and rows[-1] < n)
    assert np.array_equal(_bins.sample_rows(999, 50, 5), _bins.sample_rows(999, 50, 5))
    assert not np.array_equal(_bins.sample_rows(999, 50, 5), _bins.sample_rows(999, 50, 6))
    # Every row has the same chance: the counts of 400 draws of 50 of 200 are binomial.
    counts = np.bincount(
        np.concatenate([_bins.sample_rows(200, 50, seed) for seed in range(400)]), minlength=200
    )
    assert abs(counts - 100).max() < 5 * np.sqrt(75)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gather(dtype):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((700, 9)).astype(dtype)
    rows, columns = np.sort(rng.choice(700, 600, replace=False)), np.array([8, 0, 3])
    for table in layouts(X).values():
        for n_threads in (1, 3):
            out = np.empty((3, 600), dtype=dtype)
            _bins.gather(table, rows, columns, out, n_threads)
            assert np.array_equal(out, X[rows][:, columns].T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_count_categories(dtype):
    column = np.array([3, 0, np.nan, 3, -1, 7, 0, 0], dtype=dtype)
    assert _bins.count_categories(column, None).tolist() == [3, 0, 0, 2, 0, 0, 0, 1]
    weights = np.array([0.5, 1, 1, 1, 1, 0, 2, 0.25])
    assert _bins.count_categories(column, weights).tolist() == [3.25, 0, 0, 1.5]
    assert len(_bins.count_categories(np.full(5, np.nan, dtype=dtype), None)) == 0
    for bad in (0.5, 2.0**24, 1e30, np.inf, -np.inf):
        assert _bins.count_categories(np.array([0, bad], dtype=dtype), None) is None


def test_category_bins():
    # Codes that fit are the bins; those never met are missing.
    bins, n_bins = category_bins(np.array([2.0, 0.0, 1.0]), 3)
    assert (bins.tolist(), n_bins) == ([0, 3, 2], 3)
    # Many codes, few of them met.
    counts = np.zeros(50)
    counts[[4, 9, 30]] = 1.0
    bins, n_bins = category_bins(counts, 3)
    assert n_bins == 3
    assert bins[[4, 9, 30]].tolist() == [0, 1, 2]
    assert (np.delete(bins, [4, 9, 30]) == 3).all()
    # More than the bins: the heaviest two have their own, the rest share the last one.
    bins, n_bins = category_bins(np.array([1.0, 5.0, 0.0, 2.0, 5.0, 2.0]), 3)
    assert (bins.tolist(), n_bins) == ([2, 0, 3, 2, 1, 2], 3)
    # Among equals the lower code wins.
    bins, n_bins = category_bins(np.ones(300), 255)
    assert n_bins == 255
    assert np.array_equal(bins, np.minimum(np.arange(300), 254))
    assert category_bins(np.empty(0), 255)[1] == 1


# ---------------------------------------------------------------- edges


def test_midpoints():
    lower, upper = np.array([1.0, 2.0, -3.0]), np.array([2.0, 4.0, 3.0])
    assert edges_between(lower, upper, False).tolist() == [1.5, 3.0, 0.0]
    assert edges_between(lower, upper, True).tolist() == [1.5, 3.0, 0.0]
    assert not np.signbit(edges_between(np.array([-1.0]), np.array([1.0]), True))[0]


def test_edges_never_reach_the_upper_value():
    tiny = np.finfo(np.float64).smallest_subnormal
    largest = np.finfo(np.float64).max
    starts = np.array([0.0, 1.0, -1.0, tiny, -tiny, 3 * tiny, 1e300, -1e300, 2.0**60, 1 - 2**-53])
    lower = np.concatenate([starts, [-largest, largest / 2, np.nextafter(largest, 0)]])
    upper = np.concatenate([np.nextafter(starts, np.inf), [largest, largest, largest]])
    for narrow in (False, True):
        edges = edges_between(lower, upper, narrow)
        assert (lower <= edges).all()
        assert (edges < upper).all()
        assert np.isfinite(edges).all()


def test_float32_edges_where_there_is_room():
    rng = np.random.default_rng(3)
    lower = rng.standard_normal(5000)
    upper = lower + 10.0 ** rng.uniform(-12, 1, 5000)
    edges = edges_between(lower, upper, True)
    is_narrow = edges == edges.astype(np.float32)
    # Room: the least float32 that is not below `lower` is below `upper`.
    down = round_down(lower)
    ceiling = np.where(down == lower, down, np.nextafter(down, np.float32(np.inf)))
    room = ceiling.astype(np.float64) < upper
    assert 500 < room.sum() < 4900
    assert np.array_equal(is_narrow, room)
    assert ((lower <= edges) & (edges < upper)).all()
    assert np.array_equal(edges[~is_narrow], ((lower + upper) / 2)[~is_narrow])


def test_round_down():
    values = np.array([0.1, -0.1, 1.0, 1e39, -1e39, 1e-50, -1e-50])
    down = round_down(values).astype(np.float64)
    assert (down <= values).all()
    with np.errstate(over="ignore"):
        up = np.nextafter(round_down(values), np.float32(np.inf)).astype(np.float64)
    assert (up > values).all()
