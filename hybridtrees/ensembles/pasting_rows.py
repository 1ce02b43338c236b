"""Rows of a table for pasting: in memory, on disk as one array, or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees._parameters import is_classifier
from hybridtrees.input._user_tables import Columns, open_columns
from hybridtrees.input.targets import (
    check_sample_weight,
    check_target_classification,
    check_target_regression,
)
from hybridtrees.input.validation import FeatureReader, feature_names

# Candidates of this and the next members that are read in one pass over batches, in multiples of
# the size of a precinct.
PRECINCTS_PER_PASS = 64

# Rows of the first batch that decide about the kinds of columns.
_FIRST_ROWS = 1000


@dataclass
class TableRows:
    """Rows of an array, perhaps a memory map, or of a sparse table."""

    values: Any
    target: np.ndarray

    def take(self, member: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, in C order, and targets of some rows."""
        part = self.values[rows]
        part = part.toarray() if hasattr(part, "toarray") else part
        return np.ascontiguousarray(part), self.target[rows]


@dataclass
class BatchInfo:
    """What one pass over all batches has shown."""

    sizes: list[int]
    weight: np.ndarray | None
    classes: np.ndarray | None
    reader: FeatureReader
    dtype: Any  # of the values
    codes: np.ndarray | None = None  # positions of the labels, for weights of classes

    @property
    def n_rows(self) -> int:
        """Number of rows in all batches."""
        return sum(self.sizes)


def open_batches(batches: Any) -> Iterator[tuple[Columns, Any, Any]]:
    """Yield table, target and weights, None without any, of each batch."""
    again = batches() if callable(batches) else iter(batches)
    for number, batch in enumerate(again):
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise ValueError(
                "each of the batches must be a pair (X, y) or a triple (X, y, sample_weight), got "
                f"{type(batch).__name__} as batch {number}"
            )
        X, y, *weight = batch
        yield open_columns(X), y, weight[0] if weight else None


def scan_batches(batches: Any, owner: Any) -> BatchInfo:
    """Go through all batches once: check them, count rows, collect classes and weights."""
    if not callable(batches) and iter(batches) is batches:
        raise TypeError(
            "batches must be readable more than once: a list or another object with __iter__, or a "
            f"function that returns an iterator, got the iterator {type(batches).__name__}"
        )
    name = type(owner).__name__
    info: BatchInfo | None = None
    sizes: list[int] = []
    weights: list[np.ndarray | None] = []
    codes: list[np.ndarray] = []  # among the labels of the batch
    labels: list[np.ndarray] = []
    for columns, y, given in open_batches(batches):
        n_rows = int(columns.shape[0])
        if info is None:
            info = _first_batch(columns, name)
        info.reader.check_features(columns)
        # Checked when all are known: a batch may have no row of positive weight.
        weight = None if given is None else np.asarray(given, dtype=np.float64)
        if weight is not None and weight.shape != (n_rows,):
            raise ValueError(
                f"sample_weight must have one entry for each of the {n_rows} rows of a batch, got "
                f"an array of shape {weight.shape}"
            )
        if is_classifier(owner):
            own, seen = check_target_classification(y, n_rows, estimator_name=name)
            labels.append(seen)
            if getattr(owner, "class_weight", None) is not None:
                codes.append(own)
        else:
            check_target_regression(y, n_rows, estimator_name=name)
        sizes.append(n_rows)
        weights.append(weight)
    if info is None:
        raise ValueError("batches must hold at least one batch, got none")
    missing = [weight is None for weight in weights]
    if any(missing) and not all(missing):
        raise ValueError("sample_weight must be given with all batches or with none")
    if not any(missing):
        joined = np.concatenate([weight for weight in weights if weight is not None])
        info.weight = check_sample_weight(joined, sum(sizes))
    info.sizes = sizes
    if labels:
        info.classes = classes = np.unique(np.concatenate(labels))
        if codes:
            places = [np.searchsorted(classes, own) for own in labels]
            parts = [place[own] for place, own in zip(places, codes, strict=True)]
            info.codes = np.concatenate(parts)
    return info


def _first_batch(columns: Columns, name: str) -> BatchInfo:
    """Learn the features from the first batch."""
    few = columns.take(np.arange(min(_FIRST_ROWS, columns.shape[0])))
    reader, values = FeatureReader.fit(few.table, estimator_name=name)
    if reader.is_categorical.any():
        column = int(np.flatnonzero(reader.is_categorical)[0])
        names = feature_names(columns.names)
        label = column if names is None else names[column]
        raise ValueError(
            f"batches must hold numbers, but column {label!r} holds categories, of which a batch "
            "may show some only: encode them as numbers"
        )
    return BatchInfo([], None, None, reader, values.dtype)


class BatchRows:
    """Rows of batches: one pass gathers the candidates of several members."""

    def __init__(
        self, batches: Any, info: BatchInfo, ahead: Callable[[int, int], np.ndarray], size: int
    ) -> None:
        self._batches, self._info, self._ahead, self._size = batches, info, ahead, size
        self._rows = np.zeros(0, dtype=np.int64)
        self._values = np.zeros((0, info.reader.n_features_in), dtype=info.dtype)
        self._target: np.ndarray = np.zeros(0)
        self.n_passes = 0

    def take(self, member: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values and targets of rows, which are ascending and distinct."""
        at = np.searchsorted(self._rows, rows)
        if not len(self._rows) or not np.array_equal(self._rows[at % len(self._rows)], rows):
            self._gather(np.union1d(rows, self._ahead(member, PRECINCTS_PER_PASS * self._size)))
            at = np.searchsorted(self._rows, rows)
        return self._values[at], self._target[at]

    def _gather(self, rows: np.ndarray) -> None:
        """Read these rows in one pass."""
        info = self._info
        values = np.empty((len(rows), info.reader.n_features_in), dtype=info.dtype)
        target = np.empty(len(rows), dtype=np.float64 if info.classes is None else np.int32)
        first, sizes = 0, []
        for columns, y, _ in open_batches(self._batches):
            sizes.append(int(columns.shape[0]))
            if first + sizes[-1] > info.n_rows:
                break
            low, high = np.searchsorted(rows, [first, first + sizes[-1]])
            if high > low:
                own = (rows[low:high] - first).astype(np.intp)
                part = info.reader.read(columns.take(own).table)
                values[low:high] = part.toarray() if hasattr(part, "toarray") else part
                target[low:high] = self._encode(np.asarray(y)[own])
            first += sizes[-1]
        if sizes != info.sizes:
            raise ValueError(
                "batches must give the same rows whenever they are read: the numbers of their rows "
                f"were {info.sizes}, then {sizes}"
            )
        self._rows, self._values, self._target = rows, values, target
        self.n_passes += 1

    def _encode(self, y: np.ndarray) -> np.ndarray:
        n_rows, name = len(y), self._info.reader.estimator_name
        if self._info.classes is None:
            return check_target_regression(y, n_rows, estimator_name=name).ravel()
        known = self._info.classes
        return check_target_classification(y, n_rows, classes=known, estimator_name=name)[0]
