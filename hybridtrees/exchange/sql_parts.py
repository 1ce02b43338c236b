"""Parts of SQL that exports write: literals, sums, limits, rows of tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hybridtrees.core.tree.additive import AdditiveForm
from hybridtrees.core.tree.tree import Tree, TreeEnsemble

# A sum of this many terms has parentheses of its own: SQLite limits the depth of an expression.
_TERMS = 32


def table_rows(trees: TreeEnsemble) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the rows of the tables of nodes, sets and terms."""
    rows, sets, terms = [], [], []
    n_outputs = trees.n_outputs
    for at, (tree, output) in enumerate(scalar_trees(trees)):
        places = range(n_outputs) if output is None else [output]
        assert tree.coef_ptr is not None
        for node in range(tree.n_nodes):
            own = tree.nodes[node]
            by_set, inner = own["category_start"] >= 0, own["left"] >= 0
            row = [at, node, *[None] * 6]
            if inner:
                threshold = None if by_set or own["threshold"] == np.inf else own["threshold"]
                end = tree.first_unknown(node) if by_set else None
                row[2:] = (
                    own["feature"],
                    threshold,
                    own["missing_left"],
                    end,
                    own["left"],
                    own["right"],
                )
            values = [0.0, None, None] * n_outputs
            for k, place in enumerate(places):
                values[3 * place] = tree.values[node, k]
                if tree.value_range is not None:
                    values[3 * place + 1 : 3 * place + 3] = tree.value_range[node, :, k]
            rows.append([*row, *values])
            if by_set:
                sets += [(at, node, code) for code in tree.category_set(node)]
            for term in range(int(tree.coef_ptr[node]), int(tree.coef_ptr[node + 1])):
                coefs = [0.0] * n_outputs
                for k, place in enumerate(places):
                    coefs[place] = tree.coef[term, k]
                about = tree.coef_center[term], tree.coef_low[term], tree.coef_high[term]
                terms.append([at, node, tree.coef_feature[term], *about, *coefs])
    return rows, sets, terms


def scalar_trees(trees: TreeEnsemble) -> Iterator[tuple[Tree, int | None]]:
    """Yield trees with the output of their values; None for a value of each output."""
    single = trees.values.shape[1] == 1
    for tree, output in zip(trees, trees.tree_output, strict=True):
        yield tree, int(output) if single else None


def used_columns(trees: TreeEnsemble | None) -> set[int]:
    """Return the columns that splits or terms read."""
    if trees is None:
        return set()
    split = trees.nodes["feature"][trees.nodes["left"] >= 0]
    return {*split.tolist(), *trees.coef_feature.tolist()}


def n_trees(form: AdditiveForm) -> int:
    """Return the number of trees of a form, without its inner forms."""
    return 0 if form.trees is None else form.trees.n_trees


def sum_of(terms: Sequence[str]) -> str:
    """Return a sum with parentheses around parts of it."""
    while len(terms) > _TERMS:
        parts = [terms[k : k + _TERMS] for k in range(0, len(terms), _TERMS)]
        terms = [f"({' + '.join(part)})" for part in parts]
    return " + ".join(terms)


def clipped(x: str, low: float | str, high: float | str) -> str:
    """Return a value within limits; a missing one stays missing."""
    cases = ""
    for sign, limit in (("<", low), (">", high)):
        if isinstance(limit, str) or math.isfinite(limit):
            text = limit if isinstance(limit, str) else number(limit)
            cases += f"WHEN {x} {sign} {text} THEN {text} "
    return f"(CASE {cases}ELSE {x} END)" if cases else x


def ranged(output: int) -> str:
    """Return the value of a node of the tables with its line, within its range."""
    value = f"(n.v{output} + COALESCE(l.l{output}, 0))"
    return clipped(value, f"n.low{output}", f"n.high{output}")


def number(value: float) -> str:
    """Return a literal of double precision: without an exponent it might be a decimal number."""
    if math.isnan(value):
        return "NULL"
    if math.isinf(value):
        value = math.copysign(sys.float_info.max, value)
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def cell(value: Any) -> str:
    """Return a value of a row of a table: numbers that are not finite are NULL."""
    if value is None or (isinstance(value, float | np.floating) and not np.isfinite(value)):
        return "NULL"
    return number(float(value)) if isinstance(value, float | np.floating) else str(int(value))


def identifier(name: str) -> str:
    """Return a name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(label: Any) -> str:
    """Return a label as a literal: a number, a truth value or text."""
    label = label.item() if hasattr(label, "item") else label
    if isinstance(label, bool):
        return "TRUE" if label else "FALSE"
    if isinstance(label, int | float):
        return str(label) if isinstance(label, int) else number(label)
    return "'" + str(label).replace("'", "''") + "'"
