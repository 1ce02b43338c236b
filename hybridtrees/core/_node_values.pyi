"""Types of the compiled sums over rows and nodes."""

import numpy as np
from numpy.typing import NDArray

def leaf_means(
    nodes: NDArray[np.void],
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    leaf: NDArray[np.int32],
    value: NDArray[np.float64],
) -> None: ...
def pair_gains(nodes: NDArray[np.void], sums: NDArray[np.float64]) -> None: ...
def feature_gains(nodes: NDArray[np.void], total: NDArray[np.float64]) -> None: ...
