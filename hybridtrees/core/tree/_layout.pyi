from hybridtrees.core.tree.tree import TreeEnsemble

class EnsembleLayout:
    def __init__(self, ensemble: TreeEnsemble, check: bool = True) -> None: ...
    n_trees: int
    n_used: int
    n_features: int
    n_outputs: int
    n_values: int
    float_thresholds: bool
    any_linear: bool
