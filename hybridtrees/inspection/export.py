"""Export of trees as text and as Graphviz source."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from hybridtrees._parameters import check_boolean, check_integer
from hybridtrees.inspection._drawing import CUT_COLOR, node_colors, text_color
from hybridtrees.inspection._named_tree import MISSING_STOPS, NamedTree, read_tree
from hybridtrees.inspection._wording import (
    NodeStyle,
    conditions,
    leaf_text,
    missing_condition,
    node_lines,
    wrap,
)


def export_text(
    estimator: Any,
    *,
    tree_index: int = 0,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | bool | None = None,
    max_depth: int | None = 10,
    spacing: int = 3,
    decimals: int | None = 2,
    show_weights: bool = False,
    show_missing: bool = True,
    max_categories: int | None = 10,
) -> str:
    """Build a text report of a tree as indented rules, like ``sklearn.tree.export_text``.

    Parameters
    ----------
    estimator : fitted estimator or Tree
        With ``tree_``, or with ``trees_``, of which `tree_index` selects one.
    tree_index : int, default=0
        Index of the tree in an ensemble; negative numbers count from the end.
    feature_names : sequence of str, optional
        By default the feature names seen in fit, else "feature_0" and so on.
    class_names : sequence of str, optional
        Names of the classes in the order of ``classes_``. With False the class probabilities are
        written instead.
    max_depth : int or None, default=10
        Maximum depth that is written; None means no limit.
    spacing : int, default=3
        Width of the indentation.
    decimals : int or None, default=2
        Digits after the decimal point; None writes every number in full.
    show_weights : bool, default=False
        Whether to add the class weights (in regression, the total weight) to each leaf.
    show_missing : bool, default=True
        Whether to show where rows with a missing value go. A branch "is missing" has the prediction
        of a node where they stop.
    max_categories : int or None, default=10
        Maximum number of labels of a category set that are written; None means no limit.

    Returns
    -------
    text : str
        Leaves are written as ``class: name``, ``value: [1.00]`` or, if they are linear, as an
        equation, to which a missing feature adds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> from hybridtrees.inspection import export_text
    >>> X = np.arange(100.0)[:, None]
    >>> model = XGBRegressor(n_estimators=1, max_depth=1, learning_rate=1.0).fit(X, X[:, 0] > 49)
    >>> print(export_text(model, feature_names=["age"], show_missing=False), end="")
    |--- age <= 49.50
    |   |--- value: [-0.49]
    |--- age >  49.50
    |   |--- value: [0.49]
    """
    max_depth = check_integer("max_depth", max_depth, 0, allow_none=True)
    spacing = check_integer("spacing", spacing, 1) or 1
    decimals = check_integer("decimals", decimals, 0, 300, allow_none=True)
    max_categories = check_integer("max_categories", max_categories, 1, allow_none=True)
    for name, flag in (("show_weights", show_weights), ("show_missing", show_missing)):
        check_boolean(name, flag)
    named = read_tree(estimator, tree_index, feature_names, class_names)
    indent, mark = "|" + " " * spacing, "|" + "-" * spacing + " "
    lines: list[str] = []
    # A stack instead of recursion: a tree may have thousands of levels. Its entries are a node and
    # its level, or a finished line.
    stack: list[tuple[int, int] | str] = [(0, 0)]
    while stack:
        entry = stack.pop()
        if isinstance(entry, str):
            lines.append(entry)
            continue
        node, level = entry
        start = indent * level + mark
        if named.is_leaf(node):
            lines.append(start + leaf_text(named, node, decimals, show_weights))
        elif max_depth is not None and level > max_depth:
            # Like scikit-learn, the depth of a branch includes the node itself.
            lines.append(f"{start}truncated branch of depth {named.heights[node] + 1}")
        else:
            left, right = conditions(named, node, decimals, max_categories, show_missing)
            if show_missing and named.tree.nodes["missing_left"][node] == MISSING_STOPS:
                value = leaf_text(named, node, decimals, show_weights)
                stopped = missing_condition(named, node, max_categories)
                stack += [f"{indent}{start}{value}", start + stopped]
            stack += [(named.right[node], level + 1), start + right]
            stack += [(named.left[node], level + 1), start + left]
    return "\n".join(lines) + "\n"


def export_dot(
    estimator: Any,
    out_file: str | PathLike[str] | Any = None,
    *,
    tree_index: int = 0,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | bool | None = None,
    max_depth: int | None = None,
    label: str = "all",
    filled: bool = False,
    leaves_parallel: bool = False,
    impurity: bool = True,
    node_ids: bool = False,
    proportion: bool = False,
    rotate: bool = False,
    rounded: bool = False,
    precision: int | None = 3,
    fontname: str = "helvetica",
    show_missing: bool = True,
    max_categories: int | None = 10,
) -> str | None:
    """Export a tree in DOT format for Graphviz, like ``sklearn.tree.export_graphviz``.

    Parameters
    ----------
    estimator : fitted estimator or Tree
        With ``tree_``, or with ``trees_``, of which `tree_index` selects one.
    out_file : str, path or file object, optional
        Where to write, as UTF-8; by default the source is returned.
    tree_index : int, default=0
        Index of the tree in an ensemble; negative numbers count from the end.
    feature_names, class_names : sequence of str, optional
        Names in place of those seen in fit; ``class_names=False`` omits the classes.
    max_depth : int, optional
        Maximum depth that is drawn; branches below it are shown as "(...)".
    label : {"all", "root", "none"}, default="all"
        In which nodes the numbers have labels.
    filled : bool, default=False
        Whether to colour the nodes by the majority class, or by their value in regression.
    leaves_parallel : bool, default=False
        Whether to draw all leaves at the bottom.
    impurity, node_ids : bool
        Whether to show the impurities, if the tree keeps them, and the numbers of the nodes.
    proportion : bool, default=False
        Whether to show shares of rows and of class weights instead of amounts.
    rotate : bool, default=False
        Whether to draw from left to right.
    rounded : bool, default=False
        Whether to round the corners of the boxes.
    precision : int or None, default=3
        Digits after the decimal point; None writes every number in full.
    fontname : str, default="helvetica"
        Font of all text.
    show_missing : bool, default=True
        Whether to show where rows with a missing value go: the condition of a node mentions them if
        they go left.
    max_categories : int or None, default=10
        Maximum number of labels of a category set that are written; None means no limit.

    Returns
    -------
    dot : str or None
        The source, if `out_file` is None.
    """
    max_depth = check_integer("max_depth", max_depth, 0, allow_none=True)
    style = NodeStyle(
        label, impurity, node_ids, proportion, precision, max_categories, show_missing
    )
    flags = {"filled": filled, "leaves_parallel": leaves_parallel, "rotate": rotate}
    for name, flag in (flags | {"rounded": rounded}).items():
        check_boolean(name, flag)
    if not isinstance(fontname, str):
        raise TypeError(f"fontname must be a string, got {fontname!r}")
    named = read_tree(estimator, tree_index, feature_names, class_names)
    styles = [word for word, on in (("filled", filled), ("rounded", rounded)) if on]
    look = f", style={quote(', '.join(styles))}" if styles else ""
    lines = [
        "digraph Tree {",
        f'node [shape=box{look}, color="black", fontname={quote(fontname)}] ;',
        *(["graph [ranksep=equally, splines=polyline] ;"] if leaves_parallel else []),
        f"edge [fontname={quote(fontname)}] ;",
        *(["rankdir=LR ;"] if rotate else []),
        *_dot_nodes(named, max_depth, style, filled, rotate),
    ]
    if leaves_parallel:
        shown = named.shown_nodes(max_depth)
        leaves = [node for node in shown if named.is_leaf(node)]
        lines.append("{rank=same ; " + " ; ".join(map(str, leaves)) + "} ;")
    source = "\n".join([*lines, "}", ""])
    if out_file is None:
        return source
    if hasattr(out_file, "write"):
        out_file.write(source)
    else:
        with open(out_file, "w", encoding="utf-8", newline="\n") as file:
            file.write(source)
    return None


def _dot_nodes(
    named: NamedTree, max_depth: int | None, style: NodeStyle, filled: bool, rotate: bool
) -> list[str]:
    """Return the statements of nodes and edges, each node before its children."""
    colors = node_colors(named) if filled else None
    lines = []
    for node in named.shown_nodes(None if max_depth is None else max_depth + 1):
        cut = max_depth is not None and named.depths[node] > max_depth
        text = ["(...)"] if cut else wrap(node_lines(named, node, style))
        color = ""
        if colors is not None:
            fill = CUT_COLOR if cut else colors[node]
            color = f', fillcolor="{fill}", fontcolor="{text_color(fill)}"'
        lines.append(f"{node} [label={quote(chr(10).join(text))}{color}] ;")
        if node:
            parent = int(named.tree.nodes["parent"][node])
            lines.append(f"{parent} -> {node}{_edge_label(named, parent, node, rotate)} ;")
    return lines


def _edge_label(named: NamedTree, parent: int, node: int, rotate: bool) -> str:
    """Return the label of an edge: "True" and "False" below the root, else none."""
    if parent:
        return ""
    is_left = named.left[0] == node
    angle = 45 if is_left != rotate else -45
    return f' [labeldistance=2.5, labelangle={angle}, headlabel="{"True" if is_left else "False"}"]'


def quote(text: str) -> str:
    r"""Return `text` as a string of the DOT language, with quotes, ``\`` and ``&`` escaped."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return '"' + text.replace("\n", "\\n") + '"'
