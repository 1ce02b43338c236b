import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._search import SplitSearch

class SortedSearch(SplitSearch):
    def __init__(
        self, n_features: int, n_rows: int, n_categories: NDArray[np.int32], params: GrowerParams,
        n_threads: int, n_sums: int, width: int, lists: NDArray[np.void] | None = None,
        keep_lists: bool = False, one_list: bool = False
    ) -> None: ...

class SmallNodeSearch(SortedSearch):
    def __init__(
        self, n_features: int, n_rows: int, n_categories: NDArray[np.int32], params: GrowerParams,
        n_sums: int, width: int
    ) -> None: ...
