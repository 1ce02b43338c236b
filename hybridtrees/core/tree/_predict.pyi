from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree._layout import EnsembleLayout
from hybridtrees.core.tree.additive import AdditiveForm

Table = NDArray[np.floating[Any]]

def add_predictions(
    layout: EnsembleLayout, X: Table, raw: NDArray[np.float64], first_tree: int, last_tree: int,
    n_threads: int
) -> None: ...
def find_leaves(
    layout: EnsembleLayout, X: Table, leaves: NDArray[np.int32], first_tree: int, last_tree: int,
    n_threads: int
) -> None: ...

COLUMN_KINDS: dict[str, int]
LINK_KINDS: dict[str, int]

class FrozenForm:
    n_features: int
    n_scores: int
    n_predictions: int
    def __init__(self, form: AdditiveForm, n_features: int) -> None: ...
    def predict(
        self, X: Table, out: NDArray[np.float64] | None, linked: bool, n_threads: int
    ) -> NDArray[np.float64]: ...
