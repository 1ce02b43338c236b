"""A fitted tree as SVG."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees._compare import svg
from hybridtrees.inspection._colors import CUT_COLOR, node_colors, text_color
from hybridtrees.inspection._layout import tidy_positions
from hybridtrees.inspection._named_tree import NamedTree, read_tree
from hybridtrees.inspection._wording import NodeStyle, node_lines, wrap

_CHAR, _LINE, _PAD = 6.8, 15, 8
_GAP_X, _GAP_Y = 14, 34
_STYLE = NodeStyle(impurity=False, max_categories=4, show_missing=False)


def draw_tree(model: Any, max_depth: int = 3) -> str:
    """Draw the tree of a model down to a depth."""
    named = read_tree(model)
    nodes = named.shown_nodes(max_depth)
    place = {node: k for k, node in enumerate(nodes)}
    left, right = (
        [place.get(side[node], -1) for node in nodes] for side in (named.left, named.right)
    )
    lines = [_lines(named, node, node_is_cut) for node, node_is_cut in _cut(named, nodes)]
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
        cut = named.depths[node] == max_depth and not named.is_leaf(node)
        fill = CUT_COLOR if cut else colors[node]
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


def _cut(named: NamedTree, nodes: list[int]) -> list[tuple[int, bool]]:
    """Nodes, and whether their branches are left out."""
    shown = set(nodes)
    return [(node, not named.is_leaf(node) and named.left[node] not in shown) for node in nodes]


def _lines(named: NamedTree, node: int, is_cut: bool) -> list[str]:
    if is_cut:
        return ["..."]
    return wrap(node_lines(named, node, _STYLE), 34)
