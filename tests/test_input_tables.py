"""FeatureReader on data frames: types, categories, names."""

from __future__ import annotations

import datetime
import decimal
import pickle
import warnings

import numpy as np
import pytest
from fresh_python import check_python

from hybridtrees.input.validation import FeatureReader

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

nan = np.nan
COLUMNS = {
    "real": [0.5, nan, 2.5],
    "count": [3, 4, 5],
    "flag": [True, False, True],
    "colour": ["red", "blue", None],
}
EXPECTED = [[0.5, 3, 1, 1], [nan, 4, 0, 0], [2.5, 5, 1, nan]]


def make_pandas(columns):
    return pd.DataFrame(columns)


def make_pandas_object(columns):
    return pd.DataFrame(columns).astype(object)


def make_arrow(columns):
    return pa.table(columns)


def make_batch(columns):
    return pa.RecordBatch.from_pydict(columns)


def make_chunked(columns):
    table = pa.table(columns)
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


def make_arrow_backed(columns):
    return pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow")


class Foreign:
    """A frame of another library that speaks Arrow's interchange."""

    def __init__(self, table):
        self._table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


MAKERS = [
    make_pandas,
    make_pandas_object,
    make_arrow_backed,
    pl.DataFrame,
    make_arrow,
    make_batch,
    make_chunked,
    lambda columns: Foreign(pa.table(columns)),
]


@pytest.mark.parametrize("make", MAKERS)
def test_all_libraries_agree(make):
    X = make(COLUMNS)
    reader, values = FeatureReader.fit(X)
    np.testing.assert_array_equal(values, EXPECTED)
    assert values.flags.f_contiguous
    assert reader.feature_names_in.tolist() == list(COLUMNS)
    assert reader.feature_names_in.dtype == object
    assert reader.is_categorical.tolist() == [False, False, False, True]
    assert reader.categories[3].tolist() == ["blue", "red"]
    np.testing.assert_array_equal(reader.read(X), EXPECTED)
    # What was learned from one library reads the tables of the others.
    for other in MAKERS:
        np.testing.assert_array_equal(reader.read(other(COLUMNS)), EXPECTED)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        array = reader.read(np.array([[1, 2, 0, "red"], [1, 2, 0, "grey"]], dtype=object))
    np.testing.assert_array_equal(array, [[1, 2, 0, 1], [1, 2, 0, nan]])


def assert_reads_as(X, dtype, expected):
    """The only column of X is read as these values, in fit and later; so it is from a dict."""
    reader, values = FeatureReader.fit(X)
    assert values.dtype == dtype
    np.testing.assert_array_equal(values[:, 0], expected)
    for same in (X, {"x": X["x"]}):
        np.testing.assert_array_equal(reader.read(same)[:, 0], expected)
    again, values = FeatureReader.fit({"x": X["x"]})
    assert values.dtype == dtype
    np.testing.assert_array_equal(values[:, 0], expected)
    np.testing.assert_array_equal(again.is_categorical, reader.is_categorical)


@pytest.mark.parametrize(
    ("series", "dtype", "expected"),
    [
        (pd.array([1, None, -3], dtype="Int8"), "float32", [1, nan, -3]),
        (pd.array([1, None, 3], dtype="Int64"), "float64", [1, nan, 3]),
        (pd.array([1, None, 3], dtype="Float32"), "float32", [1, nan, 3]),
        (pd.array([True, None, False], dtype="boolean"), "float32", [1, nan, 0]),
        (pd.array([1, None, 3], dtype=pd.ArrowDtype(pa.int16())), "float32", [1, nan, 3]),
        (np.array([1, 2, 3], dtype="int16"), "float32", [1, 2, 3]),
        (np.array([1, 2, 3], dtype="float64"), "float64", [1, 2, 3]),
        (np.array([1, 2, 3], dtype=">f4"), "float32", [1, 2, 3]),
        (np.array([1, None, decimal.Decimal("2.5")], dtype=object), "float64", [1, nan, 2.5]),
        (np.array([None, pd.NA, nan], dtype=object), "float64", [nan, nan, nan]),
        (pd.arrays.SparseArray([0, 0, 1.5]), "float64", [0, 0, 1.5]),
        (pd.Categorical(["z", None, "a"], categories=["z", "q", "a"]), "float32", [0, nan, 1]),
        (pd.Categorical([30, 10, 30]), "float32", [1, 0, 1]),
        (pd.cut([1, 5, 9], [0, 4, 8, 12]), "float32", [0, 1, 2]),
        (pd.array(["b", None, "a"], dtype="string"), "float32", [1, nan, 0]),
    ],
)
def test_pandas_types(series, dtype, expected):
    assert_reads_as(pd.DataFrame({"x": series}), dtype, expected)


@pytest.mark.parametrize(
    ("series", "dtype", "expected"),
    [
        (pl.Series([1, None, 3], dtype=pl.Int8), "float32", [1, nan, 3]),
        (pl.Series([1, None, 3], dtype=pl.UInt64), "float64", [1, nan, 3]),
        (pl.Series([1.5, None, nan], dtype=pl.Float32), "float32", [1.5, nan, nan]),
        (pl.Series([True, None, False]), "float32", [1, nan, 0]),
        (pl.Series([None, None, None]), "float32", [nan, nan, nan]),
        (
            pl.Series([decimal.Decimal("1.5"), None, decimal.Decimal("2.0")]),
            "float64",
            [1.5, nan, 2],
        ),
        (pl.Series(["b", None, "a"]), "float32", [1, nan, 0]),
        (pl.Series(["b", None, "a"], dtype=pl.Categorical), "float32", [1, nan, 0]),
        (pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "c", "a"])), "float32", [0, nan, 1]),
    ],
)
def test_polars_types(series, dtype, expected):
    assert_reads_as(pl.DataFrame({"x": series}), dtype, expected)


@pytest.mark.parametrize(
    ("array", "dtype", "expected"),
    [
        (pa.array([1, None, 3], type=pa.int8()), "float32", [1, nan, 3]),
        (pa.array([1, None, 3], type=pa.int32()), "float64", [1, nan, 3]),
        (pa.array([True, None, False]), "float32", [1, nan, 0]),
        (pa.array([None, None, None]), "float32", [nan, nan, nan]),
        (pa.array(["b", None, "a"], type=pa.large_string()), "float32", [1, nan, 0]),
        (pa.array(["b", None, "a"]).dictionary_encode(), "float32", [0, nan, 1]),
        (pa.array([decimal.Decimal("1.5"), None, None]), "float64", [1.5, nan, nan]),
        (
            pa.DictionaryArray.from_arrays(pa.array([1, 0, None], type=pa.uint8()), ["a", None]),
            "float32",
            [nan, 0, nan],
        ),
        (
            pa.chunked_array(
                [pa.array(["b"]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()]
            ),
            "float32",
            [0, 1, 0],
        ),
    ],
)
def test_arrow_types(array, dtype, expected):
    assert_reads_as(pa.table({"x": array}), dtype, expected)


DATES = [datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)]


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (pd.DataFrame({"when": DATES}), TypeError, "'when'.*convert it to numbers"),
        (pl.DataFrame({"when": DATES}), TypeError, "'when'.*convert it to numbers"),
        (pa.table({"when": DATES}), TypeError, "'when'.*convert it to numbers"),
        (
            pd.DataFrame({"when": pd.to_datetime(DATES).tz_localize("UTC")}),
            TypeError,
            "'when'.*convert it to numbers",
        ),
        (pl.DataFrame({"list": [[1], [2]]}), TypeError, "'list'.*not supported"),
        (pa.table({"list": [[1], [2]]}), TypeError, "'list'.*not supported"),
        (pd.DataFrame({"z": [1j, 2]}), ValueError, "Complex data not supported: column 'z'"),
        (pd.DataFrame({"m": [1, "a"]}, dtype=object), ValueError, "'a' in column 'm', row 1"),
        (pd.DataFrame({"i": [1, np.inf]}), ValueError, "column 'i', row 1"),
        (pd.DataFrame({"i": [1, np.inf], "j": ["a", "b"]}), ValueError, "column 'i', row 1"),
        (pl.DataFrame({"i": [1.0, np.inf]}), ValueError, "column 'i', row 1"),
        (pd.DataFrame({"a": [1], 2: [2]}), TypeError, "string names"),
        (pd.DataFrame({"a": []}), ValueError, r"0 sample\(s\)"),
        (pd.DataFrame(index=range(3)), ValueError, r"0 feature\(s\)"),
        (pd.Series([1, 2]), ValueError, "Reshape your data"),
        (pl.LazyFrame({"a": [1]}), TypeError, "collect"),
    ],
)
def test_hostile_tables(X, error, message):
    with pytest.raises(error, match=message):
        FeatureReader.fit(X)


def test_homogeneous_pandas_is_not_copied(rng):
    for dtype in ("float32", "float64"):
        X = pd.DataFrame(rng.random((50, 3)).astype(dtype), columns=list("abc"))
        reader, values = FeatureReader.fit(X)
        assert values.dtype == dtype
        assert np.shares_memory(values, X.to_numpy())
        assert np.shares_memory(reader.read(X), X.to_numpy())


def test_columns_without_string_names():
    X = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    reader, _ = FeatureReader.fit(X)
    assert reader.feature_names_in is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.read(X.to_numpy())


def test_names_are_checked():
    X = pd.DataFrame({name: [1.0, 2.0] for name in "abcdefgh"})
    reader, _ = FeatureReader.fit(X, estimator_name="Toy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.read(X)
        reader.read(pl.from_pandas(X))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        reader.read(X[list("bacdefgh")])
    with pytest.raises(ValueError, match="unseen at fit time:\n- z\nFeature names seen.*\n- a\n"):
        reader.read(X.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="yet now missing:\n- b\n- c\n- d\n- e\n- f\n- ...\n"):
        reader.read(X[["a", "h"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names, but Toy was fitted"):
        reader.read(X.to_numpy())
    nameless, _ = FeatureReader.fit(X.to_numpy(), estimator_name="Toy")
    with pytest.warns(UserWarning, match="X has feature names, but Toy was fitted without"):
        nameless.read(X)


def test_declared_by_name_and_by_mask():
    X = pd.DataFrame({"zip": [3, 1, 3], "x": [1.0, 2.0, 3.0], "c": ["u", "v", "u"]})
    for declared in (["zip"], [0], [True, False, False], [np.int64(0)], pd.Index(["zip"])):
        reader, values = FeatureReader.fit(X, categorical_features=declared)
        np.testing.assert_array_equal(values, [[1, 1, 0], [0, 2, 1], [1, 3, 0]])
        assert reader.is_categorical.tolist() == [True, False, True]
        assert reader.categories[0].tolist() == [1.0, 3.0]
    for automatic in (None, "from_dtype"):
        reader, _ = FeatureReader.fit(X, categorical_features=automatic)
        assert reader.is_categorical.tolist() == [False, False, True]
    with pytest.raises(ValueError, match="'nope', which X does not have"):
        FeatureReader.fit(X, categorical_features=["nope"])
    floats = X[["zip", "x"]].astype("float64")
    reader, values = FeatureReader.fit(floats, categorical_features=["zip"])
    np.testing.assert_array_equal(values, [[1, 1], [0, 2], [1, 3]])
    assert floats["zip"].tolist() == [3, 1, 3]


@pytest.mark.parametrize("make", [make_pandas, pl.DataFrame, make_arrow])
def test_unknown_labels_are_missing(make):
    reader, _ = FeatureReader.fit(make({"c": ["b", "a", "b"], "x": [1.0, 2.0, 3.0]}))
    values = reader.read(make({"c": ["a", "new", None], "x": [1.0, 2.0, 3.0]}))
    np.testing.assert_array_equal(values, [[0, 1], [nan, 2], [nan, 3]])
    all_missing = reader.read(make({"c": [None, None], "x": [1.0, 2.0]}))
    np.testing.assert_array_equal(all_missing, [[nan, 1], [nan, 2]])


def test_types_may_not_swap():
    reader, _ = FeatureReader.fit(pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]}))
    with pytest.raises(ValueError, match="'x' of X held numbers in fit, categories now"):
        reader.read(pd.DataFrame({"x": ["1", "2"], "c": ["a", "b"]}))
    with pytest.raises(ValueError, match="'c' of X was fitted with text"):
        reader.read(pd.DataFrame({"x": [1.0, 2.0], "c": [1, 2]}))
    empty = pl.DataFrame({"x": pl.Series([None], dtype=pl.String), "c": ["a"]})
    np.testing.assert_array_equal(reader.read(empty), [[nan, 0]])


def test_category_dtype_keeps_order_and_drops_unused():
    levels = [f"level {i}" for i in range(300)][::-1]
    X = pd.DataFrame({"c": pd.Categorical([levels[7], levels[2], levels[299]], categories=levels)})
    reader, values = FeatureReader.fit(X)
    assert reader.categories[0].tolist() == [levels[2], levels[7], levels[299]]
    np.testing.assert_array_equal(values[:, 0], [1, 0, 2])
    np.testing.assert_array_equal(reader.read(X.astype("string"))[:, 0], [1, 0, 2])


def test_many_categories():
    """More labels than an int8 or a uint8 can count."""
    labels = [f"{i:04d}" for i in range(2000)]
    for X in (
        pd.DataFrame({"c": pd.Categorical(labels)}),
        pl.DataFrame({"c": labels}),
        pa.table({"c": pa.array(labels).dictionary_encode()}),
    ):
        np.testing.assert_array_equal(FeatureReader.fit(X)[1][:, 0], np.arange(2000))
    for n in (126, 127, 128, 255, 256):
        X = pd.DataFrame({"c": pd.Categorical(labels[:n])})
        np.testing.assert_array_equal(FeatureReader.fit(X)[1][:, 0], np.arange(n))


def test_missing_sentinel_in_tables():
    X = pd.DataFrame({"x": [-1, 2], "y": [0.5, -1.0], "c": ["-1", "a"]})
    _, values = FeatureReader.fit(X, missing=-1)
    np.testing.assert_array_equal(values, [[nan, 0.5, 0], [2, nan, 1]])
    reader, values = FeatureReader.fit(X, missing=-1, categorical_features=["x"])
    np.testing.assert_array_equal(values[:, 0], [nan, 0])
    assert reader.categories[0].tolist() == [2.0]


def test_duplicate_names_and_subclasses():
    X = pd.DataFrame(np.array([[1.0, 2.0], [3.0, 4.0]]), columns=["a", "a"])
    X = pd.concat([X, pd.DataFrame({"c": ["u", "v"]})], axis=1)
    np.testing.assert_array_equal(FeatureReader.fit(X)[1], [[1, 2, 0], [3, 4, 1]])

    class Frame(pd.DataFrame):
        pass

    np.testing.assert_array_equal(FeatureReader.fit(Frame(COLUMNS))[1], EXPECTED)


def test_reader_of_tables_travels():
    reader, values = FeatureReader.fit(pd.DataFrame(COLUMNS))
    for copy in (pickle.loads(pickle.dumps(reader)), FeatureReader.from_state(reader.to_state())):
        np.testing.assert_array_equal(copy.read(pl.DataFrame(COLUMNS)), values)
        assert copy.feature_names_in.tolist() == list(COLUMNS)


def test_libraries_are_not_imported_for_arrays():
    code = (
        "import sys, numpy as np\n"
        "from hybridtrees.input.validation import FeatureReader, check_target_classification\n"
        "reader, _ = FeatureReader.fit(np.ones((3, 2), dtype=int))\n"
        "reader.read([[1, 2]])\n"
        "check_target_classification(['a', 'b'])\n"
        "loaded = {'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    check_python(code)
