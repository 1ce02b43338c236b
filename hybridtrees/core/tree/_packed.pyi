"""Stub of _packed.pyx."""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

class PackedSet(IntEnum):
    SET_HEAD = ...

def fits_narrow(nodes: NDArray[np.void]) -> bool: ...
def pack_nodes(
    nodes: NDArray[np.void], values: NDArray[np.float64], by_node: bool, packed: NDArray[np.void]
) -> None: ...
def shift_nodes(nodes: NDArray[np.void], shift: int, set_shift: int) -> None: ...
def widen_nodes(narrow: NDArray[np.void], wide: NDArray[np.void]) -> None: ...
def check_packed(
    nodes: NDArray[np.void],
    n_features: int,
    sets: NDArray[np.uint32],
    table_rows: int,
    scratch: NDArray[np.int32],
) -> None: ...
def unpack_nodes(
    packed: NDArray[np.void],
    nodes: NDArray[np.void],
    values: NDArray[np.float64],
    leaf_values: NDArray[np.float64],
    samples: NDArray[np.int64],
    weight: NDArray[np.float64],
    sets: NDArray[np.uint32],
    mean: bool,
) -> None: ...
def leaf_payloads(nodes: NDArray[np.void], values: NDArray[np.float64]) -> None: ...
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
