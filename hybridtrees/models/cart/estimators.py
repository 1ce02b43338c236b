"""CART: single trees with scikit-learn's parameter names, exact splits and pruning."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridtrees.models.cart.base import CARTModel
from hybridtrees.models.shared.class_weights import check_class_weight, class_factors, weight_rows
from hybridtrees.models.shared.targets import ClassTarget, RegressionTarget


class CARTRegressor(RegressionTarget, CARTModel):
    """A regression tree (Breiman, Friedman, Olshen and Stone 1984).

    Takes the parameters of scikit-learn's ``DecisionTreeRegressor``, with the same defaults, and
    grows the same tree where no two splits are equally good.

    Parameters
    ----------
    criterion : {"squared_error", "friedman_mse", "absolute_error", "poisson"}, \
default="squared_error"
        Impurity that splits reduce. Leaves predict the mean, under "absolute_error" the median.
    splitter : {"exact", "hist"}, default="exact"
        Search every threshold, or those between at most `max_bins` bins of each feature. "hist"
        is several times as fast for squared error and for the Gini index of two classes; with
        other criteria, several outputs, more classes, constraints or ``missing="stop"`` the bins
        are searched as the exact way searches values, in about its time. Under "exact" a
        feature whose values range over no more than 1e-7 counts as constant, as in scikit-learn.
    max_depth : int, optional
        Largest depth; by default as deep as the engine counts, 32,767 levels.
    min_samples_split : int or float, default=2
        Minimum number of rows of a node that is split, or their share of all rows.
    min_samples_leaf : int or float, default=1
        Minimum number of rows of a leaf, or their share of all rows.
    min_weight_fraction_leaf : float, default=0
        Minimum share of the total weight in a leaf.
    max_features : int, float, {"sqrt", "log2"} or None, default=None
        Features drawn for each split: a number, a share, or all.
    random_state : int, Generator, RandomState or None
        Seed of the draws of features and folds. Where it is given, equally good splits are drawn
        from too (under "hist" in nodes of at most 2,048 rows); otherwise the lowest feature and
        threshold is taken. The same seed gives the same tree for any `n_jobs`.
    max_leaf_nodes : int, optional
        Maximum number of leaves; the tree is then grown best split first.
    min_impurity_decrease : float, default=0
        Minimum decrease of a split, weighted by the share of the rows that reach it.
    ccp_alpha : float or "cv", default=0
        Price of a leaf in minimal cost-complexity pruning, or choose it by cross-validation. It is
        per row, as in scikit-learn: what the mean impurity over all rows, by weight, must fall by.
        A price for the sum of squares is divided by the sum of the weights.
    cv : int, splitter or iterable of (train, test), default=5
        Folds for ``ccp_alpha="cv"``; a number stands for folds drawn at random.
    cv_rule : {"best", "1se"}, default="best"
        Take the alpha of the smallest validation error, or the largest whose error is within one
        standard error of it.
    monotonic_cst : array-like or dict, optional
        1 or -1 for features with which predictions may only rise or fall, else 0; a dict gives
        them by name. One output only.
    missing : {"learn", "stop"}, default="learn"
        Where missing values go: to the side that is better in training (the larger one if there
        were none), or no further, so that the node where the row stands makes the prediction.
    categorical_features : array-like, optional
        Columns that hold categories (names, numbers or a mask), beside the string and category
        columns of a data frame. Categories are ordered by their mean response in the node (with
        several outputs or more than two classes, by each of them in turn) and cut like numbers,
        which is the best split into two sets unless `min_samples_leaf` or
        `min_weight_fraction_leaf` forbids it. A category that a node has not seen follows its
        larger child. Columns of identifiers are better left out: a split keeps a set of their
        values. Under "hist" the rarest of more than `max_bins` categories share a bin.
    max_bins : int, default=255
        Maximum number of bins of a feature under ``splitter="hist"``.
    n_jobs : int, optional
        Threads; all usable CPUs by default.
    verbose : int, default=0
        Whether to print a line for each fold of the cross-validation.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray
        The features of `fit`; names only where the table had them.
    tree_ : Tree
        The fitted tree.
    n_outputs_ : int
    max_features_ : int
        Features drawn for each split.
    ccp_alpha_ : float
        The alpha that the tree was pruned with.
    cv_alphas_, cv_scores_, cv_errors_ : ndarray of shape (n_alphas,)
        With ``ccp_alpha="cv"``: the smallest alpha of every subtree, its mean validation error
        (of the criterion's kind; the smaller the better), and the standard error of that.
    feature_importances_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTRegressor
    >>> X = np.arange(10.0)[:, None]
    >>> model = CARTRegressor(max_depth=1).fit(X, X[:, 0] > 3)
    >>> model.predict([[2.0], [7.0]])
    array([0., 1.])
    """

    _criteria = ("squared_error", "friedman_mse", "absolute_error", "poisson")

    criterion: str = "squared_error"


class CARTClassifier(ClassTarget, CARTModel):
    """A classification tree (Breiman, Friedman, Olshen and Stone 1984).

    Takes the parameters of scikit-learn's ``DecisionTreeClassifier``, with the same defaults, and
    grows the same tree where no two splits are equally good.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss", "misclassification"}, default="gini"
        Impurity that splits reduce; "log_loss" is another name of "entropy", which is in bits.
    splitter, max_depth, min_samples_split, min_samples_leaf, min_weight_fraction_leaf, \
max_features, random_state, max_leaf_nodes, min_impurity_decrease
        As in `CARTRegressor`.
    class_weight : dict, "balanced" or None
        Factors on the weights of the rows of each class, 1 for classes that a dict leaves out;
        "balanced" gives every class the same total.
    ccp_alpha, cv, cv_rule
        As in `CARTRegressor`; folds drawn at random have equal shares of each class.
    monotonic_cst : array-like or dict, optional
        As in `CARTRegressor`, for the probability of the second of two classes.
    missing, categorical_features, max_bins, n_jobs, verbose
        As in `CARTRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
    n_outputs_ : int
        Always 1.
    cv_alphas_, cv_scores_, cv_errors_ : ndarray of shape (n_alphas,)
        With ``ccp_alpha="cv"``: the smallest alpha of every subtree, its mean validation error
        (share of misclassified rows), and the standard error of that.
    tree_, max_features_, ccp_alpha_, feature_importances_, n_features_in_, feature_names_in_
        As in `CARTRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from hybridtrees import CARTClassifier
    >>> X = np.arange(10.0)[:, None]
    >>> model = CARTClassifier().fit(X, np.where(X[:, 0] > 3, "high", "low"))
    >>> model.predict([[2.0], [7.0]])
    array(['low', 'high'], dtype='<U4')
    """

    _criteria = ("gini", "entropy", "log_loss", "misclassification")

    criterion: str = "gini"
    class_weight: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_class_weight(self.class_weight)

    def _row_weight(self, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if self.class_weight is None:
            return weight
        factors = class_factors(self.class_weight, target, self.classes_)
        return weight_rows(factors, target, weight)

    def _probabilities(self, X: Any) -> np.ndarray:
        return self._predict_values(X)
