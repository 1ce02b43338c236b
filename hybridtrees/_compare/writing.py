"""Tables to files: CSV without any other package, Parquet with pyarrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from hybridtrees._outputs import writing_to

Columns = dict[str, Sequence[Any]]


def write_csv(path_or_stream: Any, columns: Columns) -> None:
    """Write columns of one length as CSV."""
    if isinstance(path_or_stream, str | PathLike):
        with writing_to(path_or_stream) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            write_csv(text, columns)
            text.detach()  # writes what is left, and leaves the file open
        return
    writer = csv.writer(path_or_stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def write_parquet(path: str | PathLike[str], columns: Columns) -> None:
    """Write columns of one length as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    with writing_to(path) as stream:
        parquet.write_table(pa.table(columns), stream)


_WRITERS = {".csv": write_csv, ".parquet": write_parquet, ".pq": write_parquet}


def table_writer(path: str | PathLike[str]) -> Callable[[Any, Columns], None]:
    """Return the function that writes tables to files of such a name, or raise an error."""
    write = _WRITERS.get(Path(path).suffix.lower())
    if write is None:
        *first, last = _WRITERS
        raise ValueError(f"the file must end in {', '.join(first)} or {last}, got {str(path)!r}")
    if write is write_parquet and find_spec("pyarrow") is None:
        raise ImportError(f"writing {path} needs pyarrow: pip install pyarrow")
    return write
