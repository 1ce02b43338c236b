import numpy as np
from numpy.typing import NDArray

def partition_rows(
    codes: NDArray[np.uint8], goes_left: NDArray[np.uint8], rows: NDArray[np.uint32], n_threads: int
) -> int: ...
