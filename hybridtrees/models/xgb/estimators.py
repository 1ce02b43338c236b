"""XGBoost-style boosting: Newton steps, regularised leaves, xgboost's parameter names."""

from __future__ import annotations

from hybridtrees.losses import lists_losses
from hybridtrees.models.shared.boosted_targets import BoostedClassifier, BoostedRegressor
from hybridtrees.models.xgb.base import XGBModel


@lists_losses
class XGBRegressor(XGBModel, BoostedRegressor):
    """Gradient boosting as in XGBoost, for a number.

    Newton boosting with regularised leaves (Chen and Guestrin 2016), on binned features unless
    `tree_method` says otherwise. Takes the parameters of ``xgboost.XGBRegressor`` that the two
    share, with the same defaults.

    Parameters
    ----------
    objective : str or callable, optional
        Loss to minimise, by default the first of:
        {xgboost: regression};
        or a function ``objective(y_true, raw[, sample_weight])`` that returns gradients and
        hessians. The kinks of the absolute and of the quantile error are rounded, in every round
        in proportion to the residuals, as in xgboost since 3.4.
    n_estimators : int, default=100
        Boosting rounds.
    max_depth : int or None, default=6
        Largest depth of a tree; 0 or None for no limit.
    max_leaves : int, default=0
        Maximum number of leaves of a tree; 0 for no limit.
    max_bin : int, default=256
        Bins of a feature, at most 256; one of 256 is kept for missing values. Not used by
        ``tree_method="exact"``.
    grow_policy : {"depthwise", "lossguide"}, default="depthwise"
        Split level by level, or where the gain is largest.
    learning_rate : float, default=0.3
        Factor on every tree.
    tree_method : {"hist", "auto", "exact", "approx"}, default="hist"
        Which thresholds are tried. "hist" (the same as "auto"): the edges of bins that are made
        once per fit. "exact": all of them. "approx": quantiles weighted by the hessians of the
        round, proposed anew as `sketch` says.
    sketch : {"global", "local"}, default="global"
        How often "approx" proposes thresholds: once per tree, at most `max_bin` per feature; or
        at every node, from its own rows, one for each `max_bin`-th part of their hessian.
    gamma : float, default=0
        Minimum gain of a split. As in xgboost, the gain has no factor of one half: gamma is twice
        that of the formulas in the literature. "hist" and "approx" make no split of less gain;
        "exact" prunes afterwards, and keeps such a split if there is a better one below it.
    min_child_weight : float, default=1
        Minimum sum of hessians in a child.
    max_delta_step : float, default=0
        Largest leaf value before the learning rate; 0 for no limit, under "count:poisson" for
        0.7.
    subsample : float, default=1
        Share of the rows drawn for each round.
    colsample_bytree, colsample_bylevel, colsample_bynode : float, default=1
        Share of the features drawn for each tree, of these for each level, of these for each
        node.
    reg_alpha, reg_lambda : float, default=0 and 1
        L1 and L2 penalty of leaf values.
    scale_pos_weight : float, default=1
        Not used in regression.
    base_score : float or list of floats, optional
        Prediction to start from, or one per output; the best constant by default, which is the
        mean of y for squared error and its median for absolute error.
    missing : float, default=nan
        A value that means missing, beside NaN.
    categorical_features : None, "from_dtype" or array-like, default=None
        Which features hold categories. None and "from_dtype" mean the same: those columns of a
        data frame (or dict of columns) that have a string or category type. An array-like names
        further ones, by index (``[0, -1]``), by column name (``["city"]``) or by a mask with one
        boolean per feature; text in a bare array is allowed in these only. The values need not
        be codes: the distinct ones of `fit` are numbered, and a value not seen in `fit` is
        treated as missing.
    feature_types : list of {"q", "c", "i", "int", "float"}, optional
        Kind of each feature, "c" for categories; another way to say `categorical_features`.
    enable_categorical : bool, default=True
        Whether features that hold categories are allowed.
    max_cat_to_onehot : int, default=4
        A feature of fewer categories is split one category against the rest, others by sets of
        categories; where every row is looked at ("exact", and "approx" with a local sketch),
        all by sets.
    monotone_constraints : array-like, dict or str, optional
        1 where the prediction may only rise with a feature, -1 where it may only fall, else 0:
        one entry per feature, or a dict by name or number.
    interaction_constraints : list of lists or str, optional
        Groups of features, by name or number, that may be split on along one path. A feature in
        no group stands alone. At most 63 groups.
    quantile_alpha, expectile_alpha : float or list of floats, optional
        Levels of "reg:quantileerror" and "reg:expectileerror". With several levels a tree is
        grown for each in every round, and the predictions of a row are sorted, so that they
        never cross.
    huber_slope : float, default=1
        Where "reg:pseudohubererror" goes over from squares to absolute values.
    tweedie_variance_power : float, default=1.5
        Variance power of "reg:tweedie", in [1, 2).
    importance_type : {"gain", "weight", "cover", "total_gain", "total_cover"}, default="gain"
        What `feature_importances_` measures.
    early_stopping_rounds : int, optional
        Stop when the last metric on the last validation table has not improved for so many
        rounds; `predict` then uses the best round.
    eval_metric : str, callable or list of these, optional
        Metrics for the validation tables, by name ("rmse", "mae", "mse", "r2", "mape", "rmsle",
        and that of the objective, which is the default) or as functions
        ``metric(y_true, y_pred[, sample_weight])``, of which smaller values are better.
    callbacks : list, optional
        Objects that look on and may end the training, see `hybridtrees.callbacks`.
    random_state : int, Generator, RandomState or None
        Seed of the row and feature draws. The same seed gives the same model for any `n_jobs`.
    n_jobs : int, optional
        Threads; all usable CPUs by default.
    verbose : int, default=0
        Print a line every so many rounds, with elapsed and remaining time; on a terminal with a
        progress bar, if tqdm is installed.
    booster, multi_strategy, num_parallel_tree, sampling_method, device, feature_weights, \
max_cat_threshold : optional
        Of xgboost, with one value each: "gbtree", "one_output_per_tree", 1, "uniform", "cpu", and
        None for the last two. Others are refused.
    verbosity, validate_parameters : optional
        Of xgboost, without effect: there are no messages, and parameters are always checked.

    Attributes
    ----------
    trees_ : TreeEnsemble
        The fitted trees.
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    n_iter_ : int
        Rounds that were run.
    feature_importances_ : ndarray of shape (n_features,)
    best_iteration, best_score : int, float
        With early stopping.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBRegressor
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBRegressor(n_estimators=20).fit(X, X[:, 0] > 100)
    >>> model.predict(X[:1]).round(2)
    array([0.])
    """


@lists_losses
class XGBClassifier(XGBModel, BoostedClassifier):
    """Gradient boosting as in XGBoost, for classes.

    Newton boosting with regularised leaves (Chen and Guestrin 2016): one tree per round for two
    classes, one per class and round for more. Takes the parameters of ``xgboost.XGBClassifier``
    that the two share, with the same defaults; see `XGBRegressor` for those not described here.

    Parameters
    ----------
    objective : str or callable, optional
        Loss to minimise, one of:
        {xgboost: classification};
        or a function as in `XGBRegressor`. By default the first for two classes, "multi:softprob"
        for more. "binary:hinge" gives labels without probabilities, "multi:softmax" is the same as
        "multi:softprob".
    n_estimators, max_depth, max_leaves, max_bin, grow_policy, learning_rate, tree_method, sketch, \
gamma, min_child_weight, max_delta_step, subsample, colsample_bytree, colsample_bylevel, \
colsample_bynode, reg_alpha, reg_lambda, missing, categorical_features, feature_types, \
enable_categorical, max_cat_to_onehot, monotone_constraints, interaction_constraints, \
importance_type, early_stopping_rounds, callbacks, random_state, n_jobs, verbose, booster, \
multi_strategy, num_parallel_tree, sampling_method, device, feature_weights, max_cat_threshold, \
verbosity, validate_parameters
        As in `XGBRegressor`.
    quantile_alpha, expectile_alpha, huber_slope, tweedie_variance_power
        Of objectives of regression; not used.
    scale_pos_weight : float, default=1
        Factor on the weights of the second class, for two classes.
    base_score : float or list of floats, optional
        Probability of the second class to start from (two classes), or raw score of every class
        or of each (more); by default the shares of the classes.
    eval_metric : str, callable or list of these, optional
        "logloss", "error", "auc", "aucpr", "brier" for two classes, "mlogloss", "merror", "auc",
        "aucpr" for more, or functions; the log-loss by default. Functions get class numbers, and
        probabilities of the second class or of each.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    trees_, n_iter_, feature_importances_, best_iteration, best_score, n_features_in_, \
feature_names_in_
        As in `XGBRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import XGBClassifier
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = XGBClassifier(n_estimators=20).fit(X, np.where(X[:, 0] > 100, "high", "low"))
    >>> model.predict(X[-1:])
    array(['high'], dtype='<U4')
    """
