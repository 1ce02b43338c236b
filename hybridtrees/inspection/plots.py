"""Plots of trees; matplotlib is imported on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_real
from hybridtrees.inspection._drawing import CUT_COLOR, node_colors, text_color, tidy_positions
from hybridtrees.inspection._named_tree import NamedTree, read_tree
from hybridtrees.inspection._wording import NodeStyle, node_lines, wrap

# All lengths are in units of the font size.
_PADDING = 0.45  # between the text of a box and its border
_GAP = 1.3  # between neighbours
_LEVEL_GAP = 2.2  # between the boxes of one level and the next
_MEASURE_SIZE = 10.0
_SLACK = 1.05  # text scales less than in proportion to small font sizes
_LARGEST_FONT = 12.0
_SMALLEST_FONT = 0.5


def plot_tree(
    estimator: Any,
    *,
    tree_index: int = 0,
    max_depth: int | None = None,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | bool | None = None,
    label: str = "all",
    filled: bool = False,
    impurity: bool = True,
    node_ids: bool = False,
    proportion: bool = False,
    rounded: bool = False,
    precision: int | None = 3,
    show_missing: bool = True,
    max_categories: int | None = 10,
    ax: Any = None,
    fontsize: float | None = None,
) -> list[Any]:
    """Plot a tree, like ``sklearn.tree.plot_tree``.

    Rows that meet the condition of a node go to its left child.

    Parameters
    ----------
    estimator : fitted estimator or Tree
        With ``tree_``, or with ``trees_``, of which `tree_index` selects one.
    tree_index : int, default=0
        Index of the tree in an ensemble; negative numbers count from the end.
    max_depth : int, optional
        Maximum depth that is drawn; branches below it are shown as "(...)".
    feature_names, class_names : sequence of str, optional
        Names in place of those seen in fit; ``class_names=False`` omits the classes.
    label : {"all", "root", "none"}, default="all"
        In which nodes the numbers have labels.
    filled : bool, default=False
        Whether to colour the nodes by the majority class, or by their value in regression.
    impurity, node_ids : bool
        Whether to show the impurities, if the tree keeps them, and the numbers of the nodes.
    proportion : bool, default=False
        Whether to show shares of rows and of class weights instead of amounts.
    rounded : bool, default=False
        Whether to round the corners of the boxes.
    precision : int or None, default=3
        Digits after the decimal point; None writes every number in full.
    show_missing : bool, default=True
        Whether to show where rows with a missing value go: the condition of a node mentions them if
        they go left.
    max_categories : int or None, default=10
        Maximum number of labels of a category set that are written; None means no limit.
    ax : matplotlib Axes, optional
        By default the current Axes.
    fontsize : float, optional
        By default the largest size, up to 12, at which no two boxes touch.

    Returns
    -------
    artists : list of matplotlib Annotation
        One per drawn node, in the order of the tree's nodes (``arrow_patch`` is the line to the
        parent), then the labels of the two branches of the root.
    """
    max_depth = check_integer("max_depth", max_depth, 0, allow_none=True)
    style = NodeStyle(
        label, impurity, node_ids, proportion, precision, max_categories, show_missing
    )
    check_boolean("filled", filled)
    check_boolean("rounded", rounded)
    fontsize = check_real("fontsize", fontsize, 0, closed="neither", allow_none=True)
    named = read_tree(estimator, tree_index, feature_names, class_names)
    if ax is None:
        ax = pyplot().gca()
    nodes = named.shown_nodes(None if max_depth is None else max_depth + 1)
    texts = [
        "\n".join(wrap(node_lines(named, node, style)))
        if max_depth is None or named.depths[node] <= max_depth
        else "(...)"
        for node in nodes
    ]
    colors = node_colors(named) if filled else None
    ax.clear()
    ax.set_axis_off()
    drawing = _Drawing(ax, named, nodes, texts, fontsize)
    return drawing.draw(colors, "round" if rounded else "square")


class _Drawing:
    """The boxes of a tree, measured and placed in the axes."""

    def __init__(
        self, ax: Any, named: NamedTree, nodes: list[int], texts: list[str], fontsize: float | None
    ) -> None:
        self.ax, self.nodes, self.texts = ax, nodes, texts
        place = {node: k for k, node in enumerate(nodes)}
        left = [place.get(named.left[node], -1) for node in nodes]
        right = [place.get(named.right[node], -1) for node in nodes]
        self.parent = np.full(len(nodes), -1)
        for k, (first, second) in enumerate(zip(left, right, strict=True)):
            if first >= 0:
                self.parent[[first, second]] = k
        self.cut = {k for k, text in enumerate(texts) if text == "(...)"}
        sizes = _SLACK * _measure(ax, texts) + 2 * _PADDING
        widths, heights = sizes[:, 0], sizes[:, 1]
        levels = np.array([named.depths[node] for node in nodes])
        level_heights = np.zeros(levels.max() + 1)
        np.maximum.at(level_heights, levels, heights)
        tops = np.concatenate([[0], np.cumsum(level_heights + _LEVEL_GAP)])
        x = tidy_positions(left, right, widths.tolist(), _GAP)
        y = tops[levels] + level_heights[levels] / 2
        span = np.array([np.max(x + widths / 2), tops[-1] - _LEVEL_GAP])
        box = ax.get_window_extent()
        points = np.array([box.width, box.height]) * 72.0 / ax.figure.dpi
        fitting = float(np.min(points / span))
        self.fontsize = fontsize or min(_LARGEST_FONT, max(_SMALLEST_FONT, fitting))
        # The tree is stretched or squeezed to fill the axes.
        edge = sizes * self.fontsize / points / 2
        self.x = _spread(x, widths, edge[:, 0])
        self.y = 1 - _spread(y, heights, edge[:, 1])
        self.half_heights = heights * self.fontsize / 2  # in points

    def draw(self, colors: list[str] | None, corners: str) -> list[Any]:
        """Add the boxes, the lines between them and the labels of the root's branches."""
        size = self.fontsize
        line = max(0.2, 0.08 * size)
        artists = []
        for k, node in enumerate(self.nodes):
            fill = "#ffffff" if colors is None else CUT_COLOR if k in self.cut else colors[node]
            box = {
                "boxstyle": f"{corners},pad={_PADDING}",
                "facecolor": fill,
                "edgecolor": "black",
                "linewidth": line,
            }
            common = {
                "xycoords": "axes fraction",
                "textcoords": "axes fraction",
                "ha": "center",
                "va": "center",
                "bbox": box,
                "fontsize": size,
                "color": text_color(fill),
                "parse_math": False,
                "zorder": 3 - k / len(self.nodes),  # lines end below the boxes of the parents
            }
            here = (self.x[k], self.y[k])
            up = self.parent[k]
            if up >= 0:
                common["arrowprops"] = {
                    "arrowstyle": "-",
                    "linewidth": line,
                    "relpos": (0.5, 1.0),
                    "shrinkA": 0,
                    "shrinkB": 0,
                }
                common["xycoords"] = self._below(up)
            target = here if up < 0 else (self.x[up], self.y[up])
            artists.append(self.ax.annotate(self.texts[k], xy=target, xytext=here, **common))
        return artists + self._branch_words()

    def _below(self, k: int) -> Any:
        """Return coordinates that shift the centre of a box to just within its lower border.

        The box covers the end of the line, even if the axes are resized later.
        """
        from matplotlib.transforms import ScaledTranslation

        down = -0.9 * self.half_heights[k] / 72.0
        return self.ax.transAxes + ScaledTranslation(0, down, self.ax.figure.dpi_scale_trans)

    def _branch_words(self) -> list[Any]:
        """Label the two branches of the root."""
        words = []
        for k in np.flatnonzero(self.parent == 0):
            is_left = self.x[k] < self.x[0]
            middle = ((self.x[0] + self.x[k]) / 2, (self.y[0] + self.y[k]) / 2)
            words.append(
                self.ax.annotate(
                    "True  " if is_left else "  False",
                    xy=middle,
                    xycoords="axes fraction",
                    ha="right" if is_left else "left",
                    va="bottom",
                    fontsize=self.fontsize,
                )
            )
        return words


def _measure(ax: Any, texts: list[str]) -> np.ndarray:
    """Return width and height of texts in units of the font size."""
    probe = ax.text(0, 0, "", fontsize=_MEASURE_SIZE, parse_math=False)
    unit = _MEASURE_SIZE * ax.figure.dpi / 72.0
    known: dict[str, tuple[float, float]] = {}
    for text in texts:
        if text not in known:
            probe.set_text(text)
            extent = probe.get_window_extent()
            known[text] = (extent.width / unit, extent.height / unit)
    probe.remove()
    return np.array([known[text] for text in texts])


def _spread(centre: np.ndarray, size: np.ndarray, margin: np.ndarray) -> np.ndarray:
    """Map centres to [0, 1] so that the outermost boxes stay within the axes."""
    low, high = np.argmin(centre - size / 2), np.argmax(centre + size / 2)
    span = centre[high] - centre[low]
    if span <= 0:
        return np.full(len(centre), 0.5)
    room = max(0.0, 1.0 - margin[low] - margin[high])
    place: np.ndarray = margin[low] + (centre - centre[low]) / span * room
    return place


def pyplot() -> Any:
    """Return matplotlib.pyplot, or raise an error that tells how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib: install it with pip install hybridtrees[plot]"
        ) from error
    return plt
