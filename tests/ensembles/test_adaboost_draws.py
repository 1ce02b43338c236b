"""AdaBoost by resampling: rows are drawn by their weights, reproducibly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import hybridtrees as ht


def problem(n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.standard_normal(n) > 0).astype(int)
    return X, y


def test_counts_follow_the_weights_of_their_round(rounds):
    """Chi-square of the counts of all rows, in the first and in the second round."""
    X, y = problem()
    weight = np.random.default_rng(1).exponential(size=60)
    seen = rounds
    expected, found = np.zeros((2, 60)), np.zeros((2, 60))
    for seed in range(400):
        seen.clear()
        model = ht.AdaBoostClassifier(n_estimators=2, resample=True, random_state=seed, n_jobs=1)
        model.fit(X, y, sample_weight=weight)
        w, k = weight / weight.sum(), 0
        for counts, said in seen:
            assert counts.sum() == 60
            expected[k] += 60 * w
            found[k] += counts
            # What the weights of the next round are, by the errors on all rows.
            error = w[said != y].sum()
            if error >= 0.5:  # another draw by the same weights
                continue
            k += 1
            w = w * np.where(said != y, (1 - error) / error, 1.0)
            w /= w.sum()
    for k in range(2):
        scaled = expected[k] * found[k].sum() / expected[k].sum()
        assert stats.chisquare(found[k], scaled).pvalue > 1e-4
    # Uniform draws would not pass.
    uniform = np.full(60, found[1].sum() / 60)
    assert stats.chisquare(found[1], uniform).pvalue < 1e-10


def test_a_useless_sample_is_drawn_again(rounds):
    X, y = problem()
    seen = rounds
    n_drawn = []
    for seed in range(300):
        seen.clear()
        ht.AdaBoostClassifier(n_estimators=1, resample=True, random_state=seed).fit(X, y)
        n_drawn.append(len(seen))
        if len(seen) > 1:
            assert np.any(seen[0][0] != seen[1][0])
    assert n_drawn.count(1) > 280
    assert max(n_drawn) in (2, 3)
    # Nothing can be learned here, however often it is tried.
    seen.clear()
    with pytest.raises(ValueError, match="no better than guessing"):
        ht.AdaBoostClassifier(resample=True, random_state=0).fit(np.ones((6, 1)), [0, 1] * 3)
    assert len(seen) == 10


def test_errors_are_those_of_all_rows(rounds):
    X, y = problem(300)
    seen = rounds
    model = ht.AdaBoostClassifier(n_estimators=10, max_depth=2, resample=True, random_state=0)
    model.fit(X, y)
    w = np.full(300, 1 / 300)
    for k in range(model.n_iter_):
        said = seen[k][1]
        assert 0 < np.count_nonzero(seen[k][0] == 0) < 200  # rows outside the sample
        leaf = model.apply(X)[:, k]
        votes = model.trees_[k].values[leaf, 0]
        np.testing.assert_array_equal(votes > 0, said == 1)
        error = w[said != y].sum()
        np.testing.assert_allclose(model.estimator_errors_[k], error, rtol=1e-10)
        w = w * np.where(said != y, (1 - error) / error, 1.0)
        w /= w.sum()


def test_reproducible_and_about_as_good():
    X, y = problem(1500)
    make = {
        resample: lambda seed, how=resample: ht.AdaBoostClassifier(
            n_estimators=30, max_depth=2, resample=how, random_state=seed
        ).fit(X[:1000], y[:1000])
        for resample in (False, True)
    }
    first, again, other = make[True](0), make[True](0), make[True](1)
    np.testing.assert_array_equal(first.predict_proba(X), again.predict_proba(X))
    assert np.any(first.predict_proba(X) != other.predict_proba(X))
    # Nothing is drawn if rows are weighted.
    plain = make[False](0).predict_proba(X)
    np.testing.assert_array_equal(plain, make[False](1).predict_proba(X))
    scores = {how: make[how](0).score(X[1000:], y[1000:]) for how in make}
    assert abs(scores[True] - scores[False]) < 0.1


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("kind", ["two", "three", "number"])
def test_any_number_of_threads(kind, splitter, resample):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20_000, 6))
    X[rng.random(X.shape) < 0.03] = np.nan
    mean = np.nan_to_num(X[:, 0] * X[:, 1]) + rng.standard_normal(20_000)
    given = {"n_estimators": 6, "max_depth": 3, "resample": resample, "splitter": splitter}
    given |= {"max_features": 4, "random_state": 0}
    outputs = []
    for n_jobs in (1, 2, 3):
        if kind == "number":
            model = ht.AdaBoostRegressor(**given, n_jobs=n_jobs).fit(X, mean)
            outputs.append(model.predict(X))
        else:
            y = mean > 0 if kind == "two" else np.digitize(mean, [-0.5, 0.5])
            model = ht.AdaBoostClassifier(**given, n_jobs=n_jobs).fit(X, y)
            outputs.append(model.predict_proba(X))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(outputs[0], outputs[2])
