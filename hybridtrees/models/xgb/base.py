"""Parameters and grower of XGB, beyond those that it shares with PLGB."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option
from hybridtrees._xgboost_names import XGBoostNames
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.grow.grower import Grower, NewtonLeaves
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import ProposedTable, Table
from hybridtrees.models.shared.binned_fit import refuse_bins
from hybridtrees.models.shared.boosted_model import BoostedModel

TREE_METHODS = ("hist", "auto", "exact", "approx")
FEATURE_TYPES = ("q", "c", "i", "int", "float")

# Parameters of xgboost of which one value is supported: its values, that value, and the reason.
_ONE_VALUE = {
    "booster": (
        ("gbtree", "gblinear", "dart"),
        "gbtree",
        "only trees are boosted here, none of them dropped; see LinearRegressor and "
        "LogisticClassifier for linear models",
    ),
    "multi_strategy": (
        ("one_output_per_tree", "multi_output_tree"),
        "one_output_per_tree",
        "a tree has one output here",
    ),
}


class XGBModel(XGBoostNames, BoostedModel):
    """Boosted trees with constant leaves, without the target.

    Parameters
    ----------
    max_bin : int
        Maximum number of bins of a feature, at most 256; one of 256 is for missing values. Not used
        by ``tree_method="exact"``.
    gamma : float
        Minimum gain of a split. Like in xgboost, the gain has no factor of one half: gamma is twice
        that of the formulas in the literature. "hist" and "approx" make no split of less gain;
        "exact" prunes afterwards, and keeps such a split if there is a better one below it.
    max_cat_to_onehot : int
        Features of fewer categories are split one category against the rest, others by sets of
        categories; with "exact", and "approx" with a local sketch, all are split by sets.
    tree_method : {"hist", "auto", "exact", "approx"}
        Candidate thresholds. "hist" (the same as "auto"): edges of bins that are made once per fit.
        "exact": all thresholds. "approx": quantiles weighted by the hessians of the round, as
        `sketch` says.
    sketch : {"global", "local"}
        When "approx" computes quantiles: once per tree, at most `max_bin` per feature; or at every
        node, from its rows, one for each `max_bin`-th part of their hessians.
    feature_types : list of {"q", "c", "i", "int", "float"} or None
        Type of each feature, "c" for categorical; an alternative to `categorical_features`.
    enable_categorical : bool
        Whether categorical features are allowed.
    booster, multi_strategy : None
        Parameters of xgboost with one supported value: "gbtree" and "one_output_per_tree". None
        stands for that value.
    num_parallel_tree : int or None
        Number of trees that a round grows for each output, each on rows and features of its own.
        Their mean is the step; None for one tree.
    feature_weights, max_cat_threshold, device : None
        Parameters of xgboost with one supported value: None, None and "cpu". None stands for that
        value.
    verbosity, validate_parameters : int, bool or None
        Parameters of xgboost without effect: parameters are always validated.
    """

    _dialects: ClassVar[tuple[str, ...]] = ("xgboost", "lightgbm")

    max_leaves: int = 0
    tree_method: Literal["hist", "auto", "exact", "approx"] = "hist"
    sketch: Literal["global", "local"] = "global"
    feature_types: Sequence[Literal["q", "c", "i", "int", "float"]] | None = None
    enable_categorical: bool = True
    booster: Literal["gbtree"] | None = None
    multi_strategy: Literal["one_output_per_tree"] | None = None
    num_parallel_tree: int | None = None
    feature_weights: Any = None
    max_cat_threshold: int | None = None
    device: Literal["cpu"] | None = None
    verbosity: int | None = None
    validate_parameters: bool | None = None

    def _check_parameters(self) -> GrowerParams:
        params = super()._check_parameters()
        check_option("tree_method", self.tree_method, TREE_METHODS)
        check_option("sketch", self.sketch, ("global", "local"))
        check_boolean("enable_categorical", self.enable_categorical)
        for name, (known, only, reason) in _ONE_VALUE.items():
            value = getattr(self, name)
            if value is not None and check_option(name, value, known) != only:
                raise ValueError(f"{name}={value!r} is not supported, use {only!r}: {reason}")
        check_integer("num_parallel_tree", self.num_parallel_tree, 1, allow_none=True)
        if self.sampling_method == "gradient_based" and self._n_parallel() > 1:
            raise ValueError(
                f"num_parallel_tree={self._n_parallel()} needs sampling_method='uniform': rows "
                "drawn by their gradients are the same for all trees of a round"
            )
        device = self.device
        if isinstance(device, str) and device.partition(":")[0] in ("cuda", "gpu", "sycl"):
            raise ValueError(f"device={device!r} is not supported, use 'cpu'")
        if device is not None and not (isinstance(device, str) and device == "cpu"):
            raise ValueError(f"device must be 'cpu' or None, got {device!r}")
        check_integer("verbosity", self.verbosity, 0, 3, allow_none=True)
        if self.validate_parameters is not None:
            check_boolean("validate_parameters", self.validate_parameters)
        if self.feature_weights is not None:
            raise ValueError(
                "feature_weights is not supported: features are drawn with equal chances; leave "
                "it at None"
            )
        if self.max_cat_threshold is not None:
            check_integer("max_cat_threshold", self.max_cat_threshold, 1)
            raise ValueError(
                "max_cat_threshold is not supported: a split may send any number of categories to "
                "one side; leave it at None"
            )
        return params

    def _check_binned(self, table: BinnedTable) -> None:
        if self.tree_method in ("approx", "exact"):
            refuse_bins(self, "tree_method", "'hist'")
        if self.feature_types is not None:
            refuse_bins(self, "feature_types", "None")
        super()._check_binned(table)

    def _n_parallel(self) -> int:
        return self.num_parallel_tree or 1

    def _model_before(self, given: Any) -> Any:
        """Return the model to continue: one of this class, or one of XGBoost."""
        own = isinstance(given, str | PathLike) and zipfile.is_zipfile(given)
        if own or isinstance(given, XGBModel):
            return super()._model_before(given)
        before = type(self)(categorical_features=self.categorical_features, n_jobs=self.n_jobs)
        before.load_model(given)
        return before

    def _learn_table(self, X: Any, before: BoostedModel | None, categorical: Any = None) -> Any:
        categorical = None if self.feature_types is None else self._categories_by_type(X)
        values = super()._learn_table(X, before, categorical)
        if before is None and not self.enable_categorical and self._reader.is_categorical.any():
            feature = int(np.flatnonzero(self._reader.is_categorical)[0])
            raise ValueError(
                f"feature {feature} holds categories, which enable_categorical=False rules out"
            )
        return values

    def _categories_by_type(self, X: Any) -> np.ndarray:
        """Return the mask of categorical features that `feature_types` gives."""
        types = self.feature_types
        if not isinstance(types, list | tuple) or any(t not in FEATURE_TYPES for t in types):
            allowed = ", ".join(repr(name) for name in FEATURE_TYPES)
            raise ValueError(f"feature_types must be a list of {allowed}, got {types!r}")
        if self.categorical_features is not None:
            raise ValueError("give feature_types or categorical_features, not both")
        shape: tuple[int, ...] = (0, len(X)) if isinstance(X, dict) else getattr(X, "shape", ())
        if len(shape) == 2 and len(types) != shape[1]:
            raise ValueError(
                f"feature_types must have one entry for each of the {shape[1]} features, got "
                f"{len(types)}"
            )
        return np.array([name == "c" for name in types], dtype=bool)

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Grower:
        """Return the grower of the tree method, not opened yet."""
        if self.tree_method not in ("approx", "exact"):
            return super()._open_grower(values, weight, params, n_threads)
        mask, max_bins = self._reader.is_categorical, self._max_bins()
        if self.tree_method == "approx" and self.sketch == "global":
            table: Table = ProposedTable(values, mask, max_bins, n_threads)
        else:
            table, params = Table(values, mask), params.in_subtrees()
            if self.tree_method == "approx":
                params = replace(params, candidate_share=1.0 / max_bins)
            else:
                params = params.pruned_afterwards()
        return Grower(table, params, NewtonLeaves(params), n_threads)
