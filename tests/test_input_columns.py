"""Columns that the user names."""

import numpy as np
import pytest

from hybridtrees.input.columns import column_index, column_indices

NAMES = np.array(["a", "b", "c"], dtype=object)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [0, 1, 2]),
        ([], []),
        ("b", [1]),
        (2, [2]),
        (["c", "a", "c"], [0, 2]),
        ([np.int64(1), -3], [0, 1]),
        ((True, False, True), [0, 2]),
        (np.array([False, True, False]), [1]),
        (NAMES[1:], [1, 2]),
    ],
)
def test_names_numbers_and_masks(given, expected):
    found = column_indices(given, 3, NAMES, "features")
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (["d"], ValueError, "drop names 'd', which X does not have"),
        ([3], ValueError, "drop holds the index 3, but X has 3 features"),
        ([-4], ValueError, "drop holds the index -4, but X has 3 features"),
        ([1.0], TypeError, "drop must hold names or numbers of columns, got 1.0"),
        ([0, True], TypeError, "drop must hold names or numbers of columns, got True"),
        ([True], ValueError, "drop is a mask of 1 entries, but X has 3 features"),
        (1.5, TypeError, "drop must be None or a list of names, numbers or booleans, got 1.5"),
        (iter([1]), TypeError, "drop must be None or a list"),
        (np.array(1), TypeError, "drop must be None or a list"),
        ([[0], [1]], TypeError, r"drop must hold names or numbers of columns, got \[0\]"),
    ],
)
def test_errors_name_the_parameter(given, error, message):
    with pytest.raises(error, match=message):
        column_indices(given, 3, NAMES, "drop")


def test_names_of_a_table_without_names():
    with pytest.raises(ValueError, match="time names 'a', but X has no feature names"):
        column_index("a", 3, None, "time")
