"""Distinct values, categories and a sample of a table that comes in batches of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins import columns as tables
from hybridtrees.core.bins.sketch import check_weights

Floats = NDArray[np.float64]


def weighted_tables(batches: Iterable[Any]) -> Iterator[tuple[NDArray, Floats | None]]:
    """Yield table and weights, None without any, of each batch X or (X, weight)."""
    for batch in batches:
        X, weight = batch if isinstance(batch, tuple) else (batch, None)
        if tables.is_sparse(X):
            raise TypeError("batches must be dense arrays, got a sparse matrix")
        table = tables.as_table(X)
        if weight is not None:
            weight = check_weights(weight, len(table), "the weights of batches")
        yield table, weight


class RowsInBatches:
    """What `BinMapper` learns from a table, gathered batch by batch.

    `drawn` has the numbers of the rows of the sample, counting rows of positive weight only; None
    for all of these rows.
    """

    def __init__(
        self, mask: NDArray[np.uint8], drawn: NDArray[np.int64] | None, max_bins: int
    ) -> None:
        self._mask, self._drawn, self._max_bins = mask, drawn, max_bins
        self._learned: tables.Learned | None = None
        self._counts: dict[int, Floats] = {}
        self._sample: list[NDArray] = []
        self._weights: list[Floats | None] = []
        self.n_usable = 0  # rows of positive weight so far

    def add(self, table: NDArray, weights: Floats | None, n_threads: int) -> None:
        """Add rows."""
        own = tables.learn(table, weights, self._mask, self._max_bins, n_threads)
        if weights is not None:
            for f in np.flatnonzero(self._mask):
                self._count(int(f), table[:, f], weights, own.counts[f])
        self._learned = own if self._learned is None else self._learned.joined(own, self._max_bins)
        rows = np.arange(len(table)) if weights is None else np.flatnonzero(weights)
        first, self.n_usable = self.n_usable, self.n_usable + len(rows)
        if self._drawn is not None:
            low, high = np.searchsorted(self._drawn, [first, self.n_usable])
            rows = rows[self._drawn[low:high] - first]
        self._sample.append(table[rows])
        self._weights.append(None if weights is None else weights[rows])

    def _count(self, f: int, codes: NDArray, weights: Floats, own: Floats | None) -> None:
        """Add weights of categories in the order of the rows, as for a whole table."""
        assert own is not None
        counts = self._counts.get(f, np.zeros(0))
        if len(counts) < len(own):
            counts = np.append(counts, np.zeros(len(own) - len(counts)))
        known = (codes >= 0) & (weights > 0)
        np.add.at(counts, codes[known].astype(np.intp), weights[known])
        self._counts[f] = counts

    def settled(self, n_threads: int) -> tuple[tables.Learned, tables.Settled]:
        """Return what was learned, and the bins."""
        learned = self._learned
        assert learned is not None
        for f, counts in self._counts.items():
            learned.counts[f] = counts
        table = np.concatenate(self._sample)
        known = [part for part in self._weights if part is not None]
        weights = np.concatenate(known) if known else None
        rows = np.arange(len(table))
        many = learned.many(self._mask)
        cuts = tables.sample_cuts(table, weights, rows, many, self._max_bins, n_threads)
        return learned, tables.settle(learned, self._mask, cuts, self._max_bins)
