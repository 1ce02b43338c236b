"""How much work a quality stands for: folds, bags, candidates, learning rate, rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

# By quality: folds, candidates, factor on the learning rate. One fold is a single held-out part.
_FOLDS = (1, 3, 4, 8, 8)
_RATE_FACTORS = (2.0, 1.4, 1.0, 0.7, 0.5)
_CANDIDATES = (
    ("trees",),
    ("trees", "lines", "linear"),
    ("trees", "lines", "linear", "forest", "small trees"),
    ("trees", "lines", "linear", "forest", "small trees", "drawn lines"),
    ("trees", "lines", "linear", "forest", "small trees", "drawn lines", "steep lines"),
)

# Rows at which a table counts as small: its folds differ by chance, and more of them are dealt out.
_SMALL = 500
# Rows below which lines follow chance more than slopes: rows and features are drawn for their
# trees, which then differ, so that errors average out.
_FEW = 2000
# Rows beyond which a held-out part decides as well as all of them would.
_LARGE = 100_000

# Held-out share of a single fold, 1 / 5, and of the folds in time order, 1 / 10 each.
_PARTS = 5
TIME_PARTS = 10

# Maximum of rounds times learning rate: on nearly all tables boosting stops earlier.
_LONGEST = 100.0


@dataclass(frozen=True)
class Plan:
    """What a fit does; it depends on the quality and the shape of the table alone."""

    candidates: tuple[str, ...]
    n_parts: int  # parts that the rows are divided into
    n_folds: int  # parts that are held out, one after the other
    n_repeats: int  # how often rows are dealt out
    learning_rate: float
    n_rounds: int  # most rounds of boosting
    patience: int  # rounds without gain that end boosting
    n_trees: int  # of a forest, for each fold
    extrapolates: bool  # whether lines go on beyond the rows of their leaves


def learning_rate(n_rows: int, n_classes: int = 0) -> float:
    """Learning rate of boosting that early stopping ends, at quality 3.

    Steps are noisy on small tables, which gain from smaller ones; the means over the folds take
    most of that noise away, so that the rate changes slowly: 0.08 at 100 rows, 0.1 from 1,000. With
    several classes a round grows a tree for each, and rounds are what costs: the rate grows with
    the square root of their number, up to 0.2.
    """
    rate = min(max(0.1 * (n_rows / 1000.0) ** 0.1, 0.06), 0.1)
    return float(min(rate * math.sqrt(max(n_classes, 2) / 2), 0.2))


def make_plan(quality: int, n_rows: int, *, n_classes: int = 0, ordered: bool = False) -> Plan:
    """Return the plan for a quality, the size of a table, and rows in time order or not."""
    at = quality - 1
    rate = min(learning_rate(n_rows, n_classes) * _RATE_FACTORS[at], 0.3)
    n_folds, n_repeats = _FOLDS[at], 1
    if n_rows >= _LARGE and quality < 5:
        n_folds = min(n_folds, 3)
    if n_rows < _SMALL:
        n_repeats = (1, 1, 2, 2, 4)[at]
    candidates: tuple[str, ...] = _CANDIDATES[at]
    if n_rows < _FEW and "drawn lines" not in candidates:
        candidates = tuple("drawn lines" if c == "lines" else c for c in candidates)
    n_parts = n_folds if n_folds > 1 else _PARTS
    if ordered:
        n_parts, n_folds, n_repeats = TIME_PARTS, min(n_folds, 3), 1
    return Plan(
        candidates=candidates,
        n_parts=n_parts,
        n_folds=n_folds,
        n_repeats=n_repeats,
        learning_rate=rate,
        n_rounds=round(_LONGEST / rate),
        patience=max(10, round(1.5 / rate)),
        n_trees=max(20, 100 // (n_folds * n_repeats)),
        # Held-out rows at random do not show what a line says of other rows, later ones do.
        extrapolates=ordered,
    )
