"""Splits by the loss of linear models in both children.

Sums of products of regressors and targets are collected for every bin of a split feature. The sums
of the left child of a cut are sums over bins, those of the right child the node's minus these, and
each candidate takes two small systems of equations. The sums of the smaller child are collected
from its rows; those of the other one are the parent's minus them.

For losses other than squared error, a Python object first fits the node and returns a curvature
and a working target for each row. Candidates are ranked by the quadratic approximation of the loss
at that fit, and the object fits the best few in full.

With many regressors, all features are first scored by a score test, and only the best ones are
searched.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    HT_ROUNDING, N_CODES, SplitInfo, float64_t, int32_t, int64_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._histogram cimport BinnedView, HistogramPool
from hybridtrees.core.search.lines._linear_tree_fit cimport LinearProblem
from hybridtrees.core.search.lines._linear_kernels cimport (
    ht_add_scores, ht_combine, ht_factor, ht_forward, ht_padded,
)
from hybridtrees.core.search._search cimport GrowNode, SplitSearch, divide_slice
from hybridtrees.core.search._split cimport (
    fill_direction, insert_by_key, larger_left, split_rows,
)

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---- Candidate cuts of one feature, by the loss of linear models on both sides ----------------
#
# Categories are sorted by their mean residuals under the node's own fit, then cut like bins.


cdef enum:
    UNDECIDED = 2            # missing_left if the node has no missing values; set in `divide`
    SORT_BLOCK = 2048        # rows that are sorted by bin at a time, in the cache
    DIRECT_ROWS = 16         # rows per bin up to which a node is searched without sums of its bins


cdef struct ScanNode:
    # The current node.
    const float64_t* total     # its sums of products
    float64_t* coef            # its own fit, (n_targets, n_columns)
    float64_t loss             # of that fit
    float64_t least_rows       # minimum number of rows of a child
    float64_t least_weight     # minimum weight of a child
    float64_t least_gain       # gains must be larger


cdef struct BinSums:
    # The sums of a feature's bins, or the rows to sum them from.
    const float64_t* cells         # or NULL
    const uint32_t* sorted_rows    # by bin
    const int32_t* start           # of each bin in them


cdef inline void sort_by_code(
    const uint8_t* codes, const uint32_t* rows, intp_t n, int32_t n_codes,
    int32_t* start, uint32_t* sorted_rows,
) noexcept nogil:
    """OUT rows sorted by code, and the start of each code; `start` has n_codes + 1 entries."""
    cdef intp_t i
    cdef int32_t code
    cdef int32_t at[257]
    memset(start, 0, (n_codes + 1) * sizeof(int32_t))
    for i in range(n):
        start[codes[rows[i]] + 1] += 1
    for code in range(n_codes):
        start[code + 1] += start[code]
    memcpy(at, start, n_codes * sizeof(int32_t))
    for i in range(n):
        code = codes[rows[i]]
        sorted_rows[at[code]] = rows[i]
        at[code] += 1


cdef inline void keep_best(SplitInfo* out, intp_t n_kept, const SplitInfo* split) noexcept nogil:
    """Insert a split into the sorted list of the best ones, after those of equal gain."""
    cdef intp_t k = n_kept
    while k > 0 and (out[k - 1].feature < 0 or split.gain > out[k - 1].gain):
        k -= 1
        if k + 1 < n_kept:
            out[k + 1] = out[k]
    if k < n_kept:
        out[k] = split[0]


cdef class LinearScan:
    """Scans features; every thread has its own buffers."""

    cdef BinnedView bins
    cdef LinearProblem problem
    cdef intp_t most_cells                 # maximum number of cells of a feature
    cdef float64_t[:, ::1] sums            # by thread: left sums of the cuts, and a running sum
    cdef float64_t[:, ::1] losses          # by thread: left and right losses of the cuts
    cdef float64_t[:, ::1] scratch

    def __init__(self, BinnedView bins, LinearProblem problem, int n_threads):
        self.bins = bins
        self.problem = problem
        self.most_cells = int(np.max(bins.n_bins)) + 1
        self.sums = aligned_empty(
            (n_threads, (self.most_cells + 1) * problem.cell_size), np.float64)
        self.losses = np.empty((n_threads, 2 * self.most_cells))
        self.scratch = aligned_empty(
            (n_threads, (problem.scratch_size() + 7) // 8 * 8), np.float64)

    cdef void collect(
        self, int32_t feature, const uint32_t* rows, intp_t n, float64_t* cells,
    ) noexcept nogil:
        """OUT sums by bin of the feature, the missing rows last."""
        cdef uint32_t sorted_rows[SORT_BLOCK]
        cdef int32_t start[258]
        cdef const uint8_t* codes = self.bins.view.columns + feature * self.bins.view.n_rows
        cdef int32_t n_codes = self.bins.view.n_bins[feature] + 1, code
        cdef intp_t size = self.problem.cell_size, first = 0, part
        memset(cells, 0, n_codes * size * sizeof(float64_t))
        while first < n:
            part = min(n - first, <intp_t>SORT_BLOCK)
            sort_by_code(codes, rows + first, part, n_codes, start, sorted_rows)
            for code in range(n_codes):
                if start[code + 1] > start[code]:
                    self.problem.add_rows(
                        sorted_rows + start[code], start[code + 1] - start[code],
                        cells + code * size)
            first += part

    cdef void fit(self, ScanNode* at) noexcept nogil:
        """Fit the node; `coef` is the start of the descent, and OUT."""
        self.problem.losses(at.total, 0, NULL, 1, at.coef, &self.scratch[0, 0], &at.loss, NULL,
                            at.coef)

    cdef float64_t variation(self, const float64_t* total) noexcept nogil:
        """Squared deviations of the targets from their means."""
        cdef int t, p = self.problem.rules.n_columns, end = p * (p + 1) // 2
        cdef const int32_t* place = self.problem.rules.at
        cdef float64_t ones = total[place[0]], first, found = 0.0
        for t in range(self.problem.rules.n_targets):
            first = total[place[end + t * (p + 1)]]
            found += max(total[place[end + t * (p + 1) + p]] - first * first / ones, 0.0)
        return found

    # ---- cuts ---------------------------------------------------------------------------------

    cdef void search_few(
        self, const ScanNode* at, int32_t feature, const uint32_t* rows, intp_t n, int thread,
        SplitInfo* out, intp_t n_kept,
    ) noexcept nogil:
        """The same as `collect` and `search` for numbers, in few rows: without sums of bins.

        Most bins of a small node hold a row or two, and their sums would be larger than the rows.
        """
        cdef uint32_t sorted_rows[SORT_BLOCK]
        cdef int32_t start[258]
        cdef int32_t order[N_CODES]
        cdef BinSums sums
        cdef int32_t b, n_bins = self.bins.view.n_bins[feature]
        cdef intp_t k
        for k in range(n_kept):
            out[k].feature = -1
        for b in range(n_bins):
            order[b] = b
        sort_by_code(self.bins.view.columns + feature * self.bins.view.n_rows, rows, n, n_bins + 1,
                     start, sorted_rows)
        sums.cells, sums.sorted_rows, sums.start = NULL, sorted_rows, start
        self.search_order(at, feature, &sums, thread, order, n_bins, out, n_kept)

    cdef void search(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
        SplitInfo* out, intp_t n_kept,
    ) noexcept nogil:
        """OUT the best cuts of a feature; feature -1: none."""
        cdef int32_t order[N_CODES]
        cdef BinSums sums
        cdef int32_t b, n_bins = self.bins.view.n_bins[feature]
        cdef int t
        cdef intp_t k
        for k in range(n_kept):
            out[k].feature = -1
        sums.cells, sums.sorted_rows, sums.start = cells, NULL, NULL
        if not self.bins.view.is_categorical[feature]:
            for b in range(n_bins):
                order[b] = b
            self.search_order(at, feature, &sums, thread, order, n_bins, out, n_kept)
            return
        for t in range(self.problem.rules.n_targets):
            self.order_by_residual(at, feature, cells, t, order)
            self.search_order(at, feature, &sums, thread, order, n_bins, out, n_kept)

    cdef bint add_bin(self, const BinSums* bins, int32_t b, float64_t* running) noexcept nogil:
        """Add the sums of a bin, unless it is empty; whether it is not."""
        cdef intp_t size = self.problem.cell_size, n
        if bins.cells == NULL:
            n = bins.start[b + 1] - bins.start[b]
            if n > 0:
                self.problem.add_rows(bins.sorted_rows + bins.start[b], n, running)
            return n > 0
        if bins.cells[b * size + self.problem.rules.tail] == 0:
            return False
        ht_combine(self.problem.width, running, bins.cells + b * size, size, 1.0)
        return True

    cdef void search_order(
        self, const ScanNode* at, int32_t feature, const BinSums* bins, int thread,
        const int32_t* order, int32_t n, SplitInfo* out, intp_t n_kept,
    ) noexcept nogil:
        """Try all cuts of bins in the given order, with missing rows on both sides."""
        cdef int32_t cuts[257]
        cdef int32_t k, n_cuts, side, n_sides = 1, missing = self.bins.view.n_bins[feature]
        cdef intp_t size = self.problem.cell_size
        cdef float64_t* left = &self.losses[thread, 0]
        cdef float64_t* right = left + self.most_cells
        cdef float64_t* sums = &self.sums[thread, 0]
        cdef float64_t gain
        cdef SplitInfo split
        cdef int tail = self.problem.rules.tail
        if (bins.start[missing + 1] > bins.start[missing] if bins.cells == NULL
                else bins.cells[missing * size + tail] > 0):
            n_sides = 2
        for side in range(n_sides):
            n_cuts = self.list_cuts(at, bins, missing if side else -1, thread, order, n, cuts)
            if n_cuts == 0:
                continue
            self.problem.losses(sums, size, at.total, n_cuts, at.coef, &self.scratch[thread, 0],
                                left, right, NULL)
            for k in range(n_cuts):
                gain = at.loss - left[k] - right[k]
                if gain > at.least_gain and (
                    out[n_kept - 1].feature < 0 or gain > out[n_kept - 1].gain
                ):
                    self.fill_split(feature, bins.cells, order, cuts[k],
                                    larger_left(sums[k * size + tail], at.total[tail]), &split)
                    split.gain = gain
                    split.missing_left = UNDECIDED if n_sides == 1 else side
                    keep_best(out, n_kept, &split)

    cdef int32_t list_cuts(
        self, const ScanNode* at, const BinSums* bins, int32_t before, int thread,
        const int32_t* order, int32_t n, int32_t* cuts,
    ) noexcept nogil:
        """OUT positions of the cuts with large enough sides, and their left sums.

        The bin `before`, unless it is -1, is on the left of all cuts.
        """
        cdef intp_t size = self.problem.cell_size
        cdef int tail = self.problem.rules.tail
        cdef float64_t* sums = &self.sums[thread, 0]
        cdef float64_t* running = sums + self.most_cells * size
        cdef int32_t c, n_cuts = 0
        cdef float64_t rows_right, weight_right
        memset(running, 0, size * sizeof(float64_t))
        if before >= 0:
            self.add_bin(bins, before, running)
        for c in range(n):
            if not self.add_bin(bins, order[c], running):
                continue
            rows_right = at.total[tail] - running[tail]
            weight_right = at.total[tail + 1] - running[tail + 1]
            if rows_right < at.least_rows or rows_right < 1:
                break
            if (running[tail] < at.least_rows or running[tail + 1] < at.least_weight
                    or weight_right < at.least_weight):
                continue
            memcpy(sums + n_cuts * size, running, size * sizeof(float64_t))
            cuts[n_cuts] = c
            n_cuts += 1
        return n_cuts

    cdef void order_by_residual(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int target,
        int32_t* order,
    ) noexcept nogil:
        """OUT bins by the mean residual of a target under the node's fit."""
        cdef float64_t mean[N_CODES]
        cdef int p = self.problem.rules.n_columns, end = p * (p + 1) // 2, j
        cdef const int32_t* place = self.problem.rules.at
        cdef const float64_t* coef = at.coef + target * p
        cdef const float64_t* cell
        cdef float64_t residual
        cdef int32_t b
        for b in range(self.bins.view.n_bins[feature]):
            cell = cells + b * self.problem.cell_size
            residual = 0.0
            if cell[self.problem.rules.tail] > 0 and cell[place[0]] > 0:
                residual = cell[place[end + target * (p + 1)]]
                for j in range(p):
                    residual -= coef[j] * cell[place[j * (j + 1) // 2]]
                residual /= cell[place[0]]
            insert_by_key(mean, order, b, residual, b)

    cdef void fill_split(
        self, int32_t feature, const float64_t* cells, const int32_t* order, int32_t cut,
        bint left_is_larger, SplitInfo* split,
    ) noexcept nogil:
        cdef int32_t c, b
        memset(split, 0, sizeof(SplitInfo))
        split.feature = feature
        split.bin = order[cut]
        split.category_start = -1
        split.key = <uint32_t>split.bin
        if not self.bins.view.is_categorical[feature]:
            return
        split.is_categorical = True
        for c in range(self.bins.view.n_bins[feature]):
            b = order[c]
            if (left_is_larger if cells[b * self.problem.cell_size + self.problem.rules.tail] == 0
                    else c <= cut):
                split.categories[b >> 5] |= <uint32_t>1 << (b & 31)


# ---- Screening of features by a score test ----------------------------------------------------
#
# A cut changes the node's fit if the residuals on its left are correlated with a regressor. With z
# the regressors (including the intercept), r the residuals and H = sum z z', the gain of a cut with
# the share s of the weight on its left is about
#
#     S' H^-1 S / (s (1 - s)),    S = sum over the left rows of z r  -  s (that of all rows),
#
# which is exact if the left rows have the products s H (the score test of Rao 1948). This needs one
# sum per regressor; the full search needs sums of all their products.


cdef enum:
    BLOCK_BYTES = 262144      # of a block of rows, which stays in the cache for all features
    MOST_BYTES = 16777216     # maximum size of the sums of the features of a chunk


cdef class LinearScreen:
    """Scores features; every thread has its own buffers."""

    cdef BinnedView bins
    cdef LinearProblem problem
    cdef intp_t stride                     # doubles of the sums of a bin
    cdef intp_t most_cells
    cdef readonly int32_t chunk            # features that are summed in one pass over the rows
    cdef float64_t[::1] factor             # Cholesky factor of the node's products
    cdef float64_t[::1] residual           # of the node's rows, times the root of their weights
    cdef float64_t[:, ::1] sums            # by thread: of every bin of the features of a chunk
    cdef float64_t[:, ::1] moved           # by thread: sums left of the cuts, cuts side by side

    def __init__(self, BinnedView bins, LinearProblem problem, int n_threads):
        cdef intp_t n_features = bins.view.n_features, n_columns = problem.n_columns
        self.bins = bins
        self.problem = problem
        self.most_cells = int(np.max(bins.n_bins)) + 1
        # The sums of a bin are followed by its number of rows and its weight.
        self.stride = problem.n_padded + 8
        own = self.most_cells * self.stride * 8
        self.chunk = min(max(1, MOST_BYTES // own), (n_features + n_threads - 1) // n_threads)
        self.factor = np.empty(n_columns * n_columns)
        self.residual = np.empty(bins.view.n_rows)
        self.sums = aligned_empty(
            (n_threads, self.chunk * self.most_cells * self.stride), np.float64)
        self.moved = aligned_empty(
            (n_threads, (n_columns + 1) * ht_padded(<int>self.most_cells)), np.float64)

    cdef void begin(self, const ScanNode* at) noexcept nogil:
        """Factorise the products of a node's regressors."""
        ht_factor(&self.problem.rules, at.total, &self.factor[0])

    cdef void take_residuals(
        self, const ScanNode* at, int target, const uint32_t* rows, intp_t n,
    ) noexcept nogil:
        """Compute the residuals of a target under the node's fit."""
        cdef int p = self.problem.rules.n_columns, j
        cdef const float64_t* coef = at.coef + target * p
        cdef const float64_t* row
        cdef float64_t left_over
        cdef intp_t i
        for i in range(n):
            row = &self.problem.view[rows[i], 0]
            left_over = row[p + target]
            for j in range(p):
                left_over -= coef[j] * row[j]
            self.residual[i] = left_over

    cdef void score(
        self, const ScanNode* at, const uint32_t* rows, intp_t n, const int32_t* features,
        int32_t n_features, int thread, float64_t* scores,
    ) noexcept nogil:
        """Add the gains of the best cuts to the scores of at most `chunk` features.

        The score of a feature that cannot be cut becomes -inf.
        """
        cdef intp_t size = self.most_cells * self.stride, first = 0, part
        cdef intp_t block = max(16, BLOCK_BYTES // (8 * self.problem.n_padded))
        cdef float64_t* sums = &self.sums[thread, 0]
        cdef int32_t j
        memset(sums, 0, n_features * size * sizeof(float64_t))
        while first < n:
            part = min(block, n - first)
            for j in range(n_features):
                ht_add_scores(
                    self.problem.width, &self.problem.view[0, 0], self.problem.n_padded,
                    rows + first, part,
                    self.bins.view.columns + features[j] * self.bins.view.n_rows,
                    &self.residual[first], sums + j * size)
            first += part
        for j in range(n_features):
            scores[features[j]] += self.best_cut(at, features[j], sums + j * size, thread)

    cdef float64_t best_cut(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
    ) noexcept nogil:
        """Approximate gain of the best cut of a feature, from the sums of its bins."""
        cdef int32_t order[N_CODES]
        cdef float64_t mean[N_CODES]
        cdef int32_t n_bins = self.bins.view.n_bins[feature], b, k, n_cuts, side
        cdef int p = self.problem.rules.n_columns, i
        cdef intp_t rows_at = self.problem.n_padded, lanes = ht_padded(<int>self.most_cells)
        cdef const float64_t* cell
        cdef const float64_t* missing = cells + n_bins * self.stride
        cdef float64_t* moved = &self.moved[thread, 0]
        cdef float64_t* shares = moved + p * lanes
        cdef float64_t n_rows = 0.0, weight = 0.0, rows_left, weight_left, best = -INFINITY, x
        for b in range(n_bins + 1):
            n_rows += cells[b * self.stride + rows_at]
            weight += cells[b * self.stride + rows_at + 1]
        for b in range(n_bins):
            cell = cells + b * self.stride
            x = b
            if self.bins.view.is_categorical[feature]:
                # Sorted by mean residuals, as in the search.
                x = cell[0] / cell[rows_at + 1] if cell[rows_at + 1] > 0 else 0.0
            insert_by_key(mean, order, b, x, b)
        for side in range(2 if missing[rows_at] > 0 else 1):
            rows_left = missing[rows_at] if side else 0.0
            weight_left = missing[rows_at + 1] if side else 0.0
            for i in range(p):
                moved[i * lanes] = missing[i] if side else 0.0
            n_cuts = 0
            # Running sums of every regressor at the allowed cuts.
            for b in range(n_bins):
                cell = cells + order[b] * self.stride
                if cell[rows_at] == 0:
                    continue
                rows_left += cell[rows_at]
                weight_left += cell[rows_at + 1]
                for i in range(p):
                    moved[i * lanes + n_cuts] += cell[i]
                if n_rows - rows_left < at.least_rows or n_rows - rows_left < 1:
                    break
                if rows_left < at.least_rows or not 0 < weight_left < weight:
                    continue
                shares[n_cuts] = weight_left / weight
                for i in range(p):
                    moved[i * lanes + n_cuts + 1] = moved[i * lanes + n_cuts]
                n_cuts += 1
            if n_cuts == 0:
                continue
            for i in range(p):
                x = 0.0
                for b in range(n_bins + 1):
                    x += cells[b * self.stride + i]
                for k in range(n_cuts):
                    moved[i * lanes + k] -= shares[k] * x
            ht_forward(self.problem.width, p, &self.factor[0], moved, <int>lanes, n_cuts)
            for k in range(n_cuts):
                x = 0.0
                for i in range(p):
                    x += moved[i * lanes + k] * moved[i * lanes + k]
                best = max(best, x / (shares[k] * (1.0 - shares[k])))
        return best


# ---- The search of a node ---------------------------------------------------------------------


# Numbers of candidates of a feature, and of a node, that a fitter fits in full.
CANDIDATES_PER_FEATURE = 2
CANDIDATES = 5


cdef class LinearTreeSearch(SplitSearch):
    """Searches the nodes of linear trees.

    Losses other than squared error need a `fitter`, and the `regressors` of the problem.
    ``fitter.prepare(rows)`` fits a node and returns curvatures and working targets, or None if the
    node needs no split. ``fitter.choose(rows, candidates)`` gets (feature, table of 256 directions)
    of the best candidates, or of all if `exhaustive`; it returns the index and the gain of the best
    one, or None. With `screened` > 0 only so many features of a node are searched in full, chosen
    by `LinearScreen`.
    """

    cdef BinnedView bins
    cdef LinearProblem problem
    cdef LinearScan scan
    cdef LinearScreen screening
    cdef object fitter
    cdef object regressors
    cdef SplitInfo* found                    # best splits of each feature
    cdef intp_t n_kept                       # number of them per feature
    cdef intp_t n_tried                      # maximum number of candidates for a fitter
    cdef bint exhaustive                     # whether the fitter gets all candidates
    cdef intp_t few_rows                     # nodes with at most so many have no sums of bins
    cdef bint keeps                          # whether sums of all bins are kept for the children
    cdef int32_t n_screened
    cdef int32_t[::1] chosen                 # features that passed the screening
    cdef float64_t[:, ::1] totals            # sums of the node, or of two children
    cdef float64_t[:, ::1] coefs
    cdef float64_t[:, ::1] thread_cells      # sums by bin, if they are not kept
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
        self.row_scratch = np.empty(self.n_rows, dtype=np.uint32)
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
        self.few_rows = min(<intp_t>SORT_BLOCK,
                            DIRECT_ROWS * self.first_cell[self.n_features] // self.n_features)
        self.thread_cells = aligned_empty(
            (n_threads, int(cells.max()) * problem.cell_size), np.float64)
        if self.n_screened:
            self.scores = np.empty(self.n_features)
            self.screening = LinearScreen(self.bins, problem, n_threads)
        self.found = <SplitInfo*>malloc(
            2 * self.n_kept * self.n_features * sizeof(SplitInfo))
        if self.found == NULL:
            raise MemoryError("no memory for the splits of the features")

    def __dealloc__(self):
        free(self.found)

    def reopen(self, LinearProblem problem, params, fitter):
        """Use another problem of the same size on the same table, with what goes with it.

        A forest has a problem for each tree, and the arrays of the search are large.
        """
        if (problem.n_columns != self.problem.n_columns or problem.view.shape[0] != self.n_rows
                or problem.n_targets != self.problem.n_targets
                or (fitter is None) != (self.fitter is None)):
            raise ValueError("the search was opened for problems of another size")
        self.problem = self.scan.problem = problem
        if self.screening is not None:
            self.screening.problem = problem
        self.fitter = fitter
        self.use_rules(params)

    def begin(self, statistics, rows, seed):
        """Start a new tree on some rows: ascending ids, or None for all."""
        if statistics.problem is not self.problem:
            raise ValueError("the search is open for another problem")
        self.seed = seed
        self.set_rows(rows)
        self.draw_tree_features()
        self.pool.reset(self.pool.slot_words)

    # ---- sums ---------------------------------------------------------------------------------

    cdef float64_t* slot_of(self, int32_t node) noexcept nogil:
        return <float64_t*>self.pool.slots[self.store.nodes[node].slot]

    cdef float64_t* cells_of(self, int32_t node, int32_t feature) noexcept nogil:
        return self.slot_of(node) + self.first_cell[feature] * self.problem.cell_size

    cdef void collect(self, int32_t node, int32_t feature, float64_t* cells) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        self.scan.collect(feature, &self.rows[0] + n.start, n.stop - n.start, cells)

    cdef void total_of_rows(self, int32_t node, float64_t* total) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        memset(total, 0, self.problem.cell_size * sizeof(float64_t))
        self.problem.add_rows(&self.rows[0] + n.start, n.stop - n.start, total)

    cdef void total_of_slot(self, int32_t node, float64_t* total) noexcept nogil:
        """Sums of a node: those of all bins of any feature."""
        cdef int32_t f = self.tree_features[0], b
        cdef intp_t size = self.problem.cell_size
        cdef float64_t* cells = self.cells_of(node, f)
        memcpy(total, cells, size * sizeof(float64_t))
        for b in range(1, self.bins.n_bins[f] + 1):
            ht_combine(self.problem.width, total, cells + b * size, size, 1.0)

    # ---- the search ---------------------------------------------------------------------------

    cdef void open_scan(self, int32_t node, int lane, ScanNode* at) noexcept nogil:
        """Fit the node itself, whose sums are in a lane of `totals`."""
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
        """Set the best of the features' splits, the first of equal ones."""
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
        """Let the fitter choose among the best candidates."""
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
                    # If all are fitted, they are in the order of features and cuts.
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
        """Let the fitter fit the node; 0 if it needs no split."""
        rows = self.row_ids(node)
        working = self.fitter.prepare(rows)
        if working is None:
            return 0
        self.problem.reweight(rows, self.regressors, *working)
        return 1

    cdef int32_t screen(self, ScanNode* at, int32_t node, const int32_t* features, int32_t n) \
            except -1 nogil:
        """Score all features; OUT `chosen`: the best ones, ascending. Returns their number."""
        cdef GrowNode* own = &self.store.nodes[node]
        cdef uint32_t* rows = &self.rows[0] + own.start
        cdef intp_t n_rows = own.stop - own.start
        cdef int32_t j, k = 0, worst, size = self.screening.chunk
        cdef int target
        self.screening.begin(at)
        for j in range(n):
            self.scores[features[j]] = 0.0
        for target in range(self.problem.rules.n_targets):
            self.screening.take_residuals(at, target, rows, n_rows)
            for j in prange((n + size - 1) // size, num_threads=team_of(self.n_threads),
                            schedule="dynamic", chunksize=1):
                self.screening.score(at, rows, n_rows, features + j * size, min(size, n - j * size),
                                     omp_get_thread_num(), &self.scores[0])
        for j in range(n):
            if k < self.n_screened:
                self.chosen[k] = features[j]
                k += 1
                continue
            worst = self.worst_chosen(k)
            if self.scores[features[j]] > self.scores[self.chosen[worst]]:
                memmove(&self.chosen[worst], &self.chosen[0] + worst + 1,
                        (k - 1 - worst) * sizeof(int32_t))
                self.chosen[k - 1] = features[j]
        return k

    cdef int32_t worst_chosen(self, int32_t n) noexcept nogil:
        """The last of the chosen features with the lowest score."""
        cdef int32_t j, worst = 0
        for j in range(1, n):
            if self.scores[self.chosen[j]] <= self.scores[self.chosen[worst]]:
                worst = j
        return worst

    cdef bint is_small(self, int32_t node) noexcept nogil:
        """Whether a node is searched by its rows, even if sums of bins are kept."""
        return self.store.nodes[node].stop - self.store.nodes[node].start <= self.few_rows

    cdef void search_feature(self, ScanNode* at, int32_t node, int32_t feature, int thread) \
            noexcept nogil:
        """Search a feature by the rows of a node."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef float64_t* cells = &self.thread_cells[thread, 0]
        if self.is_small(node) and not self.bins.view.is_categorical[feature]:
            self.scan.search_few(at, feature, &self.rows[0] + n.start, n.stop - n.start, thread,
                                 self.found_for(0, feature), self.n_kept)
            return
        self.collect(node, feature, cells)
        self.scan.search(at, feature, cells, thread, self.found_for(0, feature), self.n_kept)

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
            self.search_feature(&at, node, features[j], thread)
        return self.pick(node, 0, features, n)

    cdef int evaluate_root(self) except -1 nogil:
        if not self.may_split(0):
            return 0
        return self.search_by_size(0) if self.keeps else self.search_rows(0)

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        cdef int32_t small = self.store.nodes[node].left, large = self.store.nodes[node].right
        cdef bint want_small = left, want_large = right
        if (self.store.nodes[small].stop - self.store.nodes[small].start
                > self.store.nodes[large].stop - self.store.nodes[large].start):
            small, large = large, small
            want_small, want_large = right, left
        if not self.keeps or self.is_small(large):
            self.forget(node)
            if want_small:
                self.search_rows(small)
            if want_large:
                self.search_rows(large)
            return 0
        if want_large and self.store.nodes[node].slot >= 0:
            return self.search_pair(node, small, large, want_small)
        self.forget(node)
        if want_small:
            self.search_by_size(small)
        if want_large:
            self.search_by_size(large)
        return 0

    cdef int search_by_size(self, int32_t node) except -1 nogil:
        return self.search_rows(node) if self.is_small(node) else self.search_alone(node)

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

    # ---- sums of the nodes of a grown tree ----------------------------------------------------

    cdef int32_t n_node_sums(self) noexcept nogil:
        # With a fitter the sums are of working targets, and not meaningful afterwards.
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
