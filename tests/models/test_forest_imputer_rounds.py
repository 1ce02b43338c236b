"""The first fill of the imputer, its rounds, and which of them are kept."""

from __future__ import annotations

import forest_oracle as oracle
import numpy as np
import pytest

from hybridtrees.models.forest.estimators import RandomForestClassifier
from hybridtrees.models.forest.imputer import ProximityImputer
from hybridtrees.models.forest.imputer_fill import HeldOut


def separated(seed, n=300, p=6, distance=3.0):
    """Classes apart from each other, columns that are independent within a class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = distance * rng.normal(size=(3, p))[y] + rng.standard_t(3, size=(n, p))
    gaps = rng.random(X.shape) < 0.2
    return X, np.where(gaps, np.nan, X), gaps, y


def by_class(holed, y):
    filled = holed.copy()
    for label in np.unique(y):
        own = y == label
        filled[own] = np.where(np.isnan(holed[own]), np.nanmedian(holed[own], axis=0), holed[own])
    return filled


def error(filled, X, gaps):
    return np.sqrt(np.mean(((filled - X) / X.std(axis=0))[gaps] ** 2))


def test_the_first_fill_is_that_of_the_class():
    _, holed, _, y = separated(0)
    labels = np.array(["one", "two", "three"])[y]
    imputer = ProximityImputer(n_estimators=3, n_rounds=0, random_state=0)
    np.testing.assert_array_equal(imputer.fit_transform(holed, labels), by_class(holed, y))
    np.testing.assert_array_equal(imputer.statistics_, np.nanmedian(holed, axis=0))
    in_order = [np.nanmedian(holed[y == k], axis=0) for k in (0, 2, 1)]  # one, three, two
    np.testing.assert_array_equal(imputer.class_statistics_, in_order)
    # A regression, or no target, takes the whole table.
    rough = np.where(np.isnan(holed), np.nanmedian(holed, axis=0), holed)
    for target in (None, y + 0.5):
        np.testing.assert_array_equal(imputer.fit_transform(holed, target), rough)
        assert imputer.class_statistics_ is None


def test_the_first_category_is_the_most_frequent_of_the_class():
    pandas = pytest.importorskip("pandas")
    words = ["a", "b", "b", "c", None] + ["c", "c", "a", "c", None] + [None, None]
    frame = pandas.DataFrame({"word": words, "x": np.arange(12.0)})
    y = np.repeat(["left", "right", "unknown"], [5, 5, 2])
    imputer = ProximityImputer(n_estimators=2, n_rounds=0, random_state=0)
    assert imputer.fit_transform(frame, y)["word"].tolist()[4:] == ["b", *words[5:9], *"ccc"]
    assert imputer.fit_transform(frame)["word"].tolist()[4::5] == ["c", "c"]
    weight = np.where(np.array(words, dtype=object) == "a", 2.5, 1.0)
    done = imputer.fit_transform(frame, y, weight)["word"].tolist()
    assert (done[4], done[9]) == ("a", "c")
    weight[0] = 1.5
    done = imputer.fit_transform(frame, y, weight)["word"].tolist()
    assert (done[4], done[9]) == ("b", "c")


def test_medians_are_weighted():
    X = np.array([[1.0], [2.0], [10.0], [20.0], [np.nan]])
    for weight, median in (
        ([1, 1, 1, 1, 1], 6.0),
        ([1, 1, 0.5, 2, 7], 10.0),
        ([3.5, 1, 1, 1, 0.1], 1.0),
        ([0, 1, 1, 1, 1], 10.0),
    ):
        imputer = ProximityImputer(n_estimators=2, n_rounds=0, random_state=0)
        assert imputer.fit_transform(X, None, weight)[4, 0] == median
        assert imputer.statistics_[0] == median


@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_not_worse_than_the_medians_of_the_classes(oob, seed):
    X, holed, gaps, y = separated(seed)
    filled = ProximityImputer(n_estimators=60, oob=oob, random_state=0).fit_transform(holed, y)
    assert error(filled, X, gaps) < 1.01 * error(by_class(holed, y), X, gaps)


@pytest.mark.parametrize("oob", [False, True])
def test_one_round_by_definition(oob):
    """Class-wise start, pairs out of the bag, weights other than 0 and 1."""
    _, holed, gaps, y = separated(2, n=70, p=3)
    weight = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    weight[::9] = 0.0
    imputer = ProximityImputer(
        n_estimators=12, n_rounds=1, oob=oob, validation_fraction=None, random_state=3
    )
    filled = imputer.fit_transform(holed, y, weight)
    start = ProximityImputer(n_estimators=2, n_rounds=0).fit_transform(holed, y, weight)
    seeds = np.random.SeedSequence(3).spawn(1)[0]
    forest = RandomForestClassifier(12, min_samples_leaf=5, random_state=seeds)
    ended = oracle.leaves(forest.fit(start, y, weight), start)
    counts = oracle.counts(forest) if oob else None
    near = oracle.proximity(ended, ended, counts, counts)
    expected = start.copy()
    for i, j in np.argwhere(gaps):
        each = near[i] * ~gaps[:, j] * weight
        if each.sum() > 0:
            expected[i, j] = np.average(start[:, j], weights=each)
    np.testing.assert_allclose(filled, expected, rtol=1e-10)


def test_rounds_that_do_not_help_are_not_kept():
    """Columns of noise have nothing to learn from each other."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 4))
    holed = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    y = rng.integers(0, 2, 200)
    imputer = ProximityImputer(n_estimators=20, random_state=0)
    filled = imputer.fit_transform(holed, y)
    assert imputer.n_iter_ == 0 and len(imputer.errors_) == 2
    assert imputer.errors_[1] >= imputer.errors_[0] > 0
    np.testing.assert_array_equal(filled, by_class(holed, y))
    again = ProximityImputer(n_estimators=20, random_state=0).fit(holed, y)
    assert again.errors_ == imputer.errors_
    plain = imputer.set_params(validation_fraction=None, n_rounds=3, tol=0.0).fit(holed, y)
    assert plain.n_iter_ == 3 and plain.errors_ == []


def test_rounds_that_help_are_kept():
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=(250, 1))
    X = hidden + 0.2 * rng.normal(size=(250, 4))
    holed = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    imputer = ProximityImputer(n_estimators=30, n_rounds=4, tol=0.0, random_state=0)
    imputer.fit(holed, hidden[:, 0])
    falls = np.diff(imputer.errors_) < 0
    assert imputer.n_iter_ == (len(falls) if falls.all() else falls.argmin()) >= 1
    assert imputer.errors_[1] < 0.5 * imputer.errors_[0]


def test_error_of_hidden_entries():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=80) * 5, rng.integers(0, 3, 80), np.full(80, np.nan)])
    X[0, 2] = 1.0  # the only one of its column
    X[rng.random(80) < 0.2, 0] = np.nan
    weight = rng.uniform(0.5, 4.0, 80)
    weight[::7] = 0.0
    held = HeldOut(X, np.array([False, True, False]), weight, 0.3, np.random.SeedSequence(0))
    hidden = np.isnan(held.table) & ~np.isnan(X)
    n_known = (~np.isnan(X[weight > 0])).sum()
    assert hidden.sum() in (int(0.3 * n_known), int(0.3 * n_known) - 1)
    assert not hidden[weight == 0].any() and not hidden[:, 2].any()
    known = ~np.isnan(X[:, 0])
    mean = np.average(X[known, 0], weights=weight[known])
    variance = np.average((X[known, 0] - mean) ** 2, weights=weight[known])
    filled = np.where(hidden, 1.0, X)
    each = np.where([False, True, False], filled != X, (filled - X) ** 2 / variance)[hidden]
    expected = np.average(each, weights=weight[np.nonzero(hidden)[0]])
    assert held.error(filled) == pytest.approx(expected, rel=1e-12)


def test_new_rows_take_the_class_with_the_most_votes():
    _, holed, _, y = separated(3, distance=6.0)
    imputer = ProximityImputer(n_estimators=40, n_rounds=0, random_state=0).fit(holed, y)
    centers = imputer.class_statistics_
    new = np.repeat(centers, 6, axis=0)
    new[np.arange(18), np.tile(np.arange(6), 3)] = np.nan
    filled = imputer.transform(new)
    np.testing.assert_array_equal(filled, np.repeat(centers, 6, axis=0))


@pytest.mark.parametrize(
    "params", [{"oob": 1}, {"validation_fraction": 0.0}, {"validation_fraction": 1.0}], ids=str
)
def test_bad_parameters(params):
    _, holed, _, y = separated(0, n=30)
    with pytest.raises((ValueError, TypeError), match=next(iter(params))):
        ProximityImputer(**params).fit(holed, y)
