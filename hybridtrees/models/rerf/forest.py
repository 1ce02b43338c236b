"""The forest of RERF: one that takes tables as they have been read, and shares what they need."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from hybridtrees.input.validation import FeatureReader
from hybridtrees.models.cart.base import CARTModel
from hybridtrees.models.forest.estimators import RandomForestRegressor
from hybridtrees.models.forest.growing import ForestFit, OutOfBag
from hybridtrees.models.shared.bagging import Sampler


@dataclass
class ReadTable:
    """A table that has been read, and the sorted or binned forms of it that forests have made.

    Attributes
    ----------
    values : ndarray or sparse array
    reader : FeatureReader
    forms : dict
    oob_target : ndarray or None
        What predictions of rows out of the bag are compared with, if not the target: what a
        regression leaves of rows that it has not seen.
    oob_purpose : str
        What rows out of the bag are for, for messages.
    target_digest : int
        By which the target is told from others; residuals vary in their last digits.
    """

    values: Any
    reader: FeatureReader
    forms: dict[tuple, ForestFit] = field(default_factory=dict)
    oob_target: np.ndarray | None = None
    oob_purpose: str = "oob_score"
    target_digest: int = 0


class ResidualForest(RandomForestRegressor):
    """A random forest for the residuals of a regression; see `RandomForestRegressor`.

    Tables may come as `ReadTable`. Forests that are fitted to one of them sort or bin it once.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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

    def _read_features(self, X: Any) -> Any:
        return X.values if isinstance(X, ReadTable) else super()._read_features(X)

    def _oob_purpose(self) -> str:
        source: ReadTable | None = self.__dict__.get("_source")
        if source is None or not self._asks_oob():
            return super()._oob_purpose()
        return source.oob_purpose

    def _target_digest(self, target: np.ndarray) -> int:
        source: ReadTable | None = self.__dict__.get("_source")
        return super()._target_digest(target) if source is None else source.target_digest

    def _watch(self, fit: ForestFit, target: np.ndarray, weight: np.ndarray | None) -> OutOfBag:
        source: ReadTable | None = self.__dict__.get("_source")
        if source is not None and source.oob_target is not None:
            target = source.oob_target
        return super()._watch(fit, target, weight)

    def _prepare(
        self,
        tree: CARTModel,
        values: Any,
        target: np.ndarray,
        sampler: Sampler,
        factor: Callable[[np.ndarray], np.ndarray] | None,
        n_threads: int,
        watch_oob: bool,
    ) -> ForestFit:
        """All that growers share; the table is sorted or binned once for all forests."""
        source: ReadTable | None = self.__dict__.get("_source")
        shape = tree._recipe(1)
        key = (shape.splitter, shape.max_bins, shape.criterion, target.shape[1], watch_oob)
        known = None if source is None else source.forms.get(key)
        if known is None:
            fit = super()._prepare(tree, values, target, sampler, factor, n_threads, watch_oob)
            if source is not None:
                source.forms[key] = fit
            return fit
        fit = copy.copy(known)
        fit.sampler = sampler
        fit.recipe = self._recipe_for(tree, fit.sampler)
        fit.target = target
        fit.ccp_alpha = float(self.ccp_alpha)
        fit.keep_rows = self._keeps_rows(fit.sampler)
        fit.n_threads = n_threads
        fit.use_params()
        return fit
