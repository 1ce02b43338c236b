"""Gradients, hessians, starting points and re-estimated leaves against XGBoost's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from loss_cases import binary, counts, leaf_values, normal, positive, statistics
from xgb_versions import SMOOTH_ROBUST_LOSSES, smooth_derivatives

from hybridtrees.losses import xgboost_loss

xgboost = pytest.importorskip("xgboost")

# objective, its parameters, its targets
CASES = [
    ("reg:squarederror", {}, normal),
    ("reg:squaredlogerror", {}, positive),
    ("reg:absoluteerror", {}, normal),
    ("reg:pseudohubererror", {}, normal),
    ("reg:pseudohubererror", {"huber_slope": 2.5}, normal),
    ("reg:quantileerror", {"quantile_alpha": 0.3}, normal),
    ("count:poisson", {}, counts),
    ("count:poisson", {"max_delta_step": 0.2}, counts),
    ("reg:gamma", {}, positive),
    ("reg:tweedie", {}, counts),
    ("reg:tweedie", {"tweedie_variance_power": 1.2}, counts),
    ("binary:logistic", {}, binary),
    ("binary:hinge", {}, binary),
]
ROBUST = ("reg:absoluteerror", "reg:quantileerror")
IDS = [f"{name}-{len(extra)}" for name, extra, _ in CASES]


def our_loss(objective, extra):
    return xgboost_loss(objective, n_classes=2 if objective.startswith("binary") else 0, **extra)


def train(objective, extra, X, y, weight=None, margin=None, own=None, **params):
    data = xgboost.DMatrix(X, y, weight=weight, base_margin=margin)
    params = {"nthread": 1, "verbosity": 0, "objective": objective, **extra, **params}
    return xgboost.train(params, data, 1, obj=own)


def model(booster):
    return json.loads(booster.save_raw("json"))["learner"]


@pytest.mark.parametrize(("objective", "extra", "targets"), CASES, ids=IDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_and_hessians(rng, objective, extra, targets, weighted):
    # A stump that keeps two rows apart shows both hessians, and both gradients by the weights
    # of its nodes. XGBoost limits these for Poisson; that limit is the tree's and is undone.
    loss = our_loss(objective, extra)

    def smooth(prediction, data):
        weight = data.get_weight() if weighted else None
        level = extra.get("quantile_alpha", 0.5)
        return smooth_derivatives(objective, prediction - data.get_label(), weight, level)

    older = objective in ROBUST and not SMOOTH_ROBUST_LOSSES
    for _ in range(15):
        y, raw = targets(rng, 2), 0.5 * rng.normal(size=2)
        if objective == "reg:squaredlogerror":
            raw = np.abs(raw)  # near -1 there is little left of float32 numbers
        weight = rng.random(2) + 0.5 if weighted else None
        booster = train(
            objective,
            extra,
            np.array([[0.0], [1.0]]),
            y,
            weight,
            raw,
            smooth if older else None,
            max_depth=1,
            reg_lambda=50.0,
            min_child_weight=0,
            eta=1.0,
            base_score=0.5,
            tree_method="exact",
        )
        tree = model(booster)["gradient_booster"]["model"]["trees"][0]
        theirs = np.array(tree["sum_hessian"])
        gradient = -np.array(tree["base_weights"]) * (theirs + 50.0)
        grad, hess = statistics(loss, y, raw.astype(np.float32), weight)
        rows = slice(1, 3)
        if len(theirs) == 1:  # no gain, no split
            grad, hess, rows = grad.sum(), hess.sum(), slice(0, 1)
        np.testing.assert_allclose(np.ravel(hess), theirs[rows], rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(np.ravel(grad), gradient[rows], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_softmax(rng, n_classes):
    loss = xgboost_loss("multi:softprob", n_classes=n_classes)
    y = rng.integers(0, n_classes, 8).astype(float)
    raw = rng.normal(size=(8, n_classes)).astype(np.float32)
    booster = train(
        "multi:softprob",
        {"num_class": n_classes},
        np.zeros((8, 1)),
        y,
        None,
        raw,
        reg_lambda=1.0,
        base_score=0.5,
    )
    grad, hess = statistics(loss, y, raw)
    for k, tree in enumerate(model(booster)["gradient_booster"]["model"]["trees"]):
        np.testing.assert_allclose(tree["sum_hessian"][0], hess[k].sum(), rtol=1e-5)
        expected = -grad[k].sum() / (hess[k].sum() + 1)
        np.testing.assert_allclose(tree["base_weights"][0], expected, rtol=1e-4, atol=1e-6)


def base_score(booster):
    return np.array(json.loads(model(booster)["learner_model_param"]["base_score"]))


@pytest.mark.parametrize(("objective", "extra", "targets"), CASES, ids=IDS)
@pytest.mark.parametrize("n", [10, 11])
@pytest.mark.parametrize("weighted", [False, True])
def test_starts(rng, objective, extra, targets, n, weighted):
    y, weight = targets(rng, n), rng.random(n) if weighted else None
    booster = train(objective, extra, np.zeros((n, 1)), y, weight)
    loss = our_loss(objective, extra)
    ours = loss.init_raw(y, weight)[:, None]
    # XGBoost keeps the start on the scale of predictions.
    prediction = loss.score_input(ours) if "hinge" not in objective else ours[:, 0]
    theirs = np.ravel(base_score(booster))
    if objective == "reg:absoluteerror" and SMOOTH_ROBUST_LOSSES:
        # A step away from the mean, towards the median, which is the best constant.
        mean = np.average(y, weights=weight)
        grad, hess = smooth_derivatives(objective, mean - y, weight)
        np.testing.assert_allclose(mean - grad.sum() / hess.sum(), theirs, rtol=1e-5, atol=1e-6)
        errors = [np.average(np.abs(y - start), weights=weight) for start in (prediction, theirs)]
        assert errors[0] <= errors[1]
        return
    np.testing.assert_allclose(prediction, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_starts_of_several_quantiles(rng, weighted):
    y, weight = rng.normal(size=37), rng.random(37) if weighted else None
    extra = {"quantile_alpha": [0.02, 0.1, 0.5, 0.77, 0.99]}
    booster = train("reg:quantileerror", extra, np.zeros((37, 1)), y, weight)
    ours = xgboost_loss("reg:quantileerror", **extra).init_raw(y, weight)
    np.testing.assert_allclose(ours, base_score(booster), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("objective", "extra"),
    [("reg:absoluteerror", {})]
    + [("reg:quantileerror", {"quantile_alpha": a}) for a in (0.02, 0.3, 0.9)],
)
def test_leaves_are_re_estimated(rng, objective, extra, weighted):
    X, y = rng.normal(size=(203, 3)), rng.normal(size=203)
    weight = rng.random(203) if weighted else None
    booster = train(objective, extra, X, y, weight, max_depth=3, eta=1.0, tree_method="hist")
    leaf = booster.predict(xgboost.DMatrix(X), pred_leaf=True).astype(int).ravel()
    numbers, leaf = np.unique(leaf, return_inverse=True)
    assert len(numbers) > 3
    loss = xgboost_loss(objective, **extra, smooth=False)
    raw = np.tile(loss.init_raw(y, weight), (203, 1))
    values = leaf_values(loss, y, raw, weight, leaf, len(numbers))
    level, rule = extra.get("quantile_alpha", 0.5), "inverted_cdf" if weighted else "weibull"
    for k in range(len(numbers)):
        gap, w = (y - raw[:, 0])[leaf == k], None if weight is None else weight[leaf == k]
        expected = np.quantile(gap, level, method=rule, weights=w)
        np.testing.assert_allclose(values[k], expected, rtol=1e-12, atol=1e-12)
    if not SMOOTH_ROBUST_LOSSES:  # which re-estimate no leaves
        theirs = booster.predict(xgboost.DMatrix(X))
        np.testing.assert_allclose(raw[:, 0] + values[leaf], theirs, rtol=1e-5, atol=1e-5)


def test_own_objectives_start_where_xgboost_does():
    seen = []

    def objective(y_true, y_pred):
        seen.append(y_pred.copy())
        return y_pred - y_true, np.ones_like(y_pred)

    X, y = np.arange(4.0)[:, None], np.array([1.0, 2, 3, 10])
    xgboost.XGBRegressor(objective=objective, n_estimators=1, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(seen[0], np.full(4, xgboost_loss(objective).init_raw(y, None)))
