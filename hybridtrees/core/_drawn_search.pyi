"""Types of the compiled search that orders rows by the features drawn."""

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core._sorted_search import SortedSearch
from hybridtrees.core.grow import GrowerParams

class DrawnSearch(SortedSearch):
    """Searches lent nodes of binned features."""

    def __init__(
        self,
        n_features: int,
        n_rows: int,
        n_categories: NDArray[np.int32],
        params: GrowerParams,
        n_sums: int,
        width: int,
    ) -> None: ...
