from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Columns:
    n_rows: int
    n_columns: int
    def __init__(
        self, values: Any, center: Floats | None = None, inv_scale: Floats | None = None
    ) -> None: ...
    def gradient(self, u: Floats) -> Floats: ...
    def times(self, b: Floats) -> Floats: ...

def descend_gram(
    gram: Floats, q: Floats, l1: Floats, l2: Floats, yy: float, b: Floats, tol: float,
    max_sweeps: int
) -> tuple[int, float]: ...
def descend_columns(
    z: Columns, v: Floats, u: Floats, l1: Floats, l2: Floats, b: Floats, intercept: Floats,
    working: NDArray[np.int64], tol: float, max_sweeps: int
) -> int: ...
def gap_of(b: Floats, grad: Floats, q: Floats, l1: Floats, l2: Floats, yy: float) -> float: ...
