"""Reading linear trees: the table of leaves, linear-tree's dicts, equations, pieces."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hybridtrees import (
    LinearRegressor,
    LinearTreeClassifier,
    LinearTreeRegressor,
    LogisticClassifier,
)
from hybridtrees.inspection import export_dot, export_text, linear_pieces, plot_pieces, plot_tree


def make(seed=0, n=400):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["age", "size", "price"])
    X = frame.to_numpy()
    y = np.where(X[:, 0] > 0.3, 2 * X[:, 1] + X[:, 2], -2 * X[:, 1]) + 0.3 * rng.normal(size=n)
    return frame, y


@pytest.mark.parametrize("extrapolate", ["linear", "bounded"])
@pytest.mark.parametrize("kind", [LinearTreeRegressor, LinearTreeClassifier])
def test_the_table_gives_the_predictions(kind, extrapolate):
    frame, y = make()
    target = y if kind is LinearTreeRegressor else np.digitize(y, [-1.0, 1.0])
    model = kind(max_depth=2, extrapolate=extrapolate, bound_factor=0.0, pruning=None)
    model.fit(frame, target)
    table = model.leaf_table()
    assert len(table) == model.get_n_leaves() > 2
    assert table.columns == list(frame.columns)
    position = {leaf: k for k, leaf in enumerate(table.leaves)}
    X = frame.to_numpy()
    for i, leaf in enumerate(model.apply(frame)):
        k = position[leaf]
        value = table.coef[k] @ X[i] + table.intercept[k]
        value = np.clip(value, table.low[k], table.high[k])
        np.testing.assert_allclose(model.predict_raw(frame[i : i + 1])[0], value, atol=1e-10)
        assert frame[i : i + 1].query(table.paths[k]).shape[0] == 1
        if i == 30:
            break
    assert table.n_samples.sum() == len(y)
    flat = table.to_frame()
    assert len(flat) == len(table) * table.coef.shape[1]
    assert "leaf" in flat and "age (error)" in flat


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_standard_errors(n_classes):
    frame, y = make()
    if n_classes:
        rng = np.random.default_rng(1)
        noisy = y + rng.logistic(size=len(y))
        target = np.digitize(noisy, [0.0] if n_classes == 2 else [-1.0, 1.0])
        model = LinearTreeClassifier(penalty=None, max_depth=1).fit(frame, target)
        line: LinearRegressor | LogisticClassifier = LogisticClassifier(penalty=None)
    else:
        target = y
        model = LinearTreeRegressor(penalty=None, max_depth=1).fit(frame, target)
        line = LinearRegressor()
    table, leaves = model.leaf_table(), model.apply(frame)
    for k, leaf in enumerate(table.leaves):
        rows = leaves == leaf
        line.fit(frame[rows], target[rows])
        for output in range(table.coef.shape[1]):
            summary = line.summary(output) if n_classes != 2 else line.summary()
            found = np.append(table.intercept_error[k, output], table.std_error[k, output])
            np.testing.assert_allclose(found, summary.std_error, rtol=1e-3)
        if not n_classes:
            assert table.quality[k, 0] == pytest.approx(line.score(frame[rows], target[rows]))
        else:
            proba = model.predict_proba(frame[rows])
            own = proba[np.arange(rows.sum()), target[rows]]
            assert table.quality[k, 0] == pytest.approx(-2 * np.log(own).sum(), rel=1e-6)


def test_errors_under_a_penalty_are_not_defined():
    frame, y = make()
    table = LinearTreeRegressor(max_depth=1).fit(frame, y).leaf_table()
    assert np.isnan(table.std_error).all() and np.isnan(table.intercept_error).all()


def test_summary_as_optimisers_read_it():
    """The walk that OMLT makes: splits by children, col and th; leaves by slope and intercept."""
    frame, y = make()
    model = LinearTreeRegressor(max_depth=2, extrapolate="linear").fit(frame, y)
    summary = model.summary()
    leaves = {k: node for k, node in summary.items() if "children" not in node}
    splits = {k: node for k, node in summary.items() if "children" in node}
    assert len(leaves) == model.get_n_leaves() and 0 in splits
    for node in splits.values():
        assert all(child in summary for child in node["children"])
        assert node["samples"] == sum(summary[child]["samples"] for child in node["children"])
        assert set(node) == {"col", "th", "loss", "samples", "children", "models"}
    for row, expected in zip(frame.to_numpy()[:40], model.predict(frame[:40]), strict=True):
        at = 0
        while at in splits:
            left = row[splits[at]["col"]] <= splits[at]["th"]
            at = splits[at]["children"][0 if left else 1]
        line = leaves[at]["models"]
        slope, intercept = line.coef_.reshape(-1), line.intercept_.reshape(-1)[0]
        assert row @ slope + intercept == pytest.approx(expected, abs=1e-10)
        assert line.predict(row) == pytest.approx(expected, abs=1e-10)
    named = model.summary(feature_names=["a", "b", "c"], max_depth=1)
    assert {node.get("col") for node in named.values()} <= {"a", "b", "c", None}
    assert set(model.summary(only_leaves=True)) == set(leaves)
    with pytest.raises(ValueError, match="feature_names"):
        model.summary(feature_names=["a"])


def test_summary_of_one_class():
    frame, y = make(n=30)
    model = LinearTreeClassifier().fit(frame, np.full(30, "all"))
    (leaf,) = model.summary().values()
    assert leaf["classes"].tolist() == leaf["models"].classes_.tolist() == ["all"]
    assert model.predict(frame).tolist() == ["all"] * 30


def test_equations_in_exports():
    frame, y = make()
    model = LinearTreeRegressor(max_depth=1, penalty="lasso", alpha=0.3).fit(frame, y)
    text = export_text(model)
    lines = [line for line in text.splitlines() if "y = " in line]
    assert len(lines) == 2 and all("*(size" in line for line in lines)
    assert "y = " in export_dot(model)
    root = export_dot(model).split("\n0 [label=")[1].split("\n")[0]
    assert "y = " not in root
    pytest.importorskip("matplotlib").use("agg")
    assert any("y = " in artist.get_text() for artist in plot_tree(model))
    label = np.array(["low", "mid", "high"])[np.digitize(y, [-1.0, 1.0])]
    many = LinearTreeClassifier(max_depth=1).fit(frame, label)
    assert all(f"score of {name} = " in export_text(many) for name in ("low", "mid", "high"))


def test_equations_with_effects():
    frame, y = make()
    frame["town"] = np.where(np.arange(len(y)) % 3 == 0, "north", "south")
    model = LinearTreeRegressor(max_depth=1, categorical_effects=True).fit(
        frame, y + 5 * (frame["town"] == "north")
    )
    assert "town=north" in export_text(model)
    assert "town=north" in str(model.leaf_table())


def test_words():
    frame, y = make()
    model = LinearTreeRegressor(max_depth=1).fit(frame, y)
    assert "leaves 2" in model.describe()
    assert model.leaf_table().equation(0).count("size") == 1
    importance = model.feature_importances_
    # Trees split on the first feature, and the lines of the leaves are along the second.
    assert set(np.argsort(importance)[-2:]) == {0, 1} and importance.sum() == pytest.approx(1.0)
    path = model.decision_path(frame)
    assert path.shape == (len(y), 3) and (path.sum(axis=1) == 2).all()


def test_pieces():
    x = np.linspace(0, 10, 400)
    frame = pd.DataFrame({"x": x, "z": np.tile([0.0, 1.0], 200)})
    y = np.where(x <= 4, 2 * x, 8 - (x - 4)) + 3 * frame["z"]
    model = LinearTreeRegressor(penalty=None, max_bins=255, extrapolate="linear").fit(frame, y)
    pieces = linear_pieces(model, frame, "x", at=[0.0, 1.0])
    np.testing.assert_allclose(pieces.slope, [2.0, -1.0], atol=1e-8)
    np.testing.assert_allclose(pieces.value[0], [3.0, 3 + 2 * pieces.high[0]], atol=1e-8)
    assert pieces.low[1] == pieces.high[0] == pytest.approx(4.0, abs=0.05)
    assert list(pieces.leaf) == [1, 2] and pieces.output == "y"
    pytest.importorskip("matplotlib").use("agg")
    lines = plot_pieces(model, frame, 0)
    assert len(lines) == 3 and lines[0].get_label() == "leaf 1"
    with pytest.raises(ValueError, match="feature"):
        linear_pieces(model, frame, "age")
    with pytest.raises(ValueError, match="output"):
        linear_pieces(model, frame, "x", output=1)
