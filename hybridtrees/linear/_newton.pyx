"""Log-loss, gradient and hessian of logistic and multinomial regression in one pass over rows.

With z a standardised row followed by a one, eta = z'B and P the probabilities, the sums are over
w_i z_i (P_i - Y_i)' for the gradient, and for the hessian over

    w p (1 - p) z z'                                             (two classes)
    w (diag(p) (x) z z' - (p (x) z) (p (x) z)')                  (more)

of which the second is one product of the rows (p (x) z) with themselves, less a block diagonal.
Blocks of rows make a fixed number of partial sums that are merged in order, as in `_moments`.
"""

import numpy as np

from cython.parallel cimport prange
from libc.math cimport log, sqrt
from scipy.linalg.cython_blas cimport dgemm, dgemv, dsyrk

from hybridtrees.core._openmp cimport omp_get_thread_num
from hybridtrees.core._simd cimport ht_exp
from hybridtrees.core._team cimport team_of
from hybridtrees.core._types cimport float64_t, int32_t, intp_t
from hybridtrees.linear._rows cimport ht_logit_rows, ht_rows_wide, ht_scale_row
from hybridtrees.linear._table cimport Table, TableView, block_rows, count_parts, load_block

cdef struct Pass:
    # What one pass over the rows needs, and where it writes.
    const float64_t* coef          # (width, n_outputs), the intercept last
    const int32_t* codes
    const float64_t* weight        # or NULL
    intp_t n_outputs               # 1 for two classes
    bint want_grad
    bint want_hess


cdef intp_t buffer_size(intp_t width, intp_t n_outputs, intp_t step) noexcept nogil:
    """Rows, their scores, and the weighted rows or what the logistic loss needs."""
    return step * (width + n_outputs + max(5, width * n_outputs))


cdef float64_t logistic_rows(
    const Pass* job, const TableView* t, intp_t start, intp_t n, float64_t* eta, float64_t* curve
) noexcept nogil:
    """Turn scores into w (p - y), and write the roots of w p (1 - p); returns the loss.

    Behind `curve` there is room for 4 n more numbers.
    """
    cdef intp_t i, own
    cdef float64_t loss = 0.0, product = 1.0
    cdef float64_t* sign = curve + n
    cdef float64_t* weight = sign + n
    cdef float64_t* linear = weight + n
    cdef float64_t* ones = linear + n
    for i in range(n):
        own = t.rows[start + i] if t.rows != NULL else start + i
        sign[i] = 1.0 if job.codes[own] == 1 else -1.0
        weight[i] = job.weight[own] if job.weight != NULL else 1.0
    ht_logit_rows(ht_rows_wide(), eta, sign, weight, n, curve, linear, ones)
    for i in range(n):
        loss += linear[i]
    if job.weight != NULL:
        for i in range(n):
            loss += weight[i] * log(ones[i])
        return loss
    # One logarithm of a product of factors between 1 and 2 for every 64 rows.
    for i in range(n):
        product *= ones[i]
        if i % 64 == 63:
            loss += log(product)
            product = 1.0
    return loss + log(product)


cdef float64_t softmax_rows(
    const Pass* job, const TableView* t, intp_t start, intp_t n, float64_t* eta, float64_t* root
) noexcept nogil:
    """Turn scores into probabilities; returns the loss. `root` gets the roots of the weights."""
    cdef intp_t i, own, k, classes = job.n_outputs
    cdef float64_t top, total, w, chosen, loss = 0.0
    cdef float64_t* row
    for i in range(n):
        own = t.rows[start + i] if t.rows != NULL else start + i
        w = job.weight[own] if job.weight != NULL else 1.0
        root[i] = sqrt(w)
        row = eta + i * classes
        top = row[0]
        for k in range(1, classes):
            top = max(top, row[k])
        chosen = row[job.codes[own]]
        total = 0.0
        for k in range(classes):
            row[k] = ht_exp(row[k] - top)
            total += row[k]
        loss += w * (log(total) + top - chosen)
        for k in range(classes):
            row[k] /= total
    return loss


cdef void logistic_block(
    const Pass* job, const TableView* t, intp_t start, intp_t n, float64_t* buffer,
    float64_t* loss, float64_t* grad, float64_t* hess,
) noexcept nogil:
    cdef intp_t width = t.n_columns + 1, i
    cdef int order = <int>width, count = <int>n, step = 1, wide = ht_rows_wide()
    cdef double one = 1.0, zero = 0.0
    cdef float64_t* eta = buffer + n * width
    cdef float64_t* curve = eta + n
    dgemv(b"T", &order, &count, &one, buffer, &order, <double*>job.coef, &step, &zero, eta, &step)
    loss[0] += logistic_rows(job, t, start, n, eta, curve)
    if job.want_grad:
        dgemv(b"N", &order, &count, &one, buffer, &order, eta, &step, &one, grad, &step)
    if job.want_hess:
        for i in range(n):
            ht_scale_row(wide, buffer + i * width, width, curve[i])
        dsyrk(b"L", b"N", &order, &count, &one, buffer, &order, &one, hess, &order)


cdef void softmax_block(
    const Pass* job, const TableView* t, intp_t start, intp_t n, float64_t* buffer,
    float64_t* loss, float64_t* grad, float64_t* hess,
) noexcept nogil:
    """grad is (n_outputs, width); hess is (n_outputs * width) squared."""
    cdef intp_t width = t.n_columns + 1, classes = job.n_outputs, i, j, k, own
    cdef int order = <int>width, count = <int>n, outputs = <int>classes
    cdef int big = <int>(width * classes)
    cdef double one = 1.0, zero = 0.0, minus = -1.0, w
    cdef float64_t* eta = buffer + n * width
    cdef float64_t* wide = eta + n * classes
    cdef float64_t* root = wide        # read up before `wide` is filled
    cdef float64_t factor
    dgemm(b"N", b"N", &outputs, &count, &order, &one, <double*>job.coef, &outputs, buffer, &order,
          &zero, eta, &outputs)
    loss[0] += softmax_rows(job, t, start, n, eta, root)
    if job.want_hess:
        for i in range(n):
            ht_scale_row(ht_rows_wide(), buffer + i * width, width, root[i])
        for i in range(n):
            for k in range(classes):
                factor = eta[i * classes + k]
                for j in range(width):
                    wide[(i * classes + k) * width + j] = buffer[i * width + j] * factor
        dsyrk(b"L", b"N", &big, &count, &minus, wide, &big, &one, hess, &big)
        for k in range(classes):
            for i in range(n):
                factor = sqrt(eta[i * classes + k])
                for j in range(width):
                    wide[i * width + j] = buffer[i * width + j] * factor
            dsyrk(b"L", b"N", &order, &count, &one, wide, &order, &one,
                  hess + (k * width) * width * classes + k * width, &big)
    if job.want_grad:
        for i in range(n):
            own = t.rows[start + i] if t.rows != NULL else start + i
            w = job.weight[own] if job.weight != NULL else 1.0
            eta[i * classes + job.codes[own]] -= 1.0
            # The rows may have been multiplied by the root of the weight already.
            factor = sqrt(w) if job.want_hess else w
            for k in range(classes):
                eta[i * classes + k] *= factor
        dgemm(b"N", b"T", &order, &outputs, &count, &one, buffer, &order, eta, &outputs, &one,
              grad, &order)


cdef void run_part(
    const Pass* job, const TableView* t, intp_t start, intp_t stop, intp_t step,
    float64_t* buffer, float64_t* loss, float64_t* grad, float64_t* hess,
) noexcept nogil:
    cdef intp_t first = start, n, i, width = t.n_columns + 1
    while first < stop:
        n = min(step, stop - first)
        load_block(t, first, n, buffer, width)
        for i in range(n):
            buffer[i * width + t.n_columns] = 1.0
        if job.n_outputs == 1:
            logistic_block(job, t, first, n, buffer, loss, grad, hess)
        else:
            softmax_block(job, t, first, n, buffer, loss, grad, hess)
        first += n


cdef void mirror_upper(float64_t[:, ::1] matrix) noexcept nogil:
    """Copy the upper triangle of a square matrix to the lower one, tile by tile."""
    cdef intp_t n = matrix.shape[0], i, j, row, column
    for row in range(0, n, 32):
        for column in range(0, row + 1, 32):
            for i in range(row, min(row + 32, n)):
                for j in range(column, min(column + 32, i)):
                    matrix[i, j] = matrix[j, i]


def log_loss_pass(
    Table table, const int32_t[::1] codes, weight, const float64_t[:, ::1] coef, int order,
    int n_threads,
):
    """Sum of losses and, for order 1 and 2, its derivatives.

    Parameters
    ----------
    table : Table
    codes : int32 array of shape (n_rows of the whole table,)
        0 and 1 where `coef` has one column, else the number of the column of the row's class.
    weight : float64 array of shape (n_rows of the whole table,), or None
    coef : float64 array of shape (n_columns + 1, n_outputs)
        The intercept stands last.
    order : {0, 1, 2}
        The highest derivative wanted.
    n_threads : int

    Returns
    -------
    loss : float
    grad : float64 array of shape (n_outputs * (n_columns + 1),), or None
    hess : float64 array, square, of the same order as grad, symmetric; or None
    """
    cdef intp_t n = table.n_rows, width = table.n_columns + 1, k = coef.shape[1]
    cdef intp_t big = width * k, cells = big * big if order == 2 else big
    cdef intp_t n_parts = count_parts(n, cells), part, share, step = block_rows(big)
    cdef intp_t i, n_codes = max(2, k)
    cdef bint outside = False
    cdef Pass job
    cdef const float64_t[::1] weight_view
    table.check_length(codes, "codes")
    table.check_length(weight, "weight")
    if coef.shape[0] != width or k == 0:
        raise ValueError("the coefficients do not fit the table")
    if order == 2 and big > 20000:
        raise ValueError(f"a hessian of order {big} is too large")
    job.coef, job.codes, job.n_outputs = &coef[0, 0], &codes[0], k
    job.want_grad, job.want_hess = order >= 1, order == 2
    job.weight = NULL
    if weight is not None:
        weight_view = weight
        job.weight = &weight_view[0]
    for i in range(codes.shape[0]):
        outside |= codes[i] < 0 or codes[i] >= n_codes
    if outside:
        raise ValueError("codes must be numbers of classes")
    share = ((n + n_parts - 1) // n_parts + step - 1) // step * step
    losses, grads = np.zeros(n_parts), np.zeros((n_parts, big))
    hessians = np.zeros((n_parts, cells if order == 2 else 1))
    n_threads = <int>max(1, min(n_threads, n_parts))
    buffers = np.empty((n_threads, buffer_size(width, k, step)))
    cdef float64_t[::1] losses_view = losses
    cdef float64_t[:, ::1] grads_view = grads, hessians_view = hessians, buffers_view = buffers
    for part in prange(n_parts, num_threads=team_of(n_threads), nogil=True, schedule="dynamic",
                       chunksize=1):
        run_part(&job, &table.view, min(n, part * share), min(n, (part + 1) * share), step,
                 &buffers_view[omp_get_thread_num(), 0], &losses_view[part],
                 &grads_view[part, 0], &hessians_view[part, 0])
    loss, grad, hess = 0.0, np.zeros(big), hessians[0]
    for part in range(n_parts):
        loss += losses[part]
        grad += grads[part]
        if part and order == 2:
            hess += hessians[part]
    if order < 2:
        return loss, grad if order else None, None
    hess = hess.reshape(big, big)
    mirror_upper(hess)
    return loss, grad, hess
