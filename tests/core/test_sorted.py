"""Sorted lists of tables against NumPy's sort: every type, stride and kind of value."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from strategies import make_binned, random_codes

from hybridtrees.core.base.dtypes import SORTED_ENTRY_DTYPE, aligned_empty
from hybridtrees.core.grow.table import ALL_KEYS, Table
from hybridtrees.core.search._sorted import list_codes, sort_columns

DTYPES = (np.float32, np.float64)
RUBBISH = 0xDEADBEEF
MISSING = 2**32 - 1


def sorted_list(column, categorical=False) -> tuple[np.ndarray, np.ndarray]:
    """Keys and rows of one column in the order of its values, missing rows last."""
    column = np.asarray(column)
    missing = np.isnan(column)
    key = np.full(len(column), MISSING, dtype=np.uint32)
    present = column[~missing]
    key[~missing] = present if categorical else np.unique(present, return_inverse=True)[1]
    rows = np.array(sorted(range(len(column)), key=lambda i: key[i]), dtype=np.uint32)
    return key[rows], rows


def sort(X, categorical=None, n_threads=1, extra=0):
    """Lists of a table, with rubbish in their memory before."""
    flags = np.zeros(X.shape[1], dtype=np.uint8)
    flags[:] = 0 if categorical is None else categorical
    lists = aligned_empty((X.shape[1] + extra, X.shape[0]), SORTED_ENTRY_DTYPE)
    lists["key"], lists["row"] = RUBBISH, RUBBISH
    n_present = sort_columns(X, flags, lists, 0, n_threads)
    return lists, n_present


def check(X, categorical=None, n_threads=1):
    lists, n_present = sort(X, categorical, n_threads)
    flags = np.broadcast_to(0 if categorical is None else categorical, X.shape[1])
    for f in range(X.shape[1]):
        keys, rows = sorted_list(X[:, f], flags[f])
        np.testing.assert_array_equal(lists[f]["key"], keys)
        np.testing.assert_array_equal(lists[f]["row"], rows)
    np.testing.assert_array_equal(n_present, np.sum(~np.isnan(X), axis=0))
    return lists


# ---- numbers ------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 0.1, np.nan]
WIDE = [5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308, 1 + 2**-52, 1 - 2**-53]


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_any_numbers(dtype, data):
    shape = data.draw(st.tuples(st.integers(1, 30), st.integers(1, 3)))
    width = 8 * np.dtype(dtype).itemsize
    some = st.sampled_from(SPECIAL + (WIDE if dtype is np.float64 else []))
    some = some.map(lambda v: float(dtype(v)))
    number = st.floats(allow_infinity=False, width=width)
    check(data.draw(hnp.arrays(dtype, shape, elements=some | number)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_negative_nought_is_nought(dtype):
    X = np.array([0.0, -0.0, 1.0, -0.0, 0.0, -1.0], dtype=dtype)[:, None]
    lists = check(X)
    assert lists[0]["key"].tolist() == [0, 1, 1, 1, 1, 2]
    # Stable: equal values keep the order of their rows.
    assert lists[0]["row"].tolist() == [5, 0, 1, 3, 4, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours_are_told_apart(dtype):
    values = [np.array([v], dtype) for v in (1.0, -1.0, 0.0, 1e30, -1e-30)]
    up = [np.nextafter(v, np.array([np.inf], dtype)) for v in values]
    X = np.concatenate(up + values + up)[:, None]
    lists = check(X)
    assert len(np.unique(lists[0]["key"])) == 10


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["one row", "one missing row", "all missing", "constant"])
def test_columns_without_an_order(dtype, kind):
    X = {
        "one row": [[3.5, -1]],
        "one missing row": [[np.nan, -1]],
        "all missing": [[np.nan, 1], [np.nan, 2], [np.nan, 0]],
        "constant": [[7, 7], [7, 7], [7, np.nan]],
    }[kind]
    check(np.array(X, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_missing_rows_stand_last_in_their_order(rng, dtype):
    X = rng.normal(size=(400, 3)).astype(dtype)
    X[rng.random(X.shape) < 0.4] = np.nan
    lists = check(X)
    for f in range(3):
        last = lists[f][lists[f]["key"] == MISSING]
        np.testing.assert_array_equal(last["row"], np.flatnonzero(np.isnan(X[:, f])))
    # A NaN of either sign and any payload is missing.
    bits = X.view(np.uint32 if dtype is np.float32 else np.uint64)
    bits[np.isnan(X)] |= bits.dtype.type(1) << bits.dtype.type(8 * X.itemsize - 1)
    bits[np.isnan(X)] |= bits.dtype.type(5)
    np.testing.assert_array_equal(sort(X)[0], lists)


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_rows_than_16_bits_count(rng, dtype):
    n = 70_000
    X = np.column_stack([rng.normal(size=n), rng.integers(-9, 9, n), np.arange(n)[::-1]])
    X = X.astype(dtype)
    X[rng.random(n) < 0.1, 0] = np.nan
    lists = sort(X)[0]
    for f in range(3):
        missing = np.isnan(X[:, f])
        rows = np.argsort(X[:, f], kind="stable")[: n - missing.sum()]
        np.testing.assert_array_equal(lists[f]["row"][: len(rows)], rows)
        rank = np.unique(X[~missing, f], return_inverse=True)[1]
        np.testing.assert_array_equal(lists[f]["key"][: len(rows)], np.sort(rank))
        np.testing.assert_array_equal(lists[f]["row"][len(rows) :], np.flatnonzero(missing))
    for n_threads in (2, 3):
        np.testing.assert_array_equal(sort(X, n_threads=n_threads)[0], lists)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_nothing(rng, dtype):
    X = rng.integers(0, 50, (300, 7)).astype(dtype)
    X[rng.random(X.shape) < 0.2] = np.nan
    flags = [0, 1, 0, 0, 1, 0, 0]
    lists = check(X, flags)
    for n_threads in (2, 3, 20):
        np.testing.assert_array_equal(check(X, flags, n_threads), lists)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_strides_and_read_only(rng, dtype):
    X = rng.integers(-20, 20, (50, 4)).astype(dtype)
    X[rng.random(X.shape) < 0.2] = np.nan
    lists = check(X)
    wide = np.zeros((100, 12), dtype=dtype)
    wide[1::2, 2::3] = X
    backwards = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    frozen = X.copy()
    frozen.flags.writeable = False
    for table in (np.asfortranarray(X), wide[1::2, 2::3], backwards, frozen):
        np.testing.assert_array_equal(sort(table)[0], lists)


# ---- categories ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_key_of_a_category_is_its_code(rng, dtype):
    X = rng.choice([0, 1, 5, 31, 32, 9999, np.nan], (200, 2)).astype(dtype)
    X[:, 1] = rng.integers(0, 100_000, 200)
    lists = check(X, 1)
    assert set(lists[0]["key"]) == {0, 1, 5, 31, 32, 9999, MISSING}


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_count_their_categories(dtype):
    X = np.array([[0, 4, np.nan, 2.5], [7, np.nan, np.nan, 1], [3, 1, np.nan, 9]], dtype=dtype)
    table = Table(X, [1, 1, 1, 0])
    lists = table.lists(1, 2)
    assert table.n_categories.tolist() == [8, 5, 1, 0]
    assert (table.n_rows, table.n_features, len(lists)) == (3, 4, 6)


# ---- tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
@pytest.mark.parametrize("n_features", [1, 8, 19])
def test_sparse_tables(rng, make, n_features):
    X = rng.integers(-3, 4, (60, n_features)) * (rng.random((60, n_features)) < 0.4)
    X = X.astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    dense = Table(X, np.zeros(n_features))
    sparse = Table(make(X), np.zeros(n_features))
    np.testing.assert_array_equal(sparse.lists(2), dense.lists(1))
    rows, features = rng.integers(0, 60, (2, 30)), rng.integers(0, n_features, 30)
    key = np.zeros(30, dtype=np.uint32)
    np.testing.assert_array_equal(
        sparse.thresholds(features, *rows, key), dense.thresholds(features, *rows, key)
    )


def threshold(low, high, dtype=np.float64, key=0):
    X = np.array([[low], [high]], dtype=dtype)
    table = Table(X, [0])
    feature, rows, key = np.zeros(1, int), np.arange(2, dtype=np.uint32), np.array([key], np.uint32)
    return table.thresholds(feature, rows[:1], rows[1:], key)[0]


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_a_threshold_parts_the_two_values(dtype, data):
    number = st.floats(allow_nan=False, allow_infinity=False, width=8 * np.dtype(dtype).itemsize)
    low, high = sorted(data.draw(st.tuples(number, number)))
    if low < high:
        assert low <= threshold(low, high, dtype) < high
        close = np.nextafter(dtype(low), dtype(np.inf))
        if np.isfinite(close):
            assert low <= threshold(low, close, dtype) < close


def test_thresholds_lie_halfway():
    assert threshold(1.0, 2.0) == 1.5
    assert threshold(-1.7e308, 1.7e308) == 0.0
    assert threshold(1.5e308, 1.7e308) == 1.6e308
    # In float64, whatever the type of the table.
    a, b = np.float32(1), np.nextafter(np.float32(1), np.float32(2))
    assert threshold(a, b, np.float32) == (float(a) + float(b)) / 2
    assert threshold(1.0, 2.0, key=ALL_KEYS) == np.inf


# ---- codes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bins", [[1, 2, 255], [255, 255, 100]])
def test_lists_of_codes(rng, n_bins):
    codes = random_codes(rng, 3000, n_bins)
    binned = make_binned(codes, n_bins)
    made = [Table.of_bins(binned).lists(n_threads, 1) for n_threads in (1, 2, 3)]
    for f in range(3):
        column = np.where(codes[:, f] == n_bins[f], np.nan, codes[:, f])
        keys, rows = sorted_list(column, True)
        for lists in made:
            np.testing.assert_array_equal(lists[f]["key"], keys)
            np.testing.assert_array_equal(lists[f]["row"], rows)
    assert len(made[0]) == 4
    lists = aligned_empty((3, 3000), SORTED_ENTRY_DTYPE)
    n_present = list_codes(binned.columns, binned.n_bins, lists, 2)
    np.testing.assert_array_equal(n_present, np.sum(codes != n_bins, axis=0))


def test_categories_of_binned_tables(rng):
    n_bins = [9, 30]
    table = Table.of_bins(make_binned(random_codes(rng, 80, n_bins), n_bins, [0, 1]))
    assert table.n_categories.tolist() == [0, 30]


# ---- refusals -----------------------------------------------------------------------------------


def test_tables_that_do_not_fit_are_refused():
    lists = aligned_empty((3, 5), SORTED_ENTRY_DTYPE)
    X, flags = np.zeros((5, 2)), np.zeros(2, dtype=np.uint8)
    for bad in (X.astype(np.int64), X.astype(np.float16), X.astype(np.longdouble), X.astype(">f8")):
        with pytest.raises(TypeError, match="float32 or float64"):
            sort_columns(bad, flags, lists, 0, 1)
    for bad, first in ((X[:4], 0), (X, 2), (X, -1)):
        with pytest.raises(ValueError, match="do not fit"):
            sort_columns(bad, flags, lists, first, 1)
    with pytest.raises(ValueError, match="one flag per column"):
        sort_columns(X, flags[:1], lists, 0, 1)
    with pytest.raises(ValueError, match="at least one row and one column"):
        sort_columns(X[:, :0], flags[:0], lists, 0, 1)
    codes = np.zeros((2, 5), dtype=np.uint8)
    for columns, missing in ((codes[:, :4], 2), (codes, 1), (np.zeros((4, 5), np.uint8), 4)):
        with pytest.raises(ValueError, match="do not fit"):
            list_codes(np.ascontiguousarray(columns), np.full(missing, 9, np.int32), lists, 1)
