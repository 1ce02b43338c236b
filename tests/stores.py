"""Stores for tests: tables with ties, missing values and categories, written in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.store.reader import BinnedStore
from hybridtrees.store.schema import Schema
from hybridtrees.store.writer import StoreWriter


@dataclass
class Rows:
    """A table with targets."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    categorical: tuple[int, ...] = ()

    def take(self, part: slice) -> Rows:
        weight = None if self.weight is None else self.weight[part]
        return Rows(self.X[part], self.y[part], weight, self.categorical)


def make_rows(n: int, p: int = 6, seed: int = 0, *, weighted: bool = False, missing: float = 0.1):
    """Columns of many values, of few, of one, of categories, and with missing values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(np.float32)
    X[:, 1] = rng.integers(0, 4, n)
    if p > 2:
        X[:, 2] = 1.0
    if p > 3:
        X[:, 3] = rng.integers(0, 9, n)
    if p > 4:
        X[rng.random(n) < missing, 4] = np.nan
    y = 2 * X[:, 0] + (X[:, 1] == 2) + rng.normal(size=n)
    weight = rng.integers(1, 5, n).astype(np.float64) if weighted else None
    return Rows(X, y, weight, (3,) if p > 3 else ())


def write_store(
    path: Any, rows: Rows, *, pieces: int = 3, max_bins: int = 255, **options: Any
) -> BinnedStore:
    """Write a store of all rows in some pieces, and open it."""
    classes = options.pop("classes", None)
    raw_features = options.pop("raw_features", ())
    mapper = BinMapper(max_bins=max_bins, categorical_features=list(rows.categorical))
    binned = mapper.fit_transform(rows.X, rows.weight)
    labels = [None] * rows.X.shape[1]
    for f in rows.categorical:
        labels[f] = np.arange(np.nanmax(rows.X[:, f]) + 1)
    y = rows.y if classes is None else np.searchsorted(classes, rows.y)
    schema = Schema(
        mapper,
        categories=labels,
        target="numbers" if classes is None else "classes",
        n_targets=1 if y.ndim == 1 else y.shape[1],
        classes=classes,
        weighted=rows.weight is not None,
        raw_features=raw_features,
    )
    with StoreWriter(path, schema, **options) as writer:
        append_rows(writer, binned.columns.T, y, rows, pieces)
    return BinnedStore(path)


def append_rows(writer: StoreWriter, codes: np.ndarray, y: np.ndarray, rows: Rows, pieces: int):
    cuts = np.linspace(0, len(codes), pieces + 1).astype(int)
    for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
        part = rows.take(slice(start, stop))
        writer.append(codes[start:stop], y[start:stop], part.weight, part.X)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())
