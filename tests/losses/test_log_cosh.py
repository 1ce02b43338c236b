"""The log cosh loss against NumPy: far out, leaves, and models of every boosting family."""

from __future__ import annotations

import numpy as np
import pytest
from gb_data import xgb_data as data
from loss_cases import leaf_values, statistics

from hybridtrees import GradientBoostingRegressor, PLGBRegressor, XGBRegressor, load, metrics
from hybridtrees.losses import LogCoshError, friedman_loss, xgboost_loss

DISTANCES = np.array([0, 1e-300, 1e-9, 9.99e-4, 1.001e-3, 0.1, 1, 20, 400, 800, 1e6, 1e300])
DISTANCES = np.concatenate([DISTANCES, -DISTANCES])

MODELS = {
    "friedman": (GradientBoostingRegressor, {"loss": "log_cosh"}),
    "friedman_hist": (GradientBoostingRegressor, {"loss": "log_cosh", "splitter": "hist"}),
    "newton": (XGBRegressor, {"objective": "reg:logcosh"}),
    "newton_exact": (XGBRegressor, {"objective": "reg:logcosh", "tree_method": "exact"}),
    "piecewise": (PLGBRegressor, {"objective": "reg:logcosh"}),
}


def log_cosh(x):
    x = np.abs(x)
    return x + np.log1p(np.exp(-2 * x)) - np.log(2)


def ratio(x):
    """tanh(x) / x, the second derivative of the parabola above."""
    x = np.asarray(x, dtype=np.float64)
    return np.divide(np.tanh(x), x, out=np.ones_like(x), where=x != 0)


def test_far_out():
    y = np.zeros(len(DISTANCES))
    grad, hess = statistics(LogCoshError(), y, DISTANCES)
    np.testing.assert_allclose(grad[0], np.tanh(DISTANCES), rtol=1e-6, atol=1e-45)
    np.testing.assert_allclose(hess[0], np.maximum(ratio(DISTANCES), 1e-16), rtol=1e-6)
    for x in DISTANCES[np.abs(DISTANCES) < 1e300]:
        loss = LogCoshError().mean_loss(np.zeros(1), np.array([[x]]), None)
        np.testing.assert_allclose(loss, log_cosh(x), rtol=1e-14, atol=1e-15)
        score = metrics.METRICS["logcosh"].function([0.0], [x])
        np.testing.assert_allclose(score, log_cosh(x), rtol=1e-14, atol=1e-15)


def test_leaves_are_newton_steps_that_never_overshoot(rng):
    y = np.concatenate([rng.normal(size=90), [1e5, -3e4]])
    raw, leaf = 3 * rng.normal(size=92), np.arange(92) % 2
    weight = rng.exponential(size=92)
    ours = leaf_values(LogCoshError(), y, raw, weight, leaf, 2)
    for j in range(2):
        own = leaf == j
        d, w = (y - raw)[own], weight[own]
        np.testing.assert_allclose(ours[j], w @ np.tanh(d) / (w @ ratio(d)), rtol=1e-12)
        assert w @ log_cosh(d - ours[j]) < w @ log_cosh(d)


def test_names():
    for loss in (friedman_loss("log_cosh"), xgboost_loss("reg:logcosh")):
        assert type(loss) is LogCoshError
        assert loss.metrics[0] == "logcosh"
    assert xgboost_loss("reg:logcosh", n_targets=3).n_outputs == 3


@pytest.mark.parametrize("name", MODELS)
def test_models_learn_and_are_stored(rng, name, tmp_path):
    cls, params = MODELS[name]
    X, y = data()
    far = rng.random(len(y)) < 0.02
    y = y + np.where(far, 1e4, 0)  # outliers hardly matter
    model = cls(n_estimators=30, random_state=0, **params)
    model.fit(X, y, eval_set=[(X, y)])
    own = isinstance(model, GradientBoostingRegressor)
    result = model.evals_result_ if own else model.evals_result()
    curve = result["validation_0"]["loss" if own else "logcosh"]
    assert np.all(np.diff(curve) < 0)
    predicted = model.predict(X)
    np.testing.assert_allclose(curve[-1], log_cosh(y - predicted).mean(), rtol=1e-6)
    errors = [log_cosh((y - guess)[~far]).mean() for guess in (predicted, np.median(y))]
    assert errors[0] < 0.8 * errors[1]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), predicted)


def test_several_targets(rng):
    X, y = data()
    pair = np.column_stack([y, -y])
    model = XGBRegressor(objective="reg:logcosh", n_estimators=20).fit(X, pair)
    both = [XGBRegressor(objective="reg:logcosh", n_estimators=20).fit(X, t) for t in pair.T]
    expected = np.column_stack([single.predict(X) for single in both])
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)
