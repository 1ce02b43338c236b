"""Trees of a forest: grown on a sample, packed, and asked about the rows left out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.grow._leaf_passes import feature_gains
from hybridtrees.core.grow.cart import CartGrower, CartTable, TargetSums
from hybridtrees.core.grow.grower import GrowerParams
from hybridtrees.core.grow.sorted_table import SortedTable
from hybridtrees.core.tree._walk import group_rows
from hybridtrees.core.tree.packing import PackedTree, pack_tree
from hybridtrees.core.tree.pruning import collapse_alphas, prune_nodes
from hybridtrees.core.tree.tree import Tree
from hybridtrees.metrics import Metric
from hybridtrees.models.shared.bagging import Sampler
from hybridtrees.models.shared.tree_parameters import Recipe

# Rows that are read at a time to tell one table from another.
_DIGEST_ROWS = 8192


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
    recipe : Recipe
    values : ndarray or sparse array
        The table; dense ones in C order where rows out of the bag are walked.
    target : ndarray
        float64 of shape (n_rows, n_outputs), or int32 class codes.
    sampler : Sampler
    class_factor : callable or None
        From the counts of a sample to a factor on the weight of each row.
    ccp_alpha : float
    watch_oob, keep_rows : bool
        Whether trees are asked about rows out of the bag, and whether their rows are kept.
    """

    recipe: Recipe
    values: Any
    target: np.ndarray
    sampler: Sampler
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
            expected = share * (sampler.n_drawn / exact_sum(share))
        else:
            expected = share * (sampler.n_drawn / np.count_nonzero(share))
        if self.class_factor is not None:
            expected = expected * self.class_factor(expected)
        return exact_sum(expected)

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


class OutOfBag:
    """Predictions of rows by the trees whose samples they are not in, and their error.

    Parameters
    ----------
    target : ndarray
        float64 of shape (n_rows, n_outputs), or int32 class codes.
    weight : ndarray of shape (n_rows,) or None
    metric : Metric
    n_values : int
        Numbers that a tree says of a row; 1 for two classes.
    n_classes : int
    votes : bool
    """

    def __init__(
        self,
        target: np.ndarray,
        weight: np.ndarray | None,
        metric: Metric,
        n_values: int,
        n_classes: int,
        votes: bool,
    ):
        self.target = target
        self.weight = weight
        self.metric = metric
        self.n_classes = n_classes
        self.votes = votes
        self.sums = np.zeros((len(target), n_values))
        self.counts = np.zeros(len(target), dtype=np.int32)

    @property
    def grain(self) -> float:
        """Half as much again as one row makes of a share of wrong classes; 0 for other metrics."""
        return 1.5 / len(self.target) if self.metric.name in ("error", "merror") else 0.0

    def add(self, tree: ForestTree) -> float:
        """Take in what a tree says and return the error of all trees so far."""
        assert tree.oob_rows is not None and tree.oob_values is not None
        return self.add_values(tree.oob_rows, tree.oob_values)

    def add_values(self, rows: np.ndarray, values: np.ndarray) -> float:
        """Take in what a tree says of the rows out of its bag; see `add`."""
        self.sums[rows] += as_votes(values) if self.votes else values
        self.counts[rows] += 1
        return self.error()

    def prediction(self) -> np.ndarray:
        """Means over the trees, NaN for rows that were in every sample."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.sums / self.counts[:, None]
        return two_columns(mean) if self.n_classes == 2 else mean

    def score_input(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Targets, predictions and weights of the rows that have a prediction."""
        rows = self.counts > 0
        mean = self.sums[rows] / self.counts[rows, None]
        if mean.shape[1] == 1 and self.n_classes != 1:
            mean = mean[:, 0]
        target = self.target[rows]
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        return target, mean, None if self.weight is None else self.weight[rows]

    def error(self, metric: Metric | None = None) -> float:
        """Value of the metric, NaN while no row has a prediction."""
        target, mean, weight = self.score_input()
        if not len(target):
            return float("nan")
        return float((metric or self.metric).function(target, mean, sample_weight=weight))


def as_votes(values: np.ndarray) -> np.ndarray:
    """1 for the most probable class and 0 for others; of two classes, for the second."""
    if values.shape[1] == 1:
        return (values > 0.5).astype(np.float64)
    votes = np.zeros_like(values)
    votes[np.arange(len(values)), values.argmax(axis=1)] = 1.0
    return votes


def most_probable(mean: np.ndarray) -> np.ndarray:
    """Codes of the most probable classes; of two classes `mean` is about the second alone."""
    return (mean > 0.5).astype(np.intp) if mean.ndim == 1 else mean.argmax(axis=1)


def of_classes(metric: Metric) -> Metric:
    """Return a metric that a function of predicted classes makes, not of their probabilities."""

    def function(target: np.ndarray, mean: np.ndarray, *, sample_weight: Any = None) -> float:
        return metric.function(target, most_probable(mean), sample_weight=sample_weight)

    return metric._replace(function=function)


def two_columns(second: np.ndarray) -> np.ndarray:
    """Probabilities of both of two classes from those of the second."""
    return np.hstack([1.0 - second, second])


def in_c_order(values: Any) -> Any:
    """Return a table in the order of memory that rows are walked in."""
    return values.tocsr() if scipy.sparse.issparse(values) else np.ascontiguousarray(values)


def digest(values: Any) -> int:
    """Return a number by which a table is told from others, whatever its type of numbers."""
    found = zlib.crc32(np.array(values.shape, dtype=np.int64))
    if scipy.sparse.issparse(values):
        values = values.tocsr()
        for part in (values.indices, values.indptr):
            found = zlib.crc32(part.astype(np.int64), found)
        values = values.data
    for start in range(0, len(values), _DIGEST_ROWS):
        block = np.ascontiguousarray(values[start : start + _DIGEST_ROWS], dtype=np.float64)
        found = zlib.crc32(block, found)
    return found


def drawable_weight(
    factor: Callable[[np.ndarray], np.ndarray] | None, target: np.ndarray, weight: np.ndarray | None
) -> np.ndarray | None:
    """Weights of the rows, 0 for those of classes that have no weight."""
    if factor is None:
        return weight
    zero = factor(np.ones(len(target), dtype=np.int64)) == 0
    if not zero.any():
        return weight
    return np.where(zero, 0.0, 1.0 if weight is None else weight)
