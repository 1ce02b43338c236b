"""Histograms of the moments of a node's regressors.

The gradients and hessians of a node are in its integer histogram. What depends on the linear
model of the node is not: two siblings have different models, so nothing can be had by
subtraction, and the moments are summed anew for every node; they are needed only while its splits
are scored. Sums run over the rows in order, feature by feature, so they do not depend on how
features are shared between threads. Large nodes are summed in float32 within blocks of rows,
which halves the memory traffic, and the blocks in float64.
"""

from libc.string cimport memset

from hybridtrees.core._simd cimport ht_vector_bytes
from hybridtrees.core._types cimport (
    BinView, float32_t, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)
from hybridtrees.core._views cimport BinnedView

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

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
        int32_t n_terms
        int32_t summed
        int32_t with_grad
        const int32_t* term_feature
        const float32_t* tables
        float32_t offset
        const int32_t* features
        int32_t n_features
        int32_t contiguous
        const uint32_t* start
        int32_t cell_size
        void* cells

    void ht_add_moment_rows(const HtMoments* moments, int wide, int width)

cdef enum:
    WIDE_ROWS = 1024             # nodes of at most so many rows are summed in float64
    BLOCK_ROWS = 16384


cdef int32_t moment_cell_size(int32_t n_regressors, bint with_grad) noexcept nogil:
    """Numbers of a cell: h, h r, h r r', g r and perhaps g, filled up to a multiple of four."""
    cdef int32_t n = 1 + 2 * n_regressors + n_regressors * (n_regressors + 1) // 2 + with_grad
    return (n + 3) // 4 * 4


cdef void build_moments(
    const BinView* bins, const MomentTerms* terms, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features, uint32_t* start, float64_t* cells,
    float32_t* narrow,
) noexcept nogil:
    """Fill the cells of at most GROUP_FEATURES features; OUT `start`, the first cell of each.

    `narrow` is scratch of the size of `cells`; with NULL everything is summed in float64.
    """
    cdef HtMoments work
    cdef int32_t j
    cdef intp_t n_cells = 0, size, first, i
    work.records = bins.records
    work.record_bytes = bins.record_bytes
    work.grad = terms.grad
    work.quantised = terms.quantised
    work.quantised_step = terms.quantised_step
    work.unit = <float32_t>terms.unit
    work.hess = terms.hess
    work.constant_hess = <float32_t>terms.constant_hess
    work.n_terms = terms.n_terms
    work.summed = terms.summed
    work.with_grad = terms.with_grad
    work.term_feature = terms.feature
    work.tables = terms.tables
    work.offset = <float32_t>terms.offset
    work.features = features
    work.n_features = n_features
    work.contiguous = 1
    work.start = start
    work.cell_size = terms.cell_size
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
        ht_add_moment_rows(&work, 1, terms.width)
        return
    first = 0
    while first < n_rows:
        memset(narrow, 0, size * sizeof(float32_t))
        work.rows = rows + first
        work.n_rows = min(BLOCK_ROWS, n_rows - first)
        work.cells = narrow
        ht_add_moment_rows(&work, 0, terms.width)
        for i in range(size):
            cells[i] += narrow[i]
        first += BLOCK_ROWS


def moments(BinnedView bins, const float32_t[::1] grad, hess, const uint32_t[::1] rows, features,
            const int32_t[::1] term_feature, const float32_t[:, ::1] tables, bint summed,
            bint narrow, bint with_grad=False, int width=0):
    """Cells of some features, as a list of float64 arrays (n_bins + 1, cell_size); for tests.

    `width` is that of the vectors in bytes, at most what the machine has; 0 for just that.
    """
    cdef MomentTerms terms
    cdef const float32_t[::1] hess_view
    cdef const int32_t[::1] listed = np.ascontiguousarray(features, dtype=np.int32)
    cdef uint32_t[::1] start = np.empty(GROUP_FEATURES, dtype=np.uint32)
    cdef float64_t[::1] cells
    cdef float32_t[::1] scratch
    cdef int32_t j, n_terms = <int32_t>term_feature.shape[0]
    cdef intp_t i
    if not 0 < listed.shape[0] <= GROUP_FEATURES or not 0 < n_terms <= MAX_REGRESSORS:
        raise ValueError("too many features or terms, or none")
    if tables.shape[0] != n_terms or tables.shape[1] != 256 or grad.shape[0] != bins.view.n_rows:
        raise ValueError("tables or gradients do not fit")
    for j in range(n_terms):
        if not 0 <= term_feature[j] < bins.view.n_features:
            raise ValueError("a term's feature is out of range")
    for i in range(rows.shape[0]):
        if rows[i] >= bins.view.n_rows:
            raise ValueError("a row id is out of range")
    for j in range(<int32_t>listed.shape[0]):
        if not 0 <= listed[j] < bins.view.n_features:
            raise ValueError("a feature is out of range")
    terms.grad = &grad[0]
    terms.quantised = NULL
    terms.hess = NULL
    terms.constant_hess = 1.0
    if isinstance(hess, (int, float)):
        terms.constant_hess = hess
    else:
        hess_view = hess
        if hess_view.shape[0] != grad.shape[0]:
            raise ValueError("one hessian per row is needed")
        terms.hess = &hess_view[0]
    terms.n_terms = n_terms
    terms.summed = summed
    terms.feature = &term_feature[0]
    terms.tables = &tables[0, 0]
    terms.offset = 0
    terms.with_grad = with_grad
    terms.width = min(width, ht_vector_bytes()) if width else ht_vector_bytes()
    terms.cell_size = moment_cell_size(1 if summed else n_terms, with_grad)
    size = sum(int(bins.view.cell_start[f + 1] - bins.view.cell_start[f]) for f in listed)
    cells = aligned_empty(size * terms.cell_size, np.float64)
    scratch = aligned_empty(size * terms.cell_size, np.float32)
    if rows.shape[0] == 0:
        raise ValueError("no rows")
    build_moments(&bins.view, &terms, &rows[0], rows.shape[0], &listed[0],
                  <int32_t>listed.shape[0], &start[0], &cells[0],
                  &scratch[0] if narrow else NULL)
    table = np.asarray(cells).reshape(-1, terms.cell_size)
    return [table[start[j] : start[j] + bins.view.n_bins[listed[j]] + 1].copy()
            for j in range(<int32_t>listed.shape[0])]
