from typing import Any

from numpy.typing import NDArray

INFINITE_CELLS: int

def sums_of_squares(
    grad: NDArray[Any], hess: NDArray[Any] | None, n_threads: int
) -> tuple[float, float]: ...
def row_sizes(
    grad: NDArray[Any], hess: NDArray[Any] | None, factor: float, n_threads: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def sizes_in_cell(size: NDArray[Any], cell: int, n_found: int) -> NDArray[Any]: ...
def draw_rows(
    grad: NDArray[Any],
    hess: NDArray[Any] | None,
    size: NDArray[Any],
    seed: int,
    share: float,
    threshold: float,
    n_threads: int,
) -> NDArray[Any]: ...
