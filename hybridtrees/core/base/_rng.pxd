"""A counter-based random generator: a draw depends on its key alone, not on earlier draws."""

from hybridtrees.core.base._types cimport float64_t, int32_t, int64_t, uint64_t


cdef inline uint64_t mix(uint64_t value) noexcept nogil:
    """Finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * <uint64_t>0x94D049BB133111EB
    return value ^ (value >> 31)


cdef inline uint64_t keyed(uint64_t seed, uint64_t stream, uint64_t index) noexcept nogil:
    """Random bits for (seed, stream, index)."""
    return mix(mix(mix(seed + <uint64_t>0x9E3779B97F4A7C15) + stream) + index)


cdef inline float64_t uniform(uint64_t bits) noexcept nogil:
    """A number in [0, 1) from random bits."""
    return <float64_t>(bits >> 11) * (1.0 / 9007199254740992.0)


cdef inline void draw_sorted(
    uint64_t seed, uint64_t stream, const int32_t* source, int32_t n_source,
    int32_t n_drawn, int32_t* target,
) noexcept nogil:
    """OUT n_drawn of the n_source entries without replacement, in their order; may be in place.

    Knuth's selection sampling: entry i is taken with probability (still needed) / (still left).
    `source` NULL stands for 0, 1, 2, ...
    """
    cdef int32_t i, n_taken = 0
    cdef uint64_t state = keyed(seed, stream, 0)
    for i in range(n_source):
        # The SplitMix64 generator: a counter with an odd step, then the finaliser.
        state += <uint64_t>0x9E3779B97F4A7C15
        if uniform(mix(state)) * (n_source - i) < n_drawn - n_taken:
            target[n_taken] = source[i] if source != NULL else i
            n_taken += 1


cdef inline void draw_few(
    uint64_t seed, uint64_t stream, const int32_t* source, int32_t n_source,
    int32_t n_drawn, int32_t* target,
) noexcept nogil:
    """`draw_sorted` with one random number per drawn entry; `target` must not be `source`.

    Floyd's algorithm: draw one of the entries 0 to j, and take j if that one is taken already.
    """
    cdef int32_t i, j, k, chosen, n_taken = 0
    cdef uint64_t state = keyed(seed, stream, 0), taken = 0
    if n_source > 64 and <int64_t>n_drawn * n_drawn > 4 * <int64_t>n_source:
        draw_sorted(seed, stream, source, n_source, n_drawn, target)
        return
    for j in range(n_source - n_drawn, n_source):
        state += <uint64_t>0x9E3779B97F4A7C15
        chosen = <int32_t>(((mix(state) >> 32) * <uint64_t>(j + 1)) >> 32)
        if n_source <= 64:
            taken |= <uint64_t>1 << (j if (taken >> chosen) & 1 else chosen)
            continue
        # Keep the taken entries sorted; j is larger than all of them.
        k = n_taken
        while k > 0 and target[k - 1] > chosen:
            k -= 1
        if k > 0 and target[k - 1] == chosen:
            chosen = j
            k = n_taken
        for i in range(n_taken, k, -1):
            target[i] = target[i - 1]
        target[k] = chosen
        n_taken += 1
    if n_source <= 64:
        # Every entry is written, but only a drawn one advances the position: no branch.
        for i in range(n_source):
            if n_taken == n_drawn:
                break
            target[n_taken] = i
            n_taken += (taken >> i) & 1
    if source != NULL:
        for i in range(n_drawn):
            target[i] = source[target[i]]
