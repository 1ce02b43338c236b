"""A counter-based generator: the draw depends on the key alone, never on who asks first."""

from hybridtrees.core._types cimport float64_t, int32_t, uint64_t


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
    """n_drawn of the n_source entries without replacement, in their order; in place is fine.

    Knuth's selection sampling: entry i is taken with probability (still needed) / (still left).
    `source` NULL stands for 0, 1, 2, ...
    """
    cdef int32_t i, n_taken = 0
    cdef uint64_t state = keyed(seed, stream, 0)
    for i in range(n_source):
        # SplitMix64 proper: a counter with an odd step, and its finaliser.
        state += <uint64_t>0x9E3779B97F4A7C15
        if uniform(mix(state)) * (n_source - i) < n_drawn - n_taken:
            target[n_taken] = source[i] if source != NULL else i
            n_taken += 1
