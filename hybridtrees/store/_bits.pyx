"""Codes packed into 1 to 7 bits each."""

from libc.string cimport memcpy, memset

from hybridtrees.core.base._types cimport intp_t, uint64_t, uint8_t

import numpy as np


cdef inline uint64_t read_word(const uint8_t* data, int n_bytes) noexcept nogil:
    """Little-endian number of a few bytes."""
    cdef uint64_t word = 0
    cdef int j
    for j in range(n_bytes):
        word |= <uint64_t>data[j] << (8 * j)
    return word


cdef inline void unpack_eights(
    const uint8_t* packed, intp_t n_eights, int bits, uint8_t* out
) noexcept nogil:
    """OUT eight codes of every `bits` bytes; inlined for each constant number of bits."""
    cdef intp_t i
    cdef int j
    cdef uint64_t word, mask = (<uint64_t>1 << bits) - 1
    for i in range(n_eights):
        word = read_word(packed + i * bits, bits)
        for j in range(8):
            out[8 * i + j] = <uint8_t>((word >> (bits * j)) & mask)


cdef void unpack(const uint8_t* packed, intp_t n_eights, int bits, uint8_t* out) noexcept nogil:
    if bits == 1:
        unpack_eights(packed, n_eights, 1, out)
    elif bits == 2:
        unpack_eights(packed, n_eights, 2, out)
    elif bits == 3:
        unpack_eights(packed, n_eights, 3, out)
    elif bits == 4:
        unpack_eights(packed, n_eights, 4, out)
    elif bits == 5:
        unpack_eights(packed, n_eights, 5, out)
    elif bits == 6:
        unpack_eights(packed, n_eights, 6, out)
    else:
        unpack_eights(packed, n_eights, 7, out)


cdef void pack(const uint8_t* codes, intp_t n_eights, int bits, uint8_t* out) noexcept nogil:
    cdef intp_t i
    cdef int j
    cdef uint64_t word
    for i in range(n_eights):
        word = 0
        for j in range(8):
            word |= <uint64_t>codes[8 * i + j] << (bits * j)
        for j in range(bits):
            out[i * bits + j] = <uint8_t>(word >> (8 * j))


def packed_bytes(intp_t n, int bits):
    """Bytes of n packed codes: whole groups of eight codes."""
    return (n + 7) // 8 * bits


def pack_codes(const uint8_t[::1] codes, int bits):
    """Pack codes below 2**bits, 1 to 7 bits each, the lowest bits first; returns bytes."""
    cdef intp_t n = codes.shape[0], whole = n // 8
    cdef uint8_t[8] last
    if not 1 <= bits <= 7:
        raise ValueError(f"bits must be from 1 to 7, got {bits}")
    packed = np.empty(packed_bytes(n, bits), dtype=np.uint8)
    cdef uint8_t[::1] out = packed
    if n == 0:
        return packed.tobytes()
    with nogil:
        pack(&codes[0], whole, bits, &out[0])
        if n > 8 * whole:
            memset(last, 0, 8)
            memcpy(last, &codes[8 * whole], n - 8 * whole)
            pack(last, 1, bits, &out[whole * bits])
    return packed.tobytes()


def unpack_codes(const uint8_t[::1] packed, int bits, uint8_t[::1] out):
    """OUT the codes that `pack_codes` has packed."""
    cdef intp_t n = out.shape[0], whole = n // 8
    cdef uint8_t[8] last
    if not 1 <= bits <= 7:
        raise ValueError(f"bits must be from 1 to 7, got {bits}")
    if packed.shape[0] != packed_bytes(n, bits):
        raise ValueError(
            f"{n} codes of {bits} bits take {packed_bytes(n, bits)} bytes, got {packed.shape[0]}")
    if n == 0:
        return
    with nogil:
        unpack(&packed[0], whole, bits, &out[0])
        if n > 8 * whole:
            unpack(&packed[whole * bits], 1, bits, last)
            memcpy(&out[8 * whole], last, n - 8 * whole)
