"""Stub of _kernels.pyx."""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.base._threads import ExactSum

class LossKind(IntEnum): ...

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
    n_threads: int,
    parameters: NDArray[np.float64] | None = None,
) -> ExactSum: ...
def sigmoid(raw: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...

QUANTILE_RULES: dict[str, int]

def leaf_sums(
    loss: str,
    raw: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    residual: NDArray[np.float64] | None,
    output: int,
    a: float,
    b: float,
    rows: NDArray[np.uint32],
    start: NDArray[np.int64],
    factor: float,
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def leaf_quantiles(
    values: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    rows: NDArray[np.uint32],
    start: NDArray[np.int64],
    level: float,
    rule: str,
    scratch: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
def add_clipped_means(
    values: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    rows: NDArray[np.uint32],
    start: NDArray[np.int64],
    delta: float,
    out: NDArray[np.float64],
    n_threads: int,
) -> None: ...
