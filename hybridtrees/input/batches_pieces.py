"""Pieces of a table as its source gives them, and their division into batches of equal length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.input._user_tables import Columns


@dataclass
class Piece:
    """Some rows: a table, and the target and weights that the source gives beside it."""

    columns: Columns
    y: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.shape[0]

    def rows(self, start: int, stop: int) -> Piece:
        """Return the rows from `start` to before `stop`."""
        if start == 0 and stop == self.n_rows:
            return self
        y = None if self.y is None else self.y[start:stop]
        weight = None if self.weight is None else self.weight[start:stop]
        return Piece(self.columns.rows(start, stop), y, weight)


class Pieces:
    """A source of rows in pieces of any length, in an order that is always the same."""

    names: list[Any] | None = None
    n_columns: int = 0
    n_rows: int | None = None  # None where only reading tells
    has_target = has_weight = False
    is_typed = True  # whether the columns of all pieces have the types of the first

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Read all rows, with the columns at these positions, in their order, or with all."""
        raise NotImplementedError


def in_batches(pieces: Iterable[Piece], size: int) -> Iterator[Piece]:
    """Cut pieces into batches of `size` rows; the last one may be shorter."""
    held: list[Piece] = []
    n_held = 0
    for piece in pieces:
        start, n_rows = 0, piece.n_rows
        while n_rows - start >= size - n_held:
            stop = start + size - n_held
            held.append(piece.rows(start, stop))
            yield _joined(held)
            held, n_held, start = [], 0, stop
        if start < n_rows:
            held.append(piece.rows(start, n_rows))
            n_held += n_rows - start
    if held:
        yield _joined(held)


def _joined(pieces: list[Piece]) -> Piece:
    """Return pieces as one."""
    first, *others = pieces
    if not others:
        return first
    for other in others:
        if type(other.columns) is not type(first.columns):
            raise TypeError(
                "source must give batches of one kind of table, got a "
                f"{type(other.columns.table).__name__} after a {type(first.columns.table).__name__}"
            )
    return Piece(
        first.columns.joined([piece.columns for piece in others]),
        _end_to_end([piece.y for piece in pieces]),
        _end_to_end([piece.weight for piece in pieces]),
    )


def _end_to_end(parts: list[np.ndarray | None]) -> np.ndarray | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None
