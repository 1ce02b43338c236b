"""Bounds from sorted scores, beside a slow search through all candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees.uncertainty.ranks import Scores


def slow_upper(scores, weight, fold, budget, own, level, scale):
    """The least candidate beyond which there is no more weight than the budget has for others."""
    candidates = level[fold] + scale * scores
    for candidate in np.sort(candidates):
        if weight[candidates > candidate].sum() + own <= budget + 1e-9:
            return candidate
    return np.inf


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_upper_bounds_are_those_of_a_slow_search(n_models, weighted):
    rng = np.random.default_rng(n_models)
    for n in (3, 9, 10, 41):
        scores = rng.normal(size=n).round(1)  # with ties
        weight = rng.integers(0, 4, n) + 0.0 if weighted else np.ones(n)
        weight[:n_models] = 1.0
        fold = np.arange(n) % n_models
        known = Scores.of(scores, weight if weighted else None, fold if n_models > 1 else None)
        level, scale = rng.normal(size=(6, n_models)), rng.uniform(0.5, 2, 6)
        for coverage in (0.5, 0.8, 0.9):
            budget = known.budget(coverage)
            found = known.upper(budget, level, scale)
            used = weight > 0
            slow = [
                slow_upper(scores[used], weight[used], fold[used], budget, known.own, one, s)
                for one, s in zip(level, scale, strict=True)
            ]
            np.testing.assert_allclose(found, slow, rtol=1e-9, atol=1e-12)


@given(
    st.lists(st.integers(-1000, 1000), min_size=12, max_size=60, unique=True),
    st.sampled_from([0.5, 0.7, 0.8, 0.9]),
)
def test_coverage_is_exact_over_the_places_of_a_new_row(values, coverage):
    # Each of m + 1 exchangeable rows is the new one in turn.
    values = np.array(values, dtype=float)
    m = len(values) - 1
    covered = 0
    one, zero = np.ones(1), np.zeros((1, 1))
    for k, own in enumerate(values):
        others = np.delete(values, k)
        low, high = Scores.of(-others, None, None), Scores.of(others, None, None)
        left, right = low.sides(coverage)
        covered += -low.upper(left, zero, one)[0] <= own <= high.upper(right, zero, one)[0]
    assert coverage - 1e-9 <= covered / (m + 1) < coverage + 1 / (m + 1) + 1e-9


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    scores, weight = rng.normal(size=50), rng.integers(1, 4, 50)
    scaled = Scores.of(scores, 7.0 * weight, None)
    once = Scores.of(scores, weight + 0.0, None)
    level, scale = np.zeros((1, 1)), np.ones(1)
    for coverage in (0.6, 0.8, 0.93):
        a = once.upper(once.budget(coverage), level, scale)
        assert a == scaled.upper(scaled.budget(coverage), level, scale)
        target = coverage * (weight.sum() + weight.mean())
        order = np.argsort(scores)
        place = np.searchsorted(np.cumsum(weight[order]), target - 1e-9)
        assert a[0] == scores[order][place]


def test_too_few_rows_have_no_bound():
    known = Scores.of(np.arange(8.0), None, None)
    level, scale = np.zeros((2, 1)), np.ones(2)
    assert np.isinf(known.upper(known.budget(0.9), level, scale)).all()
    known = Scores.of(np.arange(9.0), None, None)
    assert (known.upper(known.budget(0.9), level, scale) == 8).all()


def test_plausible_choices_are_those_of_the_bound():
    rng = np.random.default_rng(3)
    known = Scores.of(rng.random(57), None, None)
    new = rng.random((20, 1, 4))
    bound = known.upper(known.budget(0.9), np.zeros((1, 1)), np.ones(1))[0]
    np.testing.assert_array_equal(known.plausible(new, 0.9), new[:, 0] <= bound)
