"""BinMapper: learns the bins of columns and encodes their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.errors import NotFittedError
from hybridtrees.core.base.random_state import spawn_seeds
from hybridtrees.core.bins import _bins
from hybridtrees.core.bins import columns as tables
from hybridtrees.core.bins.batches import RowsInBatches, weighted_tables
from hybridtrees.core.bins.matrix import BinnedMatrix, empty_codes
from hybridtrees.core.bins.shared import BIN_STORE
from hybridtrees.core.bins.sketch import QuantileSketch, check_integer, check_weights
from hybridtrees.core.bins.stored import StoredBins

Floats = NDArray[np.float64]

MAX_BINS = int(Limit.MAX_BINS)
# Finding the bin of a value takes less time than other work on it.
_VALUES_PER_THREAD = 65_536


class BinMapper:
    """Learns up to 255 bins for each column and turns tables into bin codes.

    A numeric column with at most `max_bins` distinct values has one bin for each, with edges at the
    midpoints of neighbours. Any other is cut into bins of similar weight, at midpoints of
    neighbouring values; a value heavier than an even share of the rest has its own bin. Missing
    values have a bin after all others.

    Parameters
    ----------
    max_bins : int, default=255
        Maximum number of value bins of a column, 2 to 255.
    categorical_features : array-like of int or bool, default=None
        Columns that hold category codes 0, 1, ..., below 2**24: their numbers, or a mask.
    subsample : int or None, default=200_000
        `fit` computes quantiles from a random sample of at most so many rows; None: from all rows.
        Distinct values and categories are counted over all rows.
    random_state : int, SeedSequence, Generator, RandomState or None, default=0
        Seed of the sample.
    n_jobs : int or None, default=None
        Threads; None and -1 mean all. The result does not depend on it.

    Attributes
    ----------
    bin_edges_ : list of (float64 ndarray or None)
        Ascending edges of each numeric column: bin b holds ``edges[b - 1] < x <= edges[b]``.
    n_bins_ : int32 ndarray of shape (n_features,)
        Number of value bins; 1 for a column that is constant or always missing.
    missing_bin_ : int32 ndarray of shape (n_features,)
        Code of missing values, equal to `n_bins_`.
    is_categorical_ : uint8 ndarray of shape (n_features,)
    category_to_bin_ : list of (uint8 ndarray or None)
        Bin of each category code of a categorical column. Codes up to `max_bins` - 1 are the bins.
        With larger codes, the categories of the table get bins in their order; if there are more
        than `max_bins`, the heaviest ``max_bins - 1`` do and the others share the last bin.
        Categories that are not in the table, negative codes and NaN are missing.
    n_features_in_ : int

    Notes
    -----
    `partial_fit` keeps a `QuantileSketch` of each numeric column, and its distinct values while
    there are at most `max_bins`. With so few values the bins are those of `fit` on all batches
    together; otherwise the rank error of edges is at most 1 / (8 max_bins) of the weight. Rows of
    weight 0 do not count. Sparse input is not made dense.

    `fit_batches` finds the bins of `fit`, where rows can be read twice or their number is known.

    Examples
    --------
    >>> mapper = BinMapper().fit([[1.0], [2.0], [4.0]])
    >>> mapper.bin_edges_[0]
    array([1.5, 3. ])
    >>> mapper.transform([[1.7], [float("nan")]]).columns
    array([[1, 3]], dtype=uint8)
    """

    _sketches: list[QuantileSketch] | None

    def __init__(
        self,
        *,
        max_bins: int = MAX_BINS,
        categorical_features: ArrayLike | None = None,
        subsample: int | None = 200_000,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self._forget()
        check_integer(max_bins, "max_bins", 2, MAX_BINS)
        if subsample is not None:
            check_integer(subsample, "subsample", 1)
        self.max_bins = int(max_bins)
        self.categorical_features = categorical_features
        self.subsample = subsample
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def of_bins(
        cls, settled: tables.Settled, is_categorical: NDArray[np.uint8], max_bins: int
    ) -> BinMapper:
        """Return a mapper with bins that another one has learned, for `transform`."""
        mapper = cls(max_bins=max_bins, categorical_features=is_categorical.astype(bool))
        mapper._start(is_categorical)
        mapper._settled = settled
        return mapper

    def fit(self, X: Any, sample_weight: ArrayLike | None = None) -> BinMapper:
        """Learn the bins of a table; earlier bins are dropped.

        Parameters
        ----------
        X : array-like or CSR/CSC matrix of shape (n, p)
            Real numbers; NaN are missing, infinities an error.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows, for quantiles and counts of categories.

        Returns
        -------
        self
        """
        self._fit(tables.as_table(X), sample_weight)
        return self

    def fit_batches(self, batches: Iterable[Any], n_rows: int | None = None) -> BinMapper:
        """Learn the bins of a table that comes in batches: those that `fit` finds for all rows.

        Parameters
        ----------
        batches : iterable
            Tables of rows, or pairs of a table and the weights of its rows. It is read once, and
            once more before that if `n_rows` is not given: it must not be an iterator then.
        n_rows : int, default=None
            Number of rows, of those with a positive weight if there are weights.

        Returns
        -------
        self
        """
        if n_rows is None:
            if isinstance(batches, Iterator):
                raise TypeError(
                    "batches must be readable more than once unless n_rows is given, got "
                    f"{type(batches).__name__}"
                )
            parts = weighted_tables(batches)
            n_rows = sum(len(X) if w is None else int(np.count_nonzero(w)) for X, w in parts)
        check_integer(n_rows, "n_rows", 1)
        gathered, n_threads = None, 1
        for table, weights in weighted_tables(batches):
            if gathered is None:
                mask = self._categorical_mask(table.shape[1])
                drawn = self._draw(int(n_rows), int(spawn_seeds(self.random_state, 1)[0]))
                gathered = RowsInBatches(mask, drawn, self.max_bins)
            elif table.shape[1] != len(mask):
                raise ValueError(
                    f"all batches must have the {len(mask)} columns of the first, got "
                    f"{table.shape[1]}"
                )
            n_threads = self._threads(table)
            gathered.add(table, weights, n_threads)
        if gathered is None or gathered.n_usable != n_rows:
            found = 0 if gathered is None else gathered.n_usable
            raise ValueError(f"batches must hold n_rows = {n_rows} rows, got {found}")
        self._keep(mask, *gathered.settled(n_threads))
        return self

    def fit_transform(self, X: Any, sample_weight: ArrayLike | None = None) -> BinnedMatrix:
        """`fit`, then `transform` the same table."""
        return self.fit_encode(X, sample_weight).dense()

    def fit_encode(
        self, X: Any, sample_weight: ArrayLike | None = None
    ) -> BinnedMatrix | StoredBins:
        """`fit_transform`, but the codes of a sparse table stay sparse."""
        table, store = tables.as_table(X), BIN_STORE.get()
        if store is None or not isinstance(table, np.ndarray):
            return self._encode(table, self._fit(table, sample_weight))

        def fit_encode(table: Any, weight: Any) -> tuple[dict[str, Any], BinnedMatrix | StoredBins]:
            n_threads = self._fit(table, weight)
            return dict(self.__dict__), self._encode(table, n_threads)

        def encode(learned: dict[str, Any], table: Any) -> BinnedMatrix | StoredBins:
            self.__dict__.update(learned, n_jobs=self.n_jobs)
            return self._encode(table, self._threads(table))

        recipe = (self.max_bins, self.subsample, self.random_state, self.categorical_features)
        learned, binned = store.fetch(recipe, table, sample_weight, fit_encode, encode)
        self.__dict__.update(learned, n_jobs=self.n_jobs)
        return binned

    def transform(self, X: Any) -> BinnedMatrix:
        """Turn a table into codes.

        Parameters
        ----------
        X : array-like or CSR/CSC matrix of shape (n, n_features)

        Returns
        -------
        BinnedMatrix
        """
        self._settle()
        table = tables.as_table(X)
        self._check_columns(table.shape[1])
        n_threads = self._threads(table)
        return self._encode(table, n_threads).dense(n_threads)

    def partial_fit(self, X: Any, sample_weight: ArrayLike | None = None) -> BinMapper:
        """Learn from one more batch of rows; a batch that raises an error has no effect.

        Parameters
        ----------
        X, sample_weight
            As for `fit`.

        Returns
        -------
        self
        """
        if self._sketches is None and self._settled is not None:
            raise ValueError("partial_fit cannot continue after fit: use a new BinMapper")
        table = tables.as_table(X)
        if self._sketches is not None:
            self._check_columns(table.shape[1])
        mask = self._categorical_mask(table.shape[1])
        table, weights = self._check_rows(table, sample_weight)
        n_threads = self._threads(table)
        learned = tables.learn(table, weights, mask, self.max_bins, n_threads)
        if self._sketches is None:
            self._start(mask)
            error = tables.sketch_error(self.max_bins)
            self._sketches = [QuantileSketch(error) for _ in np.flatnonzero(mask == 0)]
        rows = np.arange(table.shape[0])
        numeric = np.flatnonzero(mask == 0)
        tables.update_sketches(self._sketches, table, weights, rows, numeric, n_threads)
        self._join(learned)
        return self

    def merge(self, other: BinMapper) -> BinMapper:
        """Add what `other` has learned by `partial_fit`; `other` is not changed.

        Parameters
        ----------
        other : BinMapper
            With the same `max_bins` and the same columns.

        Returns
        -------
        self
        """
        if not isinstance(other, BinMapper):
            raise TypeError(f"other must be a BinMapper, got {type(other).__name__}")
        if self._sketches is None or other._sketches is None:
            raise ValueError("merge needs two mappers that have learned by partial_fit")
        if self.max_bins != other.max_bins or not np.array_equal(
            self.is_categorical_, other.is_categorical_
        ):
            raise ValueError("other must have the same max_bins and the same kinds of columns")
        for mine, others in zip(self._sketches, other._sketches, strict=True):
            mine.merge(others)
        assert other._learned is not None
        self._join(other._learned)
        return self

    @property
    def bin_edges_(self) -> list[Floats | None]:
        """Ascending edges of each numeric column, None for a categorical one."""
        return self._settle().edges

    @property
    def n_bins_(self) -> NDArray[np.int32]:
        """Value bins of each column."""
        return self._settle().n_bins

    @property
    def missing_bin_(self) -> NDArray[np.int32]:
        """Code of a missing value in each column."""
        return self._settle().n_bins

    @property
    def category_to_bin_(self) -> list[NDArray[np.uint8] | None]:
        """Bin of each category code of a categorical column, None for a numeric one."""
        return self._settle().category_to_bin

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_codecs": {}}

    def __repr__(self) -> str:
        known = self._learned is not None or self._settled is not None
        fitted = f", {self.n_features_in_} columns" if known else ""
        return f"BinMapper(max_bins={self.max_bins}{fitted})"

    def _start(self, mask: NDArray[np.uint8]) -> None:
        """Set the kinds of columns, and drop what was learned."""
        self.is_categorical_ = mask
        self.n_features_in_ = len(mask)
        self._forget()

    def _forget(self) -> None:
        self._learned: tables.Learned | None = None
        self._sketches = None
        self._settled: tables.Settled | None = None
        self._codecs: dict[np.dtype, _bins.BinCodec] = {}

    def _keep(
        self, mask: NDArray[np.uint8], learned: tables.Learned, settled: tables.Settled
    ) -> None:
        """Set the bins."""
        self._start(mask)
        self._learned, self._settled = learned, settled

    def _fit(self, table: Any, sample_weight: ArrayLike | None) -> int:
        """Learn the bins; returns the number of threads for the table."""
        mask = self._categorical_mask(table.shape[1])
        table, weights = self._check_rows(table, sample_weight)
        n_threads = self._threads(table)
        seed = int(spawn_seeds(self.random_state, 1)[0])
        rows = self._sample(table.shape[0], weights, seed)
        learned = tables.learn(table, weights, mask, self.max_bins, n_threads)
        many = learned.many(mask)
        cuts = tables.sample_cuts(table, weights, rows, many, self.max_bins, n_threads)
        self._keep(mask, learned, tables.settle(learned, mask, cuts, self.max_bins))
        return n_threads

    def _join(self, learned: tables.Learned) -> None:
        self._learned = (
            learned if self._learned is None else self._learned.joined(learned, self.max_bins)
        )
        self._settled, self._codecs = None, {}

    def _sample(self, n_rows: int, weights: Floats | None, seed: int) -> NDArray[np.int64]:
        """Rows of positive weight for the quantiles."""
        rows = None if weights is None else np.flatnonzero(weights)
        drawn = self._draw(n_rows if rows is None else len(rows), seed)
        if drawn is None:
            return np.arange(n_rows) if rows is None else rows
        return drawn if rows is None else rows[drawn]

    def _draw(self, n_usable: int, seed: int) -> NDArray[np.int64] | None:
        """Numbers of the rows of the sample among the usable ones, None for all of them."""
        if self.subsample is None or n_usable <= self.subsample:
            return None
        return _bins.sample_rows(n_usable, self.subsample, seed)

    def _settle(self) -> tables.Settled:
        """Edges and bins from what was learned so far."""
        if self._settled is not None:
            return self._settled
        learned = self._learned
        if learned is None:
            raise NotFittedError("this BinMapper is not fitted: call fit or partial_fit first")
        mask = self.is_categorical_
        assert self._sketches is not None  # `fit` settles at once
        sketch_of = dict(zip(np.flatnonzero(mask == 0), self._sketches, strict=True))
        cuts = [sketch_of[f].cuts(self.max_bins) for f in learned.many(mask)]
        self._settled = tables.settle(learned, mask, cuts, self.max_bins)
        return self._settled

    def _encode(self, table: Any, n_threads: int) -> BinnedMatrix | StoredBins:
        settled = self._settle()
        codec = self._codecs.get(table.dtype)
        if codec is None:
            codec = self._codecs[table.dtype] = settled.codec(table.dtype, self.is_categorical_)
        encode = _encode_dense if isinstance(table, np.ndarray) else _encode_stored
        return encode(table, codec, settled, self.is_categorical_.copy(), n_threads)

    def _threads(self, table: Any) -> int:
        """Return the number of threads for a table."""
        from hybridtrees.core.base.threads import table_threads  # late: imports take time

        # The size of a sparse table is the number of its stored values.
        return table_threads(self.n_jobs, table.size, 1, _VALUES_PER_THREAD)

    def _check_rows(self, table: Any, sample_weight: ArrayLike | None) -> tuple[Any, Any]:
        """Table and weights; a sparse table without its rows of weight 0."""
        n_rows = table.shape[0]
        if n_rows == 0:
            raise ValueError("X must have at least one row, got none")
        if sample_weight is None:
            return table, None
        weights = check_weights(sample_weight, n_rows, "sample_weight")
        if not 0.0 < weights.sum() < np.inf:
            raise ValueError(f"sample_weight must have a positive finite sum, got {weights.sum()}")
        if tables.is_sparse(table) and not weights.all():
            table, weights = table[weights > 0.0].tocsc(), weights[weights > 0.0]
        return table, weights

    def _check_columns(self, n_columns: int) -> None:
        if n_columns != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} columns as in fit, got {n_columns}"
            )

    def _categorical_mask(self, n_columns: int) -> NDArray[np.uint8]:
        mask = np.zeros(n_columns, dtype=np.uint8)
        if self.categorical_features is None:
            return mask
        chosen = np.asarray(self.categorical_features)
        if chosen.size == 0:
            return mask
        if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
            raise TypeError("categorical_features must be column numbers or a boolean mask")
        if chosen.dtype == bool and len(chosen) != n_columns:
            raise ValueError(
                f"categorical_features must be a mask of length {n_columns}, got {len(chosen)}"
            )
        if chosen.dtype != bool and not -n_columns <= chosen.min() <= chosen.max() < n_columns:
            raise ValueError(
                f"categorical_features must lie within the {n_columns} columns, got {chosen}"
            )
        mask[chosen] = 1
        return mask


def _encode_dense(
    table: NDArray,
    codec: _bins.BinCodec,
    settled: tables.Settled,
    is_categorical: NDArray[np.uint8],
    n_threads: int,
) -> BinnedMatrix:
    records, columns = empty_codes(*table.shape)
    has_missing = np.zeros(table.shape[1], dtype=np.uint8)
    if len(table) and _bins.encode_table(table, codec, records, columns, has_missing, n_threads):
        tables.raise_infinite(table)
    kinds = settled.n_bins.copy(), has_missing, is_categorical
    return BinnedMatrix(records, columns, *kinds, list(settled.edges))


def _encode_stored(
    table: Any,
    codec: _bins.BinCodec,
    settled: tables.Settled,
    is_categorical: NDArray[np.uint8],
    n_threads: int,
) -> StoredBins:
    data, indices, start = tables.csc_arrays(table)
    codes = np.empty(len(data), dtype=np.uint8)
    zero_codes, has_missing = np.zeros((2, table.shape[1]), dtype=np.uint8)
    n_rows = table.shape[0]
    if _bins.encode_csc(data, start, n_rows, codec, codes, zero_codes, has_missing, n_threads):
        tables.raise_infinite(table)
    kinds = settled.n_bins.copy(), has_missing, is_categorical
    return StoredBins(table.shape, (start, indices, codes), zero_codes, *kinds, list(settled.edges))
