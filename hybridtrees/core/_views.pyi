"""Types of the compiled views."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridtrees.core.bins import BinnedMatrix

def histogram_offsets(n_bins: ArrayLike) -> NDArray[np.uint32]: ...

class BinnedView:
    """Pointers into a BinnedMatrix, which it keeps alive."""

    def __init__(self, binned: BinnedMatrix) -> None: ...
    @property
    def binned(self) -> BinnedMatrix: ...
    @property
    def n_cells(self) -> int: ...
