import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._threads import ExactSum

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]

LOSS_KINDS: dict[str, int]
QUANTILE_RULES: dict[str, int]

def statistics(
    loss: str, raw: F64, y: F64, weight: F64 | None, grad: F32, hess: F32 | None, n_threads: int,
    parameters: F64 | None = None, newton: bool = True
) -> None: ...
def residuals(
    loss: str, raw: F64, y: F64, out: F64, n_threads: int, parameters: F64 | None = None
) -> None: ...
def sum_loss(
    loss: str, raw: F64, y: F64, weight: F64 | None, n_threads: int, parameters: F64 | None = None
) -> ExactSum: ...
def sigmoid(raw: F64, out: F64) -> None: ...
def leaf_sums(
    loss: str, raw: F64, y: F64, weight: F64 | None, residual: F64 | None, output: int, a: float,
    b: float, rows: U32, start: I64, factor: float, out: F64, n_threads: int
) -> None: ...
def leaf_quantiles(
    values: F64, weight: F64 | None, rows: U32, start: I64, level: float, rule: str, scratch: F64,
    out: F64, n_threads: int
) -> None: ...
def add_clipped_means(
    values: F64, weight: F64 | None, rows: U32, start: I64, delta: float, out: F64, n_threads: int
) -> None: ...
