"""Trees whose splits are chosen by the loss of linear models in both children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import Limit
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow.grower import BareLeaves, Grower, Statistics
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search.lines._linear_tree_fit import LinearProblem
from hybridtrees.core.search.lines._linear_tree_search import LinearTreeSearch

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearPenalty:
    """Penalties of a fit to rows of total weight W; V is a regressor's sum of squared deviations.

    The loss is half the sum of squares, plus ``l1 |b| + l2 b^2 / 2`` for each regressor with

        l2 = (l2_relative + l2_relative_sum / W) V + l2_per_weight W + l2_absolute
        l1 = (l1_relative sqrt(V / W) + l1_per_weight) (1 if l1_sum else W)

    Arrays have one number per regressor.
    """

    l2_relative: float = 0.0
    l2_relative_sum: float = 0.0
    l2_per_weight: float | Floats = 0.0
    l2_absolute: float | Floats = 0.0
    l1_relative: float = 0.0
    l1_per_weight: float | Floats = 0.0
    l1_sum: bool = False

    @property
    def has_l2(self) -> bool:
        """Whether there is an L2 penalty."""
        parts = (self.l2_relative, self.l2_relative_sum, self.l2_per_weight, self.l2_absolute)
        return any(bool(np.any(part)) for part in parts)

    @property
    def has_l1(self) -> bool:
        """Whether there is an L1 penalty."""
        return bool(np.any(self.l1_relative)) or bool(np.any(self.l1_per_weight))


class LinearStatistics(Statistics):
    """Input of a search by linear models: regressors, targets and weights."""

    shape = (0, 0)

    def __init__(self, problem: LinearProblem):
        super().__init__()
        self.problem = problem


@dataclass
class GrownNodes:
    """A tree without models; features are those of the binned table."""

    nodes: NDArray[Any]
    categories: NDArray[np.uint32]
    cells: Floats  # sums of products of every node, for `LinearProblem.solve`; empty with a fitter
    rows: NDArray[np.uint32]  # ordered by node: those of node i are rows[start[i]:stop[i]]
    start: NDArray[np.intp]
    stop: NDArray[np.intp]


@dataclass
class LinearRoom:
    """The search of the last tree, whose arrays serve the next one on the same table."""

    search: LinearTreeSearch | None = None


def grow_linear(
    table: Table,
    problem: LinearProblem,
    params: GrowerParams,
    n_threads: int = 1,
    rows: NDArray[np.uint32] | None = None,
    seed: int = 0,
    *,
    room: LinearRoom | None = None,
    fitter: Any = None,
    **how: Any,
) -> GrownNodes:
    """Grow one tree by the loss of linear models in both children, numbered in preorder.

    Only these `params` are used: frontier, limits on depth, leaves and rows, `min_gain` (a decrease
    of the sum of squares), `min_child_weight`, draws of features, `histogram_bytes`. `fitter` and
    `how` are further arguments of `LinearTreeSearch`. Trees that share a `room` share the table,
    the number of threads and `how`, and have problems of one size.
    """

    def open_search(
        table: Table, params: GrowerParams, n_threads: int, statistics: Any, use_tail: bool
    ) -> LinearTreeSearch:
        assert isinstance(table.binned, BinnedMatrix)
        if room is not None and room.search is not None:
            room.search.reopen(statistics.problem, params, fitter)
            return room.search
        search = LinearTreeSearch(
            table.binned, statistics.problem, params, n_threads, fitter, **how
        )
        if room is not None:
            room.search = search
        return search

    params = replace(params, preorder=True)
    with Grower(table, params, BareLeaves(), n_threads, search=open_search) as grower:
        grown = grower.grow(LinearStatistics(problem), rows, seed)
        cells = np.ascontiguousarray(grown.sums[:, :-1])
        return GrownNodes(grown.nodes, grown.categories, cells, *grower.segments())


def bin_at(values: NDArray, edges: Sequence[Floats]) -> BinnedMatrix:
    """Bin numeric columns at given ascending edges, at most 254 per column.

    Code b means ``edges[b - 1] < x <= edges[b]``.
    """
    n_rows, n_features = values.shape
    n_bins = np.array([len(e) + 1 for e in edges], dtype=np.int32)
    if n_bins.max(initial=0) > Limit.MAX_BINS:
        most = Limit.MAX_BINS - 1
        raise ValueError(f"a feature can be cut at {most} values at most, got {n_bins.max() - 1}")
    columns = np.empty((n_features, n_rows), dtype=np.uint8)
    for f, cuts in enumerate(edges):
        column = np.ascontiguousarray(values[:, f])
        columns[f] = np.searchsorted(cuts, column, side="left")
        columns[f][np.isnan(column)] = n_bins[f]
    records = np.zeros((n_rows, (n_features + 3) // 4 * 4 + 4), dtype=np.uint8)
    records[:, :n_features] = columns.T
    has_missing = (columns == n_bins[:, None]).any(axis=1).astype(np.uint8)
    numeric = np.zeros(n_features, dtype=np.uint8)
    return BinnedMatrix(records, columns, n_bins, has_missing, numeric, list(edges))
