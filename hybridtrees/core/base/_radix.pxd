"""Radix sort of floats by integer keys of the same order.

A key is an unsigned integer as wide as its float (uint32_t for float32, uint64_t for float64). Keys
compare as the floats do; -0.0 and 0.0 have the same key.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from hybridtrees.core.base._types cimport float32_t, float64_t, intp_t

ctypedef fused key_t:
    uint32_t
    uint64_t

cdef enum:
    RADIX_BITS = 11
    RADIX_SIZE = 2048
    RADIX_COUNTS = 6 * 2048      # counters that radix_sort needs, whatever the width


cdef inline key_t order_bits(key_t bits) noexcept nogil:
    # Flip all bits of a negative number, only the sign bit of any other.
    if key_t is uint32_t:
        return bits ^ ((0 - (bits >> 31)) | (<uint32_t> 1 << 31))
    else:
        return bits ^ ((0 - (bits >> 63)) | (<uint64_t> 1 << 63))


cdef inline bint key_at(const char* address, key_t* key) noexcept nogil:
    """OUT key of the float at `address`; returns whether it is a number."""
    cdef float32_t narrow
    cdef float64_t wide
    # Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
    if key_t is uint32_t:
        memcpy(&narrow, address, 4)
        narrow += <float32_t> 0.0
        memcpy(key, &narrow, 4)
        key[0] = order_bits(key[0])
        return narrow == narrow
    else:
        memcpy(&wide, address, 8)
        wide += 0.0
        memcpy(key, &wide, 8)
        key[0] = order_bits(key[0])
        return wide == wide


cdef inline float64_t value_from_key(key_t key) noexcept nogil:
    cdef key_t bits
    cdef float32_t narrow
    cdef float64_t wide
    if key_t is uint32_t:
        bits = key ^ (((key >> 31) - 1) | (<uint32_t> 1 << 31))
        memcpy(&narrow, &bits, 4)
        return narrow
    else:
        bits = key ^ (((key >> 63) - 1) | (<uint64_t> 1 << 63))
        memcpy(&wide, &bits, 8)
        return wide


cdef inline intp_t fill_keys(
    const char* values, intp_t stride, const float64_t* weights, intp_t n, key_t* keys,
    float64_t* out_weights,
) noexcept nogil:
    """OUT keys, and weights unless NULL, of the values that are not NaN; returns how many."""
    cdef intp_t i, size = 0
    for i in range(n):
        # Written first, then counted: NaN need no branch that could be mispredicted.
        if weights != NULL:
            out_weights[size] = weights[i]
        size += key_at(values + i * stride, &keys[size])
    return size


cdef inline void scatter(
    const key_t* keys, key_t* out, const float64_t* weights, float64_t* out_weights,
    uint32_t* place, intp_t n, int shift, bint weighted,
) noexcept nogil:
    cdef intp_t i
    cdef uint32_t to
    cdef key_t digit
    for i in range(n):
        digit = (keys[i] >> shift) & (RADIX_SIZE - 1)
        to = place[digit]
        place[digit] = to + 1
        out[to] = keys[i]
        if weighted:
            out_weights[to] = weights[i]


cdef inline bint radix_sort(
    key_t* keys, key_t* spare, float64_t* weights, float64_t* spare_weights, intp_t n,
    uint32_t* counts,
) noexcept nogil:
    """Sort keys, and weights unless NULL, low digit first; true if the result is in spare.

    Digits that are equal in all keys are skipped, so doubles that hold small integers or float32
    numbers take fewer passes.
    """
    cdef int n_digits = (8 * <int> sizeof(key_t) + RADIX_BITS - 1) // RADIX_BITS
    cdef int digit
    cdef bint swapped = False
    cdef intp_t i
    cdef uint32_t total, count
    cdef uint32_t* place
    cdef key_t key
    memset(counts, 0, n_digits * RADIX_SIZE * sizeof(uint32_t))
    for i in range(n):
        key = keys[i]
        for digit in range(n_digits):
            counts[digit * RADIX_SIZE + (key & (RADIX_SIZE - 1))] += 1
            key >>= RADIX_BITS
    for digit in range(n_digits):
        place = counts + digit * RADIX_SIZE
        if place[(keys[0] >> (RADIX_BITS * digit)) & (RADIX_SIZE - 1)] == <uint32_t> n:
            continue
        total = 0
        for i in range(RADIX_SIZE):
            count = place[i]
            place[i] = total
            total += count
        if weights != NULL:
            scatter(keys, spare, weights, spare_weights, place, n, RADIX_BITS * digit, True)
            weights, spare_weights = spare_weights, weights
        else:
            scatter(keys, spare, weights, spare_weights, place, n, RADIX_BITS * digit, False)
        keys, spare = spare, keys
        swapped = not swapped
    return swapped
