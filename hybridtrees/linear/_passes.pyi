from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Table:
    n_rows: int
    n_columns: int
    n_whole: int
    def __init__(
        self, values: Any, center: Floats, inv_scale: Floats, fill: Floats,
        rows: NDArray[np.int64] | None = None
    ) -> None: ...
    def load(self, start: int, stop: int) -> Floats: ...

def gram(table: Table, targets: Floats, weight: Floats | None, n_threads: int) -> Floats: ...
def cross(left: Table, right: Table, weight: Floats | None, n_threads: int) -> Floats: ...
def project(table: Table, coef: Floats, intercept: Floats, n_threads: int) -> Floats: ...
def column_sums(table: Table, weight: Floats | None, n_threads: int) -> Floats: ...
def column_ranges(
    table: Table, weight: Floats | None
) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]: ...
def log_loss_pass(
    table: Table, codes: NDArray[np.int32], weight: Floats | None, coef: Floats, order: int,
    n_threads: int
) -> tuple[float, Floats | None, Floats | None]: ...
