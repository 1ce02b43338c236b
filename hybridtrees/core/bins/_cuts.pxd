"""Cuts of sorted distinct values into bins of similar weight.

The values are given by `ends`, their cumulative weights, and `weights`, their own; NULL weights are
the differences of the ends.
"""

from libc.string cimport memmove

from hybridtrees.core.base._radix cimport key_t
from hybridtrees.core.bins._summary cimport sort_values
from hybridtrees.core.base._types cimport float64_t, intp_t


cdef inline intp_t collapse_ties(
    key_t* keys, const float64_t* weights, intp_t n, float64_t* ends
) noexcept nogil:
    """Move the distinct keys of a sorted array to its front; OUT their ends, returns how many."""
    cdef intp_t i, size = -1
    cdef float64_t end = 0.0
    cdef key_t key, previous = keys[0] + 1
    for i in range(n):
        # A key overwrites an equal one before it: no branch.
        key = keys[i]
        size += key != previous
        previous = key
        end += weights[i] if weights != NULL else 1.0
        keys[size] = key
        ends[size] = end
    return size + 1


cdef inline intp_t insert_key(
    key_t* keys, float64_t* ends, intp_t n, key_t key, float64_t weight
) noexcept nogil:
    """Insert a value with its weight into the distinct ones; returns their new number."""
    cdef intp_t i, at = 0
    while at < n and keys[at] < key:
        at += 1
    if at == n or keys[at] != key:
        memmove(keys + at + 1, keys + at, (n - at) * sizeof(key_t))
        memmove(ends + at + 1, ends + at, (n - at) * sizeof(float64_t))
        keys[at] = key
        ends[at] = ends[at - 1] if at > 0 else 0.0
        n += 1
    for i in range(at, n):
        ends[i] += weight
    return n


cdef inline float64_t end_of(const float64_t* ends, intp_t i) noexcept nogil:
    return ends[i] if i >= 0 else 0.0


cdef inline float64_t weight_of(
    const float64_t* ends, const float64_t* weights, intp_t i
) noexcept nogil:
    return weights[i] if weights != NULL else ends[i] - end_of(ends, i - 1)


cdef inline intp_t find_end(
    const float64_t* ends, intp_t low, intp_t high, float64_t rank
) noexcept nogil:
    """First index in [low, high) whose end reaches `rank`, or `high`."""
    cdef intp_t middle
    while low < high:
        middle = (low + high) // 2
        if ends[middle] < rank:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline intp_t even_cuts(
    const float64_t* ends, intp_t start, intp_t stop, intp_t n_bins, intp_t* cuts
) noexcept nogil:
    """OUT inner cuts of the values [start, stop), each at an even share of the remaining weight."""
    cdef intp_t bin, at, n_cuts = 0, last = start - 1
    cdef float64_t base = end_of(ends, start - 1), target
    for bin in range(n_bins - 1):
        if last >= stop - 2:
            break
        target = base + (ends[stop - 1] - base) / <float64_t> (n_bins - bin)
        at = find_end(ends, last + 1, stop - 2, target)
        if at > last + 1 and target - ends[at - 1] <= ends[at] - target:
            at -= 1
        cuts[n_cuts] = at
        n_cuts += 1
        last = at
        base = ends[at]
    return n_cuts


cdef inline float64_t heavy_threshold(
    const float64_t* ends, const float64_t* weights, intp_t n, intp_t n_bins,
    float64_t* light, intp_t* light_bins,
) noexcept nogil:
    """Weight above which a value gets its own bin.

    A value is heavy if it is heavier than an even share of the weight without the other heavy
    values; the threshold decreases until no value is added. OUT: remaining weight and bins.
    """
    cdef float64_t total = ends[n - 1], heavy, weight
    cdef float64_t threshold = total, candidate = total / <float64_t> n_bins
    cdef intp_t i, n_heavy, before = 0
    light[0] = total
    light_bins[0] = n_bins
    while candidate < threshold:
        heavy = 0.0
        n_heavy = 0
        for i in range(n):
            weight = weight_of(ends, weights, i)
            if weight > candidate:
                heavy += weight
                n_heavy += 1
        # There are fewer heavy values than bins, except for rounding errors of huge weights.
        if n_heavy == before or n_heavy >= n_bins:
            break
        before = n_heavy
        threshold = candidate
        light[0] = max(total - heavy, 0.0)
        light_bins[0] = n_bins - n_heavy
        candidate = light[0] / <float64_t> light_bins[0]
    return threshold


cdef inline intp_t choose_cuts(
    const float64_t* ends, const float64_t* weights, intp_t n, intp_t n_bins, intp_t* cuts
) noexcept nogil:
    """OUT indices after which to cut, ascending, at most n_bins - 1; `cuts` has n_bins entries.

    Heavy values have their own bins; the runs of light values between them share the other bins in
    proportion to their weight. If there are more runs than bins, a run without a bin joins the
    heavy value before it.
    """
    cdef intp_t i, j, bins_left, runs_left = 0, share, n_cuts = 0
    cdef float64_t light_left, weight, threshold
    if n <= n_bins:
        for i in range(n - 1):
            cuts[i] = i
        return max(n - 1, 0)
    threshold = heavy_threshold(ends, weights, n, n_bins, &light_left, &bins_left)
    if bins_left == n_bins:
        return even_cuts(ends, 0, n, n_bins, cuts)
    for i in range(n):
        runs_left += weight_of(ends, weights, i) <= threshold and (
            i == 0 or weight_of(ends, weights, i - 1) > threshold
        )
    i = 0
    while i < n:
        if weight_of(ends, weights, i) > threshold:
            cuts[n_cuts] = i
            n_cuts += 1
            i += 1
            continue
        j = i
        while j < n and weight_of(ends, weights, j) <= threshold:
            j += 1
        weight = ends[j - 1] - end_of(ends, i - 1)
        share = bins_left if runs_left == 1 else 0
        if runs_left > 1 and light_left > 0.0:
            share = <intp_t> (bins_left * min(max(weight / light_left, 0.0), 1.0) + 0.5)
        if runs_left > 1 and bins_left >= runs_left:
            share = min(max(share, 1), bins_left - (runs_left - 1))
        bins_left -= share
        runs_left -= 1
        light_left -= weight
        if share == 0 and i > 0:
            n_cuts -= 1
        n_cuts += even_cuts(ends, i, j, share, cuts + n_cuts)
        if share > 0 or i > 0:
            cuts[n_cuts] = j - 1
            n_cuts += 1
        i = j
    return n_cuts - 1


cdef inline intp_t cuts_of_values(
    const char* values, intp_t stride, const float64_t* weights, intp_t n, key_t zero,
    float64_t zero_weight, intp_t n_bins, char* workspace, intp_t* cuts, key_t** keys,
) noexcept nogil:
    """Sort a column and cut it. OUT cuts, and the distinct keys that they index.

    `zero_weight`: weight of further zeros. The workspace starts with n + 1 ends.
    """
    cdef float64_t* ends = <float64_t*> workspace
    cdef float64_t* sorted_weights
    cdef intp_t size = sort_values(
        values, stride, weights, n, workspace + (n + 1) * sizeof(float64_t), keys, &sorted_weights
    )
    size = collapse_ties(keys[0], sorted_weights, size, ends)
    if zero_weight > 0.0:
        size = insert_key(keys[0], ends, size, zero, zero_weight)
    return choose_cuts(ends, NULL, size, n_bins, cuts) if size > 0 else 0
