"""Cross-validation against loops written out, and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees import CARTClassifier, LinearRegressor, RandomForestRegressor, XGBClassifier, cv
from hybridtrees.datasets import load_breast_cancer
from hybridtrees.input.folds import make_folds


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.1 * rng.normal(size=120)


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer()
    return data.data, data.target


def test_scores_and_predictions_are_those_of_a_loop(table):
    X, y = table
    result = cv(LinearRegressor(), X, y, folds=4, scoring=["rmse", "neg_mean_squared_error", "r2"])
    seen = np.zeros(120)
    for k, (train, test) in enumerate(result.folds):
        assert not set(train) & set(test)
        predicted = LinearRegressor().fit(X[train], y[train]).predict(X[test])
        seen[test] += 1
        np.testing.assert_array_equal(result.predictions[test], predicted)
        mse = np.mean((predicted - y[test]) ** 2)
        assert result.scores["rmse"][k] == pytest.approx(np.sqrt(mse))
        assert result.scores["neg_mean_squared_error"][k] == pytest.approx(-mse)
        assert result.scores["r2"][k] == pytest.approx(1 - mse / np.var(y[test]))
    assert (seen == 1).all() and len(result.folds) == 4
    assert result.mean["rmse"] == pytest.approx(result.scores["rmse"].mean())
    assert "rmse" in str(result) and result.stages is None and result.models is None


def test_classes_of_text_are_aligned_and_dealt_out_evenly(cancer):
    X, y = cancer
    labels = np.where(y == 1, "malign", "benign")
    result = cv(CARTClassifier(max_depth=3), X, labels, scoring=["accuracy", "logloss"])
    shares = [np.mean(labels[test] == "malign") for _, test in result.folds]
    assert np.ptp(shares) < 0.02
    np.testing.assert_allclose(result.predictions.sum(axis=1), 1.0)
    hits = result.predictions[:, 1] > 0.5
    assert np.mean(hits == (labels == "malign")) == pytest.approx(result.mean["accuracy"], abs=0.01)


def test_the_best_number_of_rounds(cancer):
    X, y = cancer
    model = XGBClassifier(n_estimators=25, max_depth=3)
    result = cv(model, X, y, folds=3, scoring="logloss", staged=True, keep_models=True)
    assert result.stages["logloss"].shape == (3, 25)
    np.testing.assert_allclose(result.stages["logloss"][:, -1], result.scores["logloss"])
    best = result.best_stage["logloss"]
    assert result.stages["logloss"].mean(axis=0)[best - 1] == result.stages["logloss"].mean(0).min()
    assert len(result.models) == 3
    forest = RandomForestRegressor(n_estimators=5, random_state=0)
    assert cv(forest, X, X[:, 0], folds=2, staged=True).stages["r2"].shape == (2, 5)
    with pytest.raises(ValueError, match="staged_predict, got LinearRegressor"):
        cv(LinearRegressor(), X, X[:, 0], staged=True)


def test_groups_stay_together_and_time_goes_forward(table):
    X, y = table
    groups = np.random.default_rng(1).integers(17, size=120)
    result = cv(LinearRegressor(), X, y, groups=groups, repeats=2)
    assert len(result.folds) == 10
    for train, test in result.folds:
        assert not set(groups[train]) & set(groups[test])
    sizes = [len(test) for _, test in result.folds[:5]]
    assert max(sizes) - min(sizes) < 15
    time = np.random.default_rng(2).permutation(120)
    result = cv(LinearRegressor(), X, y, time=time)
    for train, test in result.folds:
        assert time[train].max() < time[test].min()
    assert np.isnan(result.predictions).sum() == 20  # the first sixth is never tested
    coarse = np.repeat(np.arange(12), 10)
    for train, test in cv(LinearRegressor(), X, y, time=coarse, folds=4).folds:
        assert coarse[train].max() < coarse[test].min()
    with pytest.raises(ValueError, match="at least 13 distinct times, got 12"):
        cv(LinearRegressor(), X, y, time=coarse, folds=12)
    with pytest.raises(ValueError, match="groups or time, not both"):
        cv(LinearRegressor(), X, y, time=coarse, groups=groups)
    with pytest.raises(ValueError, match="time needs a number of folds"):
        cv(LinearRegressor(), X, y, time=coarse, folds=[([0, 1], [2, 3])])
    with pytest.raises(ValueError, match="time must be numbers or dates"):
        cv(LinearRegressor(), X, y, time=coarse.astype(str))
    with pytest.raises(ValueError, match="time must not have missing"):
        cv(LinearRegressor(), X, y, time=np.where(coarse == 3, np.nan, coarse))
    with pytest.raises(ValueError, match="at least as many groups, got 17"):
        make_folds(18, 120, groups=groups)


def test_weights_and_folds_of_scikit_learn(table):
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = table
    splitter = selection.KFold(3, shuffle=True, random_state=0)
    ours = cv(LinearRegressor(), X, y, folds=splitter).scores["r2"]
    theirs = selection.cross_val_score(LinearRegressor(), X, y, cv=splitter)
    np.testing.assert_allclose(ours, theirs)
    weight = np.random.default_rng(0).random(120)
    result = cv(LinearRegressor(), X, y, folds=splitter, sample_weight=weight)
    train, test = result.folds[0]
    model = LinearRegressor().fit(X[train], y[train], weight[train])
    assert result.scores["r2"][0] == pytest.approx(model.score(X[test], y[test], weight[test]))


def test_the_sign_is_that_of_the_score_and_not_of_its_key(table):
    X, y = table
    keys = {"mine": "neg_mean_squared_error", "neg_rmse": "rmse"}
    result = cv(LinearRegressor(), X, y, scoring=keys)
    assert result.mean["mine"] < 0 < result.mean["neg_rmse"]
    assert len(repr(result).splitlines()) == 3
    forest = RandomForestRegressor(n_estimators=3, random_state=0)
    with pytest.raises(ValueError, match="staged=True scores by names"):
        cv(forest, X, y, staged=True, scoring={"own": lambda model, X, y: 0.0})


def test_another_library_s_model(table):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = table
    ours, theirs = cv(LinearRegressor(), X, y), cv(linear_model.LinearRegression(), X, y)
    np.testing.assert_allclose(ours.scores["r2"], theirs.scores["r2"])
    labels = np.array(["a", "b"])[(y > 0).astype(int)]
    result = cv(linear_model.RidgeClassifier(), X, labels)  # has no predict_proba
    assert set(result.predictions) == {"a", "b"}


def test_frames_with_categories():
    houses = ht.datasets.make_house_prices(300, random_state=0, as_frame=True)
    result = cv(ht.XGBRegressor(n_estimators=20), houses.data, houses.target, folds=3)
    assert result.mean["r2"] > 0.5


def test_what_cannot_be(table):
    X, y = table
    with pytest.raises(TypeError, match="estimator must have the method fit"):
        cv("tree", X, y)
    with pytest.raises(TypeError, match="estimator must have the method"):
        cv(LinearRegressor, X, y)
    with pytest.raises(ValueError, match="folds=121 folds need"):
        cv(LinearRegressor(), X, y, folds=121)
    with pytest.raises(TypeError, match="folds must be"):
        cv(LinearRegressor(), X, y, folds="five")
    with pytest.raises(ValueError, match="repeats=2 needs a number of folds"):
        cv(LinearRegressor(), X, y, time=y, repeats=2)
    with pytest.raises(ValueError, match="groups must have one entry for each of the 120"):
        cv(LinearRegressor(), X, y, groups=[1, 2])
    rare = np.where(np.arange(120) == 3, "rare", "usual")
    with pytest.raises(ValueError, match="tests rows of the class 'rare'"):
        cv(CARTClassifier(), X, rare)


def test_the_estimator_is_left_as_it_was(table):
    X, y = table
    model = LinearRegressor()
    cv(model, X, y)
    assert not hasattr(model, "coef_")
    assert ht.metrics.METRICS and ht.callbacks.TrainingCallback and ht.datasets.load_breast_cancer
