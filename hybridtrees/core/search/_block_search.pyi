from collections.abc import Callable
from typing import Any

from hybridtrees.core.search._histogram_search import HistogramSearch

class BlockSearch(HistogramSearch):
    def __init__(
        self, binned: Any, params: Any, use_tail: bool, n_threads: int,
        make_records: Callable[..., None]
    ) -> None: ...
