"""What the engine has grown."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree.tree import Tree


@dataclass
class Grown:
    """A grown tree, node by node.

    Attributes
    ----------
    nodes : ndarray of NODE_DTYPE
        Thresholds and category sets are written by the table, which knows the values.
    sums : float64 array of shape (n_nodes, n_sums + 1)
        Exact sums and the weight of each node's rows.
    low_row, high_row, key : uint32 arrays
        Rows whose values stand on both sides of the cut, and the last key that goes left.
    lower, upper : float64 arrays
        Bounds of the values, from monotone constraints.
    category_bits : dict
        From node ids to the uint32 words of the sets that go left.
    categories : ndarray of uint32
        Words of all category sets, as `Tree` keeps them.
    leaf : int32 array, one per row
        Node where the row ended, -1 for a row that took no part; only where leaves need it.
    tree : Tree
        The tree with its leaves.
    """

    nodes: NDArray
    sums: NDArray[np.float64]
    low_row: NDArray[np.uint32]
    high_row: NDArray[np.uint32]
    key: NDArray[np.uint32]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    category_bits: dict[int, NDArray[np.uint32]]
    categories: NDArray[np.uint32] = field(init=False)
    leaf: NDArray[np.int32] = field(init=False)
    tree: Tree = field(init=False)

    @property
    def impurity(self) -> NDArray[np.float64]:
        """Impurity of every node, where the leaves tell it."""
        assert self.tree.impurity is not None
        return self.tree.impurity
