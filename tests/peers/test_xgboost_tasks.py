"""Objectives of classes on numbers, and of numbers on classes, beside XGBoost's; None beside it."""

from __future__ import annotations

import numpy as np
import pytest
from xgb_data import integer_table

import hybridtrees as ht

xgboost = pytest.importorskip("xgboost")
pytestmark = pytest.mark.peer

X = integer_table(150)[0]
TWO, THREE = (X[:, 0] > 3) * 1, (X[:, 0] + X[:, 1]).astype(int) % 3
SHARES = (X[:, 0] + X[:, 1]) / (X[:, 0] + X[:, 1]).max()
SMALL = dict(n_estimators=6, max_depth=3, n_jobs=1)

REGRESSIONS = [
    ("reg:logistic", SHARES, {}),
    ("binary:logistic", TWO, {}),
    ("binary:logistic", TWO, {"scale_pos_weight": 3.0}),
    ("binary:logitraw", TWO, {}),
    ("binary:logitraw", TWO, {"base_score": 0.75}),
    ("binary:hinge", TWO, {}),
    ("multi:softprob", THREE, {"num_class": 3}),
    ("multi:softmax", THREE, {"num_class": 3}),
    ("reg:linear", SHARES, {}),
    ("reg:squaredlogerror", 3 * SHARES, {}),
]


def of_both(name, y, **params):
    """Return our model and theirs, with the same parameters."""
    theirs = getattr(xgboost, name)(**SMALL, **params).fit(X, y)
    return getattr(ht, name)(**SMALL, **params).fit(X, y), theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("objective", "y", "params"), REGRESSIONS)
def test_regressors(objective, y, params):
    ours, theirs = of_both("XGBRegressor", y, objective=objective, **params)
    assert ours.predict(X).shape == theirs.predict(X).shape
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    margins = (model.predict(X, output_margin=True) for model in (ours, theirs))
    np.testing.assert_allclose(*margins, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "objective",
    ["reg:squarederror", "reg:linear", "reg:logistic", "reg:squaredlogerror", "binary:logistic",
     "binary:hinge"],
)  # fmt: skip
def test_classifiers_of_two(objective):
    ours, theirs = of_both("XGBClassifier", TWO, objective=objective)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(
        ours.predict_proba(X), np.clip(theirs.predict_proba(X), 0, 1), atol=1e-4
    )


def test_scores_of_two_classes_are_no_probabilities():
    ours, theirs = of_both("XGBClassifier", TWO, objective="binary:logitraw")
    plain = ht.XGBClassifier(**SMALL).fit(X, TWO)
    np.testing.assert_array_equal(ours.predict_proba(X), plain.predict_proba(X))
    assert theirs.predict_proba(X).max() > 1  # scores, and 1 less them


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softmax", "multi:softprob"])
def test_classifiers_of_three(objective):
    ours, theirs = of_both("XGBClassifier", THREE, objective=objective)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize(
    ("objective", "y", "message"),
    [
        ("multi:softmax", SHARES, "class number from 0 to 1"),
        ("multi:softprob", np.where(TWO, 1e30, 0.0), "class number"),
        ("multi:softprob", -TWO, "class number"),
        ("binary:hinge", THREE, "0 or 1 for the hinge loss"),
        ("binary:logistic", THREE, "from 0 to 1 for the logistic loss, got 2"),
        ("reg:squaredlogerror", -TWO, "greater than -1 for the squared log error, got -1"),
    ],
)
def test_targets_out_of_range(objective, y, message):
    with pytest.raises(ValueError, match=message):
        ht.XGBRegressor(objective=objective).fit(X, y)


@pytest.mark.parametrize("objective", ["reg:logistic", "binary:hinge", "multi:softprob"])
def test_exports_of_regressors_that_predict_probabilities(objective):
    y = THREE if objective == "multi:softprob" else TWO
    model = ht.XGBRegressor(**SMALL, objective=objective).fit(X, y)
    np.testing.assert_allclose(model.compile().predict(X), model.predict(X))
    imported = ht.from_xgboost(xgboost.XGBRegressor(**SMALL, objective="reg:logistic").fit(X, TWO))
    np.testing.assert_allclose(imported.compile().predict(X), imported.predict(X))


@pytest.mark.parametrize("name", ["XGBRegressor", "XGBClassifier"])
@pytest.mark.parametrize("y", [TWO, THREE])
def test_parameters_of_xgboost_fit(name, y):
    params = getattr(xgboost, name)().get_params()
    ours, plain = getattr(ht, name)(**params), getattr(ht, name)()
    np.testing.assert_array_equal(ours.fit(X, y).predict(X), plain.fit(X, y).predict(X))
    assert {key: ours.get_params()[key] for key in params if key in vars(plain)} == {
        key: params[key] for key in params if key in vars(plain)
    }
    assert ours.get_num_boosting_rounds() == 100


NONE = [ht.XGBRegressor, ht.XGBClassifier, ht.PLGBRegressor, ht.PLGBClassifier]


@pytest.mark.parametrize("cls", NONE)
def test_none_is_the_default(cls):
    unset = dict.fromkeys(cls().get_params())
    y = TWO if "Classifier" in cls.__name__ else SHARES
    ours, plain = cls(**unset).fit(X, y), cls().fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), plain.predict(X))
    np.testing.assert_array_equal(ours.feature_importances_, plain.feature_importances_)
    assert ours.get_params() == unset
    seen = []

    class Look:
        def before_training(self, view):
            seen.append(view.estimator.learning_rate)

    cls(learning_rate=None, n_estimators=1, callbacks=[Look()]).fit(X, y)
    assert seen == [cls.learning_rate]
    with pytest.raises(ValueError, match="max_depth"):
        cls(learning_rate=None, max_depth=-2).fit(X, y)
