"""Types of the compiled summaries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SUMMARY_DTYPE: np.dtype[np.void]

class Summary:
    """A sorted, non-empty list of entries (value, rmin, rmax, weight) that never changes."""

    @property
    def size(self) -> int: ...
    @property
    def total(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @staticmethod
    def from_array(array: NDArray[np.void]) -> Summary: ...
    def to_array(self) -> NDArray[np.void]: ...
    def pruned(self, size: int) -> Summary: ...
    def cuts(self, n_bins: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def merge(a: Summary, b: Summary, share: float = -1.0) -> Summary: ...
def summarize(
    values: NDArray[np.floating[Any]],
    weights: NDArray[np.float64] | None,
    share: float = -1.0,
) -> tuple[Summary | None, int]: ...
def exact_cuts(
    values: NDArray[np.floating[Any]],
    weights: NDArray[np.float64] | None,
    n_bins: int,
    zero_weight: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def cut_columns(
    columns: NDArray[np.floating[Any]],
    weights: NDArray[np.float64] | None,
    n_bins: int,
    n_threads: int,
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]: ...
