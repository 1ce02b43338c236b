"""BinnedTable: a table that comes in bins, in place of its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.blocked import BlockedBins
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.bins.matrix import BinnedMatrix

Ends = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass
class BinnedTable:
    """What a fit gets in place of an array of values.

    `load` makes the codes with a number of threads, or a table that is read in blocks. `values_of`
    has the values of some features, or an error if they are not known. `categories` has the labels
    of the codes of categorical features.
    """

    shape: tuple[int, int]
    mapper: BinMapper
    load: Callable[[int], BinnedMatrix | BlockedBins]
    values_of: Callable[[Sequence[int]], NDArray]
    ends: Ends | None  # minimum and maximum of each bin, (n_features, 256); None if not known
    feature_names: Sequence[str] | None
    categories: Sequence[Any]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> BinnedTable:
        """Return some of the rows, with the bins of the whole table."""
        rows = np.asarray(rows)
        n = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return replace(
            self,
            shape=(n, self.shape[1]),
            load=lambda n_threads: self.load(n_threads).take(rows),
            values_of=lambda features: self.values_of(features)[rows],
        )

    def toarray(self, features: Iterable[int] | None = None) -> NDArray:
        """Return the values of some features, by default of all, and NaN for the others."""
        chosen = list(range(self.shape[1]) if features is None else features)
        values = np.full(self.shape, np.nan, dtype=np.float32)
        values[:, chosen] = self.values_of(chosen)
        return values
