"""A tree with the names that scikit-learn has for the arrays of its `tree_`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hybridtrees.core.tree.paths import decision_path
from hybridtrees.core.tree.pruning import impurity_decrease
from hybridtrees.core.tree.tree import Tree, TreeEnsemble

# What scikit-learn has in leaves.
_LEAF = -1
_UNDEFINED = -2


@dataclass(eq=False)
class ReadableTree(Tree):
    """A `Tree` that functions for scikit-learn's trees can read too.

    Parameters
    ----------
    n_features : int
        Number of features of the table.
    output_classes : tuple of int
        Number of classes of each output, 1 for numbers.
    """

    n_features: int = 0
    output_classes: tuple[int, ...] = (1,)

    @classmethod
    def of(cls, tree: Tree, n_features: int, output_classes: tuple[int, ...]) -> ReadableTree:
        """Return the same tree, with its arrays, under both kinds of names."""
        return cls(**vars(tree), n_features=n_features, output_classes=output_classes)

    # -- sizes ----------------------------------------------------------------------------------

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return self.n_nodes

    @property
    def max_depth(self) -> int:
        """Edges from the root to the deepest leaf."""
        return self.depth

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.output_classes)

    @property
    def n_classes(self) -> NDArray[np.intp]:
        """Number of classes of each output, 1 for numbers."""
        return np.array(self.output_classes)

    @property
    def max_n_classes(self) -> int:
        """Largest number of classes of an output."""
        return max(self.output_classes)

    # -- nodes ----------------------------------------------------------------------------------

    @property
    def children_left(self) -> NDArray[np.int64]:
        """Left child of each node, -1 in leaves."""
        return self.nodes["left"].astype(np.int64)

    @property
    def children_right(self) -> NDArray[np.int64]:
        """Right child of each node, -1 in leaves."""
        return np.where(self._is_leaf, _LEAF, self.nodes["right"])

    @property
    def feature(self) -> NDArray[np.int64]:
        """Feature that each node is split on, -2 in leaves."""
        return np.where(self._is_leaf, _UNDEFINED, self.nodes["feature"]).astype(np.int64)

    @property
    def threshold(self) -> NDArray[np.float64]:
        """Largest value that goes left at each node, -2 in leaves."""
        categorical = np.flatnonzero(~self._is_leaf & (self.nodes["category_start"] >= 0))
        if len(categorical):
            feature = self.nodes["feature"][categorical[0]]
            raise TypeError(
                f"node {categorical[0]} is split on categories of feature {feature}, which have no "
                "threshold: use export_text, export_dot or plot_tree of hybridtrees.inspection"
            )
        return np.where(self._is_leaf, float(_UNDEFINED), self.nodes["threshold"])

    @property
    def missing_go_to_left(self) -> NDArray[np.uint8]:
        """Whether missing values go left at each node."""
        return (~self._is_leaf & (self.nodes["missing_left"] == 1)).astype(np.uint8)

    @property
    def n_node_samples(self) -> NDArray[np.int64]:
        """Number of training rows of each node."""
        return np.array(self.nodes["n_samples"])

    @property
    def weighted_n_node_samples(self) -> NDArray[np.float64]:
        """Weight of the training rows of each node."""
        return np.array(self.nodes["weight"])

    @property
    def value(self) -> NDArray[np.float64]:
        """Numbers or class shares of each node, (n_nodes, n_outputs, max_n_classes)."""
        value = np.zeros((self.n_nodes, self.n_outputs, self.max_n_classes))
        first = 0
        for output, n_classes in enumerate(self.output_classes):
            value[:, output, :n_classes] = self.values[:, first : first + n_classes]
            first += n_classes
        return value

    @property
    def _is_leaf(self) -> NDArray[np.bool_]:
        return np.asarray(self.nodes["left"] < 0)

    # -- rows -----------------------------------------------------------------------------------

    def apply(self, X: Any) -> NDArray[np.int64]:
        """Return the leaf of each row of a table of numbers."""
        table = np.ascontiguousarray(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got the shape {table.shape}")
        ensemble = TreeEnsemble([self], self.n_features, self.values.shape[1])
        return ensemble.apply(table, 1)[:, 0].astype(np.int64)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the value of each row's leaf: see `value`, without the axis of one output."""
        value = self.value.take(self.apply(X), axis=0)
        return value[:, 0] if self.n_outputs == 1 else value

    def decision_path(self, X: Any) -> scipy.sparse.csr_matrix:
        """Mark the nodes on the path of each row, (n_rows, n_nodes)."""
        return decision_path(self, self.apply(X))

    def compute_feature_importances(self, normalize: bool = True) -> NDArray[np.float64]:
        """Return the decrease in impurity by the splits on each feature."""
        inner = ~self._is_leaf
        if self.impurity is None or np.isnan(self.impurity).any():
            decrease = np.maximum(self.nodes["gain"][inner], 0.0) / self.nodes["weight"][0]
        else:
            decrease = impurity_decrease(self)[inner]
        found = np.bincount(self.nodes["feature"][inner], decrease, self.n_features)
        total = float(found.sum()) if normalize else 0.0
        return np.asarray(found / total if total > 0 else found)

    def compute_partial_dependence(self, grid: Any, target_features: Any, out: Any) -> None:
        """Add to `out` the average prediction at each row of a grid of some features.

        Rows go to both children of a split on another feature, by the weight of the training rows.
        """
        column = {int(feature): k for k, feature in enumerate(target_features)}
        share = np.zeros((self.n_nodes, len(grid)))
        share[0] = 1.0
        split = zip(
            self.feature, self.threshold, self.children_left, self.children_right, strict=True
        )
        for node, (feature, threshold, left, right) in enumerate(split):
            if left == _LEAF:
                out += share[node] * self.values[node, 0]
                continue
            part = self.nodes["weight"][left] / self.nodes["weight"][node]
            if feature in column:
                part = np.asarray(grid)[:, column[feature]] <= threshold
            share[left] = share[node] * part
            share[right] = share[node] * (1.0 - part)
