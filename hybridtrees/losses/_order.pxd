"""Sorting and selection of float64 values, in place, with weights that move along.

Introsort: quicksort with the median of three as pivot, insertion sort for a few values, heapsort
where the recursion gets too deep. NaN end up anywhere, but nothing is read out of range.
"""

from hybridtrees.core.base._types cimport float64_t, intp_t

cdef enum:
    SMALL = 16              # up to this many values are sorted by insertion


cdef inline void swap(float64_t* values, float64_t* weights, intp_t i, intp_t j) noexcept nogil:
    values[i], values[j] = values[j], values[i]
    if weights != NULL:
        weights[i], weights[j] = weights[j], weights[i]


cdef inline void insertion_sort(
    float64_t* values, float64_t* weights, intp_t n
) noexcept nogil:
    cdef intp_t i, j
    for i in range(1, n):
        j = i
        while j > 0 and values[j] < values[j - 1]:
            swap(values, weights, j, j - 1)
            j -= 1


cdef inline void sift(float64_t* values, float64_t* weights, intp_t root, intp_t n) noexcept nogil:
    cdef intp_t child
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and values[child] < values[child + 1]:
            child += 1
        if not values[root] < values[child]:
            return
        swap(values, weights, root, child)
        root = child


cdef inline void heap_sort(float64_t* values, float64_t* weights, intp_t n) noexcept nogil:
    cdef intp_t i
    for i in range(n // 2 - 1, -1, -1):
        sift(values, weights, i, n)
    for i in range(n - 1, 0, -1):
        swap(values, weights, 0, i)
        sift(values, weights, 0, i)


cdef inline intp_t split(float64_t* values, float64_t* weights, intp_t n) noexcept nogil:
    """Partition around the median of three; returns where the upper part starts.

    Both parts hold fewer than n values. A NaN compares false with everything, which stops either
    scan within the range.
    """
    cdef intp_t low = 0, high = n - 1, middle = n // 2
    cdef float64_t pivot
    if values[middle] < values[0]:
        swap(values, weights, middle, 0)
    if values[high] < values[middle]:
        swap(values, weights, high, middle)
        if values[middle] < values[0]:
            swap(values, weights, middle, 0)
    pivot = values[middle]
    while True:
        while values[low] < pivot:
            low += 1
        while pivot < values[high]:
            high -= 1
        if low >= high:
            return low if low > 0 else 1
        swap(values, weights, low, high)
        low += 1
        high -= 1


cdef inline void sort(float64_t* values, float64_t* weights, intp_t n, int depth) noexcept nogil:
    """Sort values, with their weights; recursive on the smaller part only."""
    cdef intp_t cut
    while n > SMALL:
        if depth == 0:
            heap_sort(values, weights, n)
            return
        depth -= 1
        cut = split(values, weights, n)
        if cut < n - cut:
            sort(values, weights, cut, depth)
            values += cut
            n -= cut
            if weights != NULL:
                weights += cut
        else:
            sort(values + cut, NULL if weights == NULL else weights + cut, n - cut, depth)
            n = cut
    insertion_sort(values, weights, n)


cdef inline int max_depth(intp_t n) noexcept nogil:
    cdef int depth = 8
    while n > 1:
        n >>= 1
        depth += 2
    return depth


cdef inline void select(float64_t* values, intp_t n, intp_t place) noexcept nogil:
    """Move the value of rank `place` there, smaller values before it and larger ones after it."""
    cdef int depth = max_depth(n)
    cdef intp_t cut
    while n > SMALL:
        if depth == 0:
            heap_sort(values, NULL, n)
            return
        depth -= 1
        cut = split(values, NULL, n)
        if place < cut:
            n = cut
        else:
            values += cut
            place -= cut
            n -= cut
    insertion_sort(values, NULL, n)
