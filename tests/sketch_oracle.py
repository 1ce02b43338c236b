"""Slow and obvious versions of what the sketch and the bins compute."""

from fractions import Fraction

import numpy as np


def ranks_of(values, weights, x):
    """(weight below x, weight at or below x) as exact fractions; NaN do not count."""
    values = np.asarray(values, dtype=np.float64)
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    below = sum((Fraction(w) for w in weights[values < x]), Fraction(0))
    level = sum((Fraction(w) for w in weights[values == x]), Fraction(0))
    return below, below + level


def total_of(values, weights):
    """Exact weight of all numbers."""
    return ranks_of(values, weights, np.inf)[1]


def sorted_ranks(values, weights=None):
    """Distinct numbers with the weight below and at or below each, in float64."""
    values = np.asarray(values, dtype=np.float64)
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    kept = ~np.isnan(values) & (weights > 0)
    distinct, where = np.unique(values[kept], return_inverse=True)
    own = np.bincount(where, weights=weights[kept], minlength=len(distinct))
    upto = np.cumsum(own)
    return distinct, upto - own, upto


def worst_quantile_error(sketch, values, weights=None, n_queries=201):
    """Greatest distance of a quantile's ranks from the rank asked for, as a share of the total."""
    distinct, below, upto = sorted_ranks(values, weights)
    total = upto[-1]
    q = np.linspace(0.0, 1.0, n_queries)
    answers = sketch.quantiles(q)
    at = np.searchsorted(distinct, answers)
    assert np.array_equal(distinct[at], answers), "a quantile that never was in the data"
    ranks = q * total
    error = np.maximum(np.maximum(below[at] - ranks, ranks - upto[at]), 0.0)
    return error.max() / total


def worst_bounds_error(sketch, values, weights=None):
    """How far rank_bounds miss the truth at and between the data, as a share of the total."""
    distinct, _, upto = sorted_ranks(values, weights)
    total = upto[-1]
    points = np.concatenate([distinct, (distinct[1:] + distinct[:-1]) / 2, [-np.inf, np.inf]])
    truth = np.append(0.0, upto)[np.searchsorted(distinct, points, side="right")]
    lower, upper = sketch.rank_bounds(points)
    miss = np.maximum(lower - truth, truth - upper).max() / total
    return miss, (upper - lower).max() / total


def orders(n, rng):
    """Adversarial orders of n distinct numbers."""
    up = np.arange(n, dtype=np.float64)
    zigzag = np.empty(n)
    zigzag[::2], zigzag[1::2] = up[: (n + 1) // 2], up[::-1][: n // 2]
    organ = np.concatenate([up[::2], up[1::2][::-1]])
    return {
        "sorted": up,
        "reversed": up[::-1].copy(),
        "zigzag": zigzag,
        "organ pipe": organ,
        "inside out": zigzag[::-1].copy(),
        "shuffled": rng.permutation(up),
        "blocks": np.concatenate([up[k::7] for k in range(7)]),
    }


def cut_positions(own, n_bins):
    """After which of the sorted distinct values, of weights `own`, to cut into n_bins bins.

    A direct reading of the rule: heavy values alone, the runs between them share the other bins by
    weight, and each run is cut evenly, every cut going to the nearer of two places.
    """
    own = np.asarray(own, dtype=np.float64)
    if len(own) <= n_bins:
        return list(range(len(own) - 1))
    heavy = np.zeros(len(own), dtype=bool)
    while True:
        free = n_bins - heavy.sum()
        joined = own > own[~heavy].sum() / free
        if (joined | heavy).sum() == heavy.sum() or (joined | heavy).sum() >= n_bins:
            break
        heavy |= joined
    runs, start = [], None
    for i in range(len(own) + 1):
        light = i < len(own) and not heavy[i]
        if light and start is None:
            start = i
        if not light and start is not None:
            runs.append((start, i))
            start = None
    cuts = {i for i in range(len(own)) if heavy[i]}
    bins_left, light_left = n_bins - int(heavy.sum()), own[~heavy].sum()
    for k, (start, stop) in enumerate(runs):
        weight, runs_left = own[start:stop].sum(), len(runs) - k
        share = bins_left
        if runs_left > 1:
            share = int(bins_left * min(weight / light_left, 1.0) + 0.5) if light_left > 0 else 0
            if bins_left >= runs_left:
                share = min(max(share, 1), bins_left - (runs_left - 1))
        bins_left -= share
        light_left -= weight
        if share == 0:
            cuts.discard(start - 1)
        if share > 0 or start > 0:
            cuts.add(stop - 1)
        cuts |= set(even_positions(own, start, stop, share))
    return sorted(cuts - {len(own) - 1})


def even_positions(own, start, stop, n_bins):
    """Inner cuts of a run into bins of like weight."""
    cuts, last = [], start - 1
    for left in range(n_bins, 1, -1):
        places = range(last + 1, stop - 1)
        if not places:
            break
        target = own[last + 1 : stop].sum() / left
        sums = np.cumsum(own[last + 1 : stop - 1])
        # The first place among equals: distances are compared exactly for small integers.
        last = places[int(np.argmin(np.abs(sums - target)))]
        cuts.append(last)
    return cuts


def encode(X, edges, n_bins, category_to_bin):
    """Codes of a dense table, (n_features, n_rows)."""
    X = np.asarray(X)
    codes = np.empty(X.shape[::-1], dtype=np.uint8)
    for f in range(X.shape[1]):
        for r in range(X.shape[0]):
            x = float(X[r, f])
            if np.isnan(x):
                code = n_bins[f]
            elif edges[f] is None:
                table = category_to_bin[f]
                known = x >= 0 and x == int(x) and x < len(table)
                code = table[int(x)] if known else n_bins[f]
            else:
                code = int((np.asarray(edges[f]) < x).sum())
            codes[f, r] = code
    return codes
