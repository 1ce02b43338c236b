"""Small penalised least-squares problems.

Both functions minimise ``b'Ab / 2 - r'b``, one with L1 penalties and signs of the coefficients,
and return twice the drop below zero. A column that the columns before it explain is left out: its
coefficient is 0.
"""

from libc.math cimport fabs, sqrt

from hybridtrees.core._types cimport float64_t, int8_t, int32_t

import numpy as np

cdef float64_t DEPENDENT = 1e-7     # share of a column that the columns before it leave
cdef int32_t MAX_SWEEPS = 1000


cdef float64_t solve_ridge(
    int32_t n, float64_t* matrix, const float64_t* right, float64_t* coef
) noexcept nogil:
    """Solve A b = r by Cholesky's factors, which take the place of A (n x n, row by row)."""
    cdef int32_t i, j, k
    cdef float64_t total, least, score = 0
    for j in range(n):
        least = DEPENDENT * matrix[j * n + j]
        total = matrix[j * n + j]
        for k in range(j):
            total -= matrix[j * n + k] * matrix[j * n + k]
        if not total > least or not total > 0:
            for i in range(n):
                if i >= j:
                    matrix[i * n + j] = 0
                else:
                    matrix[j * n + i] = 0
            continue
        matrix[j * n + j] = sqrt(total)
        for i in range(j + 1, n):
            total = matrix[i * n + j]
            for k in range(j):
                total -= matrix[i * n + k] * matrix[j * n + k]
            matrix[i * n + j] = total / matrix[j * n + j]
    for j in range(n):
        total = right[j]
        for k in range(j):
            total -= matrix[j * n + k] * coef[k]
        coef[j] = total / matrix[j * n + j] if matrix[j * n + j] > 0 else 0.0
        score += coef[j] * coef[j]
    for j in range(n - 1, -1, -1):
        if matrix[j * n + j] <= 0:
            coef[j] = 0
            continue
        total = coef[j]
        for k in range(j + 1, n):
            total -= matrix[k * n + j] * coef[k]
        coef[j] = total / matrix[j * n + j]
    return score


cdef float64_t solve_constrained(
    int32_t n, const float64_t* matrix, const float64_t* right, float64_t alpha,
    const int8_t* sign, float64_t* coef,
) noexcept nogil:
    """Minimise with ``alpha * |b|_1``, and b_j of the given sign where it is not 0 (or NULL).

    Coordinates are minimised in turn: with few columns a handful of sweeps is enough.
    """
    cdef int32_t j, k, _sweep
    cdef float64_t value, change, largest, size, score = 0
    for j in range(n):
        coef[j] = 0
    for _sweep in range(MAX_SWEEPS):
        largest = 0
        size = 0
        for j in range(n):
            if not matrix[j * n + j] > 0:
                continue
            value = right[j]
            for k in range(n):
                if k != j:
                    value -= matrix[j * n + k] * coef[k]
            if value > alpha:
                value = (value - alpha) / matrix[j * n + j]
            elif value < -alpha:
                value = (value + alpha) / matrix[j * n + j]
            else:
                value = 0
            if sign != NULL and sign[j] * value < 0:
                value = 0
            change = sqrt(matrix[j * n + j])
            size = max(size, fabs(value) * change)
            largest = max(largest, fabs(value - coef[j]) * change)
            coef[j] = value
        if largest <= 1e-12 * size:
            break
    for j in range(n):
        value = 2 * (right[j] * coef[j] - alpha * fabs(coef[j]))
        for k in range(n):
            value -= coef[j] * matrix[j * n + k] * coef[k]
        score += value
    return score


def minimise(const float64_t[:, ::1] matrix, const float64_t[::1] right, float64_t alpha=0.0,
             const int8_t[::1] sign=None):
    """Coefficients and twice the drop of the loss; for tests and small problems.

    Parameters
    ----------
    matrix : float64 array of shape (n, n), symmetric
    right : float64 array of shape (n,)
    alpha : float
    sign : int8 array of shape (n,), optional
    """
    cdef int32_t n = <int32_t>matrix.shape[0]
    cdef float64_t[:, ::1] copy = np.array(matrix)
    coef = np.zeros(max(n, 1))
    cdef float64_t[::1] out = coef
    cdef float64_t score
    if matrix.shape[1] != n or right.shape[0] != n or (sign is not None and sign.shape[0] != n):
        raise ValueError("the parts of the problem do not fit each other")
    if n == 0:
        return coef[:0], 0.0
    if alpha == 0 and sign is None:
        score = solve_ridge(n, &copy[0, 0], &right[0], &out[0])
    else:
        score = solve_constrained(n, &matrix[0, 0], &right[0], alpha,
                                  &sign[0] if sign is not None else NULL, &out[0])
    return coef[:n], score


def minimise_many(const float64_t[:, :, ::1] matrix, const float64_t[:, ::1] right,
                  const int32_t[::1] sizes, float64_t alpha=0.0, const int8_t[:, ::1] signs=None):
    """Coefficients of many problems, each in the first `sizes` rows and columns of its matrix.

    Parameters
    ----------
    matrix : float64 array of shape (n_problems, width, width), symmetric
    right : float64 array of shape (n_problems, width)
    sizes : int32 array of shape (n_problems,)
    alpha : float
    signs : int8 array of shape (n_problems, width), optional

    Returns
    -------
    coef : float64 array of shape (n_problems, width), 0 behind the size of a problem
    """
    cdef int32_t i, j, n, problem, width = <int32_t>right.shape[1]
    cdef float64_t[::1] packed = np.empty(max(1, width * width))
    coef = np.zeros((right.shape[0], max(1, width)))
    cdef float64_t[:, ::1] out = coef
    if (matrix.shape[0] != right.shape[0] or sizes.shape[0] != right.shape[0]
            or matrix.shape[1] != width or matrix.shape[2] != width
            or (signs is not None and (signs.shape[0] != right.shape[0]
                                       or signs.shape[1] != width))):
        raise ValueError("the parts of the problems do not fit each other")
    for problem in range(<int32_t>right.shape[0]):
        n = sizes[problem]
        if not 0 <= n <= width:
            raise ValueError("a problem is larger than its matrix")
        if n == 0:
            continue
        for i in range(n):
            for j in range(n):
                packed[i * n + j] = matrix[problem, i, j]
        if alpha == 0 and signs is None:
            solve_ridge(n, &packed[0], &right[problem, 0], &out[problem, 0])
        else:
            solve_constrained(n, &packed[0], &right[problem, 0], alpha,
                              &signs[problem, 0] if signs is not None else NULL,
                              &out[problem, 0])
    return coef[:, :width]
