"""The grower: from a table, a search and a model of the leaves to trees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.leaves import LeafModel
from hybridtrees.core.grow.statistics import Statistics
from hybridtrees.core.grow.table import Table
from hybridtrees.core.search._histogram_search import HistogramSearch
from hybridtrees.core.search._search import SplitSearch
from hybridtrees.core.search._sorted_search import DrawnSearch, SortedSearch
from hybridtrees.core.tree.tree import Tree

# Nodes of at most so many rows are grown on copies that fit the cache, several at a time.
SUBTREE_ROWS = 2048

# The same on tables in bins. Histograms are of all features; where few of them are drawn, those
# alone are quicker searched one by one, up to larger nodes.
SUBTREE_ROWS_BINNED = 512
SUBTREE_ROWS_FEW_FEATURES = 16384


@dataclass(frozen=True)
class GrowerParams:
    """What the grower needs to know, filled once per fit.

    Attributes
    ----------
    frontier : {"depth-wise", "best-first", "depth-first"}
    max_depth, max_leaves : int
        0 for no limit.
    min_samples_split, min_samples_leaf : int
        Least rows of a node that is split, and of a leaf.
    min_child_weight : float
        Least sum of hessians in a child.
    min_gain : float
        Least gain of a split.
    reg_lambda, reg_alpha : float
        L2 and L1 penalty of leaf values.
    max_delta_step : float
        Largest leaf value before shrinkage, 0 for no limit.
    feature_fractions : tuple of three floats
        Share of the features drawn per tree, per level and per node.
    max_cat_to_onehot : int
        A feature of at most so many categories is split one against the rest.
    histogram_bytes : int
        Memory for the histograms of open nodes; beyond it they are summed anew when needed.
    criterion : str
        What splits are scored by; see `Criterion` in _types.pxd.
    max_features : int
        Features drawn per node, 0 for all; more are tried where none of those can be split.
    monotonic : int8 array, optional
        1 where the value may only rise with a feature, -1 where it may only fall, else 0.
    interaction : uint64 array, optional
        Bit set of the interaction groups that each feature is in, up to 63; 0: it stands alone.
        ``1 << 63`` for every feature: any two may stand on one path, and no third.
    missing : {"learn", "stop"}
        Whether rows with a missing value go to the better side or stay at the node.
    random_ties : bool
        Whether equal splits are drawn from; otherwise the lowest feature and threshold win.
    candidate_share : float
        Exact search: share of a node's hessian between two candidates, 0 to try every threshold.
    prune_gain : float
        Splits of less gain above two leaves are undone once the tree is grown.
    subtree_rows : int
        Nodes of at most so many rows are grown as tasks of their own, in parallel; 0 for none.
    preorder : bool
        Number nodes down the left side first, not in the order in which they were split.
    """

    frontier: str = "depth-wise"
    max_depth: int = 6
    max_leaves: int = 0
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_child_weight: float = 1.0
    min_gain: float = 0.0
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    max_delta_step: float = 0.0
    feature_fractions: tuple[float, float, float] = (1.0, 1.0, 1.0)
    max_cat_to_onehot: int = 4
    histogram_bytes: int = 256 * 2**20
    criterion: str = "newton"
    max_features: int = 0
    monotonic: np.ndarray | None = None
    interaction: np.ndarray | None = None
    missing: str = "learn"
    random_ties: bool = False
    candidate_share: float = 0.0
    prune_gain: float = 0.0
    subtree_rows: int = 0
    preorder: bool = False

    def in_subtrees(self) -> GrowerParams:
        """Return the same with small nodes as tasks, unless a limit asks for the best first."""
        return replace(self, subtree_rows=0 if self.max_leaves else SUBTREE_ROWS, preorder=True)

    def pruned_afterwards(self) -> GrowerParams:
        """Return the same with the limit on gains applied once a tree is grown.

        XGBoost's exact method does so: a poor split stays if a good one stands below it.
        """
        return replace(self, min_gain=0.0, prune_gain=self.min_gain)


_tails_in_use: set[int] = set()
_tails_lock = threading.Lock()


@contextmanager
def records_tail(binned: BinnedMatrix) -> Iterator[bool]:
    """Whether the spare bytes of the records are ours: one grower of a matrix may have them."""
    key = id(binned)
    with _tails_lock:
        free = key not in _tails_in_use
        _tails_in_use.add(key)
    try:
        yield free
    finally:
        if free:
            with _tails_lock:
                _tails_in_use.discard(key)


def uses_histograms(table: Table, params: GrowerParams, n_sums: int) -> bool:
    """Whether histograms serve: of Newton gains, and of squares unless more is asked for.

    Sorted lists do the rest, of the bins where the table has bins.
    """
    if table.binned is None or params.criterion == "newton":
        return table.binned is not None
    plain = params.monotonic is None and params.missing == "learn"
    return params.criterion == "squares" and n_sums == 1 and plain


class Grower:
    """Grows trees on one table, one after the other; to be used as a context manager.

    Parameters
    ----------
    table : Table
    params : GrowerParams
    leaf_model : LeafModel
        Makes a `Tree` of what was grown.
    n_threads : int
    search : callable, optional
        ``search(table, params, n_threads, statistics, use_tail)`` opens a search; by default one
        along histograms or sorted lists is chosen.
    in_place : bool
        Whether the search may use up the sorted lists of the table: for a single tree, or for
        single splits, which leave them as they are. Otherwise every tree works on a copy.
    """

    def __init__(
        self,
        table: Table,
        params: GrowerParams,
        leaf_model: LeafModel,
        n_threads: int = 1,
        *,
        search: Callable[..., SplitSearch] | None = None,
        in_place: bool = False,
    ):
        self.table = table
        self.params = params
        self.leaf_model = leaf_model
        self.n_threads = n_threads
        self.by_histogram = False
        self._open_search = search
        self._in_place = in_place
        self._opened_for: tuple | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened_for = None
        self._engine = self.search = None
        self.by_histogram = False
        self._stack.close()

    def grow(
        self,
        statistics: Any,
        rows: NDArray[np.uint32] | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ) -> Grown:
        """Grow one tree.

        Parameters
        ----------
        statistics : Statistics
            Or what else the search begins with.
        rows : uint32 array, optional
            Ascending ids of the rows to use.
        seed : int
            Of the draws of features and between equal splits.
        scale : float
            Factor on the leaves: the learning rate.
        """
        self.table.propose(statistics)
        self._open(statistics)
        self.search.begin(statistics, rows, seed)
        grown = self._engine.grow()
        self.table.write_splits(grown)
        grown.tree = self.leaf_model.fit(grown, statistics, self, scale)
        return grown

    def _open(self, statistics: Any) -> None:
        """Open a search, unless that of the last tree serves this one."""
        params = self._in_units(statistics)
        key = (statistics.shape, params.min_gain, params.min_child_weight, self.table.version)
        if self._opened_for == key:
            return
        self.__exit__()
        try:
            if self._open_search is not None:
                self._open_given(params, statistics)
            elif uses_histograms(self.table, params, statistics.shape[0]):
                self._open_histograms(params, statistics)
            else:
                self._open_lists(params, statistics)
        except BaseException:  # others may have the spare bytes of the table then
            self.__exit__()
            raise
        # Lists that are used up serve no second tree; a single split leaves them as they are.
        used_up = self._in_place and not self.by_histogram and params.max_depth != 1
        if used_up:
            self.table.drop_lists()
        self._opened_for = None if used_up else key

    def _in_units(self, statistics: Any) -> GrowerParams:
        """Limits on gains and weights in the units of the statistics."""
        params = self.params
        if statistics.weight_unit != 1.0:
            least = params.min_child_weight / statistics.weight_unit
            params = replace(params, min_child_weight=least)
        if statistics.gain_unit != 1.0 and params.min_gain and np.isfinite(params.min_gain):
            with np.errstate(divide="ignore", over="ignore"):
                gain = float(np.float64(params.min_gain) / statistics.gain_unit)
            params = replace(params, min_gain=gain)
        return params

    def _take_tail(self) -> bool:
        binned = self.table.binned
        return binned is not None and self._stack.enter_context(records_tail(binned))

    def _open_given(self, params: GrowerParams, statistics: Any) -> None:
        assert self._open_search is not None
        given = (self.table, params, self.n_threads, statistics, self._take_tail())
        self.search = self._open_search(*given)
        self.by_histogram = isinstance(self.search, HistogramSearch)
        self._engine = TreeGrower(self.search, params.max_leaves, (), 0, params.preorder)

    def _open_histograms(self, params: GrowerParams, statistics: Statistics) -> None:
        table, newton = self.table, params
        if params.criterion == "squares":
            # Squared error is the Newton gain of gradients -y under unit curvature, no penalty.
            newton = replace(
                params, criterion="newton", reg_lambda=0.0, reg_alpha=0.0, max_delta_step=0.0
            )
        self.search = HistogramSearch(table.binned, newton, self._take_tail(), self.n_threads)
        self.by_histogram = True
        tasks, n_rows = [], 0
        if params.subtree_rows:
            few = 0 < 4 * params.max_features < table.n_features
            n_rows = SUBTREE_ROWS_FEW_FEATURES if few else SUBTREE_ROWS_BINNED
            shape = (table.n_features, n_rows, table.n_categories, params, *statistics.shape)
            tasks = [TreeGrower(DrawnSearch(*shape), 0) for _ in range(self.n_threads)]
        self._engine = TreeGrower(
            self.search, params.max_leaves, tasks, n_rows, params.preorder, params.prune_gain
        )

    def _open_lists(self, params: GrowerParams, statistics: Statistics) -> None:
        table, shape = self.table, statistics.shape
        n_extra = shape[0] if params.criterion == "absolute" and self._in_place else 0
        lists = table.lists(self.n_threads, n_extra)
        given = (table.n_features, table.n_rows, table.n_categories, params, self.n_threads)
        self.search = SortedSearch(*given, *shape, lists, not self._in_place)
        n_rows = params.subtree_rows
        small = (table.n_features, n_rows, table.n_categories, params, 1, *shape)
        tasks = [
            TreeGrower(SortedSearch(*small), 0) for _ in range(self.n_threads if n_rows else 0)
        ]
        self._engine = TreeGrower(
            self.search, params.max_leaves, tasks, n_rows, params.preorder, params.prune_gain
        )

    # -- the tree grown last --------------------------------------------------------------------

    def segments(self) -> tuple[NDArray[np.uint32], NDArray[np.intp], NDArray[np.intp]]:
        """Row ids of the tree grown last, and start and stop of each node's own among them."""
        return self._engine.segments()

    def row_nodes(self) -> NDArray[np.int32]:
        """Node where each row ended, -1 for rows that took no part."""
        return self._engine.row_nodes()

    def add_to(
        self, tree: Tree, raw: NDArray[np.float64], values: NDArray[np.float64] | None = None
    ) -> None:
        """Add the tree grown last to `raw`, one number per row of the table.

        `values` has a number for each grown node, where `tree` is a pruned one.
        """
        self.leaf_model.add_to(self, tree, raw, values)

    def add_values(self, values: NDArray[np.float64], raw: NDArray[np.float64]) -> bool:
        """Add a number per grown node to `raw`; False where the search cannot place all rows."""
        # Along histograms the rows of a node keep their order.
        return self._engine.add_to(np.ascontiguousarray(values), raw, self.by_histogram)
