"""Parts of the report that show what single models have learned."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import numpy as np

from hybridtrees._compare import svg
from hybridtrees._compare.report_style import html_table, numbers, part, wide
from hybridtrees._compare.result import Comparison
from hybridtrees.inspection import export_text
from hybridtrees.inspection._drawing import CUT_COLOR, node_colors, text_color, tidy_positions
from hybridtrees.inspection._named_tree import read_tree
from hybridtrees.inspection._wording import NodeStyle, node_lines, wrap

_TREE_DEPTH = 3
_MOST_LINES, _LINE_WIDTH = 120, 130
# Sizes in a drawn tree, in pixels.
_CHAR, _LINE, _PAD = 6.8, 15, 8
_GAP_X, _GAP_Y = 14, 34
_STYLE = NodeStyle(impurity=False, max_categories=4, show_missing=False)


def model_sections(comparison: Comparison) -> list[str]:
    """Return parts about the trees, rules and equations of a comparison's models."""
    models = comparison.models_
    parts = []
    single = next((key for key in models if key in ("cart", "linear_tree")), None)
    if "cart" in models:
        title = "The best tree" if single == "cart" else "The best tree with constant leaves"
        parts.append(_tree(models["cart"], title))
    if "eblr" in models:
        parts.append(_rules(models["eblr"]))
    if "linear_tree" in models:
        parts.append(_linear_leaves(models["linear_tree"]))
    if "linear" in models:
        listing = _listing(str(models["linear"].summary()).splitlines())
        parts.append(f"<details><summary>The linear model</summary>{listing}</details>")
    return parts


def _tree(model: Any, title: str) -> str:
    depth = model.get_depth() if hasattr(model, "get_depth") else _TREE_DEPTH
    cut = f", the first {_TREE_DEPTH} levels of {depth}" if depth > _TREE_DEPTH else ""
    about = f"CART{cut}; rows that fulfil the condition go left"
    return part(title, about, wide(draw_tree(model, _TREE_DEPTH)))


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
    """Rules of EBLR, the weightiest first."""
    # A rule may be found again in later rounds: its columns are equal, so that coefficients add up.
    found: dict[str, list[Any]] = {}
    for rule in model.rules_:
        found.setdefault(rule.text, []).append(rule)
    if not found:
        return part("Rules of EBLR", "none: the regression alone did best", "")
    total = {words: float(sum(rule.gain for rule in same)) for words, same in found.items()}
    rows = []
    for words in sorted(found, key=lambda words: -total[words]):
        same = found[words]
        coef = np.sum([np.atleast_1d(rule.coef) for rule in same], axis=0)
        signed = ", ".join(f"{value:+.4g}" for value in coef)
        rows.append(
            f"<tr><td class='rule'>{escape(words)}</td>"
            + numbers(signed, same[0].support, f"{same[0].share:.1%}", f"{total[words]:.4g}")
            + "</tr>"
        )
    loss = "mean log-loss" if hasattr(model, "classes_") else "mean squared error"
    about = (
        "columns that were added to the regression; the gain is by how much the "
        f"{loss} on the training rows fell"
    )
    table = html_table(["if", "coefficient", "rows", "share", "gain"], rows)
    return part("Rules of EBLR", about, table)


def _linear_leaves(model: Any) -> str:
    text = export_text(model, show_missing=False)
    lines = [piece for line in text.splitlines() for piece in _folded(line)]
    return part("Leaves of the linear tree", "an equation in every leaf", _listing(lines))


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
