"""Types of the compiled statistics."""

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core._views import BinnedView

class Layout(TypedDict):
    """How statistics are stored; known to type checkers only."""

    name: str
    count_bits: int
    n_words: int
    grad_unit: float
    hess_unit: float

class RowStatistics:
    """Quantised (grad, hess) of all rows of a BinnedMatrix."""

    def __init__(self, bins: BinnedView, use_tail: bool) -> None: ...
    def fill(
        self,
        grad: NDArray[np.float32],
        hess: NDArray[np.float32] | float,
        n_sampled: int,
        need_counts: bool,
        n_threads: int,
    ) -> None: ...
    @property
    def layout(self) -> Layout: ...
