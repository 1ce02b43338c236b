"""Boosting in XGBoost's dialect: the parameters that PLGB has not, and the grower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridtrees._parameters import check_boolean, check_integer, check_option
from hybridtrees.core.grow.grower import Grower, NewtonLeaves
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.table import ProposedTable, Table
from hybridtrees.models.shared.boosted_model import BoostedModel

TREE_METHODS = ("hist", "auto", "exact", "approx")
FEATURE_TYPES = ("q", "c", "i", "int", "float")

# Parameters of xgboost with one value here: what xgboost knows, that value, why not the rest.
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
    "sampling_method": (
        ("uniform", "gradient_based"),
        "uniform",
        "every row is as likely to be drawn; give sample_weight",
    ),
}


class XGBModel(BoostedModel):
    """Parameters of trees without lines, and those of xgboost that have one value here."""

    tree_method: str = "hist"
    sketch: str = "global"
    feature_types: Sequence[str] | None = None
    enable_categorical: bool = True
    booster: str | None = None
    multi_strategy: str | None = None
    num_parallel_tree: int | None = None
    sampling_method: str | None = None
    feature_weights: Any = None
    max_cat_threshold: int | None = None
    device: str | None = None
    verbosity: int | None = None
    validate_parameters: bool | None = None

    def _check_parameters(self) -> GrowerParams:
        check_option("tree_method", self.tree_method, TREE_METHODS)
        check_option("sketch", self.sketch, ("global", "local"))
        check_boolean("enable_categorical", self.enable_categorical)
        for name, (known, only, reason) in _ONE_VALUE.items():
            value = getattr(self, name)
            if value is not None and check_option(name, value, known) != only:
                raise ValueError(f"{name}={value!r} is not supported, use {only!r}: {reason}")
        n_trees = check_integer("num_parallel_tree", self.num_parallel_tree, 1, allow_none=True)
        if n_trees not in (None, 1):
            raise ValueError(
                f"num_parallel_tree={n_trees} is not supported, use 1: a round grows one tree per "
                "output; see RandomForestRegressor and RandomForestClassifier for forests"
            )
        device = self.device
        if isinstance(device, str) and device.partition(":")[0] in ("cuda", "gpu", "sycl"):
            raise ValueError(
                f"device={device!r} is not supported, use 'cpu': there is no other code"
            )
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
        return super()._check_parameters()

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
        """Return a mask of the features that hold categories, after `feature_types`."""
        types = self.feature_types
        if not isinstance(types, list | tuple) or any(t not in FEATURE_TYPES for t in types):
            allowed = ", ".join(repr(name) for name in FEATURE_TYPES)
            raise ValueError(f"feature_types must be a list of {allowed}, got {types!r}")
        if self.categorical_features is not None:
            raise ValueError("give feature_types or categorical_features, not both")
        shape = (0, len(X)) if isinstance(X, dict) else getattr(X, "shape", ())
        if len(shape) == 2 and len(types) != shape[1]:
            raise ValueError(
                f"feature_types must have one entry for each of the {shape[1]} features, got "
                f"{len(types)}"
            )
        return np.array([name == "c" for name in types], dtype=bool)

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Grower:
        """Return the grower of the tree method, to be opened."""
        mask, max_bins = self._reader.is_categorical, min(self.max_bin, 255)
        local = self.tree_method == "approx" and self.sketch == "local"
        if self.tree_method == "approx" and not local:
            table: Table = ProposedTable(values, mask, max_bins, n_threads)
        elif local or self.tree_method == "exact":
            table, params = Table(values, mask), params.in_subtrees()
            if local:
                params = replace(params, candidate_share=1.0 / max_bins)
            else:
                params = params.pruned_afterwards()
        else:
            return super()._open_grower(values, weight, params, n_threads)
        return Grower(table, params, NewtonLeaves(params), n_threads)
