"""Parameters of trees, shared by all families: declared, checked, and passed to the engine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np

from hybridtrees._parameters import (
    Seed,
    attribute,
    check_boolean_or_auto,
    check_integer,
    check_max_features,
    check_option,
    check_real,
    check_rows,
    check_verbose,
    count_rows,
)
from hybridtrees._predictor import CategoryPredictor
from hybridtrees.core.base._types import Limit
from hybridtrees.core.base.exact_sum import exact_sum
from hybridtrees.core.base.threads import FEW_ROWS_TREES, predict_threads
from hybridtrees.core.grow.cart import grow_cart
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.models.shared.constraints import read_monotonic

# Types of parameters that several families have.
MaxFeatures = int | float | Literal["sqrt", "log2", "third"] | None
Splitter = Literal["exact", "hist", "random"]
RegressionCriterion = Literal["squared_error", "friedman_mse", "absolute_error", "poisson"]
ClassificationCriterion = Literal["gini", "entropy", "log_loss", "misclassification"]

SPLITTERS = ("exact", "hist", "random")
MISSING = ("learn", "stop")
MAX_BINS = int(Limit.MAX_BINS)

# The engine counts depths in 16 bits.
_DEEPEST = 2**15 - 1


class GrowthParameters(CategoryPredictor):
    """Parameters of all trees; a family overrides the defaults that differ.

    Parameters
    ----------
    max_depth : int or None
        Maximum depth of a tree; None for 32,767, the limit of the engine.
    min_samples_split : int or float
        Minimum number of rows of a node that is split, or their share of all rows.
    min_samples_leaf : int or float
        Minimum number of rows of a leaf, or their share of all rows.
    max_features : int, float, {"sqrt", "log2", "third"} or None
        Features drawn for each split: a number, a share, or all. "third" is one third, the share
        that Breiman recommends for regression.
    max_leaf_nodes : int or None
        Maximum number of leaves; a tree is then grown best-first.
    min_impurity_decrease : float
        Minimum decrease in impurity by a split, weighted by the share of rows that reach it.
    max_bins : int
        Maximum number of bins of a feature.
    random_state : int, Generator, RandomState or None
        Seed of the features drawn. The same seed gives the same model for any `n_jobs`.
    n_jobs : int or None
        Number of threads; all usable CPUs by default. The result does not depend on it.
    """

    _few_rows = FEW_ROWS_TREES

    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float | Literal["auto"] = 1
    max_features: MaxFeatures = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    categorical_features: Any = None
    max_bins: int = MAX_BINS
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: int = 0

    def _check_growth(self, min_bins: int = 2, auto_leaf: bool = False) -> None:
        """Check what can be checked without the data."""
        check_boolean_or_auto("categorical_statistics", self.categorical_statistics)
        check_integer("max_depth", self.max_depth, 1, allow_none=True)
        check_rows("min_samples_split", self.min_samples_split, 2, closed="right")
        check_rows("min_samples_leaf", self.min_samples_leaf, 1, closed="neither", auto=auto_leaf)
        check_max_features(self.max_features)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        check_integer("max_bins", self.max_bins, min_bins, MAX_BINS)
        check_verbose(self.verbose)

    def _check_tree_parameters(self) -> None:
        """Check what can be checked without the data."""
        raise NotImplementedError

    def _predict_threads(self, n_rows: int) -> int:
        return predict_threads(self.n_jobs, n_rows, self._few_rows)

    def _read_table(self, X: Any) -> Any:
        """Return the table that the trees read, for rows to predict."""
        return self._read_features(X)

    def _limits(self) -> dict[str, Any]:
        """Return the limits on growth as Python numbers, by parameter name."""
        return {
            "max_depth": None if self.max_depth is None else min(int(self.max_depth), _DEEPEST),
            "min_samples_split": _plain(self.min_samples_split),
            "min_samples_leaf": _plain(self.min_samples_leaf),
            "min_impurity_decrease": float(self.min_impurity_decrease),
            "max_leaf_nodes": None if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            "max_bins": int(self.max_bins),
        }


class TreeParameters(GrowthParameters):
    """Parameters that CART, forests, RERF and gradient boosting share.

    Parameters
    ----------
    min_weight_fraction_leaf : float
        Minimum share of the total weight in a leaf.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning of every tree. It is per row, like
        that of scikit-learn: a leaf must lower the weighted mean impurity of all rows by this much.
        A value for the sum of squares must be divided by the sum of the weights.
    monotonic_cst : array-like, dict or None
        1 or -1 for features with which predictions may only increase or decrease, else 0; a dict
        gives them by name. One output only.
    categorical_features : array-like or None
        Categorical columns (names, indices or a mask), in addition to the string and category
        columns of a data frame. Categories are ordered by their mean response in the node (with
        several outputs or more than two classes, by each of them in turn) and split like numbers.
        That is the best split into two sets unless `min_samples_leaf` or `min_weight_fraction_leaf`
        rules it out. A category that is not in a node follows its larger child. Leave out columns
        of identifiers: a split stores a set of their values. If features are binned, the rarest of
        more than `max_bins` categories share a bin.
    max_bins : int
        Maximum number of bins of a feature under ``splitter="hist"``.
    """

    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    ccp_alpha: float | Literal["cv"] = 0.0
    monotonic_cst: Any = None

    def _check_tree_parameters(self) -> None:
        """Check what can be checked without the data, except `ccp_alpha`."""
        self._check_growth()
        check_real("min_weight_fraction_leaf", self.min_weight_fraction_leaf, 0, 0.5)

    def _grower_params(self, n_rows: int, n_features: int, total: float) -> GrowerParams:
        """Return the parameters of the engine for a table of this size and total weight."""
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
            # Without a limit, splits of gain 0 are made: splits below them may gain something.
            min_gain=float(self.min_impurity_decrease) * total or -math.inf,
            max_features=0 if n_drawn == n_features else n_drawn,
            max_cat_to_onehot=0,
        )


class ImpurityTreeParameters(TreeParameters):
    """Parameters of trees whose splits reduce an impurity: CART, forests and RERF.

    Parameters
    ----------
    criterion : {"squared_error", "friedman_mse", "absolute_error", "poisson"}
        Impurity that splits reduce. Leaves predict the mean, under "absolute_error" the median.
    splitter : {"exact", "hist", "random"}
        Search every threshold, or those between at most `max_bins` bins of each feature, or draw
        one threshold of each feature between its bins and take the best feature. "hist" is
        several times as fast for squared error and for the Gini index of two classes. With other
        criteria, several outputs, more classes, constraints or ``missing="stop"`` it takes about as
        long as "exact". Under "exact" a feature whose values range over no more than 1e-7 counts as
        constant, like in scikit-learn.
    missing : {"learn", "stop"}
        Where rows with a missing value go at a split: to the side that is better in training (the
        larger one if none was missing), or no further: the node then makes the prediction.
    """

    _criteria: ClassVar[Iterable[str]] = ()
    _dialects: ClassVar[tuple[str, ...]] = ("scikit-learn trees",)

    criterion: str = attribute()
    splitter: Splitter = "exact"
    missing: Literal["learn", "stop"] = "learn"

    def _n_classes(self) -> int:
        """Return the number of classes, 0 in regression."""
        raise NotImplementedError

    def _check_one_response(self) -> None:
        """Refuse targets for which monotone constraints are not defined."""
        raise NotImplementedError

    def _check_tree_parameters(self) -> None:
        super()._check_tree_parameters()
        check_option("criterion", self.criterion, self._criteria)
        check_option("splitter", self.splitter, SPLITTERS)
        check_option("missing", self.missing, MISSING)
        if self.splitter == "random" and self.criterion == "absolute_error":
            raise ValueError(
                "criterion='absolute_error' needs splitter='exact' or 'hist', got 'random'"
            )

    def _recipe(self, n_threads: int, random_ties: bool | None = None) -> TreeRecipe:
        """Return how trees are grown; by default ties are drawn if there is a random state."""
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
        n_rows, n_features = values.shape
        total = float(n_rows) if weight is None else exact_sum(weight)
        params = self.grower_params(n_rows, n_features, total)
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
        """Return the parameters of the engine for a table of this size and total weight."""
        return replace(
            self.model._grower_params(n_rows, n_features, total),
            monotonic=self.monotonic,
            missing=self.missing,
            random_ties=self.random_ties,
            random_thresholds=self.splitter == "random",
        )


def _plain(value: Any) -> int | float | str:
    """Return a number of rows, or their share, as a Python number."""
    if isinstance(value, str):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def count_features(max_features: Any, n_features: int) -> int:
    """Return the number of features drawn per node."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, int(math.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(math.log2(n_features)))
    if max_features == "third":
        return max(1, n_features // 3)
    if isinstance(max_features, Integral):
        return min(int(max_features), n_features)
    return max(1, int(max_features * n_features))
