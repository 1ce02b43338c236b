from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]

class ShapTrees:
    n_trees: int
    n_columns: int
    n_players: int
    n_outputs: int
    n_values: int
    any_linear: bool
    base: Floats
    def __init__(self, ensemble: Any, player: Any, n_players: int) -> None: ...

def add_path_values(
    trees: ShapTrees, X: Table, values: Floats, pairs: Floats | None, n_threads: int
) -> None: ...
def add_background_values(
    trees: ShapTrees,
    X: Table,
    background: Table,
    values: Floats,
    pairs: Floats | None,
    n_threads: int,
    most_bits: int = 12,
) -> None: ...
