"""Members of AdaBoost: trees grown on one table, or fitted copies of an estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.grow.cart import TargetLeaves, TargetStatistics, cart_params, cart_table
from hybridtrees.core.grow.grower import Grower
from hybridtrees.core.tree.packing import pack_tree
from hybridtrees.core.tree.pruning import prune_at
from hybridtrees.core.tree.tree import Tree
from hybridtrees.ensembles.members import Rows, fit_member, member_codes, member_numbers
from hybridtrees.models.shared.tree_parameters import TreeRecipe


class Members:
    """Fits members one after the other to the same rows with other weights; a context manager.

    `target` has class codes, or numbers; `start` the weights of the first round, of sum 1.
    """

    def __init__(self, target: np.ndarray, weight: np.ndarray | None, resample: bool):
        self.target = target
        n_rows = len(target)
        weight = np.full(n_rows, 1.0 / n_rows) if weight is None else weight / exact_sum(weight)
        self.start = weight
        self.resample = resample

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        """Release what the members share."""

    def fit_next(self, weight: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
        """Return a new member, and its class codes or numbers for all rows of positive `start`.

        The weights have the sum 1; of a sample they are the counts of the rows.
        """
        raise NotImplementedError


class TreeMembers(Members):
    """Trees on one table, which is binned or sorted once.

    The member is a pair of the tree and the predictions of its nodes, class codes or numbers.
    """

    def __init__(
        self,
        recipe: TreeRecipe,
        values: Any,
        target: np.ndarray,
        weight: np.ndarray | None,
        resample: bool,
        ccp_alpha: float,
    ):
        super().__init__(target, weight, resample)
        self.recipe = recipe
        self.ccp_alpha = ccp_alpha
        if resample and not scipy.sparse.issparse(values):
            values = np.ascontiguousarray(values)  # to walk rows that are not in a sample
        self.values = values
        n_threads, (n_rows, n_features) = recipe.n_threads, values.shape
        how = recipe.is_categorical, recipe.splitter, recipe.max_bins
        table = cart_table(values, *how, weight, n_threads)
        total = float(n_rows) if resample else 1.0
        params = recipe.grower_params(n_rows, n_features, total)
        params = cart_params(params, recipe.criterion)
        whole = not resample and bool(np.all(self.start > 0))
        # Single splits of all rows leave sorted lists as they are, so that no copy is needed.
        in_place = whole and params.max_depth == 1 and recipe.criterion != "absolute_error"
        leaves = TargetLeaves(ccp_alpha > 0)
        self._grower = Grower(table, params, leaves, n_threads, in_place=in_place)

    def __exit__(self, *error: Any) -> None:
        """Close the search."""
        self._grower.__exit__(*error)

    def fit_next(self, weight: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
        """Grow a tree; the prediction of a row is that of the leaf where it ended."""
        recipe = self.recipe
        statistics = TargetStatistics(self.target, weight, recipe.criterion, recipe.n_classes)
        grown = self._grower.grow(statistics, statistics.rows, seed)
        tree, leaf = prune_at(grown.tree, self.ccp_alpha, grown.leaf)
        by_node = self._node_predictions(tree)
        prediction = by_node[leaf]
        if self.resample:
            rest = np.flatnonzero((leaf < 0) & (self.start > 0)).astype(np.uint32)
            column = by_node[:, None].astype(np.float64)
            packed = pack_tree(tree, column, recipe.missing == "stop")
            prediction[rest] = by_node[packed.walk(self.values, rest)]
        return (tree, by_node), prediction

    def _node_predictions(self, tree: Tree) -> np.ndarray:
        """Return the class code or the number of every node."""
        n_classes = self.recipe.n_classes
        if n_classes == 0:
            return tree.values[:, 0]
        if n_classes == 2:
            return (tree.values[:, 1] > tree.values[:, 0]).astype(np.int32)
        return np.asarray(tree.values.argmax(axis=1), dtype=np.int32)


class MemberCopies(Members):
    """Copies of an estimator, fitted to the table as the user gave it."""

    def __init__(
        self, estimator: Any, rows: Rows, classes: np.ndarray | None, resample: bool, n_threads: int
    ):
        target = rows.target if rows.codes is None else rows.codes
        super().__init__(target, rows.weight, resample)
        self.estimator = estimator
        self.rows = rows
        self.classes = classes
        self.n_threads = n_threads

    def fit_next(self, weight: np.ndarray, seed: int) -> tuple[Any, np.ndarray]:
        """Fit a copy, to the rows of a sample or with weights of mean 1."""
        rows = self.rows.weighted(None)
        if self.resample:
            rows = rows.take(np.repeat(np.arange(len(weight)), weight.astype(np.intp)))
        else:
            # Penalties of members mean the same as in a fit without weights.
            rows = rows.weighted(weight * len(weight))
        member = fit_member(self.estimator, rows, self.n_threads, seed)
        return member, member_predictions(member, self.rows.columns.table, self.classes)


def member_predictions(member: Any, X: Any, classes: np.ndarray | None) -> np.ndarray:
    """Return the class codes that a member predicts, or numbers if there are no classes."""
    if classes is not None:
        return member_codes(member, X, classes)
    return member_numbers(member, X)
