"""SHAP values in the report: of the winner, or of the best model that has them."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import hybridtrees
from hybridtrees._compare import insight, svg
from hybridtrees._compare.families import Family
from hybridtrees._compare.insight import explanation
from hybridtrees._compare.report import make_report
from hybridtrees._compare.report_shap import shap_figures
from hybridtrees._compare.report_style import N_SHADES
from hybridtrees.inspection import shap_values

HOSTILE = "<script>alert('x')</script>"


class Mean:
    """A model of a user."""

    def fit(self, X, y):
        self.mean = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)


def table(n_rows: int = 200) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    kinds = rng.choice(["a", "b", HOSTILE], n_rows).astype(object)
    gaps = np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows))
    return {HOSTILE: rng.normal(size=n_rows), "kind": kinds, "gaps": gaps, "none": np.ones(n_rows)}


@pytest.fixture(scope="module")
def numbers():
    X = table()
    y = 3 * X[HOSTILE] + (X["kind"] == "a") + np.nan_to_num(X["gaps"])
    few = {"models": ["cart", "xgb", "adaboost", "baseline"], "budget": 1e-3}
    return hybridtrees.compare(X, y, **few)


def led_by(comparison, key):
    """The same comparison with another winner."""
    first = sorted(comparison.results, key=lambda result: result.family.key != key)
    return replace(comparison, results=first)


def test_the_winner_is_explained(numbers):
    comparison = led_by(numbers, "xgb")
    found = explanation(comparison)
    assert found.result.family.key == "xgb"
    X = comparison.data.columns.take(comparison.plan.test).table
    total = found.values.values.sum(axis=1) + found.values.base_values
    np.testing.assert_allclose(total, found.result.model.predict(X), rtol=1e-6)


def test_bars_are_the_mean_sizes_the_largest_first(numbers):
    comparison = led_by(numbers, "xgb")
    page = shap_figures(comparison)
    X = comparison.data.columns.take(comparison.plan.test).table
    sizes = np.sort(np.abs(shap_values(comparison.winner.model, X).values).mean(axis=0))[::-1]
    sizes = sizes[sizes > 0]
    assert len(sizes) == 3  # a constant column has no bar
    shown = re.findall("<span class='num'>(.+?)</span>", page)
    assert shown == [f"{size:#.4g}".rstrip(".") for size in sizes]
    assert "These are of" not in page and "<script" not in page and "alert(" in page


def test_every_row_has_a_dot_of_the_colour_of_its_value(numbers):
    comparison = led_by(numbers, "xgb")
    page, n_rows = shap_figures(comparison), len(comparison.plan.test)
    rows = re.findall(r"<svg viewBox=.*?</svg>", page, re.DOTALL)
    assert len(rows) == 3
    counts = {}
    for drawing in rows:
        root = ElementTree.fromstring(drawing)
        dots = {
            path.get("class"): path.get("d").count("h0")
            for path in root.iter("path")
            if path.get("class").startswith("points")
        }
        assert sum(dots.values()) == n_rows
        counts[root.get("aria-label").partition(": from")[0]] = dots
    gone = np.isnan(comparison.data.columns.column(2)[comparison.plan.test].astype(float)).sum()
    assert gone > 0
    assert counts["gaps"]["points plain"] == gone  # missing
    assert counts["kind"] == {"points plain": n_rows}  # codes have no order
    assert set(counts[HOSTILE]) == {f"points v{k}" for k in range(N_SHADES)}
    assert "category or missing" in page


def test_a_winner_without_shap_values_gives_way_to_the_next(numbers):
    comparison = led_by(numbers, "adaboost")
    with pytest.raises(TypeError, match="AdaBoostRegressor"):
        shap_values(comparison.winner.model, np.zeros((1, 4)))
    found, page = explanation(comparison), shap_figures(comparison)
    follower = next(r for r in comparison.results if r.family.key in ("cart", "xgb"))
    assert found.result is follower
    name = re.escape(follower.family.name)
    assert re.search(f"These are of <span class='chip m-.*?'>{name}</span>", page)
    assert f"{comparison.winner.family.name} has none" in page
    make_report([comparison])


def test_the_ensemble_of_all_models_is_explained():
    X = table()
    y = 3 * X[HOSTILE] + (X["kind"] == "a")
    few = {"models": ["cart", "linear", "ensemble"], "budget": 1e-3}
    comparison = led_by(hybridtrees.compare(X, y, **few), "ensemble")
    assert explanation(comparison).result.family.key == "ensemble"
    assert "These are of" not in shap_figures(comparison)


def test_models_of_users_do_not_break_the_report():
    X = np.random.default_rng(0).normal(size=(60, 2))
    comparison = hybridtrees.compare(X, X[:, 0], models=[Family("mean", "mean", Mean, Mean)])
    assert explanation(comparison) is None and shap_figures(comparison) == ""
    assert "SHAP values" not in make_report([comparison])


def test_large_models_get_fewer_rows_or_none(numbers, monkeypatch):
    comparison = led_by(numbers, "xgb")
    size = comparison.winner.size_bytes
    monkeypatch.setattr(insight, "_FEWEST_SHAP_ROWS", 5)
    monkeypatch.setattr(insight, "_MOST_SHAP_WORK", 7 * size)
    assert len(explanation(comparison).values.values) == 7
    monkeypatch.setattr(insight, "_FEWEST_SHAP_ROWS", 8)
    assert explanation(comparison).result is not comparison.winner


def test_of_several_classes_one_is_drawn():
    X = table()
    y = np.array(["x", "y", HOSTILE])[np.digitize(X[HOSTILE], [-0.5, 0.5])]
    comparison = hybridtrees.compare(X, y, models=["cart", "baseline"], budget=1e-3)
    page = shap_figures(comparison)
    assert "sum over the classes" in page and ", class " in page and "<script" not in page


def test_a_constant_has_no_figures(numbers):
    columns = numbers.data.columns
    constant = hybridtrees.CARTRegressor().fit(columns.table, np.ones(columns.shape[0]))
    comparison = replace(numbers, results=[replace(numbers.winner, model=constant)])
    assert explanation(comparison) is not None and shap_figures(comparison) == ""


def test_swarms_keep_to_their_row():
    row = svg.Swarm("a", [-2.0, 0.0, 5.0], [0.4, 0.0, -0.4], ["v0", "v0", "plain"], "three")
    drawn = svg.swarm_rows("swarm", [row])
    places = [tuple(map(float, p)) for p in re.findall(r"M([\d.]+) ([\d.]+)h0", drawn)]
    assert len(places) == 3
    assert all(0 < x < 1000 and 0 < y < 34 for x, y in places)
    assert [y for _, y in sorted(places)] == pytest.approx([3.4, 17.0, 30.6])
    assert drawn.count('class="points') == 2
