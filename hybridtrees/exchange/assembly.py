"""From the nodes of another library's trees to a `TreeEnsemble`, all trees at a time.

Links between nodes are checked on the way: every node is the child of one node, and there are no
cycles. Trees are gone through level by level, without recursion. Nodes that no row can reach are
left out, and the others get numbers larger than those of their parents.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hybridtrees._archive import ModelFileError
from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.dtypes import NODE_DTYPE
from hybridtrees.core.tree.tree import TreeEnsemble

MOST_FEATURES = 2**28
# A set is shown as its codes, so that many more would take a second each time.
MOST_CODES = 2**20
_DEEPEST = 2**15 - 1  # the depth of a node is an int16


@dataclass
class CategorySplits:
    """Splits on sets of categories: those of `codes` go left, or right."""

    node: np.ndarray  # by split: its node among those of all trees
    start: np.ndarray  # by split: its first code, and the end of all
    codes: np.ndarray  # sorted within a split, each once
    listed_left: bool
    n_codes: np.ndarray  # by feature: codes from here on do not occur, 0 for numbers


@dataclass
class ForeignTrees:
    """Nodes of all trees, one after the other; children are numbered within their tree.

    Thresholds are ours (``x <= threshold`` goes left). `weight`, `n_samples` and `gain` may be
    zeros where a library does not tell them; `left` is -1 in a leaf.
    """

    sizes: np.ndarray  # nodes of each tree
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    values: np.ndarray  # (n_nodes, n_values); only those of leaves are read
    weight: np.ndarray
    gain: np.ndarray | None = None
    n_samples: np.ndarray | None = None
    categories: CategorySplits | None = None
    # Linear leaves: node, feature, coefficient and centre of each term, sorted by node.
    terms: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
    tree_output: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))


def assemble(given: ForeignTrees, n_features: int, n_outputs: int, where: str) -> TreeEnsemble:
    """Return the ensemble of foreign trees; a ModelFileError names `where` they are from."""
    _check_parts(given, n_features, n_outputs, where)
    levels, links = _levels(given, where)
    reached = np.concatenate(levels)
    tree_of = np.repeat(np.arange(len(given.sizes)), given.sizes)
    order = reached[np.argsort(tree_of[reached], kind="stable")]
    start = np.searchsorted(tree_of[order], np.arange(len(given.sizes) + 1)).astype(np.int64)
    place = np.full(len(tree_of), -1, dtype=np.int64)
    place[order] = np.arange(len(order)) - start[tree_of[order]]
    values, gain = _fill_inner(given, levels, links)

    nodes = np.zeros(len(order), dtype=NODE_DTYPE)
    left, right, parent, depth = (part[order] for part in links)
    nodes["left"] = np.where(left < 0, -1, place[left])
    nodes["right"] = np.where(right < 0, -1, place[right])
    nodes["parent"] = np.where(parent < 0, -1, place[parent])
    nodes["depth"] = depth
    inner = left >= 0
    nodes["feature"] = np.where(inner, given.feature[order], -1)
    nodes["threshold"] = np.where(inner, given.threshold[order], 0.0)
    nodes["missing_left"] = np.where(inner, given.missing_left[order], 0)
    nodes["gain"] = np.where(inner, gain[order], 0.0)
    nodes["weight"] = given.weight[order]
    nodes["n_samples"] = 0 if given.n_samples is None else given.n_samples[order]
    nodes["category_start"] = -1
    global_place = np.full(len(tree_of), -1, dtype=np.int64)
    global_place[order] = np.arange(len(order))
    words = _pack_sets(given.categories, nodes, global_place)
    pointers, feature, coef, center = _order_terms(
        given.terms, global_place, len(order), given.values.shape[1]
    )
    return TreeEnsemble.from_state(
        {
            "n_features": int(n_features),
            "n_outputs": int(n_outputs),
            "tree_start": start,
            "tree_output": np.ascontiguousarray(given.tree_output, dtype=np.int32),
            "nodes": nodes,
            "values": np.ascontiguousarray(values[order]),
            "categories": words,
            "coef_ptr": pointers,
            "coef_feature": feature,
            "coef": coef,
            "coef_center": center,
            "coef_low": np.full(len(coef), -np.inf),
            "coef_high": np.full(len(coef), np.inf),
            "value_range": None,
        }
    )


def _check_parts(given: ForeignTrees, n_features: int, n_outputs: int, where: str) -> None:
    """Refuse impossible children, features, thresholds and values."""
    if not len(given.sizes) or np.any(given.sizes < 1):
        raise ModelFileError(f"{where}: a model needs at least one tree, and a tree one node")
    if not 1 <= n_features <= MOST_FEATURES:
        raise ModelFileError(f"{where}: {n_features} features are not from 1 to {MOST_FEATURES}")
    inner = given.left >= 0
    outputs = given.tree_output
    checks = (
        ("a feature that does not exist", (given.feature < 0) | (given.feature >= n_features)),
        ("a threshold that is not a number", np.isnan(given.threshold)),
        ("a gain that is not a number", np.zeros(1, dtype=bool) if given.gain is None
         else np.isnan(given.gain)),
    )  # fmt: skip
    for what, bad in checks:
        _refuse(given, inner & bad, f"splits on {what}", where)
    bad = ~np.isfinite(given.values).all(axis=1)
    _refuse(given, ~inner & bad, "has a value that is not a finite number", where)
    _refuse(given, ~(given.weight >= 0) | np.isinf(given.weight), "has an impossible cover", where)
    if len(outputs) != len(given.sizes) or np.any((outputs < 0) | (outputs >= n_outputs)):
        raise ModelFileError(f"{where}: a tree belongs to an output that does not exist")
    if given.values.shape[1] not in (1, n_outputs):
        raise ModelFileError(f"{where}: {given.values.shape[1]} values of a leaf for {n_outputs} "
                             "outputs")  # fmt: skip


def _refuse(given: ForeignTrees, bad: np.ndarray, what: str, where: str) -> None:
    """Raise an error that names the first bad node, if there is one."""
    if bad.any():
        first = int(np.argmax(bad))
        tree = int(np.searchsorted(np.cumsum(given.sizes), first, side="right"))
        node = first - int(given.sizes[:tree].sum())
        raise ModelFileError(f"{where}: node {node} of tree {tree} {what}")


def _levels(
    given: ForeignTrees, where: str
) -> tuple[list[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Return the nodes of each depth, and every node's children, parent and depth."""
    origin = np.repeat(np.cumsum(given.sizes) - given.sizes, given.sizes)
    size = np.repeat(given.sizes, given.sizes)
    inner = given.left >= 0
    lost = inner & ((given.left >= size) | (given.right < 0) | (given.right >= size))
    _refuse(given, lost, "has a child that does not exist", where)
    left = np.where(inner, origin + given.left, -1)
    right = np.where(inner, origin + given.right, -1)
    parent = np.full(len(left), -1, dtype=np.int64)
    depth = np.zeros(len(left), dtype=np.int64)
    frontier = np.cumsum(given.sizes) - given.sizes
    seen = np.zeros(len(left), dtype=bool)
    seen[frontier] = True
    levels = [frontier]
    while True:
        above = frontier[inner[frontier]]
        if not len(above):
            return levels, (left, right, parent, depth)
        frontier = np.column_stack([left[above], right[above]]).ravel()
        again = seen[frontier]
        if again.any() or len(np.unique(frontier)) < len(frontier):
            raise ModelFileError(f"{where}: a node of a tree is the child of two nodes, or its own")
        if len(levels) >= _DEEPEST:
            raise ModelFileError(f"{where}: a tree is deeper than {_DEEPEST} levels")
        seen[frontier] = True
        parent[frontier] = np.repeat(above, 2)
        depth[frontier] = len(levels)
        levels.append(frontier)


def _fill_inner(
    given: ForeignTrees, levels: list[np.ndarray], links: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of all nodes, and gains.

    The value of an inner node is the mean of its children's by cover. Where a library tells no
    gains, that of a split is the decrease of the squared differences from the mean.
    """
    left, right = links[0], links[1]
    values = np.array(given.values, dtype=np.float64)
    gain = np.zeros(len(left)) if given.gain is None else given.gain
    for level in reversed(levels):
        above = level[left[level] >= 0]
        first, second = left[above], right[above]
        w1, w2 = given.weight[first], given.weight[second]
        bare = w1 + w2 <= 0
        total = np.where(bare, 2.0, w1 + w2)
        w1, w2 = np.where(bare, 1.0, w1), np.where(bare, 1.0, w2)
        share = (w1 / total)[:, None]
        values[above] = share * values[first] + (1 - share) * values[second]
        if given.gain is None:
            with np.errstate(over="ignore"):
                squares = ((values[first] - values[second]) ** 2).sum(axis=1)
            gain[above] = np.where(bare, 0.0, np.minimum(w1 * w2 / total * squares, 1e300))
    return values, gain


def _pack_sets(sets: CategorySplits | None, nodes: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Write the category sets of nodes; return their words.

    A set is a list of codes where that is shorter than bits: no memory is spent on codes that a
    file does not mention.
    """
    words: list[np.ndarray] = []
    n_words = 0
    for k in range(0 if sets is None else len(sets.node)):
        assert sets is not None
        at = place[sets.node[k]]
        if at < 0:
            continue
        codes = sets.codes[sets.start[k] : sets.start[k + 1]]
        n_codes = int(sets.n_codes[nodes["feature"][at]])
        width = -(-n_codes // 32)
        if width > Limit.SHORT_SET and len(codes) < width:
            packed = codes.astype(np.uint32)
            nodes["category_limit"][at] = n_codes if sets.listed_left else -n_codes
        else:
            bits = np.full(32 * width, not sets.listed_left)
            bits[codes] = sets.listed_left
            packed = np.packbits(bits, bitorder="little").view(np.uint32)
        nodes["category_start"][at] = n_words
        nodes["category_words"][at] = len(packed)
        nodes["threshold"][at] = 0.0
        n_words += len(packed)
        words.append(packed)
    return np.concatenate([*words, np.zeros(1, dtype=np.uint32)])


def _order_terms(
    terms: tuple[np.ndarray, ...] | None, place: np.ndarray, n_nodes: int, n_values: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return pointers, features, coefficients and centres of linear leaves, by node."""
    if terms is None:
        terms = (np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    node, feature, coef, center = terms
    at = place[node]
    used = np.flatnonzero(at >= 0)
    used = used[np.argsort(at[used], kind="stable")]
    counts = np.bincount(at[used], minlength=n_nodes)
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return (
        pointers,
        feature[used].astype(np.int32),
        np.repeat(coef[used, None].astype(np.float64), n_values, axis=1),
        np.ascontiguousarray(center[used], dtype=np.float64),
    )
