"""Scores of XGBRegressor and XGBClassifier against LightGBM with matched parameters."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import TASKS, loss_of, loss_ratio, output, smooth_table, target

from hybridtrees import XGBClassifier, XGBRegressor

lightgbm = pytest.importorskip("lightgbm")
pytestmark = pytest.mark.peer

COMMON = {"n_estimators": 40, "learning_rate": 0.1, "reg_lambda": 1.0, "n_jobs": 1}


def both(task, leaves=15, **common):
    common = {**COMMON, **common}
    ours = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": leaves, "max_bin": 256}
    # LightGBM asks for twenty rows in a leaf by default, xgboost for a hessian of one.
    theirs = {"num_leaves": leaves, "min_child_samples": 1, "min_child_weight": 1, "verbose": -1}
    if task == "regression":
        return XGBRegressor(**ours, **common), lightgbm.LGBMRegressor(**theirs, **common)
    return XGBClassifier(**ours, **common), lightgbm.LGBMClassifier(**theirs, **common)


@pytest.mark.parametrize("task", TASKS)
def test_scores(task):
    assert loss_ratio(task, *both(task)) < 1.005


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_scores_with_missing_values_and_weights(task):
    rng = np.random.default_rng(7)
    X, y = smooth_table(16000, seed=7)
    y = target(task, y)
    # Missing at random in some columns; in the last the fact itself tells.
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(len(X)) < np.where(y > np.mean(y), 0.6, 0.1), 7] = np.nan
    weight, half = rng.random(len(X)) + 0.5, 8000
    losses = []
    for model in both(task, n_estimators=60):
        model.fit(X[:half], y[:half], sample_weight=weight[:half])
        losses.append(loss_of(task, y[half:], output(model, X[half:])))
    assert losses[0] < 1.005 * losses[1]


def test_predictions_are_equal_where_both_have_all_cuts():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, size=(3000, 5)).astype(np.float64)
    y = X[:, 0] + 20 * np.sin(X[:, 1] / 15) + X[:, 2] * X[:, 3] / 100 + rng.normal(size=3000)
    ours, theirs = both("regression")
    theirs.set_params(min_data_in_bin=1)
    a, b = (model.fit(X, y).predict(X) for model in (ours, theirs))
    assert np.mean(np.abs(a - b) > 1e-3 * np.std(y)) <= 0.01
