"""Linear trees: a regression in every leaf, splits chosen by the loss of these regressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.base import DecisionMixin
from hybridtrees.models.linear_tree.base import (
    LinearClassTarget,
    LinearRegressionTarget,
    LinearTreeModel,
)
from hybridtrees.models.linear_tree.node_fitters import probabilities


class LinearTreeRegressor(LinearRegressionTarget, LinearTreeModel):
    """A tree with a linear regression in every leaf.

    Each candidate split is rated by the loss of regressions fitted to both sides, which are
    solved from sums over bins.

    Parameters
    ----------
    criterion : {"squared_error", "absolute_error"}, default="squared_error"
        Loss of the regressions and of the splits. Under "absolute_error" candidates are ranked by
        a weighted squared error, and the best five of a node are fitted in full.
    penalty : {None, "ridge", "lasso", "elasticnet"}, default="ridge"
    alpha : float, default=1e-3
        Strength of the penalty, per row as in `LinearRegressor`: a leaf is what that estimator
        gives on the leaf's rows. Splits are compared by the loss without the penalty.
    l1_ratio : float, default=0.5
        Share of the L1 part under "elasticnet".
    standardize : bool, default=True
        Whether the penalty is on regressors of unit spread in the leaf, or on them as they came.
    alpha_scaling : {"mean", "sum"}, default="mean"
        Whether the penalty is added to half the mean of the squared errors or to half their sum;
        with "sum" and ``standardize=False`` a ridge is that of scikit-learn's ``Ridge(alpha)``.
    max_depth : int or None, default=5
        Largest depth.
    min_samples_split : int or float, default=6
        Minimum number of rows of a node that is split, or their share of all rows.
    min_samples_leaf : int, float or "auto", default="auto"
        Minimum number of rows of a leaf, or their share of all rows. "auto" is twice the
        number of coefficients, at least 10.
    min_impurity_decrease : float, default=0
        Minimum decrease of a split, weighted by the share of the rows that reach it.
    max_leaf_nodes : int, optional
        Maximum number of leaves; the tree is then grown best split first.
    max_bins : int, default=64
        Bins of a feature, between which it may be cut.
    candidates : {"bins", "quantiles"}, default="bins"
        Cut between bins of about equal weight, or at ``max_bins - 2`` interpolated quantiles of
        the whole table, as linear-tree does.
    search : {"auto", "exact", "screened"}, default="auto"
        Try all candidates of all features in every node ("exact"), or only those of a tenth of
        the features, 8 at least ("screened"): the ones whose cuts go along best with the
        residuals of the node's own fit. "auto" screens with more than 40 regressors. On 73
        generated tables of 60 or 100 features (correlated, mostly zero, one-hot, with little or
        nothing to find) and on one-hot house prices it found the best cut of all in all but two
        cases; these gained 2 and 3 % less, and the cut of the superconductivity data 1 % less.
    linear_features, split_features : array-like, optional
        Regressors, and features to split on: names, numbers or masks; all by default.
    categorical_features : array-like, optional
        Columns that hold categories (names, numbers or a mask), beside the string and category
        columns of a data frame. They are ordered by their mean residual and split like numbers.
    categorical_effects : bool, default=False
        Whether categories also have effects in the regressions of the leaves.
    max_features : int, float, {"sqrt", "log2"} or None, default=None
        Features drawn for each split.
    extrapolate : {"bounded", "clip", "linear"}, default="bounded"
        What a leaf predicts outside the data it was fitted to: its line within the range of its
        targets widened by `bound_factor`, its line at regressors clipped to their ranges in the
        leaf, or its line without end.
    bound_factor : float, default=1
        Share of the range of a leaf's targets by which "bounded" widens it on either side.
    smoothing : float, default=0
        Rows that the model of a node counts for when predictions are smoothed along the path to
        the root, as M5 does it with 15.
    pruning : {"auto", "bic", "aic", None}, default="auto"
        Undo the splits that lower an information criterion of the training rows by too little to
        pay for the coefficients they add: each costs the logarithm of the number of rows under
        "bic", 2 under "aic". "auto" is "bic", and None where `ccp_alpha` or
        `validation_fraction` prune. None keeps every split that lowers the loss. Weights that
        are whole numbers count as repeated rows, others relative to their mean.
    ccp_alpha : float, default=0
        Price of a leaf in minimal cost-complexity pruning, per row: what the mean loss must fall
        by, as in `CARTRegressor`.
    validation_fraction : float, optional
        Share of the rows that is set aside while the tree grows. Splits that do not lower the
        loss on them are undone, and the leaves are then fitted to all rows.
    random_state : int, Generator, RandomState or None
        Seed of the draws of features and of the rows set aside.
    n_jobs : int, optional
        Threads; all usable CPUs by default. The tree does not depend on it.
    verbose : int, default=0
        Not used.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    tree_ : Tree
        The fitted tree. Missing regressors count as their means in the whole table.
    n_outputs_ : int
    max_features_ : int
    feature_importances_ : ndarray of shape (n_features,)

    Notes
    -----
    In a leaf without a penalty and with fewer rows than coefficients plus one, the model is a
    constant. A regressor of which others in the leaf leave less than 1e-10 of its variation is
    left out while candidates are compared; in the leaves dependent regressors get the solution of
    minimum norm.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearTreeRegressor
    >>> X = np.arange(100.0)[:, None]
    >>> y = np.abs(X[:, 0] - 40)
    >>> model = LinearTreeRegressor(penalty=None, max_bins=100).fit(X, y)
    >>> model.get_n_leaves()
    2
    >>> model.predict([[10.5], [60.5]]).round(6)
    array([29.5, 20.5])
    """


class LinearTreeClassifier(DecisionMixin, LinearClassTarget, LinearTreeModel):
    """A tree with a logistic (multinomial) regression in every leaf.

    Candidate splits are ranked by the quadratic (Newton) loss around the node's own fit, solved
    from sums over bins; the best five of a node are fitted in full on both sides.

    Parameters
    ----------
    criterion : {"log_loss", "gini", "misclassification"}, default="log_loss"
        What the split chosen among the best candidates lowers most: the log-loss, the squared
        distance of the fitted probabilities from the classes (with constants in the leaves: the
        Gini index), or the share of misclassified rows.
    penalty, alpha, l1_ratio, standardize, alpha_scaling
        As in `LinearTreeRegressor`, for the log-loss: a leaf is what `LogisticClassifier` gives on
        its rows. With ``alpha_scaling="sum"`` and ``standardize=False``, alpha is the 1/C of
        scikit-learn's ``LogisticRegression``.
    max_depth, min_samples_split, min_samples_leaf, min_impurity_decrease, max_leaf_nodes, \
max_bins, candidates
        As in `LinearTreeRegressor`.
    search : {"auto", "exact", "screened"}, default="auto"
        As in `LinearTreeRegressor`; "exact" also fits all candidates in full, not the best only.
    linear_features, split_features, categorical_features, categorical_effects, max_features
        As in `LinearTreeRegressor`.
    extrapolate, bound_factor
        As in `LinearTreeRegressor`; "bounded" keeps scores within the range of those of the
        leaf's rows, widened.
    smoothing, pruning, ccp_alpha, validation_fraction, random_state, n_jobs, verbose
        As in `LinearTreeRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    tree_ : Tree
        The fitted tree; its outputs are scores.
    max_features_, feature_importances_, n_features_in_, feature_names_in_
        As in `LinearTreeRegressor`.

    Notes
    -----
    A class that is absent from a leaf keeps there the score of half a row, whatever the regressors
    say; a leaf with one class is a constant.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import LinearTreeClassifier
    >>> X = np.linspace(-2, 2, 200)[:, None]
    >>> y = np.where(np.abs(X[:, 0]) > 1, "outside", "inside")
    >>> model = LinearTreeClassifier().fit(X, y)
    >>> model.predict([[0.0], [1.5]])
    array(['inside', 'outside'], dtype='<U7')
    """

    def _probabilities(self, X: Any) -> np.ndarray:
        proba = probabilities(self.predict_raw(X))
        return np.ones((len(proba), 1)) if self.n_classes_ == 1 else proba
