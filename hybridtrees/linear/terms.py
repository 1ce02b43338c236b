"""A fitted regression as the terms of a linear leaf, for exports and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree.additive import AdditiveForm, Column, Link, joined, line_tree
from hybridtrees.core.tree.tree import Tree
from hybridtrees.linear.design import Design
from hybridtrees.linear.regression import Line

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Term:
    """``coef * (x - center)``, with a coefficient for every output and x of a column."""

    column: Column
    coef: Floats
    center: float


def design_terms(
    design: Design, line: Line, columns: Sequence[Column]
) -> tuple[Floats, list[Term]]:
    """Return the constant, (n_outputs,), and the terms of a line on the columns of a design.

    The effects of the categories of a feature are one table, and so one term for each output.
    `columns` are the features that the design expands. Columns of the line beyond those of the
    design, such as those of rules, are left to the caller.
    """
    n_outputs = line.coef.shape[1]
    constant = np.array(line.base, dtype=np.float64)
    terms = []
    for k, f in enumerate(design.numeric):
        # A missing value is replaced by the fill, and a missing regressor counts as its centre.
        constant += line.coef[k] * (line.fill[k] - line.mean[k])
        terms.append(Term(columns[int(f)], line.coef[k], float(line.fill[k])))
    start = len(design.numeric)
    for f, first, n_codes in zip(design.categorical, design.first, design.n_codes, strict=True):
        own = slice(start, start + max(int(n_codes - first), 1))
        start = own.stop
        effects = np.zeros((n_codes + 1, n_outputs))
        effects[1 + first :] = line.coef[own][: n_codes - first]
        effects[0] = line.fill[own] @ line.coef[own]
        effects -= line.mean[own] @ line.coef[own]
        for output in range(n_outputs):
            table = np.ascontiguousarray(effects[:, output])
            column = Column(columns[int(f)].feature, "table", table=table)
            terms.append(Term(column, np.eye(n_outputs)[output], 0.0))
    for k, f in enumerate(design.indicators, start=start):
        constant -= line.coef[k] * line.mean[k]
        terms.append(Term(Column(columns[int(f)].feature, "missing"), line.coef[k], 0.0))
    return constant, terms


def terms_tree(terms: Sequence[Term], columns: list[Column], n_outputs: int) -> Tree:
    """Return the terms as a tree of one node, and append the columns that are not there yet."""
    place = {id(column): k for k, column in enumerate(columns)}
    for term in terms:
        if id(term.column) not in place:
            place[id(term.column)] = len(columns)
            columns.append(term.column)
    used = [place[id(term.column)] for term in terms]
    coef = np.array([term.coef for term in terms]).reshape(len(terms), n_outputs)
    return line_tree(coef, used, np.array([term.center for term in terms]))


def regression_form(
    model: Any, constant: Floats, trees: Sequence[Tree], columns: Sequence[Column]
) -> AdditiveForm:
    """Return the form of a fitted regression or classification, a sum of these trees."""
    loss = vars(model).get("_loss")
    return AdditiveForm(
        constant,
        joined(trees, len(columns), len(constant)),
        tuple(columns),
        Link() if loss is None else loss.output_link(),
        model._reader,
        vars(model).get("classes_"),
    )
