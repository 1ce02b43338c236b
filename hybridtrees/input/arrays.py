"""Conversion of arrays to native float32 or float64, and the check for infinities."""

from __future__ import annotations

import math
import sys
from numbers import Number
from typing import Any

import numpy as np

# Up to this many entries infinities are found by one dot product, the cheapest reduction of NumPy;
# larger arrays are checked block by block.
_SMALL = 8192
_BLOCK = 1 << 17

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)

COMPLEX_MESSAGE = "Complex data not supported: {name} must hold real numbers, got {dtype}"


def float_dtype(dtype: np.dtype) -> np.dtype:
    """Return float32 if it holds every value of a real `dtype`, else float64."""
    if dtype.kind in "biu":
        return FLOAT32 if dtype.itemsize <= 2 else FLOAT64
    return FLOAT32 if dtype.itemsize <= 4 else FLOAT64


def is_real(dtype: np.dtype) -> bool:
    """Whether a NumPy dtype is a boolean, an integer or a real floating type."""
    return dtype.kind in "biuf"


def to_float(values: np.ndarray) -> np.ndarray:
    """Return a real array as native, aligned float32 or float64, without a copy if it is one."""
    dtype = float_dtype(values.dtype)
    if values.dtype == dtype and values.dtype.isnative and values.flags.aligned:
        return values
    # A long double may overflow to infinity, which the caller reports.
    with np.errstate(over="ignore"):
        return values.astype(dtype, order="K")


def plain_array(values: Any) -> np.ndarray:
    """Return an array-like as an ndarray without its mask; lists with text become objects."""
    array = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        # NumPy has turned numbers beside text into strings: start from the original values.
        array = np.asarray(values, dtype=object)
    return array


def _has_infinity(values: np.ndarray) -> bool:
    """Whether a float array of any shape and strides holds an infinity (NaN is allowed)."""
    if values.size <= _SMALL:
        # If the sum of squares is finite, so is every entry; if not, NaN may be the reason.
        return not math.isfinite(np.vdot(values, values)) and bool(np.isinf(values).any())
    if values.flags.forc:
        flat = values.ravel(order="K")
        blocks = (flat[i : i + _BLOCK] for i in range(0, flat.size, _BLOCK))
    else:
        step = max(1, _BLOCK // max(1, math.prod(values.shape[1:])))
        blocks = (values[i : i + step] for i in range(0, len(values), step))
    return any(bool(np.isinf(block).any()) for block in blocks)


def reject_infinity(values: np.ndarray, feature_names: Any = None) -> None:
    """Raise a ValueError for the first infinite entry of a 2-D array, if there is one."""
    if not _has_infinity(values):
        return
    for j in range(values.shape[1]):
        rows = np.flatnonzero(np.isinf(values[:, j]))
        if rows.size:
            raise infinity_error(column_label(j, feature_names), int(rows[0]), values.dtype)


def infinity_error(column: str, row: int, dtype: np.dtype) -> ValueError:
    """Return the error for an infinite entry of X."""
    return ValueError(
        f"Input X contains infinity or a value too large for {dtype} in {column}, row {row}. "
        "Infinite values are not supported; a missing value is written as NaN."
    )


def column_label(index: int, feature_names: Any = None) -> str:
    """Return the name of a column in error messages."""
    if feature_names is None:
        return f"column {index}"
    return f"column {feature_names[index]!r}"


def is_missing_object(value: Any) -> bool:
    """Whether a Python object is a missing value: None, NaN, or the NA or NaT of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and value != value


_NEVER_MISSING = frozenset((str, int, bool))

TEXT_IN_ARRAY = (
    "To use text as categories, pass a DataFrame (behind a transformer of scikit-learn by its "
    "set_output(transform='pandas')) or name the column in categorical_features."
)
TEXT_MIXED = "The column mixes text with other values: make it all text or all numbers."


def kinds_of_objects(values: np.ndarray) -> set[type]:
    """Return the types of the entries of an object array that are not missing."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= _NEVER_MISSING:
        return kinds
    if kinds <= _NEVER_MISSING | {float}:
        is_real_float = any(type(value) is float and value == value for value in values)
        return kinds if is_real_float else kinds - {float}
    # Unusual types: check each entry.
    return {type(value) for value in values if not is_missing_object(value)}


def numbers_from_objects(column: np.ndarray, label: str, advice: str) -> np.ndarray:
    """Return a 1-D object array of numbers as float64, where None and NA become NaN.

    Strings such as "1" are an error: only the user knows whether they mean numbers or categories.
    """
    kinds = set(map(type, column))
    if any(kind.__name__ in ("NAType", "NaTType") for kind in kinds):
        column = np.array([None if is_missing_object(v) else v for v in column], dtype=object)
    if any(issubclass(kind, str | bytes | complex | np.complexfloating) for kind in kinds):
        raise _not_a_number(column, label, advice)
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _not_a_number(column, label, advice) from error


def _not_a_number(column: np.ndarray, label: str, advice: str) -> Exception:
    """Return the error for the first entry of an object column that is not a real number."""
    for row, value in enumerate(column):
        if is_missing_object(value):
            continue
        where = f"{label}, row {row}"
        if isinstance(value, complex | np.complexfloating):
            return ValueError(COMPLEX_MESSAGE.format(name="X", dtype=f"{value!r} in {where}"))
        if isinstance(value, str | bytes):
            return ValueError(
                f"could not convert string to float: X holds {shorten(value)} in {where}. {advice}"
            )
        try:
            float(value)
        except OverflowError:
            return infinity_error(label, row, FLOAT64)
        except (TypeError, ValueError):
            return TypeError(
                "each argument must be a category string or a real number, but X holds "
                f"{shorten(value)} ({type(value).__name__}) in {where}"
            )
    return TypeError(f"X holds values in {label} that are not real numbers")


def is_masked(X: Any) -> bool:
    """Whether `X` is a masked array, without importing `numpy.ma`."""
    return "numpy.ma" in sys.modules and isinstance(X, np.ma.MaskedArray)


def shorten(value: Any, limit: int = 60) -> str:
    """Return the repr of a value, shortened for a message."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def is_number(value: Any) -> bool:
    """Whether a Python object is a real number: bool, int, float, Decimal, NumPy scalar."""
    return is_number_type(type(value))


def is_number_type(kind: type) -> bool:
    """Whether a Python type is that of a real number."""
    # Decimal is a Number but not a Real, hence Number without complex types.
    return issubclass(kind, Number | np.bool_) and not issubclass(
        kind, complex | np.complexfloating
    )
