"""Tables from files: CSV without any other package, Parquet with pyarrow or pandas.

A table is a dict from column names to one-dimensional arrays: float64 with NaN for missing
values, or objects that are str or None.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Collection, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

Table = dict[str, np.ndarray]

# What stands for a missing value; among numbers a question mark does, too.
MISSING = frozenset(("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "<NA>"))
_MISSING_NUMBERS = MISSING | {"?", "-", "."}
_DELIMITERS = ",;\t|"


def read_table(path: str | PathLike[str], *, text: Collection[str] = ()) -> Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : str or path-like
        Parquet if its name ends in .parquet or .pq; else CSV, which may be packed by gzip. The
        delimiter is found out: comma, semicolon, tab or bar.
    text : collection of str
        Columns to be read as text whatever they hold.

    Returns
    -------
    table : dict from str to ndarray
    """
    path = Path(path)
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*") if p.suffix == path.suffix)[:5]
        hint = f"; there are {', '.join(near)}" if near and path.parent.is_dir() else ""
        raise FileNotFoundError(f"no such file: {path}{hint}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    table = _read_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _read_csv(path)
    if not table or not len(next(iter(table.values()))):
        raise ValueError(f"{path} holds no rows")
    return {name: _typed(column, name in text) for name, column in table.items()}


def column_of(table: Table, name: str, what: str) -> np.ndarray:
    """Return a column, or say which there are.

    Parameters
    ----------
    table : dict
    name : str
    what : str
        What the column is wanted for.

    Returns
    -------
    column : ndarray
    """
    if name not in table:
        raise ValueError(f"no column {name!r} for {what}; the columns are {_listed(list(table))}")
    return table[name]


def _listed(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def _read_csv(path: Path) -> dict[str, Any]:
    """Columns of text cells, or of numbers where the whole file is such."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    head, _, body = text.partition("\n")
    delimiter = max(_DELIMITERS, key=head.count)
    names = next(csv.reader([head.rstrip("\r")], delimiter=delimiter), [])
    names = [name.strip() for name in names]
    if not any(names):
        raise ValueError(f"{path} has no line of column names")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{path} names several columns alike: {_listed(repeated)}")
    if not body.strip():
        raise ValueError(f"{path} holds no rows")
    try:
        numbers = np.loadtxt(io.StringIO(body), delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:  # text, missing values or quotes
        return _read_cells(path, names, body, delimiter)
    if numbers.shape[1] != len(names):
        raise ValueError(
            f"{path} has {len(names)} column names, but {numbers.shape[1]} values in each row"
        )
    return dict(zip(names, np.ascontiguousarray(numbers.T), strict=True))


def _read_cells(path: Path, names: list[str], body: str, delimiter: str) -> dict[str, list[str]]:
    """Columns of cells as they stand."""
    if '"' in body:
        rows = [row for row in csv.reader(io.StringIO(body), delimiter=delimiter) if row]
    else:
        rows = [line.split(delimiter) for line in body.splitlines() if line.strip()]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise ValueError(
                f"{path} has {len(names)} columns, but row {number} has {len(row)} values"
            )
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _typed(column: Any, as_text: bool) -> np.ndarray:
    """Return a column as numbers if it can be, else as text."""
    if isinstance(column, np.ndarray):
        if not as_text or column.dtype.kind == "O":
            return column
        return np.array([None if v != v else _spell(v) for v in column.tolist()], dtype=object)
    cells = [cell.strip() for cell in column]
    if not as_text:
        try:
            return np.array(["nan" if cell in _MISSING_NUMBERS else cell for cell in cells]).astype(
                np.float64
            )
        except ValueError:
            pass
    return np.array([None if cell in MISSING else cell for cell in cells], dtype=object)


def _spell(value: Any) -> str:
    """Return a number as a CSV file would have it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_parquet(path: Path) -> dict[str, np.ndarray]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        return _read_parquet_by_pandas(path)
    table = parquet.read_table(path)
    return {name: _from_arrow(table.column(name)) for name in table.column_names}


def _from_arrow(column: Any) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return column.to_numpy().astype("datetime64[us]")
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
        kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    values = column.to_pylist()
    return np.array([None if v is None else str(v) for v in values], dtype=object)


def _read_parquet_by_pandas(path: Path) -> dict[str, np.ndarray]:
    try:
        import pandas as pd

        frame = pd.read_parquet(path)
    except ImportError:
        raise ImportError(
            f"reading {path} needs pyarrow (or pandas with a Parquet engine): pip install pyarrow"
        ) from None
    table = {}
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
            table[str(name)] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        elif pd.api.types.is_datetime64_any_dtype(column):
            table[str(name)] = column.to_numpy(dtype="datetime64[us]")
        else:
            missing = column.isna().to_numpy()
            values = [None if gone else str(v) for gone, v in zip(missing, column, strict=True)]
            table[str(name)] = np.array(values, dtype=object)
    return table


def write_csv(path_or_stream: Any, columns: dict[str, Sequence[Any]]) -> None:
    """Write columns of one length as CSV.

    Parameters
    ----------
    path_or_stream : path-like or text stream
    columns : dict from str to sequence
    """
    if isinstance(path_or_stream, str | PathLike):
        with open(path_or_stream, "w", newline="", encoding="utf-8") as stream:
            write_csv(stream, columns)
        return
    writer = csv.writer(path_or_stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
