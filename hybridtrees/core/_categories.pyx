"""Categories of a node in the order of their response.

The list of a categorical feature has its rows category by category. It is rewritten with the
categories in the order of their mean (leaf weight, share of a class), each under its position as
key, and can then be cut like the list of a number.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset

from hybridtrees.core._sorted cimport MISSING_KEY
from hybridtrees.core._targets cimport add_row
from hybridtrees.core._types cimport (
    NEWTON, Entry, SplitRules, TargetView, float64_t, int32_t, intp_t, uint32_t,
)


cdef struct Response:
    float64_t value
    uint32_t start       # first entry of the category
    uint32_t stop


cdef int compare(const void* a, const void* b) noexcept nogil:
    """By response; equal ones keep the order of their codes."""
    cdef const Response* x = <const Response*>a
    cdef const Response* y = <const Response*>b
    if x.value != y.value:
        return -1 if x.value < y.value else 1
    return -1 if x.start < y.start else 1


cdef intp_t order_categories(
    const TargetView* target, const SplitRules* rules, const Entry* entries, intp_t n,
    int32_t output, float64_t* sums, float64_t* response, uint32_t* start, Entry* out,
) noexcept nogil:
    """Write the reordered list to `out`; returns the number of categories.

    Parameters: `sums` holds n_sums + 2 numbers, `response` two numbers per category of the node;
    OUT start[j] is the first entry, in `entries`, of the category in place j.
    """
    cdef Response* found = <Response*>response
    cdef intp_t i = 0, j, k, n_found = 0, n_out = 0
    cdef float64_t weight
    while i < n and entries[i].key != MISSING_KEY:
        memset(sums, 0, (target.n_sums + 2) * sizeof(float64_t))
        j = i
        while j < n and entries[j].key == entries[i].key:
            add_row(target, target.data + <intp_t>entries[j].row * target.width, sums)
            j += 1
        weight = sums[target.n_sums]
        if rules.criterion == NEWTON:
            # The leaf weight falls as the gradient rises; either direction is the same order.
            weight += rules.reg_lambda
        found[n_found].value = sums[output] / weight if weight > 0 else INFINITY
        found[n_found].start = <uint32_t>i
        found[n_found].stop = <uint32_t>j
        n_found += 1
        i = j
    qsort(found, n_found, sizeof(Response), compare)
    for j in range(n_found):
        start[j] = found[j].start
        for k in range(found[j].start, found[j].stop):
            out[n_out].key = <uint32_t>j
            out[n_out].row = entries[k].row
            n_out += 1
    memcpy(out + n_out, entries + n_out, (n - n_out) * sizeof(Entry))
    return n_found
