"""Types of the compiled grower."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.search._search import SplitSearch

class TreeGrower:
    """Grows trees with a search; its buffers are reused from tree to tree."""

    def __init__(
        self, search: SplitSearch, max_leaves: int, helpers: Sequence[TreeGrower] = (),
        task_rows: int = 0, preorder: bool = False, prune_gain: float = 0.0
    ) -> None: ...
    @property
    def search(self) -> SplitSearch: ...
    @property
    def row_order(self) -> NDArray[np.uint32]: ...
    def grow(self) -> Grown: ...
    def row_nodes(self) -> NDArray[np.int32]: ...
    def segments(self) -> tuple[NDArray[np.uint32], NDArray[np.intp], NDArray[np.intp]]: ...
    def add_to(
        self, values: NDArray[np.float64], raw: NDArray[np.float64], ascending: bool = False
    ) -> bool: ...
