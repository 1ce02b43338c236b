"""Types of the compiled kernels for rows that share leaves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def group_rows(
    leaf: NDArray[np.int32], start: NDArray[np.int64], rows: NDArray[np.uint32]
) -> int: ...
def count_met(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    rows: NDArray[np.uint32],
    n_others: int,
    n_met: NDArray[np.int64],
    n_threads: int,
) -> None: ...
def write_met(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    rows: NDArray[np.uint32],
    n_others: int,
    own_bits: NDArray[np.uint64],
    bits: NDArray[np.uint64],
    pointers: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def leaf_quantiles(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    rank: NDArray[np.uint32],
    weight: NDArray[np.floating[Any]],
    ordered: NDArray[np.float64],
    levels: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
