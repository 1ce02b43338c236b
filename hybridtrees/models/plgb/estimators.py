"""Gradient boosting with piece-wise linear trees, split by the gain of their linear leaves."""

from __future__ import annotations

from hybridtrees.losses import lists_losses
from hybridtrees.models.plgb.base import PiecewiseLinearModel
from hybridtrees.models.shared.boosted_targets import BoostedClassifier, BoostedRegressor


@lists_losses
class PLGBRegressor(PiecewiseLinearModel, BoostedRegressor):
    """Gradient boosting with piece-wise linear trees, for a number.

    Every leaf is a line in a few features, and splits are chosen by what the lines of both
    children save (Shi, Li and Li 2019), not by what two numbers would. Newton boosting otherwise,
    with the losses, constraints and ways to stop of `XGBRegressor`; with ``max_leaf_features=0``
    it is that model.

    Parameters
    ----------
    objective : str or callable, optional
        Loss to minimise, by default the first of:
        {xgboost: regression};
        or a function, see `XGBRegressor`. For absolute and quantile
        errors the lines are estimated anew by reweighted least squares.
    learning_rate : float, default=0.1
        Factor on every tree.
    max_leaves : int, default=31
        Maximum number of leaves of a tree; 0 for no limit.
    max_depth : int or None, default=None
        Largest depth of a tree; 0 or None for no limit.
    grow_policy : {"lossguide", "depthwise"}, default="lossguide"
        Split where the gain is largest, or level by level.
    leaf_fit : {"half_additive", "additive", "full"}, default="half_additive"
        What is free in the line of a child when a split is scored: the intercept, one factor for
        the line of its parent and the slope of the feature that is split; the intercept and that
        slope; all slopes. The last finds the best splits and takes several times as long.
    max_leaf_features : int, default=5
        Maximum number of features of a leaf's line: those of its parent and the one that the
        parent was split on. 0 for constant leaves, 16 at most.
    refit_leaves : bool, default=True
        Fit all slopes of the leaves once the tree is grown, whatever `leaf_fit` says.
    linear_features : array-like, optional
        Features that may be in lines, by name, number or mask; all by default. Categories are
        split on, but are in no line.
    extrapolation : {"clip", "linear", "bounded"}, default="clip"
        What lines do outside the range of the rows of their leaf. "clip": they go on for
        `extrapolation_margin` and stay there. "linear": they go on. "bounded": the output of a
        leaf stays within that of its rows.
    extrapolation_margin : float, default=1.5
        How far lines go on under "clip", in standard deviations of the feature: by default a
        little less than half the range of an even spread.
    max_bin : int, default=256
        Bins of a feature, at most 256; one of 256 is kept for missing values.
    search_rows : int or None, default=8192
        In nodes of more than twice as many rows, the moments of the lines that splits are scored
        by come from about so many rows, drawn by place; gradients always from all. None: all
        rows. Leaves are always fitted to all rows.
    gamma : float, default=0
        Minimum gain of a split, twice that of the paper, as in `XGBRegressor`.
    min_samples_leaf : int, optional
        Minimum number of rows of a child. By default five for each coefficient of a line, but no
        more than a fiftieth of the table; 1 for constant leaves.
    max_delta_step : float, default=0
        Largest output of a leaf before the learning rate; 0 for no limit, under "count:poisson"
        for 0.7.
    reg_alpha, reg_lambda : float, default=0 and 1
        L1 and L2 penalty of intercepts and of slopes, see `penalty_scale`.
    penalty_scale : {"standard", "raw"}, default="standard"
        What `reg_lambda` is a penalty on. "standard": the output of a leaf at the means of its
        features, and slopes per standard deviation of their features over the whole table. No
        column need be rescaled or centred, and a slope over a narrow range, which few rows pin
        down, is held back most. "raw": the form of the paper, slopes per unit of the table and
        the output where every feature is 0, so that each leaf solves
        ``(X'HX + lambda I) b = -X'g`` with a column of ones in X. Columns should then have
        means near 0 and like spreads. `reg_alpha` must be 0, and cuts are scored one by one,
        which takes longer.
    missing : float, default=nan
        A value that means missing, beside NaN. It counts as the mean of its leaf in a line.
    monotone_constraints : array-like, dict or str, optional
        1 where the prediction may only rise with a feature, -1 where it may only fall, else 0.
        They hold inside the leaves (signs of slopes) and across them (bounds of their outputs).
    interaction_constraints : list of lists or str, optional
        Groups of features that may be split on along one path, and so be in one line.
    n_estimators, min_child_weight, subsample, colsample_bytree, colsample_bylevel, \
colsample_bynode, scale_pos_weight, base_score, categorical_features, max_cat_to_onehot, \
quantile_alpha, expectile_alpha, huber_slope, tweedie_variance_power, importance_type, \
early_stopping_rounds, eval_metric, callbacks, random_state, n_jobs, verbose
        As in `XGBRegressor`.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The fitted trees; `coef_feature`, `coef` and `coef_center` hold the lines of their leaves.
    n_iter_, feature_importances_, best_iteration, best_score, n_features_in_, feature_names_in_
        As in `XGBRegressor`.

    References
    ----------
    Shi, Y., Li, J. and Li, Z. (2019). Gradient boosting with piece-wise linear regression trees.
    IJCAI.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import PLGBRegressor
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = PLGBRegressor(n_estimators=1, learning_rate=1, max_leaves=2, reg_lambda=0)
    >>> model.fit(X, np.abs(X[:, 0])).predict([[-0.5], [0.25]]).round(3)
    array([0.5 , 0.25])
    """


@lists_losses
class PLGBClassifier(PiecewiseLinearModel, BoostedClassifier):
    """Gradient boosting with piece-wise linear trees, for classes.

    Every leaf is a line in a few features, and splits are chosen by what the lines of both
    children save. One tree per round for two classes, one per class and round for more; see
    `PLGBRegressor` for the method and for the parameters not described here.

    Parameters
    ----------
    objective : str or callable, optional
        Loss to minimise, one of:
        {xgboost: classification};
        or a function. By default the first for two classes, "multi:softprob" for more.
    n_estimators, learning_rate, max_leaves, max_depth, grow_policy, leaf_fit, max_leaf_features, \
refit_leaves, linear_features, extrapolation, extrapolation_margin, max_bin, search_rows, gamma, \
min_child_weight, min_samples_leaf, max_delta_step, subsample, colsample_bytree, \
colsample_bylevel, colsample_bynode, reg_alpha, reg_lambda, penalty_scale, missing, \
categorical_features, max_cat_to_onehot, monotone_constraints, interaction_constraints, \
importance_type, \
early_stopping_rounds, callbacks, random_state, n_jobs, verbose
        As in `PLGBRegressor`.
    scale_pos_weight, base_score, eval_metric, quantile_alpha, expectile_alpha, huber_slope, \
tweedie_variance_power
        As in `XGBClassifier`.

    Attributes
    ----------
    trees_, n_iter_, feature_importances_, best_iteration, best_score, n_features_in_, \
feature_names_in_
        As in `PLGBRegressor`.
    classes_, n_classes_
        As in `XGBClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import PLGBClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = PLGBClassifier(n_estimators=20).fit(X, np.where(X[:, 0] > 100, "high", "low"))
    >>> model.predict(X[-1:])
    array(['high'], dtype='<U4')
    """
