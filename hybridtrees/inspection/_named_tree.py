"""One tree of an estimator with the names of features, classes and categories, for exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from hybridtrees._parameters import check_integer
from hybridtrees.core.base._types import Limit
from hybridtrees.core.tree.tree import Tree

MISSING_RIGHT, MISSING_LEFT, MISSING_STOPS = 0, 1, int(Limit.MISSING_STAYS)


@dataclass
class NamedTree:
    """A tree with the names of its features, categories, classes and outputs."""

    tree: Tree
    feature_names: list[str]
    # Labels of each feature's categories; None for numeric features and for unknown labels
    categories: list[np.ndarray | None]
    # Names of the classes if the values of the nodes are class probabilities
    class_names: list[str] | None
    criterion: str  # What the impurity of a node measures
    output_names: list[str]  # Left-hand sides of the equations of a linear leaf

    @property
    def impurity(self) -> np.ndarray | None:
        """Impurity of every node, if the tree keeps it."""
        return getattr(self.tree, "impurity", None)

    @cached_property
    def left(self) -> list[int]:
        """Left child of every node, -1 in a leaf."""
        return cast(list[int], self.tree.nodes["left"].tolist())

    @cached_property
    def right(self) -> list[int]:
        """Right child of every node, -1 in a leaf."""
        return cast(list[int], self.tree.nodes["right"].tolist())

    @cached_property
    def depths(self) -> list[int]:
        """Depth of every node; the field of the nodes is too narrow for long chains."""
        depths = [0] * self.tree.n_nodes
        for node, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            if left >= 0:
                depths[left] = depths[right] = depths[node] + 1
        return depths

    @cached_property
    def heights(self) -> list[int]:
        """Height of every node: edges to the deepest leaf below it."""
        heights = [0] * self.tree.n_nodes
        for node in range(self.tree.n_nodes - 1, -1, -1):  # children before their parents
            if self.left[node] >= 0:
                heights[node] = 1 + max(heights[self.left[node]], heights[self.right[node]])
        return heights

    def is_leaf(self, node: int) -> bool:
        """Whether a node has no children."""
        return self.left[node] < 0

    def is_linear(self, node: int) -> bool:
        """Whether the value of a node has a linear part."""
        assert self.tree.coef_ptr is not None
        return bool(self.tree.coef_ptr[node + 1] > self.tree.coef_ptr[node])

    def terms(self, node: int, output: int = 0) -> list[tuple[float, str, float]]:
        """Return coefficient, name and centre of each feature in the linear part of a node."""
        tree = self.tree
        assert tree.coef_ptr is not None
        part = slice(int(tree.coef_ptr[node]), int(tree.coef_ptr[node + 1]))
        own = tree.coef[part].reshape(part.stop - part.start, -1)[:, output]
        return [
            (float(coef), self.feature_names[feature], float(center))
            for coef, feature, center in zip(
                own, tree.coef_feature[part], tree.coef_center[part], strict=True
            )
            if coef != 0 or len(self.output_names) == 1
        ]

    def category_sides(self, node: int) -> tuple[list[Any], list[Any] | None]:
        """Return the labels that go left and right at a split on categories.

        If the labels are unknown they are codes, and None on the right means all others.
        """
        fields = self.tree.nodes[node]
        codes = self.tree.category_set(node)
        labels = self.categories[fields["feature"]]
        if labels is None:
            return codes.tolist(), None
        goes_left = np.zeros(len(labels), dtype=bool)
        goes_left[codes[codes < len(labels)]] = True
        goes_right = ~goes_left
        unknown = self.tree.first_unknown(node)  # prediction treats codes from here on as missing
        goes_left[unknown:] = fields["missing_left"] == MISSING_LEFT
        goes_right[unknown:] = fields["missing_left"] == MISSING_RIGHT
        return labels[goes_left].tolist(), labels[goes_right].tolist()

    def stopping_labels(self, node: int) -> list[Any]:
        """Return the labels that stop at a split on categories like missing values."""
        fields = self.tree.nodes[node]
        labels = self.categories[fields["feature"]]
        if labels is None or fields["category_start"] < 0:
            return []
        return cast(list[Any], labels[self.tree.first_unknown(node) :].tolist())

    @cached_property
    def largest_value(self) -> float:
        """Largest magnitude among the values of all nodes."""
        return float(np.abs(self.tree.values).max())

    def shown_nodes(self, max_depth: int | None) -> list[int]:
        """Return the nodes down to `max_depth`, in the order of their ids."""
        if max_depth is None:
            return list(range(self.tree.n_nodes))
        return [node for node, depth in enumerate(self.depths) if depth <= max_depth]


def read_tree(
    estimator: Any,
    tree_index: int = 0,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | bool | None = None,
) -> NamedTree:
    """Return a tree of an estimator with its names, after checking its arrays."""
    tree = find_tree(estimator, tree_index)
    n_features = _count_features(estimator, tree)
    names = _feature_names(estimator, feature_names, n_features)
    reader = getattr(estimator, "_reader", None)
    categories = getattr(reader, "coded", None)
    if categories is None or len(categories) != n_features:
        categories = [None] * n_features
    for j in getattr(getattr(reader, "statistics", None), "features", ()):
        names[j] = f"mean({names[j]})"  # a mean response in place of the category
    names, categories = _with_effects(estimator, names, list(categories))
    check_tree(tree, len(names))
    classes = _class_names(estimator, class_names, tree)
    criterion = getattr(estimator, "criterion", None)
    return NamedTree(
        tree,
        names,
        categories,
        classes,
        criterion if isinstance(criterion, str) else "impurity",
        _output_names(estimator, tree),
    )


def _with_effects(
    estimator: Any, names: list[str], categories: list[np.ndarray | None]
) -> tuple[list[str], list[np.ndarray | None]]:
    """Add the 0/1 columns of single categories that linear leaves may use."""
    for f, code in getattr(getattr(estimator, "_columns", None), "effects", ()):
        labels = categories[f]
        names.append(f"{names[f]}={code if labels is None else labels[code]}")
    return names, categories + [None] * (len(names) - len(categories))


def _output_names(estimator: Any, tree: Tree) -> list[str]:
    n_outputs = tree.values.shape[1]
    classes = getattr(estimator, "classes_", None)
    if classes is not None and len(tree.coef) and n_outputs in (1, len(classes)):
        return [f"score of {label}" for label in classes[-n_outputs:]]
    return ["y"] if n_outputs == 1 else [f"y[{k}]" for k in range(n_outputs)]


def find_tree(estimator: Any, tree_index: int = 0) -> Tree:
    """Return a tree of an estimator, or raise an error if there is none."""
    if isinstance(estimator, Tree):
        return estimator
    if hasattr(estimator, "_check_is_fitted"):
        estimator._check_is_fitted()
    tree = getattr(estimator, "tree_", None)
    if isinstance(tree, Tree):
        check_integer("tree_index", tree_index, -1, 0)
        return tree
    trees: Any = getattr(estimator, "trees_", None) if tree is None else tree
    if isinstance(trees, Tree):
        return trees
    if not hasattr(trees, "__getitem__"):
        raise TypeError(
            "estimator must be a fitted hybridtrees estimator with tree_ or trees_, or a Tree, got "
            f"{type(estimator).__name__}"
        )
    index = check_integer("tree_index", tree_index, -len(trees), len(trees) - 1)
    assert index is not None
    found = trees[index]
    if not isinstance(found, Tree):
        found = getattr(found, "tree_", found)
    if not isinstance(found, Tree):
        raise TypeError(f"trees_ of {type(estimator).__name__} holds {type(found).__name__}")
    return found


def check_tree(tree: Tree, n_features: int) -> None:
    """Refuse a tree whose arrays cannot be followed from the root to the leaves."""
    nodes = tree.nodes
    if len(nodes) == 0 or len(tree.values) != len(nodes):
        raise ValueError("a tree needs at least one node and a value for each")
    inner = np.flatnonzero(nodes["left"] >= 0)
    children = np.concatenate([nodes["left"][inner], nodes["right"][inner]])
    # Each node but the root is the child of one earlier node, so there are no cycles.
    sound = np.array_equal(np.sort(children), np.arange(1, len(nodes))) and bool(
        (children > np.tile(inner, 2)).all()
    )
    features = np.concatenate([nodes["feature"][inner], tree.coef_feature])
    if not sound or np.any((features < 0) | (features >= n_features)):
        raise ValueError("the nodes of the tree do not fit together")


def probabilities(tree: Tree) -> bool:
    """Whether the values of every node are class probabilities."""
    values = tree.values
    return (
        len(tree.coef) == 0
        and bool((values >= 0).all())
        and bool(np.allclose(values.sum(axis=1), 1.0, atol=1e-6))
    )


def _count_features(estimator: Any, tree: Tree) -> int:
    known = getattr(estimator, "n_features_in_", None)
    if known is not None:
        return int(known)
    inner = tree.nodes["left"] >= 0
    used = np.concatenate([tree.nodes["feature"][inner], tree.coef_feature, [-1]])
    return int(used.max()) + 1


def _feature_names(estimator: Any, given: Sequence[str] | None, n_features: int) -> list[str]:
    if given is None:
        given = getattr(estimator, "feature_names_in_", None)
        if given is None:
            return [f"feature_{j}" for j in range(n_features)]
    # A bare tree does not know of features after the last one that it splits on.
    elif isinstance(given, str) or not (
        len(given) == n_features or (isinstance(estimator, Tree) and len(given) > n_features)
    ):
        raise ValueError(
            f"feature_names must hold a name for each of the {n_features} features, got {given!r}"
        )
    return [str(name) for name in given]


def _class_names(
    estimator: Any, given: Sequence[str] | bool | None, tree: Tree
) -> list[str] | None:
    classes = getattr(estimator, "classes_", None)
    if given is not None and given is not False and not probabilities(tree):
        raise ValueError(f"class_names are for trees of classes, got {given!r} for a regression")
    if given is False or not probabilities(tree):
        return None
    if classes is not None and len(classes) != tree.values.shape[1]:
        return None
    if given is None or given is True:
        # A bare tree is a classification tree only if the user says so.
        if classes is None:
            return None if given is None else [f"y[{k}]" for k in range(tree.values.shape[1])]
        return [str(label) for label in classes]
    if isinstance(given, str) or len(given) != tree.values.shape[1]:
        raise ValueError(
            f"class_names must hold {tree.values.shape[1]} names, one per class, got {given!r}"
        )
    return [str(name) for name in given]
