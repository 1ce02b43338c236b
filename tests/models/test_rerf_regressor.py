"""RERF for regression: the sum of its parts, tuning, out-of-bag predictions, extrapolation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import hybridtrees
from hybridtrees.linear.regressor import LinearRegressor
from hybridtrees.models.forest.estimators import RandomForestRegressor
from hybridtrees.models.rerf.estimators import RERFClassifier, RERFRegressor


def line_and_step(rng, n=500, noise=0.1):
    X = rng.uniform(-2, 2, (n, 3))
    y = 3 * X[:, 0] + 4.0 * (X[:, 1] > 0.5) + noise * rng.standard_normal(n)
    return X, y


def forest_seed(random_state):
    return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])


@pytest.mark.parametrize("penalty", [None, "ridge", "lasso", "elasticnet"])
@pytest.mark.parametrize("splitter", ["hist", "exact"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sum_of_its_parts(rng, penalty, splitter, weighted):
    X, y = line_and_step(rng)
    weight = rng.random(len(y)) if weighted else None
    linear = {"penalty": penalty, "alpha": 0.01, "l1_ratio": 0.3}
    trees = {"n_estimators": 8, "max_depth": 5, "splitter": splitter, "max_features": "sqrt"}
    model = RERFRegressor(**trees, **linear, random_state=3, n_jobs=1).fit(X, y, weight)
    g = LinearRegressor(**linear, n_jobs=1).fit(X, y, weight)
    forest = RandomForestRegressor(
        **trees, min_samples_leaf=1, random_state=forest_seed(3), n_jobs=1
    ).fit(X, y - g.predict(X), weight)
    new = rng.uniform(-3, 3, (100, 3))
    np.testing.assert_allclose(model.predict(new), g.predict(new) + forest.predict(new), atol=1e-9)
    np.testing.assert_allclose(model.coef_, g.coef_, atol=1e-10)
    assert model.intercept_ == pytest.approx(g.intercept_)
    parts = model.partial(new)
    np.testing.assert_allclose(parts.linear, g.predict(new), atol=1e-9)
    np.testing.assert_allclose(parts.forest, forest.predict(new), atol=1e-9)
    np.testing.assert_array_equal(parts.linear + parts.forest, model.predict(new))


def test_several_outputs(rng):
    X, y = line_and_step(rng)
    Y = np.column_stack([y, -2 * X[:, 0]])
    model = RERFRegressor(n_estimators=5, penalty=None, random_state=0, n_jobs=1).fit(X, Y)
    assert model.predict(X).shape == (500, 2) and model.coef_.shape == (2, 3)
    # The second output is a line: there is nothing left for the forest.
    np.testing.assert_allclose(model.partial(X).forest[:, 1], 0, atol=1e-12)
    assert model.score(X, Y) > 0.99


def test_a_line_leaves_nothing_to_the_forest(rng):
    X = rng.standard_normal((1000, 5))
    y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 0.2 * rng.standard_normal(1000)
    model = RERFRegressor(n_estimators=50, random_state=0, n_jobs=1).fit(X[:700], y[:700])
    shares = model.variance_shares(X[700:])
    assert abs(shares.forest) < 0.02
    assert shares.linear + shares.forest == pytest.approx(1.0)


def test_a_step_leaves_nothing_to_the_line(rng):
    X = rng.uniform(-1, 1, (1000, 2))
    # Up and down again: no line helps.
    y = 5.0 * (np.abs(X[:, 0]) < 0.5)
    model = RERFRegressor(n_estimators=50, random_state=0, n_jobs=1).fit(X[:700], y[:700])
    assert abs(model.variance_shares(X[700:]).linear) < 0.02
    assert model.score(X[700:], y[700:]) > 0.97


def test_extrapolation_beyond_the_training_range(rng):
    X, y = line_and_step(rng, n=1000)
    beyond = rng.uniform(3, 6, (200, 3))
    truth = 3 * beyond[:, 0] + 4.0
    errors, alone = [], []
    for seed in range(5):  # one forest may be lucky
        trees = {"n_estimators": 50, "random_state": seed, "n_jobs": 1}
        hybrid = RERFRegressor(max_features="sqrt", **trees)
        forest = RandomForestRegressor(max_features="third", min_samples_leaf=5, **trees)
        for found, model in ((errors, hybrid), (alone, forest)):
            prediction = model.fit(X, y).predict(beyond)
            found.append(np.sqrt(np.mean((prediction - truth) ** 2)))
    assert min(alone) > 5.0  # the forest stays where the last rows were
    assert np.mean(errors) < 0.4 * np.mean(alone)


def test_out_of_bag_scores_of_the_sum(rng):
    X, y = line_and_step(rng, n=300)
    model = RERFRegressor(n_estimators=40, oob_score=True, random_state=1, n_jobs=1).fit(X, y)
    error = np.mean((model.oob_prediction_ - y) ** 2)
    assert model.oob_curve_[-1] == pytest.approx(error, rel=1e-9)
    assert model.oob_score_ == pytest.approx(1 - error / y.var(), rel=1e-9)


@pytest.mark.parametrize("by", ["oob", 3])
def test_tuning_finds_the_better_of_two_planted_settings(rng, by):
    X = rng.standard_normal((600, 10))
    y = X[:, 2:].sum(axis=1) + 6.0 * (X[:, 0] > 0) * (X[:, 1] > 0) + 0.3 * rng.standard_normal(600)
    # A sum of eight needs the line, which the strong penalty takes away; a corner two splits.
    settings = {
        "n_estimators": 30, "penalty": "lasso", "max_features": None, "random_state": 0, "n_jobs": 1
    }  # fmt: skip
    grid = {"alpha": [20.0, 0.01], "max_depth": [1, 5]}
    model = RERFRegressor(**settings, tune=grid, tune_by=by).fit(X, y)
    assert model.best_params_ == {"alpha": 0.01, "max_depth": 5}
    errors = {tuple(r["params"].values()): r["error"] for r in model.tune_results_}
    assert len(errors) == 4
    assert model.best_score_ == min(errors.values())
    same = RERFRegressor(**settings, **model.best_params_).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), same.predict(X))


def test_tuning_by_folds_is_cross_validation(rng):
    X, y = line_and_step(rng, n=120)
    folds = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    settings = {"n_estimators": 5, "random_state": 0, "n_jobs": 1}
    model = RERFRegressor(**settings, tune={"max_depth": [2, 4]}, tune_by=folds).fit(X, y)
    for result in model.tune_results_:
        errors = []
        for train, test in folds:
            part = RERFRegressor(**settings, **result["params"]).fit(X[train], y[train])
            errors.append(np.mean((part.predict(X[test]) - y[test]) ** 2))
        assert result["error"] == pytest.approx(np.mean(errors), rel=1e-9)


def test_what_does_not_change_is_made_once(rng, monkeypatch):
    from hybridtrees.core.grow.table import Table
    from hybridtrees.linear import regression

    X, y = line_and_step(rng)
    made = {"tables": 0, "moments": 0}
    whole_table, whole_moments = Table.__init__, regression.collect_products

    def count(what, function):
        def counted(*args, **kwargs):
            made[what] += 1
            return function(*args, **kwargs)

        return counted

    monkeypatch.setattr(Table, "__init__", count("tables", whole_table))
    monkeypatch.setattr(regression, "collect_products", count("moments", whole_moments))
    grid = {"alpha": [1.0, 0.1], "max_depth": [2, 3], "min_samples_leaf": [1, 4]}
    model = RERFRegressor(n_estimators=3, tune=grid, random_state=0, n_jobs=1).fit(X, y)
    assert len(model.tune_results_) == 8
    assert made == {"tables": 1, "moments": 1}


def test_default_grid_and_lists_of_grids(rng):
    X, y = line_and_step(rng, n=150)
    model = RERFRegressor(n_estimators=4, tune=True, random_state=0, n_jobs=1).fit(X, y)
    assert len(model.tune_results_) == 5 * 2 * 3
    plain = RERFRegressor(4, penalty=None, tune=True, random_state=0, n_jobs=1).fit(X, y)
    assert len(plain.tune_results_) == 2 * 3
    grids = [{"penalty": [None]}, {"penalty": ["lasso"], "alpha": [0.1, 0.01]}]
    model = RERFRegressor(n_estimators=4, tune=grids, random_state=0, n_jobs=1).fit(X, y)
    assert [r["params"].get("penalty") for r in model.tune_results_] == [None, "lasso", "lasso"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tune": {"depth": [1]}}, "tune names 'depth'"),
        ({"tune": {"max_depth": 3}}, "tune must give a list of values for 'max_depth'"),
        ({"tune": {"alpha": [-1.0]}}, "alpha must be"),
        ({"tune": {"max_depth": [0]}}, "max_depth must be"),
        ({"tune": True, "tune_by": "aic"}, "tune_by must be"),
        ({"penalty": "l1"}, "penalty must be one of"),
        ({"categorical_encoding": "hash"}, "categorical_encoding must be one of"),
        ({"n_estimators": 0}, "n_estimators must be"),
    ],
)
def test_wrong_parameters_are_refused_before_any_work(parameters, message):
    model = RERFRegressor(n_estimators=2, n_jobs=1, random_state=0)
    model.fit([[0.0], [1.0], [3.0]], [0.0, 1.0, 5.0])
    before = model.predict([[2.0]])
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit("no table at all", None)
    np.testing.assert_array_equal(model.predict([[2.0]]), before)
    with pytest.raises(TypeError, match="tune must be a bool"):
        RERFRegressor(tune=3).fit([[0.0], [1.0]], [0.0, 1.0])


def test_linear_features(rng):
    pandas = pytest.importorskip("pandas")
    X, y = line_and_step(rng)
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    settings = {"n_estimators": 5, "penalty": None, "random_state": 0, "n_jobs": 1}
    models = [
        RERFRegressor(**settings, linear_features=chosen).fit(frame, y)
        for chosen in (["a", "c"], [0, 2], [True, False, True])
    ]
    g = LinearRegressor(n_jobs=1).fit(X[:, [0, 2]], y)
    for model in models:
        assert list(model.term_names_) == ["a", "c"]
        np.testing.assert_allclose(model.term_coef_, g.coef_)
        np.testing.assert_array_equal(model.predict(frame), models[0].predict(frame))
    assert models[0].feature_importances_[1] > 0.5  # the forest has all features
    with pytest.raises(ValueError, match="linear_features names 'd', which X does not have"):
        RERFRegressor(linear_features=["d"]).fit(frame, y)
    with pytest.raises(ValueError, match="at least one feature"):
        RERFRegressor(linear_features=[]).fit(frame, y)


def shops(rng, n=400):
    pandas = pytest.importorskip("pandas")
    shop = rng.choice(["mall", "centre", "village"], n)
    size = rng.uniform(1, 5, n)
    level = {"mall": 30.0, "centre": 10.0, "village": 0.0}
    y = np.array([level[s] for s in shop]) + 2 * size + rng.standard_normal(n)
    frame = pandas.DataFrame({"shop": shop, "size": size})
    frame.loc[:9, "shop"] = None
    frame.loc[5:15, "size"] = np.nan
    return frame, y


@pytest.mark.parametrize("encoding", ["onehot", "target_mean"])
def test_categories_and_missing_values(rng, encoding):
    frame, y = shops(rng)
    model = RERFRegressor(
        n_estimators=20, categorical_encoding=encoding, random_state=0, n_jobs=1
    ).fit(frame, y)
    names = list(model.term_names_)
    if encoding == "onehot":
        assert names == ["size", "shop=centre", "shop=mall", "shop=village"]
    else:
        assert names == ["mean of shop", "size"]
        overall = y.mean()
        mall = y[frame["shop"] == "mall"]
        expected = (mall.sum() + overall) / (len(mall) + 1)
        made = model._columns.make(model._read_features(frame.iloc[20:30]))
        rows = (frame["shop"].iloc[20:30] == "mall").to_numpy()
        np.testing.assert_allclose(made[rows, 0], expected, rtol=1e-5)
        assert model.term_coef_[0] == pytest.approx(1.0, abs=0.1)
    assert model.score(frame, y) > 0.98
    unseen = frame.iloc[20:25].assign(shop="moon")
    gone = frame.iloc[20:25].assign(shop=None)
    np.testing.assert_array_equal(model.predict(unseen), model.predict(gone))


def test_sparse_tables(rng):
    from scipy import sparse

    X = rng.standard_normal((200, 6)) * (rng.random((200, 6)) < 0.4)
    y = X[:, 0] + 3.0 * (X[:, 1] > 0.2)
    dense = RERFRegressor(n_estimators=5, random_state=0, n_jobs=1).fit(X, y)
    model = RERFRegressor(n_estimators=5, random_state=0, n_jobs=1).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.predict(sparse.csc_array(X)), dense.predict(X), atol=1e-9)


def test_threads_and_seeds(rng):
    X, y = line_and_step(rng, n=3000)
    one, two = (
        RERFRegressor(n_estimators=6, random_state=4, n_jobs=k).fit(X, y).predict(X) for k in (1, 2)
    )
    np.testing.assert_array_equal(one, two)
    other = RERFRegressor(n_estimators=6, random_state=5, n_jobs=1).fit(X, y)
    assert not np.array_equal(one, other.predict(X))


@pytest.mark.parametrize("make", [RERFRegressor, RERFClassifier])
@pytest.mark.parametrize("encoding", ["onehot", "target_mean"])
def test_files_and_pickles(rng, tmp_path, make, encoding):
    frame, y = shops(rng)
    target = y if make is RERFRegressor else np.digitize(y, [10, 30])
    model = make(
        n_estimators=4, tune={"max_depth": [2, 5]}, categorical_encoding=encoding,
        oob_score=True, random_state=0, n_jobs=1,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="no out-of-bag prediction"):
        model.fit(frame, target)
    model.save(tmp_path / "model.zip")
    for other in (hybridtrees.load(tmp_path / "model.zip"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(other.predict_raw(frame), model.predict_raw(frame))
        assert other.summary() == model.summary()
        assert other.best_params_ == model.best_params_


def test_summary_names_both_parts(rng):
    X, y = line_and_step(rng)
    model = RERFRegressor(n_estimators=20, oob_score=True, random_state=0, n_jobs=1).fit(X, y)
    text = model.summary()
    assert "3 columns, 3 with a coefficient, ridge penalty, alpha 0.001" in text
    assert "trees 20" in text and "out-of-bag score of the sum" in text


def test_alpha_by_cross_validation(rng):
    X, y = line_and_step(rng)
    model = RERFRegressor(n_estimators=2, penalty="lasso", alpha="cv", n_jobs=1).fit(X, y)
    chosen = LinearRegressor(penalty="lasso", alpha="cv", n_jobs=1).fit(X, y)
    assert model.alpha_ == chosen.alpha_


@pytest.mark.parametrize("make", [RERFRegressor, RERFClassifier])
def test_warm_start_continues_the_same_forest(rng, make):
    X, y = line_and_step(rng)
    target = y if make is RERFRegressor else np.digitize(y, [0.0, 5.0])
    params = {"oob_score": True, "random_state": 3, "n_jobs": 1, "max_depth": 4}
    whole = make(n_estimators=40, **params).fit(X, target)
    model = make(n_estimators=20, warm_start=True, **params).fit(X, target)
    first = model.forest_
    model.set_params(n_estimators=40).fit(X, target)
    np.testing.assert_array_equal(model.predict_raw(X), whole.predict_raw(X))
    np.testing.assert_array_equal(model.oob_curve_, whole.oob_curve_)
    assert model.oob_score_ == whole.oob_score_
    assert (first.n_estimators_, model.forest_.n_estimators_) == (20, 40)
    # Another regression leaves other residuals.
    with pytest.raises(ValueError, match="the same regression"):
        model.set_params(n_estimators=50, alpha=1.0).fit(X, target)
    with pytest.raises(ValueError, match="cannot be combined with tune"):
        model.set_params(alpha=1e-3, tune=True).fit(X, target)
    assert model.forest_.n_estimators_ == 40
