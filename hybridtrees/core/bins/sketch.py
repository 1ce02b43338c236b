"""QuantileSketch: quantiles of a weighted stream of any length, with a guaranteed rank error."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridtrees.core.bins._sketch import SUMMARY_DTYPE, Summary, merge, summarize

Floats = NDArray[np.float64]

# The constant c in the Notes of QuantileSketch: how levels share the error. A small c makes high
# levels larger, a large c low levels.
_SPREAD = 6
# A batch of this size is sorted in the L2 cache.
_CHUNK = 65_536
_MAX_CHUNK = 1 << 20
_LARGEST = np.finfo(np.float64).max


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> None:
    """Raise an error unless `value` is an integer from `low` to `high`."""
    allowed = f"an integer of at least {low}" if high is None else f"an integer, {low} to {high}"
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, got {value!r}")
    if int(value) < low or (high is not None and int(value) > high):
        raise ValueError(f"{name} must be {allowed}, got {value}")


def check_values(values: ArrayLike, name: str = "values") -> NDArray:
    """One-dimensional aligned float32 or float64 array without infinities; views stay views."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got {array.ndim} dimensions")
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name} must be real numbers, got an array of dtype {array.dtype}")
    narrow = array.dtype.kind in "bf" and array.dtype.itemsize <= 4
    array = np.require(array, np.float32 if narrow else np.float64, "A")
    if np.isinf(array).any():
        raise ValueError(f"{name} must be finite or NaN, got inf")
    return array


def check_weights(weights: ArrayLike, n: int, name: str = "weights") -> Floats:
    """Contiguous float64 array of `n` weights that are finite, not negative and sum to a number."""
    array = np.asarray(weights)
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name} must be real numbers, got an array of dtype {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each value, got {array.shape}")
    array = np.require(array, np.float64, ["C", "A"])
    # NaN, infinity and negative numbers all fail this comparison.
    if not ((array >= 0.0) & (array <= _LARGEST)).all():
        raise ValueError(f"{name} must be finite and not negative, got NaN, inf or less than 0")
    return array


class QuantileSketch:
    """Quantiles of a weighted stream of unknown length, in little memory, with a guarantee.

    Parameters
    ----------
    eps : float, default=1/1024
        Maximum rank error, as a share of the total weight; 0 < eps < 1.

    Attributes
    ----------
    eps : float
    n_missing : int
        Number of NaN, which are otherwise ignored.
    total_weight : float
        Weight of all numbers: their count if no weights were given.
    size : int
        Current number of entries and buffered numbers.
    error_bound : float
        Current bound of the rank error of every answer, as a share of the total weight.
    entries : structured ndarray
        The current summary: fields `value`, `rmin`, `rmax`, `weight`.

    Notes
    -----
    The error of an answer is the distance between the requested rank and the ranks of the returned
    value (more than one if the value is tied). It is at most ``eps * total_weight`` for streams of
    any length and order, and after any merges with sketches of the same or a smaller eps, plus
    rounding errors of float64 sums. `prune` increases it by at most ``1 / size``.

    A summary is a sorted list of entries (value, rmin, rmax, weight) as in the appendix of Chen and
    Guestrin, "XGBoost: A scalable tree boosting system" (2016): at least `rmin` of the weight is
    below the value, at most `rmax` at or below it, and at least `weight` on it. The *gap* between
    two neighbours ``a < b`` is ``(b.rmax - b.weight) - (a.rmin + a.weight)``: the weight whose
    position between them is unknown. If no gap is wider than G, the error of every query is at most
    G / 2, with the entry on the nearer side of the gap. A gap of a merged summary is at most the
    sum of one gap of each part, so relative to the weight gaps do not grow. Only removing entries
    widens them.

    The sketch is a binary counter. A full buffer becomes a summary of level 0; two summaries of
    level l are merged into one of level l + 1, which is then thinned to gaps of at most
    ``2 * eps * (1 - c / (l + 1 + c))`` of its weight, with c = 6. Each level may thus widen gaps by
    ``2 * eps * c / ((l + c) * (l + c + 1))``, and the total stays below ``2 * eps`` for any number
    of levels, so the length of the stream need not be known. Queries merge all levels without
    thinning. The number of entries of a level is at most the inverse of its share of the error, so
    n numbers take at most ``O(log(eps * n) ** 3 / eps)`` entries; in practice far fewer, as
    thinning depends on the actual gaps. A value heavier than the allowed gap is never removed.

    Examples
    --------
    >>> sketch = QuantileSketch(eps=0.01).update([3.0, 1.0, 2.0], weights=[1.0, 1.0, 2.0])
    >>> float(sketch.quantiles(0.5))
    2.0
    >>> sketch.total_weight
    4.0
    """

    def __init__(self, eps: float = 1.0 / 1024.0) -> None:
        if not isinstance(eps, float | Real) or isinstance(eps, bool):
            raise TypeError(f"eps must be a number, got {type(eps).__name__}")
        if not 0.0 < eps < 1.0:
            raise ValueError(f"eps must lie between 0 and 1, both excluded, got {eps!r}")
        self.eps = float(eps)
        self.n_missing = 0
        self._levels: list[Summary | None] = []
        self._buffer: list[tuple[NDArray, Floats | None]] = []
        self._n_buffered = 0
        self._cache: Summary | None = None
        # Large enough for thinning at level 0, small enough for many sketches at once.
        self._capacity = max(256, min(math.ceil(16.0 / self.eps), _MAX_CHUNK))

    def update(self, values: ArrayLike, weights: ArrayLike | None = None) -> QuantileSketch:
        """Add a batch of numbers.

        Parameters
        ----------
        values : array-like of shape (n,)
            Real numbers; NaN are counted and ignored, infinities are an error.
        weights : array-like of shape (n,), default=None
            Finite and not negative; a number of weight 0 does not count. None: 1 each.

        Returns
        -------
        self
        """
        values = check_values(values)
        if weights is not None:
            weights = check_weights(weights, len(values))
            if not weights.all():
                kept = weights > 0.0
                values, weights = values[kept], weights[kept]
            self._check_total(weights.sum())
        chunk = max(self._capacity, _CHUNK)
        start = 0
        while len(values) - start >= self._capacity:
            stop = start + chunk
            self._absorb(values[start:stop], None if weights is None else weights[start:stop])
            start = min(stop, len(values))
        self._keep(values[start:], None if weights is None else weights[start:])
        return self

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        """Add the content of `other`, which is not changed.

        Parameters
        ----------
        other : QuantileSketch
            Of any eps: the errors add up in proportion to the weights.

        Returns
        -------
        self
        """
        if not isinstance(other, QuantileSketch):
            raise TypeError(f"other must be a QuantileSketch, got {type(other).__name__}")
        self._check_total(other.total_weight)
        levels, buffered, n_missing = list(other._levels), other._buffered(), other.n_missing
        for level, summary in enumerate(levels):
            if summary is not None:
                self._carry(summary, level)
        self._keep(*buffered)
        self.n_missing += n_missing
        return self

    def prune(self, size: int) -> QuantileSketch:
        """Shrink to at most `size` entries, chosen to minimise the widest gap.

        This may increase the error beyond eps: `error_bound` grows by at most ``1 / size``. Later
        batches are added as before, so the size may grow again.

        Parameters
        ----------
        size : int
            At least 2: the minimum and the maximum are always kept.

        Returns
        -------
        self
        """
        check_integer(size, "size", 2)
        summary = self._combined()
        if summary is not None:
            self._cache = summary.pruned(size)
            self._levels = [None] * (len(self._levels) - 1) + [self._cache]
            self._buffer, self._n_buffered = [], 0
        return self

    def quantiles(self, q: ArrayLike) -> Floats:
        """Numbers at the given shares of the total weight.

        Parameters
        ----------
        q : float or array-like
            Between 0 (the minimum) and 1 (the maximum).

        Returns
        -------
        ndarray of float64
            In the shape of `q`; each is a number of the stream.
        """
        shares = np.asarray(q, dtype=np.float64)
        if not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise ValueError("q must lie between 0 and 1")
        entries = self._filled_entries()
        ranks = shares * entries["rmax"][-1]
        # The last entry whose middle rank is not above the requested rank, or the one after it if
        # that is on the nearer side of the gap.
        middles = 0.5 * entries["rmin"] + 0.5 * entries["rmax"]
        left = np.maximum(np.searchsorted(middles, ranks, side="right") - 1, 0)
        right = np.minimum(left + 1, len(entries) - 1)
        border = (
            0.5 * (entries["rmin"] + entries["weight"])[left]
            + 0.5 * ((entries["rmax"] - entries["weight"])[right])
        )
        stay = (ranks < border) | (ranks < middles[left])
        return entries["value"][np.where(stay, left, right)]

    def rank_bounds(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Bounds of the weight of all numbers not greater than `x`.

        Parameters
        ----------
        x : float or array-like
            Not NaN.

        Returns
        -------
        lower, upper : ndarrays of float64
            In the shape of `x`. The true weight lies between them, and they are at most
            ``2 * error_bound * total_weight`` apart.
        """
        x = np.asarray(x, dtype=np.float64)
        if np.isnan(x).any():
            raise ValueError("x must not be NaN")
        entries = self._filled_entries()
        below = np.append(0.0, entries["rmin"] + entries["weight"])
        above = np.append(entries["rmax"] - entries["weight"], entries["rmax"][-1])
        at = np.searchsorted(entries["value"], x, side="right")
        tied = (at > 0) & (entries["value"][at - 1] == x)
        upper = np.where(tied, np.minimum(entries["rmax"][at - 1], above[at]), above[at])
        return below[at], np.maximum(upper, below[at])

    def cuts(self, n_bins: int) -> tuple[Floats, Floats]:
        """Cuts of the numbers into at most `n_bins` bins of similar weight.

        A value heavier than an even share of the rest gets its own bin.

        Parameters
        ----------
        n_bins : int
            At least 2.

        Returns
        -------
        lower, upper : ndarrays of float64
            Bounds [lower, upper) of each cut, ascending: the entries on its two sides, or closer to
            the one that gets its own bin.
        """
        check_integer(n_bins, "n_bins", 2)
        summary = self._combined()
        return (np.empty(0), np.empty(0)) if summary is None else summary.cuts(n_bins)

    def copy(self) -> QuantileSketch:
        """Return an independent sketch with the same content."""
        twin = QuantileSketch(self.eps)
        # Summaries and buffered arrays never change, so they can be shared.
        twin.__dict__.update(self.__dict__)
        twin._levels, twin._buffer = list(self._levels), list(self._buffer)
        return twin

    __copy__ = copy

    def __deepcopy__(self, memo: dict) -> QuantileSketch:
        return self.copy()

    @property
    def total_weight(self) -> float:
        """Weight of all numbers."""
        total = sum(level.total for level in self._levels if level is not None)
        for values, weights in self._buffer:
            total += len(values) if weights is None else weights.sum()
        return float(total)

    @property
    def size(self) -> int:
        """Current number of entries and buffered numbers."""
        return self._n_buffered + sum(level.size for level in self._levels if level is not None)

    @property
    def error_bound(self) -> float:
        """Current bound of the rank error, as a share of the total weight."""
        summary = self._combined()
        return 0.0 if summary is None else 0.5 * (summary.gap / summary.total)

    @property
    def entries(self) -> NDArray[np.void]:
        """The summary as a structured array; a copy."""
        summary = self._combined()
        return np.empty(0, dtype=SUMMARY_DTYPE) if summary is None else summary.to_array()

    def __getstate__(self) -> dict:
        state = self.__dict__ | {"_cache": None, "_buffer": [self._buffered()]}
        state["_levels"] = [level and level.to_array() for level in self._levels]
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._levels = [
            None if level is None else Summary.from_array(level) for level in state["_levels"]
        ]

    def __repr__(self) -> str:
        return (
            f"QuantileSketch(eps={self.eps:g}, total_weight={self.total_weight:g}, "
            f"size={self.size})"
        )

    def _filled_entries(self) -> NDArray[np.void]:
        entries = self.entries
        if not len(entries):
            raise ValueError("the sketch is empty: call update first")
        return entries

    def _check_total(self, added: float) -> None:
        if not self.total_weight + added <= _LARGEST:
            raise ValueError("weights must have a finite sum, got one beyond the range of float64")

    def _gap_share(self, level: int) -> float:
        return 2.0 * self.eps * (1.0 - _SPREAD / (level + 1 + _SPREAD))

    def _absorb(self, values: NDArray, weights: Floats | None) -> None:
        """Add a batch as a summary of level 0."""
        summary, n_missing = summarize(values, weights, self._gap_share(0))
        self.n_missing += n_missing
        if summary is not None:
            self._carry(summary, 0)

    def _carry(self, summary: Summary, level: int) -> None:
        """Add a summary to the binary counter."""
        self._cache = None
        self._levels += [None] * (level + 1 - len(self._levels))
        while (other := self._levels[level]) is not None:
            self._levels[level] = None
            level += 1
            if level == len(self._levels):
                self._levels.append(None)
            summary = merge(other, summary, self._gap_share(level))
        self._levels[level] = summary

    def _keep(self, values: NDArray, weights: Floats | None) -> None:
        """Buffer numbers until there are enough for a summary."""
        missing = np.isnan(values)
        self.n_missing += int(np.count_nonzero(missing))
        # Indexing makes copies, as the caller may change the arrays.
        values = values[~missing]
        weights = None if weights is None else weights[~missing]
        if not len(values):
            return
        self._cache = None
        self._buffer.append((values, weights))
        self._n_buffered += len(values)
        if len(self._buffer) > 256 or self._n_buffered >= self._capacity:
            self._buffer = [self._buffered()]
        if self._n_buffered >= self._capacity:
            values, weights = self._buffer[0]
            self._buffer, self._n_buffered = [], 0
            self._absorb(values, weights)

    def _buffered(self) -> tuple[NDArray, Floats | None]:
        """Return the buffer as one pair (values, weights or None)."""
        if not self._buffer:
            return np.empty(0, dtype=np.float32), None
        values = np.concatenate([pair[0] for pair in self._buffer])
        if all(pair[1] is None for pair in self._buffer):
            return values, None
        filled = [np.ones(len(v)) if w is None else w for v, w in self._buffer]
        return values, np.concatenate(filled)

    def _combined(self) -> Summary | None:
        """All levels and the buffer merged without thinning; None if empty."""
        if self._cache is None:
            summary, _ = summarize(*self._buffered())
            for level in self._levels:
                if level is not None:
                    summary = level if summary is None else merge(summary, level)
            self._cache = summary
        return self._cache
