"""Partial dependence against its definition and against scikit-learn."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybridtrees import XGBClassifier, XGBRegressor
from hybridtrees.inspection import partial_dependence, plot_partial_dependence
from hybridtrees.inspection.partial_dependence import weighted_quantiles


def data(rng, n=120):
    X = rng.normal(size=(n, 4))
    y = 3 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)
    X[:, 3] = rng.integers(0, 4, n)
    X[rng.random(n) < 0.1, 0] = np.nan
    return X, y, rng.random(n) + 0.1


def by_definition(respond, X, features, grids):
    """Predictions (n_outputs, n_rows, *grid), a row of the table at a time."""
    shape = tuple(map(len, grids))
    out = None
    for place in itertools.product(*map(range, shape)):
        moved = X.copy()
        for feature, values, k in zip(features, grids, place, strict=True):
            moved[:, feature] = values[k]
        said = respond(moved)
        if out is None:
            out = np.empty((said.shape[1], len(X), *shape))
        out[(slice(None), slice(None), *place)] = said.T
    return out


@pytest.mark.parametrize("features", [[0], [3], [1, 2], [3, 0]])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", ["numbers", "two", "three"])
def test_equals_the_definition(rng, features, weighted, task):
    X, y, w = data(rng)
    w = w if weighted else None
    if task == "numbers":
        model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
        respond = lambda table: model.predict(table)[:, None]  # noqa: E731
    else:
        labels = np.digitize(y, [0] if task == "two" else [-1, 1])
        model = XGBClassifier(n_estimators=5, n_jobs=1).fit(X, labels)
        first = 1 if task == "two" else 0
        respond = lambda table: model.predict_proba(table)[:, first:]  # noqa: E731
    result = partial_dependence(model, X, features, sample_weight=w, kind="both", grid_resolution=7)
    expected = by_definition(respond, X, features, result.grid_values)
    np.testing.assert_array_equal(result.individual, expected)
    mean = np.average(expected, axis=1, weights=w)
    np.testing.assert_allclose(result.average, mean, rtol=1e-12, atol=1e-14)
    assert len(result.output_names) == len(expected)
    assert [len(grid) for grid in result.grid_values] == [4 if j == 3 else 7 for j in features]


@pytest.mark.peer
@pytest.mark.parametrize("task", ["numbers", "two", "three"])
@pytest.mark.parametrize("features", [[0], [1, 2], [3]])
def test_equals_sklearn(rng, task, features):
    inspection = pytest.importorskip("sklearn.inspection")
    X, y, w = data(rng)
    X = np.nan_to_num(X)
    if task == "numbers":
        model = XGBRegressor(n_estimators=5, n_jobs=1).fit(X, y)
    else:
        labels = np.digitize(y, [0] if task == "two" else [-1, 1])
        model = XGBClassifier(n_estimators=5, n_jobs=1).fit(X, labels)
    # With all of the range there is one way to define the ends of the grid.
    options = {"grid_resolution": 9, "percentiles": (0, 1)}
    theirs = inspection.partial_dependence(
        model, X, features, method="brute", kind="both", **options
    )
    ours = partial_dependence(model, X, features, kind="both", **options)
    for a, b in zip(ours["grid_values"], theirs["grid_values"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(ours["average"], theirs["average"], rtol=1e-9)
    np.testing.assert_allclose(ours["individual"], theirs["individual"], rtol=1e-9)
    weighted = inspection.partial_dependence(
        model, X, features, method="brute", sample_weight=w, **options
    )
    average = partial_dependence(model, X, features, sample_weight=w, **options).average
    np.testing.assert_allclose(average, weighted["average"], rtol=1e-9)


@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3)), min_size=1, max_size=30),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=5),
)
def test_weights_of_quantiles_are_repeats(rows, shares):
    values, weight = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    if not weight.any():
        weight += 1
    repeated = np.repeat(values, weight.astype(int))
    ours = weighted_quantiles(values, weight, np.array(shares))
    np.testing.assert_array_equal(ours, weighted_quantiles(repeated, None, np.array(shares)))
    assert np.all((repeated.min() <= ours) & (ours <= repeated.max()))
    middle = weighted_quantiles(repeated, None, np.array([0.5]))[0]
    assert middle == np.median(repeated)


def test_grids(rng):
    X, y, w = data(rng, 400)
    model = XGBRegressor(n_estimators=3, n_jobs=1).fit(X, y)
    even = partial_dependence(model, X, 1, grid_resolution=11).grid_values[0]
    np.testing.assert_allclose(np.diff(even), np.diff(even)[0])
    low, high = np.quantile(X[:, 1], [0.05, 0.95])
    assert abs(even[0] - low) < 0.05 and abs(even[-1] - high) < 0.05
    quantiles = partial_dependence(
        model, X, 1, grid="quantile", grid_resolution=5, percentiles=(0, 1)
    )
    np.testing.assert_allclose(
        quantiles.grid_values[0], np.quantile(X[:, 1], [0, 0.25, 0.5, 0.75, 1]), atol=0.05
    )
    np.testing.assert_array_equal(partial_dependence(model, X, 3).grid_values[0], [0, 1, 2, 3])
    given_values = partial_dependence(
        model, X, [1, 0], custom_values={0: [5, 6]}, grid_resolution=3
    )
    np.testing.assert_array_equal(given_values.grid_values[1], [5, 6])
    assert given_values.average.shape == (1, 3, 2)
    light = np.where(X[:, 1] > 0, 1.0, 1e-9)
    weighted = partial_dependence(model, X, 1, sample_weight=light, grid_resolution=5)
    assert weighted.grid_values[0][0] > 0


def test_integers_are_not_cut(rng):
    X = rng.integers(0, 50, size=(100, 2))
    model = XGBRegressor(n_estimators=10, n_jobs=1).fit(X, X[:, 0].astype(float))
    halves = {0: [10.5, 30.5]}
    exact = partial_dependence(model, X.astype(float), 0, custom_values=halves).average
    np.testing.assert_array_equal(
        partial_dependence(model, X, 0, custom_values=halves).average, exact
    )


def mixed_frame(rng, n=150):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "town": pd.Categorical(
                rng.choice(["Ghent", "Bruges", "Mons"], n), categories=["Mons", "Ghent", "Bruges"]
            ),
            "count": rng.integers(0, 60, n),
            "name": rng.choice(["b", "a"], n),
        }
    )
    frame.loc[rng.random(n) < 0.2, "town"] = np.nan
    y = frame["size"] + 2 * (frame["town"] == "Mons") + (frame["name"] == "a") + frame["count"] / 20
    return frame, y.to_numpy()


CONVERT = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pytest.importorskip("polars").from_pandas(frame),
    "pyarrow": lambda frame: pytest.importorskip("pyarrow").Table.from_pandas(frame),
    "dict": lambda frame: {name: frame[name] for name in frame},
    "dict of polars": lambda frame: pytest.importorskip("polars").from_pandas(frame).to_dict(),
    "dict of lists": lambda frame: {
        "size": frame["size"].tolist(),
        "town": frame["town"].astype(object).where(frame["town"].notna(), None).tolist(),
        "count": frame["count"].to_numpy(),
        "name": frame["name"].tolist(),
    },
}


@pytest.mark.parametrize("kind", CONVERT)
def test_data_frames_and_categories(rng, kind):
    frame, y = mixed_frame(rng)
    table = CONVERT[kind](frame)
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(table, y)
    towns = partial_dependence(model, table, "town", kind="both")
    labels = model._reader.categories[1].tolist()
    assert towns.grid_values[0].tolist() == labels
    assert towns.is_categorical == [True] and towns.feature_names == ["town"]
    for k, label in enumerate(labels):
        moved = frame.copy()
        moved["town"] = moved["town"].astype(object)
        moved["town"] = label
        moved = CONVERT[kind](moved)
        np.testing.assert_array_equal(towns.individual[0, :, k], model.predict(moved))
    pair = partial_dependence(model, table, ["name", "count"], grid_resolution=6)
    assert pair.grid_values[0].tolist() == ["a", "b"] and pair.average.shape == (1, 2, 6)
    assert np.ptp(pair.average[0, 0] - pair.average[0, 1]) < 0.5
    values = partial_dependence(model, table, "count", custom_values={"count": [3, 50]}).average[0]
    assert values[1] > values[0] + 1


def test_numbers_that_are_categories(rng):
    X, y, _ = data(rng)
    model = XGBRegressor(n_estimators=3, n_jobs=1, categorical_features=[3]).fit(X, y)
    result = partial_dependence(model, X, 3, grid_resolution=2)
    assert result.is_categorical == [True]
    np.testing.assert_array_equal(result.grid_values[0], [0, 1, 2, 3])


def test_sparse(rng):
    sparse = pytest.importorskip("scipy.sparse")
    X = rng.normal(size=(100, 4)) * (rng.random((100, 4)) < 0.4)
    model = XGBRegressor(n_estimators=4, n_jobs=1).fit(X, X[:, 0] + X[:, 3])
    for features in ([0], [3, 1]):
        dense = partial_dependence(model, X, features, grid_resolution=5)
        thin = partial_dependence(model, sparse.csr_array(X), features, grid_resolution=5)
        np.testing.assert_array_equal(dense.average, thin.average)


def test_batches_make_no_difference(rng, monkeypatch):
    X, y, _ = data(rng)
    model = XGBRegressor(n_estimators=3, n_jobs=1).fit(X, y)
    whole = partial_dependence(model, X, [0, 1], grid_resolution=5, kind="both")
    module = sys.modules["hybridtrees.inspection.partial_dependence"]
    for rows in (1, 130, 500):
        monkeypatch.setattr(module, "BATCH_ROWS", rows)
        part = partial_dependence(model, X, [0, 1], grid_resolution=5, kind="both")
        np.testing.assert_array_equal(part.individual, whole.individual)
        np.testing.assert_array_equal(part.average, whole.average)


def test_responses(rng):
    X, y, _ = data(rng)
    model = XGBClassifier(n_estimators=3, n_jobs=1).fit(X, np.where(y > 0, "b", "a"))
    proba = partial_dependence(model, X, 1, kind="individual", grid_resolution=4)
    scores = partial_dependence(
        model, X, 1, kind="individual", grid_resolution=4, response_method="decision_function"
    )
    np.testing.assert_allclose(1 / (1 + np.exp(-scores.individual)), proba.individual, rtol=1e-6)
    assert proba.output_names == ["b"] and proba.average is None and "average" not in proba


def test_errors(rng):
    X, y, _ = data(rng)
    model = XGBRegressor(n_estimators=2, n_jobs=1).fit(X, y)
    labels = XGBClassifier(n_estimators=2, n_jobs=1).fit(X, y > 0)
    for options, error, message in [
        ({"features": [0, 1, 2]}, ValueError, "one or two columns"),
        ({"features": [0, 0]}, ValueError, "different columns"),
        ({"features": "age"}, ValueError, "which X does not have|X has no feature names"),
        ({"features": 0, "kind": "mean"}, ValueError, "kind must be one of"),
        ({"features": 0, "grid": "log"}, ValueError, "grid must be one of"),
        ({"features": 0, "grid_resolution": 1}, ValueError, "grid_resolution"),
        ({"features": 0, "percentiles": (0.9, 0.1)}, ValueError, "percentiles"),
        ({"features": 0, "custom_values": [1]}, TypeError, "custom_values must be a dict"),
        ({"features": 0, "custom_values": {0: []}}, ValueError, "at least one value"),
        ({"features": 0, "response_method": "predict_proba"}, ValueError, "does not have"),
    ]:
        with pytest.raises(error, match=message):
            partial_dependence(model, X, **options)
    with pytest.raises(ValueError, match="labels, which have no mean"):
        partial_dependence(labels, X, 0, response_method="predict")
    X[:, 0] = np.nan
    with pytest.raises(ValueError, match="holds no value at all"):
        partial_dependence(model, X, 0)


def test_plots(rng):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    frame, y = mixed_frame(rng)
    model = XGBRegressor(n_estimators=5, n_jobs=1).fit(frame, y)
    panels = ["size", "town", ("size", "count"), ("town", "size"), ("town", "name")]
    axes = plot_partial_dependence(model, frame, panels, grid_resolution=6)
    assert len(axes) == 5
    result = partial_dependence(model, frame, "size", grid_resolution=6)
    np.testing.assert_array_equal(axes[0].lines[0].get_ydata(), result.average[0])
    assert axes[0].get_xlabel() == "size"
    assert [text.get_text() for text in axes[1].get_xticklabels()] == ["Mons", "Ghent", "Bruges"]
    assert len(axes[1].patches) == 3 and len(axes[3].lines) == 3
    for kind, n_lines in (("individual", 20), ("both", 21)):
        (axis,) = plot_partial_dependence(
            model, frame, "size", kind=kind, max_lines=20, centered=True, grid_resolution=6
        )
        assert len(axis.lines) == n_lines
        assert all(line.get_ydata()[0] == 0 for line in axis.lines)
    classes = XGBClassifier(n_estimators=3, n_jobs=1).fit(frame, np.digitize(y, [0, 2]))
    (axis,) = plot_partial_dependence(classes, frame, ["size"], grid_resolution=5)
    assert len(axis.lines) == 3
    _, own = plt.subplots()
    (axis,) = plot_partial_dependence(classes, frame, 0, target=2, ax=own, grid_resolution=5)
    assert axis is own and len(own.lines) == 1
    with pytest.raises(ValueError, match="target must be one of"):
        plot_partial_dependence(classes, frame, 0, target=7, grid_resolution=5)
    with pytest.raises(ValueError, match="ax must hold 2 Axes"):
        plot_partial_dependence(model, frame, [0, 1], ax=own, grid_resolution=5)
    plt.close("all")
