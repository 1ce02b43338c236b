"""Types of the compiled tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

class Table:
    n_rows: int
    n_columns: int
    n_whole: int
    def __init__(
        self,
        values: Any,
        center: NDArray[np.float64],
        inv_scale: NDArray[np.float64],
        fill: NDArray[np.float64],
        rows: NDArray[np.int64] | None = None,
    ) -> None: ...
    def load(self, start: int, stop: int) -> NDArray[np.float64]: ...
