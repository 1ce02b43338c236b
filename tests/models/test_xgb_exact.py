"""XGBRegressor and XGBClassifier that look at every threshold, or at few that they propose anew."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from xgb_data import TASKS, integer_table, output, smooth_table, target

from hybridtrees import XGBClassifier, XGBRegressor

METHODS = {
    "exact": {"tree_method": "exact"},
    "global": {"tree_method": "approx", "sketch": "global"},
    "local": {"tree_method": "approx", "sketch": "local"},
}
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_TASK = pytest.mark.parametrize("task", TASKS)


def make(task, method, **params):
    cls = XGBRegressor if task == "regression" else XGBClassifier
    return cls(**({"n_estimators": 6, "n_jobs": 1} | METHODS[method] | params))


def data(task, n=600, missing=0.1):
    X, y = smooth_table(n)
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < missing] = np.nan
    return X, target(task, y), rng.random(n) + 0.5


def same_model(a, b, X):
    np.testing.assert_array_equal(a.trees_.nodes, b.trees_.nodes)
    np.testing.assert_array_equal(a.trees_.values, b.trees_.values)
    np.testing.assert_array_equal(a.trees_.categories, b.trees_.categories)
    np.testing.assert_array_equal(a.predict_raw(X), b.predict_raw(X))


# ---- threads, samples, growth -------------------------------------------------------------------


@EVERY_METHOD
@EVERY_TASK
def test_threads_change_nothing(task, method):
    # Large enough for the threads to be used.
    X, y, weight = data(task, 9000)
    params = {"n_estimators": 3, "subsample": 0.8, "colsample_bynode": 0.7, "random_state": 3}
    fitted = [make(task, method, **params, n_jobs=n_jobs).fit(X, y, weight) for n_jobs in (1, 2, 3)]
    for other in fitted[1:]:
        same_model(fitted[0], other, X[:500])


@EVERY_METHOD
@EVERY_TASK
@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_raw_scores_of_training_are_those_of_prediction(task, method, subsample):
    # Rounds after the first stand on the scores that training kept: had they gone wrong, the
    # loss on the training rows would not be the one that the predictions have.
    X, y, weight = data(task)
    model = make(task, method, subsample=subsample, random_state=0, n_estimators=8)
    model.fit(X, y, weight, eval_set=[(X, y)])
    again = make(task, method, subsample=subsample, random_state=0, n_estimators=8)
    same_model(model, again.fit(X, y, weight), X)
    curve = next(iter(model.evals_result()["validation_0"].values()))
    assert curve[-1] < 0.8 * curve[0]
    # The next tree is fitted to what is left: its root's sum is that of the predictions.
    if task == "regression" and subsample == 1.0:
        longer = make(task, method, n_estimators=9).fit(X, y, weight)
        left = np.average(y - model.predict_raw(X)[:, 0], weights=weight)
        root = longer.trees_[8].values[0, 0] / 0.3
        np.testing.assert_allclose(root, left * weight.sum() / (weight.sum() + 1), rtol=1e-4)


@EVERY_METHOD
def test_samples_of_rows_and_features(method):
    X, y, _ = data("regression")
    fitted = {}
    for name, params in {
        "all": {},
        "rows": {"subsample": 0.5},
        "tree": {"colsample_bytree": 0.5},
        "level": {"colsample_bylevel": 0.5},
        "node": {"colsample_bynode": 0.5},
    }.items():
        model = make("regression", method, random_state=1, **params).fit(X, y)
        same_model(model, make("regression", method, random_state=1, **params).fit(X, y), X)
        fitted[name] = model.predict(X)
        if name != "all":
            other = make("regression", method, random_state=2, **params).fit(X, y)
            assert not np.array_equal(other.predict(X), fitted[name])
    for name in fitted.keys() - {"all"}:
        assert not np.array_equal(fitted[name], fitted["all"])
    trees = make("regression", method, colsample_bytree=0.25, random_state=0).fit(X, y).trees_
    for k in range(len(trees)):
        features = trees[k].nodes["feature"]
        assert len(set(features[features >= 0])) <= 2


@EVERY_METHOD
def test_lossguide_and_limits(method):
    X, y, _ = data("regression", 1500)
    params = {"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 17}
    trees = make("regression", method, **params).fit(X, y).trees_
    assert {trees[k].n_leaves for k in range(len(trees))} == {17}
    trees = make("regression", method, max_depth=3).fit(X, y).trees_
    assert {trees[k].depth for k in range(len(trees))} == {3}
    model = make("regression", method, max_depth=0, min_child_weight=40).fit(X, y)
    assert model.trees_.nodes["weight"].min() >= 40
    trees = make("regression", method, gamma=1e4).fit(X, y).trees_
    for nodes in (trees[k].nodes for k in range(len(trees))):
        inner = nodes["left"] >= 0
        poor = np.flatnonzero(inner & (nodes["gain"] < 1e4))
        # The exact method prunes from below: a poor split stays where a good one is below it.
        assert method == "exact" or len(poor) == 0
        assert np.all(inner[nodes["left"][poor]] | inner[nodes["right"][poor]])


def test_exact_does_not_look_at_bins():
    X, y, _ = data("regression")
    models = [make("regression", "exact", max_bin=bins).fit(X, y) for bins in (2, 256)]
    same_model(*models, X)
    for method in ("global", "local"):
        models = [make("regression", method, max_bin=bins).fit(X, y) for bins in (4, 256)]
        assert not np.allclose(models[0].predict(X), models[1].predict(X), rtol=1e-2)


def test_the_sketch_matters_to_approx_alone():
    X, y, _ = data("binary")
    for method in ("exact", "hist"):
        models = [
            XGBClassifier(n_estimators=3, n_jobs=1, tree_method=method, sketch=sketch).fit(X, y)
            for sketch in ("global", "local")
        ]
        same_model(*models, X)
    models = [make("binary", sketch, max_bin=16).fit(X, y) for sketch in ("global", "local")]
    assert not np.array_equal(models[0].predict_raw(X), models[1].predict_raw(X))


def test_finds_a_threshold_between_bins():
    # One value out of thousands matters: bins of quantiles cannot part it from its neighbours.
    x = np.arange(5000.0)
    y = np.where(x < 7, 100.0, 0.0)
    losses = {}
    for method in ("exact", "hist"):
        model = XGBRegressor(tree_method=method, n_estimators=5, max_bin=32, n_jobs=1)
        losses[method] = np.mean((model.fit(x[:, None], y).predict(x[:, None]) - y) ** 2)
    assert losses["exact"] < 0.3 * losses["hist"]


# ---- tables -------------------------------------------------------------------------------------


@EVERY_METHOD
@EVERY_TASK
@pytest.mark.parametrize("make_sparse", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_sparse_tables(task, method, make_sparse):
    X, y, weight = data(task)
    X[np.abs(X) < 0.7] = 0.0
    dense = make(task, method, subsample=0.7, random_state=0).fit(X, y, weight)
    sparse = make(task, method, subsample=0.7, random_state=0).fit(make_sparse(X), y, weight)
    same_model(dense, sparse, X)
    np.testing.assert_array_equal(output(sparse, make_sparse(X)), output(dense, X))


@EVERY_METHOD
def test_float32_is_float64(method):
    X, y, _ = data("regression")
    X = X.astype(np.float32)
    same_model(
        make("regression", method).fit(X, y),
        make("regression", method).fit(X.astype(np.float64), y),
        X,
    )


@EVERY_METHOD
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_categories(task, method):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 300, 3000)
    effect = 30 * rng.normal(size=300)
    y = target(task, 50 + effect[codes] + rng.normal(size=3000))
    frame = pandas.DataFrame({"c": pandas.Categorical([f"n{c}" for c in codes]),
                              "x": rng.normal(size=3000)})  # fmt: skip
    frame.loc[::7, "c"] = np.nan
    model = make(task, method, n_estimators=20, categorical_statistics=False).fit(frame, y)
    assert (model.trees_.nodes["category_start"] >= 0).any()
    assert model.score(frame[frame["c"].notna()], y[frame["c"].notna()]) > 0.75
    new = pandas.DataFrame({"c": ["never seen", None], "x": [0.5, 0.5]})
    unseen, missing = model.predict_raw(new)
    assert unseen == missing


@EVERY_METHOD
def test_categories_and_samples_agree_with_prediction(method):
    # Rows outside a sample are sent down the tree by their values, sets of categories included.
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(0, 60, 800), rng.normal(size=800), rng.integers(0, 3, 800)])
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] % 7) + np.nan_to_num(X[:, 2] == 1) + 0.1 * rng.normal(size=800)
    params = {"categorical_features": [0, 2], "subsample": 0.5, "random_state": 4}
    model = make("regression", method, n_estimators=30, **params)
    model.fit(X, y, eval_set=[(X, y)])
    rmse = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    np.testing.assert_allclose(model.evals_result()["validation_0"]["rmse"][-1], rmse, rtol=1e-12)
    assert rmse < 0.5 * np.std(y)


# ---- edges --------------------------------------------------------------------------------------


@EVERY_METHOD
def test_tables_without_a_split(method):
    cases = {
        "one row": (np.ones((1, 2)), [3.0]),
        "constant columns": (np.ones((9, 2)), np.arange(9.0)),
        "constant target": (np.arange(18.0).reshape(9, 2), np.full(9, 4.0)),
        "nothing but missing": (np.full((9, 2), np.nan), np.arange(9.0)),
    }
    for name, (X, y) in cases.items():
        model = make("regression", method).fit(X, y)
        assert (model.trees_.nodes["left"] == -1).all(), name
        np.testing.assert_allclose(model.predict(X), np.mean(y), rtol=1e-6)


@EVERY_METHOD
@EVERY_TASK
def test_rows_of_weight_nought_do_not_matter(task, method):
    X, y, weight = data(task, missing=0.0)
    keep = np.random.default_rng(3).random(len(X)) < 0.7
    all_rows = make(task, method).fit(X, y, weight * keep)
    part = make(task, method).fit(X[keep], y[keep], weight[keep])
    if method != "exact":
        # Rows without weight still have values, which candidates may fall between.
        assert np.corrcoef(output(all_rows, X).ravel(), output(part, X).ravel())[0, 1] > 0.98
        return
    np.testing.assert_allclose(all_rows.predict_raw(X[keep]), part.predict_raw(X[keep]), rtol=1e-6)


@EVERY_METHOD
def test_too_large_targets_are_refused(method):
    X, y, _ = data("regression")
    model = make("regression", method)
    with pytest.raises(ValueError, match="y must not exceed"):
        model.fit(X, y * 1e60)
    with pytest.raises(ValueError, match="overflow"):
        model.fit(X, y * 1e30, sample_weight=np.full(len(y), 1e30))
    assert not hasattr(model, "trees_")


@EVERY_METHOD
@EVERY_TASK
def test_pickle_and_early_stopping(task, method):
    X, y, _ = data(task)
    model = make(task, method, n_estimators=40, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X[:300], y[:300], eval_set=[(X[300:], y[300:])])
    assert model.n_iter_ < 40
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(output(copy, X), output(model, X))
    assert copy.get_params()["tree_method"] == METHODS[method]["tree_method"]


@EVERY_METHOD
def test_importances_and_leaves(method):
    X, y, _ = data("regression")
    model = make("regression", method).fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[:3].min() > model.feature_importances_[5:].max()
    leaves = model.apply(X)
    value = sum(model.trees_[k].values[leaves[:, k], 0] for k in range(len(model.trees_)))
    np.testing.assert_allclose(model.predict(X), model._base_raw_[0] + value, rtol=1e-12)
    nodes = model.trees_[0].nodes
    assert nodes["left"][leaves[:, 0]].max() == -1


def test_few_values_are_split_alike_by_all_methods():
    X, y, weight = integer_table(800)
    # Small integers as targets: sums are exact, whatever the method adds up.
    y = np.round(y)
    raw = {}
    for method in METHODS:
        params = {"max_depth": 3, "n_estimators": 1, "base_score": 0.0}
        raw[method] = make("regression", method, **params).fit(X, y).predict(X)
    hist = XGBRegressor(**params, n_jobs=1).fit(X, y).predict(X)
    np.testing.assert_allclose(raw["exact"], hist, rtol=1e-9)
    np.testing.assert_allclose(raw["global"], hist, rtol=1e-9)


def test_sides_without_hessian_gain_nothing_by_themselves():
    # No penalty, no least weight: nothing but the rule keeps their scores from being infinite.
    X, y = smooth_table(300)
    hess = (X[:, 0] > 0).astype(float)
    params = {"objective": lambda y, raw: (raw - y, hess), "reg_lambda": 0, "min_child_weight": 0}
    model = make("regression", "exact", **params).fit(X, y)
    assert np.isfinite(model.trees_.nodes["gain"]).all()
    assert np.isfinite(model.feature_importances_).all()
