"""Partial dependence from the trees alone: against its definition and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from shap_oracle import path_game

import hybridtrees as ht
from hybridtrees.core.tree.additive import additive_form
from hybridtrees.inspection import partial_dependence, plot_partial_dependence

N = 150
MODELS = {
    "cart": ht.CARTRegressor(max_depth=4),
    "stopped": ht.CARTRegressor(max_depth=4, missing="stop"),
    "forest": ht.RandomForestRegressor(n_estimators=4, random_state=0),
    "boosting": ht.GradientBoostingRegressor(n_estimators=5),
    "xgb": ht.XGBRegressor(n_estimators=6, max_depth=4),
    "lines": ht.PLGBRegressor(n_estimators=6),
    "clipped": ht.LinearTreeRegressor(max_depth=3, extrapolate="clip"),
    "line": ht.LinearRegressor(),
    "two classes": ht.XGBClassifier(n_estimators=3),
    "shares": ht.CARTClassifier(max_depth=3),
}


@pytest.fixture(scope="module")
def frame():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": np.where(rng.random(N) < 0.1, np.nan, rng.normal(size=N)),
            "kind": pd.Categorical.from_codes(rng.integers(-1, 4, N), list("pqrs")),
        }
    )
    y = 2 * table["a"] * (table["kind"] == "q") + np.nan_to_num(table["b"]) ** 2
    return table, y.to_numpy()


def by_definition(model, frame, features, grids):
    """Mean scores: every split on another feature is walked both ways."""
    form = additive_form(model)
    player = [column.feature for column in form.columns]
    average = []
    for values in itertools.product(*grids):
        row = frame.iloc[:1].copy()
        for j, value in zip(features, values, strict=True):
            row.iloc[0, j] = value
        x = form.make_columns(form.read(row))[0]
        score = form.base.copy()
        for tree, output in zip(form.trees, form.trees.tree_output, strict=True):
            value = path_game(tree, x, player)(frozenset(features))
            score[output : output + len(np.atleast_1d(value))] += value
        average.append(score)
    shape = tuple(map(len, grids))
    scores = np.transpose(average)
    return (scores[1:] if len(scores) == 2 else scores).reshape(-1, *shape)


@pytest.mark.parametrize("features", [[0], [1], [2], [0, 2]])
@pytest.mark.parametrize("name", MODELS)
def test_equals_the_definition(name, features, frame):
    X, y = frame
    model = MODELS[name].fit(X, y > y.mean() if hasattr(MODELS[name], "predict_proba") else y)
    found = partial_dependence(model, X, features, method="recursion", grid_resolution=6)
    assert found.individual is None and found.is_categorical == [j == 2 for j in features]
    expected = by_definition(model, X, features, found.grid_values)
    np.testing.assert_allclose(found.average, expected, rtol=1e-9, atol=1e-9)
    assert len(found.output_names) == len(found.average)


def test_of_a_line_it_is_the_line(frame):
    X, y = frame
    X = X[["a"]].to_numpy()
    model = ht.LinearRegressor().fit(X, y)
    found = partial_dependence(model, X, 0, method="recursion", grid_resolution=5)
    expected = model.predict(found.grid_values[0][:, None])
    np.testing.assert_allclose(found.average[0], expected, rtol=1e-12)


@pytest.mark.peer
@pytest.mark.parametrize("features", [[0], [2, 1]])
def test_equals_scikit_learn(rng, features):
    peers = pytest.importorskip("sklearn.ensemble")
    inspection = pytest.importorskip("sklearn.inspection")
    X = rng.normal(size=(300, 4)).astype(np.float32).astype(float)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    peer = peers.GradientBoostingRegressor(n_estimators=20).fit(X, y)
    ours = partial_dependence(ht.from_sklearn(peer), X, features, method="recursion")
    grids = dict(zip(features, ours.grid_values, strict=True))
    theirs = inspection.partial_dependence(
        peer, X, features, method="recursion", custom_values=grids
    )
    # Theirs leaves out the mean of the target.
    np.testing.assert_allclose(ours.average - y.mean(), theirs.average, rtol=1e-9, atol=1e-9)


def test_what_it_cannot_do_is_refused(rng):
    X = rng.normal(size=(60, 2))
    model = ht.XGBRegressor(n_estimators=2).fit(X, X[:, 0])
    for option, words in (
        ({"kind": "both"}, "kind='average'"),
        ({"response_method": "predict"}, "response_method='auto'"),
        ({"sample_weight": np.ones(60)}, "sample_weight=None"),
    ):
        with pytest.raises(ValueError, match=f"method='recursion' needs {words}"):
            partial_dependence(model, X, 0, method="recursion", **option)
    with pytest.raises(ValueError, match="method"):
        partial_dependence(model, X, 0, method="quick")
    boosted = ht.AdaBoostRegressor(n_estimators=2).fit(X, X[:, 0])
    with pytest.raises(TypeError, match="AdaBoostRegressor"):
        partial_dependence(boosted, X, 0, method="recursion")


def test_plots_take_it(rng):
    pytest.importorskip("matplotlib").use("Agg")
    X = rng.normal(size=(60, 2))
    model = ht.XGBRegressor(n_estimators=2).fit(X, X[:, 0])
    axes = plot_partial_dependence(model, X, [0], method="recursion")
    expected = partial_dependence(model, X, 0, method="recursion").average[0]
    np.testing.assert_array_equal(axes.ravel()[0].lines[0].get_ydata(), expected)
