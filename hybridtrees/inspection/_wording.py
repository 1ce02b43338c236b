"""How nodes are put into words: numbers, conditions, values and equations of leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from hybridtrees.input.labels_text import category_list, one_line
from hybridtrees.inspection._reading import MISSING_LEFT, MISSING_RIGHT, TreeReading

# Larger numbers are written with an exponent: nobody reads thirteen digits.
_LARGE = 1e12
# Columns of a node's box in drawings.
_BOX_WIDTH = 48
_BLANK, _TERM = re.compile(" "), re.compile(r" (?=[+-] [^ *]+\*)")
_EQUATION = re.compile(r"(y|y\[\d+\]|score of .*) = [-\d.e+]+( [+-] |$)")


def number(value: float, decimals: int | None) -> str:
    """Write a number with so many decimals, or in full with None.

    A number that would round to nothing, or is very large, gets an exponent instead.
    """
    value = float(value)
    if decimals is None:
        return repr(value)
    if value != 0 and (abs(value) < 0.5 * 10.0**-decimals or abs(value) >= _LARGE):
        return f"{value:.{max(decimals, 1)}e}"
    text = f"{value:.{decimals}f}"
    return text if float(text) != 0 else text.lstrip("-")


def short_number(value: float, decimals: int | None) -> str:
    """Write a number without the zeros at its end."""
    text = number(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def conditions(
    reading: TreeReading,
    node: int,
    decimals: int | None,
    max_categories: int | None,
    show_missing: bool,
    write: Callable[[float, int | None], str] = number,
) -> tuple[str, str]:
    """Conditions under which a row goes left and right at a split."""
    fields = reading.tree.nodes[node]
    name = one_line(reading.feature_names[fields["feature"]])
    if fields["category_start"] >= 0:
        labels_left, labels_right = reading.category_sides(node)
        left = f"{name} in {category_list(labels_left, max_categories)}"
        if labels_right is None:
            right = f"{name} not in {category_list(labels_left, max_categories)}"
        else:
            right = f"{name} in {category_list(labels_right, max_categories)}"
    else:
        threshold = write(fields["threshold"], decimals)
        # Two blanks, so that the thresholds of both branches stand below each other.
        left, right = f"{name} <= {threshold}", f"{name} >  {threshold}"
    if show_missing and fields["missing_left"] == MISSING_LEFT:
        left += " or missing"
    if show_missing and fields["missing_left"] == MISSING_RIGHT:
        right += " or missing"
    return left, right


def missing_condition(reading: TreeReading, node: int, max_categories: int | None) -> str:
    """Condition under which a row stops at a split for want of a value."""
    name = one_line(reading.feature_names[reading.tree.nodes["feature"][node]])
    labels = reading.stopping_labels(node)
    also = f" or in {category_list(labels, max_categories)}" if labels else ""
    return f"{name} is missing{also}"


def equations(reading: TreeReading, node: int, decimals: int | None) -> list[str]:
    """Write the values of a node with a linear part as ``y = 1.2 + 0.5*(age - 40)``."""
    lines = []
    for output, title in enumerate(reading.output_names):
        value = number(reading.tree.values[node, output], decimals)
        parts = [f"{one_line(title)} = {value}"]
        for coef, name, center in reading.terms(node, output):
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


def leaf_text(reading: TreeReading, node: int, decimals: int | None, show_weights: bool) -> str:
    """Write what a node predicts, as in the lines of `export_text`."""
    values = reading.tree.values[node]
    weight = float(reading.tree.nodes["weight"][node])
    if reading.is_linear(node):
        text = "; ".join(equations(reading, node, decimals))
    elif reading.class_names is not None:
        name = one_line(reading.class_names[int(np.argmax(values))])
        if not show_weights:
            return f"class: {name}"
        return f"weights: {number_list(values * weight, decimals)} class: {name}"
    else:
        text = f"value: {number_list(values, decimals)}"
    return f"{text} weight: {number(weight, decimals)}" if show_weights else text


def wrap(lines: Sequence[str], width: int = _BOX_WIDTH) -> list[str]:
    """Break long lines between their words, and equations before a term."""
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


def _without_dust(shown: np.ndarray, reading: TreeReading) -> np.ndarray:
    """Put zero for what is but the rounding error of numbers so much larger."""
    return np.where(np.abs(shown) < 1e-9 * reading.largest_value, 0.0, shown)


def node_lines(
    reading: TreeReading,
    node: int,
    *,
    label: str,
    impurity: bool,
    node_ids: bool,
    proportion: bool,
    precision: int | None,
    max_categories: int | None,
    show_missing: bool,
) -> list[str]:
    """Lines of a node's box in drawings: its split, size, value and class."""
    fields, values = reading.tree.nodes[node], reading.tree.values[node]
    named = label == "all" or (label == "root" and node == 0)

    def line(title: str, text: str) -> str:
        return f"{title} = {text}" if named else text

    lines = [f"node #{node}" if named else str(node)] if node_ids else []
    if not reading.is_leaf(node):
        rules = (precision, max_categories, show_missing)
        lines.append(conditions(reading, node, *rules, write=short_number)[0])
        if show_missing and fields["missing_left"] > MISSING_LEFT:
            lines.append("missing: stops here")
    if impurity and reading.impurity is not None:
        lines.append(line(reading.criterion, short_number(reading.impurity[node], precision)))
    total = int(reading.tree.nodes["n_samples"][0])
    if proportion and total > 0:
        share = 100.0 * float(fields["n_samples"]) / total
        lines.append(line("samples", short_number(share, 1) + "%"))
    else:
        lines.append(line("samples", str(int(fields["n_samples"]))))
    if reading.is_linear(node) and reading.is_leaf(node):
        lines += equations(reading, node, precision)
    elif len(values) == 1:
        shown = _without_dust(values, reading)
        lines.append(line("value", short_number(shown[0], precision)))
    else:
        counts = reading.class_names is not None and not proportion
        shown = values * float(fields["weight"]) if counts else values
        shown = _without_dust(shown, reading)
        lines.append(line("value", number_list(shown, precision, short=True)))
    if reading.class_names is not None:
        lines.append(line("class", one_line(reading.class_names[int(np.argmax(values))])))
    return lines
