"""Growing trees: the parameters, and the grower that turns statistics into a `Tree`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hybridtrees.core.base._types import TargetLayout
from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow._grow import TreeGrower
from hybridtrees.core.grow.sorted_table import BinThresholds
from hybridtrees.core.search._histogram_search import HistogramSearch
from hybridtrees.core.tree.tree import Tree, pack_categories


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
    lent_rows : int
        Nodes of at most so many rows are grown apart from the rest, in parallel; 0 for none.
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
    lent_rows: int = 0
    preorder: bool = False


@dataclass(frozen=True)
class RowTarget:
    """Targets of the exact search.

    Attributes
    ----------
    data : float64 array of shape (n_rows, width), C order
        What a row holds; see `TargetLayout` in _types.pxd.
    layout : int
    n_sums : int
        Outputs or classes.
    binary : bool
        Whether the one output is 0 or 1, one of two classes.
    """

    data: np.ndarray
    layout: int
    n_sums: int
    binary: bool = False


UNIT, PAIR, VECTOR, CLASS, CLASS_WEIGHTED = TargetLayout


def newton_values(
    sums: np.ndarray, params: GrowerParams, splits: dict[str, np.ndarray]
) -> np.ndarray:
    """Leaf values that minimise the penalised quadratic loss, from sums of grad and hess.

    Monotone constraints bound them (`lower` and `upper` of `splits`).
    """
    grad, hess = sums[:, 0], sums[:, 1] + params.reg_lambda
    shrunk = grad
    if params.reg_alpha > 0:
        shrunk = np.sign(grad) * np.maximum(np.abs(grad) - params.reg_alpha, 0.0)
    values = np.divide(-shrunk, hess, out=np.zeros(len(grad)), where=hess > 0)
    if params.max_delta_step > 0:
        values = np.clip(values, -params.max_delta_step, params.max_delta_step)
    if params.monotonic is not None:
        values = np.clip(values, splits["lower"], splits["upper"])
    return values


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


def numeric_splits(nodes: np.ndarray, category_bits: dict) -> np.ndarray:
    """Return the nodes that are split at a threshold."""
    split = nodes["left"] >= 0
    split[list(category_bits)] = False
    return np.flatnonzero(split)


def category_sets(
    nodes: np.ndarray,
    category_bits: dict[int, np.ndarray],
    n_bins: np.ndarray,
    category_to_bin: Sequence[np.ndarray | None] | None,
) -> np.ndarray:
    """Turn sets of bins into sets of categories; several categories may share a bin.

    Writes `category_start`, `category_words` and `category_limit` of the nodes, and returns the
    words of all sets. Lists of categories, which have a limit already, are taken as they are.
    """
    words: list[np.ndarray] = []
    position = 0
    for node, bits in category_bits.items():
        packed = bits
        if nodes["category_limit"][node] == 0:
            feature = int(nodes["feature"][node])
            in_bin = np.unpackbits(bits.view(np.uint8), bitorder="little").view(bool)
            # Categories that fit has not met go where missing values go.
            missing_left = bool(nodes["missing_left"][node] == 1)
            in_bin[n_bins[feature] :] = missing_left
            to_bin = category_to_bin and category_to_bin[feature]
            in_set = in_bin[: n_bins[feature]] if to_bin is None else in_bin[to_bin]
            packed, nodes["category_limit"][node] = pack_categories(in_set, missing_left)
        nodes["category_start"][node] = position
        nodes["category_words"][node] = len(packed)
        position += len(packed)
        words.append(packed)
    return np.concatenate(words) if words else np.zeros(0, dtype=np.uint32)


class Grower:
    """Grows trees on one binned table; to be used as a context manager.

    Parameters
    ----------
    binned : BinnedMatrix
    params : GrowerParams
    n_threads : int
    category_to_bin : sequence, optional
        For each categorical feature the bin of every category (`BinMapper.category_to_bin_`);
        None where categories are bins.
    """

    def __init__(
        self,
        binned: BinnedMatrix,
        params: GrowerParams,
        n_threads: int,
        category_to_bin: Sequence[np.ndarray | None] | None = None,
    ):
        self.binned = binned
        self._category_to_bin = category_to_bin
        self.params = params
        self.n_threads = n_threads
        self._threshold = BinThresholds(binned)

    def __enter__(self) -> Grower:
        self._tail = records_tail(self.binned)
        use_tail = self._tail.__enter__()
        search = HistogramSearch(self.binned, self.params, use_tail, self.n_threads)
        self._search = search
        self._grower = TreeGrower(search, self.params.max_leaves)
        return self

    def __exit__(self, *error) -> None:
        del self._grower, self._search
        self._tail.__exit__(*error)

    def grow(
        self,
        grad: np.ndarray,
        hess: np.ndarray | float,
        *,
        rows: np.ndarray | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ) -> Tree:
        """Grow one tree.

        Parameters
        ----------
        grad : float32 array of shape (n_rows,)
        hess : float32 array of shape (n_rows,), or one number for all rows
        rows : uint32 array, optional
            Ascending ids of the rows to use.
        seed : int
            Seed of the feature draws.
        scale : float
            Factor on all values: the learning rate.

        Returns
        -------
        tree : Tree
        """
        self._search.begin(grad, hess, rows, seed)
        nodes, sums, splits, category_bins = self._grower.grow()
        values = newton_values(sums, self.params, splits)
        return self._make_tree(nodes, values * scale, category_bins)

    def _make_tree(self, nodes: np.ndarray, values: np.ndarray, category_bins: dict) -> Tree:
        """Turn bins into thresholds and sets of categories."""
        split = numeric_splits(nodes, category_bins)
        nodes["threshold"][split] = self._threshold(nodes["feature"][split], nodes["bin"][split])
        sets = category_sets(nodes, category_bins, self.binned.n_bins, self._category_to_bin)
        return Tree(nodes, values, sets)

    def segments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row ids of the tree grown last, and start and stop of each node's own among them."""
        return self._grower.segments()

    def update_raw(self, tree: Tree, raw: np.ndarray) -> None:
        """Add the tree that was grown last to `raw`, one number per row of the table."""
        self._grower.update_raw(np.ascontiguousarray(tree.values[:, 0]), raw, ascending=True)
