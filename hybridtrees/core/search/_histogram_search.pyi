"""Types of the compiled search along histograms."""

from hybridtrees.core.bins.mapper import BinnedMatrix
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._search import SplitSearch

class HistogramSearch(SplitSearch):
    """Searches the nodes of trees on one BinnedMatrix; its buffers are reused."""

    def __init__(
        self, binned: BinnedMatrix, params: GrowerParams, use_tail: bool, n_threads: int
    ) -> None: ...
