"""FeatureReader on dicts of columns; those of data frames are in test_input_tables."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from hybridtrees.input.validation import FeatureReader

nan = np.nan


def test_a_dict_is_a_table():
    X = {
        "real": np.array([0.5, nan, 2.5]),
        "count": [3, 4, 5],
        "flag": (True, False, True),
        "colour": ["red", "blue", None],
    }
    reader, values = FeatureReader.fit(X)
    expected = [[0.5, 3, 1, 1], [nan, 4, 0, 0], [2.5, 5, 1, nan]]
    np.testing.assert_array_equal(values, expected)
    assert reader.feature_names_in.tolist() == list(X)
    assert reader.is_categorical.tolist() == [False, False, False, True]
    assert reader.categories[3].tolist() == ["blue", "red"]
    np.testing.assert_array_equal(reader.read(MappingProxyType(X)), expected)
    np.testing.assert_array_equal(
        reader.read({**X, "colour": ["red", "pink", nan]})[:, 3], [1, nan, nan]
    )
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        reader.read(dict(reversed(X.items())))
    with pytest.raises(ValueError, match="unseen at fit time:\n- price"):
        reader.read({**X, "price": [1, 2, 3]})


@pytest.mark.parametrize(
    ("column", "dtype", "expected"),
    [
        (np.array([1, 2, 3], dtype="int8"), "float32", [1, 2, 3]),
        (np.arange(6.0)[::2], "float64", [0, 2, 4]),
        (np.array([1, 2, 3], dtype=">f4"), "float32", [1, 2, 3]),
        (range(3), "float64", [0, 1, 2]),
        ([1, None, 2.5], "float64", [1, nan, 2.5]),
        (np.ma.MaskedArray([1, 2, 3], mask=[0, 1, 0]), "float64", [1, nan, 3]),
        (np.array(["b", "a", "b"]), "float32", [1, 0, 1]),
        (np.array(["b", None, "a"], dtype=object), "float32", [1, nan, 0]),
        (np.ma.MaskedArray(["b", "x", "a"], mask=[0, 1, 0]), "float32", [1, nan, 0]),
        (np.array(["b", "a", "c"], dtype=np.dtypes.StringDType()), "float32", [1, 0, 2]),
    ],
)
def test_columns(column, dtype, expected):
    reader, values = FeatureReader.fit({"x": column})
    assert values.dtype == dtype
    np.testing.assert_array_equal(values[:, 0], expected)
    np.testing.assert_array_equal(reader.read({"x": column})[:, 0], expected)


def test_declared_categories_and_keys_that_are_no_strings():
    X = {"zip": [3, 1, 3], "x": [1.0, 2.0, 3.0]}
    for declared in (["zip"], [0], [True, False]):
        reader, values = FeatureReader.fit(X, categorical_features=declared)
        np.testing.assert_array_equal(values, [[1, 1], [0, 2], [1, 3]])
        assert reader.categories[0].tolist() == [1.0, 3.0]
    reader, values = FeatureReader.fit({0: [1, 2], 1: [3, 4]})
    np.testing.assert_array_equal(values, [[1, 3], [2, 4]])
    assert reader.feature_names_in is None


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ({}, ValueError, r"0 sample\(s\)"),
        ({"a": []}, ValueError, r"0 sample\(s\)"),
        ({"a": [1, 2], "b": [1]}, ValueError, "'a' holds 2 values and column 'b' holds 1"),
        ({"a": [1, 2], "b": 1}, ValueError, r"'b' has the shape \(\)"),
        ({"a": "text"}, ValueError, r"'a' has the shape \(\)"),
        ({"a": {"b": [1]}}, ValueError, r"'a' has the shape \(\)"),
        ({"a": np.ones((2, 2))}, ValueError, r"'a' has the shape \(2, 2\)"),
        ({"a": [[1], [2, 3]]}, ValueError, "'a' of X cannot be made a one-dimensional array"),
        ({"a": [1, "x"]}, ValueError, "'x' in column 'a', row 1"),
        ({"a": [b"x"]}, ValueError, "b'x' in column 'a', row 0"),
        ({"a": np.array([b"x"])}, TypeError, "'a' of X.*numbers or strings"),
        ({"a": [1j]}, ValueError, "Complex data not supported: column 'a'"),
        ({"a": np.array(["2020"], dtype="M8[D]")}, TypeError, "'a' of X.*convert it to numbers"),
        ({"a": [1, np.inf]}, ValueError, "column 'a', row 1"),
        ({"a": [1], 2: [1]}, TypeError, "string names"),
    ],
)
def test_hostile_dicts(X, error, message):
    with pytest.raises(error, match=message):
        FeatureReader.fit(X)
    reader, _ = FeatureReader.fit({"a": [1.0, 2.0]})
    with pytest.raises((ValueError, TypeError)):
        reader.read(X)
