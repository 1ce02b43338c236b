"""Checks of y and sample_weight."""

from __future__ import annotations

import decimal
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hybridtrees.input.validation import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

CONTAINERS = [
    list,
    tuple,
    np.array,
    pd.Series,
    pl.Series,
    pa.array,
    lambda values: pa.chunked_array([values[:1], values[1:]]),
    lambda values: pd.Series(values).convert_dtypes(),
    lambda values: np.array(values, dtype=object),
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_regression_containers(container):
    y = check_target_regression(container([1, 2, 5]), 3)
    assert y.dtype == np.float64
    assert y.flags.c_contiguous
    assert y.tolist() == [1, 2, 5]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", ">f8", "g"])
def test_regression_dtypes(dtype):
    y = np.array([0, 1, 1, 0], dtype=dtype)[::2]
    assert check_target_regression(y).tolist() == [0, 1]
    y.flags.writeable = False
    assert check_target_regression(y).dtype == np.float64


def test_regression_of_several_outputs():
    y = check_target_regression([[1, 2], [3, 4], [5, 6]], 3, multi_output=True)
    assert y.shape == (3, 2)
    assert y.flags.c_contiguous
    with pytest.raises(ValueError, match="y should be a 1d array"):
        check_target_regression([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (None, ValueError, "Toy requires y to be passed, but the target y is None"),
        ([1.0, np.nan], ValueError, "Input y contains NaN in row 1"),
        ([1.0, -np.inf], ValueError, "Input y contains infinity"),
        ([1.0, None], ValueError, "Input y contains NaN"),
        (np.ma.MaskedArray([1.0, 2.0], mask=[True, False]), ValueError, "masked"),
        (pd.array([1, None], dtype="Int64"), ValueError, "Input y contains NaN"),
        (pl.Series([1, None]), ValueError, "Input y contains NaN"),
        (pa.array([1, None]), ValueError, "Input y contains NaN"),
        ([1.0, 2.0, 3.0], ValueError, "inconsistent numbers of samples: X has 2 rows, y has 3"),
        (["a", "b"], ValueError, "must hold real numbers, got 'a'"),
        (np.array(["a", "b"]), ValueError, "must hold real numbers"),
        ([1, "b"], ValueError, "must hold real numbers, got 'b' at place 1"),
        ([1j, 2], ValueError, "Complex data not supported"),
        (np.array([1, 1j], dtype=object), ValueError, "Complex data not supported"),
        (np.array(["2020-01-01"] * 2, dtype="M8[D]"), ValueError, "real numbers"),
        (sparse.csr_array(np.eye(2)), TypeError, "sparse"),
        ([[1, 2], [3]], ValueError, "cannot be made an array"),
        (3.0, ValueError, "1d array"),
        (np.array([np.longdouble("1e4000"), 1]), ValueError, "infinity"),
    ],
)
def test_hostile_regression(y, error, message):
    with pytest.raises(error, match=message):
        check_target_regression(y, 2, estimator_name="Toy")


def test_empty_target():
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        check_target_regression([])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        check_target_classification([])


def test_column_vector_warns():
    from sklearn.exceptions import DataConversionWarning

    for check in (check_target_regression, check_target_classification):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
            check([[1], [0]], 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_target_regression([[1], [2]], multi_output=True).shape == (2,)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("labels", [["b", "a", "b"], [7, -2, 7], [True, False, True]])
def test_classification_containers(container, labels):
    codes, classes = check_target_classification(container(labels), 3)
    assert codes.dtype == np.int32
    assert codes.flags.c_contiguous
    assert codes.tolist() == [1, 0, 1]
    assert classes.tolist() == sorted(set(labels))


def test_classification_of_categories():
    y = pd.Series(pd.Categorical(["b", "a", "b"], categories=["z", "b", "a"]))
    codes, classes = check_target_classification(y)
    assert codes.tolist() == [1, 0, 1]
    assert classes.tolist() == ["a", "b"]


@given(
    st.lists(st.integers(-128, 127), min_size=1),
    st.sampled_from(["i1", "i2", "i8", ">i4", "f4", "f8", "O", "U4"]),
)
def test_codes_stand_for_labels(labels, dtype):
    y = np.array(labels).astype(dtype)
    codes, classes = check_target_classification(y)
    expected, inverse = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    if dtype != "O":
        assert classes.dtype == y.dtype
    again, _ = check_target_classification(y, classes=classes)
    np.testing.assert_array_equal(again, codes)


@pytest.mark.parametrize("low", [0, 2**64 - 3])
def test_extreme_integers(low):
    y = np.array([low, low + 2, low], dtype=np.uint64)
    codes, classes = check_target_classification(y)
    assert codes.tolist() == [0, 1, 0]
    assert classes.tolist() == [low, low + 2]
    far = np.array([-(2**63), 2**63 - 1], dtype=np.int64)
    assert check_target_classification(far)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([0.5, 1.0], "Unknown label type: continuous.*0.5 in row 0"),
        ([1.0, np.nan], "contains NaN"),
        ([1.0, np.inf], "contains infinity"),
        (["a", None], "NaN or None in row 1"),
        (pd.array([1, None], dtype="Int64"), "contains NaN"),
        (["a", 1], "Unknown label type: int, str"),
        ([{}, {}], "Unknown label type"),
        ([1j, 2], "Complex data not supported"),
        (np.array(["2020-01-01"] * 2, dtype="M8[D]"), "Unknown label type: datetime64"),
        ([[1, 2], [3, 4]], "y should be a 1d array"),
        ([1, 2, 3], "inconsistent numbers of samples"),
    ],
)
def test_hostile_classification(y, message):
    with pytest.raises(ValueError, match=message):
        check_target_classification(y, 2)


def test_known_classes():
    classes = np.array(["a", "c"])
    codes, same = check_target_classification(["c", "a"], classes=classes)
    assert codes.tolist() == [1, 0]
    assert same is classes
    with pytest.raises(ValueError, match="y_val holds the label 'b' in row 1"):
        check_target_classification(["c", "b"], classes=classes, name="y_val")
    with pytest.raises(ValueError, match="but the classes are"):
        check_target_classification([1, 2], classes=classes)


@pytest.mark.parametrize("container", CONTAINERS)
def test_weight_containers(container):
    weight = check_sample_weight(container([1, 0, 2]), 3)
    assert weight.dtype == np.float64
    assert weight.tolist() == [1, 0, 2]


def test_weight_scalars():
    assert check_sample_weight(None, 3) is None
    assert check_sample_weight(1, 3) is None
    assert check_sample_weight(np.float32(1), 3) is None
    assert check_sample_weight(2.5, 3).tolist() == [2.5, 2.5, 2.5]
    assert check_sample_weight(decimal.Decimal(2), 2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2, 3], r"one entry for each of the 2 rows of X, got an array of shape \(3,\)"),
        ([[1], [2]], "must be 1D"),
        ([1, -0.5], "must not be negative, got -0.5 in row 1"),
        ([1, np.nan], "contains NaN in row 1"),
        ([np.inf, 1], "contains infinity"),
        ([0, 0], "zero for every row"),
        (0, "zero for every row"),
        (["a", "b"], "must hold real numbers"),
        ([1j, 1], "Complex data not supported"),
    ],
)
def test_hostile_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        check_sample_weight(weight, 2)
