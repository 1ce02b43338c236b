"""Tables to files: CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from os import PathLike
from typing import Any

from hybridtrees._outputs import replacing

Columns = dict[str, Sequence[Any]]


def write_csv(path_or_stream: Any, columns: Columns) -> None:
    """Write columns of one length as CSV.

    Parameters
    ----------
    path_or_stream : path-like or text stream
    columns : dict from str to sequence
    """
    if isinstance(path_or_stream, str | PathLike):
        with (
            replacing(path_or_stream) as stream,
            io.TextIOWrapper(stream, encoding="utf-8", newline="") as text,
        ):
            write_csv(text, columns)
        return
    writer = csv.writer(path_or_stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
