"""Types of the compiled kernels of packed forests."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def add_packed(
    nodes: NDArray[np.void],
    start: NDArray[np.int64],
    first: int,
    last: int,
    sets: NDArray[np.uint32],
    X: NDArray[np.floating[Any]],
    table: NDArray[np.float64],
    by_node: bool,
    votes: bool,
    plain: bool,
    raw: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def find_packed(
    nodes: NDArray[np.void],
    start: NDArray[np.int64],
    first: int,
    last: int,
    sets: NDArray[np.uint32],
    X: NDArray[np.floating[Any]],
    plain: bool,
    leaves: NDArray[np.int32],
    n_threads: int,
) -> None: ...
def walk_packed(
    nodes: NDArray[np.void],
    sets: NDArray[np.uint32],
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.uint32],
    swapped: int,
    others: NDArray[np.uint32],
    ended: NDArray[np.int32],
) -> None: ...
