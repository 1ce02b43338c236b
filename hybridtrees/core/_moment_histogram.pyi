"""Types of the compiled histograms of moments."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core._views import BinnedView

def moments(
    bins: BinnedView,
    grad: NDArray[np.float32],
    hess: NDArray[np.float32] | float,
    rows: NDArray[np.uint32],
    features: Sequence[int],
    term_feature: NDArray[np.int32],
    tables: NDArray[np.float32],
    summed: bool,
    narrow: bool,
    with_grad: bool = False,
    width: int = 0,
) -> list[NDArray[np.float64]]: ...
