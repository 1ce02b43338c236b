"""Walks of many rows through one tree, pruning, and rows of a forest that share leaves."""

from cython.parallel cimport prange
from libc.math cimport INFINITY, isnan
from libc.stdlib cimport free, malloc, qsort

from hybridtrees.core.base._category_sets cimport side_of
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_round_down
from hybridtrees.core.base._threads cimport raise_stop, team_of, team_stops
from hybridtrees.core.base._types cimport (
    MISSING_STAYS, Node, float64_t, int32_t, int64_t, intp_t, real_t, uint32_t, uint64_t,
    uint8_t,
)
from hybridtrees.core.tree._shares cimport (
    HT_SIDE_LEFT, HT_SIDE_RIGHT, HT_SIDE_STAY, find_shares,
)

import numpy as np

from hybridtrees.core.base.checks import check_nodes


# ---- Walks of many rows through one large tree ------------------------------------------------
#
# A row waits for memory at every step, so several rows walk at once; when one has reached its leaf,
# the next row takes its place. Only inner nodes are stored, in 16 bytes for float32 tables (24 for
# float64), each followed by the child with more training rows.


cdef enum:
    ABREAST = 8           # rows that walk at once
    CHUNK = 1024          # rows that a thread takes at a time


# `child[0]` is the left child. Numbers from 0 on are inner nodes, ~k is the leaf k of the tree.
# `test` is the feature times 8, plus 4 for a category set, plus missing_left.
cdef struct NarrowBranch:
    float threshold
    int32_t test
    int32_t child[2]


cdef struct WideBranch:
    double threshold
    int64_t test
    int32_t child[2]


ctypedef fused walk_t:
    NarrowBranch
    WideBranch


cdef class TreeWalk:
    """The tree of an ensemble with one tree, laid out for walks of many rows."""

    cdef NarrowBranch* narrow
    cdef WideBranch* wide
    cdef int32_t[::1] origin             # by inner node: node of the tree
    cdef const Node[::1] nodes
    cdef const uint32_t[::1] categories
    cdef readonly int32_t n_features
    cdef intp_t n_inner
    cdef bint plain                      # no categorical splits, no nodes where rows may stop

    def __dealloc__(self):
        free(self.narrow)
        free(self.wide)

    def __init__(self, ensemble):
        check_nodes(ensemble)
        if ensemble.n_trees != 1:
            raise ValueError(f"a walk needs an ensemble of one tree, got {ensemble.n_trees}")
        self.nodes = ensemble.nodes
        self.categories = ensemble.categories
        self.n_features = ensemble.n_features
        inner = ensemble.nodes["left"] >= 0
        self.n_inner = np.count_nonzero(inner)
        stays = ensemble.nodes["missing_left"] == <int>MISSING_STAYS
        self.plain = not np.any(inner & (stays | (ensemble.nodes["category_start"] >= 0)))
        self.origin = np.empty(max(1, self.n_inner), dtype=np.int32)
        self.narrow = <NarrowBranch*>malloc(max(1, self.n_inner) * sizeof(NarrowBranch))
        self.wide = <WideBranch*>malloc(max(1, self.n_inner) * sizeof(WideBranch))
        if self.narrow == NULL or self.wide == NULL:
            raise MemoryError("no memory to lay out the tree")
        self.lay_out(np.empty(self.nodes.shape[0] + 1, dtype=np.int32),
                     np.empty(self.nodes.shape[0], dtype=np.int32))

    cdef int lay_out(self, int32_t[::1] stack, int32_t[::1] place) except -1:
        """Number the inner nodes such that the likelier child follows, and fill the layouts."""
        cdef intp_t n_open = 1, k = 0, side
        cdef int32_t node, likely, other, child, test
        stack[0] = 0
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
            walk_table[NarrowBranch, float](self, self.narrow, narrow, out, n_threads)
        else:
            wide = X
            walk_table[WideBranch, double](self, self.wide, wide, out, n_threads)
        return out


cdef inline int32_t step_any(
    TreeWalk walk, const walk_t* node, intp_t place, real_t value
) noexcept nogil:
    """Next position of a row at a split of any kind."""
    cdef const Node* split = &walk.nodes[walk.origin[place]]
    cdef int32_t side = side_of(
        value, node.threshold,
        &walk.categories[0] + split.category_start if node.test & 4 else NULL,
        split.category_words, split.category_limit, <int32_t>(node.test & 3))
    return ~walk.origin[place] if side == MISSING_STAYS else node.child[1 - side]


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
                # The first comparison is false for a missing value.
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


# ---- Scores of rows of which only some columns are known --------------------------------------
#
# At a split on another column a row goes both ways, in the shares of the training rows. The rows of
# a node therefore have one weight, the product of the shares above, and go down together. Below a
# node without known columns all rows are worth the same: the mean of its leaves.


cdef struct Visit:
    intp_t node
    intp_t first         # the rows are order[first:last]
    intp_t last
    float64_t weight
    bint ends            # the rows stay at the node, whether it is a leaf or not


cdef class KnownScores:
    """Adds the scores of a tree to rows of which the columns with `known` are given."""

    cdef const Node[::1] nodes
    cdef const float64_t[:, ::1] values
    cdef const uint32_t[::1] categories
    cdef const int64_t[::1] term_start
    cdef const int32_t[::1] term_column
    cdef const float64_t[:, ::1] coef
    cdef const float64_t[::1] center
    cdef const float64_t[::1] low
    cdef const float64_t[::1] high
    cdef const float64_t[:, :, ::1] value_range
    cdef bint ranged
    cdef const uint8_t[::1] known
    cdef float64_t[:, ::1] mean          # of the leaves below each node, without known columns
    cdef uint8_t[::1] moves              # whether known columns matter below a node
    cdef intp_t[::1] order

    def __init__(self, ensemble, known, n_rows):
        self.nodes = ensemble.nodes
        self.values = np.ascontiguousarray(ensemble.values)
        self.categories = ensemble.categories
        self.term_start, self.term_column = ensemble.coef_ptr, ensemble.coef_feature
        self.coef, self.center = np.ascontiguousarray(ensemble.coef), ensemble.coef_center
        self.low, self.high = ensemble.coef_low, ensemble.coef_high
        self.ranged = ensemble.value_range is not None
        if self.ranged:
            self.value_range = np.ascontiguousarray(ensemble.value_range)
        self.known = known
        self.mean = np.empty(ensemble.values.shape)
        self.moves = np.empty(len(ensemble.nodes), dtype=np.uint8)
        self.order = np.arange(n_rows)

    cdef float64_t ranged_value(self, intp_t node, intp_t k, float64_t value) noexcept nogil:
        if not self.ranged:
            return value
        return min(max(value, self.value_range[node, 0, k]), self.value_range[node, 1, k])

    cdef float64_t own_value(
        self, intp_t node, intp_t k, const float64_t[:, :] X, intp_t row
    ) noexcept nogil:
        """Value of a node for a row: unknown and missing regressors count as the centre."""
        cdef float64_t value = self.values[node, k], x
        cdef intp_t term
        for term in range(self.term_start[node], self.term_start[node + 1]):
            x = X[row, self.term_column[term]]
            if self.known[self.term_column[term]] and not isnan(x):
                x = min(max(x, self.low[term]), self.high[term])
                value += self.coef[term, k] * (x - self.center[term])
        return self.ranged_value(node, k, value)

    cdef void find_means(self, intp_t start, intp_t stop) noexcept nogil:
        """Go through a tree from below: children stand behind their parents."""
        cdef intp_t at, term, k
        cdef const Node* node
        cdef float64_t shares[3]
        for at in range(stop - 1, start - 1, -1):
            node = &self.nodes[at]
            self.moves[at] = 0
            for term in range(self.term_start[at], self.term_start[at + 1]):
                self.moves[at] |= self.known[self.term_column[term]]
            if node.left < 0:
                for k in range(self.values.shape[1]):
                    self.mean[at, k] = self.ranged_value(at, k, self.values[at, k])
                continue
            find_shares(&self.nodes[start], at - start, shares)
            # The line of an inner node is for the rows that stay there.
            self.moves[at] &= shares[HT_SIDE_STAY] > 0
            self.moves[at] |= (
                self.known[node.feature] | self.moves[start + node.left]
                | self.moves[start + node.right])
            for k in range(self.values.shape[1]):
                self.mean[at, k] = (
                    shares[HT_SIDE_LEFT] * self.mean[start + node.left, k]
                    + shares[HT_SIDE_RIGHT] * self.mean[start + node.right, k])
                if shares[HT_SIDE_STAY] > 0:
                    self.mean[at, k] += (
                        shares[HT_SIDE_STAY] * self.ranged_value(at, k, self.values[at, k]))

    cdef void divide(
        self, const Visit* visit, const float64_t[:, :] X, intp_t* left, intp_t* right
    ) noexcept nogil:
        """Order the rows of a visit: OUT those before `left` go left, from `right` on right."""
        cdef const Node* node = &self.nodes[visit.node]
        cdef const uint32_t* words = NULL
        cdef intp_t at = visit.first
        cdef int32_t side
        if node.category_start >= 0:
            words = &self.categories[node.category_start]
        left[0], right[0] = visit.first, visit.last
        while at < right[0]:
            side = side_of(X[self.order[at], node.feature], node.threshold, words,
                           node.category_words, node.category_limit, node.missing_left)
            if side == 0:
                right[0] -= 1
                self.order[at], self.order[right[0]] = self.order[right[0]], self.order[at]
                continue
            if side == 1:
                self.order[at], self.order[left[0]] = self.order[left[0]], self.order[at]
                left[0] += 1
            at += 1

    cdef void add_tree(
        self, intp_t start, intp_t stop, const float64_t[:, :] X, Visit* stack, float64_t[:, :] raw,
        intp_t output,
    ) noexcept nogil:
        """Add a tree; `stack` has room for three visits of each level."""
        cdef intp_t n_stack = 1, at, k, left = 0, right = 0, row
        cdef const Node* node
        cdef Visit visit
        cdef float64_t shares[3]
        self.find_means(start, stop)
        stack[0] = Visit(start, 0, X.shape[0], 1.0, False)
        while n_stack > 0:
            n_stack -= 1
            visit = stack[n_stack]
            node = &self.nodes[visit.node]
            if visit.ends or node.left < 0 or not self.moves[visit.node]:
                for at in range(visit.first, visit.last):
                    row = self.order[at]
                    for k in range(self.values.shape[1]):
                        raw[row, output + k] += visit.weight * (
                            self.own_value(visit.node, k, X, row)
                            if visit.ends or node.left < 0 else self.mean[visit.node, k])
                continue
            if self.known[node.feature]:
                self.divide(&visit, X, &left, &right)
                shares[0] = shares[1] = shares[2] = 1.0
            else:
                find_shares(&self.nodes[start], visit.node - start, shares)
            for k in range(3):
                if shares[k] <= 0:
                    continue
                stack[n_stack] = visit
                stack[n_stack].weight = visit.weight * shares[k]
                if k == HT_SIDE_STAY:
                    stack[n_stack].ends = True
                else:
                    stack[n_stack].node = start + (
                        node.left if k == HT_SIDE_LEFT else node.right)
                if self.known[node.feature]:
                    stack[n_stack].first = (
                        visit.first if k == HT_SIDE_LEFT else left if k == HT_SIDE_STAY else right)
                    stack[n_stack].last = (
                        left if k == HT_SIDE_LEFT else right if k == HT_SIDE_STAY else visit.last)
                if stack[n_stack].first < stack[n_stack].last:
                    n_stack += 1


def add_known_scores(
    ensemble, const uint8_t[::1] known, const float64_t[:, :] X, float64_t[:, ::1] raw
):
    """Add the scores of rows if only the columns with `known` are given; others are not read."""
    cdef KnownScores scores = KnownScores(ensemble, known, X.shape[0])
    cdef const int64_t[::1] starts = ensemble.tree_start
    cdef const int32_t[::1] outputs = ensemble.tree_output
    cdef intp_t tree, n_columns = ensemble.n_features, n_outputs = ensemble.n_outputs
    cdef int stopped = 0
    if X.shape[0] != raw.shape[0] or X.shape[1] != n_columns or (
            known.shape[0] != n_columns or raw.shape[1] != n_outputs):
        raise ValueError("the rows or the output do not fit the trees")
    most = 3 * int(ensemble.nodes["depth"].max()) + 4
    cdef uint8_t[::1] memory = np.empty(most * sizeof(Visit), dtype=np.uint8)
    cdef Visit* stack = <Visit*>&memory[0]
    with nogil:
        for tree in range(starts.shape[0] - 1):
            if team_stops(&stopped):
                break
            scores.add_tree(
                starts[tree], starts[tree + 1], X, stack, raw,
                0 if scores.values.shape[1] > 1 else outputs[tree])
    raise_stop(stopped)


# ---- One tree that was grown just now ---------------------------------------------------------


def add_node_values(
    const Node[::1] nodes, const float64_t[::1] values, const uint32_t[::1] categories,
    const real_t[:, :] X, float64_t[:] raw
):
    """Add the value of the node where each row ends to `raw`; nothing is laid out or checked."""
    cdef intp_t row
    cdef int32_t node, side
    cdef const Node* split
    cdef const uint32_t* words = &categories[0] if categories.shape[0] else NULL
    if raw.shape[0] != X.shape[0]:
        raise ValueError("the scores do not fit the table")
    with nogil:
        for row in range(X.shape[0]):
            node = 0
            while nodes[node].left >= 0:
                split = &nodes[node]
                side = side_of(
                    X[row, split.feature], split.threshold,
                    words + split.category_start if split.category_start >= 0 else NULL,
                    split.category_words, split.category_limit, split.missing_left)
                if side == MISSING_STAYS:
                    break
                node = split.left if side else split.right
            raw[row] += values[node]


# ---- Cost-complexity pruning, and the shape of subtrees ---------------------------------------
#
# A subtree T of a tree costs R(T) + alpha |leaves of T|. The split at node t lowers R by
# ``decrease[t]``, so the branch below t collapses as soon as alpha reaches the mean decrease of its
# remaining splits: branches that collapse at a smaller alpha are gone by then. The kernel goes up
# from the leaves. The mean of t starts with t's own decrease; branches below are added by
# decreasing alpha as long as theirs is at least the mean. Such a branch collapses together with t,
# so every branch is taken from a heap at most once: O(n log n) for any shape of tree.


cdef enum:
    NONE = -1


cdef struct Heap:
    # Skew heaps of nodes, largest alpha on top, one per open subtree.
    float64_t* alpha
    int32_t* left
    int32_t* right


cdef inline int32_t merge(Heap* heap, int32_t first, int32_t second) noexcept nogil:
    """Merge two heaps along their right spines, swapping the children on the way down."""
    cdef int32_t root, node, below
    if first == NONE:
        return second
    if second == NONE:
        return first
    if heap.alpha[first] < heap.alpha[second]:
        first, second = second, first
    root = first
    node = first
    while True:
        below = heap.right[node]
        heap.right[node] = heap.left[node]
        if below == NONE:
            heap.left[node] = second
            return root
        if heap.alpha[below] < heap.alpha[second]:
            below, second = second, below
        heap.left[node] = below
        node = below


def collapse_branches(
    const int32_t[:] left, const int32_t[:] right, const float64_t[::1] decrease,
    float64_t tolerance,
):
    """Alpha at which the branch below each node collapses, by itself or with a larger branch.

    `decrease` is the cost reduction of the split at each node. A branch whose alpha is at most the
    share `tolerance` below that of an ancestor collapses with it. Returns alpha, -inf in leaves;
    and the increase in cost if a branch collapses by itself, else NaN.
    """
    cdef intp_t n = left.shape[0]
    cdef int32_t t, top
    cdef float64_t sum_, count, mean
    alpha_array = np.empty(n)
    collapsed_array = np.full(n, np.nan)
    cdef float64_t[::1] alpha = alpha_array, collapsed = collapsed_array
    cdef float64_t[::1] own = np.zeros(n), total = np.zeros(n), size = np.zeros(n)
    cdef int32_t[::1] heap_left = np.full(n, NONE, dtype=np.int32)
    cdef int32_t[::1] heap_right = np.full(n, NONE, dtype=np.int32)
    cdef int32_t[::1] heap_of = np.full(n, NONE, dtype=np.int32)
    cdef uint8_t[::1] taken = np.zeros(n, dtype=np.uint8)
    cdef Heap heap
    if n == 0:
        return alpha_array, collapsed_array
    heap.alpha, heap.left, heap.right = &own[0], &heap_left[0], &heap_right[0]
    with nogil:
        for t in range(<int32_t>n - 1, -1, -1):
            if left[t] < 0:
                continue
            top = merge(&heap, heap_of[left[t]], heap_of[right[t]])
            sum_, count = decrease[t], 1
            mean = sum_
            while top != NONE and own[top] >= mean - tolerance * (mean if mean > 0 else -mean):
                sum_ += total[top]
                count += size[top]
                mean = sum_ / count
                taken[top] = 1
                top = merge(&heap, heap_left[top], heap_right[top])
            own[t], total[t], size[t] = mean, sum_, count
            heap_of[t] = merge(&heap, top, t)
        # A branch that was taken collapses with the ancestor that took it, as do all branches
        # between the two.
        for t in range(<int32_t>n):
            if left[t] < 0:
                alpha[t] = -INFINITY
                continue
            if not taken[t]:
                alpha[t] = own[t]
                collapsed[t] = total[t]
            alpha[left[t]] = alpha[t]
            alpha[right[t]] = alpha[t]
    return alpha_array, collapsed_array


def preorder(const int32_t[:] left, const int32_t[:] right):
    """Position of every node in preorder, and size of its branch, which starts there."""
    cdef intp_t n = left.shape[0], t
    place_array, size_array = np.zeros(n, dtype=np.int32), np.ones(n, dtype=np.int32)
    cdef int32_t[::1] place = place_array, size = size_array
    with nogil:
        for t in range(n - 1, -1, -1):
            if left[t] >= 0:
                size[t] += size[left[t]] + size[right[t]]
        for t in range(n):
            if left[t] >= 0:
                place[left[t]] = place[t] + 1
                place[right[t]] = place[t] + 1 + size[left[t]]
    return place_array, size_array


# ---- Rows that share leaves: groups by leaf, proximities, quantiles weighted by leaves --------
#
# Training rows are grouped by tree and leaf; the training rows that a new row meets in a tree are a
# segment `[first, last)` of that order. Threads share the rows of the output, each of which
# processes the trees in their order, so results do not depend on the threads.


cdef extern from "compiler.h" nogil:
    int HT_POPCOUNT(uint64_t word)

# Sums of weights that are this close to a level have reached it.
cdef float64_t LEVEL_TOLERANCE = 1e-10


cdef int compare(const void* a, const void* b) noexcept nogil:
    cdef uint32_t x = (<const uint32_t*>a)[0], y = (<const uint32_t*>b)[0]
    return (x > y) - (x < y)


def group_rows(const int32_t[::1] leaf, int64_t[::1] start, uint32_t[::1] rows):
    """Sort rows by their leaf, stably; returns how many have one.

    OUT `start` (n_nodes + 1,): first entry of each node in `rows`; `rows`: rows with a leaf.
    """
    cdef intp_t i, n_nodes = start.shape[0] - 1
    cdef int64_t position, count
    cdef int32_t beyond = -1
    with nogil:
        for i in range(n_nodes + 1):
            start[i] = 0
        for i in range(leaf.shape[0]):
            if leaf[i] >= n_nodes:
                beyond = leaf[i]
                break
            if leaf[i] >= 0:
                start[leaf[i]] += 1
        position = 0
        for i in range(n_nodes + 1):
            count = start[i]
            start[i] = position
            position += count
    if beyond >= 0:
        raise ValueError(f"leaf contains {beyond}, but there are {n_nodes} nodes")
    if position > rows.shape[0]:
        raise ValueError("rows is too short")
    with nogil:
        for i in range(leaf.shape[0]):
            if leaf[i] >= 0:
                rows[start[leaf[i]]] = <uint32_t>i
                start[leaf[i]] += 1
        # Every start has moved to the next one.
        for i in range(n_nodes, 0, -1):
            start[i] = start[i - 1]
        start[0] = 0
    return position


cdef intp_t meet(
    const int64_t* first, const int64_t* last, intp_t n_trees, const uint32_t* rows,
    int32_t* count, uint32_t* met,
) noexcept nogil:
    """Count how often a row meets other rows; OUT their list `met`, returns its length."""
    cdef intp_t tree, n_met = 0
    cdef int64_t e
    cdef uint32_t other
    for tree in range(n_trees):
        for e in range(first[tree], last[tree]):
            other = rows[e]
            if count[other] == 0:
                met[n_met] = other
                n_met += 1
            count[other] += 1
    return n_met


cdef int check_segments(
    const int64_t[:, ::1] first, const int64_t[:, ::1] last, const uint32_t[::1] rows,
    intp_t n_others,
) except -1:
    if first.shape[0] != last.shape[0] or first.shape[1] != last.shape[1]:
        raise ValueError("first and last must have the same shape")
    if np.size(first) and (np.min(first) < 0 or np.max(last) > rows.shape[0]):
        raise ValueError("a segment is out of range")
    if rows.shape[0] and np.max(rows) >= n_others:
        raise ValueError("a row is out of range")
    return 0


def count_met(const int64_t[:, ::1] first, const int64_t[:, ::1] last, const uint32_t[::1] rows,
              intp_t n_others, int64_t[::1] n_met, int n_threads):
    """n_met[i] = number of the `n_others` training rows that share a leaf with row i.

    `first` and `last` (n, n_trees): segments of `rows` that each row meets; they may be empty.
    """
    cdef intp_t i, j, n = first.shape[0], n_trees = first.shape[1], thread
    check_segments(first, last, rows, n_others)
    if n_met.shape[0] != n:
        raise ValueError("n_met needs one entry per row")
    if n == 0 or n_trees == 0 or rows.shape[0] == 0:
        n_met[:] = 0
        return
    n_threads = <int>max(1, min(n_threads, n))
    cdef int32_t[:, ::1] count = np.zeros((n_threads, n_others), dtype=np.int32)
    cdef uint32_t[:, ::1] met = np.empty((n_threads, n_others), dtype=np.uint32)
    for i in prange(n, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=64, nogil=True):
        thread = omp_get_thread_num()
        n_met[i] = meet(&first[i, 0], &last[i, 0], n_trees, &rows[0], &count[thread, 0],
                        &met[thread, 0])
        for j in range(n_met[i]):
            count[thread, met[thread, j]] = 0


cdef void write_shares(
    int32_t* count, uint32_t* met, intp_t n_met, const uint64_t* one, const uint64_t[:, ::1] bits,
    float64_t n_trees, int32_t* indices, float64_t* data,
) noexcept nogil:
    cdef intp_t j, k, n_words = bits.shape[1]
    cdef int64_t n_common
    cdef float64_t total = n_trees
    qsort(met, n_met, sizeof(uint32_t), compare)
    for j in range(n_met):
        if n_words > 0:
            n_common = 0
            for k in range(n_words):
                n_common += HT_POPCOUNT(one[k] & bits[met[j], k])
            total = <float64_t>n_common
        indices[j] = <int32_t>met[j]
        data[j] = count[met[j]] / total
        count[met[j]] = 0


def write_met(const int64_t[:, ::1] first, const int64_t[:, ::1] last, const uint32_t[::1] rows,
              intp_t n_others, const uint64_t[:, ::1] own_bits, const uint64_t[:, ::1] bits,
              const int64_t[::1] pointers, int32_t[::1] indices, float64_t[::1] data,
              int n_threads):
    """OUT the share of trees in which rows meet, as a CSR matrix with the given `pointers`.

    Bit k of `own_bits` (n, n_words) and `bits` (n_others, n_words) is set if tree k counts for a
    row; shares are then of the trees that count for both rows. Without words all trees count.
    """
    cdef intp_t i, n = first.shape[0], n_trees = first.shape[1], thread, n_met
    cdef bint masked = bits.shape[1] > 0
    check_segments(first, last, rows, n_others)
    if pointers.shape[0] != n + 1 or pointers[n] > min(indices.shape[0], data.shape[0]):
        raise ValueError("the arrays of the matrix do not fit together")
    if masked and (own_bits.shape[0] != n or own_bits.shape[1] != bits.shape[1]
                   or bits.shape[0] != n_others):
        raise ValueError("the bits do not fit the rows")
    if pointers[n] == 0:
        return
    n_threads = <int>max(1, min(n_threads, n))
    cdef int32_t[:, ::1] count = np.zeros((n_threads, n_others), dtype=np.int32)
    cdef uint32_t[:, ::1] met = np.empty((n_threads, n_others), dtype=np.uint32)
    for i in prange(n, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=64, nogil=True):
        thread = omp_get_thread_num()
        n_met = meet(&first[i, 0], &last[i, 0], n_trees, &rows[0], &count[thread, 0],
                     &met[thread, 0])
        if n_met > 0:
            write_shares(&count[thread, 0], &met[thread, 0], n_met,
                         &own_bits[i, 0] if masked else NULL, bits, <float64_t>n_trees,
                         &indices[pointers[i]], &data[pointers[i]])


cdef void quantiles_of_row(
    const int64_t* first, const int64_t* last, intp_t n_trees, const uint32_t* rank,
    const real_t* weight, const float64_t* ordered, const float64_t[::1] levels,
    float64_t* sums, uint32_t* met, float64_t* out,
) noexcept nogil:
    """OUT weighted quantiles of the targets that one row meets, `levels` ascending."""
    cdef intp_t tree, n_met = 0, j, k
    cdef int64_t e
    cdef float64_t total, share, reached = 0.0, all_trees = 0.0
    for tree in range(n_trees):
        total = 0.0
        for e in range(first[tree], last[tree]):
            total += weight[e]
        if total <= 0.0:
            continue
        all_trees += 1.0
        for e in range(first[tree], last[tree]):
            share = weight[e] / total
            if share <= 0.0:
                continue
            if sums[rank[e]] == 0.0:
                met[n_met] = rank[e]
                n_met += 1
            sums[rank[e]] += share
    qsort(met, n_met, sizeof(uint32_t), compare)
    k = 0
    for j in range(n_met):
        reached += sums[met[j]]
        sums[met[j]] = 0.0
        while k < levels.shape[0] and (
            j == n_met - 1 or reached >= (levels[k] - LEVEL_TOLERANCE) * all_trees
        ):
            out[k] = ordered[met[j]]
            k += 1


def leaf_quantiles(const int64_t[:, ::1] first, const int64_t[:, ::1] last,
                   const uint32_t[::1] rank, const real_t[::1] weight,
                   const float64_t[::1] ordered, const float64_t[::1] levels,
                   float64_t[:, ::1] out, int n_threads):
    """OUT quantiles of the targets of training rows, weighted by the leaves that a row shares.

    `rank` and `weight` are, in the order of the segments, the rank of a row's target and its weight
    in the tree. `out` (n, n_levels): smallest target at which the weights reach each level.
    """
    cdef intp_t i, n = first.shape[0], n_trees = first.shape[1], thread
    check_segments(first, last, rank, ordered.shape[0])
    if weight.shape[0] != rank.shape[0] or out.shape[0] != n or out.shape[1] != levels.shape[0]:
        raise ValueError("the weights or the output have a wrong length")
    if n == 0 or n_trees == 0 or rank.shape[0] == 0:
        return
    n_threads = <int>max(1, min(n_threads, n))
    cdef float64_t[:, ::1] sums = np.zeros((n_threads, ordered.shape[0]))
    cdef uint32_t[:, ::1] met = np.empty((n_threads, ordered.shape[0]), dtype=np.uint32)
    for i in prange(n, num_threads=team_of(n_threads),
                    schedule="dynamic", chunksize=16, nogil=True):
        thread = omp_get_thread_num()
        quantiles_of_row(&first[i, 0], &last[i, 0], n_trees, &rank[0], &weight[0], &ordered[0],
                         levels, &sums[thread, 0], &met[thread, 0], &out[i, 0])


# ---- Weighted medians over the members of an ensemble -----------------------------------------


cdef struct Weighted:
    float64_t value
    int64_t weight


cdef enum:
    FEW_MEMBERS = 8       # so many are sorted


cdef inline float64_t middle_of(float64_t a, float64_t b, float64_t c) noexcept nogil:
    if a < b:
        return b if b < c else (c if a < c else a)
    return a if a < c else (c if b < c else b)


cdef intp_t divide(
    const Weighted* members, intp_t n, float64_t pivot, bint with_equal, Weighted* low,
    Weighted* high, int64_t* weight,
) noexcept nogil:
    """OUT members below the pivot (or equal to it), their weight, and the others.

    Each member is written to both, and stays in one: no branch depends on the values.
    """
    cdef intp_t i, n_low = 0
    cdef int64_t total = 0, goes_low
    for i in range(n):
        goes_low = (members[i].value <= pivot) if with_equal else (members[i].value < pivot)
        low[n_low] = members[i]
        high[i - n_low] = members[i]
        n_low += goes_low
        total += members[i].weight & -goes_low
    weight[0] = total
    return n_low


cdef float64_t weighted_median(Weighted* members, intp_t n, int64_t needed) noexcept nogil:
    """Smallest value up to which the weights reach `needed`, which is no more than their sum.

    Members are divided by a pivot, and only the part that holds the median is divided again. The
    next 4 n places are for the parts.
    """
    cdef Weighted* places = members
    cdef Weighted* low
    cdef Weighted* high
    cdef intp_t size = n, n_low, i, j, parity = 0
    cdef int64_t weight
    cdef float64_t pivot
    cdef Weighted moved
    while n > FEW_MEMBERS:
        low = places + (1 + 2 * parity) * size
        high = low + size
        parity = 1 - parity
        pivot = middle_of(members[0].value, members[n // 2].value, members[n - 1].value)
        n_low = divide(members, n, pivot, False, low, high, &weight)
        if weight >= needed and n_low > 0:
            members, n = low, n_low
            continue
        if n_low > 0:
            needed -= weight
            members, n = high, n - n_low
            continue
        # The pivot is the smallest value.
        n_low = divide(members, n, pivot, True, low, high, &weight)
        if weight >= needed or n_low == 0 or n_low == n:
            return pivot
        needed -= weight
        members, n = high, n - n_low
    for i in range(1, n):
        moved = members[i]
        j = i
        while j > 0 and members[j - 1].value > moved.value:
            members[j] = members[j - 1]
            j -= 1
        members[j] = moved
    for i in range(n - 1):
        needed -= members[i].weight
        if needed <= 0:
            return members[i].value
    return members[n - 1].value


def row_medians(const float64_t[:, ::1] values, const int64_t[::1] weight, float64_t[::1] out,
                int n_threads):
    """OUT weighted median over the first columns of each row, as many as there are weights.

    It is the smallest value up to which the weights reach half of their sum, which must be below
    2^63.
    """
    cdef intp_t i, j, n = values.shape[0], n_used = weight.shape[0], thread
    cdef int64_t total = 0
    cdef Weighted* members
    cdef Weighted* own
    if out.shape[0] != n or not 0 < n_used <= values.shape[1]:
        raise ValueError("the weights or the output have a wrong length")
    for j in range(n_used):
        if weight[j] < 0:
            raise ValueError("a weight is negative")
        total += weight[j]
    n_threads = <int>max(1, min(n_threads, n))
    members = <Weighted*>malloc(5 * n_threads * n_used * sizeof(Weighted))
    if members == NULL:
        raise MemoryError("no memory for the medians of an ensemble")
    for i in prange(n, num_threads=team_of(n_threads), schedule="static", nogil=True):
        thread = omp_get_thread_num()
        own = members + 5 * thread * n_used
        for j in range(n_used):
            own[j].value = values[i, j]
            own[j].weight = weight[j]
        out[i] = weighted_median(own, n_used, total // 2 + total % 2)
    free(members)
