"""Types of the compiled pruning."""

import numpy as np
from numpy.typing import NDArray

def collapse_branches(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    decrease: NDArray[np.float64],
    tolerance: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def preorder(
    left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
