"""Boosting of piece-wise linear trees: the parameters of their leaves, and the grower."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_boolean, check_integer, check_option, check_real
from hybridtrees.core.grow.grower import Grower
from hybridtrees.core.grow.linear_leaves import LeafRules, LinearLeaves, linear_leaf_grower
from hybridtrees.core.grow.params import GrowerParams
from hybridtrees.core.grow.regressor_columns import RegressorColumns
from hybridtrees.input.columns import column_indices
from hybridtrees.losses import Loss
from hybridtrees.models.plgb.reporting import BoostedLeafTable, boosted_leaf_table
from hybridtrees.models.plgb.steps import ReweightedSteps
from hybridtrees.models.shared.boosted_model import BoostedModel
from hybridtrees.models.shared.boosting_steps import NewtonSteps

# Maximum output of a leaf where scores are logarithms: from even odds to one in twenty thousand.
_LONGEST_STEP = 10.0

LEAF_FITS = ("half_additive", "additive", "full")
EXTRAPOLATIONS = ("clip", "linear", "bounded")
PENALTY_SCALES = ("standard", "raw")
MAX_LEAF_FEATURES = 16


class PiecewiseLinearModel(BoostedModel):
    """Parameters of lines in the leaves, and the grower."""

    max_leaves: int = 31
    max_depth: int | None = None
    grow_policy: str = "lossguide"
    learning_rate: float = 0.1
    leaf_fit: str = "half_additive"
    max_leaf_features: int = 5
    refit_leaves: bool = True
    linear_features: Any = None
    extrapolation: str = "clip"
    extrapolation_margin: float = 1.5
    search_rows: int | None = 8192
    min_samples_leaf: int | None = None
    penalty_scale: str = "standard"

    def _check_parameters(self) -> GrowerParams:
        check_option("leaf_fit", self.leaf_fit, LEAF_FITS)
        check_integer("max_leaf_features", self.max_leaf_features, 0, MAX_LEAF_FEATURES)
        check_boolean("refit_leaves", self.refit_leaves)
        check_option("extrapolation", self.extrapolation, EXTRAPOLATIONS)
        check_real("extrapolation_margin", self.extrapolation_margin, 0)
        check_option("penalty_scale", self.penalty_scale, PENALTY_SCALES)
        check_integer("search_rows", self.search_rows, 1024, 2**31, allow_none=True)
        given = check_integer("min_samples_leaf", self.min_samples_leaf, 1, allow_none=True)
        params = replace(super()._check_parameters(), min_samples_leaf=given or 1)
        if self.penalty_scale == "raw" and params.reg_alpha > 0:
            raise ValueError(
                "reg_alpha must be 0 with penalty_scale='raw', which is an L2 penalty, got "
                f"{self.reg_alpha!r}"
            )
        return params

    def _steps(self, grower: Grower, loss: Loss, *given: Any) -> NewtonSteps:
        """Return the steps of boosting that the loss asks for."""
        if isinstance(grower.leaf_model, LinearLeaves) and loss.hessian_vanishes:
            grower.leaf_model.longest_step = _LONGEST_STEP
        return (ReweightedSteps if loss.adaptive_leaves else NewtonSteps)(grower, loss, *given)

    def _takes_smooth_losses(self) -> bool:
        # Lines are fitted to the losses themselves.
        return self.max_leaf_features == 0

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Any:
        """Return the grower, to be opened; without lines that of XGB."""
        n_features, names = values.shape[1], self._reader.feature_names_in
        lines = column_indices(
            self.linear_features, n_features, names, "linear_features", required=True
        )
        if self.max_leaf_features == 0:
            return super()._open_grower(values, weight, params, n_threads)
        table = self._bin_table(values, weight, n_threads)
        if self.min_samples_leaf is None:
            # Five rows per coefficient of a line, but no large share of a small table.
            wanted = 5 * (int(self.max_leaf_features) + 1)
            params = replace(params, min_samples_leaf=max(1, min(wanted, values.shape[0] // 50)))
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
        allowed = np.isin(np.arange(n_features), lines)
        columns = RegressorColumns(dense, table.binned, allowed, weight, n_threads)
        return linear_leaf_grower(table, params, rules, columns, n_threads)

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
