"""Tables that are read batch by batch: files, lazy frames, arrays and batches of the user.

`open_batches` gives the rows of a source in batches of equal length, any number of times, in the
kind of table that the source has. `FeatureReader` reads a batch as it reads a whole table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from hybridtrees.input._user_tables import Columns, _columns_of
from hybridtrees.input.batches_pieces import Piece, Pieces, in_batches
from hybridtrees.input.batches_sources import open_pieces
from hybridtrees.input.columns import column_index
from hybridtrees.input.targets import as_vector, check_weights
from hybridtrees.input.texts import some_of

BATCH_ROWS = 65_536


class Batch(NamedTuple):
    """Rows of a source that follow one another."""

    X: Any  # A table of the library of the source
    y: np.ndarray | None
    weight: np.ndarray | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return _columns_of(self.X).shape[0]


class Batches:
    """The rows of a source in batches, for reading any number of times.

    Attributes
    ----------
    names : list or None
        Names of the columns of X.
    n_rows : int or None
        Number of rows, None where only reading tells.
    has_target, has_weight : bool
        Whether batches have `y` and `weight`.
    """

    def __init__(
        self,
        pieces: Pieces,
        target: Any = None,
        weight: Any = None,
        columns: Sequence[Any] | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self._pieces, self._batch_rows, self._given_weight = pieces, batch_rows, weight
        self._y = _Column(pieces, target, "target", pieces.has_target)
        self._weight = _Column(pieces, weight, "weight", pieces.has_weight)
        self.has_target, self.has_weight = self._y.exists, self._weight.exists
        taken = [own.index for own in (self._y, self._weight) if own.index is not None]
        if len(taken) != len(set(taken)):
            raise ValueError(f"target and weight are the same column of source, {target!r}")
        self._features: list[int] | None = None  # None: all columns
        if columns is not None:
            known = range(pieces.n_columns)
            self._features = [_index(pieces, name, "columns") for name in columns]
            for index in self._features:
                if index in taken:
                    raise ValueError(
                        f"columns holds {_label(pieces, index)}, which is the target or the weight"
                    )
        elif taken:
            known = range(pieces.n_columns)
            self._features = [j for j in known if j not in taken]
        if self._features is not None and not self._features:
            raise ValueError("source has no column left for X")
        self._taken = taken
        self.n_rows = pieces.n_rows  # last, since CSV files are read for it

    @property
    def names(self) -> list[Any] | None:
        """Names of the columns of X."""
        names = self._pieces.names
        if names is None or self._features is None:
            return names
        return [names[j] for j in self._features]

    @property
    def is_typed(self) -> bool:
        """Whether the first batch has the types of the columns of all batches."""
        return self._pieces.is_typed

    def of_columns(self, places: np.ndarray) -> Batches:
        """Return the same rows with some columns of X only, and without y."""
        own = places.tolist() if self._features is None else [self._features[j] for j in places]
        return Batches(self._pieces, None, self._given_weight, own, self._batch_rows)

    def __iter__(self) -> Iterator[Batch]:
        first = 0
        wanted = None if self._features is None else [*self._features, *self._taken]
        for piece in in_batches(self._pieces.read(wanted), self._batch_rows):
            yield self._batch(piece, first)
            first += piece.n_rows
        if not first:
            raise ValueError("source holds no rows")
        if self.n_rows is None:
            self.n_rows = first
        elif first != self.n_rows:
            raise ValueError(
                "source must give the same rows whenever it is read: it had "
                f"{self.n_rows} rows and has {first} now"
            )

    def _batch(self, piece: Piece, first: int) -> Batch:
        columns, n_features = piece.columns, None
        if self._features is not None:  # those of X stand first, see `Pieces.read`
            n_features = len(self._features)
        with located(first, piece.n_rows):
            y = self._y.take(piece.y, columns, n_features, self._taken, first)
            weight = self._weight.take(piece.weight, columns, n_features, self._taken, first)
            if weight is not None:
                weight = check_weights(weight, "weight")
        if n_features is not None and self._taken:
            columns = columns.select(np.arange(n_features))
        return Batch(columns.table, y, weight)


class _Column:
    """The target or the weights: a column of the source, an array, or beside X in its batches."""

    def __init__(self, pieces: Pieces, given: Any, name: str, beside: bool) -> None:
        self._name = name
        self.exists = beside or given is not None
        self.index: int | None = None
        self._array: np.ndarray | None = None
        if given is None:
            return
        if beside:
            raise ValueError(f"{name} must be None, since the batches of source have their own")
        if isinstance(given, str | Integral) and not isinstance(given, bool):
            self.index = _index(pieces, given, name)
            return
        array = as_vector(given, name)
        if pieces.n_rows is not None and len(array) != pieces.n_rows:
            raise ValueError(
                f"{name} has {len(array)} entries, but source has {pieces.n_rows} rows"
            )
        self._array = array

    def take(
        self,
        beside: np.ndarray | None,
        columns: Columns,
        n_features: int | None,
        taken: list[int],
        first: int,
    ) -> np.ndarray | None:
        """Return the part of a batch, which begins with row `first`."""
        if self.index is not None:
            assert n_features is not None
            return as_vector(columns.series(n_features + taken.index(self.index)), self._name)
        if self._array is not None:
            part = self._array[first : first + columns.shape[0]]
            if len(part) < columns.shape[0]:
                raise ValueError(
                    f"{self._name} has {len(self._array)} entries, but source has more rows"
                )
            return part
        return beside


def open_batches(
    source: Any,
    *,
    target: Any = None,
    weight: Any = None,
    columns: Sequence[Any] | None = None,
    batch_rows: int = BATCH_ROWS,
    text: Collection[str] = (),
) -> Batches:
    """Open a source of rows for reading in batches.

    Parameters
    ----------
    source : path, glob or folder, list of paths, pyarrow Dataset, polars LazyFrame, table, batches
        Parquet and CSV files, all of the same columns. A table is whatever an estimator takes.
        Batches are an object that can be iterated over again and again, or a function that returns
        an iterator, of tables X, pairs (X, y) or triples (X, y, weight).
    target, weight : str, int or array-like, optional
        A column of the source, or an entry for each row.
    columns : sequence of str or int, optional
        The columns of X, in this order; default: all but target and weight.
    batch_rows : int, default=65_536
        Rows of a batch; the last one may be shorter.
    text : collection of str
        Columns of CSV files that stay text.

    Returns
    -------
    Batches
    """
    if not isinstance(batch_rows, Integral) or isinstance(batch_rows, bool) or batch_rows < 1:
        raise ValueError(f"batch_rows must be a positive integer, got {batch_rows!r}")
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of columns, got {columns!r}")
    return Batches(open_pieces(source, text), target, weight, columns, int(batch_rows))


@contextmanager
def located(first: int, n_rows: int) -> Iterator[None]:
    """Say which rows of the source an error is about; those of its message begin with 0."""
    try:
        yield
    except (ValueError, TypeError) as error:
        where = f"source, rows {first} to {first + n_rows - 1}"
        raise type(error)(f"{where}: {error}") from error


def _index(pieces: Pieces, given: Any, parameter: str) -> int:
    """Return the position of a column of the source."""
    names = pieces.names
    if isinstance(given, str):
        if names is None:
            raise ValueError(
                f"{parameter} names {given!r}, but the columns of source have no names: give "
                "a number"
            )
        if given not in names:
            raise ValueError(
                f"{parameter} names {given!r}, which source does not have; its columns are "
                f"{some_of([str(name) for name in names])}"
            )
    try:
        return column_index(given, pieces.n_columns, names, parameter)
    except ValueError as error:
        raise ValueError(str(error).replace(" X ", " source ")) from None


def _label(pieces: Pieces, index: int) -> str:
    return f"column {index}" if pieces.names is None else repr(pieces.names[index])
