"""Parameters of trees: declared and checked once for all families, and made into the engine's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer, check_option, check_real, check_rows, count_rows
from hybridtrees.base import Estimator
from hybridtrees.core.grow.cart import GrownTree, grow_cart
from hybridtrees.core.grow.grower import GrowerParams

SPLITTERS = ("exact", "hist")
MISSING = ("learn", "stop")
MAX_FEATURES = ("sqrt", "log2")
MAX_BINS = 255


class TreeParameters(Estimator):
    """Parameters that CART, forests, RERF and gradient boosting share.

    A family declares again those whose default differs, and its own.
    """

    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: int | float | str | None = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    ccp_alpha: float | str = 0.0
    monotonic_cst: Any = None
    categorical_features: Any = None
    max_bins: int = MAX_BINS
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _check_tree_parameters(self) -> None:
        """Check all of them that can be checked without the data, except `ccp_alpha`."""
        check_integer("max_depth", self.max_depth, 1, allow_none=True)
        check_rows("min_samples_split", self.min_samples_split, 2, closed="right")
        check_rows("min_samples_leaf", self.min_samples_leaf, 1, closed="neither")
        check_real("min_weight_fraction_leaf", self.min_weight_fraction_leaf, 0, 0.5)
        check_max_features(self.max_features)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        check_integer("max_bins", self.max_bins, 2, MAX_BINS)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)

    def _grower_params(self, n_rows: int, n_features: int, total: float) -> GrowerParams:
        """Parameters of the engine for a table of so many rows and such a total weight."""
        min_leaf = count_rows(self.min_samples_leaf, n_rows)
        n_drawn = count_features(self.max_features, n_features)
        return GrowerParams(
            frontier="depth-first" if self.max_leaf_nodes is None else "best-first",
            max_depth=min(int(self.max_depth or 0), 2**15 - 1),
            max_leaves=min(int(self.max_leaf_nodes or 0), n_rows),
            min_samples_split=max(2, count_rows(self.min_samples_split, n_rows), 2 * min_leaf),
            min_samples_leaf=min_leaf,
            min_child_weight=float(self.min_weight_fraction_leaf) * total,
            # Where nothing is asked for, a split that brings nothing is taken too: the splits
            # below it may bring something.
            min_gain=float(self.min_impurity_decrease) * total or -math.inf,
            max_features=0 if n_drawn == n_features else n_drawn,
            max_cat_to_onehot=0,
        )


@dataclass(frozen=True)
class Recipe:
    """How to grow trees on any subset of the rows; shares are turned into counts by `grow`.

    Attributes
    ----------
    criterion : str
    n_classes : int
        0 in regression.
    is_categorical : ndarray of bool, shape (n_features,)
    max_features : int
        Features drawn per node.
    monotonic : ndarray of int8 or None
    random_ties : bool
        Whether equal splits are drawn from, instead of taking the first.
    n_threads : int
    Others
        The parameters of the estimators that have these names.
    """

    criterion: str
    splitter: str
    max_depth: int | None
    min_samples_split: int | float
    min_samples_leaf: int | float
    min_weight_fraction_leaf: float
    min_impurity_decrease: float
    max_leaf_nodes: int | None
    max_bins: int
    missing: str
    max_features: int
    n_classes: int
    is_categorical: np.ndarray
    monotonic: np.ndarray | None
    random_ties: bool
    n_threads: int

    def grow(
        self, values: Any, target: np.ndarray, weight: np.ndarray | None, seed: int
    ) -> GrownTree:
        """Grow one tree, not pruned.

        Parameters
        ----------
        values : ndarray or sparse array of shape (n_rows, n_features)
        target : ndarray
            float64 of shape (n_rows, n_outputs), or int32 class codes.
        weight : ndarray of shape (n_rows,) or None
        seed : int

        Returns
        -------
        grown : GrownTree
        """
        total = float(values.shape[0]) if weight is None else float(weight.sum())
        params = self.grower_params(*values.shape, total)
        return grow_cart(
            values,
            target,
            weight,
            criterion=self.criterion,
            n_classes=self.n_classes,
            params=params,
            is_categorical=self.is_categorical,
            splitter=self.splitter,
            max_bins=self.max_bins,
            n_threads=self.n_threads,
            seed=seed,
        )

    def grower_params(self, n_rows: int, n_features: int, total: float) -> GrowerParams:
        """Parameters of the engine for a table of so many rows and such a total weight."""
        min_leaf = count_rows(self.min_samples_leaf, n_rows)
        min_split = max(2, count_rows(self.min_samples_split, n_rows), 2 * min_leaf)
        return GrowerParams(
            frontier="depth-first" if self.max_leaf_nodes is None else "best-first",
            max_depth=self.max_depth or 0,
            max_leaves=min(self.max_leaf_nodes or 0, n_rows),
            min_samples_split=min_split,
            min_samples_leaf=min_leaf,
            min_child_weight=self.min_weight_fraction_leaf * total,
            # Where nothing is asked for, a split that brings nothing is taken too: the splits
            # below it may bring something.
            min_gain=self.min_impurity_decrease * total or -math.inf,
            max_features=0 if self.max_features == n_features else self.max_features,
            monotonic=self.monotonic,
            missing=self.missing,
            random_ties=self.random_ties,
            max_cat_to_onehot=0,
        )


def check_max_features(value: Any) -> None:
    """Check `max_features`, all but its relation to the table."""
    if value is None:
        return
    if isinstance(value, str):
        check_option("max_features", value, MAX_FEATURES)
    elif isinstance(value, Integral):
        check_integer("max_features", value, 1)
    elif isinstance(value, Real):
        check_real("max_features", value, 0, 1, closed="right")
    else:
        raise TypeError(
            "max_features must be None, 'sqrt', 'log2', an integer of at least 1 or a share in "
            f"(0, 1], got {value!r}"
        )


def count_features(max_features: Any, n_features: int) -> int:
    """Features drawn per node under `max_features`."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(math.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(math.log2(n_features)))
    if isinstance(max_features, Integral):
        return min(int(max_features), n_features)
    return max(1, int(max_features * n_features))
