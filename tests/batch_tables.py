"""Tables and files for tests of sources that are read in batches."""

from __future__ import annotations

import numpy as np

WORDS = ["red", "blue", "green", "a,b", 'say "no"', "two\nlines", "-"]


def make_columns(n_rows: int, seed: int) -> dict[str, list]:
    """Columns of several types with missing values, and a target and weights."""
    rng = np.random.default_rng(seed)
    gone = rng.random((n_rows, 2)) < 0.2
    real = rng.normal(size=n_rows).round(3)
    word = rng.choice(WORDS, n_rows)
    return {
        "real": [None if g else float(v) for v, g in zip(real, gone[:, 0], strict=True)],
        "count": rng.integers(-3, 4, n_rows).tolist(),
        "word": [None if g else str(v) for v, g in zip(word, gone[:, 1], strict=True)],
        "y": rng.normal(size=n_rows).round(3).tolist(),
        "w": [0.37, *(rng.integers(0, 4, n_rows - 1) * 0.37).tolist()],
    }


def cut(n_rows: int, sizes: list[int]) -> list[tuple[int, int]]:
    """Ranges of rows of the given sizes, over and over, until all rows are in one."""
    ranges, start, k = [], 0, 0
    while start < n_rows:
        stop = min(start + sizes[k % len(sizes)], n_rows)
        ranges.append((start, stop))
        start, k = stop, k + 1
    return ranges


def write_parquet(table, folder, ranges, row_group: int) -> None:
    """Write ranges of rows of an Arrow table to files of a folder, whose names are in order."""
    from pyarrow import parquet

    for k, (start, stop) in enumerate(ranges):
        path = folder / f"part_{k:03}.parquet"
        parquet.write_table(table.slice(start, stop - start), path, row_group_size=row_group)
