"""Tables in blocks of standardised rows; see the declarations."""

import numpy as np

from hybridtrees.core._types cimport float32_t, float64_t, int64_t, intp_t, real_t
from hybridtrees.linear._rows cimport ht_load_f32, ht_load_f64, ht_rows_wide

cdef enum:
    BLOCK_CELLS = 32768        # 256 KB: a block stays in the second-level cache
    PART_ROWS = 4096           # rows that a partial sum of its own is worth
    MOST_PARTS = 64
    PART_CELLS = 1 << 22       # cells of all partial sums together


cdef intp_t block_rows(intp_t n_columns) noexcept nogil:
    """Rows of a block; depends on nothing but the table's width."""
    return max(16, min(1024, BLOCK_CELLS // max(1, n_columns)))


cdef intp_t count_parts(intp_t n_rows, intp_t cells) noexcept nogil:
    """Partial sums of `cells` cells to be merged in order.

    The number does not depend on the number of threads, and so neither does a result.
    """
    cdef intp_t most = max(2, min(MOST_PARTS, PART_CELLS // max(1, cells)))
    return max(1, min(n_rows // PART_ROWS, most))


cdef inline void load_rows(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    """Dense, entries of a row side by side."""
    cdef intp_t i, row
    cdef int wide = ht_rows_wide()
    cdef const real_t* x
    for i in range(n):
        row = t.rows[start + i] if t.rows != NULL else start + i
        x = data + row * t.row_stride
        if real_t is float:
            ht_load_f32(wide, x, t.n_columns, t.center, t.inv_scale, t.fill, out)
        else:
            ht_load_f64(wide, x, t.n_columns, t.center, t.inv_scale, t.fill, out)
        out += stride


cdef inline void load_columns(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    """Dense, any strides: column by column, since a column is the shorter way through memory."""
    cdef intp_t i, j, row
    cdef const real_t* x
    cdef float64_t value, center, inv_scale, fill
    for j in range(t.n_columns):
        x = data + j * t.column_stride
        center = t.center[j]
        inv_scale = t.inv_scale[j]
        fill = t.fill[j]
        for i in range(n):
            row = t.rows[start + i] if t.rows != NULL else start + i
            value = <float64_t>x[row * t.row_stride]
            value = value if value == value else fill
            out[i * stride + j] = (value - center) * inv_scale


cdef inline void load_sparse(
    const TableView* t, const real_t* data, intp_t start, intp_t n, float64_t* out, intp_t stride
) noexcept nogil:
    cdef intp_t i, j, k, row
    cdef float64_t value
    for i in range(n):
        row = t.rows[start + i] if t.rows != NULL else start + i
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


cdef class Table:
    """Standardised view of a table.

    Parameters
    ----------
    values : ndarray of float32 or float64, or a CSR array of such numbers, canonical
    center, inv_scale, fill : float64 arrays of shape (n_columns,)
        What is subtracted, what the difference is multiplied by, and what stands for NaN.
    rows : int64 array, optional
        The rows to take, in this order; all by default.
    """

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
            # One entry more, so that there is a first one to point at.
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

    def load(self, intp_t start, intp_t stop):
        """Return the standardised rows [start, stop) as a float64 array."""
        if not 0 <= start <= stop <= self.n_rows:
            raise ValueError(f"rows [{start}, {stop}) are not all there")
        out = np.empty((stop - start, self.n_columns))
        cdef float64_t[:, ::1] out_view = out
        if stop > start:
            with nogil:
                load_block(&self.view, start, stop - start, &out_view[0, 0], self.view.n_columns)
        return out
