"""Row samples by hashes of (seed, row number), which do not depend on the order of rows."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.base._threads import (
    INFINITE_CELLS,
    bootstrap_draws,
    count_bits,
    draw_rows,
    row_bits,
    row_sizes,
    rows_below,
    sizes_in_cell,
    sums_of_squares,
)

_WORDS = 2**64

# Weight of hessians beside gradients, see `draw_by_gradient`.
HESSIAN_SHARE = 0.1


def draw_by_share(seed: int, n_rows: int, share: float) -> np.ndarray:
    """Sample each row with the probability `share`, at least one row; ascending, uint32."""
    limit = int(share * _WORDS) - 1
    rows = rows_below(seed, limit, 0, n_rows) if limit >= 0 else np.empty(0, dtype=np.uint32)
    return rows if len(rows) else bootstrap_draws(seed, 0, 1, n_rows).astype(np.uint32)


def draw_some(seed: int, n_rows: int, n_drawn: int) -> np.ndarray:
    """Sample `n_drawn` rows without replacement: those of the smallest hashes; ascending, uint32.

    A histogram of the highest bits gives a limit that only a few rows too many pass.
    """
    counts = count_bits(seed, 0, n_rows)
    step = _WORDS // len(counts)
    last = int(np.searchsorted(np.cumsum(counts), n_drawn))
    rows = rows_below(seed, (last + 1) * step - 1, 0, n_rows)
    return _smallest(seed, rows, n_drawn, last * step)


def draw_of(seed: int, rows: np.ndarray, n_drawn: int) -> np.ndarray:
    """Sample `n_drawn` of the given rows in the same way."""
    return _smallest(seed, rows.astype(np.uint32), n_drawn)


def _smallest(seed: int, rows: np.ndarray, n_drawn: int, border: int = 0) -> np.ndarray:
    """Keep the `n_drawn` rows of the smallest hashes; those below `border` are all kept."""
    if len(rows) == n_drawn:
        return rows
    bits = row_bits(seed, rows)
    above = bits[bits >= border]
    rank = n_drawn - (len(rows) - len(above)) - 1
    largest = np.partition(above, rank)[rank]
    kept = bits <= largest
    n_over = np.count_nonzero(kept) - n_drawn
    if n_over:  # of rows with equal hashes, the first stay
        kept[np.flatnonzero(bits == largest)[-n_over:]] = False
    return np.asarray(rows[kept])


def draw_by_gradient(
    seed: int, grad: np.ndarray, hess: np.ndarray | None, share: float, n_threads: int
) -> np.ndarray | None:
    """Sample about a `share` of the rows, larger gradients with larger probabilities.

    `grad` and `hess` (n_outputs, n_rows) become those of the sample, multiplied by the share and
    divided by the probabilities. So a sum over the sample is on average what it is if all rows are
    equally likely, and penalties and limits on sums mean the same. `hess` None stands for ones.
    Returns ascending row numbers, uint32; None for all rows, where the statistics are not finite,
    which the grower refuses.

    The probability of a row grows with sqrt(g^2 + factor h^2), summed over the outputs (Ibragimov
    and Gusev 2019). In the paper the factor is the square of a leaf's value, which is not known
    before the tree is grown. It is a share of the ratio of the mean squares here, so that the
    sample does not depend on the units of the target.
    """
    squares = sums_of_squares(grad, hess, n_threads)
    if not np.isfinite(squares).all():
        return None
    if squares[0] == 0:  # no row is better than another
        return draw_by_share(seed, grad.shape[1], share)
    factor = HESSIAN_SHARE * squares[0] / squares[1] if squares[1] > 0 else 0.0
    size, *cells = row_sizes(grad, hess, factor, n_threads)
    if cells[1][-INFINITE_CELLS:].any():  # sizes beyond 32-bit floats
        return None
    threshold = size_threshold(size, share, *cells)
    rows = draw_rows(grad, hess, size, seed, share, threshold, n_threads)
    return rows if len(rows) else draw_by_share(seed, grad.shape[1], 0.0)


def size_threshold(
    size: np.ndarray, share: float, edges: np.ndarray, counts: np.ndarray, sums: np.ndarray
) -> float:
    """Return the size from which on rows are drawn for sure: sum(min(1, size / it)) is the share.

    The share is one of the rows of positive size. `edges`, `counts` and `sums` are those of the
    cells of `row_sizes`. Up to rounding the result is exact.
    """
    wanted = share * counts.sum()
    below = np.cumsum(sums) - sums  # sum of the sizes in lower cells
    above = counts[::-1].cumsum()[::-1]  # rows in this cell and in higher ones
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(edges > 0, below / edges, 0.0) + above
    cell = int(np.flatnonzero((expected >= wanted) & (above > 0))[-1])
    within = sizes_in_cell(size, cell, int(counts[cell]))
    # With the k smallest sizes of the cell below the threshold:
    n_free = wanted - above[cell] + np.arange(len(within) + 1)
    total = below[cell] + np.append(0.0, np.cumsum(within))
    found = np.divide(total, n_free, out=np.full(len(total), np.inf), where=n_free > 0)
    k = int(np.argmax(found <= np.append(within, np.inf)))
    return float(found[k])
