from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Floats = NDArray[np.float64]

SUMMARY_DTYPE: np.dtype[np.void]

class Summary:
    size: int
    total: float
    gap: float
    @staticmethod
    def from_array(array: NDArray[np.void]) -> Summary: ...
    def to_array(self) -> NDArray[np.void]: ...
    def pruned(self, size: int) -> Summary: ...
    def cuts(self, n_bins: int) -> tuple[Floats, Floats]: ...

def merge(a: Summary, b: Summary, share: float = -1.0) -> Summary: ...
def summarize(
    values: Values, weights: Floats | None, share: float = -1.0
) -> tuple[Summary | None, int]: ...
def exact_cuts(
    values: Values, weights: Floats | None, n_bins: int, zero_weight: float = 0.0
) -> tuple[Floats, Floats]: ...
def cut_columns(
    columns: Values, weights: Floats | None, n_bins: int, n_threads: int
) -> list[tuple[Floats, Floats]]: ...
