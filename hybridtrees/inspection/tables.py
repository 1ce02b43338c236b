"""Fitted models as tables: a row for each node of each tree, and for each term of a regression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybridtrees.inspection._named_tree import MISSING_LEFT, MISSING_STOPS, NamedTree, read_tree

COLUMNS = (
    "tree", "output", "node", "depth", "parent", "left", "right", "feature", "threshold",
    "categories", "missing", "gain", "cover", "n_samples", "value", "coefficients",
)  # fmt: skip


def to_dataframe(estimator: Any) -> Any:
    """Return the nodes of all trees of a model, and the terms of its regression, as a table.

    Parameters
    ----------
    estimator : fitted estimator
        A model with trees, with `term_coef_`, or with both.

    Returns
    -------
    table : pandas DataFrame, or a dict of lists if pandas is not installed
        A row for each node: `tree`, `output` (the output that the tree adds to, -1 for all),
        `node`, `depth`, `parent`, `left` and `right` (-1: none), `feature` by name, `threshold`,
        `categories` that go left, `missing` ("left", "right" or "stays"), `gain`, `cover` (sum of
        weights), `n_samples`, `value`, and in leaves with lines `coefficients`, (coefficient,
        centre) by feature. Then a row for each term of a regression, with tree -1, its name as
        `feature` and its coefficient as `value`. Entries that do not apply are None or NaN.

    Examples
    --------
    >>> from hybridtrees import CARTRegressor
    >>> from hybridtrees.inspection import to_dataframe
    >>> table = to_dataframe(CARTRegressor(max_depth=1).fit([[0.0], [1.0]], [2.0, 4.0]))
    >>> list(table["value"])
    [3.0, 2.0, 4.0]
    """
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    known = False
    for index, output, named in _trees(estimator):
        known = True
        for name, values in _nodes(index, output, named).items():
            columns[name] += values
    if hasattr(estimator, "term_names_"):
        known = True
        _add_terms(estimator, columns)
    if not known:
        raise TypeError(
            "estimator must be a fitted hybridtrees estimator with trees or terms, got "
            f"{type(estimator).__name__}"
        )
    try:
        import pandas
    except ImportError:
        return columns
    return pandas.DataFrame(columns)


def _trees(estimator: Any) -> Iterator[tuple[int, int, NamedTree]]:
    """Yield number, output and tree of each tree, that of a hybrid's forest or rules included."""
    if hasattr(estimator, "_check_is_fitted") and not isinstance(estimator, type):
        estimator._check_is_fitted()
    holder: Any = getattr(estimator, "forest_", estimator)
    if hasattr(holder, "rules_") and hasattr(holder, "term_names_"):
        for index, rule in enumerate(holder._trees):
            named = read_tree(rule.tree, 0, _rule_columns(estimator))
            named.categories = [*estimator._reader.coded, *([None] * estimator.n_rules_)]
            yield index, -1, named
        return
    trees = getattr(holder, "tree_", None)
    if trees is not None:
        yield 0, -1, read_tree(holder)
        return
    trees = getattr(holder, "trees_", None)
    if trees is None or not hasattr(trees, "__len__"):
        return
    outputs = getattr(trees, "tree_output", None)
    for index in range(len(trees)):
        named = read_tree(holder, index)
        several = named.tree.values.shape[1] > 1
        yield index, -1 if outputs is None or several else int(outputs[index]), named


def _rule_columns(estimator: Any) -> list[str]:
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"feature_{j}" for j in range(estimator.n_features_in_)]
    return [*map(str, names), *estimator.rule_names_]


def _nodes(index: int, output: int, named: NamedTree) -> dict[str, list[Any]]:
    tree = named.tree
    nodes, n = tree.nodes, tree.n_nodes
    inner = nodes["left"] >= 0
    is_set = inner & (nodes["category_start"] >= 0)
    ways = {MISSING_LEFT: "left", MISSING_STOPS: "stays"}
    one = tree.values.shape[1] == 1
    return {
        "tree": [index] * n,
        "output": [output] * n,
        "node": list(range(n)),
        "depth": named.depths,
        "parent": nodes["parent"].tolist(),
        "left": named.left,
        "right": named.right,
        "feature": [
            named.feature_names[f] if is_inner else None
            for f, is_inner in zip(nodes["feature"], inner, strict=True)
        ],
        "threshold": np.where(inner & ~is_set, nodes["threshold"], np.nan).tolist(),
        "categories": [
            named.category_sides(node)[0] if split else None for node, split in enumerate(is_set)
        ],
        "missing": [
            ways.get(int(way), "right") if is_inner else None
            for way, is_inner in zip(nodes["missing_left"], inner, strict=True)
        ],
        "gain": np.where(inner, nodes["gain"], np.nan).tolist(),
        "cover": nodes["weight"].tolist(),
        "n_samples": nodes["n_samples"].tolist(),
        "value": (tree.values[:, 0] if one else tree.values).tolist(),
        "coefficients": [_coefficients(named, node) for node in range(n)],
    }


def _coefficients(named: NamedTree, node: int) -> Any:
    """Coefficient and centre of each regressor of a node; a list of these for several outputs."""
    if not named.is_linear(node):
        return None
    found = [
        {name: (coef, center) for coef, name, center in named.terms(node, output)}
        for output in range(named.tree.values.shape[1])
    ]
    return found[0] if len(found) == 1 else found


def _add_terms(estimator: Any, columns: dict[str, list[Any]]) -> None:
    """Add the intercept and the coefficients of a regression."""
    coef = np.atleast_2d(np.asarray(estimator.term_coef_, dtype=np.float64))
    intercept = np.broadcast_to(np.ravel(estimator.intercept_), len(coef))
    for output, (constant, row) in enumerate(zip(intercept, coef, strict=True)):
        names = ["intercept", *map(str, estimator.term_names_)]
        for name, value in zip(names, [float(constant), *row.tolist()], strict=True):
            given: dict[str, Any] = {"output": output if len(coef) > 1 else -1}
            given |= {"feature": name, "value": value, "threshold": np.nan, "gain": np.nan}
            given |= {"cover": np.nan, "n_samples": -1}
            given |= dict.fromkeys(("tree", "node", "depth", "parent", "left", "right"), -1)
            for column in COLUMNS:
                columns[column].append(given.get(column))
