"""Candidate cuts of one feature, by the loss of linear models on both sides.

The sums of products of a node are collected by bin; those left of a cut are running sums over the
bins, those right of it what the node's total leaves. Categories are first put in the order of
their mean residuals under the node's own fit.
"""

from libc.string cimport memcpy, memset

from hybridtrees.core._linear_kernels cimport ht_combine
from hybridtrees.core._linear_problem cimport LinearProblem
from hybridtrees.core._types cimport (
    SplitInfo, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)
from hybridtrees.core._views cimport BinnedView

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

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
        cdef int32_t order[256]
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
            self.order_categories(at, feature, cells, t, order)
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
                                    2 * sums[k * size + tail] > at.total[tail], &split)
                    split.gain = gain
                    split.missing_left = 2 if n_sides == 1 else side
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

    cdef void order_categories(
        self, const ScanNode* at, int32_t feature, const float64_t* cells, int target,
        int32_t* order,
    ) noexcept nogil:
        """OUT bins by the mean residual of a target under the node's fit."""
        cdef float64_t mean[256]
        cdef int p = self.problem.rules.n_columns, end = p * (p + 1) // 2, j
        cdef const int32_t* place = self.problem.rules.at
        cdef const float64_t* coef = at.coef + target * p
        cdef const float64_t* cell
        cdef float64_t residual
        cdef int32_t b, k
        for b in range(self.bins.view.n_bins[feature]):
            cell = cells + b * self.problem.cell_size
            mean[b] = 0.0
            if cell[self.problem.rules.tail] > 0 and cell[place[0]] > 0:
                residual = cell[place[end + target * (p + 1)]]
                for j in range(p):
                    residual -= coef[j] * cell[place[j * (j + 1) // 2]]
                mean[b] = residual / cell[place[0]]
            k = b
            while k > 0 and mean[order[k - 1]] > mean[b]:
                order[k] = order[k - 1]
                k -= 1
            order[k] = b

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
            # Categories that the node has not seen follow the larger child.
            if (left_is_larger if cells[b * self.problem.cell_size + self.problem.rules.tail] == 0
                    else c <= cut):
                split.categories[b >> 5] |= <uint32_t>1 << (b & 31)
