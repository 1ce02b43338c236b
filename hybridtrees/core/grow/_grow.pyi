from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.search._search import SplitSearch

class TreeGrower:
    def __init__(
        self, search: SplitSearch, max_leaves: int, helpers: Sequence[TreeGrower] = (),
        task_rows: int = 0, preorder: bool = False, prune_gain: float = 0.0
    ) -> None: ...
    @property
    def search(self) -> SplitSearch: ...
    def grow(self) -> Grown: ...
    def row_nodes(self) -> NDArray[np.int32]: ...
    def segments(self) -> tuple[NDArray[np.uint32], NDArray[np.intp], NDArray[np.intp]]: ...
    def add_to(
        self, values: NDArray[np.float64], raw: NDArray[np.float64], ascending: bool = False
    ) -> bool: ...
