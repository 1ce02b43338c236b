"""Samples of rows for members of any kind, and bins that they share."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.ensembles.members import Rows
from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.shared.bagging import RowSampler

# Members that bin their table share its bins if their samples have at least this share of the rows:
# each works on the whole table, with weights of 0.
_LEAST_SHARE = 0.25


def sample_rows(
    rows: Rows, sampler: RowSampler, counts: np.ndarray, weighted: bool, whole: bool
) -> Rows:
    """Return the rows of a sample: weighted by their counts, or repeated as often."""
    if not weighted:
        return Rows.take(rows.weighted(None), np.repeat(np.arange(len(rows)), counts))
    weight = sampler.row_weight(counts)
    if whole:
        return rows.weighted(weight)
    used = np.flatnonzero(weight)
    own = weight[used]
    if sampler.weight is None and np.all(own == 1):
        return rows.weighted(None).take(used)
    return rows.take(used, own)


def bins_table(member: Any) -> bool:
    """Whether an estimator bins its whole table, by bins that do not change during the fit."""
    if not type(member).__module__.startswith("hybridtrees."):
        return False
    if hasattr(member, "tree_method"):
        return member.tree_method in ("hist", "auto")
    return getattr(member, "splitter", None) in ("hist", "auto") or hasattr(member, "max_bin")


def read_table(member: Any, rows: Rows) -> Any:
    """Return the table as a member reads it."""
    missing = getattr(member, "missing", None)
    return FeatureReader.fit(
        rows.columns.table,
        categorical_features=getattr(member, "categorical_features", None),
        missing=missing if isinstance(missing, float) else np.nan,
    )[1]


def is_large(sampler: RowSampler) -> bool:
    """Whether samples have so many rows that members should work on the whole table."""
    return sampler.n_drawn >= _LEAST_SHARE * sampler.n_rows
