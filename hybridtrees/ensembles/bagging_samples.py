"""Samples of rows for members of any kind, bins that they share, and progress."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

from hybridtrees.ensembles.members import Rows
from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.shared.bagging import RowSampler

# Members that bin their table share its bins if their samples have at least this share of the rows:
# each works on the whole table, with weights of 0.
_LEAST_SHARE = 0.25


class Progress:
    """Prints a line every so many members; called by several threads."""

    def __init__(self, verbose: int, n_members: int) -> None:
        self._every, self._n_members = int(verbose), n_members
        self._start, self._done = time.perf_counter(), 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Note that one more member is done."""
        with self._lock:
            self._done += 1
            done, left = self._done, self._n_members - self._done
            if not self._every or (done % self._every and left):
                return
            elapsed = time.perf_counter() - self._start
            to_go = f"at most {elapsed / done * left:.1f} s to go"
            print(f"[{done}]  {elapsed:.1f} s, {to_go}", file=sys.stdout, flush=True)


def sample_rows(
    rows: Rows, sampler: RowSampler, counts: np.ndarray, weighted: bool, whole: bool
) -> Rows:
    """Return the rows of a sample: weighted by how often each is in it, or as often as it is."""
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
