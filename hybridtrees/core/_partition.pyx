"""Rows by node: one permutation, split stably.

A node owns the slice [start, stop) of one array of row ids. A split moves the ids that go left
to the front of the slice and the others behind them, both in their old order::

    chunks        |  chunk 0   |  chunk 1   |
    rows          | a B c d E  | F g h I j  |      small letters go left
    scratch       | a c d B E  | g h j F I  |      each chunk split on its own
    rows          | a c d g h j | B E F I   |      and copied behind its predecessors

Whether a code goes left is looked up in a table of 256 entries, so numeric bins, categories and
missing values are one and the same branch-free loop.
"""

from cython.parallel cimport prange
from libc.string cimport memcpy, memset

from hybridtrees.core._types cimport BinView, SplitInfo, int32_t, intp_t, uint8_t, uint32_t

cdef enum:
    MAX_CHUNKS = 64
    CHUNKS_PER_THREAD = 4
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
    uint32_t* scratch, int n_threads,
) noexcept nogil:
    """Split rows[0:n_rows] in place; returns how many go left. `scratch` holds n_rows."""
    cdef intp_t n_left[MAX_CHUNKS]
    cdef intp_t to_left[MAX_CHUNKS + 1]
    cdef intp_t to_right[MAX_CHUNKS + 1]
    cdef uint32_t* right = scratch
    cdef intp_t start, size, total
    cdef int chunk, n_chunks
    if n_threads == 1 or n_rows < PARALLEL_ROWS:
        # Serial: the left ids stay where they are, they never overtake the reader.
        total = split_chunk(codes, goes_left, rows, n_rows, rows, right)
        memcpy(rows + total, right, (n_rows - total) * sizeof(uint32_t))
        return total
    # More chunks than threads: one that is held up by another process does not hold up all.
    n_chunks = min(CHUNKS_PER_THREAD * n_threads, MAX_CHUNKS)
    for chunk in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        size = n_rows * (chunk + 1) // n_chunks - start
        n_left[chunk] = split_chunk(codes, goes_left, rows + start, size, rows + start,
                                    right + start)
    total = 0
    for chunk in range(n_chunks):
        to_left[chunk] = total
        total += n_left[chunk]
    to_right[0] = total
    for chunk in range(n_chunks):
        start = n_rows * chunk // n_chunks
        size = n_rows * (chunk + 1) // n_chunks - start
        to_right[chunk + 1] = to_right[chunk] + size - n_left[chunk]
    # Left parts move towards the front in order, so none is overwritten before it is read.
    for chunk in range(1, n_chunks):
        start = n_rows * chunk // n_chunks
        shift_down(rows + to_left[chunk], rows + start, n_left[chunk])
    for chunk in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        memcpy(rows + to_right[chunk], right + start,
               (to_right[chunk + 1] - to_right[chunk]) * sizeof(uint32_t))
    return total


cdef void shift_down(uint32_t* target, const uint32_t* source, intp_t n) noexcept nogil:
    cdef intp_t i
    if target != source:
        for i in range(n):
            target[i] = source[i]


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
    scratch = np.empty(n, dtype=np.uint32)
    with nogil:
        i = split_rows(&codes[0], &goes_left[0], &rows[0], n, &scratch[0], n_threads)
    return i
