"""Weights count wherever rows are counted: in bins, held-out rows, folds and reports."""

from __future__ import annotations

import numpy as np
import pytest

from hybridtrees import (
    CARTRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    LinearTreeRegressor,
    PLGBRegressor,
    XGBRegressor,
)
from hybridtrees.metrics import log_loss, mean_squared_error


def problem(n=300, seed=0):
    """Rows without ties, a target, and weights that a count of rows is far from."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = 2 * X[:, 0] + np.sin(3 * X[:, 1]) + rng.normal(size=n)
    weight = np.where(X[:, 0] > 0.5, 7.0, 1.0) + (np.arange(n) % 3)
    return X, y, weight


@pytest.mark.parametrize(
    "model",
    [
        XGBRegressor(n_estimators=2, max_bin=6, max_depth=3),
        XGBRegressor(n_estimators=2, max_bin=6, max_depth=3, tree_method="approx"),
        GradientBoostingRegressor(n_estimators=2, max_bins=6, splitter="hist"),
        CARTRegressor(max_bins=6, splitter="hist", max_depth=3),
        PLGBRegressor(n_estimators=2, max_bin=6, max_depth=2),
        LinearTreeRegressor(
            max_bins=6, max_depth=2, pruning=None, min_samples_leaf=1, alpha_scaling="mean"
        ),
    ],
    ids=["xgb", "xgb approx", "gb", "cart", "plgb", "linear tree"],
)
def test_bins_are_those_of_rows_repeated(model):
    X, y, weight = problem()
    times = weight.astype(int)
    weighted = model.fit(X, y, sample_weight=weight).predict(X)
    repeated = model.fit(X.repeat(times, axis=0), y.repeat(times)).predict(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)
    assert not np.allclose(model.fit(X, y).predict(X), weighted, rtol=1e-2)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_rows_held_out_by_boosting_keep_their_weights(task):
    X, y, weight = problem()
    params = {"n_iter_no_change": 5, "n_estimators": 6, "random_state": 4, "tol": 0.0}
    if task == "regression":
        model = GradientBoostingRegressor(**params).fit(X, y, weight)
        stages, score = model.staged_predict, mean_squared_error
    else:
        y = np.digitize(y, [-1.0, 1.0])
        model = GradientBoostingClassifier(**params).fit(X, y, weight)
        stages, score = model.staged_predict_proba, log_loss
    holding = np.random.SeedSequence(4).spawn(2)[1]
    held = model._draw_validation(np.random.default_rng(holding), y.astype(float))
    expected = [score(y[held], said, sample_weight=weight[held]) for said in stages(X[held])]
    np.testing.assert_allclose(model.validation_scores_[: len(expected)], expected, rtol=1e-9)


@pytest.mark.parametrize("splitter", ["exact", "hist"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_least_weight_of_a_leaf_is_a_share_of_what_is_drawn(weighted, splitter):
    X, y, weight = problem()
    weight = weight if weighted else np.ones(len(y))
    model = GradientBoostingRegressor(
        n_estimators=5, subsample=0.5, min_weight_fraction_leaf=0.3, max_depth=2, random_state=0,
        splitter=splitter,
    )  # fmt: skip
    nodes = model.fit(X, y, weight if weighted else None).trees_.nodes
    leaves = nodes[nodes["left"] < 0]
    # A share of all rows would be more than half of those drawn, and leave nothing to split.
    assert len(leaves) >= 10
    assert leaves["weight"].min() >= 0.3 * 0.5 * weight.sum() * (1 - 1e-9)
    assert leaves["weight"].min() < 0.3 * weight.sum()


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("splitter", ["exact", "hist"])
def test_pruning_within_boosting_is_that_of_rows_repeated(splitter, loss):
    X, y, weight = problem()
    times = weight.astype(int)
    model = GradientBoostingRegressor(
        loss=loss, n_estimators=3, max_depth=4, splitter=splitter, ccp_alpha=0.02
    )
    leaves = []
    for data in ((X, y, weight), (X.repeat(times, axis=0), y.repeat(times)), (X, y)):
        nodes = model.fit(*data).trees_.nodes
        leaves.append((nodes["feature"] * (nodes["left"] >= 0)).tolist())
    assert leaves[0] == leaves[1] != leaves[2]
    whole = model.set_params(ccp_alpha=0.0).fit(X, y, weight)
    assert 3 < len(leaves[0]) < len(whole.trees_.nodes)
