import numpy as np
from numpy.typing import NDArray

def sort_columns(
    X: NDArray[np.floating], is_categorical: NDArray[np.uint8], lists: NDArray[np.void], first: int,
    n_threads: int
) -> NDArray[np.intp]: ...
def list_codes(
    columns: NDArray[np.uint8], missing_code: NDArray[np.int32], lists: NDArray[np.void],
    n_threads: int
) -> NDArray[np.intp]: ...
def bin_ends(
    X: NDArray[np.floating], columns: NDArray[np.uint8], least: NDArray[np.float64],
    largest: NDArray[np.float64], n_threads: int
) -> None: ...
