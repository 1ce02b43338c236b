"""Parameters of XGBRegressor and XGBClassifier: errors that name them, and the protocol."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from xgb_data import integer_table, target

from hybridtrees import XGBClassifier, XGBRegressor

BOTH = pytest.mark.parametrize("cls", [XGBRegressor, XGBClassifier])

NOT_POSITIVE_INTEGERS = (0, -1, 2.5, "3", True, math.nan)
NOT_COUNTS = (-1, 2.5, "3", True)
NOT_FRACTIONS = (0, 0.0, -0.1, 1.1, math.nan, math.inf, "1", True, [0.5])
NOT_PENALTIES = (-1e-9, -1, math.nan, math.inf, "0", True, 1j)

WRONG = {
    "categorical_statistics": ("yes", 2),
    "objective": ("reg:nothing", 3, 0, [], {}, ["binary:logistic"]),
    "n_estimators": NOT_POSITIVE_INTEGERS,
    "max_depth": (-2, 2.5, "6", True, 2**15),
    "max_leaves": (*NOT_COUNTS, 2**31),
    "max_bin": (0, 1, 257, 16.0, "256", True),
    "grow_policy": ("depth", "DEPTHWISE", 0),
    "learning_rate": (0, -0.3, math.nan, math.inf, "0.3", True),
    "tree_method": ("Exact", "gpu_hist", 0),
    "sketch": ("both", "Global", 0),
    "gamma": NOT_PENALTIES,
    "min_child_weight": NOT_PENALTIES,
    "max_delta_step": NOT_PENALTIES,
    "subsample": NOT_FRACTIONS,
    "colsample_bytree": NOT_FRACTIONS,
    "colsample_bylevel": NOT_FRACTIONS,
    "colsample_bynode": NOT_FRACTIONS,
    "reg_alpha": NOT_PENALTIES,
    "reg_lambda": NOT_PENALTIES,
    "scale_pos_weight": (0, -1, math.nan, math.inf, "1", True),
    "base_score": (math.nan, math.inf, "0.5", True, [], [0.5, "0.5"], [0.5] * 7),
    "missing": ("nan", [0], True),
    "categorical_features": ("all", [6], [-7], ["a"], [1.5], [True], [[0]], 3.7),
    "feature_types": ("q", ["q"] * 5 + ["x"], [3] * 6, [], ["q"] * 5),
    "enable_categorical": (1, "yes"),
    "max_cat_to_onehot": (0, -1, 2.5, True),
    "cat_smooth": (-1, math.nan, "10", True),
    "cat_l2": (-1, math.nan, "10", True),
    "conformal": ("jackknife", 3, True, ["cv"]),
    "min_data_per_group": (0, -1, 2.5, True),
    "monotone_constraints": ((1, 0), [2] + [0] * 5, {6: 1}, {"a": 1}, "(1", 3.7, [None] * 6),
    "interaction_constraints": ([[6]], [["a"]], "[[0", 3, [0], "x", [[True]], [[1.0]]),
    "quantile_alpha": (-0.1, 1.5, [], [0.5, 2.0], "0.5", True),
    "expectile_alpha": (-0.1, 1.5, [], [0.5, 2.0], "0.5", True),
    "huber_slope": (0, -1.0, math.inf, "1"),
    "tweedie_variance_power": (0.9, 2.0, "1.5"),
    "importance_type": ("shap", 1),
    "early_stopping_rounds": (0, -1, 2.5, "3", True),
    "eval_metric": ("nothing", "map", 3, [], ["rmse", 3], [None]),
    "callbacks": (3, "stop", [3], [dict]),
    "random_state": (-1, 1.5, "0", [1], True),
    "n_jobs": (0, 1.5, "1", True),
    "verbose": (-2, 1.5, "yes"),
    "booster": ("dart", "gblinear", "tree", 3),
    "multi_strategy": ("multi_output_tree", "one", 3),
    "num_parallel_tree": (0, 1.5, "1"),
    "sampling_method": ("gradients", "goss", 3),
    "feature_weights": ([1.0] * 6, 3),
    "max_cat_threshold": (64, 0, "64"),
    "device": ("cuda", "cuda:0", "gpu", "tpu", 0),
    "verbosity": (-2, 4, "1", 1.5),
    "validate_parameters": (1, "yes"),
}


@pytest.fixture(scope="module")
def data():
    X, y, _ = integer_table(40)
    return X, y


def labels(cls, y):
    return y if cls is XGBRegressor else target("binary", y)


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_wrong_parameter(cls, name, value, data):
    X, y = data
    model = cls(**{"n_estimators": 2, name: value})
    before = dict(vars(model))
    fit = {"eval_set": [(X, labels(cls, y))]} if name == "early_stopping_rounds" else {}
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b") as caught:
        model.fit(X, labels(cls, y), **fit)
    assert type(caught.value) in (ValueError, TypeError)
    assert vars(model) == before


def test_every_parameter_is_in_the_table():
    assert set(WRONG) == set(XGBRegressor().get_params())
    assert {*WRONG, "class_weight", "calibrate"} == set(XGBClassifier().get_params())


@BOTH
def test_values_of_xgboost_that_mean_what_there_is(cls, data):
    X, y = data
    given = {
        "booster": "gbtree", "multi_strategy": "one_output_per_tree", "num_parallel_tree": 1,
        "sampling_method": "uniform", "device": "cpu", "verbosity": 2,
        "validate_parameters": True,
    }  # fmt: skip
    model = cls(n_estimators=2, **given).fit(X, labels(cls, y))
    plain = cls(n_estimators=2).fit(X, labels(cls, y))
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.get_num_boosting_rounds() == 2


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 1.5])
def test_base_score_of_two_classes_is_a_probability(value, data):
    X, y = data
    with pytest.raises(ValueError, match="base_score must be a probability"):
        XGBClassifier(base_score=value).fit(X, target("binary", y))


@pytest.mark.parametrize(
    ("cls", "task", "metric"),
    [
        (XGBRegressor, "regression", "auc"),
        (XGBClassifier, "binary", "merror"),
        (XGBClassifier, "multiclass", "logloss"),
    ],
)
def test_metric_of_another_task(cls, task, metric, data):
    X, y = data
    with pytest.raises(ValueError, match=f"eval_metric must be one of .*, got '{metric}'"):
        cls(eval_metric=metric).fit(X, target(task, y))


def fit_errors():
    X, y, _ = integer_table(40)
    n = len(X)
    return {
        "eval_set is no list of pairs": ({"eval_set": [X]}, r"eval_set\[0\]"),
        "eval_set is a pair": ({"eval_set": (X, y)}, r"eval_set\[0\]"),
        "eval_set is a number": ({"eval_set": 3}, "eval_set"),
        "eval_set lacks columns": ({"eval_set": [(X[:, :2], y)]}, "2 features"),
        "eval_set lacks targets": ({"eval_set": [(X, y[:5])]}, "y of validation_0"),
        "eval_set has no target": ({"eval_set": [(X, None)]}, "y of validation_0"),
        "infinity": ({"eval_set": [(np.full((n, 6), np.inf), y)]}, "infinity"),
        "X_val alone": ({"X_val": X}, "X_val and y_val"),
        "y_val alone": ({"y_val": y}, "X_val and y_val"),
        "weights without a set": (
            {"sample_weight_eval_set": [np.ones(n)]}, "sample_weight_eval_set"),
        "weight of validation alone": ({"sample_weight_val": np.ones(n)}, "sample_weight_val"),
        "weights are no list": (
            {"eval_set": [(X, y)], "sample_weight_eval_set": np.ones(n)},
            "sample_weight_eval_set"),
        "validation weight negative": (
            {"eval_set": [(X, y)], "sample_weight_eval_set": [-np.ones(n)]},
            "sample_weight of validation_0"),
        "weight per set": (
            {"eval_set": [(X, y)], "sample_weight_eval_set": []}, "sample_weight_eval_set"),
        "weight too short": ({"sample_weight": np.ones(3)}, "sample_weight"),
        "weight negative": ({"sample_weight": -np.ones(n)}, "sample_weight"),
        "weight NaN": ({"sample_weight": np.full(n, np.nan)}, "sample_weight"),
        "weight zero": ({"sample_weight": np.zeros(n)}, "sample_weight"),
        "weight 2-D": ({"sample_weight": np.ones((n, 1))}, "sample_weight"),
        "weight text": ({"sample_weight": ["a"] * n}, "sample_weight"),
        "verbose": ({"verbose": "loud"}, "verbose"),
        "verbose negative": ({"verbose": -2}, "verbose"),
    }  # fmt: skip


@BOTH
@pytest.mark.parametrize("case", fit_errors())
def test_wrong_argument_of_fit(cls, case, data):
    X, y = data
    arguments, message = fit_errors()[case]
    if cls is XGBClassifier:
        arguments = {
            key: [(a, b if b is None else target("binary", b)) for a, b in value]
            if key == "eval_set" and isinstance(value, list) and isinstance(value[0], tuple)
            else value
            for key, value in arguments.items()
        }
    model = cls(n_estimators=2, n_jobs=1)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, labels(cls, y), **arguments)
    assert not model.__sklearn_is_fitted__()


@BOTH
def test_early_stopping_needs_a_table(cls, data):
    X, y = data
    with pytest.raises(ValueError, match="early_stopping_rounds needs an eval_set"):
        cls(early_stopping_rounds=3).fit(X, labels(cls, y))


def test_unknown_class_in_a_validation_table(data):
    X, y = data
    model = XGBClassifier(n_estimators=2)
    with pytest.raises(ValueError, match="y of validation_0 holds the label .*7"):
        model.fit(X, target("binary", y), eval_set=[(X, np.full(40, 7))])


@BOTH
def test_a_failed_fit_leaves_the_model_as_it_was(cls, data):
    X, y = data
    y = labels(cls, y)
    model = cls(n_estimators=3, n_jobs=1).fit(X, y)
    before, prediction = dict(vars(model)), model.predict(X)
    for wrong in (
        lambda: model.fit(X[:, :3], y[:5]),
        lambda: model.fit(np.full((40, 2), np.inf), y),
        lambda: model.fit(X[:, :2], y, eval_set=[(X, y)]),
        lambda: model.set_params(learning_rate=-1).fit(X[:, :2], y),
    ):
        with pytest.raises(ValueError):
            wrong()
        model.learning_rate = 0.3
        assert vars(model) == before
        np.testing.assert_array_equal(model.predict(X), prediction)


@BOTH
def test_numpy_numbers_are_welcome(cls, data):
    X, y = data
    plain = {"n_estimators": 3, "max_depth": 2, "learning_rate": 0.25, "max_bin": 16, "gamma": 0.0}
    numpy = {
        "n_estimators": np.int8(3),
        "max_depth": np.uint64(2),
        "learning_rate": np.float32(0.25),
        "max_bin": np.int64(16),
        "gamma": np.float64(0),
    }
    a, b = (cls(n_jobs=1, **p).fit(X, labels(cls, y)) for p in (plain, numpy))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@BOTH
def test_integers_where_reals_are_asked_for(cls, data):
    X, y = data
    whole = {"learning_rate": 1, "subsample": 1, "reg_lambda": 2, "gamma": 0, "missing": -1}
    a = cls(n_estimators=2, n_jobs=1, **whole).fit(X, labels(cls, y))
    real = {k: float(v) for k, v in whole.items()}
    b = cls(n_estimators=2, n_jobs=1, **real).fit(X, labels(cls, y))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@BOTH
def test_auto_is_hist(cls, data):
    X, y = data
    a, b = (
        cls(n_estimators=2, n_jobs=1, tree_method=method).fit(X, labels(cls, y))
        for method in ("auto", "hist")
    )
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


@BOTH
def test_fit_leaves_the_parameters_alone(cls, data):
    X, y = data
    model = cls(n_estimators=2, random_state=3, eval_metric=None)
    before = model.get_params()
    model.fit(X, labels(cls, y))
    after = model.get_params()
    assert before.keys() == after.keys()
    assert all(before[k] is after[k] for k in before)


@BOTH
def test_get_set_params_and_repr(cls):
    model = cls(max_depth=3)
    assert repr(model) == f"{cls.__name__}(max_depth=3)"
    assert model.set_params(gamma=2.0) is model and model.get_params()["gamma"] == 2.0
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)
    with pytest.raises(TypeError, match="depth"):
        cls(depth=3)
    with pytest.raises(TypeError):
        cls(3)  # by name only


@BOTH
def test_docstring_describes_every_parameter(cls):
    section = re.split(r"Attributes\n\s+-+", cls.__doc__)[0]
    missing = [n for n in cls().get_params() if not re.search(rf"\b{n}\b", section)]
    assert missing == []


def test_a_limit_of_categories_beyond_every_integer(data):
    X, y = data
    params = {"n_estimators": 2, "categorical_features": [0]}
    a, b = (XGBRegressor(**params, max_cat_to_onehot=m).fit(X, y) for m in (300, 10**30))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_more_threads_than_a_machine_can_start():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    few = XGBRegressor(n_estimators=2, n_jobs=1).fit(X, X[:, 0])
    many = XGBRegressor(n_estimators=2, n_jobs=2**40).fit(X, X[:, 0])
    assert np.array_equal(many.predict(X), few.predict(X))
    assert np.array_equal(many.apply(X), few.apply(X))
