"""The search of PLGB: histograms of moments, linear models of nodes, splits."""

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
from hybridtrees.core.search.lines._piecewise_scan cimport (
    ADDITIVE, FULL, MAX_SUMS, SCAN_SUMS, MomentScan, NodeModel, SideModel, gains_of_cuts,
    scan_moments,
)
from hybridtrees.core.search._search cimport GrowNode, NodeStore
from hybridtrees.core.search._split cimport node_score

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# ---- Histograms of the moments of a node's regressors -----------------------------------------
#
# The gradients and hessians of a node are in its integer histogram. Moments depend on the linear
# model of the node, so those of a sibling cannot be computed by subtraction: they are summed for
# every node, and used only while its splits are scored. Sums run over the rows in order, feature by
# feature, so they do not depend on threads. In large nodes blocks of rows are summed in float32,
# which halves the memory traffic, and the blocks in float64.


cdef extern from "moments.h" nogil:
    ctypedef struct HtMoments:
        const uint8_t* records
        intp_t record_bytes
        const float32_t* grad
        const uint8_t* quantised
        intp_t quantised_step
        float32_t unit
        const float32_t* hess
        float32_t constant_hess
        const uint32_t* rows
        intp_t n_rows
        int32_t n_terms, summed, with_grad
        const int32_t* term_feature
        const float32_t* tables
        float32_t offset
        const int32_t* features
        int32_t n_features, contiguous
        const uint32_t* start
        int32_t cell_size
        void* cells

    void ht_add_moment_rows(const HtMoments* moments, int wide, int width)

cdef enum:
    GROUP_FEATURES = 64          # maximum number of features whose cells are filled together
    WIDE_ROWS = 1024             # nodes of at most so many rows are summed in float64
    BLOCK_ROWS = 16384


cdef int32_t moment_cell_size(int32_t n_regressors, bint with_grad) noexcept nogil:
    """Numbers of a cell: h, h r, h r r', g r and with_grad g, padded to a multiple of four."""
    cdef int32_t n = 1 + 2 * n_regressors + n_regressors * (n_regressors + 1) // 2 + with_grad
    return (n + 3) // 4 * 4


cdef void build_moments(
    const BinView* bins, const HtMoments* terms, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features, uint32_t* start, float64_t* cells,
    float32_t* narrow, int width,
) noexcept nogil:
    """OUT cells of at most GROUP_FEATURES features, and `start`, the first cell of each.

    `terms` describes the node's regressors. `narrow` is scratch of the size of `cells`; NULL: all
    sums are in float64.
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
    if n_rows <= WIDE_ROWS or narrow == NULL:
        memset(cells, 0, size * sizeof(float64_t))
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
        if first == 0:
            for i in range(size):
                cells[i] = narrow[i]
        else:
            for i in range(size):
                cells[i] += narrow[i]
        first += BLOCK_ROWS


def moments(BinnedView bins, const float32_t[::1] grad, hess, const uint32_t[::1] rows, features,
            const int32_t[::1] term_feature, const float32_t[:, ::1] tables, bint summed,
            bint narrow, bint with_grad=False, int width=0):
    """Cells of some features, as a list of float64 arrays (n_bins + 1, cell_size); for tests.

    `width`: maximum bytes of a vector; 0: the widest of the machine.
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


# ---- Linear models of growing nodes (Shi, Li and Li 2019) -------------------------------------
#
# Every node has a short list of regressors: those of its parent and the split feature of the
# parent, up to a limit. Values are the means of bins, in standard units.


FITS = {"half_additive": 0, "additive": 1, "full": 2}


cdef class NodeModels:
    """The models of all nodes of one tree.

    `bin_values` has the mean of each bin of each feature, in standard units; None for a feature
    that cannot be a regressor.
    """

    cdef NodeModel* nodes
    cdef int32_t capacity
    cdef int32_t fit, max_regressors
    cdef float64_t[::1] values             # of bins, feature by feature
    cdef intp_t[::1] value_start           # -1: the feature cannot be a regressor

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
        """Whether a split on the feature gives it a new coefficient in the children."""
        cdef int32_t at
        if self.value_start[feature] < 0:
            return False
        at = self.find_regressor(model, feature)
        if at < 0:
            return model.n_regressors < self.max_regressors
        # Its coefficient is free anyway if all are, or if it is the only regressor.
        return self.fit != FULL and not (self.fit != ADDITIVE and model.n_regressors == 1)

    cdef void make_child(
        self, const NodeModel* parent, const SideModel* side, int32_t feature, bint joins,
        NodeModel* child,
    ) noexcept nogil:
        """OUT model of a child, from that of its parent and of its side of the split."""
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

        Coefficients and centres are in standard units. `joined` is the index of the parent's split
        feature among the regressors, -1: it is not a regressor.
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
# The search uses the means of bins (`NodeModels`); leaves are fitted afterwards to the values
# themselves (`leaf_moments`). Moments are summed for groups of features and used at once, so they
# need little memory; in nodes of very many rows they come from a sample of the rows. Both children
# of a node are searched at the same time, to have enough work for all threads in small nodes.


cdef enum:
    CELL_BYTES = 1 << 19         # of one group's cells, which fit the L2 cache
    PARALLEL_UPDATES = 65536
    CUT_UPDATES = 16             # cost of one cut, in updates of cells


cdef struct NodeWork:
    # The search of one node; threads share groups of features.
    int32_t node
    int32_t lane                 # of the buffers: two nodes may be searched at the same time
    const int32_t* features      # drawn for the node
    int32_t n_features
    const uint32_t* rows         # of the moments
    intp_t n_rows
    bint sampled                 # whether `rows` is a sample of the rows of the node
    HtMoments terms
    const int8_t* signs          # of the terms
    uint32_t* start              # first cell of each feature in the cells of its group
    SplitInfo* best              # best cut of each feature
    intp_t updates               # amount of work
    int32_t n_groups
    int32_t group_size
    int32_t first_cells          # index of the first group's cells, -1: cells are not kept
    int32_t choice               # position of the best feature, -1: none


cdef class PiecewiseSearch(HistogramSearch):
    """Searches the nodes of trees with linear leaves on one BinnedMatrix.

    In nodes of more than 2 `sample_rows` rows, moments come from a sample of about `sample_rows`;
    0: from all rows. With an `origin` (n_features,), the penalty is on raw slopes and the output
    where every feature is 0 (`_piecewise_scan`); `bin_values` are then in units of the table, minus
    the origin.
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
    cdef const float64_t[::1] origin       # None: penalty on slopes in standard units
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
        # Whole cache lines, so that the cells of every thread are aligned.
        n = (self.group_size * largest * size + 15) // 16 * 16
        # Two nodes have at most n_threads + 1 groups (`share`), unless cells are not kept.
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
        """Fill the tables of the terms: the contribution of each code, without zero terms."""
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
        """Raw values at which the inherited columns are 0."""
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
        """Set the rows of the moments of a node: all, or a random one of every `step` rows."""
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
            # Random, as every step-th row might coincide with a period of the table.
            key = key * <uint64_t>6364136223846793005 + <uint64_t>1442695040888963407
            sample[i] = rows[i * step + <intp_t>((key >> 33) % <uint64_t>step)]
        work.rows = sample

    cdef void open_work(self, int32_t node, int32_t lane, NodeWork* work) noexcept nogil:
        """OUT the work for a node with a histogram."""
        work.node = node
        work.lane = lane
        work.n_features = 0
        work.features = self.draw_node_features(node, lane, &work.n_features)
        self.draw_rows(work)
        self.fill_terms(work)
        work.start = &self.start[lane, 0]
        work.best = self.by_feature + lane * self.n_features
        # Empty cells have no cut.
        work.updates = (work.n_rows + CUT_UPDATES * min(work.n_rows, <intp_t>self.most_bins)) * (
            work.n_features)

    cdef int share(self, NodeWork* works, int32_t n_nodes) noexcept nogil:
        """Divide the features of one or two nodes into groups; returns the number of threads.

        Every group reads all rows of its node, so there are only as many groups as keep the threads
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
            # Rounded, so that two nodes of similar size are one group each.
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
                # In units in which a factor of 1 leaves the parent's part unchanged.
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
        """Set a scan to the drawn feature at position `at`."""
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
        """OUT cells of n drawn features from position `first` on."""
        if work.terms.n_terms > 0:
            build_moments(&self.bins.view, &work.terms, work.rows, work.n_rows,
                          work.features + first, n, work.start + first, cells,
                          &self.narrow[thread, 0], ht_vector_bytes())

    cdef void scan_group(self, const NodeWork* work, int32_t group, int thread) noexcept nogil:
        """OUT best cut of each feature of a group."""
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
        """Choose the best feature."""
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
            n_threads = 1            # cells are kept, so nothing is summed again
        for lane in prange(n_nodes, num_threads=team_of(min(n_threads, 2)), schedule="static"):
            self.describe(&works[lane], omp_get_thread_num())

    cdef void search(self, int32_t node) noexcept nogil:
        cdef NodeWork work
        self.open_work(node, 0, &work)
        self.search_works(&work, 1)

    # ---- methods for the grower ---------------------------------------------------------------

    cdef int open_root(self) except -1 nogil:
        HistogramSearch.open_root(self)
        self.models.reserve(64)
        memset(&self.models.nodes[0], 0, sizeof(NodeModel))
        return 0

    cdef int evaluate_children(self, int32_t node, bint left, bint right) except -1 nogil:
        cdef NodeWork works[2]
        cdef int32_t first = self.store.nodes[node].left, second = self.store.nodes[node].right
        self.fill_children(node, left, right, False)
        if not (left and right):
            if left or right:
                self.search(first if left else second)
            return 0
        # The larger one first, for a better balance of threads.
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

    def leaf_regressors(self):
        """Leaves of the last tree, numbers of their regressors, and these, -1 for none.

        The regressors have as many columns as a leaf has at most, but at least one.
        """
        cdef int32_t k, j, n_leaves = 0, width = 1, n = self.store.n_nodes
        for k in range(n):
            if self.store.nodes[k].left < 0:
                n_leaves += 1
                width = max(width, self.models.nodes[k].n_regressors)
        leaves, counts = np.empty(n_leaves, dtype=np.intp), np.empty(n_leaves, dtype=np.int32)
        features = np.full((n_leaves, width), -1, dtype=np.int32)
        cdef intp_t[::1] leaf = leaves
        cdef int32_t[::1] count = counts
        cdef int32_t[:, ::1] feature = features
        n_leaves = 0
        for k in range(n):
            if self.store.nodes[k].left < 0:
                leaf[n_leaves] = k
                count[n_leaves] = self.models.nodes[k].n_regressors
                for j in range(count[n_leaves]):
                    feature[n_leaves, j] = self.models.nodes[k].feature[j]
                n_leaves += 1
        return leaves, counts, features

    def node_models(self):
        """Linear models of the nodes of the last tree, see `NodeModels.as_arrays`."""
        return self.models.as_arrays(self.store)

    def node_gains(self, int32_t node, int32_t feature):
        """Gains of all cuts of a numeric feature at a node of the last tree; for tests.

        Of shape (2, n_bins): missing rows on the right, then on the left; -inf if not allowed.
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
