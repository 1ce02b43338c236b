"""Coordinate descent for the elastic net, from a Gram matrix or from columns.

Both forms minimise over b

    b'G b / 2 - q'b + sum_j (l1_j |b_j| + l2_j b_j^2 / 2),      G = Z'VZ,  q = Z'Vy,

with Z the standardised table and V a diagonal matrix of weights. The covariance form updates the
gradient q - G b by one row of G per step (Friedman, Hastie and Tibshirani 2010, section 2.2). The
residual form updates u = V (y - Z b) instead and never forms G: it is for tables with more columns
than rows, on a working set of columns.

A few sweeps over the support alternate with full sweeps, which find new columns. In between the
equations on the support are solved directly, since descent converges slowly on collinear columns.
"""

from libc.math cimport fabs, sqrt
from scipy.linalg.cython_blas cimport daxpy, ddot
from scipy.linalg.cython_lapack cimport dposv

from hybridtrees.core.base._types cimport float64_t, int64_t, intp_t

import numpy as np


cdef enum:
    SUPPORT_SWEEPS = 4         # sweeps over the support before a direct solution
    MAX_SOLVED = 1500          # columns of a direct solution
    MAX_SOLVES = 20            # direct solutions in a row
    ALWAYS_SOLVED = 100        # rounds with a direct solution; later only every 16th has one

cdef float64_t JITTER = 1e-13


cdef inline float64_t shrink(float64_t x, float64_t by) noexcept nogil:
    return x - by if x > by else x + by if x < -by else 0.0


cdef inline float64_t violation(
    float64_t b, float64_t grad, float64_t l1, float64_t l2
) noexcept nogil:
    """How far one coordinate is from its optimality condition."""
    cdef float64_t a = grad - l2 * b
    if b > 0:
        return fabs(a - l1)
    if b < 0:
        return fabs(a + l1)
    return max(0.0, fabs(a) - l1)


cdef float64_t duality_gap(
    intp_t p, const float64_t* b, const float64_t* grad, const float64_t* q, const float64_t* l1,
    const float64_t* l2, float64_t yy,
) noexcept nogil:
    """Primal minus dual value.

    With the ridge penalty as additional rows the problem is a lasso with the residual r, which is
    a dual point once it is scaled such that |z_j'r| <= l1_j for every column.
    """
    cdef intp_t j
    cdef float64_t fit = 0.0, rr = yy, norm = 0.0, scale = 1.0, a
    for j in range(p):
        a = grad[j] - l2[j] * b[j]
        fit += q[j] * b[j]
        rr += b[j] * (l2[j] * b[j] - q[j] - grad[j])
        norm += l1[j] * fabs(b[j])
        if fabs(a) > l1[j]:
            scale = min(scale, l1[j] / fabs(a))
    rr = max(rr, 0.0)
    return 0.5 * rr + norm - scale * (yy - fit) + 0.5 * scale * scale * rr


cdef float64_t distance(
    intp_t p, const float64_t* b, const float64_t* grad, const float64_t* q, const float64_t* l1,
    const float64_t* l2, float64_t yy,
) noexcept nogil:
    """Duality gap over yy, or the worst violation where yy is not given (negative)."""
    cdef float64_t worst = 0.0
    cdef intp_t j
    if yy > 0:
        return duality_gap(p, b, grad, q, l1, l2, yy) / yy
    for j in range(p):
        worst = max(worst, violation(b[j], grad[j], l1[j], l2[j]))
    return worst


cdef float64_t sweep(
    const float64_t* gram, intp_t p, const int64_t* chosen, intp_t n_chosen, float64_t* b,
    float64_t* grad, const float64_t* l1, const float64_t* l2,
) noexcept nogil:
    """One step for each chosen coordinate (all for NULL); returns the largest step."""
    cdef intp_t k, j
    cdef float64_t old, new, curvature, step, largest = 0.0
    cdef int length = <int>p, one = 1
    for k in range(n_chosen):
        j = chosen[k] if chosen != NULL else k
        curvature = gram[j * p + j]
        if curvature + l2[j] <= 0.0:
            continue
        old = b[j]
        new = shrink(grad[j] + curvature * old, l1[j]) / (curvature + l2[j])
        if new != old:
            step = old - new
            b[j] = new
            daxpy(&length, &step, <double*>gram + j * p, &one, grad, &one)
            largest = max(largest, fabs(step) * sqrt(curvature))
    return largest


cdef intp_t find_support(const float64_t* b, intp_t p, int64_t* support) noexcept nogil:
    cdef intp_t j, n = 0
    for j in range(p):
        if b[j] != 0.0:
            support[n] = j
            n += 1
    return n


cdef intp_t solve_support(
    const float64_t* gram, intp_t p, int64_t* support, intp_t n, const float64_t* l1,
    const float64_t* l2, float64_t* b, float64_t* grad, float64_t* work,
) noexcept nogil:
    """Move towards the solution on the support for the current signs, until a sign would change.

    This decreases the objective. The coefficient that would change its sign becomes 0 and leaves
    the support. Returns the new size of the support, or -1 if the equations cannot be solved.
    `work` has room for n * (n + 1) numbers.
    """
    cdef intp_t i, k, stopped = -1
    cdef int64_t j
    cdef int order = <int>n, n_right = 1, info = 0, length = <int>p, one = 1
    cdef float64_t* right = work + n * n
    cdef float64_t step, share = 1.0, at
    for i in range(n):
        j = support[i]
        for k in range(i + 1):
            work[i * n + k] = gram[j * p + support[k]]
        # A tiny ridge, in case columns are linearly dependent.
        work[i * n + i] = work[i * n + i] * (1.0 + JITTER) + l2[j]
        right[i] = grad[j] - l2[j] * b[j] - (l1[j] if b[j] > 0 else -l1[j])
    dposv(b"U", &order, &n_right, work, &order, right, &order, &info)
    if info != 0:
        return -1
    for i in range(n):
        at = b[support[i]]
        if l1[support[i]] > 0.0 and (at + right[i]) * at <= 0.0 and -at / right[i] < share:
            share = -at / right[i]
            stopped = i
    for i in range(n):
        j = support[i]
        step = -share * right[i] if i != stopped else b[j]
        b[j] = b[j] - step if i != stopped else 0.0
        daxpy(&length, &step, <double*>gram + j * p, &one, grad, &one)
    if stopped < 0:
        return n
    for i in range(stopped, n - 1):
        support[i] = support[i + 1]
    return n - 1


def descend_gram(
    const float64_t[:, ::1] gram, const float64_t[::1] q, const float64_t[::1] l1,
    const float64_t[::1] l2, float64_t yy, float64_t[::1] b, float64_t tol, int max_sweeps,
):
    """Covariance form; returns the number of sweeps, and the final gap or violation.

    It stops by the duality gap relative to yy = y'Vy or, if yy is negative, by the optimality
    conditions, which is needed if a coordinate has no L1 penalty. b is overwritten.
    """
    cdef intp_t p = gram.shape[0], n, left
    cdef int n_sweeps = 0, n_rounds = 0
    cdef float64_t reached = 0.0, largest, before
    if gram.shape[1] != p or not (
        q.shape[0] == l1.shape[0] == l2.shape[0] == b.shape[0] == p
    ) or p == 0:
        raise ValueError("the arrays do not fit together")
    grad = np.asarray(q) - np.asarray(gram) @ np.asarray(b)
    support = np.empty(p, dtype=np.int64)
    cdef float64_t[::1] grad_view = grad
    cdef int64_t[::1] support_view = support
    cdef float64_t[::1] work
    cdef intp_t room = 0
    cdef const float64_t* g = &gram[0, 0]
    before = np.inf
    while True:
        with nogil:
            sweep(g, p, NULL, p, &b[0], &grad_view[0], &l1[0], &l2[0])
            n_sweeps += 1
            reached = distance(p, &b[0], &grad_view[0], &q[0], &l1[0], &l2[0], yy)
        if reached <= tol or n_sweeps >= max_sweeps:
            break
        with nogil:
            n = find_support(&b[0], p, &support_view[0])
            for _ in range(SUPPORT_SWEEPS):
                largest = sweep(g, p, &support_view[0], n, &b[0], &grad_view[0], &l1[0], &l2[0])
                n_sweeps += 1
                if largest * largest <= 0.01 * tol or n_sweeps >= max_sweeps:
                    break
            n = find_support(&b[0], p, &support_view[0])
        # Small steps do not mean convergence: with collinear columns all steps are small.
        if 0 < n <= MAX_SOLVED and (n_rounds < ALWAYS_SOLVED or n_rounds % 16 == 0):
            if n * (n + 1) > room:
                room = n * (n + 1)
                work = np.empty(room)
            with nogil:
                for _ in range(MAX_SOLVES):
                    left = solve_support(g, p, &support_view[0], n, &l1[0], &l2[0], &b[0],
                                         &grad_view[0], &work[0])
                    if left == n or left <= 0:
                        break
                    n = left
        if n_sweeps > 50 and reached >= before:
            # No progress: the updated gradient has lost accuracy, compute it again.
            grad_view = np.asarray(q) - np.asarray(gram) @ np.asarray(b)
        before = reached
        n_rounds += 1
    return n_sweeps, reached


cdef class Columns:
    """Standardised columns for the residual form.

    Dense: a standardised float64 array in Fortran order. Sparse: a canonical CSC array of float64
    without missing entries; `center` and `inv_scale` are applied on the fly.
    """

    cdef readonly intp_t n_rows
    cdef readonly intp_t n_columns
    cdef bint sparse
    cdef const float64_t[::1, :] dense
    cdef const float64_t[::1] data
    cdef const int64_t[::1] indices
    cdef const int64_t[::1] indptr
    cdef const float64_t[::1] center
    cdef const float64_t[::1] inv_scale

    def __init__(self, values, center=None, inv_scale=None):
        self.n_rows, self.n_columns = values.shape
        self.sparse = hasattr(values, "indptr")
        if self.n_rows == 0 or self.n_columns == 0:
            raise ValueError("there must be at least one row and one column")
        if not self.sparse:
            self.dense = values
            return
        self.data = np.append(values.data, 0.0)
        self.indices = np.append(values.indices, 0).astype(np.int64)
        self.indptr = values.indptr.astype(np.int64)
        self.center = np.ascontiguousarray(center, dtype=np.float64)
        self.inv_scale = np.ascontiguousarray(inv_scale, dtype=np.float64)
        sound = np.min(self.indices) >= 0 and np.max(self.indices) < self.n_rows
        sound = sound and self.indptr.shape[0] == self.n_columns + 1 and self.indptr[0] == 0
        sound = sound and (np.diff(self.indptr) >= 0).all()
        if not sound or self.indptr[self.n_columns] >= self.data.shape[0]:
            raise ValueError("the sparse table is damaged")
        if not self.center.shape[0] == self.inv_scale.shape[0] == self.n_columns:
            raise ValueError("center and inv_scale must have one entry per column")

    cdef float64_t dot(
        self, intp_t j, const float64_t* u, float64_t offset, const float64_t* v, float64_t total
    ) noexcept nogil:
        """z_j'(u + offset v); `total` is the sum of u + offset v. Dense: offset is 0."""
        cdef intp_t k
        cdef int length = <int>self.n_rows, one = 1
        cdef float64_t value = 0.0
        if not self.sparse:
            return ddot(&length, <double*>&self.dense[0, j], &one, <double*>u, &one)
        for k in range(self.indptr[j], self.indptr[j + 1]):
            value += self.data[k] * (u[self.indices[k]] + offset * v[self.indices[k]])
        return (value - self.center[j] * total) * self.inv_scale[j]

    cdef void curvature(
        self, intp_t j, const float64_t* v, float64_t v_total, float64_t* square, float64_t* first
    ) noexcept nogil:
        """z_j'V z_j and the sum of V z_j."""
        cdef intp_t i, k
        cdef float64_t x, c, ss = 0.0, s = 0.0
        if not self.sparse:
            for i in range(self.n_rows):
                x = self.dense[i, j]
                s += v[i] * x
                ss += v[i] * x * x
        else:
            # Entries that are not stored contribute c^2; stored ones replace that.
            c = self.center[j]
            for k in range(self.indptr[j], self.indptr[j + 1]):
                x = self.data[k] - c
                s += v[self.indices[k]] * (x + c)
                ss += v[self.indices[k]] * (x * x - c * c)
            s = (s - c * v_total) * self.inv_scale[j]
            ss = max(0.0, (ss + c * c * v_total) * self.inv_scale[j] * self.inv_scale[j])
        square[0] = ss
        first[0] = s

    def gradient(self, const float64_t[::1] u):
        """Z'u."""
        cdef intp_t j
        cdef float64_t total = np.sum(u)
        out = np.empty(self.n_columns)
        cdef float64_t[::1] out_view = out
        if u.shape[0] != self.n_rows:
            raise ValueError("u must have one entry per row")
        with nogil:
            for j in range(self.n_columns):
                out_view[j] = self.dot(j, &u[0], 0.0, &u[0], total)
        return out

    def times(self, const float64_t[::1] b):
        """Z b."""
        cdef intp_t i, j, k
        cdef float64_t offset = 0.0, factor
        cdef int length = <int>self.n_rows, one = 1
        out = np.zeros(self.n_rows)
        cdef float64_t[::1] out_view = out
        if b.shape[0] != self.n_columns:
            raise ValueError("b must have one entry per column")
        with nogil:
            for j in range(self.n_columns):
                if b[j] == 0.0:
                    continue
                factor = b[j]
                if not self.sparse:
                    daxpy(&length, &factor, <double*>&self.dense[0, j], &one, &out_view[0], &one)
                    continue
                factor *= self.inv_scale[j]
                offset += factor * self.center[j]
                for k in range(self.indptr[j], self.indptr[j + 1]):
                    out_view[self.indices[k]] += factor * self.data[k]
            for i in range(self.n_rows):
                out_view[i] -= offset
        return out


cdef struct Residual:
    float64_t* u
    const float64_t* v
    float64_t offset           # the true residual is u + offset v (sparse only)
    float64_t total            # its sum
    float64_t v_total


cdef float64_t column_step(
    Columns z, Residual* r, intp_t j, float64_t square, float64_t first, float64_t l1,
    float64_t l2, float64_t* b,
) noexcept nogil:
    """Minimise over one coordinate and update the residual; returns the size of the step."""
    cdef intp_t i, k
    cdef float64_t old = b[j], new, step
    if square + l2 <= 0.0:
        return 0.0
    new = shrink(z.dot(j, r.u, r.offset, r.v, r.total) + square * old, l1) / (square + l2)
    if new == old:
        return 0.0
    step = new - old
    b[j] = new
    if z.sparse:
        for k in range(z.indptr[j], z.indptr[j + 1]):
            i = z.indices[k]
            r.u[i] -= step * z.inv_scale[j] * z.data[k] * r.v[i]
        r.offset += step * z.inv_scale[j] * z.center[j]
    else:
        for i in range(z.n_rows):
            r.u[i] -= step * z.dense[i, j] * r.v[i]
    r.total -= step * first
    return fabs(step) * sqrt(square)


cdef float64_t free_step(Residual* r, intp_t n, float64_t* intercept) noexcept nogil:
    """Step of the unpenalised intercept."""
    cdef intp_t i
    cdef float64_t step = r.total / r.v_total
    intercept[0] += step
    for i in range(n):
        r.u[i] -= step * r.v[i]
    r.total = 0.0
    return fabs(step) * sqrt(r.v_total)


def descend_columns(
    Columns z, const float64_t[::1] v, float64_t[::1] u, const float64_t[::1] l1,
    const float64_t[::1] l2, float64_t[::1] b, float64_t[::1] intercept,
    working, float64_t tol, int max_sweeps,
):
    """Residual form on a working set of columns; returns the number of sweeps.

    v are weights, u is V (y - Z b - intercept); u, b and the intercept (empty for none) are
    overwritten. It stops when no coordinate moves the fit by more than `tol`.
    """
    cdef const int64_t[::1] work = np.ascontiguousarray(working, dtype=np.int64)
    cdef intp_t n_work = work.shape[0], k, n = z.n_rows
    cdef float64_t largest
    cdef bint full = True, free = intercept.shape[0] == 1
    cdef int n_sweeps = 0
    cdef Residual r
    squares, firsts = np.empty(n_work), np.empty(n_work)
    cdef float64_t[::1] square = squares, first = firsts
    if v.shape[0] != n or u.shape[0] != n or not (
        l1.shape[0] == l2.shape[0] == b.shape[0] == z.n_columns
    ):
        raise ValueError("the arrays do not fit together")
    if n_work == 0 and not free:
        return 0
    if n_work and (np.min(work) < 0 or np.max(work) >= z.n_columns):
        raise ValueError("the working set holds column numbers out of range")
    r.u, r.v, r.offset = &u[0], &v[0], 0.0
    r.total, r.v_total = np.sum(u), np.sum(v)
    with nogil:
        for k in range(n_work):
            z.curvature(work[k], r.v, r.v_total, &square[k], &first[k])
        while n_sweeps < max_sweeps:
            largest = free_step(&r, n, &intercept[0]) if free else 0.0
            for k in range(n_work):
                if full or b[work[k]] != 0.0:
                    largest = max(largest, column_step(
                        z, &r, work[k], square[k], first[k], l1[work[k]], l2[work[k]], &b[0]))
            n_sweeps += 1
            if largest <= tol:
                if full:
                    break
                full = True
            else:
                full = False
        if r.offset != 0.0:
            for k in range(n):
                u[k] += r.offset * v[k]
    return n_sweeps


def gap_of(
    const float64_t[::1] b, const float64_t[::1] grad, const float64_t[::1] q,
    const float64_t[::1] l1, const float64_t[::1] l2, float64_t yy,
):
    """Duality gap of the elastic net over yy, or the worst violation where yy is negative."""
    if not (b.shape[0] == grad.shape[0] == q.shape[0] == l1.shape[0] == l2.shape[0]) or not len(b):
        raise ValueError("the arrays do not fit together")
    return distance(b.shape[0], &b[0], &grad[0], &q[0], &l1[0], &l2[0], yy)
