"""Types of the compiled scans of tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

def distinct_values(
    X: NDArray[np.floating[Any]], weights: NDArray[np.float64] | None, limit: int, n_threads: int
) -> list[NDArray[np.float64] | None] | None: ...
def sample_rows(n_rows: int, n_drawn: int, seed: int) -> NDArray[np.int64]: ...
def gather(
    X: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    out: NDArray[np.floating[Any]],
    n_threads: int,
) -> None: ...
def count_categories(
    column: NDArray[np.floating[Any]], weights: NDArray[np.float64] | None
) -> NDArray[np.float64] | None: ...
