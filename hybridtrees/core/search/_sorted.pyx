"""Sorted lists of rows per feature, sorted once per fit and divided stably down the tree.

An entry is a row and a key: the rank of its value among the distinct values of the column, or the
code of its category. Equal keys are equal values. Values themselves are looked up by row, for
thresholds only. Rows with a missing value are last, with the largest key::

    values      3.5   nan   1.0   3.5   2.0
    list        (0, row 2) (1, row 4) (2, row 0) (2, row 3) (missing, row 1)
"""

from cython.parallel cimport prange
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._radix cimport RADIX_BITS, RADIX_SIZE, key_at, key_t, value_from_key
from hybridtrees.core.base._threads cimport raise_stop, team_of, team_stops
from hybridtrees.core.base._types cimport (
    HT_MISSING_KEY, MISSING_STAYS, N_CODES, SortedEntry, intp_t, uint32_t, uint64_t, uint8_t,
)

import numpy as np


cdef enum:
    ENDS_BLOCK = 4096   # rows of a block of `bin_ends`, whose values stay in the cache


cdef struct WideEntry:
    uint64_t key
    uint32_t row


ctypedef fused entry_t:
    SortedEntry
    WideEntry


cdef inline bint sort_entries(
    entry_t* entries, entry_t* spare, intp_t n, int n_digits, uint32_t* counts
) noexcept nogil:
    """Stable radix sort by key, as `radix_sort`; true if the result is in spare."""
    cdef intp_t i
    cdef int digit, shift
    cdef bint swapped = False
    cdef uint32_t total, count, to
    cdef uint32_t* place
    cdef entry_t* other
    memset(counts, 0, n_digits * RADIX_SIZE * sizeof(uint32_t))
    for i in range(n):
        for digit in range(n_digits):
            counts[digit * RADIX_SIZE
                   + ((entries[i].key >> (digit * RADIX_BITS)) & (RADIX_SIZE - 1))] += 1
    for digit in range(n_digits):
        place = counts + digit * RADIX_SIZE
        shift = digit * RADIX_BITS
        if place[(entries[0].key >> shift) & (RADIX_SIZE - 1)] == <uint32_t>n:
            continue
        total = 0
        for i in range(RADIX_SIZE):
            count = place[i]
            place[i] = total
            total += count
        for i in range(n):
            to = place[(entries[i].key >> shift) & (RADIX_SIZE - 1)]
            place[(entries[i].key >> shift) & (RADIX_SIZE - 1)] = to + 1
            spare[to] = entries[i]
        other = entries
        entries = spare
        spare = other
        swapped = not swapped
    return swapped


cdef intp_t sort_column(
    const char* values, intp_t stride, intp_t n, bint categorical, SortedEntry* out,
    entry_t* entries, key_t key, uint32_t* counts,
) noexcept nogil:
    """OUT the list of a column; returns the number of present rows. `entries` has 2 n entries."""
    cdef intp_t i, size = 0, n_missing = 0
    cdef uint32_t rank = 0
    for i in range(n):
        if key_at(values + i * stride, &key):
            entries[size].key = <key_t>value_from_key(key) if categorical else key
            entries[size].row = <uint32_t>i
            size += 1
        else:
            entries[n + n_missing].row = <uint32_t>i
            n_missing += 1
    for i in range(n_missing):
        out[size + i].key = HT_MISSING_KEY
        out[size + i].row = entries[n + i].row
    if size == 0:
        return 0
    if sort_entries(entries, entries + n, size, 6 if entry_t is WideEntry else 3, counts):
        entries += n
    for i in range(size):
        if i > 0 and entries[i].key != entries[i - 1].key:
            rank += 1
        out[i].key = <uint32_t>entries[i].key if categorical else rank
        out[i].row = entries[i].row
    return size


cdef intp_t sort_any(
    const char* values, intp_t stride, intp_t n, bint wide, bint categorical, SortedEntry* out,
    void* buffer, uint32_t* counts,
) noexcept nogil:
    if wide:
        return sort_column[WideEntry, uint64_t](
            values, stride, n, categorical, out, <WideEntry*>buffer, 0, counts)
    return sort_column[SortedEntry, uint32_t](
        values, stride, n, categorical, out, <SortedEntry*>buffer, 0, counts)


cdef struct TableView:
    const char* start
    intp_t row_stride         # in bytes, as the other
    intp_t column_stride


cdef int open_table(X, bint wide, TableView* out) except -1:
    """OUT a view of a non-empty table."""
    cdef const float[:, :] narrow_view
    cdef const double[:, :] wide_view
    if wide:
        wide_view = X
        out.start = <const char*>&wide_view[0, 0]
    else:
        narrow_view = X
        out.start = <const char*>&narrow_view[0, 0]
    out.row_stride, out.column_stride = X.strides
    return 0


def sort_columns(X, const uint8_t[::1] is_categorical, SortedEntry[:, ::1] lists, intp_t first,
                 int n_threads):
    """Fill lists[first:first + X.shape[1]] from the columns of a float32 or float64 table.

    NaN is missing, categories are codes from 0. Returns the number of present rows per column.
    """
    cdef bint wide = X.dtype == np.float64
    cdef intp_t n = X.shape[0], p = X.shape[1], f
    if X.dtype != np.float32 and not wide:
        raise TypeError("the table must be float32 or float64")
    if lists.shape[1] != n or first < 0 or first + p > lists.shape[0]:
        raise ValueError("the lists do not fit the table")
    if is_categorical.shape[0] != p:
        raise ValueError("one flag per column is needed")
    if n >= 2**32 - 1:
        raise ValueError("more than 4,294,967,294 rows cannot be indexed")
    cdef TableView table
    if n == 0 or p == 0:
        raise ValueError("a table needs at least one row and one column")
    open_table(X, wide, &table)
    n_threads = <int>max(1, min(n_threads, p))
    present = np.zeros(p, dtype=np.intp)
    cdef intp_t[::1] n_present = present
    cdef uint32_t[:, ::1] counts = np.empty((n_threads, 6 * RADIX_SIZE), dtype=np.uint32)
    cdef intp_t buffer_bytes = 2 * n * sizeof(WideEntry)
    cdef int[1] stopped = [False]
    cdef char* buffers = <char*>malloc(n_threads * buffer_bytes)
    if buffers == NULL:
        raise MemoryError("no memory to sort the columns")
    for f in prange(p, num_threads=team_of(n_threads), schedule="dynamic", chunksize=1, nogil=True):
        if not team_stops(stopped):
            n_present[f] = sort_any(
                table.start + f * table.column_stride, table.row_stride, n, wide, is_categorical[f],
                &lists[first + f, 0], buffers + omp_get_thread_num() * buffer_bytes,
                &counts[omp_get_thread_num(), 0])
    free(buffers)
    raise_stop(stopped[0])
    return present


def list_codes(
    const uint8_t[:, ::1] columns, const int[::1] missing_code, SortedEntry[:, ::1] lists,
    int n_threads,
):
    """Fill the lists of a binned table by counting sort: the key of a row is its bin."""
    cdef intp_t p = columns.shape[0], n = columns.shape[1], f
    if lists.shape[0] < p or lists.shape[1] != n or missing_code.shape[0] != p:
        raise ValueError("the lists do not fit the table")
    present = np.zeros(p, dtype=np.intp)
    cdef intp_t[::1] n_present = present
    n_threads = <int>max(1, min(n_threads, p))
    for f in prange(p, num_threads=team_of(n_threads), schedule="static", nogil=True):
        n_present[f] = count_codes(&columns[f, 0], n, missing_code[f], &lists[f, 0])
    return present


cdef void ends_of_column(
    const char* values, intp_t stride, bint wide, const uint8_t* codes, intp_t n,
    double* least, double* largest,
) noexcept nogil:
    cdef intp_t i
    cdef double value
    for i in range(n):
        if wide:
            value = (<const double*>(values + i * stride))[0]
        else:
            value = (<const float*>(values + i * stride))[0]
        # Comparisons with a missing value are false.
        if value < least[codes[i]]:
            least[codes[i]] = value
        if value > largest[codes[i]]:
            largest[codes[i]] = value


def bin_ends(X, const uint8_t[:, ::1] columns, double[:, ::1] least, double[:, ::1] largest,
             int n_threads):
    """OUT minimum and maximum of the bins of a dense table; those of empty bins do not change."""
    cdef intp_t p = columns.shape[0], n = columns.shape[1], f
    cdef bint wide = X.dtype == np.float64
    cdef TableView table
    cdef intp_t first, n_block
    if X.dtype != np.float32 and not wide:
        raise TypeError("the table must be float32 or float64")
    if (X.shape[0] != n or X.shape[1] != p or n == 0 or p == 0
            or least.shape[0] != p or largest.shape[0] != p
            or least.shape[1] != N_CODES or largest.shape[1] != N_CODES):
        raise ValueError("the codes do not fit the table")
    open_table(X, wide, &table)
    n_threads = <int>max(1, min(n_threads, p))
    for first in range(0, n, ENDS_BLOCK):
        n_block = min(n - first, ENDS_BLOCK)
        for f in prange(p, num_threads=team_of(n_threads if n_block * p > 65536 else 1), nogil=True,
                        schedule="static"):
            ends_of_column(table.start + first * table.row_stride + f * table.column_stride,
                           table.row_stride, wide, &columns[f, first], n_block, &least[f, 0],
                           &largest[f, 0])


cdef intp_t count_codes(
    const uint8_t* codes, intp_t n, int missing_code, SortedEntry* out,
) noexcept nogil:
    """OUT list of all rows by code; returns the number of present rows."""
    cdef intp_t place[257]
    cdef intp_t i, total = 0, n_present
    cdef int b, code
    memset(place, 0, sizeof(place))
    for i in range(n):
        place[codes[i]] += 1
    n_present = n - (place[missing_code] if missing_code < N_CODES else 0)
    for b in range(N_CODES):
        i = place[b]
        place[b] = total
        total += i
    for i in range(n):
        code = codes[i]
        out[place[code]].key = HT_MISSING_KEY if code == missing_code else <uint32_t>code
        out[place[code]].row = <uint32_t>i
        place[code] += 1
    return n_present


cdef intp_t count_present(const SortedEntry* entries, intp_t n) noexcept nogil:
    """Number of entries before the first missing one, by bisection."""
    cdef intp_t low = 0, high = n, middle
    if n == 0 or entries[n - 1].key != HT_MISSING_KEY:
        return n
    while low < high:
        middle = (low + high) // 2
        if entries[middle].key == HT_MISSING_KEY:
            high = middle
        else:
            low = middle + 1
    return low


cdef intp_t divide_list(
    SortedEntry* entries, intp_t n, const uint8_t* side, SortedEntry* scratch,
) noexcept nogil:
    """Partition entries stably: side 1, then side 0; returns how many go left.

    Rows that stay (side 2) are dropped, and the entries after the others are undefined. Every entry
    is written to both sides, but only its own side advances.
    """
    cdef intp_t i, n_left = 0, n_right = 0
    cdef uint8_t to
    for i in range(n):
        to = side[entries[i].row]
        scratch[n_right] = entries[i]
        entries[n_left] = entries[i]
        n_left += to & 1
        n_right += to == 0
    memcpy(entries + n_left, scratch, n_right * sizeof(SortedEntry))
    return n_left


cdef intp_t divide_ids(
    uint32_t* rows, intp_t n, const uint8_t* side, uint32_t* scratch, intp_t* n_staying,
) noexcept nogil:
    """The same for row ids, with those that stay last; `scratch` has 2 n entries."""
    cdef intp_t i, n_left = 0, n_right = 0, n_stay = 0
    cdef uint32_t row
    cdef uint8_t to
    for i in range(n):
        row = rows[i]
        to = side[row]
        scratch[n_right] = row
        scratch[n + n_stay] = row
        rows[n_left] = row
        n_left += to & 1
        n_right += to == 0
        n_stay += to == MISSING_STAYS
    memcpy(rows + n_left, scratch, n_right * sizeof(uint32_t))
    memcpy(rows + n_left + n_right, scratch + n, n_stay * sizeof(uint32_t))
    n_staying[0] = n_stay
    return n_left
