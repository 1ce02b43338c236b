import numpy as np
from numpy.typing import NDArray

def column_units(
    feature: NDArray[np.int32], mean: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def short_bounds(
    bound: NDArray[np.float64], margin: NDArray[np.float64]
) -> NDArray[np.float64]: ...
def line_terms(
    n_nodes: int, leaves: NDArray[np.intp], n_columns: NDArray[np.int32],
    feature: NDArray[np.int32], coef: NDArray[np.float64], center: NDArray[np.float64],
    low: NDArray[np.float64], high: NDArray[np.float64], column_scale: NDArray[np.float64],
    deviation: NDArray[np.float64], margin: float, scale: float
) -> dict[str, np.ndarray]: ...
def line_reach(
    values: NDArray[np.float64], ptr: NDArray[np.int64], coef: NDArray[np.float64],
    center: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]: ...
