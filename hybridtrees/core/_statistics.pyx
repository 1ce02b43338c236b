"""Per-row statistics: from float gradients to the integers that histograms add up.

The step of the fixed-point scale is a power of two chosen once per tree from the largest
gradient (hessian), so that as many bits are kept as the sums have room for. With few rows that
is 30 bits, and float32 gradients lose next to nothing; the choice between two splits can then
differ from float64 histograms only in true ties. Leaf values never come from these integers.
"""

from cython.parallel cimport prange
from libc.math cimport copysign, fabsf, frexp, isfinite, ldexp
from libc.string cimport memcpy

from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport (
    PAIR16, PAIR32, UNIT, StatsView, float32_t, int16_t, int32_t, intp_t, uint8_t, uint16_t,
)
from hybridtrees.core._views cimport BinnedView

import numpy as np

from hybridtrees.core.dtypes import aligned_empty

cdef enum:
    BLOCK = 8192
    TILE = 256               # rows that are rounded, then written
    # From here on one packed word per cell is worth its 16 bits.
    PAIR16_MIN_ROWS = 100000
    # Below this share of the largest gradient the mean one keeps too few of the 16 bits.
    PAIR16_MAX_SPREAD = 256


cdef inline int bit_length(intp_t value) noexcept nogil:
    cdef int bits = 0
    while value > 0:
        bits += 1
        value >>= 1
    return bits


cdef inline double step_for(double largest, int bits) noexcept nogil:
    """The power of two of which `largest` takes fewer than 2**bits steps."""
    cdef int exponent
    if largest <= 0:
        return 1.0
    frexp(largest, &exponent)
    return ldexp(1.0, exponent - bits)


cdef void round_values(
    const float32_t* values, intp_t n, double scale, int32_t* out
) noexcept nogil:
    """Whole steps, halves away from 0; without a branch on the sign, which nobody can foresee."""
    cdef intp_t i
    cdef double value
    for i in range(n):
        value = values[i] * scale
        out[i] = <int32_t>(value + copysign(0.5, value))


cdef void block_range(
    const float32_t* values, intp_t n, double* largest, double* total
) noexcept nogil:
    """Largest magnitude and sum of magnitudes; eight sums, so that none waits for another."""
    cdef intp_t i, k, whole = n - n % 8
    cdef float32_t value
    cdef float32_t[8] top
    cdef double[8] add
    for k in range(8):
        top[k] = 0
        add[k] = 0
    for i in range(0, whole, 8):
        for k in range(8):
            value = fabsf(values[i + k])
            top[k] = value if value > top[k] else top[k]
            add[k] += value
    for i in range(whole, n):
        value = fabsf(values[i])
        top[0] = value if value > top[0] else top[0]
        add[0] += value
    largest[0] = 0
    total[0] = 0
    for k in range(8):
        largest[0] = max(largest[0], top[k])
        total[0] += add[k]


cdef void range_of(
    const float32_t* values, intp_t n, double* blocks, int n_threads, double* largest,
    double* mean,
) noexcept nogil:
    """Largest and mean magnitude; `blocks` holds two numbers per block.

    The mean only steers a choice of layout, but that choice too must not depend on threads: its
    blocks are added in order.
    """
    cdef intp_t n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef double top = 0, total = 0
    n_threads = <int>max(1, min(n_threads, n_blocks // 8))
    for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="static"):
        block_range(values + block * BLOCK, min(BLOCK, n - block * BLOCK), blocks + 2 * block,
                    blocks + 2 * block + 1)
    for block in range(n_blocks):
        top = max(top, blocks[2 * block])
        total += blocks[2 * block + 1]
    largest[0] = top
    mean[0] = total / n


cdef class RowStatistics:
    """Quantised (grad, hess) of all rows of a BinnedMatrix.

    Parameters
    ----------
    bins : BinnedView
    use_tail : bool
        Keep four-byte statistics in the spare bytes of the records, so that one cache line
        brings the codes and the gradient. Only one user of a BinnedMatrix may do so at a time.
    """

    def __init__(self, BinnedView bins, bint use_tail):
        self.bins = bins
        self.use_tail = use_tail
        self.own = None
        self.blocks = np.empty(2 * (bins.view.n_rows // BLOCK + 1))

    cdef int quantise(
        self, const RowValues* values, intp_t n_sampled, bint need_counts, int n_threads
    ) except -1 nogil:
        """Choose the layout and the units; `write` makes the integers."""
        cdef intp_t n = self.bins.view.n_rows
        cdef int count_bits = bit_length(n_sampled)
        cdef int spare_bits = 62 - 2 * count_bits
        cdef const float32_t* hess = values.hess
        cdef double top_grad, mean_grad
        cdef double top_hess = values.constant_hess, mean_hess = values.constant_hess
        cdef int width
        range_of(values.grad, n, &self.blocks[0], n_threads, &top_grad, &mean_grad)
        if hess != NULL:
            range_of(hess, n, &self.blocks[0], n_threads, &top_hess, &mean_hess)
        if not (isfinite(top_grad) and isfinite(mean_grad) and isfinite(top_hess)):
            with gil:
                raise ValueError(
                    "the gradients overflow 32-bit floats: the target or the sample weights are "
                    "too large, scale them down")
        self.view.count_bits = 0
        self.view.n_words = 2
        if hess == NULL and spare_bits >= 14:
            self.view.layout = UNIT
            self.view.n_words = 1
            self.view.count_bits = count_bits
            self.view.grad_unit = step_for(top_grad, min(30, spare_bits))
            self.view.hess_unit = values.constant_hess
        elif (
            hess != NULL and not need_counts and n >= PAIR16_MIN_ROWS
            and top_grad < PAIR16_MAX_SPREAD * mean_grad
            and top_hess < PAIR16_MAX_SPREAD * mean_hess
        ):
            self.view.layout = PAIR16
            self.view.grad_unit = step_for(top_grad, 15)
            self.view.hess_unit = step_for(top_hess, 16)
        else:
            self.view.layout = PAIR32
            self.view.grad_unit = step_for(top_grad, 30)
            if need_counts:
                self.view.count_bits = count_bits
                self.view.hess_unit = step_for(top_hess, min(30, spare_bits))
            else:
                self.view.hess_unit = step_for(top_hess, 30)
        width = 8 if self.view.layout == PAIR32 else 4
        # In wide records the tail would cost a cache line of its own.
        if self.use_tail and width == 4 and self.bins.view.record_bytes <= 64:
            self.view.stride = self.bins.view.record_bytes
            self.view.data = self.bins.view.records + self.bins.view.record_bytes - 4
        else:
            if self.own is None or self.own.shape[0] < n * width:
                with gil:
                    self.own = aligned_empty(n * width, "u1")
            self.view.stride = width
            self.view.data = &self.own[0]
        return 0

    cdef void write(self, const RowValues* values, int n_threads) noexcept nogil:
        """Write the integers of every row."""
        cdef intp_t n = self.bins.view.n_rows
        cdef intp_t n_blocks = (n + BLOCK - 1) // BLOCK, block
        n_threads = <int>min(n_threads, n_blocks)
        for block in prange(n_blocks, num_threads=team_of(n_threads), schedule="static"):
            write_rows(&self.view, values, block * BLOCK, min(n, (block + 1) * BLOCK))

    def fill(self, const float32_t[::1] grad, hess, intp_t n_sampled, bint need_counts,
             int n_threads):
        """Quantise from Python; `hess` is a float32 array or one number for all rows."""
        cdef const float32_t[::1] hess_view
        cdef RowValues values
        if grad.shape[0] != self.bins.view.n_rows:
            raise ValueError("one gradient per row is needed")
        values.grad = &grad[0]
        values.hess = NULL
        values.constant_hess = 1.0
        if isinstance(hess, (int, float)):
            values.constant_hess = hess
        else:
            hess_view = hess
            if hess_view.shape[0] != grad.shape[0]:
                raise ValueError("one hessian per row is needed")
            values.hess = &hess_view[0]
        self.quantise(&values, n_sampled, need_counts, n_threads)
        self.write(&values, n_threads)

    @property
    def layout(self):
        """Name, count bits and units of the quantisation in force."""
        names = {UNIT: "unit", PAIR16: "pair16", PAIR32: "pair32"}
        return {
            "name": names[self.view.layout],
            "count_bits": self.view.count_bits,
            "n_words": self.view.n_words,
            "grad_unit": self.view.grad_unit,
            "hess_unit": self.view.hess_unit,
        }


cdef void write_rows(
    const StatsView* view, const RowValues* values, intp_t start, intp_t stop
) noexcept nogil:
    """Write the integers of the rows [start, stop)."""
    cdef int32_t[TILE] grad
    cdef int32_t[TILE] hess
    cdef double constant = values.constant_hess * (1.0 / view.hess_unit)
    cdef intp_t n, i
    if values.hess == NULL and view.layout == PAIR32:
        for i in range(TILE):
            hess[i] = <int32_t>(constant + copysign(0.5, constant))
    while start < stop:
        n = min(TILE, stop - start)
        round_values(values.grad + start, n, 1.0 / view.grad_unit, grad)
        if values.hess != NULL:
            round_values(values.hess + start, n, 1.0 / view.hess_unit, hess)
        write_tile(view, grad, hess, n, <uint8_t*>view.data + start * view.stride)
        start += n


cdef void write_tile(
    const StatsView* view, const int32_t* grad, const int32_t* hess, intp_t n, uint8_t* data
) noexcept nogil:
    """Put a few rows' integers where their layout has them."""
    cdef intp_t i, stride = view.stride
    cdef int16_t grad16
    cdef uint16_t hess16
    if view.layout == UNIT:
        for i in range(n):
            memcpy(data + i * stride, grad + i, 4)
    elif view.layout == PAIR16:
        for i in range(n):
            # The largest may be rounded up to a step that 16 bits do not have.
            grad16 = <int16_t>min(max(grad[i], -32767), 32767)
            hess16 = <uint16_t>min(max(hess[i], -65535), 65535)
            memcpy(data + i * stride, &grad16, 2)
            memcpy(data + i * stride + 2, &hess16, 2)
    else:
        for i in range(n):
            memcpy(data + i * stride, grad + i, 4)
            memcpy(data + i * stride + 4, hess + i, 4)
