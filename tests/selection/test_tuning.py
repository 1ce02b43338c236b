"""Search by halving: what is fitted to which rows, what is continued, what is found."""

from __future__ import annotations

import numpy as np
import pytest
from search_spy import LEVELS, Spy

import hybridtrees as ht
from hybridtrees import cv, tune
from hybridtrees.datasets import load_breast_cancer, make_house_prices
from hybridtrees.input.folds import make_folds
from hybridtrees.selection.halving import n_survivors, rung_shrinks

FEW = {"n_trials": 5, "cv": 3, "max_resource": 60}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_normal(400)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


@pytest.fixture
def spied():
    Spy.fits, Spy.asked = [], []
    rng = np.random.default_rng(1)
    return np.column_stack([np.arange(6000.0), rng.normal(size=6000)]), rng.normal(size=6000)


def test_rungs():
    assert [n_survivors(n) for n in (1, 2, 3, 4, 30)] == [1, 1, 1, 2, 10]
    assert rung_shrinks(1000, 20, 30) == [27, 9, 3, 1]
    assert rung_shrinks(1000, 20, 2) == [3, 1]
    assert rung_shrinks(100, 500, 30) == [1]


@pytest.mark.parametrize("kind", ["plain", "groups", "time"])
def test_rows_of_folds_and_rungs(spied, kind):
    """Test rows are never fitted; groups are whole, time runs forward, rungs are nested."""
    X, y = spied
    rng = np.random.default_rng(2)
    group = rng.integers(0, 200, 6000)
    when = rng.permutation(6000) // 3
    given = {"plain": {}, "groups": {"groups": group}, "time": {"time": when}}[kind]
    result = tune(Spy(), X, y, params=LEVELS, cv=3, n_jobs=1, refit=False, n_trials=10, **given)
    assert result.resource == "rows"
    assert [rung.n_trials for rung in result.rungs] == [10, 4]
    assert len(Spy.fits) == len(Spy.asked) == 3 * (10 + 4)
    before: dict[bytes, set] = {}
    for fitted, asked in zip(Spy.fits, Spy.asked, strict=True):
        rows, tested = fitted.astype(int), asked.astype(int)
        assert not set(rows) & set(tested)
        if kind == "groups":
            assert not set(group[rows]) & set(group[tested])
            assert np.isin(group, group[rows]).sum() == len(rows)
        if kind == "time":
            assert when[rows].max() < when[tested].min()
            later = when[(when > when[rows].min()) & (when < when[tested].min())]
            assert np.isin(later, when[rows]).all()
        key = tested.tobytes()
        assert before.setdefault(key, set(rows)) <= set(rows)
    sizes = sorted({len(rows) for rows in Spy.fits})
    assert sizes[0] < 0.4 * sizes[-1]


MODELS = {
    "xgb": ht.XGBRegressor(subsample=0.6, learning_rate=0.05, random_state=3),
    "xgb gradients": ht.XGBRegressor(
        subsample=0.3, learning_rate=0.05, sampling_method="gradient_based", random_state=3
    ),
    "plgb": ht.PLGBRegressor(
        subsample=0.6, learning_rate=0.05, colsample_bynode=0.7, random_state=3
    ),
    "gb": ht.GradientBoostingRegressor(subsample=0.6, learning_rate=0.05, random_state=3),
    "forest": ht.RandomForestRegressor(max_features="sqrt", random_state=3),
    "linear forest": ht.LinearForestRegressor(max_depth=1, random_state=3),
    "rerf": ht.RERFRegressor(random_state=3),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_continued_fit_is_one_fit(table, name):
    """Bit for bit: the scores of the last rung are those of a cross-validation."""
    X, y = table[0][:200], table[1][:200]
    most = 63
    result = tune(
        MODELS[name], X, y, params={"max_depth": [1, 2, 3]}, cv=2, max_resource=most, n_trials=4
    )
    assert len(result.rungs) == 2
    best = result.best_trial
    assert best.amount > result.rungs[0].amount
    whole = type(MODELS[name])(**{**MODELS[name].get_params(deep=False), **result.best_params_})
    rng = np.random.default_rng(np.random.SeedSequence(0).spawn(4)[0])
    folds = make_folds(2, len(y), rng=rng)
    scores = cv(whole, X, y, folds=folds, scoring="rmse").scores["rmse"]
    np.testing.assert_array_equal(scores, best.fold_scores)
    np.testing.assert_array_equal(whole.fit(X, y).predict(X), result.best_estimator_.predict(X))


def test_threads_do_not_matter_and_the_seed_does(table):
    X, y = table
    space = {"params": {"subsample": [0.3, 0.5, 0.7], "reg_lambda": [1, 3, 10]}}
    found = [
        tune(ht.XGBRegressor(max_depth=2), X, y, random_state=seed, n_jobs=n_jobs, **space, **FEW)
        for seed, n_jobs in ((0, 1), (0, 2), (1, 2))
    ]
    for one, two in zip(found[0].trials, found[1].trials, strict=True):
        assert (one.params, one.curve, one.amount) == (two.params, two.curve, two.amount)
    predictions = [one.best_estimator_.predict(X) for one in found]
    np.testing.assert_array_equal(*predictions[:2])
    assert [t.params for t in found[0].trials] != [t.params for t in found[2].trials]
    assert found[1].best_estimator_.n_jobs is None


def test_the_estimator_stays_as_it_is_and_is_the_first_trial(table):
    X, y = table
    model = ht.XGBRegressor(early_stopping_rounds=5, max_depth=2)
    before = dict(vars(model))
    result = tune(model, X, y, params={"gamma": [1e9]}, **FEW)
    assert vars(model) == before
    assert result.trials[0].params == {}
    assert result.best_trial is result.trials[0]
    assert result.best_estimator_.early_stopping_rounds is None
    assert result.best_estimator_.n_iter_ == result.best_params_["n_estimators"]


def test_smaller_steps_have_more_rounds(table):
    X, y = table
    rates: dict[str, list] = {"learning_rate": [0.05, 0.2], "max_depth": [3]}
    model = ht.XGBRegressor(learning_rate=0.1, max_depth=3)
    result = tune(model, X, y, params=rates, cv=2, max_resource=40, n_trials=3)
    for trial in result.trials:
        level = result.rungs[trial.rung].amount
        assert max(trial.curve) == level * 0.1 / trial.params.get("learning_rate", 0.1)
    rates["learning_rate"] = [1e-9]
    result = tune(model, X, y, params=rates, cv=2, max_resource=20, n_trials=2)
    assert max(result.trials[1].curve) == 200


def test_weights_categories_and_missing_values():
    houses = make_house_prices(300, random_state=0, as_frame=True)
    weight = np.random.default_rng(0).exponential(size=300)
    weight[:100] = 0
    result = tune(
        ht.PLGBRegressor(), houses.data, houses.target, sample_weight=weight,
        params={"max_leaves": [4, 8]}, scoring="mae", cv=3, max_resource=40,
    )  # fmt: skip
    params = {**result.best_params_, "random_state": result.best_estimator_.random_state}
    own = ht.PLGBRegressor(**params).fit(houses.data, houses.target, sample_weight=weight)
    np.testing.assert_array_equal(
        own.predict(houses.data), result.best_estimator_.predict(houses.data)
    )


@pytest.mark.parametrize(
    ("scoring", "name"), [(None, "logloss"), ("auc", "auc"), ("neg_log_loss", "neg_log_loss")]
)
def test_scores_of_classifiers(scoring, name):
    data = load_breast_cancer()
    y = np.where(data.target == 1, "yes", "no")
    model = ht.XGBClassifier(learning_rate=0.2)
    result = tune(model, data.data, y, params={"max_depth": [1, 3]}, scoring=scoring, **FEW)
    assert result.scoring == name
    scores = [t.score for t in result.trials if t.rung == result.best_trial.rung]
    assert result.best_score_ == (min(scores) if name == "logloss" else max(scores))
    assert set(result.best_estimator_.predict(data.data)) == {"yes", "no"}


def test_a_function_as_score_sees_the_model(table):
    X, y = table
    seen = []

    def score(model, X, y):
        seen.append(model.n_iter_)
        return -float(np.mean(np.abs(model.predict(X) - y)))

    model = ht.XGBRegressor(learning_rate=0.1)
    result = tune(model, X, y, params={"max_depth": [2, 4]}, scoring=score, cv=2, max_resource=60)
    assert {20, 60} <= set(seen) <= set(range(20, 61))
    assert len(set(seen)) < 6
    assert result.larger_is_better
    assert result.best_params_["n_estimators"] in seen


def test_a_rare_class_is_on_every_rung():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    y = (X[:, 0] > 0).astype(int)
    y[rng.choice(4000, 8, replace=False)] = 2
    result = tune(
        ht.CARTClassifier(max_depth=4), X, y, params={"max_depth": [1, 2, 3]}, cv=2, n_trials=4
    )
    assert len(result.rungs) == 2
    assert not any(trial.error for trial in result.trials)


def test_nested_parameters_and_distributions(table):
    stats = pytest.importorskip("scipy.stats")
    X, y = table
    model = ht.BaggingRegressor(ht.CARTRegressor(), n_estimators=3)
    space = {"estimator__max_depth": stats.randint(1, 6), "max_samples": stats.uniform(0.5, 0.5)}
    result = tune(model, X, y, params=space, n_trials=5, cv=2)
    assert result.resource == "rows"
    assert len({t.params["max_samples"] for t in result.trials[1:]}) == 4
    assert type(result.trials[1].params["estimator__max_depth"]) is int
    several = [{"max_depth": [1, 2]}, {"min_samples_leaf": [5]}]
    result = tune(ht.CARTRegressor(), X, y, params=several, cv=2)
    assert [t.params for t in result.trials] == [
        {}, {"max_depth": 1}, {"max_depth": 2}, {"min_samples_leaf": 5}
    ]  # fmt: skip


def test_models_of_other_packages(table):
    pipeline = pytest.importorskip("sklearn.pipeline")
    linear = pytest.importorskip("sklearn.linear_model")
    X, y = np.nan_to_num(table[0]), table[1]
    model = pipeline.Pipeline([("line", linear.Ridge())])
    result = tune(model, X, y, params={"line__alpha": [0.1, 10.0]}, cv=2)
    assert len(result.trials) == 3
    assert result.best_estimator_.predict(X).shape == y.shape
