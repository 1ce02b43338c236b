"""Our constants, residuals and leaf values equal those of scikit-learn's gradient boosting.

The splits are taken from scikit-learn's trees: residuals that are mostly equal, as those of the
absolute error, leave it to rounding and chance which of several splits is chosen.
"""

from __future__ import annotations

import numpy as np
import pytest
from loss_cases import leaf_values, residuals

from hybridtrees.losses import friedman_loss

ensemble = pytest.importorskip("sklearn.ensemble")

ROUNDS, RATE = 20, 0.3
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weight(request, rng):
    return rng.random(401) + 0.1 if request.param else None


def table(rng):
    X = rng.normal(size=(401, 4)).astype(np.float32)
    return X, X[:, 0] * 2 + np.sin(3 * X[:, 1]) + rng.standard_t(3, size=401)


def follow(X, y, weight, loss, peer):
    """Go through the peer's trees with our residuals and leaves; return our raw scores."""
    raw = np.tile(loss.init_raw(y, weight), (len(y), 1))
    for stage in range(ROUNDS):
        res = residuals(loss, y, raw, weight)
        for k in range(loss.n_outputs):
            tree = peer.estimators_[stage, k].tree_
            mean = np.average(res[k], weights=weight)
            impurity = np.average((res[k] - mean) ** 2, weights=weight)
            np.testing.assert_allclose(tree.impurity[0], impurity, rtol=1e-9)
            leaves, leaf = np.unique(tree.apply(X), return_inverse=True)
            values = leaf_values(
                loss, y, raw, weight, leaf, len(leaves), output=k, residual=res[k].copy()
            )
            np.testing.assert_allclose(values, tree.value[leaves, 0, 0], **CLOSE)
            raw[:, k] += RATE * values[leaf]
        score = loss.deviance_factor * loss.mean_loss(y, raw, weight)
        np.testing.assert_allclose(score, peer.train_score_[stage], rtol=1e-9)
    return raw


@pytest.mark.parametrize(
    ("name", "alpha"),
    [
        ("squared_error", 0.9),
        ("absolute_error", 0.9),
        ("huber", 0.9),
        ("huber", 0.4),
        ("quantile", 0.9),
        ("quantile", 0.25),
        ("quantile", 0.5),
    ],
)
def test_regression(rng, name, alpha, weight):
    X, y = table(rng)
    peer = ensemble.GradientBoostingRegressor(
        loss=name, alpha=alpha, n_estimators=ROUNDS, learning_rate=RATE, random_state=0
    ).fit(X, y, sample_weight=weight)
    raw = follow(X, y, weight, friedman_loss(name, alpha=alpha), peer)
    np.testing.assert_allclose(raw[:, 0], peer.predict(X), **CLOSE)


@pytest.mark.parametrize(
    ("name", "n_classes"), [("log_loss", 2), ("log_loss", 4), ("exponential", 2)]
)
def test_classification(rng, name, n_classes, weight):
    X, y = table(rng)
    y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes)).astype(float)
    peer = ensemble.GradientBoostingClassifier(
        loss=name, n_estimators=ROUNDS, learning_rate=RATE, random_state=0
    ).fit(X, y, sample_weight=weight)
    loss = friedman_loss(name, n_classes=n_classes)
    raw = follow(X, y, weight, loss, peer)
    np.testing.assert_allclose(raw, peer.decision_function(X).reshape(raw.shape), **CLOSE)
    np.testing.assert_allclose(loss.predict(raw), peer.predict_proba(X), **CLOSE)
