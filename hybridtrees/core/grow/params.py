"""Parameters of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Nodes of at most so many rows are grown as parallel tasks, on copies that fit the cache.
SUBTREE_ROWS = 2048


@dataclass(frozen=True)
class GrowerParams:
    """Parameters of a grower, set once per fit; limits of 0 mean no limit."""

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
    max_cat_to_onehot: int = 4  # up to so many categories, splits are one against the rest
    # For sets of more than four categories, see `SplitRules` in _types.pxd.
    cat_smooth: float = 0.0
    cat_l2: float = 0.0
    min_data_per_group: float = 1.0
    histogram_bytes: int = 256 * 2**20  # memory for histograms that are kept for the children
    criterion: str = "newton"  # see `Criterion` in _types.pxd
    max_features: int = 0  # drawn per node; others are tried if none of them can be split
    monotonic: np.ndarray | None = None  # int8 per feature: 1 increasing, -1 decreasing, 0 free
    # Bit set of the interaction groups (at most 63) of each feature; 0: no interactions. 1 << 63
    # for every feature: any two features may interact, but not three.
    interaction: np.ndarray | None = None
    missing: str = "learn"  # missing values go to the better side; "stop": rows stay at the node
    random_ties: bool = False  # otherwise the lowest feature and threshold win
    random_cuts: bool = True  # with random ties, also among the thresholds of a feature
    random_thresholds: bool = False  # bins: one threshold of a feature is drawn, none is searched
    candidate_share: float = 0.0  # exact search: share of the hessian between two candidates
    prune_gain: float = 0.0  # splits above two leaves with less gain are undone after growth
    subtree_rows: int = 0  # nodes of at most so many rows are grown as parallel tasks
    preorder: bool = False  # number nodes in preorder, else in the order of splits

    def grouped_in(self, n_rows: int) -> GrowerParams:
        """Return parameters for a table: groups of categories are at most a twentieth of it.

        Otherwise the features of more than four categories of a small table could not be split.
        """
        least = min(self.min_data_per_group, max(1, n_rows // 20))
        return replace(self, min_data_per_group=least)

    def in_subtrees(self) -> GrowerParams:
        """Return parameters with small nodes as tasks, unless the number of leaves is limited."""
        return replace(self, subtree_rows=0 if self.max_leaves else SUBTREE_ROWS, preorder=True)

    def pruned_afterwards(self) -> GrowerParams:
        """Return parameters with the minimum gain applied after growth.

        As in XGBoost's exact method, a poor split stays if there is a good one below it.
        """
        return replace(self, min_gain=0.0, prune_gain=self.min_gain)
