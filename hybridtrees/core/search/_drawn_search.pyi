import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._sorted_search import SmallNodeSearch

class DrawnSearch(SmallNodeSearch):
    def __init__(
        self, n_features: int, n_rows: int, n_categories: NDArray[np.int32], params: GrowerParams,
        n_sums: int, width: int,
        bin_values: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
    ) -> None: ...
