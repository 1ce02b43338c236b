"""BinnedMatrix: a table as bin codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridtrees.core.base.dtypes import aligned_empty
from hybridtrees.core.bins import _bins

Floats = NDArray[np.float64]


def empty_codes(n_rows: int, n_features: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return records and columns, not filled."""
    record_bytes = (n_features + 3) // 4 * 4 + 4
    records = aligned_empty((n_rows, record_bytes), np.uint8)
    return records, aligned_empty((n_features, n_rows), np.uint8)


class BinnedMatrix:
    """A table as bin codes, one byte each, in row-major and column-major order.

    Made by `BinMapper.transform`.

    Parameters
    ----------
    records : uint8 ndarray of shape (n_rows, record_bytes)
        Row by row: ``records[r, :n_features]`` are the codes of row r. Zeros fill up to a multiple
        of 4, and 4 more bytes are scratch space for growing trees.
    columns : uint8 ndarray of shape (n_features, n_rows)
        The same codes column by column.
    n_bins : int32 ndarray of shape (n_features,)
        Value bins of each feature, 1 to 255. The code of a missing value is ``n_bins[f]``.
    has_missing : uint8 ndarray of shape (n_features,)
        Whether any row has that code.
    is_categorical : uint8 ndarray of shape (n_features,)
        Whether the codes of a feature are those of categories.
    bin_edges : list of (float64 ndarray or None)
        ``n_bins[f] - 1`` ascending edges: code b stands for ``edges[b - 1] < x <= edges[b]``. None
        for a categorical feature.

    Attributes
    ----------
    n_rows, n_features : int
        Shape of the table.
    """

    def __init__(
        self,
        records: NDArray[np.uint8],
        columns: NDArray[np.uint8],
        n_bins: NDArray[np.int32],
        has_missing: NDArray[np.uint8],
        is_categorical: NDArray[np.uint8],
        bin_edges: list[Floats | None],
    ) -> None:
        self.records = records
        self.columns = columns
        self.n_features, self.n_rows = columns.shape
        self.n_bins = n_bins
        self.has_missing = has_missing
        self.is_categorical = is_categorical
        self.bin_edges = bin_edges

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""
        return self.n_rows, self.n_features

    @property
    def nbytes(self) -> int:
        """Bytes of both orders together."""
        return self.records.nbytes + self.columns.nbytes

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        megabytes = self.nbytes / 1e6
        return f"BinnedMatrix({self.n_rows} x {self.n_features}, {megabytes:.1f} MB)"

    def codes_at(self, rows: NDArray, features: NDArray) -> NDArray[np.uint8]:
        """Return the codes of pairs of rows and features."""
        return self.columns[features, rows]

    def dense(self, n_threads: int = 1) -> BinnedMatrix:
        """Return the matrix itself; that of stored bins makes one."""
        return self

    def take(self, rows: ArrayLike) -> BinnedMatrix:
        """Matrix of some of the rows.

        Parameters
        ----------
        rows : array-like of int, or boolean mask of length n_rows
            Negative numbers count from the end; repetitions are fine.

        Returns
        -------
        BinnedMatrix
            A copy, with `has_missing` of its own.
        """
        rows = np.asarray(rows)
        if rows.ndim != 1 or (rows.dtype.kind not in "iub" and rows.size):
            raise TypeError("rows must be a one-dimensional array of integers or booleans")
        if rows.dtype == bool:
            if len(rows) != self.n_rows:
                raise ValueError(f"rows must be a mask of length {self.n_rows}, got {len(rows)}")
            rows = np.flatnonzero(rows)
        rows = rows.astype(np.intp)
        if rows.size and not -self.n_rows <= rows.min() <= rows.max() < self.n_rows:
            raise IndexError(f"rows must lie within the {self.n_rows} rows of the matrix")
        rows[rows < 0] += self.n_rows
        records, columns = empty_codes(len(rows), self.n_features)
        # Rows are within bounds; with "clip" NumPy does not buffer the whole output.
        if rows.size:
            np.take(self.records, rows, axis=0, out=records, mode="clip")
            np.take(self.columns, rows, axis=1, out=columns, mode="clip")
        has_missing = (columns == self.n_bins[:, None]).any(axis=1).astype(np.uint8)
        return BinnedMatrix(
            records, columns, self.n_bins, has_missing, self.is_categorical, self.bin_edges
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["records"]  # made again from the columns
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.records, self.columns = empty_codes(self.n_rows, self.n_features)
        self.columns[:] = state["columns"]
        if self.n_rows:
            _bins.records_from_columns(self.columns, self.records, 1)
