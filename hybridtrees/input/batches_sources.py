"""Sources of rows in memory, lazy frames and batches of the user; files are in `batches_files`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse

from hybridtrees.input._user_tables import (
    ArrayColumns,
    ArrowColumns,
    Columns,
    PolarsColumns,
    _columns_of,
    open_columns,
)
from hybridtrees.input.arrays import is_real
from hybridtrees.input.batches_files import DatasetPieces, open_files
from hybridtrees.input.batches_pieces import Piece, Pieces
from hybridtrees.input.sources import _check_shape
from hybridtrees.input.tables import _loaded_classes
from hybridtrees.input.targets import as_vector

# Rows that are read from a table in memory, or from a lazy frame, at a time.
_STEP = 65_536


def open_pieces(source: Any, text: Collection[str]) -> Pieces:
    """Open a source of any kind; `text` names columns of CSV files that stay text."""
    if isinstance(source, str | PathLike):
        return open_files([source], text)
    if isinstance(source, list | tuple) and any(isinstance(s, str | PathLike) for s in source):
        return open_files(source, text)
    if isinstance(source, _loaded_classes("pyarrow.dataset", "Dataset")):
        return DatasetPieces(source)
    if isinstance(source, _loaded_classes("polars", "LazyFrame")):
        return LazyPieces(source)
    if _is_table(source):
        return TablePieces(open_columns(source))
    return UserPieces(source)


def _is_table(source: Any) -> bool:
    """Whether a source is a table in memory."""
    return (
        isinstance(source, np.ndarray | Mapping)
        or sparse.issparse(source)
        or (hasattr(source, "columns") and hasattr(source, "shape"))
        or hasattr(source, "__arrow_c_stream__")
    )


class TablePieces(Pieces):
    """A table in memory, or a memory map."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.names = columns.names
        self.n_rows, self.n_columns = columns.shape
        # A column of Python objects may hold text in some rows only.
        array = columns.table if isinstance(columns, ArrayColumns) else None
        is_numbers = array is not None and is_real(array.dtype)
        self.is_typed = is_numbers or isinstance(columns, ArrowColumns | PolarsColumns)

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Yield a step of rows at a time: selecting columns makes copies."""
        if columns is None:
            yield Piece(self._columns)
            return
        chosen = np.array(columns, dtype=np.intp)
        n_rows = self._columns.shape[0]
        for start in range(0, n_rows, _STEP):
            part = self._columns.rows(start, min(start + _STEP, n_rows))
            yield Piece(part.select(chosen))


class LazyPieces(Pieces):
    """A polars LazyFrame."""

    def __init__(self, frame: Any) -> None:
        import polars

        self._frame = frame
        self.names = frame.collect_schema().names()
        self.n_columns = len(self.names)
        if not self.names:
            raise ValueError("source is a polars LazyFrame without columns")
        self.n_rows = int(frame.select(polars.len()).collect().item())

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Yield the frames that polars makes, in the order of the rows."""
        frame = self._frame
        if columns is not None:
            assert self.names is not None
            frame = frame.select([self.names[j] for j in columns])
        if hasattr(frame, "collect_batches"):
            parts = frame.collect_batches(chunk_size=_STEP, maintain_order=True)
        else:  # before polars 1.34
            steps = range(0, self.n_rows or 0, _STEP)
            parts = (frame.slice(start, _STEP).collect() for start in steps)
        for part in parts:
            if part.height:
                yield Piece(_columns_of(part))


class UserPieces(Pieces):
    """Batches of the user: tables X, pairs (X, y) or triples (X, y, weight)."""

    is_typed = False

    def __init__(self, batches: Any) -> None:
        self._again = _iteration(batches)
        first = next(self._batches(), None)
        if first is None:
            raise ValueError("source must hold at least one batch with rows, got none")
        self.names, self.n_columns = first.columns.names, first.columns.shape[1]
        self.has_target, self.has_weight = first.y is not None, first.weight is not None

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Yield the batches, which must be alike."""
        chosen = None if columns is None else np.array(columns, dtype=np.intp)
        for number, piece in enumerate(self._batches()):
            own = piece.columns
            if own.shape[1] != self.n_columns or own.names != self.names:
                raise ValueError(
                    f"all batches of source must have the columns of the first, {self._shown()}, "
                    f"but batch {number} has {own.names or own.shape[1]}"
                )
            if (piece.y is None, piece.weight is None) != (
                not self.has_target,
                not self.has_weight,
            ):
                raise ValueError(
                    "all batches of source must be of one kind, X, (X, y) or (X, y, weight), but "
                    f"batch {number} differs from the first"
                )
            yield piece if chosen is None else Piece(own.select(chosen), piece.y, piece.weight)

    def _shown(self) -> Any:
        return self.names or self.n_columns

    def _batches(self) -> Iterator[Piece]:
        for batch in self._again():
            parts = batch if isinstance(batch, tuple) else (batch,)
            if not 1 <= len(parts) <= 3:
                raise ValueError(
                    "each batch of source must be X, (X, y) or (X, y, weight), got a tuple of "
                    f"{len(parts)} entries"
                )
            X, y, weight = (*parts, None, None)[:3]
            columns = _columns_of(X)
            if len(columns.shape) != 2 or columns.shape[0]:
                _check_shape(columns.shape, X)
            n_rows = columns.shape[0]
            if n_rows:
                yield Piece(
                    columns, _beside(y, n_rows, "target"), _beside(weight, n_rows, "weight")
                )


def _iteration(batches: Any) -> Callable[[], Iterator[Any]]:
    """Return a function that begins to read the batches anew."""
    advice = (
        "pass an object that can be iterated over again and again, such as a list or a class with "
        "__iter__, or a function that returns a new iterator"
    )
    if isinstance(batches, Iterator):
        raise TypeError(
            f"source is a {type(batches).__name__}, which can be read only once, but rows are read "
            f"several times: {advice}"
        )
    if callable(batches):
        return lambda: iter(batches())
    if not hasattr(batches, "__iter__"):
        raise TypeError(
            "source must be a path, a list of paths, a pyarrow Dataset, a polars LazyFrame, a "
            f"table or batches of rows, got {type(batches).__name__}"
        )
    return lambda: iter(batches)


def _beside(values: Any, n_rows: int, name: str) -> np.ndarray | None:
    """Return the target or the weights of a batch as an array."""
    if values is None:
        return None
    array = as_vector(values, name)
    if len(array) != n_rows:
        raise ValueError(
            f"a batch of source has {n_rows} rows, but its {name} has {len(array)} entries"
        )
    return array
