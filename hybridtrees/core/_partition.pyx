"""Rows by node: one permutation, split stably.

A node owns the slice [start, stop) of one array of row ids. A split moves the ids that go left
to the front of the slice and the others behind them, both in their old order. Two threads start
at the two ends and take blocks until they meet; what is on its own side stays in place, and only
the rest is copied, as much as one thread alone would copy::

    rows          | a B c d E F > < g h I j K |   small letters go left
    rows          | a c d                 I K |   in place: left ids in front, right ids behind
    scratch       | B E F               g h j |   right ids of the front, left ids of the back
    rows          | a c d g h j   B E F   I K |

More threads split chunks on their own, and copy each behind its predecessors.

Whether a code goes left is looked up in a table of 256 entries, so numeric bins, categories and
missing values are one and the same branch-free loop.
"""

from cython.parallel cimport parallel, prange
from libc.string cimport memcpy, memset

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport BinView, SplitInfo, int32_t, intp_t, uint8_t, uint32_t

cdef enum:
    # Threads take chunks as they come: one that is held up by another process does not hold up
    # all, and the last one to end is late by less than a chunk.
    MAX_CHUNKS = 256
    CHUNK_ROWS = 4096
    PARALLEL_ROWS = 16384
    BLOCK_ROWS = 4096
    COPIES = 8


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
    """Write every id to both ends and advance only the end that it belongs to.

    Four ids are read before the first is written: the ends may lie in `rows`, and a load after
    a store to them could not be hoisted by the compiler.
    """
    cdef intp_t i, k, whole = n - n % 4
    cdef intp_t[4] go
    cdef uint32_t[4] row
    cdef uint32_t* first = left
    for i in range(0, whole, 4):
        for k in range(4):
            row[k] = rows[i + k]
        for k in range(4):
            go[k] = goes_left[codes[row[k]]]
        for k in range(4):
            left[0] = row[k]
            right[0] = row[k]
            left += go[k]
            right += 1 - go[k]
    for i in range(whole, n):
        row[0] = rows[i]
        go[0] = goes_left[codes[row[0]]]
        left[0] = row[0]
        right[0] = row[0]
        left += go[0]
        right += 1 - go[0]
    return left - first


cdef inline intp_t split_chunk_back(
    const uint8_t* codes, const uint8_t* goes_left, const uint32_t* rows, intp_t n,
    uint32_t* left, uint32_t* right,
) noexcept nogil:
    """The same from the last row to the first; the ends are written before `left` and `right`."""
    cdef intp_t i, k, rest = n % 4
    cdef intp_t[4] go
    cdef uint32_t[4] row
    cdef uint32_t* first = left - 1
    left -= 1
    right -= 1
    for i in range(n - 4, rest - 1, -4):
        for k in range(4):
            row[k] = rows[i + 3 - k]
        for k in range(4):
            go[k] = goes_left[codes[row[k]]]
        for k in range(4):
            left[0] = row[k]
            right[0] = row[k]
            left -= go[k]
            right -= 1 - go[k]
    for i in range(rest - 1, -1, -1):
        row[0] = rows[i]
        go[0] = goes_left[codes[row[0]]]
        left[0] = row[0]
        right[0] = row[0]
        left -= go[0]
        right -= 1 - go[0]
    return first - left


cdef struct End:
    # How far the thread of one end has come.
    intp_t n_blocks
    intp_t n_left
    intp_t n_right
    intp_t[5] unused             # the two ends share no cache line


cdef void take_block(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    intp_t n_blocks, uint32_t* scratch, End* end, bint back,
) noexcept nogil:
    """Split the next block of one end."""
    cdef intp_t block = n_blocks - 1 - end.n_blocks if back else end.n_blocks
    cdef intp_t start = n_rows * block // n_blocks
    cdef intp_t size = n_rows * (block + 1) // n_blocks - start, n_left
    if back:
        n_left = split_chunk_back(codes, goes_left, rows + start, size,
                                  scratch + n_rows - end.n_left, rows + n_rows - end.n_right)
    else:
        n_left = split_chunk(codes, goes_left, rows + start, size, rows + end.n_left,
                             scratch + end.n_right)
    end.n_blocks += 1
    end.n_left += n_left
    end.n_right += size - n_left


cdef void copy_part(
    const uint32_t* scratch, uint32_t* rows, intp_t n_rows, const End* ends, int part
) noexcept nogil:
    """Copy one of `COPIES` parts of what lies apart to the gap between the two ends."""
    cdef intp_t n = ends[1].n_left + ends[0].n_right
    cdef intp_t start = n * part // COPIES, stop = n * (part + 1) // COPIES
    cdef intp_t middle = min(max(start, ends[1].n_left), stop)
    rows += ends[0].n_left
    memcpy(rows + start, scratch + n_rows - ends[1].n_left + start,
           (middle - start) * sizeof(uint32_t))
    memcpy(rows + middle, scratch + middle - ends[1].n_left, (stop - middle) * sizeof(uint32_t))


cdef intp_t split_from_ends(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* scratch,
) noexcept nogil:
    """Split with two threads, one from each end; returns how many go left.

    A thread takes as many blocks as it can: one that is held up does not hold up the other.
    """
    cdef End[2] ends
    cdef intp_t n_blocks = (n_rows + BLOCK_ROWS - 1) // BLOCK_ROWS, _ticket
    cdef int part
    memset(ends, 0, sizeof(ends))
    with parallel(num_threads=team_of(2)):
        for _ticket in prange(n_blocks, schedule="dynamic", chunksize=1):
            take_block(codes, goes_left, rows, n_rows, n_blocks, scratch,
                       &ends[omp_get_thread_num()], omp_get_thread_num())
        for part in prange(COPIES, schedule="static"):
            copy_part(scratch, rows, n_rows, ends, part)
    return ends[0].n_left + ends[1].n_left


cdef intp_t split_rows(
    const uint8_t* codes, const uint8_t* goes_left, uint32_t* rows, intp_t n_rows,
    uint32_t* right, uint32_t* left, int n_threads,
) noexcept nogil:
    """Split rows[0:n_rows] in place; returns how many go left.

    `right` and `left` hold n_rows each; up to two threads need no `left`.
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
    if n_threads == 2:
        return split_from_ends(codes, goes_left, rows, n_rows, right)
    n_chunks = <int>max(4 * n_threads, min(n_rows // CHUNK_ROWS, MAX_CHUNKS))
    n_chunks = min(n_chunks, MAX_CHUNKS)
    to_left[0] = 0
    for chunk in prange(n_chunks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=1):
        start = n_rows * chunk // n_chunks
        size = n_rows * (chunk + 1) // n_chunks - start
        to_left[chunk + 1] = split_chunk(codes, goes_left, rows + start, size, left + start,
                                         right + start)
    for chunk in range(n_chunks):
        to_left[chunk + 1] += to_left[chunk]
    total = to_left[n_chunks]
    for chunk in range(n_chunks + 1):
        to_right[chunk] = total + n_rows * chunk // n_chunks - to_left[chunk]
    for chunk in prange(n_chunks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=1):
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
