"""What must hold for any boosted model: the same for any threads, weights as repetitions, ..."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xgb_data import TASKS, integer_table, output, target

from hybridtrees import XGBClassifier, XGBRegressor


def model_for(task, **params):
    cls = XGBRegressor if task == "regression" else XGBClassifier
    return cls(**{"n_estimators": 5, "n_jobs": 1, "random_state": 0, **params})


def assert_equal_models(a, b):
    for name in ("nodes", "values", "categories", "tree_start", "tree_output"):
        np.testing.assert_array_equal(getattr(a.trees_, name), getattr(b.trees_, name), name)
    np.testing.assert_array_equal(a._base_raw_, b._base_raw_)


def leaf_sets(model, X):
    """The partition of the rows by each tree, whatever the leaves are called."""
    return [
        {frozenset(np.flatnonzero(column == leaf)) for leaf in np.unique(column)}
        for column in model.apply(X).T
    ]


# -- threads and seeds --------------------------------------------------------------------------

DRAWS = {
    "all": {},
    "rows": {"subsample": 0.6},
    "features": {"colsample_bytree": 0.7, "colsample_bylevel": 0.8, "colsample_bynode": 0.7},
    "both": {"subsample": 0.5, "colsample_bynode": 0.5, "grow_policy": "lossguide"},
}


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("task", TASKS)
def test_same_model_for_any_number_of_threads(task, draws):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 30))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = target(task, 50 + 20 * np.nan_to_num(X[:, 0] * X[:, 1]) + 5 * rng.normal(size=3000))
    models = [model_for(task, n_jobs=k, **DRAWS[draws]).fit(X, y) for k in (1, 2, 3)]
    for other in models[1:]:
        assert_equal_models(models[0], other)
        np.testing.assert_array_equal(output(models[0], X), output(other, X))
    assert_equal_models(models[1], models[1].fit(X, y))
    if draws != "all":
        other = model_for(task, random_state=1, **DRAWS[draws]).fit(X, y)
        assert not np.array_equal(output(models[0], X), output(other, X))


# Above 100 000 rows the statistics are packed into 16 bits where the hessian varies.
@pytest.mark.parametrize("kind", ["unit hessian", "weighted", "logistic", "subsample"])
def test_same_large_model_for_any_number_of_threads(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120_000, 10)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + rng.normal(size=len(X))
    weight = rng.random(len(X)) + 0.5 if kind == "weighted" else None
    task = "binary" if kind == "logistic" else "regression"
    y = (y > 0).astype(int) if task == "binary" else y
    params = {"n_estimators": 2, "max_leaves": 31, "max_depth": 0, "grow_policy": "lossguide"}
    if kind == "subsample":
        params["subsample"] = 0.9
    models = [model_for(task, n_jobs=k, **params).fit(X, y, weight) for k in (1, 2, 3)]
    for other in models[1:]:
        assert_equal_models(models[0], other)
        np.testing.assert_array_equal(output(models[0], X), output(other, X))


def test_sixteen_bits_lose_nothing_that_counts():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 200, size=(110_000, 4)).astype(np.float32)
    p = 1 / (1 + np.exp(-(X[:, 0] - 100) / 30 - np.sin(X[:, 1] / 15)))
    y = (rng.random(len(X)) < p).astype(int)
    params = {"n_estimators": 10, "learning_rate": 0.3, "max_depth": 4}
    packed = model_for("binary", **params).fit(X, y)
    fewer = model_for("binary", **params).fit(X[:99_000], y[:99_000])
    losses = [-np.mean(np.log(m.predict_proba(X)[np.arange(len(y)), y])) for m in (packed, fewer)]
    best = -np.mean(np.log(np.where(y == 1, p, 1 - p)))
    assert losses[0] < losses[1] + 1e-3 < best + 0.02
    # Leaf values never come from the rounded statistics.
    raw = packed._base_raw_[0]
    first = packed.trees_[0]
    leaf = packed.apply(X)[:, 0]
    proba = 1 / (1 + np.exp(-raw))
    for k in np.unique(leaf):
        rows = leaf == k
        grad, hess = np.sum(proba - y[rows]), proba * (1 - proba) * rows.sum()
        assert first.values[k, 0] == pytest.approx(-0.3 * grad / (hess + 1), rel=1e-5)


# -- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_weight_two_is_a_repeated_row_and_weight_zero_a_removed_one(task):
    X, y, _ = integer_table(800, missing=0.1)
    y = target(task, y)
    weight = np.random.default_rng(1).integers(0, 4, size=len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    params = {"n_estimators": 15, "max_depth": 4, "learning_rate": 0.2}
    a = model_for(task, **params).fit(X, y, weight)
    b = model_for(task, **params).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(output(a, X), output(b, X), rtol=1e-5, atol=1e-6)
    plain = model_for(task, **params).fit(X, y)
    assert not np.allclose(output(a, X), output(plain, X), rtol=1e-2)


def test_rows_of_weight_zero_leave_no_trace():
    X, y, weight = integer_table(400)
    strange = np.full((50, 6), 1e6)  # values that would move every edge
    more, labels = np.vstack([X, strange]), np.append(y, np.full(50, 1e5))
    a = model_for("regression").fit(X, y, weight)
    b = model_for("regression").fit(more, labels, np.append(weight, np.zeros(50)))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@pytest.mark.parametrize("task", TASKS)
def test_all_weights_times_a_power_of_two(task):
    X, y, weight = integer_table(600)
    y = target(task, y)
    free = {"reg_lambda": 0.0, "min_child_weight": 0.0, "max_depth": 3, "gamma": 1e-3}
    a = model_for(task, **free).fit(X, y, weight)
    b = model_for(task, **{**free, "gamma": 4e-3}).fit(X, y, 4 * weight)
    np.testing.assert_allclose(output(a, X), output(b, X), rtol=1e-12)
    assert leaf_sets(a, X) == leaf_sets(b, X)


def test_ones_as_weights_change_nothing():
    X, y, _ = integer_table(500)
    a, b = (model_for("regression").fit(X, y, w) for w in (None, np.ones(500)))
    assert leaf_sets(a, X) == leaf_sets(b, X)
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-6)


# -- transformations ----------------------------------------------------------------------------

MONOTONE = {
    "exp": np.exp,
    "cube": lambda x: x**3,
    "reciprocal": lambda x: -1 / (x + 10),
    "rank": lambda x: np.searchsorted(np.unique(x), x).astype(float),
}


@pytest.mark.parametrize("n_values", [100, 5000], ids=["few values", "many values"])
@pytest.mark.parametrize("transform", MONOTONE)
def test_monotone_transform_leaves_the_partition(transform, n_values):
    rng = np.random.default_rng(3)
    X = rng.integers(0, n_values, size=(2000, 3)) / n_values * 4
    y = np.sin(X[:, 0] * 2) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=2000)
    Z = X.copy()
    Z[:, 0] = MONOTONE[transform](X[:, 0])
    a, b = (model_for("regression").fit(table, y) for table in (X, Z))
    assert leaf_sets(a, X) == leaf_sets(b, Z)
    np.testing.assert_array_equal(a.predict(X), b.predict(Z))


def test_order_of_columns_does_not_matter():
    X, y, _ = integer_table(1000, missing=0.1)
    order = [3, 0, 5, 1, 4, 2]
    # In small nodes two features may part the rows alike; the first of them is then taken.
    params = {"max_depth": 3, "min_child_weight": 20}
    a, b = (model_for("regression", **params).fit(Z, y) for Z in (X, X[:, order]))
    np.testing.assert_array_equal(a.predict(X), b.predict(X[:, order]))
    np.testing.assert_allclose(a.feature_importances_[order], b.feature_importances_)


def test_order_of_rows_does_not_matter():
    X, y, _ = integer_table(1000, missing=0.1)
    order = np.random.default_rng(0).permutation(1000)
    a, b = model_for("regression").fit(X, y), model_for("regression").fit(X[order], y[order])
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-6)


@pytest.mark.parametrize("scale", [2.0**-40, 0.5, 1024.0, 2.0**60])
def test_scaling_the_target_scales_the_predictions(scale):
    X, y, _ = integer_table(800)
    a, b = (model_for("regression").fit(X, t) for t in (y, y * scale))
    np.testing.assert_allclose(b.predict(X), scale * a.predict(X), rtol=1e-12)
    assert leaf_sets(a, X) == leaf_sets(b, X)


def test_shifting_the_target_shifts_the_predictions():
    X, y, _ = integer_table(800)
    a, b = (model_for("regression").fit(X, t) for t in (y, y + 1024.0))
    np.testing.assert_allclose(b.predict(X), a.predict(X) + 1024.0, rtol=1e-6)


def test_swapping_the_classes_swaps_the_probabilities():
    X, y, _ = integer_table(800)
    y = target("binary", y)
    a, b = (model_for("binary").fit(X, t) for t in (y, 1 - y))
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X)[:, ::-1], rtol=1e-6)


def test_a_column_without_values_or_without_variation_is_ignored():
    X, y, _ = integer_table(500)
    more = np.column_stack([np.full(500, np.nan), X, np.full(500, 4.0)])
    a, b = model_for("regression").fit(X, y), model_for("regression").fit(more, y)
    np.testing.assert_array_equal(a.predict(X), b.predict(more))
    assert b.feature_importances_[[0, -1]].tolist() == [0, 0]


# -- missing values -----------------------------------------------------------------------------


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=40),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_missing_values_go_to_the_better_side(y, seed, categories):
    # A stump on one column: no cut with the missing rows on either side may beat the one found.
    rng = np.random.default_rng(seed)
    y = np.array(y)
    x = rng.integers(0, 4, size=len(y)).astype(np.float64)
    missing = rng.random(len(y)) < 0.4
    x[missing] = np.nan
    params = {"n_estimators": 1, "max_depth": 1, "learning_rate": 1.0, "max_cat_to_onehot": 9}
    model = model_for("regression", categorical_features=[0] if categories else None, **params)
    model.fit(x[:, None], y)
    grad = np.mean(y) - y

    def gain(left):
        if not left.any() or left.all():
            return -np.inf
        parts = [grad[left], grad[~left], grad]
        scores = [part.sum() ** 2 / (len(part) + 1) for part in parts]
        return scores[0] + scores[1] - scores[2]

    cuts = [x == value if categories else x <= value for value in range(4)]
    cuts += [~missing]
    best = max(max(gain(cut), gain(cut | missing)) for cut in cuts)
    found = float(model.trees_.nodes["gain"][0])
    scale = np.sum(grad**2) + 1e-30
    assert found >= best - 1e-5 * scale
    if found > 0:
        leaf = model.apply(x[:, None])[:, 0]
        assert gain(leaf == leaf[0]) == pytest.approx(found, abs=1e-5 * scale)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_missing_follows_the_rows_it_resembles(side):
    x = np.repeat([-1.0, 1.0, np.nan], 50)[:, None]
    y = np.repeat([-5.0, 5.0, 5.0 * side], 50)
    model = model_for("regression", n_estimators=1, max_depth=1, learning_rate=1).fit(x, y)
    low, high, missing = model.predict([[-1.0], [1.0], [np.nan]])
    assert missing == (high if side > 0 else low) and low < high


# -- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"learning_rate": 1.0}, {"colsample_bynode": 0.5}])
@pytest.mark.parametrize("task", TASKS)
def test_training_loss_never_rises(task, params):
    X, y, weight = integer_table(600, missing=0.1)
    y = target(task, y)
    if task == "multiclass":
        params = {"learning_rate": 0.3, **{k: v for k, v in params.items() if k[0] == "c"}}
    model = model_for(task, n_estimators=30, **params)
    model.fit(X, y, weight, eval_set=[(X, y)], sample_weight_eval_set=[weight])
    (curve,) = model.evals_result()["validation_0"].values()
    assert np.all(np.diff(curve) <= 1e-9) and curve[-1] < 0.7 * curve[0]
