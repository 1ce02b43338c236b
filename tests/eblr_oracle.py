"""EBLR spelt out: refits from scratch, single trees, and a reader of rules written as text."""

from __future__ import annotations

import re

import numpy as np

from hybridtrees.linear.classifier import LogisticClassifier
from hybridtrees.linear.regressor import LinearRegressor
from hybridtrees.models.cart.estimators import CARTRegressor


def enrich(X, y, n_rules, tree_parameters, model, residual, sample_weight=None):
    """Indicator columns of all rounds and the last regression; X is standardised already.

    `tree_parameters` are those of all rounds, or a list with those of each.
    """
    X = np.array(X, dtype=np.float64)
    columns = []
    for k in range(n_rules):
        model.fit(X, y, sample_weight)
        r = residual(y, model)(X)
        own = tree_parameters if isinstance(tree_parameters, dict) else tree_parameters[k]
        tree = CARTRegressor(**own, n_jobs=1).fit(X, r, sample_weight)
        value = np.abs(tree.predict(X)).reshape(len(X), -1).max(axis=1)
        column = value >= value.max() * (1 - 1e-12)
        columns.append(column)
        X = np.column_stack([X, column])
    return np.column_stack(columns), model.fit(X, y, sample_weight), X


def linear_residual(y, model):
    return lambda X: y - model.predict(X)


def hamming(y, model):
    return lambda X: (model.predict(X) != y).astype(np.float64)


def plain_linear(**parameters):
    """Regression on columns as they come: rules are zeros and ones."""
    return LinearRegressor(standardize=False, n_jobs=1, **parameters)


def plain_logistic(**parameters):
    return LogisticClassifier(standardize=False, n_jobs=1, **parameters)


def _one(text, table, rules):
    """Evaluate one condition, such as ``1.5 < x0 <= 3.0`` or ``not rule_1``."""
    if " or " in text:
        parts = text.split(" or ")
        return np.logical_or.reduce([_one(part, table, rules) for part in parts])
    if match := re.fullmatch(r"(not )?(rule_\d+)", text):
        return rules[match[2]] != bool(match[1])
    if match := re.fullmatch(r"(.+) is (not )?missing", text):
        return np.isnan(table[match[1]]) != bool(match[2])
    if match := re.fullmatch(r"(.+) in \{(.*)\}", text):
        return np.isin(table[match[1]], match[2].split(", "))
    if match := re.fullmatch(r"(\S+) < (.+) <= (\S+)", text):
        column = table[match[2]]
        return (column > float(match[1])) & (column <= float(match[3]))
    match = re.fullmatch(r"(.+) (<=|>) (\S+)", text)
    assert match, text
    column, end = table[match[1]], float(match[3])
    return column <= end if match[2] == "<=" else column > end


def read_rule(text, table, rules):
    """Evaluate the text of a rule.

    `table` has the columns by name (strings where they are categories), `rules` the columns of
    earlier rules. Leaves are joined by "or" and then stand in brackets, conditions by "and".
    """
    leaves = re.split(r"(?<=\)) or (?=\()", text) if text.startswith("(") else [text]
    several = len(leaves) > 1
    held = []
    for leaf in leaves:
        inside = leaf[1:-1] if several else leaf
        conditions = [part.strip() for part in inside.split(" and ")]
        conditions = [
            part[1:-1] if part.startswith("(") and part.endswith(")") else part
            for part in conditions
        ]
        held.append(np.logical_and.reduce([_one(part, table, rules) for part in conditions]))
    return np.logical_or.reduce(held)
