from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridtrees.core.bins.matrix import BinnedMatrix

def histogram_offsets(n_bins: ArrayLike) -> NDArray[np.uint32]: ...

class BinnedView:
    def __init__(self, binned: BinnedMatrix) -> None: ...
    @property
    def binned(self) -> BinnedMatrix: ...

class Layout(TypedDict):
    name: str
    count_bits: int
    n_words: int
    grad_unit: float
    hess_unit: float

class RowStatistics:
    def __init__(self, bins: BinnedView, use_tail: bool) -> None: ...
    def fill(
        self, grad: NDArray[np.float32], hess: NDArray[np.float32] | float, n_sampled: int,
        need_counts: bool, n_threads: int
    ) -> None: ...
    @property
    def layout(self) -> Layout: ...

def histogram(
    bins: BinnedView, statistics: RowStatistics, rows: NDArray[np.uint32] | None,
    features: ArrayLike | None, n_threads: int
) -> NDArray[np.int64]: ...
