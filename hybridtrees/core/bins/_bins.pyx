"""Binning: distinct values, samples and categories of a table, its bin codes, packed and not."""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memchr, memcpy, memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._radix cimport key_at, key_t, value_from_key
from hybridtrees.core.base._rng cimport keyed, uniform
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport STREAM_BINS, float32_t, float64_t, intp_t, real_t

import numpy as np


# ---- Distinct values, samples and categories of a table ---------------------------------------


cdef enum:
    BLOCK_ROWS = 256
    PART_ROWS = 8192         # that a thread takes at a time
    GROUP = 32               # columns that are scanned together
    TABLE_BITS = 10
    TABLE_SIZE = 1024        # slots of a hash table of at most 256 values: few collisions

cdef int64_t LARGEST_CATEGORY = 1 << 24     # float32 does not represent all larger integers


cdef struct Part:
    # Some rows of a group of columns, which a thread scans at a time.
    const char* start
    intp_t row_stride, column_stride, item_bytes
    const float64_t* weights     # NULL: all rows count
    intp_t first_row, last_row, n_columns
    int limit
    # Of the thread: hash tables (n_columns, TABLE_SIZE) of keys, 0: empty (no number has this key)
    char* tables
    int* counts                  # (n_columns,) distinct values, limit + 1: too many


cdef inline bint insert(key_t* table, key_t key) noexcept nogil:
    """Insert a key into a hash table; returns whether it is new."""
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
        # A separate loop, which compilers can vectorise.
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
    """Insert the values of a part into its tables; returns whether there is an infinity."""
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
    """Sorted distinct numbers of each column; None for one with more than `limit` <= 255 of them.

    Rows of weight 0 do not count. Returns None if the table contains an infinity.
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
    # A hash table must not become full.
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
    """`n_drawn` of `n_rows` row numbers, ascending, by Knuth's selection sampling."""
    rows = np.empty(n_drawn + 1, dtype=np.int64)
    cdef int64_t[::1] view = rows
    cdef intp_t i, n_taken = 0
    with nogil:
        # Every row is written, but only a taken one advances the position: no branch.
        for i in range(n_rows):
            view[n_taken] = i
            n_taken += (uniform(keyed(seed, STREAM_BINS, i)) * <float64_t>(n_rows - i)
                        < <float64_t>(n_drawn - n_taken))
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
    cdef intp_t i, j, row_stride = X.strides[0], column_stride = X.strides[1]
    # The inner loop is along the smaller stride.
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

    Negative numbers count as missing.
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


# ---- Values to bin codes ----------------------------------------------------------------------
#
# Tables come as `const real_t[:, :]` of any strides. They are encoded in tiles of TILE_ROWS rows
# and TILE_COLUMNS columns, small enough for the first-level cache:
#
#     load      the tile's values, column by column, into scratch
#     bucket    values -> buckets of a jump table; NaN and infinities are noted
#     search    values -> codes: start at the bucket's first edge, then halve without branches
#     store     codes to `columns` as they stand, and to `records` row by row
#
# In column-major tables, LONG_ROWS rows of a column are encoded before the next column, and the
# records are made from the columns.
#
# The jump table divides the range of a feature's edges into equal buckets. The bucket is a monotone
# function of the value, in floating point too, so only the edges of the same bucket remain to be
# searched, mostly one or two.


cdef enum:
    TILE_ROWS = 256
    LONG_ROWS = 4096         # also the rows that a thread takes at a time
    TILE_COLUMNS = 16
    TILE_STRIDE = 272        # with a power of two, columns would compete for few cache sets
    EDGES = 512              # edges of a feature, padded for the longest search from the last one
    BUCKETS = 1024

EDGE_ROOM = EDGES

ctypedef fused index_t:
    int32_t
    int64_t

ctypedef fused cell_t:
    uint16_t
    uint32_t


cdef struct Table:
    # A strided table; strides in bytes.
    const char* start
    intp_t row_stride, column_stride, n_rows, n_columns
    bint by_rows             # whether the column stride is the smaller one


cdef struct Codec:
    # Tables to encode each feature.
    const char* edges               # (n_features, EDGES) floats, padded with infinity
    const uint8_t* jump             # (n_features, BUCKETS) number of edges in lower buckets
    const float64_t *low, *scale    # bucket = (value - low) * scale, in the values' precision
    const int32_t* first_step       # of the bisection, 0 for a feature without edges
    const int32_t* n_bins
    const uint8_t* is_categorical
    const uint8_t* category_bins    # tables code -> bin, one after the other
    const int64_t* category_start   # (n_features + 1,)


cdef struct Target:
    # Output arrays of codes.
    uint8_t *records, *columns
    intp_t n_rows, n_features, record_bytes


cdef struct Scratch:
    # Of one thread.
    char* tile                      # (TILE_COLUMNS, TILE_STRIDE) values
    int32_t* buckets                # (TILE_STRIDE,)
    uint8_t* codes                  # (TILE_COLUMNS, TILE_STRIDE)
    uint8_t* has_missing            # (n_features,)
    bint has_infinity


cdef class BinCodec:
    """Tables that encode the values of fitted features, for float32 or float64.

    `edges` (n_features, EDGE_ROOM) has the ascending edges of each feature, then infinity. The bins
    of the categories 0, 1, ... of feature f are in `category_bins` from ``category_start[f]`` on.
    """

    cdef Codec codec
    cdef readonly intp_t n_features
    cdef readonly bint is_narrow
    cdef list owned

    def __init__(self, edges, n_bins, is_categorical, category_bins, category_start):
        cdef intp_t p = edges.shape[0], f
        cdef const int32_t[::1] bins = n_bins
        cdef const uint8_t[::1] categorical = is_categorical, category = category_bins
        cdef const int64_t[::1] start = category_start
        cdef uint8_t[:, ::1] jump = np.zeros((p, BUCKETS), dtype=np.uint8)
        cdef float64_t[::1] low = np.zeros(p), scale = np.zeros(p)
        cdef int32_t[::1] step = np.zeros(p, dtype=np.int32)
        cdef const float32_t[:, ::1] narrow
        cdef const float64_t[:, ::1] wide
        cdef const char* first
        if edges.shape != (p, EDGES) or p == 0 or bins.shape[0] != p or start.shape[0] != p + 1 \
                or categorical.shape[0] != p or category.shape[0] < max(start[p], 1):
            raise ValueError("the tables of a codec have inconsistent shapes")
        self.n_features = p
        self.is_narrow = edges.dtype == np.float32
        edges = np.ascontiguousarray(edges)
        self.owned = [edges, n_bins, is_categorical, category_bins, category_start]
        self.owned += [jump, low, scale, step]
        if self.is_narrow:
            narrow = edges
            first = <const char*> &narrow[0, 0]
            for f in range(p):
                fill_feature(&narrow[f, 0], bins[f] - 1, &jump[f, 0], &low[f], &scale[f], &step[f])
        else:
            wide = edges
            first = <const char*> &wide[0, 0]
            for f in range(p):
                fill_feature(&wide[f, 0], bins[f] - 1, &jump[f, 0], &low[f], &scale[f], &step[f])
        self.codec = Codec(
            first, &jump[0, 0], &low[0], &scale[0], &step[0], &bins[0], &categorical[0],
            &category[0], &start[0])


cdef inline int32_t bucket_of(real_t value, real_t low, real_t scale) noexcept nogil:
    # NaN goes to bucket 0, as the first comparison is false.
    cdef real_t at = (value - low) * scale
    at = at if at > 0 else 0
    at = at if at < BUCKETS - 1 else BUCKETS - 1
    return <int32_t> at


cdef void fill_feature(
    const real_t* edges, intp_t n_edges, uint8_t* jump, float64_t* low, float64_t* scale,
    int32_t* first_step,
) noexcept nogil:
    cdef real_t factor
    cdef intp_t i, fullest = 0, inside
    cdef int32_t bucket, before = 0
    # All edges of a categorical feature are padding.
    if n_edges < 1 or not edges[n_edges - 1] < edges[n_edges]:
        return
    factor = <real_t> (BUCKETS - 1) / (edges[n_edges - 1] - edges[0])
    # One bucket if the range has no finite positive inverse.
    if not (factor > 0 and factor - factor == 0):
        factor = 0
    low[0] = edges[0]
    scale[0] = factor
    inside = 0
    for i in range(n_edges):
        bucket = bucket_of(edges[i], edges[0], factor)
        if i > 0 and bucket != before:
            inside = 0
        while before < bucket:
            before += 1
            jump[before] = <uint8_t> i
        inside += 1
        fullest = max(fullest, inside)
    while before < BUCKETS - 1:
        before += 1
        jump[before] = <uint8_t> n_edges
    first_step[0] = 1
    while 2 * first_step[0] - 1 < fullest:
        first_step[0] *= 2


cdef inline int fill_buckets(
    const real_t* values, intp_t n, real_t low, real_t scale, int32_t* buckets
) noexcept nogil:
    """OUT bucket of each value; returns 1 if any is NaN, plus 2 if any is infinite."""
    cdef intp_t i
    cdef int missing = 0, infinite = 0
    for i in range(n):
        missing |= values[i] != values[i]
        infinite |= (values[i] == INFINITY) | (values[i] == -INFINITY)
    for i in range(n):
        buckets[i] = bucket_of(values[i], low, scale)
    return missing + 2 * infinite


cdef inline intp_t step_up(
    const real_t* edges, intp_t at, intp_t half, real_t value
) noexcept nogil:
    # A mask, as the compiler might turn a condition into a branch.
    return at + (half & (0 - <intp_t> (edges[at + half - 1] < value)))


cdef inline void search_column(
    const real_t* values, const int32_t* buckets, intp_t n, const real_t* edges,
    const uint8_t* jump, intp_t first_step, uint8_t* codes,
) noexcept nogil:
    """OUT number of edges below each value; undefined for NaN."""
    # Four independent searches at once, to hide latency.
    cdef intp_t i, a, b, c, d, half, n_fours = n // 4 * 4
    for i in range(0, n_fours, 4):
        a = jump[buckets[i]]
        b = jump[buckets[i + 1]]
        c = jump[buckets[i + 2]]
        d = jump[buckets[i + 3]]
        half = first_step
        while half > 0:
            a = step_up(edges, a, half, values[i])
            b = step_up(edges, b, half, values[i + 1])
            c = step_up(edges, c, half, values[i + 2])
            d = step_up(edges, d, half, values[i + 3])
            half >>= 1
        codes[i] = <uint8_t> a
        codes[i + 1] = <uint8_t> b
        codes[i + 2] = <uint8_t> c
        codes[i + 3] = <uint8_t> d
    for i in range(n_fours, n):
        a = jump[buckets[i]]
        half = first_step
        while half > 0:
            a = step_up(edges, a, half, values[i])
            half >>= 1
        codes[i] = <uint8_t> a


cdef inline uint8_t category_code(
    float64_t value, const uint8_t* bins, int64_t n_categories, uint8_t missing
) noexcept nogil:
    # The comparison is false for NaN; a fraction is not a category.
    cdef int64_t category
    if not (value >= 0.0 and value < <float64_t> n_categories):
        return missing
    category = <int64_t> value
    return bins[category] if <float64_t> category == value else missing


cdef void encode_column(
    const Codec* codec, intp_t f, const real_t* values, intp_t n, Scratch* scratch, uint8_t* codes
) noexcept nogil:
    """OUT codes of up to TILE_ROWS values of feature f."""
    cdef const uint8_t* bins = codec.category_bins + codec.category_start[f]
    cdef int64_t n_categories = codec.category_start[f + 1] - codec.category_start[f]
    cdef uint8_t missing = <uint8_t> codec.n_bins[f]
    cdef int found = fill_buckets(
        values, n, <real_t> codec.low[f], <real_t> codec.scale[f], scratch.buckets)
    cdef intp_t i
    if codec.is_categorical[f]:
        for i in range(n):
            codes[i] = category_code(values[i], bins, n_categories, missing)
        found = found & 2 | (memchr(codes, missing, n) != NULL)
    else:
        search_column(
            values, scratch.buckets, n, <const real_t*> codec.edges + f * EDGES,
            codec.jump + f * BUCKETS, codec.first_step[f], codes)
        if found & 1:
            for i in range(n):
                codes[i] = missing if values[i] != values[i] else codes[i]
    if found & 1:
        scratch.has_missing[f] = 1
    if found & 2:
        scratch.has_infinity = True


cdef inline void store_records(
    const Target* target, const uint8_t* codes, intp_t stride, intp_t row, intp_t n_rows,
    intp_t column, intp_t n_columns,
) noexcept nogil:
    """Copy the codes of a tile to the records, with zeros after the last feature."""
    cdef intp_t r, c, tail = column + n_columns
    cdef uint8_t* record
    for r in range(n_rows):
        record = target.records + (row + r) * target.record_bytes
        for c in range(n_columns):
            record[column + c] = codes[c * stride + r]
        if tail == target.n_features:
            memset(record + tail, 0, target.record_bytes - tail)


cdef void encode_by_rows(
    const Table* table, const Codec* codec, const Target* target, intp_t row, Scratch* scratch,
    real_t like,
) noexcept nogil:
    """Encode TILE_ROWS rows from `row` on, tile by tile."""
    cdef intp_t n = min(<intp_t> TILE_ROWS, table.n_rows - row), t, first, width, r, c
    cdef real_t* tile = <real_t*> scratch.tile
    cdef const char* source
    cdef uint8_t* codes
    for t in range((table.n_columns + TILE_COLUMNS - 1) // TILE_COLUMNS):
        first = t * TILE_COLUMNS
        width = min(<intp_t> TILE_COLUMNS, table.n_columns - first)
        for r in range(n):
            source = table.start + (row + r) * table.row_stride + first * table.column_stride
            for c in range(width):
                tile[c * TILE_STRIDE + r] = (<const real_t*> (source + c * table.column_stride))[0]
        for c in range(width):
            codes = scratch.codes + c * TILE_STRIDE
            encode_column(codec, first + c, tile + c * TILE_STRIDE, n, scratch, codes)
            memcpy(target.columns + (first + c) * target.n_rows + row, codes, n)
        store_records(target, scratch.codes, TILE_STRIDE, row, n, first, width)


cdef void encode_by_columns(
    const Table* table, const Codec* codec, const Target* target, intp_t row, Scratch* scratch,
    real_t like,
) noexcept nogil:
    """Encode LONG_ROWS rows from `row` on, column by column."""
    cdef intp_t stop = min(row + LONG_ROWS, table.n_rows), start, n, f, r
    cdef real_t* tile = <real_t*> scratch.tile
    cdef const char* source
    for f in range(table.n_columns):
        start = row
        while start < stop:
            n = min(<intp_t> TILE_ROWS, stop - start)
            source = table.start + start * table.row_stride + f * table.column_stride
            for r in range(n):
                tile[r] = (<const real_t*> (source + r * table.row_stride))[0]
            encode_column(codec, f, tile, n, scratch, scratch.codes)
            memcpy(target.columns + f * target.n_rows + start, scratch.codes, n)
            start += n
    records_of_rows(target, row, stop)


cdef void records_of_rows(const Target* target, intp_t row, intp_t stop) noexcept nogil:
    """Fill the records [row, stop) from the columns."""
    cdef intp_t start = row, n, t, first, width
    while start < stop:
        n = min(<intp_t> TILE_ROWS, stop - start)
        for t in range((target.n_features + TILE_COLUMNS - 1) // TILE_COLUMNS):
            first = t * TILE_COLUMNS
            width = min(<intp_t> TILE_COLUMNS, target.n_features - first)
            store_records(
                target, target.columns + first * target.n_rows + start, target.n_rows, start, n,
                first, width)
        start += n


cdef Target target_of(uint8_t[:, ::1] records, uint8_t[:, ::1] columns) except *:
    if records.shape[0] != columns.shape[1] or records.shape[1] < columns.shape[0]:
        raise ValueError("records and columns have inconsistent shapes")
    return Target(
        &records[0, 0], &columns[0, 0], columns.shape[1], columns.shape[0], records.shape[1]
    )


cdef intp_t scratch_bytes() noexcept nogil:
    # For the wider of both kinds of values.
    return TILE_STRIDE * (8 * TILE_COLUMNS + 4 + TILE_COLUMNS)


cdef Scratch scratch_of(uint8_t* block, uint8_t* has_missing) noexcept nogil:
    cdef Scratch scratch
    scratch.tile = <char*> block
    scratch.buckets = <int32_t*> (block + 8 * TILE_COLUMNS * TILE_STRIDE)
    scratch.codes = <uint8_t*> (scratch.buckets + TILE_STRIDE)
    scratch.has_missing = has_missing
    scratch.has_infinity = False
    return scratch


cdef bint encode_block(
    const Table* table, const Codec* codec, const Target* target, intp_t row, uint8_t* block,
    uint8_t* has_missing, real_t like,
) noexcept nogil:
    """Encode a block; returns whether there is an infinity."""
    cdef Scratch scratch = scratch_of(block, has_missing)
    if table.by_rows:
        encode_by_rows(table, codec, target, row, &scratch, like)
    else:
        encode_by_columns(table, codec, target, row, &scratch, like)
    return scratch.has_infinity


def encode_table(
    const real_t[:, :] X, BinCodec codec not None, uint8_t[:, ::1] records,
    uint8_t[:, ::1] columns, uint8_t[::1] has_missing, int n_threads,
):
    """OUT codes of a dense table in both orders, and has_missing; returns whether inf was found."""
    cdef Table table
    cdef Target target = target_of(records, columns)
    cdef intp_t row, step, p = X.shape[1], n_infinite = 0
    cdef uint8_t[:, ::1] scratch = np.empty((n_threads, scratch_bytes()), dtype=np.uint8)
    cdef uint8_t[:, ::1] missing = np.zeros((n_threads, p), dtype=np.uint8)
    if p != codec.n_features or target.n_features != p or target.n_rows != X.shape[0] \
            or has_missing.shape[0] != p or codec.is_narrow != (sizeof(real_t) == 4):
        raise ValueError("table, codec and target have inconsistent shapes")
    table = Table(
        <const char*> &X[0, 0], X.strides[0], X.strides[1], X.shape[0], p,
        abs(X.strides[1]) < abs(X.strides[0]),
    )
    step = TILE_ROWS if table.by_rows else LONG_ROWS
    # Dynamic: a thread that is delayed leaves blocks to the others.
    for row in prange(
        0, table.n_rows, step, schedule="dynamic", chunksize=LONG_ROWS // step,
        num_threads=team_of(n_threads), nogil=True,
    ):
        n_infinite += encode_block[real_t](
            &table, &codec.codec, &target, row, &scratch[omp_get_thread_num(), 0],
            &missing[omp_get_thread_num(), 0], 0,
        )
    np.asarray(has_missing)[:] = np.asarray(missing).any(axis=0)
    return n_infinite > 0


cdef bint encode_stored(
    const real_t* data, intp_t n, const Codec* codec, intp_t f, bint any_absent, uint8_t* codes,
    uint8_t* zero_code, uint8_t* block, uint8_t* has_missing,
) noexcept nogil:
    """Encode the stored values of a column of a CSC matrix, and 0.0."""
    cdef Scratch scratch = scratch_of(block, has_missing)
    cdef real_t zero = 0
    cdef intp_t start = 0
    has_missing[f] = 0
    encode_column(codec, f, &zero, 1, &scratch, zero_code)
    if not any_absent:
        has_missing[f] = 0
    while start < n:
        encode_column(codec, f, data + start, min(<intp_t> TILE_ROWS, n - start), &scratch,
                      codes + start)
        start += TILE_ROWS
    return scratch.has_infinity


def encode_csc(
    const real_t[::1] data, const index_t[::1] indptr, intp_t n_rows, BinCodec codec not None,
    uint8_t[::1] codes, uint8_t[::1] zero_codes, uint8_t[::1] has_missing, int n_threads,
):
    """OUT codes of the stored values of a canonical CSC matrix, and of 0.0 in every column.

    A column has missing values if one is stored, or if zeros are missing (a category that is not in
    the table) and not all are stored. Returns whether inf was found.
    """
    cdef intp_t f, p = codec.n_features, n_infinite = 0, n_stored
    cdef uint8_t[:, ::1] scratch = np.empty((n_threads, scratch_bytes()), dtype=np.uint8)
    cdef const real_t* values = &data[0] if data.shape[0] > 0 else NULL
    cdef uint8_t* out = &codes[0] if codes.shape[0] > 0 else NULL
    if indptr.shape[0] != p + 1 or zero_codes.shape[0] != p or has_missing.shape[0] != p \
            or indptr[0] != 0 or indptr[p] > min(data.shape[0], codes.shape[0]) \
            or codec.is_narrow != (sizeof(real_t) == 4):
        raise ValueError("matrix, codec and codes have inconsistent shapes")
    for f in prange(p, schedule="dynamic", chunksize=1, num_threads=team_of(n_threads), nogil=True):
        n_stored = indptr[f + 1] - indptr[f]
        n_infinite += encode_stored(
            values + indptr[f], n_stored, &codec.codec, f, n_stored < n_rows, out + indptr[f],
            &zero_codes[f], &scratch[omp_get_thread_num(), 0], &has_missing[0],
        )
    return n_infinite > 0


def cells_of_rows(
    const int64_t[::1] column_start, const uint32_t[::1] rows, const uint8_t[::1] codes,
    const uint32_t[::1] cell_start, int64_t[::1] row_start, cell_t[::1] cells,
):
    """OUT the cells ``cell_start[f] + code`` of the entries of each row, ascending.

    Entries come column by column. ``row_start[r]`` is the first cell of row r, its last entry their
    number.
    """
    cdef intp_t f, e, n_entries = rows.shape[0], n_rows = row_start.shape[0] - 1
    cdef int64_t place
    if codes.shape[0] != n_entries or cells.shape[0] != n_entries \
            or column_start.shape[0] != cell_start.shape[0] \
            or column_start[column_start.shape[0] - 1] != n_entries:
        raise ValueError("the arrays of entries have inconsistent shapes")
    row_start[:] = 0
    with nogil:
        for e in range(n_entries):
            row_start[rows[e]] += 1
        # Ends of the rows, which become their starts while entries are written from the last on.
        for e in range(n_rows):
            row_start[e + 1] += row_start[e]
        for f in range(column_start.shape[0] - 2, -1, -1):
            for e in range(column_start[f + 1] - 1, column_start[f] - 1, -1):
                place = row_start[rows[e]] - 1
                row_start[rows[e]] = place
                cells[place] = <cell_t> (cell_start[f] + codes[e])


def records_from_columns(uint8_t[:, ::1] columns, uint8_t[:, ::1] records, int n_threads):
    """Fill the records from the columns."""
    cdef Target target = target_of(records, columns)
    cdef intp_t row, step = LONG_ROWS, n_rows = target.n_rows
    for row in prange(
        0, n_rows, step, schedule="dynamic", chunksize=1, num_threads=team_of(n_threads), nogil=True
    ):
        records_of_rows(&target, row, min(row + step, n_rows))


# ---- Codes packed into 1 to 7 bits each ---------------------------------------------------------


cdef inline uint64_t read_word(const uint8_t* data, int n_bytes) noexcept nogil:
    """Little-endian number of a few bytes."""
    cdef uint64_t word = 0
    cdef int j
    for j in range(n_bytes):
        word |= <uint64_t>data[j] << (8 * j)
    return word


cdef inline void unpack_eights(
    const uint8_t* packed, intp_t n_eights, int bits, uint8_t* out
) noexcept nogil:
    """OUT eight codes of every `bits` bytes; inlined for each constant number of bits."""
    cdef intp_t i
    cdef int j
    cdef uint64_t word, mask = (<uint64_t>1 << bits) - 1
    for i in range(n_eights):
        word = read_word(packed + i * bits, bits)
        for j in range(8):
            out[8 * i + j] = <uint8_t>((word >> (bits * j)) & mask)


cdef void unpack(const uint8_t* packed, intp_t n_eights, int bits, uint8_t* out) noexcept nogil:
    if bits == 1:
        unpack_eights(packed, n_eights, 1, out)
    elif bits == 2:
        unpack_eights(packed, n_eights, 2, out)
    elif bits == 3:
        unpack_eights(packed, n_eights, 3, out)
    elif bits == 4:
        unpack_eights(packed, n_eights, 4, out)
    elif bits == 5:
        unpack_eights(packed, n_eights, 5, out)
    elif bits == 6:
        unpack_eights(packed, n_eights, 6, out)
    else:
        unpack_eights(packed, n_eights, 7, out)


cdef void pack(const uint8_t* codes, intp_t n_eights, int bits, uint8_t* out) noexcept nogil:
    cdef intp_t i
    cdef int j
    cdef uint64_t word
    for i in range(n_eights):
        word = 0
        for j in range(8):
            word |= <uint64_t>codes[8 * i + j] << (bits * j)
        for j in range(bits):
            out[i * bits + j] = <uint8_t>(word >> (8 * j))


def packed_bytes(intp_t n, int bits):
    """Bytes of n packed codes: whole groups of eight codes."""
    return (n + 7) // 8 * bits


def pack_codes(const uint8_t[::1] codes, int bits):
    """Pack codes below 2**bits, 1 to 7 bits each, the lowest bits first; returns bytes."""
    cdef intp_t n = codes.shape[0], whole = n // 8
    cdef uint8_t[8] last
    if not 1 <= bits <= 7:
        raise ValueError(f"bits must be from 1 to 7, got {bits}")
    packed = np.empty(packed_bytes(n, bits), dtype=np.uint8)
    cdef uint8_t[::1] out = packed
    if n == 0:
        return packed.tobytes()
    with nogil:
        pack(&codes[0], whole, bits, &out[0])
        if n > 8 * whole:
            memset(last, 0, 8)
            memcpy(last, &codes[8 * whole], n - 8 * whole)
            pack(last, 1, bits, &out[whole * bits])
    return packed.tobytes()


def unpack_codes(const uint8_t[::1] packed, int bits, uint8_t[::1] out):
    """OUT the codes that `pack_codes` has packed."""
    cdef intp_t n = out.shape[0], whole = n // 8
    cdef uint8_t[8] last
    if not 1 <= bits <= 7:
        raise ValueError(f"bits must be from 1 to 7, got {bits}")
    if packed.shape[0] != packed_bytes(n, bits):
        raise ValueError(
            f"{n} codes of {bits} bits take {packed_bytes(n, bits)} bytes, got {packed.shape[0]}")
    if n == 0:
        return
    with nogil:
        unpack(&packed[0], whole, bits, &out[0])
        if n > 8 * whole:
            unpack(&packed[whole * bits], 1, bits, last)
            memcpy(&out[8 * whole], last, n - 8 * whole)
