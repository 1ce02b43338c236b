"""Rows drawn by a seed and their numbers, whatever part of the table is at hand."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.base._threads import bootstrap_draws, count_bits, row_bits, rows_below

_WORDS = 2**64


def draw_by_share(seed: int, n_rows: int, share: float) -> np.ndarray:
    """Draw each row with the probability `share`, one row at least; ascending, uint32."""
    limit = int(share * _WORDS) - 1
    rows = rows_below(seed, limit, 0, n_rows) if limit >= 0 else np.empty(0, dtype=np.uint32)
    return rows if len(rows) else bootstrap_draws(seed, 0, 1, n_rows).astype(np.uint32)


def draw_some(seed: int, n_rows: int, n_drawn: int) -> np.ndarray:
    """Draw so many rows without replacement: those of the smallest random bits; ascending, uint32.

    The highest bits tell how far to go, up to a few rows too many.
    """
    counts = count_bits(seed, 0, n_rows)
    step = _WORDS // len(counts)
    last = int(np.searchsorted(np.cumsum(counts), n_drawn))
    rows = rows_below(seed, (last + 1) * step - 1, 0, n_rows)
    return _smallest(seed, rows, n_drawn, last * step)


def draw_of(seed: int, rows: np.ndarray, n_drawn: int) -> np.ndarray:
    """Draw so many of some rows in the same way."""
    return _smallest(seed, rows.astype(np.uint32), n_drawn)


def _smallest(seed: int, rows: np.ndarray, n_drawn: int, border: int = 0) -> np.ndarray:
    """Keep the rows of the smallest random bits; all rows with bits below `border` are kept."""
    if len(rows) == n_drawn:
        return rows
    bits = row_bits(seed, rows)
    doubtful = np.flatnonzero(bits >= border)
    rank = n_drawn - (len(rows) - len(doubtful)) - 1
    largest = np.partition(bits[doubtful], rank)[rank]
    kept = bits <= largest
    n_over = np.count_nonzero(kept) - n_drawn
    if n_over:  # rows of equal bits: those of lower numbers stay
        kept[np.flatnonzero(bits == largest)[-n_over:]] = False
    return rows[kept]
