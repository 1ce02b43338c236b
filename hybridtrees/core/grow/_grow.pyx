"""The grower: one loop for every tree, without the GIL.

A node is evaluated (its best split is found), waits in the frontier, and is then split: best gain
first, level by level, or depth first. The search finds splits and moves rows. If the order of
splits does not matter, small nodes become tasks for other growers, which run in parallel. Their
trees are inserted in the order of the tasks, so results do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.string cimport memcpy

from hybridtrees.core.base._openmp cimport omp_get_thread_num, omp_get_wtime
from hybridtrees.core.base._threads cimport (
    NodeThreads, node_threads, note_node_time, open_node_threads, raise_stop, team_of,
)
from hybridtrees.core.base._types cimport DEPTH_WISE, Node, float64_t, int32_t, intp_t, uint32_t
from hybridtrees.core.search._search cimport (
    SUM_BLOCK, GrowNode, NodeQueue, NodeStore, SplitSearch, add_to_leaves,
)

import numpy as np

from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.grow.grown import Grown


# Updates of cells between two checks for an interrupt; they take milliseconds.
cdef float64_t POLLED_UPDATES = 1e6


cdef void copy_node(const GrowNode* node, GrowNode* to, int32_t parent) noexcept nogil:
    """Copy a node as a leaf below `parent`."""
    to[0] = node[0]
    to.parent = parent
    to.left = to.right = -1


cdef class TreeGrower:
    """Grows trees with a search.

    Nodes of at most `task_rows` rows are tasks of the `helpers`, one grower per thread. Nodes are
    numbered in preorder with `preorder`, else in the order of splits. After growth, splits above
    two leaves with a gain below `prune_gain` are undone.
    """

    cdef readonly SplitSearch search
    cdef int32_t max_leaves
    cdef intp_t task_rows
    cdef bint preorder
    cdef float64_t prune_gain
    cdef list helpers
    cdef int32_t[::1] task_nodes
    cdef int32_t[::1] number         # of each node of the last tree, in the numbering of `Grown`
    cdef int32_t n_tasks
    cdef NodeThreads threads

    def __init__(self, SplitSearch search, int32_t max_leaves, helpers=(), intp_t task_rows=0,
                 bint preorder=False, float64_t prune_gain=0.0):
        self.search = search
        open_node_threads(&self.threads, search.n_threads)
        self.prune_gain = prune_gain
        self.max_leaves = max_leaves
        self.helpers = list(helpers)
        self.task_rows = task_rows if helpers else 0
        self.preorder = preorder
        # Nodes of tasks are disjoint and have at least two rows.
        self.task_nodes = np.empty(search.n_rows // 2 + 1 if self.task_rows else 1, dtype=np.int32)

    # ---- the loop -----------------------------------------------------------------------------

    cdef bint becomes_task(self, int32_t node) noexcept nogil:
        """Whether the node is small enough to be a task; if so, it is added to the tasks."""
        cdef GrowNode* n = &self.search.store.nodes[node]
        if n.stop - n.start > self.task_rows:
            return False
        self.task_nodes[self.n_tasks] = node
        self.n_tasks += 1
        return True

    cdef int enlist(self, int32_t node) except -1 nogil:
        """After its search, add a node to the frontier; release the histogram of a leaf."""
        if self.search.store.nodes[node].split.feature >= 0:
            self.search.queue.push(node, self.search.store.nodes[node].split.gain)
        else:
            self.search.forget(node)
        return 0

    cdef float64_t updates_of(self, int32_t node) noexcept nogil:
        """Work for a node, in updates of cells: the cuts of a feature count as 1000 rows."""
        cdef GrowNode* n = &self.search.store.nodes[node]
        return <float64_t>self.search.n_tree_features * (<float64_t>(n.stop - n.start) + 1000)

    cdef int visit(self, int32_t node, bint last) except -1 nogil:
        """`open_node`, with a number of threads that depends on its work."""
        cdef float64_t updates, start
        if self.threads.n_threads == 1:
            return self.open_node(node, last)
        updates = self.updates_of(node)
        start = omp_get_wtime()
        self.search.n_threads = node_threads(&self.threads, updates)
        try:
            self.open_node(node, last)
        finally:
            note_node_time(&self.threads, self.search.n_threads, updates, omp_get_wtime() - start)
            self.search.n_threads = self.threads.n_threads
        return 0

    cdef int open_node(self, int32_t node, bint last) except -1 nogil:
        """Search the root, or divide a node and search its children unless `last`."""
        if self.search.store.nodes[node].left < 0:
            self.search.evaluate_root()
            self.enlist(node)
            return 0
        self.search.divide(node)
        if not last:
            self.search_children(node)
        return 0

    cdef int search_children(self, int32_t node) except -1 nogil:
        """Find the splits of the children of a divided node."""
        cdef int32_t left = self.search.store.nodes[node].left
        cdef int32_t right = self.search.store.nodes[node].right
        cdef bint want_left = self.search.may_split(left) and not self.becomes_task(left)
        cdef bint want_right = self.search.may_split(right) and not self.becomes_task(right)
        self.search.evaluate_children(node, want_left, want_right)
        if want_left:
            self.enlist(left)
        if want_right:
            self.enlist(right)
        return 0

    cdef int grow_nodes(self) except -1 nogil:
        """Grow all nodes from the root on."""
        cdef int32_t node, n_leaves = 1
        cdef float64_t updates = 0
        self.n_tasks = 0
        if not (self.search.may_split(0) and self.becomes_task(0)):
            self.visit(0, False)
        while self.search.queue.n_open > 0 and (
            self.max_leaves <= 0 or n_leaves < self.max_leaves
        ):
            node = self.search.queue.pop()
            self.search.store.new_children(node)
            n_leaves += 1
            self.visit(node, n_leaves == self.max_leaves)
            updates += self.updates_of(node)
            if updates > POLLED_UPDATES:
                updates = 0
                raise_stop(self.search.stops())
        while self.search.queue.n_open > 0:
            self.search.store.nodes[self.search.queue.pop()].split.feature = -1
        return 0

    # ---- growth in passes over a table that is not in memory ------------------------------------
    #
    # A pass splits many nodes at once. Before each one the tree is replayed on the gains known so
    # far, where a node that was not split yet counts as a leaf. Nodes among the splits of that
    # replay that were not split yet are split by the next pass. A node of the tree comes no later
    # in a replay than in the order of one by one, as it has fewer rivals: so when a replay finds
    # no such node, its splits are those of the tree, in their order.

    cdef int grow_in_passes(self) except -1:
        """Grow the tree, and leave only its nodes in the store."""
        cdef bint last
        self.n_tasks = 0
        with nogil:
            self.search.open_root()
            if self.search.may_split(0):
                self.search.evaluate_root()
        while True:
            order, waiting, n_leaves = self.replay()
            if len(waiting) == 0:
                break
            raise_stop(self.search.stops())
            # Level by level, no child comes before a node that waits.
            last = n_leaves == self.max_leaves and self.search.queue.kind == DEPTH_WISE
            self.search.split_all(waiting, last)
        self.search.close_passes(self.keep(order))
        return 0

    cdef replay(self):
        """Splits in their order, nodes among them that were not split yet, and leaves."""
        cdef NodeQueue queue = self.search.queue
        cdef GrowNode* nodes = self.search.store.nodes
        cdef int32_t n_ids = 1, n_leaves = 1, id_, k, side, child
        cdef int32_t[::1] node_of = np.empty(3 * self.search.store.n_nodes, dtype=np.int32)
        order, waiting = [], []
        queue.n_open = 0
        node_of[0] = 0
        if nodes[0].split.feature >= 0:
            queue.push(0, nodes[0].split.gain)
        while queue.n_open > 0 and (self.max_leaves <= 0 or n_leaves < self.max_leaves):
            id_ = queue.pop()
            k = node_of[id_]
            n_leaves += 1
            if nodes[k].left < 0:
                waiting.append(k)
                n_ids += 2
                continue
            order.append(k)
            for side in range(2):
                child = nodes[k].right if side else nodes[k].left
                node_of[n_ids] = child
                if nodes[child].split.feature >= 0:
                    queue.push(n_ids, nodes[child].split.gain)
                n_ids += 1
        queue.n_open = 0
        return order, np.array(waiting, dtype=np.int32), n_leaves

    cdef int32_t[::1] keep(self, list order):
        """Keep only these splits, in this order; returns what each node has become."""
        cdef NodeStore old = self.search.store, store = NodeStore()
        cdef int32_t[::1] kept = np.full(old.n_nodes, -1, dtype=np.int32)
        cdef int32_t k, node, side, child
        store.new_node()
        copy_node(&old.nodes[0], &store.nodes[0], -1)
        kept[0] = 0
        for k in order:
            node = kept[k]
            store.new_children(node)
            for side in range(2):
                child = old.nodes[k].right if side else old.nodes[k].left
                kept[child] = store.n_nodes - 2 + side
                copy_node(&old.nodes[child], &store.nodes[kept[child]], node)
        for k in range(store.n_nodes):
            if store.nodes[k].left < 0:
                store.nodes[k].split.feature = -1
        for k in range(old.n_nodes):
            if kept[k] < 0:
                kept[k] = kept[old.nodes[k].parent]
        self.search.store = store
        return kept

    # ---- tasks --------------------------------------------------------------------------------

    cdef int grow_tasks(self) except -1:
        """Grow the tasks, each with one helper, and insert their trees."""
        cdef int32_t k, n = self.n_tasks
        cdef int n_threads = <int>min(len(self.helpers), n)
        cdef TreeGrower helper = self.helpers[0]
        if n_threads == 1:
            with nogil:
                for k in range(n):
                    raise_stop(self.search.stops())
                    self.grow_task(helper, self.task_nodes[k])
                    self.search.store.graft(self.task_nodes[k], helper.search.store)
            return 0
        cdef intp_t[::1] helpers = np.array([id(helper) for helper in self.helpers], np.intp)
        stores = [NodeStore() for _ in range(n)]
        cdef intp_t[::1] grown = np.array([id(store) for store in stores], np.intp)
        for k in prange(n, num_threads=team_of(n_threads),
                        schedule="dynamic", chunksize=1, nogil=True):
            if not self.search.stops():
                self.grow_copy(<TreeGrower><void*>helpers[omp_get_thread_num()],
                               self.task_nodes[k], <NodeStore><void*>grown[k])
        raise_stop(self.search.stopped)
        k = self.search.store.n_nodes
        for store in stores:
            k += (<NodeStore>store).n_nodes
        self.search.store.reserve(k)
        for k in range(n):
            self.search.store.graft(self.task_nodes[k], <NodeStore>stores[k])
        return 0

    cdef int grow_task(self, TreeGrower helper, int32_t node) except -1 nogil:
        """Grow the tree of a task with a helper."""
        self.search.open_task(node, helper.search)
        helper.grow_nodes()
        self.search.take_back(node, helper.search)
        return 0

    cdef int grow_copy(self, TreeGrower helper, int32_t node, NodeStore grown) except -1 nogil:
        """`grow_task`, and copy the nodes before the helper grows another tree."""
        self.grow_task(helper, node)
        return grown.copy(helper.search.store)

    # ---- entry points -------------------------------------------------------------------------

    def grow(self):
        """Grow the tree that the search has begun; returns a `Grown`."""
        if self.search.in_passes:
            self.grow_in_passes()
        else:
            with nogil:
                self.search.open_root()
                self.grow_nodes()
        if self.n_tasks > 0:
            self.grow_tasks()
        if self.prune_gain > 0:
            self.search.store.prune(self.prune_gain)
        self.number = self.numbering()
        return self.collect()

    cdef int32_t[::1] numbering(self):
        """Number of every node in `Grown`."""
        cdef int32_t n = self.search.store.n_nodes, k, depth = 1, node
        cdef GrowNode* nodes = self.search.store.nodes
        cdef int32_t[::1] number = np.arange(n, dtype=np.int32)
        cdef int32_t[::1] stack
        if not self.preorder:
            return number
        stack = np.zeros(n + 1, dtype=np.int32)
        with nogil:
            for k in range(n):
                depth -= 1
                node = stack[depth]
                number[node] = k
                if nodes[node].left >= 0:
                    stack[depth] = nodes[node].right
                    stack[depth + 1] = nodes[node].left
                    depth += 2
        return number

    cdef collect(self):
        """Make the `Grown`: exact sums, and the tree as arrays."""
        cdef int32_t n = self.search.store.n_nodes, k, n_sets
        cdef int32_t n_sums = self.search.n_node_sums()
        nodes = np.zeros(n, dtype=NODE_DTYPE)
        cdef float64_t[:, ::1] exact = np.zeros((n, n_sums + 1))
        sums = np.empty((n, n_sums + 1))
        rows = np.zeros((3, n), dtype=np.uint32)
        bounds = np.empty((2, n))
        cdef Node[::1] out = nodes
        cdef float64_t[:, ::1] ordered = sums, bound = bounds
        cdef uint32_t[:, ::1] cut = rows
        category_bits = {}
        self.search.sum_nodes(exact)
        with nogil:
            n_sets = self.write_nodes(out, exact, ordered, cut, bound)
        for k in range(n if n_sets > 0 else 0):
            if self.search.store.nodes[k].left >= 0 and self.search.store.nodes[
                    k].split.is_categorical:
                category_bits[self.number[k]] = self.category_words(&self.search.store.nodes[k])
        return Grown(nodes, sums, *rows, *bounds, category_bits)

    cdef int32_t write_nodes(
        self, Node[::1] out, float64_t[:, ::1] exact, float64_t[:, ::1] ordered,
        uint32_t[:, ::1] cut, float64_t[:, ::1] bound,
    ) noexcept nogil:
        """OUT the nodes in their new order; returns the number of categorical splits."""
        cdef int32_t n = self.search.store.n_nodes, n_sums = <int32_t>exact.shape[1] - 1
        cdef int32_t k, j, to, n_sets = 0
        cdef int32_t* number = &self.number[0]
        cdef GrowNode* node
        # Children have larger ids than their parents, so one backward pass sums all nodes.
        for k in range(n - 1, 0, -1):
            for j in range(n_sums + 1):
                exact[self.search.store.nodes[k].parent, j] += exact[k, j]
        for k in range(n):
            node = &self.search.store.nodes[k]
            to = number[k]
            for j in range(n_sums + 1):
                ordered[to, j] = exact[k, j]
            bound[0, to] = node.bounds.lower
            bound[1, to] = node.bounds.upper
            out[to].weight = exact[k, n_sums]
            out[to].n_samples = node.stop - node.start
            out[to].parent = number[node.parent] if node.parent >= 0 else -1
            out[to].depth = node.depth
            out[to].left = -1
            out[to].right = -1
            out[to].feature = -1
            out[to].category_start = -1
            if node.left < 0:
                continue
            out[to].left = number[node.left]
            out[to].right = number[node.right]
            out[to].feature = node.split.feature
            out[to].gain = node.split.gain
            out[to].missing_left = node.split.missing_left
            out[to].bin = node.split.bin
            if self.search.rules.random_thresholds and not node.split.is_categorical:
                memcpy(&out[to].threshold, node.split.categories, sizeof(float64_t))
            cut[0, to] = node.split.low_row
            cut[1, to] = node.split.high_row
            cut[2, to] = node.split.key
            n_sets += node.split.is_categorical
            if node.split.is_categorical and node.split.category_start >= 0:
                out[to].category_limit = <int32_t>node.split.categories[0]
        return n_sets

    cdef category_words(self, GrowNode* node):
        cdef const uint32_t[:] words
        if node.split.category_start >= 0 and node.split.category_words == 0:
            return np.zeros(0, dtype=np.uint32)
        if node.split.category_start < 0:
            words = <uint32_t[:8]>node.split.categories
        else:
            words = <uint32_t[:node.split.category_words]>self.search.store.words_of(node)
        return np.array(words)

    def row_nodes(self):
        """Node of `Grown` where each row of the table ended; -1: not in the sample."""
        cdef int32_t k
        cdef intp_t i
        cdef int32_t[::1] number = self.number
        cdef intp_t[:, ::1] ends = self.search.row_ends()
        ended = np.full(self.search.n_rows, -1, dtype=np.int32)
        cdef int32_t[::1] out = ended
        with nogil:
            for k in range(<int32_t>ends.shape[0]):
                for i in range(ends[k, 1], ends[k, 2]):
                    out[self.search.rows[i]] = number[ends[k, 0]]
        return ended

    def segments(self):
        """Row ids ordered by node, and start and stop of the rows of each node."""
        cdef int32_t k, n = self.search.store.n_nodes
        cdef int32_t[::1] number = self.number
        ends = np.empty((2, n), dtype=np.intp)
        cdef intp_t[:, ::1] out = ends
        with nogil:
            for k in range(n):
                out[0, number[k]] = self.search.store.nodes[k].start
                out[1, number[k]] = self.search.store.nodes[k].stop
        return np.asarray(self.search.rows)[: self.search.n_sampled].copy(), ends[0], ends[1]

    def add_to(self, const float64_t[::1] values, float64_t[:] raw, bint ascending=False):
        """raw[row] += values[node of the row], for every row of the table.

        `ascending`: the row ids of a node are ascending. Returns False, and adds nothing, if the
        search cannot find the leaves of rows outside the sample.
        """
        cdef intp_t block, n = self.search.n_rows, n_blocks = (n + SUM_BLOCK - 1) // SUM_BLOCK
        cdef int n_threads = <int>min(self.search.n_threads, n_blocks)
        cdef int32_t k
        cdef int32_t[::1] number = self.number
        cdef float64_t[::1] by_node = np.empty(self.search.store.n_nodes)
        if raw.shape[0] != n or values.shape[0] != self.search.store.n_nodes:
            raise ValueError("raw and values do not fit the last tree")
        for k in range(self.search.store.n_nodes):
            by_node[k] = values[number[k]]
        if self.search.n_sampled == n:
            add_to_leaves(by_node, &self.search.rows[0], self.search.row_ends(), raw,
                          self.search.n_threads, ascending)
            return True
        if not self.search.can_walk():
            return False
        with nogil:
            for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="static"):
                self.walk_rows(block * SUM_BLOCK, min(n, (block + 1) * SUM_BLOCK), &by_node[0],
                               &raw[0], raw.strides[0])
        return True

    cdef void walk_rows(
        self, intp_t start, intp_t stop, const float64_t* values, float64_t* raw, intp_t stride,
    ) noexcept nogil:
        """Add the leaf values of some rows, found by walks down the tree."""
        cdef intp_t row
        cdef float64_t* target
        for row in range(start, stop):
            target = <float64_t*>(<char*>raw + row * stride)
            target[0] += values[self.search.leaf_of(row)]
