"""A cache of bins for several fits to the same table.

Within ``with sharing_bins():`` a `BinMapper` that bins an equal table again reuses the bins. These
are the bins that it would have computed, so models do not change. Within ``with
sharing_bins_of(whole):`` all fits to samples of a table use the bins of the whole table, whatever
rows and weights of their own they have.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

# Few tables are kept: bins take a quarter of the memory of a table.
_MOST_TABLES = 8


class WholeTable(NamedTuple):
    """A table whose bins are shared by fits to samples of it."""

    n_rows: int
    weight: np.ndarray | None
    values: Callable[[], Any]  # asked for only if a sample is a table of fewer rows


class BinStore:
    """Keeps the last binned tables; thread-safe."""

    def __init__(self, whole: WholeTable | None = None, most_tables: int = _MOST_TABLES) -> None:
        self._whole = whole
        # recipe, table, weights, result
        self._kept: deque[tuple] = deque(maxlen=most_tables)
        self._lock = threading.Lock()
        self.n_made = self.n_found = 0

    def fetch(
        self,
        recipe: tuple,
        table: np.ndarray,
        weight: Any,
        make: Callable[[Any, Any], Any],
        encode: Callable[[Any, Any], Any],
    ) -> Any:
        """Return what ``make(table, weight)`` does: what is learned, and the binned table.

        For a sample of a whole table, what is learned from that; ``encode(learned, table)`` bins a
        sample of fewer rows. Recipes with a random generator, which changes with each use, are not
        shared.
        """
        if not all(part is None or isinstance(part, int | np.ndarray) for part in recipe):
            return make(table, weight)
        recipe = tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in recipe)
        whole = self._whole
        if whole is None:
            return self._find(recipe, table, weight, make)
        if len(table) == whole.n_rows:
            return self._find(recipe, table, whole.weight, make)
        values = whole.values()
        if not isinstance(values, np.ndarray) or values.shape[1] != table.shape[1]:
            return make(table, weight)
        learned, _ = self._find(recipe, values, whole.weight, make)
        return learned, encode(learned, table)

    def _find(self, recipe: tuple, table: np.ndarray, weight: Any, make: Callable) -> Any:
        """Return the result of `make` for an equal recipe, table and weights, or call it.

        It runs under the lock, so that other threads wait for the same bins.
        """
        weight = None if weight is None else np.array(weight)
        with self._lock:
            for known, old_table, old_weight, result in self._kept:
                if known == recipe and _equal(old_table, table) and _equal(old_weight, weight):
                    self.n_found += 1
                    return result
            result = make(table, weight)
            self.n_made += 1
            # The owner of a writable table may change it.
            table = table.copy() if _may_change(table) else table
            self._kept.append((recipe, table, weight, result))
            return result


def _may_change(table: Any) -> bool:
    """Whether the memory of an array is writable anywhere."""
    while isinstance(table, np.ndarray):
        if table.flags.writeable:
            return True
        table = table.base
    return table is not None


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether two arrays have the same numbers and dtype; NaN equals NaN."""
    if one is None or other is None or one is other:  # kept arrays do not change
        return one is other
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    # Most tables differ in the first rows; parts keep the temporary arrays small.
    first, step = 16, 4096
    starts = [0, *range(first, len(one), step)]
    return all(
        np.array_equal(one[start:stop], other[start:stop], equal_nan=True)
        for start, stop in zip(starts, [*starts[1:], len(one)], strict=True)
    )


# The store of the fits within `sharing_bins`.
BIN_STORE: ContextVar[BinStore | None] = ContextVar("hybridtrees_bin_store", default=None)


@contextmanager
def sharing_bins(most_tables: int = _MOST_TABLES) -> Iterator[BinStore]:
    """Share bins between the fits within this context, those of the last tables.

    Threads have their own context: start them with `contextvars.copy_context`.
    """
    with _using(BinStore(None, most_tables)) as store:
        yield store


@contextmanager
def sharing_bins_of(whole: WholeTable) -> Iterator[BinStore]:
    """Share the bins of a whole table between fits to samples of it."""
    with _using(BinStore(whole)) as store:
        yield store


@contextmanager
def _using(store: BinStore) -> Iterator[BinStore]:
    token = BIN_STORE.set(store)
    try:
        yield store
    finally:
        BIN_STORE.reset(token)
