"""Models together with the dates they are about."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees
from hybridtrees import CARTClassifier, CARTRegressor, DateFeatures, LinearRegressor
from hybridtrees.prepare import PreparedClassifier, PreparedRegressor

DAYS = np.arange("2024-01-01", "2024-07-01", dtype="datetime64[D]")
X = {"day": DAYS, "x": np.arange(len(DAYS)) % 5.0}
MONTH = DAYS.astype("datetime64[M]").astype(int) % 12 + 1.0


def prepared(task):
    if task == "regression":
        return PreparedRegressor(dates=DateFeatures(), estimator=CARTRegressor()), MONTH
    names = np.array(["spring", "winter"], dtype=object)[(MONTH < 3).astype(int)]
    return PreparedClassifier(dates=DateFeatures(), estimator=CARTClassifier()), names


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_fit_predict_and_save(task, tmp_path):
    model, y = prepared(task)
    with pytest.raises(hybridtrees.base.NotFittedError):
        model.predict(X)
    assert model.fit(X, y).score(X, y) == 1.0
    assert model.feature_names_in_.tolist() == ["day", "x"] and model.n_features_in_ == 2
    model.save(tmp_path / "model.htree")
    again = hybridtrees.load(tmp_path / "model.htree")
    np.testing.assert_array_equal(again.predict(X), y)
    if task == "classification":
        assert again.classes_.tolist() == ["spring", "winter"]
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.summary() == model.estimator_.summary()
    assert not hasattr(model.dates, "date_columns_")  # parameters stay as they were


def test_parts_that_are_fitted_are_joined():
    dates = DateFeatures(parts=["month"]).fit(X)
    tree = CARTRegressor(max_depth=3).fit(dates.transform(X), MONTH)
    model = PreparedRegressor.of(dates, tree)
    np.testing.assert_array_equal(model.predict(X), tree.predict(dates.transform(X)))
    assert model.get_params()["estimator__max_depth"] == 3 and model.estimator_ is tree


def test_weights_reach_the_model():
    model, y = prepared("regression")
    weight = (MONTH == 2).astype(float)
    assert set(model.fit(X, y, sample_weight=weight).predict(X)) == {2.0}


@pytest.mark.parametrize("cyclic", [False, True])
def test_importances_are_those_of_the_columns_of_the_table(cyclic):
    late = DAYS + np.arange(len(DAYS)) % 3
    table = {
        "day": DAYS,
        "x": np.arange(len(DAYS)) % 5.0,
        "late": late,
        "same": DAYS[:1].repeat(len(DAYS)),
    }
    y = MONTH + table["x"]
    model = PreparedRegressor(dates=DateFeatures(cyclic=cyclic), estimator=CARTRegressor())
    assert not hasattr(model, "feature_importances_")
    model.fit(table, y)
    names = model.dates_.get_feature_names_out().tolist()
    own = model.estimator_.feature_importances_
    expected = [
        sum(own[k] for k, n in enumerate(names) if n == name or n.startswith(f"{name}_"))
        for name in table
    ]
    np.testing.assert_allclose(model.feature_importances_, expected, atol=1e-15)
    assert model.feature_importances_[3] == 0
    linear = PreparedRegressor(dates=DateFeatures(), estimator=LinearRegressor()).fit(table, y)
    assert not hasattr(linear, "feature_importances_")


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(TypeError, match="dates must be a DateFeatures and estimator a model"):
        PreparedRegressor(estimator=CARTRegressor()).fit(X, MONTH)
    model, y = prepared("regression")
    model.fit(X, y)
    model.estimator_ = CARTRegressor().fit(np.zeros((3, 2)), np.arange(3.0))
    with pytest.raises(ValueError, match="about other features"):
        model._check_state()
