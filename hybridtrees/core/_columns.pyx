"""What there is to learn of a table before it is binned: distinct values, samples, categories."""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._radix cimport key_at, key_t, value_from_key
from hybridtrees.core._rng cimport keyed, uniform
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport float64_t, intp_t, real_t

cdef enum:
    BLOCK_ROWS = 256
    # Threads take parts as they come, so that none waits long for one that is held up.
    PART_ROWS = 8192
    GROUP = 32               # columns scanned side by side
    TABLE_BITS = 10
    TABLE_SIZE = 1024        # slots for at most 256 values: a search meets few others

cdef int64_t LARGEST_CATEGORY = 1 << 24     # float32 does not tell larger integers apart


cdef struct Part:
    # What a thread scans at a time: some rows of a group of columns.
    const char* start
    intp_t row_stride
    intp_t column_stride
    intp_t item_bytes
    const float64_t* weights     # NULL: all count
    intp_t first_row
    intp_t last_row
    intp_t n_columns
    int limit
    # Of the thread: (n_columns, TABLE_SIZE) keys, 0 where empty: no number has it
    char* tables
    int* counts                  # (n_columns,) distinct values found, limit + 1 for too many


cdef inline bint insert(key_t* table, key_t key) noexcept nogil:
    """Put a key into the table; returns whether it is new."""
    cdef uint64_t slot = (<uint64_t> key * <uint64_t> 0x9E3779B97F4A7C15) >> (64 - TABLE_BITS)
    while table[slot] != 0:
        if table[slot] == key:
            return False
        slot = (slot + 1) & (TABLE_SIZE - 1)
    table[slot] = key
    return True


cdef inline bint any_infinite(const real_t* values, intp_t step, intp_t n) noexcept nogil:
    cdef intp_t i
    cdef int found = 0
    if step == 1:
        # Apart, for the sake of vector instructions.
        for i in range(n):
            found |= (values[i] == INFINITY) | (values[i] == -INFINITY)
    else:
        for i in range(n):
            found |= (values[i * step] == INFINITY) | (values[i * step] == -INFINITY)
    return found != 0


cdef bint block_is_infinite(
    const Part* part, intp_t row, intp_t n_rows, real_t like
) noexcept nogil:
    cdef intp_t width = sizeof(real_t), r, c
    cdef const char* start = part.start + row * part.row_stride
    if part.column_stride == width and part.row_stride == width * part.n_columns:
        return any_infinite(<const real_t*> start, 1, n_rows * part.n_columns)
    if part.column_stride == width:
        for r in range(n_rows):
            if any_infinite(<const real_t*> (start + r * part.row_stride), 1, part.n_columns):
                return True
        return False
    for c in range(part.n_columns):
        if any_infinite(
            <const real_t*> (start + c * part.column_stride), part.row_stride // width, n_rows
        ):
            return True
    return False


cdef bint scan_part(const Part* part, real_t like_value, key_t like) noexcept nogil:
    """Fill the tables of the part; returns whether it holds an infinity."""
    cdef intp_t block, row, n_rows, r, c
    cdef key_t key = 0, previous
    cdef key_t* table
    cdef const char* start
    for block in range((part.last_row - part.first_row + BLOCK_ROWS - 1) // BLOCK_ROWS):
        row = part.first_row + block * BLOCK_ROWS
        n_rows = min(<intp_t> BLOCK_ROWS, part.last_row - row)
        if block_is_infinite(part, row, n_rows, like_value):
            return True
        for c in range(part.n_columns):
            if part.counts[c] > part.limit:
                continue
            table = <key_t*> part.tables + c * TABLE_SIZE
            start = part.start + row * part.row_stride + c * part.column_stride
            previous = 0
            for r in range(n_rows):
                if part.weights != NULL and part.weights[row + r] == 0.0:
                    continue
                if not key_at(start + r * part.row_stride, &key) or key == previous:
                    continue
                previous = key
                part.counts[c] += insert(table, key)
                if part.counts[c] > part.limit:
                    break
    return False


cdef bint scan_any(const Part* part) noexcept nogil:
    if part.item_bytes == 4:
        return scan_part[float, uint32_t](part, 0, 0)
    return scan_part[double, uint64_t](part, 0, 0)


cdef int collect(
    const key_t* tables, const int* counts, intp_t n_parts, int limit, key_t* joint,
    float64_t* values,
) noexcept nogil:
    """OUT distinct values of a column over all parts, unsorted; returns how many, or limit + 1."""
    cdef intp_t part, slot
    cdef int n_values = 0
    cdef const key_t* table
    memset(joint, 0, TABLE_SIZE * sizeof(key_t))
    for part in range(n_parts):
        if counts[part * GROUP] > limit:
            return limit + 1
        table = tables + part * GROUP * TABLE_SIZE
        for slot in range(TABLE_SIZE):
            if table[slot] != 0 and insert(joint, table[slot]):
                if n_values == limit:
                    return limit + 1
                values[n_values] = value_from_key(table[slot])
                n_values += 1
    return n_values


def distinct_values(const real_t[:, :] X, weights, int limit, int n_threads):
    """Distinct numbers of each column, as far as there are at most `limit` <= 255 of them.

    Parameters
    ----------
    X : ndarray of shape (n, p), float32 or float64, of any strides
    weights : contiguous float64 ndarray of shape (n,) or None
        Rows of weight 0 do not count.
    limit : int
    n_threads : int

    Returns
    -------
    found : list of (ndarray or None), or None
        Sorted distinct numbers of each column; None for a column that has more, which costs no
        more than finding so many. None instead of the list if the table holds an infinity.
    """
    cdef intp_t n = X.shape[0], p = X.shape[1], first, width, row, t, c
    cdef const double[::1] weight_view
    cdef const float64_t* weight_start = NULL
    cdef char[:, ::1] tables = np.empty(
        (n_threads + 1, GROUP * TABLE_SIZE * sizeof(real_t)), dtype=np.int8)
    cdef int[:, ::1] counts = np.empty((n_threads, GROUP), dtype=np.intc)
    cdef float64_t[::1] values = np.empty(max(limit, 1))
    cdef int n_values, n_infinite = 0
    cdef Part part
    found = []
    # A table of TABLE_SIZE slots must never fill up.
    if not 0 < limit < 256:
        raise ValueError(f"limit must lie between 1 and 255, got {limit}")
    if n == 0:
        return [np.empty(0) for _ in range(p)]
    if weights is not None:
        weight_view = weights
        if weight_view.shape[0] != n:
            raise ValueError("weights must be as many as the rows")
        weight_start = &weight_view[0]
    for first in range(0, p, GROUP):
        width = min(p - first, <intp_t> GROUP)
        memset(&tables[0, 0], 0, n_threads * tables.shape[1])
        memset(&counts[0, 0], 0, n_threads * GROUP * sizeof(int))
        for row in prange(
            0, n, PART_ROWS, schedule="dynamic", chunksize=1,
            num_threads=team_of(n_threads), nogil=True
        ):
            t = omp_get_thread_num()
            part = Part(
                <const char*> &X[0, first], X.strides[0], X.strides[1], sizeof(real_t),
                weight_start, row, min(row + PART_ROWS, n), width, limit, &tables[t, 0],
                &counts[t, 0],
            )
            n_infinite += scan_any(&part)
        if n_infinite > 0:
            return None
        for c in range(width):
            if real_t is float:
                n_values = collect[uint32_t](
                    <const uint32_t*> &tables[0, 0] + c * TABLE_SIZE, &counts[0, c], n_threads,
                    limit, <uint32_t*> &tables[n_threads, 0], &values[0])
            else:
                n_values = collect[uint64_t](
                    <const uint64_t*> &tables[0, 0] + c * TABLE_SIZE, &counts[0, c], n_threads,
                    limit, <uint64_t*> &tables[n_threads, 0], &values[0])
            found.append(None if n_values > limit else np.sort(values[:n_values]))
    return found


def sample_rows(intp_t n_rows, intp_t n_drawn, uint64_t seed):
    """`n_drawn` of `n_rows` row numbers, ascending, without replacement.

    Selection sampling: a row is taken with probability (still needed) / (still to come).
    """
    rows = np.empty(n_drawn + 1, dtype=np.int64)
    cdef int64_t[::1] view = rows
    cdef intp_t i, n_taken = 0
    with nogil:
        # Every row is written, the next one over it unless it is taken: no branch to guess.
        for i in range(n_rows):
            view[n_taken] = i
            n_taken += uniform(keyed(seed, 0, i)) * <float64_t> (n_rows - i) < <float64_t> (
                n_drawn - n_taken)
    return rows[:n_drawn]


def gather(
    const real_t[:, :] X, const int64_t[::1] rows, const int64_t[::1] columns,
    real_t[:, ::1] out, int n_threads,
):
    """out[j, i] = X[rows[i], columns[j]]; the numbers must be inside the table."""
    cdef intp_t n = rows.shape[0], p = columns.shape[0], start
    if out.shape[0] != p or out.shape[1] != n:
        raise ValueError("out must have a row for each column and a column for each row")
    for start in prange(
        0, n, BLOCK_ROWS, schedule="dynamic", chunksize=8,
        num_threads=team_of(n_threads), nogil=True
    ):
        gather_block(X, &rows[start], min(<intp_t> BLOCK_ROWS, n - start), columns, start, out)


cdef void gather_block(
    const real_t[:, :] X, const int64_t* rows, intp_t n, const int64_t[::1] columns,
    intp_t start, real_t[:, ::1] out,
) noexcept nogil:
    cdef intp_t i, j
    cdef intp_t row_stride = X.strides[0], column_stride = X.strides[1]
    # Along the nearer neighbours in the inner loop.
    if max(column_stride, -column_stride) < max(row_stride, -row_stride):
        for i in range(n):
            for j in range(columns.shape[0]):
                out[j, start + i] = X[rows[i], columns[j]]
    else:
        for j in range(columns.shape[0]):
            for i in range(n):
                out[j, start + i] = X[rows[i], columns[j]]


def count_categories(const real_t[:] column, weights):
    """Weight of each category 0, 1, ..., or None if a value is neither NaN nor an integer < 2**24.

    Negative values stand for missing ones; infinities are not integers.
    """
    cdef const double[::1] weight_view
    cdef bint weighted = weights is not None
    cdef intp_t i, n = column.shape[0]
    cdef int64_t largest = -1
    cdef bint fine = True
    cdef float64_t value
    if weighted:
        weight_view = weights
        if weight_view.shape[0] != n:
            raise ValueError("weights must be as many as the rows")
    with nogil:
        for i in range(n):
            value = column[i]
            if value >= 0.0 and value <= <float64_t> LARGEST_CATEGORY:
                fine &= <float64_t> (<int64_t> value) == value
                if not weighted or weight_view[i] > 0.0:
                    largest = max(largest, <int64_t> value)
            else:
                # NaN and negative numbers are missing.
                fine &= not value >= 0.0 and value != -INFINITY
    if not fine or largest >= LARGEST_CATEGORY:
        return None
    counts = np.zeros(largest + 1)
    cdef float64_t[::1] view = counts
    with nogil:
        for i in range(n):
            value = column[i]
            if value >= 0.0 and (not weighted or weight_view[i] > 0.0):
                view[<intp_t> value] += weight_view[i] if weighted else 1.0
    return counts
