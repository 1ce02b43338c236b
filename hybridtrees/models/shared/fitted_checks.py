"""Consistency checks of fitted models that were loaded from a file or unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridtrees.core.base.checks import check_arrays, check_count, check_numbers, check_type
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.losses import Loss
from hybridtrees.models.shared.bagging import RowSampler


def check_ensemble(
    model: Any, name: str, n_outputs: int, n_columns: int | None = None
) -> TreeEnsemble:
    """Return the trees of a model; refuse those of another number of columns or outputs."""
    trees: TreeEnsemble = check_type(model, name, TreeEnsemble)
    n_columns = model.n_features_in_ if n_columns is None else n_columns
    if trees.n_features != n_columns or trees.n_outputs != n_outputs:
        raise ValueError(
            f"the trees have {trees.n_features} columns and {trees.n_outputs} outputs, the "
            f"{type(model).__name__} has {n_columns} and {n_outputs}"
        )
    check_categories(trees.category_sets(), model._reader.known_codes)
    return trees


def check_categories(sets: tuple[np.ndarray, ...], categories: Sequence[Any]) -> None:
    """Refuse splits on categories that a feature does not have."""
    feature, words, limit = sets
    known = np.array([0 if labels is None else len(labels) for labels in categories])
    if np.any(feature >= len(known)):
        raise ValueError("a split on categories uses a feature that has none")
    known = known[feature]
    listed = np.abs(limit.astype(np.int64))
    if np.any(np.where(limit == 0, words > (known + 31) // 32, listed > known)):
        raise ValueError("a split uses more categories than its feature has")


def check_one_tree(model: Any, n_outputs: int, n_columns: int | None = None) -> TreeEnsemble:
    """Return the single tree of a model, as an ensemble; refuse other numbers of trees."""
    trees = check_ensemble(model, "_trees", n_outputs, n_columns)
    if len(trees) != 1 or trees.values.shape[1] != n_outputs:
        raise ValueError(f"a {type(model).__name__} has one tree, with all outputs in each leaf")
    check_arrays(model, {"_impurity": ("f8", len(trees.nodes))})
    return trees


def check_boosting(model: Any, start: np.ndarray | None) -> None:
    """Refuse boosted trees that do not match the loss, the rounds or the initial scores."""
    n_outputs = check_loss(model)
    if start is not None and (start.shape != (n_outputs,) or start.dtype != np.float64):
        raise ValueError(f"a model of {n_outputs} outputs needs as many initial scores")
    trees = check_ensemble(model, "trees_", n_outputs)
    if trees.values.shape[1] != 1:
        raise ValueError("a boosted tree has one value per leaf")
    n_rounds = check_count(model, "n_iter_", 1, max(len(trees), 1))
    if not len(trees) or len(trees) % (n_rounds * n_outputs):
        raise ValueError(
            f"{len(trees)} trees do not make {n_rounds} whole rounds of {n_outputs} outputs"
        )


def check_loss(model: Any) -> int:
    """Return the number of outputs of a model's loss; refuse one that its classes rule out."""
    loss = check_type(model, "_loss", Loss)
    n_outputs = check_count(loss, "n_outputs", 1, 2**31 - 1)
    classes = vars(model).get("classes_")
    if classes is not None and n_outputs != len(classes) and (n_outputs, len(classes)) != (1, 2):
        raise ValueError(f"a loss of {n_outputs} outputs does not match {len(classes)} classes")
    return n_outputs


def check_round(model: Any, name: str) -> None:
    """Refuse a best round that does not exist."""
    if vars(model).get(name) is not None:
        check_count(model, name, 0, model.n_iter_ - 1)


def check_samples(model: Any, n_trees: int) -> RowSampler:
    """Return the sampler of a forest; refuse a number of seeds other than that of its trees."""
    check_count(model, "n_estimators_", n_trees, n_trees)
    check_arrays(model, {"_draw_seeds": ("u8", n_trees)})
    sampler: RowSampler = check_type(model, "_sampler", RowSampler)
    return sampler


def check_packed_model(model: Any) -> None:
    """Refuse a forest whose trees, samples and kept rows do not match."""
    trees, n_features = check_type(model, "_trees", PackedTrees), model.n_features_in_
    if trees.n_features != n_features or trees.n_classes != model._n_classes():
        raise ValueError("the trees of the forest have other features or classes")
    if not trees.n_classes:
        check_count(model, "n_outputs_", trees.n_values, trees.n_values)
    check_categories(trees.category_sets(), model._reader.known_codes)
    sampler = check_samples(model, len(trees))
    check_arrays(model, {"_importance_moments": ("f8", 2, n_features)})
    if model._leaf_rows is None:
        return
    target: tuple[Any, ...] = ("f8", sampler.n_rows, trees.n_values)
    if trees.n_classes:
        target = (("i4", "i8"), sampler.n_rows)
    sizes = check_arrays(model, {"_leaf_rows": ("u4", "n"), "_train_target": target})
    check_numbers(model._leaf_rows, "_leaf_rows", 0, sampler.n_rows)
    if trees.n_classes:
        check_numbers(model._train_target, "_train_target", 0, trees.n_classes)
    n_ended = 0
    for tree in range(len(trees)):
        ended = trees.rows_ended(tree)
        check_numbers(ended, "rows that end at a node", 0, sampler.n_rows + 1)
        n_ended += int(ended.sum())
    if n_ended != sizes["n"]:
        raise ValueError("the rows of the leaves do not match the trees")


def check_codes(codes: np.ndarray, n_codes: int) -> None:
    """Refuse numbers other than category codes; NaN is missing."""
    known = codes[~np.isnan(codes)]
    check_numbers(known, "a column of categories", 0, n_codes)
    if np.any(known != np.floor(known)):
        raise ValueError("a column of categories holds numbers other than codes")
