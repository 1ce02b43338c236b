"""Splits from histograms of a table that is read block by block.

A pass over the table routes the rows by the last splits, and adds them to the histograms of the
smaller children. Each thread takes whole blocks, and has histograms of its own, which are added up
at the end of the pass: these are integers, so that neither blocks nor threads matter.

The rows of a sample are copied into memory in one pass, if there is room. The tree is then grown
like any other, and one more pass finds the leaves of all rows from the columns of its splits.
"""

from libc.string cimport memset

from hybridtrees.core.base._types cimport (
    N_CODES, PAIR16, PAIR32, BinView, SplitInfo, StatsView, float64_t, int32_t, int64_t, intp_t,
    uint32_t, uint8_t,
)
from hybridtrees.core.search._histogram cimport (
    BinnedView, HistogramPool, RowStatistics, RowValues, add_rows, row_values, scratch_words,
    subtract_cells, write_rows,
)
from hybridtrees.core.search._histogram_search cimport HistogramSearch
from hybridtrees.core.search._search cimport GrowNode
from hybridtrees.core.search._split cimport SCAN_WORDS, code_goes_left, fill_direction

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty
from hybridtrees.core.base.workers import run_threads


cdef enum:
    BLOCK_ROWS = 65536


class BlockBuffers:
    """A matrix of one block, in the form that `BinnedView` reads."""

    def __init__(self, bins, n_rows):
        p = len(bins.n_bins)
        self.n_rows = n_rows
        self.records = aligned_empty((n_rows, (p + 3) // 4 * 4 + 4), np.uint8)
        self.columns = aligned_empty((p, n_rows), np.uint8)
        self.n_bins = bins.n_bins
        self.has_missing = bins.has_missing
        self.is_categorical = bins.is_categorical


cdef class BlockWork:
    """What one thread needs for a block."""

    cdef object buffers
    cdef uint8_t[:, ::1] records
    cdef uint8_t[:, ::1] columns
    cdef uint8_t[::1] own            # statistics that are not in the records
    cdef int32_t[::1] group          # of each row, -1: it is not added to a histogram
    cdef uint32_t[::1] order         # rows by group
    cdef intp_t[::1] group_start
    cdef int64_t[::1] n_rows         # of each node
    cdef int64_t[:, ::1] hist        # of each group
    cdef int64_t[::1] packed

    def __init__(self, bins, intp_t n_rows, intp_t n_cells):
        self.buffers = BlockBuffers(bins, n_rows)
        self.records = self.buffers.records
        self.columns = self.buffers.columns
        self.own = np.empty(8 * n_rows, dtype=np.uint8)
        self.group = np.empty(n_rows, dtype=np.int32)
        self.order = np.empty(n_rows, dtype=np.uint32)
        self.packed = np.empty(n_cells, dtype=np.int64)
        self.hist = None

    cdef int open_pass(self, intp_t n_nodes, intp_t n_groups, intp_t n_words) except -1:
        self.n_rows = np.zeros(n_nodes, dtype=np.int64)
        self.group_start = np.zeros(n_groups + 2, dtype=np.intp)
        if self.hist is None or self.hist.shape[0] < n_groups or self.hist.shape[1] != n_words:
            self.hist = aligned_empty((max(n_groups, 1), n_words), np.int64)
        if n_groups > 0:
            memset(&self.hist[0, 0], 0, n_groups * n_words * sizeof(int64_t))
        return 0


cdef class BlockSearch(HistogramSearch):
    """Searches the nodes of trees on `BlockedBins`, many nodes in one pass."""

    cdef object table                # the BlockedBins
    cdef object make_records         # records_from_columns
    cdef BinnedView block_bins       # those of a block
    cdef RowStatistics block_statistics
    cdef object drawn                # rows of the sample that is in memory
    cdef object drawn_bins           # their codes
    cdef int32_t[::1] node           # of each row; below 0, ~node of a row outside the sample
    cdef int32_t[::1] row_leaf       # of rows outside the sample, after growth
    cdef list works
    cdef intp_t most_bytes           # of histograms in one pass
    # the splits and sums of the pass
    cdef int32_t[::1] split          # of each node: its number in the pass, -1: none
    cdef int32_t[::1] group_of       # of each node, -1: its rows are not summed
    cdef int32_t[::1] split_feature
    cdef int32_t[::1] split_left     # the left child; the right one follows it
    cdef uint8_t[:, ::1] goes_left
    cdef int32_t[::1] summed         # node of each group

    def __init__(self, binned, params, bint use_tail, int n_threads, make_records):
        n_block = min(binned.n_rows, BLOCK_ROWS)
        n_works = max(1, min(n_threads, binned.n_blocks))
        self.table = binned
        self.make_records = make_records
        first = BlockBuffers(binned, 1)
        self.bins = self.block_bins = BinnedView(first)
        self.statistics = self.block_statistics = RowStatistics(self.bins, True)
        self.works = [BlockWork(binned, n_block, self.bins.view.n_cells) for _ in range(n_works)]
        self.n_threads = n_threads
        self.pool = HistogramPool(params.histogram_bytes)
        self.most_bytes = params.histogram_bytes
        self.n_features = self.bins.view.n_features
        self.n_rows = 1                # `use_rules` allocates rows, which are not needed yet
        self.use_rules(params)
        self.n_rows = binned.n_rows
        self.in_passes = True
        self.is_drawn = np.empty(2 * self.n_features, dtype=np.uint8)
        self.scan_scratch = np.empty(n_threads * SCAN_WORDS)
        self.allocate_splits()
        self.node = np.empty(self.n_rows, dtype=np.int32)
        self.row_scratch = np.empty(0, dtype=np.uint32)  # as long as a sample in memory
        self.hist_scratch = None

    def begin(self, statistics, rows, seed):
        """Start a new tree on some rows: ascending ids, or None for all."""
        cdef bint need_counts = self.rules.min_samples_leaf > 1
        if statistics.target is not None:
            self.table.refuse()
        grad, hess = statistics.gradients()
        self.n_rows = self.table.n_rows
        self.values = row_values(grad, hess, self.n_rows)
        self.kept = grad, hess
        self.seed = seed
        self.in_passes = not self.has_room_for(rows)
        if not self.in_passes:
            self.begin_in_memory(rows, need_counts)
            return
        self.bins, self.statistics = self.block_bins, self.block_statistics
        node = np.asarray(self.node)
        node[:] = 0 if rows is None else -1
        if rows is not None:
            node[rows] = 0
        self.n_sampled = self.n_rows if rows is None else len(rows)
        with nogil:
            self.draw_tree_features()
            self.statistics.choose(&self.values, self.n_rows, self.n_sampled, need_counts,
                                   self.n_threads)
        self.pool.reset(self.bins.view.n_cells * self.statistics.view.n_words)

    # ---- a sample in memory --------------------------------------------------------------------

    cdef bint has_room_for(self, rows) except -1:
        """Whether the codes of a sample fit into the memory that the table allows."""
        cdef intp_t n_bytes
        if rows is None:
            return False
        n_bytes = self.n_features + self.block_bins.view.record_bytes
        return <intp_t>len(rows) * n_bytes <= self.table.memory_limit

    cdef int begin_in_memory(self, rows, bint need_counts) except -1:
        """Copy the rows of a sample, which are the table of this tree."""
        cdef intp_t n_words
        grad, hess = self.kept
        if self.drawn is not rows:
            self.drawn_bins = self.copy_rows(rows)
            self.drawn = rows
        self.bins = BinnedView(self.drawn_bins)
        self.statistics = RowStatistics(self.bins, True)
        self.draw_tree_features()
        # Units and layout are those of all rows, as for a table in memory.
        self.statistics.choose(&self.values, self.n_rows, len(rows), need_counts, self.n_threads)
        self.statistics.place()
        grad = grad[rows]
        hess = hess if isinstance(hess, (int, float)) else hess[rows]
        self.kept = grad, hess
        self.n_rows = len(rows)
        self.values = row_values(grad, hess, self.n_rows)
        self.statistics.write(&self.values, self.n_threads)
        if self.rows.shape[0] < self.n_rows:
            self.rows = np.empty(self.n_rows, dtype=np.uint32)
        self.set_rows(None)
        if self.row_scratch.shape[0] < 2 * self.n_rows:
            self.row_scratch = np.empty(2 * self.n_rows, dtype=np.uint32)
        self.pool.reset(self.bins.view.n_cells * self.statistics.view.n_words)
        n_words = scratch_words(&self.bins.view, &self.statistics.view, self.n_threads)
        if self.hist_scratch is None or self.hist_scratch.shape[0] < n_words:
            self.hist_scratch = aligned_empty(n_words, np.int64)
        return 0

    def copy_rows(self, rows):
        """Codes of some rows, in one pass."""
        made = BlockBuffers(self.table, len(rows))
        free, n_works = list(self.works), len(self.works)
        features = list(range(self.n_features))
        cuts = np.searchsorted(rows, BLOCK_ROWS * np.arange(self.table.n_blocks + 1))

        def take(i):
            self.table.blocks.read_ahead(i + n_works)
            work = free.pop()
            try:
                columns = self.read_columns(work, i, features)
                part = slice(cuts[i], cuts[i + 1])
                inside = rows[part].astype(np.intp) - i * BLOCK_ROWS
                made.columns[:, part] = columns[:, inside]
            finally:
                free.append(work)

        run_threads(take, range(self.table.n_blocks), n_works)
        self.make_records(made.columns, made.records, self.n_threads)
        return made

    cdef int route_all(self) except -1:
        """Find the leaves of all rows, in one pass over the columns of the splits."""
        cdef int32_t k
        features = set()
        for k in range(self.store.n_nodes):
            if self.store.nodes[k].left >= 0:
                features.add(self.store.nodes[k].split.feature)
        features = sorted(features)
        free, n_works = list(self.works), len(self.works)

        def take(i):
            self.table.blocks.read_ahead(i + n_works)
            work = free.pop()
            try:
                self.walk_block(self.read_columns(work, i, features), i * BLOCK_ROWS)
            finally:
                free.append(work)

        self.row_leaf = np.arange(self.store.n_nodes, dtype=np.int32)
        if features:
            run_threads(take, range(self.table.n_blocks), n_works)
        else:
            np.asarray(self.node)[:] = 0
        return 0

    cpdef walk_block(self, uint8_t[:, ::1] block, intp_t first):
        """Find the leaves of the rows of a block."""
        cdef intp_t i
        cdef int32_t k, code
        cdef GrowNode* nodes = self.store.nodes
        cdef SplitInfo* split
        with nogil:
            for i in range(block.shape[1]):
                k = 0
                while nodes[k].left >= 0:
                    split = &nodes[k].split
                    code = block[split.feature, i]
                    if code_goes_left(&self.block_bins.view, split, code):
                        k = nodes[k].left
                    else:
                        k = nodes[k].right
                self.node[first + i] = k

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        HistogramSearch.sum_nodes(self, sums)
        if not self.in_passes:
            # The tree is complete: its rows are those of the whole table again.
            rows = np.asarray(self.rows)
            rows[: self.n_sampled] = self.drawn[rows[: self.n_sampled]]
            self.n_rows = self.table.n_rows
            self.route_all()
        return 0

    # ---- a pass -------------------------------------------------------------------------------

    cdef int open_pass(self, list splits, list summed) except -1:
        """Prepare the splits of some nodes and the sums of others."""
        cdef int32_t k, s, n = self.store.n_nodes
        self.split = np.full(n, -1, dtype=np.int32)
        self.group_of = np.full(n, -1, dtype=np.int32)
        self.split_feature = np.empty(max(1, len(splits)), dtype=np.int32)
        self.split_left = np.empty(max(1, len(splits)), dtype=np.int32)
        self.goes_left = np.empty((max(1, len(splits)), N_CODES), dtype=np.uint8)
        for s, k in enumerate(splits):
            self.split[k] = s
            self.split_feature[s] = self.store.nodes[k].split.feature
            self.split_left[s] = self.store.nodes[k].left
            fill_direction(&self.bins.view, &self.store.nodes[k].split, &self.goes_left[s, 0])
        for s, k in enumerate(summed):
            self.group_of[k] = s
        self.summed = np.array(summed, dtype=np.int32)
        return 0

    cdef int run_pass(self, list splits, list summed) except -1:
        """Route the rows by the splits of nodes, and add them to the histograms of others."""
        cdef BlockWork work
        cdef intp_t n_words = self.bins.view.n_cells * self.statistics.view.n_words, i
        cdef int32_t s
        cdef int64_t* hist
        self.open_pass(splits, summed)
        features = set(np.asarray(self.split_feature)[: len(splits)].tolist())
        if summed:
            features.update(np.asarray(self.tree_features)[: self.n_tree_features].tolist())
        features = sorted(features)
        for work in self.works:
            work.open_pass(self.store.n_nodes, len(summed), n_words)
        free, n_works = list(self.works), len(self.works)

        def take(i):
            self.table.blocks.read_ahead(i + n_works)
            work = free.pop()
            try:
                self.take_block(work, i, features)
            finally:
                free.append(work)

        run_threads(take, range(self.table.n_blocks), n_works)
        for s in range(self.summed.shape[0]):
            hist = self.pool.slots[self.store.nodes[self.summed[s]].slot]
            memset(hist, 0, n_words * sizeof(int64_t))
            for work in self.works:
                for i in range(n_words):
                    hist[i] += work.hist[s, i]
        return 0

    def read_columns(self, BlockWork work, intp_t i, list features):
        """Read features of a block into columns of all features."""
        m = min(BLOCK_ROWS, self.table.n_rows - i * BLOCK_ROWS)
        columns = work.buffers.columns.reshape(-1)[: self.n_features * m]
        columns = columns.reshape(self.n_features, m)
        self.table.blocks.read_block(i, features, [columns[f] for f in features])
        return columns

    cpdef take_block(self, BlockWork work, intp_t i, list features):
        """Read a block, route its rows, and add them to the histograms of a thread."""
        cdef intp_t first = i * BLOCK_ROWS, m = min(BLOCK_ROWS, self.n_rows - first)
        cdef uint8_t[:, ::1] block
        columns = self.read_columns(work, i, features)
        block = columns
        if self.summed.shape[0] > 0:
            self.make_records(columns, work.buffers.records[:m], 1)
        with nogil:
            self.route(work, block, first, m)
            if self.summed.shape[0] > 0:
                self.add(work, first, m)

    cdef void route(
        self, BlockWork work, const uint8_t[:, ::1] block, intp_t first, intp_t m
    ) noexcept nogil:
        """Move rows to the children of their nodes, and note their groups."""
        cdef intp_t i
        cdef int32_t k, s, g
        cdef bint outside
        cdef intp_t* start = &work.group_start[0]
        memset(start, 0, work.group_start.shape[0] * sizeof(intp_t))
        for i in range(m):
            k = self.node[first + i]
            outside = k < 0
            if outside:
                k = ~k
            s = self.split[k]
            if s >= 0:
                k = self.split_left[s] + (
                    not self.goes_left[s, block[self.split_feature[s], i]])
                self.node[first + i] = ~k if outside else k
                work.n_rows[k] += not outside
            g = -1 if outside else self.group_of[k]
            work.group[i] = g
            if g >= 0:
                start[g + 2] += 1

    cdef void add(self, BlockWork work, intp_t first, intp_t m) noexcept nogil:
        """Add the rows of each group to its histogram."""
        cdef BinView bins = self.bins.view
        cdef StatsView stats = self.statistics.view
        cdef RowValues values = self.values
        cdef intp_t* start = &work.group_start[0]
        cdef bint listed = self.n_tree_features < self.n_features
        cdef bint whole
        cdef int32_t g, n_groups = <int32_t>self.summed.shape[0]
        cdef intp_t i, n
        bins.records = &work.records[0, 0]
        bins.columns = &work.columns[0, 0]
        bins.n_rows = m
        # The gradients beside the codes share their cache line.
        if stats.layout != PAIR32 and bins.record_bytes <= 64:
            stats.stride = bins.record_bytes
            stats.data = bins.records + bins.record_bytes - 4
        else:
            stats.stride = 8 if stats.layout == PAIR32 else 4
            stats.data = &work.own[0]
        values.grad += first
        if values.hess != NULL:
            values.hess += first
        write_rows(&stats, &values, 0, m)
        for g in range(n_groups):
            start[g + 2] += start[g + 1]
        # From here on start[g + 1] is the place of the next row of group g.
        for i in range(m):
            g = work.group[i]
            if g >= 0:
                work.order[start[g + 1]] = <uint32_t>i
                start[g + 1] += 1
        for g in range(n_groups):
            n = start[g + 1] - start[g]
            if n == 0:
                continue
            whole = n == m and not listed and stats.layout != PAIR32
            add_rows(
                &bins, &stats, NULL if whole else &work.order[start[g]], 0, n,
                &self.tree_features[0] if listed else NULL, 0, self.n_tree_features,
                &work.hist[g, 0],
                &work.packed[0] if stats.layout == PAIR16 and (
                    n * self.n_tree_features > 4 * bins.n_cells) else NULL,
                NULL)

    # ---- what the grower asks -----------------------------------------------------------------

    cdef int histogram_of(self, int32_t node) except -1 nogil:
        if not self.in_passes:
            return HistogramSearch.histogram_of(self, node)
        with gil:
            self.take_slot(node)
            self.run_pass([], [node])
        return 0

    cdef int split_all(self, int32_t[::1] chosen, bint last) except -1:
        """Split nodes in one pass, as many as histograms have room for."""
        cdef int32_t node, small, large
        cdef GrowNode* n
        cdef BlockWork work
        splits, summed, smalls = [], [], []
        for node in chosen:
            both = self.wanted_sums(node, last)
            if splits and not self.has_room(len(both), len(summed)):
                break
            self.make_room(node, len(both))
            self.store.new_children(node)
            n = &self.store.nodes[node]
            splits.append(node)
            sides = [n.right if right else n.left for right in both]
            for small in sides:
                self.take_slot(small)
            summed += sides
            smalls.append(sides)
        self.run_pass(splits, summed)
        rows = np.zeros(self.store.n_nodes, dtype=np.int64)
        for work in self.works:
            rows += np.asarray(work.n_rows)
        for node, sides in zip(splits, smalls):
            self.part(node, rows[self.store.nodes[node].left])
            n = &self.store.nodes[node]
            if len(sides) == 1 and n.slot >= 0:
                small = sides[0]
                large = n.right if small == n.left else n.left
                self.subtract(node, small, large)
            self.forget(node)
            self.search_child(n.left)
            self.search_child(self.store.nodes[node].right)
        return 0

    cdef list wanted_sums(self, int32_t node, bint last):
        """Children that are summed: False for the left one, True for the right one."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef float64_t unit = self.statistics.view.hess_unit, least
        cdef float64_t left = <float64_t>n.split.left.hess * unit
        cdef float64_t right = <float64_t>(n.sums.hess - n.split.left.hess) * unit
        least = 2 * self.rules.min_child_weight
        if last or n.depth + 1 >= self.max_depth or (left < least and right < least):
            return []
        if n.slot >= 0:
            # The other histogram is what is left of the node's.
            return [right < left]
        return [side for side, hess in enumerate((left, right)) if hess >= least]

    cdef bint has_room(self, int n_more, int n_summed) except -1:
        """Whether a pass has room for more histograms."""
        cdef intp_t n_bytes = self.pool.slot_words * sizeof(int64_t) * len(self.works)
        cdef int32_t n_free = self.pool.n_free + self.pool.max_slots - self.pool.n_slots
        return n_more <= n_free and (n_summed + n_more) * n_bytes <= self.most_bytes

    cdef int make_room(self, int32_t node, int n_more) except -1:
        """Release histograms of nodes that are not split yet, until there is room."""
        cdef int32_t k = self.store.n_nodes - 1
        while self.pool.n_free + self.pool.max_slots - self.pool.n_slots < n_more and k >= 0:
            if k != node and self.store.nodes[k].left < 0:
                self.forget(k)
            k -= 1
        return 0

    cdef int part(self, int32_t node, intp_t n_left) except -1:
        """Set the sizes, sums and bounds of the children."""
        cdef GrowNode* n = &self.store.nodes[node]
        n.stay = n.stop
        self.set_children(node, n_left)
        return 0

    cdef int subtract(self, int32_t node, int32_t small, int32_t large) except -1:
        """Make the histogram of the larger child: the node's less that of the smaller child."""
        cdef int32_t j
        cdef int64_t* rest = self.pool.slots[self.store.nodes[node].slot]
        cdef const int64_t* less = self.pool.slots[self.store.nodes[small].slot]
        for j in range(self.n_tree_features):
            subtract_cells(&self.bins.view, &self.statistics.view, self.tree_features[j], rest,
                           less)
        self.store.nodes[large].slot = self.store.nodes[node].slot
        self.store.nodes[node].slot = -1
        return 0

    cdef int search_child(self, int32_t node) except -1:
        """Find the split of a child that has a histogram."""
        if self.store.nodes[node].slot < 0:
            return 0
        if self.may_split(node):
            with nogil:
                self.search(node)
        if self.store.nodes[node].split.feature < 0:
            self.forget(node)
        return 0

    cdef int close_passes(self, int32_t[::1] kept) except -1:
        """Order the rows by leaf, as they would be after splits in memory."""
        cdef intp_t i, n = self.n_rows
        cdef int32_t k
        cdef intp_t[::1] place = np.zeros(self.store.n_nodes, dtype=np.intp)
        cdef uint32_t[::1] rows
        if self.rows.shape[0] < n:
            self.rows = np.empty(n, dtype=np.uint32)
        rows = self.rows
        with nogil:
            for k in range(self.store.n_nodes):
                place[k] = self.store.nodes[k].start
            for i in range(n):
                k = self.node[i]
                if k >= 0:
                    k = kept[k]
                    rows[place[k]] = <uint32_t>i
                    place[k] += 1
        self.row_leaf = kept
        return 0

    cdef int32_t leaf_of(self, intp_t row) noexcept nogil:
        """Node of a row, which all passes have routed."""
        cdef int32_t k = self.node[row]
        return self.row_leaf[~k if k < 0 else k]
