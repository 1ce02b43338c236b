"""Text of nodes: numbers, conditions, values and equations of leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option
from hybridtrees.input.labels_text import category_list, one_line
from hybridtrees.inspection._named_tree import MISSING_LEFT, MISSING_RIGHT, NamedTree

LABELS = ("all", "root", "none")
# Larger numbers are written with an exponent.
_LARGE = 1e12
# Characters per line of a node's box in drawings.
_BOX_WIDTH = 48
_BLANK, _TERM = re.compile(" "), re.compile(r" (?=[+-] [^ *]+\*)")
_EQUATION = re.compile(r"(y|y\[\d+\]|score of .*) = [-\d.e+]+( [+-] |$)")


def number(value: float, decimals: int | None) -> str:
    """Format a number with `decimals` digits after the point, or in full with None.

    A number that would round to 0, or is very large, gets an exponent instead.
    """
    value = float(value)
    if decimals is None:
        return repr(value)
    if value != 0 and (abs(value) < 0.5 * 10.0**-decimals or abs(value) >= _LARGE):
        return f"{value:.{max(decimals, 1)}e}"
    text = f"{value:.{decimals}f}"
    return text if float(text) != 0 else text.lstrip("-")


def short_number(value: float, decimals: int | None) -> str:
    """Format a number without trailing zeros."""
    text = number(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def conditions(
    named: NamedTree,
    node: int,
    decimals: int | None,
    max_categories: int | None,
    show_missing: bool,
    write: Callable[[float, int | None], str] = number,
) -> tuple[str, str]:
    """Return the conditions under which a row goes left and right at a split."""
    fields = named.tree.nodes[node]
    name = one_line(named.feature_names[fields["feature"]])
    if fields["category_start"] >= 0:
        labels_left, labels_right = named.category_sides(node)
        left = f"{name} in {category_list(labels_left, max_categories)}"
        if labels_right is None:
            right = f"{name} not in {category_list(labels_left, max_categories)}"
        else:
            right = f"{name} in {category_list(labels_right, max_categories)}"
    else:
        threshold = write(fields["threshold"], decimals)
        # Two blanks, so that the thresholds of both branches are aligned.
        left, right = f"{name} <= {threshold}", f"{name} >  {threshold}"
    if show_missing and fields["missing_left"] == MISSING_LEFT:
        left += " or missing"
    if show_missing and fields["missing_left"] == MISSING_RIGHT:
        right += " or missing"
    return left, right


def missing_condition(named: NamedTree, node: int, max_categories: int | None) -> str:
    """Return the condition under which a row stops at a split because of a missing value."""
    name = one_line(named.feature_names[named.tree.nodes["feature"][node]])
    labels = named.stopping_labels(node)
    also = f" or in {category_list(labels, max_categories)}" if labels else ""
    return f"{name} is missing{also}"


def equations(named: NamedTree, node: int, decimals: int | None) -> list[str]:
    """Write the values of a node with a linear part as ``y = 1.2 + 0.5*(age - 40)``."""
    lines = []
    for output, title in enumerate(named.output_names):
        value = number(named.tree.values[node, output], decimals)
        parts = [f"{one_line(title)} = {value}"]
        for coef, name, center in named.terms(node, output):
            sign = "-" if coef < 0 else "+"
            centre = short_number(abs(center), decimals)
            factor = name = one_line(name)
            if center != 0:
                factor = f"({name} {'+' if center < 0 else '-'} {centre})"
            parts.append(f"{sign} {number(abs(coef), decimals)}*{factor}")
        lines.append(" ".join(parts))
    return lines


def number_list(values: np.ndarray, decimals: int | None, short: bool = False) -> str:
    """Write numbers in brackets."""
    write = short_number if short else number
    return "[" + ", ".join(write(value, decimals) for value in values) + "]"


def leaf_text(named: NamedTree, node: int, decimals: int | None, show_weights: bool) -> str:
    """Format the prediction of a node for `export_text`."""
    values = named.tree.values[node]
    weight = float(named.tree.nodes["weight"][node])
    if named.is_linear(node):
        text = "; ".join(equations(named, node, decimals))
    elif named.class_names is not None:
        name = one_line(named.class_names[int(np.argmax(values))])
        if not show_weights:
            return f"class: {name}"
        return f"weights: {number_list(values * weight, decimals)} class: {name}"
    else:
        text = f"value: {number_list(values, decimals)}"
    return f"{text} weight: {number(weight, decimals)}" if show_weights else text


def wrap(lines: Sequence[str], width: int = _BOX_WIDTH) -> list[str]:
    """Break long lines between words, and equations before a term."""
    wrapped = []
    for line in lines:
        start, *words = (_TERM if _EQUATION.match(line) else _BLANK).split(line)
        for word in words:
            if start and len(start) + 1 + len(word) > width:
                wrapped.append(start)
                start = word
            else:
                start += " " + word
        wrapped.append(start)
    return wrapped


def _without_rounding_errors(shown: np.ndarray, named: NamedTree) -> np.ndarray:
    """Replace rounding errors, relative to the largest value of the tree, by 0."""
    return np.where(np.abs(shown) < 1e-9 * named.largest_value, 0.0, shown)


@dataclass(frozen=True)
class NodeStyle:
    """What the box of a node shows in drawings; see `plot_tree` for the fields."""

    label: str = "all"
    impurity: bool = True
    node_ids: bool = False
    proportion: bool = False
    precision: int | None = 3
    max_categories: int | None = 10
    show_missing: bool = True

    def __post_init__(self) -> None:
        check_option("label", self.label, LABELS)
        for name in ("impurity", "node_ids", "proportion", "show_missing"):
            check_boolean(name, getattr(self, name))
        check_integer("precision", self.precision, 0, 300, allow_none=True)
        check_integer("max_categories", self.max_categories, 1, allow_none=True)


def node_lines(named: NamedTree, node: int, style: NodeStyle) -> list[str]:
    """Return the lines of a node's box in drawings: its split, size, value and class."""
    fields, values = named.tree.nodes[node], named.tree.values[node]
    titled = style.label == "all" or (style.label == "root" and node == 0)
    precision = style.precision

    def line(title: str, text: str) -> str:
        return f"{title} = {text}" if titled else text

    lines = [f"node #{node}" if titled else str(node)] if style.node_ids else []
    if not named.is_leaf(node):
        rules = (precision, style.max_categories, style.show_missing)
        lines.append(conditions(named, node, *rules, write=short_number)[0])
        if style.show_missing and fields["missing_left"] > MISSING_LEFT:
            lines.append("missing: stops here")
    if style.impurity and named.impurity is not None:
        lines.append(line(named.criterion, short_number(named.impurity[node], precision)))
    total = int(named.tree.nodes["n_samples"][0])
    if style.proportion and total > 0:
        share = 100.0 * float(fields["n_samples"]) / total
        lines.append(line("samples", short_number(share, 1) + "%"))
    else:
        lines.append(line("samples", str(int(fields["n_samples"]))))
    if named.is_linear(node) and named.is_leaf(node):
        lines += equations(named, node, precision)
    elif len(values) == 1:
        shown = _without_rounding_errors(values, named)
        lines.append(line("value", short_number(shown[0], precision)))
    else:
        counts = named.class_names is not None and not style.proportion
        shown = values * float(fields["weight"]) if counts else values
        shown = _without_rounding_errors(shown, named)
        lines.append(line("value", number_list(shown, precision, short=True)))
    if named.class_names is not None:
        lines.append(line("class", one_line(named.class_names[int(np.argmax(values))])))
    return lines
