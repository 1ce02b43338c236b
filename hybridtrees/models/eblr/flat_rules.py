"""Rules as trees over the features alone: splits on earlier rules become those rules' trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.core.tree.tree import Tree
from hybridtrees.models.eblr.rules import RuleTree

# A rule that is built on others, which are built on others, doubles in size each time.
MOST_NODES = 100_000


def flat_rules(rules: Sequence[RuleTree], owner: str) -> list[Tree]:
    """Return a tree for each rule, with the value 1 in leaves where it holds, else 0.

    Inner nodes have the weighted mean of their leaves. Weights below a split on another rule are
    shared out in the proportions of that rule's own tree. A TypeError names the `owner` of rules
    that are nested too deeply.
    """
    flat: list[Tree] = []
    for rule in rules:
        tree = rule.tree
        tree.values = np.isin(np.arange(tree.n_nodes), rule.leaves).astype(np.float64)[:, None]
        if (tree.nodes["feature"] >= rule.n_features).any():
            tree = _substitute(tree, rule.n_features, flat, owner)
        _average(tree)
        flat.append(tree)
    return flat


@dataclass
class _Place:
    """A node to be copied: from the rule's own tree, or from that of an earlier rule.

    `inside` is the node of the own tree at which an earlier rule is walked through; `weight` is
    that of the copy.
    """

    source: int  # -1: the own tree
    node: int
    parent: int
    is_left: bool
    weight: float
    inside: int = -1


def _substitute(tree: Tree, n_features: int, earlier: Sequence[Tree], owner: str) -> Tree:
    sources = {-1: tree}
    for k in np.unique(tree.nodes["feature"][tree.nodes["feature"] >= n_features]) - n_features:
        sources[int(k)] = earlier[int(k)]
    starts, n_words = {}, 0
    for k, source in sources.items():
        starts[k], n_words = n_words, n_words + len(source.categories)
    nodes: list[np.ndarray] = []
    values: list[Any] = []
    open_places = [_Place(-1, 0, -1, False, float(tree.nodes["weight"][0]))]
    while open_places:
        at = open_places.pop()
        source = sources[at.source]
        own = source.nodes[at.node]
        if at.source < 0 and own["feature"] >= n_features:
            # Walk through the other rule, which starts here, before going on.
            k = int(own["feature"]) - n_features
            open_places.append(_Place(k, 0, at.parent, at.is_left, at.weight, at.node))
            continue
        if at.source >= 0 and own["left"] < 0:
            # The column of the other rule is 1, and so to the right, where it holds.
            side = "right" if source.values[at.node, 0] else "left"
            child = int(tree.nodes[side][at.inside])
            open_places.append(_Place(-1, child, at.parent, at.is_left, at.weight))
            continue
        number, copy = len(nodes), own.copy()
        if number >= MOST_NODES:
            raise TypeError(
                f"the rules of this {owner} are built on each other so often that they are no "
                f"trees of less than {MOST_NODES} nodes: fit it with max_depth=1"
            )
        if at.parent >= 0:
            nodes[at.parent]["left" if at.is_left else "right"] = number
        copy["parent"], copy["weight"] = at.parent, at.weight
        copy["n_samples"] = round(at.weight * own["n_samples"] / max(own["weight"], 1e-300))
        copy["depth"] = 0 if at.parent < 0 else nodes[at.parent]["depth"] + 1
        if own["category_start"] >= 0:
            copy["category_start"] += starts[at.source]
        nodes.append(copy)
        values.append(source.values[at.node] if own["left"] < 0 else [0.0])
        if own["left"] >= 0:
            share = at.weight / max(float(own["weight"]), 1e-300)
            for is_left, side in ((False, "right"), (True, "left")):
                child = int(own[side])
                weight = share * float(source.nodes["weight"][child])
                open_places.append(_Place(at.source, child, number, is_left, weight, at.inside))
    categories = np.concatenate([source.categories for source in sources.values()])
    return Tree(np.array(nodes, dtype=tree.nodes.dtype), np.array(values), categories)


def _average(tree: Tree) -> None:
    """Write the values of inner nodes, children before their parents."""
    left, right, weight = tree.nodes["left"], tree.nodes["right"], tree.nodes["weight"]
    for node in np.flatnonzero(left >= 0)[::-1]:
        both = [left[node], right[node]]
        total = weight[both].sum()
        shares = weight[both] / total if total > 0 else np.full(2, 0.5)
        tree.values[node] = shares @ tree.values[both]
