"""XGBRegressor and XGBClassifier against xgboost with the same parameters.

All columns have fewer than 256 distinct values, so that both libraries know every cut.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from xgb_data import TASKS, integer_table, loss_ratio, output, target
from xgb_trees import assert_missing_go_alike, assert_same_tree, our_partition, their_partition
from xgb_versions import PLAIN_GAINS

from hybridtrees import XGBClassifier, XGBRegressor

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.peer

# xgboost does not smooth the means of categories.
UNSMOOTHED = {"cat_smooth": 0, "cat_l2": 0, "min_data_per_group": 1}
LOSSGUIDE = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 31}

# What changes the shape of a tree; those of the regression are larger, its gradients are.
SHAPES = {
    "default": {},
    "deep": {"max_depth": 10},
    "max_leaves": {"max_leaves": 11},
    "lossguide": LOSSGUIDE,
    "lossguide-depth": {"grow_policy": "lossguide", "max_depth": 4, "max_leaves": 10},
    "lossguide-gamma": {"grow_policy": "lossguide", "max_depth": 0, "gamma": (900.0, 4.0)},
    "min_child_weight": {"min_child_weight": 30},
    "min_child_weight-0": {"min_child_weight": 0, "max_depth": 9},
    "gamma": {"gamma": (900.0, 4.0)},
    "reg_alpha": {"reg_alpha": 20.0},
    "reg_lambda": {"reg_lambda": 50.0},
    # Without a penalty and a threshold pure nodes are split by rounding noise.
    "reg_lambda-0": {"reg_lambda": 0.0, "gamma": 0.01},
    "max_delta_step": {"max_delta_step": (3.0, 0.7)},
    "all": {**LOSSGUIDE, "min_child_weight": 5, "gamma": 1.0, "reg_alpha": 2.0, "reg_lambda": 3.0},
}


def parameters(task, shape):
    """Of pairs the first is for regression."""
    first = task == "regression"
    return {k: v[not first] if isinstance(v, tuple) else v for k, v in SHAPES[shape].items()}


def both(task, **params):
    params = {"n_jobs": 1, "tree_method": "hist", **params}
    if task == "regression":
        return XGBRegressor(**params), xgboost.XGBRegressor(**params)
    return XGBClassifier(**params), xgboost.XGBClassifier(**params)


def fit_both(task, X, y, weight=None, **params):
    ours, theirs = both(task, **params)
    return ours.fit(X, y, weight), theirs.fit(X, y, sample_weight=weight)


def base_score(theirs):
    config = json.loads(theirs.get_booster().save_config())
    return np.array(json.loads(config["learner"]["learner_model_param"]["base_score"]))


# -- the first tree -----------------------------------------------------------------------------


def check_first_trees(task, shape, missing, weighted):
    X, y, weight = integer_table(missing=missing)
    y = target(task, y)
    ours, theirs = fit_both(
        task, X, y, weight if weighted else None, n_estimators=1, **parameters(task, shape)
    )
    assert len(ours.trees_) == (4 if task == "multiclass" else 1)
    assert len(ours.trees_.nodes) >= 19 * len(ours.trees_)
    for tree in range(len(ours.trees_)):
        parts = our_partition(ours, X, tree)
        assert_same_tree(parts, their_partition(theirs.get_booster(), X, tree))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("task", TASKS)
def test_first_trees(task, shape):
    check_first_trees(task, shape, missing=0.15, weighted=True)


@pytest.mark.parametrize("shape", ["deep", "lossguide"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize("task", TASKS)
def test_first_trees_without_missing_values(task, weighted, shape):
    check_first_trees(task, shape, missing=0.0, weighted=weighted)


@pytest.mark.parametrize("task", TASKS)
def test_first_trees_without_weights(task):
    check_first_trees(task, "deep", missing=0.15, weighted=False)


@pytest.mark.parametrize("task", TASKS)
def test_missing_rows_go_to_the_same_side(task):
    X, y, _ = integer_table(missing=0.3)
    ours, theirs = fit_both(task, X, target(task, y), n_estimators=1, max_depth=4)
    assert_missing_go_alike(ours, theirs, X)


def test_a_column_that_only_tells_present_from_missing():
    rng = np.random.default_rng(3)
    X = np.column_stack([np.where(rng.random(500) < 0.4, np.nan, 7.0), rng.integers(0, 9, 500)])
    y = np.isnan(X[:, 0]) * 3.0 + rng.normal(size=500)
    ours, theirs = fit_both("regression", X, y, n_estimators=1, max_depth=2)
    parts = our_partition(ours, X)
    assert next(iter(parts.values())).feature == 0
    assert_same_tree(parts, their_partition(theirs.get_booster(), X))


@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["full", "missing"])
@pytest.mark.parametrize(
    "params",
    [{}, {"max_cat_to_onehot": 1}, {"max_cat_to_onehot": 6}, {"max_cat_to_onehot": 13}, LOSSGUIDE],
    ids=["default", "sets", "six", "one-against-rest", "lossguide"],
)
def test_first_tree_with_categories(task, missing, params):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, k, 2000) for k in (3, 6, 12)]).astype(np.float64)
    number = rng.integers(0, 100, 2000)
    effect = [rng.normal(size=k) * 5 for k in (3, 6, 12)]
    y = sum(e[c.astype(int)] for e, c in zip(effect, codes.T, strict=True))
    y = y * np.sign(number - 50) + number / 10 + rng.normal(size=2000)
    codes[rng.random(codes.shape) < missing] = np.nan
    frame = pandas.DataFrame({"a": codes[:, 0], "b": codes[:, 1], "c": codes[:, 2]})
    for name, k in zip("abc", (3, 6, 12), strict=True):
        kept = frame[name].fillna(-1).astype(int)
        frame[name] = pandas.Categorical.from_codes(kept, categories=list(range(k)))
    frame["number"] = number
    y = y if task == "regression" else (y > 3).astype(int)
    # min_child_weight=0: xgboost puts lighter categories into the middle of the order.
    params = {"n_estimators": 1, "min_child_weight": 0, "n_jobs": 1, **params}
    name = "XGBRegressor" if task == "regression" else "XGBClassifier"
    theirs = getattr(xgboost, name)(enable_categorical=True, **params).fit(frame, y)
    kind = XGBRegressor if task == "regression" else XGBClassifier
    ours = kind(**params, **UNSMOOTHED).fit(frame, y)
    parts = our_partition(ours, frame)
    assert len(parts) >= 21
    values = np.column_stack([codes, number])
    assert_same_tree(parts, their_partition(theirs.get_booster(), values))


# -- many trees ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["default", "lossguide"])
@pytest.mark.parametrize(
    ("missing", "weighted"), [(0.0, False), (0.15, True)], ids=["full", "missing-weighted"]
)
@pytest.mark.parametrize("task", TASKS)
def test_predictions_after_fifty_rounds(task, missing, weighted, shape):
    X, y, weight = integer_table(3000, missing)
    y, train = target(task, y), slice(0, 2000)
    ours, theirs = fit_both(
        task, X[train], y[train], weight[train] if weighted else None, n_estimators=50,
        learning_rate=0.1, **SHAPES[shape],
    )  # fmt: skip
    a, b = output(ours, X), output(theirs, X)
    spread = np.std(y) if task == "regression" else 1.0
    off = np.abs(a - b).reshape(len(X), -1).max(axis=1) > 1e-3 * spread
    assert off[train].mean() <= 0.01
    # Of new rows some are missing where no training row was: there the two differ by rule.
    assert missing or off[2000:].mean() <= 0.01
    if task != "regression":
        assert (ours.predict(X[train]) == theirs.predict(X[train])).mean() > 0.995


@pytest.mark.parametrize("task", TASKS)
def test_scores_on_continuous_features(task):
    # Thousands of distinct values: each library cuts by its own sketch.
    ours, theirs = both(task, n_estimators=40, learning_rate=0.1, max_depth=4)
    assert loss_ratio(task, ours, theirs) < 1.005


# -- single parameters --------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["unit", "weighted"])
@pytest.mark.parametrize(
    ("task", "params"),
    [("regression", {}), ("binary", {}), ("binary", {"scale_pos_weight": 3.0}), ("multiclass", {})],
)
def test_automatic_base_score(task, params, weighted):
    X, y, weight = integer_table(500)
    y, weight = target(task, y), weight if weighted else None
    ours, theirs = fit_both(task, X, y, weight, n_estimators=1, max_depth=2, **params)
    start = ours._base_raw_
    np.testing.assert_allclose(
        1 / (1 + np.exp(-start)) if task == "binary" else start, base_score(theirs), atol=1e-5
    )
    np.testing.assert_allclose(output(ours, X), output(theirs, X), rtol=1e-4)


@pytest.mark.parametrize(("task", "value"), [("regression", -7.5), ("binary", 0.2)])
def test_base_score_given(task, value):
    X, y, _ = integer_table(1000)
    ours, theirs = fit_both(task, X, target(task, y), n_estimators=5, base_score=value)
    np.testing.assert_allclose(base_score(theirs), value, rtol=1e-6)
    np.testing.assert_allclose(output(ours, X), output(theirs, X), rtol=1e-3, atol=1e-4)
    other = type(ours)(n_estimators=5, n_jobs=1).fit(X, target(task, y))
    assert not np.allclose(output(ours, X), output(other, X), rtol=1e-3)


def test_scale_pos_weight():
    X, y, weight = integer_table(2000, missing=0.1)
    y = (y > 70).astype(int)
    ours, theirs = fit_both("binary", X, y, weight, n_estimators=20, scale_pos_weight=4.0)
    parts = our_partition(ours, X)
    assert_same_tree(parts, their_partition(theirs.get_booster(), X))
    np.testing.assert_allclose(output(ours, X), output(theirs, X), atol=1e-3)


@pytest.mark.parametrize("task", TASKS)
def test_missing_is_a_number(task):
    X, y, _ = integer_table(2000, missing=0.15)
    y, marked = target(task, y), np.nan_to_num(X, nan=-999.0)
    ours, theirs = fit_both(task, marked, y, n_estimators=10, missing=-999.0)
    np.testing.assert_allclose(output(ours, marked), output(theirs, marked), rtol=1e-3, atol=1e-4)
    plain = type(ours)(n_estimators=10, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(output(ours, marked), output(plain, X))


@pytest.mark.parametrize("kind", ["gain", "weight", "cover", "total_gain", "total_cover"])
@pytest.mark.parametrize("task", TASKS)
def test_importances(task, kind):
    X, y, weight = integer_table(2000, missing=0.1)
    X = np.column_stack([X, np.full(len(X), 3.0)])  # a feature that no tree can use
    params = {"n_estimators": 10, "max_depth": 4, "importance_type": kind}
    ours, theirs = fit_both(task, X, target(task, y), weight, **params)
    scores = theirs.get_booster().get_score(importance_type=kind)
    expected = [scores.get(f"f{j}", 0.0) for j in range(7)]
    np.testing.assert_allclose(ours.get_score(), expected, rtol=1e-3)
    np.testing.assert_allclose(
        ours.feature_importances_, theirs.feature_importances_, rtol=1e-3, atol=1e-6
    )
    assert ours.feature_importances_[6] == 0


# -- where the two differ by rule ---------------------------------------------------------------


def test_rule_missing_values_that_a_node_never_saw():
    # xgboost sends them right; here they follow the heavier child, as most rows do.
    X, y, _ = integer_table(1000)
    ours, theirs = fit_both("regression", X, y, n_estimators=1, max_depth=5)
    parts, others = our_partition(ours, X), their_partition(theirs.get_booster(), X)
    assert set(parts) == set(others)
    sides = [part.missing_left for part in parts.values() if part.feature >= 0]
    assert any(sides) and not all(sides)
    assert not any(others[key].missing_left for key in parts if parts[key].feature >= 0)
    nodes = ours.trees_.nodes
    splits = nodes[nodes["left"] >= 0]
    heavier_left = nodes["weight"][splits["left"]] > nodes["weight"][splits["right"]]
    np.testing.assert_array_equal(splits["missing_left"], heavier_left)


def test_rule_categories_that_fit_never_saw():
    # xgboost refuses them; here they are missing values.
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    labels = np.array(list("abcdefgh"))[rng.integers(0, 8, 500)]
    frame = pandas.DataFrame({"c": pandas.Categorical(labels), "x": rng.integers(0, 9, 500)})
    y = frame["c"].cat.codes * 1.5 + frame["x"]
    new = pandas.DataFrame({"c": pandas.Categorical(["zz", None, "a"]), "x": [1, 1, 1]})
    theirs = xgboost.XGBRegressor(n_estimators=9, enable_categorical=True, n_jobs=1).fit(frame, y)
    with pytest.raises(xgboost.core.XGBoostError, match="not in the training set"):
        theirs.predict(new)
    unknown, missing, known = XGBRegressor(n_estimators=9, n_jobs=1).fit(frame, y).predict(new)
    assert unknown == missing != known


def test_rule_max_bin_counts_the_missing_bin():
    # Codes are one byte, so of 256 bins 255 are left for values; xgboost has all 256.
    value = np.arange(2048.0) % 256
    y = np.random.default_rng(0).normal(size=256)[value.astype(int)]
    every = {"max_depth": 0, "min_child_weight": 0, "learning_rate": 1.0, "reg_lambda": 0.0}
    for n_values, n_bins in ((255, 255), (256, 255)):
        rows = value < n_values
        models = fit_both("regression", value[rows, None], y[rows], n_estimators=1, **every)
        counts = [len(np.unique(model.predict(value[rows, None]))) for model in models]
        assert counts == [n_bins, n_values]


def test_rule_cuts_lie_halfway():
    # xgboost cuts at the next value above, so that all between two training values goes left.
    X, y = np.array([[0.0], [8.0]]).repeat(50, axis=0), np.array([-1.0, 1.0]).repeat(50)
    ours, theirs = fit_both("regression", X, y, n_estimators=1)
    between = np.array([[0.0], [3.9], [4.1], [7.9], [8.0]])
    assert (ours.predict(between) > 0).tolist() == [False, False, True, True, True]
    assert (theirs.predict(between) > 0).tolist() == [False, False, False, False, True]


def test_rule_smallest_gain():
    # xgboost wants a gain above 1e-6 whatever the scale of y; here it is relative, so that a
    # change of unit changes nothing.
    X, y, _ = integer_table(500)
    ours, theirs = fit_both("regression", X, y * 1e-6, n_estimators=5)
    assert np.ptp(theirs.predict(X)) == 0
    same = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), same.predict(X) * 1e-6, rtol=1e-5)


def test_rule_light_categories_keep_their_place_in_the_order():
    # xgboost before 3.4 takes the weight of a category lighter than min_child_weight for 0 when it
    # sorts the categories; here it is what it is, and the better split is found.
    rng = np.random.default_rng(2)
    code = rng.integers(0, 60, 2000).astype(np.float64)
    y = rng.normal(size=60)[code.astype(int)] * 10
    params = {"n_estimators": 1, "max_depth": 1, "min_child_weight": 60, "n_jobs": 1}
    ours = XGBRegressor(categorical_features=[0], **params, **UNSMOOTHED).fit(code[:, None], y)
    theirs = xgboost.XGBRegressor(feature_types=["c"], enable_categorical=True, **params)
    theirs.fit(code[:, None], y)
    one = our_partition(ours, code[:, None])
    other = their_partition(theirs.get_booster(), code[:, None])
    if PLAIN_GAINS:
        assert_same_tree(one, other)
    else:
        gains = [max(part.gain for part in parts.values()) for parts in (one, other)]
        assert gains[0] > 1.02 * gains[1] > 0


def test_rule_alpha_counts_under_max_delta_step():
    # xgboost before 3.4 leaves reg_alpha out of the gain where max_delta_step is set, even where no
    # leaf reaches the bound; here a bound that binds nowhere changes nothing.
    X, y, _ = integer_table(1000)
    params = {"n_estimators": 1, "reg_alpha": 60.0, "max_depth": 4}
    free, theirs_free = fit_both("regression", X, y, **params)
    bound, theirs_bound = fit_both("regression", X, y, max_delta_step=1e4, **params)
    np.testing.assert_array_equal(free.predict(X), bound.predict(X))
    same = np.allclose(theirs_free.predict(X), theirs_bound.predict(X), rtol=1e-3)
    assert same == PLAIN_GAINS
    np.testing.assert_allclose(free.predict(X), theirs_free.predict(X), rtol=1e-4)


def test_rule_scale_pos_weight_is_for_classes():
    # xgboost also weighs the rows of a regression whose target is exactly 1.
    X, y, _ = integer_table(500)
    y = (y > 50).astype(float)
    ours, theirs = fit_both("regression", X, y, n_estimators=2, scale_pos_weight=5.0)
    plain, theirs_plain = fit_both("regression", X, y, n_estimators=2)
    np.testing.assert_array_equal(ours.predict(X), plain.predict(X))
    assert not np.allclose(theirs.predict(X), theirs_plain.predict(X), rtol=1e-2)
