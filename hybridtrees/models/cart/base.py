"""What the CART regressor and classifier share: all but the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_option, check_real
from hybridtrees.core.base.checks import check_arrays, check_numbers
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import table_threads
from hybridtrees.core.grow.grown import Grown
from hybridtrees.core.tree.paths import leaf_weights
from hybridtrees.core.tree.pruning import PruningPath, collapse_alphas, prune_nodes, pruning_path
from hybridtrees.core.tree.tree import TreeEnsemble
from hybridtrees.core.tree.walk import find_values
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.models.cart.cross_validation import CV_RULES, check_cv, cross_validate, make_folds
from hybridtrees.models.shared.fitted_checks import check_one_tree
from hybridtrees.models.shared.importance import importance_lines
from hybridtrees.models.shared.tree_models import SingleTree
from hybridtrees.models.shared.tree_parameters import ImpurityTreeParameters


class CARTModel(SingleTree, ImpurityTreeParameters):
    """What the regressor and the classifier share: everything but the target."""

    cv: Any = 5
    cv_rule: str = "best"

    def _row_weight(self, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        return weight

    def _outputs(self) -> str:
        """Return the number of outputs or classes, in words."""
        raise NotImplementedError

    # -- fit ------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Grow the tree, and prune it."""
        self._check_parameters()
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        n_threads = table_threads(self.n_jobs, *values.shape)
        target = self._encode_target(y, values.shape[0])
        weight = check_sample_weight(sample_weight, values.shape[0])
        weight = self._row_weight(target, weight)
        recipe = self._recipe(n_threads)
        alpha = self.ccp_alpha
        folds = None
        if isinstance(alpha, str):
            folds = make_folds(self.cv, target, weight, np.random.default_rng(seeds.spawn(1)[0]))
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

    def _check_parameters(self) -> None:
        """Check all that can be checked without the data."""
        self._check_tree_parameters()
        if isinstance(self.ccp_alpha, str):
            if self.ccp_alpha != "cv":
                raise ValueError(
                    f"ccp_alpha must be a real number of at least 0 or 'cv', got {self.ccp_alpha!r}"
                )
        else:
            check_real("ccp_alpha", self.ccp_alpha, 0)
        check_cv(self.cv)
        check_option("cv_rule", self.cv_rule, CV_RULES)

    def _keep_tree(self, grown: Grown, weight: np.ndarray | None) -> None:
        """Prune the tree and keep what predictions and `leaf_weights` need."""
        tree, impurity, leaf = grown.tree, grown.impurity, grown.leaf
        # A price of 0 leaves the tree as it is, although branches that bring nothing could go.
        if self.ccp_alpha_ > 0:
            splits = collapse_alphas(tree, impurity) > self.ccp_alpha_
            tree, new_node = prune_nodes(tree, splits, impurity)
            leaf = np.where(leaf < 0, leaf, new_node[leaf])
            assert tree.impurity is not None
            impurity = tree.impurity
        self._trees = TreeEnsemble([tree], self.n_features_in_, tree.values.shape[1])
        self._impurity = impurity
        self._train_leaves = leaf
        self._train_weight = weight

    def _check_fitted(self) -> None:
        trees = check_one_tree(self, self._n_classes() or self.n_outputs_)
        sizes = check_arrays(self, {"_train_leaves": ("i4", "n_rows")})
        check_numbers(self._train_leaves, "_train_leaves", -1, len(trees.nodes))
        if self._train_weight is not None:
            check_arrays(self, {"_train_weight": ("f8", "n_rows")}, sizes)

    # -- predict --------------------------------------------------------------------------------

    def _predict_values(self, X: Any) -> np.ndarray:
        """Values of the nodes where rows end, (n_rows, n_values)."""
        values = self._read_features(X)
        return find_values(self._trees, values, self._predict_threads(values.shape[0]))

    def leaf_weights(self, X: Any) -> scipy.sparse.csr_array:
        """Weights with which the training rows make up the predictions.

        Multiplied with the target of `fit` they give the predictions, and with indicators of the
        classes their probabilities. Exceptions are ``criterion="absolute_error"``, which predicts
        the median under these weights instead of the mean, and leaves whose value a monotonic
        constraint has moved.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        weights : csr_array of shape (n_rows, n_train)
            Each row adds up to 1.
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
        X, y, sample_weight
            As in `fit`. The estimator is left as it is.

        Returns
        -------
        path : PruningPath
            `ccp_alphas` and `impurities`: the smallest alpha of every subtree, from the whole tree
            to the root, and the impurity of its leaves. The pruned tree of any alpha is that of
            the largest entry that is not above it.
        """
        whole = type(self)(**{**self.get_params(deep=False), "ccp_alpha": 0.0})
        return pruning_path(whole.fit(X, y, sample_weight).tree_)

    def summary(self) -> str:
        """Return a short account of the tree in words.

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
