"""XGBRegressor: what it fits, what its parameters do to the trees, and its fitted attributes."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import integer_table

import hybridtrees
from hybridtrees import XGBRegressor


def fitted(X, y, weight=None, **params):
    params = {"n_estimators": 5, "n_jobs": 1, "random_state": 0, **params}
    return XGBRegressor(**params).fit(X, y, weight)


def splits(model):
    return model.trees_.nodes[model.trees_.nodes["left"] >= 0]


# -- values -------------------------------------------------------------------------------------


def test_one_full_tree_predicts_group_means():
    x = np.repeat(np.arange(20.0), 3)
    y = np.random.default_rng(0).normal(size=60)
    exact = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "max_depth": 0}
    model = fitted(x[:, None], y, min_child_weight=0, **exact)
    means = y.reshape(20, 3).mean(axis=1).repeat(3)
    np.testing.assert_allclose(model.predict(x[:, None]), means, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"reg_lambda": 7.0, "reg_alpha": 3.0},
        {"max_delta_step": 0.5},
        {"max_delta_step": 2.0, "reg_alpha": 5.0, "learning_rate": 0.1},
    ],
)
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
def test_leaf_values_are_newton_steps(params, weighted):
    X, y, weight = integer_table(500, missing=0.1)
    weight = weight if weighted else None
    model = fitted(X, y, weight, max_depth=4, **params)
    full = {"reg_lambda": 1.0, "reg_alpha": 0.0, "max_delta_step": 0.0, "learning_rate": 0.3}
    full |= params
    w = np.ones(500) if weight is None else weight
    raw = np.full(500, np.average(y, weights=w))
    assert model._base_raw_[0] == pytest.approx(raw[0])
    for tree, leaf in enumerate(model.apply(X).T):
        values = model.trees_[tree].values[:, 0]
        for k in np.unique(leaf):
            rows = leaf == k
            grad = np.sum(w[rows] * (raw[rows] - y[rows]))
            shrunk = np.sign(grad) * max(abs(grad) - full["reg_alpha"], 0)
            step = -shrunk / (np.sum(w[rows]) + full["reg_lambda"])
            if full["max_delta_step"]:
                step = np.clip(step, -full["max_delta_step"], full["max_delta_step"])
            assert values[k] == pytest.approx(full["learning_rate"] * step, rel=1e-4, abs=1e-6)
        raw += values[leaf]
    np.testing.assert_allclose(model.predict(X), raw, rtol=1e-12)


def test_predictions_are_base_score_plus_leaf_values():
    X, y, _ = integer_table(700, missing=0.2)
    model = fitted(X, y, base_score=3.0, n_estimators=8)
    total = np.full(700, 3.0)
    for tree, leaf in enumerate(model.apply(X).T):
        assert np.all(model.trees_[tree].nodes["left"][leaf] < 0)
        total += model.trees_[tree].values[leaf, 0]
    np.testing.assert_allclose(model.predict_raw(X), total[:, None], rtol=1e-13)
    np.testing.assert_array_equal(model.predict(X), model.predict_raw(X)[:, 0])
    np.testing.assert_array_equal(model.predict(X), model.predict(X, output_margin=True))


@pytest.mark.parametrize("n_rows", [1, 2, 5, 511, 512, 513, 5000])
def test_rows_are_predicted_one_by_one_as_in_a_batch(n_rows):
    X, y, _ = integer_table(5000, missing=0.1)
    model = fitted(X, y, n_jobs=2)
    batch = model.predict(X)
    np.testing.assert_array_equal(model.predict(X[:n_rows]), batch[:n_rows])
    single = [model.predict(row[None])[0] for row in X[:5]]
    np.testing.assert_array_equal(single, batch[:5])


@pytest.mark.parametrize("value", [0.0, -3.5, 1e6, 1e-12])
def test_constant_target(value):
    X, _, _ = integer_table(100)
    model = fitted(X, np.full(100, value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-9)
    assert model.trees_.nodes["left"].max() == -1 and model.n_iter_ == 5
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(6))


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_few_rows(n_rows):
    X = np.arange(n_rows * 2.0).reshape(n_rows, 2)
    y = np.arange(n_rows) ** 2.0
    model = fitted(X, y, min_child_weight=0, reg_lambda=0, learning_rate=1.0)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)


@pytest.mark.parametrize("y", [[True, False] * 20, [3, 4] * 20, np.float32([0.5, 2]).repeat(20)])
def test_targets_of_other_types(y):
    X, _, _ = integer_table(40)
    np.testing.assert_array_equal(
        fitted(X, y).predict(X), fitted(X, np.asarray(y, dtype=np.float64)).predict(X)
    )


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
def test_targets_of_extreme_size(scale):
    X, y, _ = integer_table(200)
    y = y / np.abs(y).max()
    np.testing.assert_allclose(
        fitted(X, y * scale).predict(X) / scale, fitted(X, y).predict(X), rtol=1e-5, atol=1e-7
    )


def test_wrong_targets():
    X, y, _ = integer_table(50)
    cases = [
        (y * 1e38, "y must not exceed 3.4e"),
        (np.where(y > 50, np.nan, y), "NaN"),
        (np.where(y > 50, np.inf, y), "infinity"),
        (y * 1j, "[Cc]omplex"),
        (["a"] * 50, "real numbers"),
        (np.empty((50, 0)), "at least one target"),
        (np.ones((50, 2, 2)), "1d"),
        (y[:-1], "inconsistent"),
        (None, "y"),
    ]
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            XGBRegressor(n_jobs=1).fit(X, wrong)


# -- shape of the trees -------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("depth", [1, 2, 5, 9])
def test_max_depth(depth, policy):
    X, y, _ = integer_table()
    model = fitted(X, y, max_depth=depth, grow_policy=policy)
    assert [model.trees_[t].depth for t in range(5)] == [depth] * 5


def test_no_limit_on_depth():
    X, y, _ = integer_table(500)
    free = {"reg_lambda": 0, "min_child_weight": 0}
    model = fitted(X, y, n_estimators=1, max_depth=0, **free)
    assert model.trees_[0].depth > 9 and model.trees_[0].n_leaves == 500


def test_none_is_the_default_depth_of_xgboost():
    X, y, _ = integer_table(500)
    free = {"reg_lambda": 0, "min_child_weight": 0}
    model = fitted(X, y, n_estimators=1, max_depth=None, **free)
    assert model.trees_[0].depth == 6


@pytest.mark.parametrize("policy", ["depthwise", "lossguide"])
@pytest.mark.parametrize("leaves", [1, 2, 7, 31])
def test_max_leaves(leaves, policy):
    X, y, _ = integer_table()
    model = fitted(X, y, max_leaves=leaves, max_depth=0, grow_policy=policy)
    assert [model.trees_[t].n_leaves for t in range(5)] == [leaves] * 5


def test_lossguide_takes_the_largest_gains():
    X, y, _ = integer_table()
    # The whole tree is the same under both policies; of it the largest gains come first.
    whole = fitted(X, y, n_estimators=1, max_depth=6)
    few = fitted(X, y, n_estimators=1, max_depth=6, max_leaves=8, grow_policy="lossguide")
    level = fitted(X, y, n_estimators=1, max_depth=6, max_leaves=8)
    taken = splits(few)["gain"]
    assert set(taken) <= set(splits(whole)["gain"])
    assert taken.sum() > splits(level)["gain"].sum()
    assert splits(level)["depth"].max() == 2 < splits(few)["depth"].max()


def test_min_child_weight_and_gamma():
    X, y, weight = integer_table()
    model = fitted(X, y, weight, min_child_weight=25.0, gamma=200.0, max_depth=0)
    assert model.trees_.nodes["weight"].min() >= 25
    assert splits(model)["gain"].min() >= 200
    free = fitted(X, y, weight, max_depth=0)
    assert free.trees_.nodes["weight"].min() < 25 and splits(free)["gain"].min() < 200


def test_gains_are_drops_of_the_penalised_loss():
    X, y, _ = integer_table()
    model = fitted(X, y, n_estimators=1, learning_rate=1.0, reg_lambda=2.0)
    tree = model.trees_[0]
    start, leaf = np.mean(y), model.apply(X)[:, 0]
    steps = tree.values[:, 0]
    leaves = np.unique(leaf)
    before = np.sum((y - start) ** 2)
    after = np.sum((y - start - steps[leaf]) ** 2) + 2.0 * np.sum(steps[leaves] ** 2)
    # The root could have a value too: here its gradient is zero.
    assert splits(model)["gain"].sum() == pytest.approx(before - after, rel=1e-6)


@pytest.mark.parametrize("max_bin", [2, 3, 16, 256])
def test_max_bin(max_bin):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 1)), rng.normal(size=3000)
    model = fitted(X, y, n_estimators=20, max_bin=max_bin, max_depth=0)
    thresholds = np.unique(splits(model)["threshold"])
    assert len(thresholds) == min(max_bin, 255) - 1


# -- draws --------------------------------------------------------------------------------------


def test_subsample_draws_rows_anew_for_each_tree():
    X, y, _ = integer_table(4000)
    model = fitted(X, y, subsample=0.3, n_estimators=20)
    roots = model.trees_.nodes["n_samples"][model.trees_.tree_start[:-1]]
    assert len(set(roots)) > 5
    assert abs(roots.mean() - 1200) < 60 and np.all(np.abs(roots - 1200) < 150)


@pytest.mark.parametrize(
    ("params", "per_tree", "per_level", "per_node"),
    [
        ({"colsample_bytree": 0.5}, 4, 4, 4),
        ({"colsample_bylevel": 0.25}, 8, 2, 2),
        ({"colsample_bytree": 0.5, "colsample_bylevel": 0.5}, 4, 2, 2),
        ({"colsample_bynode": 0.125}, 8, 8, 1),
    ],
)
def test_colsample(params, per_tree, per_level, per_node):
    """How many features are drawn, whatever the seed.

    Every feature explains as much of y, so that a level of many nodes uses all it may. By the
    union bound a feature is in none of 60 trees with a chance below 8 / 2^60 (half of them are
    drawn per tree, or a quarter at each of five levels), and first splits on one feature each
    fall on four features or fewer with a chance below 70 / 2^60.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 8))
    y = X.sum(axis=1)
    n_trees = 60
    state = int(rng.integers(1000))
    model = fitted(X, y, n_estimators=n_trees, max_depth=5, random_state=state, **params)
    by_tree, by_level = [], []
    for t in range(n_trees):
        nodes = model.trees_[t].nodes
        nodes = nodes[nodes["left"] >= 0]
        by_tree.append(set(nodes["feature"]))
        by_level += [set(nodes["feature"][nodes["depth"] == d]) for d in range(5)]
    assert max(map(len, by_level)) == per_level
    # Two levels draw the same features in all 60 trees with a chance below 6^-60.
    assert per_tree >= max(map(len, by_tree)) > (per_level if per_level < per_tree else 3)
    assert set().union(*by_tree) == set(range(8))
    if per_node == 1:
        first = {int(model.trees_[t].nodes["feature"][0]) for t in range(n_trees)}
        assert len(first) > 4


def test_random_state():
    X, y, _ = integer_table(500)
    draw = {"subsample": 0.5, "colsample_bynode": 0.5}

    def prediction(state):
        return fitted(X, y, random_state=state, **draw).predict(X)

    np.testing.assert_array_equal(prediction(7), prediction(np.int64(7)))
    assert not np.array_equal(prediction(7), prediction(8))
    assert not np.array_equal(prediction(None), prediction(None))
    for make in (np.random.default_rng, np.random.RandomState):
        np.testing.assert_array_equal(prediction(make(3)), prediction(make(3)))


# -- fitted attributes --------------------------------------------------------------------------


def test_fitted_attributes():
    X, y, _ = integer_table(500)
    model = fitted(X, y, n_estimators=7)
    assert model.n_iter_ == len(model.trees_) == model.trees_.n_trees == 7
    assert model.n_features_in_ == 6 and not hasattr(model, "feature_names_in_")
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.apply(X).shape == (500, 7)
    assert not hasattr(model, "best_iteration") and not hasattr(model, "best_score")
    r2 = 1 - np.sum((y - model.predict(X)) ** 2) / np.sum((y - y.mean()) ** 2)
    assert model.score(X, y) == pytest.approx(r2)


def test_refit_on_another_table():
    X, y, _ = integer_table(500)
    model = fitted(X, y, eval_metric="mae")
    model.fit(X[:, :2], y, eval_set=[(X[:, :2], y)])
    assert model.n_features_in_ == 2 and list(model.evals_result()) == ["validation_0"]
    fresh = XGBRegressor(n_estimators=5, n_jobs=1).fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict(X[:, :2]), fresh.predict(X[:, :2]))
    model.fit(X, y)
    with pytest.raises(ValueError, match="eval_set"):
        model.evals_result()


def test_unfitted():
    X, _, _ = integer_table(5)
    model = XGBRegressor()
    for call in (model.predict, model.predict_raw, model.apply):
        with pytest.raises(hybridtrees.base.NotFittedError, match="not fitted"):
            call(X)
    for name in ("get_score", "evals_result"):
        with pytest.raises(hybridtrees.base.NotFittedError, match="not fitted"):
            getattr(model, name)()
    assert not hasattr(model, "feature_importances_") and not hasattr(model, "best_iteration")


def test_verbose(capsys):
    X, y, _ = integer_table(100)
    model = XGBRegressor(n_estimators=5, n_jobs=1, verbose=2)
    model.fit(X, y, eval_set=[(X, y)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[0]", "[2]", "[4]"]
    assert all("validation_0-rmse:" in line for line in lines)
    model.fit(X, y, verbose=False)
    assert capsys.readouterr().out == ""
    XGBRegressor(n_estimators=3, n_jobs=1).fit(X, y, verbose=True)
    assert len(capsys.readouterr().out.splitlines()) == 3
