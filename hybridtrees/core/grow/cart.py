"""One tree on the targets themselves: classification and regression trees.

The search works on whatever sums its criterion needs: centred targets, an indicator of the second
of two classes, class codes. Values and impurities of the nodes are made here, from exact sums.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base.exact_sum import exact_mean
from hybridtrees.core.bins.mapper import BinMapper
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow._leaf_passes import pair_gains
from hybridtrees.core.grow.exact import (
    LENT_BINNED,
    LENT_BINNED_FEW,
    LENT_ROWS,
    open_search,
    read_splits,
    small_growers,
)
from hybridtrees.core.grow.grower import (
    CLASS,
    CLASS_WEIGHTED,
    PAIR,
    UNIT,
    VECTOR,
    GrowerParams,
    RowTarget,
    records_tail,
)
from hybridtrees.core.grow.node_values import (
    class_values,
    mean_values,
    median_values,
    poisson_values,
    square_values,
)
from hybridtrees.core.grow.sorted_table import LEAST_RANGE, BinThresholds, SortedTable
from hybridtrees.core.search._histogram_search import HistogramSearch
from hybridtrees.core.tree.tree import Tree

ENGINE_CRITERIA = {
    "squared_error": "squares",
    "friedman_mse": "squares",
    "absolute_error": "absolute",
    "poisson": "poisson",
    "gini": "squares",
    "entropy": "entropy",
    "log_loss": "entropy",
    "misclassification": "misclassified",
}


@dataclass
class GrownTree:
    """A tree, and what is known of it from its training rows.

    Attributes
    ----------
    tree : Tree
        Values are means or medians, one per output, or the probabilities of the classes. The
        gain of a node is its decrease in impurity times its weight.
    impurity : float64 array, one per node
    leaf : int32 array, one per row
        Node where the row ended, -1 for a row of weight 0.
    """

    tree: Tree
    impurity: NDArray[np.float64]
    leaf: NDArray[np.int32]


@dataclass
class TargetSums:
    """What the engine adds up for a criterion, and how values and impurities follow from it."""

    target: RowTarget
    criterion: str
    n_classes: int
    gain_unit: float
    weight_unit: float = 1.0
    rows: NDArray[np.uint32] | None = None
    y: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None
    center: NDArray[np.float64] | None = None
    scale: float = 1.0

    @classmethod
    def of(
        cls,
        target: NDArray,
        weight: NDArray | None,
        criterion: str,
        n_classes: int = 0,
    ) -> TargetSums:
        """Read targets.

        Parameters
        ----------
        target : float64 array of shape (n_rows, n_outputs), or int32 class codes (n_rows,)
        weight : float64 array of shape (n_rows,), optional
            Rows of weight 0 take no part.
        criterion : str
            One of `ENGINE_CRITERIA`.
        n_classes : int
            Classes, 0 for regression.

        Returns
        -------
        sums : TargetSums
        """
        rows = None
        if weight is not None and not np.all(weight > 0):
            rows = np.flatnonzero(weight > 0).astype(np.uint32)
        n_rows = len(target)
        unit_of_weight = 1.0
        if weight is not None:
            # Weights near 1 keep 32-bit hessians in range; a power of two changes no digit.
            unit_of_weight = float(2.0 ** np.frexp(weight.max())[1])
            weight = weight / unit_of_weight
        if n_classes > 2:
            columns = [target.astype(np.float64)]
            layout = CLASS
            if weight is not None:
                columns.append(weight)
                layout = CLASS_WEIGHTED
            data = np.ascontiguousarray(np.stack(columns, axis=1))
            row_target = RowTarget(data, layout, n_classes)
            unit = unit_of_weight
            return cls(row_target, criterion, n_classes, unit, unit_of_weight, rows)
        center, scale = None, 1.0
        if n_classes:
            y = (target == 1).astype(np.float64).reshape(n_rows, 1)
            # The Gini index of two classes is twice the variance of the indicator of one.
            unit = 2.0 if criterion == "gini" else 1.0
        else:
            y, center, scale = _centred(target, weight, rows, criterion != "poisson")
            # Impurities are means over the outputs; that of squares has their scale squared.
            power = 2 if ENGINE_CRITERIA[criterion] == "squares" else 1
            # Beyond the range of floats it is 0 or infinite, and the tree is the same.
            with np.errstate(over="ignore", under="ignore"):
                unit = float(np.float64(scale) ** power / y.shape[1])
        n_sums = y.shape[1]
        if weight is not None or n_sums > 1:
            w = np.ones(n_rows) if weight is None else weight
            y = np.column_stack([y * w[:, None], w])
        layout = UNIT if y.shape[1] == 1 else PAIR if n_sums == 1 else VECTOR
        row_target = RowTarget(np.ascontiguousarray(y), layout, n_sums, bool(n_classes))
        raw = None if n_classes else np.asarray(target, dtype=np.float64).reshape(n_rows, -1)
        unit = float(_times(np.array(unit), unit_of_weight))
        return cls(
            row_target, criterion, n_classes, unit, unit_of_weight, rows, raw, weight, center, scale
        )

    @property
    def statistics(self) -> tuple[NDArray, NDArray | float]:
        """Gradients and hessians whose Newton gain is the squared error of the targets."""
        data = self.target.data
        grad = np.negative(data[:, 0]).astype(np.float32)
        return grad, 1.0 if data.shape[1] == 1 else data[:, 1].astype(np.float32)

    def describe(
        self,
        nodes: NDArray,
        sums: NDArray,
        bounds: tuple[NDArray, NDArray],
        leaf: NDArray,
        segments: Callable[[], tuple[NDArray, NDArray, NDArray]],
        impurities: bool = True,
    ) -> tuple[NDArray, NDArray]:
        """Values and impurities of the nodes; without `impurities` those may be left at 0."""
        if self.n_classes:
            return class_values(sums, bounds, self.n_classes, self.criterion)
        assert self.y is not None and self.center is not None
        w = self.weight
        means = sums[:, :-1] / sums[:, -1:] * self.scale + self.center
        if self.criterion == "absolute_error":
            value, impurity = median_values(self.y, w, segments())
            impurity /= self.scale
        elif self.criterion == "poisson":
            value, impurity = poisson_values(nodes, sums, self._scaled, w, leaf)
            value = mean_values(nodes, self.y, w, segments(), means)
        else:
            value = mean_values(nodes, self.y, w, segments(), means)
            impurity = np.zeros(len(nodes))
            if impurities:
                impurity = square_values(nodes, sums, self._scaled, w, leaf)[1]
                impurity = _times(impurity, self.scale)
        impurity = _times(impurity, self.scale)
        if np.isinf(bounds[0]).all() and np.isinf(bounds[1]).all():
            return value, impurity
        lower, upper = (bound[:, None] * self.scale + self.center for bound in bounds)
        return np.clip(value, lower, upper), impurity

    @property
    def _scaled(self) -> NDArray[np.float64]:
        return (self.y - self.center) / self.scale


def _centred(
    target: NDArray, weight: NDArray | None, rows: NDArray | None, center: bool
) -> tuple[NDArray, NDArray, float]:
    """Targets less their mean, over a power of two: `target = y * scale + center`.

    Sums of centred targets keep the digits that a common offset would take, and the scale keeps
    squares and 32-bit gradients in range.
    """
    y = np.array(target, dtype=np.float64).reshape(len(target), -1)
    part = y if rows is None else y[rows]
    scale = 2.0 ** np.frexp(np.abs(part).max() or 1.0)[1]
    y /= scale
    mean = np.zeros(y.shape[1])
    if center:
        mean = exact_mean(y, weight)
        y -= mean
    return y, mean * scale, float(scale)


class CartTable:
    """A table made ready for many trees: sorted, or binned.

    Parameters
    ----------
    values : float32 or float64 array of shape (n_rows, n_features), or a sparse matrix
        NaN is missing, categories are codes.
    is_categorical : array of shape (n_features,)
    splitter : {"exact", "hist"}
    max_bins : int
        Bins of a feature under "hist".
    weight : float64 array of shape (n_rows,), optional
        Weights of the rows in the quantiles of the bins.
    n_threads : int
    """

    def __init__(
        self,
        values: Any,
        is_categorical: NDArray,
        splitter: str,
        max_bins: int = 255,
        weight: NDArray[np.float64] | None = None,
        n_threads: int = 1,
    ):
        self.n_rows, self.n_features = values.shape
        self.is_categorical = np.asarray(is_categorical, dtype=bool)
        self.values = values
        self.binned = None
        self.thresholds = None
        self.category_to_bin = None
        if splitter == "hist":
            mapper = BinMapper(
                max_bins=max_bins, categorical_features=self.is_categorical, n_jobs=n_threads
            )
            self.binned = mapper.fit_transform(values, weight)
            self.thresholds = BinThresholds(self.binned, values, n_threads, weight)
            self.category_to_bin = mapper.category_to_bin_

    def sorted_lists(self, n_extra: int, n_threads: int) -> SortedTable:
        """Sorted lists of the values, or of the bins."""
        if self.binned is not None:
            return SortedTable.from_binned(self.binned, n_extra, n_threads, self.thresholds)
        return SortedTable.from_values(
            self.values, self.is_categorical, n_extra, n_threads, LEAST_RANGE
        )


class CartGrower:
    """Grows trees on one table, one after the other; to be used as a context manager.

    Parameters
    ----------
    table : CartTable
    params : GrowerParams
        `min_gain` is a decrease in impurity times weight, -inf to take any split.
    criterion : str
        One of `ENGINE_CRITERIA`.
    n_threads : int
    lists : SortedTable, optional
        Sorted lists that several growers share; each works on a copy. Without them the grower
        makes its own, and uses them up unless `keep_lists`.
    keep_lists : bool
        Whether more than one tree will be grown.
    """

    def __init__(
        self,
        table: CartTable,
        params: GrowerParams,
        criterion: str,
        n_threads: int = 1,
        lists: SortedTable | None = None,
        keep_lists: bool = True,
    ):
        self.table = table
        self.criterion = criterion
        self.n_threads = n_threads
        self.params = replace(
            params,
            criterion=ENGINE_CRITERIA[criterion],
            # The order of splits decides nothing without a limit on the leaves.
            lent_rows=0 if params.max_leaves else LENT_ROWS,
            preorder=True,
        )
        self._lists = lists
        self._keep_lists = keep_lists or lists is not None
        self._opened: tuple | None = None
        self._stack = ExitStack()

    def __enter__(self) -> CartGrower:
        return self

    def __exit__(self, *error) -> None:
        self._opened = None
        self._stack.close()

    def grow(self, sums: TargetSums, seed: int = 0, describe: bool = True) -> GrownTree:
        """Grow one tree.

        Parameters
        ----------
        sums : TargetSums
        seed : int
            Of the draws of features and between equal splits.
        describe : bool
            Whether impurities are wanted.

        Returns
        -------
        grown : GrownTree
        """
        search, grower, lists = self._open(sums)
        if isinstance(search, HistogramSearch):
            search.begin(*sums.statistics, sums.rows, seed, sums.target)
        else:
            search.begin(sums.target, sums.rows, seed)
        grown = grower.grow()
        sets = read_splits(lists, grown, self.table.category_to_bin)
        nodes, node_sums, splits, _ = grown
        if isinstance(search, HistogramSearch):
            # Those of rounded histogram sums give way to those of the exact sums.
            pair_gains(nodes, node_sums)
        if sums.gain_unit != 1.0:
            nodes["gain"] = _times(nodes["gain"], sums.gain_unit)
        if sums.weight_unit != 1.0:
            nodes["weight"] *= sums.weight_unit
        leaf = grower.row_nodes()
        bounds = splits["lower"], splits["upper"]
        value, impurity = sums.describe(nodes, node_sums, bounds, leaf, grower.segments, describe)
        return GrownTree(Tree(nodes, value, sets, impurity=impurity), impurity, leaf)

    def _open(self, sums: TargetSums) -> tuple:
        """Return search, grower and lists; those of the last tree where they fit this one."""
        n_sums, width = sums.target.n_sums, sums.target.data.shape[1]
        gain_unit = sums.gain_unit if np.isfinite(self.params.min_gain) else None
        # The engine's weights and gains are those of users in another unit.
        least_weight = self.params.min_child_weight / sums.weight_unit
        key = (n_sums, width, gain_unit, least_weight)
        if self._opened is not None and self._opened[0] == key:
            return self._opened[1]
        params = replace(self.params, min_child_weight=least_weight)
        if np.isfinite(params.min_gain):
            with np.errstate(divide="ignore", over="ignore"):
                least = np.float64(params.min_gain) / sums.gain_unit if params.min_gain else 0.0
            params = replace(params, min_gain=float(least))
        if self._by_histogram(n_sums):
            opened = self._open_histograms(params, width)
        else:
            n_extra = n_sums if params.criterion == "absolute" else 0
            lists = self._lists
            if lists is None:
                lists = self.table.sorted_lists(n_extra, self.n_threads)
            if self._keep_lists:
                self._lists = lists
            pair = open_search(lists, params, self.n_threads, n_sums, width, self._keep_lists)
            opened = (*pair, lists)
        if self._keep_lists or self.table.binned is not None:
            self._opened = key, opened
        return opened

    def _by_histogram(self, n_sums: int) -> bool:
        """Whether the histogram search can do it; the lists of a binned table do the rest."""
        params = self.params
        return (
            self.table.binned is not None
            and params.criterion == "squares"
            and n_sums == 1
            and params.monotonic is None
            and params.missing == "learn"
        )

    def _open_histograms(self, params: GrowerParams, width: int) -> tuple:
        binned = self.table.binned
        assert binned is not None
        # Squared error is the Newton gain of gradients -y under unit curvature, no penalty.
        newton = replace(
            params, criterion="newton", reg_lambda=0.0, reg_alpha=0.0, max_delta_step=0.0
        )
        n_categories = np.where(binned.is_categorical, binned.n_bins, 0).astype(np.int32)
        self._stack.close()
        use_tail = self._stack.enter_context(records_tail(binned))
        search = HistogramSearch(binned, newton, use_tail, self.n_threads)
        if params.lent_rows:
            few = 0 < 4 * params.max_features < binned.n_features
            params = replace(params, lent_rows=LENT_BINNED_FEW if few else LENT_BINNED)
        helpers = small_growers(n_categories, params, self.n_threads, 1, width, binned=True)
        grower = TreeGrower(search, params.max_leaves, helpers, params.lent_rows, True)
        lists = SortedTable(np.empty((0, 1)), n_categories, None, binned, self.table.thresholds)
        return search, grower, lists


def _times(values: NDArray, factor: float) -> NDArray:
    """Multiply; nothing stays nothing even where the factor is beyond the range of floats."""
    with np.errstate(over="ignore", under="ignore"):
        return np.multiply(values, factor, out=np.zeros_like(values), where=values != 0)


def grow_cart(
    values: Any,
    target: NDArray,
    weight: NDArray[np.float64] | None,
    *,
    criterion: str,
    n_classes: int = 0,
    params: GrowerParams,
    is_categorical: NDArray,
    splitter: str = "exact",
    max_bins: int = 255,
    n_threads: int = 1,
    seed: int = 0,
) -> GrownTree:
    """Grow one tree.

    Parameters
    ----------
    values, is_categorical, splitter, max_bins
        See `CartTable`.
    target, weight, criterion, n_classes
        See `TargetSums.of`.
    params, n_threads
        See `CartGrower`.
    seed : int
        Of the draws of features and between equal splits.

    Returns
    -------
    grown : GrownTree
    """
    sums = TargetSums.of(target, weight, criterion, n_classes)
    table = CartTable(values, is_categorical, splitter, max_bins, weight, n_threads)
    with CartGrower(table, params, criterion, n_threads, keep_lists=False) as grower:
        return grower.grow(sums, seed)
