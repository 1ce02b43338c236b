"""The forest of RERF: it takes tables that are already read, and shares their sorted forms."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.shared.forest.base import ForestData
from hybridtrees.models.shared.forest.growing import ForestFit
from hybridtrees.models.shared.forest.out_of_bag import OutOfBag
from hybridtrees.models.shared.forest.packed import PackedRegressionForest
from hybridtrees.models.shared.tree_parameters import MaxFeatures, TreeRecipe


@dataclass
class ReadTable:
    """A table that is already read, with its sorted or binned forms."""

    values: Any
    reader: FeatureReader
    forms: dict[tuple[Any, ...], ForestFit] = field(default_factory=dict)
    oob_target: np.ndarray | None = None  # residuals of out-of-sample predictions
    oob_purpose: str = "oob_score"  # for messages
    target_checksum: int = 0  # of the user's target; residuals vary in their last digits


class ResidualForest(PackedRegressionForest):
    """A random forest for the residuals of a regression; see `RandomForestRegressor`.

    It also takes a `ReadTable`, which is sorted or binned once for all forests.
    """

    min_samples_leaf: int | float = 5
    max_features: MaxFeatures = 1 / 3

    # The table during a fit, if it is a `ReadTable`.
    _source: ReadTable | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the forest; see `RandomForestRegressor.fit`."""
        try:
            return super().fit(X, y, sample_weight)
        finally:
            self.__dict__.pop("_source", None)

    def _fit_features(self, X: Any, **how: Any) -> Any:
        if not isinstance(X, ReadTable):
            return super()._fit_features(X, **how)
        self._source = X
        self._reader = X.reader
        self.n_features_in_ = X.reader.n_features_in
        self.__dict__.pop("feature_names_in_", None)
        if X.reader.feature_names_in is not None:
            self.feature_names_in_ = X.reader.feature_names_in
        return X.values

    def _order_categories(
        self, values: Any, target: np.ndarray, weight: np.ndarray | None, again: bool = False
    ) -> Any:
        return values  # the regression has done it, by the target

    def _read_features(self, X: Any) -> Any:
        return X.values if isinstance(X, ReadTable) else super()._read_features(X)

    def _oob_purpose(self) -> str:
        if self._source is None or not self._asks_oob():
            return super()._oob_purpose()
        return self._source.oob_purpose

    def _target_checksum(self, target: np.ndarray) -> int:
        source = self._source
        return super()._target_checksum(target) if source is None else source.target_checksum

    def _open_oob(self, target: np.ndarray, weight: np.ndarray | None) -> OutOfBag:
        if self._source is not None and self._source.oob_target is not None:
            target = self._source.oob_target
        return super()._open_oob(target, weight)

    def _prepare(self, recipe: TreeRecipe, data: ForestData, needs_oob: bool) -> ForestFit:
        """Return what the growers share; forests on one `ReadTable` sort or bin it once."""
        source, n_outputs = self._source, data.target.shape[1]
        key = (recipe.splitter, recipe.max_bins, recipe.criterion, n_outputs, needs_oob)
        if source is None or key not in source.forms:
            fit = super()._prepare(recipe, data, needs_oob)
            if source is not None:
                source.forms[key] = fit
            return fit
        fit = copy.copy(source.forms[key])
        fit.recipe, fit.target, fit.sampler = recipe, data.target, data.sampler
        fit.ccp_alpha = float(self.ccp_alpha)
        fit.keep_rows = self._keeps_rows(recipe, data.sampler)
        fit.n_threads = data.n_threads
        fit.use_params()
        return fit
