from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.void]
Floats = NDArray[np.float64]
Table = NDArray[np.floating[Any]]
Starts = NDArray[np.int64]
Places = NDArray[np.int32]
Words = NDArray[np.uint32]

class PackedSet(IntEnum):
    SET_HEAD = ...

def fits_narrow(nodes: Nodes) -> bool: ...
def pack_nodes(nodes: Nodes, values: Floats, by_node: bool, packed: Nodes) -> None: ...
def shift_nodes(nodes: Nodes, shift: int, set_shift: int) -> None: ...
def widen_nodes(narrow: Nodes, wide: Nodes) -> None: ...
def check_packed(
    nodes: Nodes, n_features: int, sets: Words, table_rows: int, scratch: Places
) -> None: ...
def unpack_nodes(
    packed: Nodes, nodes: Nodes, values: Floats, leaf_values: Floats, samples: Starts,
    weight: Floats, sets: Words, mean: bool
) -> None: ...
def leaf_payloads(nodes: Nodes, values: Floats) -> None: ...
def predict_packed(
    nodes: Nodes, start: Starts, first: int, last: int, sets: Words, X: Table, table: Floats | None,
    by_node: bool, votes: bool, plain: bool, raw: Floats | None, leaves: Places | None,
    n_threads: int
) -> None: ...
def walk_packed(
    nodes: Nodes, sets: Words, X: Table, rows: Words, swapped: int, others: Words, ended: Places
) -> None: ...
def add_outside(
    nodes: Nodes, start: Starts, sets: Words, X: Table, table: Floats, by_node: bool, votes: bool,
    held_start: Starts, held: Places, first: Places, raw: Floats, counts: Places, n_threads: int
) -> None: ...
