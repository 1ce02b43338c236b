from hybridtrees.core.tree._shap import Floats, ShapTrees, Table

def add_background_values(
    trees: ShapTrees,
    X: Table,
    background: Table,
    values: Floats,
    pairs: Floats | None,
    n_threads: int,
    most_bits: int = 12,
) -> None: ...
