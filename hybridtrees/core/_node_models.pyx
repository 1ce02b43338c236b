"""Linear models of the nodes of a tree while it grows (Shi, Li and Li 2019).

Every node has a short list of regressors: those of its parent and the feature that the parent was
split on, up to a limit. Features are in standard units, and stand at the means of their bins.
"""

from libc.math cimport sqrt
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from hybridtrees.core._moment_histogram cimport MAX_REGRESSORS
from hybridtrees.core._moment_score cimport ADDITIVE, FULL, NodeModel, SideModel
from hybridtrees.core._nodes cimport GrowNode, NodeStore
from hybridtrees.core._types cimport float64_t, int32_t

import numpy as np

FITS = {"half_additive": 0, "additive": 1, "full": 2}


cdef class NodeModels:
    """The models of all nodes of one tree.

    Parameters
    ----------
    fit : {"half_additive", "additive", "full"}
    max_regressors : int
    bin_values : sequence of float64 arrays or None
        Mean of the values in each bin of each feature, in standard units; None for a feature
        that does not regress.
    n_bins : int32 array
        Value bins of each feature.
    """

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
        """The models of the nodes of a store.

        Returns
        -------
        models : dict of arrays, one row per node: `n_regressors`, `feature`, `coef` and `center`
            (in standard units), `offset`, `scale`, `value`, and `joined`, the place of the
            feature that the parent was split on among the regressors, -1: it is none
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
