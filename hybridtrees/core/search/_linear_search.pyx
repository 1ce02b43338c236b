"""Splits by the loss of linear models in both children.

The sums of products of regressors and targets are collected for every bin of a split feature;
those of the left child of a cut are sums over bins, those of the right child are what remains,
and each candidate costs two small systems of equations. Of two children the smaller one's sums
are collected, the other's are what remains of the parent's.

Where a loss is not squared, a node is first fitted by a Python object, which gives each row a
curvature and a working target; candidates are ranked by the quadratic loss around that fit, and
the best few are handed back to be fitted in full.

With many regressors all features are first scored by how residuals go along with the regressors
left and right of their cuts, and only the best of them are searched.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    HT_ROUNDING, N_CODES, SplitInfo, float64_t, int32_t, int64_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._histogram cimport BinnedView, HistogramPool
from hybridtrees.core.search._linear_fit cimport (
    UNDECIDED, LinearProblem, LinearScan, LinearScreen, ScanNode,
)
from hybridtrees.core.search._linear_kernels cimport ht_combine
from hybridtrees.core.search._search cimport GrowNode, SplitSearch, divide_slice
from hybridtrees.core.search._split cimport fill_direction, larger_left, split_rows

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# Candidates of a feature, and of a node, that are fitted in full.
CANDIDATES_PER_FEATURE = 2
CANDIDATES = 5


cdef class LinearSearch(SplitSearch):
    """Searches the nodes of linear trees.

    Parameters
    ----------
    binned : BinnedMatrix
        The features to split on.
    problem : LinearProblem
    params : GrowerParams
    n_threads : int
    fitter : object, optional
        For losses that are not squared. ``fitter.prepare(rows)`` fits the node of these rows and
        returns curvatures and working targets, or None for a node that needs no split;
        ``fitter.choose(rows, candidates)`` gets (feature, table of 256 directions) of the
        best candidates and returns the number of the best one and its gain, or None.
    regressors : float64 array, optional
        The regressors that the problem was made of, needed with a fitter.
    screened : int
        Features of a node that are searched in full, after a look at all of them; 0 for all.
    exhaustive : bool
        Whether the fitter gets all candidates, not the best few only.
    """

    cdef BinnedView bins
    cdef LinearProblem problem
    cdef LinearScan scan
    cdef LinearScreen look
    cdef HistogramPool pool
    cdef object fitter
    cdef object regressors
    cdef SplitInfo* found                    # best splits of each feature
    cdef intp_t n_kept                       # of them per feature
    cdef intp_t n_tried                     # candidates that a fitter gets
    cdef bint exhaustive                     # or all of them
    cdef bint keeps                          # whether sums of all bins are kept for the children
    cdef int32_t n_screened
    cdef int32_t[::1] chosen                 # features of the node that are searched
    cdef float64_t[:, ::1] totals            # sums of the node, or of two children
    cdef float64_t[:, ::1] coefs
    cdef float64_t[:, ::1] thread_cells      # sums by bin, where they are not kept
    cdef float64_t[::1] scores
    cdef intp_t[::1] first_cell              # of each feature in a slot, in cells
    cdef float64_t noise

    def __cinit__(self):
        self.found = NULL

    def __init__(self, binned, LinearProblem problem, params, int n_threads, fitter=None,
                 regressors=None, int screened=0, bint exhaustive=False):
        cdef intp_t slot
        self.bins = BinnedView(binned)
        self.problem = problem
        self.fitter = fitter
        self.regressors = regressors
        self.n_threads = n_threads
        self.n_rows = self.bins.view.n_rows
        self.n_features = self.bins.view.n_features
        if problem.table.shape[0] != self.n_rows:
            raise ValueError("the table of bins and that of regressors differ in their rows")
        self.use_rules(params)
        self.n_screened = screened if 0 < screened < self.n_features else 0
        self.n_kept = 1 if fitter is None else CANDIDATES_PER_FEATURE
        self.n_tried = CANDIDATES
        self.exhaustive = fitter is not None and exhaustive
        if self.exhaustive:
            self.n_kept = 2 * int(np.max(self.bins.n_bins))
            self.n_tried = self.n_kept * self.n_features
        self.rows = np.empty(self.n_rows, dtype=np.uint32)
        self.row_scratch = np.empty(self.n_rows, dtype=np.uint32)
        self.tree_features = np.empty(self.n_features, dtype=np.int32)
        self.node_features = np.empty(2 * self.n_features, dtype=np.int32)
        self.chosen = np.empty(self.n_features, dtype=np.int32)
        self.totals = aligned_empty((2, problem.cell_size), np.float64)
        self.coefs = np.zeros((2, problem.n_targets * problem.n_columns))
        self.scan = LinearScan(self.bins, problem, n_threads)
        cells = np.asarray(self.bins.n_bins, dtype=np.intp) + 1
        self.first_cell = np.concatenate([[0], np.cumsum(cells)]).astype(np.intp)
        slot = int(self.first_cell[self.n_features]) * problem.cell_size
        samples = (0 < self.max_features < self.n_features or self.by_node < 1
                   or self.by_level < 1)
        self.keeps = (fitter is None and not samples and not self.n_screened
                      and 4 * 8 * slot <= params.histogram_bytes)
        self.pool = HistogramPool(params.histogram_bytes)
        self.pool.reset(slot if self.keeps else 1)
        self.thread_cells = aligned_empty(
            (1, 1) if self.keeps else (n_threads, int(cells.max()) * problem.cell_size),
            np.float64)
        if self.n_screened:
            self.scores = np.empty(self.n_features)
            self.look = LinearScreen(self.bins, problem, n_threads)
        self.found = <SplitInfo*>malloc(
            2 * self.n_kept * self.n_features * sizeof(SplitInfo))
        if self.found == NULL:
            raise MemoryError("no memory for the splits of the features")

    def __dealloc__(self):
        free(self.found)

    def begin(self, statistics, rows, seed):
        """Start a new tree on some rows: ascending ids, or None for all."""
        if statistics.problem is not self.problem:
            raise ValueError("the search was opened for another problem")
        self.seed = seed
        self.set_rows(rows)
        self.draw_tree_features()
        self.pool.reset(self.pool.slot_words)

    # ---- sums ---------------------------------------------------------------------------------

    cdef float64_t* slot_of(self, int32_t node) noexcept nogil:
        return <float64_t*>self.pool.slots[self.store.nodes[node].slot]

    cdef float64_t* cells_of(self, int32_t node, int32_t feature) noexcept nogil:
        return self.slot_of(node) + self.first_cell[feature] * self.problem.cell_size

    cdef void forget(self, int32_t node) noexcept nogil:
        if self.store.nodes[node].slot >= 0:
            self.pool.release(self.store.nodes[node].slot)
            self.store.nodes[node].slot = -1

    cdef int take_slot(self, int32_t node) except -1 nogil:
        """A slot for a node; when there is none, the last node of the frontier loses its own."""
        cdef int slot = self.pool.take()
        if slot < 0:
            self.forget(self.last_with_slot())
            slot = self.pool.take()
        self.store.nodes[node].slot = slot
        return 0

    cdef void collect(self, int32_t node, int32_t feature, float64_t* cells) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        self.scan.collect(feature, &self.rows[0] + n.start, n.stop - n.start, cells)

    cdef void total_of_rows(self, int32_t node, float64_t* total) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        memset(total, 0, self.problem.cell_size * sizeof(float64_t))
        self.problem.add_rows(&self.rows[0] + n.start, n.stop - n.start, total)

    cdef void total_of_slot(self, int32_t node, float64_t* total) noexcept nogil:
        """Sums of a node: those of any one feature's bins together."""
        cdef int32_t f = self.tree_features[0], b
        cdef intp_t size = self.problem.cell_size
        cdef float64_t* cells = self.cells_of(node, f)
        memcpy(total, cells, size * sizeof(float64_t))
        for b in range(1, self.bins.n_bins[f] + 1):
            ht_combine(self.problem.width, total, cells + b * size, size, 1.0)

    # ---- the search ---------------------------------------------------------------------------

    cdef void open_scan(self, int32_t node, int lane, ScanNode* at) noexcept nogil:
        """Fit the node itself, whose sums stand in a lane of `totals`."""
        at.total = &self.totals[lane, 0]
        at.coef = &self.coefs[lane, 0]
        at.least_rows = <float64_t>self.rules.min_samples_leaf
        at.least_weight = self.rules.min_child_weight
        memset(at.coef, 0, self.coefs.shape[1] * sizeof(float64_t))
        self.scan.fit(at)
        if node == 0:
            self.noise = HT_ROUNDING * self.scan.variation(at.total)
        at.least_gain = -INFINITY if self.exhaustive else max(self.rules.min_gain, self.noise)

    cdef SplitInfo* found_for(self, int lane, int32_t feature) noexcept nogil:
        return self.found + (lane * self.n_features + feature) * self.n_kept

    cdef int pick(self, int32_t node, int lane, const int32_t* features, int32_t n) \
            except -1 nogil:
        """The best of the features' splits; equal ones go to the first."""
        cdef int32_t j
        cdef SplitInfo* split
        cdef SplitInfo* best = &self.store.nodes[node].split
        best.feature = -1
        best.gain = 0.0
        for j in range(n):
            split = self.found_for(lane, features[j])
            if split.feature >= 0 and (best.feature < 0 or split.gain > best.gain):
                best[0] = split[0]
        if self.fitter is not None and best.feature >= 0:
            with gil:
                self.ask_fitter(node, features, n)
        return 0

    cdef ask_fitter(self, int32_t node, const int32_t* features, int32_t n):
        """Have the best candidates fitted in full."""
        cdef int32_t j
        cdef intp_t k
        cdef uint8_t[::1] directions
        cdef SplitInfo* split
        cdef SplitInfo* best = &self.store.nodes[node].split
        ranks = []
        for j in range(n):
            split = self.found_for(0, features[j])
            for k in range(self.n_kept):
                if split[k].feature >= 0:
                    # Where all are fitted, equal ones go to the first feature and cut.
                    rank = <float64_t>j if self.exhaustive else -split[k].gain
                    ranks.append((rank, split[k].bin if self.exhaustive else j, j, k))
        candidates = []
        for _, _, j, k in sorted(ranks)[:self.n_tried]:
            split = self.found_for(0, features[j]) + k
            directions = table = np.empty(<int>N_CODES, dtype=np.uint8)
            fill_direction(&self.bins.view, split, &directions[0])
            candidates.append((split.feature, table, j, k))
        choice = self.fitter.choose(self.row_ids(node), [c[:2] for c in candidates])
        best.feature = -1
        if choice is not None:
            j, k = candidates[choice[0]][2:]
            best[0] = self.found_for(0, features[j])[k]
            best.gain = choice[1]

    cdef row_ids(self, int32_t node):
        cdef GrowNode* n = &self.store.nodes[node]
        return np.asarray(self.rows)[n.start:n.stop]

    cdef int prepare(self, int32_t node) except -1 with gil:
        """Have the node fitted; 0 where it needs no split."""
        rows = self.row_ids(node)
        working = self.fitter.prepare(rows)
        if working is None:
            return 0
        self.problem.reweight(rows, self.regressors, *working)
        return 1

    cdef int32_t screen(self, ScanNode* at, int32_t node, const int32_t* features, int32_t n) \
            except -1 nogil:
        """Score all features; OUT the best in `chosen`, ascending."""
        cdef GrowNode* own = &self.store.nodes[node]
        cdef uint32_t* rows = &self.rows[0] + own.start
        cdef intp_t n_rows = own.stop - own.start
        cdef int32_t j, k = 0, worst, size = self.look.chunk
        cdef int target
        self.look.begin(at)
        for j in range(n):
            self.scores[features[j]] = 0.0
        for target in range(self.problem.rules.n_targets):
            self.look.take_residuals(at, target, rows, n_rows)
            for j in prange((n + size - 1) // size, num_threads=team_of(self.n_threads),
                            schedule="dynamic", chunksize=1):
                self.look.score(at, rows, n_rows, features + j * size, min(size, n - j * size),
                                omp_get_thread_num(), &self.scores[0])
        for j in range(n):
            if k < self.n_screened:
                self.chosen[k] = features[j]
                k += 1
                continue
            worst = self.worst_chosen(k)
            if self.scores[features[j]] > self.scores[self.chosen[worst]]:
                close_gap(&self.chosen[0], worst, k)
                self.chosen[k - 1] = features[j]
        return k

    cdef int32_t worst_chosen(self, int32_t n) noexcept nogil:
        """The last of the chosen features with the least score."""
        cdef int32_t j, worst = 0
        for j in range(1, n):
            if self.scores[self.chosen[j]] <= self.scores[self.chosen[worst]]:
                worst = j
        return worst

    cdef int search_rows(self, int32_t node) except -1 nogil:
        """Search a node by its rows, feature by feature."""
        cdef int32_t n = 0, j
        cdef int thread
        cdef ScanNode at
        cdef const int32_t* features
        self.store.nodes[node].split.feature = -1
        if self.fitter is not None and self.prepare(node) == 0:
            return 0
        self.total_of_rows(node, &self.totals[0, 0])
        self.open_scan(node, 0, &at)
        if at.loss <= at.least_gain:
            return 0
        features = self.draw_node_features(node, 0, &n)
        if 0 < self.n_screened < n:
            n = self.screen(&at, node, features, n)
            features = &self.chosen[0]
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            thread = omp_get_thread_num()
            self.collect(node, features[j], &self.thread_cells[thread, 0])
            self.scan.search(&at, features[j], &self.thread_cells[thread, 0], thread,
                             self.found_for(0, features[j]), self.n_kept)
        return self.pick(node, 0, features, n)

    cdef int evaluate_root(self) except -1 nogil:
        cdef int32_t n = 0, j
        cdef ScanNode at
        cdef const int32_t* features
        if not self.may_split(0):
            return 0
        if not self.keeps:
            return self.search_rows(0)
        self.take_slot(0)
        features = self.draw_node_features(0, 0, &n)
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            self.collect(0, features[j], self.cells_of(0, features[j]))
        self.total_of_slot(0, &self.totals[0, 0])
        self.open_scan(0, 0, &at)
        if at.loss <= at.least_gain:
            return 0
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            self.scan.search(&at, features[j], self.cells_of(0, features[j]),
                             omp_get_thread_num(), self.found_for(0, features[j]), self.n_kept)
        return self.pick(0, 0, features, n)

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        cdef int32_t small = self.store.nodes[node].left, large = self.store.nodes[node].right
        cdef bint want_small = left, want_large = right
        if (self.store.nodes[small].stop - self.store.nodes[small].start
                > self.store.nodes[large].stop - self.store.nodes[large].start):
            small, large = large, small
            want_small, want_large = right, left
        if not self.keeps:
            if want_small:
                self.search_rows(small)
            if want_large:
                self.search_rows(large)
            return 0
        if want_large and self.store.nodes[node].slot >= 0:
            return self.search_pair(node, small, large, want_small)
        self.forget(node)
        if want_small:
            self.search_alone(small)
        if want_large:
            self.search_alone(large)
        return 0

    cdef int search_alone(self, int32_t node) except -1 nogil:
        """Collect the sums of a node from its rows, and search it."""
        cdef int32_t n = 0, j
        cdef const int32_t* features = self.draw_node_features(node, 0, &n)
        self.take_slot(node)
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            self.collect(node, features[j], self.cells_of(node, features[j]))
        return self.search_slot(node, 0)

    cdef int search_slot(self, int32_t node, int lane) except -1 nogil:
        """Search a node whose sums are in its slot."""
        cdef int32_t n = 0, j
        cdef ScanNode at
        cdef const int32_t* features = self.draw_node_features(node, lane, &n)
        self.store.nodes[node].split.feature = -1
        self.total_of_slot(node, &self.totals[lane, 0])
        self.open_scan(node, lane, &at)
        if at.loss <= at.least_gain:
            return 0
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            self.scan.search(&at, features[j], self.cells_of(node, features[j]),
                             omp_get_thread_num(), self.found_for(lane, features[j]),
                             self.n_kept)
        return self.pick(node, lane, features, n)

    cdef int search_pair(self, int32_t node, int32_t small, int32_t large, bint want_small) \
            except -1 nogil:
        """Collect the smaller child's sums, subtract them from the parent's, search both."""
        cdef int32_t n = 0, j
        cdef const int32_t* features = self.draw_node_features(node, 0, &n)
        self.take_slot(small)
        self.store.nodes[large].slot = self.store.nodes[node].slot
        self.store.nodes[node].slot = -1
        for j in prange(n, num_threads=team_of(self.n_threads), schedule="dynamic", chunksize=1):
            self.collect(small, features[j], self.cells_of(small, features[j]))
            ht_combine(self.problem.width, self.cells_of(large, features[j]),
                       self.cells_of(small, features[j]),
                       (self.bins.n_bins[features[j]] + 1) * self.problem.cell_size, -1.0)
        if want_small:
            self.search_slot(small, 0)
        else:
            self.forget(small)
        return self.search_slot(large, 0)

    # ---- rows ---------------------------------------------------------------------------------

    cdef int divide(self, int32_t node) except -1 nogil:
        cdef uint8_t goes_left[N_CODES]
        cdef GrowNode* n = &self.store.nodes[node]
        cdef intp_t n_left
        fill_direction(&self.bins.view, &n.split, goes_left)
        n_left = split_rows(
            self.bins.view.columns + n.split.feature * self.bins.view.n_rows, goes_left,
            &self.rows[0] + n.start, n.stop - n.start, &self.row_scratch[0] + n.start, NULL, 1)
        n.stay = n.stop
        if n.split.missing_left == UNDECIDED:
            n.split.missing_left = larger_left(<int64_t>n_left, <int64_t>(n.stop - n.start))
        divide_slice(n, &self.store.nodes[n.left], &self.store.nodes[n.right], n_left)
        self.store.nodes[n.left].sums.n_samples = n_left
        self.store.nodes[n.right].sums.n_samples = n.stop - n.start - n_left
        return 0

    # ---- what is known of the nodes afterwards ---------------------------------------------------

    cdef int32_t n_node_sums(self) noexcept nogil:
        # Under a fitter the sums are those of working targets, and mean nothing afterwards.
        return self.problem.cell_size if self.fitter is None else 0

    cdef int sum_nodes(self, float64_t[:, ::1] sums) except -1:
        cdef int32_t k, n = self.store.n_nodes
        with nogil:
            for k in prange(n, num_threads=team_of(self.n_threads),
                            schedule="dynamic", chunksize=1):
                if self.store.nodes[k].left < 0:
                    self.sum_node(k, &sums[k, 0])
        return 0

    cdef void sum_node(self, int32_t node, float64_t* sums) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        cdef intp_t i, size = self.problem.cell_size
        if self.fitter is None:
            self.problem.add_rows(&self.rows[0] + n.start, n.stop - n.start, sums)
            sums[size] = sums[self.problem.rules.tail + 1]
            return
        for i in range(n.start, n.stop):
            sums[0] += 1.0 if self.problem.weight is None else self.problem.weight[self.rows[i]]


cdef inline void close_gap(int32_t* values, int32_t at, int32_t n) noexcept nogil:
    """Close the gap at a position."""
    cdef int32_t j
    for j in range(at, n - 1):
        values[j] = values[j + 1]
