"""Growing trees: the parameters, and the grower that turns statistics into a `Tree`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hybridtrees.core._grow import TreeGrower
from hybridtrees.core.bins import BinnedMatrix
from hybridtrees.core.tree import Tree


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


_tails_in_use: set[int] = set()
_tails_lock = threading.Lock()


@contextmanager
def _records_tail(binned: BinnedMatrix) -> Iterator[bool]:
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
        # Thresholds of all features in one array; behind a feature's last edge stands infinity,
        # the threshold of a split that parts all values from the missing ones.
        parts, starts = [], [0]
        for edges in binned.bin_edges:
            parts.append(np.append(() if edges is None else edges, np.inf))
            starts.append(starts[-1] + len(parts[-1]))
        self._thresholds = np.concatenate(parts)
        self._threshold_start = np.array(starts[:-1])

    def __enter__(self) -> Grower:
        self._tail = _records_tail(self.binned)
        use_tail = self._tail.__enter__()
        self._grower = TreeGrower(self.binned, self.params, use_tail, self.n_threads)
        return self

    def __exit__(self, *error) -> None:
        del self._grower
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
        nodes, values, category_bins = self._grower.grow(grad, hess, rows, seed)
        split = np.flatnonzero(nodes["left"] >= 0)
        start = self._threshold_start[nodes["feature"][split]]
        numeric = np.ones(len(split), dtype=bool)
        numeric[np.searchsorted(split, list(category_bins))] = False
        position = start[numeric] + nodes["bin"][split[numeric]]
        nodes["threshold"][split[numeric]] = self._thresholds[position]
        categories = self._category_sets(nodes, category_bins)
        return Tree(nodes, values * scale, categories)

    def _category_sets(self, nodes: np.ndarray, category_bins: dict) -> np.ndarray:
        """Turn sets of bins into sets of categories; several categories may share a bin."""
        words: list[np.ndarray] = []
        position = 0
        for node, bins in category_bins.items():
            in_bin = np.unpackbits(bins.view(np.uint8), bitorder="little")
            feature = int(nodes["feature"][node])
            # Categories that fit has not met go where missing values go.
            missing_left = nodes["missing_left"][node]
            in_bin[self.binned.n_bins[feature] :] = missing_left
            to_bin = self._category_to_bin and self._category_to_bin[feature]
            bits = in_bin if to_bin is None else in_bin[to_bin]
            bits = np.append(bits, np.full(-len(bits) % 32, missing_left, dtype=np.uint8))
            packed = np.packbits(bits, bitorder="little").view(np.uint32)
            nodes["category_start"][node] = position
            nodes["category_words"][node] = len(packed)
            position += len(packed)
            words.append(packed)
        return np.concatenate(words) if words else np.zeros(0, dtype=np.uint32)

    def update_raw(self, tree: Tree, raw: np.ndarray) -> None:
        """Add the tree that was grown last to `raw`, one number per row of the table."""
        self._grower.update_raw(np.ascontiguousarray(tree.values[:, 0]), raw)
