"""Accumulated local effects against their definition, and learning curves."""

import numpy as np
import pytest

import hybridtrees as ht
from hybridtrees.inspection import (
    accumulated_local_effects,
    plot_accumulated_local_effects,
    plot_metric,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def oracle(predict, X, weight, edges, j):
    """Effects by loops over intervals and rows."""
    steps, counts = [], []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        change = total = 0.0
        for x, w in zip(X, weight, strict=True):
            inside = low < x[j] <= high or (x[j] == low == edges[0])
            if inside and w > 0:
                ends = np.array([x, x])
                ends[:, j] = low, high
                first, last = predict(ends)
                change, total = change + w * (last - first), total + w
        steps.append(change / total if total else 0.0)
        counts.append(total)
    effects = np.append(0, np.cumsum(steps))
    middle = (effects[1:] + effects[:-1]) / 2
    return effects - np.average(middle, weights=counts), counts


@pytest.mark.parametrize("weighted", [False, True])
def test_definition(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[::7, 1] = np.nan
    X[::5, 0] = 0.5
    X[3, 0] = np.nan
    weight = rng.integers(0, 3, size=80).astype(float) if weighted else np.ones(80)
    model = ht.XGBRegressor(n_estimators=5).fit(X, np.nan_to_num(X[:, 0] * X[:, 1]) + X[:, 2])
    found = accumulated_local_effects(model, X, 0, n_intervals=7, sample_weight=weight)
    known = ~np.isnan(X[:, 0])
    wanted = oracle(model.predict, X[known], weight[known], found.grid_values, 0)
    np.testing.assert_allclose(found.effects[0], wanted[0], atol=1e-10)
    np.testing.assert_allclose(found.weights, wanted[1])


def test_correlated_features():
    """A line has its own slope, although the other feature moves with it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    X = np.column_stack([x, x + 0.1 * rng.normal(size=200)])
    model = ht.LinearRegressor().fit(X, 2 * X[:, 0] - X[:, 1])
    found = accumulated_local_effects(model, X, 0)
    slope = np.diff(found.effects[0]) / np.diff(found.grid_values)
    np.testing.assert_allclose(slope, 2.0, rtol=1e-8)


def test_classes_and_plot(ax):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": rng.normal(size=90), "c": rng.choice(["u", "v"], 90)})
    model = ht.XGBClassifier(n_estimators=3).fit(X, np.digitize(X["x"], [-0.5, 0.5]))
    plot_accumulated_local_effects(model, X, "x", ax=ax, n_intervals=5)
    assert [line.get_label() for line in ax.get_lines()[:3]] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="no order"):
        accumulated_local_effects(model, X, "c")
    with pytest.raises((TypeError, ValueError), match="n_intervals"):
        accumulated_local_effects(model, X, "x", n_intervals=0)
    with pytest.raises(ValueError, match="single value"):
        accumulated_local_effects(model, X.assign(x=1.0), "x")
    with pytest.raises(ValueError, match="no value"):
        accumulated_local_effects(model, X.assign(x=np.nan), "x")


def test_learning_curves(ax):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + rng.normal(size=120)
    model = ht.XGBRegressor(n_estimators=30, early_stopping_rounds=3)
    model.fit(X[:80], y[:80], eval_set=[(X[:80], y[:80]), (X[80:], y[80:])])
    plot_metric(model, ax=ax)
    lines = ax.get_lines()
    wanted = model.evals_result()
    for line, own in zip(lines[:2], wanted.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), next(iter(own.values())))
    assert lines[2].get_xdata()[0] == model.best_iteration + 1
    with pytest.raises(ValueError, match="metric must be one of"):
        plot_metric(model, "nothing", ax=ax)
    with pytest.raises(ValueError, match="no scores of rounds"):
        plot_metric(ht.XGBRegressor(n_estimators=2).fit(X, y), ax=ax)
    for model in (ht.GradientBoostingRegressor(n_estimators=4), ht.EBLRRegressor(n_rules=3)):
        ax.clear()
        plot_metric(model.fit(X, y), ax=ax)
        assert len(ax.get_lines()[0].get_ydata()) >= 1
