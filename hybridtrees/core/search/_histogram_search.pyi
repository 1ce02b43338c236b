"""Types of the compiled search along histograms."""

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.mapper import BinnedMatrix
from hybridtrees.core.grow.grower import GrowerParams, RowTarget
from hybridtrees.core.search._search import SplitSearch

class HistogramSearch(SplitSearch):
    """Searches the nodes of trees on one BinnedMatrix; its buffers are reused."""

    def __init__(
        self, binned: BinnedMatrix, params: GrowerParams, use_tail: bool, n_threads: int
    ) -> None: ...
    def begin(
        self,
        grad: NDArray[np.float32],
        hess: NDArray[np.float32] | float,
        rows: NDArray[np.uint32] | None,
        seed: int,
        target: RowTarget | None = None,
    ) -> None: ...
