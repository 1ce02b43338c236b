"""RERF's third step: odd values of `tune` and `tune_by`, and settings that cannot be judged."""

import numpy as np
import pytest

from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor

TWO_DEPTHS = {"max_depth": [1, 2]}


def small_table(rng, n=60):
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + (X[:, 1] > 0)


def small_model(make=RERFRegressor, **params):
    return make(**{"n_estimators": 5, "random_state": 0, "n_jobs": 1, **params})


def test_booleans_of_numpy(rng):
    X, y = small_table(rng)
    model = small_model(tune=np.False_, oob_score=np.False_, warm_start=np.True_).fit(X, y)
    assert not hasattr(model, "best_params_") and not hasattr(model, "oob_score_")
    model = small_model(tune=np.True_, n_estimators=30).fit(X, y)
    assert len(model.tune_results_) == 30


@pytest.mark.filterwarnings("ignore:Some rows were in the sample:UserWarning")
@pytest.mark.filterwarnings("ignore:R2 is not defined:UserWarning")
def test_settings_without_an_error_are_passed_over(rng):
    X, y = rng.normal(size=(2, 5)), rng.normal(size=2)
    grid = {"n_estimators": [50, 1]}
    seeds = range(8)
    models = [small_model(tune=grid, random_state=seed).fit(X, y) for seed in seeds]
    errors = np.array([[result["error"] for result in m.tune_results_] for m in models])
    assert np.isnan(errors[:, 1]).any()  # both rows in the one sample
    for model, row in zip(models, errors, strict=True):
        assert model.best_score_ == np.nanmin(row)
        assert len(model.forest_.trees_) == model.best_params_["n_estimators"]
    with pytest.raises(ValueError, match="tune_by='oob' found no error for any setting"):
        small_model(tune=grid).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="tune_by needs training and test rows"):
        small_model(tune=grid, tune_by=2).fit(X[:1], y[:1])
    assert np.isnan(small_model(oob_score=True).fit(X[:1], y[:1]).oob_score_)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (1, "tune_by must be an integer of at least 2"),
        (1000, "tune_by=1000 folds need"),
        ("aic", "tune_by must be 'oob', a number of folds or"),
        ([(1,)], "tune_by must hold pairs"),
        ([([0], [99])], "tune_by holds row numbers outside"),
        (2.5, "tune_by must be"),
    ],
)
def test_messages_name_tune_by(rng, by, message):
    X, y = small_table(rng)
    with pytest.raises((ValueError, TypeError), match=message):
        small_model(tune=TWO_DEPTHS, tune_by=by).fit(X, y)


def test_tuning_out_of_the_bag_needs_a_bag(rng):
    X, y = small_table(rng)
    with pytest.raises(ValueError, match="tune_by='oob' needs out-of-bag rows"):
        small_model(tune=TWO_DEPTHS, bootstrap=False).fit(X, y)
    # Folds do without.
    small_model(tune=TWO_DEPTHS, tune_by=2, bootstrap=False).fit(X, y)


def test_iterators_are_read_once(rng):
    X, y = small_table(rng)
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    first = small_model(tune=TWO_DEPTHS, tune_by=iter(folds)).fit(X, y)
    assert (
        first.tune_results_ == small_model(tune=TWO_DEPTHS, tune_by=folds).fit(X, y).tune_results_
    )
    linear = {"penalty": "lasso", "alpha": "cv"}
    alphas = [small_model(**linear, cv=cv).fit(X, y).alpha_ for cv in (iter(folds), folds)]
    assert alphas[0] == alphas[1]


@pytest.mark.parametrize("make", [RERFRegressor, RERFClassifier])
def test_folds_of_rows_without_weight(rng, make):
    X, y = small_table(rng)
    y = y if make is RERFRegressor else y > 0
    weight = np.zeros(60)
    weight[:8] = 1.0
    with pytest.raises(ValueError, match="tune_by=10 folds .* positive sample_weight, got 8"):
        small_model(make, tune=TWO_DEPTHS, tune_by=10).fit(X, y, weight)
    model = small_model(make, tune=TWO_DEPTHS, tune_by=4).fit(X, y, weight)
    assert np.isfinite(model.best_score_)


def test_a_tuned_forest_can_be_continued(rng):
    X, y = small_table(rng)
    model = small_model(tune={"alpha": [10.0, 0.01]}, tune_by=3).fit(X, y)
    assert model.alpha_ == 0.01
    model.set_params(tune=False, warm_start=True, n_estimators=9, alpha=0.01).fit(X, y)
    whole = small_model(n_estimators=9, alpha=0.01).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    judged = small_model(tune={"alpha": [0.01, 10.0]}, n_estimators=20).fit(X, y)
    judged.set_params(tune=False, warm_start=True, n_estimators=25, alpha=0.01).fit(X, y)
    assert len(judged.forest_.trees_) == 25
