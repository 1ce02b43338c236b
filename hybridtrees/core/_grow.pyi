"""Types of the compiled grower."""

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins import BinnedMatrix
from hybridtrees.core.grow import GrowerParams

class TreeGrower:
    """Grows trees on one BinnedMatrix; its buffers are reused from tree to tree."""

    def __init__(
        self, binned: BinnedMatrix, params: GrowerParams, use_tail: bool, n_threads: int
    ) -> None: ...
    @property
    def n_threads(self) -> int: ...
    @property
    def row_order(self) -> NDArray[np.uint32]: ...
    def grow(
        self,
        grad: NDArray[np.float32],
        hess: NDArray[np.float32] | float,
        rows: NDArray[np.uint32] | None = None,
        seed: int = 0,
    ) -> tuple[NDArray[np.void], NDArray[np.float64], dict[int, NDArray[np.uint32]]]: ...
    def leaf_blocks(self) -> memoryview: ...
    def update_raw(self, values: NDArray[np.float64], raw: NDArray[np.float64]) -> None: ...
    def apply(self) -> NDArray[np.int32]: ...
