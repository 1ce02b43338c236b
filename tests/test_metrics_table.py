"""Metrics by name against XGBoost's own, and metrics given as functions."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import metrics


def xgboost_scores(objective, y, raw, weight, names, **params):
    """Scores of given raw scores (margins), in float32."""
    xgboost = pytest.importorskip("xgboost")
    n = len(y)
    data = xgboost.DMatrix(np.zeros((n, 1)), y, weight=weight, base_margin=raw)
    result: dict = {}
    xgboost.train(
        {
            "objective": objective,
            "eval_metric": names,
            "eta": 0.0,
            "nthread": 1,
            "verbosity": 0,
            "base_score": 0.5,
            **params,
        },
        data,
        1,
        evals=[(data, "data")],
        evals_result=result,
        verbose_eval=False,
    )
    return {name: curve[0] for name, curve in result["data"].items()}


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weight(request, rng):
    return rng.exponential(size=400) if request.param else None


def compare(theirs, y, prediction, weight, **parameters):
    for name, score in theirs.items():
        metric = metrics.get_metric(name, **parameters)
        ours = metric.function(y, prediction, sample_weight=weight)
        np.testing.assert_allclose(ours, score, rtol=2e-5, atol=1e-6, err_msg=name)


def test_numbers(rng, weight):
    y, raw = rng.gamma(2.0, size=400), rng.gamma(2.0, size=400)
    names = ["rmse", "mae", "mape", "rmsle", "mphe", "poisson-nloglik", "gamma-nloglik"]
    names += ["gamma-deviance", "tweedie-nloglik@1.3", "tweedie-nloglik@1.9"]
    compare(xgboost_scores("reg:squarederror", y, raw, weight, names), y, raw, weight)
    theirs = xgboost_scores("reg:pseudohubererror", y, raw, weight, ["mphe"], huber_slope=2.5)
    compare(theirs, y, raw, weight, slope=2.5)


def test_quantiles(rng, weight):
    # In order: xgboost before 3.4 scores quantiles that cross as they are, 3.4 sorts them first.
    y, raw = rng.normal(size=400), np.sort(rng.normal(size=(400, 3)), axis=1)
    alpha = [0.1, 0.5, 0.9]
    theirs = xgboost_scores("reg:quantileerror", y, raw, weight, ["quantile"], quantile_alpha=alpha)
    compare(theirs, y, raw, weight, alpha=alpha)


@pytest.mark.parametrize("decimals", [1, 8])
def test_two_classes(rng, weight, decimals):
    y = rng.integers(0, 2, 400)
    raw = np.round(y + rng.normal(size=400), decimals)
    names = ["logloss", "error", "error@0.7", "auc", "aucpr", "rmse", "mae"]
    theirs = xgboost_scores("binary:logistic", y, raw, weight, names)
    compare(theirs, y, 1 / (1 + np.exp(-raw)), weight)


@pytest.mark.parametrize("decimals", [1, 8])
def test_several_classes(rng, weight, decimals):
    y = rng.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
    raw = np.round(rng.normal(size=(400, 4)) + 1.5 * np.eye(4)[y], decimals)
    names = ["mlogloss", "merror", "auc", "aucpr"]
    theirs = xgboost_scores("multi:softprob", y, raw, weight, names, num_class=4)
    if decimals == 1:  # the largest of equal scores is a matter of rounding
        theirs.pop("merror")
    proba = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    # Equal by design, but not after rounding.
    compare(theirs, y, np.round(proba, 12), weight)


def test_several_targets(rng, weight):
    y, raw = rng.gamma(2.0, size=(400, 3)), rng.gamma(2.0, size=(400, 3))
    theirs = xgboost_scores("reg:squarederror", y, raw, weight, ["rmse", "mae", "mape"])
    compare(theirs, y, raw, weight)
    y = rng.integers(0, 2, (400, 3))
    proba = 1 / (1 + np.exp(-raw + 2))
    theirs = xgboost_scores("binary:logistic", y, raw - 2, weight, ["error"])
    compare(theirs, y, proba, weight)


def test_parameters_behind_an_at():
    y, proba = np.array([0, 1, 1]), np.array([0.2, 0.4, 0.9])
    assert metrics.get_metric("error@0.3").function(y, proba) == 0
    assert metrics.get_metric("error").function(y, proba) == pytest.approx(1 / 3)
    assert metrics.get_metric("error@0.3").name == "error@0.3"
    assert metrics.get_metric("error", alpha=0.1) is metrics.METRICS["error"]
    assert metrics.get_metric("quantile@0.9").function([1.0], [0.0]) == pytest.approx(0.9)
    # What is behind the @ goes first.
    assert metrics.get_metric("quantile@0.9", alpha=0.1).function([1.0], [0.0]) > 0.5
    for bad in ("error@", "error@x", "error@2", "tweedie-nloglik@2.5", "error@nan"):
        with pytest.raises(ValueError, match="needs a number from"):
            metrics.get_metric(bad)
    for bad in ("rmse@1", "@", "@0.5", "", "auc@0.5"):
        with pytest.raises(ValueError, match="unknown metric"):
            metrics.get_metric(bad)


def test_one_class_has_no_area():
    for name in ("auc", "aucpr"):
        with pytest.warns(UserWarning, match="only one class"):
            assert np.isnan(metrics.get_metric(name).function([1, 1], np.array([0.1, 0.2])))
    proba = np.full((2, 3), 1 / 3)
    assert np.isnan(metrics.get_metric("auc").function([0, 1], proba))


# ---- functions ----------------------------------------------------------------------------------


def halved(y_true, y_pred):
    return np.abs(y_true - y_pred).mean() / 2


def weighted(y_true, y_pred, sample_weight=None):
    return np.average(np.abs(y_true - y_pred), weights=sample_weight)


def test_own_functions(rng):
    y, prediction, weight = rng.normal(size=9), rng.normal(size=9), rng.random(9)
    metric = metrics.callable_metric(halved)
    assert (metric.name, metric.maximize) == ("halved", False)
    assert metric.function(y, prediction, sample_weight=weight) == halved(y, prediction)
    metric = metrics.callable_metric(weighted, maximize=True)
    assert metric.maximize
    assert metric.function(y, prediction) == weighted(y, prediction)
    assert metric.function(y, prediction, sample_weight=weight) == weighted(y, prediction, weight)
    one = metrics.callable_metric(lambda a, b: np.array([2.0]))
    assert one.function(y, prediction) == 2.0
    for bad in ("text", None, np.zeros(2), [1.0]):
        wrong = metrics.callable_metric(lambda a, b, bad=bad: bad)
        with pytest.raises(ValueError, match="must return a number"):
            wrong.function(y, prediction)
    with pytest.raises(TypeError, match="a name or a callable, got 'rmse'"):
        metrics.callable_metric("rmse")


def test_who_takes_weights():
    assert metrics.takes_weight(weighted)
    assert not metrics.takes_weight(halved)
    assert metrics.takes_weight(lambda y, p, **rest: 0)
    assert not metrics.takes_weight(lambda sample_weight, /: 0)
    assert not metrics.takes_weight(max)
