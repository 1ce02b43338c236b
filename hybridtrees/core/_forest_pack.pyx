"""From grown trees to packed ones and back; see _forest.pyx for the form."""

from libc.string cimport memcpy

from hybridtrees.core._forest cimport (
    FEATURE_MASK, HAS_SET, MISSING_LEFT, MISSING_STOPS, SET_HEAD, NarrowNode, WideNode, node_t,
)
from hybridtrees.core._types cimport (
    Node, float32_t, float64_t, int16_t, int32_t, int64_t, intp_t, uint32_t,
)


cdef intp_t pack_typed(
    const Node[::1] nodes, const float64_t[::1] values, bint in_node, bint by_node,
    node_t[::1] packed,
) noexcept nogil:
    """Returns the first node that does not follow its parent, or -1."""
    cdef intp_t k
    cdef int64_t n_leaves = 0
    cdef int32_t feature
    cdef uint32_t start
    cdef const Node* node
    for k in range(nodes.shape[0]):
        node = &nodes[k]
        if node.left < 0:
            packed[k].feature = -1
            packed[k].right = 0
            if in_node:
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
        elif node.missing_left == 2:
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
    """Write packed nodes.

    Parameters
    ----------
    nodes : array of NODE_DTYPE
        In preorder; `category_start` is that of the packed sets.
    values : float64 array
        Value of every node, to be put into the leaves; empty where values stand in a table.
    by_node : bool
        Whether leaves name their node as the row of that table, not the number of the leaf.
    packed : array of NARROW_DTYPE or WIDE_DTYPE
    """
    cdef NarrowNode[::1] narrow
    cdef WideNode[::1] wide
    cdef intp_t wrong
    cdef bint in_node = values.shape[0] > 0
    if len(packed) != nodes.shape[0] or (in_node and values.shape[0] != nodes.shape[0]):
        raise ValueError("packed nodes and values need one entry per node")
    if packed.dtype.itemsize == sizeof(NarrowNode):
        narrow = packed
        with nogil:
            wrong = pack_typed(nodes, values, in_node, by_node, narrow)
    else:
        wide = packed
        with nogil:
            wrong = pack_typed(nodes, values, in_node, by_node, wide)
    if wrong >= 0:
        raise ValueError(f"node {wrong} is a left child and does not follow its parent")


cdef intp_t shift_typed(node_t[::1] nodes, int64_t shift, uint32_t set_shift) noexcept nogil:
    cdef intp_t k
    cdef int64_t row
    cdef uint32_t start
    for k in range(nodes.shape[0]):
        if nodes[k].feature < 0:
            if shift != 0:
                memcpy(&row, &nodes[k], sizeof(int64_t))
                row += shift
                memcpy(&nodes[k], &row, sizeof(int64_t))
        elif nodes[k].feature & HAS_SET:
            memcpy(&start, &nodes[k], sizeof(uint32_t))
            start += set_shift
            memcpy(&nodes[k], &start, sizeof(uint32_t))
    return 0


def shift_nodes(nodes, int64_t shift, uint32_t set_shift):
    """Move the rows of tables that leaves name by `shift`, the starts of sets by `set_shift`."""
    cdef NarrowNode[::1] narrow
    cdef WideNode[::1] wide
    if nodes.dtype.itemsize == sizeof(NarrowNode):
        narrow = nodes
        with nogil:
            shift_typed(narrow, shift, set_shift)
    else:
        wide = nodes
        with nogil:
            shift_typed(wide, shift, set_shift)


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


cdef intp_t check_typed(
    const node_t[::1] nodes, intp_t n_features, const uint32_t[::1] sets, intp_t table_rows,
    int32_t[::1] ends,
) noexcept nogil:
    """Returns the first impossible node of a tree, or -1.

    The nodes of a tree in preorder are read with the ends of the open branches on a stack.
    """
    cdef intp_t k, n = nodes.shape[0], n_open = 1
    cdef int64_t row
    cdef uint32_t start
    ends[0] = <int32_t>n
    for k in range(n):
        if n_open == 0:
            return k
        if nodes[k].feature < 0:
            # A leaf is the last node of its branch: the next one is where a right branch begins.
            if ends[n_open - 1] != k + 1:
                return k
            n_open -= 1
            if table_rows > 0:
                memcpy(&row, &nodes[k], sizeof(int64_t))
                if not 0 <= row < table_rows:
                    return k
            continue
        # The left branch ends where the right one begins; the right one ends with the node's.
        if not k + 1 < nodes[k].right < ends[n_open - 1]:
            return k
        if (nodes[k].feature & FEATURE_MASK) >= n_features:
            return k
        if nodes[k].feature & HAS_SET:
            memcpy(&start, &nodes[k], sizeof(uint32_t))
            if (<intp_t>start + SET_HEAD > sets.shape[0]
                    or sets[start] > sets.shape[0] - start - SET_HEAD):
                return k
        ends[n_open] = nodes[k].right
        n_open += 1
    return -1 if n_open == 0 else n


def check_packed(nodes, intp_t n_features, const uint32_t[::1] sets, intp_t table_rows,
                 int32_t[::1] scratch):
    """Refuse a tree that would lead a walk astray; `scratch` has two entries more than nodes."""
    cdef const NarrowNode[::1] narrow
    cdef const WideNode[::1] wide
    cdef intp_t wrong
    if scratch.shape[0] < len(nodes) + 2:
        raise ValueError("scratch is too short")
    if nodes.dtype.itemsize == sizeof(NarrowNode):
        narrow = nodes
        with nogil:
            wrong = check_typed(narrow, n_features, sets, table_rows, scratch)
    else:
        wide = nodes
        with nogil:
            wrong = check_typed(wide, n_features, sets, table_rows, scratch)
    if wrong >= 0:
        raise ValueError(f"node {wrong} of a tree of the forest is impossible")


cdef void unpack_typed(
    const node_t[::1] packed, Node[::1] nodes, float64_t[:, ::1] values,
    const float64_t[:, ::1] leaf_values, const int64_t[::1] samples,
    const float64_t[::1] weight, const uint32_t[::1] sets, bint mean,
) noexcept nogil:
    cdef intp_t k, leaf = samples.shape[0], n = packed.shape[0], left, right
    cdef int32_t j, n_values = <int32_t>values.shape[1]
    cdef uint32_t start
    cdef Node* node
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
        node.missing_left = 2 if packed[k].feature & MISSING_STOPS else (
            1 if packed[k].feature & MISSING_LEFT else 0)
        if packed[k].feature & HAS_SET:
            memcpy(&start, &packed[k], sizeof(uint32_t))
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


def unpack_nodes(packed, Node[::1] nodes, float64_t[:, ::1] values,
                 const float64_t[:, ::1] leaf_values, const int64_t[::1] samples,
                 const float64_t[::1] weight, const uint32_t[::1] sets, bint mean):
    """Write the nodes (all zero so far) of one checked tree.

    With `mean`, `samples`, `weight` and `leaf_values` are those of the leaves; they are summed up,
    and `values` of inner nodes are the weighted means below them. Otherwise `samples` and `weight`
    are those of all nodes, and `values` are left alone.
    """
    cdef const NarrowNode[::1] narrow
    cdef const WideNode[::1] wide
    if nodes.shape[0] != len(packed) or values.shape[0] != len(packed):
        raise ValueError("nodes and values need one entry per packed node")
    if packed.dtype.itemsize == sizeof(NarrowNode):
        narrow = packed
        with nogil:
            unpack_typed(narrow, nodes, values, leaf_values, samples, weight, sets, mean)
    else:
        wide = packed
        with nogil:
            unpack_typed(wide, nodes, values, leaf_values, samples, weight, sets, mean)


cdef void payloads_typed(const node_t[::1] nodes, float64_t[::1] values) noexcept nogil:
    cdef intp_t k, n_leaves = 0
    for k in range(nodes.shape[0]):
        if nodes[k].feature < 0:
            memcpy(&values[n_leaves], &nodes[k], sizeof(float64_t))
            n_leaves += 1


def leaf_payloads(nodes, float64_t[::1] values):
    """First eight bytes of every leaf, as a number."""
    cdef const NarrowNode[::1] narrow
    cdef const WideNode[::1] wide
    if nodes.dtype.itemsize == sizeof(NarrowNode):
        narrow = nodes
        with nogil:
            payloads_typed(narrow, values)
    else:
        wide = nodes
        with nogil:
            payloads_typed(wide, values)
