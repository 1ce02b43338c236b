"""The trees of a forest or of gradient boosting, each as a model of one tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from hybridtrees._sklearn_trees import TreeOfScikitLearn
from hybridtrees.core.grow.cart import class_impurity
from hybridtrees.core.tree.readable import ReadableTree

# Parameters of a tree, as scikit-learn has them; a view shows those that its model has.
_PARAMETERS = (
    "criterion", "splitter", "max_depth", "min_samples_split", "min_samples_leaf",
    "min_weight_fraction_leaf", "max_features", "max_leaf_nodes", "min_impurity_decrease",
    "ccp_alpha", "monotonic_cst",
)  # fmt: skip


@dataclass(eq=False)
class TreeView(TreeOfScikitLearn):
    """One tree of a model. The tree is made when it is asked for, and kept by the view.

    Parameters
    ----------
    model : estimator
        The fitted model.
    index : int or None
        Number of the tree; None for the parameters alone.
    seed : int or None
        Seed of the sample that the tree was grown on.
    """

    model: Any
    index: int | None = None
    seed: int | None = None

    _estimator_type = "regressor"
    _counterpart = "DecisionTreeRegressor"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters that the tree was grown with."""
        params = self.model.get_params(deep=False)
        found = {name: params[name] for name in _PARAMETERS if name in params}
        return {**found, "random_state": self.seed}

    def __getattr__(self, name: str) -> Any:
        # Only names that are not found otherwise: parameters, and features of the model.
        if name in _PARAMETERS or name in ("n_features_in_", "feature_names_in_"):
            return getattr(self.model, name)
        why = ": it has the parameters of a tree alone" if self.index is None else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{why}")

    @property
    def random_state(self) -> int | None:
        """Seed of the sample that the tree was grown on."""
        return self.seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Refuse to be fitted: the tree belongs to its model."""
        raise TypeError(
            f"this is a tree of {type(self.model).__name__}, which cannot be fitted alone: use "
            "CARTRegressor or CARTClassifier"
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a tree."""
        return self.index is not None

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the model, as those of one tree."""
        tags = self.model.__sklearn_tags__()
        tags.estimator_type = self._estimator_type
        return tags

    @property
    def n_outputs_(self) -> int:
        """Number of outputs of the tree."""
        return self.tree_.n_outputs

    def _output_classes(self, n_values: int) -> tuple[int, ...]:
        return (1,) * n_values

    @cached_property
    def tree_(self) -> ReadableTree:
        """The tree, with our names and those of scikit-learn."""
        if self.index is None:
            raise AttributeError  # `__getattr__` says why
        tree = self.model.trees_[self.index]
        if tree.impurity is None:
            tree.impurity = self._impurity(tree.values)
        classes = self._output_classes(tree.values.shape[1])
        return ReadableTree.of(tree, self.model.n_features_in_, classes)

    def _impurity(self, values: np.ndarray) -> NDArray[np.float64]:
        """Return the impurities of the nodes; those of numbers are not kept."""
        return np.full(len(values), np.nan)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Decrease in impurity by the splits on each feature, normalised to a sum of 1."""
        return self.tree_.compute_feature_importances()

    def get_depth(self) -> int:
        """Return the number of splits down to the deepest leaf."""
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        return self.tree_.n_leaves

    def _table(self, X: Any) -> Any:
        table = self.model._read_features(X)
        return table if isinstance(table, np.ndarray) else table.toarray()

    def apply(self, X: Any) -> NDArray[np.int64]:
        """Return the leaf of each row."""
        return self.tree_.apply(self._table(X))

    def decision_path(self, X: Any) -> scipy.sparse.csr_matrix:
        """Mark the nodes on the path of each row."""
        return self.tree_.decision_path(self._table(X))

    def _values(self, X: Any) -> np.ndarray:
        return self.tree_.values[self.apply(X)]

    def predict(self, X: Any) -> np.ndarray:
        """Predict by this tree alone, in boosting what it adds to the scores."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values


class ClassTreeView(TreeView):
    """One tree of a forest for classification; as in scikit-learn, it predicts codes of classes."""

    _estimator_type = "classifier"
    _counterpart = "DecisionTreeClassifier"

    @property
    def n_classes_(self) -> int:
        """Number of classes."""
        return int(self.model.n_classes_)

    @property
    def classes_(self) -> NDArray[np.float64]:
        """Codes of the classes: places in `classes_` of the forest."""
        return np.arange(self.n_classes_, dtype=np.float64)

    def _output_classes(self, n_values: int) -> tuple[int, ...]:
        return (n_values,)

    @property
    def n_outputs_(self) -> int:
        """Number of outputs."""
        return 1

    def _impurity(self, values: np.ndarray) -> NDArray[np.float64]:
        return class_impurity(values, self.model.criterion)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probabilities of the classes by this tree alone."""
        return self._values(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predict codes of classes by this tree alone, as floats."""
        return np.asarray(self.classes_[self._values(X).argmax(axis=1)])


class SequenceOfTrees:
    """Length, items and iteration of a model with `estimators_`."""

    estimators_: Any

    def __len__(self) -> int:
        return len(self.estimators_)

    def __bool__(self) -> bool:
        # An estimator is something even before it has trees.
        return True

    def __getitem__(self, index: Any) -> Any:
        return self.estimators_[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)
