"""Growers of boosted trees that do not bin once for all: exact, and with new candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow.grower import (
    PAIR,
    Grower,
    GrowerParams,
    RowTarget,
    category_sets,
    newton_values,
    numeric_splits,
)
from hybridtrees.core.grow.sorted_table import SortedTable
from hybridtrees.core.search._sorted_search import DrawnSearch, SortedSearch
from hybridtrees.core.tree.tree import Tree, TreeEnsemble

# Nodes of at most so many rows are grown on copies that fit the cache, several at a time.
LENT_ROWS = 2048

# The same on binned tables. Histograms are of all features; where few of them are drawn, those
# alone are quicker searched one by one, up to larger nodes.
LENT_BINNED = 512
LENT_BINNED_FEW = 16384


def open_search(
    table: SortedTable,
    params: GrowerParams,
    n_threads: int,
    n_sums: int,
    width: int,
    keep_lists: bool,
) -> tuple[SortedSearch, TreeGrower]:
    """Make a search along the lists of a table, and its grower with helpers for small nodes."""
    shape = (params, n_threads, n_sums, width, table.lists, keep_lists)
    search = SortedSearch(table.n_features, table.n_rows, table.n_categories, *shape)
    helpers = small_growers(table.n_categories, params, n_threads, n_sums, width)
    grower = TreeGrower(
        search, params.max_leaves, helpers, params.lent_rows, params.preorder, params.prune_gain
    )
    return search, grower


def small_growers(
    n_categories: np.ndarray,
    params: GrowerParams,
    n_threads: int,
    n_sums: int,
    width: int,
    binned: bool = False,
) -> list[TreeGrower]:
    """Growers of the nodes that are lent, one per thread; `binned`: of a search on bins."""
    if not params.lent_rows:
        return []
    shape = (len(n_categories), params.lent_rows, n_categories, params)
    if binned:
        return [TreeGrower(DrawnSearch(*shape, n_sums, width), 0) for _ in range(n_threads)]
    return [TreeGrower(SortedSearch(*shape, 1, n_sums, width), 0) for _ in range(n_threads)]


def read_splits(
    table: SortedTable, grown: tuple, category_to_bin: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Write the thresholds of grown nodes; returns the words of their category sets."""
    nodes, _, splits, bits = grown
    numeric = numeric_splits(nodes, bits)
    nodes["threshold"][numeric] = table.thresholds(
        nodes["feature"][numeric],
        splits["low_row"][numeric],
        splits["high_row"][numeric],
        splits["key"][numeric],
    )
    return category_sets(nodes, bits, table.n_categories, category_to_bin)


class ExactGrower:
    """Grows boosted trees along sorted lists: every threshold is tried.

    Parameters
    ----------
    values : array or sparse matrix
        The table: float32 or float64, NaN is missing, categories are codes.
    is_categorical : array of shape (n_features,)
    params : GrowerParams
    n_threads : int
    """

    # Features whose values range over no more are constant.
    least_range = 0.0

    def __init__(
        self, values: Any, is_categorical: np.ndarray, params: GrowerParams, n_threads: int
    ):
        self.values = values
        self.n_threads = n_threads
        # The order of splits decides nothing without a limit on the leaves.
        lent_rows = 0 if params.max_leaves else LENT_ROWS
        self.params = replace(params, lent_rows=lent_rows, preorder=True)
        if params.candidate_share == 0:
            # XGBoost's exact method applies gamma after growing: a poor split stays if a good one
            # stands below it.
            self.params = replace(self.params, min_gain=0.0, prune_gain=params.min_gain)
        self._table = SortedTable.from_values(
            values, is_categorical, 0, n_threads, self.least_range
        )
        self._data = np.empty((values.shape[0], 2))

    def __enter__(self) -> ExactGrower:
        self._search, self._grower = open_search(
            self._table, self.params, self.n_threads, 1, 2, keep_lists=True
        )
        return self

    def __exit__(self, *error) -> None:
        del self._search, self._grower

    def grow(
        self,
        grad: np.ndarray,
        hess: np.ndarray | float,
        *,
        rows: np.ndarray | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ) -> Tree:
        """Grow one tree; see `Grower.grow`."""
        self._data[:, 0] = grad
        self._data[:, 1] = hess
        if not np.all(np.isfinite(self._data)):
            raise ValueError(
                "the gradients overflow 32-bit floats: the target or the sample weights are "
                "too large, scale them down"
            )
        self._search.begin(RowTarget(self._data, PAIR, 1), rows, seed)
        grown = self._grower.grow()
        sets = read_splits(self._table, grown)
        return Tree(grown[0], newton_values(grown[1], self.params, grown[2]) * scale, sets)

    def segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row ids of the tree grown last, and start and stop of each node's own among them."""
        return self._grower.segments()

    def update_raw(self, tree: Tree, raw: np.ndarray) -> None:
        """Add the tree that was grown last to `raw`, one number per row of the table."""
        if not self._grower.update_raw(np.ascontiguousarray(tree.values[:, 0]), raw):
            ensemble = TreeEnsemble([tree], self._table.n_features)
            ensemble.add_raw(self.values, raw.reshape(-1, 1), self.n_threads)


class ApproxGrower:
    """Grows boosted trees on candidates proposed anew for every tree.

    The bins of a tree are quantiles weighted by the hessians of its round (Chen and Guestrin
    2016, Algorithm 2, global proposal).

    Parameters
    ----------
    values, is_categorical, params, n_threads
        As for `ExactGrower`.
    max_bins : int
        Bins of a feature.
    """

    def __init__(
        self,
        values: Any,
        is_categorical: np.ndarray,
        params: GrowerParams,
        n_threads: int,
        max_bins: int,
    ):
        self.values = values
        self.params = params
        self.n_threads = n_threads
        self._mapper = BinMapper(
            max_bins=max_bins, categorical_features=is_categorical, n_jobs=n_threads
        )
        self._grower: Grower | None = None
        self._proposed_for: object = None

    def __enter__(self) -> ApproxGrower:
        return self

    def __exit__(self, *error) -> None:
        self._close()

    def _close(self) -> None:
        if self._grower is not None:
            self._grower.__exit__(None, None, None)
            self._grower = None

    def grow(self, grad: np.ndarray, hess: np.ndarray | float, **how: Any) -> Tree:
        """Grow one tree; see `Grower.grow`."""
        # Equal hessians propose the same candidates in every round.
        proposal = hess if np.isscalar(hess) else None
        if self._grower is None or proposal is None or proposal != self._proposed_for:
            self._close()
            weight = None if np.isscalar(hess) else np.asarray(hess, dtype=np.float64)
            if weight is not None and not np.any(weight > 0):
                weight = None
            binned = self._mapper.fit_transform(self.values, weight)
            self._grower = Grower(
                binned, self.params, self.n_threads, self._mapper.category_to_bin_
            ).__enter__()
            self._proposed_for = proposal
        return self._grower.grow(grad, hess, **how)

    def segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row ids of the tree grown last, and start and stop of each node's own among them."""
        assert self._grower is not None
        return self._grower.segments()

    def update_raw(self, tree: Tree, raw: np.ndarray) -> None:
        """Add the tree that was grown last to `raw`, one number per row of the table."""
        assert self._grower is not None
        self._grower.update_raw(tree, raw)
