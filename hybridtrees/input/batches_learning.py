"""What a fit must know of a table before it can read values: features, categories, weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.input.batches import Batch, Batches, located
from hybridtrees.input.sources import Source, open_source
from hybridtrees.input.targets import check_total_weight
from hybridtrees.input.validation import (
    FeatureReader,
    _categorical_mask,
    _check_missing,
    feature_names,
)


@dataclass
class Survey:
    """The features of a source, as `FeatureReader.fit` learns them, and its rows."""

    batches: Batches
    reader: FeatureReader
    n_rows: int
    n_usable: int  # rows of positive weight

    def values(self) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yield the values of each batch, and the batch."""
        first = 0
        for batch in self.batches:
            n_rows = batch.n_rows
            with located(first, n_rows):
                values = self.reader.read_codes(batch.X)
            yield values if isinstance(values, np.ndarray) else values.toarray(), batch
            first += n_rows


def survey(
    batches: Batches,
    *,
    categorical_features: Any = None,
    missing: float | None = math.nan,
    estimator_name: str = "the estimator",
) -> Survey:
    """Learn the features of a source.

    Only columns of categories and weights are read, and nothing where there are none, if the
    columns have types that hold for all rows.
    """
    missing = _check_missing(missing)
    features = _Features(categorical_features, missing)
    features.open(next(iter(batches)).X)
    n_usable = batches.n_rows
    if batches.has_weight or features.any_categories or not batches.is_typed or n_usable is None:
        part, places = batches, np.arange(features.n_features)
        if batches.is_typed:
            places = np.flatnonzero(features.is_category)
            part = batches.of_columns(places if len(places) else np.arange(1))
        first, n_usable, total = 0, 0, 0.0
        for batch in part:
            n_rows = batch.n_rows
            with located(first, n_rows):
                features.learn(batch.X, places)
            weight = batch.weight
            n_usable += n_rows if weight is None else int(np.count_nonzero(weight))
            total += n_rows if weight is None else float(weight.sum())
            first += n_rows
        if batches.has_weight:
            check_total_weight(total, "weight")
        batches.n_rows = part.n_rows
    assert batches.n_rows is not None and n_usable is not None
    return Survey(batches, features.reader(estimator_name), batches.n_rows, n_usable)


class _Features:
    """Names and categories of columns, learned batch by batch."""

    def __init__(self, declared: Any, missing: float) -> None:
        self._declared, self._missing = declared, missing
        self.n_features = 0

    def open(self, X: Any) -> None:
        """Look at the first rows."""
        source = self._source(X, None)
        self._names = feature_names(source.names)
        self.n_features = source.shape[1]
        self._chosen = _categorical_mask(self._declared, self.n_features, self._names)
        self.is_category = self._chosen | np.array(
            [source.is_category(j) for j in range(self.n_features)], dtype=bool
        )
        self._labels: dict[int, _Labels] = {}

    @property
    def any_categories(self) -> bool:
        """Whether there are columns of categories."""
        return bool(self.is_category.any())

    def learn(self, X: Any, places: np.ndarray) -> None:
        """Learn from rows with the columns at these places."""
        source = self._source(X, places)
        for own, j in enumerate(places):
            if self._chosen[j] or source.is_category(own):
                self.is_category[j] = True
                labels = self._labels.setdefault(int(j), _Labels())
                labels.add(source.learn(own), source.order(own))

    def _source(self, X: Any, places: np.ndarray | None) -> Source:
        def declared(n_columns: int) -> np.ndarray:
            if places is None:
                return _categorical_mask(self._declared, n_columns, None)
            chosen: np.ndarray = self._chosen[places]
            return chosen

        return open_source(X, self._missing, declared)

    def reader(self, estimator_name: str) -> FeatureReader:
        """Return the reader of the features."""
        categories = [
            self._labels[j].all() if j in self._labels else None for j in range(self.n_features)
        ]
        return FeatureReader(
            self.n_features, self._names, categories, self._missing, estimator_name
        )


class _Labels:
    """Labels that occur in a column."""

    def __init__(self) -> None:
        self._used: set[Any] = set()
        self._order: dict[Any, None] = {}  # those of a category dtype, used or not
        self._is_ordered = False
        self._dtype: Any = None

    def add(self, used: np.ndarray, order: np.ndarray | None) -> None:
        """Add the labels of some rows."""
        if self._dtype is None or not self._used:
            self._dtype = used.dtype
        elif len(used) and used.dtype != self._dtype:
            raise ValueError("a column holds numbers in some rows and text in others")
        self._used.update(used.tolist())
        if order is not None:
            self._is_ordered = True
            self._order.update(dict.fromkeys(order.tolist()))

    def all(self) -> np.ndarray:
        """Return the labels in the order of their codes."""
        in_order = [label for label in self._order if label in self._used]
        labels = in_order if self._is_ordered else sorted(self._used)
        return np.array(labels, dtype=self._dtype)
