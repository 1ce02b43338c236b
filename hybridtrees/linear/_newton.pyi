"""Types of the compiled log-loss."""

import numpy as np
from numpy.typing import NDArray

from hybridtrees.linear._table import Table

Floats = NDArray[np.float64]

def log_loss_pass(
    table: Table,
    codes: NDArray[np.int32],
    weight: Floats | None,
    coef: Floats,
    order: int,
    n_threads: int,
) -> tuple[float, Floats | None, Floats | None]: ...
