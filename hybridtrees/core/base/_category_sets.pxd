"""Which side of a split a value goes to: the contract of every walk down a tree.

=====================================================  =========================================
number at a numeric split                              left if it is at most the threshold
category code below the end of the node's set          left if it is in the set
missing value, negative code, code beyond the end      `missing_left`: 1 left, 0 right,
                                                       MISSING_STAYS: the row ends at the node
=====================================================  =========================================

Thresholds are compared in float64, and codes are truncated to integers. While a tree grows, the
same holds for bins and ranks instead of numbers. Categories and missing values that a node has not
seen in training go to its larger child: the search writes `missing_left` and the set accordingly
(`larger_left` in _split.pxd). `tests/core/test_goes_left.py` tests every walk against one table.

The words of a set are bits, or a sorted list of codes if that is shorter, depending on `limit`:

    0       bits, 32 per word: the codes whose bit is set go left
    n > 0   a list: of the codes below n, those listed go left
    n < 0   a list: of the codes below -n, those listed go right

A code that has no bit, or is not below the limit, counts as missing.
"""

from libc.math cimport isnan

from hybridtrees.core.base._types cimport float64_t, int32_t, int64_t, uint32_t

cdef inline int32_t category_side(
    const uint32_t* words, int32_t n_words, int32_t limit, float64_t code
) noexcept nogil:
    """1 for a code that goes left, 0 for one that goes right, -1 for one that counts as missing."""
    cdef int64_t category
    cdef int32_t first, last, middle
    cdef float64_t end = 32.0 * n_words
    if limit != 0:
        end = limit if limit > 0 else -<float64_t>limit
    # A missing code fails both comparisons.
    if not (code >= 0 and code < end):
        return -1
    category = <int64_t>code
    if limit == 0:
        return (words[category >> 5] >> (category & 31)) & 1
    first = 0
    last = n_words
    while first < last:
        middle = first + (last - first) // 2
        if words[middle] < category:
            first = middle + 1
        else:
            last = middle
    return (first < n_words and words[first] == category) != (limit < 0)


cdef inline int32_t side_of(
    float64_t value, float64_t threshold, const uint32_t* words, int32_t n_words, int32_t limit,
    int32_t missing_left,
) noexcept nogil:
    """1 left, 0 right, or `missing_left`; words is NULL at a split on numbers."""
    cdef int32_t side
    if words != NULL:
        side = category_side(words, n_words, limit, value)
        return side if side >= 0 else missing_left
    return missing_left if isnan(value) else value <= threshold
