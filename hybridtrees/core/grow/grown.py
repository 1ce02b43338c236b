"""The output of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hybridtrees.core.tree.tree import Tree


@dataclass
class Grown:
    """A grown tree; all arrays but `leaf` are by node."""

    nodes: NDArray  # NODE_DTYPE; the table writes thresholds and category sets
    sums: NDArray[np.float64]  # exact, (n_nodes, n_sums + 1); the last one is the weight
    low_row: NDArray[np.uint32]  # rows with the values next to the cut, below
    high_row: NDArray[np.uint32]  # and above it
    key: NDArray[np.uint32]  # last key that goes left
    lower: NDArray[np.float64]  # bounds of the values, from monotone constraints
    upper: NDArray[np.float64]
    category_bits: dict[int, NDArray[np.uint32]]  # sets that go left, by node
    categories: NDArray[np.uint32] = field(init=False)  # the same in the format of `Tree`
    leaf: NDArray[np.int32] = field(init=False)  # of each row, -1: none; set by `TargetLeaves`
    tree: Tree = field(init=False)
