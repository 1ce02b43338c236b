"""Parameters and grower of boosted piece-wise linear trees."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from hybridtrees._parameters import (
    attribute,
    check_boolean,
    check_integer,
    check_option,
    check_real,
)
from hybridtrees.core.base.checks import check_count
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.bins.matrix import BinnedMatrix
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

# Maximum output of a leaf if scores are logarithms: from even odds to odds of 1 : 22,000.
_LONGEST_STEP = 10.0

LEAF_FITS = ("half_additive", "additive", "full")
EXTRAPOLATIONS = ("clip", "linear", "bounded")
PENALTY_SCALES = ("standard", "raw")
MAX_LEAF_FEATURES = 16

# Limits on the leaves of a tree by default. Four can show how two features interact, eight how
# three do; the most are LightGBM's.
_FEWEST_LEAVES, _ENOUGH_LEAVES, _MOST_LEAVES = 4, 8, 31
_ROWS_PER_COEFFICIENT = 5
_SMALL_LEAF = 20


def default_leaves(n_rows: int, n_classes: int, n_coefs: int) -> int:
    """Return the default number of leaves of a tree with lines of `n_coefs` coefficients.

    A partition into cells with lines balances bias and variance if the number of cells grows with
    n^(d / (d + 4)), d being the number of features that interact. The square root of n, for the
    coefficients of a tree, is that of four features; the cube root, for the leaves of small tables,
    that of two.

    A row with a class says less than one with a number: its information on the log-odds of K
    classes, half the Gini index, is at most (1 - 1 / K) / 2, a quarter for two classes.
    """
    if n_classes > 1:
        n_rows = int(n_rows * (1 - 1 / n_classes) / 2)
    few = min(max(round(math.cbrt(n_rows)), _FEWEST_LEAVES), _ENOUGH_LEAVES)
    return min(max(math.isqrt(n_rows) // n_coefs, few), _MOST_LEAVES)


class PiecewiseLinearModel(BoostedModel):
    """Boosted trees with linear leaves, without the target.

    Parameters
    ----------
    max_leaves : int or None
        Maximum number of leaves of a tree; 0 for no limit. By default the lines of a tree have
        about as many coefficients as the square root of the number of rows, but a tree has at least
        8 leaves (4 to 7 below 422 rows, their cube root) and at most 31: with six coefficients
        each, 8 leaves for 2,000 rows, 16 for 10,000. A row with a class counts less than one with a
        number: a quarter with two classes, up to half with many.
    max_depth : int or None
        Maximum depth of a tree; None or 0 for no limit.
    grow_policy : {"lossguide", "depthwise"}
        Split where the gain is largest, or level by level.
    gamma : float
        Minimum gain of a split. Like in xgboost, the gain has no factor of one half: gamma is twice
        that of the paper.
    reg_alpha, reg_lambda : float
        L1 and L2 penalty on intercepts and slopes, see `penalty_scale`.
    missing : float
        A value that means missing, in addition to NaN. Linear functions replace it by the mean of
        the leaf.
    monotone_constraints : array-like, dict, str or None
        1 if the prediction may only increase with a feature, -1 if it may only decrease, else 0:
        one entry per feature, or a dict by name or index. They hold within leaves (signs of slopes)
        and across them (bounds of outputs).
    interaction_constraints : list of lists, str or None
        Groups of features, by name or index, that may be split on along one path, and may hence be
        in one leaf. A feature in no group is a group of its own. At most 63 groups.
    leaf_fit : {"half_additive", "additive", "full"}
        Free coefficients of a child when a split is scored: the intercept, a factor on the slopes
        of its parent, and the slope of the split feature; the intercept and that slope; or all
        slopes. The last finds the best splits and takes several times as long.
    max_leaf_features : int
        Maximum number of features of a leaf, which are those of its parent and the feature that the
        parent was split on. 0 for constant leaves, 16 at most.
    refit_leaves : bool
        Fit all slopes of the leaves once the tree is grown, whatever `leaf_fit` is.
    linear_features : array-like or None
        Features that may have slopes, by name, index or mask; all by default. Categorical features
        are split on, but have no slopes.
    extrapolation : {"clip", "linear", "bounded"}
        Predictions outside the range of the rows of a leaf. "clip": features are clipped to their
        range, extended by `extrapolation_margin`. "linear": no limits. "bounded": the output of a
        leaf is limited to the range of its training rows.
    extrapolation_margin : float
        Extension of the range under "clip", in standard deviations of the feature: the default is a
        seventh of the range of a uniform distribution. Slopes are estimates, and their errors grow
        with the distance.
    search_rows : int or None
        In nodes of more than twice as many rows, splits are scored with second moments of about so
        many sampled rows; gradients are summed over all rows. None uses all rows. Leaves are always
        fitted to all rows.
    min_samples_leaf : int or None
        Minimum number of rows of a child. By default five for each coefficient, but no more than
        20, or a fiftieth of the table if that is more; 1 for constant leaves.
    penalty_scale : {"standard", "raw"}
        Units of the penalty. "standard": it is on the output of a leaf at the means of its
        features, and on slopes per standard deviation of the feature in the whole table. Columns
        need not be scaled or centred, and slopes over a narrow range are shrunk most. "raw", the
        form of the paper: it is on slopes per unit of the feature, and on the output at the origin,
        so that each leaf solves ``(X'HX + lambda I) b = -X'g`` with a column of ones in X. Columns
        should then have means near 0 and similar spreads. `reg_alpha` must be 0, and thresholds are
        scored one by one, which takes longer.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The fitted trees; `coef_feature`, `coef` and `coef_center` hold the linear functions.
    max_leaves_, min_samples_leaf_ : int
        The limits on the trees of the last fit, given or by default.
    """

    max_leaves_: int = attribute()
    min_samples_leaf_: int = attribute()
    _leaves_by_rows: ClassVar[bool] = True
    _dialects: ClassVar[tuple[str, ...]] = ("common", "xgboost", "lightgbm")

    max_leaves: int | None = None
    max_depth: int | None = None
    grow_policy: Literal["depthwise", "lossguide"] = "lossguide"
    learning_rate: float = 0.1
    leaf_fit: Literal["half_additive", "additive", "full"] = "half_additive"
    max_leaf_features: int = 5
    refit_leaves: bool = True
    linear_features: Any = None
    extrapolation: Literal["clip", "linear", "bounded"] = "clip"
    extrapolation_margin: float = 0.5
    search_rows: int | None = 8192
    min_samples_leaf: int | None = None
    penalty_scale: Literal["standard", "raw"] = "standard"

    def _check_parameters(self) -> GrowerParams:
        params = super()._check_parameters()
        check_option("leaf_fit", self.leaf_fit, LEAF_FITS)
        check_integer("max_leaf_features", self.max_leaf_features, 0, MAX_LEAF_FEATURES)
        check_boolean("refit_leaves", self.refit_leaves)
        check_option("extrapolation", self.extrapolation, EXTRAPOLATIONS)
        check_real("extrapolation_margin", self.extrapolation_margin, 0)
        check_option("penalty_scale", self.penalty_scale, PENALTY_SCALES)
        check_integer("search_rows", self.search_rows, 1024, 2**31, allow_none=True)
        given = check_integer("min_samples_leaf", self.min_samples_leaf, 1, allow_none=True)
        if self.penalty_scale == "raw" and params.reg_alpha > 0:
            raise ValueError(
                "reg_alpha must be 0 with penalty_scale='raw', which is an L2 penalty, got "
                f"{self.reg_alpha!r}"
            )
        return replace(params, min_samples_leaf=given or 1)

    def _steps(self, grower: Grower, loss: Loss, *given: Any) -> NewtonSteps:
        """Return the boosting steps for a loss."""
        if isinstance(grower.leaf_model, LinearLeaves) and loss.hessian_vanishes:
            grower.leaf_model.longest_step = _LONGEST_STEP
        return (ReweightedSteps if loss.adaptive_leaves else NewtonSteps)(grower, loss, *given)

    def _takes_smooth_losses(self) -> bool:
        # Linear leaves minimise the losses themselves, not smoothed ones.
        return self.max_leaf_features == 0

    def _open_grower(
        self, values: Any, weight: np.ndarray | None, params: GrowerParams, n_threads: int
    ) -> Any:
        """Return the grower, not opened yet; for constant leaves that of XGB."""
        params = self._limit_leaves(params, values.shape[0])
        n_features, names = values.shape[1], self._reader.feature_names_in
        lines = column_indices(
            self.linear_features, n_features, names, "linear_features", required=True
        )
        if self.max_leaf_features == 0:
            return super()._open_grower(values, weight, params, n_threads)
        # Moments of regressors are sums over all rows of a node, whatever their codes.
        table = self._bin_table(values, weight, n_threads, dense=True)
        dense = values
        if hasattr(values, "toarray"):
            numeric = lines[~self._reader.is_categorical[lines]]
            dense = values.toarray(numeric) if isinstance(values, BinnedTable) else values.toarray()
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
        assert isinstance(table.binned, BinnedMatrix)
        columns = RegressorColumns(dense, table.binned, allowed, weight, n_threads)
        return linear_leaf_grower(table, params, rules, columns, n_threads)

    def _limit_leaves(self, params: GrowerParams, n_rows: int) -> GrowerParams:
        """Return parameters with the limits on leaves, which are kept as attributes."""
        n_coefs = int(self.max_leaf_features) + 1
        most, least = params.max_leaves, params.min_samples_leaf
        if self.max_leaves is None:
            most = default_leaves(n_rows, len(vars(self).get("classes_", ())), n_coefs)
        if self.min_samples_leaf is None and n_coefs > 1:
            wanted = _ROWS_PER_COEFFICIENT * n_coefs
            least = min(wanted, max(_SMALL_LEAF, n_rows // 50))
        self.max_leaves_, self.min_samples_leaf_ = most, least
        return replace(params, max_leaves=most, min_samples_leaf=least)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        for name in ("max_leaves_", "min_samples_leaf_"):
            if name in vars(self):  # files of early versions have neither
                check_count(self, name)

    def leaf_table(self, tree_index: int | None = None) -> BoostedLeafTable:
        """Return the leaves with their trees, paths, rows and linear functions.

        Parameters
        ----------
        tree_index : int, optional
            Index of one tree of `trees_`; negative ones count from the end. All trees by default.

        Returns
        -------
        table : BoostedLeafTable
            One entry per leaf; print it, or use `to_dict` or `to_frame`.
        """
        self._check_is_fitted()
        return boosted_leaf_table(self, tree_index)
