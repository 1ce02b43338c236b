"""Tables from files: CSV without any other package, Parquet with pyarrow or pandas.

A table is a dict from column names to one-dimensional arrays: float64 with NaN for missing
values, datetime64 with NaT, or objects that are str or None. Truth values are text, as a CSV
file has them.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from glob import has_magic
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hybridtrees._compare.cells import typed_columns
from hybridtrees._outputs import STREAM
from hybridtrees.input.batches import Batches, open_batches
from hybridtrees.input.texts import column_names, is_parquet, some_of

Table = dict[str, np.ndarray]

# First bytes of files that are often taken for tables.
_NO_TEXT = {b"PK\x03\x04": "a zip or Excel file", b"\xd0\xcf\x11\xe0": "an old Excel file"}
_JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
# An object with a key, or a list of objects or lists: no start of a line of column names.
_JSON = re.compile(r'\s*(\{\s*"|\[\s*[\[{])')


def read_table(
    path: str | PathLike[str],
    *,
    text: Collection[str] = (),
    decimal: str | None = None,
    notes: dict[str, str] | None = None,
) -> Table:
    """Read a CSV or Parquet file, or the standard input (``-``).

    Columns in `text` become text.

    Parquet if the name ends in .parquet or .pq, or by its first bytes; else CSV, which may be
    packed by gzip. The delimiter is detected: comma, semicolon, tab or bar. Numbers may be as
    people write them, see `cells`; `decimal`, a point or comma, says how. What users should know
    of a column is put into `notes`.
    """
    parts = [part for part, _ in read_parts(path, (), text=text, decimal=decimal, notes=notes)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_and_keep(
    path: str | PathLike[str],
    keep: Collection[str],
    *,
    text: Collection[str] = (),
    decimal: str | None = None,
    notes: dict[str, str] | None = None,
) -> tuple[Table, dict[str, Any]]:
    """Read a table as `read_table` does, and the columns to `keep` as the file has them.

    Those are lists of cells of a CSV file, and columns of pyarrow or pandas of a Parquet file.
    """
    where, raw = source_name(path), _content(path)
    if is_parquet(where) or raw.startswith(b"PAR1"):
        try:
            table, kept = _read_parquet(where, raw, keep)
        except (ValueError, OSError) as error:
            raise ValueError(f"{where} cannot be read as Parquet: {error}") from None
        table = {name: _as_text(c) if name in text else c for name, c in table.items()}
    else:
        content = _decoded(where, raw)
        del raw  # as large as the file
        notes = {} if notes is None else notes
        table, kept = _read_csv(where, content, set(text), decimal, notes, keep)
    if not table or not len(next(iter(table.values()))):
        raise ValueError(f"{where} holds no rows")
    return table, kept


def read_parts(
    path: str | PathLike[str],
    keep: Collection[str],
    *,
    text: Collection[str] = (),
    decimal: str | None = None,
    notes: dict[str, str] | None = None,
) -> Iterator[tuple[Table, dict[str, Any]]]:
    """Read a table as `read_and_keep` does, a part of the rows at a time.

    Parquet files, which a pattern or a folder may name, need not fit into memory. How numbers are
    written in a CSV file only the whole of it shows: it has one part.
    """
    batches = open_parquet(path)
    if batches is None:
        yield read_and_keep(path, keep, text=text, decimal=decimal, notes=notes)
        return
    with _of_the_file():
        for batch in batches:
            table, kept = _from_arrow_table(batch.X, keep)
            yield {name: _as_text(c) if name in text else c for name, c in table.items()}, kept


@contextmanager
def _of_the_file() -> Iterator[None]:
    """Name only the file in errors about a source."""
    try:
        yield
    except (ValueError, OSError) as error:
        if not str(error).startswith("source: "):
            raise
        kind = OSError if isinstance(error, OSError) else ValueError
        raise kind(str(error).removeprefix("source: ")) from None


def open_parquet(path: str | PathLike[str]) -> Batches | None:
    """Open Parquet files for reading in batches; None if it is something else."""
    if str(path) == STREAM or find_spec("pyarrow") is None or not _names_parquet(Path(path)):
        return None
    with _of_the_file():
        return open_batches(path)


def _names_parquet(path: Path) -> bool:
    """Whether a path names Parquet files: one, those of a folder, or those of a pattern."""
    if path.is_file():
        with path.open("rb") as stream:
            return is_parquet(path.name) or stream.read(4) == b"PAR1"
    if path.is_dir():
        return any(is_parquet(file.name) for file in path.rglob("*"))
    return has_magic(str(path)) and is_parquet(path.name)


def source_name(path: str | PathLike[str]) -> str:
    """Return what messages and headings call a file."""
    return "the standard input" if str(path) == STREAM else str(path)


def _content(path: str | PathLike[str]) -> bytes:
    """Bytes of a file, read once from start to end: pipes cannot be read again."""
    if str(path) == STREAM:
        if sys.stdin is None:
            raise ValueError("the standard input is closed")
        return sys.stdin.buffer.read()
    path = Path(path)
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix == path.suffix)[:5]
        hint = f"; there are {', '.join(near)}" if near and path.parent.is_dir() else ""
        raise FileNotFoundError(f"no such file: {path}{hint}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    return path.read_bytes()


def column_of(table: Table, name: str, what: str) -> np.ndarray:
    """Return a column, or raise an error that lists the columns."""
    if name not in table:
        raise ValueError(f"no column {name!r} for {what}; the columns are {some_of(list(table))}")
    return table[name]


def _read_csv(
    path: str,
    content: str,
    text: set[str],
    decimal: str | None,
    notes: dict[str, str],
    keep: Collection[str],
) -> tuple[Table, dict[str, list[str]]]:
    """Columns as numbers where they can be, and the cells of those to keep."""
    head, body = _head_and_body(content)
    names, delimiter = column_names(path, head)
    if not body.strip():
        raise ValueError(f"{path} holds no rows")
    try:
        if decimal == "," or not text.union(keep).isdisjoint(names):
            raise ValueError
        numbers = np.loadtxt(io.StringIO(body), delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:  # text, missing values, quotes, or numbers that are not to be read so
        columns = _read_cells(path, names, body, delimiter)
        free = delimiter != ","
        kept = {name: columns[name] for name in keep if name in columns}
        typed = typed_columns(columns, notes, text=text, decimal=decimal, comma_is_free=free)
        return typed, kept
    if numbers.shape[1] != len(names):
        raise ValueError(
            f"{path} has {len(names)} column names, but {numbers.shape[1]} values in each row"
        )
    return dict(zip(names, np.ascontiguousarray(numbers.T), strict=True)), {}


def _decoded(path: str, raw: bytes) -> str:
    """Text of a file, lines of which end in a line feed alone."""
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    wrong = _NO_TEXT.get(raw[:4])
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    else:
        encodings = ["utf-8-sig", "cp1252", "latin-1"]  # the last one reads everything
        if wrong is None and b"\0" in raw:
            wrong = "no text"
    if path.lower().endswith(_JSON_ENDINGS):
        wrong = "a JSON file"
    if wrong is not None:
        raise _wrong_format(path, wrong)
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    else:
        raise ValueError(f"{path} breaks off within a character")
    if _JSON.match(text):
        raise _wrong_format(path, "JSON")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _wrong_format(path: str, found: str) -> ValueError:
    return ValueError(f"{path} is {found}; it must be a CSV or Parquet file")


def _head_and_body(text: str) -> tuple[str, str]:
    """Divide a text into the column names, which may hold line breaks in quotes, and the rest."""
    start, end, quotes = 0, text.find("\n"), 0
    while end >= 0:
        quotes += text.count('"', start, end)
        if quotes % 2 == 0:
            break
        start, end = end, text.find("\n", end + 1)
    return (text, "") if end < 0 else (text[:end], text[end + 1 :])


def _cells_of(path: str, text: str, delimiter: str) -> Any:
    """Rows of cells, by the rules of quoting."""
    try:
        yield from csv.reader(io.StringIO(text), delimiter=delimiter)
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}") from None


def _read_cells(path: str, names: list[str], body: str, delimiter: str) -> dict[str, list[str]]:
    """Columns of cells as they stand."""
    if '"' in body:
        rows = [row for row in _cells_of(path, body, delimiter) if row]
    else:
        rows = [line.split(delimiter) for line in body.split("\n") if line.strip()]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(
                f"{path} has {len(names)} columns, but row {number} has {len(row)} values"
            )
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _as_text(column: np.ndarray) -> np.ndarray:
    """Return a column as a CSV file that is read as text would give it."""
    if column.dtype.kind == "O":
        return column
    missing = np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
    cells = [
        None if gone else _spell(v)
        for gone, v in zip(missing.tolist(), column.tolist(), strict=True)
    ]
    return np.array(cells, dtype=object)


def truth_values(column: np.ndarray) -> np.ndarray | None:
    """Return "true" and "false" as 1 and 0; None if there is any other text."""
    meaning = {None: np.nan}
    for label in {value for value in column if value is not None}:
        if label.lower() not in ("true", "false"):
            return None
        meaning[label] = float(label.lower() == "true")
    if len(meaning) == 1:
        return None
    return np.array([meaning[value] for value in column])


def finite_column(column: np.ndarray, name: str, spelled: set[str]) -> np.ndarray:
    """Return a column as the model had it in fit."""
    if column.dtype.kind == "O" and name not in spelled:
        known = [value for value in column if value is not None]
        truth = truth_values(column)
        if truth is not None:
            return truth
        if known:
            raise ValueError(f"the column {name!r} held numbers in fit and holds {known[0]!r} now")
        return np.full(len(column), np.nan)
    return np.where(np.isinf(column), np.nan, column) if column.dtype.kind == "f" else column


def _spell(value: Any) -> str:
    """Return a number as a CSV file would have it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_parquet(path: str, raw: bytes, keep: Collection[str]) -> tuple[Table, dict[str, Any]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        return _read_parquet_by_pandas(path, raw, keep)
    return _from_arrow_table(parquet.read_table(io.BytesIO(raw)), keep)


def _from_arrow_table(found: Any, keep: Collection[str]) -> tuple[Table, dict[str, Any]]:
    names = found.column_names
    kept = {name: found.column(name) for name in keep if name in names}
    return {name: _from_arrow(found.column(name)) for name in names}, kept


def _from_arrow(column: Any) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return np.array(column.to_numpy(), dtype="datetime64[us]")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.array(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    values = column.to_pylist()
    return np.array([None if v is None else str(v) for v in values], dtype=object)


def _read_parquet_by_pandas(
    path: str, raw: bytes, keep: Collection[str]
) -> tuple[Table, dict[str, Any]]:
    try:
        import pandas as pd

        frame = pd.read_parquet(io.BytesIO(raw))
    except ImportError:
        raise ImportError(
            f"reading {path} needs pyarrow (or pandas with a Parquet engine): pip install pyarrow"
        ) from None
    table = {}
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            table[str(name)] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        elif pd.api.types.is_datetime64_any_dtype(column):
            table[str(name)] = column.to_numpy(dtype="datetime64[us]")
        else:
            missing = column.isna().to_numpy()
            values = [None if gone else str(v) for gone, v in zip(missing, column, strict=True)]
            table[str(name)] = np.array(values, dtype=object)
    return table, {name: frame[name] for name in keep if name in table}
