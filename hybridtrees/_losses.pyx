"""Losses: gradient and hessian of every row, block by block.

One function per loss works on a block of rows; one loop over blocks serves them all. Raw scores
and targets are float64, statistics float32: they only steer the growth of trees and enter leaf
values through float64 sums. The formulas are those of XGBoost where it has the loss.
"""

from cython.parallel cimport prange

from hybridtrees.core._simd cimport ht_exp, ht_logistic, ht_vector_bytes
from hybridtrees.core._types cimport float32_t, float64_t, int32_t, intp_t

cdef enum LossKind:
    SQUARED = 0
    LOGISTIC = 1
    SOFTMAX = 2

cdef enum:
    BLOCK = 4096
    MAX_KEPT = 256          # exponentials of one row that are kept, the others computed twice

LOSS_KINDS = {"squared": SQUARED, "logistic": LOGISTIC, "softmax": SOFTMAX}


cdef void squared(
    const float64_t* raw, const float64_t* y, intp_t n, float32_t* grad
) noexcept nogil:
    """L = (raw - y)^2 / 2: gradient raw - y, hessian 1."""
    cdef intp_t i
    for i in range(n):
        grad[i] = <float32_t>(raw[i] - y[i])


cdef void softmax(
    const float64_t* raw, const float64_t* y, intp_t n, int32_t n_classes,
    float32_t* grad, float32_t* hess, intp_t stride,
) noexcept nogil:
    """L = -log p_y: gradient p_k - 1[y = k], hessian 2 p_k (1 - p_k), an upper bound."""
    cdef intp_t i
    cdef int32_t k
    cdef float64_t top, total, p, h
    cdef float64_t kept[MAX_KEPT]
    cdef const float64_t* row
    for i in range(n):
        row = raw + i * n_classes
        top = row[0]
        for k in range(1, n_classes):
            top = row[k] if row[k] > top else top
        total = 0
        for k in range(n_classes):
            p = ht_exp(row[k] - top)
            total += p
            if k < MAX_KEPT:
                kept[k] = p
        for k in range(n_classes):
            p = (kept[k] if k < MAX_KEPT else ht_exp(row[k] - top)) / total
            h = 2 * p * (1 - p)
            grad[k * stride + i] = <float32_t>(p - (1.0 if <int32_t>y[i] == k else 0.0))
            hess[k * stride + i] = <float32_t>(h if h > 1e-16 else 1e-16)


cdef void block_statistics(
    int kind, const float64_t* raw, const float64_t* y, const float64_t* weight, intp_t start,
    intp_t n, int32_t n_outputs, intp_t stride, float32_t* grad, float32_t* hess, int width,
) noexcept nogil:
    cdef intp_t i
    cdef int32_t k
    raw += start * n_outputs
    y += start
    grad += start
    if hess != NULL:
        hess += start
    if kind == SQUARED:
        squared(raw, y, n, grad)
        if hess != NULL:
            for i in range(n):
                hess[i] = 1
    elif kind == LOGISTIC:
        ht_logistic(width, raw, y, n, grad, hess)
    else:
        softmax(raw, y, n, n_outputs, grad, hess, stride)
    if weight != NULL:
        weight += start
        for k in range(n_outputs):
            for i in range(n):
                grad[k * stride + i] = <float32_t>(grad[k * stride + i] * weight[i])
                hess[k * stride + i] = <float32_t>(hess[k * stride + i] * weight[i])


def statistics(
    str loss, const float64_t[:, ::1] raw, const float64_t[::1] y, weight,
    float32_t[:, ::1] grad, hess, int n_threads,
):
    """Write the gradients and hessians of all rows.

    Parameters
    ----------
    loss : {"squared", "logistic", "softmax"}
    raw : float64 array of shape (n_rows, n_outputs)
    y : float64 array of shape (n_rows,); class numbers for the classification losses
    weight : float64 array of shape (n_rows,) or None
    grad : float32 array of shape (n_outputs, n_rows), written
    hess : float32 array of shape (n_outputs, n_rows), written; or None where it is 1 throughout
    n_threads : int
    """
    cdef int kind = LOSS_KINDS[loss], width = ht_vector_bytes()
    cdef intp_t n = raw.shape[0], n_blocks = (n + BLOCK - 1) // BLOCK, block
    cdef int32_t n_outputs = <int32_t>raw.shape[1]
    cdef float32_t[:, ::1] hess_view
    cdef const float64_t[::1] weight_view
    cdef float32_t* hess_pointer = NULL
    cdef const float64_t* weight_pointer = NULL
    if y.shape[0] != n or grad.shape[0] != n_outputs or grad.shape[1] != n or n == 0:
        raise ValueError("raw, y and grad do not fit together")
    if kind != SOFTMAX and n_outputs != 1:
        raise ValueError(f"the {loss} loss has one output")
    if hess is not None:
        hess_view = hess
        if hess_view.shape[0] != n_outputs or hess_view.shape[1] != n:
            raise ValueError("grad and hess do not fit together")
        hess_pointer = &hess_view[0, 0]
    elif kind != SQUARED or weight is not None:
        raise ValueError("the hessian varies and needs an array")
    if weight is not None:
        weight_view = weight
        if weight_view.shape[0] != n:
            raise ValueError("weight and y do not fit together")
        weight_pointer = &weight_view[0]
    n_threads = <int>min(n_threads, n_blocks)
    for block in prange(n_blocks, num_threads=n_threads, nogil=True, schedule="static"):
        block_statistics(kind, &raw[0, 0], &y[0], weight_pointer, block * BLOCK,
                         min(BLOCK, n - block * BLOCK), n_outputs, n, &grad[0, 0],
                         hess_pointer, width)


def sigmoid(const float64_t[::1] raw, float64_t[::1] out):
    """out = 1 / (1 + exp(-raw)), without overflow."""
    cdef intp_t i
    if out.shape[0] != raw.shape[0]:
        raise ValueError("raw and out do not fit together")
    with nogil:
        for i in range(raw.shape[0]):
            out[i] = 1.0 / (1.0 + ht_exp(-raw[i]))
