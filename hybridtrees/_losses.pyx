"""Losses: gradient and hessian of every row, block by block.

One function works on a block of rows; one loop over blocks serves all losses. Raw scores and
targets are float64. The statistics that steer the growth of trees are float32: they enter leaf
values through float64 sums. Pseudo-residuals are float64. The formulas are in _loss_samples.pxd;
they are those of XGBoost where it has the loss.
"""

from cython.parallel cimport prange
from libc.math cimport log

from hybridtrees._loss_samples cimport (
    ABSOLUTE, EXPECTILE, EXPONENTIAL, GAMMA, HINGE, HUBER, LOGISTIC, POISSON, PSEUDO_HUBER,
    QUANTILE, SOFTMAX, SQUARED, TWEEDIE, Derivatives, d_logistic, derivatives, value
)
from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._simd cimport ht_exp, ht_logistic, ht_vector_bytes
from hybridtrees.core._team cimport team_of, threads_for
from hybridtrees.core._types cimport float32_t, float64_t, int32_t, intp_t

import numpy as np

cdef extern from "loss_kernels.h" nogil:
    enum:
        HT_LOSS_ROWS
    void ht_softmax(
        int width, const double* raw, const double* y, intp_t n, int n_classes, float* grad,
        float* hess, intp_t stride, double* kept)
    double ht_logistic_loss(int width, const double* raw, const double* y, intp_t n)

cdef enum:
    BLOCK = 4096

cdef float64_t[2] NO_PARAMETERS = [0.0, 0.0]
cdef float64_t LEAST_HESSIAN = 1e-16    # a leaf of confident rows still has a weight
# Raw scores that ran away have finite statistics, with room for weights. Targets and weights too
# large for float32 do not: the grower refuses infinite statistics.
cdef float64_t LARGEST = 1e30

LOSS_KINDS = {
    "squared": SQUARED,
    "logistic": LOGISTIC,
    "softmax": SOFTMAX,
    "absolute": ABSOLUTE,
    "quantile": QUANTILE,
    "expectile": EXPECTILE,
    "huber": HUBER,
    "pseudo_huber": PSEUDO_HUBER,
    "poisson": POISSON,
    "gamma": GAMMA,
    "tweedie": TWEEDIE,
    "exponential": EXPONENTIAL,
    "binary_hinge": HINGE,
}


cdef struct Rows:
    # What the loops read; rows from `start` on.
    int kind
    int32_t n_outputs
    int32_t y_columns             # 1, or one target for each output
    const float64_t* raw          # (n, n_outputs)
    const float64_t* y            # (n, y_columns)
    const float64_t* weight       # (n,) or NULL
    const float64_t* parameters   # (n_outputs, 2): the numbers a and b of each output


cdef inline float64_t bounded(float64_t x) noexcept nogil:
    """Cut off what has grown as an exponential."""
    return LARGEST if x > LARGEST else (-LARGEST if x < -LARGEST else x)


cdef inline float64_t top_of(const float64_t* row, int32_t n) noexcept nogil:
    cdef int32_t k
    cdef float64_t top = row[0]
    for k in range(1, n):
        top = row[k] if row[k] > top else top
    return top


# ---- float32 statistics -------------------------------------------------------------------------

cdef void squared(
    const float64_t* raw, const float64_t* y, intp_t n, float32_t* grad
) noexcept nogil:
    """L = (raw - y)^2 / 2: gradient raw - y."""
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
    cdef bint exponential = rows.kind in (POISSON, GAMMA, TWEEDIE, EXPONENTIAL)
    for k in range(rows.n_outputs):
        column = k if rows.y_columns > 1 else 0
        for i in range(start, start + n):
            d = derivatives(
                rows.kind, rows.y[i * rows.y_columns + column], rows.raw[i * rows.n_outputs + k],
                rows.parameters[2 * k], rows.parameters[2 * k + 1])
            if exponential:
                d.grad, d.hess = bounded(d.grad), bounded(d.hess)
            grad[k * stride + i] = <float32_t>d.grad
            if hess != NULL:
                hess[k * stride + i] = <float32_t>(
                    d.hess if d.hess > LEAST_HESSIAN else LEAST_HESSIAN)


cdef void block_statistics(
    Rows* rows, intp_t start, intp_t n, intp_t stride, float32_t* grad, float32_t* hess,
    bint newton, int width, float64_t* kept,
) noexcept nogil:
    cdef intp_t i
    cdef int32_t k
    cdef float32_t* second = hess if newton else NULL
    cdef float32_t[BLOCK] unused
    if rows.kind == SQUARED and rows.n_outputs == 1:
        squared(rows.raw + start, rows.y + start, n, grad + start)
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
    str loss, const float64_t[:, ::1] raw, y, weight, float32_t[:, ::1] grad, hess,
    int n_threads, const float64_t[:, ::1] parameters=None, bint newton=True,
):
    """Write the gradients and hessians of all rows.

    Parameters
    ----------
    loss : str
        A key of LOSS_KINDS.
    raw : float64 array of shape (n_rows, n_outputs)
    y : float64 array of shape (n_rows,) or (n_rows, n_outputs); class numbers for classes
    weight : float64 array of shape (n_rows,) or None
    grad : float32 array of shape (n_outputs, n_rows), written
    hess : float32 array of shape (n_outputs, n_rows), written; or None where it is 1 throughout
    n_threads : int
    parameters : float64 array of shape (n_outputs, 2), optional
        The numbers that shape the loss of each output.
    newton : bool
        Whether to write second derivatives; otherwise each hessian is the row's weight.
    """
    cdef int kind = LOSS_KINDS[loss], width = ht_vector_bytes()
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef float32_t[:, ::1] hess_view
    cdef float64_t[:, ::1] kept
    cdef float32_t* hess_pointer = NULL
    cdef const float64_t[:, ::1] targets = as_columns(y)
    cdef const float64_t[::1] weights
    cdef Rows rows
    fill_rows(&rows, loss, raw, targets, parameters)
    if grad.shape[0] != raw.shape[1] or grad.shape[1] != n:
        raise ValueError("raw, y and grad do not fit together")
    if hess is not None:
        hess_view = hess
        if hess_view.shape[0] != raw.shape[1] or hess_view.shape[1] != n:
            raise ValueError("grad and hess do not fit together")
        hess_pointer = &hess_view[0, 0]
    elif (newton and kind not in (SQUARED, ABSOLUTE, QUANTILE)) or weight is not None:
        raise ValueError("the hessian varies and needs an array")
    if weight is not None:
        weights = weight
        if weights.shape[0] != n:
            raise ValueError("weight and y do not fit together")
        rows.weight = &weights[0]
    n_threads = threads_for(<int>min(n_threads, n_blocks), n * raw.shape[1], 2 * BLOCK)
    # Of each thread: what the softmax keeps of a few rows.
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
        for i in range(start, start + n):   # the one loop that is worth its own: it vectorises
            out[i] = -d_logistic(rows.y[i], rows.raw[i]).grad
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
    """Write the negative gradients of all rows, unweighted, in float64.

    Parameters
    ----------
    loss, raw, y, n_threads, parameters
        As in `statistics`.
    out : float64 array of shape (n_outputs, n_rows), written
    """
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef const float64_t[:, ::1] targets = as_columns(y)
    cdef Rows rows
    fill_rows(&rows, loss, raw, targets, parameters)
    if out.shape[0] != raw.shape[1] or out.shape[1] != n:
        raise ValueError("raw, y and out do not fit together")
    n_threads = threads_for(<int>min(n_threads, n_blocks), n * raw.shape[1], 2 * BLOCK)
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        block_residuals(&rows, block * BLOCK, min(BLOCK, n - block * BLOCK), n, &out[0, 0])


cdef float64_t squared_loss(const float64_t* raw, const float64_t* y, intp_t n) noexcept nogil:
    """Sum of the losses of rows of weight 1; four sums, so that none waits for another."""
    cdef float64_t[4] sums
    cdef float64_t d
    cdef intp_t i, j, whole = n - n % 4
    for j in range(4):
        sums[j] = 0
    for i in range(0, whole, 4):
        for j in range(4):
            d = raw[i + j] - y[i + j]
            sums[j] += d * d
    for i in range(whole, n):
        d = raw[i] - y[i]
        sums[0] += d * d
    return 0.5 * ((sums[0] + sums[1]) + (sums[2] + sums[3]))


cdef void block_loss(
    Rows* rows, intp_t start, intp_t n, int width, float64_t* out
) noexcept nogil:
    cdef intp_t i
    cdef int32_t k, chosen
    cdef float64_t loss, top, sum_ = 0, sum_weight = 0, weight = 1
    cdef const float64_t* row
    if rows.kind in (LOGISTIC, SQUARED) and rows.n_outputs == 1 and rows.weight == NULL:
        if rows.kind == LOGISTIC:
            out[0] = ht_logistic_loss(width, rows.raw + start, rows.y + start, n)
        else:
            out[0] = squared_loss(rows.raw + start, rows.y + start, n)
        out[1] = <float64_t>n
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
        if rows.weight != NULL:
            weight = rows.weight[i]
        sum_ += weight * loss
        sum_weight += weight
    out[0] = sum_
    out[1] = sum_weight


def sum_loss(
    str loss, const float64_t[:, ::1] raw, y, weight, float64_t[:, ::1] partial, int n_threads,
    const float64_t[:, ::1] parameters=None,
):
    """Return the weighted sum of the losses of all rows and outputs, and the sum of weights.

    Parameters
    ----------
    loss, raw, y, weight, n_threads, parameters
        As in `statistics`.
    partial : float64 array of shape (n_blocks, 2), written
        Room for a sum of every 4096 rows; they are added up in order, whatever `n_threads`.
    """
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef const float64_t[:, ::1] targets = as_columns(y)
    cdef const float64_t[::1] weights
    cdef float64_t sum_ = 0, sum_weight = 0
    cdef int width = ht_vector_bytes()
    cdef Rows rows
    fill_rows(&rows, loss, raw, targets, parameters)
    if partial.shape[0] < n_blocks or partial.shape[1] != 2:
        raise ValueError("partial has no room for a sum of every block")
    if weight is not None:
        weights = weight
        if weights.shape[0] != n:
            raise ValueError("weight and y do not fit together")
        rows.weight = &weights[0]
    n_threads = threads_for(<int>min(n_threads, n_blocks), n * raw.shape[1], 2 * BLOCK)
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        block_loss(&rows, block * BLOCK, min(BLOCK, n - block * BLOCK), width,
                   &partial[block, 0])
    for block in range(n_blocks):
        sum_ += partial[block, 0]
        sum_weight += partial[block, 1]
    return sum_, sum_weight


# ---- arguments ----------------------------------------------------------------------------------

cdef object as_columns(y):
    """Targets as (n_rows, n_columns)."""
    return y.reshape(-1, 1) if y.ndim == 1 else y


cdef int fill_rows(
    Rows* rows, str loss, const float64_t[:, ::1] raw, const float64_t[:, ::1] y,
    const float64_t[:, ::1] parameters,
) except -1:
    """Check that the arrays fit together, and note their places."""
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
    rows.weight = NULL
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
