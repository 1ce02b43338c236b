"""Cells of text as numbers, dates or text."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees._compare.cells import typed_columns


def read(*cells, **more):
    """Return one column and what is noted of it."""
    notes = {}
    (column,) = typed_columns({"a": list(cells)}, notes, **more).values()
    return column, notes.get("a", "")


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["2,169.09", "1.5", "3"], [2169.09, 1.5, 3]),
        (["1,234,567", "-2,000.5"], [1234567, -2000.5]),
        (["$1.2", "$3,000", "-$5", "$-6"], [1.2, 3000, -5, -6]),
        (["EUR 5", "7 EUR"], [5, 7]),
        (["45 %", "3%", "0.5 %"], [45, 3, 0.5]),
        (["1.234,56", "5,1", "7"], [1234.56, 5.1, 7]),
        (["0,500", "0,250"], [0.5, 0.25]),  # no thousands begin with a nought
        (["(123)", "(1,000.5)", "4"], [-123, -1000.5, 4]),
        (["1\u2009234", "12\u202f345,5"], [1234, 12345.5]),
        (["1\u00a0234.5", "1 000"], [1234.5, 1000]),
        (["1'234.5", "2\u2019000"], [1234.5, 2000]),
        (["\u22123,5", "+2,0"], [-3.5, 2]),
        (["1,5e3", "2"], [1500, 2]),
        ([" 1,5 ", "NA", "?", ""], [1.5, np.nan, np.nan, np.nan]),
    ],
)
def test_numbers_as_people_write_them(cells, numbers):
    column, note = read(*cells)
    np.testing.assert_array_equal(column, numbers)
    assert note.startswith("is read as numbers, ")


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (["1,5", "2.5"], "decimal points, as in '2.5', and decimal commas, as in '1,5'"),
        (["$5", "\u20ac5"], "different signs of a currency"),
        (["45 %", "0.3"], "per cent signs here and there"),
        ([*map(str, range(9)), "about 5"], "1 of 10 different values are not numbers, such as 'ab"),
        (["31.12.2024", "1.1.2024"], "dates such as '1.1.2024' are not read, write them as 2024"),
        (["a", "b", "1"], ""),
        (["12,34,567", "1.2.3"], ""),
        (["(5", "x", "y"], ""),
        (["1 2", "3 4"], ""),
        ([], ""),
    ],
)
def test_what_is_no_number_stays_text(cells, note):
    column, found = read(*cells)
    assert column.tolist() == cells and note in found and bool(note) == bool(found)


def test_what_fits_both_styles():
    """``1,234``: by the option, by the rest of the file, by what divides the cells."""
    assert read("1,234", "5")[0].tolist() == [1234, 5]
    assert read("1,234", "5")[1].endswith("'1,234' as 1234 (--decimal , reads 1.234)")
    assert read("1,234", "5", comma_is_free=True)[0].tolist() == [1.234, 5]
    assert read("1,234", "5", decimal=",")[0].tolist() == [1.234, 5]
    assert read("1,234", "5", decimal=".", comma_is_free=True)[0].tolist() == [1234, 5]
    for other, value in ((["1,5"], 1.234), (["2,000.5"], 1234), (["1.5"], 1234)):
        columns = {"a": ["1,234"], "b": other}
        for free in (False, True):
            table = typed_columns(columns, {}, comma_is_free=free)
            if other != ["1.5"] or free:
                assert table["a"].tolist() == [value]


def test_points_set_thousands_apart_where_commas_are_decimal():
    notes = {}
    table = typed_columns({"a": ["1.234", "12.000"], "b": ["1,5", "x1"], "c": ["2,5", "3"]}, notes)
    assert table["a"].tolist() == [1234, 12000] and table["c"].tolist() == [2.5, 3]
    assert notes["a"].endswith("'1.234' as 1234 (--decimal . reads 1.234)")
    # Not where one of them can only be a decimal point.
    table = typed_columns({"a": ["1.234", "1.5"], "c": ["2,5", "3"]}, {})
    assert table["a"].tolist() == [1.234, 1.5]
    assert read("1.234", "5")[0].tolist() == [1.234, 5] and read("1.234", "5")[1] == ""


def test_columns_that_are_to_be_text_stay_so():
    column, note = read("1,234", "NA", text=["a"])
    assert column.tolist() == ["1,234", None] and note == ""


def test_dates_with_zones_and_fractions():
    column, _ = read("2024-05-31T10:30:05.123456789Z", "2024/06/01 11:00+02:00", "")
    expected = np.array(["2024-05-31T10:30:05.123456", "2024-06-01T11:00", "NaT"], "datetime64[us]")
    np.testing.assert_array_equal(column, expected)
