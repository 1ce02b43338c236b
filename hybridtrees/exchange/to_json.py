"""Models as JSON for people: names, conditions and equations, in nested objects."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hybridtrees._version import __version__
from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.additive import AdditiveForm, Column, additive_form
from hybridtrees.core.tree.tree import Tree
from hybridtrees.exchange.writing import write_text


def to_json(estimator: Any, path: Any = None, *, indent: int | None = None) -> str:
    """Write a fitted model as JSON that can be read: see the method ``to_json`` of estimators."""
    if indent is not None and (isinstance(indent, bool) or not isinstance(indent, int)):
        raise ValueError(f"indent must be a number of spaces or None, got {indent!r}")
    form = additive_form(estimator)
    about = {
        "model": type(estimator).__name__,
        "hybridtrees": __version__,
        "features": _features(form.reader),
        "classes": None if form.classes is None else [_plain(label) for label in form.classes],
        **_form(form),
    }
    text = json.dumps(about, indent=indent, ensure_ascii=False, allow_nan=False)
    write_text(path, text)
    return text


def _features(reader: Any) -> list[dict[str, Any]]:
    names = reader.feature_names_in
    found = []
    for j, labels in enumerate(reader.categories):
        name = f"x{j}" if names is None else str(names[j])
        known = None if labels is None else [_plain(label) for label in labels]
        found.append({"name": name, "categories": known})
    return found


def _form(form: AdditiveForm) -> dict[str, Any]:
    """Return a form: the prediction is the link of the base, the trees and the other models."""
    columns: list[str] = []
    for column in form.columns:
        name = _column(column, form.reader)
        # A category of a linear model has a number for each output.
        n_before = sum(one.partition(" #")[0] == name for one in columns)
        columns.append(f"{name} #{n_before + 1}" if n_before else name)
    trees = []
    if form.trees is not None:
        single = form.trees.values.shape[1] == 1
        for tree, output in zip(form.trees, form.trees.tree_output, strict=True):
            about = {"output": int(output)} if single and form.n_scores > 1 else {}
            trees.append({**about, **_tree(tree, form.columns, columns, form.reader)})
    link: dict[str, Any] = {"kind": form.link.kind}
    if form.link.scale != 1.0:
        link["scale"] = form.link.scale
    if form.link.levels:
        link["levels"] = list(form.link.levels)
    if form.link.of_numbers:
        link["of_numbers"] = True
    made = {
        "link": link,
        "base": form.base.tolist(),
        "columns": {
            name: about
            for name, about, column in zip(
                columns, map(_about_column, form.columns), form.columns, strict=True
            )
            if column.kind == "table"
        },
        "trees": trees,
    }
    if form.inner:
        made["models"] = [{"weight": weight, **_form(inner)} for weight, inner in form.inner]
    return made


def _column(column: Column, reader: Any) -> str:
    """Return the name of a column that trees read."""
    names, labels = reader.feature_names_in, reader.categories[column.feature]
    name = f"x{column.feature}" if names is None else str(names[column.feature])
    if column.kind == "table":
        return f"number of {name}"
    if column.kind == "indicator":
        return f"{name} = {column.code if labels is None else labels[column.code]}"
    return f"{name} is missing" if column.kind == "missing" else name


def _about_column(column: Column) -> Any:
    """Return the numbers of a table: for a missing value, then by category."""
    if column.table is None:
        return None
    return {"missing": _plain(column.table[0]), "by_category": list(map(_plain, column.table[1:]))}


def _tree(tree: Tree, columns: tuple[Column, ...], names: list[str], reader: Any) -> dict[str, Any]:
    """Return a tree as nested objects, children before their parents."""
    made: list[dict[str, Any]] = [{} for _ in range(tree.n_nodes)]
    for node in range(tree.n_nodes - 1, -1, -1):
        own = tree.nodes[node]
        if own["left"] < 0:
            made[node] = _end(tree, node, names)
            continue
        feature = int(own["feature"])
        found: dict[str, Any] = {"feature": names[feature]}
        if own["category_start"] >= 0:
            labels, codes = reader.categories[columns[feature].feature], tree.category_set(node)
            known = codes if labels is None else codes[codes < len(labels)]
            found["left_if_in"] = [_plain(k if labels is None else labels[k]) for k in known]
        else:
            found["left_if_at_most"] = _plain(own["threshold"])
        where = {0: "right", 1: "left", int(Limit.MISSING_STAYS): "here"}
        found["missing"] = where[int(own["missing_left"])]
        if own["missing_left"] == Limit.MISSING_STAYS:
            found |= _end(tree, node, names)
        found["rows"], found["gain"] = int(own["n_samples"]), _plain(own["gain"])
        made[node] = {**found, "left": made[own["left"]], "right": made[own["right"]]}
    return made[0]


def _end(tree: Tree, node: int, names: list[str]) -> dict[str, Any]:
    """Return what a row that ends at a node gets: a value, or an equation."""
    values = [_plain(value) for value in tree.values[node]]
    found: dict[str, Any] = {"value": values[0] if len(values) == 1 else values}
    assert tree.coef_ptr is not None
    first, last = int(tree.coef_ptr[node]), int(tree.coef_ptr[node + 1])
    if first < last:
        found["line"] = [_term(tree, term, names) for term in range(first, last)]
    if tree.value_range is not None:
        limits = tree.value_range[node].tolist()
        found["range"] = [list(map(_plain, limit)) for limit in limits]
    found["rows"] = int(tree.nodes["n_samples"][node])
    return found


def _term(tree: Tree, term: int, names: list[str]) -> dict[str, Any]:
    """Return ``coef * (x - center)``, with x limited to a range."""
    coef = [_plain(value) for value in tree.coef[term]]
    found = {
        "feature": names[tree.coef_feature[term]],
        "coef": coef[0] if len(coef) == 1 else coef,
        "center": _plain(tree.coef_center[term]),
    }
    low, high = tree.coef_low[term], tree.coef_high[term]
    if np.isfinite(low) or np.isfinite(high):
        found["limits"] = [_plain(low), _plain(high)]
    return found


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: no numbers that are not finite."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else ("infinity" if value > 0 else "-infinity")
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
