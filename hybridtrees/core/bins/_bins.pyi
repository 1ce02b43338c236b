"""Stub of _bins.pyx."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def distinct_values(
    X: NDArray[np.floating[Any]], weights: NDArray[np.float64] | None, limit: int, n_threads: int
) -> list[NDArray[np.float64] | None] | None: ...
def sample_rows(n_rows: int, n_drawn: int, seed: int) -> NDArray[np.int64]: ...
def gather(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    out: NDArray[np.floating[Any]],
    n_threads: int,
) -> None: ...
def count_categories(
    column: NDArray[np.floating[Any]], weights: NDArray[np.float64] | None
) -> NDArray[np.float64] | None: ...

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
