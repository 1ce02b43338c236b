from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TOLERANCE: float

class LinearProblem:
    table: Floats
    n_padded: int
    cell_size: int

    def __init__(
        self, regressors: Floats, targets: Floats, weight: Floats | None, penalty: Any,
        least_rows: int = 0, penalised: bool = False, replaced: LinearProblem | None = None
    ) -> None: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def n_targets(self) -> int: ...
    def collect(self, rows: NDArray[np.uint32]) -> Floats: ...
    def solve(self, cells: Floats, start: Floats | None = None) -> tuple[Floats, Floats]: ...
    def products(self, cells: Floats) -> tuple[Floats, Floats]: ...
    def reweight(
        self, rows: NDArray[np.uint32], regressors: Floats, curvature: Floats, targets: Floats
    ) -> None: ...

class LogLossNodes:
    def __init__(
        self, regressors: Floats, codes: NDArray[np.int32], weight: Floats | None, n_classes: int,
        criterion: str, l2: float, units: Floats | None, by_sum: bool, jitter: float,
        constant: float
    ) -> None: ...
    def fit(
        self, rows: NDArray[np.uint32], start: Floats | None, tol: float, max_iter: int,
        rough: float = 0.0
    ) -> tuple[Floats, float] | None: ...
