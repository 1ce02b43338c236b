"""Choosing the family: by folds, never by test rows."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees._compare import choice
from hybridtrees._compare.choice import count_folds, is_worse
from hybridtrees._compare.data import make_data
from hybridtrees._compare.families import Family, choose_families
from hybridtrees._compare.run import compare_data
from hybridtrees._compare.scores import SCORES
from hybridtrees._compare.search import Limits
from hybridtrees.selection.splits import Split, split_rows


class Level:
    """Predicts a number, and remembers the rows that it was given; column 0 holds them."""

    fits: list[tuple[float, frozenset]] = []
    asked: list[frozenset] = []

    def __init__(self, level=0.0):
        self.level = level

    def fit(self, X, y):
        Level.fits.append((self.level, frozenset(X[:, 0].tolist())))
        return self

    def predict(self, X):
        Level.asked.append(frozenset(X[:, 0].tolist()))
        return np.full(len(X), self.level)


def level(value, kind=Level):
    return Family(f"level{value}", f"level {value}", kind, kind, ({"level": [value]},))


@pytest.fixture
def spied():
    """A table on whose test rows level 1 is best, and level 0 on all others."""
    Level.fits, Level.asked = [], []
    rng = np.random.default_rng(0)
    plan = split_rows(200, random_state=3)
    y = 0.1 * rng.normal(size=200)
    y[plan.test] += 1
    X = np.column_stack([np.arange(200.0), rng.normal(size=200)])
    return make_data(X, y, task="regression"), plan


def test_test_rows_do_not_choose(spied):
    data, plan = spied
    comparison = compare_data(data, [level(1.0), level(0.0)], None, Limits(seed=3))
    np.testing.assert_array_equal(comparison.plan.test, plan.test)
    assert [r.family.key for r in comparison.results] == ["level0.0", "level1.0"]
    first, second = comparison.table
    assert second["test"] < first["test"] and first["choice"] < second["choice"]
    assert comparison.winner is comparison.results[0] and comparison.best_.level == 0.0
    assert comparison.chosen_by == "folds" and not second["tied"]


def test_folds_are_shared_and_hold_no_test_row(spied):
    data, plan = spied
    families = [level(0.0), level(0.001)]
    comparison = compare_data(data, families, None, Limits(seed=3))
    assert (comparison.n_folds, comparison.n_repeats) == (5, 3)
    by_level = [[rows for own, rows in Level.fits if own == value] for value in (0.0, 0.001)]
    # The search, fifteen folds, and the final fit.
    assert [len(rows) for rows in by_level] == [17, 17]
    assert by_level[0] == by_level[1]
    test, rest = frozenset(plan.test), frozenset(plan.rest)
    folds = by_level[0][1:-1]
    for repeat in (folds[:5], folds[5:10], folds[10:]):
        held_out = [rest - rows for rows in repeat]
        assert sum(map(len, held_out)) == len(rest) == len(frozenset().union(*held_out))
    assert len(set(folds)) == 15
    # Test rows are asked for behind everything else.
    last_fold = max(k for k, rows in enumerate(Level.asked) if rows < rest and len(rows) == 34)
    assert not any(rows & test for rows in Level.asked[: last_fold + 1])
    assert any(rows == test for rows in Level.asked[last_fold + 1 :])


def test_scores_and_intervals_are_those_of_the_folds(spied):
    data, _ = spied
    comparison = compare_data(data, [level(0.0), level(0.01)], None, Limits(seed=3))
    for result in comparison.results:
        assert len(result.fold_scores) == 15
        assert result.choice == pytest.approx(np.mean(result.fold_scores), abs=1e-15)
        low, high = result.choice_interval
        assert low < result.choice < high < 0.13
        test_low, test_high = result.test_intervals["rmse"]
        assert test_low < result.test["rmse"] < test_high
        assert set(result.test_intervals) == set(result.test)
    assert comparison.results[1].tied and not comparison.results[0].tied
    assert "~ the 5 folds do not show it to be worse" in str(comparison)


def test_what_is_worse_takes_no_part_in_further_repeats(spied):
    data, _ = spied
    families = [level(0.0), level(0.001), level(5.0)]
    comparison = compare_data(data, families, None, Limits(seed=3))
    assert [len(r.fold_scores) for r in comparison.results] == [15, 15, 5]
    assert [r.tied for r in comparison.results] == [False, True, False]
    alone = compare_data(data, families[1:], None, Limits(seed=3))
    assert alone.n_repeats == 1  # nothing is left to be told apart


class FailsLate(Level):
    """Cannot be fitted to fewer rows than the search has."""

    def fit(self, X, y):
        if len(X) == 136:
            raise RuntimeError("too few rows")
        return super().fit(X, y)


def test_a_family_that_fails_in_a_fold_is_last(spied):
    data, _ = spied
    families = [level(0.0, FailsLate), level(1.0), level(2.0)]
    comparison = compare_data(data, families, None, Limits(seed=3))
    assert [r.family.key for r in comparison.results] == ["level1.0", "level2.0", "level0.0"]
    assert "level 0.0 failed: RuntimeError: too few rows" in str(comparison)
    assert comparison.results[-1].model is None


def test_one_family_needs_no_folds(spied):
    data, _ = spied
    comparison = compare_data(data, [level(0.0)], None, Limits(seed=3))
    assert comparison.chosen_by == "validation" and comparison.n_folds == 0
    (result,) = comparison.results
    assert result.choice == result.trial.validation and len(Level.fits) == 2


def test_a_budget_may_leave_no_time_for_folds(spied):
    data, _ = spied
    comparison = compare_data(data, [level(0.0), level(1.0)], None, Limits(budget=1e-9, seed=3))
    assert comparison.chosen_by == "validation" and "no time for folds" in str(comparison)
    assert comparison.best_.level == 0.0
    # Without folds, test rows tell whether models can be told apart; they do not rank them.
    close = compare_data(data, [level(0.0), level(1e-4)], None, Limits(budget=1e-9, seed=3))
    assert close.results[1].tied and "~ the test rows do not show" in str(close)
    assert not comparison.results[0].tied


@pytest.mark.parametrize(
    ("n_rows", "n_features", "folds", "by_time", "expected"),
    [
        (100, 2, None, False, (5, 3)),
        (300, 2, None, False, (5, 2)),
        (3000, 2, None, False, (5, 1)),
        (100, 2, 7, False, (7, 3)),
        (3000, 2, None, True, (3, 1)),
        (24_000, 2, None, False, (0, 0)),
        (6000, 400, None, False, (0, 0)),
    ],
)
def test_numbers_of_folds(n_rows, n_features, folds, by_time, expected):
    data = make_data(np.zeros((n_rows, n_features)), np.arange(n_rows) + 0.5)
    plan = split_rows(n_rows, time=np.arange(n_rows) if by_time else None)
    assert count_folds(data, plan, folds) == expected


def test_a_class_of_a_single_row_allows_no_folds():
    y = np.repeat(["usual", "rare"], [48, 2])
    data = make_data(np.arange(50.0)[:, None], y)
    plan = split_rows(50, strata=data.target, random_state=0)
    rare = np.count_nonzero(y[plan.rest] == "rare")
    assert count_folds(data, plan, None) == ((5, 3) if rare > 1 else (0, 0))
    plan = Split(plan.folds, np.arange(49), np.array([49]), False)
    assert count_folds(data, plan, None) == (0, 0)


def test_large_tables_have_no_folds(monkeypatch):
    monkeypatch.setattr(choice, "_MOST_ROWS", 100)
    X = np.random.default_rng(0).normal(size=(200, 2))
    data = make_data(X, X[:, 0])
    comparison = compare_data(data, choose_families(["cart", "linear"]), None, Limits())
    assert comparison.chosen_by == "validation"
    assert [r.family.key for r in comparison.results] == ["linear", "cart"]
    assert "no time for folds" not in str(comparison)


def test_folds_in_time_look_forward(spied):
    Level.fits = []
    time = np.random.default_rng(1).permutation(200)
    data = make_data(np.column_stack([time, time]), np.arange(200.0), time=0, task="regression")
    compare_data(data, [level(0.0), level(1.0)], None, Limits())
    folds = [sorted(rows) for own, rows in Level.fits if own == 0.0][1:-1]
    assert [len(rows) for rows in folds] == [80, 110, 140]
    for rows in folds:
        assert rows == list(range(len(rows)))


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_choices_do_not_depend_on_threads(task):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = X[:, 0] + rng.normal(size=150)
    data = make_data(X, y if task == "regression" else (y > 0).astype(int))
    families = choose_families(["cart", "forest", "linear"])
    one, two = (compare_data(data, families, None, Limits(n_jobs=n)) for n in (1, 2))
    for a, b in zip(one.results, two.results, strict=True):
        assert a.family is b.family and a.fold_scores == b.fold_scores
        assert (a.choice_interval, a.tied) == (b.choice_interval, b.tied)
        assert a.test_intervals == b.test_intervals


def test_worse_means_worse_on_nearly_all_resamples(rng):
    values = rng.normal(size=500)
    better = values - 0.1
    assert is_worse(SCORES["rmse"], values, better) and not is_worse(SCORES["rmse"], better, values)
    assert is_worse(SCORES["auc"], better, values) and not is_worse(SCORES["auc"], values, better)
    assert not is_worse(SCORES["rmse"], values, rng.permutation(values) - 0.01)
