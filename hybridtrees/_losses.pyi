"""Types of the compiled losses."""

import numpy as np
from numpy.typing import NDArray

LOSS_KINDS: dict[str, int]

def statistics(
    loss: str,
    raw: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    grad: NDArray[np.float32],
    hess: NDArray[np.float32] | None,
    n_threads: int,
    parameters: NDArray[np.float64] | None = None,
    newton: bool = True,
) -> None: ...
def residuals(
    loss: str,
    raw: NDArray[np.float64],
    y: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
    parameters: NDArray[np.float64] | None = None,
) -> None: ...
def sum_loss(
    loss: str,
    raw: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    partial: NDArray[np.float64],
    n_threads: int,
    parameters: NDArray[np.float64] | None = None,
) -> tuple[float, float]: ...
def sigmoid(raw: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
