"""BinMapper and BinnedMatrix on dense tables, against NumPy."""

import copy
import pickle

import numpy as np
import pytest
import sketch_oracle as so
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees.core.base.dtypes import CACHE_LINE
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.bins.matrix import BinnedMatrix


def mixed_table(n, seed=0, dtype=np.float64):
    """Columns of every kind that binning must tell apart."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(n)
    columns = [
        normal,
        np.where(rng.random(n) < 0.3, np.nan, normal * 1e3),
        np.where(rng.random(n) < 0.9, 0.0, rng.lognormal(size=n)),
        np.full(n, 7.25),
        np.full(n, np.nan),
        np.where(rng.random(n) < 0.5, np.nan, 1.0),
        rng.integers(0, 5, n),
        np.arange(n) % 255,
        np.arange(n) % 256,
        np.arange(n) % 257,
        rng.lognormal(sigma=4, size=n),
        rng.standard_cauchy(n),
        -rng.pareto(0.5, n),
        np.where(np.arange(n) == n // 2, 1e30, normal),
        normal * 1e-40,
        rng.choice([-0.0, 0.0, 1.0], n),
        rng.integers(0, 2, n),
        *rng.standard_normal((4, n)),
    ]
    return np.column_stack(columns).astype(dtype)


def check_binned(binned, mapper, X):
    """All that the contract says about a matrix of codes."""
    n, p = X.shape
    assert (binned.n_rows, binned.n_features) == binned.shape == (n, p)
    assert len(binned) == n
    assert binned.records.dtype == binned.columns.dtype == np.uint8
    assert binned.records.flags.c_contiguous and binned.columns.flags.c_contiguous
    for array in (binned.records, binned.columns):
        assert n == 0 or array.ctypes.data % CACHE_LINE == 0
    tail = (p + 3) // 4 * 4
    assert binned.records.shape == (n, tail + 4)
    assert binned.columns.shape == (p, n)
    assert binned.nbytes == n * (tail + 4) + n * p
    assert np.array_equal(binned.records[:, :p], binned.columns.T)
    assert not binned.records[:, p:].any()
    expected = so.encode(X, mapper.bin_edges_, mapper.n_bins_, mapper.category_to_bin_)
    assert np.array_equal(binned.columns, expected)
    assert binned.n_bins.dtype == np.int32
    assert np.array_equal(binned.n_bins, mapper.n_bins_)
    assert np.array_equal(binned.n_bins, mapper.missing_bin_)
    assert ((binned.n_bins >= 1) & (binned.n_bins <= mapper.max_bins)).all()
    assert binned.has_missing.dtype == binned.is_categorical.dtype == np.uint8
    missing = (expected == mapper.n_bins_[:, None]).any(axis=1)
    assert np.array_equal(binned.has_missing, missing)
    for f, edges in enumerate(binned.bin_edges):
        if binned.is_categorical[f]:
            assert edges is None
        else:
            assert edges.dtype == np.float64
            assert len(edges) == binned.n_bins[f] - 1
            assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 50, 255, 256, 257, 1030])
def test_codes_equal_the_oracle(n, dtype):
    X = mixed_table(n, dtype=dtype)
    mapper = BinMapper(n_jobs=1)
    check_binned(mapper.fit_transform(X), mapper, X)
    # Values between, on and beyond those of the fit.
    edges = mapper.bin_edges_
    probe = np.full((600, X.shape[1]), np.nan)
    for f in range(X.shape[1]):
        at = np.concatenate([edges[f], np.nextafter(edges[f], np.inf), [-1e38, 1e38, 0.0, -0.0]])
        probe[: len(at), f] = at
    probe = probe.astype(dtype)
    check_binned(mapper.transform(probe), mapper, probe)


@pytest.mark.parametrize("max_bins", [2, 3, 16, 254, 255])
def test_codes_for_each_number_of_bins(max_bins):
    X = mixed_table(500, seed=1, dtype=np.float32)
    mapper = BinMapper(max_bins=max_bins)
    check_binned(mapper.fit_transform(X), mapper, X)
    assert mapper.n_bins_.max() == max_bins


def test_distinct_values_have_exact_midpoints():
    rng = np.random.default_rng(2)
    values = np.sort(rng.choice(10_000, 255, replace=False)) / 8.0
    X = np.concatenate([values, rng.choice(values, 3000)])[:, None]
    for table in (X, X.astype(np.float32), X.astype(np.int64)):
        mapper = BinMapper().fit(table)
        distinct = np.unique(table)
        expected = (distinct[1:] + distinct[:-1]) / 2
        if table.dtype == np.float32:
            # Not rounded to float32: the midpoint as float64 has it.
            expected = (distinct[1:].astype(float) + distinct[:-1].astype(float)) / 2
        assert np.array_equal(mapper.bin_edges_[0], expected)
    awkward = np.array([[0.1], [0.2], [0.3]], dtype=np.float32)
    exact = (awkward[:-1, 0].astype(float) + awkward[1:, 0].astype(float)) / 2
    assert np.array_equal(BinMapper().fit(awkward).bin_edges_[0], exact)


def test_distinct_values_are_counted_over_all_rows():
    # One value in a hundred thousand is hardly ever in a sample of ten.
    X = np.zeros((100_000, 1))
    X[77_777] = 5.0
    mapper = BinMapper(subsample=10).fit(X)
    assert mapper.bin_edges_[0].tolist() == [2.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_quantile_edges_follow_the_rule(dtype, weighted):
    rng = np.random.default_rng(3)
    X = mixed_table(2000, seed=3, dtype=dtype)
    weights = rng.integers(0, 5, 2000).astype(float) if weighted else None
    mapper = BinMapper(max_bins=40).fit(X, weights)
    for f in range(X.shape[1]):
        distinct, below, upto = so.sorted_ranks(X[:, f], weights)
        cuts = np.array(so.cut_positions(upto - below, 40), dtype=int)
        edges = mapper.bin_edges_[f]
        assert len(edges) == len(cuts)
        # Each edge is between the two values at its cut, and is a float32 where one fits there.
        assert (distinct[cuts] <= edges).all()
        assert (edges < distinct[cuts + 1]).all()
        if len(distinct) > 40 and dtype == np.float32:
            assert np.array_equal(edges, edges.astype(np.float32))


def test_sample_is_seeded_and_representative():
    # Sorted rows: a sample from one end would show.
    X = np.sort(np.random.default_rng(4).standard_normal((30_000, 2)), axis=0)
    edges = [BinMapper(subsample=2000, random_state=s).fit(X).bin_edges_[0] for s in (0, 0, 1)]
    assert np.array_equal(edges[0], edges[1])
    assert not np.array_equal(edges[0], edges[2])
    full = BinMapper(subsample=None).fit_transform(X)
    assert set(np.bincount(full.columns[0])) == {117, 118}
    counts = np.bincount(BinMapper(subsample=2000, max_bins=10).fit_transform(X).columns[0])
    assert abs(counts - 3000).max() < 5 * 30_000 * np.sqrt(0.1 * 0.9 / 2000)


def test_many_rows_go_through_the_sketch(monkeypatch):
    monkeypatch.setattr("hybridtrees.core.bins.columns.EXACT_ROWS", 5000)
    monkeypatch.setattr("hybridtrees.core.bins.columns._BATCH_ROWS", 1700)
    X = mixed_table(12_000, seed=5, dtype=np.float32)
    weights = np.random.default_rng(5).exponential(size=12_000)
    mapper = BinMapper(max_bins=20, subsample=None, n_jobs=1).fit(X, weights)
    parts = np.bincount(mapper.transform(X).columns[0], weights=weights) / weights.sum()
    assert len(parts) == 20
    assert abs(parts - 1 / 20).max() <= 2 / 160
    check_binned(mapper.transform(X[:300]), mapper, X[:300])


def test_weights():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((3000, 3))
    counts = rng.integers(0, 4, 3000)
    weighted = BinMapper(max_bins=50).fit(X, counts.astype(float))
    repeated = BinMapper(max_bins=50).fit(np.repeat(X, counts, axis=0))
    scaled = BinMapper(max_bins=50).fit(X, counts * 0.125)
    for f in range(3):
        assert np.array_equal(weighted.bin_edges_[f], repeated.bin_edges_[f])
        assert np.array_equal(weighted.bin_edges_[f], scaled.bin_edges_[f])
    # Rows of weight 0 are not seen at all, neither as values nor as categories.
    X = np.array([[1.0, 0], [2.0, 1], [3.0, 2]])
    mapper = BinMapper(categorical_features=[1]).fit(X, [1, 0, 1])
    assert mapper.bin_edges_[0].tolist() == [2.0]
    assert mapper.category_to_bin_[1].tolist() == [0, 3, 2]


def test_heavy_value_has_its_own_bin():
    rng = np.random.default_rng(7)
    x = rng.permutation(np.concatenate([np.zeros(9000), rng.standard_normal(1000)]))
    mapper = BinMapper()
    codes = mapper.fit_transform(x[:, None]).columns[0]
    zero = codes[x == 0][0]
    assert np.array_equal(codes == zero, x == 0)
    assert mapper.n_bins_[0] == 255
    assert np.bincount(codes)[np.arange(255) != zero].max() <= 6


def test_monotone_transform_keeps_the_bins():
    X = np.random.default_rng(8).standard_normal((5000, 2))
    codes = BinMapper().fit_transform(X).columns
    assert np.array_equal(codes, BinMapper().fit_transform(np.exp(X) * 1e5).columns)
    assert np.array_equal(codes, BinMapper().fit_transform(X**3).columns)


def layouts(X, folder):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::3] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    np.save(folder / "table.npy", X)
    unaligned = np.empty(X.nbytes + 1, dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape)
    unaligned[:] = X
    return {
        "F": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "backwards": np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
        "F backwards": np.asfortranarray(X[::-1])[::-1],
        "read only": read_only,
        "memory map": np.load(folder / "table.npy", mmap_mode="r"),
        "part": np.hstack([X, X])[:, : X.shape[1]],
        "other byte order": X.astype(X.dtype.newbyteorder()),
        "unaligned": unaligned,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_and_threads(dtype, tmp_path):
    X = mixed_table(10_000, seed=9, dtype=dtype)
    X = np.hstack([X, np.floor(np.abs(X[:, :1] * 10))])
    options = {"categorical_features": [-1], "max_bins": 60, "subsample": 8000}
    first = BinMapper(n_jobs=1, **options)
    expected = first.fit_transform(X)
    for name, table in ({"C": X} | layouts(X, tmp_path)).items():
        for n_jobs in (1, 2, 3):
            mapper = BinMapper(n_jobs=n_jobs, **options)
            binned = mapper.fit_transform(table)
            for mine, other in zip(first.bin_edges_, mapper.bin_edges_, strict=True):
                assert np.array_equal(mine, other), name
            assert np.array_equal(binned.columns, expected.columns), (name, n_jobs)
            assert np.array_equal(binned.records, expected.records)
            assert np.array_equal(binned.has_missing, expected.has_missing)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, bool, np.float16])
def test_other_dtypes(dtype):
    X = (np.random.default_rng(10).random((400, 3)) * 100).astype(dtype)
    mapper = BinMapper()
    check_binned(mapper.fit_transform(X), mapper, X.astype(np.float64))
    assert np.array_equal(mapper.transform(X.tolist()).columns, mapper.transform(X).columns)


def test_float32_and_float64_agree_on_the_same_numbers():
    X = mixed_table(800, seed=11)
    mapper = BinMapper().fit(X)
    narrow = mixed_table(500, seed=12, dtype=np.float32)
    assert np.array_equal(
        mapper.transform(narrow).columns, mapper.transform(narrow.astype(np.float64)).columns
    )
    # Edges beyond float32 and closer together than float32 can tell.
    mapper = BinMapper().fit([[1.0], [1.0 + 1e-12], [1e300], [-1e300]])
    probe = np.array([[1.0], [np.nextafter(np.float32(1), np.float32(2))], [3e38], [-3e38], [0.0]])
    wide, narrow = mapper.transform(probe), mapper.transform(probe.astype(np.float32))
    assert np.array_equal(wide.columns, narrow.columns)


# ---------------------------------------------------------------- the matrix


def test_take_and_pickle():
    X = mixed_table(300, seed=13)
    mapper = BinMapper()
    binned = mapper.fit_transform(X)
    for rows in (np.arange(0, 300, 7), [5, 5, -1, 0], np.arange(300) % 2 == 0, []):
        part = binned.take(rows)
        chosen = X[np.asarray(rows, dtype=None if len(rows) else int)]
        check_binned(part, mapper, chosen)
    for twin in (pickle.loads(pickle.dumps(binned)), copy.deepcopy(binned)):
        assert isinstance(twin, BinnedMatrix)
        check_binned(twin, mapper, X)
    assert "300 x 21" in repr(binned)
    for rows, error in (([300], IndexError), ([-301], IndexError), ([0.5], TypeError)):
        with pytest.raises(error, match="rows must"):
            binned.take(rows)
    with pytest.raises(ValueError, match="mask of length 300"):
        binned.take([True])


@given(
    st.lists(
        st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.0, np.nan, 1e-45, 3e38, -3e38])
        | st.floats(-(2.0**100), 2.0**100, width=32),
        min_size=1,
        max_size=60,
    ),
    st.integers(2, 12),
    st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=150, deadline=None)
def test_any_column(values, max_bins, dtype):
    X = np.array(values, dtype=dtype)[:, None]
    mapper = BinMapper(max_bins=max_bins, n_jobs=1)
    check_binned(mapper.fit_transform(X), mapper, X)
