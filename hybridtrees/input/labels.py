"""Encoding of categorical columns as codes.

A categorical column is either numeric (declared categorical by the user) or given as factors:
integer codes, -1 for missing, into an array of labels. Labels are kept as float64 if all are
numbers, else as strings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hybridtrees.input.arrays import is_missing_object, is_number


class Factors(NamedTuple):
    """A column as codes into its distinct labels."""

    codes: np.ndarray  # One per row, -1 where the value is missing
    labels: np.ndarray  # Distinct labels: float64, or objects that are all str
    ordered: bool  # Whether the order of the labels is that of a category dtype


def make_factors(codes: np.ndarray, labels: Iterable[Any], *, ordered: bool) -> Factors:
    """Return factors whose labels are all float64 or all str.

    Labels that are not all numbers (intervals, dates, a mixture) become strings. Labels that become
    equal are merged, and missing ones get the code -1.
    """
    labels = list(labels)
    present = [label for label in labels if not is_missing_object(label)]
    convert = float if present and all(map(is_number, present)) else str
    index: dict[Any, int] = {}
    recode = np.empty(len(labels) + 1, dtype=np.intp)
    recode[-1] = -1
    for i, label in enumerate(labels):
        if is_missing_object(label):
            recode[i] = -1
        else:
            recode[i] = index.setdefault(convert(label), len(index))
    # pandas may give int8, in which adding one could overflow.
    codes = codes.astype(np.intp)
    if not np.array_equal(recode[:-1], np.arange(len(labels))):
        codes = recode[codes]
    kept = np.array(list(index), dtype=np.float64 if convert is float else object)
    return Factors(codes, kept, ordered)


def factorize_objects(column: np.ndarray) -> Factors:
    """Return the factors of a 1-D array of Python objects."""
    # A NaN equals only itself as an object; several NaN become missing labels, which are merged.
    index = {value: code for code, value in enumerate(dict.fromkeys(column))}
    codes = np.fromiter(map(index.__getitem__, column), dtype=np.intp, count=len(column))
    return make_factors(codes, index, ordered=False)


def learn_factors(factors: Factors) -> np.ndarray:
    """Return the labels that occur, sorted unless they are ordered."""
    used = np.bincount(factors.codes + 1, minlength=len(factors.labels) + 1)[1:] > 0
    labels = factors.labels[used]
    return labels if factors.ordered else np.sort(labels)


def learn_numbers(numbers: np.ndarray) -> np.ndarray:
    """Return the sorted distinct values of a numeric column as float64."""
    labels = np.unique(numbers).astype(np.float64)
    return labels[~np.isnan(labels)]


def encode_factors(factors: Factors, labels: np.ndarray, column: str) -> np.ndarray:
    """Return the codes of a column under the `labels` learned in fit, as float32.

    Missing values and labels that were not seen in fit become NaN.
    """
    if labels.dtype != factors.labels.dtype and len(labels) and (factors.codes >= 0).any():
        raise _mismatch(column, labels)
    index = {label: code for code, label in enumerate(labels.tolist())}
    # One entry more than labels, for code -1.
    table = np.full(len(factors.labels) + 1, np.nan, dtype=np.float32)
    for i, label in enumerate(factors.labels.tolist()):
        table[i] = index.get(label, np.nan)
    codes: np.ndarray = table[factors.codes]
    return codes


def encode_numbers(numbers: np.ndarray, labels: np.ndarray, column: str) -> np.ndarray:
    """Return the codes of a numeric column under the `labels` learned in fit, as float32."""
    missing = np.isnan(numbers)
    if len(labels) and labels.dtype == object and not missing.all():
        raise _mismatch(column, labels)
    if len(labels) == 0 or missing.all():
        return np.full(len(numbers), np.nan, dtype=np.float32)
    order = np.argsort(labels)
    place = np.searchsorted(labels[order], numbers)
    place[place == len(labels)] = 0
    codes = order[place].astype(np.float32)
    codes[missing | (labels[order[place]] != numbers)] = np.nan
    return codes


def _mismatch(column: str, labels: np.ndarray) -> ValueError:
    """Return the error for numbers where text categories are known, or the other way round."""
    learned, came = ("text", "numbers") if labels.dtype == object else ("numbers", "text")
    return ValueError(
        f"{column} of X was fitted with {learned} as categories (such as {labels[0]!r}), "
        f"but holds {came} now"
    )
