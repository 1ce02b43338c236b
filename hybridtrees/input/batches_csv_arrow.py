"""Cells of CSV files by pyarrow; imported only where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv

from hybridtrees.input._user_tables import ArrowColumns, Columns
from hybridtrees.input.batches_csv import CsvFile, Kind
from hybridtrees.input.texts import MISSING, MISSING_NUMBERS, parse_dates

_BLOCK_BYTES = 1 << 23
_MISSING = pa.array(sorted(MISSING))
_MISSING_NUMBERS = pa.array(sorted(MISSING_NUMBERS))


class ArrowReader:
    """Reads cells by pyarrow, whose threads work on the columns."""

    def settle(self, file: CsvFile, kinds: dict[str, Kind]) -> int:
        """Note what columns hold, and return the number of rows."""
        n_rows = 0
        for table in _tables(file, dict.fromkeys(file.names, pa.string()), []):
            for name, cells in zip(file.names, table.columns, strict=True):
                _settle(kinds[name], cells)
            n_rows += table.num_rows
        return n_rows

    def tables(self, file: CsvFile, kinds: dict[str, Kind], names: list[str]) -> Iterator[Columns]:
        """Yield blocks of some columns as Arrow tables."""
        direct = {
            name: not kind.is_text and kind.is_plain
            for name, kind in kinds.items()
            if name in names
        }
        types = {name: pa.float64() if own else pa.string() for name, own in direct.items()}
        for table in _tables(file, types, sorted(MISSING)):
            columns = [
                table[name] if direct[name] else _typed(table[name], kinds[name]) for name in names
            ]
            yield ArrowColumns(pa.table(columns, names=names))


def _settle(kind: Kind, cells: Any) -> None:
    """Note the cells of a block of a column."""
    if kind.stays_text:
        return
    if not kind.is_text:
        if kind.is_plain:
            numbers = _as_numbers(_without(cells, _MISSING))
            kind.is_plain = numbers is not None
        if not kind.is_plain:
            numbers = _loose_numbers(cells)
        if numbers is not None:
            kind.any_known |= numbers.null_count < len(numbers)
            return
    if kind.dates or kind.written is not None or not kind.is_text:
        texts = compute.unique(_without(compute.utf8_trim_whitespace(cells), _MISSING))
        kind.see_texts([text for text in texts.to_pylist() if text is not None])


def _without(cells: Any, missing: Any) -> Any:
    """Return cells with nulls in place of texts that mean a missing value."""
    return compute.if_else(compute.is_in(cells, missing), pa.scalar(None, pa.string()), cells)


def _as_numbers(cells: Any) -> Any:
    try:
        return cells.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def _loose_numbers(cells: Any) -> Any:
    """Numbers that may have blanks around them, a plus sign, or marks of missing values."""
    bare = _without(compute.utf8_trim_whitespace(cells), _MISSING_NUMBERS)
    return _as_numbers(compute.replace_substring_regex(bare, r"^\+([0-9.])", r"\1"))


def _typed(cells: Any, kind: Kind) -> Any:
    """Return cells as what their column holds."""
    if not kind.is_text:
        numbers = _loose_numbers(cells)
        if numbers is None:
            raise ValueError("source must give the same rows whenever it is read")
        return numbers
    known = _without(compute.utf8_trim_whitespace(cells), _MISSING)
    dates = parse_dates(known.to_pylist()) if kind.is_date else None
    return known if dates is None else pa.array(dates)


def _tables(file: CsvFile, types: dict[str, Any], nulls: list[str]) -> Iterator[Any]:
    """Yield blocks of the columns that `types` names."""
    with (
        _reading(file),
        pa.input_stream(str(file.path), compression="gzip" if file.is_packed else None) as stream,
    ):
        try:
            reader = pyarrow.csv.open_csv(
                stream,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=file.names, skip_rows=file.n_head, block_size=_BLOCK_BYTES
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=file.delimiter, newlines_in_values=True
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=nulls,
                    strings_can_be_null=bool(nulls),
                    quoted_strings_can_be_null=bool(nulls),
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):  # column names alone
                return
            raise
        for batch in reader:
            yield pa.Table.from_batches([batch])


@contextmanager
def _reading(file: CsvFile) -> Iterator[None]:
    """Name the file in errors of pyarrow."""
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise file.error(str(error).splitlines()[0]) from error
