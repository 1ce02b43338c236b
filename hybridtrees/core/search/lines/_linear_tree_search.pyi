from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridtrees.core.bins.matrix import BinnedMatrix
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.search._search import SplitSearch
from hybridtrees.core.search.lines._linear_tree_fit import LinearProblem

class LinearTreeSearch(SplitSearch):
    def __init__(
        self, binned: BinnedMatrix, problem: LinearProblem, params: GrowerParams, n_threads: int,
        fitter: Any = None, regressors: NDArray[np.float64] | None = None, screened: int = 0,
        exhaustive: bool = False
    ) -> None: ...
    def reopen(self, problem: LinearProblem, params: GrowerParams, fitter: Any) -> None: ...
