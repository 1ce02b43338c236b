"""BinMapper by batches, merged, on categories, and what it refuses."""

import copy
import pickle

import numpy as np
import pytest
import sketch_oracle as so

from hybridtrees.core.bins.mapper import BinMapper, NotFittedError


def table(n, seed=0):
    """Continuous, few-valued, zero-inflated, partly missing and wholly missing columns."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(n)
    return np.column_stack(
        [
            normal,
            rng.integers(0, 40, n) / 8,
            np.where(rng.random(n) < 0.8, 0.0, normal),
            np.where(rng.random(n) < 0.4, np.nan, normal**3),
            np.full(n, np.nan),
        ]
    )


def batches(X, weights=None, size=700, **options):
    mapper = BinMapper(**options)
    for start in range(0, len(X), size):
        part = None if weights is None else weights[start : start + size]
        mapper.partial_fit(X[start : start + size], part)
    return mapper


def assert_same_bins(a, b):
    assert np.array_equal(a.n_bins_, b.n_bins_)
    for mine, other in zip(a.bin_edges_, b.bin_edges_, strict=True):
        assert (mine is None) == (other is None)
        assert mine is None or np.array_equal(mine, other)
    for mine, other in zip(a.category_to_bin_, b.category_to_bin_, strict=True):
        assert mine is None or np.array_equal(mine, other)


def assert_near_quantiles(mapper, X, weights=None):
    """Edges of a plain column are off by no more than the sketches' error."""
    distinct, _, upto = so.sorted_ranks(X[:, 0], weights)
    n = mapper.n_bins_[0]
    assert n == mapper.max_bins
    ranks = np.append(0.0, upto)[np.searchsorted(distinct, mapper.bin_edges_[0])] / upto[-1]
    assert abs(ranks - np.arange(1, n) / n).max() <= 2 / (8 * n) + 1 / len(X)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 450, 5000])
def test_few_values_are_exact_in_batches(size, dtype):
    X = table(900 if size == 1 else 5000)[:, [1, 4]].astype(dtype)
    assert_same_bins(batches(X, size=size), BinMapper().fit(X))


@pytest.mark.parametrize("max_bins", [10, 255])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_are_near_the_fit(max_bins, weighted):
    X = table(40_000)
    weights = np.random.default_rng(1).exponential(size=len(X)) if weighted else None
    mapper = batches(X, weights, size=3777, max_bins=max_bins)
    assert_near_quantiles(mapper, X, weights)
    fitted = BinMapper(max_bins=max_bins).fit(X, weights)
    assert abs(mapper.n_bins_ - fitted.n_bins_).max() <= max_bins // 10
    # The heavy zeros are alone in their bin either way.
    codes = mapper.transform(X).columns[2]
    assert np.array_equal(codes == codes[X[:, 2] == 0][0], X[:, 2] == 0)


def test_values_become_too_many_later():
    X = np.concatenate([np.zeros(500), np.arange(3000.0)])[:, None]
    mapper = BinMapper(max_bins=30)
    mapper.partial_fit(X[:500])
    assert mapper.n_bins_.tolist() == [1]
    mapper.partial_fit(X[500:1000])
    assert mapper.n_bins_.tolist() == [30]
    mapper.partial_fit(X[1000:])
    counts = np.bincount(mapper.transform(X).columns[0])
    assert counts[0] == 501
    assert counts[1:].max() - counts[1:].min() <= 3500 / 60


def test_edges_follow_each_batch():
    mapper = BinMapper().partial_fit([[1.0], [2.0]])
    assert mapper.bin_edges_[0].tolist() == [1.5]
    assert mapper.transform([[1.9]]).columns.tolist() == [[1]]
    mapper.partial_fit([[1.8]])
    assert mapper.bin_edges_[0].tolist() == pytest.approx([1.4, 1.9])
    assert mapper.transform([[1.9 - 1e-6]]).columns.tolist() == [[1]]


def test_batches_do_not_depend_on_threads():
    X = np.random.default_rng(2).standard_normal((200_000, 5)).astype(np.float32)
    one, three = (batches(X, size=90_000, n_jobs=n) for n in (1, 3))
    assert_same_bins(one, three)


# ---------------------------------------------------------------- merging


def test_merge():
    X = table(30_000, seed=3)
    weights = np.random.default_rng(3).exponential(size=len(X))
    parts = [batches(X[k::3], weights[k::3], max_bins=50) for k in range(3)]
    before = copy.deepcopy(parts[1])
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert_same_bins(parts[1], before)
    assert_near_quantiles(merged, X, weights)
    few = BinMapper(max_bins=50).fit(X[:, [1]])
    assert np.array_equal(merged.bin_edges_[1], few.bin_edges_[0])


def test_merge_of_categories_and_distinct_values():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.integers(0, 400, 5000), rng.integers(0, 9, 5000)]).astype(float)
    options = {"categorical_features": [True, False]}
    whole = BinMapper(**options).fit(X)
    merged = batches(X[:99], **options).merge(batches(X[99:], **options))
    assert_same_bins(merged, whole)
    assert_same_bins(pickle.loads(pickle.dumps(merged)), whole)
    again = copy.deepcopy(merged).partial_fit(X)
    assert_same_bins(merged, whole)
    assert np.array_equal(again.n_bins_, whole.n_bins_)


def test_merge_refuses_strangers():
    mapper = BinMapper().partial_fit([[1.0]])
    with pytest.raises(TypeError, match="other must be a BinMapper"):
        mapper.merge(3)
    for other in (BinMapper(), BinMapper().fit([[1.0]])):
        with pytest.raises(ValueError, match="partial_fit"):
            mapper.merge(other)
    for other in (
        BinMapper(max_bins=9).partial_fit([[1.0]]),
        BinMapper().partial_fit([[1.0, 2.0]]),
        BinMapper(categorical_features=[0]).partial_fit([[1.0]]),
    ):
        with pytest.raises(ValueError, match="same max_bins"):
            mapper.merge(other)


# ---------------------------------------------------------------- categories


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_categories_are_bins(dtype):
    X = np.array([[0], [2], [2], [np.nan], [-1]], dtype=dtype)
    mapper = BinMapper(categorical_features=[0])
    binned = mapper.fit_transform(X)
    assert binned.columns.tolist() == [[0, 2, 2, 3, 3]]
    assert (mapper.n_bins_.tolist(), mapper.bin_edges_) == ([3], [None])
    assert binned.is_categorical.tolist() == [1]
    assert binned.has_missing.tolist() == [1]
    # Category 1 was not met, nor anything from 3 on, and 0.5 is no category.
    probe = np.array([[1], [3], [1e9], [0.5], [-0.0]], dtype=dtype)
    assert mapper.transform(probe).columns.tolist() == [[3, 3, 3, 3, 0]]


def test_rare_categories_share_the_last_bin():
    rng = np.random.default_rng(5)
    codes = np.minimum(rng.geometric(0.01, 50_000), 700).astype(float)
    weights = rng.integers(0, 3, 50_000).astype(float)
    mapper = BinMapper(categorical_features=[0]).fit(codes[:, None], weights)
    counts = np.bincount(codes.astype(int), weights=weights)
    bins = mapper.category_to_bin_[0]
    assert mapper.n_bins_.tolist() == [255]
    own = np.flatnonzero((bins < 254) & (counts > 0))
    assert len(own) == 254
    shared = np.flatnonzero(bins == 254)
    assert counts[shared].max() <= counts[own].min()
    assert np.array_equal(bins[own], np.arange(254))
    assert (bins[counts == 0] == 255).all()
    expected = so.encode(codes[:2000, None], [None], [255], [bins])
    assert np.array_equal(mapper.transform(codes[:2000, None]).columns, expected)


@pytest.mark.parametrize(
    "chosen", [[1], [-1], np.array([1]), (1,), [False, True], np.array([False, True])]
)
def test_ways_to_name_categorical_features(chosen):
    mapper = BinMapper(categorical_features=chosen).fit([[0.5, 0], [1.5, 1]])
    assert mapper.is_categorical_.tolist() == [0, 1]
    assert BinMapper(categorical_features=[]).fit([[1.0]]).is_categorical_.tolist() == [0]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_bins": 1}, ValueError, "max_bins must be an integer, 2 to 255, got 1"),
        ({"max_bins": 256}, ValueError, "max_bins must be an integer, 2 to 255, got 256"),
        ({"max_bins": 10.0}, TypeError, "max_bins must be an integer"),
        ({"max_bins": True}, TypeError, "max_bins must be an integer"),
        ({"subsample": 0}, ValueError, "subsample must be an integer of at least 1, got 0"),
        ({"subsample": "all"}, TypeError, "subsample must be an integer"),
        ({"random_state": "x"}, TypeError, "random_state must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"categorical_features": [2]}, ValueError, "within the 2 columns"),
        ({"categorical_features": [-3]}, ValueError, "within the 2 columns"),
        ({"categorical_features": [True]}, ValueError, "mask of length 2"),
        ({"categorical_features": ["a"]}, TypeError, "column numbers or a boolean mask"),
        ({"categorical_features": [0.0]}, TypeError, "column numbers or a boolean mask"),
    ],
)
def test_bad_parameters(options, error, text):
    with pytest.raises(error, match=text):
        BinMapper(**options).fit([[1.0, 2.0]])


@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform", "transform"])
@pytest.mark.parametrize(
    ("X", "error", "text"),
    [
        ([1.0, 2.0], ValueError, "two-dimensional"),
        (3.0, ValueError, "two-dimensional"),
        (np.zeros((2, 2, 2)), ValueError, "two-dimensional"),
        (np.zeros((3, 0)), ValueError, "at least one column"),
        ([["a", "b"]], TypeError, "real numbers"),
        ([[1j, 2]], TypeError, "real numbers"),
        (np.array([[None, 1]]), TypeError, "real numbers"),
        ([[1.0, np.inf]], ValueError, "inf in column 1"),
        ([[-np.inf, 1.0]], ValueError, "inf in column 0"),
        (np.array([[1.0, np.inf]], dtype=np.float32), ValueError, "inf in column 1"),
    ],
)
def test_bad_tables(method, X, error, text):
    mapper = BinMapper()
    if method == "transform":
        mapper.fit([[1.0, 2.0]])
    with pytest.raises(error, match=text):
        getattr(mapper, method)(X)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("weights", "error", "text"),
    [
        ([1.0], ValueError, r"sample_weight must have shape \(2,\)"),
        ([1.0, -1.0], ValueError, "sample_weight must be finite and not negative"),
        ([1.0, np.nan], ValueError, "sample_weight must be finite and not negative"),
        ([0.0, 0.0], ValueError, "sample_weight must have a positive finite sum"),
        (["a", "b"], TypeError, "sample_weight must be real numbers"),
    ],
)
def test_bad_weights(method, weights, error, text):
    with pytest.raises(error, match=text):
        getattr(BinMapper(), method)([[1.0], [2.0]], weights)


def test_other_refusals():
    mapper = BinMapper()
    assert not hasattr(mapper, "bin_edges_")
    with pytest.raises(NotFittedError, match="not fitted"):
        mapper.transform([[1.0]])
    mapper.fit([[1.0, 2.0]])
    with pytest.raises(ValueError, match="2 columns as in fit, got 1"):
        mapper.transform([[1.0]])
    with pytest.raises(ValueError, match="at least one row"):
        mapper.fit(np.empty((0, 2)))
    with pytest.raises(ValueError, match="cannot continue after fit"):
        mapper.partial_fit([[1.0, 2.0]])
    assert mapper.transform(np.empty((0, 2))).shape == (0, 2)
    for bad in (0.5, 2.0**24):
        with pytest.raises(ValueError, match=r"integer codes below 2\*\*24.*column 0"):
            BinMapper(categorical_features=[0]).fit([[bad]])


def test_bad_batch_leaves_no_trace():
    mapper = BinMapper(categorical_features=[1]).partial_fit([[1.0, 0], [2.0, 1]])
    before = copy.deepcopy(mapper)
    for bad in ([[np.inf, 0]], [[3.0, 0.5]], [[3.0, 0, 1]], [["a", "b"]]):
        with pytest.raises((ValueError, TypeError)):
            mapper.partial_fit(bad)
    assert_same_bins(mapper, before)
    assert mapper._sketches[0].total_weight == 2
    # A first batch that fails leaves a mapper that is still new.
    fresh = BinMapper()
    with pytest.raises(ValueError, match="inf"):
        fresh.partial_fit([[np.inf]])
    assert fresh.partial_fit([[1.0, 2.0]]).n_features_in_ == 2


def test_copies():
    X = table(2000, seed=6)
    mapper = BinMapper(max_bins=30).fit(X)
    for twin in (pickle.loads(pickle.dumps(mapper)), copy.deepcopy(mapper)):
        assert_same_bins(twin, mapper)
        assert np.array_equal(twin.transform(X).records, mapper.transform(X).records)
    assert repr(mapper) == "BinMapper(max_bins=30, 5 columns)"
    assert repr(BinMapper()) == "BinMapper(max_bins=255)"
