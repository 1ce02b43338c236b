"""Parameters of growth, as the engine knows them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Nodes of at most so many rows are grown on copies that fit the cache, several at a time.
SUBTREE_ROWS = 2048


@dataclass(frozen=True)
class GrowerParams:
    """What the grower needs to know, filled once per fit.

    Attributes
    ----------
    frontier : {"depth-wise", "best-first", "depth-first"}
    max_depth, max_leaves : int
        0 for no limit.
    min_samples_split, min_samples_leaf : int
        Least rows of a node that is split, and of a leaf.
    min_child_weight : float
        Least sum of hessians in a child.
    min_gain : float
        Least gain of a split.
    reg_lambda, reg_alpha : float
        L2 and L1 penalty of leaf values.
    max_delta_step : float
        Largest leaf value before shrinkage, 0 for no limit.
    feature_fractions : tuple of three floats
        Share of the features drawn per tree, per level and per node.
    max_cat_to_onehot : int
        A feature of at most so many categories is split one against the rest.
    histogram_bytes : int
        Memory for the histograms of open nodes; beyond it they are summed anew when needed.
    criterion : str
        What splits are scored by; see `Criterion` in _types.pxd.
    max_features : int
        Features drawn per node, 0 for all; more are tried where none of those can be split.
    monotonic : int8 array, optional
        1 where the value may only rise with a feature, -1 where it may only fall, else 0.
    interaction : uint64 array, optional
        Bit set of the interaction groups that each feature is in, up to 63; 0: it stands alone.
        ``1 << 63`` for every feature: any two may stand on one path, and no third.
    missing : {"learn", "stop"}
        Whether rows with a missing value go to the better side or stay at the node.
    random_ties : bool
        Whether equal splits are drawn from; otherwise the lowest feature and threshold win.
    candidate_share : float
        Exact search: share of a node's hessian between two candidates, 0 to try every threshold.
    prune_gain : float
        Splits of less gain above two leaves are undone once the tree is grown.
    subtree_rows : int
        Nodes of at most so many rows are grown as tasks of their own, in parallel; 0 for none.
    preorder : bool
        Number nodes down the left side first, not in the order in which they were split.
    """

    frontier: str = "depth-wise"
    max_depth: int = 6
    max_leaves: int = 0
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_child_weight: float = 1.0
    min_gain: float = 0.0
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    max_delta_step: float = 0.0
    feature_fractions: tuple[float, float, float] = (1.0, 1.0, 1.0)
    max_cat_to_onehot: int = 4
    histogram_bytes: int = 256 * 2**20
    criterion: str = "newton"
    max_features: int = 0
    monotonic: np.ndarray | None = None
    interaction: np.ndarray | None = None
    missing: str = "learn"
    random_ties: bool = False
    candidate_share: float = 0.0
    prune_gain: float = 0.0
    subtree_rows: int = 0
    preorder: bool = False

    def in_subtrees(self) -> GrowerParams:
        """Return the same with small nodes as tasks, unless a limit asks for the best first."""
        return replace(self, subtree_rows=0 if self.max_leaves else SUBTREE_ROWS, preorder=True)

    def pruned_afterwards(self) -> GrowerParams:
        """Return the same with the limit on gains applied once a tree is grown.

        XGBoost's exact method does so: a poor split stays if a good one stands below it.
        """
        return replace(self, min_gain=0.0, prune_gain=self.min_gain)
