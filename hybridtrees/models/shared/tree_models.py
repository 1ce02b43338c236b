"""Methods of tree models: the leaves of rows, and attributes of single trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hybridtrees._parameters import attribute
from hybridtrees.core.tree.paths import decision_path
from hybridtrees.core.tree.pruning import impurity_decrease
from hybridtrees.core.tree.tree import Tree
from hybridtrees.core.tree.walk import find_leaves
from hybridtrees.models.shared.importance import shares
from hybridtrees.models.shared.targets import SupervisedFit
from hybridtrees.models.shared.tree_parameters import GrowthParameters


class TreeModel(SupervisedFit, GrowthParameters):
    """A model of one or more trees, kept in `_trees`.

    Attributes
    ----------
    max_features_ : int
        Number of features drawn for each split.
    """

    n_outputs_: int = attribute()
    _trees: Any = attribute()

    def _outputs(self) -> str:
        """Return the number of outputs or classes as text."""
        raise NotImplementedError

    def _find_leaves(self, table: Any, n_threads: int) -> np.ndarray:
        return np.asarray(self._trees.apply(table, n_threads))

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf of each row, in every tree.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows,), or (n_rows, n_trees) in a forest
            Indices of nodes. With ``missing="stop"`` a row may end at an inner node.
        """
        table = self._read_table(X)
        return self._find_leaves(table, self._predict_threads(table.shape[0]))


class SingleTree(TreeModel):
    """A model of one tree, with the impurity of each node.

    Attributes
    ----------
    tree_ : Tree
        The fitted tree.
    feature_importances_ : ndarray of shape (n_features,)
        Decrease in impurity by the splits on each feature, normalised to a sum of 1.
    """

    _impurity: np.ndarray = attribute()

    def _find_leaves(self, table: Any, n_threads: int) -> np.ndarray:
        return find_leaves(self._trees, table, n_threads)

    def decision_path(self, X: Any) -> scipy.sparse.csr_matrix:
        """Return the nodes on the path of each row.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        indicator : csr_matrix of shape (n_rows, n_nodes)
            1 for every node on the path, the root and the leaf included.
        """
        return decision_path(self.tree_, self.apply(X))

    @property
    def tree_(self) -> Tree:
        """The fitted tree, its arrays shared with the estimator."""
        self._check_is_fitted()
        tree: Tree = self._trees[0]
        tree.impurity = self._impurity
        return tree

    def get_depth(self) -> int:
        """Return the depth of the tree, the number of splits down to the deepest leaf."""
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return self.tree_.n_leaves

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Decrease in impurity by the splits on each feature, normalised to a sum of 1.

        In a linear tree, that of the leaves' models relative to constants is added: the decrease
        in a leaf is shared out among its regressors in proportion to the absolute coefficient
        times the standard deviation in the leaf. All zeros if nothing decreases the impurity.
        """
        tree = self.tree_
        inner = tree.nodes["left"] >= 0
        gains = impurity_decrease(tree)[inner]
        feature = tree.nodes["feature"][inner]
        splits = np.bincount(feature, weights=gains, minlength=self.n_features_in_)
        return shares(splits + self._line_decrease())

    def _line_decrease(self) -> np.ndarray | float:
        """Return the decrease in impurity by the lines of the leaves, by feature."""
        return 0.0
