"""Columns that the user names: by their names, by their numbers, or by a mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

Names = Sequence[Any] | np.ndarray | None


def column_index(given: Any, n_columns: int, names: Names, parameter: str) -> int:
    """Position of a column that is given by its name or number; -1 is the last one."""
    if isinstance(given, str):
        if names is None:
            raise ValueError(
                f"{parameter} names {given!r}, but X has no feature names: give numbers"
            )
        for index, name in enumerate(names):
            if name == given:
                return index
        raise ValueError(f"{parameter} names {given!r}, which X does not have")
    if not isinstance(given, Integral) or isinstance(given, bool | np.bool_):
        raise TypeError(f"{parameter} must hold names or numbers of columns, got {given!r}")
    if not -n_columns <= given < n_columns:
        raise ValueError(f"{parameter} holds the index {given}, but X has {n_columns} features")
    return int(given) % n_columns


def column_indices(
    given: Any, n_columns: int, names: Names, parameter: str, *, required: bool = False
) -> NDArray[np.int64]:
    """Sorted positions of columns that are given by names, numbers or a mask; all for None."""
    if given is None:
        return np.arange(n_columns, dtype=np.int64)
    try:
        items = [given] if isinstance(given, str | Integral) else list(given)
    except TypeError:
        items = None
    # An iterator would be empty when it is read again in the next fit.
    if items is None or isinstance(given, Iterator):
        raise TypeError(
            f"{parameter} must be None or a list of names, numbers or booleans, got {given!r}"
        )
    if items and all(isinstance(item, bool | np.bool_) for item in items):
        if len(items) != n_columns:
            raise ValueError(
                f"{parameter} is a mask of {len(items)} entries, but X has {n_columns} features"
            )
        found = np.flatnonzero(items)
    else:
        numbers = [column_index(item, n_columns, names, parameter) for item in items]
        found = np.unique(np.array(numbers, dtype=np.int64))
    if required and not len(found):
        raise ValueError(f"{parameter} must name at least one feature")
    return found
