"""The base class of the searches; growing nodes, the queue of open nodes, sums over leaves."""

from cython.parallel cimport prange
from libc.math cimport INFINITY, fabs, rint
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from hybridtrees.core.base._exact_sum cimport (
    SUM_ROWS, HtExactSum, ht_add_term, ht_add_terms, ht_clear_sum, ht_merge_sum, ht_sum_value,
)
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._rng cimport draw_few, draw_sorted, keyed
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of, team_stops, threads_for
from hybridtrees.core.base._types cimport (
    BEST_FIRST, DEPTH_FIRST, STREAM_CHILD, STREAM_LEVEL, STREAM_NODE, STREAM_TREE, TARGET_CLASS,
    TARGET_CLASS_WEIGHTED, BinView, TargetView, float32_t, float64_t, int32_t, int8_t, intp_t,
    uint32_t, uint64_t, uint8_t,
)
from hybridtrees.core.search._criteria cimport add_row

import numpy as np

from hybridtrees.core.base._types import Criterion, Frontier


# ---- The order in which open nodes are split: a binary heap under one of three rules ----------


# By the names in GrowerParams.
FRONTIERS = {kind.name.lower().replace("_", "-"): int(kind) for kind in Frontier}
CRITERIA = {kind.name.lower(): int(kind) for kind in Criterion}


cdef class NodeQueue:
    """Open nodes: level by level (by id), best gain first (then by id), or newest first."""

    def __cinit__(self, str frontier):
        self.heap = NULL
        self.n_open = 0
        self.capacity = 0
        self.kind = FRONTIERS[frontier]

    def __dealloc__(self):
        free(self.heap)

    cdef bint goes_before(self, OpenNode a, OpenNode b) noexcept nogil:
        """Whether node a is split before node b."""
        if self.kind == BEST_FIRST and a.gain != b.gain:
            return a.gain > b.gain
        if self.kind == DEPTH_FIRST:
            return a.node > b.node
        return a.node < b.node

    cdef int push(self, int32_t node, float64_t gain) except -1 nogil:
        cdef int32_t i = self.n_open, up
        cdef OpenNode entry
        cdef OpenNode* heap
        entry.node = node
        entry.gain = gain
        if self.n_open == self.capacity:
            heap = <OpenNode*>realloc(self.heap, (2 * self.capacity + 64) * sizeof(OpenNode))
            if heap == NULL:
                with gil:
                    raise MemoryError("no memory for the open nodes of a tree")
            self.heap = heap
            self.capacity = 2 * self.capacity + 64
        self.n_open += 1
        while i > 0:
            up = (i - 1) // 2
            if not self.goes_before(entry, self.heap[up]):
                break
            self.heap[i] = self.heap[up]
            i = up
        self.heap[i] = entry
        return 0

    cdef int32_t pop(self) noexcept nogil:
        """Remove and return the next node; the queue must not be empty."""
        cdef OpenNode top = self.heap[0], last
        cdef int32_t i = 0, child
        self.n_open -= 1
        last = self.heap[self.n_open]
        while 2 * i + 1 < self.n_open:
            child = 2 * i + 1
            if child + 1 < self.n_open and self.goes_before(self.heap[child + 1],
                                                            self.heap[child]):
                child += 1
            if not self.goes_before(self.heap[child], last):
                break
            self.heap[i] = self.heap[child]
            i = child
        self.heap[i] = last
        return top.node

    def order(self, gains):
        """Order in which nodes with these gains are popped if all are pushed first; for tests."""
        for node, gain in enumerate(gains):
            self.push(node, gain)
        return [self.pop() for _ in range(self.n_open)]


# ---- Nodes of a tree while it grows, and the category sets of their splits --------------------


cdef class NodeStore:
    """A growing array of nodes; a child always has a larger number than its parent."""

    def __cinit__(self):
        self.nodes = NULL
        self.words = NULL
        self.capacity = 0
        self.word_capacity = 0
        self.clear()

    def __dealloc__(self):
        free(self.nodes)
        free(self.words)

    cdef void clear(self) noexcept nogil:
        self.n_nodes = 0
        self.n_words = 0

    cdef int reserve(self, int32_t n) except -1 nogil:
        """Allocate memory for n nodes in total."""
        cdef GrowNode* nodes
        if n > self.capacity:
            nodes = <GrowNode*>realloc(self.nodes, n * sizeof(GrowNode))
            if nodes == NULL:
                with gil:
                    raise MemoryError("no memory for the nodes of a tree")
            self.nodes = nodes
            self.capacity = n
        return 0

    cdef int new_node(self) except -1 nogil:
        cdef GrowNode* node
        if self.n_nodes == self.capacity:
            self.reserve(2 * self.capacity + 64)
        node = self.nodes + self.n_nodes
        memset(node, 0, sizeof(GrowNode))
        node.left = node.right = node.parent = node.slot = -1
        node.split.feature = node.split.category_start = -1
        node.bounds.lower, node.bounds.upper = -INFINITY, INFINITY
        node.groups = <uint64_t>0 - 1
        node.alone = -1
        self.n_nodes += 1
        return self.n_nodes - 1

    cdef int new_children(self, int32_t parent) except -1 nogil:
        """Make the children of `parent`; their random keys depend on the path alone."""
        cdef int32_t left = self.new_node()
        cdef int32_t right = self.new_node()
        cdef int32_t side
        cdef GrowNode* child
        self.nodes[parent].left = left
        self.nodes[parent].right = right
        for side in range(2):
            child = self.nodes + (right if side else left)
            child.parent = parent
            child.depth = self.nodes[parent].depth + 1
            child.bounds = self.nodes[parent].bounds
            child.groups = self.nodes[parent].groups
            child.alone = self.nodes[parent].alone
            child.key = keyed(self.nodes[parent].key, STREAM_CHILD, side)
        return 0

    cdef int new_words(self, intp_t n) except -1 nogil:
        """Append n zero words for a category set; returns their start."""
        cdef uint32_t* words
        cdef intp_t start = self.n_words
        if n == 0:              # the array may be NULL
            return <int>start
        if start + n > 0x7FFFFFFF:
            with gil:
                raise MemoryError("the category sets of a tree are too large")
        if start + n > self.word_capacity:
            words = <uint32_t*>realloc(self.words, (2 * (start + n)) * sizeof(uint32_t))
            if words == NULL:
                with gil:
                    raise MemoryError("no memory for the category sets of a tree")
            self.words = words
            self.word_capacity = 2 * (start + n)
        memset(self.words + start, 0, n * sizeof(uint32_t))
        self.n_words = start + n
        return <int>start

    cdef uint32_t* words_of(self, const GrowNode* node) noexcept nogil:
        """Category set of a node's split, NULL if it has none or it is empty."""
        if node.split.category_words == 0:
            return NULL
        return self.words + node.split.category_start

    cdef int copy(self, NodeStore other) except -1 nogil:
        """Copy another store."""
        self.clear()
        self.reserve(other.n_nodes)
        memcpy(self.nodes, other.nodes, other.n_nodes * sizeof(GrowNode))
        self.n_nodes = other.n_nodes
        self.append_words(other)
        return 0

    cdef int append_words(self, NodeStore other) except -1 nogil:
        """Append the category sets of another store; returns their start."""
        cdef int start = self.new_words(other.n_words)
        if other.n_words > 0:      # otherwise both arrays may be NULL
            memcpy(self.words + start, other.words, other.n_words * sizeof(uint32_t))
        return start

    cdef void prune(self, float64_t least_gain) noexcept nogil:
        """Undo splits above two leaves with less gain, bottom up, and renumber the nodes."""
        cdef int32_t k, to = 0
        cdef GrowNode* node
        cdef GrowNode* nodes = self.nodes
        for k in range(self.n_nodes - 1, -1, -1):
            node = nodes + k
            if (node.left >= 0 and nodes[node.left].left < 0 and nodes[node.right].left < 0
                    and node.split.gain < least_gain):
                nodes[node.left].parent = nodes[node.right].parent = -1
                node.left = node.right = node.split.feature = -1
                node.stay = node.stop
        # Parents come before their children, so the new number of a parent is known. A node without
        # a parent has been removed.
        for k in range(self.n_nodes):
            node = nodes + k
            if k > 0 and node.parent < 0:
                continue
            if node.left >= 0:
                nodes[node.left].parent = to
                nodes[node.right].parent = to
            if k > 0:
                if nodes[node.parent].left == k:
                    nodes[node.parent].left = to
                else:
                    nodes[node.parent].right = to
            if to != k:
                nodes[to] = node[0]
            to += 1
        self.n_nodes = to

    cdef int graft(self, int32_t at, NodeStore other) except -1 nogil:
        """Replace node `at` by the tree of `other`, which was grown from it."""
        cdef intp_t shift = self.nodes[at].start
        cdef int32_t k, first = self.n_nodes - 1, words, target
        cdef int32_t parent = self.nodes[at].parent
        cdef GrowNode* node
        words = self.append_words(other)
        for k in range(other.n_nodes):
            target = at if k == 0 else self.new_node()
            node = self.nodes + target
            node[0] = other.nodes[k]
            node.start += shift
            node.stop += shift
            node.stay += shift
            # Node k > 0 of the other tree becomes node first + k.
            node.parent = parent if k == 0 else (
                at if node.parent == 0 else first + node.parent)
            if node.left >= 0:
                node.left += first
                node.right += first
            if node.split.category_start >= 0:
                node.split.category_start += words
        return 0


# ---- Passes over the rows of a grown tree's leaves --------------------------------------------
#
# Threads share blocks of rows of the leaves, at least four blocks each. Sums do not depend on the
# order of the rows, blocks or threads (exact_sum.h).
#
# The rows of a leaf are spread over the whole table. So blocks are processed in the order of their
# first rows, not leaf by leaf: leaves share the cache lines they read, and threads work in
# different parts of the table.


cdef enum:
    PLACES = 1024         # parts of the table, for the sort of blocks
    ADD_BLOCK = 512       # rows of a block in `add_to_blocks`
    WINDOW_ROWS = 8192    # rows of the table whose scores fit the nearer caches
    LEAF_ROWS = 64        # minimum average number of rows of a leaf in a window


cdef intp_t[:, ::1] cut(intp_t[:, ::1] leaves, intp_t size):
    """Divide leaves, given as (node, start, stop), into blocks of at most `size` rows."""
    cdef intp_t k, start, n_blocks = 0
    for k in range(leaves.shape[0]):
        n_blocks += (leaves[k, 2] - leaves[k, 1] + size - 1) // size
    cdef intp_t[:, ::1] blocks = np.empty((n_blocks, 3), dtype=np.intp)
    n_blocks = 0
    for k in range(leaves.shape[0]):
        start = leaves[k, 1]
        while start < leaves[k, 2]:
            blocks[n_blocks, 0] = leaves[k, 0]
            blocks[n_blocks, 1] = start
            blocks[n_blocks, 2] = min(start + size, leaves[k, 2])
            start += size
            n_blocks += 1
    return blocks


cdef intp_t[::1] by_place(const uint32_t* rows, intp_t[:, ::1] blocks):
    """Numbers of the blocks, roughly in the order of their first rows."""
    cdef intp_t n = blocks.shape[0], k
    cdef uint32_t place, largest = 0
    cdef int shift = 0
    cdef intp_t[::1] order = np.empty(n, dtype=np.intp)
    cdef intp_t[PLACES + 1] before
    memset(before, 0, sizeof(before))
    for k in range(n):
        largest = max(largest, rows[blocks[k, 1]])
    while largest >> shift >= PLACES:
        shift += 1
    for k in range(n):
        before[(rows[blocks[k, 1]] >> shift) + 1] += 1
    for k in range(PLACES):
        before[k + 1] += before[k]
    for k in range(n):
        place = rows[blocks[k, 1]] >> shift
        order[before[place]] = k
        before[place] += 1
    return order


cdef struct RowSums:
    # What is summed over the rows of nodes.
    Column* columns       # of each sum; NULL for sums by class
    const TargetView* target
    int32_t n_sums
    bint whole            # sums by class: the weights are integers
    int vector_bytes


cdef Column make_column(
    const float32_t* single, const float64_t* double_, intp_t stride, intp_t n
) noexcept nogil:
    """A column of n rows; float32 columns are not tested for integers."""
    cdef Column column
    cdef intp_t i
    cdef float64_t x, limit = 9007199254740992.0 / <float64_t>max(n, 1)
    column.single, column.double_, column.stride = single, double_, stride
    column.whole = single == NULL
    if double_ != NULL:
        for i in range(n):
            x = double_[i * stride]
            if x != rint(x) or fabs(x) > limit:
                column.whole = False
                break
    return column


cdef void sum_column(
    const Column* column, const uint32_t* rows, intp_t n, int width, HtExactSum* part,
    float64_t* out,
) noexcept nogil:
    """Add the sum over some rows to `part`, or if that is NULL write its value to `out`."""
    cdef float64_t[SUM_ROWS] terms
    cdef float64_t total = 0 if column.double_ != NULL else <float64_t>n
    cdef intp_t i, m, first = 0
    cdef HtExactSum own
    ht_clear_sum(&own)
    if column.whole:
        for i in range(n if column.double_ != NULL else 0):
            total += column.double_[rows[i] * column.stride]
        if part != NULL:
            ht_add_term(part, total)
    while first < n and not column.whole:
        m = min(n - first, <intp_t>SUM_ROWS)
        if column.single != NULL:
            for i in range(m):
                terms[i] = column.single[rows[first + i]]
        else:
            for i in range(m):
                terms[i] = column.double_[rows[first + i] * column.stride]
        # Wide vectors are slower for few rows, as in most leaves of a forest.
        ht_add_terms(width if m >= 16 else 16, &own if part == NULL else part, terms, m)
        first += m
    if part == NULL:
        out[0] = total if column.whole else ht_sum_value(&own)


cdef void sum_classes(
    const RowSums* work, const uint32_t* rows, intp_t n, HtExactSum* parts, float64_t* out
) noexcept nogil:
    """Add the weights of all classes and the total weight to `parts`, or if NULL to `out`."""
    cdef const float64_t* row
    cdef float64_t weight = 1.0
    cdef intp_t i
    for i in range(n):
        row = work.target.data + <intp_t>rows[i] * work.target.width
        if parts == NULL:
            add_row(work.target, row, out)
            continue
        if work.target.width > 1:
            weight = row[1]
        ht_add_term(parts + <intp_t>row[0], weight)
        ht_add_term(parts + work.n_sums - 1, weight)


cdef void sum_block(
    const RowSums* work, const uint32_t* rows, intp_t n, HtExactSum* parts, HtExactSum* scratch,
    float64_t* out,
) noexcept nogil:
    """Add all sums over some rows of a node to `parts`, or if that is NULL write them to `out`."""
    cdef int32_t k
    if work.columns != NULL:
        for k in range(work.n_sums):
            sum_column(&work.columns[k], rows, n, work.vector_bytes,
                       NULL if parts == NULL else parts + k, out + k)
    elif parts != NULL or work.whole:
        sum_classes(work, rows, n, parts, out)
    else:
        for k in range(work.n_sums):
            ht_clear_sum(&scratch[k])
        sum_classes(work, rows, n, scratch, out)
        for k in range(work.n_sums):
            out[k] = ht_sum_value(&scratch[k])


cdef int sum_by_node(
    const RowSums* work, const uint32_t* rows, intp_t[:, ::1] ends, float64_t[:, ::1] sums,
    int n_threads,
) except -1:
    """OUT sums over the rows that end at each node; nodes without such rows are not changed."""
    cdef intp_t[:, ::1] blocks = cut(ends, SUM_BLOCK)
    cdef intp_t k, block, n_blocks = blocks.shape[0], n_rows = 0, n_parts = 0
    cdef intp_t[::1] order
    cdef intp_t[::1] part = np.full(n_blocks, -1, dtype=np.intp)
    cdef HtExactSum* parts
    cdef HtExactSum* scratch
    cdef HtExactSum* at
    for block in range(n_blocks):
        n_rows += blocks[block, 2] - blocks[block, 1]
        # The sums of a node with several blocks are merged at the end.
        if (block > 0 and blocks[block - 1, 0] == blocks[block, 0]) or (
                block + 1 < n_blocks and blocks[block + 1, 0] == blocks[block, 0]):
            part[block] = n_parts
            n_parts += 1
    # The sort is not worth it for small leaves, which are neighbours in `rows`.
    order = by_place(rows, blocks) if n_rows > 256 * n_blocks else np.arange(n_blocks)
    n_threads = threads_for(<int>min(n_threads, n_blocks), n_rows, 4 * SUM_BLOCK)
    cdef uint8_t[::1] kept = np.empty(
        (n_parts + n_threads) * work.n_sums * sizeof(HtExactSum), dtype=np.uint8)
    parts = <HtExactSum*>&kept[0]
    scratch = parts + n_parts * work.n_sums
    with nogil:
        for k in range(n_parts * work.n_sums):
            ht_clear_sum(&parts[k])
        for k in prange(n_blocks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=4):
            sum_block(work, rows + blocks[order[k], 1], blocks[order[k], 2] - blocks[order[k], 1],
                      NULL if part[order[k]] < 0 else parts + part[order[k]] * work.n_sums,
                      scratch + omp_get_thread_num() * work.n_sums, &sums[blocks[order[k], 0], 0])
        for block in range(n_blocks):
            for k in range(work.n_sums if part[block] >= 0 else 0):
                at = parts + part[block] * work.n_sums + k
                if block > 0 and blocks[block - 1, 0] == blocks[block, 0]:
                    ht_merge_sum(at, at - work.n_sums)    # the node's blocks so far
                sums[blocks[block, 0], k] = ht_sum_value(at)
    return 0


cdef int sum_leaves(
    const float32_t* grad, const float32_t* hess, float64_t constant_hess,
    const uint32_t* rows, intp_t[:, ::1] ends, float64_t[:, ::1] sums, int n_threads,
) except -1:
    """OUT sums of grad and hess over the rows of each leaf."""
    cdef Column[2] columns
    cdef RowSums work
    cdef intp_t node
    columns[0], columns[1] = make_column(grad, NULL, 1, 0), make_column(hess, NULL, 1, 0)
    work.columns, work.n_sums, work.vector_bytes = columns, 2, ht_vector_bytes()
    sum_by_node(&work, rows, ends, sums, n_threads)
    if hess == NULL:
        for node in range(sums.shape[0]):
            sums[node, 1] *= constant_hess
    return 0


cdef int sum_targets(
    const TargetView* target, const uint32_t* rows, intp_t[:, ::1] ends,
    float64_t[:, ::1] sums, int n_threads,
) except -1:
    """OUT sums and weight of the targets of each node's rows."""
    cdef RowSums work
    cdef int32_t k
    cdef uint8_t[::1] room = np.empty((target.n_sums + 1) * sizeof(Column), dtype=np.uint8)
    work.target, work.n_sums, work.vector_bytes = target, target.n_sums + 1, ht_vector_bytes()
    if target.layout in (TARGET_CLASS, TARGET_CLASS_WEIGHTED):
        work.columns = NULL
        work.whole = make_column(
            NULL, NULL if target.width == 1 else target.data + 1, target.width, target.n_rows
        ).whole
    else:
        work.columns = <Column*>&room[0]
        for k in range(work.n_sums):
            work.columns[k] = make_column(
                NULL, target.data + k if k < target.width else NULL, target.width, target.n_rows)
    return sum_by_node(&work, rows, ends, sums, n_threads)


cdef void add_to_rows(
    float64_t* raw, intp_t stride, const uint32_t* rows, intp_t start, intp_t stop,
    float64_t value,
) noexcept nogil:
    cdef intp_t i
    cdef float64_t* target
    for i in range(start, stop):
        target = <float64_t*>(<char*>raw + rows[i] * stride)
        target[0] += value


cdef intp_t first_from(
    const uint32_t* rows, intp_t start, intp_t stop, intp_t least
) noexcept nogil:
    """Position of the first of some ascending ids that is at least `least`."""
    cdef intp_t middle
    while start < stop:
        middle = (start + stop) >> 1
        if <intp_t>rows[middle] < least:
            start = middle + 1
        else:
            stop = middle
    return start


cdef intp_t add_below(
    float64_t* raw, intp_t stride, const uint32_t* rows, intp_t start, intp_t stop, intp_t limit,
    float64_t value,
) noexcept nogil:
    """Add to the ascending rows below a limit; returns the position of the next row."""
    cdef float64_t* target
    while start < stop and <intp_t>rows[start] < limit:
        target = <float64_t*>(<char*>raw + rows[start] * stride)
        target[0] += value
        start += 1
    return start


cdef void add_to_windows(
    const float64_t* values, const uint32_t* rows, const intp_t[:, ::1] leaves, float64_t* raw,
    intp_t stride, intp_t window, intp_t first, intp_t last, intp_t* at,
) noexcept nogil:
    """Add to the rows [first, last) of the table, window by window; `at` is scratch per leaf."""
    cdef intp_t k
    for k in range(leaves.shape[0]):
        at[k] = first_from(rows, leaves[k, 1], leaves[k, 2], first)
    while first < last:
        first = min(first + window, last)
        for k in range(leaves.shape[0]):
            at[k] = add_below(raw, stride, rows, at[k], leaves[k, 2], first,
                              values[leaves[k, 0]])


cdef int add_to_leaves(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] leaves, float64_t[:] raw,
    int n_threads, bint ascending,
) except -1:
    """raw[row] += values[node of the row's leaf].

    Neighbouring rows belong to different leaves and share a cache line. So threads share the table,
    not the leaves: a thread adds to all rows of a window. This requires row ids that ascend within
    a leaf (`ascending`), and not too many leaves.
    """
    cdef intp_t first, n = raw.shape[0], n_leaves = leaves.shape[0]
    cdef intp_t window = max(<intp_t>WINDOW_ROWS, LEAF_ROWS * n_leaves), part = 4 * window
    cdef intp_t[:, ::1] at
    n_threads = threads_for(n_threads, n, 4 * SUM_BLOCK)
    if n_threads == 1 or not ascending or 2 * n_threads * part > n:
        return add_to_blocks(values, rows, leaves, raw, n_threads)
    at = np.empty((n_threads, n_leaves + 8), dtype=np.intp)
    with nogil:
        for first in prange(0, n, part, num_threads=team_of(n_threads),
                            schedule="dynamic", chunksize=1):
            add_to_windows(&values[0], rows, leaves, &raw[0], raw.strides[0], window, first,
                           min(first + part, n), &at[omp_get_thread_num(), 0])
    return 0


cdef int add_to_blocks(
    const float64_t[::1] values, const uint32_t* rows, intp_t[:, ::1] leaves, float64_t[:] raw,
    int n_threads,
) except -1:
    """The same by blocks of leaves, for row ids in any order."""
    cdef intp_t[:, ::1] blocks = cut(leaves, ADD_BLOCK)
    cdef intp_t[::1] order = by_place(rows, blocks)
    cdef intp_t k, block, n_blocks = blocks.shape[0]
    with nogil:
        for k in prange(n_blocks, num_threads=team_of(n_threads), schedule="dynamic", chunksize=32):
            block = order[k]
            add_to_rows(&raw[0], raw.strides[0], rows, blocks[block, 1], blocks[block, 2],
                        values[blocks[block, 0]])
    return 0


# ---- The base class of the searches -----------------------------------------------------------
#
# A search owns the rows of the nodes and finds their best splits. The grower chooses the next node
# and is independent of how it is searched.


# Interaction groups of the root; and of every feature if any two features may interact. In that
# case a node stores the features of its path: the first as `alone`, the second as `groups`.
cdef uint64_t ALL_GROUPS = <uint64_t>0 - 1
cdef uint64_t ANY_TWO = <uint64_t>1 << 63


cdef class SplitSearch:
    """Base of the searches."""

    def __cinit__(self):
        self.store = NodeStore()
        self.target.data = NULL
        self.n_sampled = 0

    def begin(self, statistics, rows, seed):
        """Start a new tree on some rows: ascending ids, or None for all."""
        raise NotImplementedError

    cdef int use_rules(self, params) except -1:
        """Copy the parameters of a GrowerParams, and allocate rows and features."""
        self.rows = np.empty(self.n_rows, dtype=np.uint32)
        self.tree_features = np.empty(self.n_features, dtype=np.int32)
        self.node_features = np.empty(2 * self.n_features, dtype=np.int32)
        self.queue = NodeQueue(params.frontier)
        self.max_depth = params.max_depth or 2**15 - 1      # the depth of a node is an int16
        self.min_samples_split = max(2, params.min_samples_split)
        self.max_features = params.max_features
        self.by_tree, self.by_level, self.by_node = params.feature_fractions
        self.rules.criterion = CRITERIA[params.criterion]
        self.rules.reg_lambda = params.reg_lambda
        self.rules.reg_alpha = params.reg_alpha
        self.rules.max_delta_step = params.max_delta_step
        self.rules.min_child_weight = params.min_child_weight
        self.rules.any_gain = params.min_gain == -np.inf
        self.rules.min_gain = params.min_gain
        self.rules.candidate_share = params.candidate_share
        self.rules.min_samples_leaf = max(1, params.min_samples_leaf)
        self.rules.max_cat_to_onehot = params.max_cat_to_onehot
        self.rules.cat_smooth = params.cat_smooth
        self.rules.cat_l2 = params.cat_l2
        self.rules.min_data_per_group = params.min_data_per_group
        self.rules.stop_missing = params.missing == "stop"
        self.rules.random_ties = params.random_ties
        self.rules.random_thresholds = params.random_thresholds
        self.rules.monotone = NULL
        self.monotone = self.groups = None
        if params.monotonic is not None:
            self.monotone = params.monotonic
            if self.monotone.shape[0] != self.n_features:
                raise ValueError("one monotone constraint per feature is needed")
            self.rules.monotone = &self.monotone[0]
        if params.interaction is not None:
            self.groups = params.interaction
            if self.groups.shape[0] != self.n_features:
                raise ValueError("one set of interaction groups per feature is needed")
        return 0

    cdef int use_target(self, data, layout, n_sums, binary) except -1:
        """Set the targets of the exact search: float64 of shape (n_rows, width)."""
        cdef const float64_t[:, ::1] view = data
        if view.shape[0] != self.n_rows:
            raise ValueError("one target per row is needed")
        if not 0 <= layout <= TARGET_CLASS_WEIGHTED:
            raise ValueError("unknown layout of targets")
        self.target_owner = data
        self.target.data = &view[0, 0]
        self.target.n_rows = view.shape[0]
        self.target.width = <int32_t>view.shape[1]
        self.target.layout = layout
        self.target.n_sums = n_sums
        self.target.binary = binary
        return 0

    cdef int set_rows(self, rows) except -1:
        """Set the rows of the tree: all (None) or ascending ids."""
        cdef const uint32_t[::1] given
        cdef intp_t i, n = self.n_rows
        if rows is None:
            self.n_sampled = n
            for i in prange(n, num_threads=team_of(self.n_threads if n > 65536 else 1), nogil=True,
                            schedule="static"):
                self.rows[i] = <uint32_t>i
            return 0
        given = rows
        if given.shape[0] == 0 or given.shape[0] > n:
            raise ValueError(f"rows must contain from 1 to {n} rows, got {given.shape[0]}")
        for i in range(given.shape[0]):
            if given[i] >= n or (i > 0 and given[i] <= given[i - 1]):
                raise ValueError("rows must be ascending row ids")
            self.rows[i] = given[i]
        self.n_sampled = given.shape[0]
        return 0

    cdef void draw_tree_features(self) noexcept nogil:
        self.n_tree_features = max(1, <int32_t>(self.n_features * self.by_tree))
        draw_sorted(keyed(self.seed, STREAM_TREE, 0), 0, NULL, self.n_features,
                    self.n_tree_features, &self.tree_features[0])

    cdef const int32_t* draw_node_features(
        self, int32_t node, int32_t lane, int32_t* n_drawn
    ) noexcept nogil:
        """Features on which the node may be split; each lane holds the draw of one node."""
        cdef int32_t* features = &self.node_features[lane * self.n_features]
        cdef const int32_t* source = &self.tree_features[0]
        cdef int32_t k = self.n_tree_features, m
        cdef uint64_t key = keyed(self.store.nodes[node].key, STREAM_NODE, 0)
        if self.by_level < 1:
            m = max(1, <int32_t>(k * self.by_level))
            draw_sorted(keyed(self.seed, STREAM_LEVEL, self.store.nodes[node].depth), 0, source, k,
                        m, features)
            source = features
            k = m
        if self.by_node < 1 or 0 < self.max_features < k:
            m = max(1, <int32_t>(k * self.by_node))
            if 0 < self.max_features < m:
                m = self.max_features
            if source != features and self.max_features > 0:
                draw_few(key, 0, source, k, m, features)
            else:
                draw_sorted(key, 0, source, k, m, features)
            source = features
            k = m
        if self.groups is not None:
            k = self.keep_allowed(node, source, k, features)
            source = features
        n_drawn[0] = k
        return source

    cdef int32_t keep_allowed(
        self, int32_t node, const int32_t* features, int32_t n, int32_t* out
    ) noexcept nogil:
        """OUT the features that may interact with all features of the node's path."""
        cdef GrowNode* at = &self.store.nodes[node]
        cdef int32_t j, f, kept = 0
        cdef bint together, pairs = self.groups is not None and self.groups[0] == ANY_TWO
        cdef bint anything = self.groups is None or (
            at.groups == ALL_GROUPS and (pairs or at.alone < 0))
        for j in range(n):
            f = features[j]
            together = anything or (
                at.groups == <uint64_t>f if pairs else self.groups[f] & at.groups != 0)
            if together or f == at.alone:
                out[kept] = f
                kept += 1
        return kept

    cdef void constrain_children(self, int32_t node) noexcept nogil:
        """Set the interaction groups of the children after a split."""
        cdef GrowNode* at = &self.store.nodes[node]
        cdef int32_t f = at.split.feature, side
        cdef GrowNode* child
        if self.groups is None:
            return
        for side in range(2):
            child = &self.store.nodes[at.right if side else at.left]
            if self.groups[f] == ANY_TWO:
                child.alone = f if at.alone < 0 else at.alone
                child.groups = at.groups if f == child.alone else <uint64_t>f
                continue
            child.groups = at.groups & self.groups[f]
            if self.groups[f] == 0:
                child.alone = f

    cdef void part_bounds(self, int32_t node, float64_t left, float64_t right) noexcept nogil:
        """Bound the values of the children of a constrained split at the mean of their values."""
        cdef GrowNode* at = &self.store.nodes[node]
        cdef int8_t sign = self.monotone[at.split.feature]
        cdef float64_t middle = 0.5 * (left + right)
        if at.split.is_categorical or sign == 0:
            return
        self.store.nodes[at.left if sign > 0 else at.right].bounds.upper = middle
        self.store.nodes[at.right if sign > 0 else at.left].bounds.lower = middle

    cdef bint may_split(self, int32_t node) noexcept nogil:
        """Whether depth and number of rows allow a split."""
        cdef intp_t n = self.store.nodes[node].stop - self.store.nodes[node].start
        return (self.store.nodes[node].depth < self.max_depth and n >= self.min_samples_split
                and n >= 2 * self.rules.min_samples_leaf)

    cdef bint stops(self) noexcept nogil:
        """Whether growth is interrupted: then an exception is set, and results are invalid."""
        return team_stops(&self.stopped)

    cdef int open_root(self) except -1 nogil:
        """Make the root, with the rows set by `set_rows`."""
        self.stopped = False
        self.store.clear()
        self.queue.n_open = 0
        self.store.new_node()
        self.store.nodes[0].stop = self.n_sampled
        self.store.nodes[0].stay = self.n_sampled
        self.store.nodes[0].key = self.seed
        return 0

    cdef int divide(self, int32_t node) except -1 nogil:
        """Move the node's rows to its two children, which exist."""
        with gil:
            raise NotImplementedError

    cdef int evaluate_root(self) except -1 nogil:
        """Find the best split of node 0."""
        with gil:
            raise NotImplementedError

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        """Find the best splits of the left and right child of `node`, if `left` and `right`."""
        with gil:
            raise NotImplementedError

    cdef int split_all(self, int32_t[::1] chosen, bint last) except -1:
        """Split nodes, at least the first one, and unless `last` search their children."""
        raise NotImplementedError

    cdef int close_passes(self, int32_t[::1] kept) except -1:
        """Order the rows by node; kept[k] is the node that a node has become."""
        raise NotImplementedError

    cdef void forget(self, int32_t node) noexcept nogil:
        """Release the histogram of a node that will not be split."""
        if self.store.nodes[node].slot >= 0:
            self.pool.release(self.store.nodes[node].slot)
            self.store.nodes[node].slot = -1

    cdef int take_slot(self, int32_t node) except -1 nogil:
        """Give a node a slot; if the pool is full, that of the node that will be split last.

        Without the histogram of their parent, both children must be summed from their rows.
        """
        cdef int slot = self.pool.take()
        if slot < 0:
            self.forget(self.last_with_slot())
            slot = self.pool.take()
        self.store.nodes[node].slot = slot
        return 0

    cdef int32_t last_with_slot(self) noexcept nogil:
        """Open node with a slot that will be split last."""
        cdef int32_t i, last = -1
        for i in range(self.queue.n_open):
            if self.store.nodes[self.queue.heap[i].node].slot >= 0 and (
                last < 0 or self.queue.goes_before(self.queue.heap[last], self.queue.heap[i])
            ):
                last = i
        return self.queue.heap[last].node

    cdef int open_task(self, int32_t node, SplitSearch other) except -1 nogil:
        """Open a subtree task: copy a node to another search, which numbers its rows from 0."""
        with gil:
            raise NotImplementedError

    cdef int take_codes(
        self, SplitSearch whole, const BinView* bins, const GrowNode* node
    ) except -1 nogil:
        """Prepare the search of a subtree task: a node of binned features."""
        with gil:
            raise NotImplementedError

    cdef void take_back(self, int32_t node, SplitSearch other) noexcept nogil:
        """Copy the order of the node's rows from the search of its subtree task."""
        cdef intp_t start = self.store.nodes[node].start, i
        cdef int32_t k
        cdef GrowNode* n
        for k in range(other.store.n_nodes):
            n = &other.store.nodes[k]
            if n.left >= 0:
                n.split.low_row = self.rows[start + n.split.low_row]
                n.split.high_row = self.rows[start + n.split.high_row]
        for i in range(other.n_sampled):
            self.row_scratch[start + i] = self.rows[start + other.rows[i]]
        memcpy(&self.rows[start], &self.row_scratch[start], other.n_sampled * sizeof(uint32_t))

    cdef int32_t n_node_sums(self) noexcept nogil:
        """Number of sums of a node, without its weight."""
        return self.target.n_sums

    cdef bint can_walk(self) noexcept nogil:
        """Whether `leaf_of` works for rows outside the sample."""
        return False

    cdef int32_t leaf_of(self, intp_t row) noexcept nogil:
        """Node where a row of the table ends."""
        return 0

    cdef intp_t[:, ::1] row_ends(self):
        """Node, start and stop of all nodes where rows end."""
        cdef int32_t k
        cdef intp_t n = 0
        cdef GrowNode* node
        cdef intp_t[:, ::1] ends = np.empty((self.store.n_nodes, 3), dtype=np.intp)
        with nogil:
            for k in range(self.store.n_nodes):
                node = &self.store.nodes[k]
                ends[n, 0] = k
                ends[n, 1] = node.start if node.left < 0 else node.stay
                ends[n, 2] = node.stop
                n += ends[n, 1] < ends[n, 2]
        return ends[:n]

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        """OUT exact sums over the rows that end at each node (leaves, and rows that stay)."""
        raise NotImplementedError
