"""Where columns are cut into bins, against a direct reading of the rule."""

import numpy as np
import pytest
import sketch_oracle as so

from hybridtrees.core.bins._sketch import cut_columns, exact_cuts, summarize
from hybridtrees.core.bins.sketch import QuantileSketch


def random_column(rng):
    """A column with few or many ties, and now and then a few heavy values."""
    n = int(rng.integers(1, 400))
    values = rng.integers(-60, 60, n) * rng.choice([0.5, 1e-3])
    if rng.random() < 0.6:
        for _ in range(int(rng.integers(1, 12))):
            values[rng.random(n) < rng.choice([0.02, 0.2, 0.6])] = rng.integers(-70, 70) * 0.5
    weights = rng.integers(1, 9, n).astype(float) if rng.random() < 0.5 else None
    if weights is not None and rng.random() < 0.3:
        weights[rng.integers(n)] = 10_000.0
    return values, weights


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_cuts_follow_the_rule(dtype):
    rng = np.random.default_rng(14)
    for _ in range(300):
        values, weights = random_column(rng)
        values = values.astype(dtype)
        n_bins = int(rng.choice([2, 3, 5, 16, 40, 255]))
        distinct, below, upto = so.sorted_ranks(values, weights)
        expected = so.cut_positions(upto - below, n_bins)
        lower, upper = exact_cuts(values, weights, n_bins)
        assert lower.tolist() == distinct[expected].tolist()
        assert upper.tolist() == distinct[np.array(expected, dtype=int) + 1].tolist()
        assert len(lower) < n_bins
        from_summary = summarize(values, weights)[0].cuts(n_bins)
        assert np.array_equal(from_summary, (lower, upper))


def test_zeros_that_are_not_stored():
    rng = np.random.default_rng(15)
    for _ in range(100):
        values, weights = random_column(rng)
        stored = values != 0
        zeros = float((~stored).sum() if weights is None else weights[~stored].sum())
        part = None if weights is None else weights[stored]
        dense = exact_cuts(values, weights, 16)
        assert np.array_equal(exact_cuts(values[stored], part, 16, zeros), dense)
    assert len(exact_cuts(np.empty(0, np.float32), None, 4, 3.0)[0]) == 0
    assert len(exact_cuts(np.empty(0), None, 4)[0]) == 0


def test_even_cuts_of_distinct_numbers():
    values = np.random.default_rng(16).permutation(np.arange(10_000.0))
    lower, upper = exact_cuts(values, None, 255)
    assert np.array_equal(upper, lower + 1)
    sizes = np.diff(np.concatenate([[-1], lower, [9999]]))
    assert set(sizes) == {39, 40}


def test_heavy_values_stand_alone():
    rng = np.random.default_rng(17)
    values = np.concatenate([np.zeros(900), np.full(300, 2.5), rng.uniform(-1, 4, 400)])
    lower, upper = exact_cuts(rng.permutation(values), None, 20)
    for heavy in (0.0, 2.5):
        assert heavy in lower
        assert heavy in upper
    assert len(lower) == 19


def test_extreme_weights_do_not_overrun():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 300))
        weights = 10.0 ** rng.uniform(-300, 300, n)
        lower, upper = exact_cuts(rng.standard_normal(n), weights, int(rng.integers(2, 40)))
        assert (lower < upper).all()
        assert (np.diff(lower) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_cut_as_each_alone(dtype):
    rng = np.random.default_rng(23)
    columns = rng.standard_normal((7, 900)).astype(dtype)
    columns[1] = 3.0
    columns[2] = np.nan
    columns[3, ::3] = np.nan
    columns[4] = np.round(columns[4])
    for weights in (None, rng.exponential(size=900)):
        alone = [exact_cuts(column, weights, 40) for column in columns]
        for n_threads in (1, 2, 3):
            together = cut_columns(columns, weights, 40, n_threads)
            assert len(together) == len(alone)
            assert all(np.array_equal(a, b) for a, b in zip(together, alone, strict=True))
    assert [len(lower) for lower, _ in cut_columns(columns[:, :0], None, 4, 2)] == [0] * 7
    with pytest.raises(ValueError, match="weights must be 900"):
        cut_columns(columns, np.ones(3), 4, 1)


def test_cuts_of_a_sketch_are_near_the_exact_ones():
    rng = np.random.default_rng(19)
    values = np.where(rng.random(50_000) < 0.5, 1.0, rng.lognormal(size=50_000))
    weights = rng.exponential(size=50_000)
    sketch = QuantileSketch(1 / 512).update(values, weights)
    lower, _ = sketch.cuts(64)
    assert 50 < len(lower) <= 63
    distinct, _, upto = so.sorted_ranks(values, weights)
    at = np.searchsorted(distinct, lower)
    parts = np.diff(np.concatenate([[0.0], upto[at], [upto[-1]]])) / upto[-1]
    light = parts[parts < 0.3]
    assert len(light) == len(parts) - 1
    assert light.max() <= 0.5 / 63 + 3 / 512
    assert QuantileSketch().cuts(8)[0].size == 0
