"""Models with constant leaves as JSON files of XGBoost, which many other programs read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.additive import AdditiveForm, Column, additive_form, line_tree
from hybridtrees.core.tree.tree import Tree
from hybridtrees.exchange.writing import breadth_first, write_text

# The version whose files these are.
_VERSION = [2, 1, 4]

_LARGEST = float(np.finfo(np.float32).max)

# Objective and the base score that adds nothing, by link.
_OBJECTIVES: dict[str, tuple[str, str]] = {
    "identity": ("reg:squarederror", "0E0"),
    "shares": ("reg:squarederror", "0E0"),
    "exp": ("count:poisson", "1E0"),
    "logistic": ("binary:logistic", "5E-1"),
    "softmax": ("multi:softprob", "0E0"),
}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "reg:squarederror": {"reg_loss_param": {"scale_pos_weight": "1"}},
    "count:poisson": {"poisson_regression_param": {"max_delta_step": "7E-1"}},
    "binary:logistic": {"reg_loss_param": {"scale_pos_weight": "1"}},
}


def to_xgboost_json(estimator: Any, path: Any = None) -> str:
    """Write a fitted model as a JSON file of XGBoost: see the method of estimators."""
    form = additive_form(estimator)
    kind = type(estimator).__name__
    _refuse(form, kind)
    n_outputs, n_features = form.n_scores, form.reader.n_features_in
    made, outputs = made_trees(form, kind)
    # Scores before the first tree are trees too: a base score would be rounded by its link.
    made = [_constant_tree(value, n_features) for value in form.base] + made
    name, base_score = _OBJECTIVES[form.link.kind]
    objective = {"name": name, **_PARAMETERS.get(name, {})}
    n_classes = n_outputs if form.link.kind == "softmax" else 0
    if name == "multi:softprob":
        objective["softmax_multiclass_param"] = {"num_class": str(n_classes)}
    outputs = [*range(n_outputs), *outputs]
    text = json.dumps(document(form, made, outputs, n_classes, base_score, objective))
    write_text(path, text)
    return text


def made_trees(form: AdditiveForm, kind: str) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the trees of a form as XGBoost stores them, and the output of each."""
    assert form.trees is not None
    trees = [(tree, 0 if len(form.base) == 1 else int(output), 0)
             for tree, output in zip(form.trees, form.trees.tree_output, strict=True)]  # fmt: skip
    if form.trees.values.shape[1] > 1:
        outputs = range(form.n_scores)
        trees = [(tree, output, output) for tree, _, _ in trees for output in outputs]
    made = [_tree(tree, value, form.columns, form.reader, kind) for tree, _, value in trees]
    return made, [output for _, output, _ in trees]


def document(
    form: AdditiveForm,
    made: list[dict[str, Any]],
    outputs: list[int],
    n_classes: int,
    base_score: str,
    objective: dict[str, Any],
    *,
    n_parallel: int = 1,
    attributes: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the content of a file."""
    for number, tree in enumerate(made):
        tree["id"] = number
    names, categories = form.reader.feature_names_in, form.reader.categories
    per_round = form.n_scores * n_parallel
    rounds = per_round if len(made) % per_round == 0 else len(made)
    # A list of base scores is of the versions since 3.1.
    version = [3, 1, 0] if base_score.startswith("[") else _VERSION
    parallel = {"num_parallel_tree": str(n_parallel), "num_trees": str(len(made))}
    return {
        "learner": {
            "attributes": attributes or {},
            "feature_names": [] if names is None else [str(one) for one in names],
            "feature_types": ["float" if labels is None else "c" for labels in categories],
            "gradient_booster": {
                "model": {
                    "gbtree_model_param": parallel,
                    "iteration_indptr": list(range(0, len(made) + 1, rounds)),
                    "tree_info": outputs,
                    "trees": made,
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": base_score,
                "boost_from_average": "0",
                "num_class": str(n_classes),
                "num_feature": str(form.reader.n_features_in),
                "num_target": "1" if n_classes else str(form.n_scores),
            },
            "objective": objective,
        },
        "version": version,
    }


def _refuse(form: AdditiveForm, kind: str) -> None:
    """Refuse what the format has no place for."""
    what, trees = "", form.trees
    if form.inner or trees is None:
        what = "the probabilities of several models are added up"
    elif len(trees.coef_feature):
        what = "its leaves are linear"
    elif trees.value_range is not None:
        what = "its leaves have ranges"
    elif np.any((trees.nodes["left"] >= 0) & (trees.nodes["missing_left"] == Limit.MISSING_STAYS)):
        what = "rows with missing values stop at inner nodes (missing='stop')"
    elif form.link.kind not in _OBJECTIVES or form.link.scale != 1.0:
        what = f"XGBoost has no objective with the link {form.link.kind!r}"
        what += f" of scale {form.link.scale:g}" if form.link.scale != 1.0 else ""
    if what:
        raise TypeError(f"this {kind} cannot be a model of XGBoost: {what}")


def _constant_tree(value: float, n_features: int) -> dict[str, Any]:
    """Return a tree of one leaf."""
    leaf = line_tree(np.zeros((0, 1)), [], np.zeros(0))
    leaf.values[0] = value
    return _arrays(leaf, 0, np.zeros(1), np.zeros(1, dtype=bool), [None], n_features)


def _tree(
    tree: Tree, value: int, columns: tuple[Column, ...], reader: Any, kind: str
) -> dict[str, Any]:
    """Return a tree whose splits are of features: numbers, or sets of categories."""
    nodes = tree.nodes
    conditions = np.zeros(tree.n_nodes)
    missing_left = nodes["missing_left"] == 1
    sets: list[NDArray[Any] | None] = [None] * tree.n_nodes
    for node in np.flatnonzero(nodes["left"] >= 0).tolist():
        column = columns[nodes["feature"][node]]
        labels = reader.categories[column.feature]
        if column.kind == "table":
            # A threshold on numbers of categories is a set of categories.
            assert column.table is not None
            goes_left = column.table <= nodes["threshold"][node]
            missing_left[node] = goes_left[0]
            sets[node] = np.flatnonzero(~goes_left[1:])
        elif nodes["category_start"][node] >= 0:
            n_codes = 0 if labels is None else len(labels)
            goes_left = np.zeros(max(n_codes, tree.first_unknown(node)), dtype=bool)
            goes_left[tree.category_set(node)] = True
            goes_left[tree.first_unknown(node) :] = missing_left[node]
            sets[node] = np.flatnonzero(~goes_left[:n_codes])
        elif labels is not None:
            raise TypeError(f"this {kind} cannot be a model of XGBoost: it splits codes as numbers")
        else:
            conditions[node] = _condition(float(nodes["threshold"][node]))
    for k, own in enumerate(sets):
        labels = None if own is None else reader.categories[columns[nodes["feature"][k]].feature]
        if own is not None and len(own) in (0, 0 if labels is None else len(labels)):
            # Known codes all go to one side, and XGBoost has no empty sets.
            conditions[k] = _LARGEST if len(own) == 0 else -1.0
            sets[k] = None
    return _arrays(tree, value, conditions, missing_left, sets, len(reader.categories), columns)


def _condition(threshold: float) -> float:
    """Return the float32 that exactly the float32 numbers up to a threshold are below."""
    if threshold >= _LARGEST:
        return _LARGEST
    with np.errstate(over="ignore"):
        below = np.float32(threshold)
    if float(below) > threshold:
        below = np.nextafter(below, np.float32(-np.inf))
    return float(np.nextafter(below, np.float32(np.inf)))


def _single(values: NDArray[Any]) -> NDArray[np.float64]:
    """Round to float32, as XGBoost would with more digits than it reads exactly."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


def _arrays(
    tree: Tree,
    value: int,
    conditions: NDArray[Any],
    missing_left: NDArray[np.bool_],
    sets: list[NDArray[Any] | None],
    n_features: int,
    columns: tuple[Column, ...] = (),
) -> dict[str, Any]:
    # XGBoost takes for granted that a right child follows the left one.
    order = breadth_first(tree)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    nodes = tree.nodes[order]
    inner = nodes["left"] >= 0
    # The links and the feature of a leaf stand for nothing, and may be any numbers.
    left, right = np.full((2, len(order)), -1)
    parent = np.full(len(order), 2**31 - 1)
    for children, side in ((left, "left"), (right, "right")):
        children[inner] = place[nodes[side][inner]]
        parent[children[inner]] = np.flatnonzero(inner)
    values = _single(tree.values[order, value])
    split = zip(inner, nodes["feature"], strict=True)
    feature = [columns[f].feature if is_inner else 0 for is_inner, f in split]
    listed = [(k, own) for k, node in enumerate(order) if (own := sets[node]) is not None]
    sizes = [len(own) for _, own in listed]
    by_set = np.isin(np.arange(len(order)), [k for k, _ in listed])
    return {
        "base_weights": values.tolist(),
        "categories": [int(code) for _, own in listed for code in own],
        "categories_nodes": [k for k, _ in listed],
        "categories_segments": np.append(0, np.cumsum(sizes)).astype(int).tolist()[: len(sizes)],
        "categories_sizes": sizes,
        "default_left": (missing_left[order] & inner).astype(int).tolist(),
        "id": 0,
        "left_children": left.tolist(),
        "loss_changes": np.where(inner, _single(nodes["gain"]), 0.0).tolist(),
        "parents": parent.tolist(),
        "right_children": right.tolist(),
        "split_conditions": np.where(inner, conditions[order], values).tolist(),
        "split_indices": feature,
        "split_type": by_set.astype(int).tolist(),
        "sum_hessian": _single(nodes["weight"]).tolist(),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(order)),
            "size_leaf_vector": "1",
        },
    }
