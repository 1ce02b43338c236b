"""What the piece-wise linear regressor and classifier share: parameters and the grower."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees.core.bins.mapper import MAX_BINS, BinMapper
from hybridtrees.core.grow.grower import Grower, GrowerParams
from hybridtrees.core.grow.leaf_fit import LeafRules
from hybridtrees.core.grow.piecewise import MomentGrower
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.models.plgb.reporting import BoostedLeafTable, boosted_leaf_table
from hybridtrees.models.plgb.steps import PiecewiseSteps
from hybridtrees.models.rerf.linear import choose_features
from hybridtrees.models.xgb.base import XGBModel

LEAF_FITS = ("half_additive", "additive", "full")
EXTRAPOLATIONS = ("clip", "linear", "bounded")
PENALTY_SCALES = ("standard", "raw")
MOST_LEAF_FEATURES = 16


class PiecewiseLinearModel(XGBModel):
    """Parameters of the leaves; the rest is as in `XGBModel`."""

    _steps = PiecewiseSteps

    def __init__(
        self,
        *,
        objective: str | Callable[..., Any] | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaves: int = 31,
        max_depth: int | None = None,
        grow_policy: str = "lossguide",
        leaf_fit: str = "half_additive",
        max_leaf_features: int = 5,
        refit_leaves: bool = True,
        linear_features: Any = None,
        extrapolation: str = "clip",
        extrapolation_margin: float = 1.5,
        max_bin: int = 256,
        search_rows: int | None = 8192,
        gamma: float = 0.0,
        min_child_weight: float = 1.0,
        min_samples_leaf: int | None = None,
        max_delta_step: float = 0.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bylevel: float = 1.0,
        colsample_bynode: float = 1.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 1.0,
        penalty_scale: str = "standard",
        scale_pos_weight: float = 1.0,
        base_score: float | Sequence[float] | None = None,
        missing: float = math.nan,
        categorical_features: Any = None,
        max_cat_to_onehot: int = 4,
        monotone_constraints: Any = None,
        interaction_constraints: Any = None,
        quantile_alpha: float | Sequence[float] | None = None,
        expectile_alpha: float | Sequence[float] | None = None,
        huber_slope: float = 1.0,
        tweedie_variance_power: float = 1.5,
        importance_type: str = "gain",
        early_stopping_rounds: int | None = None,
        eval_metric: Any = None,
        callbacks: Sequence[Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.objective = objective
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.grow_policy = grow_policy
        self.leaf_fit = leaf_fit
        self.max_leaf_features = max_leaf_features
        self.refit_leaves = refit_leaves
        self.linear_features = linear_features
        self.extrapolation = extrapolation
        self.extrapolation_margin = extrapolation_margin
        self.max_bin = max_bin
        self.search_rows = search_rows
        self.gamma = gamma
        self.min_child_weight = min_child_weight
        self.min_samples_leaf = min_samples_leaf
        self.max_delta_step = max_delta_step
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bylevel = colsample_bylevel
        self.colsample_bynode = colsample_bynode
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.penalty_scale = penalty_scale
        self.scale_pos_weight = scale_pos_weight
        self.base_score = base_score
        self.missing = missing
        self.categorical_features = categorical_features
        self.max_cat_to_onehot = max_cat_to_onehot
        self.monotone_constraints = monotone_constraints
        self.interaction_constraints = interaction_constraints
        self.quantile_alpha = quantile_alpha
        self.expectile_alpha = expectile_alpha
        self.huber_slope = huber_slope
        self.tweedie_variance_power = tweedie_variance_power
        self.importance_type = importance_type
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _grower_params(self) -> GrowerParams:
        """Check the parameters, all before any work."""
        check_option("leaf_fit", self.leaf_fit, LEAF_FITS)
        check_integer("max_leaf_features", self.max_leaf_features, 0, MOST_LEAF_FEATURES)
        check_boolean("refit_leaves", self.refit_leaves)
        check_option("extrapolation", self.extrapolation, EXTRAPOLATIONS)
        check_real("extrapolation_margin", self.extrapolation_margin, 0)
        check_option("penalty_scale", self.penalty_scale, PENALTY_SCALES)
        check_integer("search_rows", self.search_rows, 1024, 2**31, allow_none=True)
        least = check_integer("min_samples_leaf", self.min_samples_leaf, 1, allow_none=True)
        params = replace(super()._grower_params(), min_samples_leaf=least or 1)
        if self.penalty_scale == "raw" and params.reg_alpha > 0:
            raise ValueError(
                "reg_alpha must be 0 with penalty_scale='raw', which is an L2 penalty, got "
                f"{self.reg_alpha!r}"
            )
        return params

    def _takes_smooth_losses(self) -> bool:
        # Lines are fitted to the losses themselves.
        return self.max_leaf_features == 0

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Grower:
        """Return the grower, to be opened: without lines that of `XGBModel`."""
        allowed = np.zeros(values.shape[1], dtype=bool)
        allowed[choose_features(self.linear_features, self._reader)] = True
        if self.max_leaf_features == 0:
            return super()._open_grower(values, weight, params, n_threads)
        mapper = BinMapper(
            max_bins=min(self.max_bin, MAX_BINS),
            categorical_features=self._reader.is_categorical,
            n_jobs=n_threads,
        )
        binned = mapper.fit_transform(values, weight)
        if self.min_samples_leaf is None:
            # Five rows per coefficient of a line, but no large share of a small table.
            least = 5 * (int(self.max_leaf_features) + 1)
            params = replace(params, min_samples_leaf=max(1, min(least, values.shape[0] // 50)))
        dense = values.toarray() if scipy.sparse.issparse(values) else values
        rules = LeafRules(
            fit=self.leaf_fit,
            refit=bool(self.refit_leaves),
            max_regressors=int(self.max_leaf_features),
            reg_lambda=params.reg_lambda,
            reg_alpha=params.reg_alpha,
            raw_penalty=self.penalty_scale == "raw",
            monotonic=params.monotonic,
            extrapolation=self.extrapolation,
            margin=float(self.extrapolation_margin),
            sample_rows=int(self.search_rows or 0),
        )
        columns = RegressorColumns(dense, binned, allowed, weight, n_threads)
        return MomentGrower(binned, params, rules, columns, n_threads, mapper.category_to_bin_)

    def leaf_table(self, tree_index: int | None = None) -> BoostedLeafTable:
        """Return the leaves with their trees, paths, rows and lines.

        Parameters
        ----------
        tree_index : int, optional
            The leaves of one tree of `trees_` only; negative numbers count from the last.

        Returns
        -------
        table : BoostedLeafTable
            One entry per leaf; print it, or take `to_dict` or `to_frame`.
        """
        self._check_is_fitted()
        return boosted_leaf_table(self, tree_index)


def _without(model: type[XGBModel]) -> dict[str, Any]:
    """Parameters of `XGBModel` that these models do not have, at their defaults."""
    own = inspect.signature(model.__init__).parameters
    given = inspect.signature(XGBModel.__init__).parameters
    return {name: p.default for name, p in given.items() if name not in own and name != "self"}


for _name, _default in _without(PiecewiseLinearModel).items():
    setattr(PiecewiseLinearModel, _name, _default)
