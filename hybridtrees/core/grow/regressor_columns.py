"""Regressor columns: means, scales and means of bins."""

from __future__ import annotations

import copy

import numpy as np

from hybridtrees.core.base.exact_sum import exact_mean, group_sums
from hybridtrees.core.base.workers import run_threads
from hybridtrees.core.bins.matrix import BinnedMatrix

# Fewer values are read by one thread.
_FEW_VALUES = 1 << 19


class RegressorColumns:
    """Units in which the columns of a table are fitted, and the means of their bins.

    Columns can be regressors if `allowed`, unless they are categorical or constant. A column is
    fitted as ``(x - mean) / scale``, in standard units unless `in_raw_units`, so that results do
    not depend on the units of the table. `bin_values` has the mean of each bin in these units, None
    for a column that is not a regressor.
    """

    def __init__(
        self,
        values: np.ndarray,
        binned: BinnedMatrix,
        allowed: np.ndarray,
        weight: np.ndarray | None = None,
        n_threads: int = 1,
    ):
        n_features = values.shape[1]
        self.values = values
        self.mean = np.zeros(n_features)
        self.scale = self.deviation = np.ones(n_features)
        self.bin_values: list[np.ndarray | None] = [None] * n_features
        read = np.flatnonzero(allowed & (binned.is_categorical == 0) & (binned.n_bins > 1))
        if len(values) * len(read) < _FEW_VALUES:
            n_threads = 1
        parts = [read[k::n_threads].tolist() for k in range(n_threads)]
        run_threads(lambda part: self._read(part, binned, weight), parts, n_threads)

    def in_raw_units(self) -> RegressorColumns:
        """Return the columns in units of the table, but centred, for precision."""
        raw = copy.copy(self)
        raw.scale = np.ones_like(self.scale)
        raw.bin_values = [
            None if values is None else values * scale
            for values, scale in zip(self.bin_values, self.scale, strict=True)
        ]
        return raw

    def _read(self, features: list[int], binned: BinnedMatrix, weights: np.ndarray | None) -> None:
        for f in features:
            column, weight = self.values[:, f].astype(np.float64), weights
            codes, n_bins = binned.columns[f], int(binned.n_bins[f])
            if binned.has_missing[f]:
                known = codes < n_bins
                column, codes = column[known], codes[known]
                weight = None if weight is None else weight[known]
            if weight is not None and not weight.any():
                continue
            with np.errstate(over="ignore", invalid="ignore"):
                mean = exact_mean(column, weight)
                column -= mean
                largest = np.abs(column if weight is None else column[weight > 0]).max()
                if not (np.isfinite(mean) and 0 < largest < np.inf):
                    continue
                scale = largest * np.sqrt(exact_mean((column / largest) ** 2, weight))
            if not (np.isfinite(scale) and scale > 0):
                continue
            total = column if weight is None else column * weight
            total = group_sums(codes, n_bins, total)
            count = group_sums(codes, n_bins, weight)
            self.mean[f], self.scale[f] = mean, scale
            # The value of an empty bin is not used.
            means = np.divide(total, count, out=np.zeros(n_bins), where=count > 0)
            self.bin_values[f] = means / scale
