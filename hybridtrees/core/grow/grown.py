"""What the engine has grown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hybridtrees.core.tree.tree import Tree


@dataclass
class Grown:
    """A grown tree, node by node."""

    nodes: NDArray  # NODE_DTYPE; the table writes thresholds and category sets
    sums: NDArray[np.float64]  # exact, (n_nodes, n_sums + 1); the weight stands last
    low_row: NDArray[np.uint32]  # rows whose values stand on both sides of the cut
    high_row: NDArray[np.uint32]
    key: NDArray[np.uint32]  # the last one that goes left
    lower: NDArray[np.float64]  # bounds of the values, from monotone constraints
    upper: NDArray[np.float64]
    category_bits: dict[int, NDArray[np.uint32]]  # sets that go left, by node
    categories: NDArray[np.uint32] = field(init=False)  # the same as `Tree` keeps them
    leaf: NDArray[np.int32] = field(init=False)  # of each row, -1: took no part; for some leaves
    tree: Tree = field(init=False)

    @property
    def impurity(self) -> NDArray[np.float64]:
        """Impurity of every node, where the leaves tell it."""
        assert self.tree.impurity is not None
        return self.tree.impurity
