from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.bins.stored import StoredBins
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._search import SplitSearch

class HistogramSearch(SplitSearch):
    def __init__(
        self, binned: BinnedMatrix | StoredBins, params: GrowerParams, use_tail: bool,
        n_threads: int
    ) -> None: ...
