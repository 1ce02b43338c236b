"""Fit and reports of CART, without the target."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_option, check_real
from hybridtrees._sklearn_trees import TreeOfScikitLearn
from hybridtrees.core.base.checks import check_arrays, check_numbers
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.bins.binned_table import BinnedTable
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.tree.additive import AdditiveForm, Link, feature_columns, joined
from hybridtrees.core.tree.paths import leaf_weights
from hybridtrees.core.tree.pruning import PruningPath, prune_at, pruning_path
from hybridtrees.core.tree.readable import ReadableTree
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.core.tree.walk import find_values
from hybridtrees.input.folds import check_cv, make_folds
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.models.cart.cross_validation import CV_RULES, cross_validate
from hybridtrees.models.shared.binned_fit import check_bins, refuse_bins
from hybridtrees.models.shared.fitted_checks import check_one_tree
from hybridtrees.models.shared.importance import importance_lines
from hybridtrees.models.shared.tree_models import SingleTree
from hybridtrees.models.shared.tree_parameters import ImpurityTreeParameters


class CARTModel(TreeOfScikitLearn, SingleTree, ImpurityTreeParameters):
    """A single tree with constant leaves, without the target.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        Seed of the features drawn and of the folds. If it is given, ties between splits are also
        broken at random (under "hist", in nodes of at most 2,048 rows); otherwise the first feature
        and the lowest threshold win. The same seed gives the same tree for any `n_jobs`.
    ccp_alpha : float or "cv"
        Complexity parameter of minimal cost-complexity pruning; "cv" chooses it by
        cross-validation. It is per row, like that of scikit-learn: a leaf must lower the weighted
        mean impurity of all rows by this much. A value for the sum of squares must be divided by
        the sum of the weights.
    cv : int, splitter or iterable of (train, test)
        Folds for ``ccp_alpha="cv"``; an integer is a number of random folds, of classes stratified.
    cv_rule : {"best", "1se"}
        Take the alpha of the smallest validation error, or the largest whose error is within one
        standard error of it.
    verbose : int
        Whether to print a line for each fold of the cross-validation.

    Attributes
    ----------
    tree_ : ReadableTree
        The fitted tree, with our names and those of scikit-learn, whose `plot_tree`, `export_text`
        and `export_graphviz` accept it unless a split is on categories.
    ccp_alpha_ : float
        The alpha that the tree was pruned with.
    cv_alphas_, cv_scores_, cv_errors_ : ndarray of shape (n_alphas,)
        With ``ccp_alpha="cv"``: the smallest alpha of every subtree, its mean validation error (by
        the criterion, the error rate of a classifier; smaller is better), and the standard error of
        that.
    """

    cv: Any = 5
    cv_rule: Literal["best", "1se"] = "best"

    # -- fit ------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Grow the tree, and prune it."""
        self._check_parameters()
        cv = check_cv(self.cv)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_threads = table_threads(self.n_jobs, *values.shape)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._weigh_classes(target, weight)
        values = self._order_categories(values, target, weight)
        recipe = self._recipe(n_threads)
        alpha = self.ccp_alpha
        folds = None
        if isinstance(alpha, str):
            rng = np.random.default_rng(seeds.spawn(1)[0])
            classes = target if target.ndim == 1 else None
            folds = make_folds(cv, len(target), classes, weight, rng=rng)
            if len(folds) < 2:
                raise ValueError(f"cv must have at least two folds, got {len(folds)}")
        grown = recipe.grow(values, target, weight, int(seeds.generate_state(1, np.uint64)[0]))
        for name in ("cv_alphas_", "cv_scores_", "cv_errors_"):
            self.__dict__.pop(name, None)
        if folds is not None:
            curve = cross_validate(
                recipe, grown, values, target, weight, folds, seeds.spawn(1)[0], self.verbose
            )
            self.cv_alphas_, self.cv_scores_, self.cv_errors_ = curve
            alpha = curve.choose(self.cv_rule)
        self.ccp_alpha_ = float(alpha)
        self.max_features_ = recipe.max_features
        self._keep_tree(grown, weight)

    def _check_binned(self, table: BinnedTable) -> None:
        """Refuse a table in bins if the fit would need values."""
        if self.splitter != "hist":
            refuse_bins(self, "splitter", "'hist'")
        if isinstance(self.ccp_alpha, str):
            refuse_bins(self, "ccp_alpha", "a number")
        check_bins(self, table, "max_bins", self.max_bins)

    def _check_parameters(self) -> None:
        """Check what can be checked without the data."""
        self._check_tree_parameters()
        if isinstance(self.ccp_alpha, str):
            if self.ccp_alpha != "cv":
                raise ValueError(
                    f"ccp_alpha must be a real number of at least 0 or 'cv', got {self.ccp_alpha!r}"
                )
        else:
            check_real("ccp_alpha", self.ccp_alpha, 0)
        check_option("cv_rule", self.cv_rule, CV_RULES)

    def _keep_tree(self, grown: Grown, weight: np.ndarray | None) -> None:
        """Prune the tree and keep what predictions and `leaf_weights` need."""
        tree, leaf = prune_at(grown.tree, self.ccp_alpha_, grown.leaf)
        assert tree.impurity is not None
        self._trees = TreeEnsemble([tree], self.n_features_in_, tree.values.shape[1])
        self._impurity = tree.impurity
        self._train_leaves = leaf
        self._train_weight = weight

    def _check_fitted(self) -> None:
        trees = check_one_tree(self, self._n_classes() or self.n_outputs_)
        sizes = check_arrays(self, {"_train_leaves": ("i4", "n_rows")})
        check_numbers(self._train_leaves, "_train_leaves", -1, len(trees.nodes))
        if self._train_weight is not None:
            check_arrays(self, {"_train_weight": ("f8", "n_rows")}, sizes)

    @property
    def tree_(self) -> ReadableTree:
        """The fitted tree, its arrays shared with the estimator."""
        tree = super().tree_
        n_classes = self._n_classes()
        output_classes = (n_classes,) if n_classes else (1,) * self.n_outputs_
        return ReadableTree.of(tree, self.n_features_in_, output_classes)

    # -- predict --------------------------------------------------------------------------------

    def _predict_values(self, X: Any) -> np.ndarray:
        """Return the values of the nodes where rows end, (n_rows, n_values)."""
        values = self._read_features(X)
        return find_values(self._trees, values, self._predict_threads(values.shape[0]))

    def _additive_form(self) -> AdditiveForm:
        return AdditiveForm(
            np.zeros(self._trees.values.shape[1]),
            joined([self._trees[0]], self.n_features_in_, self._trees.values.shape[1]),
            feature_columns(self._reader),
            Link("shares" if self._n_classes() else "identity"),
            self._reader,
            vars(self).get("classes_"),
        )

    def leaf_weights(self, X: Any) -> scipy.sparse.csr_array:
        """Return the weights of the training rows in the predictions.

        Their product with the target of `fit` is the prediction, and with the indicators of the
        classes their probabilities. Exceptions are ``criterion="absolute_error"``, which predicts
        the weighted median instead of the mean, and leaves whose value was clipped by a monotonic
        constraint.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        weights : csr_array of shape (n_rows, n_train)
            Each row sums to 1.
        """
        leaves = self.apply(X)
        return leaf_weights(self.tree_, leaves, self._train_leaves, self._train_weight)

    # -- reading the tree -----------------------------------------------------------------------

    def cost_complexity_pruning_path(
        self, X: Any, y: Any, sample_weight: Any = None
    ) -> PruningPath:
        """Grow a tree and return the alphas at which pruning changes it.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows. The estimator itself is not changed.

        Returns
        -------
        path : PruningPath
            `ccp_alphas` and `impurities`: the smallest alpha of every subtree, from the full tree
            to the root, and the total impurity of its leaves. An alpha between two entries gives
            the subtree of the smaller one.
        """
        whole = type(self)(**{**self.get_params(deep=False), "ccp_alpha": 0.0})
        return pruning_path(whole.fit(X, y, sample_weight).tree_)

    def summary(self) -> str:
        """Summarise the tree: size, impurities, pruning, importances.

        Returns
        -------
        text : str
        """
        tree = self.tree_
        leaves = tree.nodes[tree.nodes["left"] < 0]
        lines = [
            f"{type(self).__name__}: {self.criterion}, {self.splitter} splits",
            f"rows {tree.nodes['n_samples'][0]}, features {self.n_features_in_}, {self._outputs()}",
            f"nodes {tree.n_nodes}, leaves {tree.n_leaves}, depth {tree.depth}",
            f"rows of a leaf: min {leaves['n_samples'].min()}, median "
            f"{np.median(leaves['n_samples']):g}, max {leaves['n_samples'].max()}",
        ]
        share = leaves["weight"] / tree.nodes["weight"][0]
        within = float(share @ self._impurity[tree.nodes["left"] < 0])
        lines.append(f"impurity: root {self._impurity[0]:.6g}, mean of the leaves {within:.6g}")
        if "cv_alphas_" in vars(self):
            k = int(np.searchsorted(self.cv_alphas_, self.ccp_alpha_))
            lines.append(
                f"pruned with alpha {self.ccp_alpha_:.6g} (rule {self.cv_rule!r}), validation "
                f"error {self.cv_scores_[k]:.6g} +- {self.cv_errors_[k]:.2g}"
            )
        elif self.ccp_alpha_ > 0:
            lines.append(f"pruned with alpha {self.ccp_alpha_:.6g}")
        names = vars(self).get("feature_names_in_")
        return "\n".join(lines + importance_lines(self.feature_importances_, names))
