"""FeatureReader on scipy.sparse matrices and arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hybridtrees.input.validation import FeatureReader

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.fixture
def dense(rng):
    X = rng.integers(-3, 4, size=(30, 6)).astype(np.float64)
    X[rng.random(X.shape) < 0.6] = 0.0
    return X


@pytest.mark.parametrize("kind", ["matrix", "array"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_format(kind, format, dense):
    X = getattr(sparse, f"{format}_{kind}")(dense)
    reader, values = FeatureReader.fit(X)
    assert values.format == ("csc" if format == "csc" else "csr")
    assert values.has_canonical_format
    np.testing.assert_array_equal(values.toarray(), dense)
    np.testing.assert_array_equal(reader.read(X).toarray(), dense)
    np.testing.assert_array_equal(reader.read(dense), dense)
    assert reader.n_features_in == 6


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bool", "float32"),
        ("int8", "float32"),
        ("float32", "float32"),
        ("int32", "float64"),
        ("int64", "float64"),
        ("float64", "float64"),
        ("longdouble", "float64"),
    ],
)
def test_dtypes(dtype, expected, dense):
    X = sparse.csr_array((dense != 0).astype(dtype))
    _, values = FeatureReader.fit(X)
    assert values.dtype == expected
    np.testing.assert_array_equal(values.toarray(), dense != 0)
    if dtype == expected:
        assert np.shares_memory(values.data, X.data)


def test_duplicates_and_order_are_mended_in_a_copy():
    data = np.array([100, 100, 7, 5], dtype=np.int8)  # the sum of the first two is no int8
    indices = np.array([2, 2, 1, 0])
    X = sparse.csr_array((data, indices, np.array([0, 3, 4])), shape=(2, 3))
    _, values = FeatureReader.fit(X)
    np.testing.assert_array_equal(values.toarray(), [[0, 7, 200], [5, 0, 0]])
    assert values.indices.tolist() == [1, 2, 0]
    assert X.indices.tolist() == [2, 2, 1, 0]
    assert X.data.tolist() == [100, 100, 7, 5]


def test_nan_and_64_bit_indices(dense):
    X = sparse.csr_array(dense)
    X.data[0] = np.nan
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    _, values = FeatureReader.fit(X)
    np.testing.assert_array_equal(values.toarray(), X.toarray())
    assert np.isnan(values.data[0])


def test_read_only_data(dense):
    X = sparse.csr_array(dense)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    np.testing.assert_array_equal(FeatureReader.fit(X)[1].toarray(), dense)


def test_hostile(dense):
    X = sparse.csr_array(dense)
    with pytest.raises(ValueError, match="Complex data not supported"):
        FeatureReader.fit(X.astype(complex))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        FeatureReader.fit(sparse.csr_array((0, 3)))
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        FeatureReader.fit(sparse.csc_array((3, 0)))
    infinite = X.copy()
    infinite.data[3] = np.inf
    row, column = np.argwhere(np.isinf(infinite.toarray()))[0]
    for matrix in (infinite, infinite.tocsc()):
        with pytest.raises(ValueError, match=f"column {column}, row {row}"):
            FeatureReader.fit(matrix)
    with pytest.raises(ValueError, match="missing=0 with a sparse X"):
        FeatureReader.fit(X, missing=0)
    reader, _ = FeatureReader.fit(X, estimator_name="Toy")
    with pytest.raises(ValueError, match="X has 2 features, but Toy is expecting 6"):
        reader.read(X[:, :2])
    vector = sparse.coo_array(np.array([1.0, 0.0]))
    if vector.ndim == 1:  # older versions of scipy make it a matrix of one row
        with pytest.raises(ValueError, match="Reshape your data"):
            FeatureReader.fit(vector)


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("damage", ["index", "negative", "indptr end", "indptr order"])
def test_damaged_structure_is_refused(format, damage, dense):
    """Compiled code trusts the indices, so that none may point outside."""
    X = sparse.csr_array(dense) if format == "csr" else sparse.csc_array(dense)
    X.indices, X.indptr = X.indices.copy(), X.indptr.copy()
    if damage == "index":
        X.indices[4] = 10**6
    elif damage == "negative":
        X.indices[4] = -1
    elif damage == "indptr end":
        X.indptr[-1] = len(X.data) + 5
    else:
        X.indptr[2] = X.indptr[-1] + 9
    with pytest.raises(ValueError, match="damaged"):
        FeatureReader.fit(X)


def test_missing_sentinel(dense):
    X = sparse.csr_matrix(dense)
    before = X.data.copy()
    _, values = FeatureReader.fit(X, missing=3)
    np.testing.assert_array_equal(values.toarray(), np.where(dense == 3, np.nan, dense))
    np.testing.assert_array_equal(X.data, before)


def test_declared_categories_match_the_dense_ones(dense):
    X = sparse.csr_array(dense)
    X.data[::5] = np.nan
    full = X.toarray()
    declared = [0, 3, 5]
    reader, values = FeatureReader.fit(X, categorical_features=declared)
    oracle, expected = FeatureReader.fit(full, categorical_features=declared)
    np.testing.assert_array_equal(values.toarray(), expected)
    for ours, theirs in zip(reader.categories, oracle.categories, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # Labels not seen in fit, zero among them, become stored NaN.
    narrow, _ = FeatureReader.fit(np.array([[1.0, 1.0], [2.0, 0.0]]), categorical_features=[0])
    read = narrow.read(sparse.csr_array(np.array([[0.0, 5.0], [2.0, 0.0], [9.0, 0.0]])))
    np.testing.assert_array_equal(read.toarray(), [[np.nan, 5], [1, 0], [np.nan, 0]])
