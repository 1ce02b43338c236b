"""Distinct values, categories and quantiles of the columns of a table, and their bins.

A table is a two-dimensional float32 or float64 ndarray of any strides, or a canonical CSC matrix
of such numbers. NaN is missing; values that a sparse table does not store are 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.workers import run_threads
from hybridtrees.core.bins import _bins
from hybridtrees.core.bins._sketch import cut_columns, exact_cuts
from hybridtrees.core.bins.sketch import QuantileSketch

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Pair = tuple[Floats, Floats]

# Quantiles of larger samples come from a sketch, not from a sort.
EXACT_ROWS = 1 << 20
_BATCH_ROWS = 1 << 18
# Bytes of the columns that are copied from a table at a time.
_GATHER_BYTES = 1 << 24
# Fewer values are sorted by one thread.
_FEW_VALUES = 1 << 19


def is_sparse(X: Any) -> bool:
    """Whether a table is sparse."""
    return hasattr(X, "tocsc")


def as_table(X: Any) -> Any:
    """Table of an array-like or sparse matrix, copied only if its dtype or layout must change."""
    sparse = is_sparse(X)
    if sparse:
        if X.format in ("csr", "csc"):
            # SciPy and the kernels do not check the bounds of indices.
            X.check_format(full_check=True)
        X = X.tocsc()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got {X.ndim} dimension(s)")
    if X.shape[1] == 0:
        raise ValueError("X must have at least one column, got none")
    if X.dtype.kind not in "buif":
        raise TypeError(f"X must hold real numbers, got dtype {X.dtype}")
    narrow = X.dtype.kind in "bf" and X.dtype.itemsize <= 4
    dtype = np.dtype(np.float32 if narrow else np.float64)
    if sparse:
        return X if X.dtype == dtype else X.astype(dtype)
    return np.require(X, dtype, "A")


def raise_infinite(X: Any) -> NoReturn:
    """Raise an error that names the first column with an infinity."""
    for f in range(X.shape[1]):
        column = X.data[X.indptr[f] : X.indptr[f + 1]] if is_sparse(X) else X[:, f]
        if np.isinf(column).any():
            break
    raise ValueError(f"X must be finite or NaN, got inf in column {f}")


def distinct_values(
    X: Any, weights: Floats | None, limit: int, n_threads: int
) -> list[Floats | None]:
    """Sorted distinct numbers of each column, None for a column with more than `limit` of them.

    Rows of weight 0 do not count, and a sparse table must not have any. Infinities are an error.
    """
    if not is_sparse(X):
        found = _bins.distinct_values(X, weights, limit, n_threads)
        if found is None:
            raise_infinite(X)
        return found
    found = []
    for f in range(X.shape[1]):
        values = X.data[X.indptr[f] : X.indptr[f + 1]]
        column = _bins.distinct_values(values[:, None], None, limit, 1)
        if column is None:
            raise_infinite(X)
        numbers = column[0]
        if numbers is not None and len(values) < X.shape[0]:
            numbers = np.union1d(numbers, [0.0])
        found.append(None if numbers is None or len(numbers) > limit else numbers)
    return found


def category_weights(X: Any, weights: Floats | None, f: int) -> Floats:
    """Weight of each category code of a column."""
    zeros = 0.0
    if is_sparse(X):
        column, weights, zeros = _stored(X, f, weights)
    else:
        column = X[:, f]
    counts = _bins.count_categories(column, weights)
    if counts is None:
        raise ValueError(
            f"categories must be integer codes below 2**24, or NaN; column {f} holds other values"
        )
    if zeros > 0.0:
        counts = counts if len(counts) else np.zeros(1)
        counts[0] += zeros
    return counts


def sample_cuts(
    X: Any, weights: Floats | None, rows: Integers, features: Integers, n_bins: int, n_threads: int
) -> list[Pair]:
    """Values on both sides of each cut of some columns into bins of similar weight.

    `rows` is the sample: ascending rows of positive weight.
    """
    if weights is not None:
        weights = weights[rows]
        # Equal weights have no effect, and sorts without weights are faster.
        weights = None if (weights == weights[0]).all() else weights
    if is_sparse(X):
        part = X[:, features]
        part = part if len(rows) == X.shape[0] else part[rows].tocsc()
        stored = [_stored(part, j, weights) for j in range(len(features))]
        return run_threads(lambda c: exact_cuts(c[0], c[1], n_bins, c[2]), stored, n_threads)
    if len(rows) > EXACT_ROWS:
        sketches = [QuantileSketch(sketch_error(n_bins)) for _ in features]
        update_sketches(sketches, X, weights, rows, features, n_threads)
        return [sketch.cuts(n_bins) for sketch in sketches]
    pairs = []
    if len(rows) * len(features) < _FEW_VALUES:
        n_threads = 1
    for _, columns in _gathered(X, rows, features, n_threads):
        pairs += cut_columns(columns, weights, n_bins, n_threads)
    return pairs


def sketch_error(n_bins: int) -> float:
    """Maximum rank error of edges: an eighth of a bin."""
    return 1.0 / (8 * n_bins)


def update_sketches(
    sketches: list[QuantileSketch],
    X: Any,
    weights: Floats | None,
    rows: Integers,
    features: Integers,
    n_threads: int,
) -> None:
    """Update sketches with columns; weights[i] belongs to rows[i]. `rows` must be all if sparse.

    Each sketch gets the same batches in the same order for any number of threads.
    """

    def feed_stored(job: tuple[QuantileSketch, int]) -> None:
        sketch, f = job
        values, stored, zeros = _stored(X, f, weights)
        sketch.update(values, stored)
        if zeros > 0.0:
            sketch.update([0.0], [zeros])

    if is_sparse(X):
        run_threads(feed_stored, zip(sketches, features, strict=True), n_threads)
        return
    for start in range(0, len(rows), _BATCH_ROWS):
        batch = rows[start : start + _BATCH_ROWS]
        part = None if weights is None else weights[start : start + _BATCH_ROWS]
        for first, columns in _gathered(X, batch, features, n_threads):
            jobs = zip(sketches[first : first + len(columns)], columns, strict=True)
            run_threads(lambda job, w=part: job[0].update(job[1], w), jobs, n_threads)


def _gathered(
    X: NDArray, rows: Integers, features: Integers, n_threads: int
) -> Iterator[tuple[int, NDArray]]:
    """Yield (index of the first, contiguous columns) in one buffer, which is reused."""
    width = max(1, _GATHER_BYTES // (len(rows) * X.itemsize))
    buffer = np.empty((min(width, len(features)), len(rows)), dtype=X.dtype)
    for first in range(0, len(features), width):
        chunk = features[first : first + width]
        out = buffer[: len(chunk)]
        _bins.gather(X, rows, chunk, out, n_threads)
        yield first, out


def csc_arrays(X: Any) -> tuple[NDArray, NDArray, NDArray]:
    """Return data, indices and pointers of a sparse table, the last two of one integer type."""
    narrow = X.indices.dtype == np.int32 and X.indptr.dtype == np.int32
    kind = np.int32 if narrow else np.int64
    indices = np.ascontiguousarray(X.indices, dtype=kind)
    return np.ascontiguousarray(X.data), indices, np.ascontiguousarray(X.indptr, dtype=kind)


def _stored(X: Any, f: int, weights: Floats | None) -> tuple[NDArray, Floats | None, float]:
    """(values, their weights, weight of the zeros that are not stored) of a sparse column."""
    part = slice(X.indptr[f], X.indptr[f + 1])
    values = X.data[part]
    if weights is None:
        return values, None, float(X.shape[0] - len(values))
    stored = np.ascontiguousarray(weights[X.indices[part]])
    absent = weights.sum() - stored.sum() if len(stored) < len(weights) else 0.0
    return values, stored, max(float(absent), 0.0)


def round_down(values: Floats) -> NDArray[np.float32]:
    """Return the largest float32 not above each value."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
        return np.where(narrow > values, np.nextafter(narrow, np.float32(-np.inf)), narrow)


def edges_between(lower: Floats, upper: Floats, narrow: bool) -> Floats:
    """Edges e with lower <= e < upper, at the midpoints.

    If `narrow`, at the float32 number next to the midpoint where one lies within the bounds.
    """
    with np.errstate(over="ignore"):
        total = lower + upper
    middle = np.where(np.isfinite(total), 0.5 * total, 0.5 * lower + 0.5 * upper)
    # Between neighbouring floats the midpoint may round to the upper one.
    middle = np.where(middle < upper, middle, lower)
    if narrow:
        below = round_down(middle)
        with np.errstate(over="ignore"):
            above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
        below = below.astype(np.float64)
        middle = np.where(below >= lower, below, np.where(above < upper, above, middle))
    # Not -0.0, which differs from 0.0 in code that compares bits.
    return middle + 0.0


def category_bins(counts: Floats, max_bins: int) -> tuple[NDArray[np.uint8], int]:
    """Bin of each category code, and the number of value bins; see `BinMapper`."""
    seen = counts > 0.0
    if len(counts) <= max_bins:
        n_bins = max(len(counts), 1)
        bins = np.arange(len(counts))
    else:
        own = seen
        n_bins = min(int(np.count_nonzero(seen)), max_bins)
        if np.count_nonzero(seen) > max_bins:
            # Of equal weights the lower code wins.
            heaviest = np.argsort(-counts, kind="stable")[: max_bins - 1]
            own = np.zeros(len(counts), dtype=bool)
            own[heaviest] = True
        bins = np.where(own, np.cumsum(own) - 1, n_bins - 1)
    return np.where(seen, bins, n_bins).astype(np.uint8), n_bins


@dataclass
class Learned:
    """Distinct values and categories of the columns, over all rows."""

    distinct: list[Floats | None]  # sorted distinct values, None where there are too many
    counts: list[Floats | None]  # weights of the categories of the categorical columns
    all_narrow: bool  # whether only float32 numbers were seen

    def many(self, mask: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Numeric columns with too many values."""
        return np.array(
            [f for f, values in enumerate(self.distinct) if values is None and not mask[f]],
            dtype=np.int64,
        )

    def ends(self, f: int) -> Pair:
        """Neighbouring distinct values of a column."""
        values = self.distinct[f]
        assert values is not None
        return values[:-1], values[1:]

    def joined(self, other: Learned, max_bins: int) -> Learned:
        """Return the union of two batches of rows."""
        distinct: list[Floats | None] = []
        for mine, others in zip(self.distinct, other.distinct, strict=True):
            both = None if mine is None or others is None else np.union1d(mine, others)
            distinct.append(None if both is None or len(both) > max_bins else both)
        counts: list[Floats | None] = []
        for mine, others in zip(self.counts, other.counts, strict=True):
            if mine is not None and others is not None:
                short, long = sorted((mine, others), key=len)
                mine = long.copy()
                mine[: len(short)] += short
            counts.append(mine)
        return Learned(distinct, counts, self.all_narrow and other.all_narrow)


@dataclass
class Settled:
    """The bins of all columns."""

    edges: list[Floats | None]
    n_bins: NDArray[np.int32]
    category_to_bin: list[NDArray[np.uint8] | None]

    def codec(self, dtype: np.dtype, mask: NDArray[np.uint8]) -> _bins.BinCodec:
        """Make the codec for tables of one dtype."""
        edges = np.full((len(mask), _bins.EDGE_ROOM), np.inf, dtype=dtype)
        for f, own in enumerate(self.edges):
            if own is not None:
                # For a float32 x, x <= edge is the same as x <= round_down(edge).
                edges[f, : len(own)] = own if dtype == np.float64 else round_down(own)
        bins = [np.empty(0, np.uint8) if b is None else b for b in self.category_to_bin]
        start = np.append(0, np.cumsum([len(b) for b in bins])).astype(np.int64)
        padded = np.concatenate([*bins, np.zeros(1, dtype=np.uint8)])
        return _bins.BinCodec(edges, self.n_bins, mask, padded, start)


def learn(
    X: Any, weights: Floats | None, mask: NDArray[np.uint8], max_bins: int, n_threads: int
) -> Learned:
    """Find distinct values and categories over all rows; `mask` marks categorical columns."""
    found = distinct_values(X, weights, max_bins, n_threads)
    counts: list[Floats | None] = [None] * len(mask)
    if mask.any():
        counts = run_threads(
            lambda f: category_weights(X, weights, f) if mask[f] else None,
            range(len(mask)),
            n_threads,
        )
    return Learned(found, counts, X.dtype == np.float32)


def settle(learned: Learned, mask: NDArray[np.uint8], cuts: list[Pair], max_bins: int) -> Settled:
    """Compute edges and bins; `cuts` are those of the numeric columns with many values."""
    many = learned.many(mask)
    edges: list[Floats | None] = [None] * len(mask)
    few = np.flatnonzero((mask == 0) & ~np.isin(np.arange(len(mask)), many))
    # Exact midpoints if all values are float32; otherwise rounded to float32 if possible.
    _set_edges(edges, few, [learned.ends(int(f)) for f in few], not learned.all_narrow)
    _set_edges(edges, many, cuts, True)
    n_bins = np.array([1 if e is None else len(e) + 1 for e in edges], dtype=np.int32)
    category_to_bin: list[NDArray[np.uint8] | None] = [None] * len(mask)
    for f in np.flatnonzero(mask):
        counts = learned.counts[f]
        assert counts is not None
        category_to_bin[f], n_bins[f] = category_bins(counts, max_bins)
    return Settled(edges, n_bins, category_to_bin)


def _set_edges(
    edges: list[Floats | None], features: NDArray[np.int64], pairs: list, narrow: bool
) -> None:
    """Set the edges of some columns, computed all at once."""
    if len(features):
        lower, upper = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        stops = np.cumsum([len(pair[0]) for pair in pairs])
        for f, own in zip(
            features, np.split(edges_between(lower, upper, narrow), stops[:-1]), strict=True
        ):
            edges[f] = own
