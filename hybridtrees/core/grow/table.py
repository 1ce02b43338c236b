"""Tables for growing trees: in bins, or as sorted lists of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import ALL_KEYS, MISSING_KEY, Limit
from hybridtrees.core.base.dtypes import SORTED_ENTRY_DTYPE, aligned_empty
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.bins.blocked import BlockedBins
from hybridtrees.core.bins.columns import csc_arrays, edges_between, is_sparse
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.bins.stored import StoredBins
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.search._sorted import bin_ends, list_codes, sort_columns
from hybridtrees.core.tree.tree import pack_sets

# Columns of a sparse table that are made dense at a time.
SPARSE_COLUMNS = 8

# A feature with at most this range is constant in scikit-learn's trees and their counterparts here.
MIN_RANGE = 1e-7


class Table:
    """A table for many trees: in bins, or for sorted lists of its values.

    `category_to_bin` has the bin of every category (`BinMapper.category_to_bin_`), None if
    categories are bins. In sorted lists, numbers of a column with a range of at most `min_range`
    are equal.
    """

    version = 0  # changes with the bins

    def __init__(
        self,
        values: Any,
        is_categorical: NDArray,
        binned: BinnedMatrix | StoredBins | BlockedBins | None = None,
        category_to_bin: Sequence[NDArray | None] | None = None,
        bin_thresholds: BinThresholds | None = None,
        min_range: float = 0.0,
    ):
        self.values = values
        self.is_categorical = np.asarray(is_categorical, dtype=bool)
        self.n_features = len(self.is_categorical)
        self.n_rows = values.shape[0] if binned is None else binned.n_rows
        self.min_range = min_range
        self._lists: NDArray | None = None
        self.use_bins(binned, category_to_bin, bin_thresholds)

    def use_bins(
        self,
        binned: BinnedMatrix | StoredBins | BlockedBins | None,
        category_to_bin: Sequence[NDArray | None] | None,
        bin_thresholds: BinThresholds | None = None,
    ) -> None:
        """Set the bins of the table."""
        self.binned = binned
        self.category_to_bin = category_to_bin
        self.n_categories = np.zeros(self.n_features, dtype=np.int32)
        self.bin_thresholds = bin_thresholds
        if binned is not None:
            self.n_categories[:] = np.where(binned.is_categorical, binned.n_bins, 0)
            if bin_thresholds is None:
                self.bin_thresholds = BinThresholds(binned)

    @classmethod
    def of_bins(
        cls, binned: BinnedMatrix, category_to_bin: Sequence[NDArray | None] | None = None
    ) -> Table:
        """Make a table from bins alone; thresholds are their edges."""
        return cls(None, binned.is_categorical, binned, category_to_bin)

    @classmethod
    def in_bins(
        cls,
        values: Any,
        is_categorical: NDArray,
        max_bins: int,
        weight: NDArray[np.float64] | None = None,
        n_threads: int = 1,
        *,
        midpoints: bool = False,
        dense: bool = False,
    ) -> Table:
        """Bin a table; `midpoints`: thresholds are midpoints of values, not edges of bins.

        Bins of a sparse table are `StoredBins`, unless `dense`: for a search that reads all codes.
        """
        binned: BinnedMatrix | StoredBins | BlockedBins
        if isinstance(values, BinnedTable):
            mapper, binned = values.mapper, values.load(n_threads)
        else:
            mapper = BinMapper(
                max_bins=max_bins, categorical_features=is_categorical, n_jobs=n_threads
            )
            binned = mapper.fit_encode(values, weight)
        if dense:
            binned = binned.dense(n_threads)
        bin_of = mapper.category_to_bin_ if np.any(is_categorical) else None
        between = BinThresholds(binned, values, n_threads, weight) if midpoints else None
        return cls(values, is_categorical, binned, bin_of, between)

    def bin_values(self) -> tuple[NDArray, NDArray, NDArray]:
        """Return smallest, largest and middle values of the bins, for drawn thresholds."""
        assert self.bin_thresholds is not None
        return self.bin_thresholds.values()

    # -- sorted lists ---------------------------------------------------------------------------

    def lists(self, n_threads: int, n_extra: int = 0) -> NDArray:
        """Sorted lists of entries (key, row) of every feature; see `_sorted`.

        The key of a row is the rank of its value, its bin or its category. `n_extra` lists for
        targets follow those of the features.
        """
        if self._lists is None or len(self._lists) < self.n_features + n_extra:
            self._lists = aligned_empty(
                (self.n_features + n_extra, self.n_rows), SORTED_ENTRY_DTYPE
            )
            if self.binned is None:
                self._sort(self._lists, n_threads)
            else:
                columns = self.binned.dense(n_threads).columns
                list_codes(columns, self.binned.n_bins, self._lists, n_threads)
        return self._lists

    def drop_lists(self) -> None:
        """Drop the lists, which a search has changed."""
        self._lists = None

    def _sort(self, lists: NDArray, n_threads: int) -> None:
        """Sort the columns of the values, and count their categories."""
        values, n_features = self.values, self.values.shape[1]
        mask = self.is_categorical.astype(np.uint8)
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
        for f in np.flatnonzero(mask):
            keys = lists[f]["key"]
            present = keys[keys != MISSING_KEY]
            self.n_categories[f] = int(present.max()) + 1 if len(present) else 1
        self._join_keys(lists, n_present)

    def _join_keys(self, lists: NDArray, n_present: NDArray[np.intp]) -> None:
        """Set equal keys for the numbers of a column with a range of at most `min_range`."""
        features = np.flatnonzero((self.n_categories[: len(n_present)] == 0) & (n_present > 0))
        rows = lists["row"]
        low = self._at(rows[features, 0], features)
        high = self._at(rows[features, n_present[features] - 1], features)
        for f in features[high <= low + self.min_range]:
            lists["key"][f, : n_present[f]] = 0

    def _at(self, rows: NDArray, features: NDArray) -> NDArray[np.float64]:
        if len(rows) == 0:
            return np.zeros(0)
        picked = self.values[rows.astype(np.intp), features.astype(np.intp)]
        return np.asarray(picked, dtype=np.float64).reshape(-1)

    # -- splits in terms of values --------------------------------------------------------------

    def write_splits(self, grown: Grown, drawn: bool = False) -> None:
        """Write the category sets of grown nodes, and the thresholds unless they were drawn."""
        nodes = grown.nodes
        split = nodes["left"] >= 0
        split[list(grown.category_bits)] = False
        at = np.flatnonzero(split)
        if not drawn:
            nodes["threshold"][at] = self.thresholds(
                nodes["feature"][at], grown.low_row[at], grown.high_row[at], grown.key[at]
            )
        grown.categories = self._category_sets(grown)

    def thresholds(
        self, feature: NDArray, low_row: NDArray, high_row: NDArray, key: NDArray
    ) -> NDArray[np.float64]:
        """Thresholds of numeric cuts: midpoints between the values of the rows on both sides.

        In a binned table, the edge of the lower bin, or the midpoint between the values of both
        bins if these are known. Infinity for a cut between all values and the missing ones.
        """
        if self.bin_thresholds is not None:
            return self.bin_thresholds.between(feature, key, low_row, high_row)
        low, high = self._at(low_row, feature), self._at(high_row, feature)
        middle = low / 2 + high / 2
        # The midpoint of neighbouring floats is rounded to one of them.
        middle = np.where((middle >= high) | (middle < low), low, middle)
        return np.where(key == ALL_KEYS, np.inf, middle)

    def _category_sets(self, grown: Grown) -> NDArray[np.uint32]:
        """Convert sets of bins to sets of categories; several categories may share a bin.

        Writes `category_start`, `category_words` and `category_limit` of the nodes, and returns
        the words of all sets. Lists of categories, which have a limit already, are not changed.
        """
        if not grown.category_bits:
            return np.zeros(0, dtype=np.uint32)
        nodes, words = grown.nodes, list(grown.category_bits.values())
        at = np.fromiter(grown.category_bits, dtype=np.intp)
        feature, limit = nodes["feature"][at], nodes["category_limit"][at]
        alike: dict[tuple[int, int], list[int]] = {}
        for k in np.flatnonzero(limit == 0).tolist():
            alike.setdefault((int(feature[k]), len(words[k])), []).append(k)
        for (f, _), places in alike.items():
            missing_left = nodes["missing_left"][at[places]] == 1
            bits = np.stack([words[k] for k in places])
            for k, packed in zip(places, self._in_categories(f, bits, missing_left), strict=True):
                words[k], limit[k] = packed
        length = np.array([len(one) for one in words])
        nodes["category_limit"][at] = limit
        nodes["category_start"][at] = np.cumsum(length) - length
        nodes["category_words"][at] = length
        return np.concatenate(words)

    def _in_categories(
        self, feature: int, bits: NDArray[np.uint32], missing_left: NDArray[np.bool_]
    ) -> list[tuple[NDArray[np.uint32], int]]:
        """Return sets of bins of one feature as packed sets of categories."""
        n_categories = self.n_categories[feature]
        in_bin = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").view(bool)
        # Categories not seen in fit go with missing values.
        in_bin[:, n_categories:] = missing_left[:, None]
        to_bin = self.category_to_bin[feature] if self.category_to_bin else None
        in_set = in_bin[:, :n_categories] if to_bin is None else in_bin[:, to_bin]
        return pack_sets(in_set, missing_left)


class ProposedTable(Table):
    """A table with new bins for every tree.

    They are quantiles weighted by the hessians (Chen and Guestrin 2016, Algorithm 2, global
    proposal).
    """

    def __init__(self, values: Any, is_categorical: NDArray, max_bins: int, n_threads: int):
        super().__init__(values, is_categorical)
        self._mapper = BinMapper(
            max_bins=max_bins, categorical_features=is_categorical, n_jobs=n_threads
        )
        self._proposed_for: float | None = None

    def propose(self, statistics: Any) -> None:
        """Bin the table by the hessians, unless they are the same constant as the last time."""
        hess = statistics.hess
        constant = hess if isinstance(hess, int | float) else None
        if self.binned is not None and constant is not None and constant == self._proposed_for:
            return
        weight = None if constant is not None else np.asarray(hess, dtype=np.float64)
        if weight is not None and not np.any(weight > 0):
            weight = None
        binned = self._mapper.fit_encode(self.values, weight)
        self.use_bins(binned, self._mapper.category_to_bin_)
        self._proposed_for = constant
        self.version += 1


class BinThresholds:
    """Thresholds of all bins of a table, by feature and bin.

    A feature's last edge is followed by infinity, the threshold of a split between all values and
    the missing ones. With `values`, the table that was binned, the minimum and maximum of each bin
    are known, without rows of weight 0.
    """

    def __init__(
        self,
        binned: BinnedMatrix | StoredBins | BlockedBins,
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
        """Return the upper edges of bins, for arrays of features and bins."""
        return self._thresholds[self._start[feature] + bin_]

    def between(
        self, feature: NDArray, low: NDArray, low_row: NDArray, high_row: NDArray
    ) -> NDArray[np.float64]:
        """Return midpoints between the values of the bins `low` and those of `high_row`.

        A node of few rows has many empty bins, so the edge of a bin may be at one end of the gap
        between its values. If both rows are the same, the next bin is not known, and the threshold
        is the edge.
        """
        thresholds = self(feature, np.minimum(low, self._binned.n_bins[feature] - 1))
        if self._ends is None:
            return thresholds
        known = np.flatnonzero(low_row != high_row)
        feature, low = feature[known], low[known]
        high = self._binned.codes_at(high_row[known], feature)
        least, largest = self._ends
        thresholds[known] = edges_between(largest[feature, low], least[feature, high], True)
        return thresholds

    def values(self) -> tuple[NDArray, NDArray, NDArray]:
        """Return the smallest and the largest value of each bin, and their middles, ascending.

        Bins without rows are between their neighbours.
        """
        assert self._ends is not None
        least = np.minimum.accumulate(self._ends[0][:, ::-1], axis=1)[:, ::-1]
        largest = np.maximum.accumulate(self._ends[1], axis=1)
        with np.errstate(invalid="ignore"):
            middle = least / 2 + largest / 2
        return np.ascontiguousarray(least), largest, middle


def _bin_ends(
    binned: BinnedMatrix | StoredBins | BlockedBins,
    values: Any,
    n_threads: int,
    weight: NDArray[np.float64] | None,
) -> tuple[NDArray, NDArray]:
    """Minimum and maximum of each bin, (n_features, 256)."""
    if isinstance(values, BinnedTable):
        if values.ends is None:
            raise ValueError("minima and maxima of bins are not known: write the store with values")
        return values.ends
    shape = binned.n_features, Limit.N_CODES
    ends = np.full(shape, np.inf), np.full(shape, -np.inf)
    used = None
    if weight is not None and not np.all(weight > 0):
        used = np.flatnonzero(weight > 0)
    if not isinstance(values, np.ndarray):  # sparse, whatever the codes are
        _stored_ends(binned.bin_edges, values if used is None else values.tocsr()[used], ends)
        return ends
    assert isinstance(binned, BinnedMatrix)
    columns = binned.columns if used is None else np.ascontiguousarray(binned.columns[:, used])
    bin_ends(values if used is None else values[used], columns, *ends, n_threads)
    return ends


def _stored_ends(bin_edges: list, values: Any, ends: tuple[NDArray, NDArray]) -> None:
    """`_bin_ends` of a sparse table, from its stored values; OUT `ends` of numeric columns."""
    values = values.tocsc()
    for f, edges in enumerate(bin_edges):
        if edges is None:
            continue
        column = values.data[values.indptr[f] : values.indptr[f + 1]]
        known = column[~np.isnan(column)].astype(np.float64)
        if len(column) < values.shape[0]:
            known = np.append(known, 0.0)
        codes = np.searchsorted(edges, known)
        np.minimum.at(ends[0][f], codes, known)
        np.maximum.at(ends[1][f], codes, known)
