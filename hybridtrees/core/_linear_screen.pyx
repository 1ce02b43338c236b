"""A quick look at features, before some of them are searched in full.

A cut changes the node's fit where the residuals left of it go along with a regressor. With z the
regressors (the intercept among them), r the residuals and H = sum z z', a cut with the share s of
the rows on its left gains about

    S' H^-1 S / (s (1 - s)),    S = sum over the left rows of z r  -  s (that of all rows),

which would be exact if the left rows had the products s H (the score test of Rao 1948). The sums
of z r are as many as regressors, where the full search needs all their products.
"""

from libc.math cimport INFINITY
from libc.string cimport memset

from hybridtrees.core._linear_kernels cimport (
    ht_add_scores, ht_factor, ht_forward, ht_padded,
)
from hybridtrees.core._linear_problem cimport LinearProblem
from hybridtrees.core._linear_scan cimport ScanNode
from hybridtrees.core._types cimport float64_t, int32_t, intp_t, uint32_t
from hybridtrees.core._views cimport BinnedView

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

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
        cdef int32_t order[256]
        cdef float64_t mean[256]
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
