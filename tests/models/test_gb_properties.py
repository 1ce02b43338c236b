"""Gradient boosting: what holds for any table, by hypothesis."""

from __future__ import annotations

import numpy as np
from gb_data import LOSSES, make, target
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridtrees.losses import friedman_loss


@settings(max_examples=15, deadline=None)
@given(
    loss=st.sampled_from(["squared_error", "absolute_error", "quantile", "poisson", "gamma"]),
    seed=st.integers(0, 1000),
    rate=st.floats(0.05, 1.0),
    splitter=st.sampled_from(["exact", "hist"]),
)
def test_training_loss_never_rises(loss, seed, rate, splitter):
    X = np.random.default_rng(seed).integers(0, 9, size=(80, 4)).astype(float)
    y = target(loss, X / 4 - 1, seed)
    model = make(loss, n_estimators=8, learning_rate=rate, splitter=splitter).fit(X, y)
    start = np.tile(model.init_, (80, 1))
    first = friedman_loss(loss)
    before = first.deviance_factor * first.mean_loss(y, start, None)
    curve = np.concatenate([[before], model.train_score_])
    assert np.all(np.diff(curve) <= 1e-6 * (1 + np.abs(curve[:-1])))


@settings(max_examples=15, deadline=None)
@given(
    loss=st.sampled_from(LOSSES),
    seed=st.integers(0, 1000),
    subsample=st.sampled_from([1.0, 0.6]),
    splitter=st.sampled_from(["exact", "hist"]),
)
def test_threads_change_nothing(loss, seed, subsample, splitter):
    X = np.random.default_rng(seed).normal(size=(9000, 6))
    y = target(loss, X, seed)
    params = {"n_estimators": 2, "subsample": subsample, "random_state": seed}
    models = [make(loss, **params, splitter=splitter, n_jobs=k).fit(X, y) for k in (1, 2, 3)]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].trees_.nodes, other.trees_.nodes)
        np.testing.assert_array_equal(models[0].trees_.values, other.trees_.values)
        np.testing.assert_array_equal(models[0].train_score_, other.train_score_)


@settings(max_examples=20, deadline=None)
@given(loss=st.sampled_from(LOSSES), seed=st.integers(0, 1000))
def test_weight_two_is_a_row_twice(loss, seed):
    if loss in ("absolute_error", "quantile", "huber"):
        return  # without weights their quantiles lie between two rows
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    y = target(loss, X, seed)
    count = rng.integers(0, 3, size=60)
    if loss in ("log_loss", "exponential", "multinomial"):
        count[[np.flatnonzero(y == k)[0] for k in np.unique(y)]] = 1
    rows = np.repeat(np.arange(60), count)
    a = make(loss, n_estimators=3).fit(X, y, count.astype(float))
    b = make(loss, n_estimators=3).fit(X[rows], y[rows])
    np.testing.assert_allclose(a.predict_raw(X[rows]), b.predict_raw(X[rows]), rtol=1e-7, atol=1e-9)
