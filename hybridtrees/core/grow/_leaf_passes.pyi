import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.tree.tree import Tree

def leaf_moments(
    values: np.ndarray, rows: NDArray[np.uint32], start: NDArray[np.int64], stop: NDArray[np.int64],
    n_columns: NDArray[np.int32], feature: NDArray[np.int32], shift: NDArray[np.float64],
    factor: NDArray[np.float64], grad: NDArray[np.float32], hess: NDArray[np.float32] | float,
    n_threads: int, vector_bytes: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def centre_moments(
    by_column: NDArray[np.float64], squares: NDArray[np.float64], n_columns: NDArray[np.int32],
    feature: NDArray[np.int32], sums: NDArray[np.float64], shift: NDArray[np.float64],
    scale: NDArray[np.float64], constant: float
) -> tuple[NDArray[np.float64], ...]: ...
def add_lines(
    values: np.ndarray, rows: NDArray[np.uint32], start: NDArray[np.int64], stop: NDArray[np.int64],
    leaves: NDArray[np.integer], tree: Tree, raw: NDArray[np.float64], n_threads: int
) -> None: ...
def leaf_means(
    nodes: NDArray[np.void], y: NDArray[np.float64], weight: NDArray[np.float64] | None,
    rows: NDArray[np.uint32], start: NDArray[np.intp], stop: NDArray[np.intp],
    value: NDArray[np.float64]
) -> None: ...
def pair_gains(nodes: NDArray[np.void], sums: NDArray[np.float64]) -> None: ...
def feature_gains(nodes: NDArray[np.void], total: NDArray[np.float64]) -> None: ...
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
