"""`bin_to_disk`: builds a store from a source that need not fit into memory."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hybridtrees.core.bins.mapper import MAX_BINS, BinMapper
from hybridtrees.core.bins.sketch import check_integer
from hybridtrees.input.batches import BATCH_ROWS, Batch, located, open_batches
from hybridtrees.input.batches_learning import Survey, survey
from hybridtrees.input.columns import column_indices
from hybridtrees.input.targets import check_target_classification, check_target_regression
from hybridtrees.store.codecs import check_compression
from hybridtrees.store.layout import part_paths
from hybridtrees.store.reader import BinnedStore
from hybridtrees.store.schema import Schema
from hybridtrees.store.writer import StoreWriter, check_free

# Whole numbers of more values than this are stored as numbers, not as classes.
_MOST_CLASSES = 1 << 16
_LINES_EVERY = 2.0  # seconds


def bin_to_disk(
    source: Any,
    path: Any,
    *,
    target: Any = None,
    weight: Any = None,
    columns: Sequence[Any] | None = None,
    categorical_features: Any = None,
    missing: float | None = math.nan,
    max_bins: int = MAX_BINS,
    raw_features: Any = None,
    compression: str | None = "auto",
    n_jobs: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> BinnedStore:
    """Bin a table that need not fit into memory, and store it for any number of fits.

    The bins, and with them the models, are those of the table in memory, bit for bit. The source is
    read twice, once to learn the bins and once to write codes. Before that, columns of text and of
    categories and the weights are read; CSV files and batches are read as a whole.

    Parameters
    ----------
    source : path, glob or folder, list of paths, pyarrow Dataset, polars LazyFrame, table, batches
        Parquet or CSV files with the same columns, any table that models take, such as a memory
        map, or batches: an object that can be iterated over again and again, or a function that
        returns an iterator, of tables X, pairs (X, y) or triples (X, y, weight).
    path : path or list of paths
        Folder of the store; several for several disks.
    target, weight : str, int or array-like, optional
        A column of the source, or an entry for each row. Text, truth values and whole numbers are
        stored with all their different values, so that classifiers find their classes.
    columns : sequence of str or int, optional
        The features; default: all columns but target and weight.
    categorical_features : list of str, int or bool, optional
        Columns to be treated as categories besides those of text and category types.
    missing : float, default=NaN
        Number that means a missing value.
    max_bins : int, default=255
        Most bins of a feature.
    raw_features : bool or list of str, int or bool, optional
        Features whose values are stored besides their bins, as float32: for linear leaves. True:
        all that are not categories.
    compression : {"auto", "bits", "zstd", "lz4"} or None
        How chunks are stored if that saves at least a quarter.
    n_jobs : int, optional
        Threads; None and -1 mean all.
    overwrite : bool, default=False
        Whether to replace a store that is there already. The old one is lost as soon as blocks are
        written, even if writing fails later.
    progress : bool, default=False
        Whether to print lines about the progress to the error stream.

    Returns
    -------
    store : BinnedStore

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor, bin_to_disk
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> batches = [(X[:600], X[:600, 0]), (X[600:], X[600:, 0])]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with bin_to_disk(batches, f"{folder}/store") as store:
    ...         model = XGBRegressor(n_estimators=5).fit(store)
    >>> same = XGBRegressor(n_estimators=5).fit(X, X[:, 0])
    >>> bool((model.predict(X) == same.predict(X)).all())
    True
    """
    check_integer(max_bins, "max_bins", 2, MAX_BINS)
    check_compression(compression)
    check_free(part_paths(path), overwrite)
    batches = open_batches(
        source, target=target, weight=weight, columns=columns, batch_rows=BATCH_ROWS
    )
    lines = _Lines(progress)
    found = survey(batches, categorical_features=categorical_features, missing=missing)
    reader = found.reader
    raw = _raw_features(raw_features, found)
    labels = _Targets() if batches.has_target else None
    mapper = BinMapper(max_bins=max_bins, categorical_features=reader.is_categorical, n_jobs=n_jobs)
    mapper.fit_batches(_learned(found, labels, lines), found.n_usable)
    schema = Schema(
        mapper,
        None if reader.feature_names_in is None else reader.feature_names_in.tolist(),
        reader.categories,
        "none" if labels is None else labels.kind,
        classes=None if labels is None else labels.classes,
        weighted=batches.has_weight,
        raw_features=raw,
    )
    given: dict[str, Any] = {"compression": compression, "n_jobs": n_jobs, "overwrite": overwrite}
    with StoreWriter(path, schema, **given) as writer:
        first = 0
        for values, batch in found.values():
            y = None
            if labels is not None:
                with located(first, len(values)):
                    y = labels.encode(batch.y)
            writer.append(mapper.transform(values).columns.T, y, batch.weight, values)
            first += len(values)
            lines("written", first, found.n_rows)
    return BinnedStore(path)


def _learned(
    found: Survey, labels: _Targets | None, lines: _Lines
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield values and weights of batches, and note their targets."""
    first = 0
    for values, batch in found.values():
        if labels is not None:
            with located(first, len(values)):
                labels.see(_target_of(batch))
        yield values, batch.weight
        first += len(values)
        lines("learned", first, found.n_rows)


def _target_of(batch: Batch) -> np.ndarray:
    assert batch.y is not None
    return batch.y


def _raw_features(given: Any, found: Survey) -> list[int]:
    """Return the numbers of the features whose values are stored."""
    reader = found.reader
    if given is None or given is False:
        return []
    if given is True:
        return [int(f) for f in np.flatnonzero(~reader.is_categorical)]
    names = reader.feature_names_in
    chosen = column_indices(given, reader.n_features_in, names, "raw_features")
    for f in chosen:
        if reader.is_categorical[f]:
            raise ValueError(f"raw_features holds feature {f}, which has categories")
    return [int(f) for f in chosen]


class _Targets:
    """What the target is: numbers, or labels of classes."""

    def __init__(self) -> None:
        self._labels: np.ndarray | None = None  # different labels so far
        self._is_text: bool | None = None
        self._numbers = False  # whether there were fractions, or too many labels

    def see(self, y: np.ndarray) -> None:
        """Note the targets of some rows."""
        if y.dtype.kind == "S":
            raise TypeError("target holds bytes; labels must be text or numbers")
        is_text = _holds_text(y)
        if self._is_text not in (None, is_text):
            raise ValueError("target holds text in some rows and numbers in others")
        self._is_text = is_text
        if not is_text and y.dtype.kind not in "biu":
            check_target_regression(y, name="target")
            self._numbers = True
        elif not self._numbers:
            own = check_target_classification(y, name="target")[1]
            known = own if self._labels is None else np.concatenate([self._labels, own])
            self._labels = np.unique(known)
            self._numbers = not is_text and len(self._labels) > _MOST_CLASSES

    @property
    def kind(self) -> Any:
        """What the schema calls it."""
        return "numbers" if self._numbers else "classes"

    @property
    def classes(self) -> np.ndarray | None:
        """Labels of the classes, None for numbers."""
        return None if self._numbers else self._labels

    def encode(self, y: np.ndarray | None) -> np.ndarray:
        """Return targets as the writer takes them."""
        assert y is not None
        if self._numbers:
            return check_target_regression(y, name="target")
        return check_target_classification(y, classes=self._labels, name="target")[0]


def _holds_text(y: np.ndarray) -> bool:
    """Whether a target holds text."""
    return y.dtype.kind in "UST" or (
        y.dtype.kind == "O" and any(isinstance(value, str) for value in y)
    )


class _Lines:
    """Lines about the progress, on the error stream."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._start = wanted, time.perf_counter()
        self._next = 0.0

    def __call__(self, done: str, n: int, n_rows: int) -> None:
        elapsed = time.perf_counter() - self._start
        if not self._wanted or (elapsed < self._next and n < n_rows):
            return
        self._next = elapsed + _LINES_EVERY
        with suppress(OSError):  # nobody reads
            print(f"{done} {n:,} of {n_rows:,} rows  {elapsed:.1f} s", file=sys.stderr, flush=True)
