"""Sorted lists of rows, and the slices of them that the nodes of a tree own.

Every feature has its rows in the order of its values (`_sorted`). A node owns the same slice of
every list, and dividing a node divides the slices stably, so nothing is sorted twice. A small
node may be lent to lists of its own, whose entries and targets are copies with rows numbered
from 0: they fit the cache, and other threads can grow other nodes meanwhile.
"""

from cython.parallel cimport prange
from libc.string cimport memcpy, memset

from hybridtrees.core._interrupt cimport raise_stop
from hybridtrees.core._leaves cimport sum_targets
from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._search cimport SplitSearch
from hybridtrees.core._sorted cimport MISSING_KEY, divide_ids, divide_list
from hybridtrees.core._split cimport bounded_weight
from hybridtrees.core._targets cimport list_median, sum_rows
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport (
    ABSOLUTE, NEWTON, BinView, Entry, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)

import numpy as np

from hybridtrees.core._sorted import sort_columns
from hybridtrees.core.dtypes import aligned_empty


cdef class SortedLists(SplitSearch):
    """The rows of a tree's nodes, feature by feature.

    Parameters
    ----------
    n_features : int
    n_rows : int
        Rows of the table, or the most that a lent node has.
    n_categories : int32 array
        Categories of each feature, 0 for a number.
    params : GrowerParams
    n_threads : int
    n_sums, width : int
        Sums per node and numbers per row of the targets.
    lists : structured array of shape (n_features or more, n_rows), optional
        Lists of the table; without them, the lists are for lent nodes.
    keep_lists : bool
        Whether the lists serve several trees, so that each works on a copy.
    one_list : bool
        Whether there is room for the list of one feature only, made when it is asked for.
    """

    def __cinit__(self):
        self.keep = []
        self.master = NULL

    def __init__(self, n_features, n_rows, n_categories, params, n_threads, n_sums, width,
                 lists=None, bint keep_lists=False, bint one_list=False):
        cdef const int32_t[::1] categories = n_categories
        cdef Entry[:, ::1] view
        cdef int t
        self.n_threads = n_threads
        self.n_rows = n_rows
        self.stride = n_rows
        self.n_features = n_features
        self.use_rules(params)
        self.n_lists = n_features + (n_sums if self.rules.criterion == ABSOLUTE else 0)
        if categories.shape[0] != n_features or n_features < 1 or n_rows < 1:
            raise ValueError("the sorted search needs rows, features and their kinds")
        self.n_categories = &categories[0]
        self.keep.append(categories)
        if lists is not None:
            view = lists
            if view.shape[0] < (n_features if keep_lists else self.n_lists) \
                    or view.shape[1] != n_rows:
                raise ValueError("the lists do not fit the table")
            self.keep.append(view)
            self.lists = &view[0, 0]
            if keep_lists:
                self.master = self.lists
        if lists is None or keep_lists:
            self.lists = <Entry*>self.buffer(
                (1 if one_list else self.n_lists) * self.n_rows * sizeof(Entry))
        self.rows = np.empty(n_rows, dtype=np.uint32)
        self.row_scratch = np.empty(2 * n_rows, dtype=np.uint32)
        self.tree_features = np.empty(self.n_features, dtype=np.int32)
        self.node_features = np.empty(self.n_features, dtype=np.int32)
        self.side = <uint8_t*>self.buffer(n_rows)
        self.local_id = <uint32_t*>self.buffer(4 * n_rows)
        self.totals = <float64_t*>self.buffer(8 * (n_sums + 2))
        self.own_target = NULL
        if lists is None:
            self.own_target = <float64_t*>self.buffer(8 * n_rows * width)
        self.list_scratch = <Entry**>self.buffer(self.n_threads * sizeof(Entry*))
        for t in range(self.n_threads):
            self.list_scratch[t] = <Entry*>self.buffer(self.n_rows * sizeof(Entry))

    cdef void* buffer(self, intp_t n_bytes) except NULL:
        """Memory that lives as long as the search."""
        cdef uint8_t[::1] block = aligned_empty(max(64, n_bytes), np.uint8)
        self.keep.append(block)
        return &block[0]

    # ---- a new tree ---------------------------------------------------------------------------

    def begin(self, target, rows, seed):
        """Read the targets of a new tree, and the rows that take part in it."""
        cdef int32_t k
        cdef Entry[:, ::1] lists
        cdef intp_t i
        self.seed = seed
        self.use_target(target.data, target.layout, target.n_sums, target.binary)
        self.set_rows(rows)
        if self.rules.criterion == ABSOLUTE:
            # One more list per output: the rows in the order of y.
            lists = <Entry[:self.n_lists, :self.n_rows]>self.lists
            y = target.data[:, : target.n_sums]
            if target.data.shape[1] > target.n_sums:
                # A row of weight 0 takes no part; its place in the order does not matter.
                with np.errstate(divide="ignore", invalid="ignore"):
                    y = y / target.data[:, target.n_sums:]
                y[~np.isfinite(y)] = 0.0
            sort_columns(np.ascontiguousarray(y), np.zeros(target.n_sums, dtype=np.uint8), lists,
                         self.n_features, self.n_threads)
        memset(self.side, 0, self.n_rows)
        for i in range(self.n_sampled):
            self.side[self.rows[i]] = 1
        with nogil:
            self.draw_tree_features()
            for k in prange(self.n_lists, num_threads=team_of(self.n_threads), schedule="static"):
                self.fill_list(k)

    cdef void fill_list(self, int32_t k) noexcept nogil:
        """A list of this tree: the table's, without the rows that take no part."""
        cdef Entry* target = self.lists + k * self.stride
        cdef const Entry* source = target
        cdef intp_t i, n = 0
        if self.master != NULL and k < self.n_features:
            source = self.master + k * self.stride
        if self.n_sampled == self.n_rows:
            if source != target:
                memcpy(target, source, self.n_rows * sizeof(Entry))
            return
        for i in range(self.n_rows):
            target[n] = source[i]
            n += self.side[source[i].row]

    # ---- dividing a node ----------------------------------------------------------------------

    cdef bint sum_node(self, const GrowNode* node) noexcept nogil:
        """Sums of the node; false where all its targets are equal and nothing is to be split."""
        return sum_rows(&self.target, &self.rows[node.start], node.stop - node.start,
                        self.totals) or self.rules.criterion == NEWTON

    cdef void mark_sides(self, const GrowNode* node) noexcept nogil:
        """Where each row of the node goes: 1 left, 0 right, 2 nowhere."""
        cdef const Entry* entries = self.lists + node.split.feature * self.stride
        cdef uint32_t key, split_key = node.split.key
        cdef uint8_t missing = node.split.missing_left
        cdef const uint32_t* words = self.store.words_of(node)
        cdef intp_t i
        if node.split.is_categorical and node.split.categories[0] == 0:
            for i in range(node.start, node.stop):
                key = entries[i].key
                self.side[entries[i].row] = missing if key == MISSING_KEY else (
                    (words[key >> 5] >> (key & 31)) & 1)
            return
        if node.split.is_categorical:
            mark_listed(node, entries, words, self.side)
            return
        for i in range(node.start, node.stop):
            key = entries[i].key
            self.side[entries[i].row] = missing if key == MISSING_KEY else key <= split_key

    cdef int divide(self, int32_t node) except -1 nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        cdef GrowNode* left = &self.store.nodes[n.left]
        cdef GrowNode* right = &self.store.nodes[n.right]
        cdef intp_t n_left, n_staying = 0, size = n.stop - n.start
        self.mark_sides(n)
        n_left = divide_ids(&self.rows[0] + n.start, size, self.side,
                            &self.row_scratch[0] + 2 * n.start, &n_staying)
        n.stay = n.stop - n_staying
        left.start = n.start
        left.stop = n.start + n_left
        left.stay = left.stop
        right.start = left.stop
        right.stop = n.stay
        right.stay = right.stop
        self.constrain_children(node)
        if self.rules.monotone != NULL and self.rules.criterion == ABSOLUTE:
            # The bounds need medians, even of children that are not split any more.
            self.divide_lists(n, self.n_features, self.n_lists)
            self.part_bounds(node, self.value_of(left), self.value_of(right))
            self.divide_lists(n, 0, self.n_features)
            return raise_stop(self.stopped)
        if self.rules.monotone != NULL:
            self.part_bounds(node, self.value_of(left), self.value_of(right))
        if self.may_split(n.left) or self.may_split(n.right):
            self.divide_lists(n, 0, self.n_lists)
        return raise_stop(self.stopped)

    cdef void divide_lists(
        self, const GrowNode* node, int32_t first, int32_t last
    ) noexcept nogil:
        """Bring the lists [first, last) into the order of the node's children."""
        cdef intp_t size = node.stop - node.start
        cdef int32_t k
        if size * (last - first) < PARALLEL_ENTRIES:
            for k in range(first, last):
                divide_list(self.lists + k * self.stride + node.start, size, self.side,
                            self.list_scratch[0])
            return
        for k in prange(first, last, num_threads=team_of(self.n_threads), schedule="dynamic",
                        chunksize=1):
            if not self.stops():
                divide_list(self.lists + k * self.stride + node.start, size, self.side,
                            self.list_scratch[omp_get_thread_num()])

    cdef float64_t value_of(self, const GrowNode* node) noexcept nogil:
        """Leaf weight or mean of a node's rows; the median where absolute deviations count."""
        self.sum_node(node)
        if self.rules.criterion == NEWTON:
            return bounded_weight(self.totals[0], self.totals[1], &self.rules, &node.bounds)
        if self.rules.criterion == ABSOLUTE:
            return list_median(
                &self.target, self.lists + self.n_features * self.stride + node.start,
                node.stop - node.start, self.totals[self.target.n_sums])
        return self.totals[0] / self.totals[self.target.n_sums]

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        sum_targets(&self.target, &self.rows[0], self.end_blocks(), sums, self.n_threads)
        return 0

    # ---- lending small nodes ------------------------------------------------------------------

    cdef int lend(self, int32_t node, SplitSearch other) except -1 nogil:
        return (<SortedLists>other).take_lists(self, &self.store.nodes[node])

    cdef int take_lists(self, SortedLists lender, const GrowNode* node) except -1 nogil:
        """Become the search of a lent node: copy its lists, with rows numbered from 0."""
        cdef intp_t i, n = node.stop - node.start
        cdef const Entry* source
        cdef Entry* target
        cdef int32_t k
        self.take_rows(lender, node)
        for i in range(n):
            lender.local_id[lender.rows[node.start + i]] = <uint32_t>i
        for k in range(self.n_lists):
            source = lender.lists + k * lender.stride + node.start
            target = self.lists + k * self.stride
            for i in range(n):
                target[i].key = source[i].key
                target[i].row = lender.local_id[source[i].row]
        return 0

    cdef int take_rows(self, SplitSearch lender, const GrowNode* node) except -1 nogil:
        """The targets of a lent node, its features and the root of its tree."""
        cdef intp_t i, n = node.stop - node.start, width = lender.target.width
        self.n_sampled = n
        self.n_tree_features = lender.n_tree_features
        self.seed = lender.seed
        memcpy(&self.tree_features[0], &lender.tree_features[0],
               lender.n_tree_features * sizeof(int32_t))
        self.target = lender.target
        self.target.data = self.own_target
        self.target.n_rows = self.n_rows
        for i in range(n):
            memcpy(self.own_target + i * width,
                   lender.target.data + <intp_t>lender.rows[node.start + i] * width, width * 8)
            self.rows[i] = <uint32_t>i
        self.open_root()
        self.store.nodes[0].depth = node.depth
        self.store.nodes[0].key = node.key
        self.store.nodes[0].bounds = node.bounds
        self.store.nodes[0].groups = node.groups
        self.store.nodes[0].alone = node.alone
        return 0

    cdef int take_codes(
        self, SplitSearch lender, const BinView* bins, const GrowNode* node
    ) except -1 nogil:
        """The same for a node of binned features; for searches that know codes."""
        return 0


cdef void mark_listed(
    const GrowNode* node, const Entry* entries, const uint32_t* codes, uint8_t* side
) noexcept nogil:
    """Sides of the rows where the category set is a list; both have the order of the codes."""
    cdef const uint32_t* end = codes + node.split.category_words
    cdef bint others_left = <int32_t>node.split.categories[0] < 0
    cdef uint32_t key
    cdef intp_t i
    for i in range(node.start, node.stop):
        key = entries[i].key
        while codes < end and codes[0] < key:
            codes += 1
        side[entries[i].row] = node.split.missing_left if key == MISSING_KEY else (
            (codes < end and codes[0] == key) != others_left)
