"""Warm start of forests: checks that the data and parameters are the same, and reuse of errors."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.forest.out_of_bag import OutOfBag

# Rows that a checksum reads at a time.
_CHECKSUM_ROWS = 8192

# Changes, and the changes that follow from them and need not be reported.
_EFFECTS = (
    (("X", "y"), ("class_weight", "sample_weight", "max_samples", "max_features")),
    (("class_weight",), ("sample_weight", "max_samples")),
    (("sample_weight",), ("max_samples",)),
)


def checksum(values: Any) -> int:
    """Return a checksum of a table, the same for any dtype."""
    found = zlib.crc32(np.array(values.shape, dtype=np.int64).data)
    if isinstance(values, BinnedTable):
        values = values.load(1).columns.T
    if hasattr(values, "tocsr"):
        values = values.tocsr()
        for part in (values.indices, values.indptr):
            found = zlib.crc32(part.astype(np.int64), found)
        values = values.data
    for start in range(0, len(values), _CHECKSUM_ROWS):
        block = np.ascontiguousarray(values[start : start + _CHECKSUM_ROWS], dtype=np.float64)
        found = zlib.crc32(block.data, found)
    return found


def columns_checksum(reader: FeatureReader) -> int:
    """Return a checksum of the names and the categories of columns."""
    labels = [None if found is None else list(found) for found in reader.categories]
    names = None if reader.feature_names_in is None else list(reader.feature_names_in)
    return zlib.crc32(repr((reader.n_features_in, names, labels)).encode())


def target_checksum(target: np.ndarray, labels: np.ndarray | None = None) -> int:
    """Return a checksum of a target, with the labels of its codes."""
    own = checksum(target)
    return own if labels is None else zlib.crc32(repr(labels.tolist()).encode(), own)


def continue_oob(
    oob: OutOfBag,
    earlier: dict[str, Any],
    sampler: RowSampler,
    predict: Callable[[int, np.ndarray], np.ndarray],
) -> list[float]:
    """Add the out-of-bag predictions of an earlier fit; return the error after each tree.

    If that fit had no `oob_score`, ``predict(tree, rows)`` computes them.
    """
    if "_oob_sums" not in earlier:
        curve = []
        for tree, seed in enumerate(earlier["_draw_seeds"]):
            rows = sampler.out_of_bag(sampler.counts(int(seed)))
            curve.append(oob.add_values(rows, predict(tree, rows)))
        return curve
    before = earlier.get("_oob_metric", oob.metric.name)  # older linear forests lack it
    if before != oob.metric.name:
        raise ValueError(
            "warm_start=True continues oob_curve_, but oob_score changed its metric from "
            f"{before!r} to {oob.metric.name!r}"
        )
    oob.sums = earlier["_oob_sums"].copy()
    oob.counts = earlier["_oob_counts"].copy()
    return list(earlier["oob_curve_"])


def check_same_growth(
    before: dict[str, Any], now: dict[str, Any], forest: str = "the fitted forest"
) -> None:
    """Refuse to add trees to those of other data or parameters, and name what has changed."""
    changed = [name for name, value in now.items() if before.get(name) != value]
    for causes, effects in _EFFECTS:
        if any(cause in changed for cause in causes):
            changed = [name for name in changed if name not in effects]
    if changed:
        raise ValueError(
            f"warm_start=True continues {forest}, but {', '.join(changed)} changed since it was "
            "grown; only n_estimators, oob_score, keep_rows (where there is one), n_jobs and "
            "verbose may change"
        )
