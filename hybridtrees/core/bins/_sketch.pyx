"""Summary, the immutable building block of QuantileSketch, and exact cuts of a column."""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cython.parallel cimport prange
from libc.math cimport INFINITY, nextafter, nextafterf
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._radix cimport key_t, value_from_key
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport HT_ROUNDING, float32_t, float64_t, intp_t, real_t
from hybridtrees.core.bins._cuts cimport choose_cuts, cuts_of_values
from hybridtrees.core.bins._summary cimport (
    SummaryEntry, Thinner, above_prev, below_next, count_thinned, cut_ranks, emit, push,
    push_merged, sort_and_thin, start_thinner, workspace_bytes,
)

import threading
import numpy as np


__all__ = ["SUMMARY_DTYPE", "Summary", "cut_columns", "exact_cuts", "merge", "summarize"]

SUMMARY_DTYPE = np.dtype([(name, np.float64) for name in ("value", "rmin", "rmax", "weight")])

cdef float64_t KEEP_ALL = -1.0
cdef intp_t KEPT_BYTES = 16 * 1024 * 1024
cdef object scratch = threading.local()


cdef class Summary:
    """An immutable, sorted, non-empty list of entries (value, rmin, rmax, weight).

    Made by `summarize`, `merge` and `from_array`. Attributes: `size`, the number of entries;
    `total`, the weight of the data; `gap`, the widest gap between neighbours.
    """

    cdef SummaryEntry* entries
    cdef readonly intp_t size
    cdef readonly float64_t gap

    def __init__(self):
        raise TypeError("a Summary is made by summarize, merge or from_array")

    def __dealloc__(self):
        PyMem_RawFree(self.entries)

    @property
    def total(self):
        """Weight of the data."""
        return self.entries[self.size - 1].rmax

    @staticmethod
    def from_array(array):
        """Summary of a structured array that `to_array` returned."""
        cdef const float64_t[::1] view
        array = np.ascontiguousarray(array, dtype=SUMMARY_DTYPE)
        if array.ndim != 1 or array.size == 0:
            raise ValueError("entries must be one-dimensional and not empty")
        view = array.view(np.float64)
        return thin_entries(<const SummaryEntry*> &view[0], array.size, KEEP_ALL)

    def to_array(self):
        """Copy of the entries as a structured array."""
        array = np.empty(self.size, dtype=SUMMARY_DTYPE)
        cdef float64_t[::1] view = array.view(np.float64)
        memcpy(&view[0], self.entries, self.size * sizeof(SummaryEntry))
        return array

    def pruned(self, intp_t size):
        """Summary of at most `size` >= 2 of the entries, those that minimise the widest gap."""
        cdef float64_t low = 0.0, high = self.entries[self.size - 1].rmax, middle
        if self.size <= size:
            return self
        # The greedy pass keeps the fewest entries for a given gap, as a gap is monotone in both
        # ends; so the minimum gap is found by bisection.
        for _ in range(60):
            middle = 0.5 * low + 0.5 * high
            if count_thinned(self.entries, self.size, middle) > size:
                low = middle
            else:
                high = middle
        return thin_entries(self.entries, self.size, high)

    def cuts(self, intp_t n_bins):
        """Bounds [lower, upper) of each cut into at most `n_bins` >= 2 bins.

        The bounds are neighbouring entries. If values between them were removed and one of the two
        is heavier than these, the cut is next to that one, which then has its own bin.
        """
        cdef intp_t[::1] cuts = np.empty(n_bins + 1, dtype=np.intp)
        cdef float64_t[::1] ends = np.empty(2 * self.size)
        cdef float64_t* weights = &ends[0] + self.size
        cdef intp_t i, n_cuts
        with nogil:
            cut_ranks(self.entries, self.size, &ends[0], weights)
            n_cuts = choose_cuts(&ends[0], weights, self.size, n_bins, &cuts[0])
        lower, upper = np.empty(n_cuts), np.empty(n_cuts)
        cdef float64_t[::1] low = lower, high = upper
        for i in range(n_cuts):
            # Smaller gaps are rounding errors of sums, not removed values.
            cut_bounds(&self.entries[cuts[i]], HT_ROUNDING * ends[self.size - 1], &low[i], &high[i])
        return lower, upper


cdef void cut_bounds(
    const SummaryEntry* entry, float64_t tolerance, float64_t* low, float64_t* high
) noexcept nogil:
    """OUT bounds of the cut between an entry and the next one."""
    cdef const SummaryEntry* other = entry + 1
    cdef float64_t gap = above_prev(other) - below_next(entry)
    cdef float32_t narrow
    low[0] = entry.value
    high[0] = other.value
    if gap <= tolerance:
        return
    if other.weight > gap and other.weight >= entry.weight:
        # From the next lower float32 on, so that the edge can be a float32.
        narrow = <float32_t> other.value
        if narrow >= other.value:
            narrow = nextafterf(narrow, -INFINITY)
        low[0] = max(entry.value, <float64_t> narrow)
    elif entry.weight > gap:
        high[0] = nextafter(entry.value, INFINITY)


cdef uint8_t[::1] workspace(intp_t n_bytes):
    """Scratch memory of this thread, kept between calls: new pages cost as much as a sort."""
    block = getattr(scratch, "block", None)
    if block is None or block.size < n_bytes:
        block = np.empty(n_bytes, dtype=np.uint8)
        if n_bytes <= KEPT_BYTES:
            scratch.block = block
    return block


cdef Summary own(const Thinner* thin):
    """Copy the output of a thinner to a new summary."""
    cdef Summary summary = Summary.__new__(Summary)
    summary.entries = <SummaryEntry*> PyMem_RawMalloc(thin.size * sizeof(SummaryEntry))
    if summary.entries == NULL:
        raise MemoryError
    memcpy(summary.entries, thin.out, thin.size * sizeof(SummaryEntry))
    summary.size = thin.size
    summary.gap = thin.gap
    return summary


cdef Summary thin_entries(const SummaryEntry* entries, intp_t n, float64_t target):
    cdef uint8_t[::1] block = workspace(n * sizeof(SummaryEntry))
    cdef Thinner thin
    cdef intp_t i
    start_thinner(&thin, <SummaryEntry*> &block[0], target)
    for i in range(n):
        push(&thin, &entries[i])
    emit(&thin)
    return own(&thin)


def merge(Summary a not None, Summary b not None, float64_t share=KEEP_ALL):
    """Merge two summaries, thinned to gaps of at most `share` of their weight (negative: not)."""
    cdef uint8_t[::1] block = workspace((a.size + b.size) * sizeof(SummaryEntry))
    cdef Thinner thin
    start_thinner(&thin, <SummaryEntry*> &block[0], share * (a.total + b.total))
    with nogil:
        push_merged(&thin, a.entries, a.size, b.entries, b.size)
        emit(&thin)
    return own(&thin)


cdef class Column:
    """Pointers into arrays, which are kept alive."""

    cdef const float[:] narrow
    cdef const double[:] wide
    cdef const double[::1] weight_view
    cdef const char* values
    cdef const float64_t* weights     # NULL: 1 each
    cdef intp_t stride, n
    cdef bint is_narrow

    def __cinit__(self, values, weights):
        self.is_narrow = values.dtype == np.float32
        self.n = values.shape[0]
        if self.n == 0:
            return
        if self.is_narrow:
            self.narrow = values
            self.values = <const char*> &self.narrow[0]
            self.stride = self.narrow.strides[0]
        else:
            self.wide = values
            self.values = <const char*> &self.wide[0]
            self.stride = self.wide.strides[0]
        if weights is not None:
            self.weight_view = weights
            if self.weight_view.shape[0] != self.n:
                raise ValueError(f"weights must be {self.n} as the values, got {len(weights)}")
            self.weights = &self.weight_view[0]

    cdef uint8_t[::1] workspace(self, intp_t n, intp_t extra):
        return workspace(
            workspace_bytes(n, 4 if self.is_narrow else 8, self.weights != NULL, extra))


def summarize(values, weights, float64_t share=KEEP_ALL):
    """Summary of values, thinned to gaps of at most `share` of their weight; and the number of NaN.

    A negative share: not thinned. Values may have any stride, and must be finite or NaN with
    positive weights. The summary is None if all values are NaN.
    """
    cdef Column column = Column(values, weights)
    cdef uint8_t[::1] block = column.workspace(column.n, sizeof(SummaryEntry))
    cdef intp_t n_numbers
    cdef Thinner thin
    with nogil:
        if column.is_narrow:
            n_numbers = sort_and_thin[uint32_t](
                column.values, column.stride, column.weights, column.n, 0, share,
                <char*> &block[0], &thin)
        else:
            n_numbers = sort_and_thin[uint64_t](
                column.values, column.stride, column.weights, column.n, 0, share,
                <char*> &block[0], &thin)
    return (own(&thin) if n_numbers > 0 else None), column.n - n_numbers


cdef intp_t cut_column(
    const char* values, intp_t stride, const float64_t* weights, intp_t n, key_t zero,
    float64_t zero_weight, intp_t n_bins, char* block, intp_t* cuts, float64_t* sides,
) noexcept nogil:
    """`cuts_of_values` with values instead of keys: OUT lower bounds, then upper ones."""
    cdef key_t* keys
    cdef intp_t i, n_cuts = cuts_of_values(
        values, stride, weights, n, zero, zero_weight, n_bins, block, cuts, &keys)
    for i in range(n_cuts):
        sides[i] = value_from_key(keys[cuts[i]])
        sides[n_bins + i] = value_from_key(keys[cuts[i] + 1])
    return n_cuts


def exact_cuts(values, weights, intp_t n_bins, float64_t zero_weight=0.0):
    """`Summary.cuts` of a whole column from a full sort, arguments as for `summarize`.

    `zero_weight` is the weight of zeros that a sparse column does not store.
    """
    cdef Column column = Column(values, weights)
    cdef uint8_t[::1] block = column.workspace(column.n + 1, sizeof(float64_t))
    cdef intp_t[::1] cuts = np.empty(n_bins + 1, dtype=np.intp)
    cdef intp_t n_cuts
    cdef float64_t[::1] view
    sides = np.empty((2, n_bins))
    view = sides.reshape(-1)
    with nogil:
        # The key of 0.0 is the sign bit alone.
        if column.is_narrow:
            n_cuts = cut_column[uint32_t](
                column.values, column.stride, column.weights, column.n, <uint32_t> 1 << 31,
                zero_weight, n_bins, <char*> &block[0], &cuts[0], &view[0])
        else:
            n_cuts = cut_column[uint64_t](
                column.values, column.stride, column.weights, column.n, <uint64_t> 1 << 63,
                zero_weight, n_bins, <char*> &block[0], &cuts[0], &view[0])
    return sides[0, :n_cuts], sides[1, :n_cuts]


def cut_columns(const real_t[:, ::1] columns, weights, intp_t n_bins, int n_threads):
    """`exact_cuts` of every column of shape (n_columns, n_values), several at a time."""
    cdef intp_t p = columns.shape[0], n = columns.shape[1], f, t
    cdef const float64_t[::1] weight_view
    cdef const float64_t* weight_start = NULL
    n_threads = <int>max(1, min(<intp_t>n_threads, p))
    cdef intp_t n_bytes = workspace_bytes(
        n + 1, sizeof(real_t), weights is not None, sizeof(float64_t))
    # Separate cache lines, and aligned keys.
    cdef uint8_t[:, ::1] blocks = np.empty((n_threads, (n_bytes // 64 + 2) * 64), dtype=np.uint8)
    cdef intp_t[:, ::1] cuts = np.empty((n_threads, n_bins + 1), dtype=np.intp)
    cdef intp_t[::1] n_cuts = np.zeros(p, dtype=np.intp)
    sides = np.empty((p, 2, n_bins))
    cdef float64_t[:, :, ::1] view = sides
    if p == 0 or n == 0:
        return [(np.empty(0), np.empty(0)) for _ in range(p)]
    if weights is not None:
        weight_view = weights
        if weight_view.shape[0] != n:
            raise ValueError(f"weights must be {n} as the values, got {weight_view.shape[0]}")
        weight_start = &weight_view[0]
    for f in prange(p, schedule="dynamic", chunksize=1, num_threads=team_of(n_threads), nogil=True):
        t = omp_get_thread_num()
        if real_t is float:
            n_cuts[f] = cut_column[uint32_t](
                <const char*> &columns[f, 0], sizeof(real_t), weight_start, n, 0, 0.0, n_bins,
                <char*> &blocks[t, 0], &cuts[t, 0], &view[f, 0, 0])
        else:
            n_cuts[f] = cut_column[uint64_t](
                <const char*> &columns[f, 0], sizeof(real_t), weight_start, n, 0, 0.0, n_bins,
                <char*> &blocks[t, 0], &cuts[t, 0], &view[f, 0, 0])
    return [(sides[f, 0, : n_cuts[f]], sides[f, 1, : n_cuts[f]]) for f in range(p)]
