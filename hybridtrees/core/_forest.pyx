"""Forests in little memory: the form that trees are kept, stored and predicted in.

Nodes stand in preorder, so that the left child of a node follows it and only the right one is
named. The field `feature` is negative in a leaf; elsewhere its upper bits say where missing values
go and whether the split is one of categories, whose set then begins at the entry of `sets` that
the first four bytes of the node name: the number of its words, its limit, its words. The first 8
bytes of a leaf are its value; where a tree has several values per leaf, or keeps those of inner
nodes too, they are the row of its values in a table.

Many rows go down one tree before the next tree is taken: a deep tree then stays in the cache.
Each row adds up its trees in their order, so the sums do not depend on blocks or threads.
"""

from cython.parallel cimport prange
from libc.math cimport isnan
from libc.string cimport memcpy

from hybridtrees.core._category_sets cimport category_side
from hybridtrees.core._forest cimport (
    FEATURE_MASK, HAS_SET, MISSING_LEFT, MISSING_STOPS, SET_HEAD, NarrowNode, WideNode, node_t,
)
from hybridtrees.core._types cimport (
    float64_t, int32_t, int64_t, intp_t, real_t, uint32_t,
)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define HT_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define HT_PREFETCH(address) ((void)0)
    #endif
    """
    void HT_PREFETCH(const void* address) nogil

cdef enum:
    GROUP = 128           # rows that go down a tree together
    CHUNK = 8192          # rows that a thread takes through all trees


cdef inline float64_t payload(const node_t* node) noexcept nogil:
    """Value of a leaf."""
    cdef float64_t value
    memcpy(&value, node, sizeof(float64_t))
    return value


cdef inline int64_t table_row(const node_t* node) noexcept nogil:
    """Row of a leaf in the table of values."""
    cdef int64_t row
    memcpy(&row, node, sizeof(int64_t))
    return row


cdef inline int32_t special_step(
    const node_t* node, int32_t k, float64_t x, const uint32_t* sets
) noexcept nogil:
    """Next node at a split of categories or one where rows may stop; k itself for a stop."""
    cdef uint32_t start
    cdef bint missing = isnan(x)
    cdef int32_t left
    if node.feature & HAS_SET:
        memcpy(&start, node, sizeof(uint32_t))
        left = category_side(sets + start + SET_HEAD, <int32_t>sets[start],
                             <int32_t>sets[start + 1], x)
        missing = left < 0
    else:
        left = x <= node.threshold
    if missing:
        if node.feature & MISSING_STOPS:
            return k
        left = (node.feature & MISSING_LEFT) != 0
    return k + 1 if left else node.right


cdef inline void walk_plain(
    const node_t* nodes, const real_t* X, intp_t stride, int32_t n_rows, int32_t* ended,
) noexcept nogil:
    """Node where each of at most GROUP rows ends: numeric splits, no missing value."""
    cdef int32_t at[GROUP]
    cdef int32_t row[GROUP]
    cdef int32_t j, k, right, n_active = n_rows, n_kept
    cdef const node_t* node
    for j in range(n_rows):
        at[j] = 0
        row[j] = j
    while n_active > 0:
        n_kept = 0
        for j in range(n_active):
            k = at[j]
            node = nodes + k
            if node.feature < 0:
                ended[row[j]] = k
                continue
            # Without a branch, which would be guessed wrongly half the time.
            right = X[row[j] * stride + (node.feature & FEATURE_MASK)] > node.threshold
            k += 1 + ((node.right - k - 1) & -right)
            # By the time its turn comes, the node of this row is in the cache.
            HT_PREFETCH(nodes + k)
            at[n_kept] = k
            row[n_kept] = row[j]
            n_kept += 1
        n_active = n_kept


cdef bint any_missing(const real_t* X, intp_t n) noexcept nogil:
    cdef intp_t i
    cdef bint found = False
    for i in range(n):
        found |= X[i] != X[i]
    return found


cdef inline void walk_group(
    const node_t* nodes, const real_t* X, intp_t stride, const uint32_t* rows, int32_t n_rows,
    const uint32_t* sets, int32_t swapped, const uint32_t* others, int32_t* ended,
) noexcept nogil:
    """Node where each of at most GROUP rows ends.

    The value of the feature `swapped` is taken from the rows `others` (-1: of none).
    """
    cdef int32_t position[GROUP]
    cdef int32_t active[GROUP]
    cdef int32_t j, i, k, to, feature, left, n_active = n_rows, n_kept
    cdef const node_t* node
    cdef float64_t x
    for j in range(n_rows):
        position[j] = 0
        active[j] = j
    while n_active > 0:
        n_kept = 0
        for j in range(n_active):
            i = active[j]
            k = position[i]
            node = nodes + k
            if node.feature < 0:
                ended[i] = k
                continue
            feature = node.feature & FEATURE_MASK
            x = X[(others[i] if feature == swapped else rows[i]) * stride + feature]
            if node.feature & (HAS_SET | MISSING_STOPS):
                to = special_step(node, k, x, sets)
                if to == k:
                    ended[i] = k
                    continue
            else:
                # For a missing value both comparisons are false.
                left = (x <= node.threshold) | (
                    ((node.feature & MISSING_LEFT) != 0) & (not x > node.threshold))
                to = k + 1 + (node.right - k - 1) * (1 - left)
            HT_PREFETCH(nodes + to)
            position[i] = to
            active[n_kept] = i
            n_kept += 1
        n_active = n_kept


cdef inline void add_value(
    const node_t* nodes, int32_t node, const float64_t* table, int32_t n_values, intp_t node_row,
    bint votes, float64_t* out,
) noexcept nogil:
    """Add what a node says to one row: its values, or one vote."""
    cdef int32_t j, best = 0
    cdef const float64_t* values
    cdef float64_t value
    if table == NULL:
        value = payload(nodes + node)
        if votes:
            value = 1.0 if value > 0.5 else 0.0
        out[0] += value
        return
    # Tables of all nodes are asked by node, others by what the leaf says.
    values = table + n_values * (node_row + node if node_row >= 0 else table_row(nodes + node))
    if not votes:
        for j in range(n_values):
            out[j] += values[j]
        return
    if n_values == 1:
        out[0] += 1.0 if values[0] > 0.5 else 0.0
        return
    for j in range(1, n_values):
        if values[j] > values[best]:
            best = j
    out[best] += 1.0


cdef void add_chunk(
    const node_t* nodes, const int64_t* start, intp_t first, intp_t last, const uint32_t* sets,
    const real_t* X, intp_t stride, intp_t first_row, intp_t n_rows, const float64_t* table,
    int32_t n_values, bint by_node, bint votes, bint plain, float64_t* raw,
) noexcept nogil:
    cdef intp_t tree, group, row
    cdef int32_t ended[GROUP]
    cdef uint32_t rows[GROUP]
    cdef int32_t n, j
    plain = plain and not any_missing(X + first_row * stride, n_rows * stride)
    for tree in range(first, last):
        for group in range((n_rows + GROUP - 1) // GROUP):
            n = <int32_t>min(GROUP, n_rows - group * GROUP)
            row = first_row + group * GROUP
            if plain:
                walk_plain(nodes + start[tree], X + row * stride, stride, n, ended)
            else:
                for j in range(n):
                    rows[j] = <uint32_t>j
                walk_group(nodes + start[tree], X + row * stride, stride, rows, n, sets, -1, rows,
                           ended)
            for j in range(n):
                add_value(nodes + start[tree], ended[j], table, n_values,
                          start[tree] if by_node else -1, votes, raw + (row + j) * n_values)


cdef int add_typed(
    const node_t[::1] nodes, const int64_t[::1] start, intp_t first, intp_t last,
    const uint32_t[::1] sets, const real_t[:, ::1] X, const float64_t[:, ::1] table, bint by_node,
    bint votes, bint plain, float64_t[:, ::1] raw, int n_threads,
) except -1:
    cdef intp_t n = X.shape[0], chunk = CHUNK, c, n_chunks, n_columns = X.shape[1]
    cdef int32_t n_values = <int32_t>raw.shape[1]
    cdef const float64_t* values = &table[0, 0] if table.shape[0] > 0 else NULL
    if n == 0 or first >= last:
        return 0
    chunk = min(chunk, (n + n_threads - 1) // n_threads)
    n_chunks = (n + chunk - 1) // chunk
    n_threads = <int>min(n_threads, n_chunks)
    for c in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1, nogil=True):
        add_chunk(&nodes[0], &start[0], first, last, &sets[0], &X[0, 0], n_columns, c * chunk,
                  min(chunk, n - c * chunk), values, n_values, by_node, votes, plain, &raw[0, 0])
    return 0


cdef void find_chunk(
    const node_t* nodes, const int64_t* start, intp_t first, intp_t last, const uint32_t* sets,
    const real_t* X, intp_t stride, intp_t first_row, intp_t n_rows, bint plain,
    int32_t* leaves,
) noexcept nogil:
    cdef intp_t tree, group, row, width = last - first
    cdef int32_t ended[GROUP]
    cdef uint32_t rows[GROUP]
    cdef int32_t n, j
    plain = plain and not any_missing(X + first_row * stride, n_rows * stride)
    for tree in range(first, last):
        for group in range((n_rows + GROUP - 1) // GROUP):
            n = <int32_t>min(GROUP, n_rows - group * GROUP)
            row = first_row + group * GROUP
            if plain:
                walk_plain(nodes + start[tree], X + row * stride, stride, n, ended)
            else:
                for j in range(n):
                    rows[j] = <uint32_t>j
                walk_group(nodes + start[tree], X + row * stride, stride, rows, n, sets, -1, rows,
                           ended)
            for j in range(n):
                leaves[(row + j) * width + tree - first] = ended[j]


cdef int find_typed(
    const node_t[::1] nodes, const int64_t[::1] start, intp_t first, intp_t last,
    const uint32_t[::1] sets, const real_t[:, ::1] X, bint plain, int32_t[:, ::1] leaves,
    int n_threads,
) except -1:
    cdef intp_t n = X.shape[0], chunk = CHUNK, c, n_chunks, n_columns = X.shape[1]
    if n == 0 or first >= last:
        return 0
    chunk = min(chunk, (n + n_threads - 1) // n_threads)
    n_chunks = (n + chunk - 1) // chunk
    n_threads = <int>min(n_threads, n_chunks)
    for c in prange(n_chunks, num_threads=n_threads, schedule="dynamic", chunksize=1, nogil=True):
        find_chunk(&nodes[0], &start[0], first, last, &sets[0], &X[0, 0], n_columns, c * chunk,
                   min(chunk, n - c * chunk), plain, &leaves[0, 0])
    return 0


cdef int walk_typed(
    const node_t[::1] nodes, const uint32_t[::1] sets, const real_t[:, ::1] X,
    const uint32_t[::1] rows, int32_t swapped, const uint32_t[::1] others, int32_t[::1] ended,
) except -1:
    cdef intp_t group, first, n = rows.shape[0], n_columns = X.shape[1]
    cdef int32_t size
    with nogil:
        for group in range((n + GROUP - 1) // GROUP):
            first = group * GROUP
            size = <int32_t>min(GROUP, n - first)
            walk_group(&nodes[0], &X[0, 0], n_columns, &rows[first], size, &sets[0], swapped,
                       &others[first], &ended[first])
    return 0


# ---- entry points -----------------------------------------------------------------------------


def add_packed(nodes, const int64_t[::1] start, intp_t first, intp_t last,
               const uint32_t[::1] sets, X, const float64_t[:, ::1] table, bint by_node,
               bint votes, bint plain, float64_t[:, ::1] raw, int n_threads):
    """raw += values (or votes) of the trees [first, last) for the rows of X, in C order.

    `plain` says that every split is numeric and no row stops at one.
    """
    cdef const NarrowNode[::1] narrow
    cdef const WideNode[::1] wide
    cdef const float[:, ::1] X32
    cdef const double[:, ::1] X64
    if nodes.dtype.itemsize == sizeof(NarrowNode):
        narrow = nodes
        if X.dtype.itemsize == 4:
            X32 = X
            add_typed(narrow, start, first, last, sets, X32, table, by_node, votes,
                      plain, raw, n_threads)
        else:
            X64 = X
            add_typed(narrow, start, first, last, sets, X64, table, by_node, votes,
                      plain, raw, n_threads)
    else:
        wide = nodes
        if X.dtype.itemsize == 4:
            X32 = X
            add_typed(wide, start, first, last, sets, X32, table, by_node, votes,
                      plain, raw, n_threads)
        else:
            X64 = X
            add_typed(wide, start, first, last, sets, X64, table, by_node, votes,
                      plain, raw, n_threads)


def find_packed(nodes, const int64_t[::1] start, intp_t first, intp_t last,
                const uint32_t[::1] sets, X, bint plain, int32_t[:, ::1] leaves, int n_threads):
    """leaves[row, k] = node within tree first + k where the row ends."""
    cdef const NarrowNode[::1] narrow
    cdef const WideNode[::1] wide
    cdef const float[:, ::1] X32
    cdef const double[:, ::1] X64
    if nodes.dtype.itemsize == sizeof(NarrowNode):
        narrow = nodes
        if X.dtype.itemsize == 4:
            X32 = X
            find_typed(narrow, start, first, last, sets, X32, plain, leaves, n_threads)
        else:
            X64 = X
            find_typed(narrow, start, first, last, sets, X64, plain, leaves, n_threads)
    else:
        wide = nodes
        if X.dtype.itemsize == 4:
            X32 = X
            find_typed(wide, start, first, last, sets, X32, plain, leaves, n_threads)
        else:
            X64 = X
            find_typed(wide, start, first, last, sets, X64, plain, leaves, n_threads)


def walk_packed(nodes, const uint32_t[::1] sets, X, const uint32_t[::1] rows, int32_t swapped,
                const uint32_t[::1] others, int32_t[::1] ended):
    """ended[i] = node where row rows[i] of X ends in one tree.

    The feature `swapped` is read in the row others[i] instead; -1 for none.
    """
    cdef const NarrowNode[::1] narrow
    cdef const WideNode[::1] wide
    cdef const float[:, ::1] X32
    cdef const double[:, ::1] X64
    if rows.shape[0] == 0:
        return
    if nodes.dtype.itemsize == sizeof(NarrowNode):
        narrow = nodes
        if X.dtype.itemsize == 4:
            X32 = X
            walk_typed(narrow, sets, X32, rows, swapped, others, ended)
        else:
            X64 = X
            walk_typed(narrow, sets, X64, rows, swapped, others, ended)
    else:
        wide = nodes
        if X.dtype.itemsize == 4:
            X32 = X
            walk_typed(wide, sets, X32, rows, swapped, others, ended)
        else:
            X64 = X
            walk_typed(wide, sets, X64, rows, swapped, others, ended)
