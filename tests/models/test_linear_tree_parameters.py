"""Parameters of linear trees: columns, categories, pruning, smoothing, bad values."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import hybridtrees
from hybridtrees import LinearRegressor, LinearTreeClassifier, LinearTreeRegressor


def make(seed=0, n=400, p=3, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.where(X[:, 0] > 0.3, X @ np.arange(1, p + 1), -2 * X[:, 1]) + noise * rng.normal(size=n)
    return X, y


BAD = [
    ({"criterion": "mape"}, "criterion"),
    ({"penalty": "l2"}, "penalty"),
    ({"alpha": -1.0}, "alpha"),
    ({"alpha": "cv"}, "alpha"),
    ({"l1_ratio": 2.0}, "l1_ratio"),
    ({"standardize": "yes"}, "standardize"),
    ({"alpha_scaling": "max"}, "alpha_scaling"),
    ({"max_depth": 0}, "max_depth"),
    ({"min_samples_split": 1}, "min_samples_split"),
    ({"min_samples_leaf": 0}, "min_samples_leaf"),
    ({"min_samples_leaf": "many"}, "min_samples_leaf"),
    ({"min_impurity_decrease": -0.1}, "min_impurity_decrease"),
    ({"max_leaf_nodes": 1}, "max_leaf_nodes"),
    ({"max_bins": 256}, "max_bins"),
    ({"candidates": "all"}, "candidates"),
    ({"search": "best"}, "search"),
    ({"categorical_effects": 3}, "categorical_effects"),
    ({"max_features": 0}, "max_features"),
    ({"extrapolate": "flat"}, "extrapolate"),
    ({"bound_factor": -1.0}, "bound_factor"),
    ({"smoothing": -1.0}, "smoothing"),
    ({"ccp_alpha": -1.0}, "ccp_alpha"),
    ({"validation_fraction": 1.0}, "validation_fraction"),
    ({"linear_features": [7]}, "linear_features"),
    ({"linear_features": ["age"]}, "linear_features"),
    ({"linear_features": [True]}, "linear_features"),
    ({"linear_features": 1.5}, "linear_features"),
    ({"split_features": []}, "split_features"),
    ({"random_state": "x"}, "random_state"),
]


@pytest.mark.parametrize(("options", "name"), BAD)
def test_bad_values_are_named(options, name):
    X, y = make()
    model = LinearTreeRegressor(**options)
    with pytest.raises((ValueError, TypeError), match=name):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


def test_a_failed_fit_leaves_the_model_alone():
    X, y = make()
    model = LinearTreeRegressor(max_depth=2).fit(X, y)
    before = model.predict(X)
    model.set_params(linear_features=[9])
    with pytest.raises(ValueError, match="linear_features"):
        model.fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_change_nothing(n_jobs):
    X, y = make(n=3000, p=6)
    label = np.digitize(y, [-1.0, 1.0])
    for kind, target in ((LinearTreeRegressor, y), (LinearTreeClassifier, label)):
        one = kind(max_depth=3, max_features=3, random_state=4, n_jobs=1).fit(X, target)
        many = kind(max_depth=3, max_features=3, random_state=4, n_jobs=n_jobs).fit(X, target)
        assert one.tree_.nodes.tobytes() == many.tree_.nodes.tobytes()
        assert one.tree_.coef.tobytes() == many.tree_.coef.tobytes()


def test_files_and_pickles(tmp_path):
    X, y = make()
    for model in (
        LinearTreeRegressor(max_depth=2, penalty=None),
        LinearTreeRegressor(max_depth=2, extrapolate="clip"),
        LinearTreeClassifier(max_depth=2),
    ):
        target = np.where(y > 0, "up", "down") if "Classifier" in repr(model) else y
        model.fit(X, target)
        model.save(tmp_path / "tree.htree")
        for other in (hybridtrees.load(tmp_path / "tree.htree"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(other.predict(X), model.predict(X))
            assert str(other.leaf_table()) == str(model.leaf_table())


@pytest.mark.parametrize("given", [["b", "c"], [1, 2], [False, True, True]])
def test_chosen_columns(given):
    X, y = make()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = LinearTreeRegressor(linear_features=given, split_features="a").fit(frame, y)
    assert set(model.tree_.coef_feature) <= {1, 2}
    assert set(model.tree_.nodes["feature"]) == {-1, 0}
    assert model.leaf_table().columns == ["b", "c"]


def test_categories():
    rng = np.random.default_rng(3)
    x = rng.normal(size=600)
    town = rng.choice(["north", "south", "east", "west"], 600)
    slope = pd.Series({"north": 3.0, "south": -3.0, "east": 3.0, "west": -3.0})
    level = pd.Series({"north": 4.0, "south": 0.0, "east": -4.0, "west": 1.0})
    y = slope[town].to_numpy() * x + level[town].to_numpy()
    frame = pd.DataFrame({"x": x, "town": town})
    model = LinearTreeRegressor(penalty=None, max_depth=3, categorical_effects=False).fit(frame, y)
    np.testing.assert_allclose(model.predict(frame), y, atol=1e-8)
    assert model.get_n_leaves() == 4
    assert any("town in {" in path for path in model.leaf_table().paths)
    # With effects two leaves are enough: the levels are then part of the regressions.
    effects = LinearTreeRegressor(penalty=None, max_depth=1, categorical_effects=True)
    effects.fit(frame, y)
    assert effects.get_n_leaves() == 2
    sets = [set(path[9:-1].split(", ")) for path in effects.leaf_table().paths]
    if {"north", "east"} in sets:
        np.testing.assert_allclose(effects.predict(frame), y, atol=1e-8)
    assert "town=north" in effects.leaf_table().columns
    single = LinearTreeRegressor(
        penalty=None, max_depth=1, categorical_effects=True, split_features="x"
    ).fit(frame, level[town].to_numpy() + 2 * x)
    np.testing.assert_allclose(single.predict(frame), level[town].to_numpy() + 2 * x, atol=1e-8)
    assert np.isfinite(single.predict(pd.DataFrame({"x": [0.0], "town": ["nowhere"]}))).all()
    with pytest.raises(ValueError, match="categorical_effects"):
        LinearTreeRegressor(linear_features=["town"], categorical_effects=False).fit(frame, y)


def test_effects_by_default_are_those_that_the_rows_can_pay_for():
    rng = np.random.default_rng(3)
    n = 400
    frame = pd.DataFrame({"x": rng.normal(size=n), "street": rng.integers(60, size=n)})
    frame["street"] = frame["street"].map("s{}".format)
    frame["town"] = rng.choice(["north", "south"], n)
    frame["kind"] = rng.choice(list("abcdefghijklmnopqr"), n)
    y = frame["x"] + (frame["town"] == "north")
    # 400 rows pay for 20 regressors: x, both towns, and neither the 18 kinds nor the 60 streets.
    columns = LinearTreeRegressor(categorical_statistics=False).fit(frame, y).leaf_table().columns
    assert columns == ["x", "town=north", "town=south"]
    twice = LinearTreeRegressor(categorical_statistics=False).fit(
        pd.concat([frame, frame]), np.tile(y, 2)
    )
    assert len(twice.leaf_table().columns) == 1 + 2 + 18
    every = LinearTreeRegressor(categorical_statistics=False, categorical_effects=True).fit(
        frame, y
    )
    assert len(every.leaf_table().columns) == 1 + 2 + 18 + 60
    named = (
        LinearTreeRegressor(categorical_statistics=False, linear_features=["kind"])
        .fit(frame, y)
        .leaf_table()
        .columns
    )
    assert named == [f"kind={k}" for k in "abcdefghijklmnopqr"]
    none = (
        LinearTreeRegressor(categorical_statistics=False, categorical_effects=False)
        .fit(frame, y)
        .leaf_table()
        .columns
    )
    assert none == ["x"]
    many = frame.assign(number=[f"n{i}" for i in range(n)])  # more than there may be regressors
    assert (
        len(LinearTreeRegressor(categorical_statistics=False).fit(many, y).leaf_table().columns)
        == 3
    )


def test_growth_limits():
    X, y = make(n=600)
    for options in ({"max_leaf_nodes": 3}, {"max_depth": 2}, {"min_samples_leaf": 0.2}):
        model = LinearTreeRegressor(**{"max_depth": None, "pruning": None, **options}).fit(X, y)
        nodes = model.tree_.nodes
        assert 2 <= model.get_n_leaves() <= options.get("max_leaf_nodes", 1000)
        assert model.get_depth() <= options.get("max_depth", 1000)
        assert nodes["n_samples"].min() >= (120 if "min_samples_leaf" in options else 10)
    options = {"max_depth": None, "pruning": None}
    large = LinearTreeRegressor(**options).fit(X, y)
    least = LinearTreeRegressor(min_impurity_decrease=0.05, **options).fit(X, y)
    assert 1 < least.get_n_leaves() < large.get_n_leaves()
    gains = least.tree_.nodes["gain"][least.tree_.nodes["left"] >= 0]
    assert gains.min() > 0.05 * len(y)


def test_cost_complexity():
    """The pruned tree costs least among all that pruning can reach."""
    X, y = make(n=500)
    whole = LinearTreeRegressor(max_depth=4, pruning=None).fit(X, y)
    leaves = [whole.get_n_leaves()]
    for alpha in (0.001, 0.01, 0.1, 100.0):
        model = LinearTreeRegressor(max_depth=4, ccp_alpha=alpha).fit(X, y)
        leaves.append(model.get_n_leaves())

        def cost(tree, own, alpha=alpha):
            end = tree.nodes["left"] < 0
            return own[end] @ tree.nodes["weight"][end] / len(y) + alpha * end.sum()

        mine = cost(model.tree_, model.tree_.impurity)
        assert mine <= cost(whole.tree_, whole.tree_.impurity) + 1e-12
    assert leaves == sorted(leaves, reverse=True) and leaves[-1] == 1 and leaves[0] > 4


def test_validation_pruning():
    X, y = make(n=900, noise=2.0)
    Xt, yt = make(1, n=2000, noise=2.0)
    whole = LinearTreeRegressor(max_depth=6, pruning=None).fit(X, y)
    model = LinearTreeRegressor(max_depth=6, validation_fraction=0.3, random_state=0).fit(X, y)
    assert 1 < model.get_n_leaves() < whole.get_n_leaves()
    assert model.score(Xt, yt) > whole.score(Xt, yt)
    assert model.tree_.nodes["n_samples"][0] == len(y)
    leaves = model.apply(X)
    for leaf in np.unique(leaves):  # fitted to all rows, those set aside too
        rows = leaves == leaf
        line = LinearRegressor(penalty="ridge").fit(X[rows], y[rows])
        np.testing.assert_allclose(model.predict(X[rows]), line.predict(X[rows]), atol=1e-7)
    labels = LinearTreeClassifier(max_depth=3, validation_fraction=0.3, random_state=0)
    assert labels.fit(X, y > 0).tree_.nodes["n_samples"][0] == len(y)
    with pytest.raises(ValueError, match="validation_fraction"):
        LinearTreeRegressor(validation_fraction=0.1).fit(X[:5], y[:5])


def test_smoothing():
    X, y = make()
    options = {"max_depth": 2, "extrapolate": "linear", "pruning": None}
    plain = LinearTreeRegressor(**options).fit(X, y)
    model = LinearTreeRegressor(smoothing=15.0, **options).fit(X, y)
    nodes, leaves = plain.tree_.nodes, plain.apply(X)
    summary = plain.summary()
    lines = {}
    for node in summary.values():
        if "children" in node:
            lines.update(zip(node["children"], node["models"], strict=True))
    root = LinearRegressor(penalty="ridge").fit(X, y)
    for i in range(20):
        at = int(leaves[i])
        value = lines[at].predict(X[i])
        while nodes["parent"][at] >= 0:
            up, n = int(nodes["parent"][at]), nodes["n_samples"][at]
            own = lines[up].predict(X[i]) if up else root.predict(X[i : i + 1])[0]
            value = (n * value + 15.0 * own) / (n + 15.0)
            at = up
        assert model.predict(X[i : i + 1])[0] == pytest.approx(value, abs=1e-7)


def test_weights_are_repetitions():
    X, y = make(n=200)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    options = {"max_depth": 2, "candidates": "quantiles", "min_samples_leaf": 5, "max_bins": 12}
    options["pruning"] = None
    many = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    weighted = LinearTreeRegressor(**options).fit(X, y, counts)
    assert weighted.tree_.nodes["weight"][0] == counts.sum()
    assert weighted.tree_.nodes["n_samples"][0] == np.count_nonzero(counts)
    leaves = weighted.apply(many[0])
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        line = LinearRegressor(penalty="ridge").fit(many[0][rows], many[1][rows])
        expected = line.predict(many[0][rows])
        np.testing.assert_allclose(weighted.predict(many[0][rows]), expected, atol=1e-7)


def test_sparse_and_frames_agree():
    from scipy import sparse

    X, y = make()
    X[np.abs(X) < 0.5] = 0.0
    dense = LinearTreeRegressor(max_depth=2).fit(X, y)
    thin = LinearTreeRegressor(max_depth=2).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), dense.predict(X), atol=1e-9)


def test_too_many_regressors():
    X = np.zeros((4, 1001))
    with pytest.raises(ValueError, match="linear_features leaves 1001"):
        LinearTreeRegressor().fit(X, np.arange(4.0))
    assert LinearTreeRegressor(linear_features=[0]).fit(X, np.arange(4.0)).get_n_leaves() == 1


def test_no_regressors_is_a_tree_of_means():
    X, y = make()
    model = LinearTreeRegressor(linear_features=[], max_depth=2, extrapolate="linear").fit(X, y)
    leaves = model.apply(X)
    for leaf in np.unique(leaves):
        assert model.predict(X[leaves == leaf]) == pytest.approx(y[leaves == leaf].mean())


@pytest.mark.parametrize("n", [1, 2, 7, 100, 1001])
def test_quantiles_are_those_of_numpy(n):
    from hybridtrees.models.linear_tree.growing import quantiles

    column = np.sort(np.random.default_rng(n).normal(size=n).round(2) * 1e5)
    shares = np.linspace(0, 1, 25)[1:-1]
    np.testing.assert_array_equal(quantiles(column, shares), np.quantile(column, shares))
