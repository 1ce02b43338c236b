"""Quantile summaries: building, merging, thinning, cutting.

A summary is a sorted list of entries (value, rmin, rmax, weight) as in Chen and Guestrin (2016,
appendix): `rmin` is a lower bound of the weight of all data below the value, `rmax` an upper bound
of the weight of all data not above it, and `weight` a lower bound of that of the value itself. For
neighbouring entries a < b:

    next(a) = a.rmin + a.weight     at least this weight is at or below a
    prev(b) = b.rmax - b.weight     at most this weight is below b
    gap     = prev(b) - next(a)     the unknown weight between the two

Only removing entries and merging summaries widen gaps; merging adds them. The first and the last
entry are the extremes of the data and are never removed.
"""

from libc.stdint cimport uint32_t

from hybridtrees.core.base._radix cimport RADIX_COUNTS, fill_keys, key_t, radix_sort, value_from_key
from hybridtrees.core.base._types cimport float64_t, intp_t


cdef struct SummaryEntry:
    float64_t value, rmin, rmax, weight


cdef struct Thinner:
    # Writes sorted entries, without those that can be removed.
    SummaryEntry* out
    intp_t size
    SummaryEntry pending
    bint has_pending
    float64_t target     # widest gap that a removal may cause; negative: keep all
    float64_t gap        # widest gap written


cdef inline float64_t below_next(const SummaryEntry* entry) noexcept nogil:
    return entry.rmin + entry.weight


cdef inline float64_t above_prev(const SummaryEntry* entry) noexcept nogil:
    return entry.rmax - entry.weight


cdef inline void emit(Thinner* thin) noexcept nogil:
    cdef float64_t gap
    if thin.size > 0:
        gap = above_prev(&thin.pending) - below_next(&thin.out[thin.size - 1])
        thin.gap = max(thin.gap, gap)
    thin.out[thin.size] = thin.pending
    thin.size += 1


cdef inline void push(Thinner* thin, const SummaryEntry* entry) noexcept nogil:
    # Greedy: the pending entry is needed only if the gap from the last written entry to this one
    # would be too wide. The first and the last entry are always written.
    if thin.has_pending and (
        thin.size == 0
        or thin.target < 0.0
        or above_prev(entry) - below_next(&thin.out[thin.size - 1]) > thin.target
    ):
        emit(thin)
    thin.pending = entry[0]
    thin.has_pending = True


cdef inline void jump_runs(Thinner* thin, const key_t* keys, intp_t n) noexcept nogil:
    """push_runs for unit weights and a target of at least 1, visiting only entries that are kept.

    Ranks are positions: the last value with an allowed gap is `target` positions after the last
    kept one; its run of ties is found by a search in both directions.
    """
    cdef intp_t start, at, i = 0, step = <intp_t> min(thin.target, <float64_t> n)
    while i < n:
        at = min(i + step, n - 1) if i > 0 else 0
        start = at
        while start > i and keys[start - 1] == keys[at]:
            start -= 1
        i = at + 1
        while i < n and keys[i] == keys[at]:
            i += 1
        thin.pending.value = value_from_key(keys[at])
        thin.pending.rmin = <float64_t> start
        thin.pending.rmax = <float64_t> i
        thin.pending.weight = <float64_t> (i - start)
        emit(thin)


cdef inline void push_runs(
    Thinner* thin, const key_t* keys, const float64_t* weights, intp_t n
) noexcept nogil:
    """Push one exact entry per distinct value of sorted keys; the last one stays pending."""
    cdef intp_t i = 0
    cdef float64_t rank = 0.0
    cdef key_t key
    cdef SummaryEntry entry
    while i < n:
        key = keys[i]
        entry.weight = 0.0
        while i < n and keys[i] == key:
            entry.weight += weights[i] if weights != NULL else 1.0
            i += 1
        entry.value = value_from_key(key)
        entry.rmin = rank
        rank += entry.weight
        entry.rmax = rank
        push(thin, &entry)


cdef inline void push_merged(
    Thinner* thin, const SummaryEntry* a, intp_t n_a, const SummaryEntry* b, intp_t n_b
) noexcept nogil:
    """Push the merge of two summaries: neighbours in one bound the ranks of the other's entries."""
    cdef intp_t i = 0, j = 0
    cdef float64_t total_a = a[n_a - 1].rmax, total_b = b[n_b - 1].rmax
    cdef float64_t low_a = 0.0, low_b = 0.0      # next() of the last entry passed on each side
    cdef SummaryEntry entry
    while i < n_a or j < n_b:
        if j == n_b or (i < n_a and a[i].value < b[j].value):
            entry = a[i]
            entry.rmin += low_b
            entry.rmax += above_prev(&b[j]) if j < n_b else total_b
            low_a = below_next(&a[i])
            i += 1
        elif i == n_a or b[j].value < a[i].value:
            entry = b[j]
            entry.rmin += low_a
            entry.rmax += above_prev(&a[i]) if i < n_a else total_a
            low_b = below_next(&b[j])
            j += 1
        else:
            entry.value = a[i].value
            entry.rmin = a[i].rmin + b[j].rmin
            entry.rmax = a[i].rmax + b[j].rmax
            entry.weight = a[i].weight + b[j].weight
            low_a = below_next(&a[i])
            low_b = below_next(&b[j])
            i += 1
            j += 1
        push(thin, &entry)


cdef inline void start_thinner(Thinner* thin, SummaryEntry* out, float64_t target) noexcept nogil:
    thin.out = out
    thin.size = 0
    thin.pending = SummaryEntry(0.0, 0.0, 0.0, 0.0)
    thin.has_pending = False
    thin.target = target
    thin.gap = 0.0


cdef inline intp_t workspace_bytes(
    intp_t n, intp_t width, bint weighted, intp_t extra
) noexcept nogil:
    """Bytes for sort_values of n keys of `width` bytes, plus `extra` bytes per key before them."""
    cdef intp_t each = extra + 2 * width + (2 * sizeof(float64_t) if weighted else 0)
    return n * each + RADIX_COUNTS * sizeof(uint32_t)


cdef inline intp_t sort_values(
    const char* values, intp_t stride, const float64_t* weights, intp_t n, char* workspace,
    key_t** keys, float64_t** sorted_weights,
) noexcept nogil:
    """Sort values without NaN. OUT keys and weights (NULL: 1 each); returns how many."""
    # Weights, keys, counters: in this order all are aligned.
    cdef float64_t* spare_weights = NULL
    cdef intp_t size
    keys[0] = <key_t*> workspace
    sorted_weights[0] = NULL
    if weights != NULL:
        sorted_weights[0] = <float64_t*> workspace
        spare_weights = sorted_weights[0] + n
        keys[0] = <key_t*> (spare_weights + n)
    size = fill_keys(values, stride, weights, n, keys[0], sorted_weights[0])
    if size > 0 and radix_sort(
        keys[0], keys[0] + n, sorted_weights[0], spare_weights, size, <uint32_t*> (keys[0] + 2 * n)
    ):
        keys[0] += n
        sorted_weights[0] = spare_weights
    return size


cdef inline intp_t sort_and_thin(
    const char* values, intp_t stride, const float64_t* weights, intp_t n, key_t like,
    float64_t share, char* workspace, Thinner* thin,
) noexcept nogil:
    """OUT summary of values, in the workspace; returns the number of values that are not NaN."""
    cdef key_t* keys
    cdef float64_t* sorted_weights
    cdef intp_t i, size = sort_values(
        values, stride, weights, n, workspace + n * sizeof(SummaryEntry), &keys, &sorted_weights
    )
    cdef float64_t total = <float64_t> size
    if size == 0:
        return 0
    if weights != NULL:
        total = 0.0
        for i in range(size):
            total += sorted_weights[i]
    start_thinner(thin, <SummaryEntry*> workspace, share * total)
    if weights == NULL and thin.target >= 1.0:
        jump_runs(thin, keys, size)
    else:
        push_runs(thin, keys, sorted_weights, size)
        emit(thin)
    return size


cdef inline intp_t count_thinned(
    const SummaryEntry* entries, intp_t n, float64_t target
) noexcept nogil:
    """How many entries a greedy pass with this target keeps."""
    cdef intp_t i, kept = 0, size = 1
    for i in range(2, n):
        if above_prev(&entries[i]) - below_next(&entries[kept]) > target:
            kept = i - 1
            size += 1
    return size + (n > 1)


cdef inline void cut_ranks(
    const SummaryEntry* entries, intp_t n, float64_t* ends, float64_t* weights
) noexcept nogil:
    """OUT cumulative weight of each entry (the middle of its bounds), and its own weight."""
    cdef intp_t i
    for i in range(n):
        weights[i] = entries[i].weight
        ends[i] = entries[n - 1].rmax
        if i < n - 1:
            ends[i] = 0.5 * below_next(&entries[i]) + 0.5 * above_prev(&entries[i + 1])
