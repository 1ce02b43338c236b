"""Figures of Shapley values: what each feature adds to the predictions of single rows."""

from __future__ import annotations

from html import escape

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.insight import Explanation, explanation
from hybridtrees._compare.report_data import cut
from hybridtrees._compare.report_style import N_SHADES, color_class, figure
from hybridtrees._compare.result import Comparison
from hybridtrees.inspection.shap_plots import feature_shades, swarm_offsets

_MOST_FEATURES = 10


def shap_figures(comparison: Comparison) -> str:
    """Bars and swarms of Shapley values; empty if no model can be explained."""
    found = explanation(comparison)
    if found is None:
        return ""
    values = np.atleast_3d(found.values.values)
    sizes = np.abs(values).mean(axis=0)  # (n_features, n_outputs)
    order = np.argsort(-sizes.sum(axis=1), kind="stable")[:_MOST_FEATURES]
    order = order[sizes[order].sum(axis=1) > 0]
    if not len(order):  # a constant
        return ""
    names = [cut(comparison.data.feature_names[j]) for j in order]
    bars = [svg.Row(n, [sizes[j].sum()]) for n, j in zip(names, order, strict=True)]
    mean = "mean |SHAP value|" + (", sum over the classes" if values.shape[2] > 1 else "")
    marks = [svg.Mark(mean, "bar")]
    style = color_class(found.result.family)
    drawn = svg.dot_rows("mean sizes of SHAP values", bars, marks, bars=True, most_ticks=4)
    # Of several classes the one whose values are largest.
    shown = int(sizes.sum(axis=0).argmax())
    swarms = [_swarm(comparison, found, j, shown) for j in order]
    outputs = found.values.output_names
    of_class = "" if outputs is None else f", class {cut(outputs[shown])}"
    swarm = _legend(comparison, found, order) + svg.swarm_rows("SHAP values of rows", swarms)
    return (
        f"<h4>SHAP values</h4><p class='muted'>{_about(comparison, found)}</p>"
        + figure(mean[0].upper() + mean[1:], drawn, style)
        + figure(f"SHAP values, a dot for each row{of_class}", swarm)
    )


def _about(comparison: Comparison, found: Explanation) -> str:
    """Return a line about whose values these are, and what they add up to."""
    n_rows, what = len(found.values.values), found.values.explained
    if comparison.data.n_classes == 2:
        assert comparison.data.classes is not None
        what += f" of {cut(str(comparison.data.classes[1]))}"
    line = f"what knowing a feature adds to the {escape(what)} of a row, for {n_rows} test rows"
    winner, shown = comparison.winner, found.result
    if shown is winner:
        return line
    chip = f"<span class='chip {color_class(shown.family)}'>{escape(shown.family.name)}</span>"
    return (
        f"{line}. These are of {chip}, the best model with SHAP values that are exact and quick: "
        f"{escape(winner.family.name)} has none"
    )


def _swarm(comparison: Comparison, found: Explanation, j: int, output: int) -> svg.Swarm:
    """Points of one feature, coloured by its values."""
    own = np.atleast_3d(found.values.values)[:, j, output]
    places = np.full(len(own), np.nan)
    if not comparison.data.columns.is_category(j):
        places = feature_shades(found.values.data[:, j])
    steps = np.nan_to_num(places * (N_SHADES - 1)).round().astype(int)
    styles = [
        "plain" if np.isnan(place) else f"v{step}"
        for place, step in zip(places, steps, strict=True)
    ]
    about = f"from {own.min():.4g} to {own.max():.4g}"
    name = cut(comparison.data.feature_names[j])
    return svg.Swarm(name, own.tolist(), swarm_offsets(own).tolist(), styles, about)


def _legend(comparison: Comparison, found: Explanation, order: np.ndarray) -> str:
    """Return what the colours mean."""
    marks = [svg.Mark("low value of the feature", "v0 full")]
    marks.append(svg.Mark("high value", f"v{N_SHADES - 1} full"))
    category = any(comparison.data.columns.is_category(j) for j in order)
    missing = bool(np.isnan(found.values.data[:, order].astype(np.float64)).any())
    words = [word for word, there in (("category", category), ("missing", missing)) if there]
    if words:
        marks.append(svg.Mark(" or ".join(words), "plain full"))
    return svg.key(marks)
