"""Forests in little memory: packing, unpacking, checks and prediction."""

from cython.parallel cimport prange
from libc.string cimport memcpy

from hybridtrees.core.base._category_sets cimport side_of
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    FEATURE_MASK, HAS_SET, MISSING_LEFT, MISSING_STAYS, MISSING_STOPS, Node, float32_t,
    float64_t, int16_t, int32_t, int64_t, intp_t, real_t, uint16_t, uint32_t,
)


# ---- Forests in little memory: the form for storage and prediction ----------------------------
#
# Nodes are in preorder: the left child of a node follows it, and only the right one is stored. The
# field `feature` is negative in a leaf. In a split its upper bits are flags: the direction of
# missing values, and whether the split is categorical. The first four bytes of a categorical split
# are the position of its set in `sets`: number of words, limit, words. The first 8 bytes of a leaf
# are its value, or the row of its values in a table if there are several values per leaf or inner
# nodes have values too.


cdef packed struct NarrowNode:
    # 12 bytes, if every threshold of the forest is a float32.
    float32_t threshold
    int32_t right
    int32_t feature


cdef packed struct WideNode:
    float64_t threshold
    int32_t right
    int32_t feature


ctypedef fused node_t:
    NarrowNode
    WideNode


cpdef enum PackedSet:
    SET_HEAD = 2             # entries before the words of a set


cdef bint is_narrow(nodes) except *:
    return nodes.dtype.itemsize == sizeof(NarrowNode)


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


cdef inline uint32_t set_start(const node_t* node) noexcept nogil:
    """Position of the category set of a split in `sets`."""
    cdef uint32_t start
    memcpy(&start, node, sizeof(uint32_t))
    return start


# ---- From grown trees to packed ones and back -------------------------------------------------


cdef intp_t pack_tree(
    const Node[::1] nodes, const float64_t[::1] values, bint by_node, node_t[::1] packed
) except -2:
    """OUT packed nodes; returns the first left child that does not follow its parent, or -1."""
    cdef intp_t k
    cdef int64_t n_leaves = 0
    cdef int32_t feature
    cdef uint32_t start
    cdef const Node* node
    with nogil:
        for k in range(nodes.shape[0]):
            node = &nodes[k]
            if node.left < 0:
                packed[k].feature = -1
                packed[k].right = 0
                if values.shape[0] > 0:
                    memcpy(&packed[k], &values[k], sizeof(float64_t))
                elif by_node:
                    memcpy(&packed[k], &k, sizeof(int64_t))
                else:
                    memcpy(&packed[k], &n_leaves, sizeof(int64_t))
                n_leaves += 1
                continue
            if node.left != k + 1:
                return node.left
            feature = node.feature
            if node.missing_left == 1:
                feature |= MISSING_LEFT
            elif node.missing_left == MISSING_STAYS:
                feature |= MISSING_STOPS
            packed[k].right = node.right
            if node.category_start >= 0:
                feature |= HAS_SET
                packed[k].threshold = 0
                start = <uint32_t>node.category_start
                memcpy(&packed[k], &start, sizeof(uint32_t))
            else:
                packed[k].threshold = <float32_t>node.threshold if node_t is NarrowNode else (
                    node.threshold)
            packed[k].feature = feature
        return -1


def fits_narrow(const Node[::1] nodes):
    """Whether every threshold is a float32."""
    cdef intp_t k
    cdef bint fits = True
    with nogil:
        for k in range(nodes.shape[0]):
            if nodes[k].left >= 0 and nodes[k].category_start < 0 and (
                <float64_t><float32_t>nodes[k].threshold != nodes[k].threshold
            ):
                fits = False
                break
    return fits


def pack_nodes(const Node[::1] nodes, const float64_t[::1] values, bint by_node, packed):
    """Write packed nodes of a tree in preorder, whose category sets are packed already.

    `values` are written into the leaves. If empty, a leaf stores the row of its values in the
    table: the number of the leaf, or of the node if `by_node`.
    """
    cdef intp_t wrong
    if len(packed) != nodes.shape[0] or values.shape[0] not in (0, nodes.shape[0]):
        raise ValueError("packed nodes and values need one entry per node")
    if is_narrow(packed):
        wrong = pack_tree[NarrowNode](nodes, values, by_node, packed)
    else:
        wrong = pack_tree[WideNode](nodes, values, by_node, packed)
    if wrong >= 0:
        raise ValueError(f"node {wrong} is a left child and does not follow its parent")


cdef int shift_tree(node_t[::1] nodes, int64_t shift, uint32_t set_shift) except -1:
    cdef intp_t k
    cdef int64_t row
    cdef uint32_t start
    for k in range(nodes.shape[0]):
        if nodes[k].feature < 0:
            row = table_row(&nodes[k]) + shift
            memcpy(&nodes[k], &row, sizeof(int64_t))
        elif nodes[k].feature & HAS_SET:
            start = set_start(&nodes[k]) + set_shift
            memcpy(&nodes[k], &start, sizeof(uint32_t))
    return 0


def shift_nodes(nodes, int64_t shift, uint32_t set_shift):
    """Add `shift` to the table rows of leaves, and `set_shift` to the starts of sets."""
    if is_narrow(nodes):
        shift_tree[NarrowNode](nodes, shift, set_shift)
    else:
        shift_tree[WideNode](nodes, shift, set_shift)


def widen_nodes(const NarrowNode[::1] narrow, WideNode[::1] wide):
    """Copy narrow nodes to wide ones."""
    cdef intp_t k
    with nogil:
        for k in range(narrow.shape[0]):
            wide[k].feature = narrow[k].feature
            wide[k].right = narrow[k].right
            if narrow[k].feature >= 0 and not narrow[k].feature & HAS_SET:
                wide[k].threshold = narrow[k].threshold
            else:
                wide[k].threshold = 0
                memcpy(&wide[k], &narrow[k],
                       sizeof(int64_t) if narrow[k].feature < 0 else sizeof(uint32_t))


cdef intp_t impossible_node(
    const node_t[::1] nodes, intp_t n_features, const uint32_t[::1] sets, intp_t table_rows,
    int32_t[::1] ends,
) except -2:
    """Return the first invalid node of a tree in preorder, or -1.

    `ends` is a stack with the ends of the open branches.
    """
    cdef intp_t k, n = nodes.shape[0], n_open = 1
    cdef uint32_t start
    with nogil:
        ends[0] = <int32_t>n
        for k in range(n):
            if n_open == 0:
                return k
            if nodes[k].feature < 0:
                # A leaf is the last node of its branch: a right branch begins after it.
                if ends[n_open - 1] != k + 1:
                    return k
                n_open -= 1
                if table_rows > 0 and not 0 <= table_row(&nodes[k]) < table_rows:
                    return k
                continue
            # The left branch ends where the right one begins; the right one ends with the node.
            if not k + 1 < nodes[k].right < ends[n_open - 1]:
                return k
            if (nodes[k].feature & FEATURE_MASK) >= n_features:
                return k
            if nodes[k].feature & HAS_SET:
                start = set_start(&nodes[k])
                if (<intp_t>start + SET_HEAD > sets.shape[0]
                        or sets[start] > sets.shape[0] - start - SET_HEAD):
                    return k
            ends[n_open] = nodes[k].right
            n_open += 1
        return -1 if n_open == 0 else n


def check_packed(
    nodes, intp_t n_features, const uint32_t[::1] sets, intp_t table_rows, int32_t[::1] scratch
):
    """Raise ValueError if walks down a tree are unsafe; `scratch` has len(nodes) + 2 entries."""
    cdef intp_t wrong
    if scratch.shape[0] < len(nodes) + 2:
        raise ValueError("scratch is too short")
    if is_narrow(nodes):
        wrong = impossible_node[NarrowNode](nodes, n_features, sets, table_rows, scratch)
    else:
        wrong = impossible_node[WideNode](nodes, n_features, sets, table_rows, scratch)
    if wrong >= 0:
        raise ValueError(f"node {wrong} of a tree of the forest is impossible")


cdef int unpack_tree(
    const node_t[::1] packed, Node[::1] nodes, float64_t[:, ::1] values,
    const float64_t[:, ::1] leaf_values, const int64_t[::1] samples,
    const float64_t[::1] weight, const uint32_t[::1] sets, bint mean,
) except -1:
    cdef intp_t k, leaf = samples.shape[0], n = packed.shape[0], left, right
    cdef int32_t j, n_values = <int32_t>values.shape[1]
    cdef uint32_t start
    cdef Node* node
    with nogil:
        for k in range(n - 1, -1, -1):
            node = &nodes[k]
            node.left = -1
            node.right = -1
            node.feature = -1
            node.category_start = -1
            if not mean:
                node.n_samples = samples[k]
                node.weight = weight[k]
            if packed[k].feature < 0:
                if mean:
                    leaf -= 1
                    node.n_samples = samples[leaf]
                    node.weight = weight[leaf]
                    for j in range(n_values):
                        values[k, j] = leaf_values[leaf, j]
                continue
            left = k + 1
            right = packed[k].right
            node.left = <int32_t>left
            node.right = <int32_t>right
            nodes[left].parent = <int32_t>k
            nodes[right].parent = <int32_t>k
            node.feature = packed[k].feature & FEATURE_MASK
            node.missing_left = MISSING_STAYS if packed[k].feature & MISSING_STOPS else (
                1 if packed[k].feature & MISSING_LEFT else 0)
            if packed[k].feature & HAS_SET:
                start = set_start(&packed[k])
                node.category_start = <int32_t>(start + SET_HEAD)
                node.category_words = <int32_t>sets[start]
                node.category_limit = <int32_t>sets[start + 1]
            else:
                node.threshold = packed[k].threshold
            if mean:
                node.n_samples = nodes[left].n_samples + nodes[right].n_samples
                node.weight = nodes[left].weight + nodes[right].weight
                for j in range(n_values):
                    values[k, j] = (nodes[left].weight * values[left, j]
                                    + nodes[right].weight * values[right, j]) / node.weight
        nodes[0].parent = -1
        for k in range(1, n):
            nodes[k].depth = <int16_t>(nodes[nodes[k].parent].depth + 1)


def unpack_nodes(
    packed, Node[::1] nodes, float64_t[:, ::1] values, const float64_t[:, ::1] leaf_values,
    const int64_t[::1] samples, const float64_t[::1] weight, const uint32_t[::1] sets, bint mean,
):
    """Write the nodes (initially zero) of one checked tree.

    With `mean`, `samples`, `weight` and `leaf_values` are those of the leaves; inner nodes get
    their sums, and weighted means as `values`. Otherwise `samples` and `weight` are those of all
    nodes, and `values` do not change.
    """
    if nodes.shape[0] != len(packed) or values.shape[0] != len(packed):
        raise ValueError("nodes and values need one entry per packed node")
    if is_narrow(packed):
        unpack_tree[NarrowNode](packed, nodes, values, leaf_values, samples, weight, sets, mean)
    else:
        unpack_tree[WideNode](packed, nodes, values, leaf_values, samples, weight, sets, mean)


cdef int copy_payloads(const node_t[::1] nodes, float64_t[::1] values) except -1:
    cdef intp_t k, n_leaves = 0
    for k in range(nodes.shape[0]):
        if nodes[k].feature < 0:
            values[n_leaves] = payload(&nodes[k])
            n_leaves += 1
    return 0


def leaf_payloads(nodes, float64_t[::1] values):
    """OUT the first eight bytes of every leaf, as a float64."""
    if is_narrow(nodes):
        copy_payloads[NarrowNode](nodes, values)
    else:
        copy_payloads[WideNode](nodes, values)


# ---- Prediction -------------------------------------------------------------------------------
#
# Many rows go down one tree before the next one, so that a deep tree stays in the cache. At its
# upper nodes rows are partitioned; below, they walk in groups of neighbours. As subtrees are
# contiguous, the nodes that a group meets are close together. Every row adds its trees in their
# order, so the sums do not depend on blocks or threads.


cdef extern from "compiler.h" nogil:
    void HT_PREFETCH(const void* address)

cdef enum:
    GROUP = 128           # rows that walk down a tree together
    FEW = 16              # branches of at most so many rows are not partitioned
    TILE = 2048           # rows that are partitioned together; they fit a cache
    CHUNK = 65536         # rows that a thread takes through all trees


cdef struct Tile:
    uint16_t order[TILE]      # rows, branch by branch
    uint16_t spare[TILE]
    int32_t ended[TILE]       # node where each row ends
    int32_t open_node[TILE]   # stack of open branches, and their rows
    int32_t open_first[TILE]
    int32_t open_last[TILE]


cdef inline int32_t special_step(
    const node_t* node, int32_t k, float64_t x, const uint32_t* sets
) noexcept nogil:
    """Next node of a categorical split or one where rows may stop; k itself for a stop."""
    cdef uint32_t start
    cdef int32_t side     # -1: missing
    if node.feature & HAS_SET:
        start = set_start(node)
        side = side_of(x, 0.0, sets + start + SET_HEAD, <int32_t>sets[start],
                       <int32_t>sets[start + 1], -1)
    else:
        side = side_of(x, node.threshold, NULL, 0, 0, -1)
    if side < 0:
        if node.feature & MISSING_STOPS:
            return k
        side = (node.feature & MISSING_LEFT) != 0
    return k + 1 if side else node.right


cdef inline void walk_numeric(
    const node_t* nodes, const real_t* X, intp_t stride, int32_t* at, uint16_t* rows,
    intp_t n_rows, bint missing, int32_t* ended,
) noexcept nogil:
    """OUT nodes where rows end that are at the nodes `at`: numeric splits where no row stops."""
    # All integers are as wide as an address: no conversions in the loop.
    cdef intp_t j, k, row, right, n_active = n_rows, n_kept
    cdef const node_t* node
    cdef real_t x
    while n_active > 0:
        n_kept = 0
        for j in range(n_active):
            k = at[j]
            row = rows[j]
            node = nodes + k
            if node.feature < 0:
                ended[row] = <int32_t>k
                continue
            # No branch: it would be mispredicted half of the time.
            x = X[row * stride + (node.feature & FEATURE_MASK)]
            right = x > node.threshold
            if missing:
                right |= (x != x) & ((node.feature & MISSING_LEFT) == 0)
            k += 1 + ((node.right - k - 1) & -right)
            # The next node of this row is in the cache by the next pass.
            HT_PREFETCH(nodes + k)
            at[n_kept] = <int32_t>k
            rows[n_kept] = <uint16_t>row
            n_kept += 1
        n_active = n_kept


cdef inline intp_t part_rows(
    const node_t* node, const real_t* X, intp_t stride, uint16_t* order, intp_t n_rows,
    bint missing, uint16_t* spare,
) noexcept nogil:
    """Move the rows that go left to the front; returns their number."""
    cdef const real_t* column = X + (node.feature & FEATURE_MASK)
    cdef intp_t j, row, n_right = 0
    # Each row is written to both sides, and only its own side advances. Missing values fail every
    # comparison, so the comparison depends on their direction.
    if missing and not node.feature & MISSING_LEFT:
        for j in range(n_rows):
            row = order[j]
            order[j - n_right] = <uint16_t>row
            spare[n_right] = <uint16_t>row
            n_right += not column[row * stride] <= node.threshold
    else:
        for j in range(n_rows):
            row = order[j]
            order[j - n_right] = <uint16_t>row
            spare[n_right] = <uint16_t>row
            n_right += column[row * stride] > node.threshold
    memcpy(order + n_rows - n_right, spare, n_right * sizeof(uint16_t))
    return n_rows - n_right


cdef inline void end_numeric(
    const node_t* nodes, const real_t* X, intp_t stride, int32_t n_rows, bint missing, Tile* tile,
) noexcept nogil:
    """OUT node where each row of a tile ends: numeric splits where no row stops.

    Branches with many rows are partitioned, which reads each node once. Small branches are
    collected until there are enough rows to walk together, in neighbouring branches.
    """
    cdef int32_t at[GROUP]
    cdef uint16_t rows[GROUP]
    cdef int32_t first = 0, last = n_rows, k = 0, n_open = 0, n_waiting = 0, middle, j
    cdef const node_t* node
    for j in range(n_rows):
        tile.order[j] = <uint16_t>j
    while True:
        node = nodes + k
        if last - first > FEW and node.feature >= 0:
            middle = first + <int32_t>part_rows(
                node, X, stride, tile.order + first, last - first, missing, tile.spare)
            if middle == first:
                k = node.right
                continue
            if middle < last:
                tile.open_node[n_open] = node.right
                tile.open_first[n_open] = middle
                tile.open_last[n_open] = last
                n_open += 1
                last = middle
            k += 1
            continue
        if node.feature < 0:
            for j in range(first, last):
                tile.ended[tile.order[j]] = k
        else:
            if n_waiting + last - first > GROUP:
                walk_numeric(nodes, X, stride, at, rows, n_waiting, missing, tile.ended)
                n_waiting = 0
            for j in range(first, last):
                at[n_waiting] = k
                rows[n_waiting] = tile.order[j]
                n_waiting += 1
        if n_open == 0:
            break
        n_open -= 1
        k = tile.open_node[n_open]
        first = tile.open_first[n_open]
        last = tile.open_last[n_open]
    walk_numeric(nodes, X, stride, at, rows, n_waiting, missing, tile.ended)


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
    """OUT node where each of at most GROUP rows ends.

    The value of the feature `swapped` (-1: none) is read in the rows `others`.
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
    """Add the values of a node, or its vote, to one row."""
    cdef int32_t j, best = 0
    cdef const float64_t* values
    cdef float64_t value
    if table == NULL:
        value = payload(nodes + node)
        if votes:
            value = 1.0 if value > 0.5 else 0.0
        out[0] += value
        return
    # A table has a row for every node, or only for leaves, which store its number.
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


cdef void end_tile(
    const node_t* nodes, const uint32_t* sets, const real_t* X, intp_t stride, int32_t n_rows,
    bint plain, bint missing, Tile* tile,
) noexcept nogil:
    """OUT node where each row of a tile ends."""
    cdef uint32_t rows[GROUP]
    cdef int32_t group, first, j, n
    if plain and missing:
        end_numeric(nodes, X, stride, n_rows, True, tile)
        return
    if plain:
        end_numeric(nodes, X, stride, n_rows, False, tile)
        return
    for j in range(GROUP):
        rows[j] = <uint32_t>j
    for group in range((n_rows + GROUP - 1) // GROUP):
        first = group * GROUP
        n = min(<int32_t>GROUP, n_rows - first)
        walk_group(nodes, X + first * stride, stride, rows, n, sets, -1, rows, &tile.ended[first])


cdef void predict_chunk(
    const node_t* nodes, const int64_t* start, intp_t first, intp_t last, const uint32_t* sets,
    const real_t* X, intp_t stride, intp_t n_rows, const float64_t* table, int32_t n_values,
    bint by_node, bint votes, bint plain, float64_t* raw, int32_t* leaves,
) noexcept nogil:
    """Add the predictions of the trees to `raw`; if that is NULL, OUT leaves: where rows end."""
    cdef intp_t tree, k, row, width = last - first
    cdef Tile tile
    cdef int32_t n, j
    cdef bint missing = plain and any_missing(X, n_rows * stride)
    for tree in range(first, last):
        for k in range((n_rows + TILE - 1) // TILE):
            row = k * TILE
            n = <int32_t>min(TILE, n_rows - row)
            end_tile(nodes + start[tree], sets, X + row * stride, stride, n, plain, missing, &tile)
            if raw == NULL:
                for j in range(n):
                    leaves[(row + j) * width + tree - first] = tile.ended[j]
                continue
            for j in range(n):
                add_value(nodes + start[tree], tile.ended[j], table, n_values,
                          start[tree] if by_node else -1, votes, raw + (row + j) * n_values)


cdef intp_t chunk_size(intp_t n_rows, int n_threads) noexcept nogil:
    """Rows of a chunk: at most CHUNK, and the same number of chunks for every thread."""
    cdef intp_t n_chunks = (n_rows + CHUNK - 1) // CHUNK
    n_chunks = (n_chunks + n_threads - 1) // n_threads * n_threads
    return (n_rows + n_chunks - 1) // n_chunks


cdef int predict_rows(
    const node_t[::1] nodes, const int64_t[::1] start, intp_t first, intp_t last,
    const uint32_t[::1] sets, const real_t[:, ::1] X, const float64_t[:, ::1] table, bint by_node,
    bint votes, bint plain, float64_t[:, ::1] raw, int32_t[:, ::1] leaves, int n_threads,
) except -1:
    cdef intp_t n = X.shape[0], chunk, c, n_chunks
    cdef int32_t n_values = <int32_t>raw.shape[1] if raw is not None else 0
    cdef const float64_t* values = NULL
    if n == 0 or first >= last:
        return 0
    if table is not None and table.shape[0] > 0:
        values = &table[0, 0]
    chunk = chunk_size(n, n_threads)
    n_chunks = (n + chunk - 1) // chunk
    n_threads = <int>min(n_threads, n_chunks)
    for c in prange(n_chunks, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=1, nogil=True):
        predict_chunk(&nodes[0], &start[0], first, last, &sets[0], &X[c * chunk, 0], X.shape[1],
                      min(chunk, n - c * chunk), values, n_values, by_node, votes, plain,
                      &raw[c * chunk, 0] if raw is not None else NULL,
                      &leaves[c * chunk, 0] if leaves is not None else NULL)
    return 0


cdef int walk_rows(
    const node_t[::1] nodes, const uint32_t[::1] sets, const real_t[:, ::1] X,
    const uint32_t[::1] rows, int32_t swapped, const uint32_t[::1] others, int32_t[::1] ended,
) except -1:
    cdef intp_t group, first, n = rows.shape[0]
    with nogil:
        for group in range((n + GROUP - 1) // GROUP):
            first = group * GROUP
            walk_group(&nodes[0], &X[0, 0], X.shape[1], &rows[first],
                       <int32_t>min(GROUP, n - first), &sets[0], swapped, &others[first],
                       &ended[first])
    return 0


def predict_packed(
    nodes, const int64_t[::1] start, intp_t first, intp_t last, const uint32_t[::1] sets, X,
    const float64_t[:, ::1] table, bint by_node, bint votes, bint plain, float64_t[:, ::1] raw,
    int32_t[:, ::1] leaves, int n_threads,
):
    """raw += values (or votes) of the trees [first, last) for the rows of X, in C order.

    If `raw` is None, leaves[row, k] = node of tree first + k where the row ends. `plain`: every
    split is numeric and no row stops at one.
    """
    if is_narrow(nodes) and X.dtype.itemsize == 4:
        predict_rows[NarrowNode, float](nodes, start, first, last, sets, X, table, by_node, votes,
                                        plain, raw, leaves, n_threads)
    elif is_narrow(nodes):
        predict_rows[NarrowNode, double](nodes, start, first, last, sets, X, table, by_node, votes,
                                         plain, raw, leaves, n_threads)
    elif X.dtype.itemsize == 4:
        predict_rows[WideNode, float](nodes, start, first, last, sets, X, table, by_node, votes,
                                      plain, raw, leaves, n_threads)
    else:
        predict_rows[WideNode, double](nodes, start, first, last, sets, X, table, by_node, votes,
                                       plain, raw, leaves, n_threads)


def walk_packed(
    nodes, const uint32_t[::1] sets, X, const uint32_t[::1] rows, int32_t swapped,
    const uint32_t[::1] others, int32_t[::1] ended,
):
    """ended[i] = node of one tree where row rows[i] of X ends.

    The feature `swapped` (-1: none) is read in the row others[i] instead.
    """
    if is_narrow(nodes) and X.dtype.itemsize == 4:
        walk_rows[NarrowNode, float](nodes, sets, X, rows, swapped, others, ended)
    elif is_narrow(nodes):
        walk_rows[NarrowNode, double](nodes, sets, X, rows, swapped, others, ended)
    elif X.dtype.itemsize == 4:
        walk_rows[WideNode, float](nodes, sets, X, rows, swapped, others, ended)
    else:
        walk_rows[WideNode, double](nodes, sets, X, rows, swapped, others, ended)


cdef void add_group_outside(
    const node_t* nodes, const int64_t* start, intp_t n_trees, const uint32_t* sets,
    const real_t* X, intp_t stride, int32_t n_rows, const float64_t* table, int32_t n_values,
    bint by_node, bint votes, const int64_t* held_start, const int32_t* held,
    const int32_t* first, float64_t* raw, int32_t* counts,
) noexcept nogil:
    """Add the trees that have not seen them to at most GROUP rows, in the order of the trees."""
    cdef uint32_t rows[GROUP]
    cdef int32_t ended[GROUP]
    cdef int64_t at[GROUP]
    cdef intp_t tree, lowest = n_trees
    cdef int32_t j, n
    for j in range(n_rows):
        at[j] = held_start[j]
        lowest = min(lowest, <intp_t>first[j])
    for tree in range(lowest, n_trees):
        n = 0
        for j in range(n_rows):
            if first[j] > tree:
                continue
            while at[j] < held_start[j + 1] and held[at[j]] < tree:
                at[j] += 1
            if at[j] < held_start[j + 1] and held[at[j]] == tree:
                continue
            rows[n] = <uint32_t>j
            n += 1
        walk_group(nodes + start[tree], X, stride, rows, n, sets, -1, rows, ended)
        for j in range(n):
            add_value(nodes + start[tree], ended[j], table, n_values,
                      start[tree] if by_node else -1, votes, raw + rows[j] * n_values)
            counts[rows[j]] += 1


cdef int add_rows_outside(
    const node_t[::1] nodes, const int64_t[::1] start, const uint32_t[::1] sets,
    const real_t[:, ::1] X, const float64_t[:, ::1] table, bint by_node, bint votes,
    const int64_t[::1] held_start, const int32_t[::1] held, const int32_t[::1] first,
    float64_t[:, ::1] raw, int32_t[::1] counts, int n_threads,
) except -1:
    cdef intp_t c, i, n = X.shape[0], n_trees = start.shape[0] - 1
    cdef const float64_t* values = NULL
    if table.shape[0] > 0:
        values = &table[0, 0]
    for c in prange((n + GROUP - 1) // GROUP, num_threads=team_of(n_threads), schedule="static",
                    nogil=True):
        i = c * GROUP
        add_group_outside(
            &nodes[0], &start[0], n_trees, &sets[0], &X[i, 0], X.shape[1],
            <int32_t>min(GROUP, n - i), values, <int32_t>raw.shape[1], by_node, votes,
            &held_start[i], &held[0], &first[i], &raw[i, 0], &counts[i])
    return 0


def add_outside(
    nodes, const int64_t[::1] start, const uint32_t[::1] sets, X, const float64_t[:, ::1] table,
    bint by_node, bint votes, const int64_t[::1] held_start, const int32_t[::1] held,
    const int32_t[::1] first, float64_t[:, ::1] raw, int32_t[::1] counts, int n_threads,
):
    """raw, counts += values (or votes) and number of the trees that have not seen a row.

    Row i adds the trees from first[i] on, without held[held_start[i] : held_start[i + 1]], which
    ascend; `held` must not be empty.
    """
    if is_narrow(nodes) and X.dtype.itemsize == 4:
        add_rows_outside[NarrowNode, float](nodes, start, sets, X, table, by_node, votes,
                                            held_start, held, first, raw, counts, n_threads)
    elif is_narrow(nodes):
        add_rows_outside[NarrowNode, double](nodes, start, sets, X, table, by_node, votes,
                                             held_start, held, first, raw, counts, n_threads)
    elif X.dtype.itemsize == 4:
        add_rows_outside[WideNode, float](nodes, start, sets, X, table, by_node, votes,
                                          held_start, held, first, raw, counts, n_threads)
    else:
        add_rows_outside[WideNode, double](nodes, start, sets, X, table, by_node, votes,
                                           held_start, held, first, raw, counts, n_threads)
