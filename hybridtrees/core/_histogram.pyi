"""Types of the compiled histograms."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridtrees.core._statistics import RowStatistics
from hybridtrees.core._views import BinnedView

def histogram(
    bins: BinnedView,
    statistics: RowStatistics,
    rows: NDArray[np.uint32] | None,
    features: ArrayLike | None,
    n_threads: int,
) -> NDArray[np.int64]: ...
