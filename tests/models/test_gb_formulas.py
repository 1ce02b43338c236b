"""Starts and leaf values of gradient boosting against the closed forms, round by round."""

from __future__ import annotations

import numpy as np
import pytest
from gb_data import CLASSIFICATION, LOSSES, REGRESSION, make, output, signal, table, target, weights


def weighted_quantile(values, weight, level):
    """Least value up to which the share of the weight reaches the level."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weight[order])
    return values[order][np.searchsorted(share, level * share[-1] * (1 - 1e-12))]


def start(loss, y, weight, alpha=0.9):
    """Raw scores that make the loss least."""
    w = np.ones(len(y)) if weight is None else weight
    mean = np.average(y, weights=w)
    if loss in ("absolute_error", "huber", "quantile"):
        level = alpha if loss == "quantile" else 0.5
        if weight is None:
            return [np.quantile(y, level)]
        return [weighted_quantile(y, w, level)]
    if loss in ("poisson", "gamma", "tweedie"):
        return [np.log(mean)]
    if loss == "log_loss":
        return [np.log(mean / (1 - mean))]
    if loss == "exponential":
        return [0.5 * np.log(mean / (1 - mean))]
    if loss == "multinomial":
        logs = np.log([np.average(y == k, weights=w) for k in range(3)])
        return logs - logs.mean()
    return [mean]


def residuals(loss, y, raw, weight, alpha=0.9):
    """Negative gradients, (n_rows, n_outputs)."""
    r = raw[:, 0]
    if loss == "multinomial":
        p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
        return np.eye(3)[y] - p
    if loss == "huber":
        delta = weighted_quantile(np.abs(y - r), weight, alpha)
        return np.clip(y - r, -delta, delta)[:, None]
    formulas = {
        "squared_error": lambda: y - r,
        "absolute_error": lambda: np.where(y > r, 1.0, -1.0),
        "quantile": lambda: np.where(y > r, alpha, alpha - 1),
        "poisson": lambda: y - np.exp(r),
        "gamma": lambda: y * np.exp(-r) - 1,
        "tweedie": lambda: y * np.exp(-0.5 * r) - np.exp(0.5 * r),
        "log_loss": lambda: y - 1 / (1 + np.exp(-r)),
        "exponential": lambda: np.where(y == 1, np.exp(-r), -np.exp(r)),
    }
    return formulas[loss]()[:, None]


def leaf_value(loss, y, r, residual, w, delta, k):
    """What to add in one leaf."""
    gap = y - r
    if loss == "squared_error":
        return np.average(gap, weights=w)
    if loss in ("absolute_error", "quantile"):
        return weighted_quantile(gap, w, 0.9 if loss == "quantile" else 0.5)
    if loss == "huber":
        median = weighted_quantile(gap, w, 0.5)
        return median + np.average(np.clip(gap - median, -delta, delta), weights=w)
    if loss in ("poisson", "gamma", "tweedie"):
        p = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5}[loss]
        top = np.sum(w * y * np.exp((1 - p) * r))
        return np.log(top / np.sum(w * np.exp((2 - p) * r))) if top > 0 else -19.0
    if loss == "exponential":
        return np.sum(w * residual) / np.sum(w * np.abs(residual))
    truth = (y == k) if loss == "multinomial" else y
    p = truth - residual
    factor = 2 / 3 if loss == "multinomial" else 1.0
    return factor * np.sum(w * residual) / np.sum(w * p * (1 - p))


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("loss", LOSSES)
def test_start(loss, weighted):
    X = table()
    y, weight = target(loss, X), weights(len(X)) if weighted else None
    model = make(loss, n_estimators=1).fit(X, y, weight)
    np.testing.assert_allclose(model.init_, start(loss, y, weight), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("loss", LOSSES)
def test_leaf_values(loss, weighted, splitter):
    """Every leaf of three rounds, from the rows in it and the scores before."""
    X = table()
    y, weight = target(loss, X), weights(len(X)) if weighted else None
    w = np.ones(len(X)) if weight is None else weight
    # A learning rate that is a power of two costs no digits.
    params = {"n_estimators": 3, "learning_rate": 0.25, "splitter": splitter}
    model = make(loss, **params).fit(X, y, weight)
    n_outputs = model.n_trees_per_iteration_
    leaves = model.apply(X).reshape(len(X), 3, n_outputs)
    raw = np.tile(start(loss, y, weight), (len(X), 1)).astype(float)
    # Gradients of histograms are 32-bit; leaves of these losses are made of them.
    from_gradients = loss in ("squared_error", "log_loss", "multinomial")
    rtol = 1e-5 if splitter == "hist" and from_gradients else 1e-9
    for round_ in range(3):
        delta = weighted_quantile(np.abs(y - raw[:, 0]), w, 0.9)
        residual = residuals(loss, y, raw, w)
        before = raw.copy()
        for k in range(n_outputs):
            tree = model.trees_[round_ * n_outputs + k]
            assert tree.n_leaves > 2
            for leaf in np.unique(leaves[:, round_, k]):
                rows = leaves[:, round_, k] == leaf
                value = leaf_value(
                    loss, y[rows], before[rows, k], residual[rows, k], w[rows], delta, k
                )
                assert tree.values[leaf, 0] == pytest.approx(0.25 * value, rel=rtol, abs=1e-12)
                raw[rows, k] += tree.values[leaf, 0]
    np.testing.assert_allclose(model.predict_raw(X), raw, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", REGRESSION)
def test_scores_are_links_of_predictions(loss):
    X = table(200)
    model = make(loss, n_estimators=4).fit(X, target(loss, X))
    raw = model.predict_raw(X)[:, 0]
    expected = np.exp(raw) if loss in ("poisson", "gamma", "tweedie") else raw
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_probabilities(loss):
    X = table(200)
    y = target(loss, X)
    model = make(loss, n_estimators=30, learning_rate=0.5).fit(X, y)
    proba, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    assert proba.min() >= 0
    if loss == "multinomial":
        expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    else:
        odds = 2 * scores if loss == "exponential" else scores
        expected = np.column_stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])
    np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba, rtol=1e-12)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_quantiles_never_cross(splitter):
    X, new = table(400), 5 * table(300, seed=4)
    y = signal(X, noise=1.0) * (1 + np.abs(X[:, 1]))
    alpha = [0.9, 0.05, 0.5, 0.6]
    model = make("quantile", alpha=alpha, n_estimators=40, learning_rate=0.5, splitter=splitter)
    prediction = model.fit(X, y).predict(new)
    assert prediction.shape == (300, 4) and model.apply(new).shape == (300, 40, 4)
    ordered = prediction[:, np.argsort(alpha)]
    assert np.all(np.diff(ordered, axis=1) >= 0)
    # The raw scores do cross: it is the rearrangement that keeps them apart.
    assert np.any(np.diff(model.predict_raw(new)[:, np.argsort(alpha)], axis=1) < 0)
    share = np.mean(y[:, None] <= model.predict(X), axis=0)
    np.testing.assert_allclose(share, alpha, atol=0.12)
    if splitter == "exact":
        return  # among equal splits each tree draws its own
    one = make("quantile", alpha=0.05, n_estimators=40, learning_rate=0.5, splitter=splitter)
    np.testing.assert_allclose(
        one.fit(X, y).predict_raw(new)[:, 0], model.predict_raw(new)[:, 1], rtol=1e-12
    )


def test_huge_and_tiny_targets():
    X = table(200)
    y = signal(X)
    base = make("squared_error", n_estimators=5).fit(X, y).predict(X)
    for scale in (2.0**300, 2.0**-300):
        scaled = make("squared_error", n_estimators=5).fit(X, y * scale).predict(X)
        np.testing.assert_allclose(scaled, base * scale, rtol=1e-12)
    with pytest.raises(ValueError, match="y must not exceed 1e"):
        make("squared_error").fit(X, y * 1e200)
    with pytest.raises(ValueError, match="y must not exceed 3.4e"):
        make("squared_error", splitter="hist").fit(X, y * 1e60)


def test_offset_far_from_zero_costs_no_splits():
    """From zero the residuals of the first rounds are all far from it."""
    X = table(300)
    y = signal(X)
    params = {"n_estimators": 3, "learning_rate": 1.0, "init": "zero", "min_samples_leaf": 5}
    near = make("squared_error", **params).fit(X, y - y.mean())
    far = make("squared_error", **params).fit(X, y + 2.0**40)
    np.testing.assert_array_equal(
        near.trees_[0].nodes["threshold"], far.trees_[0].nodes["threshold"]
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_one_leaf_adds_nothing_new(loss):
    """Without a split all rows keep one prediction, near the start."""
    X = np.ones((60, 2))
    y = target(loss, table(60))
    model = make(loss, n_estimators=5).fit(X, y)
    assert all(tree.n_nodes == 1 for tree in model.trees_)
    assert len(np.unique(output(model, X), axis=0)) == 1
    np.testing.assert_array_equal(model.feature_importances_, [0.0, 0.0])
