"""Training rows in the leaves of a forest: quantiles and proximities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse

from hybridtrees.core.tree._walk import count_met, group_rows, leaf_quantiles, write_met
from hybridtrees.core.tree.packed import PackedTrees
from hybridtrees.core.tree.pruning import branch_sizes

# Rows that are processed at a time.
BLOCK = 8192

# Memory of the sample counts that are held at a time, in bytes.
_COUNT_BYTES = 2**26

# A cache of what follows from the samples of a forest. It is not part of the state of the forest,
# and holds only small entries.
_cache: WeakKeyDictionary[PackedTrees, dict[str, Any]] = WeakKeyDictionary()
_MAX_CACHED_BYTES = 2**26

Found = TypeVar("Found")


def cached(
    trees: PackedTrees, name: str, make: Callable[[], Found], size: Callable[[Found], int]
) -> Found:
    """Return what `make` returns, from the cache if possible; `size` gives its bytes."""
    kept = _cache.setdefault(trees, {})
    if name in kept:
        found: Found = kept[name]
        return found
    found = make()
    if size(found) <= _MAX_CACHED_BYTES:
        kept[name] = found
    return found


@dataclass
class LeafGroups:
    """Rows leaf by leaf, for every tree."""

    rows: np.ndarray  # ordered by tree, then by node
    starts: list[np.ndarray]  # of each tree: start of every node's rows, and end of the last

    @property
    def nbytes(self) -> int:
        """Memory of the arrays in bytes."""
        return self.rows.nbytes + sum(start.nbytes for start in self.starts)

    @classmethod
    def of_leaves(
        cls, leaves: np.ndarray, n_nodes: np.ndarray, takes_part: np.ndarray | None
    ) -> LeafGroups:
        """Group rows by their leaves, (n_rows, n_trees); a mask leaves rows out of trees."""
        parts, starts, base = [], [], 0
        for tree in range(leaves.shape[1]):
            leaf = np.ascontiguousarray(leaves[:, tree])
            if takes_part is not None:
                leaf = np.where(takes_part[:, tree], leaf, -1).astype(np.int32)
            rows = np.empty(np.count_nonzero(leaf >= 0), dtype=np.uint32)
            start = np.empty(n_nodes[tree] + 1, dtype=np.int64)
            group_rows(leaf, start, rows)
            parts.append(rows)
            starts.append(start + base)
            base += len(rows)
        return cls(np.concatenate(parts), starts)

    @classmethod
    def of_training(cls, trees: PackedTrees, leaf_rows: np.ndarray) -> LeafGroups:
        """Group the training rows that a forest has kept."""
        starts, base = [], 0
        for tree in range(len(trees)):
            start = np.concatenate([[0], np.cumsum(trees.rows_ended(tree))]) + base
            starts.append(start)
            base = int(start[-1])
        return cls(leaf_rows, starts)

    def segments(
        self, leaves: np.ndarray, sizes: list[np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return starts and ends of the groups that share these leaves.

        If rows may end at inner nodes, `sizes` gives the number of nodes of every branch.
        """
        first = np.empty(leaves.shape, dtype=np.int64)
        last = np.empty(leaves.shape, dtype=np.int64)
        for tree, start in enumerate(self.starts):
            leaf = leaves[:, tree]
            first[:, tree] = start[leaf]
            last[:, tree] = start[leaf + (1 if sizes is None else sizes[tree][leaf])]
        return first, last


def sizes_of_branches(trees: PackedTrees) -> list[np.ndarray] | None:
    """Return the number of nodes of every branch of every tree, None if rows end in leaves."""
    return [branch_sizes(tree) for tree in trees] if trees.by_node else None


def blocks(n_rows: int) -> Iterator[slice]:
    """Yield consecutive blocks of rows."""
    for start in range(0, n_rows, BLOCK):
        yield slice(start, min(start + BLOCK, n_rows))


def bits_of(mask: np.ndarray) -> np.ndarray:
    """Pack rows of booleans into 64-bit words."""
    packed = np.packbits(mask, axis=1, bitorder="little")
    padding = -packed.shape[1] % 8
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, padding)))).view(np.uint64)


class Proximities:
    """Proximities of rows: the share of trees in which two rows are in the same leaf."""

    def __init__(
        self,
        leaves: np.ndarray,  # of the reference rows, (n_others, n_trees)
        n_nodes: np.ndarray,  # of every tree
        out_of_bag: np.ndarray | None = None,  # mask of the trees that count for each row
        n_threads: int = 1,
    ):
        self.n_others, self.n_trees = leaves.shape
        self.n_threads = n_threads
        self._groups = LeafGroups.of_leaves(leaves, n_nodes, out_of_bag)
        self._bits = None if out_of_bag is None else bits_of(out_of_bag)

    def of(
        self, leaves: np.ndarray, out_of_bag: np.ndarray | None = None
    ) -> scipy.sparse.csr_array:
        """Return proximities of rows with these leaves to the reference rows, (n, n_others)."""
        first, last = self._groups.segments(leaves)
        if out_of_bag is not None:
            last = np.where(out_of_bag, last, first)
        n = len(leaves)
        n_met = np.empty(n, dtype=np.int64)
        rows = self._groups.rows
        count_met(first, last, rows, self.n_others, n_met, self.n_threads)
        pointers = np.concatenate([[0], np.cumsum(n_met)])
        indices = np.empty(pointers[-1], dtype=np.int32)
        data = np.empty(pointers[-1])
        own, bits = (np.empty((size, 0), dtype=np.uint64) for size in (n, self.n_others))
        if self._bits is not None:
            counted = np.ones(leaves.shape, dtype=bool) if out_of_bag is None else out_of_bag
            own, bits = bits_of(counted), self._bits
        write_met(
            first, last, rows, self.n_others, own, bits, pointers, indices, data, self.n_threads
        )
        return scipy.sparse.csr_array((data, indices, pointers), shape=(n, self.n_others))

    def rows(
        self, leaves: np.ndarray, out_of_bag: np.ndarray | None = None
    ) -> Iterator[tuple[slice, scipy.sparse.csr_array]]:
        """Yield proximities block by block."""
        for block in blocks(len(leaves)):
            counted = None if out_of_bag is None else out_of_bag[block]
            yield block, self.of(leaves[block], counted)


def quantiles(
    groups: LeafGroups,
    weight: np.ndarray,
    target: np.ndarray,
    leaves: np.ndarray,
    sizes: list[np.ndarray] | None,
    levels: np.ndarray,
    n_threads: int,
) -> np.ndarray:
    """Return quantiles of one target under the weights of the leaves, (n, n_levels).

    A quantile is the smallest target at which the cumulative weight reaches the level.
    """
    order = np.argsort(target, kind="stable")
    rank = np.empty(len(target), dtype=np.uint32)
    rank[order] = np.arange(len(target), dtype=np.uint32)
    ranks = rank[groups.rows]
    by_level = np.argsort(levels, kind="stable")
    found = np.full((len(leaves), len(levels)), np.nan)
    # Indexing by an array makes contiguous copies, as the kernel needs them.
    data = ranks, weight, target[order], levels[by_level]
    for block in blocks(len(leaves)):
        first, last = groups.segments(leaves[block], sizes)
        leaf_quantiles(first, last, *data, found[block], n_threads)
    answer = np.empty_like(found)
    answer[:, by_level] = found
    return answer


def sample_products(counts_of: Any, n_trees: int, n_rows: int) -> tuple[np.ndarray, float]:
    """Return inner products of the centred sample counts of trees, and their total variance."""
    total = np.zeros(n_rows)
    for tree in range(n_trees):
        total += counts_of(tree)
    mean = total / n_trees
    size = max(1, min(n_trees, _COUNT_BYTES // max(1, 8 * n_rows)))
    products = np.empty((n_trees, n_trees))
    for a in range(0, n_trees, size):
        left = np.stack([counts_of(t) - mean for t in range(a, min(a + size, n_trees))])
        for b in range(a, n_trees, size):
            right = left
            if b > a:
                right = np.stack([counts_of(t) - mean for t in range(b, min(b + size, n_trees))])
            part = left @ right.T
            products[a : a + len(left), b : b + len(right)] = part
            products[b : b + len(right), a : a + len(left)] = part.T
    return products, float(np.trace(products)) / n_trees
