from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]
Places = NDArray[np.int32]
Starts = NDArray[np.int64]
Rows = NDArray[np.uint32]
Bits = NDArray[np.uint64]

class TreeWalk:
    n_features: int
    def __init__(self, ensemble: Any) -> None: ...
    def leaves(self, X: Table, n_threads: int) -> Places: ...

def add_node_values(
    nodes: NDArray[np.void], values: Floats, categories: Rows, X: Table, raw: Floats
) -> None: ...
def add_known_scores(
    ensemble: Any, known: NDArray[np.uint8], X: Floats, raw: Floats
) -> None: ...
def collapse_branches(
    left: Places, right: Places, decrease: Floats, tolerance: float
) -> tuple[Floats, Floats]: ...
def preorder(left: Places, right: Places) -> tuple[Places, Places]: ...
def group_rows(leaf: Places, start: Starts, rows: Rows) -> int: ...
def count_met(
    first: Starts, last: Starts, rows: Rows, n_others: int, n_met: Starts, n_threads: int
) -> None: ...
def write_met(
    first: Starts, last: Starts, rows: Rows, n_others: int, own_bits: Bits, bits: Bits,
    pointers: Starts, indices: Places, data: Floats, n_threads: int
) -> None: ...
def leaf_quantiles(
    first: Starts, last: Starts, rank: Rows, weight: Table, ordered: Floats, levels: Floats,
    out: Floats, n_threads: int
) -> None: ...
def row_medians(values: Floats, weight: Starts, out: Floats, n_threads: int) -> None: ...
