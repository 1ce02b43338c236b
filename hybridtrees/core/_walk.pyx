"""The way of many rows through one large tree.

A row waits for memory at every step, so several rows walk at once, each at its own pace: when one
has arrived, the next takes its place. Only inner nodes are kept, in 16 bytes for float32 tables
(24 for float64), and each stands next to that child which more training rows went to.
"""

from cython.parallel cimport prange
from libc.math cimport isnan
from libc.stdlib cimport free, malloc

from hybridtrees.core._category_sets cimport category_side
from hybridtrees.core._simd cimport ht_round_down
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport Node, int32_t, int64_t, intp_t, real_t, uint32_t

import numpy as np

from hybridtrees.core.checks import check_nodes

cdef enum:
    ABREAST = 8          # rows that walk at once
    CHUNK = 1024          # rows of one piece of work
    STOP = 2              # missing_left: the row ends here


# `child[0]` is where a row goes whose test holds. Numbers from 0 on are inner nodes, ~k is the
# leaf k of the tree. `test` is the feature times 8, plus 4 for a category set, plus missing_left.
cdef struct NarrowNode:
    float threshold
    int32_t test
    int32_t child[2]


cdef struct WideNode:
    double threshold
    int64_t test
    int32_t child[2]


ctypedef fused walk_t:
    NarrowNode
    WideNode


cdef class TreeWalk:
    """One tree, laid out to be walked by many rows.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Of one tree.
    """

    cdef NarrowNode* narrow
    cdef WideNode* wide
    cdef int32_t[::1] origin             # node of the tree, by inner node
    cdef const Node[::1] nodes
    cdef const uint32_t[::1] categories
    cdef readonly int32_t n_features
    cdef intp_t n_inner
    cdef bint plain                      # neither category sets nor nodes where rows may stop

    def __cinit__(self):
        self.narrow = NULL
        self.wide = NULL

    def __dealloc__(self):
        free(self.narrow)
        free(self.wide)

    def __init__(self, ensemble):
        check_nodes(ensemble)
        if ensemble.n_trees != 1:
            raise ValueError(f"a walk is through one tree, got {ensemble.n_trees}")
        self.nodes = ensemble.nodes
        self.categories = ensemble.categories
        self.n_features = ensemble.n_features
        inner = ensemble.nodes["left"] >= 0
        self.n_inner = np.count_nonzero(inner)
        self.plain = not np.any(
            inner
            & ((ensemble.nodes["missing_left"] == STOP) | (ensemble.nodes["category_start"] >= 0))
        )
        self.origin = np.empty(max(1, self.n_inner), dtype=np.int32)
        self.narrow = <NarrowNode*>malloc(max(1, self.n_inner) * sizeof(NarrowNode))
        self.wide = <WideNode*>malloc(max(1, self.n_inner) * sizeof(WideNode))
        if self.narrow == NULL or self.wide == NULL:
            raise MemoryError("no memory to lay out the tree")
        self.lay_out(np.empty(self.nodes.shape[0] + 1, dtype=np.int32),
                     np.empty(self.nodes.shape[0], dtype=np.int32))

    cdef int lay_out(self, int32_t[::1] stack, int32_t[::1] place) except -1:
        """Number the inner nodes so that the likelier child comes next, then fill the layouts."""
        cdef intp_t n_open = 0, k = 0, side
        cdef int32_t node, likely, other, child, test
        stack[0] = 0
        n_open = 1
        while n_open:
            n_open -= 1
            node = stack[n_open]
            while self.nodes[node].left >= 0:
                self.origin[k] = node
                place[node] = <int32_t>k
                k += 1
                likely, other = self.nodes[node].left, self.nodes[node].right
                if self.nodes[likely].n_samples < self.nodes[other].n_samples:
                    likely, other = other, likely
                stack[n_open] = other
                n_open += 1
                node = likely
        for k in range(self.n_inner):
            node = self.origin[k]
            test = 8 * self.nodes[node].feature + self.nodes[node].missing_left
            if self.nodes[node].category_start >= 0:
                test += 4
            self.narrow[k].test = test
            self.wide[k].test = test
            self.narrow[k].threshold = ht_round_down(self.nodes[node].threshold)
            self.wide[k].threshold = self.nodes[node].threshold
            for side in range(2):
                child = self.nodes[node].left if side == 0 else self.nodes[node].right
                child = place[child] if self.nodes[child].left >= 0 else ~child
                self.narrow[k].child[side] = child
                self.wide[k].child[side] = child
        return 0

    def leaves(self, X, int n_threads):
        """Node where each row of a float32 or float64 table ends, int32."""
        cdef const float[:, :] narrow
        cdef const double[:, :] wide
        out = np.zeros(X.shape[0], dtype=np.int32)
        if X.shape[1] != self.n_features:
            raise ValueError("the table does not fit the tree")
        if self.n_inner == 0 or X.shape[0] == 0:
            return out
        if X.dtype == np.float32:
            narrow = X
            walk_table[NarrowNode, float](self, self.narrow, narrow, out, n_threads)
        else:
            wide = X
            walk_table[WideNode, double](self, self.wide, wide, out, n_threads)
        return out


cdef inline int32_t step_any(
    TreeWalk walk, const walk_t* node, intp_t place, real_t value
) noexcept nogil:
    """Next place of a row where splits may be of any kind."""
    cdef int32_t missing_left = <int32_t>(node.test & 3)
    cdef const Node* split
    cdef int32_t side
    if node.test & 4:
        split = &walk.nodes[walk.origin[place]]
        side = category_side(&walk.categories[0] + split.category_start, split.category_words,
                             split.category_limit, value)
        if side >= 0:
            return node.child[1 - side]
    elif not isnan(value):
        return node.child[not value <= node.threshold]
    if missing_left == STOP:
        return ~walk.origin[place]
    return node.child[not missing_left]


cdef inline void walk_rows(
    TreeWalk walk, const walk_t* nodes, const real_t[:, :] X, intp_t start, intp_t stop,
    int32_t[::1] out, bint plain,
) noexcept nogil:
    """Leaves of the rows [start, stop)."""
    cdef intp_t row[ABREAST]
    cdef int32_t place[ABREAST]
    cdef intp_t n_active = 0, following = start, k
    cdef const walk_t* node
    cdef real_t value
    cdef int32_t to
    while n_active < ABREAST and following < stop:
        row[n_active] = following
        place[n_active] = 0
        n_active += 1
        following += 1
    while n_active:
        k = 0
        while k < n_active:
            node = nodes + place[k]
            value = X[row[k], node.test >> 3]
            if plain:
                # A missing value fails both comparisons of its kind.
                to = node.child[
                    not ((value <= node.threshold) | ((node.test & 1) & (value != value)))
                ]
            else:
                to = step_any(walk, node, place[k], value)
            if to >= 0:
                place[k] = to
                k += 1
                continue
            out[row[k]] = ~to
            if following < stop:
                row[k] = following
                place[k] = 0
                following += 1
                k += 1
            else:
                n_active -= 1
                row[k] = row[n_active]
                place[k] = place[n_active]


cdef int walk_table(
    TreeWalk walk, const walk_t* nodes, const real_t[:, :] X, int32_t[::1] out, int n_threads
) except -1:
    cdef intp_t n = X.shape[0], n_chunks = (n + CHUNK - 1) // CHUNK, chunk
    n_threads = <int>max(1, min(n_threads, n_chunks))
    if walk.plain:
        for chunk in prange(n_chunks, num_threads=team_of(n_threads),
                            nogil=True, schedule="static"):
            walk_rows(walk, nodes, X, chunk * CHUNK, min(n, (chunk + 1) * CHUNK), out, True)
    else:
        for chunk in prange(n_chunks, num_threads=team_of(n_threads),
                            nogil=True, schedule="static"):
            walk_rows(walk, nodes, X, chunk * CHUNK, min(n, (chunk + 1) * CHUNK), out, False)
    return 0
