"""Types of the compiled encoder."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

EDGE_ROOM: int

class BinCodec:
    """Tables that encode the values of fitted features, for one width of floats."""

    def __init__(
        self,
        edges: NDArray[np.floating[Any]],
        n_bins: NDArray[np.int32],
        is_categorical: NDArray[np.uint8],
        category_bins: NDArray[np.uint8],
        category_start: NDArray[np.int64],
    ) -> None: ...
    @property
    def n_features(self) -> int: ...
    @property
    def is_narrow(self) -> bool: ...

def encode_table(
    X: NDArray[np.floating[Any]],
    codec: BinCodec,
    records: NDArray[np.uint8],
    columns: NDArray[np.uint8],
    has_missing: NDArray[np.uint8],
    n_threads: int,
) -> bool: ...
def encode_csc(
    data: NDArray[np.floating[Any]],
    indices: NDArray[np.integer[Any]],
    indptr: NDArray[np.integer[Any]],
    codec: BinCodec,
    columns: NDArray[np.uint8],
    has_missing: NDArray[np.uint8],
    n_threads: int,
) -> bool: ...
def records_from_columns(
    columns: NDArray[np.uint8], records: NDArray[np.uint8], n_threads: int
) -> None: ...
