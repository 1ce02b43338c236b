"""From the parameters of a CART estimator to a grown tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees.core.base._types import Limit
from hybridtrees.core.grow.cart import GrownTree, grow_cart
from hybridtrees.core.grow.grower import GrowerParams

SPLITTERS = ("exact", "hist")
MISSING = ("learn", "stop")
MAX_FEATURES = ("sqrt", "log2")
MAX_BINS = int(Limit.MAX_BINS)


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
        min_leaf = _count(self.min_samples_leaf, n_rows)
        min_split = max(2, _count(self.min_samples_split, n_rows), 2 * min_leaf)
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


def _count(value: int | float, n_rows: int) -> int:
    """Return a number of rows that is given as such or as a share of all."""
    # More rows than there are is as good as any larger number, and fits the engine.
    return min(value, n_rows + 1) if isinstance(value, int) else math.ceil(value * n_rows)


def check_rows(name: str, value: Any, least: int, *, closed: str) -> int | float:
    """Check a number of rows: an integer from `least` on, or a share of the rows.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What the caller gave.
    least : int
        Smallest number allowed.
    closed : {"right", "neither"}
        Whether a share of 1 is allowed.

    Returns
    -------
    value : int or float
    """
    if isinstance(value, Integral):
        return check_integer(name, value, least)  # type: ignore[return-value]
    if isinstance(value, Real):
        return check_real(name, value, 0, 1, closed=closed)  # type: ignore[return-value]
    raise TypeError(
        f"{name} must be an integer of at least {least} or a share of the rows between 0 and 1, "
        f"got {value!r}"
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
