"""Row samples by hashes of (seed, row number), which do not depend on the order of rows."""

from __future__ import annotations

import numpy as np

from hybridtrees.core.base._threads import bootstrap_draws, count_bits, row_bits, rows_below

_WORDS = 2**64


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
