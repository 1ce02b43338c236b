"""Parameters of growth, as the engine knows them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Nodes of at most so many rows are grown on copies that fit the cache, several at a time.
SUBTREE_ROWS = 2048


@dataclass(frozen=True)
class GrowerParams:
    """What the grower needs to know, filled once per fit; limits of 0 are none."""

    frontier: str = "depth-wise"  # or "best-first", "depth-first"
    max_depth: int = 6
    max_leaves: int = 0
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_child_weight: float = 1.0  # sum of hessians
    min_gain: float = 0.0
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    max_delta_step: float = 0.0  # of leaf values before shrinkage
    feature_fractions: tuple[float, float, float] = (1.0, 1.0, 1.0)  # per tree, level and node
    max_cat_to_onehot: int = 4  # categories up to which one is split against the rest
    histogram_bytes: int = 256 * 2**20  # beyond it, histograms are summed anew when needed
    criterion: str = "newton"  # see `Criterion` in _types.pxd
    max_features: int = 0  # drawn per node; more are tried where none of them can be split
    monotonic: np.ndarray | None = None  # int8 per feature: 1 rising, -1 falling, 0 free
    # Bit set of the interaction groups of each feature, up to 63; 0: it stands alone. 1 << 63 for
    # every feature: any two may stand on one path, and no third.
    interaction: np.ndarray | None = None
    missing: str = "learn"  # the better side, or "stop": rows stay at the node
    random_ties: bool = False  # otherwise the lowest feature and threshold win
    candidate_share: float = 0.0  # exact search: share of the hessian between two candidates
    prune_gain: float = 0.0  # splits of less gain above two leaves are undone in the end
    subtree_rows: int = 0  # nodes of at most so many rows are grown as tasks, in parallel
    preorder: bool = False  # number nodes down the left side first, not by the order of splits

    def in_subtrees(self) -> GrowerParams:
        """Return the same with small nodes as tasks, unless a limit asks for the best first."""
        return replace(self, subtree_rows=0 if self.max_leaves else SUBTREE_ROWS, preorder=True)

    def pruned_afterwards(self) -> GrowerParams:
        """Return the same with the limit on gains applied once a tree is grown.

        XGBoost's exact method does so: a poor split stays if a good one stands below it.
        """
        return replace(self, min_gain=0.0, prune_gain=self.min_gain)
