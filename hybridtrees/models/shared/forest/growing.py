"""Trees of a forest: grown on a sample, packed, and asked about the rows left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hybridtrees.core.grow._leaf_passes import feature_gains
from hybridtrees.core.grow.cart import CartGrower, CartTable, TargetSums
from hybridtrees.core.grow.grower import GrowerParams
from hybridtrees.core.grow.sorted_table import SortedTable
from hybridtrees.core.tree._walk import group_rows
from hybridtrees.core.tree.packing import PackedTree, pack_tree
from hybridtrees.core.tree.pruning import collapse_alphas, prune_nodes
from hybridtrees.core.tree.tree import Tree
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.tree_parameters import TreeRecipe


@dataclass
class ForestTree:
    """A tree of a forest, and what is known of it while its sample is at hand.

    Attributes
    ----------
    packed : PackedTree
    importance : ndarray of shape (n_features,)
        Impurity that the splits of each feature take off, summing to 1 (0 without splits).
    leaf_rows : ndarray of uint32 or None
        Rows of the sample, leaf by leaf.
    oob_rows : ndarray of uint32 or None
        Rows out of the bag.
    oob_values : ndarray of shape (n_oob, n_values) or None
        What the tree says of them.
    """

    packed: PackedTree
    importance: np.ndarray
    leaf_rows: np.ndarray | None
    oob_rows: np.ndarray | None
    oob_values: np.ndarray | None


@dataclass
class ForestFit:
    """What the growers of one fit share.

    Attributes
    ----------
    recipe : TreeRecipe
    values : ndarray or sparse array
        The table; dense ones in C order where rows out of the bag are walked.
    target : ndarray
        float64 of shape (n_rows, n_outputs), or int32 class codes.
    sampler : RowSampler
    class_factor : callable or None
        From the counts of a sample to a factor on the weight of each row.
    ccp_alpha : float
    watch_oob, keep_rows : bool
        Whether trees are asked about rows out of the bag, and whether their rows are kept.
    """

    recipe: TreeRecipe
    values: Any
    target: np.ndarray
    sampler: RowSampler
    class_factor: Callable[[np.ndarray], np.ndarray] | None
    ccp_alpha: float
    watch_oob: bool
    keep_rows: bool
    n_threads: int

    def __post_init__(self) -> None:
        recipe, sampler = self.recipe, self.sampler
        self.table = CartTable(
            self.values,
            recipe.is_categorical,
            recipe.splitter,
            recipe.max_bins,
            sampler.weight,
            self.n_threads,
        )
        self.params = recipe.grower_params(*self.values.shape, self._expected_total())
        self.lists = self._shared_lists()

    def _expected_total(self) -> float:
        """Weight of a sample, on average."""
        sampler = self.sampler
        share = np.ones(sampler.n_rows) if sampler.weight is None else sampler.weight
        if sampler.replace:
            expected = share * (sampler.n_drawn / share.sum())
        else:
            expected = share * (sampler.n_drawn / np.count_nonzero(share))
        if self.class_factor is not None:
            expected = expected * self.class_factor(expected)
        return float(expected.sum())

    def _shared_lists(self) -> SortedTable | None:
        """Sorted lists, made once; None where histograms do the search."""
        n_classes = self.recipe.n_classes
        n_sums = self.target.shape[1] if n_classes == 0 else 1 if n_classes <= 2 else n_classes
        with CartGrower(self.table, self.params, self.recipe.criterion) as probe:
            if probe._by_histogram(n_sums):
                return None
            n_extra = n_sums if probe.params.criterion == "absolute" else 0
        return self.table.sorted_lists(n_extra, self.n_threads)

    @property
    def detailed(self) -> bool:
        """Whether values of inner nodes are kept: see `pack_tree`."""
        recipe = self.recipe
        return (
            recipe.criterion == "absolute_error"
            or recipe.missing == "stop"
            or recipe.monotonic is not None
        )

    def open_grower(self) -> TreeMaker:
        """Return a grower for one thread."""
        return TreeMaker(self, self.params, self.lists)


class TreeMaker:
    """Grows the trees of a forest, one after the other; a context manager."""

    def __init__(self, fit: ForestFit, params: GrowerParams, lists: SortedTable | None):
        self.fit = fit
        self._grower = CartGrower(fit.table, params, fit.recipe.criterion, 1, lists)

    def __enter__(self) -> Self:
        self._grower.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._grower.__exit__(*error)

    def grow(self, counts: np.ndarray, seed: int) -> ForestTree:
        """Grow a tree on a sample; see `hybridtrees.models.shared.bagging.Grower`."""
        fit = self.fit
        recipe = fit.recipe
        weight: np.ndarray | None = fit.sampler.row_weight(counts)
        if fit.class_factor is not None:
            weight = weight * fit.class_factor(counts)
        elif fit.sampler.weight is None and not fit.sampler.leaves_out:
            weight = None
        sums = TargetSums.of(fit.target, weight, recipe.criterion, recipe.n_classes)
        grown = self._grower.grow(sums, seed, fit.ccp_alpha > 0)
        tree, leaf = grown.tree, grown.leaf
        if fit.ccp_alpha > 0:
            splits = collapse_alphas(tree, grown.impurity) > fit.ccp_alpha
            tree, new_node = prune_nodes(tree, splits, grown.impurity)
            leaf = np.where(leaf < 0, leaf, new_node[leaf]).astype(np.int32)
        values = tree.values[:, 1:] if recipe.n_classes == 2 else tree.values
        packed = pack_tree(tree, values, fit.detailed)
        oob_rows = oob_values = None
        if fit.watch_oob:
            oob_rows = fit.sampler.out_of_bag(counts)
            oob_values = values[packed.walk(fit.values, oob_rows)]
        rows = rows_by_leaf(leaf, tree.n_nodes) if fit.keep_rows else None
        return ForestTree(
            packed, _importance(tree, fit.table.n_features), rows, oob_rows, oob_values
        )


def rows_by_leaf(leaf: np.ndarray, n_nodes: int) -> np.ndarray:
    """Rows that have a leaf, leaf by leaf."""
    rows = np.empty(np.count_nonzero(leaf >= 0), dtype=np.uint32)
    group_rows(leaf, np.empty(n_nodes + 1, dtype=np.int64), rows)
    return rows


def _importance(tree: Tree, n_features: int) -> np.ndarray:
    sums = np.zeros(n_features)
    feature_gains(tree.nodes, sums)
    total = sums.sum()
    return sums / total if total > 0 else sums
