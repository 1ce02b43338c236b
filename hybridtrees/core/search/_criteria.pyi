import numpy as np
from numpy.typing import NDArray

def weighted_medians(
    y: NDArray[np.float64], weight: NDArray[np.float64], rows: NDArray[np.uint32],
    start: NDArray[np.intp], stop: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
