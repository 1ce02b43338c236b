"""StoredBins: a sparse table as bin codes of the entries that differ from zero."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins import _bins
from hybridtrees.core.bins.matrix import BinnedMatrix, empty_codes

Floats = NDArray[np.float64]


class StoredBins:
    """A sparse table as bin codes, in memory proportional to what it stores.

    An entry is a cell of the table whose code is not that of 0.0 in its column. Entries are kept
    column by column for partitions, and row by row for histograms. What `BinnedMatrix` has by the
    same name means the same.

    Attributes
    ----------
    n_rows, n_features : int
    default_code : uint8 ndarray of shape (n_features,)
        Code of the rows of a column that have no entry: that of 0.0.
    column_start : int64 ndarray of shape (n_features + 1,)
        The first entry of each column, and their number.
    rows : uint32 ndarray of shape (n_entries,)
        Rows of the entries, ascending within a column.
    codes : uint8 ndarray of shape (n_entries,)
    cell_start : uint32 ndarray of shape (n_features + 1,)
        The first cell of each feature in a histogram: one cell for each code.
    n_bins, has_missing, is_categorical, bin_edges
        As of a `BinnedMatrix`.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        stored: tuple[NDArray, NDArray, NDArray[np.uint8]],
        default_code: NDArray[np.uint8],
        n_bins: NDArray[np.int32],
        has_missing: NDArray[np.uint8],
        is_categorical: NDArray[np.uint8],
        bin_edges: list[Floats | None],
    ) -> None:
        self.n_rows, self.n_features = shape
        self.default_code = default_code
        self.n_bins = n_bins
        self.has_missing = has_missing
        self.is_categorical = is_categorical
        self.bin_edges = bin_edges
        n_cells = np.append(0, np.cumsum(n_bins.astype(np.int64) + 1))
        if n_cells[-1] >= 2**32 - 1:
            raise ValueError(f"the histogram of {shape[1]} features has too many cells")
        self.cell_start = n_cells.astype(np.uint32)
        start, rows, codes = stored
        # Stored values in the bin of 0.0 are no entries.
        differs = codes != np.repeat(default_code, np.diff(start))
        if not differs.all():
            kept = np.append(0, np.cumsum(differs, dtype=np.int64))
            start, rows, codes = kept[start], rows[differs], codes[differs]
        self.column_start = np.ascontiguousarray(start, dtype=np.int64)
        self.rows = np.ascontiguousarray(rows)
        self.rows = self.rows.view(np.uint32) if rows.itemsize == 4 else rows.astype(np.uint32)
        self.codes = codes

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""
        return self.n_rows, self.n_features

    @property
    def nbytes(self) -> int:
        """Bytes of both orders together."""
        return self.rows.nbytes + self.codes.nbytes + sum(part.nbytes for part in self.by_row)

    def __len__(self) -> int:
        return self.n_rows

    @cached_property
    def by_row(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """First entry of each row, and the cells of the entries, ascending within a row.

        The cell of an entry is ``cell_start[feature] + code``, a uint16 if all cells have such
        numbers, otherwise a uint32.
        """
        start = np.empty(self.n_rows + 1, dtype=np.int64)
        narrow = self.cell_start[-1] < 2**16
        cells: NDArray[Any] = np.empty(len(self.rows), dtype=np.uint16 if narrow else np.uint32)
        entries = self.column_start, self.rows, self.codes
        _bins.cells_of_rows(*entries, self.cell_start, start, cells)
        return start, cells

    def column(self, feature: int) -> NDArray[np.uint8]:
        """Return the codes of all rows of a column."""
        codes = np.full(self.n_rows, self.default_code[feature])
        part = slice(self.column_start[feature], self.column_start[feature + 1])
        codes[self.rows[part]] = self.codes[part]
        return codes

    def codes_at(self, rows: NDArray, features: NDArray) -> NDArray[np.uint8]:
        """Return the codes of pairs of rows and features."""
        found = self.default_code[features]
        for k, (row, feature) in enumerate(zip(rows, features, strict=True)):
            first, last = self.column_start[feature], self.column_start[feature + 1]
            at = first + np.searchsorted(self.rows[first:last], row)
            if at < last and self.rows[at] == row:
                found[k] = self.codes[at]
        return found

    def dense(self, n_threads: int = 1) -> BinnedMatrix:
        """Return the codes of all cells."""
        records, columns = empty_codes(self.n_rows, self.n_features)
        for feature in range(self.n_features):
            columns[feature] = self.column(feature)
        if self.n_rows:
            _bins.records_from_columns(columns, records, n_threads)
        kinds = self.n_bins, self.has_missing, self.is_categorical
        return BinnedMatrix(records, columns, *kinds, self.bin_edges)
