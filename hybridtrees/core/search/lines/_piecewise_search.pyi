from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._histogram import BinnedView
from hybridtrees.core.search._histogram_search import HistogramSearch

def moments(
    bins: BinnedView, grad: NDArray[np.float32], hess: NDArray[np.float32] | float,
    rows: NDArray[np.uint32], features: Sequence[int], term_feature: NDArray[np.int32],
    tables: NDArray[np.float32], summed: bool, narrow: bool, with_grad: bool = False, width: int = 0
) -> list[NDArray[np.float64]]: ...

class PiecewiseSearch(HistogramSearch):
    def __init__(
        self, binned: BinnedMatrix, params: GrowerParams, use_tail: bool, n_threads: int, fit: str,
        max_regressors: int, bin_values: Sequence[NDArray[np.float64] | None], sample_rows: int,
        origin: NDArray[np.float64] | None = None
    ) -> None: ...
    def leaf_regressors(
        self,
    ) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int32]]: ...
    def node_models(self) -> dict[str, np.ndarray]: ...
    def node_gains(self, node: int, feature: int) -> NDArray[np.float64]: ...
