"""Linear models in the nodes of linear trees: sums, cuts of a feature, screening."""

from libc.math cimport INFINITY, sqrt
from libc.string cimport memcpy, memset

from hybridtrees.core.base._types cimport (
    N_CODES, SplitInfo, float64_t, int32_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._histogram cimport BinnedView
from hybridtrees.core.search._linear_kernels cimport (
    ht_add_moments, ht_add_scores, ht_cell_at, ht_cell_size, ht_combine, ht_factor,
    ht_fill_triangle, ht_forward, ht_lasso_losses, ht_lasso_scratch, ht_padded, ht_ridge_losses,
    ht_ridge_scratch, ht_triangle_size, ht_vector_bytes,
)
from hybridtrees.core.search._split cimport insert_by_key, larger_left

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---------------------------------------------------------------------------------------------
# Regressors and targets of a linear tree, as the kernels read them: sums of products of columns
#
# over any rows, and penalised least squares from such sums.


# A regressor of which others leave no more than this share is left out of a fit.
TOLERANCE = 1e-10
# A regressor that varies less, in units of its variance in the table, counts as constant.
CONSTANT = 1e-13


cdef class LinearProblem:
    """Least squares of targets on regressors, over any rows of a table.

    Parameters
    ----------
    regressors : float64 array of shape (n_rows, n_regressors)
        Standardised, without missing entries.
    targets : float64 array of shape (n_rows, n_targets)
    weight : float64 array of shape (n_rows,), optional
    penalty : LinearPenalty
    least_rows : int
        Fits to fewer rows are constants.
    penalised : bool
        Whether losses include the penalty.
    """

    def __init__(self, regressors, targets, weight, penalty, int least_rows=0,
                 bint penalised=False):
        cdef int p = regressors.shape[1] + 1, k = targets.shape[1]
        cdef intp_t n = regressors.shape[0]
        if targets.shape[0] != n or (weight is not None and weight.shape[0] != n):
            raise ValueError("regressors, targets and weights must have the same rows")
        if k < 1 or n < 1:
            raise ValueError("a linear problem needs a row and a target")
        if p + k > 20000:
            raise ValueError(f"{p + k} columns are too many for a table of their products")
        self.width = ht_vector_bytes()
        self.n_padded = ht_padded(p + k)
        self.cell_size = ht_cell_size(self.n_padded)
        self.table = aligned_empty((n, self.n_padded), np.float64)
        self.view = self.table
        self.table[:, 0] = 1.0
        self.table[:, 1:p] = regressors
        self.table[:, p:p + k] = targets
        self.table[:, p + k:] = 0.0
        self.weight = None
        if weight is not None:
            self.weight = weight
            self.table *= np.sqrt(weight)[:, None]
        self.at = np.empty(ht_triangle_size(p, k), dtype=np.int32)
        ht_fill_triangle(self.n_padded, p, k, &self.at[0])
        total = float(n) if weight is None else float(np.sum(weight))
        self.least = np.append(0.0, np.full(p - 1, CONSTANT * total))
        self.per_weight = np.append(0.0, np.broadcast_to(penalty.l2_per_weight, p - 1))
        self.absolute = np.append(0.0, np.broadcast_to(penalty.l2_absolute, p - 1))
        self.l1_per_weight = np.append(0.0, np.broadcast_to(penalty.l1_per_weight, p - 1))
        self.rules.n_columns = p
        self.rules.n_targets = k
        self.rules.tail = self.cell_size - 8
        self.rules.at = &self.at[0]
        self.rules.relative = penalty.l2_relative
        self.rules.relative_sum = penalty.l2_relative_sum
        self.rules.per_weight = &self.per_weight[0]
        self.rules.absolute = &self.absolute[0]
        self.rules.least = &self.least[0]
        self.rules.tolerance = TOLERANCE
        self.rules.least_rows = least_rows
        self.rules.has_ridge = penalty.has_l2
        self.rules.penalised = penalised
        self.rules.has_lasso = penalty.has_l1
        self.rules.l1_sum = penalty.l1_sum
        self.rules.l1 = penalty.l1_relative
        self.rules.l1_per_weight = &self.l1_per_weight[0]

    @property
    def n_columns(self):
        """Regressors and the intercept."""
        return self.rules.n_columns

    @property
    def n_targets(self):
        """Number of targets."""
        return self.rules.n_targets

    cdef intp_t scratch_size(self) noexcept nogil:
        """Doubles that `losses` needs."""
        if self.rules.has_lasso:
            return ht_lasso_scratch(self.rules.n_columns, self.rules.n_targets)
        return ht_ridge_scratch(self.rules.n_columns, self.rules.n_targets)

    cdef void add_rows(self, const uint32_t* rows, intp_t n, float64_t* cell) noexcept nogil:
        """Add some rows to a cell."""
        cdef intp_t i
        cdef float64_t weight = 0.0
        ht_add_moments(self.width, &self.view[0, 0], self.n_padded, rows, n, self.n_padded, cell)
        if self.weight is None:
            weight = <float64_t>n
        else:
            for i in range(n):
                weight += self.weight[rows[i]]
        cell[self.rules.tail] += <float64_t>n
        cell[self.rules.tail + 1] += weight

    cdef void losses(
        self, const float64_t* cells, intp_t stride, const float64_t* total, int n,
        const float64_t* start, float64_t* scratch, float64_t* loss, float64_t* coef,
    ) noexcept nogil:
        """OUT losses and coefficients of n fits: to cells, or to what they leave of a total."""
        if self.rules.has_lasso:
            ht_lasso_losses(&self.rules, cells, stride, total, n, start, scratch, loss, coef)
        else:
            ht_ridge_losses(self.width, &self.rules, cells, stride, total, n, scratch, loss, coef)

    # ---- for Python ---------------------------------------------------------------------------

    def collect(self, const uint32_t[::1] rows):
        """Return the cell of some rows."""
        cdef intp_t i
        cell = np.zeros(self.cell_size)
        cdef float64_t[::1] out = cell
        for i in range(rows.shape[0]):
            if rows[i] >= <uint32_t>self.view.shape[0]:
                raise ValueError("a row id is out of range")
        if rows.shape[0]:
            self.add_rows(&rows[0], rows.shape[0], &out[0])
        return cell

    def solve(self, const float64_t[:, ::1] cells, start=None):
        """Fit each of some cells.

        Returns
        -------
        loss : float64 array of shape (n_cells,)
        coef : float64 array of shape (n_cells, n_targets, n_columns)
            The intercept first.
        """
        cdef int n = <int>cells.shape[0]
        cdef float64_t[::1] begin, scratch = aligned_empty(self.scratch_size(), np.float64)
        if cells.shape[1] < self.cell_size:
            raise ValueError("the cells are of another problem")
        loss = np.zeros(n)
        coef = np.zeros((n, self.n_targets, self.n_columns))
        begin = np.zeros(self.n_targets * self.n_columns) if start is None else start.ravel()
        cdef float64_t[::1] loss_view = loss
        cdef float64_t[:, :, ::1] coef_view = coef
        if n:
            self.losses(&cells[0, 0], cells.shape[1], NULL, n, &begin[0], &scratch[0],
                        &loss_view[0], &coef_view[0, 0, 0])
        return loss, coef

    def products(self, const float64_t[:, ::1] cells):
        """Sums of products of all columns, (n_cells, n, n) with the targets last, and the weights.

        Products of two different targets are not among them.
        """
        cdef int i, j, m = self.rules.n_columns + self.rules.n_targets
        index = np.empty((m, m), dtype=np.intp)
        for i in range(m):
            for j in range(i, m):
                index[i, j] = index[j, i] = ht_cell_at(self.n_padded, i, j)
        given = np.asarray(cells)
        return given[:, index], given[:, self.rules.tail + 1]

    def reweight(self, const uint32_t[::1] rows, const float64_t[:, ::1] regressors,
                 const float64_t[::1] curvature, const float64_t[:, ::1] targets):
        """Give some rows new weights in the sums of products, and new targets.

        Weights for the rules of leaves and penalties stay those of the problem.

        Parameters
        ----------
        rows : row ids
        regressors : the table that the problem was made of
        curvature, targets : one entry per id
        """
        cdef intp_t i, j, p = self.rules.n_columns, k = self.rules.n_targets
        cdef float64_t root
        cdef float64_t* out
        if (curvature.shape[0] != rows.shape[0] or targets.shape[0] != rows.shape[0]
                or targets.shape[1] != k or regressors.shape[1] != p - 1
                or regressors.shape[0] != self.view.shape[0]):
            raise ValueError("one weight and one set of targets per row are needed")
        for i in range(rows.shape[0]):
            if rows[i] >= <uint32_t>self.view.shape[0]:
                raise ValueError("a row id is out of range")
        with nogil:
            for i in range(rows.shape[0]):
                out = &self.view[rows[i], 0]
                root = sqrt(curvature[i])
                out[0] = root
                for j in range(p - 1):
                    out[1 + j] = root * regressors[rows[i], j]
                for j in range(k):
                    out[p + j] = root * targets[i, j]


# ---------------------------------------------------------------------------------------------
# Candidate cuts of one feature, by the loss of linear models on both sides.
#
# The sums of products of a node are collected by bin; those left of a cut are running sums over the
# bins, those right of it what the node's total leaves. Categories are first put in the order of
# their mean residuals under the node's own fit.


cdef enum:
    SORT_BLOCK = 2048        # rows sorted by bin at a time: their regressors stay in the cache


cdef inline void sort_by_code(
    const uint8_t* codes, const uint32_t* rows, intp_t n, int32_t n_codes,
    int32_t* start, uint32_t* sorted_rows,
) noexcept nogil:
    """OUT rows by code, and where each code's rows start; `start` has n_codes + 1 entries."""
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
    """Put a split among the best ones; of equal ones the first stands first."""
    cdef intp_t k = n_kept
    while k > 0 and (out[k - 1].feature < 0 or split.gain > out[k - 1].gain):
        k -= 1
        if k + 1 < n_kept:
            out[k + 1] = out[k]
    if k < n_kept:
        out[k] = split[0]


cdef class LinearScan:
    """Scans features; its buffers are reused, those of a thread are its own.

    Parameters
    ----------
    bins : BinnedView
    problem : LinearProblem
    n_threads : int
    """

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
        """Fit the node; `coef` is where the descent starts, and OUT."""
        self.problem.losses(at.total, 0, NULL, 1, at.coef, &self.scratch[0, 0], &at.loss, at.coef)

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

    cdef void search(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
        SplitInfo* out, intp_t n_kept,
    ) noexcept nogil:
        """OUT the best cuts of a feature, feature -1 where there are fewer."""
        cdef int32_t order[N_CODES]
        cdef int32_t b, n_bins = self.bins.view.n_bins[feature]
        cdef int t
        cdef intp_t k
        for k in range(n_kept):
            out[k].feature = -1
        if not self.bins.view.is_categorical[feature]:
            for b in range(n_bins):
                order[b] = b
            self.search_order(at, feature, cells, thread, order, n_bins, out, n_kept)
            return
        for t in range(self.problem.rules.n_targets):
            self.order_by_residual(at, feature, cells, t, order)
            self.search_order(at, feature, cells, thread, order, n_bins, out, n_kept)

    cdef void search_order(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int thread,
        const int32_t* order, int32_t n, SplitInfo* out, intp_t n_kept,
    ) noexcept nogil:
        """Try the cuts of bins in some order, missing rows on either side."""
        cdef int32_t cuts[257]
        cdef int32_t k, n_cuts, side, n_sides = 1
        cdef intp_t size = self.problem.cell_size
        cdef const float64_t* missing = cells + self.bins.view.n_bins[feature] * size
        cdef float64_t* left = &self.losses[thread, 0]
        cdef float64_t* right = left + self.most_cells
        cdef float64_t* sums = &self.sums[thread, 0]
        cdef float64_t gain
        cdef SplitInfo split
        cdef int tail = self.problem.rules.tail
        if missing[tail] > 0:
            n_sides = 2
        for side in range(n_sides):
            n_cuts = self.list_cuts(at, cells, missing if side else NULL, thread, order, n, cuts)
            if n_cuts == 0:
                continue
            self.problem.losses(sums, size, NULL, n_cuts, at.coef, &self.scratch[thread, 0], left,
                                NULL)
            self.problem.losses(sums, size, at.total, n_cuts, at.coef, &self.scratch[thread, 0],
                                right, NULL)
            for k in range(n_cuts):
                gain = at.loss - left[k] - right[k]
                if gain > at.least_gain and (
                    out[n_kept - 1].feature < 0 or gain > out[n_kept - 1].gain
                ):
                    self.fill_split(feature, cells, order, cuts[k],
                                    larger_left(sums[k * size + tail], at.total[tail]), &split)
                    split.gain = gain
                    split.missing_left = UNDECIDED if n_sides == 1 else side
                    keep_best(out, n_kept, &split)

    cdef int32_t list_cuts(
        self, const ScanNode* at, const float64_t* cells, const float64_t* before, int thread,
        const int32_t* order, int32_t n, int32_t* cuts,
    ) noexcept nogil:
        """OUT positions of the cuts that leave both sides large enough, and their left sums."""
        cdef intp_t size = self.problem.cell_size
        cdef int tail = self.problem.rules.tail
        cdef float64_t* sums = &self.sums[thread, 0]
        cdef float64_t* running = sums + self.most_cells * size
        cdef int32_t c, n_cuts = 0
        cdef float64_t rows_right, weight_right
        if before == NULL:
            memset(running, 0, size * sizeof(float64_t))
        else:
            memcpy(running, before, size * sizeof(float64_t))
        for c in range(n):
            if cells[order[c] * size + tail] == 0:
                continue
            ht_combine(self.problem.width, running, cells + order[c] * size, size, 1.0)
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


# ---------------------------------------------------------------------------------------------
# A quick look at features, before some of them are searched in full.
#
# A cut changes the node's fit where the residuals left of it go along with a regressor. With z the
# regressors (the intercept among them), r the residuals and H = sum z z', a cut with the share s of
# the rows on its left gains about
#
#     S' H^-1 S / (s (1 - s)),    S = sum over the left rows of z r  -  s (that of all rows),
#
# which would be exact if the left rows had the products s H (the score test of Rao 1948). The sums
# of z r are as many as regressors, where the full search needs all their products.


cdef enum:
    BLOCK_BYTES = 262144      # rows that stay in the cache while all features pass over them
    MOST_BYTES = 16777216     # of the sums of the features that do so together


cdef class LinearScreen:
    """Scores features; its buffers are reused, those of a thread are its own.

    Parameters
    ----------
    bins : BinnedView
    problem : LinearProblem
    n_threads : int
    """

    def __init__(self, BinnedView bins, LinearProblem problem, int n_threads):
        cdef intp_t n_features = bins.view.n_features, n_columns = problem.n_columns
        self.bins = bins
        self.problem = problem
        self.most_cells = int(np.max(bins.n_bins)) + 1
        # Behind the sums of a bin stand its rows and its weight.
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
        """Factor the products of a node's regressors."""
        ht_factor(&self.problem.rules, at.total, &self.factor[0])

    cdef void take_residuals(
        self, const ScanNode* at, int target, const uint32_t* rows, intp_t n,
    ) noexcept nogil:
        """Residuals of a target under the node's fit."""
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
        """Add to the scores of some features, at most a chunk of them, what their best cuts gain.

        A feature that cannot be cut gets minus infinity.
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
        """What the best cut of a feature gains, from the sums of its bins, missing rows last."""
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
            k = b
            if self.bins.view.is_categorical[feature]:
                # In the order of the mean residuals, as the search will have them.
                mean[b] = cell[0] / cell[rows_at + 1] if cell[rows_at + 1] > 0 else 0.0
                while k > 0 and mean[order[k - 1]] > mean[b]:
                    order[k] = order[k - 1]
                    k -= 1
            order[k] = b
        for side in range(2 if missing[rows_at] > 0 else 1):
            rows_left = missing[rows_at] if side else 0.0
            weight_left = missing[rows_at + 1] if side else 0.0
            for i in range(p):
                moved[i * lanes] = missing[i] if side else 0.0
            n_cuts = 0
            # Running sums of every regressor at the cuts that are allowed.
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
