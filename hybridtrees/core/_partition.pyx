"""Rows by node: one permutation, split stably.

A node owns the slice [start, stop) of one array of row ids. A split moves the ids that go left
to the front of the slice and the others behind them, both in their old order::

    chunks        |  chunk 0   |  chunk 1   |
    rows          | a B c d E  | F g h I j  |      small letters go left
    left scratch  | a c d      | g h j      |      each chunk split on its own
    right scratch | B E        | F I        |
    rows          | a c d g h j | B E F I   |      and copied behind its predecessors

Whether a code goes left is looked up in a table of 256 entries, so numeric bins, categories and
missing values are one and the same branch-free loop.
"""

from cython.parallel cimport prange
from libc.string cimport memcpy, memset

from hybridtrees.core._types cimport BinView, SplitInfo, int32_t, intp_t, uint8_t, uint32_t

cdef enum:
    # Threads take chunks as they come: one that is held up by another process does not hold up
    # all, and the last one to end is late by less than a chunk.
    MAX_CHUNKS = 256
    CHUNK_ROWS = 4096
    PARALLEL_ROWS = 16384


cdef void fill_direction(
    const BinView* bins, const SplitInfo* split, uint8_t* goes_left
) noexcept nogil:
    """goes_left[code] for the 256 codes of the split's feature."""
    cdef int32_t missing = bins.n_bins[split.feature], code
    memset(goes_left, 0, 256)
    if split.is_categorical:
        for code in range(missing):
            goes_left[code] = (split.categories[code >> 5] >> (code & 31)) & 1
    else:
        memset(goes_left, 1, split.bin + 1)
    goes_left[missing] = split.missing_left


cdef inline intp_t split_chunk(
    const uint8_t* codes, const uint8_t* goes_left, const uint32_t* rows, intp_t n,
    uint32_t* left, uint32_t* right,
) noexcept nogil:
    """Write every id to both ends and advance only the end that it belongs to."""
    cdef intp_t i, n_left = 0, n_right = 0
    cdef uint32_t row
    cdef uint8_t go
    for i in range(n):
        row = rows[i]
        go = goes_left[codes[row]]
        left[n_left] = row
        right[n_right] = row
        n_left += go
        n_right += 1 - go
    return n_left


cdef intp_t split_rows(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* right, uint32_t* left, int n_threads,
) noexcept nogil:
    """Split rows[0:n_rows] in place; returns how many go left.

    `right` and `left` hold n_rows each; one thread needs no `left`.
    """
    cdef intp_t to_left[MAX_CHUNKS + 1]
    cdef intp_t to_right[MAX_CHUNKS + 1]
    cdef intp_t start, size, total
    cdef int chunk, n_chunks
    if n_threads == 1 or n_rows < PARALLEL_ROWS:
        # Serial: the left ids stay where they are, they never overtake the reader.
        total = split_chunk(codes, goes_left, rows, n_rows, rows, right)
        memcpy(rows + total, right, (n_rows - total) * sizeof(uint32_t))
        return total
    n_chunks = <int>max(4 * n_threads, min(n_rows // CHUNK_ROWS, MAX_CHUNKS))
    n_chunks = min(n_chunks, MAX_CHUNKS)
    to_left[0] = 0
    for chunk in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        size = n_rows * (chunk + 1) // n_chunks - start
        to_left[chunk + 1] = split_chunk(codes, goes_left, rows + start, size, left + start,
                                         right + start)
    for chunk in range(n_chunks):
        to_left[chunk + 1] += to_left[chunk]
    total = to_left[n_chunks]
    for chunk in range(n_chunks + 1):
        to_right[chunk] = total + n_rows * chunk // n_chunks - to_left[chunk]
    for chunk in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        memcpy(rows + to_left[chunk], left + start,
               (to_left[chunk + 1] - to_left[chunk]) * sizeof(uint32_t))
        memcpy(rows + to_right[chunk], right + start,
               (to_right[chunk + 1] - to_right[chunk]) * sizeof(uint32_t))
    return total


def partition_rows(const uint8_t[::1] codes, const uint8_t[::1] goes_left, uint32_t[::1] rows,
                   int n_threads):
    """Split `rows` in place by a table of 256 directions; returns how many go left."""
    cdef intp_t i, n = rows.shape[0]
    if goes_left.shape[0] != 256:
        raise ValueError("goes_left needs 256 entries")
    for i in range(n):
        if rows[i] >= codes.shape[0]:
            raise ValueError("a row id is out of range")
    for i in range(256):
        if goes_left[i] > 1:
            raise ValueError("goes_left may hold 0 and 1 only")
    if n == 0:
        return 0
    cdef uint32_t[::1] scratch
    import numpy as np
    scratch = np.empty(2 * n, dtype=np.uint32)
    with nogil:
        i = split_rows(&codes[0], &goes_left[0], &rows[0], n, &scratch[0], &scratch[n], n_threads)
    return i
