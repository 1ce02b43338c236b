"""Linear models in the nodes of linear trees: sums of products, and fits from them."""

from libc.math cimport sqrt

from hybridtrees.core.base._types cimport float64_t, intp_t, uint32_t
from hybridtrees.core.search._linear_kernels cimport (
    ht_add_moments, ht_cell_at, ht_cell_size, ht_fill_triangle, ht_lasso_losses,
    ht_lasso_scratch, ht_padded, ht_ridge_losses, ht_ridge_scratch, ht_triangle_size,
    ht_vector_bytes,
)

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# A regressor is left out of a fit if at most this share of it is not explained by others.
TOLERANCE = 1e-10
# A regressor is constant if its variation, in units of that in the table, is at most this.
CONSTANT = 1e-13


cdef class LinearProblem:
    """Penalised least squares of targets on standardised regressors, over any rows of a table.

    Fits to fewer than `least_rows` rows are constants; losses include the penalty if `penalised`.
    """

    def __init__(self, regressors, targets, weight, penalty, int least_rows=0,
                 bint penalised=False):
        cdef int p = regressors.shape[1] + 1, k = targets.shape[1]
        cdef intp_t n = regressors.shape[0]
        if targets.shape[0] != n or (weight is not None and weight.shape[0] != n):
            raise ValueError("regressors, targets and weights must have the same rows")
        if k < 1 or n < 1:
            raise ValueError("a linear problem needs a row and a target")
        if p + k > 20000:
            raise ValueError(f"{p + k} columns are too many for a table of their products")
        self.width = ht_vector_bytes()
        self.n_padded = ht_padded(p + k)
        self.cell_size = ht_cell_size(self.n_padded)
        self.table = aligned_empty((n, self.n_padded), np.float64)
        self.view = self.table
        self.table[:, 0] = 1.0
        self.table[:, 1:p] = regressors
        self.table[:, p:p + k] = targets
        self.table[:, p + k:] = 0.0
        self.weight = None
        if weight is not None:
            self.weight = weight
            self.table *= np.sqrt(weight)[:, None]
        self.at = np.empty(ht_triangle_size(p, k), dtype=np.int32)
        ht_fill_triangle(self.n_padded, p, k, &self.at[0])
        total = float(n) if weight is None else float(np.sum(weight))
        self.least = np.append(0.0, np.full(p - 1, CONSTANT * total))
        self.per_weight = np.append(0.0, np.broadcast_to(penalty.l2_per_weight, p - 1))
        self.absolute = np.append(0.0, np.broadcast_to(penalty.l2_absolute, p - 1))
        self.l1_per_weight = np.append(0.0, np.broadcast_to(penalty.l1_per_weight, p - 1))
        self.rules.n_columns = p
        self.rules.n_targets = k
        self.rules.tail = self.cell_size - 8
        self.rules.at = &self.at[0]
        self.rules.relative = penalty.l2_relative
        self.rules.relative_sum = penalty.l2_relative_sum
        self.rules.per_weight = &self.per_weight[0]
        self.rules.absolute = &self.absolute[0]
        self.rules.least = &self.least[0]
        self.rules.tolerance = TOLERANCE
        self.rules.least_rows = least_rows
        self.rules.has_ridge = penalty.has_l2
        self.rules.penalised = penalised
        self.rules.has_lasso = penalty.has_l1
        self.rules.l1_sum = penalty.l1_sum
        self.rules.l1 = penalty.l1_relative
        self.rules.l1_per_weight = &self.l1_per_weight[0]

    @property
    def n_columns(self):
        """Regressors and the intercept."""
        return self.rules.n_columns

    @property
    def n_targets(self):
        """Number of targets."""
        return self.rules.n_targets

    cdef intp_t scratch_size(self) noexcept nogil:
        """Doubles that `losses` needs."""
        if self.rules.has_lasso:
            return ht_lasso_scratch(self.rules.n_columns, self.rules.n_targets)
        return ht_ridge_scratch(self.rules.n_columns, self.rules.n_targets)

    cdef void add_rows(self, const uint32_t* rows, intp_t n, float64_t* cell) noexcept nogil:
        """Add some rows to a cell."""
        cdef intp_t i
        cdef float64_t weight = 0.0
        ht_add_moments(self.width, &self.view[0, 0], self.n_padded, rows, n, self.n_padded, cell)
        if self.weight is None:
            weight = <float64_t>n
        else:
            for i in range(n):
                weight += self.weight[rows[i]]
        cell[self.rules.tail] += <float64_t>n
        cell[self.rules.tail + 1] += weight

    cdef void losses(
        self, const float64_t* cells, intp_t stride, const float64_t* total, int n,
        const float64_t* start, float64_t* scratch, float64_t* loss, float64_t* coef,
    ) noexcept nogil:
        """OUT losses and coefficients of n fits: to cells, or to `total` minus each cell."""
        if self.rules.has_lasso:
            ht_lasso_losses(&self.rules, cells, stride, total, n, start, scratch, loss, coef)
        else:
            ht_ridge_losses(self.width, &self.rules, cells, stride, total, n, scratch, loss, coef)

    # ---- for Python ---------------------------------------------------------------------------

    def collect(self, const uint32_t[::1] rows):
        """Return the cell of some rows."""
        cdef intp_t i
        cell = np.zeros(self.cell_size)
        cdef float64_t[::1] out = cell
        for i in range(rows.shape[0]):
            if rows[i] >= <uint32_t>self.view.shape[0]:
                raise ValueError("a row id is out of range")
        if rows.shape[0]:
            self.add_rows(&rows[0], rows.shape[0], &out[0])
        return cell

    def solve(self, const float64_t[:, ::1] cells, start=None):
        """Losses of fits to some cells, and coefficients (n_cells, n_targets, n_columns)."""
        cdef int n = <int>cells.shape[0]
        cdef float64_t[::1] begin, scratch = aligned_empty(self.scratch_size(), np.float64)
        if cells.shape[1] < self.cell_size:
            raise ValueError("the cells belong to another problem")
        loss = np.zeros(n)
        coef = np.zeros((n, self.n_targets, self.n_columns))
        begin = np.zeros(self.n_targets * self.n_columns) if start is None else start.ravel()
        cdef float64_t[::1] loss_view = loss
        cdef float64_t[:, :, ::1] coef_view = coef
        if n:
            self.losses(&cells[0, 0], cells.shape[1], NULL, n, &begin[0], &scratch[0],
                        &loss_view[0], &coef_view[0, 0, 0])
        return loss, coef

    def products(self, const float64_t[:, ::1] cells):
        """Sums of products of all columns, (n_cells, n, n) with the targets last, and the weights.

        Products of two different targets are not meaningful.
        """
        cdef int i, j, m = self.rules.n_columns + self.rules.n_targets
        index = np.empty((m, m), dtype=np.intp)
        for i in range(m):
            for j in range(i, m):
                index[i, j] = index[j, i] = ht_cell_at(self.n_padded, i, j)
        given = np.asarray(cells)
        return given[:, index], given[:, self.rules.tail + 1]

    def reweight(self, const uint32_t[::1] rows, const float64_t[:, ::1] regressors,
                 const float64_t[::1] curvature, const float64_t[:, ::1] targets):
        """Change the targets of some rows, and their weights in the sums of products.

        The weights for penalties and minimum weights stay the same. `regressors` is the table from
        which the problem was made.
        """
        cdef intp_t i, j, p = self.rules.n_columns, k = self.rules.n_targets
        cdef float64_t root
        cdef float64_t* out
        if (curvature.shape[0] != rows.shape[0] or targets.shape[0] != rows.shape[0]
                or targets.shape[1] != k or regressors.shape[1] != p - 1
                or regressors.shape[0] != self.view.shape[0]):
            raise ValueError("one weight and one set of targets per row are needed")
        for i in range(rows.shape[0]):
            if rows[i] >= <uint32_t>self.view.shape[0]:
                raise ValueError("a row id is out of range")
        with nogil:
            for i in range(rows.shape[0]):
                out = &self.view[rows[i], 0]
                root = sqrt(curvature[i])
                out[0] = root
                for j in range(p - 1):
                    out[1 + j] = root * regressors[rows[i], j]
                for j in range(k):
                    out[p + j] = root * targets[i, j]
