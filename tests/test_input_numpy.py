"""FeatureReader on arrays and lists."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hybridtrees.input import arrays
from hybridtrees.input.arrays import _has_infinity
from hybridtrees.input.validation import FeatureReader

NARROW = ["bool", "int8", "uint8", "int16", "uint16", "float16", "float32"]
WIDE = ["int32", "uint32", "int64", "uint64", "float64", "longdouble"]


def read(X, **kwargs):
    return FeatureReader.fit(X, **kwargs)[1]


@pytest.mark.parametrize("dtype", NARROW + WIDE)
@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed"])
def test_every_real_dtype_and_order(dtype, order, rng):
    base = np.asarray(rng.integers(0, 2, size=(12, 4)), dtype=dtype)
    X = {
        "C": base,
        "F": np.asfortranarray(base),
        "strided": np.repeat(np.repeat(base, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": base[::-1, ::-1],
    }[order]
    reader, values = FeatureReader.fit(X)
    assert values.dtype == (np.float32 if dtype in NARROW else np.float64)
    np.testing.assert_array_equal(values, X.astype(np.float64))
    np.testing.assert_array_equal(reader.read(X), values)
    assert reader.n_features_in == 4
    assert reader.feature_names_in is None
    assert not reader.is_categorical.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_not_copied(dtype, rng, tmp_path):
    X = rng.random((20, 3)).astype(dtype)
    mapped = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=X.shape)
    mapped[:] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    for given_array in (X, np.asfortranarray(X), X[::2, ::-1], frozen, mapped):
        reader, values = FeatureReader.fit(given_array)
        assert type(values) is np.ndarray
        assert np.shares_memory(values, given_array)
        assert np.shares_memory(reader.read(given_array), given_array)
    assert reader.read(X) is X


def test_byte_order_and_alignment(rng):
    X = rng.random((9, 3))
    np.testing.assert_array_equal(read(X.astype(">f8")), X)
    assert read(X.astype(">f8")).dtype.isnative
    assert read(X.astype(">f4")).dtype == np.float32
    buffer = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)
    unaligned = np.ndarray(X.shape, dtype=np.float64, buffer=buffer, offset=1)
    assert not unaligned.flags.aligned
    reader, values = FeatureReader.fit(unaligned)
    assert values.flags.aligned
    assert reader.read(unaligned).flags.aligned
    np.testing.assert_array_equal(values, X)


@given(
    hnp.arrays(
        dtype=st.sampled_from([np.dtype(d) for d in ("i1", "u2", "i8", "f2", "f4", "f8", ">i4")]),
        shape=hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    )
)
def test_values_are_never_changed(X):
    """Every entry is kept exactly; an infinity is the only reason to refuse a real array."""
    if np.isinf(X.astype(np.float64)).any():
        with pytest.raises(ValueError, match="infinity"):
            read(X)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = read(X)
    np.testing.assert_array_equal(values, X.astype(np.float64))


def test_lists_and_objects():
    np.testing.assert_array_equal(read([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read([[1, None], [True, 4.5]]), [[1, np.nan], [1, 4.5]])
    mixed = np.array([[np.float32(1.5), 2**70], [None, False]], dtype=object)
    np.testing.assert_array_equal(read(mixed), [[1.5, 2.0**70], [np.nan, 0]])


def test_masked_entries_are_missing():
    X = np.ma.MaskedArray([[1, 2], [3, 4]], mask=[[True, False], [False, False]])
    np.testing.assert_array_equal(read(X), [[np.nan, 2], [3, 4]])
    Y = np.ma.MaskedArray([[1.0, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(read(Y), [[1, np.nan], [3, 4]])
    assert Y.data[0, 1] == 2.0  # the caller's array is as it was
    plain = np.ma.MaskedArray([[1.0, 2]])
    assert np.shares_memory(read(plain), plain.data)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1"),
        (np.zeros(3), ValueError, "Reshape your data"),
        (np.zeros((2, 2, 2)), ValueError, "3D array"),
        (5.0, ValueError, "single value: 5.0"),
        (None, ValueError, "single value: None"),
        ("text", ValueError, r"single value: 'text' instead\. .* fit\(X, target=\.\.\.\)"),
        ({"a": 1}, ValueError, r"column 'a' has the shape \(\)"),
        ([[1, 2], [3]], ValueError, "differ in length"),
        (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported"),
        (np.array([[1, 1j]], dtype=object), ValueError, "Complex data not supported"),
        (np.array([[1, 2], [3, "x"]], dtype=object), ValueError, "'x' in column 1, row 1"),
        ([[1, 2], [3, "x"]], ValueError, "'x' in column 1, row 1.*categorical_features"),
        (np.array([["1.5"]]), ValueError, "'1.5' in column 0, row 0"),
        (np.array([[b"a"]]), ValueError, "could not convert string"),
        (np.array([[{"a": 1}]], dtype=object), TypeError, "argument must be .* string.* number"),
        (np.array([[10**400]], dtype=object), ValueError, "infinity or a value too large"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), TypeError, "datetime64"),
        (np.zeros((2, 2), dtype="i4,i4"), TypeError, "not supported"),
        (np.array([[1.0, 2.0], [3.0, np.inf]]), ValueError, "column 1, row 1.*NaN"),
        (np.array([[-np.inf, 2.0]], dtype="f2"), ValueError, "column 0, row 0"),
        (np.array([[np.longdouble("1e4000")]]), ValueError, "too large for float64"),
    ],
)
def test_hostile_input(X, error, message):
    with pytest.raises(error, match=message):
        read(X)
    reader, _ = FeatureReader.fit(np.zeros((2, 2)))
    with pytest.raises((ValueError, TypeError)):
        reader.read(X)


def test_wrong_number_of_columns():
    reader, _ = FeatureReader.fit(np.zeros((2, 2)), estimator_name="XGBRegressor")
    message = "X has 1 features, but XGBRegressor is expecting 2 features as input"
    with pytest.raises(ValueError, match=message):
        reader.read(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="X has 3 features"):
        reader.read([[1, 2, "x"]])


@pytest.mark.parametrize("layout", ["C", "F", "strided"])
@pytest.mark.parametrize("shape", [(1, 5), (700, 3), (3, 60_000)])
def test_infinity_is_found_anywhere(layout, shape, rng, monkeypatch):
    monkeypatch.setattr(arrays, "_BLOCK", 1000)
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=shape).astype(dtype)
        X[rng.random(shape) < 0.1] = np.nan
        X = {"C": X, "F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}[layout]
        X[0, 0] = np.finfo(dtype).max  # the sum of squares overflows, which is no infinity
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not _has_infinity(X)
            for place in ((0, 0), (-1, -1), (shape[0] // 2, shape[1] // 2)):
                kept = X[place]
                X[place] = -np.inf
                assert _has_infinity(X)
                X[place] = kept


def test_missing_sentinel(rng):
    X = rng.integers(-1, 3, size=(30, 4)).astype(np.float32)
    before = X.copy()
    reader, values = FeatureReader.fit(X, missing=-1)
    np.testing.assert_array_equal(values, np.where(X == -1, np.nan, X))
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(reader.read(X.astype(int)), values)
    assert FeatureReader.fit(X, missing=99)[1] is X
    assert FeatureReader.fit(X, missing=1e300)[1] is X  # no float32 equals it
    np.testing.assert_array_equal(read([[np.inf, 1.0]], missing=np.inf), [[np.nan, 1]])
    assert FeatureReader.fit(X, missing=None)[1] is X
    with pytest.raises(TypeError, match="missing must be a real number"):
        read(X, missing="none")


def test_declared_categories_of_numbers():
    X = np.array([[10.0, 1], [-3, 2], [np.nan, 3], [10, 4]], dtype=np.float32)
    reader, values = FeatureReader.fit(X, categorical_features=[0])
    np.testing.assert_array_equal(values, [[1, 1], [0, 2], [np.nan, 3], [1, 4]])
    np.testing.assert_array_equal(reader.categories[0], [-3, 10])
    assert reader.categories[1] is None
    assert reader.is_categorical.tolist() == [True, False]
    assert X[0, 0] == 10  # the caller's array is as it was
    unknown = reader.read([[10, 7], [5, 8], [np.nan, 9]])
    np.testing.assert_array_equal(unknown, [[1, 7], [np.nan, 8], [np.nan, 9]])
    # Values that are their own codes need no copy.
    coded = np.array([[0.0, 5.5], [1, 6], [np.nan, 7]])
    assert FeatureReader.fit(coded, categorical_features=[True, False])[1] is coded


def test_declared_categories_of_text():
    X = np.array([["b", 1], [None, 2], ["a", 3], [4, 4]], dtype=object)
    reader, values = FeatureReader.fit(X, categorical_features=[-2])
    np.testing.assert_array_equal(values, [[2, 1], [np.nan, 2], [1, 3], [0, 4]])
    assert reader.categories[0].tolist() == ["4", "a", "b"]
    np.testing.assert_array_equal(reader.read([["b", 0.5], ["new", 1]]), [[2, 0.5], [np.nan, 1]])
    with pytest.raises(ValueError, match="column 0 .*text as categories.*numbers now"):
        reader.read(np.array([[1.0, 2.0]]))
    np.testing.assert_array_equal(reader.read(np.array([[np.nan, 2.0]])), [[np.nan, 2.0]])
    numeric, _ = FeatureReader.fit(np.array([[1.0], [2.0]]), categorical_features=[0])
    with pytest.raises(ValueError, match="numbers as categories.*text now"):
        numeric.read(np.array([["1"]], dtype=object))
    text = np.array([["x"], ["y"]])
    np.testing.assert_array_equal(read(text, categorical_features=[0]), [[0], [1]])


@pytest.mark.parametrize(
    ("declared", "error", "message"),
    [
        ([2], ValueError, "index 2, but X has 2 features"),
        ([-3], ValueError, "index -3"),
        (["a"], ValueError, "no feature names"),
        ([True], ValueError, "mask of 1 entries"),
        ([0.5], TypeError, "names or numbers of columns, got 0.5"),
        ("all", ValueError, "'all'"),
        ([[0]], TypeError, r"names or numbers of columns, got \[0\]"),
    ],
)
def test_wrong_declarations(declared, error, message):
    with pytest.raises(error, match=message):
        read(np.zeros((3, 2)), categorical_features=declared)
    with pytest.raises(error, match=message):
        read(np.array([[1, "a"]], dtype=object), categorical_features=declared)


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.sampled_from([-2.5, -0.0, 0.0, 1.0, 3.0, np.nan]),
    )
)
def test_codes_stand_for_their_labels(X):
    reader, values = FeatureReader.fit(X, categorical_features=range(X.shape[1]))
    for j, labels in enumerate(reader.categories):
        known = ~np.isnan(X[:, j])
        np.testing.assert_array_equal(np.isnan(values[:, j]), ~known)
        codes = values[known, j].astype(int)
        np.testing.assert_array_equal(labels[codes], X[known, j])
        assert set(codes) == set(range(len(labels)))
    np.testing.assert_array_equal(reader.read(X), values)


def test_reader_travels(rng):
    X = np.column_stack([rng.integers(0, 3, 20), rng.random(20)])
    reader, values = FeatureReader.fit(X, categorical_features=[0], missing=-1)
    for copy in (pickle.loads(pickle.dumps(reader)), FeatureReader.from_state(reader.to_state())):
        np.testing.assert_array_equal(copy.read(X), values)
        assert copy.missing == -1
        assert copy.is_categorical.tolist() == [True, False]
    with pytest.raises(ValueError, match="each feature"):
        FeatureReader.from_state({**reader.to_state(), "n_features_in": 7})
