"""The best cut of a feature if both children are small linear models (PLGB)."""

from hybridtrees.core.base._types cimport (
    HT_CONSTANT, MAX_REGRESSORS, BinView, Bounds, NodeSums, SplitInfo, SplitRules, StatsView,
    float64_t, int32_t, int64_t, int8_t,
)


cdef enum LeafFit:
    HALF_ADDITIVE = 0      # intercept, one factor for the inherited linear part, the new feature
    ADDITIVE = 1           # intercept and new feature, added to the unchanged inherited function
    FULL = 2               # all regressors

cdef enum:
    MAX_SUMS = 192         # maximum number of sums of a side
    CANDIDATES = 264       # HT_CANDIDATES of moment_scores.h
    SCAN_SUMS = 4 * MAX_SUMS + 512 + 12 * CANDIDATES


cdef struct SideModel:
    # Linear model of one side of a split. Columns are centred at their means over the side.
    float64_t value        # intercept
    float64_t factor       # of the inherited linear part
    float64_t mean         # of the inherited linear part
    float64_t coef         # of the new feature, in standard units
    float64_t center       # its mean
    float64_t variance     # of the new linear part


cdef struct NodeModel:
    # Linear model of a growing node. Columns are in standard units.
    int32_t n_regressors
    int32_t feature[MAX_REGRESSORS]
    float64_t coef[MAX_REGRESSORS]       # of the linear part, which has mean 0 and variance 1
    float64_t center[MAX_REGRESSORS]     # value of missing values
    float64_t offset
    float64_t scale                      # from the linear part to the node's function
    float64_t value                      # that function at its mean
    bint joins                           # the split feature becomes a regressor of the children
    SideModel side[2]


cdef struct MomentScan:
    # State of the scans of one node, and of the current feature.
    const StatsView* stats
    const SplitRules* rules
    const Bounds* bounds         # NULL: no monotone constraint in the tree
    int32_t fit
    int32_t n_regressors         # of the moments, or 0
    int32_t cell_size
    bint sampled                 # moments are from a sample of the rows
    float64_t scale              # additive: the node's function
    float64_t value
    float64_t ridge              # L2 penalty of the inherited columns
    const float64_t* origin      # raw penalty: raw values at which these are 0; else NULL
    const int8_t* signs          # full: signs of the regressors' coefficients, or NULL
    # of the feature
    const int64_t* cells
    const float64_t* moments
    const float64_t* x           # value of each bin in the units of the search, NULL: no slope
    float64_t x_origin           # raw penalty: raw value at which x is 0
    int8_t monotone
    NodeSums total
    NodeSums missing
    int32_t n_sums               # numbers of the sums below
    float64_t* all_values        # sums over the rows whose value is known
    float64_t* lacking           # sums over the others
    float64_t* left
    float64_t* right
    int32_t* order
    float64_t* candidates        # sums of the left sides of all cuts, then scores and counts
    int32_t width                # bytes of a vector


cdef inline int32_t triangle(int32_t k) noexcept nogil:
    return k * (k + 1) // 2


cdef inline float64_t spread(float64_t squares, float64_t centred, float64_t ridge) noexcept nogil:
    """Diagonal entry of a column; 0 for a column that is constant up to rounding."""
    return centred + ridge if centred > HT_CONSTANT * squares else 0.0


cdef void scan_moments(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total,
    SplitInfo* info, SideModel* sides,
) noexcept nogil

cdef void gains_of_cuts(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total, float64_t* gains
) noexcept nogil
