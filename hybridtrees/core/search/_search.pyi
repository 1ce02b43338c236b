from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRONTIERS: dict[str, int]

class NodeQueue:
    def __init__(self, frontier: str) -> None: ...
    def order(self, gains: Sequence[float]) -> list[int]: ...

CRITERIA: dict[str, int]

class SplitSearch:
    def begin(self, statistics: Any, rows: NDArray[np.uint32] | None, seed: int) -> None: ...
    @property
    def n_threads(self) -> int: ...
