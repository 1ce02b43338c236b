"""Products of the columns of a wide sparse table, in time proportional to its stored entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]

# Narrower or fuller tables are summed faster by blocks of dense rows.
_MIN_COLUMNS = 256
_MAX_STORED = 0.05
# Columns with a larger share of stored entries are summed about their centers, row by row. Those
# of other columns are subtracted afterwards, which loses at most a bit as they are mostly zero.
_MAX_SPARSE = 0.25


def is_mostly_zero(values: Any) -> bool:
    """Whether `sparse_gram` is the way to sum the products of a table."""
    if not hasattr(values, "indptr"):
        return False
    n, p = values.shape
    return bool(p >= _MIN_COLUMNS and values.nnz <= _MAX_STORED * n * p)


def sparse_gram(
    values: Any,
    columns: tuple[Floats, Floats, Floats],
    targets: Floats,
    weight: Floats | None,
    rows: NDArray[np.int64] | None,
) -> Floats:
    """Return the same as ``_passes.gram`` of a CSR table, up to rounding.

    `columns` are center, inverse scale and fill. Every sum runs over the rows in their order.
    """
    center, inverse, fill = columns
    if rows is not None:
        values, targets = values[rows], targets[rows]
        weight = None if weight is None else weight[rows]
    n, p = values.shape
    table = sparse.csc_array(values, dtype=np.float64, copy=True)
    stored = np.diff(table.indptr)
    lacking = np.flatnonzero(np.isnan(table.data))
    table.data[lacking] = fill[np.repeat(np.arange(p), stored)[lacking]]
    full = stored > _MAX_SPARSE * n
    few = np.flatnonzero(~full)
    full = np.flatnonzero(full)
    # Columns, targets and ones that are not sparse, in the units of the result.
    dense = np.empty((n, len(full) + targets.shape[1] + 1))
    dense[:, : len(full)] = (table[:, full].toarray() - center[full]) * inverse[full]
    dense[:, len(full) : -1] = targets
    dense[:, -1] = 1.0
    thin: Any = table[:, few]
    # An entry of the table is what is stored, minus the center.
    thin.data *= np.repeat(inverse[few], np.diff(thin.indptr))
    shift = center[few] * inverse[few]
    weighted = dense if weight is None else dense * weight[:, None]
    heavy = thin if weight is None else thin.multiply(weight[:, None]).tocsc()
    across = thin.T @ weighted
    sums, total = across[:, -1], float(n if weight is None else weight.sum())
    inner = (thin.T @ heavy).toarray()
    inner -= np.outer(shift, sums)
    inner -= np.outer(sums - total * shift, shift)
    across -= np.outer(shift, weighted.sum(axis=0))
    at = np.concatenate([full, np.arange(p, p + targets.shape[1] + 1)])
    gram = np.empty((p + targets.shape[1] + 1,) * 2)
    gram[np.ix_(few, few)] = inner
    gram[np.ix_(few, at)] = across
    gram[np.ix_(at, few)] = across.T
    gram[np.ix_(at, at)] = weighted.T @ dense
    # Weights make products of sparse columns differ in their last bit by the order of the factors.
    upper = np.triu(gram)
    upper += np.triu(gram, 1).T
    return upper
