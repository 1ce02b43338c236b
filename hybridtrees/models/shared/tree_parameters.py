"""Parameters of trees: declared and checked once for all families, and made into the engine's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from hybridtrees._parameters import (
    check_integer,
    check_max_features,
    check_option,
    check_real,
    check_rows,
    count_rows,
)
from hybridtrees.base import Estimator
from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.base.threads import effective_threads
from hybridtrees.core.grow.cart import grow_cart
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.models.shared.constraints import read_monotonic

SPLITTERS = ("exact", "hist")
MISSING = ("learn", "stop")
MAX_BINS = int(Limit.MAX_BINS)

# The engine counts depths in 16 bits.
_DEEPEST = 2**15 - 1


class GrowthParameters(Estimator):
    """Parameters of all trees; a family declares again those whose default differs."""

    # Predictions for fewer rows are done before a second thread would have woken up.
    _few_rows = 512

    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float | str = 1
    max_features: int | float | str | None = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    categorical_features: Any = None
    max_bins: int = MAX_BINS
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    def _check_growth(self, min_bins: int = 2, auto_leaf: bool = False) -> None:
        """Check all of them that can be checked without the data."""
        check_integer("max_depth", self.max_depth, 1, allow_none=True)
        check_rows("min_samples_split", self.min_samples_split, 2, closed="right")
        check_rows("min_samples_leaf", self.min_samples_leaf, 1, closed="neither", auto=auto_leaf)
        check_max_features(self.max_features)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        check_integer("max_bins", self.max_bins, min_bins, MAX_BINS)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)

    def _predict_threads(self, n_rows: int) -> int:
        return 1 if n_rows < self._few_rows else effective_threads(self.n_jobs)

    def _read_table(self, X: Any) -> Any:
        """Return the table that the trees read, of rows to predict for."""
        return self._read_features(X)

    def _limits(self) -> dict[str, Any]:
        """Limits on growth as plain numbers, by the names of their parameters."""
        return {
            "max_depth": None if self.max_depth is None else min(int(self.max_depth), _DEEPEST),
            "min_samples_split": _plain(self.min_samples_split),
            "min_samples_leaf": _plain(self.min_samples_leaf),
            "min_impurity_decrease": float(self.min_impurity_decrease),
            "max_leaf_nodes": None if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            "max_bins": int(self.max_bins),
        }


class TreeParameters(GrowthParameters):
    """Parameters that CART, forests, RERF and gradient boosting share."""

    min_weight_fraction_leaf: float = 0.0
    ccp_alpha: float | str = 0.0
    monotonic_cst: Any = None

    def _check_tree_parameters(self) -> None:
        """Check all of them that can be checked without the data, except `ccp_alpha`."""
        self._check_growth()
        check_real("min_weight_fraction_leaf", self.min_weight_fraction_leaf, 0, 0.5)

    def _grower_params(self, n_rows: int, n_features: int, total: float) -> GrowerParams:
        """Parameters of the engine for a table of so many rows and such a total weight."""
        n_drawn = count_features(self.max_features, n_features)
        min_leaf = count_rows(self.min_samples_leaf, n_rows)
        min_split = max(2, count_rows(self.min_samples_split, n_rows), 2 * min_leaf)
        return GrowerParams(
            frontier="depth-first" if self.max_leaf_nodes is None else "best-first",
            max_depth=min(int(self.max_depth or 0), _DEEPEST),
            max_leaves=min(int(self.max_leaf_nodes or 0), n_rows),
            min_samples_split=min_split,
            min_samples_leaf=min_leaf,
            min_child_weight=float(self.min_weight_fraction_leaf) * total,
            # Without a limit a split that gains nothing is taken too: the splits
            # below it may gain something.
            min_gain=float(self.min_impurity_decrease) * total or -math.inf,
            max_features=0 if n_drawn == n_features else n_drawn,
            max_cat_to_onehot=0,
        )


class ImpurityTreeParameters(TreeParameters):
    """Parameters of trees whose splits reduce an impurity: CART, forests and RERF."""

    _criteria: tuple[str, ...] = ()

    criterion: str
    splitter: str = "exact"
    missing: str = "learn"

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        raise NotImplementedError

    def _check_one_response(self) -> None:
        """Refuse targets for which a prediction cannot rise or fall with a feature."""
        raise NotImplementedError

    def _check_tree_parameters(self) -> None:
        super()._check_tree_parameters()
        check_option("criterion", self.criterion, self._criteria)
        check_option("splitter", self.splitter, SPLITTERS)
        check_option("missing", self.missing, MISSING)

    def _recipe(self, n_threads: int, random_ties: bool | None = None) -> TreeRecipe:
        """How trees are grown; ties are drawn where a seed is given, unless told otherwise."""
        reader = self._reader
        n_drawn = count_features(self.max_features, self.n_features_in_)
        monotonic = None
        if self.monotonic_cst is not None:
            names, mask = reader.feature_names_in, reader.is_categorical
            monotonic = read_monotonic(self.monotonic_cst, names, mask, "monotonic_cst")
        if monotonic is not None:
            self._check_one_response()
        return TreeRecipe(
            model=self,
            criterion=str(self.criterion),
            splitter=str(self.splitter),
            max_bins=int(self.max_bins),
            missing=str(self.missing),
            max_features=n_drawn,
            n_classes=self._n_classes(),
            is_categorical=reader.is_categorical,
            monotonic=monotonic,
            random_ties=self.random_state is not None if random_ties is None else random_ties,
            n_threads=n_threads,
        )


@dataclass(frozen=True)
class TreeRecipe:
    """How the trees of one fit are grown, on all or some of its rows."""

    model: ImpurityTreeParameters  # gives the limits on growth for a number of rows
    criterion: str
    splitter: str
    max_bins: int
    missing: str
    max_features: int  # drawn per node
    n_classes: int  # 0 in regression
    is_categorical: np.ndarray
    monotonic: np.ndarray | None
    random_ties: bool  # draw among equal splits instead of taking the first
    n_threads: int

    def grow(self, values: Any, target: np.ndarray, weight: np.ndarray | None, seed: int) -> Grown:
        """Grow one tree, not pruned."""
        total = float(values.shape[0]) if weight is None else exact_sum(weight)
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
        return replace(
            self.model._grower_params(n_rows, n_features, total),
            monotonic=self.monotonic,
            missing=self.missing,
            random_ties=self.random_ties,
        )


def _plain(value: Any) -> int | float | str:
    """Return a number of rows or a share of them as a number of Python."""
    if isinstance(value, str):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


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
