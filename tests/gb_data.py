"""Tables without ties for gradient boosting, and targets for every loss."""

from __future__ import annotations

import numpy as np

from hybridtrees import XGBClassifier, XGBRegressor
from hybridtrees.models.gradient_boosting.estimators import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)

REGRESSION = ("squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie")
CLASSIFICATION = ("log_loss", "exponential", "multinomial")
LOSSES = (*REGRESSION, *CLASSIFICATION)


def table(n=300, p=4, seed=0):
    """Distinct values that float32 can hold, which scikit-learn makes of them."""
    X = np.random.default_rng(seed).normal(size=(n, p))
    return X.astype(np.float32).astype(np.float64)


def signal(X, seed=0, noise=0.5):
    rng = np.random.default_rng(seed + 1)
    return 2 * X[:, 0] + np.sin(3 * X[:, 1]) + X[:, 2] * X[:, 3] + noise * rng.normal(size=len(X))


def weights(n, seed=0):
    return np.random.default_rng(seed + 2).uniform(0.5, 2.0, size=n)


def target(loss, X, seed=0):
    """A target that suits the loss."""
    y = signal(X, seed)
    if loss in ("log_loss", "exponential"):
        return (y > 0.2).astype(int)
    if loss == "multinomial":
        return np.digitize(y, [-1.0, 1.0])
    if loss == "poisson":
        return np.random.default_rng(seed).poisson(np.exp(0.3 * y)).astype(float)
    if loss == "gamma":
        return np.exp(0.3 * y)
    if loss == "tweedie":
        return np.maximum(0.0, y)
    return y


def make(loss, **params):
    """An estimator of the loss, exact and on one thread unless told otherwise."""
    params = {"n_jobs": 1, "splitter": "exact", **params}
    if loss in CLASSIFICATION:
        name = "log_loss" if loss == "multinomial" else loss
        return GradientBoostingClassifier(loss=name, **params)
    return GradientBoostingRegressor(loss=loss, **params)


def output(model, X):
    """Predictions of a regressor, probabilities of a classifier."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def staged_output(model, X):
    return model.staged_predict_proba(X) if hasattr(model, "classes_") else model.staged_predict(X)


def make_xgb(task="regression", **params):
    """An estimator of few and small trees."""
    cls = XGBRegressor if task == "regression" else XGBClassifier
    return cls(**{"n_estimators": 6, "max_depth": 3, "n_jobs": 1, **params})


def xgb_data(task="regression", n=300, seed=0):
    """Rows and targets of a task."""
    X = table(n, seed=seed)
    y = signal(X, seed)
    if task == "regression":
        return X, y
    return X, np.digitize(y, [0.2] if task == "binary" else [-1.0, 1.0])
