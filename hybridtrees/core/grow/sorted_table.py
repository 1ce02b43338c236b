"""Tables as sorted lists, for the exact search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import ALL_KEYS, MISSING_KEY, Limit
from hybridtrees.core.base.dtypes import SORTED_ENTRY_DTYPE, aligned_empty
from hybridtrees.core.bins.columns import csc_arrays, edges_between, is_sparse
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.search._sorted import bin_ends, list_codes, sort_columns

# Columns of a sparse table that are made dense at a time.
SPARSE_COLUMNS = 8

# A feature whose values range over no more than this is constant to scikit-learn's trees, and to
# their like here.
LEAST_RANGE = 1e-7


class SortedTable:
    """Rows in the order of every feature.

    Parameters
    ----------
    lists : structured array of shape (n_features + n_extra, n_rows)
        Entries (key, row); see `_sorted`. The extra lists are room for the orders of targets.
    n_categories : int32 array of shape (n_features,)
        Categories of each feature, 0 for a number.
    values : array or sparse matrix, optional
        The table itself, where keys are ranks of its values.
    binned : BinnedMatrix, optional
        The binned table, where keys are its bins.
    bin_thresholds : BinThresholds, optional
        Its thresholds.
    """

    def __init__(
        self,
        lists: NDArray,
        n_categories: NDArray[np.int32],
        values: Any = None,
        binned: BinnedMatrix | None = None,
        bin_thresholds: BinThresholds | None = None,
    ):
        self.lists = lists
        self.n_categories = n_categories
        self.values = values
        self.binned = binned
        self._bin_thresholds = bin_thresholds
        self.n_rows = lists.shape[1]
        self.n_features = len(n_categories)

    @classmethod
    def from_values(
        cls,
        values: Any,
        is_categorical: NDArray,
        n_extra: int,
        n_threads: int,
        least_range: float = 0.0,
    ) -> SortedTable:
        """Sort the columns of a table: float32 or float64, dense or sparse; NaN is missing.

        Numbers of a column that range over no more than `least_range` are taken for equal.
        """
        n_rows, n_features = values.shape
        mask = np.asarray(is_categorical, dtype=np.uint8)
        lists = aligned_empty((n_features + n_extra, n_rows), SORTED_ENTRY_DTYPE)
        n_present = np.empty(n_features, dtype=np.intp)
        if is_sparse(values):
            values = values.tocsc()
            csc_arrays(values)
            for first in range(0, n_features, SPARSE_COLUMNS):
                part = slice(first, min(first + SPARSE_COLUMNS, n_features))
                dense = values[:, part].toarray()
                n_present[part] = sort_columns(dense, mask[part], lists, first, n_threads)
        else:
            n_present[:] = sort_columns(values, mask, lists, 0, n_threads)
        n_categories = np.zeros(n_features, dtype=np.int32)
        for f in np.flatnonzero(mask):
            keys = lists[f]["key"]
            present = keys[keys != MISSING_KEY]
            n_categories[f] = int(present.max()) + 1 if len(present) else 1
        table = cls(lists, n_categories, values=values)
        table._join_keys(n_present, least_range)
        return table

    def _join_keys(self, n_present: NDArray[np.intp], least_range: float) -> None:
        """Give one key to the numbers of a column that range over no more than `least_range`."""
        features = np.flatnonzero((self.n_categories == 0) & (n_present > 0))
        rows = self.lists["row"]
        low = self._at(rows[features, 0], features)
        high = self._at(rows[features, n_present[features] - 1], features)
        for f in features[high <= low + least_range]:
            self.lists["key"][f, : n_present[f]] = 0

    @classmethod
    def from_binned(
        cls,
        binned: BinnedMatrix,
        n_extra: int,
        n_threads: int,
        bin_thresholds: BinThresholds | None = None,
    ) -> SortedTable:
        """Make the lists of a binned table: the key of a row is its bin."""
        lists = aligned_empty((binned.n_features + n_extra, binned.n_rows), SORTED_ENTRY_DTYPE)
        list_codes(binned.columns, binned.n_bins, lists, n_threads)
        n_categories = np.where(binned.is_categorical, binned.n_bins, 0).astype(np.int32)
        return cls(lists, n_categories, None, binned, bin_thresholds)

    def thresholds(
        self, feature: NDArray, low_row: NDArray, high_row: NDArray, key: NDArray
    ) -> NDArray[np.float64]:
        """Where numeric cuts fall: midway between the values of the rows on both sides.

        Of a binned table, midway between the bins of those rows; where they are not known, or
        the values of the bins are not, at the edge of the lower bin. The threshold of a cut that
        parts all values from the missing ones is infinity.
        """
        if self.binned is not None:
            if self._bin_thresholds is None:
                self._bin_thresholds = BinThresholds(self.binned)
            return self._bin_thresholds.between(feature, key, low_row, high_row)
        low, high = self._at(low_row, feature), self._at(high_row, feature)
        middle = low / 2 + high / 2
        # Between neighbouring numbers the middle is rounded to one of them.
        middle = np.where((middle >= high) | (middle < low), low, middle)
        return np.where(key == ALL_KEYS, np.inf, middle)

    def _at(self, rows: NDArray, features: NDArray) -> NDArray[np.float64]:
        if len(rows) == 0:
            return np.zeros(0)
        picked = self.values[rows.astype(np.intp), features.astype(np.intp)]
        return np.asarray(picked, dtype=np.float64).reshape(-1)


class BinThresholds:
    """Thresholds of all bins of a table, looked up by feature and bin.

    Behind a feature's last edge stands infinity, the threshold of a split that parts all values
    from the missing ones.

    Parameters
    ----------
    binned : BinnedMatrix
    values : array or sparse matrix, optional
        The table that was binned, to learn the least and the largest value of each bin.
    n_threads : int
    weight : array of shape (n_rows,), optional
        Rows of weight 0 take no part in these.
    """

    def __init__(
        self,
        binned: BinnedMatrix,
        values: Any = None,
        n_threads: int = 1,
        weight: NDArray[np.float64] | None = None,
    ):
        parts, starts = [], [0]
        for edges in binned.bin_edges:
            parts.append(np.append(() if edges is None else edges, np.inf))
            starts.append(starts[-1] + len(parts[-1]))
        self._thresholds = np.concatenate(parts)
        self._start = np.array(starts[:-1])
        self._binned = binned
        self._ends = None if values is None else _bin_ends(binned, values, n_threads, weight)

    def __call__(self, feature: NDArray, bin_: NDArray) -> NDArray[np.float64]:
        """Return the threshold behind a bin of a feature, for arrays of both."""
        return self._thresholds[self._start[feature] + bin_]

    def between(
        self, feature: NDArray, low: NDArray, low_row: NDArray, high_row: NDArray
    ) -> NDArray[np.float64]:
        """Return thresholds in the middle between the bins `low` and those of `high_row`.

        A node of few rows has many empty bins, and the edge of a bin stands far on one side of
        the gap between its values. Where the two rows are one, the next bin is not known, and
        the threshold is the edge.
        """
        thresholds = self(feature, np.minimum(low, self._binned.n_bins[feature] - 1))
        if self._ends is None:
            return thresholds
        known = np.flatnonzero(low_row != high_row)
        feature, low = feature[known], low[known]
        high = self._binned.columns[feature, high_row[known]]
        least, largest = self._ends
        thresholds[known] = edges_between(largest[feature, low], least[feature, high], True)
        return thresholds


def _bin_ends(
    binned: BinnedMatrix, values: Any, n_threads: int, weight: NDArray[np.float64] | None
) -> tuple[NDArray, NDArray]:
    """Least and largest value of each bin, (n_features, 256)."""
    shape = binned.n_features, Limit.N_CODES
    ends = np.full(shape, np.inf), np.full(shape, -np.inf)
    columns = binned.columns
    if weight is not None and not np.all(weight > 0):
        used = np.flatnonzero(weight > 0)
        columns = np.ascontiguousarray(columns[:, used])
        values = values.tocsr()[used] if is_sparse(values) else values[used]
    if not is_sparse(values):
        bin_ends(values, columns, *ends, n_threads)
        return ends
    values = values.tocsc()
    for first in range(0, binned.n_features, SPARSE_COLUMNS):
        part = slice(first, min(first + SPARSE_COLUMNS, binned.n_features))
        own = (end[part] for end in ends)
        dense = values[:, part].toarray()
        bin_ends(dense, columns[part], *own, n_threads)
    return ends
