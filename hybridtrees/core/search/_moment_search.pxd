"""The search of PLGB: histograms of moments, the nodes' linear models, splits."""

from hybridtrees.core.base._types cimport (
    MAX_REGRESSORS, BinView, float32_t, float64_t, int32_t, intp_t, uint32_t, uint8_t,
)
from hybridtrees.core.search._moment_scan cimport NodeModel, SideModel


cdef enum:
    GROUP_FEATURES = 64          # most features whose cells are filled together

cdef struct MomentTerms:
    # What a node's regressors are made of.
    const float32_t* grad
    const uint8_t* quantised     # gradients as integers near the codes, or NULL
    intp_t quantised_step        # bytes from row to row
    float64_t unit
    const float32_t* hess        # NULL: `constant_hess` for all rows
    float64_t constant_hess
    int32_t n_terms
    bint summed                  # one regressor, the sum of the terms
    bint with_grad               # cells hold g, too
    const int32_t* feature
    const float32_t* tables      # value of each term for each of 256 codes
    float64_t offset             # added to a sum
    int32_t cell_size
    int32_t width                # bytes of a vector

cdef int32_t moment_cell_size(int32_t n_regressors, bint with_grad) noexcept nogil

cdef void build_moments(
    const BinView* bins, const MomentTerms* terms, const uint32_t* rows, intp_t n_rows,
    const int32_t* features, int32_t n_features, uint32_t* start, float64_t* cells,
    float32_t* narrow,
) noexcept nogil


cdef class NodeModels:
    cdef NodeModel* nodes
    cdef int32_t capacity
    cdef int32_t fit, max_regressors
    cdef float64_t[::1] values             # of bins, feature by feature
    cdef intp_t[::1] value_start           # -1: the feature does not regress
    cdef int reserve(self, int32_t n) except -1 nogil
    cdef const float64_t* values_of(self, int32_t feature) noexcept nogil
    cdef int32_t find_regressor(self, const NodeModel* model, int32_t feature) noexcept nogil
    cdef bint may_join(self, const NodeModel* model, int32_t feature) noexcept nogil
    cdef void make_child(
        self, const NodeModel* parent, const SideModel* side, int32_t feature, bint joins,
        NodeModel* child,
    ) noexcept nogil
