"""Stub of _walk.pyx."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

class TreeWalk:
    n_features: int
    def __init__(self, ensemble: Any) -> None: ...
    def leaves(self, X: NDArray[np.floating[Any]], n_threads: int) -> NDArray[np.int32]: ...

def collapse_branches(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    decrease: NDArray[np.float64],
    tolerance: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def preorder(
    left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
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
