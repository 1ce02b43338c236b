"""Histograms of the moments of a node's regressors."""

from hybridtrees.core._types cimport (
    BinView, float32_t, float64_t, int32_t, intp_t, uint8_t, uint32_t,
)

cdef enum:
    MAX_REGRESSORS = 16
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
