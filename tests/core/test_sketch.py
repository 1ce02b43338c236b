"""QuantileSketch: the rank error it promises, merging, pruning, and the cuts."""

import copy
import pickle

import numpy as np
import pytest
import sketch_oracle as so
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hybridtrees.core.bins._sketch import Summary, merge, summarize
from hybridtrees.core.bins.sketch import QuantileSketch

ROUNDING = 1e-11


def fed(values, weights=None, eps=0.01, batch=1000):
    sketch = QuantileSketch(eps)
    for start in range(0, len(values), batch):
        part = None if weights is None else weights[start : start + batch]
        sketch.update(values[start : start + batch], part)
    return sketch


def assert_guarantee(sketch, values, weights=None, eps=None):
    eps = sketch.eps if eps is None else eps
    assert sketch.error_bound <= eps + ROUNDING
    assert so.worst_quantile_error(sketch, values, weights) <= sketch.error_bound + ROUNDING
    miss, width = so.worst_bounds_error(sketch, values, weights)
    assert miss <= ROUNDING
    assert width <= 2 * sketch.error_bound + ROUNDING


ORDERS = ["sorted", "reversed", "zigzag", "organ pipe", "inside out", "shuffled", "blocks"]


@pytest.mark.parametrize("batch", [37, 1000, 30_000])
@pytest.mark.parametrize("name", ORDERS)
def test_guarantee_in_adversarial_orders(name, batch):
    values = so.orders(30_000, np.random.default_rng(0))[name]
    sketch = fed(values, eps=0.02, batch=batch)
    assert_guarantee(sketch, values)
    assert sketch.total_weight == len(values)
    assert sketch.size < 3000


@pytest.mark.parametrize("eps", [0.3, 0.05, 0.004, 1 / 1024])
def test_guarantee_for_each_eps(eps):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(60_000).astype(np.float32)
    weights = rng.exponential(size=60_000)
    assert_guarantee(fed(values, eps=eps, batch=7000), values)
    assert_guarantee(fed(values, weights, eps=eps, batch=7000), values, weights)


def test_long_stream_stays_small():
    # 400 chunks make a counter of 9 levels; without budgets that converge the error would grow
    # with each, and without thinning the size would be the number of values.
    rng = np.random.default_rng(2)
    sketch = QuantileSketch(0.05)
    parts = [rng.standard_normal(400) + k / 100 for k in range(400)]
    for part in parts:
        sketch.update(part)
    assert_guarantee(sketch, np.concatenate(parts))
    assert sketch.size < 1200


def test_levels_spend_less_than_eps_for_ever():
    sketch = QuantileSketch(0.1)
    shares = [sketch._gap_share(level) for level in range(200)]
    assert all(np.diff(shares) > 0)
    assert shares[0] > 0
    assert shares[-1] < 2 * sketch.eps


@pytest.mark.parametrize("batch", [100, 5000])
def test_heavy_ties_stay(batch):
    rng = np.random.default_rng(3)
    values = np.where(rng.random(40_000) < 0.7, 0.0, rng.standard_normal(40_000))
    values = np.where(rng.random(40_000) < 0.1, 5.0, values)
    sketch = fed(values, eps=0.02, batch=batch)
    assert_guarantee(sketch, values)
    entries = sketch.entries
    for heavy in (0.0, 5.0):
        entry = entries[entries["value"] == heavy]
        assert len(entry) == 1
        assert entry["weight"] == (values == heavy).sum()
    assert sketch.quantiles(0.5) == 0.0


def test_small_integers_are_exact():
    values = np.random.default_rng(4).integers(0, 20, 50_000)
    sketch = fed(values, eps=0.01, batch=999)
    assert sketch.error_bound == 0.0
    assert np.array_equal(sketch.entries["weight"], np.bincount(values))


def test_extreme_weights():
    rng = np.random.default_rng(5)
    for low, high in ((-300, 300), (-300, -290), (290, 300)):
        weights = 10.0 ** rng.uniform(low, high, 3000)
        values = rng.standard_normal(3000)
        for order in (slice(None), np.argsort(weights), np.argsort(-weights)):
            sketch = fed(values[order], weights[order], eps=0.05, batch=333)
            total = so.total_of(values, weights)
            slack = total * (5 * 10**10 + 1) / 10**12
            assert abs(float(so.Fraction(sketch.total_weight) / total) - 1) < 1e-12
            for q in np.linspace(0, 1, 21):
                below, upto = so.ranks_of(values, weights, float(sketch.quantiles(q)))
                rank = so.Fraction(q) * total
                assert below - slack <= rank <= upto + slack


def test_weight_is_repetition():
    rng = np.random.default_rng(6)
    values, counts = rng.standard_normal(5000), rng.integers(1, 5, 5000)
    once = QuantileSketch(0.01).update(values, counts.astype(float))
    often = QuantileSketch(0.01).update(np.repeat(values, counts))
    assert once.total_weight == often.total_weight
    assert_guarantee(once, values, counts)
    assert_guarantee(often, values, counts)


# ---------------------------------------------------------------- merging and pruning


@pytest.mark.parametrize("shape", ["left", "right", "balanced", "random"])
def test_merges_in_odd_trees(shape):
    rng = np.random.default_rng(7)
    sizes = [3000, 1, 700, 0, 20_000, 40, 5000, 5000, 1999, 2, 900]
    parts = [rng.exponential(size=n) ** 3 for n in sizes]
    weights = [rng.uniform(0, 10, n) for n in sizes]
    sketches = [fed(p, w, eps=0.02) for p, w in zip(parts, weights, strict=True)]
    while len(sketches) > 1:
        i = {"left": 0, "right": len(sketches) - 2, "balanced": 0}.get(shape)
        i = int(rng.integers(len(sketches) - 1)) if i is None else i
        joined = sketches[i].merge(sketches.pop(i + 1))
        if shape == "balanced":
            sketches.append(sketches.pop(i))
        assert joined.error_bound <= 0.02 + ROUNDING
    assert_guarantee(sketches[0], np.concatenate(parts), np.concatenate(weights))


def test_merge_leaves_the_other_alone():
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal(9000), rng.standard_normal(12_345)
    left, right = fed(a), fed(b)
    before = right.entries
    left.merge(right)
    assert np.array_equal(right.entries, before)
    left.update(a)
    assert np.array_equal(right.entries, before)
    assert_guarantee(right, b)
    assert_guarantee(left, np.concatenate([a, b, a]))


def test_merge_with_itself_and_with_nothing():
    values = np.random.default_rng(9).standard_normal(5000)
    sketch = fed(values).merge(QuantileSketch(0.5))
    sketch.merge(sketch)
    assert sketch.total_weight == 10_000
    assert_guarantee(sketch, np.repeat(values, 2))


def test_merge_of_a_worse_sketch_is_proven_as_such():
    rng = np.random.default_rng(10)
    a, b = rng.standard_normal(20_000), rng.standard_normal(20_000)
    sketch = fed(a, eps=0.001).merge(fed(b, eps=0.1))
    assert 0.001 < sketch.error_bound <= 0.051
    assert_guarantee(sketch, np.concatenate([a, b]), eps=0.051)


@pytest.mark.parametrize("size", [2, 3, 4, 10, 100, 5000])
def test_prune(size):
    rng = np.random.default_rng(11)
    values = rng.standard_normal(30_000)
    weights = rng.exponential(size=30_000) ** 4
    sketch = fed(values, weights, eps=0.005)
    before = sketch.error_bound
    sketch.prune(size)
    assert sketch.size <= size
    assert sketch.error_bound <= before + 1 / size + ROUNDING
    assert_guarantee(sketch, values, weights, eps=sketch.error_bound)
    assert sketch.quantiles([0.0, 1.0]).tolist() == [values.min(), values.max()]
    # What comes later is added with its own small error.
    sketch.update(values + 10, weights)
    both = np.concatenate([values, values + 10]), np.concatenate([weights, weights])
    assert_guarantee(sketch, *both, eps=(before + 1 / size + 0.005) / 2 + 1e-9)


def test_prune_that_need_not_drop_anything():
    sketch = QuantileSketch().update(np.arange(100.0))
    sketch.prune(100)
    assert sketch.error_bound == 0.0
    assert QuantileSketch().prune(5).size == 0


# ---------------------------------------------------------------- input and queries


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint32, np.int64, bool, ">f8"]
)
def test_dtypes_and_strides(dtype):
    rng = np.random.default_rng(12)
    base = rng.integers(0, 2 if dtype is bool else 100, 20_000).astype(dtype)
    base.flags.writeable = False
    for values in (base, base[::-1], base[::3], base.reshape(-1, 4)[:, 1], list(base[:50])):
        sketch = QuantileSketch(0.01).update(values)
        assert_guarantee(sketch, np.asarray(values, dtype=np.float64))


def test_negative_zero_is_zero():
    sketch = QuantileSketch().update([0.0, -0.0, 1.0, -1.0])
    assert sketch.entries["weight"].tolist() == [1, 2, 1]


def test_missing_values_are_counted():
    values = np.array([1.0, np.nan, 3.0, -np.nan, 2.0])
    sketch = QuantileSketch().update(values)
    assert (sketch.n_missing, sketch.total_weight) == (2, 3)
    # Once more through the path that sorts at once.
    big = np.where(np.arange(100_000) % 3 == 0, np.nan, np.arange(100_000.0))
    sketch.merge(QuantileSketch(0.01).update(big))
    assert sketch.n_missing == 2 + 33_334
    assert sketch.total_weight == 3 + 66_666
    only = QuantileSketch().update(np.full(100_000, np.nan))
    assert (only.n_missing, only.size) == (100_000, 0)


def test_zero_weights_do_not_count():
    sketch = QuantileSketch().update([1.0, 2.0, np.nan, 3.0], [0.0, 1.0, 0.0, 2.0])
    assert sketch.entries["value"].tolist() == [2.0, 3.0]
    assert sketch.n_missing == 0
    assert QuantileSketch().update([1.0], [0.0]).size == 0


@pytest.mark.parametrize(
    ("values", "weights", "error", "text"),
    [
        ([1.0, np.inf], None, ValueError, "values.*inf"),
        ([[1.0]], None, ValueError, "values must be one-dimensional"),
        (["a"], None, TypeError, "values must be real numbers"),
        ([1j], None, TypeError, "values must be real numbers"),
        ([1.0], [-1.0], ValueError, "weights must be finite and not negative"),
        ([1.0], [np.nan], ValueError, "weights must be finite and not negative"),
        ([1.0], [np.inf], ValueError, "weights must be finite and not negative"),
        ([1.0], [1.0, 2.0], ValueError, r"weights must have shape \(1,\)"),
        ([1.0], ["x"], TypeError, "weights must be real numbers"),
        ([1.0, 2.0], [1e308, 1e308], ValueError, "finite sum"),
    ],
)
def test_bad_batches_leave_no_trace(values, weights, error, text):
    sketch = QuantileSketch().update([5.0])
    with np.errstate(over="ignore"), pytest.raises(error, match=text):
        sketch.update(values, weights)
    assert sketch.entries["value"].tolist() == [5.0]


def test_bad_arguments():
    for eps in (0, 1, -0.1, np.nan, 2.0):
        with pytest.raises(ValueError, match="eps must lie between"):
            QuantileSketch(eps)
    with pytest.raises(TypeError, match="eps must be a number"):
        QuantileSketch("small")
    sketch = QuantileSketch().update([1.0])
    for call in (sketch.prune, sketch.cuts):
        with pytest.raises(ValueError, match="at least 2"):
            call(1)
        with pytest.raises(TypeError, match="integer"):
            call(3.5)
    with pytest.raises(TypeError, match="other must be a QuantileSketch"):
        sketch.merge(None)
    with pytest.raises(ValueError, match="q must lie"):
        sketch.quantiles(1.1)
    with pytest.raises(ValueError, match="q must lie"):
        sketch.quantiles(np.nan)
    with pytest.raises(ValueError, match="x must not be NaN"):
        sketch.rank_bounds(np.nan)
    for ask in (lambda s: s.quantiles(0.5), lambda s: s.rank_bounds(0.0)):
        with pytest.raises(ValueError, match="empty"):
            ask(QuantileSketch())
    with pytest.raises(TypeError):
        Summary()


def test_shapes_of_answers():
    sketch = QuantileSketch().update(np.arange(11.0))
    assert sketch.quantiles(0.5).shape == ()
    assert sketch.quantiles(np.full((2, 3), 0.5)).tolist() == [[5.0] * 3] * 2
    lower, upper = sketch.rank_bounds([[4.0, 4.5]])
    assert lower.tolist() == upper.tolist() == [[5.0, 5.0]]


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, QuantileSketch.copy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_are_equal_and_independent(twin):
    rng = np.random.default_rng(13)
    sketch = fed(rng.standard_normal(33_333), rng.random(33_333), eps=0.02)
    other = twin(sketch)
    before = sketch.entries
    assert np.array_equal(other.entries, before)
    assert (other.n_missing, other.size, other.eps) == (0, sketch.size, sketch.eps)
    other.update(rng.standard_normal(10_000))
    assert np.array_equal(sketch.entries, before)
    same = sketch.copy().update([1.0, np.nan])
    assert np.array_equal(twin(same).entries, same.entries)
    assert "QuantileSketch(eps=0.02" in repr(other)


# ---------------------------------------------------------------- properties


NUMBERS = st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1.0])


@given(
    st.lists(hnp.arrays(np.float32, st.integers(0, 40), elements=NUMBERS), min_size=1, max_size=8),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_merges_of_any_summaries(parts, data):
    # Thinned hard at every step: the summary must know how wrong it is.
    values = np.concatenate(parts).astype(np.float64)
    exponents = data.draw(hnp.arrays(np.int64, len(values), elements=st.integers(-8, 8)))
    weights = 4.0**exponents
    share = data.draw(st.sampled_from([-1.0, 0.0, 0.05, 0.3]))
    stops = np.cumsum([len(part) for part in parts])
    built = [
        summarize(v, w, share)[0]
        for v, w in zip(np.split(values, stops)[:-1], np.split(weights, stops)[:-1], strict=True)
    ]
    built = [summary for summary in built if summary is not None]
    if not built:
        return
    while len(built) > 1:
        i = data.draw(st.integers(0, len(built) - 2))
        built[i] = merge(built[i], built.pop(i + 1), share)
    entries = built[0].to_array()
    distinct, below, upto = so.sorted_ranks(values, weights)
    at = np.searchsorted(distinct, entries["value"])
    tolerance = 1e-12 * upto[-1]
    assert (entries["rmin"] <= below[at] + tolerance).all()
    assert (entries["rmax"] >= upto[at] - tolerance).all()
    assert (entries["weight"] <= (upto - below)[at] + tolerance).all()
    gaps = (entries["rmax"] - entries["weight"])[1:] - (entries["rmin"] + entries["weight"])[:-1]
    assert gaps.max(initial=0.0) == pytest.approx(built[0].gap)
    assert {entries["value"][0], entries["value"][-1]} == {distinct[0], distinct[-1]}
    assert np.array_equal(Summary.from_array(entries).to_array(), entries)
