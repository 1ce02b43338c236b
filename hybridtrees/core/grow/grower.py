"""The grower: makes trees from a table, a search and a leaf model.

A search reads the `Statistics` of the rows, the engine returns a `Grown`, and a `LeafModel` makes
a `Tree` of it. Constant leaves are here, linear ones in `linear_leaves`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._types import TargetLayout
from hybridtrees.core.base.exact_sum import group_sums
from hybridtrees.core.bins._bins import records_from_columns
from hybridtrees.core.bins.blocked import BlockedBins
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import ProposedTable, Table
from hybridtrees.core.search._block_search import BlockSearch
from hybridtrees.core.search._drawn_search import DrawnSearch
from hybridtrees.core.search._histogram_search import HistogramSearch
from hybridtrees.core.search._search import SplitSearch
from hybridtrees.core.search._sorted_search import SmallNodeSearch, SortedSearch
from hybridtrees.core.tree.tree import Tree
from hybridtrees.core.tree.walk import add_grown

# SUBTREE_ROWS of binned tables. Histograms cover all features; if few of them are drawn, it is
# faster to search these one by one, even in larger nodes.
SUBTREE_ROWS_BINNED = 512
SUBTREE_ROWS_FEW_FEATURES = 16384


@dataclass(frozen=True)
class RowTarget:
    """Targets of the exact search."""

    data: NDArray[np.float64]  # (n_rows, width), C order
    layout: int  # `TargetLayout`: contents of a row
    n_sums: int  # outputs or classes
    binary: bool = False  # whether the only output is the indicator of one of two classes


class Statistics:
    """Input of a search for one tree: gradients and hessians, or targets.

    Each is converted to the other on demand. `hess` may be one number for all rows; `center` was
    subtracted from the targets, and is added to their means.
    """

    shape: tuple[int, int] = (1, 2)  # sums per node, and numbers per row
    gain_unit = 1.0  # unit of gains in the search, in units of the user
    weight_unit = 1.0  # the same for weights

    def __init__(
        self,
        grad: NDArray[np.float32] | None = None,
        hess: NDArray[np.float32] | float = 1.0,
        target: RowTarget | None = None,
        center: float = 0.0,
    ):
        self.grad = grad
        self.hess = hess
        self.target = target
        self.center = center
        if target is not None:
            self.shape = target.n_sums, target.data.shape[1]

    def gradients(self) -> tuple[NDArray[np.float32], NDArray[np.float32] | float]:
        """Gradients and hessians; for targets, those whose Newton gain is the squared error."""
        if self.grad is not None:
            return self.grad, self.hess
        assert self.target is not None
        data = self.target.data
        grad = np.negative(data[:, 0]).astype(np.float32)
        return grad, 1.0 if data.shape[1] == 1 else data[:, -1].astype(np.float32)

    def targets(self) -> RowTarget:
        """Targets; for gradients and hessians, their pairs."""
        if self.target is not None:
            return self.target
        assert self.grad is not None
        data = np.empty((len(self.grad), 2))
        data[:, 0], data[:, 1] = self.grad, self.hess
        if not np.all(np.isfinite(data)):
            raise ValueError(
                "the gradients overflow 32-bit floats: the target or the sample weights are "
                "too large, scale them down"
            )
        return RowTarget(data, TargetLayout.TARGET_PAIR, 1)


class LeafModel:
    """Fits the outputs of leaves."""

    def fit(self, grown: Grown, statistics: Any, grower: Grower) -> Tree:
        """Make the tree; some models also take a `scale` that outputs are multiplied by."""
        raise NotImplementedError

    def replay(
        self, tree: Tree, leaf: NDArray[np.int32], statistics: Statistics, scale: float
    ) -> Tree:
        """Return a tree with the same splits, whose leaves are fitted to other rows.

        `leaf` is the leaf of each of these rows. Leaves without rows stay as they are.
        """
        raise NotImplementedError

    def add_replayed(self, tree: Tree, leaf: NDArray[np.int32], raw: NDArray[np.float64]) -> None:
        """Add the tree that `replay` has just returned to the scores of its rows."""
        raw += tree.values[leaf, 0]

    def add_to(
        self, grower: Grower, tree: Tree, raw: NDArray[np.float64], values: NDArray | None
    ) -> None:
        """Add the last tree to the scores of all rows; see `Grower.add_to`."""
        if not grower.add_values(tree.values[:, 0] if values is None else values, raw):
            add_grown([tree], grower.table.values, raw[:, None], grower.n_threads)


class BareLeaves(LeafModel):
    """Outputs of 0: the leaves are fitted elsewhere."""

    def fit(self, grown: Grown, statistics: Any, grower: Grower) -> Tree:
        """Make the tree; see `LeafModel.fit`."""
        return Tree(grown.nodes, np.zeros((len(grown.nodes), 1)), grown.categories)


class NewtonLeaves(LeafModel):
    """Minima of the penalised quadratic loss, from sums of gradients and hessians."""

    def __init__(self, params: GrowerParams):
        self.params = params

    def fit(self, grown: Grown, statistics: Any, grower: Grower, scale: float = 1.0) -> Tree:
        """Make the tree; see `LeafModel.fit`."""
        values = newton_values(grown.sums, self.params, grown)
        return Tree(grown.nodes, values * scale, grown.categories)

    def replay(
        self, tree: Tree, leaf: NDArray[np.int32], statistics: Statistics, scale: float
    ) -> Tree:
        """Fit the leaves to other rows; see `LeafModel.replay`."""
        values = newton_values(leaf_sums(tree, leaf, statistics), self.params, None) * scale
        return replace(tree, values=kept_elsewhere(tree, leaf, values))


class MeanLeaves(LeafModel):
    """Means of one target."""

    def fit(self, grown: Grown, statistics: Any, grower: Grower) -> Tree:
        """Make the tree; see `LeafModel.fit`."""
        values = grown.sums[:, 0] / grown.sums[:, 1] + statistics.center
        return Tree(grown.nodes, values, grown.categories)


def newton_values(sums: NDArray, params: GrowerParams, bounds: Grown | None) -> NDArray[np.float64]:
    """Leaf values that minimise the penalised quadratic loss, within the bounds of the nodes."""
    grad, hess = sums[:, 0], sums[:, 1] + params.reg_lambda
    shrunk = grad
    if params.reg_alpha > 0:
        shrunk = np.sign(grad) * np.maximum(np.abs(grad) - params.reg_alpha, 0.0)
    values = np.divide(-shrunk, hess, out=np.zeros(len(grad)), where=hess > 0)
    if params.max_delta_step > 0:
        values = np.clip(values, -params.max_delta_step, params.max_delta_step)
    if params.monotonic is not None and bounds is not None:
        values = np.clip(values, bounds.lower, bounds.upper)
    return values


def leaf_sums(tree: Tree, leaf: NDArray[np.int32], statistics: Statistics) -> NDArray[np.float64]:
    """Return the sums of gradients and hessians of the rows of each leaf, (n_nodes, 2)."""
    grad, hess = statistics.gradients()
    constant = isinstance(hess, int | float)
    sums = np.empty((tree.n_nodes, 2))
    sums[:, 0] = group_sums(leaf, tree.n_nodes, grad)
    sums[:, 1] = group_sums(leaf, tree.n_nodes, None if constant else np.asarray(hess))
    if constant:
        sums[:, 1] *= hess
    return sums


def kept_elsewhere(
    tree: Tree, leaf: NDArray[np.int32], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return new values where there are rows, else those of the tree."""
    return np.where(group_sums(leaf, tree.n_nodes) > 0, values, tree.values[:, 0])


_tails_in_use: set[int] = set()
_tails_lock = threading.Lock()


@contextmanager
def records_tail(binned: BinnedMatrix) -> Iterator[bool]:
    """Reserve the spare bytes of the records; False if another grower uses them."""
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
    """Whether to search histograms: for Newton gains, and squared error without extra options.

    Otherwise sorted lists are searched, of bins if the table has bins. Trees of drawn thresholds
    are tasks of `HistogramSearch` as a whole.
    """
    if params.random_thresholds:
        return True
    if table.binned is None or params.criterion == "newton":
        return table.binned is not None
    plain = params.monotonic is None and params.missing == "learn"
    return params.criterion == "squares" and n_sums == 1 and plain


class Grower:
    """Grows trees on one table, one after the other; to be used as a context manager.

    The search uses histograms or sorted lists, unless `search` opens another one from (table,
    params, n_threads, statistics, use_tail). With `in_place` it works on the sorted lists of the
    table, which can then be used for one tree, or for many trees of a single split, which do not
    change them. Otherwise every tree works on a copy.
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
        self._open_search = search
        self._in_place = in_place
        self._stack = ExitStack()
        self.__exit__()  # no search is open yet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened_for: tuple | None = None
        self.engine: Any = None
        self.search: Any = None
        self.by_histogram = False
        self._stack.close()

    def grow(
        self, statistics: Any, rows: NDArray[np.uint32] | None = None, seed: int = 0, **leaves: Any
    ) -> Grown:
        """Grow one tree on rows (ascending ids) or on all.

        `seed` is that of the draws of features and among equal splits, `leaves` are further
        arguments of the leaf model.
        """
        if isinstance(self.table, ProposedTable):
            self.table.propose(statistics)
        self._open(statistics)
        self.search.begin(statistics, rows, seed)
        grown = self.engine.grow()
        self.table.write_splits(grown, self.params.random_thresholds)
        grown.tree = self.leaf_model.fit(grown, statistics, self, **leaves)
        return grown

    def _open(self, statistics: Any) -> None:
        """Open a search, unless that of the last tree can be reused."""
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
        except BaseException:  # release the spare bytes of the table
            self.__exit__()
            raise
        # Lists that a tree has changed cannot be used again; a single split does not change them.
        used_up = self._in_place and not self.by_histogram and params.max_depth != 1
        if used_up:
            self.table.drop_lists()
        self._opened_for = None if used_up else key

    def _in_units(self, statistics: Any) -> GrowerParams:
        """Parameters with limits on gains and weights in the units of the statistics."""
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
        return isinstance(binned, BinnedMatrix) and self._stack.enter_context(records_tail(binned))

    def _open_given(self, params: GrowerParams, statistics: Any) -> None:
        assert self._open_search is not None
        given = (self.table, params, self.n_threads, statistics, self._take_tail())
        self.search = self._open_search(*given)
        self.by_histogram = isinstance(self.search, HistogramSearch)
        self.engine = TreeGrower(self.search, params.max_leaves, (), 0, params.preorder)

    def _open_histograms(self, params: GrowerParams, statistics: Statistics) -> None:
        table, newton = self.table, params
        if params.criterion == "squares":
            # Squared error is the Newton gain of gradients -y and hessians 1 without penalty.
            newton = replace(
                params, criterion="newton", reg_lambda=0.0, reg_alpha=0.0, max_delta_step=0.0
            )
        assert table.binned is not None
        if isinstance(table.binned, BlockedBins):
            given = (table.binned, newton, False, self.n_threads, records_from_columns)
            self.search = BlockSearch(*given)
        else:
            self.search = HistogramSearch(table.binned, newton, self._take_tail(), self.n_threads)
        self.by_histogram = not params.random_thresholds
        tasks, n_rows = [], 0
        if params.random_thresholds:
            n_rows = table.n_rows
            shape = (table.n_features, n_rows, table.n_categories, params, *statistics.shape)
            small = DrawnSearch(*shape, table.bin_values())
            tasks = [TreeGrower(small, params.max_leaves)]
        elif params.subtree_rows and not isinstance(table.binned, BlockedBins):
            few = 0 < 4 * params.max_features < table.n_features
            n_rows = SUBTREE_ROWS_FEW_FEATURES if few else SUBTREE_ROWS_BINNED
            shape = (table.n_features, n_rows, table.n_categories, params, *statistics.shape)
            tasks = [TreeGrower(SmallNodeSearch(*shape), 0) for _ in range(self.n_threads)]
        self.engine = TreeGrower(
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
        self.engine = TreeGrower(
            self.search, params.max_leaves, tasks, n_rows, params.preorder, params.prune_gain
        )

    # -- the last tree --------------------------------------------------------------------------

    def segments(self) -> tuple[NDArray[np.uint32], NDArray[np.intp], NDArray[np.intp]]:
        """Row ids ordered by node, and start and stop of the rows of each node."""
        return self.engine.segments()

    def row_nodes(self) -> NDArray[np.int32]:
        """Node where each row ended, -1 for rows outside the sample."""
        return self.engine.row_nodes()

    def add_to(
        self, tree: Tree, raw: NDArray[np.float64], values: NDArray[np.float64] | None = None
    ) -> None:
        """Add the last tree to `raw`, one number per row of the table.

        If `tree` has been pruned, `values` has the value of each grown node.
        """
        self.leaf_model.add_to(self, tree, raw, values)

    def add_values(self, values: NDArray[np.float64], raw: NDArray[np.float64]) -> bool:
        """Add a number per grown node to `raw`; False if the search cannot find all leaves."""
        # Searches by histogram keep the rows of a node in ascending order.
        return self.engine.add_to(np.ascontiguousarray(values), raw, self.by_histogram)
