"""Trees of a random forest: grown on a sample, packed, with out-of-bag predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.grow._leaf_passes import feature_gains
from hybridtrees.core.grow.cart import TargetLeaves, TargetStatistics, cart_params, cart_table
from hybridtrees.core.grow.grower import Grower, uses_histograms
from hybridtrees.core.tree._walk import group_rows
from hybridtrees.core.tree.packing import PackedTree, pack_tree
from hybridtrees.core.tree.pruning import prune_at
from hybridtrees.core.tree.tree import Tree
from hybridtrees.models.shared.bagging import RowSampler
from hybridtrees.models.shared.tree_parameters import TreeRecipe


@dataclass
class ForestTree:
    """A packed tree, and what was computed from its sample."""

    packed: PackedTree
    gains: np.ndarray  # decrease in impurity by the splits on each feature
    leaf_rows: np.ndarray | None  # rows of the sample, leaf by leaf
    oob_rows: np.ndarray | None  # out-of-bag rows
    oob_values: np.ndarray | None  # predictions for them, (n_oob, n_values)


@dataclass
class ForestFit:
    """What the growers of one fit share."""

    recipe: TreeRecipe
    values: Any  # the table; if dense, in C order for out-of-bag predictions
    target: np.ndarray  # (n_rows, n_outputs), or int32 class codes
    sampler: RowSampler
    class_factor: Callable[[np.ndarray], np.ndarray] | None  # sample counts -> class weights
    ccp_alpha: float
    watch_oob: bool  # predict out-of-bag rows
    keep_rows: bool  # keep the rows of the leaves
    n_threads: int

    def __post_init__(self) -> None:
        recipe, weight = self.recipe, self.sampler.weight
        how = recipe.is_categorical, recipe.splitter, recipe.max_bins
        self.table = cart_table(self.values, *how, weight, self.n_threads)
        self.use_params()
        n_classes = recipe.n_classes
        n_sums = self.target.shape[1] if n_classes == 0 else 1 if n_classes <= 2 else n_classes
        if not uses_histograms(self.table, self.params, n_sums):
            # Sort once, before the threads start: every grower works on a copy.
            self.table.lists(self.n_threads)

    def use_params(self) -> None:
        """Set the parameters of growth, which depend on the size of samples."""
        n_rows, n_features = self.values.shape
        params = self.recipe.grower_params(n_rows, n_features, self._expected_total())
        self.leaf_model = TargetLeaves(self.ccp_alpha > 0)
        self.params = cart_params(params, self.recipe.criterion)

    def _expected_total(self) -> float:
        """Return the expected total weight of a sample."""
        sampler = self.sampler
        share = np.ones(sampler.n_rows) if sampler.weight is None else sampler.weight
        if sampler.replace:
            expected = share * (sampler.n_drawn / exact_sum(share))
        else:
            expected = share * (sampler.n_drawn / np.count_nonzero(share))
        if self.class_factor is not None:
            expected = expected * self.class_factor(expected)
        return float(exact_sum(expected))

    def open_grower(self) -> Grower:
        """Return a grower for one thread."""
        return Grower(self.table, self.params, self.leaf_model)

    def grow(
        self, grower: Grower, counts: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> ForestTree:
        """Grow a tree on a sample: see `bag`."""
        recipe = self.recipe
        if self.class_factor is not None:
            factor = self.class_factor(counts)
            weight = factor if weight is None else weight * factor
        statistics = TargetStatistics(self.target, weight, recipe.criterion, recipe.n_classes)
        grown = grower.grow(statistics, statistics.rows, seed)
        tree, leaf = grown.tree, grown.leaf
        if self.ccp_alpha > 0:
            tree, leaf = prune_at(tree, self.ccp_alpha, leaf)
        packed, values = pack_grown(tree, recipe)
        oob_rows = oob_values = None
        if self.watch_oob:
            oob_rows = self.sampler.out_of_bag(counts)
            oob_values = values[packed.walk(self.values, oob_rows)]
        rows = None
        if self.keep_rows:
            rows = np.empty(np.count_nonzero(leaf >= 0), dtype=np.uint32)
            group_rows(leaf, np.empty(len(tree.nodes) + 1, dtype=np.int64), rows)
        gains = np.zeros(self.table.n_features)
        feature_gains(tree.nodes, gains)
        return ForestTree(packed, gains, rows, oob_rows, oob_values)


def pack_grown(tree: Tree, recipe: TreeRecipe) -> tuple[PackedTree, np.ndarray]:
    """Pack a tree of a forest; return also the values of its nodes, of two classes the second's."""
    values = tree.values[:, 1:] if recipe.n_classes == 2 else tree.values
    # Values of inner nodes are stored only if they do not follow from those of the leaves.
    detailed = (
        recipe.criterion == "absolute_error"
        or recipe.missing == "stop"
        or recipe.monotonic is not None
    )
    return pack_tree(tree, values, detailed), values
