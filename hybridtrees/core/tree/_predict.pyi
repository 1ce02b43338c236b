from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree._layout import EnsembleLayout

Table = NDArray[np.floating[Any]]

def add_predictions(
    layout: EnsembleLayout, X: Table, raw: NDArray[np.float64], first_tree: int, last_tree: int,
    n_threads: int
) -> None: ...
def find_leaves(
    layout: EnsembleLayout, X: Table, leaves: NDArray[np.int32], first_tree: int, last_tree: int,
    n_threads: int
) -> None: ...
