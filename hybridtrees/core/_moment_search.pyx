"""Splits scored by the linear models of the children (Shi, Li and Li 2019).

Every node has a short list of regressors: those of its parent and the feature that the parent was
split on, up to a limit. In the search a feature stands at the means of its bins, in standard
units; the leaves are fitted afterwards, to the values themselves (`_leaf_moments`).

Gradients and hessians are in the integer histograms of `HistogramSearch`, where a sibling is had by
subtraction. The moments with the regressors differ from sibling to sibling. They are summed for
groups of features and used at once, so that they take little memory; in nodes of very many rows a
sample of the rows tells their means in each bin.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, sqrt
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from hybridtrees.core._histogram_search cimport HistogramSearch
from hybridtrees.core._moment_histogram cimport (
    GROUP_FEATURES, MAX_REGRESSORS, MomentTerms, build_moments, moment_cell_size,
)
from hybridtrees.core._moment_scan cimport gains_of_cuts, scan_moments
from hybridtrees.core._moment_score cimport (
    ADDITIVE, FULL, MAX_SUMS, SCAN_SUMS, MomentScan, NodeModel, SideModel,
)
from hybridtrees.core._nodes cimport GrowNode
from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._rng cimport keyed
from hybridtrees.core._simd cimport ht_vector_bytes
from hybridtrees.core._split cimport node_score
from hybridtrees.core._types cimport (
    UNIT, SplitInfo, float32_t, float64_t, int8_t, int32_t, intp_t, uint32_t, uint64_t,
)

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

FITS = {"half_additive": 0, "additive": 1, "full": 2}

cdef enum:
    CELL_BYTES = 1 << 19         # of one group's cells, so that they stay near the processor
    STREAM_SAMPLE = 7            # stream of the draws of rows
    PARALLEL_UPDATES = 65536

cdef float64_t TIE = 1e-7        # as in the search without linear models


cdef class MomentSearch(HistogramSearch):
    """Searches the nodes of trees with linear leaves on one BinnedMatrix.

    Parameters
    ----------
    binned, params, use_tail, n_threads
        As for `HistogramSearch`.
    fit : {"half_additive", "additive", "full"}
    max_regressors : int
    bin_values : sequence of float64 arrays or None
        Mean of the values in each bin of each feature, in standard units; None for a feature
        that does not regress.
    sample_rows : int
        Nodes of more rows take their moments from about so many; 0 for all rows.
    """

    cdef NodeModel* models
    cdef int32_t model_capacity
    cdef int32_t fit, max_regressors
    cdef intp_t sample_rows
    cdef float64_t[::1] values             # of bins, feature by feature
    cdef intp_t[::1] value_start           # -1: the feature does not regress
    cdef uint32_t[::1] sample
    cdef float64_t[:, ::1] cells           # per thread
    cdef float32_t[:, ::1] narrow
    cdef float64_t[:, ::1] sums
    cdef float32_t[::1] tables
    cdef int32_t[::1] present              # features of the terms
    cdef int8_t signs[MAX_REGRESSORS]
    cdef int32_t group_size

    def __cinit__(self):
        self.models = NULL
        self.model_capacity = 0

    def __init__(self, binned, params, bint use_tail, int n_threads, fit, max_regressors,
                 bin_values, sample_rows):
        HistogramSearch.__init__(self, binned, params, use_tail, n_threads)
        if not 0 < max_regressors <= MAX_REGRESSORS:
            raise ValueError(f"max_regressors must lie between 1 and {MAX_REGRESSORS}")
        if len(bin_values) != self.n_features:
            raise ValueError("bin_values must have one entry per feature")
        self.fit = FITS[fit]
        self.max_regressors = max_regressors
        self.sample_rows = sample_rows
        self.read_values(bin_values, binned.n_bins)
        cdef intp_t size = moment_cell_size(
            max_regressors if self.fit == FULL else 1, sample_rows > 0)
        largest = int(np.diff(self.bins.cell_start).max())
        self.group_size = <int32_t>max(1, min(GROUP_FEATURES, CELL_BYTES // (8 * size * largest)))
        # A whole number of cache lines, so that the cells of every thread are aligned.
        n = (self.group_size * largest * size + 15) // 16 * 16
        self.cells = aligned_empty((n_threads, n), np.float64)
        self.narrow = aligned_empty((n_threads, n), np.float32)
        self.sums = np.empty((n_threads, SCAN_SUMS))
        self.tables = np.zeros(256 * MAX_REGRESSORS, dtype=np.float32)
        self.present = np.zeros(MAX_REGRESSORS, dtype=np.int32)
        self.sample = np.empty(2 * sample_rows + 1, dtype=np.uint32)

    def __dealloc__(self):
        free(self.models)

    cdef int read_values(self, bin_values, n_bins) except -1:
        starts, parts, position = [], [np.zeros(1)], 1
        for f, values in enumerate(bin_values):
            if values is None:
                starts.append(-1)
                continue
            if len(values) != n_bins[f] or not np.isfinite(values).all():
                raise ValueError(f"bin_values of feature {f} do not fit its bins")
            starts.append(position)
            parts.append(values)
            position += len(values)
        self.values = np.concatenate(parts)
        self.value_start = np.array(starts, dtype=np.intp)
        return 0

    # ---- models of nodes ----------------------------------------------------------------------

    cdef int reserve_models(self, int32_t n) except -1 nogil:
        cdef NodeModel* models
        if n > self.model_capacity:
            n = max(n, 2 * self.model_capacity)
            models = <NodeModel*>realloc(self.models, n * sizeof(NodeModel))
            if models == NULL:
                with gil:
                    raise MemoryError("no memory for the linear models of the nodes")
            self.models = models
            self.model_capacity = n
        return 0

    cdef const float64_t* values_of(self, int32_t feature) noexcept nogil:
        return &self.values[self.value_start[feature]]

    cdef int32_t find_regressor(self, const NodeModel* model, int32_t feature) noexcept nogil:
        cdef int32_t j
        for j in range(model.n_regressors):
            if model.feature[j] == feature:
                return j
        return -1

    cdef bint may_join(self, const NodeModel* model, int32_t feature) noexcept nogil:
        """Whether the feature gets a coefficient in children that are split on it."""
        cdef int32_t at
        if self.value_start[feature] < 0:
            return False
        at = self.find_regressor(model, feature)
        if at < 0:
            return model.n_regressors < self.max_regressors
        # Its own coefficient is free already where all are, or where it is the only one.
        return self.fit != FULL and not (self.fit != ADDITIVE and model.n_regressors == 1)

    cdef void make_child(
        self, const NodeModel* parent, const SideModel* side, int32_t feature, bint joins,
        NodeModel* child,
    ) noexcept nogil:
        """Model of a child, from that of its parent and what the split makes of it."""
        cdef int32_t j, at
        cdef float64_t size, moved
        memset(child, 0, sizeof(NodeModel))
        child.n_regressors = parent.n_regressors
        size = sqrt(side.variance) if side.variance > 0 else 0.0
        child.scale = size
        child.value = side.value
        for j in range(parent.n_regressors):
            child.feature[j] = parent.feature[j]
            child.center[j] = parent.center[j]
            child.coef[j] = side.factor * parent.coef[j]
        child.offset = side.factor * (parent.offset - side.mean)
        if joins:
            at = self.find_regressor(parent, feature)
            if at < 0:
                at = child.n_regressors
                child.n_regressors += 1
                child.feature[at] = feature
                child.center[at] = side.center
            else:
                moved = side.center - child.center[at]
                child.offset += child.coef[at] * moved
                child.center[at] = side.center
            child.coef[at] += side.coef
        if size <= 0:
            for j in range(child.n_regressors):
                child.coef[j] = 0
            child.offset = 0
            return
        for j in range(child.n_regressors):
            child.coef[j] /= size
        child.offset /= size

    # ---- search -------------------------------------------------------------------------------

    cdef void fill_terms(self, int32_t node, bint sampled, MomentTerms* terms) noexcept nogil:
        """Tables of what each code of the regressors contributes; none where nothing would."""
        cdef NodeModel* model = &self.models[node]
        cdef int32_t j, b, f, n = 0
        cdef float64_t factor
        cdef const float64_t* values
        terms.grad = &self.grad[0]
        terms.quantised = NULL
        if self.statistics.view.layout == UNIT:
            terms.quantised = self.statistics.view.data
            terms.quantised_step = self.statistics.view.stride
            terms.unit = self.statistics.view.grad_unit
        terms.hess = &self.hess[0] if self.hess is not None else NULL
        terms.constant_hess = self.constant_hess
        terms.summed = self.fit != FULL
        terms.feature = &self.present[0]
        terms.tables = &self.tables[0]
        terms.offset = model.offset if terms.summed else 0.0
        for j in range(model.n_regressors):
            factor = model.coef[j] if terms.summed else 1.0
            if factor == 0:
                continue
            f = model.feature[j]
            values = self.values_of(f)
            for b in range(256):
                self.tables[256 * n + b] = 0
            for b in range(self.bins.view.n_bins[f]):
                self.tables[256 * n + b] = <float32_t>(factor * (values[b] - model.center[j]))
            self.signs[n] = self.rules.monotone[f] if self.rules.monotone != NULL else 0
            self.present[n] = f
            n += 1
        terms.n_terms = n
        terms.with_grad = sampled
        terms.width = ht_vector_bytes()
        terms.cell_size = moment_cell_size(1 if terms.summed else n, sampled)

    cdef intp_t draw_rows(self, int32_t node, const uint32_t** rows) noexcept nogil:
        """Rows that the moments of a node are summed over: all, or one of every few in a row."""
        cdef GrowNode* n = &self.store.nodes[node]
        cdef intp_t count = n.stop - n.start, step, i, drawn
        cdef uint64_t key = keyed(n.key, STREAM_SAMPLE, 0)
        rows[0] = &self.rows[0] + n.start
        if self.sample_rows <= 0 or count <= 2 * self.sample_rows:
            return count
        step = count // self.sample_rows
        drawn = count // step
        for i in range(drawn):
            # A fixed place in every stretch could meet a period of the table.
            key = key * <uint64_t>6364136223846793005 + <uint64_t>1442695040888963407
            self.sample[i] = rows[0][i * step + <intp_t>((key >> 33) % <uint64_t>step)]
        rows[0] = &self.sample[0]
        return drawn

    cdef void open_scan(self, int32_t node, const MomentTerms* terms, bint sampled,
                        float64_t* sums, MomentScan* scan) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        scan.stats = &self.statistics.view
        scan.rules = &self.rules
        scan.bounds = &n.bounds if self.rules.monotone != NULL else NULL
        scan.fit = self.fit
        scan.n_regressors = 0
        if terms.n_terms > 0:
            scan.n_regressors = 1 if terms.summed else terms.n_terms
        scan.cell_size = terms.cell_size
        scan.sampled = sampled
        scan.scale = self.models[node].scale
        scan.value = self.models[node].value
        scan.signs = self.signs
        scan.all_values = sums
        scan.lacking = sums + MAX_SUMS
        scan.left = sums + 2 * MAX_SUMS
        scan.right = sums + 3 * MAX_SUMS
        scan.order = <int32_t*>(sums + 4 * MAX_SUMS)
        scan.candidates = sums + 4 * MAX_SUMS + 512
        scan.width = ht_vector_bytes()

    cdef void scan_one(
        self, int32_t node, MomentScan* scan, int32_t feature, const float64_t* moments,
        SplitInfo* info, SideModel* sides,
    ) noexcept nogil:
        self.place_scan(node, scan, feature, moments)
        scan_moments(scan, &self.bins.view, feature, &self.store.nodes[node].sums, info, sides)

    cdef void place_scan(
        self, int32_t node, MomentScan* scan, int32_t feature, const float64_t* moments
    ) noexcept nogil:
        """Point a scan at a feature."""
        cdef GrowNode* n = &self.store.nodes[node]
        scan.cells = (self.pool.slots[n.slot]
                      + <intp_t>self.bins.view.cell_start[feature] * self.statistics.view.n_words)
        scan.moments = moments
        scan.x = NULL
        if self.may_join(&self.models[node], feature):
            scan.x = self.values_of(feature)
        scan.monotone = 0
        if self.rules.monotone != NULL and not self.bins.view.is_categorical[feature]:
            scan.monotone = self.rules.monotone[feature]

    cdef void scan_group(
        self, int32_t node, const MomentTerms* terms, const uint32_t* rows, intp_t n_rows,
        bint sampled, const int32_t* features, int32_t n_features, int thread, SplitInfo* out,
        SideModel* sides,
    ) noexcept nogil:
        """Best cut of each of some features; with `sides` those of the one feature given."""
        cdef MomentScan scan
        cdef uint32_t start[GROUP_FEATURES]
        cdef int32_t j
        cdef const float64_t* moments = NULL
        self.open_scan(node, terms, sampled, &self.sums[thread, 0], &scan)
        if scan.n_regressors > 0:
            build_moments(&self.bins.view, terms, rows, n_rows, features, n_features, start,
                          &self.cells[thread, 0], &self.narrow[thread, 0])
        for j in range(n_features):
            if scan.n_regressors > 0:
                moments = &self.cells[thread, 0] + <intp_t>start[j] * terms.cell_size
            self.scan_one(node, &scan, features[j], moments, out + j, sides)

    cdef void search(self, int32_t node, int32_t lane, int n_threads) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[node]
        cdef NodeModel* model = &self.models[node]
        cdef int32_t k = 0, j, group, n_groups, size
        cdef const int32_t* features = self.draw_node_features(node, lane, &k)
        cdef const uint32_t* rows
        cdef MomentTerms terms
        cdef intp_t n_rows
        cdef bint sampled
        cdef float64_t least, parent
        n_rows = self.draw_rows(node, &rows)
        sampled = n_rows < n.stop - n.start
        self.fill_terms(node, sampled, &terms)
        if n_rows * k < PARALLEL_UPDATES:
            n_threads = 1
        # As many groups as threads, unless their cells would be too large.
        n_groups = max((k + self.group_size - 1) // self.group_size, min(n_threads, k))
        size = (k + n_groups - 1) // n_groups if n_groups > 0 else 1
        for group in prange(n_groups, num_threads=n_threads, schedule="dynamic", chunksize=1):
            if group * size < k:
                self.scan_group(node, &terms, rows, n_rows, sampled, features + group * size,
                                min(size, k - group * size), omp_get_thread_num(),
                                self.by_feature + group * size, NULL)
        parent = node_score(<float64_t>n.sums.grad * self.statistics.view.grad_unit,
                            <float64_t>n.sums.hess * self.statistics.view.hess_unit,
                            &self.rules, NULL)
        least = max(self.rules.min_gain, 1e-12 * parent)
        n.split.feature = -1
        n.split.gain = -INFINITY
        for j in range(k):
            if self.by_feature[j].gain > 0 and self.by_feature[j].gain >= least and (
                n.split.feature < 0
                or self.by_feature[j].gain > n.split.gain + TIE * (parent + n.split.gain)
            ):
                n.split.feature = self.by_feature[j].feature
                n.split.gain = self.by_feature[j].gain
        if n.split.feature >= 0:
            j = n.split.feature
            model.joins = self.may_join(model, j)
            self.scan_group(node, &terms, rows, n_rows, sampled, &j, 1, 0, &n.split,
                            &model.side[0])
        n.split.key = <uint32_t>n.split.bin
        n.split.category_start = -1

    # ---- what the grower asks -----------------------------------------------------------------

    cdef int open_root(self) except -1 nogil:
        HistogramSearch.open_root(self)
        self.reserve_models(64)
        memset(&self.models[0], 0, sizeof(NodeModel))
        return 0

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        self.child_histograms(node, left, right)
        if left:
            self.search(self.store.nodes[node].left, 0, self.n_threads)
        if right:
            self.search(self.store.nodes[node].right, 0, self.n_threads)
        return 0

    cdef int divide(self, int32_t node) except -1 nogil:
        cdef NodeModel* model
        cdef GrowNode* n
        self.reserve_models(self.store.n_nodes)
        HistogramSearch.divide(self, node)
        n = &self.store.nodes[node]
        model = &self.models[node]
        self.make_child(model, &model.side[0], n.split.feature, model.joins, &self.models[n.left])
        self.make_child(model, &model.side[1], n.split.feature, model.joins, &self.models[n.right])
        return 0

    # ---- entry points -------------------------------------------------------------------------

    def node_models(self):
        """Linear models of the nodes of the last tree.

        Returns
        -------
        models : dict of arrays, one row per node: `n_regressors`, `feature`, `coef` and `center`
            (in standard units), `offset`, `scale`, `value`, and `joined`, the place of the
            feature that the parent was split on among the regressors, -1: it is none
        """
        cdef int32_t k, j, n = self.store.n_nodes
        cdef NodeModel* model
        cdef GrowNode* parent
        count = np.zeros(n, dtype=np.int32)
        joined = np.full(n, -1, dtype=np.int32)
        feature = np.full((n, MAX_REGRESSORS), -1, dtype=np.int32)
        numbers = np.zeros((2, n, MAX_REGRESSORS))
        singles = np.zeros((3, n))
        cdef int32_t[::1] counts = count, joins = joined
        cdef int32_t[:, ::1] features = feature
        cdef float64_t[:, :, ::1] terms = numbers
        cdef float64_t[:, ::1] single = singles
        for k in range(n):
            model = &self.models[k]
            counts[k] = model.n_regressors
            single[0, k] = model.offset
            single[1, k] = model.scale
            single[2, k] = model.value
            if self.store.nodes[k].parent >= 0:
                parent = &self.store.nodes[self.store.nodes[k].parent]
                if self.models[self.store.nodes[k].parent].joins:
                    joins[k] = self.find_regressor(model, parent.split.feature)
            for j in range(model.n_regressors):
                features[k, j] = model.feature[j]
                terms[0, k, j] = model.coef[j]
                terms[1, k, j] = model.center[j]
        return {"n_regressors": count, "feature": feature, "coef": numbers[0],
                "center": numbers[1], "offset": singles[0], "scale": singles[1],
                "value": singles[2], "joined": joined}

    def node_gains(self, int32_t node, int32_t feature):
        """Gains of all cuts of a number at a node of the last tree, scored one by one.

        Returns
        -------
        gains : float64 array of shape (2, n_bins)
            Behind each bin, with missing rows on the right, then on the left; -inf where a cut
            is not allowed.
        """
        cdef MomentTerms terms
        cdef MomentScan scan
        cdef const uint32_t* rows
        cdef uint32_t start[GROUP_FEATURES]
        cdef intp_t n_rows
        cdef bint sampled
        if not 0 <= node < self.store.n_nodes or not 0 <= feature < self.n_features:
            raise ValueError("no such node or feature")
        gains = np.empty((2, self.bins.view.n_bins[feature]))
        cdef float64_t[:, ::1] out = gains
        self.histogram_of(node)
        n_rows = self.draw_rows(node, &rows)
        sampled = n_rows < self.store.nodes[node].stop - self.store.nodes[node].start
        self.fill_terms(node, sampled, &terms)
        self.open_scan(node, &terms, sampled, &self.sums[0, 0], &scan)
        if scan.n_regressors > 0:
            build_moments(&self.bins.view, &terms, rows, n_rows, &feature, 1, start,
                          &self.cells[0, 0], &self.narrow[0, 0])
        self.place_scan(node, &scan, feature, &self.cells[0, 0])
        gains_of_cuts(&scan, &self.bins.view, feature, &self.store.nodes[node].sums, &out[0, 0])
        self.forget(node)
        return gains
