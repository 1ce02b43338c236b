"""Linear models in the nodes of linear trees: sums of products, and fits from them."""

from libc.math cimport exp, isfinite, log, sqrt
from libc.string cimport memcpy, memset

from hybridtrees.core.base._types cimport (
    HT_CONSTANT_SCALED, HT_DECREASE, HT_SMALLEST_STEP, HT_TINY, float64_t, int32_t, intp_t,
    uint32_t,
)
from hybridtrees.core.search.lines._linear_kernels cimport (
    ht_add_moments, ht_cell_at, ht_cell_size, ht_fill_triangle, ht_lasso_losses,
    ht_lasso_scratch, ht_padded, ht_ridge_losses, ht_ridge_scratch, ht_triangle_size,
    ht_vector_bytes,
)

import numpy as np

from hybridtrees.core.base.dtypes import aligned_empty


# A regressor is left out of a fit if at most this share of it is not explained by others.
TOLERANCE = 1e-10


cdef class LinearProblem:
    """Penalised least squares of targets on standardised regressors, over any rows of a table.

    Fits to fewer than `least_rows` rows are constants; losses include the penalty if `penalised`.
    The memory of `replaced`, a problem of the same size that is not used again, is taken over.
    """

    def __init__(self, regressors, targets, weight, penalty, int least_rows=0,
                 bint penalised=False, LinearProblem replaced=None):
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
        if replaced is not None and replaced.table.shape == (n, self.n_padded):
            self.table = replaced.table
        else:
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
        self.least = np.append(0.0, np.full(p - 1, HT_CONSTANT_SCALED * total))
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
        const float64_t* start, float64_t* scratch, float64_t* left, float64_t* right,
        float64_t* coef,
    ) noexcept nogil:
        """OUT losses of n fits to cells, and to `total` minus each cell unless `right` is NULL.

        OUT `coef`, unless NULL: coefficients of the fits to the cells.
        """
        if not self.rules.has_lasso:
            ht_ridge_losses(self.width, &self.rules, cells, stride, total, n, scratch, left, right,
                            coef)
            return
        ht_lasso_losses(&self.rules, cells, stride, NULL, n, start, scratch, left, coef)
        if right != NULL:
            ht_lasso_losses(&self.rules, cells, stride, total, n, start, scratch, right, NULL)

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
                        &loss_view[0], NULL, &coef_view[0, 0, 0])
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


cdef extern from "log_loss.h" nogil:
    void ht_row_scores(
        int width, const double* table, int m, intp_t n, const double* theta, double* scores)
    void ht_row_losses(
        int width, const double* scores, const double* own, const double* weight, intp_t n,
        double* proba, double* losses)
    void ht_column_sums(
        int width, const double* table, int m, intp_t n, const double* weight, double* sums)
    void ht_column_squares(
        int width, const double* table, int m, intp_t n, const double* weight, const double* mean,
        double* sums)
    void ht_scale_rows(
        int width, const double* table, int m, intp_t n, const double* factor, double* scaled)


# Nodes with more products of rows and pairs of coefficients are not fitted by `LogLossNodes`.
cdef intp_t MOST_PRODUCTS = 1 << 22
# Columns that keep less than this share of their curvature, given the others, are dependent.
cdef float64_t DEPENDENT = 1e-12
# The criteria of a node: see `criterion_loss` of the models.
cdef enum Criterion:
    LOG_LOSS = 0
    GINI = 1
    ERROR = 2


cdef class LogLossNodes:
    """Logistic and multinomial regressions with an L2 penalty, over small sets of rows of a table.

    They minimise the mean log-loss plus ``l2 share u_j^2 b_j^2 / 2`` for each regressor, by
    Newton's method. u_j is the standard deviation among the rows, or ``1 / units[j]``; the share is
    1, or one over the total weight if `by_sum`. `jitter` is added to every penalty. An object is
    for one thread.
    """

    def __init__(self, const float64_t[:, ::1] regressors, const int32_t[::1] codes,
                 const float64_t[::1] weight, int n_classes, str criterion, double l2,
                 const float64_t[::1] units, bint by_sum, double jitter, double constant):
        cdef intp_t n = regressors.shape[0], i
        if codes.shape[0] != n or (weight is not None and weight.shape[0] != n):
            raise ValueError("regressors, codes and weights must have the same rows")
        if units is not None and units.shape[0] != regressors.shape[1]:
            raise ValueError("each regressor needs a unit")
        for i in range(n):
            if codes[i] < 0 or codes[i] >= n_classes:
                raise ValueError("codes must be class numbers")
        self.criterion = {"log_loss": LOG_LOSS, "gini": GINI}.get(criterion, ERROR)
        self.regressors, self.codes, self.weight, self.units = regressors, codes, weight, units
        self.n_classes, self.n_outputs = n_classes, 1 if n_classes == 2 else n_classes
        self.l2, self.by_sum, self.jitter, self.constant = l2, by_sum, jitter, constant
        self.n_columns = <int>regressors.shape[1] + 1
        self.n_padded = ht_padded(self.n_columns)
        self.size = self.n_outputs * self.n_columns
        self.width = ht_vector_bytes()
        self.numbers = np.zeros(0, dtype=np.uint32)

    def fit(self, const uint32_t[::1] rows, start, double tol, int max_iter, double rough=0.0):
        """Return coefficients (n_outputs, n_columns), intercepts first, and the summed criterion.

        Steps end when the next one is expected to lower the mean loss by at most `tol`, or after a
        whole step that was expected to lower it by less than `rough` / 2: the next one is far
        smaller.

        None where this needs more care: a class is absent, regressors are dependent, or the rows
        are so many that threads pay.
        """
        cdef intp_t n = rows.shape[0], i, square = <intp_t>self.size * self.size
        cdef LogLossFit fit
        if n == 0 or n * square > MOST_PRODUCTS:
            return None
        for i in range(n):
            if rows[i] >= <uint32_t>self.regressors.shape[0]:
                raise ValueError("a row id is out of range")
        theta = np.zeros((self.n_outputs, self.n_columns))
        cdef float64_t[:, ::1] out = theta, begin = theta if start is None else start
        if begin.shape[0] != self.n_outputs or begin.shape[1] != self.n_columns:
            raise ValueError("the start has another shape")
        self.place(n, &fit)
        fit.theta = &out[0, 0]
        cdef int failed
        cdef float64_t loss = 0.0
        with nogil:
            failed = self.load(&fit, &rows[0])
            if not failed:
                memcpy(fit.theta, &begin[0, 0], self.size * sizeof(float64_t))
                failed = self.newton(&fit, tol, max_iter, rough)
            if not failed:
                self.drop_constants(&fit)
                loss = self.loss_of(&fit)
        return None if failed else (theta, loss)

    cdef void place(self, intp_t n, LogLossFit* fit):
        """Set the arrays of a fit to n rows, which stay for later fits."""
        cdef int k = self.n_outputs, p = self.n_columns, cell = ht_cell_size(self.n_padded)
        cdef intp_t square = <intp_t>self.size * self.size
        if self.numbers.shape[0] < n:
            self.numbers = np.arange(n, dtype=np.uint32)
            self.scratch = aligned_empty(
                2 * n * self.n_padded + self.n_padded + cell + n * (2 * k + 3) + 2 * square
                + 5 * self.size + p + self.n_classes, np.float64)
        fit.n, fit.order = n, &self.numbers[0]
        fit.table = &self.scratch[0]
        fit.scaled = fit.table + n * self.n_padded
        fit.by_column = fit.scaled + n * self.n_padded
        fit.cell = fit.by_column + self.n_padded
        fit.weight = fit.cell + cell
        fit.own = fit.weight + n
        fit.by_row = fit.own + n
        fit.proba = fit.by_row + n
        fit.scores = fit.proba + n * k
        fit.hess = fit.scores + n * k
        fit.factor = fit.hess + square
        fit.grad = fit.factor + square
        fit.step = fit.grad + self.size
        fit.trial = fit.step + self.size
        fit.ridge = fit.trial + self.size
        fit.unit = fit.ridge + self.size
        fit.spread = fit.unit + self.size
        fit.shares = fit.spread + p

    cdef int load(self, LogLossFit* fit, const uint32_t* rows) noexcept nogil:
        """Copy the rows, and weigh the penalties; nonzero if a class is absent."""
        cdef intp_t i, n = fit.n
        cdef int j, k, p = self.n_columns, m = self.n_padded
        cdef float64_t w, share, unit
        cdef float64_t* row
        memset(fit.shares, 0, self.n_classes * sizeof(float64_t))
        memset(fit.table, 0, n * m * sizeof(float64_t))
        fit.total = 0.0
        for i in range(n):
            row = fit.table + i * m
            row[0] = 1.0
            if p > 1:
                memcpy(row + 1, &self.regressors[rows[i], 0], (p - 1) * sizeof(float64_t))
            w = 1.0 if self.weight is None else self.weight[rows[i]]
            fit.weight[i] = w
            fit.own[i] = self.codes[rows[i]]
            fit.shares[self.codes[rows[i]]] += w
            fit.total += w
        for k in range(self.n_classes):
            if not fit.shares[k] > 0.0:
                return 1
            fit.shares[k] /= fit.total
        share = 1.0 / fit.total if self.by_sum else 1.0
        # Means, then squares about them, in the first row of `scaled`.
        memset(fit.by_column, 0, m * sizeof(float64_t))
        memset(fit.scaled, 0, m * sizeof(float64_t))
        ht_column_sums(self.width, fit.table, m, n, fit.weight, fit.by_column)
        for j in range(m):
            fit.by_column[j] /= fit.total
        ht_column_squares(self.width, fit.table, m, n, fit.weight, fit.by_column, fit.scaled)
        fit.spread[0] = fit.ridge[0] = 0.0
        for j in range(1, p):
            unit = fit.spread[j] = sqrt(fit.scaled[j] / fit.total)
            if self.units is not None:
                unit = 1.0 / self.units[j - 1] if unit > 0.0 else 0.0
            fit.ridge[j] = self.l2 * share * unit * unit + self.jitter
        for k in range(1, self.n_outputs):
            memcpy(fit.ridge + k * p, fit.ridge, p * sizeof(float64_t))
        return 0

    cdef void start_at_shares(self, LogLossFit* fit) noexcept nogil:
        """Set the coefficients to 0, and the intercepts so that they predict the class shares."""
        cdef int k
        cdef float64_t mean = 0.0
        memset(fit.theta, 0, self.size * sizeof(float64_t))
        if self.n_outputs == 1:
            fit.theta[0] = log(fit.shares[1]) - log(fit.shares[0])
            return
        for k in range(self.n_outputs):
            mean += log(fit.shares[k]) / self.n_outputs
        for k in range(self.n_outputs):
            fit.theta[k * self.n_columns] = log(fit.shares[k]) - mean

    cdef float64_t score(self, LogLossFit* fit, const float64_t* theta) noexcept nogil:
        """OUT scores and probabilities of the rows (of class 1 of two); returns the objective."""
        cdef intp_t i
        cdef int k, j, outputs = self.n_outputs
        cdef float64_t loss = 0.0, top, total
        cdef float64_t* scores
        cdef float64_t* proba
        memset(fit.by_column, 0, self.n_padded * sizeof(float64_t))
        for k in range(outputs):
            memcpy(fit.by_column, theta + k * self.n_columns, self.n_columns * sizeof(float64_t))
            ht_row_scores(self.width, fit.table, self.n_padded, fit.n, fit.by_column,
                          fit.scores if outputs == 1 else fit.by_row)
            for i in range(fit.n if outputs > 1 else 0):
                fit.scores[i * outputs + k] = fit.by_row[i]
        if outputs == 1:
            ht_row_losses(self.width, fit.scores, fit.own, fit.weight, fit.n, fit.proba, fit.by_row)
            for i in range(fit.n):
                loss += fit.by_row[i]
        for i in range(fit.n if outputs > 1 else 0):
            scores, proba = fit.scores + i * outputs, fit.proba + i * outputs
            top, total = scores[0], 0.0
            for k in range(1, outputs):
                top = max(top, scores[k])
            for k in range(outputs):
                proba[k] = exp(scores[k] - top)
                total += proba[k]
            for k in range(outputs):
                proba[k] /= total
            loss += fit.weight[i] * (log(total) + top - scores[<int>fit.own[i]])
        fit.log_loss = loss
        loss /= fit.total
        for j in range(self.size):
            loss += 0.5 * fit.ridge[j] * theta[j] * theta[j]
        return loss

    cdef void differentiate(self, LogLossFit* fit) noexcept nogil:
        """OUT gradient and lower half of the hessian of the objective, after `score`."""
        cdef int a, b
        cdef intp_t j
        for a in range(self.n_outputs):
            self.slope(fit, a)
            for b in range(a + 1):
                self.block(fit, a, b)
        for j in range(self.size):
            fit.grad[j] = fit.grad[j] / fit.total + fit.ridge[j] * fit.theta[j]
        self.anchor(fit)
        for j in range(self.size):
            fit.hess[j * self.size + j] += fit.ridge[j]

    cdef void slope(self, LogLossFit* fit, int a) noexcept nogil:
        """OUT the sum of the gradient of one output."""
        cdef intp_t i
        cdef int own = 1 if self.n_outputs == 1 else a
        for i in range(fit.n):
            fit.by_row[i] = fit.weight[i] * (
                fit.proba[i * self.n_outputs + a] - (1.0 if fit.own[i] == own else 0.0))
        memset(fit.by_column, 0, self.n_padded * sizeof(float64_t))
        ht_column_sums(
            self.width, fit.table, self.n_padded, fit.n, fit.by_row, fit.by_column)
        memcpy(fit.grad + a * self.n_columns, fit.by_column, self.n_columns * sizeof(float64_t))

    cdef void block(self, LogLossFit* fit, int a, int b) noexcept nogil:
        """OUT the block of the mean hessian of two outputs, a >= b."""
        cdef intp_t i
        cdef int j, k, p = self.n_columns
        cdef float64_t part, sign = 1.0 if a == b else -1.0
        cdef const float64_t* proba
        for i in range(fit.n):
            proba = fit.proba + i * self.n_outputs
            fit.by_row[i] = sqrt(
                fit.weight[i] * proba[a] * ((1.0 - proba[a]) if a == b else proba[b]))
        ht_scale_rows(self.width, fit.table, self.n_padded, fit.n, fit.by_row, fit.scaled)
        memset(fit.cell, 0, ht_cell_size(self.n_padded) * sizeof(float64_t))
        ht_add_moments(self.width, fit.scaled, self.n_padded, fit.order, fit.n, self.n_padded,
                       fit.cell)
        for j in range(p):
            for k in range(p):
                part = fit.cell[ht_cell_at(self.n_padded, min(j, k), max(j, k))]
                fit.hess[(a * p + j) * self.size + b * p + k] = sign * part / fit.total

    cdef void anchor(self, LogLossFit* fit) noexcept nogil:
        """Make the hessian definite along a shift of all intercepts, which has no effect."""
        cdef int a, b
        cdef intp_t j
        cdef float64_t level = 0.0
        if self.n_outputs == 1:
            return
        for j in range(self.size):
            level += fit.hess[j * self.size + j]
        level = max(level / self.size, HT_TINY) / self.n_outputs
        for a in range(self.n_outputs):
            for b in range(a + 1):
                fit.hess[a * self.n_columns * self.size + b * self.n_columns] += level

    cdef int direction(self, LogLossFit* fit) noexcept nogil:
        """OUT the Newton step, by Cholesky of the hessian scaled to a unit diagonal."""
        cdef intp_t n = self.size, i, j, k
        cdef float64_t rest
        cdef float64_t* lower = fit.factor
        for i in range(n):
            rest = fit.hess[i * n + i]
            if not rest > 0.0 or not isfinite(rest):
                return 1
            fit.unit[i] = 1.0 / sqrt(rest)
        for i in range(n):
            for j in range(i + 1):
                rest = fit.hess[i * n + j] * fit.unit[i] * fit.unit[j]
                for k in range(j):
                    rest -= lower[i * n + k] * lower[j * n + k]
                if i > j:
                    lower[i * n + j] = rest / lower[j * n + j]
                elif rest > DEPENDENT:
                    lower[i * n + i] = sqrt(rest)
                else:
                    return 1
        for i in range(n):
            rest = -fit.grad[i] * fit.unit[i]
            for k in range(i):
                rest -= lower[i * n + k] * fit.step[k]
            fit.step[i] = rest / lower[i * n + i]
        for i in range(n - 1, -1, -1):
            rest = fit.step[i]
            for k in range(i + 1, n):
                rest -= lower[k * n + i] * fit.step[k]
            fit.step[i] = rest / lower[i * n + i]
        for i in range(n):
            fit.step[i] *= fit.unit[i]
        return 0

    cdef int newton(
        self, LogLossFit* fit, double tol, int max_iter, double rough
    ) noexcept nogil:
        """Iterate from `theta`; nonzero if a hessian is nearly singular. See `fit`."""
        cdef intp_t j
        cdef int k
        cdef float64_t objective, trial, null, gain, size
        objective = self.score(fit, fit.theta)
        null = 0.0
        for k in range(self.n_classes):
            null -= fit.shares[k] * log(fit.shares[k])
        # A start from other rows may be worse than coefficients of 0, and without one it is 0.
        if not objective < null:
            self.start_at_shares(fit)
            objective = self.score(fit, fit.theta)
        fit.scored = True
        for _ in range(max_iter):
            self.differentiate(fit)
            if self.direction(fit):
                return 1
            gain = 0.0
            for j in range(self.size):
                gain -= fit.grad[j] * fit.step[j]
            if not gain > 2.0 * tol:
                for j in range(self.size):
                    fit.theta[j] += fit.step[j]
                fit.scored = False
                break
            size = 1.0
            while True:
                for j in range(self.size):
                    fit.trial[j] = fit.theta[j] + size * fit.step[j]
                trial = self.score(fit, fit.trial)
                if trial <= objective - HT_DECREASE * size * gain or size < HT_SMALLEST_STEP:
                    break
                size *= 0.5
            fit.scored = trial < objective
            if not fit.scored:
                break
            memcpy(fit.theta, fit.trial, self.size * sizeof(float64_t))
            objective = trial
            if size == 1.0 and gain < rough:
                break
        return 0

    cdef void drop_constants(self, LogLossFit* fit) noexcept nogil:
        """Centre the intercepts of several classes; move effects of constants into them."""
        cdef int j, k, p = self.n_columns
        cdef float64_t mean = 0.0
        for k in range(self.n_outputs):
            mean += fit.theta[k * p] / self.n_outputs
        for k in range(self.n_outputs):
            if self.n_outputs > 1:
                fit.theta[k * p] -= mean
            for j in range(1, p):
                if fit.spread[j] <= self.constant and fit.theta[k * p + j] != 0.0:
                    fit.scored = False
                    fit.theta[k * p] += fit.theta[k * p + j] * fit.table[j]
                    fit.theta[k * p + j] = 0.0

    cdef float64_t loss_of(self, LogLossFit* fit) noexcept nogil:
        """The criterion of the rows, summed."""
        cdef intp_t i
        cdef int k, best, outputs = self.n_outputs
        cdef float64_t loss = 0.0, own, squares
        cdef const float64_t* proba
        if not fit.scored:
            self.score(fit, fit.theta)
        if self.criterion == LOG_LOSS:
            return fit.log_loss
        for i in range(fit.n):
            proba, best = fit.proba + i * outputs, 0
            if outputs == 1:
                own = proba[0] if fit.own[i] == 1.0 else 1.0 - proba[0]
                squares = proba[0] * proba[0] + (1.0 - proba[0]) * (1.0 - proba[0])
                best = fit.scores[i] > 0.0
            else:
                own, squares = proba[<int>fit.own[i]], 0.0
                for k in range(outputs):
                    squares += proba[k] * proba[k]
                    if proba[k] > proba[best]:
                        best = k
            if self.criterion == GINI:
                loss += fit.weight[i] * (1.0 - 2.0 * own + squares)
            elif best != <int>fit.own[i]:
                loss += fit.weight[i]
        return loss
