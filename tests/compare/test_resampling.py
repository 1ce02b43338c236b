"""Bootstrap: scores of resamples against those of rows that are really repeated, and coverage."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees._compare.resampling import interval, resampled_scores, resamples
from hybridtrees._compare.scores import Prediction, scores_of


def predictions(kind, rng, n=60):
    """Target and predictions with ties."""
    if kind == "numbers":
        y = rng.gamma(2.0, size=n)
        return y, Prediction((y + rng.normal(size=n)).round(1))
    n_classes = 2 if kind == "two" else 3
    proba = rng.dirichlet(np.ones(n_classes), n).round(1) + 0.01
    proba /= proba.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in proba])
    return y, Prediction(proba.argmax(axis=1), proba, proba[:, -1])


def repeated(predicted, rows):
    proba = None if predicted.proba is None else predicted.proba[rows]
    rank = None if predicted.rank is None else predicted.rank[rows]
    return Prediction(predicted.value[rows], proba, rank)


@pytest.mark.parametrize("kind", ["numbers", "two", "three"])
def test_a_resample_scores_as_the_rows_it_repeats(kind, rng):
    y, predicted = predictions(kind, rng)
    counts = np.concatenate([np.ones((1, len(y))), *resamples(len(y), 3)])[:40]
    for name, score in scores_of("regression" if kind == "numbers" else "classification").items():
        found = score.resampled(y, predicted, counts)
        for times, value in zip(counts, found, strict=True):
            rows = np.repeat(np.arange(len(y)), times.astype(int))
            expected = score(y[rows], repeated(predicted, rows))
            np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg=name)


def test_a_resample_without_a_class_has_no_area(rng):
    y, predicted = predictions("two", rng)
    only = (y == 1).astype(float)[None]
    assert np.isnan(scores_of("classification")["auc"].resampled(y, predicted, only)).all()
    y, predicted = predictions("three", rng)
    two = (y != 1).astype(float)[None]
    rows = np.flatnonzero(y != 1)
    expected = scores_of("classification")["auc"](y[rows], repeated(predicted, rows))
    found = scores_of("classification")["auc"].resampled(y, predicted, two)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_counts_are_draws_with_replacement():
    counts = np.concatenate(list(resamples(50, 0)))
    assert counts.shape == (1000, 50) and (counts.sum(axis=1) == 50).all()
    # The share of rows that a resample leaves out is (1 - 1/n)^n.
    assert (counts == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, abs=0.01)
    assert np.array_equal(counts, np.concatenate(list(resamples(50, 0))))
    assert not np.array_equal(counts, np.concatenate(list(resamples(50, 1))))


def test_many_rows_have_fewer_resamples_in_blocks():
    blocks = list(resamples(20_000, 0))
    assert sum(map(len, blocks)) == 250 and len(blocks) > 1
    assert all(block.size <= 2_000_000 for block in blocks)


def test_rows_in_time_are_drawn_in_runs():
    n = 1000
    counts = np.concatenate(list(resamples(n, 0, in_time=True)))[:200]
    assert (counts.sum(axis=1) == n).all()
    neighbours = np.mean([np.corrcoef(c, np.roll(c, 1))[0, 1] for c in counts])
    assert neighbours == pytest.approx(0.9, abs=0.03)  # runs of ten share nine neighbours
    alone = np.concatenate(list(resamples(n, 0)))[:200]
    assert abs(np.mean([np.corrcoef(c, np.roll(c, 1))[0, 1] for c in alone])) < 0.02


def test_intervals_cover_what_they_say():
    """Of the errors of 100 rows, whose true mean is known."""
    rng, score, inside = np.random.default_rng(0), scores_of("regression")["mae"], 0
    for seed in range(200):
        y = rng.normal(size=100)
        values = resampled_scores({"mae": score}, y, Prediction(np.zeros(100)), seed)["mae"]
        low, high = interval(values)
        inside += low < np.sqrt(2 / np.pi) < high
    assert 0.89 <= inside / 200 <= 0.98


def test_undefined_scores_do_not_count():
    assert interval(np.array([np.nan, 1.0, 1.0])) == (1.0, 1.0)
    assert np.isnan(interval(np.array([np.nan]))).all()
