"""Defaults of the XGB* estimators against those that xgboost's boosters really use."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from hybridtrees import XGBClassifier, XGBRegressor

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.peer

# Names that stand in a booster's configuration; the others are xgboost.sklearn's alone.
CONFIGURED = {
    "max_depth", "max_leaves", "max_bin", "grow_policy", "learning_rate", "gamma",
    "min_child_weight", "max_delta_step", "subsample", "colsample_bytree", "colsample_bylevel",
    "colsample_bynode", "reg_alpha", "reg_lambda", "max_cat_to_onehot", "scale_pos_weight",
    "objective", "tree_method",
}  # fmt: skip

# Where the constructors differ, and why.
DIFFERENT = {
    # Said outright: "auto" is "hist" in xgboost too.
    "tree_method": ("hist", "auto")
}

# Parameters of this library's own.
OWN = {
    "class_weight",
    "categorical_features",
    "categorical_statistics",
    "sketch",
    "verbose",
    "cat_smooth",
    "cat_l2",
    "min_data_per_group",
    "conformal",
    "calibrate",
}

# Parameters of single objectives, which xgboost takes without naming them.
OBJECTIVES = {"quantile_alpha", "expectile_alpha", "huber_slope", "tweedie_variance_power"}

PAIRS = [
    (XGBRegressor, "XGBRegressor", [0.0, 1.5, 3.0, 2.5]),
    (XGBClassifier, "XGBClassifier", [0, 1, 1, 0]),
    (XGBClassifier, "XGBClassifier", [0, 1, 2, 0]),
]
IDS = ["regression", "binary", "multiclass"]


def defaults(cls):
    parameters = inspect.signature(cls.__init__).parameters
    return {name: p.default for name, p in parameters.items() if p.default is not p.empty}


def configuration(name, y):
    """All parameters of a fitted booster by their names, wherever they stand."""
    model = getattr(xgboost, name)(n_estimators=1, n_jobs=1).fit(np.eye(4), y)
    found = {}

    def collect(part):
        if isinstance(part, list):
            for item in part:
                collect(item)
        for key, value in part.items() if isinstance(part, dict) else ():
            found.setdefault(key, value)
            collect(value)

    collect(json.loads(model.get_booster().save_config()))
    return found


def as_number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


@pytest.mark.parametrize(("ours", "name", "y"), PAIRS, ids=IDS)
def test_defaults_of_the_booster(ours, name, y):
    config, own = configuration(name, y), defaults(ours)
    compared = set()
    for parameter in CONFIGURED & set(own) & set(config):
        theirs, value = as_number(config[parameter]), own[parameter]
        if parameter in DIFFERENT:
            assert (value, theirs) == DIFFERENT[parameter]
        elif parameter == "objective":
            model = ours(n_estimators=1).fit(np.eye(4), y)
            assert value is None
            assert theirs == {"squared": "reg:squarederror", "logistic": "binary:logistic",
                              "softmax": "multi:softprob"}[model._loss.kind]  # fmt: skip
        else:
            assert value == (pytest.approx(theirs) if isinstance(theirs, float) else theirs)
        compared.add(parameter)
    # A multi-class objective has no scale_pos_weight.
    assert set(CONFIGURED) - compared <= ({"scale_pos_weight"} if max(y) == 2 else set())


@pytest.mark.parametrize(("ours", "name", "y"), PAIRS, ids=IDS)
def test_defaults_of_the_constructor(ours, name, y):
    # What no booster knows has its default in the constructor, in xgboost as here.
    own, theirs = defaults(ours), getattr(xgboost, name)()
    rest = set(own) - CONFIGURED - OWN - OBJECTIVES
    assert rest == {
        "n_estimators", "base_score", "missing", "importance_type", "early_stopping_rounds",
        "eval_metric", "random_state", "n_jobs", "callbacks", "feature_types",
        "enable_categorical", "monotone_constraints", "interaction_constraints", "booster",
        "multi_strategy", "num_parallel_tree", "sampling_method", "feature_weights",
        "max_cat_threshold", "device", "verbosity", "validate_parameters",
    }  # fmt: skip
    # Categories are welcome without further ado.
    assert own["enable_categorical"] is True
    assert own["n_estimators"] == theirs.get_num_boosting_rounds() == 100
    assert np.isnan(own["missing"]) and np.isnan(theirs.missing)
    # None is "gain" for trees: test_default_importance_and_metric.
    assert own["importance_type"] == "gain" and theirs.importance_type is None
    # No parameter of xgboost's constructor is unknown here.
    assert set(theirs.get_params()) - set(own) == set()
    for parameter in rest - {"n_estimators", "missing", "importance_type", "enable_categorical"}:
        assert own[parameter] is None and theirs.get_params()[parameter] is None


@pytest.mark.parametrize(("ours", "name", "y"), PAIRS, ids=IDS)
def test_default_importance_and_metric(ours, name, y):
    X = np.arange(40.0).reshape(20, 2) % 7
    y = np.resize(y, 20)
    fit = {"eval_set": [(X, y)], "verbose": False}
    a = ours(n_estimators=3, n_jobs=1).fit(X, y, **fit)
    b = getattr(xgboost, name)(n_estimators=3, n_jobs=1).fit(X, y, **fit)
    assert list(a.evals_result()["validation_0"]) == list(b.evals_result()["validation_0"])
    np.testing.assert_allclose(a.feature_importances_, b.feature_importances_, atol=1e-4)
