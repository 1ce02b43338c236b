"""Bootstrap intervals: scores of many resamples of the same rows at once.

A resample is a row of a matrix of counts, which says how often each row of the table was drawn.
All scores are sums over rows, or made of few such sums, so that a resample costs a product of
that matrix with a vector, and no copy of the predictions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hybridtrees._compare.scores import Prediction, Score
from hybridtrees.core.base.random_state import seed_sequence

COVERAGE = 0.95
_MOST, _FEWEST = 1000, 200
# Entries of all counts together, and of those that are in memory at a time.
_ENTRIES, _BLOCK = 5_000_000, 2_000_000

Interval = tuple[float, float]
UNKNOWN: Interval = (np.nan, np.nan)


def resamples(n_rows: int, seed: object, in_time: bool = False) -> Iterator[np.ndarray]:
    """Blocks of counts, each of shape (resamples, n_rows); the same ones for the same seed.

    Rows `in_time` order resemble their neighbours, so that runs of them are drawn (a circular
    block bootstrap, with the usual length of the cube root of the number of rows).
    """
    rng = np.random.default_rng(seed_sequence(seed))
    left = int(np.clip(_ENTRIES // n_rows, _FEWEST, _MOST))
    run = round(n_rows ** (1 / 3)) if in_time else 1
    while left > 0:
        size = min(left, max(1, _BLOCK // n_rows))
        starts = rng.integers(n_rows, size=(size, -(-n_rows // run), 1))
        drawn = ((starts + np.arange(run)) % n_rows).reshape(size, -1)[:, :n_rows]
        drawn += n_rows * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n_rows)
        yield counts.reshape(size, n_rows).astype(np.float64)
        left -= size


def interval(values: np.ndarray) -> Interval:
    """Percentiles that leave equal shares on both sides; undefined values do not count."""
    values = values[np.isfinite(values)]
    if not len(values):
        return UNKNOWN
    low, high = np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(low), float(high)


def resampled_scores(
    scores: dict[str, Score],
    y: np.ndarray,
    predicted: Prediction,
    seed: object,
    in_time: bool = False,
) -> dict[str, np.ndarray]:
    """Each score on every resample of the rows."""
    blocks = [
        {name: score.resampled(y, predicted, counts) for name, score in scores.items()}
        for counts in resamples(len(y), seed, in_time)
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in scores}
