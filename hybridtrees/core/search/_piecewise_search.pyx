"""The search of PLGB: histograms of moments, the nodes' linear models, splits."""

from cython.parallel cimport prange
from libc.math cimport INFINITY, sqrt
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._rng cimport keyed
from hybridtrees.core.base._simd cimport ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport (
    GRAD_ONLY, HT_ROUNDING, HT_TIE_BINNED, MAX_REGRESSORS, N_CODES, STREAM_SAMPLE, BinView,
    SplitInfo, float32_t, float64_t, int32_t, int8_t, intp_t, uint32_t, uint64_t, uint8_t,
)
from hybridtrees.core.search._histogram cimport BinnedView, RowValues, row_values
from hybridtrees.core.search._histogram_search cimport HistogramSearch
from hybridtrees.core.search._piecewise_scan cimport (
    ADDITIVE, FULL, MAX_SUMS, SCAN_SUMS, MomentScan, NodeModel, SideModel, gains_of_cuts,
    scan_moments,
)
from hybridtrees.core.search._search cimport GrowNode, NodeStore
from hybridtrees.core.search._split cimport node_score

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---- Histograms of the moments of a node's regressors -----------------------------------------
#
# The gradients and hessians of a node are in its integer histogram. What depends on the linear
# model of the node is not: two siblings have different models, so nothing can be had by
# subtraction, and the moments are summed anew for every node; they are needed only while its splits
# are scored. Sums run over the rows in order, feature by feature, so they do not depend on how
# features are shared between threads. Large nodes are summed in float32 within blocks of rows,
# which halves the memory traffic, and the blocks in float64.


cdef extern from "moments.h" nogil:
    ctypedef struct HtMoments:
        const uint8_t* records
        intp_t record_bytes
        const float32_t* grad
        const uint8_t* quantised     # gradients as integers near the codes, or NULL
        intp_t quantised_step        # bytes from row to row
        float32_t unit
        const float32_t* hess        # NULL: `constant_hess` for all rows
        float32_t constant_hess
        const uint32_t* rows
        intp_t n_rows
        int32_t n_terms
        int32_t summed               # one regressor, the sum of the terms
        int32_t with_grad            # cells hold g, too
        const int32_t* term_feature
        const float32_t* tables      # value of each term for each of 256 codes
        float32_t offset             # added to a sum
        const int32_t* features
        int32_t n_features
        int32_t contiguous
        const uint32_t* start
        int32_t cell_size
        void* cells

    void ht_add_moment_rows(const HtMoments* moments, int wide, int width)

cdef enum:
    GROUP_FEATURES = 64          # most features whose cells are filled together
    WIDE_ROWS = 1024             # nodes of at most so many rows are summed in float64
    BLOCK_ROWS = 16384


cdef int32_t moment_cell_size(int32_t n_regressors, bint with_grad) noexcept nogil:
    """Numbers of a cell: h, h r, h r r', g r and perhaps g, filled up to a multiple of four."""
    cdef int32_t n = 1 + 2 * n_regressors + n_regressors * (n_regressors + 1) // 2 + with_grad
    return (n + 3) // 4 * 4


cdef void build_moments(
    const BinView* bins, const HtMoments* terms, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features, uint32_t* start, float64_t* cells,
    float32_t* narrow, int width,
) noexcept nogil:
    """Fill the cells of at most GROUP_FEATURES features; OUT `start`, the first cell of each.

    `terms` says what the node's regressors are made of. `narrow` is scratch of the size of
    `cells`; with NULL everything is summed in float64.
    """
    cdef HtMoments work = terms[0]
    cdef int32_t j
    cdef intp_t n_cells = 0, size, first, i
    work.records, work.record_bytes = bins.records, bins.record_bytes
    work.features, work.n_features, work.contiguous = features, n_features, 1
    work.start = start
    for j in range(n_features):
        start[j] = <uint32_t>n_cells
        n_cells += bins.cell_start[features[j] + 1] - bins.cell_start[features[j]]
        if features[j] != features[0] + j:
            work.contiguous = 0
    size = n_cells * terms.cell_size
    memset(cells, 0, size * sizeof(float64_t))
    if n_rows <= WIDE_ROWS or narrow == NULL:
        work.rows = rows
        work.n_rows = n_rows
        work.cells = cells
        ht_add_moment_rows(&work, 1, width)
        return
    first = 0
    while first < n_rows:
        memset(narrow, 0, size * sizeof(float32_t))
        work.rows = rows + first
        work.n_rows = min(BLOCK_ROWS, n_rows - first)
        work.cells = narrow
        ht_add_moment_rows(&work, 0, width)
        for i in range(size):
            cells[i] += narrow[i]
        first += BLOCK_ROWS


def moments(BinnedView bins, const float32_t[::1] grad, hess, const uint32_t[::1] rows, features,
            const int32_t[::1] term_feature, const float32_t[:, ::1] tables, bint summed,
            bint narrow, bint with_grad=False, int width=0):
    """Cells of some features, as a list of float64 arrays (n_bins + 1, cell_size); for tests.

    `width` is that of the vectors in bytes, at most what the machine has; 0 for just that.
    """
    cdef HtMoments terms
    cdef RowValues values = row_values(grad, hess, bins.view.n_rows)
    cdef const int32_t[::1] listed = np.ascontiguousarray(features, dtype=np.int32)
    cdef uint32_t[::1] start = np.empty(GROUP_FEATURES, dtype=np.uint32)
    cdef float64_t[::1] cells
    cdef float32_t[::1] scratch
    cdef int32_t j, n_terms = <int32_t>term_feature.shape[0]
    terms.grad, terms.hess, terms.constant_hess = values.grad, values.hess, values.constant_hess
    terms.quantised = NULL
    terms.n_terms, terms.summed, terms.with_grad = n_terms, summed, with_grad
    terms.term_feature, terms.tables, terms.offset = &term_feature[0], &tables[0, 0], 0
    terms.cell_size = moment_cell_size(1 if summed else n_terms, with_grad)
    size = sum(int(bins.view.cell_start[f + 1] - bins.view.cell_start[f]) for f in listed)
    cells = aligned_empty(size * terms.cell_size, np.float64)
    scratch = aligned_empty(size * terms.cell_size, np.float32)
    build_moments(&bins.view, &terms, &rows[0], rows.shape[0], &listed[0],
                  <int32_t>listed.shape[0], &start[0], &cells[0],
                  &scratch[0] if narrow else NULL,
                  min(width, ht_vector_bytes()) if width else ht_vector_bytes())
    table = np.asarray(cells).reshape(-1, terms.cell_size)
    return [table[start[j] : start[j] + bins.view.n_bins[listed[j]] + 1].copy()
            for j in range(<int32_t>listed.shape[0])]


# ---- Linear models of the nodes of a tree while it grows (Shi, Li and Li 2019) ----------------
#
# Every node has a short list of regressors: those of its parent and the feature that the parent was
# split on, up to a limit. Features are in standard units, and stand at the means of their bins.


FITS = {"half_additive": 0, "additive": 1, "full": 2}


cdef class NodeModels:
    """The models of all nodes of one tree.

    `bin_values` has the mean of the values in each bin of each feature, in standard units; None for
    a feature that does not regress.
    """

    cdef NodeModel* nodes
    cdef int32_t capacity
    cdef int32_t fit, max_regressors
    cdef float64_t[::1] values             # of bins, feature by feature
    cdef intp_t[::1] value_start           # -1: the feature does not regress

    def __cinit__(self):
        self.nodes = NULL
        self.capacity = 0

    def __init__(self, fit, max_regressors, bin_values, n_bins):
        if not 0 < max_regressors <= MAX_REGRESSORS:
            raise ValueError(f"max_regressors must lie between 1 and {MAX_REGRESSORS}")
        if len(bin_values) != len(n_bins):
            raise ValueError("bin_values must have one entry per feature")
        self.fit = FITS[fit]
        self.max_regressors = max_regressors
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

    def __dealloc__(self):
        free(self.nodes)

    cdef int reserve(self, int32_t n) except -1 nogil:
        cdef NodeModel* nodes
        if n > self.capacity:
            n = max(n, 2 * self.capacity)
            nodes = <NodeModel*>realloc(self.nodes, n * sizeof(NodeModel))
            if nodes == NULL:
                with gil:
                    raise MemoryError("no memory for the linear models of the nodes")
            self.nodes = nodes
            self.capacity = n
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

    def as_arrays(self, NodeStore store):
        """Models of the nodes of a store by name, one row per node.

        Coefficients and centres are in standard units. `joined` is the place of the feature that
        the parent was split on among the regressors, -1: it is none.
        """
        cdef int32_t k, j, n = store.n_nodes
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
            model = &self.nodes[k]
            counts[k] = model.n_regressors
            single[0, k] = model.offset
            single[1, k] = model.scale
            single[2, k] = model.value
            if store.nodes[k].parent >= 0:
                parent = &store.nodes[store.nodes[k].parent]
                if self.nodes[store.nodes[k].parent].joins:
                    joins[k] = self.find_regressor(model, parent.split.feature)
            for j in range(model.n_regressors):
                features[k, j] = model.feature[j]
                terms[0, k, j] = model.coef[j]
                terms[1, k, j] = model.center[j]
        return {"n_regressors": count, "feature": feature, "coef": numbers[0],
                "center": numbers[1], "offset": singles[0], "scale": singles[1],
                "value": singles[2], "joined": joined}


# ---- Splits scored by the linear models of the children (Shi, Li and Li 2019) -----------------
#
# In the search a feature stands at the means of its bins, in units of its own (`NodeModels`); the
# leaves are fitted afterwards, to the values themselves (`leaf_moments`).
#
# Gradients and hessians are in the integer histograms of `HistogramSearch`, where a sibling is had
# by subtraction. The moments with the regressors differ from sibling to sibling. They are summed
# for groups of features and used at once, so that they take little memory; in nodes of very many
# rows a sample of the rows tells their means in each bin. The two children of a node are searched
# side by side, so that threads have enough to do where nodes are small.


cdef enum:
    CELL_BYTES = 1 << 19         # of one group's cells, so that they stay near the processor
    PARALLEL_UPDATES = 65536
    CUT_UPDATES = 16             # as many updates of cells take the time of one cut


cdef struct NodeWork:
    # The search of one node, which threads share by groups of features.
    int32_t node
    int32_t lane                 # two nodes may be searched side by side
    const int32_t* features      # those drawn for the node
    int32_t n_features
    const uint32_t* rows         # those that the moments are summed over
    intp_t n_rows
    bint sampled                 # they are not all rows of the node
    HtMoments terms
    const int8_t* signs          # of the terms
    uint32_t* start              # first cell of each feature in the cells of its group
    SplitInfo* best              # cut of each feature
    intp_t updates               # what there is to do
    int32_t n_groups
    int32_t group_size
    int32_t first_cells          # cells of the first group, -1: they are not kept
    int32_t choice               # place of the best feature, -1: none


cdef class PiecewiseSearch(HistogramSearch):
    """Searches the nodes of trees with linear leaves on one BinnedMatrix.

    Nodes of more than `sample_rows` rows take their moments from about so many; 0 for all rows.
    With an `origin` (n_features,), raw slopes and the output where every feature is 0 are penalised
    (`_piecewise_scan`); the units of `bin_values` are those of the table then, less the origin.
    """

    cdef NodeModels models
    cdef int32_t fit
    cdef intp_t sample_rows
    cdef float64_t[:, ::1] cells           # per group of features
    cdef float32_t[:, ::1] narrow          # per thread
    cdef float64_t[:, ::1] sums
    # per lane
    cdef uint32_t[:, ::1] sample
    cdef uint32_t[:, ::1] start
    cdef float32_t[:, ::1] tables
    cdef int32_t[:, ::1] present           # features of the terms
    cdef int8_t[:, ::1] signs
    cdef float64_t[:, ::1] term_origin
    cdef const float64_t[::1] origin       # None: the penalty is on slopes in standard units
    cdef int32_t group_size, most_bins

    def __init__(self, binned, params, bint use_tail, int n_threads, fit, max_regressors,
                 bin_values, sample_rows, origin=None):
        HistogramSearch.__init__(self, binned, params, use_tail, n_threads)
        self.models = NodeModels(fit, max_regressors, bin_values, binned.n_bins)
        self.fit = self.models.fit
        self.sample_rows = sample_rows
        cdef intp_t size = moment_cell_size(
            max_regressors if self.fit == FULL else 1, sample_rows > 0)
        largest = self.most_bins = int(np.diff(self.bins.cell_start).max())
        self.group_size = <int32_t>max(1, min(GROUP_FEATURES, CELL_BYTES // (8 * size * largest)))
        # A whole number of cache lines, so that the cells of every thread are aligned.
        n = (self.group_size * largest * size + 15) // 16 * 16
        # Two nodes make one group more than there are threads, at most (`share`).
        self.cells = aligned_empty((n_threads + 1, n), np.float64)
        self.narrow = aligned_empty((n_threads, n), np.float32)
        self.sums = np.empty((n_threads, SCAN_SUMS))
        self.sample = np.empty((2, 2 * sample_rows + 1), dtype=np.uint32)
        self.start = np.zeros((2, self.n_features), dtype=np.uint32)
        self.tables = np.zeros((2, N_CODES * MAX_REGRESSORS), dtype=np.float32)
        self.present = np.zeros((2, MAX_REGRESSORS), dtype=np.int32)
        self.signs = np.zeros((2, MAX_REGRESSORS), dtype=np.int8)
        self.term_origin = np.zeros((2, MAX_REGRESSORS))
        if origin is not None and len(origin) != self.n_features:
            raise ValueError("origin must have one entry per feature")
        self.origin = origin

    # ---- search -------------------------------------------------------------------------------

    cdef void fill_terms(self, NodeWork* work) noexcept nogil:
        """Tables of what each code of the regressors contributes; none where nothing would."""
        cdef NodeModel* model = &self.models.nodes[work.node]
        cdef HtMoments* terms = &work.terms
        cdef float32_t* tables = &self.tables[work.lane, 0]
        cdef int32_t j, b, f, n = 0
        cdef float64_t factor
        cdef const float64_t* values
        terms.grad, terms.hess = self.values.grad, self.values.hess
        terms.constant_hess = <float32_t>self.values.constant_hess
        terms.quantised = NULL
        if self.statistics.view.layout == GRAD_ONLY:
            terms.quantised = self.statistics.view.data
            terms.quantised_step = self.statistics.view.stride
            terms.unit = <float32_t>self.statistics.view.grad_unit
        terms.summed = self.fit != FULL
        terms.term_feature = &self.present[work.lane, 0]
        terms.tables = tables
        terms.offset = <float32_t>(model.offset if terms.summed else 0.0)
        for j in range(model.n_regressors):
            factor = model.coef[j] if terms.summed else 1.0
            if factor == 0:
                continue
            f = model.feature[j]
            values = self.models.values_of(f)
            for b in range(N_CODES):
                tables[N_CODES * n + b] = 0
            for b in range(self.bins.view.n_bins[f]):
                tables[N_CODES * n + b] = <float32_t>(factor * (values[b] - model.center[j]))
            self.signs[work.lane, n] = self.rules.monotone[f] if self.rules.monotone != NULL else 0
            self.present[work.lane, n] = f
            n += 1
        work.signs = &self.signs[work.lane, 0]
        terms.n_terms = n
        if self.origin is not None:
            self.fill_origins(work)
        terms.with_grad = work.sampled
        terms.cell_size = moment_cell_size(1 if terms.summed else n, work.sampled)

    cdef void fill_origins(self, NodeWork* work) noexcept nogil:
        """Raw values of the inherited columns where they are 0."""
        cdef NodeModel* model = &self.models.nodes[work.node]
        cdef float64_t* out = &self.term_origin[work.lane, 0]
        cdef float64_t value
        cdef int32_t j
        if work.terms.summed:
            out[0] = -model.offset
        for j in range(model.n_regressors):
            value = model.center[j] + self.origin[model.feature[j]]
            if work.terms.summed:
                out[0] += model.coef[j] * value
            else:
                out[j] = value

    cdef void draw_rows(self, NodeWork* work) noexcept nogil:
        """Rows that the moments of a node are summed over: all, or one of every few in a row."""
        cdef GrowNode* n = &self.store.nodes[work.node]
        cdef const uint32_t* rows = &self.rows[0] + n.start
        cdef uint32_t* sample = &self.sample[work.lane, 0]
        cdef intp_t count = n.stop - n.start, step, i
        cdef uint64_t key = keyed(n.key, STREAM_SAMPLE, 0)
        work.rows = rows
        work.n_rows = count
        work.sampled = self.sample_rows > 0 and count > 2 * self.sample_rows
        if not work.sampled:
            return
        step = count // self.sample_rows
        work.n_rows = count // step
        for i in range(work.n_rows):
            # A fixed place in every stretch could meet a period of the table.
            key = key * <uint64_t>6364136223846793005 + <uint64_t>1442695040888963407
            sample[i] = rows[i * step + <intp_t>((key >> 33) % <uint64_t>step)]
        work.rows = sample

    cdef void open_work(self, int32_t node, int32_t lane, NodeWork* work) noexcept nogil:
        """OUT what there is to do for a node that has a histogram."""
        work.node = node
        work.lane = lane
        work.n_features = 0
        work.features = self.draw_node_features(node, lane, &work.n_features)
        self.draw_rows(work)
        self.fill_terms(work)
        work.start = &self.start[lane, 0]
        work.best = self.by_feature + lane * self.n_features
        # A cell without rows has no cut.
        work.updates = (work.n_rows + CUT_UPDATES * min(work.n_rows, <intp_t>self.most_bins)) * (
            work.n_features)

    cdef int share(self, NodeWork* works, int32_t n_nodes) noexcept nogil:
        """Part the features of one or two nodes into groups; returns the threads they are worth.

        Every group reads all rows of its node, so there are no more of them than keep the threads
        busy, unless their cells would be too large.
        """
        cdef intp_t total = works[0].updates + (works[1].updates if n_nodes > 1 else 0)
        cdef intp_t n_threads = self.n_threads if total >= PARALLEL_UPDATES else 1
        cdef intp_t k, fair
        cdef int32_t lane, n_groups = 0
        cdef NodeWork* work
        for lane in range(n_nodes):
            work = &works[lane]
            k = work.n_features
            # To the nearest: two nodes of like size are a group each.
            fair = (2 * n_threads * work.updates + total) // (2 * total) if total > 0 else 1
            fair = max((k + self.group_size - 1) // self.group_size, min(fair, k), 1)
            work.group_size = <int32_t>max((k + fair - 1) // fair, 1)
            work.n_groups = <int32_t>((k + work.group_size - 1) // work.group_size)
            work.first_cells = n_groups
            n_groups += work.n_groups
        if n_groups > self.cells.shape[0]:
            for lane in range(n_nodes):
                works[lane].first_cells = -1
        return <int>n_threads

    cdef void open_scan(
        self, const NodeWork* work, float64_t* sums, MomentScan* scan
    ) noexcept nogil:
        cdef GrowNode* n = &self.store.nodes[work.node]
        scan.stats = &self.statistics.view
        scan.rules = &self.rules
        scan.bounds = &n.bounds if self.rules.monotone != NULL else NULL
        scan.fit = self.fit
        scan.n_regressors = 0
        if work.terms.n_terms > 0:
            scan.n_regressors = 1 if work.terms.summed else work.terms.n_terms
        scan.cell_size = work.terms.cell_size
        scan.sampled = work.sampled
        scan.scale = self.models.nodes[work.node].scale
        scan.value = self.models.nodes[work.node].value
        scan.signs = work.signs
        scan.ridge = self.rules.reg_lambda
        scan.origin = NULL
        if self.origin is not None:
            scan.origin = &self.term_origin[work.lane, 0]
            if work.terms.summed and scan.n_regressors > 0:
                # The factor of the part above is 1 where the part stays what it was.
                scan.ridge /= scan.scale * scan.scale
        scan.all_values = sums
        scan.lacking = sums + MAX_SUMS
        scan.left = sums + 2 * MAX_SUMS
        scan.right = sums + 3 * MAX_SUMS
        scan.order = <int32_t*>(sums + 4 * MAX_SUMS)
        scan.candidates = sums + 4 * MAX_SUMS + 512
        scan.width = ht_vector_bytes()

    cdef void place_scan(
        self, const NodeWork* work, MomentScan* scan, int32_t at, const float64_t* cells
    ) noexcept nogil:
        """Point a scan at the feature at some place among those drawn."""
        cdef int32_t feature = work.features[at]
        scan.cells = (self.pool.slots[self.store.nodes[work.node].slot]
                      + <intp_t>self.bins.view.cell_start[feature] * self.statistics.view.n_words)
        scan.moments = NULL
        if scan.n_regressors > 0:
            scan.moments = cells + <intp_t>work.start[at] * work.terms.cell_size
        scan.x = NULL
        if self.models.may_join(&self.models.nodes[work.node], feature):
            scan.x = self.models.values_of(feature)
        scan.x_origin = self.origin[feature] if self.origin is not None else 0.0
        scan.monotone = 0
        if self.rules.monotone != NULL and not self.bins.view.is_categorical[feature]:
            scan.monotone = self.rules.monotone[feature]

    cdef void sum_moments(
        self, const NodeWork* work, int32_t first, int32_t n, float64_t* cells, int thread
    ) noexcept nogil:
        """Fill the cells of n features from place `first` on."""
        if work.terms.n_terms > 0:
            build_moments(&self.bins.view, &work.terms, work.rows, work.n_rows,
                          work.features + first, n, work.start + first, cells,
                          &self.narrow[thread, 0], ht_vector_bytes())

    cdef void scan_group(self, const NodeWork* work, int32_t group, int thread) noexcept nogil:
        """Best cut of each feature of a group."""
        cdef MomentScan scan
        cdef int32_t first = group * work.group_size, j
        cdef int32_t n = min(work.group_size, work.n_features - first)
        cdef float64_t* cells = &self.cells[
            thread if work.first_cells < 0 else work.first_cells + group, 0]
        self.open_scan(work, &self.sums[thread, 0], &scan)
        self.sum_moments(work, first, n, cells, thread)
        for j in range(first, first + n):
            self.place_scan(work, &scan, j, cells)
            scan_moments(&scan, &self.bins.view, work.features[j],
                         &self.store.nodes[work.node].sums, work.best + j, NULL)

    cdef void choose(self, NodeWork* work) noexcept nogil:
        """Take the best feature."""
        cdef GrowNode* n = &self.store.nodes[work.node]
        cdef int32_t j
        cdef float64_t gain = -INFINITY
        cdef float64_t parent = node_score(
            <float64_t>n.sums.grad * self.statistics.view.grad_unit,
            <float64_t>n.sums.hess * self.statistics.view.hess_unit, &self.rules, NULL)
        cdef float64_t least = max(self.rules.min_gain, HT_ROUNDING * parent)
        work.choice = -1
        for j in range(work.n_features):
            if work.best[j].gain > 0 and work.best[j].gain >= least and (
                work.choice < 0 or work.best[j].gain > gain + HT_TIE_BINNED * (parent + gain)
            ):
                work.choice = j
                gain = work.best[j].gain
        n.split.feature = -1 if work.choice < 0 else work.features[work.choice]
        n.split.gain = gain

    cdef void describe(self, const NodeWork* work, int thread) noexcept nogil:
        """Write the split of the chosen feature, and the models of its two sides."""
        cdef GrowNode* n = &self.store.nodes[work.node]
        cdef NodeModel* model = &self.models.nodes[work.node]
        cdef int32_t at = work.choice
        cdef float64_t* cells
        cdef MomentScan scan
        if at >= 0:
            if work.first_cells >= 0:
                cells = &self.cells[work.first_cells + at // work.group_size, 0]
            else:
                cells = &self.cells[thread, 0]
                self.sum_moments(work, at, 1, cells, thread)
            self.open_scan(work, &self.sums[thread, 0], &scan)
            self.place_scan(work, &scan, at, cells)
            model.joins = self.models.may_join(model, n.split.feature)
            scan_moments(&scan, &self.bins.view, n.split.feature, &n.sums, &n.split,
                         &model.side[0])
        n.split.key = <uint32_t>n.split.bin
        n.split.category_start = -1

    cdef void search_works(self, NodeWork* works, int32_t n_nodes) noexcept nogil:
        """Find the best splits of one or two nodes."""
        cdef int n_threads = self.share(works, n_nodes)
        cdef int32_t task, lane, n_first = works[0].n_groups
        cdef int32_t n_tasks = n_first + (works[1].n_groups if n_nodes > 1 else 0)
        n_threads = max(1, min(n_threads, n_tasks))
        for task in prange(n_tasks, num_threads=team_of(n_threads),
                           schedule="dynamic", chunksize=1):
            if task < n_first:
                self.scan_group(&works[0], task, omp_get_thread_num())
            else:
                self.scan_group(&works[1], task - n_first, omp_get_thread_num())
        for lane in range(n_nodes):
            self.choose(&works[lane])
        if works[0].first_cells >= 0:
            n_threads = 1            # nothing is summed again
        for lane in prange(n_nodes, num_threads=team_of(min(n_threads, 2)), schedule="static"):
            self.describe(&works[lane], omp_get_thread_num())

    cdef void search(self, int32_t node, int32_t lane, int n_threads) noexcept nogil:
        cdef NodeWork work
        self.open_work(node, lane, &work)
        self.search_works(&work, 1)

    # ---- what the grower asks -----------------------------------------------------------------

    cdef int open_root(self) except -1 nogil:
        HistogramSearch.open_root(self)
        self.models.reserve(64)
        memset(&self.models.nodes[0], 0, sizeof(NodeModel))
        return 0

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        cdef NodeWork works[2]
        cdef int32_t first = self.store.nodes[node].left, second = self.store.nodes[node].right
        self.child_histograms(node, left, right)
        if not (left and right):
            if left or right:
                self.search(first if left else second, 0, self.n_threads)
            return 0
        # The larger one first, so that no thread is left with it at the end.
        if (self.store.nodes[first].stop - self.store.nodes[first].start
                < self.store.nodes[second].stop - self.store.nodes[second].start):
            first, second = second, first
        self.open_work(first, 0, &works[0])
        self.open_work(second, 1, &works[1])
        self.search_works(works, 2)
        return 0

    cdef int divide(self, int32_t node) except -1 nogil:
        cdef NodeModel* model
        cdef GrowNode* n
        self.models.reserve(self.store.n_nodes)
        HistogramSearch.divide(self, node)
        n = &self.store.nodes[node]
        model = &self.models.nodes[node]
        self.models.make_child(
            model, &model.side[0], n.split.feature, model.joins, &self.models.nodes[n.left])
        self.models.make_child(
            model, &model.side[1], n.split.feature, model.joins, &self.models.nodes[n.right])
        return 0

    # ---- entry points -------------------------------------------------------------------------

    def node_models(self):
        """Linear models of the nodes of the last tree, see `NodeModels.as_arrays`."""
        return self.models.as_arrays(self.store)

    def node_gains(self, int32_t node, int32_t feature):
        """Gains of all cuts of a number at a node of the last tree, scored one by one; for tests.

        Of shape (2, n_bins): missing rows on the right, then on the left; -inf where not allowed.
        """
        cdef NodeWork work
        cdef MomentScan scan
        if not 0 <= node < self.store.n_nodes or not 0 <= feature < self.n_features:
            raise ValueError("no such node or feature")
        gains = np.empty((2, self.bins.view.n_bins[feature]))
        cdef float64_t[:, ::1] out = gains
        self.histogram_of(node)
        self.open_work(node, 0, &work)
        work.features = &feature
        self.open_scan(&work, &self.sums[0, 0], &scan)
        self.sum_moments(&work, 0, 1, &self.cells[0, 0], 0)
        self.place_scan(&work, &scan, 0, &self.cells[0, 0])
        gains_of_cuts(&scan, &self.bins.view, feature, &self.store.nodes[node].sums, &out[0, 0])
        self.forget(node)
        return gains
