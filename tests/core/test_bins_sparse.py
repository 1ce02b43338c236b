"""Sparse tables must be binned exactly as the dense ones they stand for."""

import numpy as np
import pytest
import scipy.sparse as sp

from hybridtrees.core.bins.mapper import BinMapper


def sparse_table(n, seed=0, dtype=np.float64):
    """Zeros with some values of every kind, NaN among them, and a categorical column."""
    rng = np.random.default_rng(seed)
    filled = rng.random((n, 8)) < [0.1, 0.5, 0.02, 1.0, 0.3, 0.0, 0.2, 0.7]
    values = rng.standard_normal((n, 8))
    values[:, 1] = rng.integers(1, 50, n)
    values[:, 4] = -rng.lognormal(size=n)
    values[:, 7] = rng.integers(0, 300, n)
    values[:, 6] = np.where(rng.random(n) < 0.5, np.nan, values[:, 6])
    return np.where(filled, values, 0.0).astype(dtype)


def assert_same(sparse, dense, sparse_mapper, mapper):
    assert np.array_equal(sparse.columns, dense.columns)
    assert np.array_equal(sparse.records, dense.records)
    assert np.array_equal(sparse.has_missing, dense.has_missing)
    assert np.array_equal(sparse_mapper.n_bins_, mapper.n_bins_)
    for mine, other in zip(sparse_mapper.bin_edges_, mapper.bin_edges_, strict=True):
        assert mine is None and other is None or np.array_equal(mine, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("n", [1, 40, 3000])
def test_sparse_equals_dense(make, dtype, n):
    X = sparse_table(n, dtype=dtype)
    options = {"categorical_features": [7], "max_bins": 60}
    mapper, sparse_mapper = BinMapper(**options), BinMapper(**options)
    dense = mapper.fit_transform(X)
    assert_same(sparse_mapper.fit_transform(make(X)), dense, sparse_mapper, mapper)
    assert np.array_equal(mapper.transform(make(X)).columns, dense.columns)
    other = sparse_table(200, seed=9, dtype=dtype)
    assert np.array_equal(
        sparse_mapper.transform(make(other)).records, mapper.transform(other).records
    )


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix])
def test_sample_and_weights(make):
    X = sparse_table(4000, seed=1)
    weights = np.random.default_rng(1).integers(0, 4, 4000).astype(float)
    for sample_weight in (None, weights, np.where(weights > 0, 2.5, 0.0)):
        options = {"subsample": 900, "max_bins": 30, "categorical_features": [7]}
        mapper, sparse_mapper = BinMapper(**options), BinMapper(**options)
        dense = mapper.fit_transform(X, sample_weight)
        sparse = sparse_mapper.fit_transform(make(X), sample_weight)
        assert sparse.n_rows == 4000
        assert_same(sparse, dense, sparse_mapper, mapper)


def test_batches():
    X = sparse_table(6000, seed=2)
    weights = np.random.default_rng(2).integers(0, 3, 6000).astype(float)
    mappers = []
    for table in (X, sp.csr_matrix(X)):
        mapper = BinMapper(max_bins=20, categorical_features=[7])
        for start in range(0, 6000, 2500):
            part = slice(start, start + 2500)
            mapper.partial_fit(table[part], weights[part])
        mappers.append(mapper)
    dense, sparse = (mapper.transform(X) for mapper in mappers)
    # Zeros come as one heavy number instead of many: edges may differ by the sketches' error.
    assert abs(mappers[0].n_bins_ - mappers[1].n_bins_).max() <= 1
    assert np.array_equal(dense.columns[[5, 7]], sparse.columns[[5, 7]])
    for f in (0, 3, 4):
        assert abs(dense.columns[f].astype(int) - sparse.columns[f]).max() <= 1


def test_threads_and_index_types():
    X = sp.random(20_000, 40, density=0.2, random_state=3, format="csr")
    expected = BinMapper(n_jobs=1).fit_transform(X)
    for n_jobs in (2, 3):
        assert np.array_equal(BinMapper(n_jobs=n_jobs).fit_transform(X).records, expected.records)
    wide = X.tocsc()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert np.array_equal(BinMapper().fit_transform(wide).records, expected.records)
    mixed = X.tocsc()
    mixed.indptr = mixed.indptr.astype(np.int64)
    assert np.array_equal(BinMapper().fit_transform(mixed).records, expected.records)


def test_stored_zeros_duplicates_and_disorder():
    dense = np.array([[0.0, 3.0], [2.0, 0.0], [0.0, 0.0], [-1.0, 5.0]])
    expected = BinMapper().fit_transform(dense).columns
    data, rows, columns = [0.0, 1.5, 0.5, -1.0, 5.0, 3.0], [2, 1, 1, 3, 3, 0], [0, 0, 0, 0, 1, 1]
    messy = sp.coo_matrix((data, (rows, columns)), shape=(4, 2))
    unsorted = sp.csc_matrix(([5.0, 3.0, -1.0, 2.0], [3, 0, 3, 1], [0, 0, 4]), shape=(4, 2))
    assert np.array_equal(BinMapper().fit_transform(messy).columns, expected)
    before = unsorted.indices.copy()
    fixed = BinMapper().fit_transform(unsorted).columns
    assert np.array_equal(fixed, BinMapper().fit_transform(unsorted.toarray()).columns)
    assert np.array_equal(unsorted.indices, before), "the caller's matrix was changed"


def test_other_dtypes():
    X = sp.random(300, 5, density=0.3, random_state=4, format="csr") * 100
    for dtype in (np.int32, np.uint8, bool):
        table = X.astype(dtype)
        dense = BinMapper().fit_transform(table.toarray())
        assert np.array_equal(BinMapper().fit_transform(table).columns, dense.columns)
    with pytest.raises(TypeError, match="real numbers"):
        BinMapper().fit(X.astype(complex))


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix])
def test_refusals(make):
    X = np.zeros((5, 3))
    X[2, 1] = -np.inf
    mapper = BinMapper().fit(np.zeros((5, 3)))
    for call in (BinMapper().fit, BinMapper().partial_fit, mapper.transform):
        with pytest.raises(ValueError, match="inf in column 1"):
            call(make(X))
    with pytest.raises(ValueError, match="3 columns as in fit, got 2"):
        mapper.transform(make((4, 2)))
    assert mapper.transform(make((0, 3))).shape == (0, 3)
    broken = make(np.eye(4))
    broken.indices = broken.indices.copy()
    broken.indices[1] = 1000
    with pytest.raises(ValueError):
        BinMapper().fit(broken)


def test_nothing_stored():
    mapper = BinMapper(categorical_features=[1])
    binned = mapper.fit_transform(sp.csr_matrix((10, 3)))
    assert mapper.n_bins_.tolist() == [1, 1, 1]
    assert not binned.columns.any()
    assert not binned.has_missing.any()
