import numpy as np
from numpy.typing import NDArray

def minimise_many(
    matrix: NDArray[np.float64], right: NDArray[np.float64], sizes: NDArray[np.int32],
    alpha: float = 0.0, signs: NDArray[np.int8] | None = None, ridge: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
