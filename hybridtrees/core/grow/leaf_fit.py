"""Linear models of the leaves of a grown tree, fitted to the values themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hybridtrees.core.grow._leaf_passes import leaf_moments
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.core.search._moment_scan import minimise_many

# Share of a column's squares that centring must leave; what is below is rounding.
_CONSTANT = 1e-10


@dataclass(frozen=True)
class LeafRules:
    """How leaves are fitted.

    Attributes
    ----------
    fit : {"half_additive", "additive", "full"}
        Which coefficients of a leaf are free: a factor for the linear part of its parent and the
        coefficient of the feature that was split on last; the latter only; all.
    refit : bool
        Fit all coefficients of the leaves in any case.
    max_regressors : int
    reg_lambda, reg_alpha : float
        L2 and L1 penalties of coefficients.
    raw_penalty : bool
        Penalise coefficients in the units of the table and the output where every feature is 0
        (Shi, Li and Li 2019), rather than coefficients in standard units and the output at the
        means of the leaf. There is no L1 penalty then.
    monotonic : int8 array, optional
        Signs of the coefficients of each feature, 0 for any.
    extrapolation : {"linear", "clip", "bounded"}
        What happens to values outside the range that a leaf was fitted in: nothing; they are
        moved to its ends, once they are more than `margin` standard deviations away; the output
        stays within that of the rows of the leaf.
    margin : float
    sample_rows : int
        See `MomentSearch`.
    """

    fit: str = "half_additive"
    refit: bool = True
    max_regressors: int = 5
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    raw_penalty: bool = False
    monotonic: np.ndarray | None = None
    extrapolation: str = "clip"
    margin: float = 1.5
    sample_rows: int = 8192


@dataclass
class LeafRows:
    """Leaves of a tree, with their rows and regressors.

    Attributes
    ----------
    leaves : int array of shape (n_leaves,)
        Node numbers.
    rows : uint32 array
    start, stop : int64 arrays of shape (n_leaves,)
        The rows of a leaf are ``rows[start:stop]``.
    n_columns : int32 array of shape (n_leaves,)
    feature : int32 array of shape (n_leaves, width)
        Regressors, of which the first `n_columns` count.
    """

    leaves: np.ndarray
    rows: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    n_columns: np.ndarray
    feature: np.ndarray


@dataclass
class LeafMoments:
    """Centred moments of the leaves' regressors, in the units of `RegressorColumns`.

    Attributes
    ----------
    matrix : float64 array of shape (n_leaves, width, width)
        Sums of h z z'; zero rows and columns where a column has no spread.
    grad : float64 array of shape (n_leaves, width)
        Sums of g z.
    mean : float64 array of shape (n_leaves, width)
        Where the columns are centred, in units of the table.
    low, high : float64 arrays of shape (n_leaves, width)
        Range of the values, in units of the table.
    """

    matrix: np.ndarray
    grad: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def sum_leaves(
    columns: RegressorColumns,
    leaves: LeafRows,
    grad: np.ndarray,
    hess: np.ndarray | float,
    sums: np.ndarray,
    n_threads: int,
) -> LeafMoments:
    """Moments of the regressors of all leaves.

    Parameters
    ----------
    columns : RegressorColumns
    leaves : LeafRows
    grad : float32 array of shape (n_rows,)
    hess : float32 array of shape (n_rows,), or one number
    sums : float64 array of shape (n_leaves, 2)
        Sums of grad and hess.
    n_threads : int

    Returns
    -------
    moments : LeafMoments
    """
    width = leaves.feature.shape[1]
    feature = np.maximum(leaves.feature, 0)
    mean, scale = columns.mean[feature], columns.scale[feature]
    mean, factor = np.ascontiguousarray(mean), np.ascontiguousarray(1 / scale)
    data = (columns.values, leaves.rows)
    terms = (leaves.feature, mean, factor, grad, hess, n_threads)
    by_column, squares = leaf_moments(
        *data, leaves.start, leaves.stop, leaves.n_columns, *terms
    )  # fmt: skip
    shift = np.zeros_like(mean)
    lacking = np.flatnonzero(by_column[:, :, 5].any(axis=1))
    if len(lacking):
        # Missing values stand at the mean of their leaf, which is known now.
        known, total = by_column[lacking, :, 0], by_column[lacking, :, 1]
        shift[lacking] = np.divide(total, known, out=np.zeros_like(total), where=known > 0)
        again, new_squares = leaf_moments(
            *data, leaves.start[lacking], leaves.stop[lacking], leaves.n_columns[lacking],
            np.ascontiguousarray(leaves.feature[lacking]),
            mean[lacking] + shift[lacking] * scale[lacking],
            np.ascontiguousarray(factor[lacking]), grad, hess, n_threads,
        )  # fmt: skip
        by_column[lacking], squares[lacking] = again, new_squares
    # Centre the columns: over the rows that have a value, as the others stand at the mean.
    known, total, along = by_column[:, :, 0], by_column[:, :, 1], by_column[:, :, 2]
    center = np.divide(total, known, out=np.zeros_like(total), where=known > 0)
    complete = by_column[:, :, 5] == 0
    center[~complete] = 0.0
    upper = np.triu_indices(width)
    matrix = np.zeros((len(feature), width, width))
    # The triangle of a leaf is packed for its own number of columns.
    for k in np.unique(leaves.n_columns[leaves.n_columns > 0]):
        of = np.flatnonzero(leaves.n_columns == k)
        i, j = upper if k == width else np.triu_indices(int(k))
        matrix[of[:, None], i, j] = squares[of, : len(i)]
    diagonal = np.einsum("ijj->ij", matrix)
    before = diagonal.copy()
    hessian = sums[:, 1]
    matrix -= center[:, :, None] * center[:, None, :] * hessian[:, None, None]
    gradient = along - center * sums[:, :1]
    used = np.arange(width) < leaves.n_columns[:, None]
    flat = ~(used & (diagonal > _CONSTANT * before))
    matrix[flat[:, :, None] | flat[:, None, :]] = 0.0
    lower = np.tril_indices(width, -1)
    matrix[:, lower[0], lower[1]] = matrix[:, lower[1], lower[0]]
    gradient[flat] = 0.0
    base = mean + shift * scale
    return LeafMoments(
        matrix, gradient, base + center * scale,
        base + by_column[:, :, 3] * scale, base + by_column[:, :, 4] * scale,
    )  # fmt: skip


def _free_means(moments: LeafMoments) -> np.ndarray:
    """Means of the columns in units of the table, 0 where a column has no spread."""
    return np.where(np.einsum("ijj->ij", moments.matrix) > 0, moments.mean, 0.0)


def with_output_at_zero(moments: LeafMoments, sums: np.ndarray, rules: LeafRules) -> LeafMoments:
    """Moments whose penalised fit also has the raw penalty of the output at zero.

    The output at the means is eliminated, as `_moment_scan` explains.

    Parameters
    ----------
    moments : LeafMoments
    sums : float64 array of shape (n_leaves, 2)
        Sums of grad and hess.
    rules : LeafRules

    Returns
    -------
    moments : LeafMoments
    """
    if not rules.raw_penalty:
        return moments
    mean = _free_means(moments)
    total = sums[:, 1] + rules.reg_lambda
    pull = np.divide(rules.reg_lambda, total, out=np.zeros(len(sums)), where=total > 0)
    factor = (pull * sums[:, 1])[:, None, None]
    return replace(
        moments,
        matrix=moments.matrix + factor * mean[:, :, None] * mean[:, None, :],
        grad=moments.grad + (pull * sums[:, 0])[:, None] * mean,
    )


def gradient_shift(moments: LeafMoments, coef: np.ndarray, rules: LeafRules) -> np.ndarray:
    """Return what a raw penalty adds to the sums of gradients that leaf values come from."""
    if not rules.raw_penalty:
        return np.zeros(len(coef))
    return -rules.reg_lambda * (_free_means(moments) * coef).sum(axis=1)


def solve_leaves(
    moments: LeafMoments, leaves: LeafRows, rules: LeafRules, sums: np.ndarray
) -> np.ndarray:
    """Coefficients of all regressors of the leaves, (n_leaves, width); `sums` of grad and hess."""
    width = leaves.feature.shape[1]
    moments = with_output_at_zero(moments, sums, rules)
    matrix = moments.matrix.copy()
    index = np.arange(width)
    free = matrix[:, index, index] > 0
    matrix[:, index, index] += np.where(free, rules.reg_lambda, 0.0)
    signs = None
    if rules.monotonic is not None:
        signs = np.ascontiguousarray(rules.monotonic[np.maximum(leaves.feature, 0)])
    return minimise_many(matrix, -moments.grad, leaves.n_columns, rules.reg_alpha, signs)


def solve_composed(
    moments: LeafMoments, leaves: LeafRows, rules: LeafRules, sums: np.ndarray,
    models: dict[str, np.ndarray], parents: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Coefficients where only a factor for the part above and the last feature are free.

    Parameters
    ----------
    moments : LeafMoments
    leaves : LeafRows
    rules : LeafRules
    sums : float64 array of shape (n_leaves, 2)
        Sums of grad and hess; under "additive" those at the function above.
    models : dict of arrays
        See `MomentSearch.node_models`.
    parents : int array of shape (n_leaves,)
        Parents of the leaves, -1 for none.

    Returns
    -------
    fixed, coef : float64 arrays of shape (n_leaves, width)
        Coefficients that stay from above, and what is added to them.
    """
    n, width = leaves.feature.shape
    above = np.where(parents[:, None] >= 0, models["coef"][parents, :width], 0.0)
    joined = models["joined"][leaves.leaves]
    basis = np.zeros((n, width, 2))
    basis[:, :, 0] = above
    # A feature that is the whole part above would stand there twice.
    alone = (models["n_regressors"][parents] == 1) & (joined == 0)
    new = np.flatnonzero((joined >= 0) & ~(alone & (rules.fit == "half_additive")))
    basis[new, joined[new], 1] = 1.0
    fixed = np.zeros((n, width))
    if rules.fit == "additive":
        fixed = above * models["scale"][parents, None]
        basis[:, :, 0] = 0.0
    moved = moments.grad + np.einsum("ijk,ik->ij", moments.matrix, fixed)
    moments = with_output_at_zero(replace(moments, grad=moved), sums, rules)
    ridge = np.full((n, 2), rules.reg_lambda)
    if rules.raw_penalty:
        # The factor of the part above is 1 where the part stays what it was.
        scale = np.where(parents >= 0, models["scale"][parents], 0.0)
        ridge[:, 0] /= np.where(scale > 0, scale, 1.0) ** 2
    matrix = np.einsum("ija,ijk,ikb->iab", basis, moments.matrix, basis)
    free = np.einsum("ijj->ij", matrix) > 0
    matrix[:, [0, 1], [0, 1]] += np.where(free, ridge, 0.0)
    signs = None
    if rules.monotonic is not None:
        signs = np.zeros((n, 2), dtype=np.int8)
        signs[:, 0] = 1
        last = leaves.feature[new, joined[new]]
        signs[new, 1] = rules.monotonic[last]
    right = -np.einsum("ija,ij->ia", basis, moments.grad)
    sizes = np.full(n, 2, dtype=np.int32)
    factors = minimise_many(matrix, right, sizes, rules.reg_alpha, signs)
    return fixed, np.einsum("ija,ia->ij", basis, factors)
