"""Linear models of the nodes of a tree while it grows."""

from hybridtrees.core._moment_score cimport NodeModel, SideModel
from hybridtrees.core._types cimport float64_t, int32_t, intp_t


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
