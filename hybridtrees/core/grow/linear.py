"""Trees whose splits are chosen by the loss of linear models in both children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import Limit
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow.grower import GrowerParams, category_sets, numeric_splits
from hybridtrees.core.grow.sorted_table import BinThresholds
from hybridtrees.core.search._linear_fit import LinearProblem
from hybridtrees.core.search._linear_search import LinearSearch

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearPenalty:
    """Penalties of a fit to rows of weight W, in which a regressor's squared deviations add to V.

    The loss is half the sum of squares. To it are added ``l1 |b| + l2 b^2 / 2`` with

        l2 = (l2_relative + l2_relative_sum / W) V + l2_per_weight W + l2_absolute
        l1 = (l1_relative sqrt(V / W) + l1_per_weight) (1 if l1_sum else W)

    Entries that are arrays have one number per regressor.
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
        """Whether squares are penalised."""
        parts = (self.l2_relative, self.l2_relative_sum, self.l2_per_weight, self.l2_absolute)
        return any(bool(np.any(part)) for part in parts)

    @property
    def has_l1(self) -> bool:
        """Whether magnitudes are penalised."""
        return bool(np.any(self.l1_relative)) or bool(np.any(self.l1_per_weight))


@dataclass
class GrownNodes:
    """A tree without models.

    Attributes
    ----------
    nodes : ndarray of NODE_DTYPE
        Features are those of the binned table.
    categories : ndarray of uint32
        Category sets.
    cells : float64 array of shape (n_nodes, cell_size)
        Sums of products of every node, for `LinearProblem.solve`; without columns under a judge.
    rows, start, stop : ndarrays
        Row ids node by node: those of node i are ``rows[start[i]:stop[i]]``.
    """

    nodes: NDArray[Any]
    categories: NDArray[np.uint32]
    cells: Floats
    rows: NDArray[np.uint32]
    start: NDArray[np.intp]
    stop: NDArray[np.intp]


class LinearGrower:
    """Grows trees on one binned table and one set of regressors.

    Parameters
    ----------
    binned : BinnedMatrix
        Features to split on.
    problem : LinearProblem
    params : GrowerParams
        Of these: frontier, limits on depth, leaves and rows, `min_gain` (a decrease of the sum of
        squares), `min_child_weight`, draws of features, `histogram_bytes`.
    n_threads : int
    category_to_bin : sequence, optional
        See `Grower`.
    judge, regressors, screened, exhaustive
        See `LinearSearch`.
    """

    def __init__(
        self,
        binned: BinnedMatrix,
        problem: LinearProblem,
        params: GrowerParams,
        n_threads: int = 1,
        category_to_bin: Sequence[NDArray | None] | None = None,
        *,
        judge: Any = None,
        regressors: Floats | None = None,
        screened: int = 0,
        exhaustive: bool = False,
    ):
        self.binned = binned
        self._category_to_bin = category_to_bin
        self._search = LinearSearch(
            binned, problem, params, n_threads, judge, regressors, screened, exhaustive
        )
        self._grower = TreeGrower(self._search, params.max_leaves, (), 0, True)
        self._threshold = BinThresholds(binned)

    def grow(self, rows: NDArray[np.uint32] | None = None, seed: int = 0) -> GrownNodes:
        """Grow one tree.

        Parameters
        ----------
        rows : uint32 array, optional
            Ascending ids of the rows to use.
        seed : int
            Seed of the draws of features.

        Returns
        -------
        grown : GrownNodes
            Numbered in preorder.
        """
        self._search.begin(rows, seed)
        nodes, sums, _, category_bins = self._grower.grow()
        split = numeric_splits(nodes, category_bins)
        nodes["threshold"][split] = self._threshold(nodes["feature"][split], nodes["bin"][split])
        sets = category_sets(nodes, category_bins, self.binned.n_bins, self._category_to_bin)
        cells = np.ascontiguousarray(sums[:, :-1])
        return GrownNodes(nodes, sets, cells, *self._grower.segments())


def bin_at(values: NDArray, edges: Sequence[Floats]) -> BinnedMatrix:
    """Cut columns of numbers at given edges.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features)
    edges : sequence of ascending arrays
        At most 254 of each column; code b stands for ``edges[b - 1] < x <= edges[b]``.

    Returns
    -------
    binned : BinnedMatrix
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
