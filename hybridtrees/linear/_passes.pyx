"""Passes over a table in blocks of standardised rows: products, log-loss and its derivatives."""

from cython.parallel cimport prange
from libc.math cimport log, sqrt
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dgemm, dgemv, dsyrk

from hybridtrees.core.base._openmp cimport omp_get_thread_num
from hybridtrees.core.base._simd cimport ht_exp, ht_vector_bytes
from hybridtrees.core.base._threads cimport team_of
from hybridtrees.core.base._types cimport float32_t, float64_t, int32_t, int64_t, intp_t, real_t

import numpy as np


# ---- Tables in blocks of standardised rows ----------------------------------------------------


cdef extern from "rows.h" nogil:
    void ht_load_f32(
        int width, const float* x, intp_t n, const double* center, const double* inv_scale,
        const double* fill, double* out)
    void ht_load_f64(
        int width, const double* x, intp_t n, const double* center, const double* inv_scale,
        const double* fill, double* out)
    void ht_scale_row(int width, double* x, intp_t n, double factor)
    void ht_sum_row(
        int width, const double* x, intp_t n, double weight, double* sums, double* squares)
    void ht_logit_rows(
        int width, double* eta, const double* sign, const double* weight, intp_t n, double* curve,
        double* linear, double* ones)

cdef enum:
    BLOCK_CELLS = 32768        # 256 KB: a block stays in the second-level cache
    PART_ROWS = 4096           # minimum number of rows of a partial sum
    MAX_PARTS = 64
    PART_CELLS = 1 << 22       # maximum number of cells of all partial sums


cdef struct TableView:
    const char* data
    const int64_t* indptr          # NULL: the table is dense
    const int64_t* indices
    const int64_t* rows            # NULL: all rows in their order
    const float64_t* center
    const float64_t* inv_scale
    const float64_t* fill
    const float64_t* absent        # value of entries that a sparse table does not store
    intp_t row_stride              # in entries, dense only
    intp_t column_stride
    intp_t n_rows
    intp_t n_columns
    bint is_double


cdef intp_t block_rows(intp_t n_columns) noexcept nogil:
    """Number of rows of a block; depends only on the width of the table."""
    return max(16, min(1024, BLOCK_CELLS // max(1, n_columns)))


cdef intp_t count_parts(intp_t n_rows, intp_t cells) noexcept nogil:
    """Number of partial sums of `cells` cells, which are merged in order.

    It does not depend on the number of threads, so neither do results.
    """
    cdef intp_t most = max(2, min(MAX_PARTS, PART_CELLS // max(1, cells)))
    return max(1, min(n_rows // PART_ROWS, most))


cdef inline intp_t own_row(const TableView* t, intp_t row) noexcept nogil:
    """Number of a row in the whole table."""
    return t.rows[row] if t.rows != NULL else row


cdef inline void load_rows(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    """Dense, C order."""
    cdef intp_t i, row
    cdef int vector = ht_vector_bytes()
    cdef const real_t* x
    for i in range(n):
        row = own_row(t, start + i)
        x = data + row * t.row_stride
        if real_t is float:
            ht_load_f32(vector, x, t.n_columns, t.center, t.inv_scale, t.fill, out)
        else:
            ht_load_f64(vector, x, t.n_columns, t.center, t.inv_scale, t.fill, out)
        out += stride


cdef inline void load_columns(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    """Dense, any other strides: column by column, as for Fortran order."""
    cdef intp_t i, j, row
    cdef const real_t* x
    cdef float64_t value, center, inv_scale, fill
    for j in range(t.n_columns):
        x = data + j * t.column_stride
        center = t.center[j]
        inv_scale = t.inv_scale[j]
        fill = t.fill[j]
        for i in range(n):
            row = own_row(t, start + i)
            value = <float64_t>x[row * t.row_stride]
            value = value if value == value else fill
            out[i * stride + j] = (value - center) * inv_scale


cdef inline void load_sparse(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    cdef intp_t i, j, k, row
    cdef float64_t value
    for i in range(n):
        row = own_row(t, start + i)
        for j in range(t.n_columns):
            out[j] = t.absent[j]
        for k in range(t.indptr[row], t.indptr[row + 1]):
            j = t.indices[k]
            value = <float64_t>data[k]
            value = value if value == value else t.fill[j]
            out[j] = (value - t.center[j]) * t.inv_scale[j]
        out += stride


cdef inline void load_any(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    if t.indptr != NULL:
        load_sparse(t, data, start, n, out, stride)
    elif t.column_stride == 1:
        load_rows(t, data, start, n, out, stride)
    else:
        load_columns(t, data, start, n, out, stride)


cdef void load_block(
    const TableView* table, intp_t start, intp_t n, float64_t* out, intp_t out_stride
) noexcept nogil:
    """Write rows [start, start + n), `out_stride` entries from one row to the next."""
    if table.is_double:
        load_any(table, <const float64_t*>table.data, start, n, out, out_stride)
    else:
        load_any(table, <const float32_t*>table.data, start, n, out, out_stride)


cdef struct Pass:
    # Input of one pass over the rows.
    const TableView* table
    const TableView* other         # or NULL: the right-hand table of `cross`
    const float64_t* targets       # (n_rows, n_targets); as weight and codes, of the whole table
    intp_t n_targets
    const float64_t* weight        # or NULL
    const int32_t* codes           # class codes
    const float64_t* coef          # (width, n_outputs), the intercept last
    intp_t n_outputs               # 1 for two classes
    int order                      # highest derivative to compute


cdef class Table:
    """Standardised view of a table: (value - center) * inv_scale, with `fill` in place of NaN.

    Values are a dense array or a canonical CSR array; `rows` selects rows in the given order.
    """

    cdef TableView view
    cdef readonly intp_t n_rows
    cdef readonly intp_t n_columns
    cdef readonly intp_t n_whole   # number of rows before the selection by `rows`
    cdef tuple _kept               # the arrays behind the pointers

    def __init__(self, values, center, inv_scale, fill, rows=None):
        cdef const float64_t[::1] center_view, inv_scale_view, fill_view, absent_view
        cdef const int64_t[::1] rows_view, indptr_view, indices_view
        cdef intp_t n, p = values.shape[1], address
        n = values.shape[0]
        if values.dtype != np.float32 and values.dtype != np.float64:
            raise TypeError(f"a table holds float32 or float64, got {values.dtype}")
        center, inv_scale, fill = (
            np.ascontiguousarray(a, dtype=np.float64) for a in (center, inv_scale, fill)
        )
        absent = -center * inv_scale
        center_view, inv_scale_view, fill_view, absent_view = center, inv_scale, fill, absent
        if not (len(center) == len(inv_scale) == len(fill) == p and p > 0):
            raise ValueError("center, inv_scale and fill must have one entry per column")
        kept = [center, inv_scale, fill, absent]
        self.view.center = &center_view[0]
        self.view.inv_scale = &inv_scale_view[0]
        self.view.fill = &fill_view[0]
        self.view.absent = &absent_view[0]
        self.view.is_double = values.dtype == np.float64
        self.view.indptr = self.view.indices = self.view.rows = NULL
        self.view.n_rows, self.view.n_columns = n, p
        if rows is not None:
            rows = np.ascontiguousarray(rows, dtype=np.int64)
            if len(rows) and (rows.min() < 0 or rows.max() >= n):
                raise ValueError("rows must be row numbers of the table")
            rows_view = rows
            kept.append(rows)
            self.view.n_rows = len(rows)
            if len(rows):
                self.view.rows = &rows_view[0]
        if hasattr(values, "indptr"):
            if values.format != "csr":
                raise TypeError("a sparse table must be CSR")
            indptr = np.ascontiguousarray(values.indptr, dtype=np.int64)
            # One entry more, so that there is a first one to take the address of.
            indices = np.append(values.indices, 0).astype(np.int64)
            data = np.append(values.data, values.dtype.type(0))
            if indices.min() < 0 or indices.max() >= p or indptr[n] > len(indices) - 1:
                raise ValueError("the sparse table is damaged")
            indptr_view, indices_view = indptr, indices
            self.view.indptr = &indptr_view[0]
            self.view.indices = &indices_view[0]
            kept += [indptr, indices, data]
        else:
            data = values
            if data.strides[0] % data.itemsize or data.strides[1] % data.itemsize:
                data = np.ascontiguousarray(data)
            self.view.row_stride = data.strides[0] // data.itemsize
            self.view.column_stride = data.strides[1] // data.itemsize
            kept.append(data)
        address = data.__array_interface__["data"][0]
        self.view.data = <const char*>address
        self.n_rows, self.n_columns, self.n_whole = self.view.n_rows, p, n
        if self.n_rows == 0:
            raise ValueError("a table must have at least one row")
        self._kept = tuple(kept)

    cdef int check_length(self, values, str name) except -1:
        """Raise unless an array, or None, has an entry for each row of the whole table."""
        if values is not None and len(values) != self.n_whole:
            raise ValueError(
                f"{name} must have one entry for each of {self.n_whole} rows, got {len(values)}"
            )
        return 0

    cdef Pass new_pass(self, const float64_t[::1] weight) except *:
        """A pass over the rows with their weights, or None."""
        cdef Pass job
        memset(&job, 0, sizeof(Pass))
        self.check_length(weight, "weight")
        job.table = &self.view
        if weight is not None:
            job.weight = &weight[0]
        return job

    def load(self, intp_t start, intp_t stop):
        """Return the standardised rows [start, stop) as a float64 array."""
        if not 0 <= start <= stop <= self.n_rows:
            raise ValueError(f"rows [{start}, {stop}) are out of range")
        out = np.empty((stop - start, self.n_columns))
        cdef float64_t[:, ::1] out_view = out
        if stop > start:
            with nogil:
                load_block(&self.view, start, stop - start, &out_view[0, 0], self.view.n_columns)
        return out


# ---- Sums of products over the rows of a table ------------------------------------------------
#
# Blocks of rows are standardised into a small buffer and multiplied by BLAS, which the caller must
# limit to one thread. They are added to a fixed number of partial sums, which are merged in order:
# the result is bit-identical for any number of threads.


# Adds the rows [start, stop) to the sums; the buffer belongs to the thread.
ctypedef void (*add_part_t)(
    const Pass* job, intp_t start, intp_t stop, float64_t* buffer, float64_t* sums) noexcept nogil


cdef sum_parts(
    add_part_t add_part, const Pass* job, intp_t n_parts, intp_t step, intp_t n_sums,
    intp_t buffer_size, int n_threads,
):
    """Sums over all rows: partial sums of whole blocks of `step` rows, merged in order."""
    cdef intp_t n = job.table.n_rows, part
    cdef intp_t share = ((n + n_parts - 1) // n_parts + step - 1) // step * step
    n_threads = <int>max(1, min(n_threads, n_parts))
    sums = np.zeros((n_parts, n_sums))
    cdef float64_t[:, ::1] sums_view = sums, buffers = np.empty((n_threads, buffer_size))
    for part in prange(n_parts, num_threads=team_of(n_threads), nogil=True, schedule="dynamic",
                       chunksize=1):
        add_part(job, min(n, part * share), min(n, (part + 1) * share),
                 &buffers[omp_get_thread_num(), 0], &sums_view[part, 0])
    total = sums[0]
    for part in range(1, n_parts):
        total += sums[part]
    return total


cdef void mirror_upper(float64_t[:, ::1] matrix) noexcept nogil:
    """Copy the upper triangle of a square matrix to the lower one, tile by tile."""
    cdef intp_t n = matrix.shape[0], i, j, row, column
    for row in range(0, n, 32):
        for column in range(0, row + 1, 32):
            for i in range(row, min(row + 32, n)):
                for j in range(column, min(column + 32, i)):
                    matrix[i, j] = matrix[j, i]


cdef inline float64_t weight_of(const Pass* job, intp_t row) noexcept nogil:
    return job.weight[own_row(job.table, row)] if job.weight != NULL else 1.0


cdef void add_gram(
    const Pass* job, intp_t start, intp_t stop, float64_t* buffer, float64_t* sums
) noexcept nogil:
    """Products of columns, targets and a column of ones, weighted by row."""
    cdef const TableView* t = job.table
    cdef intp_t width = t.n_columns + job.n_targets + 1, step = block_rows(width), n, i, j
    cdef int order = <int>width, count
    cdef double one = 1.0
    cdef float64_t* row
    while start < stop:
        n = min(step, stop - start)
        load_block(t, start, n, buffer, width)
        for i in range(n):
            row = buffer + i * width
            for j in range(job.n_targets):
                row[t.n_columns + j] = job.targets[own_row(t, start + i) * job.n_targets + j]
            row[width - 1] = 1.0
            if job.weight != NULL:
                ht_scale_row(ht_vector_bytes(), row, width, sqrt(weight_of(job, start + i)))
        count = <int>n
        dsyrk(b"L", b"N", &order, &count, &one, buffer, &order, &one, sums, &order)
        start += n


def gram(
    Table table, const float64_t[:, ::1] targets, const float64_t[::1] weight, int n_threads
):
    """Gram matrix: weighted sums of products of columns, targets and a column of ones.

    Its last row has the sums of columns and targets, and the total weight. Targets and weights are
    those of all rows of the whole table.
    """
    cdef intp_t k = targets.shape[1], width = table.n_columns + k + 1, step = block_rows(width)
    cdef Pass job = table.new_pass(weight)
    table.check_length(targets, "targets")
    if width > 40000:
        raise ValueError(f"{width} columns are too many for a Gram matrix")
    job.n_targets = k
    if k:
        job.targets = &targets[0, 0]
    total = sum_parts(add_gram, &job, count_parts(table.n_rows, width * width), step,
                      width * width, step * width, n_threads).reshape(width, width)
    # The lower triangle of BLAS, in Fortran order, is the upper one in C order.
    mirror_upper(total)
    return total


cdef void add_cross(
    const Pass* job, intp_t start, intp_t stop, float64_t* buffer, float64_t* sums
) noexcept nogil:
    cdef intp_t a = job.table.n_columns, b = job.other.n_columns, step = block_rows(a + b), n, i, j
    cdef int rows = <int>b, columns = <int>a, count
    cdef double one = 1.0, w
    cdef float64_t* other = buffer + step * a
    while start < stop:
        n = min(step, stop - start)
        load_block(job.table, start, n, buffer, a)
        load_block(job.other, start, n, other, b)
        if job.weight != NULL:
            for i in range(n):
                w = weight_of(job, start + i)
                for j in range(b):
                    other[i * b + j] *= w
        count = <int>n
        dgemm(b"N", b"T", &rows, &columns, &count, &one, other, &rows, buffer, &columns, &one,
              sums, &rows)
        start += n


def cross(Table left, Table right, const float64_t[::1] weight, int n_threads):
    """Weighted sums of products (left, right) of the columns of two tables of the same rows."""
    cdef intp_t a = left.n_columns, b = right.n_columns, step = block_rows(a + b)
    cdef Pass job = left.new_pass(weight)
    if right.n_rows != left.n_rows:
        raise ValueError("the two tables differ in their numbers of rows")
    job.other = &right.view
    return sum_parts(add_cross, &job, count_parts(left.n_rows, a * b), step, a * b,
                     step * (a + b), n_threads).reshape(a, b)


def project(Table table, const float64_t[:, ::1] coef, const float64_t[::1] intercept,
            int n_threads):
    """Table times coefficients (n_columns, n_outputs) plus intercept."""
    cdef intp_t n = table.n_rows, p = table.n_columns, k = coef.shape[1], block
    cdef intp_t step = block_rows(p), n_blocks = (n + step - 1) // step
    if coef.shape[0] != p or intercept.shape[0] != k or k == 0:
        raise ValueError("the coefficients do not fit the table")
    out = np.empty((n, k))
    n_threads = <int>max(1, min(n_threads, n_blocks))
    buffers = np.empty((n_threads, step * p))
    cdef float64_t[:, ::1] out_view = out
    cdef float64_t[:, ::1] buffers_view = buffers
    for block in prange(n_blocks, num_threads=team_of(n_threads), nogil=True, schedule="static"):
        project_block(&table.view, &coef[0, 0], &intercept[0], k, block * step,
                      min(step, n - block * step), &buffers_view[omp_get_thread_num(), 0],
                      &out_view[block * step, 0])
    return out


cdef void project_block(
    const TableView* t, const float64_t* coef, const float64_t* intercept, intp_t k, intp_t start,
    intp_t n, float64_t* buffer, float64_t* out,
) noexcept nogil:
    cdef intp_t i, j
    cdef int outputs = <int>k, count = <int>n, columns = <int>t.n_columns
    cdef double one = 1.0
    load_block(t, start, n, buffer, t.n_columns)
    for i in range(n):
        for j in range(k):
            out[i * k + j] = intercept[j]
    dgemm(b"N", b"N", &outputs, &count, &columns, &one, <double*>coef, &outputs, buffer, &columns,
          &one, out, &outputs)


cdef void add_squares(
    const Pass* job, intp_t start, intp_t stop, float64_t* buffer, float64_t* sums
) noexcept nogil:
    cdef intp_t p = job.table.n_columns, step = block_rows(p), n, i
    cdef int vector = ht_vector_bytes()
    while start < stop:
        n = min(step, stop - start)
        load_block(job.table, start, n, buffer, p)
        for i in range(n):
            ht_sum_row(vector, buffer + i * p, p, weight_of(job, start + i), sums, sums + p)
        start += n


def column_sums(Table table, const float64_t[::1] weight, int n_threads):
    """Weighted sums of the columns and of their squares, (2, n_columns).

    NaN for a column with a missing entry that the table does not fill.
    """
    cdef intp_t p = table.n_columns, step = block_rows(p)
    cdef Pass job = table.new_pass(weight)
    return sum_parts(add_squares, &job, count_parts(table.n_rows, 2 * p), step, 2 * p, step * p,
                     n_threads).reshape(2, p)


def column_ranges(Table table, const float64_t[::1] weight):
    """Means, minima, maxima and numbers of missing entries of the columns.

    The table must have center 0, inv_scale 1 and fill NaN. NaN for a column without a value in a
    row of positive weight.
    """
    cdef intp_t n = table.n_rows, p = table.n_columns, step = block_rows(p), first = 0, i, j
    cdef Pass job = table.new_pass(weight)
    buffer, mean, total = np.empty((step, p)), np.zeros(p), np.zeros(p)
    low, high, n_missing = np.full(p, np.inf), np.full(p, -np.inf), np.zeros(p, dtype=np.int64)
    cdef float64_t[:, ::1] x = buffer
    cdef float64_t[::1] mean_view = mean, total_view = total, low_view = low, high_view = high
    cdef int64_t[::1] missing_view = n_missing
    cdef float64_t w, value
    with nogil:
        while first < n:
            load_block(&table.view, first, min(step, n - first), &x[0, 0], p)
            for i in range(min(step, n - first)):
                w = weight_of(&job, first + i)
                for j in range(p):
                    value = x[i, j]
                    if value != value:
                        missing_view[j] += 1
                    elif w > 0:
                        # A running mean does not overflow, as a sum could.
                        total_view[j] += w
                        mean_view[j] += (w / total_view[j]) * (value - mean_view[j])
                        low_view[j] = min(low_view[j], value)
                        high_view[j] = max(high_view[j], value)
            first += min(step, n - first)
    for array in (mean, low, high):
        array[total == 0] = np.nan
    return mean, low, high, n_missing


# ---------------------------------------------------------------------------------------------
# Log-loss, gradient and hessian of logistic and multinomial regression in one pass over rows.
#
# With z a standardised row followed by a one, eta = z'B and P the probabilities, the sums are over
# w_i z_i (P_i - Y_i)' for the gradient, and for the hessian over
#
#     w p (1 - p) z z'                                             (two classes)
#     w (diag(p) (x) z z' - (p (x) z) (p (x) z)')                  (more)
#
# of which the second is a block diagonal minus one product of the rows (p (x) z).


cdef intp_t buffer_size(intp_t width, intp_t n_outputs, intp_t step) noexcept nogil:
    """Room for rows, their scores, and the weighted rows or the terms of the logistic loss."""
    return step * (width + n_outputs + max(5, width * n_outputs))


cdef float64_t logistic_rows(
    const Pass* job, intp_t start, intp_t n, float64_t* eta, float64_t* curve
) noexcept nogil:
    """Turn scores into w (p - y), and write the roots of w p (1 - p); returns the loss.

    Behind `curve` there is room for 4 n more numbers.
    """
    cdef intp_t i
    cdef float64_t loss = 0.0, product = 1.0
    cdef float64_t* sign = curve + n
    cdef float64_t* weight = sign + n
    cdef float64_t* linear = weight + n
    cdef float64_t* ones = linear + n
    for i in range(n):
        sign[i] = 1.0 if job.codes[own_row(job.table, start + i)] == 1 else -1.0
        weight[i] = weight_of(job, start + i)
    ht_logit_rows(ht_vector_bytes(), eta, sign, weight, n, curve, linear, ones)
    for i in range(n):
        loss += linear[i]
    if job.weight != NULL:
        for i in range(n):
            loss += weight[i] * log(ones[i])
        return loss
    # One logarithm per 64 rows, of the product of their factors between 1 and 2.
    for i in range(n):
        product *= ones[i]
        if i % 64 == 63:
            loss += log(product)
            product = 1.0
    return loss + log(product)


cdef float64_t softmax_rows(
    const Pass* job, intp_t start, intp_t n, float64_t* eta, float64_t* root
) noexcept nogil:
    """Turn scores into probabilities; returns the loss. `root` gets the roots of the weights."""
    cdef intp_t i, k, classes = job.n_outputs
    cdef float64_t top, total, w, chosen, loss = 0.0
    cdef float64_t* row
    for i in range(n):
        w = weight_of(job, start + i)
        root[i] = sqrt(w)
        row = eta + i * classes
        top = row[0]
        for k in range(1, classes):
            top = max(top, row[k])
        chosen = row[job.codes[own_row(job.table, start + i)]]
        total = 0.0
        for k in range(classes):
            row[k] = ht_exp(row[k] - top)
            total += row[k]
        loss += w * (log(total) + top - chosen)
        for k in range(classes):
            row[k] /= total
    return loss


cdef void logistic_block(
    const Pass* job, intp_t start, intp_t n, float64_t* buffer, float64_t* loss, float64_t* grad,
    float64_t* hess,
) noexcept nogil:
    cdef intp_t width = job.table.n_columns + 1, i
    cdef int order = <int>width, count = <int>n, step = 1, vector = ht_vector_bytes()
    cdef double one = 1.0, zero = 0.0
    cdef float64_t* eta = buffer + n * width
    cdef float64_t* curve = eta + n
    dgemv(b"T", &order, &count, &one, buffer, &order, <double*>job.coef, &step, &zero, eta, &step)
    loss[0] += logistic_rows(job, start, n, eta, curve)
    if job.order >= 1:
        dgemv(b"N", &order, &count, &one, buffer, &order, eta, &step, &one, grad, &step)
    if job.order == 2:
        for i in range(n):
            ht_scale_row(vector, buffer + i * width, width, curve[i])
        dsyrk(b"L", b"N", &order, &count, &one, buffer, &order, &one, hess, &order)


cdef void softmax_block(
    const Pass* job, intp_t start, intp_t n, float64_t* buffer, float64_t* loss, float64_t* grad,
    float64_t* hess,
) noexcept nogil:
    """grad is (n_outputs, width); hess is (n_outputs * width) squared."""
    cdef intp_t width = job.table.n_columns + 1, classes = job.n_outputs, i, j, k
    cdef int order = <int>width, count = <int>n, outputs = <int>classes
    cdef int big = <int>(width * classes)
    cdef double one = 1.0, zero = 0.0, minus = -1.0, w
    cdef float64_t* eta = buffer + n * width
    cdef float64_t* wide = eta + n * classes
    cdef float64_t* root = wide        # read before `wide` is filled
    cdef float64_t factor
    dgemm(b"N", b"N", &outputs, &count, &order, &one, <double*>job.coef, &outputs, buffer, &order,
          &zero, eta, &outputs)
    loss[0] += softmax_rows(job, start, n, eta, root)
    if job.order == 2:
        for i in range(n):
            ht_scale_row(ht_vector_bytes(), buffer + i * width, width, root[i])
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
    if job.order >= 1:
        for i in range(n):
            w = weight_of(job, start + i)
            eta[i * classes + job.codes[own_row(job.table, start + i)]] -= 1.0
            # For the hessian the rows have been multiplied by the root of the weight already.
            factor = sqrt(w) if job.order == 2 else w
            for k in range(classes):
                eta[i * classes + k] *= factor
        dgemm(b"N", b"T", &order, &outputs, &count, &one, buffer, &order, eta, &outputs, &one,
              grad, &order)


cdef void add_log_loss(
    const Pass* job, intp_t start, intp_t stop, float64_t* buffer, float64_t* sums
) noexcept nogil:
    """The sums are the hessian, if `order` is 2, the gradient and the loss."""
    cdef intp_t width = job.table.n_columns + 1, big = width * job.n_outputs, n, i
    cdef intp_t step = block_rows(big)
    cdef float64_t* grad = sums + (big * big if job.order == 2 else 0)
    while start < stop:
        n = min(step, stop - start)
        load_block(job.table, start, n, buffer, width)
        for i in range(n):
            buffer[i * width + width - 1] = 1.0
        if job.n_outputs == 1:
            logistic_block(job, start, n, buffer, grad + big, grad, sums)
        else:
            softmax_block(job, start, n, buffer, grad + big, grad, sums)
        start += n


def log_loss_pass(
    Table table, const int32_t[::1] codes, const float64_t[::1] weight,
    const float64_t[:, ::1] coef, int order, int n_threads,
):
    """Sum of losses and, for order 1 and 2, its derivatives in the order of `coef.T.ravel()`.

    `coef` is (n_columns + 1, n_outputs), the intercepts last. Codes are those of all rows of the
    whole table: 0 and 1 if there is one output, else class numbers.
    """
    cdef intp_t width = table.n_columns + 1, k = coef.shape[1], big = width * k, i
    cdef intp_t step = block_rows(big), n_hess = big * big if order == 2 else 0
    cdef bint outside = False
    cdef Pass job = table.new_pass(weight)
    table.check_length(codes, "codes")
    if coef.shape[0] != width or k == 0:
        raise ValueError("the coefficients do not fit the table")
    if order == 2 and big > 20000:
        raise ValueError(f"a hessian of order {big} is too large")
    for i in range(codes.shape[0]):
        outside |= codes[i] < 0 or codes[i] >= max(2, k)
    if outside:
        raise ValueError("codes must be class numbers")
    job.coef, job.codes, job.n_outputs, job.order = &coef[0, 0], &codes[0], k, order
    total = sum_parts(
        add_log_loss, &job, count_parts(table.n_rows, n_hess if order == 2 else big), step,
        n_hess + big + 1, buffer_size(width, k, step), n_threads)
    loss, grad = float(total[n_hess + big]), total[n_hess:n_hess + big]
    if order < 2:
        return loss, grad if order else None, None
    hess = total[:n_hess].reshape(big, big)
    mirror_upper(hess)
    return loss, grad, hess
