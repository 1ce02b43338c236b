"""Histograms against the oracle's sums, for every layout, path and number of threads."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import eighths, make_binned, problems, random_codes

from hybridtrees.core.search._histogram import (
    BinnedView,
    RowStatistics,
    histogram,
    histogram_offsets,
)


class Kernel:
    """A table with its statistics, ready for histograms."""

    def __init__(self, binned, grad, hess, *, use_tail=True, need_counts=False):
        self.binned = binned
        self.view = BinnedView(binned)
        self.statistics = RowStatistics(self.view, use_tail)
        self.statistics.fill(grad, hess, binned.n_rows, need_counts, 1)
        self.layout = self.statistics.layout
        self.start = histogram_offsets(binned.n_bins)
        limits = (32767, 65535) if self.layout["name"] == "pair16" else (None, None)
        hess = np.broadcast_to(np.asarray(hess, dtype=np.float64), grad.shape)
        self.grad = oracle.quantise(grad, self.layout["grad_unit"], limits[0])
        self.hess = oracle.quantise(hess, self.layout["hess_unit"], limits[1])

    def cells(self, rows=None, features=None, n_threads=1):
        """The engine's histogram as it is."""
        if rows is not None:
            rows = np.asarray(rows, dtype=np.uint32)
        return histogram(self.view, self.statistics, rows, features, n_threads)

    def check(self, rows=None, features=None, n_threads=1):
        """Take the engine's cells apart and compare them with the oracle's sums."""
        cells = self.cells(rows, features, n_threads)
        assert cells.shape == (self.start[-1], self.layout["n_words"])
        bits = self.layout["count_bits"]
        listed = range(self.binned.n_features) if features is None else features
        used = np.zeros(len(cells), dtype=bool)
        for feature, expected in enumerate(
            oracle.histogram(self.binned, self.grad, self.hess, rows)
        ):
            part = slice(self.start[feature], self.start[feature] + len(expected))
            if feature not in listed:
                continue
            used[part] = True
            last = cells[part, -1]
            if self.layout["name"] == "unit":
                np.testing.assert_array_equal(last >> bits, expected[:, 0])
            else:
                np.testing.assert_array_equal(cells[part, 0], expected[:, 0])
                np.testing.assert_array_equal(last >> bits, expected[:, 1])
            if bits:
                np.testing.assert_array_equal(last & (2**bits - 1), expected[:, 2])
        # Padding, and features that are not listed, stay empty.
        assert not cells[~used].any()


@given(problems(max_features=20), st.booleans(), st.booleans(), st.randoms())
def test_small_tables(problem, use_tail, need_counts, random):
    binned, grad, hess = problem
    kernel = Kernel(binned, grad, hess, use_tail=use_tail, need_counts=need_counts)
    kernel.check()
    rows = sorted(random.sample(range(binned.n_rows), random.randint(1, binned.n_rows)))
    features = sorted(random.sample(range(binned.n_features), random.randint(1, binned.n_features)))
    kernel.check(rows)
    kernel.check(None, features)
    kernel.check(rows, features)


@given(problems(), st.randoms())
def test_histogram_of_a_parent_is_the_sum_of_its_children(problem, random):
    binned, grad, hess = problem
    kernel = Kernel(binned, grad, hess, need_counts=True)
    side = np.array([random.random() < 0.5 for _ in range(binned.n_rows)])
    both = kernel.cells(np.flatnonzero(side)) + kernel.cells(np.flatnonzero(~side))
    np.testing.assert_array_equal(kernel.cells(), both)


@pytest.mark.parametrize("n_bins", [255, 20])
@pytest.mark.parametrize("n_features", [1, 3, 4, 7, 8, 9, 12, 15, 63, 64, 65, 71, 130])
def test_any_number_of_features(rng, n_features, n_bins):
    # With 255 bins features stand at equal distances, with 20 they do not.
    binned = make_binned(random_codes(rng, 50, [n_bins] * n_features), n_bins)
    for hess in (1.0, eighths(rng, 50, 1, 8)):
        kernel = Kernel(binned, eighths(rng, 50), hess)
        kernel.check()
        kernel.check(np.arange(0, 50, 3))


def test_features_of_different_sizes(rng):
    n_bins = [255, 1, 2, 254, 255, 255, 3, 255]
    binned = make_binned(random_codes(rng, 300, n_bins, 0.3), n_bins)
    assert binned.has_missing.any()
    Kernel(binned, eighths(rng, 300), 1.0).check()
    Kernel(binned, eighths(rng, 300), eighths(rng, 300, 1, 8)).check(np.arange(7, 290))


def test_constant_all_missing_and_one_row():
    grad = np.array([0.5], dtype=np.float32)
    Kernel(make_binned([[0, 3, 255]], [1, 3, 255]), grad, 1.0).check()
    codes = np.full((40, 3), 255)
    codes[:, 0] = 7
    grad = np.linspace(-1, 1, 40, dtype=np.float32)
    Kernel(make_binned(codes, 255), grad, np.ones(40, dtype=np.float32)).check()


def test_rows_in_any_order_and_none_at_all(rng):
    binned = make_binned(random_codes(rng, 60, [9, 9]), 9)
    kernel = Kernel(binned, eighths(rng, 60), 1.0)
    rows = rng.permutation(60)[:33]
    np.testing.assert_array_equal(kernel.cells(rows), kernel.cells(np.sort(rows)))
    assert not kernel.cells([]).any()
    assert not kernel.cells(None, []).any()


# Tables large enough for the parallel paths: by rows where narrow, by features where wide or
# where there are few rows.
@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_bins"),
    [
        (30_000, 5, 255),
        (30_000, 5, 12),
        (400, 400, 20),
        (300, 330, 255),
        (30_001, 3, 4),
        (1500, 20, 255),
        (2000, 13, 40),
        (300, 100, 9),
    ],
)
@pytest.mark.parametrize("kind", ["unit", "pair32", "counts"])
def test_threads_change_nothing(rng, n_rows, n_features, n_bins, kind):
    codes = rng.integers(0, n_bins + 1, (n_rows, n_features))
    grad = rng.normal(size=n_rows).astype(np.float32)
    hess = 1.0 if kind == "unit" else rng.random(n_rows).astype(np.float32)
    kernel = Kernel(make_binned(codes, n_bins), grad, hess, need_counts=kind == "counts")
    most = np.flatnonzero(rng.random(n_rows) < 0.95)
    features = np.arange(0, n_features, 1 + (n_features > 5))
    for rows, listed in [(None, None), (most, None), (most, features)]:
        kernel.check(rows, listed)
        one = kernel.cells(rows, listed)
        for n_threads in (2, 3):
            np.testing.assert_array_equal(kernel.cells(rows, listed, n_threads), one)


@pytest.fixture(scope="module")
def large():
    """Pairs of 16 bits: 140,000 rows are three packed blocks."""
    rng = np.random.default_rng(3)
    n = 140_000
    n_bins = [255, 40, 3, 1, 7]
    codes = random_codes(rng, n, n_bins)
    grad = rng.normal(size=n).clip(-4, 4).astype(np.float32)
    hess = rng.uniform(0.05, 0.25, n).astype(np.float32)
    kernel = Kernel(make_binned(codes, n_bins), grad, hess)
    assert kernel.layout["name"] == "pair16"
    return kernel


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_packed_blocks(large, n_threads):
    large.check(n_threads=n_threads)
    large.check(np.arange(1, 140_000, 2), n_threads=n_threads)
    large.check(np.arange(1, 140_000, 2), [0, 2, 4], n_threads=n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_packed_blocks_of_features(rng, n_threads):
    # A node of few rows, yet more than four updates per cell.
    n, n_bins = 100_000, [40] * 15
    grad = rng.normal(size=n).clip(-4, 4).astype(np.float32)
    hess = rng.uniform(0.05, 0.25, n).astype(np.float32)
    kernel = Kernel(make_binned(random_codes(rng, n, n_bins), n_bins), grad, hess)
    assert kernel.layout["name"] == "pair16"
    kernel.check(np.arange(5, n, 60), n_threads=n_threads)


def test_small_node_of_a_large_table_is_not_packed(large):
    # Fewer updates than four per cell go straight into the pairs.
    rows = np.arange(100, 160)
    assert len(rows) * 5 < 4 * large.start[-1]
    large.check(rows)
    large.check(rows, [1, 3])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("uniform", [False, True])
def test_packed_sums_of_the_largest_values(sign, uniform):
    # Every row has the largest gradient and hessian and falls into one bin.
    n, n_bins = 140_000, 255 if uniform else 3
    grad = np.full(n, sign, dtype=np.float32) * np.float32(1 - 2.0**-20)
    hess = np.full(n, 1 - 2.0**-20, dtype=np.float32)
    kernel = Kernel(make_binned(np.full((n, 2), 2), n_bins), grad, hess)
    assert kernel.layout["name"] == "pair16"
    cell = kernel.cells()[2]
    assert tuple(cell) == (sign * 32767 * n, 65535 * n)
    np.testing.assert_array_equal(kernel.cells(n_threads=2), kernel.cells())


@given(st.lists(st.integers(1, 255), min_size=1, max_size=300))
def test_offsets_leave_room_and_avoid_aliasing_distances(n_bins):
    start = histogram_offsets(np.array(n_bins, dtype=np.int32)).astype(np.int64)
    assert start[0] == 0
    distance = np.diff(start)
    assert (distance > np.array(n_bins)).all()
    # Cells of 8 bytes: a multiple of 1,024 bytes meets itself within 4,096.
    assert (distance * 8 % 1024 != 0).all()
    if np.median(n_bins) >= 127:
        assert (distance == 272).all()


def test_bad_arguments_are_refused():
    kernel = Kernel(make_binned([[0, 1], [1, 0]], 2), np.ones(2, dtype=np.float32), 1.0)
    with pytest.raises(ValueError, match="row 2 is out of range"):
        kernel.cells([0, 2])
    for bad in (2, -1):
        with pytest.raises(ValueError, match=f"feature {bad} is out of range"):
            kernel.cells(None, [0, bad])


def test_arrays_that_do_not_fit_are_refused():
    binned = make_binned([[0, 1], [1, 0]], 2)
    binned.columns = binned.columns[:1]
    with pytest.raises(ValueError, match="are not consistent"):
        BinnedView(binned)
    binned = make_binned([[0, 1], [1, 0]], 2)
    binned.records = np.ascontiguousarray(binned.records[:, :5])
    with pytest.raises(ValueError, match="are not consistent"):
        BinnedView(binned)
    binned = make_binned(np.zeros((0, 2)), 2)
    with pytest.raises(ValueError, match="at least one row"):
        BinnedView(binned)
