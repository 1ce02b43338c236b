"""Best cut of a feature where the children are linear models."""

from hybridtrees.core._moment_score cimport MomentScan, SideModel
from hybridtrees.core._types cimport BinView, NodeSums, SplitInfo, float64_t, int32_t

cdef void scan_moments(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total,
    SplitInfo* info, SideModel* sides,
) noexcept nogil

cdef void gains_of_cuts(
    MomentScan* scan, const BinView* bins, int32_t feature, const NodeSums* total, float64_t* gains
) noexcept nogil
