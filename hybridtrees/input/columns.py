"""Columns given by the user: by name, by number, or as a mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

Names = Sequence[Any] | np.ndarray | None


def column_index(given: Any, n_columns: int, names: Names, parameter: str) -> int:
    """Return the position of a column given by name or number; -1 is the last one."""
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
    index = int(given)
    if not -n_columns <= index < n_columns:
        raise ValueError(f"{parameter} holds the index {given}, but X has {n_columns} features")
    return index % n_columns


def column_indices(
    given: Any, n_columns: int, names: Names, parameter: str, *, required: bool = False
) -> NDArray[np.int64]:
    """Return the sorted positions of columns given by names, numbers or a mask; None is all."""
    if given is None:
        return np.arange(n_columns, dtype=np.int64)
    try:
        items: list[Any] | None = [given] if isinstance(given, str | Integral) else list(given)
    except TypeError:
        items = None
    # An iterator would be empty in the next fit.
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
