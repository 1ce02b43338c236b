"""Types of the compiled walk through one tree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

class TreeWalk:
    n_features: int
    def __init__(self, ensemble: Any) -> None: ...
    def leaves(self, X: NDArray[np.floating[Any]], n_threads: int) -> NDArray[np.int32]: ...
