"""Rows of CSV files: a first pass counts them and settles what each column holds.

A column holds numbers if all its cells are numbers as computers write them, dates if all are dates
such as 2024-05-31, and else text. pyarrow reads the cells where it is installed, the csv module
where it is not; both find the same.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hybridtrees.input._user_tables import Columns, _columns_of
from hybridtrees.input.batches_pieces import Piece, Pieces
from hybridtrees.input.texts import MISSING, MISSING_NUMBERS, column_names, parse_dates, some_of

_BLOCK_ROWS = 65_536
# Numbers as people write them: with a decimal comma, thousands set apart, or a per cent sign.
_WRITTEN = re.compile(
    "[-+]?(?:[0-9]{1,3}(?:[., '\u2019\u00a0\u202f][0-9]{3})+|[0-9]+)(?:[.,][0-9]+)?[ \u00a0]?%?"
)


@dataclass
class CsvFile:
    """A file, and how its rows are to be read."""

    path: Path
    names: list[str]
    delimiter: str
    n_head: int  # lines of the column names
    is_packed: bool  # by gzip

    def error(self, problem: object) -> ValueError:
        """Return the error for a file that cannot be read."""
        return ValueError(f"source: {self.path} cannot be read as CSV: {problem}")


@dataclass
class Kind:
    """What a column holds, as far as it is known."""

    is_text: bool = False
    stays_text: bool = False  # by the wish of the user
    is_plain: bool = True  # numbers without blanks, plus signs and marks such as ?
    any_known: bool = False  # whether there was a number before the first text
    dates: bool = True  # whether all texts so far are dates
    written: str | None = ""  # a number as people write them, while all texts are such numbers

    def see_texts(self, cells: Collection[str]) -> None:
        """Note different texts of a block of rows, missing ones left out."""
        if not self.is_text:
            self.is_text, self.dates = True, not self.any_known
        if self.stays_text or not cells:
            return
        if self.dates:
            self.dates = parse_dates(cells) is not None
        if self.written is not None:
            fits = all(map(_WRITTEN.fullmatch, cells))
            self.written = next(iter(sorted(cells))) if fits else None

    @property
    def is_date(self) -> bool:
        """Whether the column holds dates."""
        return self.is_text and self.dates and not self.stays_text


class _Reader(Protocol):
    """A way to read CSV files."""

    def settle(self, file: CsvFile, kinds: dict[str, Kind]) -> int:
        """Note what columns hold, and return the number of rows."""

    def tables(self, file: CsvFile, kinds: dict[str, Kind], names: list[str]) -> Iterator[Columns]:
        """Yield blocks of some columns."""


class CsvPieces(Pieces):
    """CSV files of the same columns."""

    def __init__(self, paths: list[Path], text: Collection[str]) -> None:
        self._files = [_open(path) for path in paths]
        names = self._files[0].names
        for file in self._files:
            if file.names != names:
                raise ValueError(
                    f"source: {file.path} has the columns {some_of(file.names)}, but "
                    f"{paths[0]} has {some_of(names)}"
                )
        self.names, self.n_columns = list(names), len(names)
        stays = set(text)
        self._kinds = {name: Kind(name in stays, name in stays) for name in names}
        self._n_rows: int | None = None
        self._reader: _Reader = PlainReader()
        if find_spec("pyarrow") is not None:
            from hybridtrees.input.batches_csv_arrow import ArrowReader

            self._reader = ArrowReader()
        # Without pyarrow, a block of missing texts has no type.
        self.is_typed = not isinstance(self._reader, PlainReader)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """Number of rows; the first pass over the files tells."""
        if self._n_rows is None:
            n_rows = sum(self._reader.settle(file, self._kinds) for file in self._files)
            if not n_rows:
                raise ValueError("source holds no rows")
            for name, kind in self._kinds.items():
                if kind.is_text and not kind.stays_text and kind.written:
                    raise ValueError(
                        f"source: column {name!r} holds numbers such as {kind.written!r}; files "
                        "that are read in batches must have them as in 1234.5"
                    )
            self._n_rows = n_rows
        return self._n_rows

    def read(self, columns: Sequence[int] | None) -> Iterator[Piece]:
        """Yield blocks of rows."""
        assert self.n_rows and self.names
        names = self.names if columns is None else [self.names[j] for j in columns]
        for file in self._files:
            for table in self._reader.tables(file, self._kinds, names):
                yield Piece(table)


def _open(path: Path) -> CsvFile:
    """Read the column names of a file."""
    with path.open("rb") as raw:
        start = raw.read(4)
    if start.startswith(b"PK\x03\x04"):
        raise ValueError(f"source: {path} is a zip or Excel file; it must be a CSV or Parquet file")
    is_packed = start.startswith(b"\x1f\x8b")
    file = CsvFile(path, [], ",", 0, is_packed)
    lines: list[str] = []
    with _text_of(file) as stream:
        try:
            for line in stream:
                lines.append(line)
                if sum(part.count('"') for part in lines) % 2 == 0:
                    break
        except (UnicodeDecodeError, OSError, EOFError) as error:
            raise file.error(error) from error
    if "\0" in "".join(lines):
        raise file.error("it is no text")
    try:
        names, delimiter = column_names(str(path), "".join(lines))
    except ValueError as error:
        raise ValueError(f"source: {error}") from None
    return CsvFile(path, names, delimiter, len(lines), is_packed)


def _text_of(file: CsvFile) -> io.TextIOWrapper:
    opened = gzip.open if file.is_packed else open
    raw: Any = opened(file.path, "rb")  # closed by the text stream
    return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


class PlainReader:
    """Reads cells by the csv module."""

    def settle(self, file: CsvFile, kinds: dict[str, Kind]) -> int:
        """Note what columns hold, and return the number of rows."""
        n_rows = 0
        for columns in _blocks(file):
            for name, cells in columns.items():
                kind = kinds[name]
                numbers = None if kind.is_text else _numbers(cells)
                if numbers is not None:
                    kind.any_known |= not np.isnan(numbers).all()
                else:
                    kind.see_texts(set(cells) - MISSING)
            n_rows += len(cells)
        return n_rows

    def tables(self, file: CsvFile, kinds: dict[str, Kind], names: list[str]) -> Iterator[Columns]:
        """Yield blocks of some columns as dicts of arrays."""
        for columns in _blocks(file):
            yield _columns_of({name: _typed(columns[name], kinds[name]) for name in names})


def _blocks(file: CsvFile) -> Iterator[dict[str, list[str]]]:
    """Yield columns of cells without blanks around them, some rows at a time."""
    with _text_of(file) as stream:
        rows = _rows(file, stream)
        while block := list(islice(rows, _BLOCK_ROWS)):
            columns = zip(*block, strict=True)
            yield {
                name: [cell.strip() for cell in cells]
                for name, cells in zip(file.names, columns, strict=True)
            }


def _rows(file: CsvFile, stream: Iterable[str]) -> Iterator[list[str]]:
    """Yield rows of cells; empty lines are left out."""
    reader = csv.reader(stream, delimiter=file.delimiter)
    try:
        next(reader)
        for row in reader:
            if len(row) == len(file.names):
                yield row
            elif row:
                raise file.error(
                    f"there are {len(file.names)} columns, but line {reader.line_num} has "
                    f"{len(row)} values"
                )
    except (csv.Error, UnicodeDecodeError, OSError, EOFError) as error:
        raise file.error(error) from error


def _numbers(cells: list[str]) -> np.ndarray | None:
    """Numbers as computers write them."""
    try:
        return np.array(["nan" if c in MISSING_NUMBERS else c for c in cells]).astype(np.float64)
    except ValueError:
        return None


def _typed(cells: list[str], kind: Kind) -> np.ndarray:
    if not kind.is_text:
        numbers = _numbers(cells)
        if numbers is None:
            raise ValueError("source must give the same rows whenever it is read")
        return numbers
    known = [None if cell in MISSING else cell for cell in cells]
    dates = parse_dates(known) if kind.is_date else None
    return np.array(known, dtype=object) if dates is None else dates
