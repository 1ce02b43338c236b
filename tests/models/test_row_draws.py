"""Rows drawn by their numbers: shares, uniformity, independence, weights, any part of a table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hybridtrees import GradientBoostingRegressor, RandomForestRegressor, XGBRegressor
from hybridtrees.core.base._threads import bootstrap_draws, count_bits, row_bits, rows_below
from hybridtrees.core.base._types import Stream
from hybridtrees.models.shared.bagging import RowSampler, bootstrap_counts
from hybridtrees.models.shared.boosting import RoundDraws, draw_each, draw_share
from hybridtrees.models.shared.row_draws import draw_by_share, draw_of, draw_some


def drawn(rows, n):
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return mask


def test_any_part_of_the_table_draws_its_own_rows():
    n, limit = 10_000, 2**62
    whole = rows_below(5, limit, 0, n)
    cuts = [0, 1, 777, 4096, 9999, n]
    parts = [rows_below(5, limit, a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(
        whole, np.flatnonzero(row_bits(5, np.arange(n, dtype="u4")) <= limit)
    )
    counts = sum(count_bits(5, a, b) for a, b in zip(cuts, cuts[1:], strict=False))
    np.testing.assert_array_equal(counts, count_bits(5, 0, n))
    pieces = [bootstrap_draws(5, a, b, 123) for a, b in zip(cuts, cuts[1:], strict=False)]
    np.testing.assert_array_equal(np.concatenate(pieces), bootstrap_draws(5, 0, n, 123))


def keyed(seed, stream, index):
    """The hash of _rng.pxd, written once more for Python's integers."""

    def mix(value):
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        return value ^ (value >> 31)

    first = mix((seed + 0x9E3779B97F4A7C15) % 2**64)
    return mix((mix((first + stream) % 2**64) + index) % 2**64)


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_draws_are_hashes_of_seed_stream_and_row(seed):
    """Models of a seed stay the same: neither the hash nor the number of a stream may change."""
    rows = range(50)
    expected = [keyed(seed, Stream.STREAM_ROWS, row) for row in rows]
    assert row_bits(seed, np.array(rows, dtype="u4")).tolist() == expected
    shares = [(keyed(seed, Stream.STREAM_BOOTSTRAP, row) >> 11) / 2**53 for row in rows]
    assert bootstrap_draws(seed, 0, 50, 1000).tolist() == [int(1000 * share) for share in shares]


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.999])
def test_share_of_each_row(share):
    n, seeds = 2000, 200
    masks = np.array([drawn(draw_by_share(seed, n, share), n) for seed in range(seeds)])
    deviation = np.sqrt(share * (1 - share))
    assert abs(masks.mean() - share) < 5 * deviation / np.sqrt(n * seeds)
    by_row, by_seed = masks.sum(axis=0), masks.sum(axis=1)
    for found, size in ((by_row, seeds), (by_seed, n)):
        spread = np.sum((found - size * share) ** 2) / (size * share * (1 - share))
        assert 1e-4 < stats.chi2.sf(spread, len(found)) < 1 - 1e-4


def test_rows_seeds_and_rounds_are_independent():
    n = 100_000
    seeds = [int(RoundDraws(np.random.SeedSequence(3)).of(k)[0]) for k in range(4)]
    masks = [drawn(draw_each(0.5)(seed, n), n) for seed in [*seeds, 0, 1, 2]]
    for i, one in enumerate(masks):
        # Neighbours in the table, and rows that are powers of two apart.
        for step in (1, 2, 64, 4096):
            table = np.histogram2d(one[:-step], one[step:], bins=2)[0]
            assert stats.chi2_contingency(table)[1] > 1e-4
        for other in masks[:i]:
            assert stats.chi2_contingency(np.histogram2d(one, other, bins=2)[0])[1] > 1e-4


def test_one_row_at_least():
    assert all(len(draw_by_share(seed, 5, 1e-300)) == 1 for seed in range(20))
    rows = np.concatenate([draw_by_share(seed, 5, 0.0) for seed in range(1000)])
    assert stats.chisquare(np.bincount(rows, minlength=5)).pvalue > 1e-4
    assert len(draw_share(0.001)(1, 10)) == 1
    assert draw_each(1.0)(1, 10) is None
    assert draw_share(1.0)(1, 10) is None


@pytest.mark.parametrize(("n", "k"), [(1, 1), (10, 3), (5000, 1), (5000, 2500), (5000, 5000)])
def test_some_rows_are_those_of_the_smallest_bits(n, k):
    for seed in range(20):
        rows = draw_some(seed, n, k)
        assert rows.dtype == np.uint32
        order = np.argsort(row_bits(seed, np.arange(n, dtype=np.uint32)), kind="stable")[:k]
        np.testing.assert_array_equal(rows, np.sort(order))


def test_some_rows_are_drawn_alike():
    counts = sum(drawn(draw_some(seed, 200, 60), 200).astype(int) for seed in range(3000))
    # Without replacement the counts vary by the factor 140 / 199 ... less than in a binomial.
    spread = np.sum((counts - 900) ** 2) / (3000 * 0.3 * 0.7)
    assert 1e-4 < stats.chi2.sf(spread, 199) < 1 - 1e-4
    used = np.array([3, 50, 51, 199])
    picked = np.concatenate([draw_of(seed, used, 2) for seed in range(2000)])
    assert set(picked) == set(used)
    assert stats.chisquare(np.unique(picked, return_counts=True)[1]).pvalue > 1e-4


def test_bootstrap_samples():
    n, seeds = 500, 400
    counts = np.array([bootstrap_counts(seed, n, n) for seed in range(seeds)])
    assert np.all(counts.sum(axis=1) == n)
    assert stats.chisquare(counts.sum(axis=0)).pvalue > 1e-4
    shares = np.bincount(counts.ravel(), minlength=4)[:4] / counts.size
    np.testing.assert_allclose(shares, stats.binom.pmf(np.arange(4), n, 1 / n), atol=0.005)


def test_weighted_bootstrap_samples():
    weight = np.array([0.0, 1.0, 2.5, 1e-300, 7.5, 0.0, 4.0])
    counts = sum(bootstrap_counts(seed, 7, 50, weight) for seed in range(2000))
    assert counts[0] == counts[3] == counts[5] == 0
    seen = weight > 1e-200
    expected = 100_000 * weight[seen] / weight[seen].sum()
    assert stats.chisquare(counts[seen], expected).pvalue > 1e-4
    # A unit of the weights does not matter.
    np.testing.assert_array_equal(
        bootstrap_counts(1, 7, 50, weight), bootstrap_counts(1, 7, 50, 1024 * weight)
    )


def test_forests_of_older_files_draw_as_they_did():
    old, new = RowSampler(100, 80, True), RowSampler(100, 80, True)
    del old.keyed
    drawn_before = np.random.default_rng(7).integers(0, 100, 80)
    np.testing.assert_array_equal(old.counts(7), np.bincount(drawn_before, minlength=100))
    assert not np.array_equal(old.counts(7), new.counts(7))
    assert not RowSampler(100, 80, True, None, old).keyed
    assert RowSampler(100, 80, True, None, new).keyed


def test_a_continued_old_forest_keeps_its_way_of_drawing(rng):
    X = rng.standard_normal((200, 3))
    forest = RandomForestRegressor(5, warm_start=True, random_state=0).fit(X, X[:, 0])
    forest._sampler.keyed = False
    forest.set_params(n_estimators=6).fit(X, X[:, 0])
    assert not forest._sampler.keyed
    forest.set_params(warm_start=False).fit(X, X[:, 0])
    assert forest._sampler.keyed


@pytest.mark.parametrize("model", [XGBRegressor, GradientBoostingRegressor])
def test_drawn_rows_depend_on_their_numbers(rng, model):
    """The first rows of a longer table draw as if they were alone."""
    rows = [draw_each(0.4)(9, n) for n in (1000, 1500)]
    np.testing.assert_array_equal(rows[1][rows[1] < 1000], rows[0])
    X = rng.standard_normal((500, 3))
    fits = [model(n_estimators=4, subsample=0.5, random_state=s).fit(X, X[:, 0]) for s in (1, 1, 2)]
    predictions = [fit.predict(X) for fit in fits]
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert not np.array_equal(predictions[0], predictions[2])
