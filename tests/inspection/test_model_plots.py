"""Importances, ROC curves and decision surfaces: what is drawn, read back from the axes."""

from __future__ import annotations

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees import (
    CARTClassifier,
    LinearRegressor,
    LogisticClassifier,
    XGBClassifier,
    XGBRegressor,
)
from hybridtrees.inspection import (
    permutation_importance,
    plot_decision_surface,
    plot_importance,
    plot_roc_curve,
)
from hybridtrees.metrics import roc_auc_score, roc_curve

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def houses():
    return ht.datasets.make_house_prices(300, random_state=0, as_frame=True)


def two_classes(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, "yes", "no")


def test_bars_are_the_largest_importances(houses, ax):
    model = XGBRegressor(n_estimators=20).fit(houses.data, houses.target)
    assert plot_importance(model, max_features=4, ax=ax) is ax
    order = np.argsort(-model.feature_importances_)[:4]
    widths = [bar.get_width() for bar in ax.patches][::-1]
    np.testing.assert_allclose(widths, model.feature_importances_[order])
    names = [text.get_text() for text in ax.get_yticklabels()][::-1]
    assert names == [houses.data.columns[j] for j in order]


def test_importances_of_other_kinds(ax):
    X, y = two_classes()
    model = LogisticClassifier().fit(X, y)
    plot_importance(model, feature_names=["a", "b", "c"], ax=ax)
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx(
        sorted(np.abs(np.ravel(model.coef_)))
    )
    assert ax.get_xlabel() == "absolute coefficient, per unit of each feature"
    ax.clear()
    result = permutation_importance(model, X, y, random_state=0)
    plot_importance(result, ax=ax)
    assert len(ax.patches) == 3 and len(ax.containers) == 2  # bars and their spread
    with pytest.raises(ValueError, match="one name for each of the 3 features, got 2"):
        plot_importance(result, feature_names=["a", "b"], ax=ax)
    with pytest.raises(ValueError, match="feature_importances_ or coef_.*got XGBRegressor"):
        plot_importance(XGBRegressor(), ax=ax)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_coefficients_are_compared_in_standard_deviations(unit, ax):
    rng = np.random.default_rng(0)
    town = np.array(["a", "b"], dtype=object)[np.arange(200) % 2]
    X = {"length": rng.normal(size=200), "town": town, "gap": rng.normal(0, 2, 200)}
    y = 3 * X["length"] + (town == "b") * 4 + X["gap"]
    X["gap"][:20] = np.nan
    X["length"] = X["length"] * unit
    model = LinearRegressor().fit(X, y)
    plot_importance(model, X, ax=ax)
    widths = {
        text.get_text(): bar.get_width()
        for text, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    length, _, gap = np.abs(model.coef_)
    assert widths["length"] == pytest.approx(length * X["length"].std())
    # Half of the rows are 4 higher than the others: 2 from the mean.
    assert widths["town"] == pytest.approx(2, rel=0.05)
    assert widths["gap"] == pytest.approx(gap * np.nanstd(X["gap"]))
    assert list(widths) == ["gap", "town", "length"]  # the largest on top
    assert ax.get_xlabel() == "absolute coefficient x standard deviation"
    with pytest.raises(ValueError, match="X must have 3 columns, got 1"):
        plot_importance(model, {"length": X["length"]}, ax=ax)


@pytest.mark.peer
@pytest.mark.parametrize("weighted", [False, True])
def test_roc_points_are_those_of_scikit_learn(weighted):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    score = np.round(rng.normal(size=300) + y, 1)
    weight = rng.integers(0, 4, size=300) if weighted else None
    ours = roc_curve(y, score, sample_weight=weight)
    theirs = metrics.roc_curve(y, score, sample_weight=weight)
    if not weighted:
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other)
    area = np.sum(np.diff(ours[0]) * (ours[1][1:] + ours[1][:-1]) / 2)
    expected = roc_auc_score(y, score, sample_weight=weight)
    assert area == pytest.approx(expected)
    with pytest.raises(ValueError, match="two classes, y_true holds 1"):
        roc_curve(np.ones(5), np.arange(5.0))


def test_a_curve_for_each_of_three_classes(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = CARTClassifier(max_depth=2).fit(X, y)
    plot_roc_curve(model, X, y, label="tree", ax=ax)
    labels = [line.get_label() for line in ax.lines[:-1]]
    assert [label.split(" (")[0] for label in labels] == ["tree, 0", "tree, 1", "tree, 2"]
    area = roc_auc_score(y == 1, model.predict_proba(X)[:, 1])
    assert f"({area:.3f})" in labels[1]
    with pytest.raises(ValueError, match="classifier, got XGBRegressor"):
        plot_roc_curve(XGBRegressor(), X, y, ax=ax)


def test_the_curve_of_two_classes(ax):
    X, y = two_classes()
    model = XGBClassifier(n_estimators=5).fit(X, y)
    plot_roc_curve(model, X, y, ax=ax)
    fpr, tpr, _ = roc_curve(y == "yes", model.predict_proba(X)[:, 1])
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.column_stack([fpr, tpr]))


def test_a_surface_holds_other_features_at_typical_values(houses, ax):
    model = XGBRegressor(n_estimators=20).fit(houses.data, houses.target)
    pair = ("living_area", "lot_frontage")
    plot_decision_surface(
        model, houses.data, houses.target, features=pair, grid_resolution=7, ax=ax
    )
    mesh = ax.collections[0]
    surface = np.asarray(mesh.get_array()).reshape(7, 7)
    corners = mesh.get_coordinates()
    points = (corners[1:, 1:] + corners[:-1, :-1]) / 2
    row = houses.data.iloc[[0]].copy()
    for name in houses.data:
        column = houses.data[name]
        number = column.dtype.kind in "fi"
        row[name] = column.median() if number else column.mode()[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == pair
    for i, j in ((0, 0), (3, 5), (6, 2)):
        row[list(pair)] = points[i, j]
        assert surface[i, j] == pytest.approx(model.predict(row)[0])


def test_surfaces_of_classes(ax):
    X, y = two_classes()
    plot_decision_surface(CARTClassifier(max_depth=2).fit(X, y), X, y, ax=ax)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["no", "yes"]
    ax.clear()
    several = np.digitize(X[:, 1], [-0.5, 0.5])
    plot_decision_surface(CARTClassifier(max_depth=2).fit(X, several), X, several, ax=ax)
    assert set(np.unique(ax.collections[0].get_array())) == {0, 1, 2}
    two = XGBRegressor(n_estimators=2).fit(X, X[:, :2])
    with pytest.raises(ValueError, match="shows one output"):
        plot_decision_surface(two, X, ax=ax)
    with pytest.raises(ValueError, match="pair of columns"):
        plot_decision_surface(CARTClassifier().fit(X, y), X, features=(0,), ax=ax)
