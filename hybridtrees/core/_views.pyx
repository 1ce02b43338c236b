"""C views over the Python objects that the kernels read."""

import numpy as np

from hybridtrees.core._types cimport UNIFORM_CELLS


def histogram_offsets(n_bins):
    """First cell of each feature in a histogram, and the number of cells as last entry.

    A feature takes its value bins and one cell for missing rows. A distance between two features
    that divides 4,096 bytes would put their cells at addresses that the processor's store buffer
    cannot tell apart, and every load would wait for an unrelated store; such distances are
    stretched. Where most features have many bins, all get the same distance, which the
    accumulating loop then knows at compile time.
    """
    cells = np.asarray(n_bins, dtype=np.int64) + 1
    if np.median(cells) >= 128:
        cells[:] = UNIFORM_CELLS
    cells += cells % 2
    cells[cells * 8 % 1024 == 0] += 16
    total = int(cells.sum())
    if total >= 2**32:
        raise ValueError(f"the histogram of {len(cells)} features has too many cells: {total}")
    return np.concatenate([[0], np.cumsum(cells)]).astype(np.uint32)


cdef class BinnedView:
    """Pointers into a BinnedMatrix, which it keeps alive."""

    def __init__(self, binned):
        self.binned = binned
        self.records = binned.records
        self.columns = binned.columns
        self.n_bins = binned.n_bins
        self.has_missing = binned.has_missing
        self.is_categorical = binned.is_categorical
        self.cell_start = histogram_offsets(binned.n_bins)
        self.view.record_bytes = self.records.shape[1]
        self.view.n_rows = self.records.shape[0]
        self.view.n_features = <int32_t>self.n_bins.shape[0]
        self.view.n_cells = self.cell_start[self.view.n_features]
        if (
            self.columns.shape[0] != self.view.n_features
            or self.columns.shape[1] != self.view.n_rows
            or self.has_missing.shape[0] != self.view.n_features
            or self.is_categorical.shape[0] != self.view.n_features
            or self.view.record_bytes < self.view.n_features + 4
        ):
            raise ValueError("the arrays of the BinnedMatrix do not fit together")
        if self.view.n_rows == 0 or self.view.n_features == 0:
            raise ValueError("a BinnedMatrix needs at least one row and one feature")
        if self.view.n_rows >= 2**32 - 1:
            raise ValueError("more than 4,294,967,294 rows cannot be indexed")
        self.view.uniform = bool(np.all(np.diff(self.cell_start) == UNIFORM_CELLS))
        self.view.records = &self.records[0, 0]
        self.view.columns = &self.columns[0, 0]
        self.view.n_bins = &self.n_bins[0]
        self.view.has_missing = &self.has_missing[0]
        self.view.is_categorical = &self.is_categorical[0]
        self.view.cell_start = &self.cell_start[0]

    @property
    def n_cells(self):
        """Cells of a histogram."""
        return self.view.n_cells
