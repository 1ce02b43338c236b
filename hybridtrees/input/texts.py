"""Files of tables: their names, and column names, missing values and dates in their text."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

# Texts of a missing value; a column of numbers has a few more.
MISSING = frozenset(("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "<NA>"))
MISSING_NUMBERS = MISSING | {"?", "-", "."}
# To the microsecond, from the year -290,000 to 294,000.
DATE = np.dtype("datetime64[us]")

PARQUET = (".parquet", ".pq")

_DELIMITERS = ",;\t|"
# 2024-05-31, perhaps with a time and a time zone, which is ignored: parts are those of local time.
_CLOCK = r"(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)"
_ISO = re.compile(rf"(\d{{4}})[-/](\d\d)[-/](\d\d)(?:[ T]{_CLOCK}(?:Z| ?[+-]\d\d:?\d\d)?)?")


def is_parquet(name: str) -> bool:
    """Whether a file is Parquet by its name."""
    return name.lower().endswith(PARQUET)


def column_names(path: str, head: str) -> tuple[list[str], str]:
    """Return the names in the first line of a CSV file, and the sign between its cells."""
    delimiter = max(_DELIMITERS, key=re.sub('"[^"]*"', "", head).count)
    try:
        names = next(csv.reader(io.StringIO(head), delimiter=delimiter), [])
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}") from None
    names = [name.strip() for name in names]
    if not any(names):
        raise ValueError(f"{path} has no line of column names")
    # Row numbers written by other programs have none.
    names = [name or f"column_{number}" for number, name in enumerate(names, start=1)]
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise ValueError(f"{path} names several columns alike: {some_of(repeated)}")
    return names, delimiter


def some_of(names: Sequence[str], most: int = 20) -> str:
    """Return a list of names for a message."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def parse_dates(cells: Iterable[str | None]) -> np.ndarray | None:
    """Read text such as 2024-05-31 or 2024/05/31 12:30; None stays missing.

    Returns None if a cell is anything else, such as the 30th of February.
    """
    texts = []
    for cell in cells:
        found = None if cell is None else _ISO.fullmatch(cell.strip())
        if found is None and cell is not None:
            return None
        texts.append("NaT" if found is None else _iso_text(found))
    try:
        return np.array(texts, dtype=DATE)
    except ValueError:
        return None


def _iso_text(found: re.Match[str]) -> str:
    year, month, day, clock = found.groups()
    return f"{year}-{month}-{day}" + (f"T{clock[:15]}" if clock else "")
