"""Plots of Shapley values: what is drawn, and what is refused."""

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.inspection import (
    plot_shap_bar,
    plot_shap_beeswarm,
    plot_shap_dependence,
    plot_shap_waterfall,
)
from hybridtrees.inspection.shap_plots import feature_shades, swarm_offsets

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
PLOTS = (plot_shap_bar, plot_shap_beeswarm, plot_shap_waterfall)


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    X[::9, 1] = np.nan
    y = 3 * X[:, 0] + np.where(np.nan_to_num(X[:, 1]) > 0, 1.0, 0.0)
    one = ht.XGBRegressor(n_estimators=10).fit(X, y).shap_values(X)
    three = ht.XGBClassifier(n_estimators=3).fit(X, np.digitize(y, [-1, 1])).shap_values(X)
    return one, three


def labels(axis):
    return [label.get_text() for label in axis.get_yticklabels()]


def test_bar(results, ax):
    plot_shap_bar(results[0], max_features=2, ax=ax)
    assert labels(ax) == ["feature_1", "feature_0"]
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths[::-1], np.abs(results[0].values[:, :2]).mean(axis=0))


def test_beeswarm(results, ax):
    plot_shap_beeswarm(results[0], max_rows=60, ax=ax)
    points = [part.get_offsets() for part in ax.collections]
    assert sum(map(len, points)) == 4 * 60
    top = np.concatenate(points[-2:])
    np.testing.assert_allclose(np.sort(top[:, 0]), np.sort(results[0].values[::2, 0]))


def test_waterfall(results, ax):
    result = results[0]
    plot_shap_waterfall(result, 9, max_features=2, ax=ax)
    names = labels(ax)
    assert len(names) == 3 and names[0] == "2 other features"
    assert any("missing" in name for name in names)
    np.testing.assert_allclose(
        sum(bar.get_width() for bar in ax.patches), result.values[9].sum(), atol=1e-12
    )


def test_dependence(results, ax):
    plot_shap_dependence(results[0], "feature_0", color_by=1, ax=ax)
    points = ax.collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 1], results[0].values[:, 0])
    np.testing.assert_allclose(points[:, 0], results[0].data[:, 0])


def test_categories(ax):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"city": pd.Categorical(["Rome", "Oslo"] * 30), "x": np.arange(60.0)})
    model = ht.XGBRegressor(n_estimators=5).fit(X, X["x"] + 50 * (X["city"] == "Oslo"))
    plot_shap_dependence(model.shap_values(X), "city", ax=ax)
    assert {label.get_text() for label in ax.get_xticklabels()} == {"Rome", "Oslo"}
    ax.clear()
    plot_shap_waterfall(model.shap_values(X), ax=ax)
    assert "city = Rome" in labels(ax)


@pytest.mark.parametrize("plot", PLOTS)
def test_several_outputs(plot, results, ax):
    plot(results[1], output="2", ax=ax)
    plot(results[1], output=2, ax=ax)
    for wrong in (None, 3, "nobody", True):
        with pytest.raises(ValueError, match="output must be one of"):
            plot(results[1], output=wrong, ax=ax)
    with pytest.raises(ValueError, match="output must be None"):
        plot(results[0], output="2", ax=ax)


@pytest.mark.parametrize("plot", PLOTS)
def test_bad_input(plot, results, ax):
    with pytest.raises(TypeError, match="what shap_values returns"):
        plot(results[0].values, ax=ax)
    with pytest.raises((ValueError, TypeError), match="max_features"):
        plot(results[0], max_features=0, ax=ax)


def test_more_bad_input(ax):
    X = np.random.default_rng(0).normal(size=(50, 3))
    model = ht.XGBRegressor(n_estimators=2).fit(X, X[:, 0])
    both = model.shap_values(X, interactions=True)
    with pytest.raises(ValueError, match="not interactions"):
        plot_shap_bar(both, ax=ax)
    result = model.shap_values(X)
    with pytest.raises(ValueError, match="row"):
        plot_shap_waterfall(result, 50, ax=ax)
    for wrong in (3, -1, "x9"):
        with pytest.raises(ValueError, match="feature must be"):
            plot_shap_dependence(result, wrong, ax=ax)


def test_shades_and_offsets():
    np.testing.assert_array_equal(feature_shades(np.full(4, 2.0)), np.full(4, 0.5))
    assert np.isnan(feature_shades(np.full(3, np.nan))).all()
    shades = feature_shades(np.array([*range(100), np.nan]))
    assert shades[0] == 0 and shades[99] == 1 and np.isnan(shades[100])
    offsets = swarm_offsets(np.zeros(101))
    assert len(np.unique(offsets)) == 101 and np.abs(offsets).max() <= 0.4 + 1e-9
    assert swarm_offsets(np.zeros(0)).shape == (0,)
