"""XGBRegressor and XGBClassifier with tree_method "exact" and "approx" against xgboost's.

Columns are continuous float32 numbers and targets have no ties, so that every split has one best
threshold and both libraries know it.
"""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import TASKS, integer_table, loss_of, loss_ratio, output, smooth_table, target
from xgb_trees import assert_missing_go_alike, assert_same_tree, our_partition, their_partition

from hybridtrees import XGBClassifier, XGBRegressor

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.peer

# Of pairs the first is for regression, whose gradients are larger.
SHAPES = {
    "default": {},
    "stumps": {"max_depth": 1},
    "deep": {"max_depth": 10},
    "min_child_weight": {"min_child_weight": 20},
    "reg_alpha": {"reg_alpha": (20.0, 2.0)},
    "reg_lambda": {"reg_lambda": 50.0},
    # Without a penalty and a threshold pure nodes are split by rounding noise.
    "reg_lambda-0": {"reg_lambda": 0.0, "gamma": 0.01},
    "max_delta_step": {"max_delta_step": (3.0, 0.7)},
    "all": {"max_depth": 8, "min_child_weight": 5, "reg_alpha": 1.5, "reg_lambda": 3.0},
}


def parameters(task, shape):
    first = task == "regression"
    return {k: v[not first] if isinstance(v, tuple) else v for k, v in SHAPES[shape].items()}


def continuous_table(n=1500, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    y = 12 * X[:, 0] + 15 * np.sin(2 * X[:, 1]) + 6 * X[:, 2] * X[:, 3] + 50
    y = (y + 5 * rng.normal(size=n)).astype(np.float32).astype(np.float64)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, (rng.random(n) + 0.5).astype(np.float32).astype(np.float64)


def models(task, **params):
    params = {"n_jobs": 1, "tree_method": "exact", **params}
    ours, theirs = (
        (XGBRegressor, xgboost.XGBRegressor)
        if task == "regression"
        else (XGBClassifier, xgboost.XGBClassifier)
    )
    own = params.pop("sketch", "global")
    return ours(sketch=own, **params), theirs(**params)


def fit_both(task, X, y, weight=None, **params):
    ours, theirs = models(task, **params)
    return ours.fit(X, y, weight), theirs.fit(X, y, sample_weight=weight)


def margins(model, X):
    """Raw scores, which the trees add up to."""
    return np.asarray(model.predict(X, output_margin=True), dtype=np.float64)


def assert_close(ours, theirs, X):
    a, b = margins(ours, X), margins(theirs, X)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())


# ---- exact --------------------------------------------------------------------------------------


def check(task, shape, missing, weighted, n_estimators=20):
    X, y, weight = continuous_table(missing=missing)
    y, weight = target(task, y), weight if weighted else None
    params = parameters(task, shape)
    ours, theirs = fit_both(task, X, y, weight, n_estimators=n_estimators, **params)
    per_round = 4 if task == "multiclass" else 1
    assert len(ours.trees_) == n_estimators * per_round
    for tree in range(2 * per_round):
        parts = our_partition(ours, X, tree)
        assert_same_tree(parts, their_partition(theirs.get_booster(), X, tree))
    assert_close(ours, theirs, X)
    return ours, theirs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("task", TASKS)
def test_trees_and_predictions(task, shape):
    check(task, shape, missing=0.15, weighted=True)


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("task", TASKS)
def test_without_missing_values(task, weighted):
    ours, theirs = check(task, "default", missing=0.0, weighted=weighted)
    # New rows: cuts lie halfway in both.
    X, _, _ = continuous_table(seed=1)
    assert_close(ours, theirs, X)


@pytest.mark.parametrize("task", TASKS)
def test_without_weights(task):
    check(task, "deep", missing=0.15, weighted=False, n_estimators=10)


@pytest.mark.parametrize("task", TASKS)
def test_gamma(task):
    X, y, weight = continuous_table(missing=0.15)
    gamma = 900.0 if task == "regression" else 4.0
    ours, theirs = fit_both(task, X, target(task, y), weight, n_estimators=20, gamma=gamma)
    parts = our_partition(ours, X)
    assert len(parts) > 7
    assert_same_tree(parts, their_partition(theirs.get_booster(), X))
    assert_close(ours, theirs, X)


@pytest.mark.parametrize("task", TASKS)
def test_missing_rows_go_to_the_same_side(task):
    X, y, _ = continuous_table(missing=0.3)
    ours, theirs = fit_both(task, X, target(task, y), n_estimators=1, max_depth=4)
    assert_missing_go_alike(ours, theirs, X)


def test_a_column_that_only_tells_present_from_missing():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.where(rng.random(500) < 0.4, np.nan, 7.0), rng.normal(size=500)])
    y = np.isnan(X[:, 0]) * 3.0 + rng.normal(size=500)
    ours, theirs = fit_both("regression", X, y, n_estimators=1, max_depth=2)
    parts = our_partition(ours, X)
    assert next(iter(parts.values())).feature == 0
    assert_same_tree(parts, their_partition(theirs.get_booster(), X))


def test_rule_values_beyond_those_of_a_node():
    # A node that parts its values from missing ones: xgboost puts the cut a little beyond the
    # values it saw, above or below; here there is none, and any value goes with the values.
    X = np.array([[1.0], [1.0], [np.nan], [np.nan]]).repeat(20, axis=0)
    y = np.array([0.0, 0.0, 9.0, 9.0]).repeat(20)
    ours, theirs = fit_both("regression", X, y, n_estimators=1)
    new = np.array([[1.0], [1e6], [-1e6], [np.nan]])
    a, b = ours.predict(new), theirs.predict(new)
    assert a[0] == a[1] == a[2] < a[3]
    assert b[0] < b[3] == max(b[1], b[2])


def test_scale_pos_weight_and_base_score():
    X, y, weight = continuous_table(missing=0.1)
    y = (y > 70).astype(int)
    for params in ({"scale_pos_weight": 4.0}, {"base_score": 0.2}):
        ours, theirs = fit_both("binary", X, y, weight, n_estimators=20, **params)
        assert_close(ours, theirs, X)


@pytest.mark.parametrize("kind", ["gain", "weight", "cover", "total_gain", "total_cover"])
def test_importances(kind):
    X, y, weight = continuous_table(missing=0.1)
    params = {"n_estimators": 10, "max_depth": 4, "importance_type": kind}
    ours, theirs = fit_both("regression", X, y, weight, **params)
    np.testing.assert_allclose(
        ours.feature_importances_, theirs.feature_importances_, rtol=1e-3, atol=1e-6
    )


def test_early_stopping():
    X, y, _ = continuous_table(3000)
    evals = {"eval_set": [(X[1000:], y[1000:])], "verbose": False}
    curves = []
    for model in models("regression", n_estimators=60, early_stopping_rounds=3, max_depth=3):
        model.fit(X[:1000], y[:1000], **evals)
        curves.append((model.best_iteration, model.evals_result()["validation_0"]["rmse"]))
    assert curves[0][0] == curves[1][0]
    np.testing.assert_allclose(curves[0][1], curves[1][1], rtol=1e-4)


# ---- exact and hist -----------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.15], ids=["full", "missing"])
@pytest.mark.parametrize("task", TASKS)
def test_exact_is_hist_where_bins_lose_nothing(task, missing):
    X, y, weight = integer_table(missing=missing)
    y = target(task, y)
    cls = XGBRegressor if task == "regression" else XGBClassifier
    fitted = [
        cls(tree_method=method, n_estimators=15, n_jobs=1).fit(X, y, weight)
        for method in ("exact", "hist")
    ]
    for tree in range(4 if task == "multiclass" else 1):
        parts = [our_partition(model, X, tree) for model in fitted]
        assert_same_tree(*parts)
    a, b = (margins(model, X) for model in fitted)
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(b).max())


@pytest.mark.parametrize("task", TASKS)
def test_exact_scores_like_hist_on_many_values(task):
    X, y = smooth_table(4000)
    y = target(task, y)
    losses = {}
    cls = XGBRegressor if task == "regression" else XGBClassifier
    for method in ("exact", "hist"):
        model = cls(tree_method=method, n_estimators=40, learning_rate=0.1, max_depth=4, n_jobs=1)
        model.fit(X[:2000], y[:2000])
        losses[method] = loss_of(task, y[2000:], output(model, X[2000:]))
    assert losses["exact"] < 1.02 * losses["hist"]


# ---- approx -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", ["global", "local"])
@pytest.mark.parametrize("max_bin", [16, 256])
@pytest.mark.parametrize("task", TASKS)
def test_approx_scores_like_theirs(task, max_bin, sketch):
    params = {"n_estimators": 20, "learning_rate": 0.2, "max_depth": 4, "max_bin": max_bin}
    ours, theirs = models(task, tree_method="approx", sketch=sketch, **params)
    assert loss_ratio(task, ours, theirs, seeds=(0, 1)) < 1.01


@pytest.mark.parametrize("sketch", ["global", "local"])
@pytest.mark.parametrize("task", TASKS)
def test_approx_is_near_exact(task, sketch):
    X, y, weight = continuous_table(3000, missing=0.1)
    y = target(task, y)
    cls = XGBRegressor if task == "regression" else XGBClassifier
    params = {"n_estimators": 10, "n_jobs": 1, "sketch": sketch, "max_depth": 4}
    exact = cls(tree_method="exact", **params).fit(X, y, weight)
    gaps = []
    for max_bin in (4, 32, 255):
        model = cls(tree_method="approx", max_bin=max_bin, **params).fit(X, y, weight)
        gap = margins(model, X) - margins(exact, X)
        gaps.append(np.sqrt(np.mean(gap**2)) / np.std(margins(exact, X)))
    # The finer the candidates, the nearer to every threshold.
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.2


@pytest.mark.parametrize("task", TASKS)
def test_approx_trees_where_bins_lose_nothing(task):
    X, y, weight = integer_table(missing=0.15)
    y = target(task, y)
    ours, theirs = fit_both(task, X, y, weight, tree_method="approx", n_estimators=1)
    for tree in range(len(ours.trees_)):
        assert_same_tree(
            our_partition(ours, X, tree), their_partition(theirs.get_booster(), X, tree)
        )
