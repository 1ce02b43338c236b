"""What the CART regressor and classifier share: all but the target."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse

from hybridtrees._parameters import check_integer, check_option, check_real
from hybridtrees.base import Estimator, atomic_fit
from hybridtrees.core.base.checks import check_arrays, check_numbers
from hybridtrees.core.base.random_state import seed_sequence
from hybridtrees.core.base.threads import effective_threads, threads_for_table
from hybridtrees.core.grow.cart import GrownTree
from hybridtrees.core.tree.paths import decision_path, leaf_weights
from hybridtrees.core.tree.pruning import (
    PruningPath,
    collapse_alphas,
    impurity_decrease,
    prune_nodes,
    pruning_path,
)
from hybridtrees.core.tree.tree import Tree, TreeEnsemble
from hybridtrees.core.tree.walk import find_leaves, find_values
from hybridtrees.input.validation import check_sample_weight
from hybridtrees.models.cart.cross_validation import (
    CV_RULES,
    Curve,
    check_cv,
    cross_validate,
    make_folds,
)
from hybridtrees.models.shared.constraints import read_monotonic
from hybridtrees.models.shared.fitted_checks import check_one_tree
from hybridtrees.models.shared.tree_parameters import (
    MAX_BINS,
    MISSING,
    SPLITTERS,
    Recipe,
    check_max_features,
    check_rows,
    count_features,
)

# Features that a summary lists.
_MOST_LISTED = 10


class CARTModel(Estimator):
    """What the regressor and the classifier share: everything but the target."""

    _criteria: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        criterion: str,
        splitter: str = "exact",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: int | float | str | None = None,
        random_state: Any = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float | str = 0.0,
        cv: Any = 5,
        cv_rule: str = "best",
        monotonic_cst: Any = None,
        missing: str = "learn",
        categorical_features: Any = None,
        max_bins: int = MAX_BINS,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.criterion = criterion
        self.splitter = splitter
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.max_features = max_features
        self.random_state = random_state
        self.max_leaf_nodes = max_leaf_nodes
        self.min_impurity_decrease = min_impurity_decrease
        self.ccp_alpha = ccp_alpha
        self.cv = cv
        self.cv_rule = cv_rule
        self.monotonic_cst = monotonic_cst
        self.missing = missing
        self.categorical_features = categorical_features
        self.max_bins = max_bins
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- what the two differ in -----------------------------------------------------------------

    def _encode_target(self, y: Any, n_rows: int) -> np.ndarray:
        raise AttributeError("the regressor and the classifier bring this")

    def _row_weight(self, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        return weight

    def _n_classes(self) -> int:
        return 0

    def _constraints(self) -> np.ndarray | None:
        names = self._reader.feature_names_in
        mask = self._reader.is_categorical
        return read_monotonic(self.monotonic_cst, names, mask, "monotonic_cst")

    # -- fit ------------------------------------------------------------------------------------

    @atomic_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree, and prune it.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            NaN means missing. String and category columns of a data frame are categories.
        y : array-like of shape (n_rows,)
            In regression also of shape (n_rows, n_outputs).
        sample_weight : array-like of shape (n_rows,), optional
            Rows of weight zero are left out.

        Returns
        -------
        self : estimator
        """
        self._check_parameters()
        n_threads = effective_threads(self.n_jobs)
        seeds = seed_sequence(self.random_state)
        values = self._fit_features(X, categorical_features=self.categorical_features)
        # Threads wait for each other longer than they work on a small table.
        n_threads = threads_for_table(n_threads, *values.shape)
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
            self._keep_curve(curve)
            alpha = curve.choose(self.cv_rule)
        self.ccp_alpha_ = float(alpha)
        self.max_features_ = recipe.max_features
        self._keep_tree(grown, weight)
        return self

    def _check_parameters(self) -> None:
        """Check all that can be checked without the data."""
        check_option("criterion", self.criterion, self._criteria)
        check_option("splitter", self.splitter, SPLITTERS)
        check_option("missing", self.missing, MISSING)
        check_integer("max_depth", self.max_depth, 1, allow_none=True)
        check_rows("min_samples_split", self.min_samples_split, 2, closed="right")
        check_rows("min_samples_leaf", self.min_samples_leaf, 1, closed="neither")
        check_real("min_weight_fraction_leaf", self.min_weight_fraction_leaf, 0, 0.5)
        check_max_features(self.max_features)
        check_integer("max_leaf_nodes", self.max_leaf_nodes, 2, allow_none=True)
        check_real("min_impurity_decrease", self.min_impurity_decrease, 0)
        if isinstance(self.ccp_alpha, str):
            if self.ccp_alpha != "cv":
                raise ValueError(
                    f"ccp_alpha must be a real number of at least 0 or 'cv', got {self.ccp_alpha!r}"
                )
        else:
            check_real("ccp_alpha", self.ccp_alpha, 0)
        check_cv(self.cv)
        check_option("cv_rule", self.cv_rule, CV_RULES)
        check_integer("max_bins", self.max_bins, 2, MAX_BINS)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, 0)

    def _recipe(self, n_threads: int) -> Recipe:
        return Recipe(
            criterion=str(self.criterion),
            splitter=str(self.splitter),
            max_depth=None if self.max_depth is None else min(int(self.max_depth), 2**15 - 1),
            min_samples_split=check_rows(
                "min_samples_split", self.min_samples_split, 2, closed="right"
            ),
            min_samples_leaf=check_rows(
                "min_samples_leaf", self.min_samples_leaf, 1, closed="neither"
            ),
            min_weight_fraction_leaf=float(self.min_weight_fraction_leaf),
            min_impurity_decrease=float(self.min_impurity_decrease),
            max_leaf_nodes=None if self.max_leaf_nodes is None else int(self.max_leaf_nodes),
            max_bins=int(self.max_bins),
            missing=str(self.missing),
            max_features=count_features(self.max_features, self.n_features_in_),
            n_classes=self._n_classes(),
            is_categorical=self._reader.is_categorical,
            monotonic=self._constraints(),
            random_ties=self.random_state is not None,
            n_threads=n_threads,
        )

    def _keep_curve(self, curve: Curve) -> None:
        self.cv_alphas_, self.cv_scores_, self.cv_errors_ = curve

    def _keep_tree(self, grown: GrownTree, weight: np.ndarray | None) -> None:
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

    def _predict_threads(self, n_rows: int) -> int:
        # A few rows are done before a second thread would have woken up.
        return 1 if n_rows < 512 else effective_threads(self.n_jobs)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows,)
            Numbers of nodes of `tree_`. With ``missing="stop"`` a row may end at an inner node.
        """
        values = self._read_features(X)
        return find_leaves(self._trees, values, self._predict_threads(values.shape[0]))

    def decision_path(self, X: Any) -> scipy.sparse.csr_matrix:
        """Nodes that each row comes through.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the way, the root and the leaf included.
        """
        return decision_path(self.tree_, self.apply(X))

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

    @property
    def tree_(self) -> Tree:
        """The fitted tree, its arrays shared with the estimator."""
        self._check_is_fitted()
        trees = self._trees
        # The ensemble keeps one word behind the category sets.
        tree = Tree(trees.nodes, trees.values, trees.categories[:-1])
        tree.impurity = self._impurity
        return tree

    def get_depth(self) -> int:
        """Return the number of splits from the root to the deepest leaf."""
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return self.tree_.n_leaves

    @property
    def feature_importances_(self) -> np.ndarray:
        """Impurity that the splits of each feature take off, summing to 1 (0 without splits)."""
        tree = self.tree_
        inner = tree.nodes["left"] >= 0
        importance = np.bincount(
            tree.nodes["feature"][inner],
            weights=impurity_decrease(tree)[inner],
            minlength=self.n_features_in_,
        )
        total = importance.sum()
        return importance / total if total > 0 else importance

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
            f"rows of a leaf: least {leaves['n_samples'].min()}, median "
            f"{np.median(leaves['n_samples']):g}, most {leaves['n_samples'].max()}",
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
        return "\n".join(lines + self._importance_lines())

    def _outputs(self) -> str:
        raise AttributeError("the regressor and the classifier bring this")

    def _importance_lines(self) -> list[str]:
        importance = self.feature_importances_
        if not importance.any():
            return ["no split"]
        names = getattr(self, "feature_names_in_", None)
        used = np.argsort(-importance, kind="stable")[: np.count_nonzero(importance)]
        lines = ["importance"]
        for j in used[:_MOST_LISTED]:
            lines.append(f"  {importance[j]:.4f}  {f'feature {j}' if names is None else names[j]}")
        if len(used) > _MOST_LISTED:
            lines.append(f"  and {len(used) - _MOST_LISTED} more")
        return lines
