"""What models of trees share: the leaves of rows, and reading a single tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from hybridtrees.core.tree.paths import decision_path
from hybridtrees.core.tree.pruning import impurity_decrease
from hybridtrees.core.tree.tree import Tree
from hybridtrees.core.tree.walk import find_leaves
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.targets import SupervisedFit
from hybridtrees.models.shared.tree_parameters import GrowthParameters


class TreeModel(SupervisedFit, GrowthParameters):
    """A model of one or more trees, kept in `_trees`."""

    _trees: Any

    def _find_leaves(self, table: Any, n_threads: int) -> np.ndarray:
        return self._trees.apply(table, n_threads)

    def apply(self, X: Any) -> np.ndarray:
        """Leaf of each row, in every tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows,), in a forest (n_rows, n_trees)
            Numbers of nodes. With ``missing="stop"`` a row may end at an inner node.
        """
        table = self._read_table(X)
        return self._find_leaves(table, self._predict_threads(table.shape[0]))


class SingleTree(TreeModel):
    """A model of one tree, with the impurity of each node."""

    _impurity: np.ndarray

    def _find_leaves(self, table: Any, n_threads: int) -> np.ndarray:
        return find_leaves(self._trees, table, n_threads)

    def decision_path(self, X: Any) -> scipy.sparse.csr_matrix:
        """Nodes that each row passes.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the way, the root and the leaf included.
        """
        return decision_path(self.tree_, self.apply(X))

    @property
    def tree_(self) -> Tree:
        """The fitted tree, its arrays shared with the estimator."""
        self._check_is_fitted()
        tree = self._trees[0]
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
        """Impurity that the splits of each feature take off, summing to 1 (0 without splits).

        What regressions in the leaves make of a feature is not part of it.
        """
        tree = self.tree_
        inner = tree.nodes["left"] >= 0
        gains = impurity_decrease(tree)[inner]
        feature = tree.nodes["feature"][inner]
        return shares(np.bincount(feature, weights=gains, minlength=self.n_features_in_))
