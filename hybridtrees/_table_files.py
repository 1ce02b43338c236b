"""Tables written to CSV and Parquet files, all at once or some rows at a time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hybridtrees._outputs import writing_to
from hybridtrees.input.texts import PARQUET, is_parquet

# Appends rows: columns of one length, always of the same names.
Append = Callable[[dict[str, Any]], None]

_CSV = (".csv",)
# The end of a date without a time, and of a time without fractions of a second.
_EMPTY_TIME = re.compile(r"(?: 00:00:00)?(?:\.0+)?$")


def check_table_path(path: str | PathLike[str]) -> None:
    """Refuse names of files that tables cannot be written to."""
    ending = Path(path).suffix.lower()
    if ending not in _CSV + PARQUET:
        *first, last = _CSV + PARQUET
        raise ValueError(f"the file must end in {', '.join(first)} or {last}, got {str(path)!r}")
    if ending in PARQUET and find_spec("pyarrow") is None:
        raise ImportError(f"writing {path} needs pyarrow: pip install pyarrow")


@contextmanager
def appending(path_or_stream: Any) -> Iterator[Append]:
    """Open a file, or a stream for CSV, for rows that come in parts.

    The file replaces the one at its path once everything is written. Parquet keeps all types; CSV
    is for people, and its predictions have seven digits.
    """
    if not isinstance(path_or_stream, str | PathLike):
        printing = _csv_rows(path_or_stream)
        yield lambda columns: printing(readable(columns))
        return
    check_table_path(path_or_stream)
    with writing_to(path_or_stream) as stream:
        if is_parquet(str(path_or_stream)):
            with _parquet_rows(stream) as append:
                yield append
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        append = _csv_rows(text)
        yield lambda columns: append(readable(columns))
        text.detach()  # writes what is left, and leaves the file open


def write_csv(path: str | PathLike[str], columns: dict[str, Any]) -> None:
    """Write columns of one length as CSV, with all digits."""
    with writing_to(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        _csv_rows(text)(columns)
        text.detach()


def _csv_rows(stream: Any) -> Append:
    writer = csv.writer(stream, lineterminator="\n")
    is_first = True

    def append(columns: dict[str, Any]) -> None:
        nonlocal is_first
        if is_first:
            writer.writerow(columns)
            is_first = False
        writer.writerows(zip(*columns.values(), strict=True))

    return append


@contextmanager
def _parquet_rows(stream: Any) -> Iterator[Append]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    writer: Any = None

    def append(columns: dict[str, Any]) -> None:
        nonlocal writer
        table = pa.table(columns)
        if writer is None:
            writer = parquet.ParquetWriter(stream, table.schema)
        writer.write_table(table.cast(writer.schema))

    try:
        yield append
    finally:
        if writer is not None:
            writer.close()


def readable(columns: dict[str, Any]) -> dict[str, list[Any]]:
    """Return columns as people read them: predictions, which are arrays, with seven digits."""
    return {
        name: list(map(_spelled, column))
        if isinstance(column, np.ndarray)
        else cells_to_write(column)
        for name, column in columns.items()
    }


def _spelled(value: Any) -> Any:
    if not isinstance(value, float):  # NumPy's are among them
        return value
    if not np.isfinite(value):
        return ""
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.7g}"


def cells_to_write(column: Any) -> list[Any]:
    """Return a column that was kept as the cells of a CSV file, None where it is missing.

    Numbers have all their digits.
    """
    if isinstance(column, list):  # of a CSV file
        return column
    if hasattr(column, "isna"):  # of pandas
        return [None if gone else v for gone, v in zip(column.isna(), column, strict=True)]
    import pyarrow as pa

    try:
        cells: list[Any] = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:  # lists, bytes
        cells = column.to_pylist()
    if pa.types.is_temporal(column.type):
        return [None if cell is None else _EMPTY_TIME.sub("", cell) for cell in cells]
    return cells
