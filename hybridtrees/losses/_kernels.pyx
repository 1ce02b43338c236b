"""Losses: gradients and hessians of rows, and leaf values re-estimated by the loss."""

from cython.parallel cimport prange
from libc.math cimport ceil, fabs, floor, frexp, ldexp, log, rint

from hybridtrees.core.base._exact_sum cimport (
    SUM_ROWS, HtExactSum, ht_add_terms, ht_clear_sum, ht_merge_sum, ht_sum_value,
)
from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_exp, ht_logistic, ht_vector_bytes
from hybridtrees.core.base._threads cimport ExactSum, team_of, threads_for
from hybridtrees.core.base._types cimport (
    HT_MIN_HESSIAN, float32_t, float64_t, int32_t, int64_t, intp_t, uint32_t,
)
from hybridtrees.losses._order cimport max_depth, select, sort

import numpy as np


# ---- Losses: gradient and hessian of every row, block by block --------------------------------
#
# One loop over blocks of rows serves all losses; their formulas are in _kernels.pxd. Raw scores,
# targets and pseudo-residuals are float64; gradients and hessians are float32, and leaf values are
# float64 sums of them.


cdef extern from "loss_kernels.h" nogil:
    enum:
        HT_LOSS_ROWS
    void ht_softmax(
        int width, const double* raw, const double* y, intp_t n, int n_classes, float* grad,
        float* hess, intp_t stride, double* kept)
    void ht_logistic_losses(
        int width, const double* raw, const double* y, intp_t n, double* out)

cdef enum:
    BLOCK = 4096

cdef float64_t[2] NO_PARAMETERS = [0.0, 0.0]
# Diverged raw scores have finite statistics, with room for weights. Targets and weights too large
# for float32 do not: the grower refuses infinite statistics.
cdef float64_t MAX_STATISTIC = 1e30

LOSS_KINDS = {kind.name.lower(): int(kind) for kind in LossKind}


cdef struct Rows:
    # What the loops over rows read.
    int kind
    int32_t n_outputs
    int32_t y_columns             # 1, or one target for each output
    const float64_t* raw          # (n, n_outputs)
    const float64_t* y            # (n, y_columns)
    const float64_t* weight       # (n,) or NULL
    const float64_t* parameters   # (n_outputs, 2): a and b of each output


cdef inline float64_t bounded(float64_t x) noexcept nogil:
    """Clip what has grown as an exponential."""
    return MAX_STATISTIC if x > MAX_STATISTIC else (-MAX_STATISTIC if x < -MAX_STATISTIC else x)


cdef inline float64_t top_of(const float64_t* row, int32_t n) noexcept nogil:
    cdef int32_t k
    cdef float64_t top = row[0]
    for k in range(1, n):
        top = row[k] if row[k] > top else top
    return top


# ---- float32 statistics -------------------------------------------------------------------------

cdef void squared_rows(
    const float64_t* raw, const float64_t* y, intp_t n, float32_t* grad
) noexcept nogil:
    cdef intp_t i
    for i in range(n):
        grad[i] = <float32_t>(raw[i] - y[i])


cdef void elementwise(
    Rows* rows, intp_t start, intp_t n, intp_t stride, float32_t* grad, float32_t* hess
) noexcept nogil:
    """Any loss whose outputs do not depend on each other."""
    cdef intp_t i
    cdef int32_t k, column
    cdef Derivatives d
    cdef bint unbounded = is_log_likelihood(rows.kind) or rows.kind == EXPONENTIAL
    for k in range(rows.n_outputs):
        column = k if rows.y_columns > 1 else 0
        for i in range(start, start + n):
            d = derivatives(
                rows.kind, rows.y[i * rows.y_columns + column], rows.raw[i * rows.n_outputs + k],
                rows.parameters[2 * k], rows.parameters[2 * k + 1])
            if unbounded:
                d.grad, d.hess = bounded(d.grad), bounded(d.hess)
            grad[k * stride + i] = <float32_t>d.grad
            if hess != NULL:
                hess[k * stride + i] = <float32_t>(
                    d.hess if d.hess > HT_MIN_HESSIAN else HT_MIN_HESSIAN)


cdef void block_statistics(
    Rows* rows, intp_t start, intp_t n, intp_t stride, float32_t* grad, float32_t* hess,
    bint newton, int width, float64_t* kept,
) noexcept nogil:
    cdef intp_t i
    cdef int32_t k
    cdef float32_t* second = hess if newton else NULL
    cdef float32_t[BLOCK] unused
    if rows.kind == SQUARED and rows.n_outputs == 1:
        squared_rows(rows.raw + start, rows.y + start, n, grad + start)
        if second != NULL:
            for i in range(start, start + n):
                second[i] = 1
    elif rows.kind == LOGISTIC and rows.n_outputs == 1:
        ht_logistic(width, rows.raw + start, rows.y + start, n, grad + start,
                    &unused[0] if second == NULL else second + start)
    elif rows.kind == SOFTMAX:
        ht_softmax(width, rows.raw + start * rows.n_outputs, rows.y + start, n, rows.n_outputs,
                   grad + start, NULL if second == NULL else second + start, stride, kept)
    else:
        elementwise(rows, start, n, stride, grad, second)
    if hess != NULL and not newton:
        for k in range(rows.n_outputs):
            for i in range(start, start + n):
                hess[k * stride + i] = 1
    if rows.weight != NULL:
        for k in range(rows.n_outputs):
            for i in range(start, start + n):
                grad[k * stride + i] = <float32_t>(grad[k * stride + i] * rows.weight[i])
                hess[k * stride + i] = <float32_t>(hess[k * stride + i] * rows.weight[i])


def statistics(
    str loss, const float64_t[:, ::1] raw, y, const float64_t[::1] weight,
    float32_t[:, ::1] grad, float32_t[:, ::1] hess, int n_threads,
    const float64_t[:, ::1] parameters=None, bint newton=True,
):
    """OUT gradients and hessians of all rows, (n_outputs, n_rows).

    `hess` may be None if all hessians are 1. Without `newton` each hessian is the row's weight.
    `parameters` (n_outputs, 2) are those of each output; `y` has one column, or n_outputs.
    """
    cdef int kind = LOSS_KINDS[loss], width = ht_vector_bytes()
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef float64_t[:, ::1] kept
    cdef float32_t* hess_pointer = NULL
    cdef const float64_t[:, ::1] targets = as_columns(y)
    cdef Rows rows
    fill_rows(&rows, loss, raw, targets, weight, parameters)
    if grad.shape[0] != raw.shape[1] or grad.shape[1] != n:
        raise ValueError("raw, y and grad do not fit together")
    if hess is not None:
        if hess.shape[0] != raw.shape[1] or hess.shape[1] != n:
            raise ValueError("grad and hess do not fit together")
        hess_pointer = &hess[0, 0]
    elif (newton and not has_unit_hessian(kind)) or weight is not None:
        raise ValueError("the hessian varies and needs an array")
    n_threads = threads_for(<int>min(n_threads, n_blocks), n * raw.shape[1], 2 * BLOCK)
    # Scratch memory of each thread: the transposed scores of a few rows.
    kept = np.empty((n_threads, raw.shape[1] * HT_LOSS_ROWS if kind == SOFTMAX else 1))
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        block_statistics(&rows, block * BLOCK, min(BLOCK, n - block * BLOCK), n, &grad[0, 0],
                         hess_pointer, newton, width, &kept[omp_get_thread_num(), 0])


# ---- float64 pseudo-residuals and losses --------------------------------------------------------

cdef void block_residuals(
    Rows* rows, intp_t start, intp_t n, intp_t stride, float64_t* out
) noexcept nogil:
    cdef intp_t i
    cdef int32_t k, column
    cdef float64_t top, total
    cdef const float64_t* row
    if rows.kind == SOFTMAX:
        for i in range(start, start + n):
            row = rows.raw + i * rows.n_outputs
            top = top_of(row, rows.n_outputs)
            total = 0
            for k in range(rows.n_outputs):
                out[k * stride + i] = ht_exp(row[k] - top)
                total += out[k * stride + i]
            for k in range(rows.n_outputs):
                out[k * stride + i] = (
                    (1.0 if <int32_t>rows.y[i] == k else 0.0) - out[k * stride + i] / total)
        return
    if rows.kind == LOGISTIC and rows.n_outputs == 1:
        for i in range(start, start + n):   # a loop of its own, since it vectorises
            out[i] = -logistic(rows.y[i], rows.raw[i]).grad
        return
    for k in range(rows.n_outputs):
        column = k if rows.y_columns > 1 else 0
        for i in range(start, start + n):
            out[k * stride + i] = -derivatives(
                rows.kind, rows.y[i * rows.y_columns + column], rows.raw[i * rows.n_outputs + k],
                rows.parameters[2 * k], rows.parameters[2 * k + 1]).grad


def residuals(
    str loss, const float64_t[:, ::1] raw, y, float64_t[:, ::1] out, int n_threads,
    const float64_t[:, ::1] parameters=None,
):
    """OUT negative gradients of all rows, unweighted, (n_outputs, n_rows); as in `statistics`."""
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef const float64_t[:, ::1] targets = as_columns(y)
    cdef Rows rows
    fill_rows(&rows, loss, raw, targets, None, parameters)
    if out.shape[0] != raw.shape[1] or out.shape[1] != n:
        raise ValueError("raw, y and out do not fit together")
    n_threads = threads_for(<int>min(n_threads, n_blocks), n * raw.shape[1], 2 * BLOCK)
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        block_residuals(&rows, block * BLOCK, min(BLOCK, n - block * BLOCK), n, &out[0, 0])


cdef void row_losses(
    Rows* rows, intp_t start, intp_t n, int width, float64_t* out
) noexcept nogil:
    """OUT losses of some rows, not weighted."""
    cdef intp_t i
    cdef int32_t k, chosen
    cdef float64_t loss, top
    cdef const float64_t* row
    if rows.kind == LOGISTIC and rows.n_outputs == 1:
        ht_logistic_losses(width, rows.raw + start, rows.y + start, n, out)
        return
    if rows.kind == SQUARED and rows.n_outputs == 1:
        for i in range(n):    # a loop of its own, since it vectorises
            loss = rows.raw[start + i] - rows.y[start + i]
            out[i] = 0.5 * loss * loss
        return
    for i in range(start, start + n):
        loss = 0
        row = rows.raw + i * rows.n_outputs
        if rows.kind == SOFTMAX:
            top = top_of(row, rows.n_outputs)
            for k in range(rows.n_outputs):
                loss += ht_exp(row[k] - top)
            chosen = <int32_t>rows.y[i]
            loss = log(loss) + top
            if 0 <= chosen < rows.n_outputs:
                loss -= row[chosen]
        else:
            for k in range(rows.n_outputs):
                loss += value(
                    rows.kind, rows.y[i * rows.y_columns + (k if rows.y_columns > 1 else 0)],
                    row[k], rows.parameters[2 * k], rows.parameters[2 * k + 1])
        out[i - start] = loss


cdef void block_loss(
    Rows* rows, intp_t start, intp_t n, int width, HtExactSum* out
) noexcept nogil:
    """OUT weighted sum of the losses of a block of rows."""
    cdef float64_t[SUM_ROWS] terms
    cdef intp_t i, m, stop = start + n
    ht_clear_sum(out)
    while start < stop:
        m = min(stop - start, <intp_t>SUM_ROWS)
        row_losses(rows, start, m, width, terms)
        if rows.weight != NULL:
            for i in range(m):
                terms[i] *= rows.weight[start + i]
        ht_add_terms(width, out, terms, m)
        start += m


def sum_loss(
    str loss, const float64_t[:, ::1] raw, y, const float64_t[::1] weight, int n_threads,
    const float64_t[:, ::1] parameters=None,
):
    """Weighted sum of the losses of all rows and outputs, an ExactSum; as in `statistics`.

    Sums of parts of a table can be merged.
    """
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef const float64_t[:, ::1] targets = as_columns(y)
    cdef int64_t[:, ::1] partial = np.empty((n_blocks, sizeof(HtExactSum) // 8), dtype=np.int64)
    cdef HtExactSum* parts
    cdef int width = ht_vector_bytes()
    cdef Rows rows
    cdef ExactSum total = ExactSum()
    fill_rows(&rows, loss, raw, targets, weight, parameters)
    parts = <HtExactSum*>&partial[0, 0]
    n_threads = threads_for(<int>min(n_threads, n_blocks), n * raw.shape[1], 2 * BLOCK)
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        block_loss(&rows, block * BLOCK, min(BLOCK, n - block * BLOCK), width, &parts[block])
    for block in range(n_blocks):
        ht_merge_sum(&total.sum, &parts[block])
    return total


# ---- arguments ----------------------------------------------------------------------------------

cdef object as_columns(y):
    """Targets as (n_rows, n_columns)."""
    return y.reshape(-1, 1) if y.ndim == 1 else y


cdef const float64_t* start_of(const float64_t[::1] values, intp_t n, str name) except? NULL:
    """Pointer to n numbers, NULL for None."""
    if values is None:
        return NULL
    if values.shape[0] != n:
        raise ValueError(f"{name} and y do not fit together")
    return &values[0]


cdef int fill_rows(
    Rows* rows, str loss, const float64_t[:, ::1] raw, const float64_t[:, ::1] y,
    const float64_t[::1] weight, const float64_t[:, ::1] parameters,
) except -1:
    """Check the shapes of the arrays and store their pointers."""
    cdef int kind = LOSS_KINDS[loss]
    if y.shape[0] != raw.shape[0] or raw.shape[0] == 0 or raw.shape[1] == 0:
        raise ValueError("raw, y and grad do not fit together")
    if y.shape[1] != 1 and (kind == SOFTMAX or y.shape[1] != raw.shape[1]):
        raise ValueError("y must have one column, or one for each raw score")
    if parameters is None and kind != SOFTMAX and not (
        kind in (SQUARED, LOGISTIC) and raw.shape[1] == 1
    ):
        raise ValueError(f"the {loss} loss of {raw.shape[1]} outputs needs its parameters")
    rows.kind = kind
    rows.n_outputs = <int32_t>raw.shape[1]
    rows.y_columns = <int32_t>y.shape[1]
    rows.raw = &raw[0, 0]
    rows.y = &y[0, 0]
    rows.weight = start_of(weight, raw.shape[0], "weight")
    rows.parameters = NO_PARAMETERS
    if parameters is not None:
        if parameters.shape[0] != raw.shape[1] or parameters.shape[1] != 2:
            raise ValueError("parameters must have two numbers for each raw score")
        rows.parameters = &parameters[0, 0]
    return 0


def sigmoid(const float64_t[::1] raw, float64_t[::1] out):
    """out = 1 / (1 + exp(-raw)), without overflow."""
    cdef intp_t i
    if out.shape[0] != raw.shape[0]:
        raise ValueError("raw and out do not fit together")
    with nogil:
        for i in range(raw.shape[0]):
            out[i] = 1.0 / (1.0 + ht_exp(-raw[i]))


# ---- Leaf values re-estimated by the loss, for rows that are grouped by leaf ------------------
#
# The rows of leaf j are ``rows[start[j]:start[j + 1]]``. Means and Newton steps are exact sums
# (exact_sum.h) of blocks of rows, which threads share; quantiles take one thread per leaf.
#
# Rules (Friedman 2001, section 4), with the residual y - raw of each row:
#
# - a mean or one Newton step: sum(-w g) / sum(w h); times (K - 1) / K for K classes;
# - log links in closed form: log(sum(w y m^(1-p)) / sum(w m^(2-p))) with m = exp(raw) and the
#   variance power p: 1 for Poisson, 2 for gamma;
# - the weighted quantile of the residuals;
# - Huber: the median, plus the mean of the deviations from it clipped at delta.


cdef enum QuantileRule:
    INVERTED_CDF = 0        # smallest value at which the share of weight reaches the level
    WEIBULL = 1             # between the neighbours of the rank level * (n + 1); no weights

# A log link would send a leaf whose targets are all 0 to minus infinity: one tree changes a mean by
# at most a factor of 2e8.
cdef float64_t MAX_LOG_STEP = 19.0

QUANTILE_RULES = {"inverted_cdf": INVERTED_CDF, "weibull": WEIBULL}


# ---- sums ---------------------------------------------------------------------------------------

cdef struct Sums:
    float64_t top, bottom, weight


cdef struct Sample:
    # The arrays of one output; strides in elements.
    int kind
    int32_t output
    intp_t raw_stride
    intp_t y_stride
    const float64_t* raw
    const float64_t* y
    const float64_t* residual     # or NULL, but for SOFTMAX
    const float64_t* weight       # or NULL
    float64_t a
    float64_t b


cdef inline void row_terms(Sample* sample, intp_t i, Sums* terms) noexcept nogil:
    """OUT terms that a row adds to the sums of its leaf."""
    cdef float64_t w = 1.0 if sample.weight == NULL else sample.weight[i]
    cdef float64_t y = sample.y[i * sample.y_stride], raw = sample.raw[i * sample.raw_stride], p
    cdef Derivatives d
    terms.weight = w
    if sample.kind == SOFTMAX:
        # From the residual: the raw scores of other outputs have changed since.
        p = (1.0 if <int32_t>y == sample.output else 0.0) - sample.residual[i]
        terms.top = w * sample.residual[i]
        terms.bottom = w * p * (1.0 - p)
    elif sample.kind == LOGISTIC and sample.residual != NULL:
        p = y - sample.residual[i]
        terms.top = w * sample.residual[i]
        terms.bottom = w * p * (1.0 - p)
    elif is_log_likelihood(sample.kind):
        terms.top = w * y * ht_exp((1.0 - sample.a) * raw)
        terms.bottom = w * ht_exp((2.0 - sample.a) * raw)
    else:
        d = derivatives(sample.kind, y, raw, sample.a, sample.b)
        terms.top = -w * d.grad
        terms.bottom = w * d.hess


cdef float64_t finish(int kind, Sums* sums, float64_t factor) noexcept nogil:
    cdef float64_t step
    if not sums.weight > 0:
        return 0.0
    if is_log_likelihood(kind):
        if not sums.top > 0:
            return -MAX_LOG_STEP
        step = log(sums.top) - log(sums.bottom)
        return min(max(step, -MAX_LOG_STEP), MAX_LOG_STEP)
    # Rows that are all predicted with certainty need no step.
    if fabs(sums.bottom / sums.weight) < 1e-150:
        return 0.0
    return factor * sums.top / sums.bottom


def leaf_sums(
    str loss, const float64_t[:, ::1] raw, const float64_t[:, ::1] y,
    const float64_t[::1] weight, const float64_t[::1] residual, int32_t output, double a,
    double b, const uint32_t[::1] rows, const int64_t[::1] start, double factor,
    float64_t[::1] out, int n_threads,
):
    """OUT leaf values that are ratios of sums (times `factor`), or logarithms of such ratios.

    `residual` (or None) has the pseudo-residuals of the output; see `Loss.leaf_values`.
    """
    cdef intp_t n_leaves = out.shape[0], n_blocks, block, leaf
    cdef int64_t[::1] first_block = np.zeros(n_leaves + 1, dtype=np.int64)
    cdef int64_t[:, ::1] partial
    cdef HtExactSum* parts
    cdef HtExactSum[3] total
    cdef Sample sample
    cdef Sums sums
    cdef int k, width = ht_vector_bytes()
    sample.kind, sample.output, sample.a, sample.b = LOSS_KINDS[loss], output, a, b
    check_groups(rows, start, raw.shape[0], n_leaves)
    fill_sample(&sample, raw, y, weight, residual)
    for leaf in range(n_leaves):
        first_block[leaf + 1] = (
            first_block[leaf] + (start[leaf + 1] - start[leaf] + BLOCK - 1) // BLOCK)
    n_blocks = first_block[n_leaves]
    if n_blocks == 0:
        out[:] = 0
        return
    partial = np.empty((3 * n_blocks, sizeof(HtExactSum) // 8), dtype=np.int64)
    parts = <HtExactSum*>&partial[0, 0]
    n_threads = threads_for(<int>min(n_threads, n_blocks), rows.shape[0], 2 * BLOCK)
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        sum_block(&sample, &rows[0], &start[0], &first_block[0], n_leaves, block, width,
                  parts + 3 * block)
    for leaf in range(n_leaves):
        for k in range(3):
            ht_clear_sum(&total[k])
            for block in range(first_block[leaf], first_block[leaf + 1]):
                ht_merge_sum(&total[k], parts + 3 * block + k)
        sums.top, sums.bottom = ht_sum_value(&total[0]), ht_sum_value(&total[1])
        sums.weight = ht_sum_value(&total[2])
        if weight is None:
            sums.weight = <float64_t>(start[leaf + 1] - start[leaf])
        out[leaf] = finish(sample.kind, &sums, factor)


cdef int fill_sample(
    Sample* sample, const float64_t[:, ::1] raw, const float64_t[:, ::1] y,
    const float64_t[::1] weight, const float64_t[::1] residual,
) except -1:
    """Check the shapes of the arrays and store their pointers."""
    cdef intp_t n = raw.shape[0]
    if n == 0 or y.shape[0] != n or not 0 <= sample.output < raw.shape[1]:
        raise ValueError("raw, y and output do not fit together")
    if y.shape[1] != 1 and y.shape[1] != raw.shape[1]:
        raise ValueError("y must have one column, or one for each raw score")
    if residual is None and sample.kind == SOFTMAX:
        raise ValueError("softmax needs the residuals")
    sample.raw, sample.raw_stride = &raw[0, sample.output], raw.shape[1]
    sample.y, sample.y_stride = &y[0, sample.output if y.shape[1] > 1 else 0], y.shape[1]
    sample.weight = start_of(weight, n, "weight")
    sample.residual = start_of(residual, n, "residual")
    return 0


cdef void logistic_terms(
    const Sample* sample, const uint32_t* rows, intp_t n, float64_t* top, float64_t* bottom
) noexcept nogil:
    """OUT terms of rows of weight 1 and of two classes, from their residuals r.

    If y is 0 or 1, the probability p has p (1 - p) = |r| (1 - |r|), so that y is not read.
    """
    cdef intp_t i
    for i in range(n):
        top[i] = sample.residual[rows[i]]
    for i in range(n):
        bottom[i] = fabs(top[i]) * (1.0 - fabs(top[i]))


cdef void sum_block(
    Sample* sample, const uint32_t* rows, const int64_t* start, const int64_t* first_block,
    intp_t n_leaves, intp_t block, int width, HtExactSum* out,
) noexcept nogil:
    """OUT three sums over a block of rows of a leaf; without weights the last is not needed."""
    cdef float64_t[SUM_ROWS] top
    cdef float64_t[SUM_ROWS] bottom
    cdef float64_t[SUM_ROWS] weight
    cdef intp_t low = 0, high = n_leaves, middle, i, j, m, stop
    cdef Sums terms
    # The leaf of the block: the last one whose first block is at or before it.
    while high - low > 1:
        middle = (low + high) // 2
        if first_block[middle] <= block:
            low = middle
        else:
            high = middle
    i = start[low] + (block - first_block[low]) * BLOCK
    stop = min(i + BLOCK, start[low + 1])
    for j in range(3):
        ht_clear_sum(&out[j])
    while i < stop:
        m = min(stop - i, <intp_t>SUM_ROWS)
        if sample.kind == LOGISTIC and sample.residual != NULL and sample.weight == NULL:
            logistic_terms(sample, rows + i, m, top, bottom)
        else:
            for j in range(m):
                row_terms(sample, rows[i + j], &terms)
                top[j], bottom[j], weight[j] = terms.top, terms.bottom, terms.weight
        ht_add_terms(width, &out[0], top, m)
        ht_add_terms(width, &out[1], bottom, m)
        if sample.weight != NULL:
            ht_add_terms(width, &out[2], weight, m)
        i += m


# ---- quantiles ----------------------------------------------------------------------------------

cdef float64_t plain_quantile(
    float64_t* values, intp_t n, float64_t level, int rule
) noexcept nogil:
    cdef float64_t rank, next_
    cdef intp_t place, i
    if rule == INVERTED_CDF:
        place = <intp_t>ceil(level * n) - 1
        place = min(max(place, 0), n - 1)
        select(values, n, place)
        return values[place]
    rank = level * (n + 1) - 1.0
    place = min(max(<intp_t>floor(rank), 0), n - 1)
    select(values, n, place)
    if rank <= 0 or place == n - 1:
        return values[place]
    next_ = values[place + 1]
    for i in range(place + 2, n):
        next_ = values[i] if values[i] < next_ else next_
    return values[place] + (rank - place) * (next_ - values[place])


cdef float64_t weighted_quantile(
    float64_t* values, float64_t* weights, intp_t n, float64_t level
) noexcept nogil:
    """First value at which the sum of weights, in order of the values, reaches the level.

    Weights are rounded to a grid on which sums are exact, so that the order of ties has no effect.
    """
    cdef float64_t total = 0, sum_ = 0, goal, largest = 0, scale
    cdef int exponent
    cdef intp_t i
    for i in range(n):
        largest = max(largest, weights[i])
    frexp(largest * <float64_t>n, &exponent)
    scale = ldexp(1.0, min(52 - exponent, 1000))
    for i in range(n):
        weights[i] = rint(weights[i] * scale)
        total += weights[i]
    if not total > 0:
        return 0.0
    sort(values, weights, n, max_depth(n))
    goal = level * total
    for i in range(n):
        sum_ += weights[i]
        if sum_ >= goal and sum_ > 0:
            return values[i]
    return values[n - 1]


cdef void one_quantile(
    const float64_t* source, const float64_t* source_weight, const uint32_t* rows, intp_t n,
    float64_t* values, float64_t* weights, float64_t level, int rule, float64_t* out,
) noexcept nogil:
    cdef intp_t i
    if n == 0:
        out[0] = 0.0
        return
    for i in range(n):
        values[i] = source[rows[i]]
    if source_weight == NULL:
        out[0] = plain_quantile(values, n, level, rule)
        return
    for i in range(n):
        weights[i] = source_weight[rows[i]]
    out[0] = weighted_quantile(values, weights, n, level)


def leaf_quantiles(
    const float64_t[::1] values, const float64_t[::1] weight, const uint32_t[::1] rows,
    const int64_t[::1] start, double level, str rule, float64_t[:, ::1] scratch,
    float64_t[::1] out, int n_threads,
):
    """OUT quantile of the values in every leaf; 0 for a leaf without rows or weight.

    With weights the rule is always "inverted_cdf". `scratch` is (1, len(rows)), or (2, len(rows))
    with weights.
    """
    cdef intp_t n_leaves = out.shape[0], leaf
    cdef int how = QUANTILE_RULES[rule]
    cdef const float64_t* weight_pointer = start_of(weight, values.shape[0], "weight")
    cdef float64_t* weight_scratch = NULL
    check_groups(rows, start, values.shape[0], n_leaves)
    if not 0 <= level <= 1:
        raise ValueError("the level of a quantile must be from 0 to 1")
    if scratch.shape[0] < (1 if weight is None else 2) or scratch.shape[1] < rows.shape[0]:
        raise ValueError("scratch is too small for the rows")
    if rows.shape[0] == 0:
        out[:] = 0
        return
    if weight is not None:
        weight_scratch = &scratch[1, 0]
    n_threads = threads_for(<int>min(n_threads, n_leaves), rows.shape[0], BLOCK)
    for leaf in prange(n_leaves, num_threads=team_of(n_threads), nogil=True, schedule="dynamic"):
        one_quantile(
            &values[0], weight_pointer, &rows[0] + start[leaf], start[leaf + 1] - start[leaf],
            &scratch[0, 0] + start[leaf],
            NULL if weight_scratch == NULL else weight_scratch + start[leaf], level, how,
            &out[leaf])


cdef void clipped_mean(
    const float64_t* values, const float64_t* weight, const uint32_t* rows, intp_t n,
    float64_t delta, int width, float64_t* out,
) noexcept nogil:
    cdef float64_t[SUM_ROWS] terms
    cdef float64_t[SUM_ROWS] weights
    cdef intp_t i, m, first = 0
    cdef float64_t total = <float64_t>n
    cdef HtExactSum sum_, sum_weight
    ht_clear_sum(&sum_)
    ht_clear_sum(&sum_weight)
    while first < n:
        m = min(n - first, <intp_t>SUM_ROWS)
        for i in range(m):
            terms[i] = min(max(values[rows[first + i]] - out[0], -delta), delta)
        if weight != NULL:
            for i in range(m):
                weights[i] = weight[rows[first + i]]
                terms[i] *= weights[i]
            ht_add_terms(width, &sum_weight, weights, m)
        ht_add_terms(width, &sum_, terms, m)
        first += m
    if weight != NULL:
        total = ht_sum_value(&sum_weight)
    if total > 0:
        out[0] += ht_sum_value(&sum_) / total


def add_clipped_means(
    const float64_t[::1] values, const float64_t[::1] weight, const uint32_t[::1] rows,
    const int64_t[::1] start, double delta, float64_t[::1] out, int n_threads,
):
    """Add to every leaf's centre in `out` the mean deviation from it, clipped at `delta`."""
    cdef intp_t n_leaves = out.shape[0], leaf
    cdef int width = ht_vector_bytes()
    cdef const float64_t* weight_pointer = start_of(weight, values.shape[0], "weight")
    check_groups(rows, start, values.shape[0], n_leaves)
    if rows.shape[0] == 0:
        return
    n_threads = threads_for(<int>min(n_threads, n_leaves), rows.shape[0], BLOCK)
    for leaf in prange(n_leaves, num_threads=team_of(n_threads), nogil=True, schedule="dynamic"):
        clipped_mean(&values[0], weight_pointer, &rows[0] + start[leaf],
                     start[leaf + 1] - start[leaf], delta, width, &out[leaf])


# ---- groups -------------------------------------------------------------------------------------

cdef int check_groups(
    const uint32_t[::1] rows, const int64_t[::1] start, intp_t n_rows, intp_t n_leaves
) except -1:
    """Refuse groups that would be read out of range."""
    cdef intp_t i
    cdef uint32_t largest = 0
    if start.shape[0] != n_leaves + 1 or start[0] < 0 or start[n_leaves] > rows.shape[0]:
        raise ValueError("start must have one entry per leaf and one for the end")
    for i in range(n_leaves):
        if start[i + 1] < start[i]:
            raise ValueError("start must not decrease")
    for i in range(rows.shape[0]):
        largest = rows[i] if rows[i] > largest else largest
    if rows.shape[0] > 0 and largest >= n_rows:
        raise ValueError(f"rows holds the row {largest}, but there are {n_rows}")
    return 0
