"""Linear leaves laid out for prediction."""

from libc.math cimport isnan

from hybridtrees.core._masks cimport HT_BLOCK
from hybridtrees.core._simd cimport ht_vector_bytes
from hybridtrees.core._types cimport Node, float64_t, int32_t, int64_t, intp_t, real_t, uint8_t


cdef extern from "linear_leaves.h" nogil:
    enum:
        HT_LINE
        HT_HEAD
    ctypedef struct HtLinearTree:
        const double* records
        const int32_t* start
        const void* x
        intp_t stride
        int narrow
        int n_pairs
        int exact
        int clipped
        int ranged
    intp_t ht_head_lines(intp_t n)
    intp_t ht_record_lines(intp_t n, int clipped)
    intp_t ht_row_stride(intp_t n_columns)
    void ht_add_linear(
        int width, const HtLinearTree* tree, const int32_t* leaf, const int32_t* rows, int n_rows,
        double* total)


cdef struct Regressors:
    # Regressors of some rows, side by side, and which of the rows have them all.
    void* x
    bint narrow                  # floats; else doubles
    int width                    # of vectors, in bytes
    int32_t n_rows
    int32_t n_complete
    int32_t n_incomplete
    int32_t complete[HT_BLOCK]
    int32_t incomplete[HT_BLOCK]


cdef class LinearLeaves:
    # as in the ensemble
    cdef const Node[::1] nodes
    cdef const int64_t[::1] tree_start
    cdef const float64_t[:, ::1] values
    cdef const int64_t[::1] coef_ptr
    cdef const int32_t[::1] coef_feature
    cdef const float64_t[:, ::1] coef
    cdef const float64_t[::1] coef_center
    cdef const float64_t[::1] coef_low
    cdef const float64_t[::1] coef_high
    cdef const float64_t[:, :, ::1] value_range
    cdef bint ranged                         # there is a value_range
    cdef bint clipped                        # some term is clipped
    cdef uint8_t[::1] is_linear              # by tree: some node has terms
    # for rows whose regressors stand side by side
    cdef readonly bint by_rows
    cdef bint in_order                       # the regressors are the first features
    cdef int32_t[::1] regressors             # features with coefficients
    cdef int32_t[::1] column                 # place among them, by feature
    cdef intp_t stride                       # from one row of regressors to the next
    cdef uint8_t[::1] is_finite              # by tree: complete rows need no exact sums
    cdef uint8_t[::1] n_pairs                # by tree: of lanes, 0 where some have more chunks
    cdef int32_t[::1] first_end              # by tree: first node that has a record
    cdef float64_t[::1] records
    cdef int32_t[::1] record_start           # by node: where its record starts, in cache lines
    cdef int place_records(self, intp_t tree, int32_t[::1] stack, intp_t* n_lines) except -1
    cdef intp_t n_chunks(self, intp_t node) noexcept
    cdef bint fill_record(self, intp_t node, intp_t n_pairs, float64_t* record) noexcept


cdef inline float64_t in_range(
    LinearLeaves leaves, intp_t node, int32_t output, float64_t value
) noexcept nogil:
    """A value, moved into the range of its node."""
    if leaves.ranged:
        if value < leaves.value_range[node, 0, output]:
            return leaves.value_range[node, 0, output]
        if value > leaves.value_range[node, 1, output]:
            return leaves.value_range[node, 1, output]
    return value


cdef inline float64_t table_value(
    LinearLeaves leaves, const real_t[:, :] X, intp_t row, intp_t node, int32_t output
) noexcept nogil:
    """One output of a node for a row of the table; a missing x adds nothing."""
    cdef intp_t k
    cdef float64_t total = 0, value
    for k in range(leaves.coef_ptr[node], leaves.coef_ptr[node + 1]):
        value = X[row, leaves.coef_feature[k]]
        if not isnan(value):
            value = min(max(value, leaves.coef_low[k]), leaves.coef_high[k])
            total += leaves.coef[k, output] * (value - leaves.coef_center[k])
    return in_range(leaves, node, output, leaves.values[node, output] + total)


ctypedef fused regressor_t:
    float
    double


cdef inline bint fill_regressors(
    LinearLeaves leaves, const real_t[:, :] X, intp_t row, regressor_t* x
) noexcept nogil:
    """Set the regressors of a row side by side; whether none of them is missing."""
    cdef intp_t k, n = leaves.regressors.shape[0]
    cdef int32_t missing = 0
    cdef const real_t* source = &X[row, 0]
    if leaves.in_order and X.strides[1] == sizeof(real_t):
        for k in range(n):
            x[k] = source[k]
    else:
        for k in range(n):
            x[k] = X[row, leaves.regressors[k]]
    for k in range(n):
        missing |= x[k] != x[k]
    x[n] = 1                                 # what the constants of records are multiplied by
    return missing == 0


cdef inline void fill_rows(
    LinearLeaves leaves, const real_t[:, :] X, intp_t start, int32_t n_rows, float64_t* x,
    Regressors* rows,
) noexcept nogil:
    """Set the regressors of up to HT_BLOCK rows side by side, in x."""
    cdef int32_t row
    cdef bint complete
    rows.x = x
    rows.width = ht_vector_bytes()
    # Registers have room for more floats than doubles; but a row alone is not looked up in them.
    rows.narrow = rows.width == 64 and sizeof(real_t) == sizeof(float) and n_rows > 1
    rows.n_rows = n_rows
    rows.n_complete = 0
    rows.n_incomplete = 0
    for row in range(n_rows):
        if rows.narrow:
            complete = fill_regressors(leaves, X, start + row, <float*>x + row * leaves.stride)
        else:
            complete = fill_regressors(leaves, X, start + row, x + row * leaves.stride)
        if complete:
            rows.complete[rows.n_complete] = row
            rows.n_complete += 1
        else:
            rows.incomplete[rows.n_incomplete] = row
            rows.n_incomplete += 1


cdef inline void add_record_values(
    LinearLeaves leaves, intp_t tree, const int32_t* leaf, const int32_t* names,
    const Regressors* rows, const int32_t* chosen, int32_t n_chosen, bint exact, float64_t* total,
) noexcept nogil:
    """total += the leaves of chosen rows, NULL for all.

    `leaf` counts the leaves of a tree from left to right, and `names` are their nodes; where that
    is NULL, `leaf` gives the nodes themselves.
    """
    cdef HtLinearTree made
    cdef int32_t node[HT_BLOCK]
    cdef int32_t row
    if n_chosen == 0:
        return
    made.x = rows.x
    made.stride = leaves.stride
    made.narrow = rows.narrow
    made.n_pairs = leaves.n_pairs[tree]
    made.exact = exact
    made.clipped = leaves.clipped
    made.ranged = leaves.ranged
    if names != NULL and made.n_pairs > 0:
        made.start = NULL
        made.records = &leaves.records[
            HT_LINE * <intp_t>leaves.record_start[leaves.first_end[tree]]]
        ht_add_linear(rows.width, &made, leaf, chosen, n_chosen, total)
        return
    made.records = &leaves.records[0]
    made.start = &leaves.record_start[leaves.tree_start[tree]]
    for row in range(rows.n_rows):
        node[row] = leaf[row] if names == NULL else names[leaf[row]]
    ht_add_linear(rows.width, &made, node, chosen, n_chosen, total)


cdef inline void add_linear(
    LinearLeaves leaves, intp_t tree, const int32_t* leaf, const int32_t* names,
    const Regressors* rows, float64_t* total,
) noexcept nogil:
    """total += the leaves of all rows, for a tree with terms."""
    if not leaves.is_finite[tree]:
        add_record_values(leaves, tree, leaf, names, rows, NULL, rows.n_rows, True, total)
    elif rows.n_incomplete == 0:
        add_record_values(leaves, tree, leaf, names, rows, NULL, rows.n_rows, False, total)
    else:
        add_record_values(leaves, tree, leaf, names, rows, rows.complete, rows.n_complete, False,
                          total)
        add_record_values(leaves, tree, leaf, names, rows, rows.incomplete, rows.n_incomplete, True,
                          total)
