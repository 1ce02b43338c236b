"""Which rows go where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.selection.splits import nested_parts, split_rows


def check_partition(plan, n):
    np.testing.assert_array_equal(np.sort(np.concatenate([plan.rest, plan.test])), np.arange(n))
    for fold in plan.folds:
        both = np.concatenate([fold.train, fold.validation])
        assert len(np.unique(both)) == len(both)
        assert not np.intersect1d(both, plan.test).size
    return plan


@given(n=st.integers(10, 400), n_classes=st.integers(1, 4), seed=st.integers(0, 9))
def test_parts_are_a_stratified_partition(n, n_classes, seed):
    strata = np.random.default_rng(seed).integers(0, n_classes, n)
    plan = check_partition(split_rows(n, strata=strata, random_state=seed), n)
    (fold,) = plan.folds
    np.testing.assert_array_equal(np.sort(np.concatenate([fold.train, fold.validation])), plan.rest)
    for stratum, count in zip(*np.unique(strata, return_counts=True), strict=True):
        for part, share in ((fold.train, 0.70), (fold.validation, 0.15), (plan.test, 0.15)):
            assert abs((strata[part] == stratum).sum() - share * count) <= 1
    again = split_rows(n, strata=strata, random_state=seed)
    np.testing.assert_array_equal(again.test, plan.test)


def test_another_seed_is_another_split():
    plans = [split_rows(100, random_state=seed) for seed in (0, 1)]
    assert not np.array_equal(plans[0].test, plans[1].test)
    assert plans[0].sizes == (70, 15, 15)


@pytest.mark.parametrize("n_folds", [None, 4])
def test_time_goes_forward(n_folds, rng):
    time = rng.permutation(200).astype(float)
    plan = check_partition(split_rows(200, time=time, n_folds=n_folds), 200)
    assert plan.by_time and len(plan.folds) == (n_folds or 1)
    for fold in plan.folds:
        assert time[fold.train].max() < time[fold.validation].min()
        assert time[fold.validation].max() < time[plan.test].min()
        assert (np.diff(time[fold.train]) > 0).all()
    if n_folds is None:
        assert plan.sizes == (140, 30, 30)


def test_dates_order_rows():
    dates = np.array(["2024-03-01", "2023-01-01"] * 10, dtype="datetime64[us]")
    plan = split_rows(20, time=dates)
    assert set(plan.folds[0].train[:10]) == set(range(1, 20, 2))


def test_folds_validate_every_row_once():
    strata = np.repeat([0, 1], [90, 10])
    plan = check_partition(split_rows(100, strata=strata, n_folds=4, random_state=1), 100)
    validated = np.concatenate([fold.validation for fold in plan.folds])
    np.testing.assert_array_equal(np.sort(validated), plan.rest)
    assert all((strata[fold.validation] == 1).any() for fold in plan.folds)


def test_too_few_rows():
    with pytest.raises(ValueError, match="needs at least 10 rows, got 9"):
        split_rows(9)
    with pytest.raises(ValueError, match="folds must be from 2 to 4 for 12 rows, got 5"):
        split_rows(12, n_folds=5)


def test_parts_of_rungs_are_nested():
    rows, strata = np.arange(100, 400), np.tile([0, 1, 1], 200)
    parts = nested_parts(rows, [30, 90, 300], False, strata, 0)
    assert [len(part) for part in parts] == [30, 90, 300]
    assert set(parts[0]) < set(parts[1]) < set(parts[2]) == set(rows)
    assert abs((strata[parts[0]] == 1).mean() - 2 / 3) < 0.05
    last = nested_parts(rows, [30, 300], True, None, 0)[0]
    np.testing.assert_array_equal(last, rows[-30:])
