"""Parts of the report about single models: how they did, what they learned, how to make them."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.insight import Importances, effects
from hybridtrees._compare.report_code import snippet
from hybridtrees._compare.report_data import cut
from hybridtrees._compare.report_predictions import prediction_figures
from hybridtrees._compare.report_shap import shap_figures
from hybridtrees._compare.report_style import (
    N_CLASS_COLORS,
    color_class,
    figure,
    figures,
    folded,
    html_table,
    interval_words,
    part,
    wide,
)
from hybridtrees._compare.result import Comparison, Result, number
from hybridtrees._compare.scores import SCORES
from hybridtrees.inspection import PartialDependence, export_text
from hybridtrees.inspection._drawing import CUT_COLOR, node_colors, text_color, tidy_positions
from hybridtrees.inspection._named_tree import NamedTree, read_tree
from hybridtrees.inspection._wording import NodeStyle, conditions, node_lines, wrap

_TREE_DEPTH = 3
_MOST_LINES, _LINE_WIDTH = 120, 110
_MOST_EFFECTS, _MOST_LEVELS, _MOST_CURVES = 6, 8, 5
# Sizes in a drawn tree, in pixels.
_CHAR, _LINE, _PAD = 6.8, 15, 8
_GAP_X, _GAP_Y = 14, 34
_STYLE = NodeStyle(impurity=False, max_categories=4, show_missing=False)


def model_anchor(anchor: str, result: Result) -> str:
    """Name of the place of a model on the page."""
    return f"{anchor}-{re.sub('[^a-z0-9]+', '-', result.family.key.lower())}"


def models_part(comparison: Comparison, found: Importances | None, anchor: str) -> str:
    """Return the part with a piece about each model, the best first."""
    pieces = [_model(comparison, r, found, anchor) for r in comparison.results if r.error is None]
    about = "how each did on the test rows, what it has learned, and the code that makes it again"
    return part("Model by model", about, "".join(pieces), f"{anchor}-models")


def _model(comparison: Comparison, result: Result, found: Importances | None, anchor: str) -> str:
    rank, score = comparison.results.index(result) + 1, comparison.score
    is_winner = result is comparison.winner
    body = [
        f"<details id='{model_anchor(anchor, result)}' {'open' if is_winner else ''} "
        f"class='model {color_class(result.family)}'>"
        f"<summary><span class='chip'>{escape(result.family.name)}</span> <span class='muted'>"
        f"rank {rank}, {escape(score.label)} {number(result.test[score.name])}</span></summary>",
        _facts(result),
        figures(prediction_figures(comparison, result)),
    ]
    if is_winner:
        body += [piece(comparison, found) for piece in _OF_THE_WINNER]
    show = _LEARNED.get(result.family.key)
    if show is not None:
        body.append(show(result.model))
    code = snippet(comparison, result)
    if code is not None:
        body.append(folded("Python code", f"<pre class='code'>{escape(code)}</pre>"))
    body.append(f"<p class='back'><a href='#{anchor}-board'>to the leaderboard</a></p></details>")
    return "".join(body)


def _facts(result: Result) -> str:
    """Return the parameters, and a line of scores with their intervals."""
    scores = []
    for name, value in result.test.items():
        spread = interval_words(result.test_intervals.get(name))
        scores.append(f"{escape(SCORES[name].label)} <b>{number(value)}</b>{spread}")
    setting = escape(result.describe_setting()) or "defaults"
    return f"<p class='muted'>{setting}</p><p>Test rows: {', '.join(scores)}</p>"


# ---- The winner -------------------------------------------------------------------------------


def _effects(comparison: Comparison, found: Importances | None) -> str:
    """How the prediction depends on the features that the model needs most."""
    features = [] if found is None else found.of_winner[:_MOST_EFFECTS]
    drawings = [_effect(comparison, one) for one in effects(comparison, features)]
    if not drawings:
        return ""
    classes, what = comparison.data.classes, "the mean prediction"
    if classes is not None:
        of = escape(str(classes[1])) if len(classes) == 2 else "each class"
        what = f"the mean probability of {of}"
    about = f"{what} when one feature is set to a value in all rows and the others stay"
    return f"<h4>Partial dependence</h4><p class='muted'>{about}</p>{figures(drawings)}"


def _effect(comparison: Comparison, found: PartialDependence) -> str:
    """Draw one feature's effect: curves over numbers, dots for categories."""
    assert found.average is not None
    grid, name = found.grid_values[0], cut(found.feature_names[0])
    curves = found.average[: min(_MOST_CURVES, N_CLASS_COLORS)]
    one = len(found.average) == 1
    marks = [
        svg.Mark(cut(label), "full" if one else f"k{k} full")
        for k, label in enumerate(found.output_names[: len(curves)])
    ]
    title = f"partial dependence on {name}"
    if found.is_categorical[0]:
        # Of many levels those whose effects are furthest apart.
        far = np.abs(curves - curves.mean(axis=1, keepdims=True)).max(axis=0)
        shown = np.argsort(-far, kind="stable")[:_MOST_LEVELS]
        shown = shown[np.argsort(-curves[0, shown], kind="stable")]
        rows = [svg.Row(cut(str(grid[k])), curves[:, k].tolist()) for k in shown.tolist()]
        drawing = svg.dot_rows(title, rows, marks, numbers=one, most_ticks=3)
        return figure(name, drawing, "small")
    axes = svg.Axes(grid, curves.ravel(), x_label=name)
    for curve, mark in zip(curves, marks, strict=True):
        axes.line(grid, curve, "bare best" if one else f"bare {mark.style}")
    return figure(name, axes.draw(title) + ("" if one else svg.key(marks, lines=True)))


def _shap(comparison: Comparison, found: Importances | None) -> str:
    """Shapley values: what each feature adds to the predictions of single rows."""
    return shap_figures(comparison)


# What the page shows of the winner alone, in this order. A further way to explain it is a further
# function here.
_OF_THE_WINNER: tuple[Callable[[Comparison, Importances | None], str], ...] = (_effects, _shap)


# ---- Trees, rules and equations ---------------------------------------------------------------


def _tree(model: Any) -> str:
    depth = model.get_depth() if hasattr(model, "get_depth") else _TREE_DEPTH
    cut_off = f", the first {_TREE_DEPTH} levels of {depth}" if depth > _TREE_DEPTH else ""
    about = f"rows that fulfil the condition go left{cut_off}"
    drawing = wide(draw_tree(model, _TREE_DEPTH), "the tree", "tree")
    named = read_tree(model)
    return (
        f"<h4>The tree</h4><p class='muted'>{about}</p>{drawing}"
        f"<ul class='outline'>{_outline(named, 0, _TREE_DEPTH)}</ul>"
    )


def _outline(named: NamedTree, node: int, levels: int) -> str:
    """Items of the tree below a node, for screens on which no drawing fits."""
    if named.is_leaf(node) or not levels:
        words = ["..."] if not named.is_leaf(node) else node_lines(named, node, _STYLE)
        return f"<li>{escape(', '.join(words))}</li>"
    sides = zip(
        conditions(named, node, 3, 4, False), (named.left[node], named.right[node]), strict=True
    )
    return "".join(
        f"<li>if <b>{escape(when)}</b><ul>{_outline(named, child, levels - 1)}</ul></li>"
        for when, child in sides
    )


def draw_tree(model: Any, max_depth: int = 3) -> str:
    """Draw the tree of a model down to a depth."""
    named = read_tree(model)
    nodes = named.shown_nodes(max_depth)
    place = {node: k for k, node in enumerate(nodes)}
    left, right = (
        [place.get(side[node], -1) for node in nodes] for side in (named.left, named.right)
    )
    cut = [named.depths[node] == max_depth and not named.is_leaf(node) for node in nodes]
    lines = [
        ["..."] if is_cut else wrap(node_lines(named, node, _STYLE), 34)
        for node, is_cut in zip(nodes, cut, strict=True)
    ]
    widths = [2 * _PAD + _CHAR * max(map(len, part)) for part in lines]
    x = tidy_positions(left, right, widths, _GAP_X)
    depths = np.array([named.depths[node] for node in nodes])
    heights = np.array([2 * _PAD + _LINE * len(part) for part in lines], dtype=float)
    tall = [heights[depths == level].max() for level in range(depths.max() + 1)]
    tops = np.concatenate([[0.0], np.cumsum(np.array(tall) + _GAP_Y)])[depths] + 4
    colors = node_colors(named)
    parts = []
    for k in range(len(nodes)):
        for child in (left[k], right[k]):
            if child >= 0:
                parts.append(svg.line(x[k], tops[k] + heights[k], x[child], tops[child], "branch"))
    for k, node in enumerate(nodes):
        fill = CUT_COLOR if cut[k] else colors[node]
        parts.append(
            f'<rect x="{x[k] - widths[k] / 2:.1f}" y="{tops[k]:.1f}" width="{widths[k]:.1f}" '
            f'height="{heights[k]:.1f}" rx="5" fill="{fill}" class="node"/>'
        )
        for row, content in enumerate(lines[k]):
            y = tops[k] + _PAD + _LINE * (row + 0.75)
            words = svg.text(x[k], y, content, "nodetext", "middle")
            parts.append(words.replace("<text ", f'<text fill="{text_color(fill)}" ', 1))
    width = float(max(x + np.array(widths) / 2)) + 4
    return svg.page(width, float((tops + heights).max()) + 6, "decision tree", parts)


def _rules(model: Any) -> str:
    """Rules of EBLR, those of the largest gain first."""
    # A rule may be found again in later rounds: its columns are equal, so that coefficients add up.
    found: dict[str, list[Any]] = {}
    for rule in model.rules_:
        found.setdefault(rule.text, []).append(rule)
    if not found:
        return "<h4>Rules</h4><p class='muted'>none: the regression alone did best</p>"
    total = {words: float(sum(rule.gain for rule in same)) for words, same in found.items()}
    rows = []
    for words in sorted(found, key=lambda words: -total[words]):
        same = found[words]
        coef = np.sum([np.atleast_1d(rule.coef) for rule in same], axis=0)
        signed = ", ".join(f"{value:+.4g}" for value in coef)
        rows.append(
            [
                escape(words),
                signed,
                str(same[0].support),
                f"{same[0].share:.1%}",
                f"{total[words]:.4g}",
            ]
        )
    loss = "mean log-loss" if hasattr(model, "classes_") else "mean squared error"
    about = (
        "columns that were added to the regression; the gain is by how much the "
        f"{loss} on the training rows fell"
    )
    table = html_table(["if", "coefficient", "rows", "share", "gain"], rows, title="rules")
    return f"<h4>Rules</h4><p class='muted'>{about}</p>{table}"


def _linear_leaves(model: Any) -> str:
    text = export_text(model, show_missing=False)
    lines = [piece for line in text.splitlines() for piece in _folded(line)]
    return folded("The equation of every leaf", _listing(lines))


def _linear(model: Any) -> str:
    return folded("The equation", _listing(str(model.summary()).splitlines()))


# What is shown of a family beyond its scores, by its key.
_LEARNED: dict[str, Callable[[Any], str]] = {
    "cart": _tree,
    "eblr": _rules,
    "linear_tree": _linear_leaves,
    "linear": _linear,
}


def _listing(lines: list[str]) -> str:
    """Lines as they stand, as far as there are not too many."""
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... {len(lines) - _MOST_LINES} more lines"]
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _folded(line: str) -> list[str]:
    """Break a long equation before a term; the other lines stand under the first."""
    head, equals, terms = line.partition(" = ")
    if len(line) <= _LINE_WIDTH or not equals:
        return [line]
    under = head[: head.rfind("|")] + "|" + " " * (len(head) - head.rfind("|") + 2)
    lines, current = [], head + equals
    for k, term in enumerate(re.split(r" (?=[+-] )", terms)):
        if k and len(current) + 1 + len(term) > _LINE_WIDTH:
            lines.append(current)
            current = under + term
        else:
            current += (" " if k else "") + term
    return [*lines, current]
