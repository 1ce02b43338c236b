"""Types of the compiled search for splits by linear models."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core._histogram_search import HistogramSearch
from hybridtrees.core.bins import BinnedMatrix
from hybridtrees.core.grow import GrowerParams

class MomentSearch(HistogramSearch):
    """Searches the nodes of trees with linear leaves on one BinnedMatrix."""

    def __init__(
        self,
        binned: BinnedMatrix,
        params: GrowerParams,
        use_tail: bool,
        n_threads: int,
        fit: str,
        max_regressors: int,
        bin_values: Sequence[NDArray[np.float64] | None],
        sample_rows: int,
        origin: NDArray[np.float64] | None = None,
    ) -> None: ...
    def node_models(self) -> dict[str, np.ndarray]: ...
    def node_gains(self, node: int, feature: int) -> NDArray[np.float64]: ...
